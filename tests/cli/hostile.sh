#!/usr/bin/env bash
# tests/cli/hostile.sh APC - hostile files, names and environments (docs/guide/security.md): damage, bombs, control
# bytes, no free descriptors, set-uid.
. "$(dirname "$0")/lib.sh"
export ASAN_OPTIONS=detect_leaks=0 # processes with OpenMP threads end it with an error of its own (gcc 12)
gpt=$source_dir/examples/gpt-tiny.onnx inputs=$source_dir/examples/gpt-tiny.inputs.npz
expect 0 "" "$apc" "$gpt" -q --target cpux2 --tp 2 -o gpt
expect 0 "" ./gpt --inputs "$inputs" --outputs right.npz

# One byte of weights or kernels, on any rank, however the ranks are started
/usr/bin/python3 - <<'PY'
import struct
whole = open("gpt", "rb").read()
begin, size = struct.unpack("<QQ", whole[-32:-16])
for name, part in ("weights", .4), ("kernels", .995):
    b = bytearray(whole)
    b[begin + int(size * part)] ^= 0x10
    open(name, "wb").write(b)
PY
chmod +x weights kernels
port=$((10000 + $$ % 9000))
for what in weights kernels; do
  expect 1 "its $what do not match their checksum" "./$what" --inputs "$inputs" --outputs out.npz
  for damaged in 0 1; do
    port=$((port + 1)); programs=(gpt gpt); programs[damaged]=$what
    timeout 60 "./${programs[1]}" --rank 1 --world 2 --rendezvous "localhost:$port" 2>other.err & other=$!
    expect 1 "its $what do not match their checksum" "./${programs[0]}" --rank 0 --world 2 --rendezvous "localhost:$port" --inputs "$inputs" --outputs out.npz
    wait $other; check "the other rank: exit $?, wanted 1" test $? -eq 1
  done
done
check "there are outputs" test ! -e out.npz

# Weights in a file
expect 0 "" "$apc" convert "$gpt" w.safetensors -q
cp "$gpt" m.onnx; expect 0 "" "$apc" m.onnx -q --weights ref --target cpux2 --tp 2 -o ref
expect 0 "" ./ref --inputs "$inputs" --outputs out.npz; check "other results" cmp -s right.npz out.npz
printf 'X' | dd of=m.onnx bs=1 seek=300000 conv=notrunc status=none
expect 1 "m.onnx is not the file with the weights: its content has changed" ./ref --inputs "$inputs" --outputs out.npz
truncate -s 1000 m.onnx; expect 1 "it has 1000 bytes instead of" ./ref --inputs "$inputs"
port=$((10000 + $$ % 9000))
timeout 60 ./gpt --rank 1 --world 2 --rendezvous "localhost:$port" --weights w.safetensors 2>other.err & other=$!
expect 0 "" ./gpt --rank 0 --world 2 --rendezvous "localhost:$port" --weights w.safetensors --inputs "$inputs" --outputs given.npz
wait $other; check "the same weights from a file" cmp -s right.npz given.npz

# Archives that claim little and expand to much: refused before they are expanded.  30 MB of memory are enough for that.
/usr/bin/python3 - <<'PY'
import io, numpy as np, zipfile
def npy(a):
    f = io.BytesIO(); np.lib.format.write_array(f, a); return f.getvalue()
