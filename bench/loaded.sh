#!/usr/bin/env bash
# bench/loaded.sh - compiled programs on a machine whose cores are also wanted by others.
#
# usage: bench/loaded.sh PROGRAM...
#   LOAD=4 (busy loops in the background)  ROUNDS=5  RUNS=10  RUN= (for the programs, as "--dim batch=8")
# Rounds alternate between the programs (give one twice, with and without OMP_WAIT_POLICY: "env OMP_WAIT_POLICY=active ./model").
# Prints per program the median, the least and the largest of the rounds' medians, and the least time of all.
set -euo pipefail
load=${LOAD:-4} rounds=${ROUNDS:-5} runs=${RUNS:-10}
[ $# -gt 0 ] || { echo "usage: bench/loaded.sh PROGRAM..." >&2; exit 2; }
folder=$(mktemp -d)
busy=()
trap 'kill "${busy[@]}" 2>/dev/null; rm -rf "$folder"' EXIT
for ((i = 0; i < load; i++)); do
  while :; do :; done &
  busy+=($!)
done
read -ra run <<<"${RUN:-}"
for ((r = 0; r < rounds; r++)); do
  for ((p = 1; p <= $#; p++)); do
    read -ra program <<<"${!p}"
    "${program[@]}" "${run[@]}" --bench="$runs" 2>&1 | sed -nE 's/.*median ([0-9.]+) ms.*min ([0-9.]+) ms.*/\1 \2/p' >>"$folder/$p"
  done
done
for ((p = 1; p <= $#; p++)); do
  sort -g "$folder/$p" | awk -v name="${!p}" '
    { m[NR] = $1; if (NR == 1 || $2 < least) least = $2 }
    END { if (!NR) { print "loaded.sh: " name " printed no times" > "/dev/stderr"; exit 1 }
          printf "%-40s medians: middle %9.3f ms  least %9.3f  largest %9.3f   least time %9.3f ms\n", name, m[int((NR + 1) / 2)], m[1], m[NR], least }'
done
