#!/usr/bin/env bash
# bench/scaling.sh - one model on one rank with one core, and on two ranks with one core each.
#
# usage: bench/scaling.sh MODEL [apc options for both]
#   BUILD=build  CORES2=0,1  CORE1=0  ROUNDS=5  RUNS=20  OPTIONS2= (for two ranks only)
#   RUN= (for the programs, as "--dim batch=8 --dim seq=256")
# Rounds alternate.  Prints the least of the rounds' medians, the least time, and the speedup by each.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build} rounds=${ROUNDS:-5} runs=${RUNS:-20}
model=${1:?usage: bench/scaling.sh MODEL [apc options]}
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
read -ra options2 <<<"${OPTIONS2:-}"
read -ra run <<<"${RUN:-}"
export OMP_NUM_THREADS=1
"$build/apc" -q "$model" --target cpux1 "$@" -o "$folder/one"
"$build/apc" -q "$model" --target cpux2 "$@" "${options2[@]}" -o "$folder/two"
times() { # CORES PROGRAM: median and least
  taskset -c "$1" "$2" "${run[@]}" --bench="$runs" 2>&1 | sed -nE 's/.*median ([0-9.]+) ms.*min ([0-9.]+) ms.*/\1 \2/p'
}
for ((i = 0; i < rounds; i++)); do
  times "${CORE1:-0}" "$folder/one" >>"$folder/one.txt"
  times "${CORES2:-0,1}" "$folder/two" >>"$folder/two.txt"
done
least() { cut -d' ' -f"$1" "$2" | sort -g | head -1; }
awk -v m1="$(least 1 "$folder/one.txt")" -v l1="$(least 2 "$folder/one.txt")" \
  -v m2="$(least 1 "$folder/two.txt")" -v l2="$(least 2 "$folder/two.txt")" 'BEGIN {
  if (!(m1 > 0 && m2 > 0)) { print "scaling.sh: a program printed no times" > "/dev/stderr"; exit 1 }
  printf "1 rank  median %9.3f ms  least %9.3f ms\n2 ranks median %9.3f ms  least %9.3f ms\n", m1, l1, m2, l2
  printf "speed-up %.2f of medians, %.2f of least times\n", m1 / m2, l1 / l2 }'
