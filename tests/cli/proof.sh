#!/bin/bash
# The statements of `apc verify` about a proof: the numbers that it holds for; no proof "for all inputs" next to outputs
# that differ; and the reference that it compares with.
. "$(dirname "$0")/lib.sh"

cat >scaled.ir <<'END'
apc.ir 1
func @main level 1 {
  %x = input {name="x"} : f32[4, 8]
  %f = input {name="f"} : f32[8]
  %s = reduce %x {axes=[0], op=sum} : f32[8]
  %y = mul %s, %f : f32[8]
  output "y" %y
}
END
plan() { # plan STRATEGY-OF-Y: the sum over rows is cut
  printf 'apc.plan 1\ngraph @main 0000000000000000\ntarget cpux2 ranks 2\nmesh [tp=2] stages 1\nop "x" {x0:tp}\nop "s" {r0:tp}\nop "y" %s\n' "$1" >y.plan
}
verify() { # verify CODE TEXT OPTIONS...
  local code=$1 text=$2
  shift 2
  expect "$code" "$text" "$apc" verify scaled.ir --target cpux2 --plan y.plan "$@"
}
/usr/bin/python3 - <<'END'
import numpy as np
x, f = np.ones((4, 8), np.float32), np.ones(8, np.float32)
x[:2, 0], f[0] = 0, np.inf  # the first rank's part is 0
np.savez("infinite.npz", x=x, f=f)
np.savez("zeros.npz", z=np.zeros((100, 4), np.float32))
END

# Parts of the sum are multiplied, then added: right over the real numbers.
plan '{L0:tp}'
verify 0 'proved over the reals: infinities and NaN at "y"; the parallel program computes the model, for all sizes' -q
verify 0 "" --json
expect_json 'd["ok"] and d["proof"] == "proved-reals" and d["proof_numbers"] == "real" and d["proof_reason"] == "infinities and NaN at \"y\""'
verify 4 "DIFFERS" -q --inputs infinite.npz
expect_out "NOT OK"
expect_out "; the parallel program computes the model, for all sizes, over the real numbers; the differences above"
check "a proof for all inputs beside outputs that differ" bash -c '! grep -q "for all inputs" out'
verify 4 "" --json --inputs infinite.npz
expect_json 'not d["ok"] and d["proof"] == "proved-reals" and d["proof_numbers"] == "real"'

# The sum is made whole first: right for every input.
plan '{}'
verify 0 "proved   the parallel program computes the model, for all inputs and sizes" -q --inputs infinite.npz
expect_out "equal    y"
verify 0 "" --json
expect_json 'd["ok"] and d["proof"] == "proved" and d["proof_numbers"] == "all" and d["proof_reason"] is None'

# Models that the prover cannot decide are not ok, whatever the numbers: the rows of x that a slice needs depend on a
# minimum of two sizes.
cat >least.ir <<'END'
apc.ir 1
symbol n min 7 max 4000
symbol k min 7 max 4000
func @main level 1 {
  %x = input {name="x"} : f32[n * k, 4]
  %y = slice %x {starts=[min(n, k), 0], strides=[1, 1]} : f32[n * k - min(n, k), 4]
  %w = slice %x {starts=[0, 0], strides=[1, 1]} : f32[n * k - min(n, k), 4]
  %z = add %y, %w : f32[n * k - min(n, k), 4]
  output "z" %z
}
END
printf 'apc.plan 1\ngraph @main 0000000000000000\ntarget cpux3 ranks 3\nmesh [tp=3] stages 1\nop "x" {x0:tp}\nop "y" {x0:tp}\nop "z" {x0:tp}\n' >least.plan
expect 3 "NOT PROVED, but nothing that ran differs" "$apc" verify least.ir --target cpux3 --plan least.plan -q
expect_out "equal    z"; expect_out "unknown: "
expect 3 "" "$apc" verify least.ir --target cpux3 --plan least.plan --json
expect_json 'not d["ok"] and d["proof"] == "unknown" and d["proof_reason"] and all(o["ok"] for o in d["outputs"])'
expect 4 "NOT OK" "$apc" verify least.ir --target cpux3 --plan least.plan -q --expect zeros.npz
sed 's/cpux3 ranks 3/dgx-a100x80 ranks 80/; s/tp=3/tp=80/' least.plan >far.plan
expect 3 "NOT PROVED" "$apc" verify least.ir --target dgx-a100x80 --plan far.plan -q
expect_out "only the prover ran"

