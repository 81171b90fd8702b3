#!/bin/bash
# Mutants of programs for GPUs, on the doubles: a call that copies, computes, communicates or waits for an event is
# left out on one rank, an address is wrong, a barrier is missing from a kernel.  Each must be found under one of some
# seeds: another exit code, other numbers, or a violation.  At least 97 of 100 are; the others are listed.  What no seed
# comes to is no mutant.  Waits of queues are counted apart: one may follow from others (at the end of a request all
# communication is waited for once more, and what a send has read may never be written again), so that a third
# must be found.
#   mutants.sh APC DOUBLES [SEEDS [EVERY]]        EVERY: every so many of them only
. "$(dirname "$0")/../cli/lib.sh"
doubles=$2 seeds=${3:-8} every=${4:-1}
small="-D vocab=500 --dim batch=2 --dim seq=32"
total=0 found=0 waits=0 waits_found=0 number=0 unreached=2

# is_found SETTINGS...: 0 found, 1 survives, 2 never reached
is_found() {
  local seed reached=$unreached
  for ((seed = 1; seed <= seeds; seed++)); do
    rm -f report logits.npy
    "${run[@]}" DOUBLES_SEED=$seed "$@" "${ask[@]}" >out 2>err </dev/null || return 0
    [ -s report ] && return 0
    cmp -s logits.npy right.npy || return 0
    grep -q 'as asked for' err && reached=1
  done
  return $reached
}
mutant() { # mutant WHAT SETTINGS...
  local what=$1
  shift
  number=$((number + 1))
  [ $((number % every)) -eq 0 ] || return
  is_found "$@"
  local result=$?
  [ $result -eq 2 ] && return
  [ $result -eq 1 ] && echo "survives: $name: $what"
  case $what in
    cuStreamWaitEvent*) waits=$((waits + 1)) waits_found=$((waits_found + 1 - result)) ;;
    *) total=$((total + 1)) found=$((found + 1 - result)) ;;
  esac
}

# Every call that does something.  Not among them: records of events, since who waits for one is, and others are there to
# be watched; waits for a whole queue, since programs here have one request, behind which nobody uses anything.
matter='cuStreamWaitEvent|cuEventSynchronize|cuMemcpy|cuMemset|cuLaunchKernel|cuGraphLaunch|cublasLtMatmul$|nccl(All|Red|Bro|Send|Recv)'
calls_of_a_rank() { # calls_of_a_rank SETTINGS...
  local count call n
  while read -r count call; do
    for ((n = 1; n <= count; n++)); do mutant "$call $n left out" "$@" DOUBLES_DROP=$call:$n; done
  done < <(grep -E "$matter" names | sort | uniq -c)
  for ((n = 1; n <= $(grep -c cuLaunchKernel names); n++)); do mutant "address of launch $n" "$@" DOUBLES_SHIFT=$n; done
}

# Every barrier of the kernels' bodies.
barriers() {
  local text line first
  mkdir -p changed
  for text in "$name.texts"/*.cu; do
    first=$(grep -n '^KERNEL(' "$text" | head -n 1 | cut -d: -f1)
    while read -r line; do
      [ "$line" -gt "$first" ] || continue
      rm -f changed/*
      cp "$name.texts"/*.cu changed
      for copy in changed/*.cu; do sed -i "${line}s/\(warp_\)\?barrier()/(void)0/" "$copy"; done
      unreached=1 # the text does not say so
      mutant "line $line: $(sed -n "${line}p" "$text" | tr -d ' ')" "DOUBLES_TEXTS=$work/changed"
    done < <(grep -nE '\b(warp_)?barrier\(\);' "$text" | cut -d: -f1)
    return # the others are the same
  done
}

# program NAME DEVICE MODEL OPTIONS...: mutants of the rank that uses that device
program() {
  name=$1
  local device=$2 model=$3
  shift 3
  "$apc" "$source_dir/examples/$model" -q --target dgx-a100x4 $small "$@" "--save-temps=$name.texts" -o "$name" >out 2>&1
  case $(cat out) in *NVRTC*) echo "skipped: no NVRTC"; exit 77 ;; esac
  run=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_REPORT=$work/report" "DOUBLES_SHARED=$work" "DOUBLES_CACHE=$work"
    "DOUBLES_TEXTS=$work/$name.texts" "DOUBLES_ON=$device")
  ask=(timeout 60 "./$name" --input tokens=random --output logits=@logits.npy --timeout 3s)
  rm -f names
  "${run[@]}" "DOUBLES_NAMES=$work/names" "${ask[@]/3s/60s}" || exit 1
  cp logits.npy right.npy
  unreached=2
  calls_of_a_rank
  barriers
}

program cut 0 llama.apc -D layers=1 -D d=512 -D heads=4 -D kv_heads=4 -D ffn=1024 --tp 4
program pipeline 2 llama.apc -D layers=2 -D d=128 -D heads=4 -D kv_heads=4 -D ffn=256 --tp 2 --pp 2 --micro-batches 2
echo "$found of $total mutants are found, and $waits_found of $waits waits"
[ $total -ge 20 ] && [ $((found * 100)) -ge $((total * 97)) ] && [ $((waits_found * 3)) -ge $waits ]
