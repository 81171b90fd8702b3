#!/usr/bin/env bash
# bench/overlap.sh - sums of gradients beside the backward pass: a step of two data-parallel CPU ranks over a slow link,
# with sums that begin early, with sums at the end, and the computation alone.
#
# usage: bench/overlap.sh [MBIT...]                            rates of the link (default 1000 2500)
#   BUILD=build  ROUNDS=3  RUNS=6  MODEL_OPTIONS="-D layers=4 ..." BATCH=8 SEQ=128
#
# Two network namespaces, joined by a cable with a token bucket, are two machines of one rank and one thread each.  The
# early program is compiled for a target with that link, the late one for ranks of one machine: the same plan, the same
# bits.  Alone: two programs of one rank with half of the batch, at the same time.  Rounds alternate.  Prints the least
# of the rounds' medians, and the ratio to the computation alone.  Needs root, ip and tc.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${BUILD:-build}") rounds=${ROUNDS:-3} runs=${RUNS:-6} batch=${BATCH:-8} seq=${SEQ:-128}
options=${MODEL_OPTIONS:--D layers=4 -D d=384 -D heads=6 -D vocab=1024 -D ctx=$seq}
model=$PWD/examples/gpt.apc rates=("${@:-1000}")
[ $# -gt 0 ] || rates=(1000 2500)
folder=$(mktemp -d) a=apc-a-$$ b=apc-b-$$
remove() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$folder"
}
trap remove EXIT
cd "$folder"
ip netns add "$a"
ip netns add "$b"
ip link add "v$$a" netns "$a" type veth peer name "v$$b" netns "$b"
ip -n "$a" addr add 10.99.7.1/24 dev "v$$a"
ip -n "$b" addr add 10.99.7.2/24 dev "v$$b"
for side in a b; do
  ip -n "${!side}" link set lo up
  ip -n "${!side}" link set "v$$$side" up
done
limit() { # limit MBIT
  for side in a b; do
    ip netns exec "${!side}" tc qdisc replace dev "v$$$side" root tbf rate "$1mbit" burst 256kb latency 20ms
  done
}
compile() { # compile NAME BATCH OPTIONS...
  local name=$1 rows=$2
  shift 2
  # shellcheck disable=SC2086
  "$build/apc" "$model" -q $options --train cross_entropy --optimizer 'adamw(lr=3e-4)' --dim "batch=$rows" \
    --dim "seq=$seq" "$@" -o "$name"
}
target() { # target MBIT: two ranks share the link of the block, which has twice the rate
  cat <<EOF
cpu core { arch avx512; cores 2; memory 16 GB at 45 GB/s; launch 5 us; peak f32 220 GFLOPS; }
machine pair { devices 1 core; link cable at $((2 * $1 / 8)) MB/s latency 50 us; }
EOF
}
head -c 32 /dev/urandom | base64 >secret
chmod 600 secret
export APC_SECRET_FILE=$folder/secret OMP_NUM_THREADS=1 APC_CACHE=off
median() { sed -n 's/.*median \([0-9.]*\) ms.*/\1/p' "$@" | sort -n | tail -1; }
both() { # both PROGRAM: prints the median
  ip netns exec "$b" "./$1" --rank 1 --world 2 --rendezvous 10.99.7.1:29500 --bench="$runs" >/dev/null 2>&1 &
  ip netns exec "$a" "./$1" --rank 0 --world 2 --rendezvous 10.99.7.1:29500 --bench="$runs" >out 2>&1
  wait
  median out
}
alone() {
  taskset -c 0 ./one --bench="$runs" >one.0 2>&1 &
  taskset -c 1 ./one --bench="$runs" >one.1 2>&1
  wait
  median one.0 one.1
}

compile one $((batch / 2)) --target cpu
compile late "$batch" --target cpux2 --dp 2 --zero 0
for rate in "${rates[@]}"; do
  target "$rate" >"$rate.topo"
  compile "early$rate" "$batch" --target "./$rate.topox2" --dp 2 --zero 0
done
for ((i = 0; i < rounds; i++)); do
  alone >>alone.txt
  for rate in "${rates[@]}"; do
    limit "$rate"
    both late >>"late$rate.txt"
    both "early$rate" >>"early$rate.txt"
  done
done
least() { sort -n "$1" | head -1; }
echo "alone $(least alone.txt) ms"
for rate in "${rates[@]}"; do
  for way in late early; do
    time=$(least "$way$rate.txt")
    echo "$rate Mbit/s, $way $time ms, $(echo "scale=3; $time / $(least alone.txt)" | bc) of alone"
  done
done
