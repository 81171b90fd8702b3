#!/usr/bin/env bash
# bench/loaded.sh - compiled programs on cores that other processes load, against idle cores.
#
# usage: bench/loaded.sh PROGRAM...
#   CORES=0,1  LOAD=2 (number of busy loops on these cores)  ROUNDS=5  RUNS=10
#   RUN= (for the programs, as "--dim batch=8" or "--inputs x.npz")
# Rounds alternate between idle and loaded, and between the programs (give one twice, with and without OMP_WAIT_POLICY:
# "env OMP_WAIT_POLICY=active ./model").  Prints per program the median of the rounds' medians, idle and loaded, and
# their ratio; for loaded rounds also the least and the largest median, and the least time of all.  It first prints the
# load of the machine: with other load the idle rounds are not idle.
set -euo pipefail
load=${LOAD:-2} rounds=${ROUNDS:-5} runs=${RUNS:-10} cores=${CORES:-0,1}
[ $# -gt 0 ] || { echo "usage: bench/loaded.sh PROGRAM..." >&2; exit 2; }
taskset -cp "$cores" $$ >/dev/null
folder=$(mktemp -d)
busy=()
end_load() {
  [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  busy=()
}
trap 'end_load; rm -rf "$folder"' EXIT
begin_load() {
  for ((i = 0; i < load; i++)); do
    while :; do :; done &
    busy+=($!)
  done
}
read -ra run <<<"${RUN:-}"
round() { # round idle|loaded PROGRAM...
  local how=$1 p
  shift
  for ((p = 1; p <= $#; p++)); do
    read -ra program <<<"${!p}"
    "${program[@]}" "${run[@]}" --bench="$runs" >"$folder/out" 2>&1 || { cat "$folder/out" >&2; exit 1; }
    sed -nE 's/.*median ([0-9.]+) ms.*min ([0-9.]+) ms.*/\1 \2/p' "$folder/out" >>"$folder/$how.$p"
    [ -s "$folder/$how.$p" ] || { echo "loaded.sh: ${!p} printed no times" >&2; exit 1; }
  done
}
echo "load $(cut -d' ' -f1 /proc/loadavg)"
for ((r = 0; r < rounds; r++)); do
  round idle "$@"
  begin_load
  round loaded "$@"
  end_load
done
for ((p = 1; p <= $#; p++)); do
  idle=$(sort -g "$folder/idle.$p" | awk '{ m[NR] = $1 } END { print m[int((NR + 1) / 2)] }')
  sort -g "$folder/loaded.$p" | awk -v name="${!p}" -v idle="$idle" '
    { m[NR] = $1; if (NR == 1 || $2 < least) least = $2 }
    END { middle = m[int((NR + 1) / 2)]
          printf "%-40s idle %9.3f ms  loaded %9.3f  ratio %5.2f   ", name, idle, middle, middle / idle
          printf "loaded medians: least %9.3f  largest %9.3f   least time %9.3f ms\n", m[1], m[NR], least }'
done
