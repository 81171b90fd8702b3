#!/usr/bin/env bash
# tests/launch/tcp.sh APC - ranks that meet over TCP: by hand, in the environments of torchrun, Slurm and Open MPI;
# ranks that do not fit, die, hang or never join, and that nothing is left.
. "$(dirname "$0")/lib.sh"

program tp2 2 --tp 2
program other 2 --pp 2
program mixed4 4 --tp 2 --dp 2
port=$((20000 + $$ % 10000))
next_port() { port=$((port + 1)); }

# others FIRST LAST COMMAND...: starts those ranks in the background, with R replaced by the rank; their outcomes go to
# rank.R.*
others() {
  local first=$1 last=$2 r
  shift 2
  pids=()
  rm -f rank.*
  for r in $(seq "$first" "$last"); do
    timeout -k 1 60 "${@//@R@/$r}" >"rank.$r.out" 2>"rank.$r.err" </dev/null &
    pids[r]=$!
  done
}
# ended CODE [TEXT]: all of them ended with the code, and printed the text.
ended() {
  local r got
  for r in "${!pids[@]}"; do
    wait "${pids[r]}"
    got=$?
    check "rank $r: exit $got, wanted $1: $(cat "rank.$r.err")" test $got -eq "$1"
    [ -z "${2:-}" ] || check "rank $r does not say '$2': $(cat "rank.$r.err")" grep -qF -- "$2" "rank.$r.err"
    check "rank $r writes to standard output" test ! -s "rank.$r.out"
  done
}

# By hand, at an address and at a file.
others 1 3 ./mixed4 --rank @R@ --world 4 --rendezvous "localhost:$port"
expect 0 "" ./mixed4 --rank 0 --world 4 --rendezvous "localhost:$port" --inputs "$inputs" --outputs by_hand.npz
ended 0
same mixed4.alone.npz by_hand.npz
others 1 1 ./tp2 --rank=@R@ --world=2 --rendezvous=./meeting
expect 0 "" ./tp2 --rank=0 --world=2 --rendezvous=./meeting --inputs "$inputs" --outputs by_file.npz
ended 0
same tp2.alone.npz by_file.npz
check "the file is left" test ! -e meeting
(umask 077; printf 'apc ranks meet in run 00112233445566778899aabbccddeeff\n127.0.0.1 1\n' >meeting) # of a killed run
others 1 1 ./tp2 --rank=@R@ --world=2 --rendezvous=./meeting
expect 0 "runs: median" ./tp2 --rank=0 --world=2 --rendezvous=./meeting --bench=3
ended 0
others 1 1 ./tp2 --rank=@R@ --world=2 --rendezvous=./meeting
expect 0 "runs: median" ./tp2 --rank=0 --world=2 --rendezvous=./meeting --bench=3 --profile=json --trace trace.json
expect_json "[len(r['operations']) > 20 and sum(r['sums_us'].values()) - r['time_us'] < 1 for r in d['ranks']] == [True] * 2"
check "the trace lacks a rank" /usr/bin/python3 -c 'import json; assert {e["pid"] for e in json.load(open("trace.json"))["traceEvents"]} == {0, 1}'
ended 0

check "the file is left" test ! -e meeting

# Ranks that write or read a file of another kind neither use nor touch it, nor another run's file in use.
kept() { # kept TEXT: rank 0 refuses the file, and leaves it and the target of its link unchanged
  expect 1 "$1" ./tp2 --rank 0 --world 2 --rendezvous ./taken --bench=1
}
echo "my thesis" >thesis; cp thesis taken; kept "already exists and is not a meeting file of your ranks"; same thesis taken
(umask 077; printf 'run 00\n' >other_users); chmod 666 other_users; cp -p other_users taken; kept "already exists"
ln -sf thesis taken; kept "already exists"; check "the link is gone" test -L taken; rm taken
mkfifo taken; kept "already exists"
joins_not() { expect 1 "is not a meeting file of your ranks" timeout 20 ./tp2 --rank 1 --world 2 --rendezvous "$1"; }
joins_not ./taken; rm taken
joins_not /dev/zero; joins_not "$work"; joins_not ./thesis; joins_not ./other_users; ln -s thesis link; joins_not ./link
(umask 077; echo "run this" >taken); kept "already exists"; joins_not ./taken; rm taken
(umask 077; printf 'apc ranks meet in run 00112233445566778899aabbccddeeff\n127.0.0.1 1\n' >taken)
flock -o taken sh -c ': >held; while [ -e held ]; do sleep 0.1; done' & holder=$!
for _ in $(seq 300); do [ -e held ] && break; sleep 0.1; done
kept "ranks of another run meet at"; rm held; wait $holder; rm taken

