#!/bin/bash
# Files of tensors and traces: the output of inspect and of convert.
. "$(dirname "$0")/lib.sh"
gpt=$source_dir/examples/gpt-tiny.onnx mlp=$source_dir/examples/mlp.apc
small="-D d=16 -D hidden=32 -D layers=2 -q"

# the weights of a model in a file of their own are the same weights
expect 0 "" "$apc" convert "$gpt" w.safetensors -q; no_out
expect 0 "" "$apc" convert "$gpt" w.npz -q
expect 0 "equal    logits" "$apc" run "$gpt" -q --weights w.safetensors --inputs "$source_dir/examples/gpt-tiny.inputs.npz" \
  --expect "$source_dir/examples/gpt-tiny.outputs.npz"
# ... for a compiled program, too, although it keeps heads and halves of them; other weights change the result
expect 0 "" "$apc" "$gpt" -q --target cpux2 --tp 2 -o gpt
expect 0 "" ./gpt --inputs "$source_dir/examples/gpt-tiny.inputs.npz" --outputs own.npz
expect 0 "" ./gpt --inputs "$source_dir/examples/gpt-tiny.inputs.npz" --outputs given.npz --weights w.safetensors
check "the same weights from a file give other results" cmp -s own.npz given.npz
/usr/bin/python3 -c 'import numpy
w = dict(numpy.load("w.npz")); [numpy.copyto(v, v * 0.5) for v in w.values() if v.dtype == "f4"]; numpy.savez("half.npz", **w)'
expect 0 "" "$apc" convert half.npz half.safetensors
expect 0 "" ./gpt --inputs "$source_dir/examples/gpt-tiny.inputs.npz" --outputs half.npz --weights half.safetensors
check "the weights that are given are not used" bash -c '! cmp -s own.npz half.npz'
expect 0 "equal    logits" "$apc" run "$gpt" -q --weights half.safetensors --inputs "$source_dir/examples/gpt-tiny.inputs.npz" --expect half.npz
expect 0 "" "$apc" convert w.npz again.safetensors
check "two ways to the same weights differ" cmp -s w.safetensors again.safetensors
expect 0 "" "$apc" convert "$mlp" $small made.safetensors # weights that are in no file
expect 0 "" "$apc" run "$mlp" $small --outputs y.npz
expect 0 "equal" "$apc" run "$mlp" $small --weights made.safetensors --expect y.npz
expect 0 "" "$apc" convert "$mlp" $small m.ir
expect 0 "equal" "$apc" run m.ir -q --expect y.npz
expect 5 "error[APC0649]" "$apc" convert m.ir m.txt

# a relative path of weights is relative to the text, wherever apc runs
mkdir -p deep/er other; cp "$gpt" deep/g.onnx
(cd deep && "$apc" convert g.onnx g.ir -q)
expect 0 "equal    logits" "$apc" run deep/g.ir -q --inputs "$source_dir/examples/gpt-tiny.inputs.npz" --expect "$source_dir/examples/gpt-tiny.outputs.npz"
expect 0 "" "$apc" convert deep//g.onnx deep/h.ir -q; expect 0 "" grep '^blob "g.onnx"' deep/h.ir
expect 0 "" "$apc" convert deep/h.ir k.ir -q; expect 0 "" grep '^blob "deep/g.onnx"' k.ir
expect 0 "" "$apc" convert deep/h.ir other/k.ir -q; expect 0 "" grep "^blob \"$work/deep/g.onnx\"" other/k.ir
expect 0 "" "$apc" k.ir -q --emit=ir=deep/er/k.ir; expect 0 "" "$apc" plan deep/er/k.ir -q
mv deep moved; expect 0 "" "$apc" convert moved/g.ir w2.safetensors -q
check "the weights moved along with the text differ" cmp -s w.safetensors w2.safetensors
expect 1 "error[APC0001]" "$apc" convert nowhere.onnx w.npz
expect 1 "error[APC0002]" "$apc" convert "$mlp" $small nowhere/w.npz

