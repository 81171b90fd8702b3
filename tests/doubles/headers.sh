#!/bin/sh
# Compares the functions, types and numbers of the doubles with NVIDIA's own headers, if present: SOURCE_DIR [FOLDER...]
cd "$1" && shift || exit 2
for folder in "$@" "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/include; do
  [ -f "$folder/cuda.h" ] && break
done
[ -f "$folder/cuda.h" ] || { echo "skipped: no cuda.h"; exit 77; }
for source in tests/doubles/*.c; do
  case $source in *_test.c) continue ;; esac
  cc -std=gnu11 -fsyntax-only -w -DDOUBLES_REAL_HEADERS -DDOUBLES_SOURCE_DIR='""' -I. -I"$folder" "$source" || exit 1
done