# The environments of launchers.
next_port
torchrun="LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
others 1 1 env $torchrun RANK=@R@ LOCAL_RANK=@R@ ./tp2
expect 0 "" env $torchrun RANK=0 LOCAL_RANK=0 ./tp2 --inputs "$inputs" --outputs torchrun.npz
ended 0
same tp2.alone.npz torchrun.npz
# A job whose port is free: outgoing connections of other programs use ports of this range.
job=$(/usr/bin/python3 - $$ "$source_dir/runtime/launch/launch.c" <<'END'
import re, socket, sys
first, ports = (int(re.search(rf"{name} = (\d+)", open(sys.argv[2]).read())[1]) for name in ("SLURM_FIRST_PORT", "SLURM_PORTS"))
for job in range(int(sys.argv[1]), int(sys.argv[1]) + 100):
    with socket.socket() as s:
        try: s.bind(("localhost", first + job * 31 % ports))
        except OSError: continue
    print(job)
    break
END
)
slurm="SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=$job SLURM_JOB_NODELIST=localhost SLURM_TASKS_PER_NODE=2"
others 1 1 env $slurm SLURM_PROCID=@R@ SLURM_LOCALID=@R@ ./tp2
expect 0 "" env $slurm SLURM_PROCID=0 SLURM_LOCALID=0 ./tp2 --inputs "$inputs" --outputs slurm.npz
ended 0
same tp2.alone.npz slurm.npz
next_port
others 1 1 env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=@R@ ./tp2 --transport tcp --rendezvous "localhost:$port"
expect 0 "" env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 ./tp2 --transport tcp --rendezvous "localhost:$port" --inputs "$inputs" --outputs ompi.npz
ended 0
same tp2.alone.npz ompi.npz
expect 0 "" env SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_JOB_ID=1 ./tp2 --inputs "$inputs" --outputs batch.npz
same tp2.alone.npz batch.npz # a batch script: one process

# Ranks that do not fit.
expect 2 "started 4 processes, but this program was compiled for 2 ranks" env WORLD_SIZE=4 RANK=0 MASTER_ADDR=localhost MASTER_PORT=1 ./tp2 --bench=1
expect 2 "is neither HOST:PORT nor a file" ./tp2 --rank 0 --world 2 --rendezvous localhost:x --bench=1
next_port
others 1 1 ./other --rank @R@ --world 2 --rendezvous "localhost:$port"
expect 1 "rank 1 runs another program than rank 0" ./tp2 --rank 0 --world 2 --rendezvous "localhost:$port" --bench=1
ended 1 "rank 1 runs another program than rank 0"
next_port
others 1 1 ./tp2 --rank @R@ --world 2 --rendezvous "localhost:$port"
expect 1 "missing.npz: cannot read the file" ./tp2 --rank 0 --world 2 --rendezvous "localhost:$port" --inputs missing.npz
ended 1
next_port # memory is counted for the ranks of this machine, of which --rank gives no number
others 1 1 ./tp2 --rank @R@ --world 2 --rendezvous "localhost:$port"
expect 1 "for 1 rank (of 2); this machine has" ./tp2 --rank 0 --world 2 --rendezvous "localhost:$port" --input random --dim batch=100000000
ended 1
next_port
others 1 1 env $torchrun MASTER_PORT=$port RANK=@R@ LOCAL_RANK=@R@ ./tp2
expect 1 "for 2 ranks; this machine has" env $torchrun MASTER_PORT=$port RANK=0 LOCAL_RANK=0 ./tp2 --input random --dim batch=100000000
ended 1
next_port
expect 7 "rank 1 of 2 did not connect" ./tp2 --rank 0 --world 2 --rendezvous "localhost:$port" --timeout 500ms --bench=1
expect 2 "cannot look up the host 'no host'" timeout 20 ./tp2 --rank 1 --world 2 --rendezvous "no host:$port" # at once, not after 60 s
expect 7 "did not find rank 0 at localhost:$port" ./tp2 --rank 1 --world 2 --rendezvous "localhost:$port" --timeout 500ms

