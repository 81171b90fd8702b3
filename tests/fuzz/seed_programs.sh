#!/bin/sh
# Writes seeds for fuzz_program and fuzz_artifact to FOLDER/program and FOLDER/artifact: models of this tree, compiled
# by this build, so that they always have the format under test.
# usage: seed_programs.sh BUILD FOLDER
set -e
build=$1 folder=$2
source=$(dirname "$0")/../..
mkdir -p "$folder/program" "$folder/artifact"
sizes="--dim-hint batch=4 --dim-hint seq=4 -D layers=1 -D d=8 -D heads=2 -D vocab=16 -D ctx=8"

seed() { # NAME MODEL OPTIONS
  name=$1 model=$2
  shift 2
  "$build/apc" "$source/$model" -q "$@" -o "$folder/compiled"
  "$build/tests/fuzz_cut" "$folder/compiled" "$folder/program/$name" "$folder/artifact/$name"
  rm "$folder/compiled"
}

seed stages examples/gpt.apc $sizes --target cpux4 --tp 2 --pp 2 --micro-batches 2
seed uneven examples/gpt.apc $sizes --target cpux3
seed loops tests/cli/rounds/search.ir --target cpux2 --tp 2
seed states examples/llama.apc $sizes -D kv_heads=2 -D ffn=16 -D cache=1 --target cpux2 --tp 2
seed spatial tests/fuzz/seeds/ir/spatial.ir --target cpux2 --plan "$source/tests/fuzz/spatial.plan"
seed experts examples/moe.apc --dim-hint batch=4 --dim-hint seq=4 -D layers=1 -D d=8 -D heads=2 -D kv_heads=2 -D ffn=16 -D vocab=16 -D experts=4 -D routing=dropless --target cpux4 --ep 4
