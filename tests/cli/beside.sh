#!/usr/bin/env bash
# tests/cli/beside.sh APC - sums of gradients of CPU ranks beside the backward pass: where the link is slow they begin
# when their gradient is made, and what is not hidden is in the price.  cli.zero trains with them.
. "$(dirname "$0")/lib.sh"
link() { # link NAME RATE: two ranks share the cable
  printf '%s\n' 'cpu core { arch avx512; cores 2; memory 16 GB at 45 GB/s; launch 5 us; peak f32 220 GFLOPS; }' \
    "machine pair { devices 1 core; link cable at $2 latency 50 us; }" >"$1.topo"
}
link slow '625 MB/s'
link fast '20 GB/s'
gpt="$source_dir/examples/gpt.apc -D layers=1 -D heads=2 -D vocab=24 -D ctx=64 --train cross_entropy --dp 2"
gpt="$gpt --micro-batches 1"
small="$gpt -D d=16 --dim seq=6 --batch 8"

# The text of the schedule: sums that are not awaited at once, and computation between a sum and its wait.
cat >early.py <<'E2'
import re, sys
begun, hidden, reduces = {}, 0, 0
for i, line in enumerate(l for l in open("out") if re.match(r"  [a-z_]+ ", l)):
    event = re.search(r"event (\d+)  # .*\.grad\.", line)
    reduces += bool(re.match(r"  (all_reduce|reduce_scatter) .*\.grad\.", line))
    if event and not line.startswith("  wait"): begun[event[1]] = i
    elif event and event[1] in begun: hidden += i - begun.pop(event[1]) > 1
print(hidden, "of", reduces)
assert reduces > 10 and not begun
sys.exit(hidden != 0 if sys.argv[1] == "late" else hidden < reduces - 5)
E2
# shellcheck disable=SC2086
for way in late early; do
  [ $way = late ] && target=fast || target=slow
  expect 0 "" "$apc" $small -q --target ./$target.topox2 --zero 0 --emit=schedule=-
  check "sums over the $target link are not $way" /usr/bin/python3 early.py $way
done

# The price: without computation the wire is waited for; if there is much of it, the work of the ranks is left.
priced() { # priced LEAST MOST OPTIONS...: seconds of collectives, as a share of the wire's
  local least=$1 most=$2
  shift 2
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan $gpt -q --target ./slow.topox2 --zero 0 --json "$@"
  expect_json "$least < d['breakdown_us']['collectives'] / (d['params'] * 4 / 312.5) < $most"
}
priced 0.95 1.05 -D d=512 --dim seq=2 --batch 2
priced 0.4 0.6 -D d=512 --dim seq=64 --batch 64
summary 8
