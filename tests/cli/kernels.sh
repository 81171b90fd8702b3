#!/bin/bash
# Kernels of models: their number does not grow with the layers.
. "$(dirname "$0")/lib.sh"

for model in gpt llama; do
  for layers in 2 12; do
    expect 0 "" "$apc" "$source_dir/examples/$model.apc" -q --target cpux2 -D layers=$layers -D d=32 -D heads=4 -D ffn=64 -D vocab=96 --emit c=$model$layers.c
    grep '^void k' $model$layers.c >$model$layers.names
  done
  check "$model has as many kernels with 12 layers as with 2" cmp -s ${model}2.names ${model}12.names
  check "$model has kernels" test -s ${model}2.names
done
summary 6
