#!/bin/bash
# --tune on the doubles: the file is made by timing (pretended times of several algorithms), agreed on by all ranks,
# read by later starts, which time nothing, and refused or ignored if it does not fit.
#   tune.sh APC DOUBLES
. "$(dirname "$0")/../cli/lib.sh"
doubles=$(realpath "$2")
small="-D vocab=50 --dim batch=2 --dim seq=8"
mkdir shared
# shellcheck disable=SC2086
"$apc" compile "$source_dir/examples/gpt.apc" -q $small -D layers=1 -D d=32 -D heads=4 --target dgx-a100x1 --save-temps=texts -o alone >out 2>&1
case $(cat out) in *NVRTC*) echo "skipped: no NVRTC"; exit 77 ;; esac
run=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_TEXTS=$work/texts" "DOUBLES_REPORT=$work/report" "DOUBLES_SHARED=$work/shared" DOUBLES_ALGORITHMS=6)
ask=(--input tokens=random:5 --output logits=@logits.npy --warmup=0 --bench=2)
no_violation() { check "$(cat report 2>/dev/null)" test ! -s report; }
count() { grep -c "^$1\$" names; }

# Made: each of five products has six algorithms. Each is called twice, the fastest six times more; others take more
# than 1.5 times as long.  Then the request that is captured calls each product once.
expect 0 "tuned 5 products" "${run[@]}" DOUBLES_FASTEST=3 DOUBLES_NAMES="$work/names" ./alone --tune choices "${ask[@]}"
no_violation
check "$(cat choices)" test "$(grep -c '^product .* = algorithm 3, .*, 10.0 us, recommended 20.0 us$' choices)" -eq 5
check "the file names device and versions" grep -qE '^of Double sm_80 .*CUDA 13000, cuBLASLt 130100' choices
check "$(count cublasLtMatmul) products" test "$(count cublasLtMatmul)" -eq $((5 * (2 * 6 + 6) + 2 * 5))
cp choices made && cp logits.npy right.npy

# Read: nothing is timed, and the algorithms are the file's.  Their results are those of all others here.
rm names
expect 0 "" "${run[@]}" DOUBLES_FASTEST=5 DOUBLES_NAMES="$work/names" ./alone --tune choices "${ask[@]}"
only_wrote
no_violation
check "it timed $(count cuEventElapsedTime_v2), $(count cuEventElapsedTime)" bash -c '! grep -q cuEventElapsed names'
check "$(count cublasLtMatmul) products" test "$(count cublasLtMatmul)" -eq 10
check "the file changed" cmp -s choices made
cmp -s logits.npy right.npy || fail "other results"

# The recommendation stays if nothing is clearly faster; an algorithm that fails is not chosen.
expect 0 "tuned 5 products" "${run[@]}" DOUBLES_FASTEST=0 ./alone --tune first "${ask[@]}"
check "$(cat first)" test "$(grep -c '= algorithm 0, .*, 10.0 us, recommended 10.0 us$' first)" -eq 5
rm names
expect 0 "" "${run[@]}" DOUBLES_NAMES="$work/names" ./alone "${ask[@]}"
before=$(count cublasLtMatmul) # of two requests; the next one is the first timed call of algorithm 0, then 1, ...
expect 0 "tuned 5 products" "${run[@]}" DOUBLES_FASTEST=1 DOUBLES_FAIL=cublasLtMatmul:$((before / 2 + 3)) ./alone --tune failed "${ask[@]}"
check "$(cat failed)" test "$(grep -c '= algorithm 1,' failed)" -eq 4

# Too little memory for operands: what cannot be timed keeps the recommendation, and it is said.
expect 0 "; 5 do not fit into the GPU's memory" "${run[@]}" DOUBLES_FASTEST=3 DOUBLES_MEMORY=$((64 << 20)) ./alone --tune crowded "${ask[@]}"
check "a file without choices" test ! -e crowded