# --expect: results of run, verify and bench must equal those in the file; the file is opened before the run
tiny_model >tiny.ir
sed '/output "y"/{p;s/"y"/"again"/;}' tiny.ir >two.ir # one more output, which z.npz does not have
/usr/bin/python3 - <<'PY'
import numpy as np
x = np.ones((3, 4), np.float32)
np.savez('x.npz', x=x); np.savez('z.npz', y=-x); np.savez('wrong.npz', y=1 - x); np.savez('empty.npz'); np.savez('of_another.npz', z=-x)
PY
for command in run verify bench; do
  expect 0 "equal    y                        against z.npz" "$apc" $command two.ir -q --inputs x.npz --expect z.npz
  expect_err "output 'again' is not in the file"
  expect 4 "" "$apc" $command tiny.ir -q --inputs x.npz --expect wrong.npz --json; no_err
  expect_json 'd["ok"] is False and [x["name"] for x in d["expected"]] == ["y"]'
  expect 1 "error[APC0011]: --expect: the file has no tensors" "$apc" $command tiny.ir --expect empty.npz; no_out
  expect 1 "error[APC0001]" "$apc" $command tiny.ir --expect nowhere.npz; no_out; check "it ran" bash -c '! grep -q Planning err'
done
expect 4 "the model has no such output" "$apc" verify tiny.ir -q --inputs x.npz --expect of_another.npz
expect 0 "against wrong.npz: relative L2" "$apc" verify tiny.ir -q --inputs x.npz --expect wrong.npz --atol 1.1 --target cpux2
expect 2 "128 ranks exceed the 64" "$apc" verify tiny.ir -q --expect z.npz --target dgx-a100x128
# neighbours beyond 2^53 are not equal, nor are numbers whose squares underflow
cat >large.ir <<'IR'
apc.ir 1
func @main level 1 {
  %x = input {name="x"} : i64[2]
  %s = input {name="s"} : f64[2]
  %y = neg %x : i64[2]
  %t = neg %s : f64[2]
  output "y" %y
  output "t" %t
}
IR
/usr/bin/python3 -c 'import numpy as np
x, s = np.array([2**60, -5]), np.array([1e-200, 3e-200])
np.savez("large.npz", x=x, s=s); np.savez("same.npz", y=-x, t=-s); np.savez("next.npz", y=-x - [1, 0], t=-s); np.savez("tiny.npz", y=-x, t=-2 * s)'
expect 0 "" "$apc" run large.ir -q --inputs large.npz --expect same.npz
expect 4 "DIFFERS  y" "$apc" run large.ir -q --inputs large.npz --expect next.npz --atol 0
expect 4 "DIFFERS  t" "$apc" run large.ir -q --inputs large.npz --expect tiny.npz


# inspect
expect 0 "input   tokens                   i64[batch, seq]" bash -c "'$apc' '$gpt' -q -o gpt && '$apc' inspect gpt"
expect 0 "" "$apc" plan "$mlp" $small --target cpux2 --tp 2 --emit=spmd=s.spmd; expect 0 "" "$apc" plan "$mlp" $small --target cpux2 --tp 2 --emit=spmd=s.ir
expect 1 "as a model, program or tensor file" "$apc" inspect s.spmd; check "it is no program that was stripped" bash -c "! grep stripped err"
expect 1 "a model is level 1" "$apc" inspect s.ir; no_out
/usr/bin/python3 - "$gpt" <<'PY'
import sys
d = open(sys.argv[1], 'rb').read()
open('nobody.onnx', 'wb').write(d.replace(b'\x12\x07pytorch\x1a\x061.13.0', b'', 1)) # producer, version
PY
expect 0 "nodes" "$apc" inspect nobody.onnx; check "it has no producer" bash -c "! grep ', by' out"
expect 0 "21 tensors, 661.0 KiB" "$apc" inspect w.safetensors; expect_out "token.weight"
expect 0 "" "$apc" inspect w.safetensors --json
expect_json 'd["kind"] == "tensors" and len(d["tensors"]) == 21 and d["bytes"] == sum(x["bytes"] for x in d["tensors"]) == 676864'
expect_json '{"name": "token.weight", "dtype": "f32", "shape": [512, 64], "bytes": 131072} in d["tensors"]'
expect 0 "" "$apc" inspect w.npz --json
expect_json 'len(d["tensors"]) == 21 and d["bytes"] == 676864'
/usr/bin/python3 -c 'import numpy; numpy.save("x.npy", numpy.zeros((2, 3), numpy.float64))'
expect 0 "f64[2,3]" "$apc" inspect x.npy
row() { printf "  %-12s %10s %10s %10s %7s %8d  %s" "$1" "$2" - - - "$3" "$4"; } # row TITLE TIME TIMES NAME: without a prediction
cat >t.json <<'JSON'
{"traceEvents": [{"ph": "X", "name": "gemm", "ts": 10, "dur": 5, "pid": 0}, {"ph": "X", "name": "sum", "ts": 15, "dur": 1.5, "pid": 1},
                 {"ph": "X", "name": "gemm", "ts": 20, "dur": 5, "pid": 0}, {"ph": "M", "name": "process_name"}]}
