#!/bin/bash
# The long part of unit.planner_forced: forced_plans.sh BUILD [first case [cases [plans of each]]] - each case in a process of its own, 90 s at most.
# Prints what failed, and sums of what was tried.  A case that takes longer is counted as late, not as wrong.
cd "$(dirname "$0")/.." || exit 1
build=${1:?the build folder} first=${2:-0} cases=${3:-300} plans=${4:-5} failed=0 late=0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for ((i = first; i < first + cases; i++)); do
  timeout 90 "$build/tests/test_planner_forced" "$i" 1 "$plans" >"$out/$i" 2>"$out/err"
  code=$?
  if [ $code = 124 ]; then late=$((late + 1))
  elif [ $code != 0 ]; then failed=$((failed + 1)); cat "$out/err"; fi
done
awk -F'[:,]' '/ cases:/ { split($2, a, " "); p += a[1]; split($3, b, " "); r += b[1]; split($4, c, " "); s += c[1]; split($5, d, " "); t += d[1] }
  END { printf "%d forced plans, %d refused, %d shown ones forced, %d at the bound\n", p, r, s, t }' "$out"/[0-9]*
echo "$cases cases, $failed failed, $late late"
[ $failed = 0 ]
