#!/usr/bin/env bash
# ./demo.sh: builds apc and demonstrates it on this machine: a model exported from PyTorch becomes one program for four
# ranks, which is planned, run, compared with PyTorch's own outputs, and verified.
#
#   ./demo.sh --torch    exports the model again with examples/export_gpt.py (installs python3-torch, about 1 GB)
set -euo pipefail
cd "$(dirname "$0")"
. tools/setup.sh

install_missing $build_packages || exit 5
say "building apc into build/"
build_preset release build apc apcrt-stub apcrt apc-opt

model=examples/gpt-tiny.onnx inputs=examples/gpt-tiny.inputs.npz outputs=examples/gpt-tiny.outputs.npz
sizes="--dim-hint batch=4 --dim-hint seq=32"
mkdir -p build/demo
if [ "${1:-}" = --torch ]; then
  install_missing python3-torch python3-numpy || exit 5
  mkdir -p build/demo
  say "exporting a GPT from PyTorch"
  /usr/bin/python3 examples/export_gpt.py build/demo/fresh
  model=build/demo/fresh.onnx inputs=build/demo/fresh.inputs.npz outputs=build/demo/fresh.outputs.npz
fi
show() { printf '\n$ %s\n' "$*"; "$@"; }

show build/apc inspect $model
show build/apc plan $model --target cpux4 $sizes --emit=html=build/demo/gpt.html
show build/apc $model --target cpux4 $sizes -o build/demo/gpt
show build/demo/gpt --inputs $inputs --outputs build/demo/out.npz
show build/apc run $model -q --target cpux4 $sizes --inputs $inputs --expect $outputs
show build/apc verify $model -q --target cpux4 $sizes --tp 2 --dp 2
say "done: the program computed what PyTorch computed, and the plan was proved"
echo "the plan as a page: build/demo/gpt.html"