# States are compared as well: a sum that is cut, written and in no output.
cat >state.ir <<'END'
apc.ir 1
state "s" : f32[4] = 0
func @main level 1 {
  %x = input {name="x"} : f32[4, 64]
  %r = reduce %x {axes=[1], op=sum} : f32[4]
  write "s" %r {name="s"}
  %y = neg %x : f32[4, 64]
  output "y" %y
}
END
printf 'apc.plan 1\ngraph @main 0000000000000000\ntarget cpux2 ranks 2\nmesh [tp=2] stages 1\nop "x" {x1:tp}\nop "r" {r1:tp}\n' >state.plan
expect 0 "equal    state s" "$apc" verify state.ir --target cpux2 --plan state.plan -q
expect_out "equal    y"; expect_out "; reference: "
expect 4 "DIFFERS  state s" "$apc" verify state.ir --target cpux2 --plan state.plan -q --rtol 0
expect_out "equal    y"
expect 4 "" "$apc" verify state.ir --target cpux2 --plan state.plan --rtol 0 --json
expect_json '[o["name"] for o in d["outputs"]] == ["y"] and d["outputs"][0]["ok"] and [(o["name"], o["ok"]) for o in d["states"]] == [("s", False)] and not d["ok"]'

# --emit=spmd writes a file that can be proved unchanged: one entry, prepared weights, two entries with states, stages
# and micro-batches.
emitted() { # emitted PAIRS MODEL OPTIONS...
  local pairs=$1
  shift
  expect 0 "" "$apc" plan "$@" --emit=spmd=emitted.ir
  expect 0 "proved" "${apc%/*}/apc-opt" "--prove=$pairs" emitted.ir
  sed -i '0,/op=sum, mesh_ax/s/op=sum, mesh_ax/op=max, mesh_ax/' emitted.ir # the first sum over ranks, as another reduction
  expect 4 "refuted" "${apc%/*}/apc-opt" "--prove=$pairs" emitted.ir
}
emitted main,main.spmd "$source_dir/examples/gpt-tiny.onnx" --target cpux4 --tp 2 --dp 2 --dim-hint batch=4 --dim-hint seq=32
emitted main,main.spmd,prepare,prepare.spmd "$source_dir/examples/resnet.apc" -D depth=18 -D width=8 -D classes=5 -D image=32 --target cpux8 --tp 4 --pp 2 --micro-batches 2 --dim-hint batch=4
# A training step of 396 states: weights and two moments each.
emitted main,main.spmd "$source_dir/examples/gpt.apc" -D layers=8 -D d=16 -D heads=2 -D vocab=64 -D ctx=16 --dim seq=16 --batch 4 --target cpux2 --tp 2 \
  --train cross_entropy --optimizer 'adamw(lr=1e-3)'
emitted prefill,prefill.spmd,decode,decode.spmd "$source_dir/examples/llama.apc" -D cache=1 -D layers=1 -D d=32 -D heads=2 -D ffn=64 -D vocab=64 -D ctx=32 --target cpux2 --tp 2 --dim batch=2 --dim seq=8
emitted prefill,prefill.spmd,decode,decode.spmd "$source_dir/examples/llama.apc" -D cache=1 -D layers=2 -D d=32 -D heads=2 -D ffn=64 -D vocab=64 -D ctx=32 --target cpux4 --tp 2 --pp 2 \
  --micro-batches 2 --optimize prefill=1,decode=100 --dim batch=2 --dim seq=8

