#!/bin/bash
# --emit=onnx: ONNX's checker accepts the file, its annotations are those of the plan, and reading it gives the same
# plan and the same numbers.  tests/cli/annotations.py reads the annotations without apc.
. "$(dirname "$0")/lib.sh"
examples=$source_dir/examples
checked=true
/usr/bin/python3 -c 'import onnx' 2>/dev/null || checked=false
annotations() { /usr/bin/python3 "$source_dir/tests/cli/annotations.py" "$1" >list; }
# An older onnx knows neither the version nor the new fields, and checks the rest.
check_file() {
  $checked || return 0
  expect 0 "" /usr/bin/python3 -c 'import onnx
m = onnx.load("out.onnx")
assert m.ir_version >= 11
m.ir_version = min(m.ir_version, onnx.IR_VERSION)
onnx.checker.check_model(m, full_check=True)'
}

# planned TARGET MODEL OPTION...: out.onnx, checked, with the plan of the model, a.plan
planned() {
  local target=$1
  shift
  expect 0 "" "$apc" plan "$@" -q --target "$target" --emit=onnx=out.onnx --save-plan a.plan
  check_file
  check "annotations contradict themselves" annotations out.onnx
  expect 0 "Using the plan in out.onnx" "$apc" plan out.onnx --target "$target" --save-plan b.plan
  check "another plan is read" cmp a.plan b.plan
}
# numbers MODEL OPTION...: the program of out.onnx computes the same as the model on one rank
numbers() {
  expect 0 "" "$apc" run "$@" -q --outputs a.npz
  expect 0 "equal" "$apc" run out.onnx -q --target cpux4 --expect a.npz --rtol 1e-5
}
# alone TARGET: without apc's notes the annotations of out.onnx alone give the plan: all of them hold in it again
alone() {
  /usr/bin/python3 "$source_dir/tests/cli/annotations.py" out.onnx bare.onnx | grep ']' | sort >specs
  expect 0 "" "$apc" plan bare.onnx -q --target "$1" --emit=onnx=bare.again.onnx
  no_err
  /usr/bin/python3 "$source_dir/tests/cli/annotations.py" bare.again.onnx | sort >again
  check "not followed: $(comm -23 specs again)" test -z "$(comm -23 specs again)"
}
has() { check "the annotations lack '$1'" grep -qxF -- "$1" list; }

# every kind of spec: two axes, one and none; groups; micro-batches are no shards; a partial sum (y, of n) has no spec
cat >two.ir <<'END'
apc.ir 1
symbol b min 1 hint 8
param "w" : f32[6, 8] = normal 1 seed 3
param "v" : f32[8, 6] = normal 1 seed 4
func @main level 1 {
  %x = input {name="x"} : f32[b, 6]
  %w = param {name="w"} : f32[6, 8]
  %v = param {name="v"} : f32[8, 6]
  %h = dot %x, %w {spec="bk,kn->bn"} : f32[b, 8]
  %r = relu %h : f32[b, 8]
  %y = dot %r, %v {spec="bn,nm->bm"} : f32[b, 6]
  %z = relu %y : f32[b, 6]
  output "out" %z
}
END
cat >two.plan <<'END'
apc.plan 1
graph @main 0000000000000000
target cpux4 ranks 4
mesh [mb=2 time, dp=2, tp=2] stages 1
op "x" {x0:mb.dp}
op "h" {b:mb.dp, n:tp}
op "r" {x0:mb.dp, x1:tp}
op "y" {b:mb.dp, n:tp}
op "z" {x0:mb.dp.tp}
END
planned cpux4 two.ir --plan two.plan
cat >expected <<'END'
Einsum h: x [2] 0+1 2+3
Einsum h: w [_ 2] 0+2 1+3
Einsum h: h [2 2] 0 1 2 3
Relu r: h [2 2] 0 1 2 3
Relu r: r [2 2] 0 1 2 3
Einsum y: r [2 2] 0 1 2 3
Einsum y: v [2] 0+2 1+3
Relu z: y [4] 0 1 2 3
Relu z: z [4] 0 1 2 3
END
check "the annotations differ" bash -c 'sed 1d list | diff - expected'
check "the devices are not named" grep -q '^configuration cpux4: [^ ]*:0 [^ ]*:1 [^ ]*:2 [^ ]*:3$' list
numbers two.ir
expect 0 "" "$apc" plan out.onnx -q --target cpux4 --emit=onnx=again.onnx
check "writing the file again changes it" cmp out.onnx again.onnx
alone cpux4
# the annotations instead of the plan: those of the graph, from which apc did not read the model
expect 0 "completes configuration \"cpux4\"" "$apc" plan out.onnx -q --target cpux4 --configuration cpux4

