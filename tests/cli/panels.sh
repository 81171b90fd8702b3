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

# Weights of 16 bits are in panels of their type, also those of heads and beside a table that is looked up.  A program
# gives the same bits with f32 panels of the same numbers, and on one rank and on two that share rows or columns.
packs 7 "${gpt[@]}" --dtype f16
packs 7 "${gpt[@]}" -D tied=0 --dtype bf16
packs 8 "${llama[@]}" -D cache=1 --dtype bf16
check "panels of another type" test "$(grep -c '^  pack .*bf16.*bf16' program)" = 8
cat >tied.apc <<'APC'
dim batch
entry main(x: i64[batch, 3]) {
  weight t : f32[100, 33] = normal(1)
  weight h : f32[33, 2, 16] = normal(1)
  rows = gather(t, x)
  output y = einsum("bsd,dhe->bhse", rows, h)
  output z = einsum("bsd,vd->bsv", rows, t)
  weight w : f32[33, 40] = normal(1)
  output u = einsum("bsd,dn->bsn", rows + rows, w)
}
APC
expect 0 "" "$apc" convert tied.apc t.safetensors -q
/usr/bin/python3 - <<'PY'
import json, struct
raw = open("t.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head, data = json.loads(raw[8 : 8 + n]), raw[8 + n :]
for kind in "BF16", "F32":
    out, blob = {}, b"" if kind == "F32" else b"\0"
    for name, x in head.items():
        if name == "__metadata__":
            continue
        a, b = x["data_offsets"]
        high = b"".join(data[i + 2 : i + 4] if kind == "BF16" else b"\0\0" + data[i + 2 : i + 4] for i in range(a, b, 4))
        out[name] = {"dtype": kind, "shape": x["shape"], "data_offsets": [len(blob), len(blob) + len(high)]}
        blob += high
    if kind == "BF16":
        out[""] = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
    text = json.dumps(out).encode()
    open(kind + ".safetensors", "wb").write(struct.pack("<Q", len(text)) + text + blob)
PY
for kind in BF16 F32; do
  for how in "cpu" "cpux2 --dp 2" "cpux2 --tp 2"; do
    expect 0 "" "$apc" tied.apc --weights $kind.safetensors --dim batch=4 --target $how -q -o program
    expect 0 "" ./program --input random:3 --outputs "$kind-$how.npz"
  done
done
expect 0 "" /usr/bin/python3 -c "
import struct, zipfile
def read(name, key):
    raw = zipfile.ZipFile(name + '.npz').read(key + '.npy')
    data = raw[10 + struct.unpack('<H', raw[8:10])[0] :]
    return struct.unpack('<%df' % (len(data) // 4), data)
for key in 'yzu':
    one = read('BF16-cpu', key)
    assert all(read('BF16-cpux2 --' + how, key) == one for how in ('dp 2', 'tp 2')), 'other bits on two ranks'
    assert max(abs(a - b) for a, b in zip(one, read('F32-cpu', key))) < 1e-5 * max(map(abs, one)), 'other numbers'
assert read('BF16-cpu', 'u') == read('F32-cpu', 'u'), 'other bits'"
packs 3 tied.apc --weights BF16.safetensors
check "the product and the lookup do not read 16 bits" \
  bash -c 'grep -q "^  gemm .*:bf16\[7, 34, 16\]" program && grep -q "^  launch .*:bf16\[100, 33\]" program'
expect 0 "proved" "$apc" verify tied.apc --weights BF16.safetensors --target cpux2 --dp 2 -q

# Two ranks share the tokens of prefill; in decode one of them has none.  All products of both entries read the panels.
cached=("$examples/llama.apc" -D cache=1 -D layers=1 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=32 -D vocab=61 -D ctx=24
  --target cpux2 --cp 2 --dim batch=2 --dim-hint seq=8)
packs 8 "${cached[@]}" --dtype f16
check "$(grep -c '^  gemm .*:f16\[[0-9]*, 32, 16\]' program) products read panels, not 16" \
  test "$(grep -c '^  gemm .*:f16\[[0-9]*, 32, 16\]' program)" = 16
for type in f16 bf16; do
  expect 0 "" "$apc" verify "${cached[@]}" --dtype $type -q
done
expect 0 "" "$apc" verify "${cached[@]}" -D slots=1 -D layers=2 --dtype f16 -q

# A weight of 16 bits has one set of panels: products that read another matrix in it read an f32 weight, or its tensor
# if they are of another entry.
cat >both.apc <<'APC'
dim batch
entry up(x: f32[batch, 48]) {
  weight w : f32[48, 32] = normal(1)
  output u = einsum("bd,dh->bh", x, w)
}
entry down(y: f32[batch, 32]) {
  weight w : f32[48, 32] = normal(1)
  output v = einsum("bh,dh->bd", y, w)
}
entry main(x: f32[batch, 48]) {
  weight w : f32[48, 32] = normal(1)
  output z = einsum("bh,dh->bd", einsum("bd,dh->bh", x, w), w)
}
APC
packs 2 both.apc --dtype f16
check "not two products read the panels of 16 bits" test "$(grep -c '^  gemm .*:f16\[2, 48, 16\]' program)" = 2
check "not one product reads panels of f32" test "$(grep -c '^  gemm .*:f32\[3, 32, 16\]' program)" = 1
expect 0 "" "$apc" verify both.apc --dtype f16 --dim batch=3 -q

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
summary 73
