#!/bin/bash
# A program that was damaged, moved away from its weights, or given unsuitable weights reports that instead of
# computing; so does one whose results cannot be written.
. "$(dirname "$0")/lib.sh"
cp "$source_dir/examples/gpt-tiny.onnx" model.onnx
inputs=$source_dir/examples/gpt-tiny.inputs.npz

expect 0 "" "$apc" model.onnx -q -o embedded
expect 0 "" ./embedded --inputs "$inputs" --outputs a.npz; expect_err "wrote a.npz"; no_out

# standard output that is full, or closed
for options in "--inputs $inputs" --bench=1 --describe --describe=json --help; do
  expect 1 "standard output cannot be written" bash -c "./embedded $options >/dev/full"
  expect 1 "standard output cannot be written" bash -c "./embedded $options >&-"
done
expect 0 "" bash -c "./embedded --inputs '$inputs' --outputs b.npz >&-" # prints nothing
expect 1 "standard output cannot be written" bash -c "'$apc' run model.onnx -q --inputs '$inputs' >&-"

# inputs are never overwritten, under any name
out=$(/usr/bin/python3 -c 'import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).namelist()[0].removesuffix(".npy"))' a.npz)
cp "$inputs" in.npz
ln -s in.npz link.npz
expect 2 "--outputs would write ./link.npz, which is read by --inputs" ./embedded --inputs in.npz --outputs ./link.npz
expect 2 "--output would write in.npz, which is read by --inputs" ./embedded --inputs in.npz --output "$out=@in.npz"
expect 2 "--outputs would write y.npy, which is written by --output" ./embedded --inputs in.npz --output "$out=@./y.npy" --outputs y.npy
expect 2 "embedded is the program or holds its weights" ./embedded --inputs in.npz --outputs embedded
check "a file was written over" cmp -s "$inputs" in.npz
check "a file was written" test ! -e y.npy

flip() { # flip NEEDLE: changes the byte at the last occurrence of these bytes in the program
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
expect 1 "this program contains its weights" ./embedded --inputs "$inputs" --weights a.npz

# too little memory: reported as that, not as a fault of a weight that was loaded long ago
# (a sanitizer build cannot run under a limit of its address space)
checks=29
if ! grep -q '__[at]san_init' embedded; then
  checks=30
  expect 6 "rank 0 at step 0 (starting): rank 0 cannot get" bash -c 'ulimit -v 2000000; exec ./embedded --input random --dim batch=9000 --dim seq=64'
fi

# weights by reference: found from any folder, and only while they are unchanged
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

# a model with data in two files and in itself: after a move, any of the files or their folder finds it
cat >split.py <<'PY'
import onnx, onnx.numpy_helper, os, sys
from onnx.external_data_helper import set_external_data
m = onnx.load(sys.argv[1])
os.makedirs("split/deep")
places = {name: open("split/" + name, "wb") for name in ("m.data", "deep/m.data")}
for i, t in enumerate(t for t in m.graph.initializer if len(t.raw_data) > 1000):
    name = ["m.data", "deep/m.data", ""][i % 3]
    if name:
        set_external_data(t, name, places[name].tell(), len(t.raw_data))
        places[name].write(t.raw_data)
        t.ClearField("raw_data")
onnx.save(m, "split/m.onnx")
PY
expect 0 "" /usr/bin/python3 split.py "$source_dir/examples/gpt-tiny.onnx"
expect 0 "" "$apc" split/m.onnx -q --target cpux2 --tp 2 --weights ref -o split_program
expect 0 "" ./split_program --inputs "$inputs" --outputs a.npz
mv split moved; mkdir alone; cp moved/m.onnx alone
for place in moved moved/ ./moved/m.onnx "$PWD/moved/m.data" moved/deep/../m.onnx; do
  expect 0 "" ./split_program --inputs "$inputs" --outputs b.npz --weights "$place"
  check "other weights at $place" cmp -s a.npz b.npz
done
(cd moved && ../split_program --inputs "$inputs" --outputs ../b.npz --weights m.onnx)
check "other weights beside m.onnx" cmp -s a.npz b.npz
for name in moved/m.onnx moved/deep/m.data; do
  expect 2 "is the program or holds its weights" ./split_program --inputs "$inputs" --outputs $name --weights moved
done
expect 1 "cannot be read (see --weights)" ./split_program --inputs "$inputs"
expect 1 "the weights in nowhere cannot be read" ./split_program --inputs "$inputs" --weights nowhere
expect 1 "there is no m.data of" ./split_program --inputs "$inputs" --weights alone/m.onnx
mv moved/m.data swapped; mv moved/deep/m.data moved/m.data; mv swapped moved/deep/m.data
expect 1 "m.data" ./split_program --inputs "$inputs" --weights moved
# missing data are one error
expect 1 "cannot open its data alone/" "$apc" plan alone/m.onnx -q
check "the error is repeated" test "$(grep -c '^error' err)" -eq 2
summary $((checks + 20))
