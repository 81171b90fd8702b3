#!/bin/bash
# --dtype: f32 models computed in fewer bits, on CPU ranks.
. "$(dirname "$0")/lib.sh"
examples=$source_dir/examples
gpt="$examples/gpt.apc -D layers=2 -D d=64 -D heads=4 -D vocab=96"
moe="$examples/moe.apc -D layers=1 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50"
resnet="$examples/resnet.apc -D depth=18 -D width=8 -D classes=10 -D image=32"
llama="$examples/llama.apc -D layers=2 -D d=64 -D heads=4 -D kv_heads=2 -D ffn=96 -D vocab=64 -D ctx=24 -D cache=1"
lstm="$examples/lstm.apc -D layers=1 -D d=32 -D vocab=50"

# far FILE FILE: the largest relative L2 distance of two archives' outputs
far() {
  /usr/bin/python3 -c '
import sys, numpy as np
a, b = np.load(sys.argv[1]), np.load(sys.argv[2])
print(max(np.linalg.norm(a[k].astype("f8") - b[k]) / np.linalg.norm(b[k]) for k in b.files))' "$1" "$2"
}
between() { /usr/bin/python3 -c 'import sys; a, x, b = map(float, sys.argv[1:]); sys.exit(not a < x < b)' "$@"; }

# Fewer bits, with no larger error than they cause.
models=0
for model in "$gpt" "$moe" "$resnet" "$lstm"; do
  in_quarter $((models++)) || continue
  # shellcheck disable=SC2086
  expect 0 "" "$apc" run $model -q --outputs f32.npz
  for type in "f16 1e-5 2e-3" "bf16 1e-4 1.6e-2"; do
    read -r name least most <<<"$type"
    # shellcheck disable=SC2086
    expect 0 "" "$apc" run $model -q --dtype "$name" --outputs got.npz
    check "$name: $(far got.npz f32.npz)" between "$least" "$(far got.npz f32.npz)" "$most"
  done
done

# Proved, and equal to one rank and to the original model: with a cache, and with every kind of cut.
for how in "--tp 2" "--dp 2" "--pp 2 --micro-batches 2"; do
  # shellcheck disable=SC2086
  expect 0 "proved" "$apc" verify $gpt -q --target cpux2 $how --dim batch=4 --dim seq=12 --dtype bf16
  expect_out "pass narrow"
done
# shellcheck disable=SC2086
{
  expect 0 "proved" "$apc" verify $llama -q --target cpux2 --tp 2 --dim batch=2 --dim seq=8 --dtype f16
  expect 0 "proved" "$apc" verify $moe -q --target cpux2 --dim batch=2 --dim seq=6 --dtype bf16
  # also beyond the first blocks of kernels: of equal elements the same one is the largest in a pool
  expect 0 "proved" "$apc" verify $resnet -q --target cpu --dim batch=1 --dtype bf16
  # tf32 is a permission that CPUs do not use
  expect 0 "proved" "$apc" verify $gpt -q --target cpux2 --tp 2 --dtype tf32
  expect 0 "" "$apc" run $gpt -q --outputs f32.npz
  expect 0 "" "$apc" run $gpt -q --dtype tf32 --outputs got.npz
  check "tf32 on a CPU: $(far got.npz f32.npz)" test "$(far got.npz f32.npz)" = 0.0
}

# The casts are in the IR; weights are cast once; the planned types are emitted.
# shellcheck disable=SC2086
{
  expect 0 "" "$apc" plan $gpt -q --target dgx-a100x4 --tp 4 --dtype bf16 --emit=ir=ir,schedule=calls
  check "no cast of a weight" grep -q 'wte.*= cast .*to=bf16' ir
  check "products of f32" bash -c '! grep -E "= dot .*f32" ir'
  check "bias and relu join 16-bit products" grep -q 'EPILOGUE_BIAS.*bf16' calls
  check "no 16-bit communication" grep -q ncclBfloat16 calls
  check "f32 is sent" bash -c '! grep ncclFloat32 calls'
  expect 0 "" "$apc" plan $gpt -q --target dgx-a100x4 --dtype tf32 --emit=schedule=calls
  check "no tf32 products" grep -q 'f32, tf32' calls
  expect 0 "" "$apc" plan "$source_dir/tests/doubles/convolutions.apc" -q --dim batch=2 --target dgx-a100x1 --dtype tf32 --emit=schedule=convs
  check "no tf32 convolutions" grep -q '; cuDNN may do it, in tf32$' convs
  expect 0 "" "$apc" plan "$source_dir/tests/doubles/convolutions.apc" -q --dim batch=2 --target dgx-a100x1 --emit=schedule=convs
  check "convolutions that cuDNN may do" grep -q '; cuDNN may do it$' convs
  expect 0 "" "$apc" plan $gpt -q --target dgx-a100x4 --emit=schedule=calls
  check "tf32 without a request" bash -c '! grep tf32 calls'
  expect 5 "do not compute in fp8 yet" "$apc" run $gpt --dtype fp8; no_out
}
summary 44 32
