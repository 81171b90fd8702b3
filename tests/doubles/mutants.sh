#!/bin/bash
# Mutants of programs for GPUs, on the doubles.  Each runs two requests with different values, one call by call and one
# captured, or one of each of three sizes.  On one rank a call that copies, computes, communicates or waits for an event
# is left out; an address is wrong, or belongs to other sizes; host memory is used before a copy is over; communication,
# or the ranks of a communicator, are reordered; or a kernel lacks a barrier.  Each must be found under one of some
# seeds: another exit code, other numbers, or a violation.  At least 97 of 100 are; the others are listed.  A mutation
# that no seed reaches is not counted.
#
# Some waits of queues for each other are free: a run without them has the same order of uses of memory.  waits.py finds
# these from a trace of the run, not from the results without them; the doubles must detect the lack of every other wait
# by the uses of memory (watch.h), in one run, and report nothing if a free one is left out.  At most a quarter of all
# waits are free: the runtime does not request orders that it has.
#
# All of them with 12 seeds, November 2026: 334 of 339 are found (calls left out 169 of 172, waits 54 of 54, addresses
# 56 of 56, communication 23 of 24, kept addresses 23 of 24, pinned memory 5 of 5, barriers 4 of 4); 6 more waits are
# free.  The survivors:
#   cut: launch 13, pipeline: launches 19 and 20 left out  positions, and the number of keys: the request before has
#                                                          left the same values there
#   sizes: STALE 7                                         the number of keys: that memory still has a larger number,
#                                                          which hides none
#   pipeline: KEY 1                                        two ranks that only add up have no order
#
#   mutants.sh APC DOUBLES PROGRAMS [SEEDS [EVERY [KINDS]]]
#     PROGRAMS: doubles_programs, which makes the requests; EVERY: only one in so many mutants; KINDS: only mutants of
#     matching kinds, as "waits|free".  A quarter of them if APC_QUARTER says so (test.sh).
. "$(dirname "$0")/../cli/lib.sh"
doubles=$2 programs=$(realpath "$3") seeds=${4:-8} every=${5:-1} kinds=${6:-.}
small="-D vocab=500 --dim batch=2 --dim seq=32"
number=0
declare -A total=() found=()

# is_found SETTINGS...: 0 found, 1 survives, 2 never reached
is_found() {
  local seed reached=2
  for ((seed = 1; seed <= seeds; seed++)); do
    rm -f report logits.npy
    "${run[@]}" DOUBLES_SEED=$seed "$@" "${ask[@]}" >out 2>err </dev/null || return 0
    [ -s report ] && return 0
    cmp -s logits.npy right.npy || return 0
    grep -q 'as asked for' err && reached=1
  done
  return $reached
}
mutant() { # mutant KIND WHAT SETTINGS...
  local kind=$1 what=$2
  shift 2
  [[ $kind =~ $kinds ]] || return
  number=$((number + 1))
  [ $((number % every)) -eq 0 ] || return
  [ $((number / every % 4)) -eq "${APC_QUARTER:-$((number / every % 4))}" ] || return
  is_found "$@"
  local result=$?
  [ $result -eq 2 ] && return
  [ $result -eq 1 ] && [ "$kind" != free ] && echo "survives: $name: $what"
  [ "$kind" = free ] && echo "free: $name: $what"
  total[$kind]=$((${total[$kind]:-0} + 1)) found[$kind]=$((${found[$kind]:-0} + 1 - result))
}

# Every call with an effect, except: records of events, whose waits are mutated; words that report the progress of a
# queue (graphs.sh checks these); waits for a whole queue, which EARLY covers.  Waits between queues have their own
# function.
matter='cuEventSynchronize|cuMemcpy|cuMemset[A-Za-z0-9]*$|cuLaunchKernel|cuGraphLaunch|cublasLtMatmul$|cudnn(Con|Add|Act)|nccl(All|Red|Bro|Send|Recv)'
calls_left_out() { # calls_left_out NAMES SETTINGS...
  local count call n names=$1
  shift
  while read -r count call; do
    for ((n = 1; n <= count; n++)); do mutant calls "$call $n left out" "$@" DOUBLES_DROP=$call:$n; done
  done < <(grep -E "$names" names | sort | uniq -c)
}
shifted_addresses() {
  local n
  for ((n = 1; n <= $(grep -c cuLaunchKernel names); n++)); do mutant addresses "address of launch $n" DOUBLES_SHIFT=$n; done
}

