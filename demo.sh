#!/usr/bin/env bash
# ./demo.sh: builds apc and shows its main job on this machine: a model exported by PyTorch becomes one program for four
# ranks, which is planned, run, compared with PyTorch's own outputs, and verified.
set -euo pipefail
cd "$(dirname "$0")"
. tools/setup.sh

install_missing $build_packages || exit 5
say "building apc into build/"
build_preset release build apc apcrt-stub apcrt apc-opt

model=examples/gpt-tiny.onnx inputs=examples/gpt-tiny.inputs.npz outputs=examples/gpt-tiny.outputs.npz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
show() { printf '\n$ %s\n' "$*"; "$@"; }

show build/apc inspect $model
show build/apc plan $model --target cpux4
show build/apc $model --target cpux4 -o "$work/gpt"
show "$work/gpt" --inputs $inputs --outputs "$work/out.npz"
show build/apc run $model --target cpux4 --inputs $inputs --expect $outputs
show build/apc verify $model --target cpux4 --tp 2 --dp 2
say "done: the program computed what PyTorch computed, and the plan was proved"