# Another device, another version of a library: one line.
for other in DOUBLES_ARCH=90 DOUBLES_BLAS=130200 DOUBLES_DRIVER=13010; do
  expect 0 "note: --tune choices is not used: it is for Double sm_80" "${run[@]}" $other ./alone --tune choices "${ask[@]}"
  check "more than one line: $(cat err)" test "$(grep -vc '^wrote ' err)" -eq 1
  check "the file changed" cmp -s choices made
done

# Files that are none, damaged ones, places that cannot be used.
echo "hello" >bad
expect 1 "bad:1: expected 'apc tuning 1'" "${run[@]}" ./alone --tune bad "${ask[@]}"
head -n 1 made >bad
expect 1 "bad:2: expected 'of '" "${run[@]}" ./alone --tune bad "${ask[@]}"
{ cat made; echo "product"; } >bad
expect 1 "bad:8: expected KEY = CHOICE" "${run[@]}" ./alone --tune bad "${ask[@]}"
{ head -n 3 made; tail -n 1 made; sed -n 4p made; } >bad
expect 1 "bad:5: the keys are not in the order of their bytes" "${run[@]}" ./alone --tune bad "${ask[@]}"
{ cat made; tail -n 1 made; } >bad
expect 1 "bad:8: the key is there twice" "${run[@]}" ./alone --tune bad "${ask[@]}"
sed 's/algorithm 3/algorithm 30/' made >bad
expect 1 "expected an algorithm; remove the file" "${run[@]}" ./alone --tune bad "${ask[@]}"
sed 's/workspace [0-9]*/workspace 1/' made >bad
expect 1 "cuBLASLt does not offer that algorithm" "${run[@]}" ./alone --tune bad "${ask[@]}"
expect 1 "--tune shared: " "${run[@]}" ./alone --tune shared "${ask[@]}"
expect 1 "--tune none/choices: the file cannot be made: No such file" "${run[@]}" ./alone --tune none/choices "${ask[@]}"
expect 2 "--tune needs a value" ./alone --tune
expect 2 "--tune needs a file" "${run[@]}" ./alone --tune "" "${ask[@]}"
{ head -n 2 made; seq -f "key %06g = algorithm 0" 65537; } >bad
expect 1 "bad:65539: it has more than 65536 choices" "${run[@]}" ./alone --tune bad "${ask[@]}"
check "a damaged file is found by the ranks: $(cat err)" bash -c '! grep -q "rank 0" err'

# A call of the timing that fails ends the run and leaves no file.
for call in cuEventElapsedTime:1 cuMemsetD8Async:1 cuMemcpyDtoDAsync_v2:1; do
  last="$call fails"
  timeout 60 "${run[@]}" DOUBLES_FASTEST=3 DOUBLES_FAIL=$call ./alone --tune broken "${ask[@]}" >out 2>err
  code=$?
  case $call in cuMemcpy*) [ $code -eq 0 ] || check "exit $code" test $code -eq 6 ;; *) check "exit $code: $(cat err)" test $code -eq 6; check "a file is left" test ! -e broken ;; esac
  rm -f broken
done

# Ranks: two stages know other products; both get one table, and rank 0 writes it.
# shellcheck disable=SC2086
"$apc" compile "$source_dir/examples/llama.apc" -q $small -D layers=2 -D d=64 -D heads=4 -D kv_heads=4 -D ffn=96 --target dgx-a100x4 --tp 2 --pp 2 --save-temps=texts -o ranks
expect 0 "tuned 5 products" "${run[@]}" DOUBLES_FASTEST=2 ./ranks --tune together "${ask[@]}"
no_violation
check "$(cat together)" test "$(grep -c '= algorithm 2,' together)" -eq 5
cp logits.npy right.npy
for engine in nccl staged; do
  rm -f names
  expect 0 "" "${run[@]}" APC_COMM=$engine DOUBLES_NAMES="$work/names" ./ranks --tune together "${ask[@]}"
  only_wrote
  check "a rank timed" bash -c '! grep -q cuEventElapsed names'
  check "other results" cmp -s logits.npy right.npy
