#!/bin/bash
# Bidirectional recurrent layers of ONNX files, unrolled (5 steps) and as loops (20 steps, a symbolic number of them):
# three ranks, cut by the planner's choice, by the hidden dimension and by the batch, equal one rank and the reference,
# and are proved.
. "$(dirname "$0")/lib.sh"

writer=$(dirname "$apc")/tests/test_onnx_recurrent
equals_one_rank() { # equals_one_rank MODEL OPTIONS...
  expect 0 "" "$apc" verify "$@" --target cpux3 --json -q
  expect_json 'd["ok"] and d["proof"] == "proved" and d["ranks"] == 3'
}

expect 0 "" "$writer" LSTM 5 few.onnx
expect 0 "" "$writer" LSTM steps many.onnx
expect 0 "" "$writer" GRU 20 gru.onnx
for plan in "" "--tp 3" "--dp 3"; do
  equals_one_rank few.onnx $plan
  equals_one_rank many.onnx $plan
done
equals_one_rank gru.onnx --tp 3
expect 0 "" "$apc" plan few.onnx --target cpux3 --tp 3 --json -q
expect_json 'd["breakdown_us"]["collectives"] > 0'
# One product of the input for all steps is before the loop, one of the state in it, per direction.
expect 0 "" "$apc" convert many.onnx many.ir -q
check "dots around the loops" awk '/ = loop / { in_loop = 1 } / = dot / { if (in_loop) inside++; else outside++ } / repeat / { in_loop = 0 }
                                   END { exit !(inside == 2 && outside == 2) }' many.ir
summary 21
