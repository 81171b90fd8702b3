#!/bin/bash
# Behaviour of a model that differs in training: dropout, batch norm by the batch, `training` itself.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"

/usr/bin/python3 -c '
import numpy as np
r = np.random.default_rng(0)
np.save("ones.npy", np.ones((8, 64), "f4")), np.save("none.npy", np.zeros((8, 64), "f4"))
np.save("image.npy", (3 + 2 * r.standard_normal((12, 3, 4, 4))).astype("f4"))
np.save("zeros.npy", np.zeros((12, 3, 4, 4), "f4"))'

# Masks are those of one rank however the batch and the row are cut, differ in every step, and are absent in evaluation.
cat >dropped.apc <<'M'
import nn
dim batch
entry main(x: f32[batch, 64]) {
  weight w : f32[64, 64] = constant(0.015625)
  output y = dropout(matmul(x, w), 0.25)
}
M
cat >twice.apc <<'M'
import nn
dim batch
entry main(x: f32[batch, 64]) {
  weight w : f32[64, 64] = constant(0.015625)
  x = dropout(matmul(x, w), 0.25)
  x = dropout(x, 0.25)
  output y = x
}
M
cuts=0
for model in dropped twice; do
  for cut in "--target cpu" "--target cpux2 --dp 2" "--target cpux2 --tp 2" "--target cpux4 --dp 2 --tp 2" \
    "--target cpu --micro-batches 4" "--target cpux2 --dp 2 --micro-batches 2"; do
    [ $model = twice ] && [[ $cut = *tp* ]] && continue
    [ "$cut" = "--target cpu" ] || in_quarter $((cuts++)) || continue
    # shellcheck disable=SC2086
    expect 0 "" "$apc" compile $model.apc -q --train mse --optimizer 'sgd(lr=0)' --batch 8 $cut -o trainer
    expect 0 "" ./trainer --steps 6 --data x=@ones.npy --data labels=@none.npy --json --eval x=@ones.npy \
      --eval labels=@none.npy
    cp out "$model$cut.json"
    check "$cut: eval has no dropout" grep -q '"eval_loss":1,' out
    grep -v eval_loss out | losses /dev/stdin >"$model.got"
    [ "$cut" = "--target cpu" ] && cp "$model.got" "$model.want"
    check "$model, $cut: the masks of one rank" near "$model.got" "$model.want" 1e-6
  done
done
check "in each step another mask, of the right density" /usr/bin/python3 -c '
for name, power in ("dropped", 1), ("twice", 2):
    x = [float(l) for l in open(name + ".want")]
    assert len(set(x)) == 6, x
    kept = [l * .75 ** (2 * power) * 512 for l in x]                 # whole numbers of elements
    assert all(abs(k - round(k)) < 1e-2 and abs(k / 512 - .75 ** power) < .08 for k in kept), kept'
expect 0 "" "$apc" verify dropped.apc -q --train mse --batch 8 --target cpux4 --dp 2 --tp 2
check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
expect 0 "" "$apc" plan dropped.apc -q --dim batch=8 --emit=ir=- && check "nothing is drawn without training" eval '! grep -q random out'
sed 's/0.25/1.0/' dropped.apc >all.apc
expect 1 "which is not in [0, 1)" "$apc" plan all.apc --dim batch=8

# Batch norm: by the batch in training, whose statistics are saved under the names of the buffers; by the buffers
# elsewhere.
cat >normed.apc <<'M'
import nn
dim batch
entry main(x: f32[batch, 3, 4, 4]) {
  weight w : f32[3, 3] = normal(1)
  output y = batch_norm(einsum("nchw,oc->nohw", x, w)) as "bn"
}
M
for cut in "--target cpu" "--target cpux2 --dp 2" "--target cpux3 --dp 3" "--target cpux2 --dp 2 --zero 1" \
  "--target cpux3 --dp 3 --zero 3"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" compile normed.apc -q --train mse --optimizer 'sgd(lr=.1,train=bn.*)' --batch 6 $cut -o trainer
  expect 0 "" ./trainer --steps 4 --data x=@image.npy --data labels=@zeros.npy --shuffle none --json --save w.safetensors \
    --eval x=@image.npy --eval labels=@zeros.npy --checkpoint at
  check "statistics are not trained" grep -q "^trains 2 of 3 weights, 6 of 15$" err
  check "batch norm, $cut" /usr/bin/python3 "$source_dir/tests/cli/normed.py" gain bias mean variance
done
expect 0 "" ./trainer --steps 8 --data x=@image.npy --data labels=@zeros.npy --save whole.safetensors
expect 0 "" ./trainer --steps 3 --data x=@image.npy --data labels=@zeros.npy --checkpoint half
expect 0 "" ./trainer --steps 8 --data x=@image.npy --data labels=@zeros.npy --resume half --save rest.safetensors
check "statistics go on" cmp whole.safetensors rest.safetensors
expect 0 "" "$apc" verify normed.apc -q --train mse --batch 6 --target cpux2 --dp 2
check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
expect_out "state bn.mean"
expect 3 '"bn.apart.broadcast" cannot be cut into 2 micro-batches' "$apc" plan normed.apc -q --train mse --batch 6 \
  --micro-batches 2
resnet="$source_dir/examples/resnet.apc -D depth=18 -D width=4 -D classes=5 -D image=32"
# shellcheck disable=SC2086
{
expect 0 "" "$apc" verify $resnet -q --train cross_entropy --batch 4 --target cpux2 --dp 2
for zero in 1 2 3; do
  in_half $zero || continue
  expect 0 "dp 2, zero $zero" "$apc" plan $resnet -q --train cross_entropy --batch 4 --target cpux2 --dp 2 --zero $zero
  expect 0 "" "$apc" verify $resnet -q --train cross_entropy --batch 4 --target cpux2 --dp 2 --zero $zero
done
expect 0 "" "$apc" verify $resnet -D frozen=1 -q --train cross_entropy --batch 4 --target cpux2 --dp 2 --micro-batches 2
}

# The name `training`, and a separate entry for evaluation.
printf '%s\n' 'dim batch' 'entry main(x: f32[batch, 64]) {' '  weight w : f32[64] = ones' '  output y = x * w * (2 + training)' '}' \
  >own.apc
printf '%s\n' 'entry eval(x: f32[batch, 64]) {' '  weight w : f32[64] = ones' '  output y = x * w * (5 + training)' '}' >more
for file in own.apc more; do
  [ $file = more ] && cat more >>own.apc
  expect 0 "" "$apc" compile own.apc -q --train mse --optimizer 'sgd(lr=0)' --batch 8 -o trainer
  expect 0 "step 1  loss 9 " ./trainer --steps 1 --data x=@ones.npy --data labels=@none.npy --eval x=@ones.npy --eval labels=@none.npy
  if [ $file = more ]; then expect_out "loss 25 "; else expect_out "eval after step 1  loss 4 "; fi
done
printf '%s\n' 'dim batch' 'entry main(x: f32[batch, 4]) {' '  buffer b : f32[4] = zeros' '  b <- b + 1' '  output y = x * b' '}' >wrote.apc
expect 1 "or in training a buffer" "$apc" plan wrote.apc --dim batch=8
printf '%s\n' 'dim batch' 'entry eval(x: f32[batch, 4]) {' '  weight w : f32[4] = ones' '  output y = x * w' '}' >only.apc
expect 5 "the model's only entry is called 'eval'" "$apc" plan only.apc --train mse --batch 8
summary 73 45
