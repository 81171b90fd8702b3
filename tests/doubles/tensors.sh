#!/bin/bash
# Inputs and outputs that lie in the caller's memory of a device (tensors.c): programs of one rank and of four, with
# splits of inputs and outputs, on the doubles, which check that no process frees memory that another one uses.
#
# usage: tensors.sh APC DOUBLES TENSORS
. "$(dirname "$0")/../cli/lib.sh"
doubles=$(realpath "$2")
tensors=$(realpath "$3")
"$apc" plan "$source_dir/examples/mlp.apc" -q --target dgx-a100x2 -S >/dev/null 2>err || { cat err; exit 77; }
run=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_REPORT=$work/report" "DOUBLES_TEXTS=$work/texts")

# try KIND MODEL OPTIONS...
try() {
  local kind=$1 model=$2 seed
  shift 2
  rm -rf texts
  expect 0 "" "$apc" compile "$model" -q "$@" --save-temps=texts -o program
  for seed in 1 2; do
    expect 0 "" "${run[@]}" DOUBLES_SEED=$seed "$tensors" "$kind" ./program
    check "$*: $(cat out err)" grep -qx fine out
    check "$*: $(head -n 3 report 2>/dev/null)" test ! -s report
  done
}
cat >small.apc <<'A'
import nn

entry main(x: f32[8, 12]) {
  h = relu(linear(x, 16) as "up")
  output y = linear(h, 3) as "down"
}
A
try float small.apc --target dgx-a100x1
try float small.apc --target dgx-a100x4 --dp 2 --tp 2
expect 1 "" "${run[@]}" DOUBLES_FAIL=cuIpcOpenMemHandle_v2:3 "$tensors" float ./program
check "a rank without the memory: $(cat out)" grep -q "cannot use memory of device .: cuIpcOpenMemHandle_v2" out
rm -f report
try index "$source_dir/examples/gpt-tiny.onnx" --target dgx-a100x2 --tp 2
expect 0 "" "$apc" compile small.apc -q --target cpu -o program
expect 0 "" "${run[@]}" "$tensors" cpu ./program
summary 15