# a change of the graph, a constant or an annotation: the plan is not used, which is reported
change() { /usr/bin/python3 -c 'import sys
data = open("out.onnx", "rb").read()
assert sys.argv[1].encode() in data
open("changed.onnx", "wb").write(data.replace(sys.argv[1].encode(), sys.argv[2].encode()))' "$1" "$2"; }
change Relu Sqrt
expect 0 "warning[APC0120]" "$apc" plan changed.onnx -q --target cpux4
check "a changed file has the plan" bash -c '! grep -q "2 micro-batches" out'
change "{x0:mb.dp.tp}" "{x0:mb.tp.dp}" # but the plan may be edited
expect 0 "Using the plan in changed.onnx" "$apc" plan changed.onnx --target cpux4 --save-plan -
expect_out "{x0:mb.tp.dp}"
expect 0 "not used: it is for --target cpux4" "$apc" plan out.onnx --target cpux2
expect 0 "not used: --dtype=bf16 changes what is planned" "$apc" plan out.onnx --target cpux4 --dtype bf16
"$apc" targets show cpux2 >own.topo
expect 0 "" "$apc" plan two.ir -q --target own.topo --emit=onnx=own.onnx
expect 0 "Using the plan in own.onnx" "$apc" plan own.onnx --target own.topo
sed -i 's/cores 2/cores 4/' own.topo
expect 0 "not used: target own.topo has changed since" "$apc" plan own.onnx --target own.topo
expect 0 "not used: --dp is given" "$apc" plan out.onnx --target cpux4 --dp 4
expect 0 "2 micro-batches" "$apc" plan two.ir -q --target cpux4 --plan out.onnx
expect 1 "no plan of apc" "$apc" plan two.ir -q --target cpux4 --plan "$examples/gpt-tiny.onnx"

# sizes of the line take the place of those of the file name by name, however they are joined
expect 0 "" "$apc" plan "$examples/gpt-tiny.onnx" -q --target cpux4 --dim seq=16,batch=4 --emit=onnx=sized.onnx
expect 0 "not used: --dim=batch=8 changes what is planned" "$apc" plan sized.onnx --target cpux4 --dim batch=8
check "the other size is lost" grep -q "options of sized.onnx: --dim=seq=16$" err
expect 0 "Using the plan in sized.onnx" "$apc" plan sized.onnx --target cpux4 --dim batch=4 --dim seq=16
expect 0 "Using the plan in sized.onnx" "$apc" plan sized.onnx --target cpux4 --dim batch=4
expect 1 "--dim binds dimension 'batch' to 4" "$apc" plan sized.onnx --target cpux4 --dim-hint batch=8
expect 0 "" "$apc" plan "$examples/gpt-tiny.onnx" -q --target cpux4 --shape tokens=4,16 --emit=onnx=shaped.onnx
expect 0 "Using the plan in shaped.onnx" "$apc" plan shaped.onnx --target cpux4
expect 0 "not used: --shape=tokens=8,16 changes what is planned" "$apc" plan shaped.onnx --target cpux4 \
  --shape tokens=8,16
expect 2 "--dim-hint gives 'batch' two sizes" "$apc" plan "$examples/gpt-tiny.onnx" --dim-hint batch=2,batch=3
expect 0 "" "$apc" plan "$examples/gpt-tiny.onnx" -q --dim-hint batch=2,seq=32 --dim-hint batch=2
expect 2 "--dim gives 'seq' two sizes" "$apc" plan "$examples/gpt-tiny.onnx" --dim seq=16 --dim batch=2,seq=17

# images: with their channels last in the plan, but not in the graph; both halves of the height exchange their borders
small="-D depth=18 -D width=8 -D classes=10 -D image=32"
cat >halves.plan <<'END'
apc.plan 1
complete
mesh [h=2, o=2] stages 1
op "stem.y" {H:h, o:o}
END
# shellcheck disable=SC2086
planned cpux4 "$examples/resnet.apc" $small --plan halves.plan
has "Conv stem.y: x [_ _ 2] 0+1 2+3"
has "Conv stem.y: stem.conv.w [2] 0+2 1+3"
has "Conv stem.y: stem.y [_ 2 2] 0 2 1 3"

# a pipeline, with all that ONNX has no fields for: they and the options of the model are read again
small="-D layers=2 -D d=32 -D heads=2 -D vocab=64"
# shellcheck disable=SC2086
planned cpux4 "$examples/gpt.apc" $small --train cross_entropy --batch 8 --dtype bf16 --pp 2 --micro-batches 4 --schedule zbh1
has "Tanh layers.0.mlp.h.tanh stage 0: layers.0.mlp.h.tanh [2] 0 1"
has "Einsum layers.1.mlp.fc.dot stage 1: layers.1.mlp.fc.w [] 2+3"
has "Reshape layers.1.mlp.fc.broadcast stage 1" # part of the product
check "a node has no stage" bash -c '! sed 1d list | grep -v " stage [01]"'
check "the schedule is lost" grep -q "schedule zbh1" b.plan
check "the step is another one" grep -q 'options of out.onnx: --dtype=bf16 --train=cross_entropy' err
# shellcheck disable=SC2086
planned dgx-a100x4 "$examples/llama.apc" $small -D kv_heads=2 -D ffn=64 --tp 2 --dp 2
has "Einsum layers.0.mlp.up: layers.0.mlp.up.w [_ 2] 0+2 1+3"

# operations of one kernel in layouts of their own, as the nodes that attention becomes in the graph
# shellcheck disable=SC2086
planned cpux4 "$examples/gpt.apc" -D layers=1 -D d=32 -D heads=2 -D vocab=64 --pp 2 --tp 2
alone cpux4

# a model from ONNX keeps its nodes and names, and takes its sizes from the line
planned cpux4 "$examples/gpt-tiny.onnx" --tp 2 --dp 2 --dim seq=16
has "MatMul /blocks.0/up/MatMul: onnx::MatMul_329 [_ 2] 0+2 1+3"
has "MatMul /blocks.0/up/MatMul: /blocks.0/up/MatMul_output_0 [2 _ 2] 0 1 2 3"
! $checked || expect 0 "" /usr/bin/python3 -c 'import onnx, sys
graphs = [onnx.load(f).graph for f in sys.argv[1:]]
for g in graphs:
    for n in g.node: n.DiscardUnknownFields()
assert graphs[0] == graphs[1], "the graph differs"' "$examples/gpt-tiny.onnx" out.onnx
numbers "$examples/gpt-tiny.onnx" --dim seq=16
expect 0 "Using options of out.onnx: --dim=seq=16" "$apc" plan out.onnx --target cpux4 --dim batch=4
expect_err "not used: --dim=batch=4 changes what is planned"
expect 0 "" "$apc" plan out.onnx -q --target cpux4 --emit=onnx=again.onnx
check "writing the file again changes it" cmp out.onnx again.onnx
expect 0 "" "$apc" plan out.onnx -q --target cpux2 --emit=onnx=again.onnx
check "annotations contradict themselves" annotations again.onnx
check "a second configuration replaces the first" test "$(grep -c '^configuration' list)" -eq 2

expect 1 "2 entries; an ONNX model has one" "$apc" plan "$examples/llama.apc" $small -D kv_heads=2 -D ffn=64 -D cache=1 -q --emit=onnx=state.onnx
check "a file was written" test ! -e state.onnx
summary 70
