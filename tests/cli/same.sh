#!/bin/bash
# Same input, same output bytes: every kind of output twice, from two folders, with all processors and with one, in two
# environments.
. "$(dirname "$0")/lib.sh"
one_cpu=$(/usr/bin/python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
mkdir -p a b/deeper
twice() { # twice NAME MODEL OPTION...
  local name=$1 model=$2
  shift 2
  last="twice $name: $model $*"
  (cd a && "$apc" "$model" -q "$@" -o "$name") >out 2>err || fail "exit $?"
  (cd b/deeper && mkdir -p tmp && HOME=$work TMPDIR=$PWD/tmp LC_ALL=C COLUMNS=33 taskset -c "$one_cpu" setarch -R "$apc" "$model" -q "$@" -o "$name") >out 2>err ||
    fail "exit $?"
  check "the bytes differ" cmp "a/$name" "b/deeper/$name"
  check "the temporary folder is not empty" test -z "$(ls b/deeper/tmp)"
}
gpt=$source_dir/examples/gpt-tiny.onnx resnet="$source_dir/examples/resnet.apc" llama="$source_dir/examples/llama.apc"
small_resnet="-D depth=18 -D width=8 -D classes=10 -D image=32 --dim batch=4"
small_llama="-D layers=2 -D d=64 -D heads=4 -D kv_heads=2 -D ffn=128 -D vocab=256"
# shellcheck disable=SC2086
{
  twice gpt1 "$gpt"
  twice gpt4 "$gpt" --target cpux4
  twice gpt_ref "$gpt" --target cpux2 --weights ref
  twice resnet "$resnet" $small_resnet --target cpux2
  twice llama "$llama" $small_llama --target cpux4 --tp 2 --pp 2
  twice llama_auto "$llama" $small_llama --target cpux3
}
for kind in plan ir spmd schedule c dot html; do twice "gpt.$kind" "$gpt" --target cpux4 --emit=$kind; done
for kind in cuda schedule; do twice "gpu.$kind" "$gpt" --target dgx-a100x4 --emit=$kind; done
# outputs of convert
for to in ir safetensors npz; do
  for folder in a b/deeper; do (cd $folder && "$apc" convert "$gpt" "w.$to" -q) >out 2>err || fail "convert"; done
  last="convert to $to"; check "the bytes differ" cmp "a/w.$to" "b/deeper/w.$to"
done
summary 30