zeros = np.zeros(100 << 20, np.uint8)
def archive(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in members.items(): z.writestr(name + ".npy", content)
archive("stranger.npz", other=npy(zeros))
archive("wide.npz", x=npy(zeros.view(np.float32).reshape(1, -1)))
with zipfile.ZipFile("stored.npz", "w") as z: z.writestr("other.npy", npy(zeros))
with open("sparse.npz", "wb") as f: f.write(b"PK\3\4"), f.truncate(200 << 30)
with open("sparse.ir", "wb") as f: f.truncate(200 << 30)
archive("lies.npz", x=npy(np.zeros((1, 4), np.float32)) + zeros.tobytes())
PY
tiny_model >tiny.ir
expect 0 "" "$apc" tiny.ir -q -o tiny
peak() { # peak CODE TEXT COMMAND...: and the process never holds the expanded size of an archive
  expect "$1" "$2" /usr/bin/python3 -c 'import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
sys.exit(code if most < 90 << 10 else f"{most} KiB")' "${@:3}"
}
for program in "./tiny" "$apc run tiny.ir -q"; do
  peak 1 "no input 'other'" $program --inputs stranger.npz
  peak 1 "no input 'other'" $program --inputs stored.npz
  peak 1 "the end record is missing" $program --inputs sparse.npz
  peak 1 "dimension 1" $program --inputs wide.npz
  peak 1 "its header asks for" $program --inputs lies.npz
done
ln sparse.ir sparse.safetensors; peak 1 "does not begin with '{'" ./gpt --inputs "$inputs" --weights sparse.safetensors
peak 1 "too many for a text file" "$apc" plan sparse.ir
peak 1 "too many for a text file" "$apc" plan tiny.ir --plan sparse.ir
peak 4 "DIFFERS" "$apc" run tiny.ir -q --expect stranger.npz

# Messages name the real cause
mkdir broken; echo "no library" >broken/libdnnl.so.2; cp broken/libdnnl.so.2 broken/libdnnl.so.3
expect 5 "oneDNN cannot be loaded from APC_ONEDNN: $work/broken/libdnnl.so.2" \
  env APC_ONEDNN="$work/broken/libdnnl.so.2" ./gpt --inputs "$inputs"
mkdir other # the version is the library's, whatever the name of its file
ln -s "$(/sbin/ldconfig -p | sed -n 's/.*libdnnl\.so\.[23] .*=> //p' | head -n 1)" other/libdnnl.so.3.copy
ln -s "$(realpath other/libdnnl.so.3.copy)" other/math
expect 0 "" env APC_ONEDNN="$work/other/libdnnl.so.3.copy" ./gpt --inputs "$inputs"
expect 0 "" env APC_ONEDNN="$work/other/math" ./gpt --inputs "$inputs"
echo 'struct { int n[3]; } v = {{4, 1, 0}}; void *dnnl_version(void) { return &v; }' | cc -shared -fPIC -x c - -o other/four.so
echo 'void *dnnl_version(void) { return 0; }' | cc -shared -fPIC -x c - -o other/null.so
echo 'int none;' | cc -shared -fPIC -x c - -o other/none.so
expect 5 "other/four.so is oneDNN 4.1.0; programs need oneDNN 2 or 3" env APC_ONEDNN="$work/other/four.so" ./gpt --inputs "$inputs"
expect 5 "other/null.so is not oneDNN" env APC_ONEDNN="$work/other/null.so" ./gpt --inputs "$inputs"
expect 5 "other/none.so is not oneDNN" env APC_ONEDNN="$work/other/none.so" ./gpt --inputs "$inputs"
expect 5 "oneDNN cannot be loaded: $work/broken/libdnnl.so.3" env LD_LIBRARY_PATH="$work/broken" ./gpt --inputs "$inputs"
for n in 4 5 6; do
  last="ulimit -n $n"
  (ulimit -n $n; exec ./gpt --inputs "$inputs" --outputs out.npz) >out 2>err </dev/null
  check "it does not say why" grep -qE "Too many open files|Error 24" err # the loader of the C library prints the number
done
printf '#!/bin/sh\n' >no_rights; expect 5 "no_rights: Permission denied" env CC="$work/no_rights" "$apc" tiny.ir -q -o x

# Control bytes of names and files are escaped: on standard output, in messages, in progress
bad=$'a\033[31mb\007\302\233c\377\177'
cat >"$bad.ir" <<'IR'
apc.ir 1
symbol b
func @main level 1 {
  %x = input {name="x\x1b[31m\x7f\xc2\x9b\xff\xe2\x80\xae"} : f32[b, 4]
  %y = neg %x : f32[b, 4]
  output "y\x1b]0;t\x07\x7f\xc2\x85\xe2" %y
}
IR
clean() { # in text and in JSON alike
  check "control bytes are printed" /usr/bin/python3 -c 'import re, sys
for f in "out", "err":
    if re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", open(f, "rb").read().decode("utf-8")): sys.exit(f)'
}
for command in plan run bench verify inspect; do expect 0 "" "$apc" $command "$bad.ir" --json; clean; expect_json '"schema" in d'; done
for kind in ir spmd plan schedule dot html; do expect 0 "" "$apc" "$bad.ir" -q --emit=$kind=-; clean; done
expect 0 "" "$apc" "$bad.ir" -q --emit=html=page; cp page out; clean
expect 0 "" "$apc" "$bad.ir" -q --emit=ir=again.ir; expect 0 "" "$apc" again.ir -q --emit=ir=-; check "the text read again is another" cmp -s again.ir out
for command in plan run bench verify inspect; do expect 0 "" "$apc" $command "$bad.ir"; clean; expect_out '\x1b'; done
expect 1 '\x1b[31m' "$apc" run "missing$bad.ir"; clean
expect 1 '\x1b[31m' "$apc" run tiny.ir -q --input "$bad=zeros"; clean
expect 2 '\x1b[31m' "$apc" run tiny.ir -q "--$bad"; clean
expect 0 "" "$apc" "$bad.ir" -o "$bad"; clean
expect 0 'y\x1b]0;t\x07' "./$bad" --input random; clean
expect 0 'x\x1b[31m' "./$bad" --describe; clean
expect 0 "" "./$bad" --describe=json; clean; expect_json 'd["entries"][0]["inputs"][0]["name"].startswith("x\x1b[31m\x7f\x9b")'
expect 2 '\x1b[31m' "./$bad" --input "$bad=zeros"; clean
expect 2 '\x1b[31m' "./$bad" "--$bad"; clean
expect 1 '\x1b[31m' "./$bad" --input "@missing$bad.npy"; clean
printf 'dim n\nentry main(x: f32[n]) {\n  output y = \033[31m x\n}\n' >bad.apc
expect 1 "error" "$apc" plan bad.apc; clean
for n in '\302\233' '\233' '\177' '\342\200\256'; do
  printf "dim n\nentry main(x: f32[n]) {\n  output y = $n x\n}\n" >bad.apc; expect 1 "error" "$apc" plan bad.apc; clean
done

# Set-uid (in a set-uid copy the leak checker of a sanitizer build can neither work nor read protected files)
if [ "$(id -u)" -eq 0 ] && ! grep -q __asan_init "$apc"; then
  for program in "$apc" "$(dirname "$apc")/apc-opt" ./gpt; do
    cp "$program" borrowed; chown 65534 borrowed; chmod 4755 borrowed; chmod 755 "$private" "$work"
    expect 5 "with the rights of another user" ./borrowed --help; no_out
  done
fi
summary 110
