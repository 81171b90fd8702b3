#!/bin/bash
# The messages, exit codes and leftovers of a program for GPUs when a device, a driver or a call fails: on the doubles.
# A run is three requests: one call by call, one that is captured, one that is replayed.
#   faults.sh APC DOUBLES [EVERY]        every EVERY-th call of a run fails, one per run (1: all of them), and each call
#                                        that makes graphs.  Every fourth of those if APC_QUARTER says so (test.sh)
. "$(dirname "$0")/../cli/lib.sh"
doubles=$(realpath "$2") every=${3:-1} first=0 number=0
[ -z "${APC_QUARTER-}" ] || every=$((every * 4)) first=$APC_QUARTER
gpt=$source_dir/examples/gpt.apc
small="-D layers=1 -D d=32 -D heads=4 -D vocab=50 --dim batch=2 --dim seq=8"

"$apc" "$gpt" -q --target dgx-a100x4 $small --tp 2 --pp 2 --save-temps=texts -o gpt >out 2>&1
case $(cat out) in *NVRTC*) echo "skipped: no NVRTC"; exit 77 ;; esac
run=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_TEXTS=$work/texts" "DOUBLES_REPORT=$work/report" "DOUBLES_SHARED=$work/shared")
ask=(./gpt --input tokens=random --output logits=@logits.npy --warmup=0 --bench=2 --timeout 20s)
mkdir shared
ranks() { ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n "s|.* /proc/\([0-9]*\)/exe -> $work/gpt\$|\1|p"; }
no_rank_is_left() { [ -z "$(ranks)" ]; }
nothing_is_left() { check "a rank is left" no_rank_is_left; check "shared memory is left" test -z "$(ls shared)"; }
no_violation() { check "$(cat report 2>/dev/null)" test ! -s report; }

# the correct run
expect 0 "" "${run[@]}" "${ask[@]}"
only_wrote
no_violation
nothing_is_left
cp logits.npy right.npy

# as ranks started by a launcher
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
expect 5 "required: for CUDA 12.0 or later" "${run[@]}" DOUBLES_DRIVER=11040 "${ask[@]}"
expect 5 "does not run" "${run[@]}" DOUBLES_ARCH=75 "${ask[@]}"
expect 5 "CUDA_ERROR_NO_DEVICE" "${run[@]}" DOUBLES_GPUS=0 "${ask[@]}"
expect 6 "on its device" "${run[@]}" DOUBLES_MEMORY=20000 "${ask[@]}"
expect 5 "no NVIDIA driver" env LD_LIBRARY_PATH=/nowhere "${ask[@]}"
nothing_is_left

# a rank that makes no progress; a piece of work that fails: in the first request, the second, the third (if it is
# communication, the ranks that wait for it are late, too)
works=$(rm -f trace; "${run[@]}" DOUBLES_ON=1 DOUBLES_WATCH=1 DOUBLES_TRACE="$work/trace" "${ask[@]}" >out 2>err; grep -cE '^(work|node) ' trace)
each=$((works / 3))
check "a rank does $works pieces of work" test $each -gt 30
for ((n = 40; n <= works; n += each)); do # after the preparation of weights
  expect 7 "is late" "${run[@]}" DOUBLES_ON=1 DOUBLES_STALL=$n "${ask[@]/20s/2s}"
  check "work $n: the call that is late" grep -qE "$late_call" err
  expect 6 "CUDA_ERROR_LAUNCH_FAILED" "${run[@]}" DOUBLES_ON=1 DOUBLES_FAIL_LATE=$n "${ask[@]}"
done
nothing_is_left

