#!/bin/bash
# Malformed files: IR text, plans, npz archives, npy inputs, models of every kind.  Each gives exit 1 with a diagnostic
# that has a code, nothing on standard output, and no crash.
. "$(dirname "$0")/lib.sh"
mlp=$source_dir/examples/mlp.apc gpt=$source_dir/examples/gpt-tiny.onnx
small="-D d=16 -D hidden=32 -D layers=1 -q"

bad() { # bad CODE COMMAND...: exit 1 with that code
  local code=$1
  shift
  expect 1 "error[$code" "$@"; no_out
}

# IR text
"$apc" "$mlp" $small --emit=ir -o good.ir
expect 0 "" "$apc" plan good.ir -q
ir() { # ir SED-SCRIPT: the good file, changed
  sed "$1" good.ir >bad.ir
  check "'$1' changes nothing" bash -c '! cmp -s good.ir bad.ir'
  bad APC03 "$apc" plan bad.ir -q; expect_err "--> bad.ir"
}
ir '1s/.*/apc.ir 99/'
ir '1d'
ir 's/ = dot / = dott /'
ir 's/dot %x,/dot %nowhere,/'
ir 's/"ab,bc->ac"/"ab,bc->ad"/'
ir 's/f32\[16, 32\]/f32[16, 33]/'
ir 's/f32\[batch, 32\]/f32[batch, 99999999999999999999]/'
ir '$d'
ir 's/output "y" %[^ ]*/output "y" %gone/'
ir 's/ = normal / = abnormal /'
ir 's/level 1/level 7/'
printf 'apc.ir 1\nfunc @main level 1 {\n' >bad.ir; bad APC03 "$apc" plan bad.ir -q
printf 'apc.ir 1\n\0\n' >bad.ir; bad APC0 "$apc" plan bad.ir -q
: >bad.ir; bad APC03 "$apc" plan bad.ir -q
head -c 3000 /dev/urandom | tr '\0' 'x' >bad.ir; bad APC03 "$apc" plan bad.ir -q
printf 'apc.ir 1\n' >bad.ir; bad APC06 "$apc" plan bad.ir -q

# plans
"$apc" plan "$mlp" $small --target cpux4 --tp 2 --pp 2 --save-plan good.plan >/dev/null
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --plan good.plan
plan() {
  sed "$1" good.plan >bad.plan
  check "'$1' changes nothing" bash -c '! cmp -s good.plan bad.plan'
  bad APC04 "$apc" plan "$mlp" $small --target cpux4 --plan bad.plan; expect_err "--> bad.plan"
}
plan '1s/.*/apc.plan 2/'
plan '1d'
plan 's/@main/@other/'
plan 's/ranks 4/ranks 5/'
plan 's/\[tp=2\]/[tp=3]/'
plan 's/\[tp=2\]/[tp=0]/'
plan 's/stages 2/stages 99999999999/'
plan 's/\[tp=2\]/[tp=2, mb=1000000 time]/'
plan 's/{c:tp}/{nofactor:tp}/'
plan 's/{c:tp}/{c:nowhere}/'
plan 's/{c:tp}/{c:tp/'
plan 's/^op "layers.0.up.dot"/op "no.such.operation"/'
plan 's/^stage 1 /stage 2 /'
plan 's/stages 2/stages 1/'; expect_err "the mesh line above has one stage"
plan 's/^op /oops /'
: >bad.plan; bad APC04 "$apc" plan "$mlp" $small --plan bad.plan
check "its own plan is complete" bash -c '"$0" plan "$@" 2>&1 >out | (! grep warning)' "$apc" "$mlp" $small --target cpux4 --plan good.plan
grep -v '^op ' good.plan >cut.plan
expect 0 "warning[APC0404]: no line splits anything over the axis 'tp': its 2 ranks all do the same work" "$apc" plan "$mlp" $small --target cpux4 --plan cut.plan
bad APC0001 "$apc" plan "$mlp" $small --plan nowhere.plan
expect 0 "warning[APC0404]: the plan was made for another graph" "$apc" plan "$mlp" -q -D d=32 -D hidden=32 -D layers=1 --target cpux4 --plan good.plan
expect 1 "error[APC04" "$apc" plan "$mlp" $small --target cpux2 --plan good.plan

