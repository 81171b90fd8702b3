#!/usr/bin/env bash
# tests/launch/netns.sh APC - two machines, simulated by network namespaces joined by a cable, with two ranks each: the
# same bits, a killed rank, a cable that is cut; addresses of IPv4, IPv6 and the link; the listening addresses; secrets
# that differ or are missing.  Needs root; without it the test passes and prints so.
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
head -c 32 /dev/urandom | base64 >secret
head -c 32 /dev/urandom | base64 >other_secret
chmod 600 secret other_secret
export APC_SECRET_FILE=$work/secret
place=10.213.7.1:29500
# rank R OPTIONS...: ranks 0 and 1 on one machine, 2 and 3 on the other; keeps process and outcome under the rank's
# number.
rank() {
  local r=$1 machine=$a
  shift
  [ "$r" -lt 2 ] || machine=$b
  OMP_NUM_THREADS=1 ip netns exec "$machine" timeout -k 1 60 ./mixed4 --rank "$r" --world 4 --rendezvous "$place" "$@" \
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

# meets PLACE: the same result with that meeting place; rank 0 listens at the expected addresses.
meets() {
  place=$1 last="the ranks meet at $1"
  rm -f met.npz
  for r in 3 2 1; do rank $r --timeout 20s; done
  rank 0 --timeout 20s --inputs "$inputs" --outputs met.npz
  for r in 0 1 2 3; do finish $r 0; done
  same mixed4.alone.npz met.npz
}
ip -n "$a" addr add fd00:213:7::1/64 dev "v$$a" nodad
ip -n "$b" addr add fd00:213:7::2/64 dev "v$$b" nodad
meets "[fd00:213:7::1]:29510"
for _ in $(seq 50); do # the link's own address is tentative at first
  link=$(ip -n "$a" -6 -o addr show dev "v$$a" scope link -tentative | awk '{ sub("/.*", "", $4); print $4 }')
  [ -n "$link" ] && break
  sleep 0.1
done
ip -n "$b" link set "v$$b" name "v$$a" # the name of the link is part of the address that all ranks get
meets "[$link%v$$a]:29511"
meets "$work/meeting"
check "the file is left" test ! -e meeting

# Rank 0 listens at the named address, the others where rank 0 is reached; no rank listens elsewhere.
last="who listens where"
place=10.213.7.1:29512
for r in 0 1 2; do rank $r --timeout 8s; done
for _ in $(seq 50); do
  [ "$(ip netns exec "$b" ss -Hltn | wc -l)" -ge 1 ] && [ "$(ip netns exec "$a" ss -Hltn | wc -l)" -ge 2 ] && break
  sleep 0.1
done
listening=$(ip netns exec "$a" ss -Hltn | awk '{ print $4 }' | sort)
check "on the first machine: $listening" test "$(echo "$listening" | grep -c '^10\.213\.7\.1:')" -eq 2 -a "$(echo "$listening" | wc -l)" -eq 2
listening=$(ip netns exec "$b" ss -Hltn | awk '{ print $4 }')
check "on the second machine: $listening" test "${listening%:*}" = 10.213.7.2
rank 3 --timeout 8s
for r in 0 1 2 3; do finish $r 2; done # without inputs

# Secrets: missing, different, and explicitly none.
last="no secret"
unset APC_SECRET_FILE
place=10.213.7.1:29513
for r in 0 3; do rank $r --timeout 2s --bench=1; done
for r in 0 3; do finish $r 2 "over a network, without a secret.*APC_SECRET_FILE"; done
last="--insecure"
for r in 3 2 1; do rank $r --insecure; done
rank 0 --insecure --inputs "$inputs" --outputs insecure.npz
for r in 0 1 2 3; do finish $r 0; done
same mixed4.alone.npz insecure.npz
check "it is warned once" test "$(cat rank.*.err | grep -c 'warning: --insecure')" -eq 1
last="another secret"
export APC_SECRET_FILE=$work/secret
for r in 0 1 2; do rank $r --timeout 2s --bench=1; done
APC_SECRET_FILE=$work/other_secret rank 3 --timeout 1s
finish 3 1 "rank 3 was refused at 10.213.7.1:29513"
for r in 0 1 2; do finish $r 7 "rank 3 of 4 did not connect.*refused: [1-9][0-9]* with another secret"; done

last="a rank on the other machine is killed"
place=10.213.7.1:29501
for r in 0 1 2 3; do rank $r --bench=1000000; done
computing
victim=$(cat "/proc/${pids[3]}/task/${pids[3]}/children")
kill -KILL $victim
for r in 0 1 2; do finish $r 6 "rank 3 was lost: its process ended at step"; done

last="the cable is cut"
place=10.213.7.1:29502
for r in 0 1 2 3; do rank $r --bench=1000000; done
computing
begin=$(date +%s%N)
ip -n "$a" link set "v$$a" down
for r in 0 1; do finish $r 6 "rank [23] was lost: "; done
for r in 2 3; do finish $r 6 "rank 0 was lost: "; done
took=$((($(date +%s%N) - begin) / 1000000))
echo "a cut cable ended all ranks after $took ms"
check "it took $took ms" test $took -lt 10000 # 2 s and a loaded machine
summary 62
