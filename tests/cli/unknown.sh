#!/bin/bash
# A model with operators that apc does not know can be planned and looked at, not compiled or run.
. "$(dirname "$0")/lib.sh"
gpt=$source_dir/examples/gpt-tiny.onnx
# the same file with two operators renamed, of the same length
LC_ALL=C sed 's/Softmax/Softest/g; s/Erf/Erz/g' "$gpt" >unknown.onnx

expect 0 "warning[APC0304]: operator Softest is not known (2 nodes): planned as replicated" "$apc" plan unknown.onnx --target cpux4
expect_err 'operator Erz is not known (2 nodes)'; expect_err 'node "/blocks.0/Softest"'; expect_out "one device"
expect_err "is taken from the first input" # the file gives no types of inner values
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
expect 0 "Erz 2" "$apc" inspect unknown.onnx --unsupported
summary 40
