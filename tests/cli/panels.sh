#!/usr/bin/env bash
# tests/cli/panels.sh APC - the weights of products that @prepare packs into panels on CPUs; results do not depend on
# how ranks share a product.
. "$(dirname "$0")/lib.sh"

# packs COUNT MODEL OPTIONS...: the number of `pack` in the Program.
packs() {
  local count=$1
  shift
  expect 0 "" "$apc" "$@" -q --emit=schedule=program
  check "$*: $(grep -c '^  pack' program) weights in panels, not $count" test "$(grep -c '^  pack' program)" = "$count"
  check "$*: a load in front of a pack that does not say it is for that alone" \
    awk '/^  pack/ && load ~ /^  load/ && load !~ / packed  #/ { exit 1 } { load = $0 }' program
}
examples=$source_dir/examples
mlp=("$examples/mlp.apc" -D layers=2 -D d=40 -D hidden=64)
packs 4 "${mlp[@]}"
check "the product does not read them" grep -Eq '^  gemm .* b[0-9]+:f32\[4, 40, 16\] ' program
packs 4 "${mlp[@]}" --target cpux2 --tp 2
packs 0 "$examples/mlp.apc" -D layers=2 -D d=8 -D hidden=8
packs 0 "${mlp[@]}" --target dgx-a100x4
# A table that is also gathered from stays as it is, and so do weights of products per head; entries that share a weight
# share its panels.
gpt=("$examples/gpt.apc" -D layers=1 -D d=64 -D heads=4 -D vocab=100 -D ctx=32)
packs 3 "${gpt[@]}"
packs 4 "${gpt[@]}" -D tied=0
llama=("$examples/llama.apc" -D layers=1 -D d=64 -D heads=4 -D kv_heads=4 -D ffn=96 -D vocab=100 -D ctx=32)
packs 6 "${llama[@]}" -D cache=1
packs 6 "${llama[@]}" -D cache=1 --target cpux2 --pp 2

# Incomplete panels, weights by columns, from @prepare, of a stage.
for options in "--target cpux3" "--target cpux4 --tp 4" "--target cpux2 --pp 2" "--target cpux2 --dp 2"; do
  expect 0 "" "$apc" verify "${gpt[@]}" -D tied=0 $options --seed 3 -q
  expect 0 "" "$apc" verify "${llama[@]}" $options --seed 3 -q
done
expect 0 "" "$apc" verify "$examples/gpt-tiny.onnx" --target cpux4 --tp 2 -q

# One rank and two that share the columns of all products give the same bits.
columns=("$examples/mlp.apc" -D layers=1 -D d=48 -D hidden=96 --dim batch=7)
expect 0 "" "$apc" "${columns[@]}" -q -o one
expect 0 "" "$apc" "${columns[@]}" --target cpux2 --dp 2 -q -o two
expect 0 "" ./one --input random:3 --outputs one.npz
expect 0 "" ./two --input random:3 --outputs two.npz
expect 0 "" /usr/bin/python3 -c "
import numpy as np
a, b = np.load('one.npz'), np.load('two.npz')
assert all((a[k] == b[k]).all() for k in a), 'other bits'"
summary 31