# Strangers that connect and send nothing delay no rank.
next_port
others 0 0 ./tp2 --rank @R@ --world 2 --rendezvous "localhost:$port" --timeout 6s --inputs "$inputs" --outputs strangers.npz
/usr/bin/python3 - "$port" <<'END' &
import socket, sys, time
end, silent = time.time() + 20, []
while len(silent) < 5 and time.time() < end:
    try: silent.append(socket.create_connection(("localhost", int(sys.argv[1]))))
    except OSError: time.sleep(.02)
time.sleep(15)
END
strangers=$!
sleep 1
expect 0 "" ./tp2 --rank 1 --world 2 --rendezvous "localhost:$port" --timeout 6s
ended 0
same tp2.alone.npz strangers.npz
kill $strangers

# running RANKS PROGRAM OPTIONS...: all ranks in the background; returns when they compute.
running() {
  local ranks=$1 program=$2
  shift 2
  next_port
  others 0 $((ranks - 1)) "$program" --rank @R@ --world "$ranks" --rendezvous "localhost:$port" --bench=1000000 "$@"
  for _ in $(seq 100); do
    sleep 0.1
    [ "$(cat rank.*.err | wc -c)" -eq 0 ] || break
    children=()
    for r in $(seq 0 $((ranks - 1))); do children[r]=$(cat "/proc/${pids[r]}/task/${pids[r]}/children" 2>/dev/null); done
    [ "${#children[0]}" -gt 0 ] && break
  done
  sleep 0.5
}
# hit SIGNAL RANK: signals the process below `timeout`.
hit() { kill "-$1" ${children[$2]}; }
# struck RANK CODE TEXT: all but that rank ended soon with the code and the text.
struck() {
  local before=$SECONDS r
  last="rank $1 is hit"
  for r in "${!pids[@]}"; do
    [ "$r" -ne "$1" ] || continue
    wait "${pids[r]}"
    got=$?
    check "rank $r: exit $got, wanted $2: $(cat "rank.$r.err")" test $got -eq "$2"
    check "rank $r does not say '$3': $(cat "rank.$r.err")" grep -qF -- "$3" "rank.$r.err"
  done
  check "it took $((SECONDS - before)) s" test $((SECONDS - before)) -le 30 # a loaded machine is slow; a hang would last 60
  kill -CONT ${children[$1]} 2>/dev/null
  wait "${pids[$1]}" 2>/dev/null
}
running 4 ./mixed4
hit KILL 2
struck 2 6 "rank 2 was lost: its process ended"
running 4 ./mixed4
hit KILL 0
struck 0 6 "rank 0 was lost: its process ended"
running 2 ./tp2 --timeout 3s
hit STOP 1
struck 1 7 "rank 1 is late"
running 2 ./tp2 --timeout 3s
hit STOP 0
struck 0 7 "rank 0 is late: no sign of life"

# Before all have joined.
next_port
others 0 2 ./mixed4 --rank @R@ --world 4 --rendezvous "localhost:$port" --bench=1
sleep 1
kill "${pids[1]}" # timeout passes it on
wait "${pids[1]}"
unset "pids[1]"
last="rank 1 of 4 goes before rank 3 has come"
ended 6 "rank 1 was lost while rank 0 waited"

left=$(ls -l /proc/[0-9]*/exe 2>/dev/null | grep -cF "$work/")
last="the end"
check "$left processes are left" test "$left" -eq 0
summary 94
