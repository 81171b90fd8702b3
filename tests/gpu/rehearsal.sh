#!/bin/bash
# bench/gpu/pack.sh and bench/gpu/on_device.sh on the doubles of NVIDIA's libraries, with some of the programs and
# kernels: everything passes, and faults are named without stopping the rest.
#   rehearsal.sh APC
. "$(dirname "$0")/../cli/lib.sh"
build=$(dirname "$apc") doubles=$(dirname "$apc")/doubles gpu=$source_dir/bench/gpu
for file in libcuda.so.1 libcublasLt.so.13 libcudnn.so.9 libnccl.so.2; do
  [ -e "$doubles/$file" ] || { echo "no doubles in $doubles"; exit 77; }
done
pack=(env "BUILD=$build" "$gpu/pack.sh" --small --texts texts)
export DOUBLES_CACHE=$private/cache
with=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_TEXTS=$work/texts" DOUBLES_ARCH=90 DOUBLES_GPUS=1 "DOUBLES_REPORT=$work/report" COPIED=65536 MULTIPLIED=32 RUNS=2 CALIBRATED=0)

# A folder of models replaces the examples.
mkdir folder
cp "$source_dir/examples/gpt-tiny.onnx" folder/gpt.onnx
cp "$source_dir/examples/gpt-tiny.inputs.npz" folder/gpt.inputs.npz
"${pack[@]}" --only '^(gpt|cache|lstm|moe\.2|softmax|llama2_token)' --every 60 DIR folder >out 2>err
code=$?
grep -q NVRTC err && { echo "no NVRTC here"; exit 77; }
last=pack.sh
check "exit $code" test $code -eq 0
check "the size" grep -qE "^$work/DIR: [0-9.]+ MiB for sm_90$" out

# Everything passes; only the contents of DIR are needed.
mv folder away
expect 0 "in all | passed" "${with[@]}" DIR/on_device.sh check DIR checked
for row in "copies, fills, products" kernels "one rank of NCCL in a graph" "gpt.1, replayed" "gpt.1, call by call" \
  "gpt.2, through the host" "gpt.2, two ranks of NCCL" "gpt.4, through the host" "lstm.1, replayed" "moe.2, two ranks of NCCL" \
  "cache.1, replayed" "cache.2, through the host" "gpt-bf16.1, replayed" "gpt-bf16.2, two ranks of NCCL" \
  "gpt-f16.1, call by call"; do
  expect_out "| $row | passed |"
done
check "the table is kept" grep -qF "| gpt.4, through the host | passed |" checked/table.md
check "$(cat report 2>/dev/null)" test ! -s report
expect 0 "in all | passed" "${with[@]}" DIR/on_device.sh bench DIR measured
for row in ceilings softmax gpt2_124m llama2_token llama2_token_bf16 gpt2_124m_b8_bf16; do expect_out "| $row | passed |"; done
expect_out "planned"
expect_out "a request of 1: "
expect_out " ms, tuned "
check "choices of a net" grep -q "^product " measured/gpt2_124m.tuned.txt
expect_out "| figures of this machine | left out | CALIBRATED=0 |" # tests/cli/gpu.sh measures a double
check "apc is not there with its libraries" env LD_LIBRARY_PATH="$work/DIR/bin/lib" DIR/bin/apc version

# A wrong reference, a damaged program, a device without NCCL's second machine.
cp DIR/programs/lstm.npz good.npz
cp DIR/programs/moe.npz DIR/programs/lstm.npz
head -c 10000 DIR/programs/gpt.2.gz >short && mv short DIR/programs/gpt.2.gz
expect 1 "in all | FAILED" "${with[@]}" DIR/on_device.sh check DIR wrong
expect_out "| lstm.1, replayed | FAILED | exit 1: logits: relative L2 1 |"
expect_out "| gpt.2, through the host | FAILED |"
expect_out "| gpt.4, through the host | passed |"
expect_out "| moe.2, through the host | passed |"
check "how many failed" grep -qF " passed, 4 failed, " out

# No time is left.
expect 1 "| kernels | FAILED | no time is left |" "${with[@]}" MINUTES=0 DIR/on_device.sh check DIR late
expect_out "0 passed"

# A kernel that gets a wrong address is named; a failure of the driver at one kernel does not end the others.
kernels=("${with[@]}" DIR/bin/gpu_kernels run DIR/kernels)
expect 0 "0 failed" "${kernels[@]}"
expect 0 "0 failed" "${kernels[@]}" 2 here
expect 1 "FAILED" "${kernels[@]/DOUBLES_GPUS=1/DOUBLES_SHIFT=3}"
expect 1 "the device or the driver failed" "${kernels[@]/DOUBLES_GPUS=1/DOUBLES_FAIL=cuLaunchKernel:2}"
expect_err "cuLaunchKernel"
expect 1 "to open the GPU" "${kernels[@]/DOUBLES_GPUS=1/DOUBLES_GPUS=0}"

# Refused arguments.
expect 1 "that is more than 1 MiB" "${pack[@]}" --only '^$' --every 400 --most 1 other
expect 2 "is not empty" "${pack[@]}" other
expect 2 "is no machine with GPUs" "${pack[@]}" --target cpu third
expect 2 "usage" DIR/on_device.sh check other
expect 2 "checked is not empty" DIR/on_device.sh check DIR checked
summary 48
