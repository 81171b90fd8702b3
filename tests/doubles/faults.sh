#!/bin/bash
# What a program for GPUs says and leaves when a device, a driver or a call fails: on the doubles.
#   faults.sh APC DOUBLES [EVERY]        every EVERY-th call of a run fails in turn (1: all of them)
. "$(dirname "$0")/../cli/lib.sh"
doubles=$(realpath "$2") every=${3:-1} gpt=$source_dir/examples/gpt.apc
small="-D layers=1 -D d=32 -D heads=4 -D vocab=50 --dim batch=2 --dim seq=8"

"$apc" "$gpt" -q --target dgx-a100x4 $small --tp 2 --pp 2 --save-temps=texts -o gpt >out 2>&1
case $(cat out) in *NVRTC*) echo "skipped: no NVRTC"; exit 77 ;; esac
run=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_TEXTS=$work/texts" "DOUBLES_REPORT=$work/report" "DOUBLES_SHARED=$work/shared")
ask=(./gpt --input tokens=random --output logits=@logits.npy --timeout 20s)
mkdir shared
ranks() { ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n "s|.* /proc/\([0-9]*\)/exe -> $work/gpt\$|\1|p"; }
no_rank_is_left() { [ -z "$(ranks)" ]; }
nothing_is_left() { check "a rank is left" no_rank_is_left; check "shared memory is left" test -z "$(ls shared)"; }
no_violation() { check "$(cat report 2>/dev/null)" test ! -s report; }

# the run as it should be
expect 0 "" "${run[@]}" DOUBLES_CALLS="$work/calls" "${ask[@]}"
no_err
no_violation
nothing_is_left
cp logits.npy right.npy
calls=$(sort -n calls | tail -n 1)
check "a rank makes $calls calls" test "$calls" -gt 100

# as ranks that a launcher starts
port=$((20000 + $$ % 20000))
launcher=(WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port)
rm -f logits.npy
for r in 1 2 3; do "${run[@]}" "${launcher[@]}" RANK=$r LOCAL_RANK=$r ./gpt >"out.$r" 2>"err.$r" & done
expect 0 "" "${run[@]}" "${launcher[@]}" RANK=0 LOCAL_RANK=0 "${ask[@]}"
wait
check "a launcher's ranks give other numbers" cmp -s logits.npy right.npy
no_violation
nothing_is_left

# other machines
expect 5 "wanted is for CUDA 12.0 or later" "${run[@]}" DOUBLES_DRIVER=11040 "${ask[@]}"
expect 5 "does not run" "${run[@]}" DOUBLES_ARCH=75 "${ask[@]}"
expect 5 "CUDA_ERROR_NO_DEVICE" "${run[@]}" DOUBLES_GPUS=0 "${ask[@]}"
expect 6 "on its device" "${run[@]}" DOUBLES_MEMORY=20000 "${ask[@]}"
expect 5 "no NVIDIA driver" env LD_LIBRARY_PATH=/nowhere "${ask[@]}"
nothing_is_left

# a rank that makes no progress; a piece of work that fails
expect 7 "is late" "${run[@]}" DOUBLES_ON=1 DOUBLES_STALL=20 "${ask[@]/20s/2s}"
expect 6 "CUDA_ERROR_LAUNCH_FAILED" "${run[@]}" DOUBLES_ON=2 DOUBLES_FAIL_LATE=9 "${ask[@]}"
nothing_is_left

# hit SIGNAL CODE TEXT VARIABLE...: a rank that is hit while all compute.
hit() {
  local signal=$1 code=$2 text=$3 process got
  shift 3
  last="SIG$signal to a rank, $*"
  env "${run[@]:1}" "$@" ./gpt --input tokens=random --bench=1000000 --timeout 2s >out 2>err </dev/null &
  process=$!
  for _ in $(seq 100); do [ "$(pgrep -cP $process)" -eq 4 ] && break; sleep 0.1; done
  sleep 2
  kill "-$signal" "$(pgrep -P $process | sed -n 2p)"
  for _ in $(seq 200); do kill -0 $process 2>/dev/null || break; sleep 0.1; done
  kill -KILL $process 2>/dev/null
  wait $process
  got=$?
  check "exit $got, wanted $code" test $got -eq "$code"
  expect_err "$text"
  check "a rank is left" no_rank_is_left
  rm -f shared/*
}
for engine in nccl staged; do
  hit KILL 6 "rank 1 was killed by signal 9" APC_COMM=$engine
  hit STOP 7 "rank 1" APC_COMM=$engine
done

# Every call in turn, of every rank (which make some more or fewer calls, as they wait).  Its failure is named, with exit code 6, or 5 while the GPU is looked for; what is
# given back at the end may fail unseen when the results are right.
given_back() {
  local end=''
  [ $((2 * n)) -gt "$calls" ] && end='|cu(Stream|Event)Query|cuStreamSynchronize|cuCtxSetCurrent|ncclCommGetAsyncError'
  ! tr '|' '\n' <<<"$1" | grep -vqE "^\$|Free|Destroy|Unload|Release|Finalize$end"
}
for ((n = 1; n <= calls; n += every)); do
  last="call $n fails"
  timeout 60 "${run[@]}" DOUBLES_FAIL=$n DOUBLES_SEED=$n "${ask[@]}" >out 2>err </dev/null
  code=$?
  names=$(sed -nE 's/^double: call [0-9]+, ([A-Za-z0-9]+)(_v[0-9]+)?, fails as asked for/\1/p' err | sort -u | paste -sd'|')
  case $code in
    0)
      check "one of $names failed unseen" given_back "$names"
      check "other results" cmp -s logits.npy right.npy
      nothing_is_left
      ;;
    5 | 6)
      check "none of $names is named" grep -qE "^error: .*($names)" err
      check "a rank is left" no_rank_is_left
      rm -f shared/* # the double of NCCL leaves its own where a rank ends before all have met
      ;;
    *) fail "exit $code" ;;
  esac
done

# Every EVERY-th call of each function of cuDNN, of a program in which it has every way to do a convolution.
"$apc" "$source_dir/tests/doubles/convolutions.apc" -q --target dgx-a100x1 --dim batch=2 --save-temps=texts -o convolutions
run+=("DOUBLES_SEED=6" "DOUBLES_DNN_GAPS=3")
ask=(./convolutions --input x=random --output last=@last.npy)
rm -f report # events whose end was made to fail
expect 0 "" "${run[@]}" DOUBLES_NAMES="$work/names" "${ask[@]}"
no_err
no_violation
cp last.npy right.npy
expect 0 "" "${run[@]}" APC_CONV=kernel DOUBLES_NAMES="$work/others" "${ask[@]}"
check "cuDNN is asked though APC_CONV says kernel" bash -c '! grep cudnn others'
grep cudnn names | sort | uniq -c >counts
check "$(wc -l <counts) functions of cuDNN" test "$(wc -l <counts)" -eq 23
while read -r count name; do
  for ((n = 1; n <= count; n += every)); do
    case $name in
      cudnnDestroy*) expect 0 "" "${run[@]}" DOUBLES_FAIL="$name:$n" "${ask[@]}"; check "other results" cmp -s last.npy right.npy ;;
      *) expect 6 "$name (" "${run[@]}" DOUBLES_FAIL="$name:$n" "${ask[@]}" ;;
    esac
  done
done <counts
summary 60