JSON
expect 0 "4 events, 15.0 us" "$apc" inspect t.json; expect_out "$(row longest "10.00 us" 2 gemm)"
expect 0 "" "$apc" inspect t.json --json
expect_json 'd["kind"] == "trace" and d["time_us"] == 15 and d["names"][0] == {"name": "gemm", "events": 2, "time_us": 10}'
# a run is busy while its calls are; rows of a process that are busy at the same time count once
cat >nested.json <<'JSON'
[{"ph": "X", "name": "call", "ts": 2, "dur": 3, "pid": 0, "tid": 0}, {"ph": "X", "name": "call", "ts": 6, "dur": 2, "pid": 0, "tid": 0},
 {"ph": "X", "name": "run", "ts": 0, "dur": 10, "pid": 0, "tid": 0}, {"ph": "X", "name": "run", "ts": 12, "dur": 4, "pid": 0, "tid": 0},
 {"ph": "X", "name": "other", "ts": 4, "dur": 1.5, "pid": 0, "tid": 1}, {"ph": "X", "name": "run", "ts": 0, "dur": 7, "pid": 1}]
JSON
expect 0 "process      0: busy 9.50 us" "$apc" inspect nested.json; expect_out "process      1: busy 7.00 us"
expect_out "$(row longest "21.0 us" 3 run)"
for text in '{' '[1]' '{"a": 1}' '[{"name": "x"}]' '[{"ph": "X", "name": "x", "ts": 1}]'; do
  echo "$text" >bad.json
  expect 1 "error[APC0014]" "$apc" inspect bad.json; no_out; expect_err "bad.json"
done
for numbers in '"ts": 1e308, "dur": 1' '"ts": 1, "dur": 1e308' '"ts": -1, "dur": 1' '"ts": 1, "dur": -2' '"ts": 1, "dur": 1, "args": {"waiting_us": -1}'; do
  echo '[{"ph": "X", "name": "x", "ts": 0, "dur": 1e15}, {"ph": "X", "name": "x", '"$numbers"'}]' >bad.json
  expect 1 "it must be 0 to 1e+15" "$apc" inspect bad.json; no_out; expect_err "event 1: "
done
expect 1 "error[APC0001]" "$apc" inspect nowhere
echo hello >hello; expect 1 "error[APC0603]" "$apc" inspect hello; no_out

# run, verify and bench write the forms of --emit as compile does, in addition to their own work
expect 0 "" "$apc" tiny.ir -q --target cpux2 --emit=exe,plan,schedule,ir=tiny1.ir,c,spmd
mkdir compiled; mv tiny tiny.plan tiny.schedule tiny1.ir tiny.c tiny.spmd.ir compiled
for command in run verify bench; do
  expect 0 "" "$apc" $command tiny.ir -q --target cpux2 --inputs x.npz --expect z.npz --emit=plan,schedule,spmd=- --emit=ir=tiny1.ir,c
  expect_err "equal    y" # its report makes room
  check "$command: another text" cmp -s out compiled/tiny.spmd.ir
  for file in tiny.plan tiny.schedule tiny1.ir tiny.c; do check "$command: another $file" cmp -s $file compiled/$file; rm -f $file; done
  expect 2 "only one document" "$apc" $command tiny.ir --emit=plan=- --json; expect_json 'd["schema"] == "apc.error/1" and d["exit_code"] == 2'
  expect 2 "has no GPU" "$apc" $command tiny.ir -S; no_out
done
expect 0 "" "$apc" run tiny.ir -q --target cpux2 --emit=exe; no_err; check "another program" cmp -s tiny compiled/tiny
expect 2 "has no GPU" "$apc" plan tiny.ir -S; no_out
for command in plan verify; do
  expect 0 "" "$apc" $command tiny.ir -q --target dgx-a100x4 -S; check "$command -S" test -s tiny.cu -a -s tiny.schedule; rm -f tiny.cu tiny.schedule
done