done
# as ranks started by a launcher: each reads its own file
port=$((20000 + $$ % 20000))
launcher=(WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port)
launch() { # launch CODE TEXT FILE_OF_RANK_1
  for r in 1 2 3; do
    [ $r = 1 ] && file=$3 || file=launched
    "${run[@]}" DOUBLES_FASTEST=2 "${launcher[@]}" RANK=$r LOCAL_RANK=$r ./ranks --tune $file >"out.$r" 2>"err.$r" &
  done
  expect "$1" "$2" "${run[@]}" DOUBLES_FASTEST=2 "${launcher[@]}" RANK=0 LOCAL_RANK=0 ./ranks --tune launched "${ask[@]}"
  wait
}
launch 0 "tuned " launched
check "another table than ranks of one machine" diff <(sed 's/,[^,]*us, .*//' launched) <(sed 's/,[^,]*us, .*//' together)
launch 0 "wrote logits.npy" launched
launch 1 "rank 1 has another file for --tune than rank 0" first
launch 1 "rank 1 has another file for --tune than rank 0" absent

# A program gets both a file of weights and a file of choices.
cat >w.apc <<'E'
import nn

entry main(x: f32[16, 32]) {
  weight w: f32[32, 48] = normal(0.1)
  output y = matmul(x, w)
}
E
/usr/bin/python3 - <<'P'
import json, struct
n = 32 * 48 * 4
h = json.dumps({"w": {"dtype": "F32", "shape": [32, 48], "data_offsets": [0, n]}}).encode()
h += b" " * (-len(h) % 8)
open("w.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + struct.pack("<f", 0.5) * (n // 4))
P
"$apc" compile w.apc -q --target dgx-a100x1 --save-temps=texts -o weighted
weighted=(./weighted --weights w.safetensors --tune both --input x=random --output y=@y.npy --warmup=0 --bench=2)
expect 0 "tuned 1 products" "${run[@]}" DOUBLES_FASTEST=2 "${weighted[@]}"
mv y.npy right.npy
expect 0 "" "${run[@]}" "${weighted[@]}"
only_wrote
check "other results than when it was made" cmp -s y.npy right.npy

# Convolutions: all ways of cuDNN, and the kernel; a step of training as well.
"$apc" "$source_dir/tests/doubles/convolutions.apc" -q --target dgx-a100x1 --dim batch=2 --save-temps=texts -o convolutions
convolve=(--input x=random --output last=@last.npy --warmup=0 --bench=2)
for gaps in 0 3; do
  with=("${run[@]}" DOUBLES_SEED=6 DOUBLES_DNN_GAPS=$gaps)
  rm -f convs names
  expect 0 "tuned " "${with[@]}" DOUBLES_FASTEST=1 ./convolutions --tune convs "${convolve[@]}"
  no_violation
  cp last.npy right.npy
  check "$(cat convs)" grep -qE '^convolution .* = (alone|joined|apart) 1, 10.0 us' convs
  [ $gaps = 0 ] || check "$(cat convs)" grep -qE '^convolution .* = kernel 0, 15.0 us, the recommended way was refused' convs
  expect 0 "" "${with[@]}" DOUBLES_NAMES="$work/names" ./convolutions --tune convs "${convolve[@]}"
  only_wrote
  no_violation
  check "it timed" bash -c '! grep -q cuEventElapsed names'
  check "other results than when it was made" cmp -s last.npy right.npy
done
sed 's/= kernel 0/= kernel 7/' convs >bad
expect 1 "cuDNN does not offer that way" "${with[@]}" ./convolutions --tune bad "${convolve[@]}"

# A program whose requests are not one graph: its recorded calls follow the table.
# shellcheck disable=SC2086
"$apc" compile "$source_dir/examples/lstm.apc" -q -D layers=1 -D d=32 -D vocab=50 --dim batch=2 --dim seq=5 --target dgx-a100x1 --save-temps=texts -o loop
expect 0 "tuned " "${run[@]}" DOUBLES_FASTEST=3 ./loop --tune looped "${ask[@]}"
no_violation
check "$(cat looped)" grep -q '= algorithm 3,' looped

# Programs for CPUs have nothing to choose.
"$apc" compile "$source_dir/examples/mlp.apc" -q --target cpu -o cpu
expect 5 "this program is for CPUs" ./cpu --tune choices --input x=random
summary 60
