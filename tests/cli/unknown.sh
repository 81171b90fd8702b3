#!/bin/bash
# A model with operators that apc does not know can be planned and inspected, but not compiled or run.
. "$(dirname "$0")/lib.sh"
gpt=$source_dir/examples/gpt-tiny.onnx
# the same file with two operators renamed, of the same length
LC_ALL=C sed 's/Softmax/Softest/g; s/Erf/Erz/g' "$gpt" >unknown.onnx

expect 0 "warning[APC0304]: operator Softest is not known (2 nodes): planned as replicated" "$apc" plan unknown.onnx --target cpux4
expect_err 'operator Erz is not known (2 nodes)'; expect_err 'node "/blocks.0/Softest"'; expect_out "one device"
expect_err "are taken from the first input" # the file gives no types of inner values
expect 0 "" "$apc" plan unknown.onnx -q --target cpux4 --tp 2 --dp 2 --json
expect_json 'd["chosen"]["tp"] == 2 and d["chosen"]["dp"] == 2'
expect 0 "" "$apc" plan "$gpt" -q --target cpux4 --tp 2 --dp 2 --json; no_err

for command in compile run verify bench; do
  expect 1 "operator Softest is not supported at operator set 15 (2 nodes)" "$apc" $command unknown.onnx -q --target cpux2; no_out
  expect_err "operator Erz is not supported"; expect_err 'node "/blocks.1/Erz"'
done
expect_err "the nearest operator is Erf"
check "a program was written" test ! -e unknown

# as text it is the same
expect 0 "" "$apc" convert unknown.onnx unknown.ir -q
expect 0 "operator Erz is not known (2 nodes)" "$apc" plan unknown.ir -q --target cpux4
expect 0 "" "$apc" plan unknown.ir -q --target cpux4 --emit=spmd=-; expect_out '= opaque '
for command in compile run verify bench; do
  expect 1 "error[APC0304]: operator Softest is not known (2 nodes)" "$apc" $command unknown.ir -q; no_out
  expect_err "error[APC0304]: operator Erz is not known (2 nodes)"
done
expect 1 "error[APC0304]" "$apc" plan unknown.onnx -q --emit=c=-; no_out
expect 1 "error[APC0304]" "$apc" plan unknown.onnx -q --emit=schedule=-; no_out
expect 0 "warning[APC0304]" "$apc" inspect unknown.onnx; expect_out "unsupported"

# inspect --unsupported reports the errors of compile, and has its exit code
errors() { grep "^error" err | sort; }
like_compile() { # like_compile CODE LINE MODEL...: a line of the answer
  local code=$1 line=$2
  shift 2
  expect "$code" "" "$apc" compile "$@" -q -o program; errors >of_compile
  expect "$code" "" "$apc" inspect "$@" -q --unsupported; errors >of_inspect
  check "the errors are not those of compile" cmp of_compile of_inspect
  if [ "$code" -eq 0 ]; then no_out; else expect_out "$line"; check "not a line each" test "$(wc -l <out)" -eq "$(wc -l <of_compile)"; fi
  expect "$code" "" "$apc" inspect "$@" -q --unsupported --json
  expect_json "d['ok'] == ($code == 0) and sum(x['severity'] == 'error' for x in d['diagnostics']) == $(wc -l <of_compile)"
}
like_compile 1 "Erz 2" unknown.onnx; expect_json "d['unsupported'] == {'Softest': 2, 'Erz': 2}"
like_compile 1 "Softest 2" unknown.ir; expect_json "d['unsupported'] == {'Softest': 2, 'Erz': 2}"
like_compile 0 "" "$gpt"
/usr/bin/python3 - <<'PY'
import onnx
from onnx import TensorProto as T, helper as h
x, s, y = h.make_tensor_value_info('x', T.FLOAT, ['n', 4]), h.make_tensor_value_info('s', T.INT64, [2]), h.make_tensor_value_info('y', T.FLOAT, None)
def save(name, nodes, inputs):
  onnx.save(h.make_model(h.make_graph(nodes, 'g', inputs, [y]), opset_imports=[h.make_opsetid('', 15)]), name)
save('shape.onnx', [h.make_node('Reshape', ['x', 's'], ['y'], name='r')], [x, s])
save('dead.onnx', [h.make_node('Nothing', ['x'], ['z']), h.make_node('Neg', ['x'], ['y'])], [x])
PY
like_compile 1 'APC0114' shape.onnx
like_compile 0 "" dead.onnx # the result of the unknown operator is unused
printf 'entry main(x: f32[4]) {\n  output y = frobnicate(x)\n}\n' >function.apc
like_compile 1 "APC0202" function.apc
printf 'apc.ir 1\nfunc @main level 1 {\n  %%x = input {name="x"} : f32[4]\n  %%y = neg %%x : f32[5]\n  output "y" %%y\n}\n' >types.ir
like_compile 1 "APC0302" types.ir
like_compile 1 "APC0602" "$source_dir/examples/mlp.apc" -D d=8 --dim nothing=3
{ printf 'apc.ir 1\n'; for i in $(seq 300); do printf 'symbol s%d\n' $i; done; printf 'func @main level 1 {\n'
  for i in $(seq 300); do printf '  %%x%d = input {name="x%d"} : f32[s%d]\n  %%y%d = neg %%x%d : f32[s%d]\n' $i $i $i $i $i $i; done
  for i in $(seq 300); do printf '  output "y%d" %%y%d\n' $i $i; done; printf '}\n'; } >symbols.ir
like_compile 1 "symbolic dimensions" symbols.ir # found when the program is made
expect 0 "" "$apc" plan unknown.ir -q --save-plan u.plan; expect 2 "option '--unsupported' needs a model" "$apc" inspect u.plan --unsupported
summary 114
