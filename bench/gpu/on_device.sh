#!/usr/bin/env bash
# bench/gpu/on_device.sh - checks and times, on a machine with a GPU, the programs that bench/gpu/pack.sh compiled.
#
# usage: on_device.sh check|bench DIR OUT
#   DIR       the output of pack.sh, with this script
#   OUT       a new or empty folder for logs, outputs and table.md
#   MINUTES=9 items that would begin later are skipped and count as failed
#   WORKERS=4 programs that are checked at a time; kernels and compute-sanitizer beside them
#   ONLY=REGEX runs only programs whose names match
#   RUNS=10 measured runs of each; TORCH=170 seconds after which PyTorch begins no measurement
#   CALIBRATED=60 seconds for apc calibrate; 0 skips it
#   COPIED=1073741824 bytes, MULTIPLIED=8192 rows: sizes to measure ceilings with
#
# Needs bash, coreutils, the C library and NVIDIA's driver.  Uses NCCL, compute-sanitizer and python3 with torch if they
# are found; otherwise their rows say "left out".  Uses the first visible GPU.
#
# check: copies, fills and products against loops on the host; every kernel against the interpreter; programs against
# one CPU rank (1e-4; in 16 bits 2e-2), calls replayed as graphs and issued one by one; 2 and 4 ranks through the host's
# memory; NCCL; outputs and trained weights of training programs.
# bench: the copy and product rates of this GPU, then times of kernels and networks relative to these, beside the plan's
# prediction and compiled PyTorch.  Times on the GPU exclude transfers between host and device; times of requests
# include them, and are given without and with --tune, whose files stay in OUT.
#
# Every item has a time limit and a log; a failure does not stop the others.  Prints a Markdown table at the end.
# Exit code 0: no item failed.
set -u
case ${1-} in check | bench) ;; *) echo "usage: on_device.sh check|bench DIR OUT" >&2; exit 2 ;; esac
if [ $# -ne 3 ] || [ ! -r "$2/made" ]; then
  echo "usage: on_device.sh check|bench DIR OUT, where DIR is of pack.sh" >&2
  exit 2
fi
[ -z "$(ls -A "$3" 2>/dev/null)" ] || { echo "$3 is not empty" >&2; exit 2; }
mkdir -p "$3" || exit 2
mode=$1 dir=$(realpath "$2") out=$(realpath "$3") end=$((SECONDS + ${MINUTES:-9} * 60))
tool=$dir/bin/gpu_tool runs=${RUNS:-10} programs=$out/programs only=${ONLY:-.}
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
cd "$dir" || exit 2
mkdir -p "$programs"

# ---- items

rows=() passed=0 failed=0 left_out=0
item='' log='' result='' why=''

row() { rows+=("| $1 | $2 | $3 |"); }

# begin ITEM: starts the item of the following `step` and `finish`
begin() {
  item=$1 log=$out/${1//[^A-Za-z0-9_.]/-}.log result=passed why=
  : >"$log"
}
fail() {
  [ $result = FAILED ] && return
  result=FAILED why=$1
}
# step SECONDS COMMAND...: a part of the item; skipped after a failure
step() {
  local limit=$1 left=$((end - SECONDS)) code
  shift
  [ $result = FAILED ] && return 1
  [ $left -gt 1 ] || { fail "no time is left"; return 1; }
  [ "$limit" -le $left ] || limit=$left
  echo "+ $*" >>"$log"
  timeout --kill-after=5 "$limit" "$@" >>"$log" 2>&1
  code=$?
  case $code in
    0) return 0 ;;
    124 | 137) fail "late: not done after $limit s" ;;
    *) fail "exit $code: $(tail -n 1 "$log")" ;;
  esac
  return 1
}
# finish NUMBERS
finish() {
  if [ "$result" = FAILED ]; then failed=$((failed + 1)); else passed=$((passed + 1)); fi
  row "$item" "$result" "${why:-$1}"
  printf '%s %s: %s\n' "$result" "$item" "${why:-$1}"
}
leave_out() { # leave_out ITEM WHY
  left_out=$((left_out + 1))
  row "$1" "left out" "$2"
  printf 'left out %s: %s\n' "$1" "$2"
}
last_line() { tail -n 1 "$log"; }

