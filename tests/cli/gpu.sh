#!/bin/bash
# Programs for GPUs, run on doubles of NVIDIA's libraries (tests/doubles/double.h): their results, their communication,
# and the messages when something is missing or fails.  Kernels are compiled for GPUs, so NVRTC is needed, and run as C.
. "$(dirname "$0")/lib.sh"
doubles=$(dirname "$apc")/doubles
gpt=$source_dir/examples/gpt-tiny
mlp=$source_dir/examples/mlp.apc
small_mlp="-D layers=2 -D d=64 -D hidden=96"
for file in libcuda.so.1 libcublasLt.so.13 libcudnn.so.9 libnccl.so.2; do
  [ -e "$doubles/$file" ] || { echo "no doubles in $doubles"; exit 77; }
done
# shellcheck disable=SC2086
if ! "$apc" "$mlp" $small_mlp --target dgx-a100x2 --emit=cubin=probe -q 2>probe.err; then
  grep -q NVRTC probe.err && { echo "no NVRTC here"; exit 77; }
  cat probe.err
  exit 1
fi
export DOUBLES_CACHE=$private/cache
mkdir "$DOUBLES_CACHE"
with=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_TEXTS=$work/texts")

# The results of one CPU rank, for --expect.
expect 0 "" "$apc" run "$gpt.onnx" --inputs "$gpt.inputs.npz" --outputs one.npz -q

# Four ranks: by NCCL and through host memory, with runs of recorded calls, and call by call.
runs=("" "APC_EAGER=1" "APC_COMM=staged" "DOUBLES_SEED=11" "DOUBLES_SEED=12 APC_EAGER=1" "DOUBLES_SEED=13 APC_COMM=staged")
for how in "--tp 4" "--dp 2 --tp 2" "--pp 2 --dp 2"; do
  for run in "${runs[@]}"; do
    # shellcheck disable=SC2086
    expect 0 "" "${with[@]}" $run "$apc" run "$gpt.onnx" --target dgx-a100x4 $how --save-temps=texts --inputs "$gpt.inputs.npz" --expect one.npz -q
  done
done
# Measures two of them: the file is a target, under its own name and in place of the built-in one; the numbers have no
# meaning.
expect 0 "" "${with[@]}" "$apc" calibrate --target dgx-a100x2 --effort 1 --save-temps=texts -o measured.topo -q
expect 0 "figures measured by apc calibrate: measured.topo" "$apc" plan "$gpt.onnx" --target measured.topox2 -q
expect 0 "measured.topo" env APC_CALIBRATION=measured.topo "$apc" plan "$gpt.onnx" --target dgx-a100x2 -q
for line in "  sustained bf16 " "  launch " "  ring measured " "  kernels ampere-measured"; do
  check "it lacks '$line'" grep -q "^$line" measured.topo
done
# More ranks than GPUs.
expect 0 "" "${with[@]}" DOUBLES_GPUS=1 APC_COMM=staged "$apc" run "$gpt.onnx" --target dgx-a100x4 --tp 2 --dp 2 --save-temps=texts --inputs "$gpt.inputs.npz" --expect one.npz -q
# Without NCCL; a machine may have one that cannot be hidden, which does not work with the doubles.
if ! /sbin/ldconfig -p | grep -q libnccl.so.2; then
  mkdir bare && ln -s "$doubles/libcuda.so.1" "$doubles/libcublasLt.so.13" bare/
  expect 0 "" env LD_LIBRARY_PATH="$work/bare" DOUBLES_TEXTS="$work/texts" PATH=/usr/bin:/bin HOME=/nonexistent "$apc" run "$gpt.onnx" --target dgx-a100x2 --tp 2 --save-temps=texts --inputs "$gpt.inputs.npz" --expect one.npz -q
