#!/bin/bash
# Training of models: attention, rotations, tied tables, convolutions and pools, in f32 and in bf16.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
train_tokens

# Stages, ZeRO, schedules and recomputation together.
for how in "--zero 1" "--zero 3 --schedule zbh1" "--zero 2 --schedule zbv --recompute full"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify $gpt -D layers=2 -q --train cross_entropy --optimizer 'adamw(clip=1.0)' --batch 8 --target cpux4 --pp 2 \
    --dp 2 --micro-batches 2 $how
  expect_out "proved   the parallel program"
done

# Attention with rotations, tied tables, convolutions and pools are trained through as well.
resnet="$source_dir/examples/resnet.apc -D depth=18 -D width=4 -D classes=5 -D image=16"
for model in "$gpt --dp 2" "$llama --tp 2" "$gpt --micro-batches 2" "$resnet -D frozen=1 --dp 2 --micro-batches 2" \
  "$gpt --pp 2 --micro-batches 4" "$resnet -D frozen=1 --pp 2" "$gpt --pp 2 --micro-batches 2 --schedule zbv" \
  "$gpt --pp 2 --micro-batches 3 --schedule interleaved:2 --recompute full"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify $model -q --train cross_entropy --batch 4 --target cpux2
  expect_out "proved   the parallel program"
done
# In bf16 products are, and nothing else: states keep f32, casts of weights stand in the IR, and a run is that of f32.
for model in "$gpt --dp 2" "$llama --tp 2" "$gpt --dp 2 --micro-batches 2"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify $model -q --train cross_entropy --batch 4 --dtype bf16 --target cpux2
  expect_out "proved   the parallel program"
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
summary 37