# several "FUNCTION ARGUMENTS"...: in parallel, each in its own shell; rows are added in this order
several() {
  local i=0 work a b c
  for work in "$@"; do
    (
      rows=() passed=0 failed=0 left_out=0
      $work
      printf '%s\n' "$passed $failed $left_out" "${rows[@]}" >"$out/rows.$i"
    ) &
    i=$((i + 1))
  done
  wait
  for ((i = 0; i < $#; i++)); do
    {
      read -r a b c
      passed=$((passed + a)) failed=$((failed + b)) left_out=$((left_out + c))
      while read -r work; do rows+=("$work"); done
    } <"$out/rows.$i"
    rm "$out/rows.$i"
  done
}

# ---- the machine

declare -A found=() made=() ceilings=() torch=()
read_values() { # read_values ARRAY FILE: reads its lines NAME=VALUE
  local -n values=$1
  local line
  while read -r line; do
    [[ $line =~ ^([a-z0-9_]+)=(.*)$ ]] && values[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
  done <"$2"
}
read_values made made
begin "GPU and libraries"
step 60 "$tool" versions
read_values found "$log"
finish "${found[gpu]-no GPU}, ${found[arch]-}, ${found[memory]-}; driver for ${found[driver]-none}, cuBLASLt ${found[cublaslt]-none}, cuDNN ${found[cudnn]-none}, NCCL ${found[nccl]-none}"
has_nccl() { [ "${found[nccl]-none}" != none ]; }

unpack() { # unpack PROGRAM
  [ -x "$programs/$1" ] && return
  local packed=$programs/$1.$BASHPID.gz
  cat programs/runtime.gz "programs/$1.gz" >"$packed" # gzip reads both as one stream
  step 60 "$tool" unpack "$packed" "$programs/$1" && step 10 chmod +x "$programs/$1"
}

# ---- check

# asks REFERENCE OUTPUTS: further arguments of a program, so that its $outputs can be compared; sets $trains to "" or
# the addition to the item's name
asks() {
  case $1 in
    *.npz) outputs=$2.npz trains='' ask=(--bench=3 --warmup 0 --outputs "$2.npz") ;;
    *) outputs=$2.safetensors trains=', trained' ask=(--save "$2.safetensors") ;;
  esac
}

check_program() { # check_program PROGRAM HOW REFERENCE TOLERANCE ARGUMENTS SETTINGS...
  local program=$1 how=$2 reference=$3 most=$4 arguments=$5 outputs ask trains
  shift 5
  asks "$reference" "$out/$program-${how//[^a-z]/-}"
  begin "$program$trains, $how"
  unpack "$program"
  # shellcheck disable=SC2086
  step 60 env "$@" "$programs/$program" $arguments "${ask[@]}" --timeout 40s &&
    step 20 "$tool" compare "$outputs" "programs/$reference" "$most"
  finish "$(last_line)"
}

# One process per rank, as torchrun starts them, each claiming another machine: NCCL refuses two ranks of one machine on
# one GPU, and then uses the network interface.
check_two_ranks() { # check_two_ranks PROGRAM REFERENCE TOLERANCE ARGUMENTS
  local program=$1 reference=$2 most=$3 port=$((20000 + BASHPID % 20000)) said=$out/$1-nccl-rank1.log other
  local both=(env WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "MASTER_PORT=$port" NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=INFO)
  local outputs ask trains
  asks "$reference" "$out/$1-nccl"
  begin "$program$trains, two ranks of NCCL"
  if unpack "$program"; then
    # shellcheck disable=SC2086
    timeout --kill-after=5 60 "${both[@]}" RANK=1 LOCAL_RANK=1 NCCL_HOSTID=second "$programs/$program" $4 "${ask[@]}" \
      --timeout 40s >"$said" 2>&1 &
    other=$!
    # shellcheck disable=SC2086
    step 60 "${both[@]}" RANK=0 LOCAL_RANK=0 NCCL_HOSTID=first "$programs/$program" $4 "${ask[@]}" --timeout 40s
    wait $other || fail "rank 1: exit $?: $(tail -n 1 "$said")"
    step 20 "$tool" compare "$outputs" "programs/$reference" "$most"
  fi
  finish "$(last_line)"
}

check_programs() { # check_programs FIRST EVERY: of check.list
  local number=0 before='' program ranks reference most arguments
  while IFS='|' read -r program ranks reference most arguments; do
    [ "$program" = "$before" ] || number=$((number + 1)) # one worker unpacks a program and runs all its rows
    before=$program
    [ $((number % $2)) -eq "$1" ] && [[ $program =~ $only ]] || continue
    if [ "$ranks" -eq 1 ]; then
      check_program "$program" "replayed" "$reference" "$most" "$arguments"
      check_program "$program" "call by call" "$reference" "$most" "$arguments" APC_EAGER=1
    else
      check_program "$program" "through the host" "$reference" "$most" "$arguments" APC_COMM=staged
    fi
    [ "$ranks" -eq 2 ] || continue
    if has_nccl; then
      check_two_ranks "$program" "$reference" "$most" "$arguments"
    else
      leave_out "$program, two ranks of NCCL" "no NCCL is found"
    fi
  done <check.list
}

check_sanitized() { # check_sanitized TOOL EVERY: every EVERY-th kernel
  local sanitizer file
  sanitizer=$(command -v compute-sanitizer) || for file in /usr/local/cuda*/bin/compute-sanitizer; do
    [ -x "$file" ] && sanitizer=$file
  done
  if [ -z "$sanitizer" ]; then
    leave_out "kernels under $1" "compute-sanitizer is not found"
    return
  fi
  begin "kernels under $1"
  step 100 "$sanitizer" --error-exitcode 9 --tool "$1" bin/gpu_kernels run kernels "$2" here
  finish "$(last_line)"
}

check_kernels() {
  begin "copies, fills, products"
  step 60 bin/gpu_device
  finish "$(last_line)"
  begin "kernels"
  step 240 bin/gpu_kernels run kernels
  finish "$(last_line)"
  if has_nccl; then
    begin "one rank of NCCL in a graph"
    step 60 "$tool" nccl
    finish "$(last_line)"
  else
    leave_out "one rank of NCCL in a graph" "no NCCL is found"
  fi
}

check() {
  local workers=${WORKERS:-4} work=("check_kernels") i
  for ((i = 0; i < workers; i++)); do work+=("check_programs $i $workers"); done
  several "${work[@]}" "check_sanitized memcheck 8" "check_sanitized racecheck 16"
}

# ---- bench

measure_torch() {
  if ! timeout 60 python3 -c 'import torch; assert torch.cuda.is_available()' >"$out/torch.log" 2>&1; then
    leave_out "compiled PyTorch" "no python3 with a torch that sees a GPU is found"
    return
  fi
  begin "compiled PyTorch"
  step 240 python3 torch_shapes.py "${TORCH:-170}" "$only"
  read_values torch "$log"
  finish "torch ${torch[version]-unknown}, ${#torch[@]} values"
}

measure_program() { # measure_program PROGRAM ARGUMENTS BYTES OPERATIONS CEILING PLANNED BATCH
  local program=$1 arguments=$2 bytes=$3 operations=$4 ceiling=$5 planned=$6 batch=$7 profile=$out/$1.profile.json
  local request='' tuned='' figures
  begin "$program"
  unpack "$program"
  # shellcheck disable=SC2086
  step 90 "$programs/$program" --bench="$runs" --warmup 2 $arguments
  [[ $(last_line) =~ median\ ([0-9.]+)\ ms ]] && request=${BASH_REMATCH[1]}
  # shellcheck disable=SC2086
  step 90 bash -c 'file=$1 && shift && "$@" >"$file"' - "$profile" "$programs/$program" --bench="$runs" --warmup 2 --profile=json $arguments
  step 10 "$tool" figures "$profile" "$bytes" "$operations" "${ceilings[$ceiling]-0}" "$planned" "${torch[$program]-0}"
  figures=$(last_line)
  # shellcheck disable=SC2086
  step 90 "$programs/$program" --bench="$runs" --warmup 2 --tune "$out/$program.tuned.txt" $arguments
  [[ $(last_line) =~ median\ ([0-9.]+)\ ms ]] && tuned=${BASH_REMATCH[1]}
  finish "$figures; a request of $batch: $request ms, tuned $tuned ms"
}

# Measures figures of this machine as a target file, figures.topo; compiling here needs NVRTC.
calibrate() {
  local what="figures of this machine" seconds=${CALIBRATED:-60}
  [ "$seconds" -gt 0 ] || { leave_out "$what" "CALIBRATED=0"; return; }
  begin "$what"
  step $((seconds + 120)) env LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir/bin/lib" "$dir/bin/apc" calibrate --target "${made[target]}x1" --effort "$seconds" -o "$out/figures.topo"
  if grep -q NVRTC "$log"; then leave_out "$what" "no NVRTC is found"; else finish "$(last_line)"; fi
}

bench() {
  local program arguments bytes operations ceiling h100 h200 batch
  begin "ceilings"
  step 90 "$tool" ceilings "${COPIED:-1073741824}" "${MULTIPLIED:-8192}"
  read_values ceilings "$log"
  finish "copy ${ceilings[copy]-0} GB/s; products ${ceilings[f32]-0} TFLOP/s in f32, ${ceilings[tf32]-0} in tf32, ${ceilings[bf16]-0} in bf16"
  calibrate
  measure_torch
  while IFS='|' read -r program arguments bytes operations ceiling h100 h200 batch; do
    [[ $program =~ $only ]] || continue
    case ${found[gpu]-} in *H200*) h100=$h200 ;; esac
    measure_program "$program" "$arguments" "$bytes" "$operations" "$ceiling" "$h100" "$batch"
  done <bench.list
}

# ---- all items

$mode
{
  printf '| %s | result | numbers |\n| --- | --- | --- |\n' "$mode"
  printf '%s\n' "${rows[@]}"
  printf '| in all | %s | %d passed, %d failed, %d left out, in %d s; %s; %s for %s, kernels: %s |\n' \
    "$([ $failed -eq 0 ] && echo passed || echo FAILED)" $passed $failed $left_out $SECONDS "$(date -u +%F)" \
    "${made[revision]-}" "${made[target]-} (${made[arch]-})" "${made[kernels]-}"
} >"$out/table.md"
printf '\n'
cat "$out/table.md"
[ $failed -eq 0 ]
