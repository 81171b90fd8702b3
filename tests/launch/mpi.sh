#!/usr/bin/env bash
# tests/launch/mpi.sh APC - programs under mpirun: the same bits as ranks that the program starts itself, refusals,
# deaths.
. "$(dirname "$0")/lib.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
command -v mpirun >/dev/null || { echo "mpirun is missing (Debian: openmpi-bin, libopenmpi-dev)"; exit 1; }

program tp2 2 --tp 2
program pp3 3 --pp 3 --micro-batches 2
program mixed4 4 --tp 2 --dp 2
program other 2 --pp 2
for name in tp2 pp3 mixed4; do
  expect 0 "" mpirun -np "${name: -1}" --oversubscribe "./$name" --inputs "$inputs" --outputs "$name.mpi.npz"
  same "$name.alone.npz" "$name.mpi.npz"
done

# Sizes other than the planned ones, several requests, results on standard output once.
expect 0 "logits [3, 7" mpirun -np 4 --oversubscribe ./mixed4 --input tokens=random --dim batch=3 --dim seq=7
check "one result" test "$(wc -l <out)" -eq 1
expect 0 "runs: median" mpirun -np 2 --oversubscribe ./tp2 --bench=5

# All ranks refuse, one reports it.
expect 2 "mpirun started 3 processes, but this program was compiled for 2 ranks" mpirun -np 3 --oversubscribe ./tp2 --inputs "$inputs"
check "reported once" test "$(grep -c 'started 3 processes' err)" -eq 1
expect 1 "missing.npz: cannot read the file" mpirun -np 2 --oversubscribe ./tp2 --inputs missing.npz
expect 2 "unknown option --inptus" mpirun -np 2 --oversubscribe ./tp2 --inptus x
expect 1 "rank 1 runs another program than rank 0" mpirun -np 1 ./tp2 --bench=1 : -np 1 ./other --bench=1

# A rank hangs: rank 0 names it, and all end.  mpirun notices one that dies.  By then the ranks compute: as long as a
# whole run takes here has passed.
begin=$SECONDS
expect 0 "" mpirun -np 2 --oversubscribe ./tp2 --bench=1
whole=$((SECONDS - begin + 1))
hit() { # hit SIGNAL TIMEOUT: rank 1 while it computes; the exit code of mpirun goes to `code`
  timeout -k 1 100 mpirun -np 2 --oversubscribe ./tp2 --bench=1000000 --timeout "$2" >out 2>err </dev/null &
  local limit=$! runner ranks=()
  last="rank 1 gets SIG$1"
  for _ in $(seq 100); do
    sleep 0.1
    runner=$(cat "/proc/$limit/task/$limit/children" 2>/dev/null)
    [ -n "$runner" ] && ranks=($(cat /proc/${runner% }/task/*/children 2>/dev/null))
    [ ${#ranks[@]} -eq 2 ] && break
  done
  sleep $((whole + 1))
  kill "-$1" "${ranks[1]}"
  wait $limit
  code=$?
}
hit STOP 12s # also the time that ranks have to meet
check "exit $code, wanted 7" test $code -eq 7
expect_err "error: rank 1 is late"
expect_err " at step "
hit KILL 60s
check "exit $code, wanted 137, mpirun's" test $code -eq 137
sleep 1
left=$(ls -l /proc/[0-9]*/exe 2>/dev/null | grep -cF "$work/")
check "$left processes are left" test "$left" -eq 0

# A step fails while rank 0 still writes a checkpoint: the first rank that aborts ends all, and that is rank 0, when the
# file is whole.
/usr/bin/python3 -c '
import numpy as np
rows = np.zeros((24, 3), np.int64)
np.save("labels.npy", rows)
rows[19, 2] = 30  # of the fifth step, on rank 1
np.save("i.npy", rows)'
cat >slow.c <<'C'
#include <unistd.h>
int fsync(int fd) { return usleep(1500000), fdatasync(fd); }
C
cc -D_GNU_SOURCE -shared -fPIC slow.c -o slow.so
expect 0 "" "$apc" compile "$source_dir/tests/cli/look.ir" -q --train cross_entropy --optimizer 'sgd(lr=.1)' --batch 4 --target cpux2 --dp 2 -o failing
rows=(--data i=@i.npy --data labels=@labels.npy --shuffle none --every 4)
expect 0 "" ./failing --steps 4 "${rows[@]}" --checkpoint four
slow=("LD_PRELOAD=$work/slow.so" "ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0")
expect 1 "is 31; it must be 0 to 9" mpirun --oversubscribe -np 1 env "${slow[@]}" ./failing \
  --steps 6 "${rows[@]}" --checkpoint failed : -np 1 ./failing --steps 6 "${rows[@]}" --checkpoint failed
check "the checkpoint before the error" diff -r four failed
summary 32