# Waits of streams for events.  The lack of a needed wait must be found without comparing numbers: the doubles watch the
# uses of memory (watch.h).  A free wait changes nothing, and its lack must not be reported.
waits() {
  local n verdict why mine seeds=1 before=("${ask[@]}")
  [ "$name" = sizes ] || ask[-1]=3 # requests: one may need what another one leaves out
  rm -f trace report
  "${run[@]}" DOUBLES_WATCH=1 "DOUBLES_TRACE=$work/trace" "${ask[@]/3s/240s}" >out 2>err || { cat err; exit 1; }
  [ -s report ] && cat report && exit 1
  mv right.npy two.npy
  mv logits.npy right.npy
  while read -r n verdict why; do
    mine=waits
    [ "$verdict" = needed ] || mine=free
    mutant $mine "wait $n, $why" DOUBLES_WATCH=1 DOUBLES_DROP=cuStreamWaitEvent:$n
  done < <("$source_dir/tests/doubles/waits.py" trace)
  ask=("${before[@]}")
  mv two.npy right.npy
}
turns() { # turns SETTING KIND: every possible occasion of the setting
  local n
  for ((n = 1; n <= $(grep -c "^DOUBLES_$1\$" names); n++)); do mutant "$2" "$1 $n" "DOUBLES_$1=$n"; done
}

# Every barrier that a kernel reaches: the text reports there that it was left out.
left_out='({ extern int dprintf(int, const char *, ...); static int said; if (!said++) dprintf(2, "as asked for\\n"); })'
barriers() {
  local text=$(ls "$name.texts"/*.cu | head -n 1) line # the other texts are the same
  mkdir -p changed
  while read -r line; do
    rm -f changed/*
    cp "$name.texts"/*.cu changed
    for copy in changed/*.cu; do sed -i "${line}s|\(warp_\)\?barrier()|$left_out|" "$copy"; done
    mutant barriers "line $line: $(sed -n "${line}p" "$text" | tr -d ' \\')" "DOUBLES_TEXTS=$work/changed"
  done < <(grep -nE '\b(warp_)?barrier\(\);' "$text" | cut -d: -f1)
}

# program NAME DEVICE MODEL OPTIONS...: mutates the rank that uses that device
program() {
  name=$1
  local device=$2 model=$3
  shift 3
  "$apc" "$source_dir/examples/$model" -q --target dgx-a100x4 $small "$@" "--save-temps=$name.texts" -o "$name" >out 2>&1
  case $(cat out) in *NVRTC*) echo "skipped: no NVRTC"; exit 77 ;; esac
  run=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_REPORT=$work/report" "DOUBLES_SHARED=$work" "DOUBLES_CACHE=$work"
    "DOUBLES_TEXTS=$work/$name.texts" "DOUBLES_ON=$device")
  ask=(timeout 300 "$programs" . ask "./$name" logits.npy 3s)
  [ "$name" = sizes ] || ask+=(2)
  rm -f names
  "${run[@]}" "DOUBLES_NAMES=$work/names" "${ask[@]/3s/240s}" || exit 1
  cp logits.npy right.npy
}

program cut 0 llama.apc -D layers=1 -D d=512 -D heads=4 -D kv_heads=4 -D ffn=1024 --tp 4
calls_left_out "$matter"
waits
shifted_addresses
turns LATER communication
turns EARLY pinned
program pipeline 2 llama.apc -D layers=2 -D d=128 -D heads=4 -D kv_heads=4 -D ffn=256 --tp 2 --pp 2 --micro-batches 2
calls_left_out "$matter"
waits
shifted_addresses
turns LATER communication
turns KEY communication
# Attention of several tiles.
small="-D vocab=50 --dim batch=1 --dim seq=150"
program tiles 0 llama.apc -D layers=1 -D d=64 -D heads=4 -D kv_heads=2 -D ffn=96 --tp 2
barriers
small="--dim batch=2"
program convolutions 0 ../tests/doubles/convolutions.apc
calls_left_out 'cudnn(Con|Add|Act)'
# Weights that fill the staging memory of the device more than twice; three sizes.
small="-D vocab=500 --dim-hint batch=4 --dim-hint seq=12"
program sizes 0 llama.apc -D layers=1 -D d=768 -D heads=4 -D kv_heads=4 -D ffn=3072 --tp 2
turns STALE kept
turns EARLY pinned
calls_left_out cuGraphLaunch
waits

all=0 good=0
for kind in calls waits addresses communication kept pinned barriers; do
  echo "$kind: ${found[$kind]:-0} of ${total[$kind]:-0} mutants are found"
  all=$((all + ${total[$kind]:-0})) good=$((good + ${found[$kind]:-0}))
done
echo "$good of $all mutants are found; ${total[free]:-0} more waits are free, and ${found[free]:-0} of them changed something"
# In a quarter, up to two survivors and two free waits may exceed the share.
few=0
[ -z "${APC_QUARTER-}" ] || few=2
[ $((all * (few + 1))) -ge $((150 / every)) ] && [ $(((good + few) * 100)) -ge $((all * 97)) ] || exit 1
[ "${found[free]:-0}" -eq 0 ] && [ $(((${total[free]:-0} - few) * 3)) -le "${total[waits]:-0}" ]
