#!/usr/bin/env bash
# tests/cli/packed.sh APC - --weights-dtype: weights of products in 8 and 4 bits.
. "$(dirname "$0")/lib.sh"
examples=$source_dir/examples
mlp=("$examples/mlp.apc" -D d=64 -D hidden=100 -D layers=1 --dim batch=5)

# The form of the option, and what it cannot be combined with.
for form in int3 int4:33 int4:0 int4:544 int8: int8:x bf16; do
  expect 2 "does not take '$form'" "$apc" plan "${mlp[@]}" -q --weights-dtype "$form"
done
expect 2 "--weights ref cannot be combined with it" "$apc" "${mlp[@]}" -q --weights-dtype int8 --weights ref
expect 5 APC0644 "$apc" "${mlp[@]}" -q --weights-dtype int4 --emit=onnx
expect 5 APC0644 "$apc" "${mlp[@]}" -q --weights-dtype int4 --emit=ir
expect 1 "no weight of a product" "$apc" plan "$examples/mlp.apc" -D d=8 -D hidden=8 -D layers=1 -q --weights-dtype int4

# Ranks that share groups of the summed index, or columns, against one; what the fewer bits change: 100 columns are not
# whole panels, and 100 summed terms no whole groups, so one of two products stays in f32.
error_below() { # error_below MOST LEAST
  expect_json "d['ok'] and $2 < d['outputs'][0]['weights_rel_l2'] < $1 and d['outputs'][0]['reference_rel_l2'] < 1e-5"
}
expect 0 "" "$apc" verify "${mlp[@]}" -q --json --weights-dtype int8 --target cpux2 --tp 2
error_below 0.01 0.0005
expect 0 "" "$apc" verify "${mlp[@]}" -q --json --weights-dtype int4:64 --target cpux2 --dp 2
error_below 0.2 0.02

# Parts of a joined weight, by columns and in heads; a table that is looked up as well; a weight that is added, too, and
# so stays in f32.
cat >views.ir <<'IR'
apc.ir 1
symbol b hint 3
param "w" : f32[64, 96] = normal 0.1 seed 1
param "t" : f32[100, 64] = normal 0.1 seed 2
param "u" : f32[64, 64] = normal 0.1 seed 3
func @main level 1 {
  %x = input {name="x"} : f32[b, 64]
  %i = input {name="i"} : i64[b]
  %w = param {name="w"} : f32[64, 96]
  %t = param {name="t"} : f32[100, 64]
  %u = param {name="u"} : f32[64, 64]
  %part = slice %w {starts=[0, 32], strides=[1, 1]} : f32[64, 64]
  %turned = transpose %part {perm=[1, 0]} : f32[64, 64]
  %y = dot %x, %turned {spec="bk,nk->bn"} : f32[b, 64]
  %heads = reshape %part : f32[64, 4, 16]
  %h = dot %x, %heads {spec="bd,dhe->hbe"} : f32[4, b, 16]
  %back = reshape %turned : f32[4, 16, 64]
  %o = dot %h, %back {spec="hbe,hed->bd"} : f32[b, 64]
  %rows = gather %t, %i {axis=0, start=0} : f32[b, 64]
  %sum = add %o, %rows : f32[b, 64]
  %l = dot %sum, %t {spec="bd,vd->bv"} : f32[b, 100]
  %s = dot %u, %u {spec="ij,jk->ik"} : f32[64, 64]
  %z = dot %y, %u {spec="bd,de->be"} : f32[b, 64]
  output "y" %y
  output "l" %l
  output "z" %z
  output "s" %s
}
IR
expect 0 "" "$apc" verify views.ir -q --json --weights-dtype int8 --target cpux2 --tp 2
expect_json "d['ok'] and [o['weights_rel_l2'] > 1e-4 for o in d['outputs']] == [True, True, True, False]"
check "how many weights change is not said" \
  bash -c '"$1" plan views.ir --weights-dtype int8 2>&1 | grep -q "3 weights of products, .* 1 others stay"' - "$apc"

