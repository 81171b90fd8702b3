#!/bin/bash
# Values between pixels, regions and spectra of ONNX files: three ranks, cut by the planner's choice, by channels and by
# the batch, equal one rank and the reference, and are proved.
. "$(dirname "$0")/lib.sh"

writer=$(dirname "$apc")/tests/test_onnx_samples
equals_one_rank() { # equals_one_rank MODEL OPTIONS...
  expect 0 "" "$apc" verify "$@" --target cpux3 --json -q
  expect_json 'd["ok"] and d["proof"] == "proved" and d["ranks"] == 3'
}

for kind in samples spectra regions; do expect 0 "" "$writer" $kind $kind.onnx; done
equals_one_rank samples.onnx
equals_one_rank samples.onnx --tp 3
equals_one_rank spectra.onnx
equals_one_rank spectra.onnx --dp 3
equals_one_rank regions.onnx
# Sixteen elements around a position are one lookup, not sixteen that must agree on a layout.
expect 0 "" "$apc" convert samples.onnx samples.ir -q
check "two lookups" test "$(grep -c ' = take ' samples.ir)" = 2
summary 15