# npz archives and npy files as inputs
/usr/bin/python3 - <<'PY'
import numpy as np, zipfile
good = np.zeros((4, 32), np.int64)
np.savez("good.npz", tokens=good)
data = bytearray(open("good.npz", "rb").read())
def write(name, edit):
    d = bytearray(data); edit(d); open(name, "wb").write(d)
open("b1.npz", "wb").write(data[:len(data) // 2])
open("b2.npz", "wb").write(b"")
open("b3.npz", "wb").write(b"not a zip archive at all")
write("b4.npz", lambda d: d.__setitem__(slice(200, 210), b"\xff" * 10))       # the data no longer has its CRC
write("b5.npz", lambda d: d.__setitem__(slice(-6, -2), b"\xff\xff\xff\x7f"))  # the directory lies outside
np.savez("b6.npz", tokens=good.astype(np.float32) + 0.5)  # not whole numbers
np.savez("b7.npz", tokens=good.reshape(4, 4, 8))
np.savez("b8.npz", token=good)
np.savez("b9.npz", tokens=np.array([object()]))
np.savez("b10.npz", tokens=good.astype(">i8"))
with zipfile.ZipFile("b11.npz", "w") as z: z.writestr("tokens.npy", b"\x93NUMPY\x01\x00\xff\xff{")
with zipfile.ZipFile("b12.npz", "w") as z: z.writestr("tokens.txt", b"hello")
np.save("good.npy", good)
npy = open("good.npy", "rb").read()
open("cut.npy", "wb").write(npy[:-8])
open("long.npy", "wb").write(npy + b"more")
open("head.npy", "wb").write(npy.replace(b"'<i8'", b"'<q9'"))
PY
expect 0 "" "$apc" run "$gpt" -q --inputs good.npz
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do bad APC0 "$apc" run "$gpt" -q --inputs b$n.npz; done
for n in 1 2 3 4 5 9 10 11; do bad APC001 "$apc" inspect b$n.npz; expect_err "b$n.npz"; done
for n in cut long head; do bad APC0010 "$apc" run "$gpt" -q --input tokens=@$n.npy; done
for n in 1 2 3 5 9 10 11; do expect 1 "error[APC001" "$apc" inspect b$n.npz; done

# models
head -c 1000 "$gpt" >cut.onnx; bad APC01 "$apc" plan cut.onnx -q
: >empty.onnx; bad APC01 "$apc" plan empty.onnx -q
head -c 5000 /dev/urandom >random.onnx; bad APC01 "$apc" inspect random.onnx -q
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' >lfs.onnx; bad APC01 "$apc" plan lfs.onnx -q
echo 'entry main( {' >bad.apc; bad APC02 "$apc" plan bad.apc -q
: >empty.apc; bad APC02 "$apc" plan empty.apc -q
bad APC0001 "$apc" plan nowhere.onnx -q
bad APC0001 "$apc" plan nowhere.apc -q
mkdir -p folder.ir; bad APC0001 "$apc" plan folder.ir -q
bad APC0603 "$apc" plan "$source_dir/README.md" -q
bad APC0203 "$apc" plan "$mlp" -q -D layrs=2
bad APC0208 "$apc" plan "$source_dir/examples/gpt.apc" -q -D d=100
printf '\xef\xbb\xbf' | cat - "$mlp" >bom.apc; expect 0 "" "$apc" plan bom.apc $small -q # with a byte order mark, as some editors write it
expect 3 "weights and state are 4.2 KiB" "$apc" plan "$mlp" -D d=16 -D hidden=32 -D layers=1 -q --memory 1KB; expect_err "1000 B are allowed"
for option in --dim --dim-hint; do expect 1 "'seq' cannot be 5000: it is 1 to 1024" "$apc" plan "$source_dir/examples/gpt.apc" -q $option seq=5000; done
expect 2 "--dim gives 'batch' two sizes" "$apc" plan "$source_dir/examples/mlp.apc" -q --dim batch=2 --dim batch=3

# programs
cp "$apc" strange; bad APC0603 "$apc" inspect strange
"$apc" "$mlp" $small -o prog
head -c -100 prog >cut; bad APC0603 "$apc" inspect cut
head -c -16 prog >cut; printf '0123456789abcdef' >>cut; bad APC0603 "$apc" inspect cut

# target files: the error names line and column
cat >good.topo <<'TOPO'
cpu c { cores 2; memory 16 GB at 45 GB/s; launch 5 us; peak f32 220 GFLOPS; source "a test"; }
machine n { devices 1 c; link shared-memory at 13 GB/s latency 10 us; source "a test"; }
TOPO
expect 0 "" "$apc" targets check good.topo
topo() { # topo SED-SCRIPT: the good file, changed
  sed "$1" good.topo >bad.topo
  check "'$1' changes nothing" bash -c '! cmp -s good.topo bad.topo'
  bad APC05 "$apc" targets check bad.topo; expect_err "bad.topo"
  bad APC05 "$apc" plan "$mlp" -q --target bad.topo
}
topo '1d'
topo 's/cpu c {/gpux c {/'
topo 's/machine n/machne n/'
topo 's/devices 1 c;/devices 1 d;/'
topo 's/memory 16 GB/memory 16 parsecs/'
topo 's/memory 16 GB/memory -16 GB/'
topo 's/ at 45/ 45/'
topo 's/; }$/; /'
topo 's/peak f32 220/peak f32/'
topo 's/f32/f99/'
topo 's/latency/latencey/'
topo 's/13 GB/13 GBB/'
topo 's/220 GFLOPS/1e400 GFLOPS/'
topo 's/devices 1/devices 99999999999999/'
topo 's/cores 2/cores 2 2/'
: >bad.topo; bad APC05 "$apc" targets check bad.topo
printf 'cpu c { \001 }' >bad.topo; bad APC05 "$apc" targets check bad.topo

# npy files
/usr/bin/python3 - <<'PY'
import numpy as np, struct
good = open("good.npy", "rb").read()
header = good[10:10 + struct.unpack("<H", good[8:10])[0]].decode()
def npy(name, text, version=b"\x01\x00"): 
    body = text.encode()
    size = struct.pack("<H", len(body)) if version[0] == 1 else struct.pack("<I", len(body))
    open(name, "wb").write(b"\x93NUMPY" + version + size + body + good[10 + len(header):])
def change(name, a, b):
    assert a in header, header
    npy(name, header.replace(a, b))
change("n1.npy", "'<i8'", "'|O8'")
change("n2.npy", "(4, 32)", "(-4, 32)")
change("n3.npy", "(4, 32)", "(4, 9223372036854775807)")
change("n4.npy", "(4, 32)", "[4, 32]")
change("n5.npy", "False", "Maybe")
change("n6.npy", "'descr'", "'desc'")
change("n7.npy", "}", " ")
change("n8.npy", "(4, 32)", "(1,1,1,1,1,1,1,4,32)")
npy("n9.npy", header, b"\x09\x00")
open("n10.npy", "wb").write(b"\x93NUMPX" + good[6:])
open("n11.npy", "wb").write(b"")
open("n12.npy", "wb").write(good[:9])
open("n13.npy", "wb").write(good[:8] + b"\xff\xff" + good[10:])
PY
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13; do
  bad APC0010 "$apc" inspect n$n.npy; expect_err "n$n.npy"
  bad APC0010 "$apc" run "$gpt" -q --input tokens=@n$n.npy
done

# safetensors files
/usr/bin/python3 - <<'PY'
import json, struct
def save(name, header, data=b"\0" * 24, size=None):
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    open(name, "wb").write(struct.pack("<Q", len(text) if size is None else size) + text + data)
one = {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
def other(**fields): return {"a": {**one["a"], **fields}}
save("good.safetensors", one)
save("s1.safetensors", other(data_offsets=[0, 20]))
save("s2.safetensors", other(data_offsets=[0, 2400]))
save("s3.safetensors", other(data_offsets=[24, 0]))
save("s4.safetensors", other(shape=[2, -3]))
save("s5.safetensors", other(shape=[2**40, 2**40]))
save("s6.safetensors", other(dtype="F33"))
save("s7.safetensors", "{\"a\": ")
save("s8.safetensors", one, size=2**62)
save("s9.safetensors", "[1, 2]")
save("s10.safetensors", {"a": {"dtype": "F32"}})
save("s11.safetensors", {**one, "b": one["a"]})
save("s12.safetensors", one, data=b"\0" * 30)
save("s13.safetensors", other(shape="2x3"))
open("s14.safetensors", "wb").write(b"\x01\x02")
open("s15.safetensors", "wb").write(b"")
PY
expect 0 "" "$apc" inspect good.safetensors
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
  bad APC0012 "$apc" inspect s$n.safetensors; expect_err "s$n.safetensors"
  bad APC0012 "$apc" plan "$mlp" $small --weights s$n.safetensors
done
bad APC0604 "$apc" plan "$mlp" $small --weights good.safetensors

# ONNX files: bytes of a good one, changed or cut, never crash; bytes that break the message are named by their offset
/usr/bin/python3 - "$gpt" <<'PY'
import sys
good = open(sys.argv[1], "rb").read()
def write(name, data): open(name, "wb").write(bytes(data))
def replace(name, a, b, times=1):
    assert a in good and len(a) == len(b), name
    write(name, good.replace(a, b, times))
for n, k in enumerate((1, 7, 100, 5000, 40000, len(good) // 2, len(good) - 1), 1): write(f"o{n}.onnx", good[:k])
write("o8.onnx", good + b"\xff")
write("o9.onnx", b"\xff" * 40 + good[40:])
replace("o10.onnx", b"Gather", b"Gathor")                       # an operator that does not exist
replace("o11.onnx", b"token.weight", b"tokem.weight")           # a weight that is undefined, or unused
write("o12.onnx", b"\x08\x08")                                  # a model without a graph
write("o13.onnx", b"\x08\x08\x3a\x00")                          # with an empty one, without operator sets
write("o14.onnx", b"\x08\x08\x3a\x00\x42\x02\x10\x63")          # operator set 99
write("o15.onnx", b"\x0a\x05hello")
PY
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do bad APC01 "$apc" compile o$n.onnx -q -o never; expect_err "o$n.onnx"; done
check "a damaged model was compiled" test ! -e never

# models of the language: file, line, column and caret
apc_text() { # apc_text TEXT
  printf '%b' "$1" >bad.apc
  bad APC02 "$apc" plan bad.apc -q; expect_err "--> bad.apc:"; expect_err " | "
}
apc_text 'entry main(x: f32[2]) {\n  output y = relu(x\n}\n'
apc_text 'entry main(x: f32[2]) {\n  output y = rleu(x)\n}\n'
apc_text 'entry main(x: f99[2]) {\n  output y = x\n}\n'
apc_text 'entry main(x: f32[2]) {\n  output y = x + z\n}\n'
apc_text 'entry main(x: f32[2], z: f32[3]) {\n  output y = x + z\n}\n'
apc_text 'entry main(x: f32[-2]) {\n  output y = x\n}\n'
apc_text 'entry main(x: f32[1/0]) {\n  output y = x\n}\n'
apc_text 'import nowhere\nentry main(x: f32[2]) {\n  output y = x\n}\n'
apc_text 'param d = 3\nparam d = 4\nentry main(x: f32[d]) {\n  output y = x\n}\n'
apc_text 'entry main(x: f32[2]) {\n  output y = x\n  output y = x\n}\n'
apc_text 'entry main(x: f32[2]) {\n  output y = reshape(x, [3])\n}\n'
apc_text 'entry main(x: f32[99999999999999999999]) {\n  output y = x\n}\n'

# sizes and numbers beyond the limits of a program, or that cannot be computed once a dimension is known
printf 'dim n\nentry main(x: f32[4, n]) {\n  output y = x + fill(f32[4, n], 10 // (5 - n))\n}\n' >divides.apc
bad APC0602 "$apc" plan divides.apc -q --dim n=5; expect_err "--> divides.apc:3:"; expect_err "divided by zero"
bad APC0602 "$apc" plan divides.apc -q --dim n=6; expect_err "divided by a negative number"
expect 0 "" "$apc" plan divides.apc -q --dim n=3
printf 'dim n\nentry main(x: f32[n, 2147483648, 2147483648]) {\n  output y = x * 2.0\n}\n' >bytes.apc
bad APC0602 "$apc" compile bytes.apc -q --memory 900000000000GB -o never; expect_err "more than 2^62 bytes"
/usr/bin/python3 -c '
n = range(300)
print("dim " + ", ".join(f"n{i}" for i in n) + "\nentry main(" + ", ".join(f"x{i}: f32[n{i}]" for i in n) + ") {")
print("\n".join(f"  output y{i} = relu(x{i})" for i in n) + "\n}")' >many.apc
bad APC0602 "$apc" compile many.apc -q -o never; expect_err "at most 256 symbolic dimensions"
expect 3 "error[APC0405]: there are at most 2048 micro-batches" "$apc" plan "$mlp" $small --dim batch=4096 --micro-batches 4096
check "a program too large was compiled" test ! -e never

# programs: cut, padded, with a table that is damaged anywhere
size=$(stat -c %s prog)
for cut in 1 8 17 4096 $((size / 2)) $((size - 1)); do
  head -c $cut prog >cut; bad APC0603 "$apc" inspect cut
done
cp prog longer; printf 'x' >>longer; bad APC0603 "$apc" inspect longer
/usr/bin/python3 - <<'PY'
data = open("prog", "rb").read()
at = data.rindex(b"ACPROGM1")
for n, k in enumerate((0, 12, 16, 24, 32, 200, 2000), 1):
    d = bytearray(data); d[at + k] ^= 0x5a; open(f"p{n}", "wb").write(d)
PY
for n in 1 2 3 4 5 6 7; do
  bad APC0603 "$apc" inspect p$n; expect_err "p$n"
  chmod +x p$n; expect 1 "error:" ./p$n --input zeros
done

# truncated files are reported, with the bytes that are present
/usr/bin/python3 - <<'PY'
import numpy as np, onnx, onnx.numpy_helper
from onnx import TensorProto, helper as h
x = np.arange(10000, dtype=np.float32).reshape(100, 100)
np.save('whole.npy', x)
np.savez_compressed('whole.npz', x=x)
onnx_in, onnx_out = (h.make_tensor_value_info(n, TensorProto.FLOAT, [4, 100]) for n in 'xy')
w = onnx.numpy_helper.from_array(x, 'w')
model = h.make_model(h.make_graph([h.make_node('MatMul', ['x', 'w'], ['y'])], 'g', [onnx_in], [onnx_out], [w]), opset_imports=[h.make_opsetid('', 15)])
onnx.save(model, 'external.onnx', save_as_external_data=True, location='external.data', size_threshold=0)
PY
expect 0 "" "$apc" convert "$gpt" whole.safetensors -q
cp "$gpt" whole.onnx
expect 0 "" "$apc" "$source_dir/examples/product.apc" -q -o whole
truncated() { # truncated FILE BYTES [EXPECTED]
  local kind=${1##*.}
  head -c "$2" "$1" >"cut.$kind"
  expect 1 "error" "$apc" inspect "cut.$kind"; no_out
  expect_err "truncated"; expect_err "it has $2 bytes"
  if [ -n "${3-}" ]; then expect_err "$3"; fi
}
for file in whole.npy whole.npz whole.safetensors whole.onnx; do
  size=$(stat -c %s $file)
  for n in 200 2000 $((size / 2)) $((size - 1)); do
    case $file in *.npz) want="end record";; *.onnx) want="";; *.npy) want=$size;; *) want=$([ "$n" -ge 5000 ] && echo $size);; esac
    truncated $file $n "$want"
  done
  : >cut.${file##*.}; expect 1 "empty" "$apc" inspect cut.${file##*.}
done
cp external.onnx cut.onnx; head -c 20000 external.data >short; mv short external.data
expect 1 "truncated" "$apc" plan cut.onnx -q; expect_err "20000 bytes"; expect_err "40000"
size=$(stat -c %s whole)
for n in $((size - 1)) $((size - 10000)); do
  head -c $n whole >cut; chmod +x cut
  expect 1 "truncated: it has $n bytes, $size are expected" "$apc" inspect cut
  expect 1 "truncated: it has $n bytes, $size are expected" ./cut --input random
done
summary 685
