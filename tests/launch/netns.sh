#!/usr/bin/env bash
# tests/launch/netns.sh APC - two machines, pretended by network namespaces joined by a cable, with two ranks each: the same bits, a
# killed rank, a cable that is cut.  Needs root; without it the test passes and says so.
. "$(dirname "$0")/lib.sh"

a=apc-a-$$ b=apc-b-$$
remove() {
  ip netns del "$a" 2>/dev/null
  ip netns del "$b" 2>/dev/null
  rm -rf "$work"
}
trap remove EXIT
if [ "$(id -u)" -ne 0 ] || ! command -v ip >/dev/null || ! ip netns add "$a" 2>/dev/null || ! ip netns add "$b" 2>/dev/null ||
   ! ip link add "v$$a" netns "$a" type veth peer name "v$$b" netns "$b" 2>/dev/null; then
  echo "not run: it needs root and network namespaces (ip netns)"
  exit 0
fi
ip -n "$a" addr add 10.213.7.1/24 dev "v$$a"
ip -n "$b" addr add 10.213.7.2/24 dev "v$$b"
for side in a b; do
  ip -n "${!side}" link set lo up
  ip -n "${!side}" link set "v$$$side" up
done

program mixed4 4 --tp 2 --dp 2
port=29500
# rank R OPTIONS...: ranks 0 and 1 on the one machine, 2 and 3 on the other; process and outcome under the rank's number.
rank() {
  local r=$1 machine=$a
  shift
  [ "$r" -lt 2 ] || machine=$b
  OMP_NUM_THREADS=1 ip netns exec "$machine" timeout -k 1 60 ./mixed4 --rank "$r" --world 4 --rendezvous 10.213.7.1:$port "$@" \
    >"rank.$r.out" 2>"rank.$r.err" </dev/null &
  pids[r]=$!
}
finish() { # finish RANK CODE [TEXT]
  local got
  wait "${pids[$1]}"
  got=$?
  check "rank $1: exit $got, wanted $2: $(cat "rank.$1.err")" test $got -eq "$2"
  [ -z "${3:-}" ] || check "rank $1 does not say '$3': $(cat "rank.$1.err")" grep -qE -- "$3" "rank.$1.err"
}
computing() { # all four are started and connected to each other
  for _ in $(seq 100); do
    [ "$(ip netns exec "$b" cat /proc/net/tcp /proc/net/tcp6 | grep -ciE '0107D50A|0207D50A')" -ge 10 ] && break
    sleep 0.1
  done
  sleep 1
}

last="the same bits"
for r in 3 2 1; do rank $r; done
rank 0 --inputs "$inputs" --outputs two.npz
for r in 0 1 2 3; do finish $r 0; done
same mixed4.alone.npz two.npz

last="a rank on the other machine is killed"
port=29501
for r in 0 1 2 3; do rank $r --bench=1000000; done
computing
victim=$(cat "/proc/${pids[3]}/task/${pids[3]}/children")
kill -KILL $victim
for r in 0 1 2; do finish $r 6 "rank 3 was lost: its process ended at step"; done

last="the cable is cut"
port=29502
for r in 0 1 2 3; do rank $r --bench=1000000; done
computing
begin=$(date +%s%N)
ip -n "$a" link set "v$$a" down
for r in 0 1; do finish $r 6 "rank [23] was lost: "; done
for r in 2 3; do finish $r 6 "rank 0 was lost: "; done
took=$((($(date +%s%N) - begin) / 1000000))
echo "a cut cable ended all ranks after $took ms"
check "it took $took ms" test $took -lt 10000 # 2 s and a loaded machine
summary 15
