#!/bin/bash
# A decoder of ONNX Runtime's operators, with sequences of different lengths in its cache, cut by heads: equals one rank
# and the reference, and is proved.
. "$(dirname "$0")/lib.sh"

expect 0 "" "$(dirname "$apc")/tests/onnx_runtime" decoder decoder.onnx
expect 0 "" "$apc" verify decoder.onnx --target cpux2 --tp 2 --dim batch=4 --dim new=3 --dim total=9 --json -q
expect_json 'd["ok"] and d["proof"] == "proved" and d["ranks"] == 2'
summary 3
