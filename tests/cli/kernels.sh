#!/bin/bash
# Kernels of models: their number does not grow with the layers, and no kernel overwrites a value that it reads
# elsewhere.
. "$(dirname "$0")/lib.sh"

for model in gpt llama; do
  for layers in 2 12; do
    expect 0 "" "$apc" "$source_dir/examples/$model.apc" -q --target cpux2 -D layers=$layers -D d=32 -D heads=4 -D ffn=64 -D vocab=96 --emit c=$model$layers.c
    grep '^void k' $model$layers.c >$model$layers.names
  done
  check "$model has as many kernels with 12 layers as with 2" cmp -s ${model}2.names ${model}12.names
  check "$model has kernels" test -s ${model}2.names
done

# The kernel that makes z reads a row of x, which is a view: z cannot overwrite x.
cat >row.apc <<'END'
entry main(a: f32[64, 256]) {
  x = relu(a)
  z = x - x[0:1]
  output y = softmax(z, 1)
  output s = sum(z, 1)
}
END
/usr/bin/python3 -c 'import numpy as np; np.save("a.npy", np.random.default_rng(0).normal(size=(64, 256)).astype("f"))'
for target in cpu cpux2; do
  expect 0 "" "$apc" row.apc -q --target $target -o row
  expect 0 "" ./row --input a=@a.npy --output y=@y.npy --output s=@s.npy
  check "$target: what a kernel overwrites is read" /usr/bin/python3 -c '
import numpy as np
x = np.maximum(np.load("a.npy"), 0)
z = x - x[:1]
e = np.exp(z - z.max(1, keepdims=True))
assert np.abs(np.load("s.npy") - z.sum(1)).max() < 1e-4
assert np.abs(np.load("y.npy") - e / e.sum(1, keepdims=True)).max() < 1e-6'
done
summary 12