# names that are not UTF-8, of files and in a model, are shown in JSON with U+FFFD for those bytes
odd=$'odd\xff'
LC_ALL=C sed 's/"x"/"x\xff"/; s/"y"/"y\xfe"/' tiny.ir >"$odd.ir"
sed -n '/^cpu/,$p' "$source_dir/targets/cpu.topo" >"$odd.topo"
odd_json() { # odd_json TEXT OPTIONS...: the output has TEXT, with U+FFFD
  local text=$1
  shift
  expect 0 "" "$@" --json -q; expect_json 'len(d["schema"]) > 6'; expect_out "$text"
}
replaced=$'\xef\xbf\xbd'
odd_json "\"odd$replaced.ir\"" "$apc" plan "$odd.ir" --target "$odd.topo" --save-plan "$odd.plan"; expect_out "\"odd$replaced.topo\""
odd_json "\"odd$replaced.plan\"" "$apc" inspect "$odd.plan"
odd_json "\"x$replaced\"" "$apc" inspect "$odd.ir"; expect_out "\"odd$replaced.ir\""
odd_json "\"odd$replaced.topo\"" "$apc" targets check "$odd.topo"
odd_json "\"y$replaced\"" "$apc" run "$odd.ir"
odd_json "\"odd$replaced.topo\"" "$apc" verify "$odd.ir" --target "$odd.topo"; expect_out "\"y$replaced\""
odd_json "\"odd$replaced.ir\"" "$apc" bench "$odd.ir" --target "$odd.topo" --runs 2; expect_out "\"odd$replaced.topo\""
expect 0 "" "$apc" "$odd.ir" -q -o "$odd"
odd_json "\"odd$replaced\"" "$apc" inspect "$odd"; expect_out "\"y$replaced\""
expect 0 "" "./$odd" --describe=json; expect_json 'd["name"] == "odd\ufffd" and d["entries"][0]["inputs"][0]["name"] == "x\ufffd"'
for file in x.npz x.npy w.safetensors t.json; do cp $file "$odd.${file##*.}"; odd_json "\"odd$replaced.${file##*.}\"" "$apc" inspect "$odd.${file##*.}"; done

# weights computed from weights: no entry of their own, not counted, not written
cat >prepared.ir <<'IR'
apc.ir 1
symbol b
param "w" : f32[8] = constant 3
param "w2" : f32[8] = prepared
func @prepare level 1 {
  %w = param {name="w"} : f32[8]
  %y = mul %w, %w : f32[8]
  output "w2" %y
}
func @main level 1 {
  %x = input {name="x"} : f32[b, 8]
  %w2 = param {name="w2"} : f32[8]
  %ws = broadcast %w2 {dims=[1]} : f32[b, 8]
  %y = mul %x, %ws : f32[b, 8]
  output "y" %y
}
IR
expect 0 "" "$apc" inspect prepared.ir --json; expect_json 'd["params"] == 8 and d["weight_bytes"] == 32 and [e["name"] for e in d["entries"]] == ["main"]'
expect 0 "" "$apc" prepared.ir -q -o prepared; expect 0 "8 weights" ./prepared --describe; expect 0 "1 weights" "$apc" inspect prepared
expect 0 "" "$apc" convert prepared.ir prepared.npz; expect 0 "" "$apc" convert prepared.ir prepared.safetensors
check "only the model's weights are written" /usr/bin/python3 -c 'import numpy; assert numpy.load("prepared.npz").files == ["w"]'
expect 0 "proved" "$apc" verify prepared.ir --target cpux3 --weights prepared.safetensors

# a file that would exceed the size limit is refused as on a full disk, and the old file stays
limited() { # limited BLOCKS CODE TEXT COMMAND...
  local blocks=$1 code=$2 text=$3
  shift 3
  expect "$code" "$text" bash -c 'ulimit -f $1; shift; exec "$@"' limited "$blocks" "$@"
}
echo old >kept
limited 4 1 "cannot write the file: File too large" "$apc" convert w.safetensors kept.npz -q
limited 16 1 "cannot write the file: File too large" "$apc" plan "$gpt" -q --target cpux2 --emit=ir=kept
limited 1000 1 "cannot write the file: File too large" "$apc" "$gpt" -q --target cpux2 -o kept
limited 4 1 "standard output cannot be written" bash -c "'${apc%/*}/apc-opt' prepared.ir >>w.npz"
truncate -s 2M long
limited 1000 1 "standard output cannot be written" bash -c './prepared --input x=random --dim b=2 >>long'
check "the old file is gone" grep -qx old kept

summary 209
