#!/bin/bash
# A program that was damaged, moved away from its weights, or given weights it cannot take says so instead of computing; so does one
# whose results do not get out.
. "$(dirname "$0")/lib.sh"
cp "$source_dir/examples/gpt-tiny.onnx" model.onnx
inputs=$source_dir/examples/gpt-tiny.inputs.npz

expect 0 "" "$apc" model.onnx -q -o embedded
expect 0 "" ./embedded --inputs "$inputs" --outputs a.npz

# standard output that is full, or closed
for options in "--inputs $inputs" --bench=1 --describe --describe=json --help; do
  expect 1 "standard output cannot be written" bash -c "./embedded $options >/dev/full"
  expect 1 "standard output cannot be written" bash -c "./embedded $options >&-"
done
expect 0 "" bash -c "./embedded --inputs '$inputs' --outputs b.npz >&-" # prints nothing
expect 1 "standard output cannot be written" bash -c "'$apc' run model.onnx -q --inputs '$inputs' >&-"

# nothing that is read is written over, under whatever name
out=$(/usr/bin/python3 -c 'import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).namelist()[0].removesuffix(".npy"))' a.npz)
cp "$inputs" in.npz
ln -s in.npz link.npz
expect 2 "--outputs would write ./link.npz, which is read by --inputs" ./embedded --inputs in.npz --outputs ./link.npz
expect 2 "--output would write in.npz, which is read by --inputs" ./embedded --inputs in.npz --output "$out=@in.npz"
expect 2 "--outputs would write y.npy, which is written by --output" ./embedded --inputs in.npz --output "$out=@./y.npy" --outputs y.npy
expect 2 "embedded is the program or holds its weights" ./embedded --inputs in.npz --outputs embedded
check "a file was written over" cmp -s "$inputs" in.npz
check "a file was written" test ! -e y.npy

flip() { # flip NEEDLE: changes the first byte after the last place where the program has these bytes
  /usr/bin/python3 - "$1" <<'PY'
import sys
d = bytearray(open('embedded', 'rb').read())
needle = bytes.fromhex(sys.argv[1])
at = d.rindex(needle) + len(needle)
d[at] ^= 0x41
open('damaged', 'wb').write(d)
PY
  chmod +x damaged
}
weights=$(/usr/bin/python3 -c 'd = open("model.onnx", "rb").read(); print(d[400000:400032].hex())')
flip "$weights"
expect 1 "its weights do not match their checksum" ./damaged --inputs "$inputs"
flip 7f454c46 # the shared object with the kernels begins like every ELF file
expect 1 "its kernels do not match their checksum" ./damaged --inputs "$inputs"
expect 1 "this program carries its weights" ./embedded --inputs "$inputs" --weights a.npz

# too little memory: named as that, not as a weight that was loaded long ago
# (a sanitizer build cannot run under a limit of its address space)
checks=29
if ! grep -q '__[at]san_init' embedded; then
  checks=30
  expect 6 "rank 0 at step 0 (starting): rank 0 cannot get" bash -c 'ulimit -v 2000000; exec ./embedded --input random --dim batch=9000 --dim seq=64'
fi

# weights by reference: found from any folder, and only while they are the same
expect 0 "" "$apc" model.onnx -q --weights ref -o reference
mkdir elsewhere
(cd elsewhere && ../reference --inputs "$inputs" --outputs ../b.npz)
check "the weights are not found from another folder" cmp -s a.npz b.npz
expect 2 "model.onnx is the program or holds its weights" ./reference --inputs "$inputs" --outputs model.onnx
expect 2 "model.onnx is the program or holds its weights" ./reference --inputs "$inputs" --output "$out=@./model.onnx"
printf 'xxxx' | dd of=model.onnx bs=1 seek=300000 conv=notrunc 2>dd.err
expect 1 "its content has changed" ./reference --inputs "$inputs"
rm model.onnx
expect 1 "cannot be read (see --weights)" ./reference --inputs "$inputs"
summary $checks
