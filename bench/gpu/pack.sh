#!/usr/bin/env bash
# bench/gpu/pack.sh - compiles, without a GPU, the programs that bench/gpu/on_device.sh checks and times on a GPU.
#
# usage: bench/gpu/pack.sh [OPTIONS] DIR [FOLDER]
#   FOLDER           gpt, llama, bert, resnet and vit as NAME.onnx with NAME.inputs.npz (default: small models of
#                    examples/)
#   --target NAME    the machine to compile for (dgx-h100: sm_90, for H100 and H200)
#   --only REGEX     only programs whose names match, such as "^gpt" or "softmax"
#   --every N        only every N-th case of the kernels (1: all)
#   --small          small shapes instead of the measured ones, for a rehearsal
#   --most MIB       largest size of the pack (54)
#   --texts TEXTS    folder to keep the texts of all kernels in, for tests/doubles
#   BUILD=build      the build folder of apc
#
# DIR, new or empty, receives on_device.sh and all that it needs besides bash, coreutils and the C library:
#   bin/             gpu_tool, gpu_kernels and gpu_device; apc, for apc calibrate, with its runtime
#   kernels/         machine code of all kernels of tests/kernel_cases.h
#   programs/        compiled models without their common runtime (runtime.gz), and the outputs (NAME.npz) and trained
#                    weights (NAME.safetensors) of one CPU rank; weights are random, from a seed, or
#   models/          those of FOLDER, shared by all programs of a model
#   check.list       program|ranks|reference|tolerance|arguments
#   bench.list       program|arguments|bytes|operations|ceiling|planned for an H100, for an H200 (us)|batch
#   made             revision, target and options
# Programs and machine code are compressed (gzip); gpu_tool and gpu_kernels read that.
set -euo pipefail
most=54 target=dgx-h100 only=. every=1 texts='' small=''
while [ $# -gt 0 ]; do
  case $1 in
    --target) target=$2 ;;
    --only) only=$2 ;;
    --every) every=$2 ;;
    --texts) texts=$(realpath -m "$2") ;;
    --most) most=$2 ;;
    --small) small=yes && shift && continue ;;
    -*) echo "there is no option $1" >&2; exit 2 ;;
    *) break ;;
  esac
  shift 2
done
[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "usage: bench/gpu/pack.sh [OPTIONS] DIR [FOLDER]" >&2; exit 2; }
dir=$(realpath -m "$1") folder=${2:+$(realpath "$2")}
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${BUILD:-$source/build}")
[ -z "$(ls -A "$dir" 2>/dev/null)" ] || { echo "$dir is not empty" >&2; exit 2; }
mkdir -p "$dir"/{bin,kernels,programs,models}
[ -z "$texts" ] || mkdir -p "$texts"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# An apc with a stripped runtime for its programs.
apc=$temporary/apc
cp "$build/apc" "$apc"
strip -o "$temporary/apcrt-stub" "$build/apcrt-stub"
runtime=$(stat -c %s "$temporary/apcrt-stub")
gzip -9n <"$temporary/apcrt-stub" >"$dir/programs/runtime.gz"
for program in bench/gpu_tool tests/gpu_kernels tests/gpu_device; do
  strip -o "$dir/bin/${program#*/}" "$build/$program"
done
while read -r library _; do
  case $library in
    linux-vdso.so* | libc.so* | libm.so* | */ld-linux-*) ;;
    *) echo "programs would need $library there: install the static libraries of zlib and jansson, and build again" >&2; exit 1 ;;
  esac
