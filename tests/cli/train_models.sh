#!/bin/bash
# Training of models: attention, rotations, tied tables, convolutions and pools, in f32 and in bf16.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
train_tokens
models=0
next() { in_quarter $((models++)); } # true if a model is in this quarter

# Stages, ZeRO, schedules and recomputation together.
for how in "--zero 1" "--zero 3 --schedule zbh1" "--zero 2 --schedule zbv --recompute full"; do
  next || continue
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify $gpt -D layers=2 -q --train cross_entropy --optimizer 'adamw(clip=1.0)' --batch 8 --target cpux4 --pp 2 \
    --dp 2 --micro-batches 2 $how
  check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
done

# Attention with rotations, tied tables, convolutions and pools can be trained as well.
resnet="$source_dir/examples/resnet.apc -D depth=18 -D width=4 -D classes=5 -D image=16"
for model in "$gpt --dp 2" "$llama --tp 2" "$gpt --micro-batches 2" "$resnet -D frozen=1 --dp 2 --micro-batches 2" \
  "$gpt --pp 2 --micro-batches 4" "$resnet -D frozen=1 --pp 2" "$gpt --pp 2 --micro-batches 2 --schedule zbv" \
  "$gpt --pp 2 --micro-batches 3 --schedule interleaved:2 --recompute full"; do
  next || continue
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify $model -q --train cross_entropy --batch 4 --target cpux2
  check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
done

# A weight that several stages read: each accumulates its own gradient, and passes one sum on, after all micro-batches.
printf '%s\n' 'param d = 12' 'dim batch' 'entry main(x: f32[batch, d]) {' '  weight w : f32[d, d] = normal(0.5)' \
  '  for i in 0..4 scope "layers.{i}" { x = relu(einsum("bm,mn->bn", x, w)) + x }' '  output y = x' '}' >same.apc
for how in "--pp 4 --schedule zbh1" "--pp 2 --dp 2 --zero 2" "--pp 2 --tp 2 --schedule interleaved:2" "--pp 2 --schedule zbv"; do
  next || continue
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify same.apc -q --train mse --optimizer 'adamw(clip=1)' --batch 12 --target cpux4 --micro-batches 2 $how
  check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
done
expect 0 "" "$apc" compile same.apc -q -D d=96 --train mse --batch 512 --target cpux4 --pp 4 --micro-batches 2 --emit=spmd=-
grep ' = transfer .*: f32\[96, 96\]' out | sort -u >moved
check "gradients of w are sent after all micro-batches" eval '! grep -Eq " (bwd|wgt)" moved && test "$(grep -c " step" moved)" -eq 3'
check "each by way of the next stage" eval '! grep -q "stage=0.* stage [23] step" moved'
# In bf16 only products are computed in 16 bits: states keep f32, casts of weights are in the IR, and a run is close to
# that of f32.
for model in "$gpt --dp 2" "$llama --tp 2" "$gpt --dp 2 --micro-batches 2"; do
  next || continue
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify $model -q --train cross_entropy --batch 4 --dtype bf16 --target cpux2
  check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
done
gpt_trainer --dtype bf16 --target cpu --emit=ir=- >step.ir
check "states of f32" eval 'grep -q "^state \"wte\" : f32" step.ir && ! grep -q "^state .* : bf16" step.ir'
check "a cast in every step" grep -q "%wte.bf16 = cast %wte {to=bf16}" step.ir
check "products of bf16" grep -q "%logits.grad.dot.* : bf16" step.ir
check "no update of bf16" eval '! grep "update\." step.ir | grep -v "cast" | grep -q ": bf16"'
check "a loss of f32" grep -q "loss.cross_entropy = .* : f32" step.ir
for type in f32 bf16; do
  gpt_trainer --target cpux2 --optimizer "adamw(lr=1e-2)" --dtype $type -o words_$type
  ./words_$type --steps 30 --data tokens=@shards --save $type.safetensors --json | losses /dev/stdin >$type.txt
done
check "losses of bf16" near bf16.txt f32.txt 2e-2
check "they are others" eval '! cmp -s bf16.txt f32.txt'
check "it learns" /usr/bin/python3 -c '
x = [float(l) for l in open("bf16.txt")]; assert sum(x[-10:]) < sum(x[:10]) - .5, x'
check "all weights are f32" eval '! strings bf16.safetensors | grep -q BF16'
# Moments of the comparison are positive: rounding would turn the root of some negative ones into NaN.
if next; then
  expect 0 "" "$apc" verify "$source_dir/examples/mlp.apc" -q -D layers=2 -D d=32 -D hidden=64 --train mse --dtype bf16
fi
summary 48 18