# hit SIGNAL CODE TEXT VARIABLE...: a signal hits a rank while all compute.
hit() {
  local signal=$1 code=$2 text=$3 process got
  shift 3
  last="SIG$signal to a rank, $*"
  env "${run[@]:1}" "$@" ./gpt --input tokens=random --bench=1000000 --timeout 2s >out 2>err </dev/null &
  process=$!
  for _ in $(seq 600); do [ "$(pgrep -cP $process)" -eq 4 ] && break; sleep 0.1; done
  sleep 2
  kill "-$signal" "$(pgrep -P $process | sed -n 2p)"
  for _ in $(seq 900); do kill -0 $process 2>/dev/null || break; sleep 0.1; done
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

# Fails every call once, on every rank: the N-th of each function.  Of queries, whose number depends on timing, only
# some.  The failed call is named, with exit code 6, or 5 while the GPU is looked for; calls that free may fail silently
# at the end if the results are right, and so may a query that only some runs make.
for r in 0 1 2 3; do "${run[@]}" DOUBLES_ON=$r DOUBLES_NAMES="$work/names.$r" "${ask[@]}" >out 2>err; done
asks='cuStreamQuery|cuEventQuery|ncclCommGetAsyncError'
for r in 0 1 2 3; do grep -vE "^($asks|DOUBLES_.*)\$" names.$r | sort | uniq -c; done | awk '{ if ($1 > most[$2]) most[$2] = $1 }
  END { for (f in most) for (n = 1; n <= most[f]; n++) print f ":" n }' | sort -t: -k1,1 -k2n >all
check "a rank makes $(wc -l <all) calls" test "$(wc -l <all)" -gt 300
awk -v every="$every" -v first="$first" 'NR % every == first || every > 4 && /Capture|Graph|PrimaryCtxRetain|cuMemHostAlloc/' all >some
for f in ${asks//|/ }; do printf "$f:%d\n" 1 2 7 50 300; done >>some
given_back='Free|Destroy|Unload|Release|Finalize'
while read -r n; do
  last="$n fails"
  timeout 60 "${run[@]}" DOUBLES_FAIL="$n" DOUBLES_SEED=${n#*:} "${ask[@]}" >out 2>err </dev/null
  code=$?
  name=${n%:*} said=${n%:*}
  said=${said%_host} said=${said%_v[0-9]}
  case $code in
    0)
      check "it failed silently" grep -qE "$given_back|cuCtxSetCurrent|cuStreamSynchronize|^($asks)\$" <<<"$name"
      check "other results" cmp -s logits.npy right.npy
      nothing_is_left
      ;;
    5 | 6)
      check "$said is not named" grep -qE "^error: .*$said" err
      check "a rank is left" no_rank_is_left
      rm -f shared/* # the double of NCCL leaves files if a rank ends before all have met
      ;;
    *) fail "exit $code" ;;
  esac
done <some

# Every EVERY-th call of each function of cuDNN, of a program that uses every kind of convolution.
"$apc" "$source_dir/tests/doubles/convolutions.apc" -q --target dgx-a100x1 --dim batch=2 --save-temps=texts -o convolutions
run+=("DOUBLES_SEED=6" "DOUBLES_DNN_GAPS=3")
ask=(./convolutions --input x=random --output last=@last.npy)
rm -f report # events whose destruction was made to fail
expect 0 "" "${run[@]}" DOUBLES_NAMES="$work/names" "${ask[@]}"
only_wrote
no_violation
cp last.npy right.npy
expect 0 "" "${run[@]}" APC_CONV=kernel DOUBLES_NAMES="$work/others" "${ask[@]}"
check "cuDNN is asked though APC_CONV says kernel" bash -c '! grep cudnn others'
grep cudnn names | sort | uniq -c >counts
check "$(wc -l <counts) functions of cuDNN" test "$(wc -l <counts)" -eq 23
while read -r count name; do
  for ((n = 1; n <= count; n++)); do
    number=$((number + 1))
    [ $((number % every)) -eq $first ] || continue
    case $name in
      cudnnDestroy*) expect 0 "" "${run[@]}" DOUBLES_FAIL="$name:$n" "${ask[@]}"; check "other results" cmp -s last.npy right.npy ;;
      *) expect 6 "$name (" "${run[@]}" DOUBLES_FAIL="$name:$n" "${ask[@]}" ;;
    esac
  done
done <counts

# The same for the functions of gradients, in a training step.
cat >trained.apc <<'E'
import nn

dim batch

entry main(x: f32[batch, 4, 12, 12]) {
  h = relu(conv2d(x, 8, 3, std=0.2) as "first")
  h = conv2d(h, 8, 3, stride=2, std=0.2) as "second"
  output y = mean(reshape(h, [batch, 8, 36]), 2)
}
E
rm -rf texts
"$apc" compile trained.apc -q --train mse --batch 4 --optimizer "sgd(lr=1e-2)" --target dgx-a100x1 --save-temps=texts \
  -o trained
/usr/bin/python3 -c 'import numpy as np
r = np.random.default_rng(0)
np.save("x.npy", r.standard_normal((8, 4, 12, 12)).astype("f4"))
np.save("labels.npy", r.standard_normal((8, 8)).astype("f4"))'
run=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_TEXTS=$work/texts" "DOUBLES_REPORT=$work/report" DOUBLES_DNN_GAPS=0)
ask=(./trained --steps 2 --data x=@x.npy --data labels=@labels.npy --shuffle none)
rm -f names report
expect 0 "" "${run[@]}" DOUBLES_NAMES="$work/names" "${ask[@]}"
no_violation
grep Backward names | sort | uniq -c >counts
check "$(wc -l <counts) functions of gradients" test "$(wc -l <counts)" -eq 6
while read -r count name; do
  for ((n = 1; n <= count; n++)); do
    number=$((number + 1))
    [ $((number % every)) -eq $first ] || continue
    expect 6 "$name (" "${run[@]}" DOUBLES_FAIL="$name:$n" "${ask[@]}"
  done
done <counts
summary 67
