#!/bin/bash
# A bidirectional LSTM of an ONNX file: three ranks, cut by the planner's choice, by the hidden dimension and by the batch,
# equal one rank and the reference, and are proved.
. "$(dirname "$0")/lib.sh"

expect 0 "" "$(dirname "$apc")/tests/test_onnx_recurrent" lstm.onnx
for plan in "" "--tp 3" "--dp 3"; do
  expect 0 "" "$apc" verify lstm.onnx --target cpux3 $plan --json -q
  expect_json 'd["ok"] and d["proof"] == "proved" and d["ranks"] == 3'
done
expect 0 "" "$apc" plan lstm.onnx --target cpux3 --tp 3 --json -q
expect_json 'd["breakdown_us"]["collectives"] > 0'
summary 9