fi
# A loop, whose rounds the host reads; one program, two sizes.
lstm="-D d=16 -D vocab=50 --dim batch=4 --dim seq=5"
# shellcheck disable=SC2086
expect 0 "" "$apc" run "$source_dir/examples/lstm.apc" $lstm --outputs lstm.npz -q
# shellcheck disable=SC2086
expect 0 "" "${with[@]}" "$apc" run "$source_dir/examples/lstm.apc" $lstm --target dgx-a100x2 --save-temps=texts --expect lstm.npz -q
# shellcheck disable=SC2086
expect 0 "" "$apc" "$mlp" $small_mlp --seed 1 --init random --target dgx-a100x2 --save-temps=texts -o mlp -q
# shellcheck disable=SC2086
expect 0 "" "$apc" "$mlp" $small_mlp --seed 1 --init random -o mlp-cpu -q
/usr/bin/python3 - <<'END2'
import struct
for rows in (8, 24):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 64), }" % rows
    head = head.ljust(117) + "\n"
    with open("x%d.npy" % rows, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(b"".join(struct.pack("<f", ((i * 37) % 101) / 50 - 1) for i in range(rows * 64)))
END2
near() { # near A.npy B.npy: equal to 1e-5 of the largest
  /usr/bin/python3 - "$1" "$2" <<'END2'
import struct, sys
def values(name):
    b = open(name, "rb").read()
    n = struct.unpack("<H", b[8:10])[0]
    return struct.unpack("<%df" % ((len(b) - 10 - n) // 4), b[10 + n:])
a, b = values(sys.argv[1]), values(sys.argv[2])
sys.exit(len(a) != len(b) or max(abs(x - y) for x, y in zip(a, b)) > 1e-5 * max(map(abs, b)))
END2
}
for rows in 8 24; do
  expect 0 "" "${with[@]}" ./mlp --input "x=@x$rows.npy" --output y=@gpu.npy
  expect 0 "" ./mlp-cpu --input "x=@x$rows.npy" --output y=@cpu.npy
  check "other values for $rows rows" near gpu.npy cpu.npy
done
expect 0 "" "${with[@]}" ./mlp --input "x=@x8.npy" --trace trace.json
check "a timeline" /usr/bin/python3 -c 'import json; d = json.load(open("trace.json")); assert any("dur" in e for e in (d["traceEvents"] if isinstance(d, dict) else d))'

# Convolutions: by cuDNN, by our kernels, and by those where cuDNN has no algorithm.
convs=$source_dir/tests/doubles/convolutions.apc
expect 0 "" "$apc" run "$convs" --dim batch=2 --outputs convs.npz -q
for run in "" "APC_CONV=kernel" "DOUBLES_DNN_GAPS=0" "DOUBLES_DNN_GAPS=1" "DOUBLES_SEED=14 APC_EAGER=1"; do
  # shellcheck disable=SC2086
  expect 0 "" "${with[@]}" $run DOUBLES_NAMES="$work/names" "$apc" run "$convs" --dim batch=2 --target dgx-a100x2 --save-temps=texts --expect convs.npz -q
  asked=$(grep -cE 'cudnnConvolution(Bias|Forward)' names)
  rm names
  case $run in
    *kernel* | *GAPS=1) check "$run: cuDNN convolves" test "$asked" -eq 0 ;;
    *) check "$run: cuDNN does not convolve" test "$asked" -gt 0 ;;
  esac
done
expect 0 "" "$apc" "$convs" --dim batch=2 --target dgx-a100x1 --save-temps=texts -o convs -q
expect 0 "" env APC_CONV=kernel "$apc" run "$convs" --dim batch=2 --expect convs.npz -q # on a CPU
# Padding that cuDNN cannot express: on one side only, below 0, less at the end than at the front.  It can express the
# last one only.
for starts in '-2, 0 9, 9' '1, 1 6, 6' '-1, -1 8, 9' '-1, -1 9, 9'; do
  read -r high wide out <<<"$starts"
  printf '%s\n' 'apc.ir 1' 'symbol b' 'param "w" : f32[8, 4, 3, 3] = normal 1 seed 1' 'func @main level 1 {' \
    '  %x = input {name="x"} : f32[b, 4, 9, 9]' '  %w = param {name="w"} : f32[8, 4, 3, 3]' \
    "  %y = conv %x, %w {starts=[$high $wide], strides=[1, 1], dilations=[1, 1], spec=\"ncHW,ocHW->noHW\"} : f32[b, 8, $out]" \
    '  output "y" %y' '}' >padded.ir
  rm -f names
  expect 0 "" "$apc" run padded.ir --dim b=2 --outputs padded.npz -q
  expect 0 "" "${with[@]}" DOUBLES_DNN_GAPS=0 DOUBLES_NAMES="$work/names" "$apc" run padded.ir --dim b=2 --target dgx-a100x1 --save-temps=texts --expect padded.npz -q
  check "starts $starts" test "$(grep -c cudnnConvolutionForward names)" -eq "$([ "$out" = '9, 9' ] && [ "$high" = -1, ] && echo 1 || echo 0)"
done

# With ranks started like torchrun's.
torchrun=("WORLD_SIZE=2" "MASTER_ADDR=127.0.0.1" "MASTER_PORT=$((20000 + $$ % 20000))")
timeout 60 "${with[@]}" "${torchrun[@]}" RANK=1 LOCAL_RANK=1 ./mlp --input x=@x8.npy >other 2>&1 &
expect 0 "" "${with[@]}" "${torchrun[@]}" RANK=0 LOCAL_RANK=0 ./mlp --input x=@x8.npy --output y=@gpu.npy
check "the other rank: $(cat other)" wait $!
expect 0 "" ./mlp-cpu --input "x=@x8.npy" --output y=@cpu.npy
check "other values under torchrun" near gpu.npy cpu.npy

# Resources that are missing, too old or too small.
expect 0 "" "$apc" "$gpt.onnx" --target dgx-a100x2 --tp 2 --save-temps=texts -o gpt -q
empty=$work/empty && mkdir "$empty"
expect 5 "no NVIDIA driver" env LD_LIBRARY_PATH="$empty" ./mlp --input x=@x8.npy
for library in libcublasLt.so.13 libnccl.so.2; do # files that are other libraries
  mkdir "of-$library" && ln -s "$doubles"/*.so* "of-$library/" && ln -sf "$doubles/libcuda.so.1" "of-$library/$library"
  expect 5 "is too old or damaged" env LD_LIBRARY_PATH="$work/of-$library" DOUBLES_TEXTS="$work/texts" ./gpt --inputs "$gpt.inputs.npz"
  expect_err "$library"
done
mkdir of-cudnn && ln -s "$doubles"/*.so* of-cudnn/ && ln -sf "$doubles/libcuda.so.1" of-cudnn/libcudnn.so.9
expect 5 "cuDNN is too old or damaged" env LD_LIBRARY_PATH="$work/of-cudnn" DOUBLES_TEXTS="$work/texts" ./convs --input x=random
expect 0 "" env LD_LIBRARY_PATH="$work/of-cudnn" DOUBLES_TEXTS="$work/texts" APC_CONV=kernel ./convs --input x=random
expect 5 "cuDNN is too old" "${with[@]}" DOUBLES_DNN=80907 ./convs --input x=random
expect 5 "is built for CUDA 14, the driver is for CUDA 13" "${with[@]}" DOUBLES_DNN_CUDA=14000 ./convs --input x=random
expect 6 "cudnnCreate (convolutions): CUDNN_STATUS_NOT_INITIALIZED; APC_CONV=kernel does without cuDNN" "${with[@]}" DOUBLES_FAIL=cudnnCreate:1 ./convs --input x=random
expect 0 "cuDNN          9.19.0 ($doubles/libcudnn.so.9)" "${with[@]}" "$apc" doctor
expect 5 "is too old" "${with[@]}" DOUBLES_DRIVER=11080 ./mlp --input x=@x8.npy
# A bundle of 80 weights takes more than 4 KiB of arguments.
expect 0 "" "$apc" "$mlp" -D layers=40 -D d=64 --train mse --batch 8 --target dgx-a100x1 --save-temps=texts -o deep -q
mkdir of-12 && ln -s "$doubles"/*.so* of-12/ && mv of-12/libcublasLt.so.13 of-12/libcublasLt.so.12
deep=(DOUBLES_TEXTS="$work/texts" ./deep --steps 1 --data x=@x8.npy --data labels=@x8.npy)
expect 0 "step 1" env LD_LIBRARY_PATH="$work/of-12" DOUBLES_DRIVER=12010 "${deep[@]}"
expect 5 "needs a driver for CUDA 12.1 or later" env LD_LIBRARY_PATH="$work/of-12" DOUBLES_DRIVER=12000 "${deep[@]}"
expect 5 "CUDA_ERROR_NO_DEVICE" "${with[@]}" DOUBLES_GPUS=0 ./mlp --input x=@x8.npy
expect 5 "sm_70" "${with[@]}" DOUBLES_ARCH=70 ./gpt --inputs "$gpt.inputs.npz"
expect 6 "MiB are free" "${with[@]}" DOUBLES_MEMORY=4096 ./mlp --input x=@x8.npy

# Failed calls are named with their purpose; a device without progress is late.
for call in cuInit cuStreamBeginCapture_v2 cuGraphInstantiateWithFlags cuGraphLaunch cuGraphDestroy cuEventRecord cuLaunchKernel cuDevicePrimaryCtxRetain cuMemAlloc_v2 cuModuleLoadData cuMemcpyHtoDAsync_v2 cublasLtMatmul ncclCommInitRankConfig cuStreamCreate; do
  code=6
  [ $call = cuInit ] && code=5
  expect $code "$call (" "${with[@]}" DOUBLES_FAIL=$call:1 ./gpt --inputs "$gpt.inputs.npz" --bench=1 --warmup=0
done
expect 7 "rank 1 is late" "${with[@]}" DOUBLES_STALL=60 DOUBLES_ON=1 ./gpt --inputs "$gpt.inputs.npz" --timeout 2s
check "the call that is late" grep -qE "$late_call" err
summary 90
