#!/usr/bin/env bash
# bench/schedules.sh - one training step in two stages with each schedule, and without stages: predicted times, and
# measured times on two CPU ranks.
#
# usage: bench/schedules.sh [MICRO_BATCHES...]
#   BUILD=build  ROUNDS=3  STEPS=6
# Programs run alternately, round after round.  Prints the least time of a step for each program, and for dp 2, which
# has the same batch without stages.  A GPT of 12 layers of width 256, 8 sequences of 128 tokens, AdamW, f32.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${BUILD:-build}") rounds=${ROUNDS:-3} steps=${STEPS:-6}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
model=(examples/gpt.apc -D layers=12 -D d=256 -D heads=8 -D vocab=1024 -D ctx=128 --dim seq=128 --batch 8 --target cpux2
  --train cross_entropy --optimizer 'adamw(lr=3e-4)')
python3 -c 'import array, random; r = random.Random(1)
array.array("H", [r.randrange(1024) for _ in range(100000)]).tofile(open("'"$folder"'/tokens.bin", "wb"))'
names=()
make() { # NAME options...
  local name=$1
  shift
  "$build/apc" "${model[@]}" "$@" -o "$folder/$name" 2>&1 | sed -nE 's/.*predicted ([0-9.]+ m?s).*/\1/p' >"$folder/$name.predicted"
  names+=("$name")
}
export OMP_NUM_THREADS=1
make dp --dp 2
for micro in "${@:-2 4 8}"; do
  for m in $micro; do
    for schedule in gpipe 1f1b zbh1 zbv interleaved:2; do
      make "$schedule-$m" --pp 2 --micro-batches "$m" --schedule $schedule
    done
  done
done
for ((i = 0; i < rounds; i++)); do
  for name in "${names[@]}"; do
    "$folder/$name" --data tokens=@"$folder/tokens.bin" --bits 16 --steps "$steps" 2>&1 |
      sed -nE 's/^step [0-9]+ .* ([0-9.]+) ms$/\1/p' | tail -n +2 >>"$folder/$name.times"
  done
done
printf '%-16s %12s %12s\n' "" predicted "measured, ms"
for name in "${names[@]}"; do
  printf '%-16s %12s %12.1f\n' "$name" "$(cat "$folder/$name.predicted")" "$(sort -g "$folder/$name.times" | head -1)"
done