# Every element of a weight is right to half of a step of its group.  A weight of ones is exact.
/usr/bin/python3 - <<'PY'
import json, struct, random
random.seed(1)
def write(name, tensors):
    head, data = {}, b""
    for key, (shape, values) in tensors.items():
        raw = struct.pack("<%df" % len(values), *values)
        head[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + data)
n = 64
eye = [1.0 if i == j else 0.0 for i in range(n) for j in range(n)]
w = [random.gauss(0, 1) * 10.0 ** random.randint(-3, 3) for _ in range(n * n)]
write("w.safetensors", {"w": ([n, n], w)})
write("nan.safetensors", {"w": ([n, n], w[:-1] + [float("nan")])})
open("m.apc", "w").write("entry main(x: f32[64, 64]) {\n  weight w : f32[64, 64] = zeros\n  output y = matmul(x, w)\n}\n")
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (64, 64), }"
head += " " * (-(len(head) + 11) % 64) + "\n"
open("eye.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<4096f", *eye))
json.dump(w, open("w.json", "w"))
PY
expect 1 "weight 'w' has an infinity or NaN" "$apc" m.apc -q --weights nan.safetensors --weights-dtype int8 -o nan
for form in "8 32" "8 64" "4 32"; do
  read -r bits group <<<"$form"
  expect 0 "" "$apc" m.apc -q --weights w.safetensors --weights-dtype "int$bits:$group" --target cpux2 --tp 2 -o m
  expect 0 "" ./m --input x=@eye.npy --output y=@y.npy
  expect 0 "" /usr/bin/python3 -c "
import json, struct
w, raw = json.load(open('w.json')), open('y.npy', 'rb').read()
y = struct.unpack('<4096f', raw[-16384:])
most = 127 if $bits == 8 else 8
for column in range(64):
    for first in range(0, 64, $group):
        at = [k * 64 + column for k in range(first, first + $group)]
        step = max(abs(w[i]) for i in at) / most * 1.005
        for i in at:
            # in 4 bits the largest of the other sign is cut from 8 to 7 steps
            assert abs(w[i] - y[i]) <= step * (0.51 if $bits == 8 else 1.01), (i, w[i], y[i], step)
        numbers = {round(y[i] / (step / 1.005), 1) for i in at}
        assert len(numbers) <= (255 if $bits == 8 else 16), numbers
        assert sum(abs(w[i] - y[i]) <= step * 0.51 for i in at) >= $group - 8"
done
# The program has the packed weights only; nothing is left in the temporary folder.
expect 0 "" "$apc" "$examples/mlp.apc" -D d=512 -D hidden=512 -D layers=1 --dim batch=1 -q --weights-dtype int4 -o small
check "the program has $(stat -c %s small) bytes" test "$(stat -c %s small)" -lt $(($(stat -c %s m) + 400000))
check "something is left in \$TMPDIR" test -z "$(ls -A "$TMPDIR")"
expect 0 "" "$apc" plan "$examples/mlp.apc" -D d=512 -D hidden=512 -D layers=1 --dim batch=1 -q --weights-dtype int4 --json
expect_json "d['params'] == 525312 and d['memory_bytes']['params'] == 299008"
# A plan of the other graph is refused with what differs.
expect 0 "" "$apc" plan "$examples/gpt-tiny.onnx" -q --target cpux2 --save-plan plain.plan
expect 0 "" "$apc" plan "$examples/gpt-tiny.onnx" -q --target cpux2 --weights-dtype int8 --save-plan packed.plan
expect 1 "made without --weights-dtype, which changes the graph" "$apc" plan "$examples/gpt-tiny.onnx" -q --target cpux2 \
  --weights-dtype int8 --plan plain.plan
expect 1 "made with --weights-dtype, which changes the graph" "$apc" plan "$examples/gpt-tiny.onnx" -q --target cpux2 --plan packed.plan
summary 37
