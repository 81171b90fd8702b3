#!/bin/bash
# examples/chars.sh [STEPS [FOLDER]] - trains examples/chars.apc on the licenses of a Debian machine, and samples text.
#
# Writes into FOLDER (./chars): text.bin, the tokens; held.bin, one license that is held out; trainer, the program;
# trained.safetensors; sample.npy, whose text is also printed.  600 steps take some minutes on 2 cores.  APC is the
# compiler (build/apc), RANKS the number of processes that train (2).
set -e
here=$(cd "$(dirname "$0")" && pwd)
apc=${APC:-$here/../build/apc} ranks=${RANKS:-2}
steps=${1:-600} folder=${2:-chars}
licenses=/usr/share/common-licenses held=MPL-2.0
mkdir -p "$folder"

# Tokens have 16 bits, little-endian: ASCII text as UTF-16.
tokens() { cat "$@" | iconv -c -f utf-8 -t ascii | iconv -f ascii -t utf-16le; }
files=()
for file in "$licenses"/*; do
  if [ ! -L "$file" ] && [ "${file##*/}" != "$held" ]; then files+=("$file"); fi
done
tokens "${files[@]}" >"$folder/text.bin"
tokens "$licenses/$held" >"$folder/held.bin"

warmup=$((steps < 100 ? steps / 4 : 50))
"$apc" "$here/chars.apc" -q --train cross_entropy --batch 16 --dim seq=128 --target "cpux$ranks" -o "$folder/trainer" \
  --optimizer "adamw(lr=3e-3,weight_decay=0.1,clip=1,schedule=cosine,warmup=$warmup,steps=$steps,min_lr=1e-4)"
"$folder/trainer" --steps "$steps" --data tokens=@"$folder/text.bin" --eval tokens=@"$folder/held.bin" \
  --save "$folder/trained.safetensors"

# 128 characters that begin with the prompt; the file is a header followed by the text.
/usr/bin/printf '\223NUMPY\001\000v\000%-117s\n' \
  "{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }" >"$folder/prompt.npy"
for char in 84 104 101 32; do /usr/bin/printf '%b' "\\x$(printf %02x "$char")\\0\\0\\0\\0\\0\\0\\0"; done >>"$folder/prompt.npy"
/usr/bin/printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (), }" >"$folder/half.npy"
/usr/bin/printf '\000\000\000\077' >>"$folder/half.npy"
"$apc" run "$here/chars.apc" -q -D sample=128 --weights "$folder/trained.safetensors" --input prompt=@"$folder/prompt.npy" \
  --input temperature=@"$folder/half.npy" --input seed=zeros --output text=@"$folder/sample.npy" >"$folder/said"
tail -c 128 "$folder/sample.npy"
echo