done < <(ldd "$temporary/apcrt-stub" "$dir"/bin/* | grep -v ':$')
# apc calibrate also runs there if NVRTC is found: it needs apc's libraries and the runtime of its probes.
mkdir "$dir/bin/lib"
strip -o "$dir/bin/apc" "$build/apc"
cp "$temporary/apcrt-stub" "$dir/bin/"
ldd "$build/apc" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | grep -vE '/(libc|libm|ld-linux[^/]*)\.so' | xargs -I{} cp -L {} "$dir/bin/lib/"
arch=$("$apc" targets | while read -r name _ gpu _; do if [ "$name" = "$target" ]; then echo "$gpu"; fi; done)
case $arch in sm_*) ;; *) echo "$target is no machine with GPUs ('apc targets' lists them)" >&2; exit 2 ;; esac

# The place of the token, as numpy writes one i64: 2000.
printf '\x93NUMPY\x01\x00v\x00%-117s\n\xd0\x07\0\0\0\0\0\0' "{'descr': '<i8', 'fortran_order': False, 'shape': (), }" >"$dir/at.npy"

# ---- compiling

compiles() { # compiles PROGRAM RANKS MODEL OPTIONS...
  local program=$1 ranks=$2
  shift 2
  echo "$program" >&2
  "$apc" "$@" -q --target "${target}x$ranks" ${texts:+"--save-temps=$texts"} -o "$temporary/program"
  cmp -s -n "$runtime" "$temporary/program" "$temporary/apcrt-stub" || { echo "$program: another runtime" >&2; exit 1; }
  tail -c +$((runtime + 1)) "$temporary/program" | gzip -9n >"$dir/programs/$program.gz"
}
refers() { # refers NAME MODEL OPTIONS...: the outputs of one CPU rank for $asked, in the same types
  local outputs=$dir/programs/$1.npz
  shift
  [ ! -e "$outputs" ] || return 0
  "$apc" "$@" -q --target cpu -o "$temporary/program"
  # shellcheck disable=SC2086
  (cd "$dir" && "$temporary/program" --bench=3 --warmup 0 $asked --outputs "$outputs" >/dev/null)
  # shellcheck disable=SC2086
  [ -z "$taught" ] || (cd "$dir" && "$temporary/program" $taught --save "${outputs%.npz}.safetensors" >/dev/null)
}
number_of() { # number_of KEY JSON
  [[ $2 =~ \"$1\":\ ([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

# ---- checked models

# one NAME RANKS PLAN: a program of $model, compiled with the options $made and run with $asked; $dtype: its compute
# type
one() {
  local program=$1.$2 reference=$1 weights= bits=() most=1e-4
  if [ -n "$dtype" ]; then program=$1-$dtype.$2 reference=$1-$dtype bits=(--dtype "$dtype") most=2e-2; fi
  [[ $program =~ $only ]] || return 0
  [ -e "$model" ] || { echo "there is no $model" >&2; exit 1; }
  # shellcheck disable=SC2086
  compiles "$program" "$2" "$model" "${bits[@]}" $made $3
  # shellcheck disable=SC2086
  refers "$reference" "$model" "${bits[@]}" $made
  case $model in
    *.onnx)
      cp -n "$model" "$folder/$1.inputs.npz" "$dir/models/"
      weights="--weights models/$1.onnx --inputs models/$1.inputs.npz"
      ;;
  esac
  echo "$program|$2|$reference.npz|$most|${weights:-$asked}" >>"$dir/check.list"
  [ -z "$taught" ] || echo "$program|$2|$reference.safetensors|$most|$taught" >>"$dir/check.list"
}
example() { # example NAME MODEL SIZES OPTIONS
  model=$source/examples/$2.apc made="$4 --init random --seed 7" asked=$3
}
exported() { # exported NAME
  model=$folder/$1.onnx made="--weights ref" asked="--inputs $folder/$1.inputs.npz"
}
text="--dim batch=4 --dim seq=12" images="--dim batch=4" dtype='' taught=''
five() { # five NAME MODEL SIZES OPTIONS: a model of the folder, or an example
  if [ -n "$folder" ]; then exported "$1"; else example "$@"; fi
}
five gpt gpt "$text" "-D layers=2 -D d=64 -D heads=4 -D vocab=300"
one gpt 1 ""
one gpt 2 "--tp 2"
one gpt 4 "--tp 2 --pp 2"
five llama llama "$text" "-D layers=2 -D d=64 -D heads=4 -D kv_heads=2 -D ffn=96 -D vocab=64"
one llama 1 ""
one llama 2 "--tp 2"
one llama 4 "--tp 2 --dp 2"
five bert bert "$text" "-D layers=2 -D d=64 -D heads=4 -D vocab=300"
one bert 1 ""
one bert 2 "--tp 2"
five resnet resnet "$images" "-D depth=18 -D width=8 -D classes=10 -D image=32"
one resnet 1 ""
five vit vit "$images" "-D layers=2 -D d=32 -D heads=4 -D patch=8 -D image=32 -D classes=10"
one vit 1 ""
example lstm lstm "$text" "-D layers=1 -D d=32 -D vocab=50"
one lstm 1 ""
example moe moe "$text" "-D layers=1 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50 -D routing=dropless"
one moe 1 ""
one moe 2 "--ep 2"
example cache llama "--entry decode --input at=@at.npy --dim batch=2" \
  "-D layers=2 -D d=64 -D heads=4 -D kv_heads=2 -D ffn=96 -D vocab=64 -D cache=1 -D ctx=2048"
one cache 1 ""
one cache 2 "--tp 2"
# In 16 bits.
dtype=bf16
five gpt gpt "$text" "-D layers=2 -D d=64 -D heads=4 -D vocab=300"
one gpt 1 ""
one gpt 2 "--tp 2"
five llama llama "$text" "-D layers=2 -D d=64 -D heads=4 -D kv_heads=2 -D ffn=96 -D vocab=64"
one llama 1 ""
five bert bert "$text" "-D layers=2 -D d=64 -D heads=4 -D vocab=300"
one bert 1 ""
five resnet resnet "$images" "-D depth=18 -D width=8 -D classes=10 -D image=32"
one resnet 1 ""
five vit vit "$images" "-D layers=2 -D d=32 -D heads=4 -D patch=8 -D image=32 -D classes=10"
one vit 1 ""
dtype=f16
five gpt gpt "$text" "-D layers=2 -D d=64 -D heads=4 -D vocab=300"
one gpt 1 ""
dtype=''

# ---- trained models: steps on one batch of random inputs, and on data

# 240 tokens below 64, of 16 bits; classes of 8 images.
for ((i = 0; i < 240; i++)); do printf "\\x$(printf %02x $((i * i * 7 % 61)))\\0"; done >"$dir/tokens.bin"
{
  printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '<i8', 'fortran_order': False, 'shape': (8,), }"
  printf '\3\0\0\0\0\0\0\0%.0s\6\0\0\0\0\0\0\0' 1 2 3 4
} >"$dir/classes.npy"

trained() { # trained NAME MODEL DATA OPTIONS
  example "$1" "$2" "" "$4"
  taught="--steps 4 --shuffle none $3"
}
sizes="-D layers=2 -D d=64 -D heads=4 -D vocab=64 --dim seq=12 --train cross_entropy --batch 4"
tokens="--data tokens=@tokens.bin"
gpt="-D ctx=16 $sizes --optimizer sgd(lr=1e-1,momentum=0.9,clip=1)"
trained train_gpt gpt "$tokens" "$gpt"
one train_gpt 1 ""
one train_gpt 2 "--tp 2"
one train_gpt 4 "--tp 2 --dp 2 --micro-batches 2 --recompute full"
trained train_pipeline gpt "$tokens" "$gpt"
one train_pipeline 2 "--pp 2 --micro-batches 4 --schedule zbh1"
one train_pipeline 4 "--pp 2 --dp 2 --micro-batches 2 --schedule zbv"
trained train_zero gpt "$tokens" "$gpt"
one train_zero 2 "--dp 2 --zero 3 --micro-batches 2"
trained train_llama llama "$tokens" "-D kv_heads=2 -D ffn=96 $sizes --optimizer adamw(lr=1e-3)"
one train_llama 1 ""
one train_llama 2 "--cp 2"
trained train_moe moe "$tokens" "-D kv_heads=2 -D ffn=48 $sizes --optimizer sgd(lr=1e-1)"
one train_moe 1 ""
trained train_resnet resnet "--input x=random:3 --data labels=@classes.npy" "-D depth=18 -D width=8 -D classes=10 -D image=32
  --train cross_entropy --batch 4 --optimizer sgd(lr=1e-3)"
one train_resnet 1 ""
one train_resnet 2 "--dp 2"
dtype=bf16
trained train_gpt gpt "$tokens" "$gpt"
one train_gpt 1 ""
one train_gpt 2 "--tp 2"
dtype='' taught=''

# ---- measured programs

# measured NAME CEILING BATCH BYTES OPERATIONS ARGUMENTS MODEL OPTIONS...: bytes and operations of one request; empty
# operations: as the plan counts.  Bytes "weights": a decoded token, which reads all weights; it has no plan of its own
measured() {
  local name=$1 ceiling=$2 batch=$3 bytes=$4 operations=$5 arguments=$6 plan h100 h200
  shift 6
  [[ $name =~ $only ]] || return 0
  compiles "$name" 1 "$@"
  plan=$("$apc" plan "$@" -q --target dgx-h100x1 --json)
  h100=$(number_of time_us "$plan")
  h200=$(number_of time_us "$("$apc" plan "$@" -q --target dgx-h200x1 --json)")
  [ -n "$operations" ] || operations=$(number_of flops "$plan")
  [ "$bytes" != weights ] || bytes=$(number_of params "$plan") h100=0 h200=0 # bytes on a device
  echo "$name|$arguments|${bytes:-0}|$operations|$ceiling|$h100|$h200|$batch" >>"$dir/bench.list"
}
shape() { # shape NAME CEILING BYTES OPERATIONS INPUTS RESULT
  printf 'entry main(%s) {\n  output y = %s\n}\n' "$5" "$6" >"$temporary/$1.apc"
  measured "$1" "$2" 1 "$3" "$4" "" "$temporary/$1.apc"
}
# Larger than the caches; read and written.  Causal attention computes half of all pairs.
r=8192 c=4096 n=4096 heads=16 seq=8192
if [ -n "$small" ]; then r=64 c=64 n=64 heads=2 seq=64; fi
rows="x: f32[$r, $c]" moved=$((2 * 4 * r * c))
shape relu copy $moved 0 "$rows" "relu(x)"
shape softmax copy $moved 0 "$rows" "softmax(x)"
shape layer_norm copy $moved 0 "$rows" "layer_normalize(x)"
shape rms_norm copy $moved 0 "$rows" "rms_normalize(x)"
shape transpose copy $moved 0 "$rows" "transpose(x, [1, 0])"
shape product f32 0 $((2 * n * n * n)) "x: f32[$n, $n], w: f32[$n, $n]" "matmul(x, w)"
for type in f32 bf16; do
  three="q: ${type}[1, $heads, $seq, 128], k: ${type}[1, $heads, $seq, 128], v: ${type}[1, $heads, $seq, 128]"
  shape "attention_$type" $type 0 $((2 * heads * seq * seq * 128)) "$three" "attention(q, k, v, causal=1)"
done
net() { # net NAME CEILING BATCH BYTES ARGUMENTS EXAMPLE OPTIONS SMALL_OPTIONS: ceiling bf16 computes in that
  local options=$7
  [ -z "$small" ] || options=$8
  [[ $1 != *_bf16 ]] || options="--dtype bf16 $options"
  # shellcheck disable=SC2086
  measured "$1" "$2" "$3" "$4" "${4:+0}" "$5" "$source/examples/$6.apc" --init random --seed 7 $options
}
layers="-D layers=2 -D vocab=4096" tiny="-D layers=1 -D d=64 -D heads=4 -D vocab=64 --dim batch=1"
net llama2_prefill f32 1 "" "" llama "$layers --dim batch=1 --dim seq=2048" "$tiny --dim seq=16"
net llama2_token copy 1 weights "--entry decode --input at=@at.npy" llama "$layers -D cache=1 --dim batch=1 --dim seq=128" "$tiny -D cache=1 --dim seq=16"
net gpt2_124m f32 1 "" "" gpt "--dim batch=1 --dim seq=1024" "$tiny --dim seq=16"
net bert_base f32 8 "" "" bert "--dim batch=8 --dim seq=512" "$tiny --dim seq=16"
net resnet50 f32 32 "" "" resnet "--dim batch=32" "-D depth=18 -D width=8 -D image=32 --dim batch=2"
for size in 1 8; do # of batches
  net gpt2_124m_b${size}_bf16 bf16 $size "" "" gpt "--dim batch=$size --dim seq=1024" "-D layers=1 -D d=64 -D heads=4 -D vocab=64 --dim batch=$size --dim seq=16"
done
net llama2_prefill_bf16 bf16 1 "" "" llama "$layers --dim batch=1 --dim seq=2048" "$tiny --dim seq=16"
net llama2_token_bf16 copy 1 weights "--entry decode --input at=@at.npy" llama "$layers -D cache=1 --dim batch=1 --dim seq=128" "$tiny -D cache=1 --dim seq=16"
net bert_base_bf16 bf16 8 "" "" bert "--dim batch=8 --dim seq=512" "$tiny --dim seq=16"
net resnet50_bf16 bf16 32 "" "" resnet "--dim batch=32" "-D depth=18 -D width=8 -D image=32 --dim batch=2"
train="--train cross_entropy --optimizer adamw(lr=1e-4)"
few="$train -D layers=1 -D d=64 -D heads=4 -D vocab=64 --dim seq=16"
net train_gpt2_124m f32 8 "" "" gpt "$train --batch 8 --dim seq=1024" "$few --batch 2"
net train_gpt2_124m_bf16 bf16 8 "" "" gpt "$train --batch 8 --dim seq=1024" "$few --batch 2"
net train_llama2_bf16 bf16 1 "" "" llama "$train $layers --dim seq=2048 --batch 1" "$few --batch 2"
net train_resnet50_bf16 bf16 32 "" "" resnet "$train --batch 32" "$train -D depth=18 -D width=8 -D image=32 --batch 2"

# ---- kernels, scripts, size

echo kernels >&2
"$dir/bin/gpu_kernels" compile "$dir/kernels" "$arch" "$every" ${texts:+"$texts"} >"$temporary/kernels"
gzip -9n "$dir"/kernels/*.cubin
cp "$source/bench/gpu/on_device.sh" "$source/bench/gpu/torch_shapes.py" "$dir/"
touch "$dir/check.list" "$dir/bench.list"
{
  echo "revision=$(git -C "$source" describe --always --dirty 2>/dev/null || echo unknown)"
  echo "target=$target"
  echo "arch=$arch"
  echo "kernels=$(cat "$temporary/kernels")"
} >"$dir/made"
bytes=$(du -sb "$dir" | cut -f 1)
printf '%s: %d.%d MiB for %s\n' "$dir" $((bytes >> 20)) $(((bytes & 1048575) * 10 >> 20)) "$arch"
[ "$bytes" -le $((most << 20)) ] || { echo "that is more than $most MiB; --only selects fewer programs" >&2; exit 1; }
