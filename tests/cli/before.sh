#!/bin/bash
# Errors that can be found before planning are reported before planning, all of them, once each.
. "$(dirname "$0")/lib.sh"
mlp="$source_dir/examples/mlp.apc -D d=8 -D hidden=8 -D layers=1"
early() { # early CODE TEXT ARGUMENTS...
  expect "$@"
  check "the plan was made before" bash -c '! grep -q Planning err'
}

# files that cannot be written
mkdir folder; touch file
for out in /nonexistent/x folder file/x; do
  # shellcheck disable=SC2086
  for how in "compile $mlp -o $out" "compile $mlp --emit=c=$out" "plan $mlp --emit=plan=$out" "plan $mlp --save-plan $out" "run $mlp --save-plan $out" "run $mlp --emit=ir=$out" \
    "run $mlp --outputs $out" "run $mlp --output y=@$out" "verify $mlp --emit=html=$out" "bench $mlp --save-plan $out"; do
    early 1 "error[APC0002]: cannot write the file" "$apc" $how
  done
done
# shellcheck disable=SC2086
early 1 "there is no folder '/nonexistent'" "$apc" plan $mlp --emit=plan=/nonexistent/a,ir=/nonexistent/b --save-plan /nonexistent/c
check "not all three are reported" test "$(grep -c "error" err)" -eq 3
# shellcheck disable=SC2086
early 1 "there is no folder '/nonexistent/temps'" "$apc" $mlp --save-temps=/nonexistent/temps/folder
# shellcheck disable=SC2086
early 1 "Not a directory" "$apc" $mlp --save-temps=file
expect 1 "there is no folder '/nonexistent'" "$apc" convert "$source_dir/examples/mlp.apc" /nonexistent/m.ir
check "something was written" test "$(ls | tr '\n' ' ')" = "err file folder out "
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $mlp -q --emit=plan=/dev/null --save-temps=temps; check "no temporary files" test -s temps/mlp.plan
# lowered alternatives are not among the kept files: they use other meshes
expect 0 "" "$apc" plan "$source_dir/examples/gpt-tiny.onnx" --target cpux4 -q --save-temps=temps
expect 0 "gpt-tiny.ir on cpux4" "$apc" plan temps/gpt-tiny.ir --target cpux4 -q
mkfifo pipe; cat pipe >from_pipe &
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $mlp -q --emit=plan=pipe; wait; check "the pipe has no plan" grep -q "^apc.plan" from_pipe

# inputs, outputs and times
/usr/bin/python3 -c 'import numpy; numpy.save("x.npy", numpy.ones((2, 8), numpy.float32)); numpy.save("bad.npy", numpy.ones((2, 9), numpy.float32)); numpy.savez("z.npz", z=numpy.ones(2))'
for command in run bench verify; do
  # shellcheck disable=SC2086
  early 1 "No such file" "$apc" $command $mlp --input x=@nothing.npy
  # shellcheck disable=SC2086
  early 1 "dimension 1 of input 'x' is 8" "$apc" $command $mlp --input x=@bad.npy
  # shellcheck disable=SC2086
  early 1 "the model has no input 'z'" "$apc" $command $mlp --inputs z.npz
  # shellcheck disable=SC2086
  early 1 "the model has no input 'xx'" "$apc" $command $mlp --input xx=zeros
  # shellcheck disable=SC2086
  early 2 "the value is @FILE.npy" "$apc" $command $mlp --input x=zero
  # shellcheck disable=SC2086
  early 2 "option '--timeout' takes a time like 60s, 500ms or 2m, not 'soon'" "$apc" $command $mlp --timeout soon
done
# shellcheck disable=SC2086
early 1 "the model has no output 'yy'" "$apc" run $mlp --output yy=@y.npy; expect_err "the nearest name is 'y'"
# shellcheck disable=SC2086
early 2 "--output takes NAME=@FILE.npy, not 'y=y.npy'" "$apc" run $mlp --output y=y.npy; expect_err "--output y=@y.npy"
# shellcheck disable=SC2086
expect 0 "" "$apc" run $mlp -q --output @y.npy --input @x.npy; check "no output" test -s y.npy

# a plan that does not fit
# shellcheck disable=SC2086
"$apc" plan $mlp -q --target cpux2 --save-plan m.plan >/dev/null; sed 's/dp=2/dp=3/' m.plan >bad.plan
# shellcheck disable=SC2086
expect 1 "the mesh has 3 ranks, cpux2 has 2" "$apc" plan $mlp --target cpux2 --plan bad.plan

cat >max.ir <<'IR'
apc.ir 1
symbol b
func @main level 1 {
  %x = input {name="x"} : f32[b, 8]
  %y = mul %x, %x : f32[b, 8]
  %s = reduce %y {axes=[0], op=max} : f32[8]
  output "s" %s
}
IR
"$apc" plan max.ir -q --target cpux2 --tp 2 --save-plan max.plan >/dev/null
# micro-batches that would have to be joined again: where, and why
sed 's/mesh .tp=2/mesh [m=2 time, tp=2/; s/op "\([xy]\)".*/op "\1" {x0:m}/; s/op "s".*/op "s" {}/' max.plan >joined.plan
expect 1 "error[APC0402]: \"s\" needs \"y\" in layout {}, which cannot be made from {0:m}" "$apc" plan max.ir --target cpux2 --plan joined.plan; expect_err "--> joined.plan:9:8"; expect_err '"y" is cut here'
# names of axes: accepted names are printed and parsed again
for name in _x X2 x_y; do
  sed "s/tp/$name/g" max.plan >named.plan
  expect 0 "mesh [$name=2]" "$apc" plan max.ir -q --target cpux2 --plan named.plan --emit=spmd=-; cp out spmd.ir
  expect 0 "" "${apc%/*}/apc-opt" --passes= spmd.ir; check "level 2 changes" cmp -s out spmd.ir
done
for name in @x x/y x-y x.y 2x x%y; do
  sed "s|tp|$name|g" max.plan >named.plan
  expect 1 "error[APC0403]: '$name' cannot name a mesh axis" "$apc" plan max.ir -q --target cpux2 --plan named.plan; expect_err "--> named.plan:4:7"
done

# reported once, although the model is read twice
printf 'apc.ir 1\nfunc @main level 1 {\n  %%x = input {name="x"} : f32[4]\n  %%y = neg %%x : f32[4]\n  output "y" %%y\n}\n' >m.ir
printf 'apc.plan 1\n' >empty.plan
expect 1 "error" "$apc" verify m.ir --plan empty.plan; check "it is reported twice" test "$(grep -c "error" err)" -eq 1
summary 144
