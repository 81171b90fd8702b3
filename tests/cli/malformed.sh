#!/bin/bash
# Malformed files: IR text, plans, npz archives, npy inputs, models of every kind.  Each is exit 1 with a diagnostic that
# has a code, nothing on standard output, and no crash.
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
  bad APC03 "$apc" plan bad.ir -q
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
  bad APC04 "$apc" plan "$mlp" $small --target cpux4 --plan bad.plan
}
plan '1s/.*/apc.plan 2/'
plan '1d'
plan 's/@main/@other/'
plan 's/ranks 4/ranks 5/'
plan 's/\[tp=2\]/[tp=3]/'
plan 's/\[tp=2\]/[tp=0]/'
plan 's/stages 2/stages 99999999999/'
plan 's/{c:tp}/{nofactor:tp}/'
plan 's/{c:tp}/{c:nowhere}/'
plan 's/{c:tp}/{c:tp/'
plan 's/^op "layers.0.up.dot"/op "no.such.operation"/'
plan 's/^stage 1 /stage 2 /'
plan 's/^op /oops /'
: >bad.plan; bad APC04 "$apc" plan "$mlp" $small --plan bad.plan
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
np.savez("b6.npz", tokens=good.astype(np.int32))
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
expect 1 "cannot be 5000" "$apc" plan "$source_dir/examples/gpt.apc" -q --dim seq=5000

# programs
cp "$apc" strange; bad APC0603 "$apc" inspect strange
"$apc" "$mlp" $small -o prog
head -c -100 prog >cut; bad APC0603 "$apc" inspect cut
head -c -16 prog >cut; printf '0123456789abcdef' >>cut; bad APC0603 "$apc" inspect cut
summary 150