# --emit=legal writes the operations of the target's devices: it reads back unchanged, except for the remarks about
# libraries, and is proved like level 2.
legal() { # legal PAIRS REMARK MODEL OPTIONS...
  local pairs=$1 remark=$2
  shift 2
  expect 0 "" "$apc" plan "$@" --emit=legal=legal.ir
  check "no remark '$remark'" grep -qE "^# .* is a $remark" legal.ir
  expect 0 "" "${apc%/*}/apc-opt" legal.ir
  grep -v '^# .* of the library' legal.ir >same.ir
  check "legalised text changes" cmp -s out same.ir
  expect 0 "proved" "${apc%/*}/apc-opt" "--prove=$pairs" legal.ir
  sed -i '/^func @.*legal/,$s/op=sum, mesh_ax/op=max, mesh_ax/' legal.ir # sums over ranks, as another reduction
  expect 4 "refuted" "${apc%/*}/apc-opt" "--prove=$pairs" legal.ir
}
legal main,main.legal 'product of the library: f32, m .* n 64 k 128$' "$source_dir/examples/gpt-tiny.onnx" --target cpux4 --tp 2 --dp 2 --dim-hint batch=4 --dim-hint seq=32
legal main,main.legal 'product of the library' "$source_dir/examples/gpt-tiny.onnx" --target dgx-a100x4 --tp 4 --dim-hint batch=4 --dim-hint seq=32
# Sums that the update of a training step computes together on GPUs are separate in the text.
expect 0 "" "$apc" plan "$source_dir/examples/mlp.apc" -D layers=2 -D d=64 -D hidden=128 --dim batch=8 --train cross_entropy --target dgx-a100x4 --dp 2 --tp 2 --emit=legal=step.ir
expect 0 "" "${apc%/*}/apc-opt" step.ir
expect 0 "" "$apc" plan "$source_dir/examples/gpt-tiny.onnx" --target dgx-a100x4 --cp 4 --dim-hint batch=4 --dim-hint seq=32 --emit=legal=legal.ir
check "no collective of a GPU is brought to the front" grep -q 'all_gather.transpose"\? {axis=0' legal.ir
legal main,main.legal,prepare,prepare.legal 'convolution of the library, joined by bias residual relu$' "$source_dir/examples/resnet.apc" -D depth=18 -D width=8 -D classes=5 -D image=32 --target cpux8 --tp 4 --pp 2 --micro-batches 2 --dim-hint batch=4
legal prefill,prefill.legal,decode,decode.legal 'product of the library' "$source_dir/examples/llama.apc" -D cache=1 -D layers=1 -D d=32 -D heads=2 -D ffn=64 -D vocab=64 -D ctx=32 --target cpux2 --tp 2 --dim batch=2 --dim seq=8
expect 0 "" "$apc" plan "$source_dir/tests/doubles/long_rows.apc" --dtype bf16 --target dgx-h100x2 --tp 2 --emit=legal=legal.ir
check "no rows are lengthened" grep -qE '= pad .* : bf16\[[0-9]+, 304\]' legal.ir
expect 0 "proved" "${apc%/*}/apc-opt" --prove=main,main.legal legal.ir
cat >narrow.ir <<'END'
apc.ir 1
func @main level 1 {
  %x = input {name="x"} : bf16[4, 8]
  %w = input {name="w"} : bf16[8, 6]
  %y = dot %x, %w {spec="mk,kn->mn"} : bf16[4, 6]
  output "y" %y
}
END
expect 0 "" "$apc" plan narrow.ir -q --target cpu --emit=legal=cpu.ir
check "a CPU multiplies bf16" test "$(grep -c '= cast' cpu.ir)" = 3
check "a CPU multiplies bf16" grep -q '^# y is a product of the library: f32, m 4 n 6 k 8$' cpu.ir
expect 0 "" "$apc" plan narrow.ir -q --target dgx-a100x1 --emit=legal=gpu.ir
check "a GPU casts bf16" test "$(grep -c '= cast' gpu.ir)" = 0
check "a GPU casts bf16" grep -q '^# y is a product of the library: bf16, m 4 n 6 k 8$' gpu.ir

# The reference is the model as imported: only it uses scores below the mask's value, where a pass takes the mask for
# -inf.
cat >hidden.ir <<'END'
apc.ir 1
func @main level 1 {
  %q = input {name="q"} : f32[1, 2, 4, 4]
  %k = input {name="k"} : f32[1, 2, 4, 4]
  %v = input {name="v"} : f32[1, 2, 4, 5]
  %kt = transpose %k {perm=[0, 1, 3, 2]} : f32[1, 2, 4, 4]
  %half = const {value=0.5} : f32[1, 2, 4, 4]
  %scores = dot %q, %kt {spec="abmk,abkn->abmn"} : f32[1, 2, 4, 4]
  %d = mul %scores, %half : f32[1, 2, 4, 4]
  %row = iota {axis=0, start=0} : i64[4, 4]
  %column = iota {axis=1, start=0} : i64[4, 4]
  %after = gt %column, %row : bool[4, 4]
  %mask = broadcast %after {dims=[2, 3]} : bool[1, 2, 4, 4]
  %hidden = const {value=-1e+38} : f32[1, 2, 4, 4]
  %m = select %mask, %hidden, %d : f32[1, 2, 4, 4]
  %p = softmax %m {axis=3} : f32[1, 2, 4, 4]
  %y = dot %p, %v {spec="abmk,abkn->abmn"} : f32[1, 2, 4, 5]
  output "y" %y
}
END
/usr/bin/python3 -c '
import numpy as np
v = np.arange(40, dtype=np.float32).reshape(1, 2, 4, 5)
np.savez("low.npz", q=np.full((1, 2, 4, 4), 1e19, np.float32), k=np.full((1, 2, 4, 4), -0.75e19, np.float32), v=v)'
expect 4 "reference: 0.34, above the tolerance" "$apc" verify hidden.ir --target cpux2 -q --inputs low.npz
expect_out "proved   pass recognise: over the real numbers"
expect 0 "equal    y" "$apc" verify hidden.ir --target cpux2 -q
summary 32
