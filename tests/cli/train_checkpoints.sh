#!/bin/bash
# Checkpoints of a run: by steps and by time, which of them stay, and that they are written beside the steps.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
train_rows
data="--data x=@x.npy --data labels=@y.npy"
eval="--eval x=@x.npy --eval labels=@y.npy"
# shellcheck disable=SC2086
"$apc" compile $mlp -q --train mse --optimizer 'adamw(lr=.01)' --batch 8 --target cpux2 -o two
# shellcheck disable=SC2086
"$apc" compile $mlp -q --train mse --optimizer 'adamw(lr=.01)' --batch 8 --target cpux3 --dp 3 --zero 3 -o three
steps_of() { /usr/bin/python3 -c '
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
print(json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])["__metadata__"]["steps"])' "$1"; }
files() { find "$1" -mindepth 1 -printf '%f ' | tr ' ' '\n' | sort | tr '\n' ' '; }
# shellcheck disable=SC2086
{
# The bytes do not depend on how they were written, or by which ranks.
expect 0 "" ./two --steps 7 $data --checkpoint waits --writes step --every 2
expect 0 "" ./two --steps 7 $data --checkpoint beside --every 2
check "the same bytes beside the steps" cmp waits/checkpoint.safetensors beside/checkpoint.safetensors
expect 0 "" ./two --steps 6 $data --checkpoint six --writes step
expect 0 "" ./two --steps 7 $data --checkpoint beside --every 6 --keep 2
check "the bytes of step 6, written while step 7 ran" cmp six/checkpoint.safetensors beside/checkpoint-6.safetensors
expect 0 "" ./three --steps 9 $data --resume six --checkpoint of_three --every 8 --keep 2
expect 0 "" ./three --steps 8 $data --resume six --checkpoint again --writes step
check "parts of three ranks, written beside the steps" cmp of_three/checkpoint-8.safetensors again/checkpoint.safetensors

# The last K and the best stay; a best one is written when it is found.
expect 0 "" ./two --steps 20 $data --checkpoint kept --every 3 --keep 3 --writes step
check "the last three" [ "$(files kept)" = "checkpoint-15.safetensors checkpoint-18.safetensors checkpoint-20.safetensors checkpoint.safetensors " ]
check "the newest is the last one" cmp kept/checkpoint.safetensors kept/checkpoint-20.safetensors
for n in 15 18 20; do check "checkpoint $n" [ "$(steps_of kept/checkpoint-$n.safetensors)" = $n ]; done
expect 0 "" ./two --steps 24 $data --resume kept --checkpoint kept --every 3 --keep 3
check "it goes on" [ "$(files kept)" = "checkpoint-20.safetensors checkpoint-21.safetensors checkpoint-24.safetensors checkpoint.safetensors " ]
expect 0 "" ./two --steps 22 $data --resume kept/checkpoint-20.safetensors --checkpoint kept --keep 1
check "a run that went further keeps its files" \
  [ "$(files kept)" = "checkpoint-22.safetensors checkpoint-24.safetensors checkpoint.safetensors " ]
expect 0 "" ./two --steps 22 $data --save straight.safetensors
expect 0 "" ./two --steps 22 $data --resume kept/checkpoint-22.safetensors --save kept.safetensors
check "the same as undisturbed" cmp straight.safetensors kept.safetensors
./two --steps 24 $data $eval --evals 2 --checkpoint best --keep best --json 2>err >out
check "the best has the lowest evaluation" /usr/bin/python3 - <<'P'
import json, struct
raw = open("best/best.safetensors", "rb").read()
meta = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])["__metadata__"]
evals = {d["step"]: d["eval_loss"] for d in map(json.loads, open("out")) if "eval_loss" in d}
best = min(evals, key=evals.get)
assert len(evals) == 12 and int(meta["steps"]) == best, (evals, meta)
assert abs(float(meta["eval_loss"]) - evals[best]) < 1e-6, (evals, meta)
P
check "nothing else" [ "$(files best)" = "best.safetensors checkpoint.safetensors " ]
# A resumed run knows the best of before: one that is worse does not replace it.
cp best/best.safetensors before.safetensors
"$apc" compile $mlp -q --train mse --optimizer 'adamw(lr=9)' --batch 8 --target cpu -o wild
expect 0 "" ./wild --steps 27 $data $eval --evals 1 --resume best --checkpoint best --keep best
check "a worse one is not the best" cmp before.safetensors best/best.safetensors
# One that cannot be read, or has no loss, does not count; that is said.
mkdir torn
cp six/checkpoint.safetensors torn
head -c 100 before.safetensors >torn/best.safetensors
expect 0 "torn/best.safetensors does not count as the best checkpoint: " \
  ./two --steps 7 $data $eval --evals 1 --resume torn --checkpoint torn --keep best
check "the next one replaces it" [ "$(steps_of torn/best.safetensors)" = 7 ]
cp six/checkpoint.safetensors torn/best.safetensors
expect 0 "as the best checkpoint: it has no evaluation loss" \
  ./two --steps 8 $data $eval --evals 1 --resume torn --checkpoint torn --keep best
./two --steps 9 $data $eval --evals 1 --resume torn --checkpoint torn --keep best >out 2>&1
check "a good one counts" [ "$(grep -c 'does not count' out)" -eq 0 ]
expect 0 "" ./wild --steps 2 $data $eval --evals 1 --checkpoint best --keep best
check "a new run has its own best" [ "$(steps_of best/best.safetensors)" -le 2 ]

# By time.
: >lines
./two --steps 100000000 $data --checkpoint timed --every 20ms --keep 1000 >lines 2>err &
run=$!
timeout 300 bash -c 'until [ "$(find timed -name "checkpoint-*" 2>/dev/null | wc -l)" -ge 3 ]; do sleep .02; done'
kill -TERM $run
wait $run
check "it ends" [ $? -eq 0 ]
check "checkpoints were made in between" [ "$(find timed -name 'checkpoint-*' | wc -l)" -ge 4 ]
for file in timed/checkpoint-*; do
  check "$file: its name" [ "timed/checkpoint-$(steps_of "$file").safetensors" = "$file" ]
done

# Steps go on while a checkpoint is written; a run that is killed meanwhile leaves the one before it, and the next run
# takes over what it left.  fsync waits here while the file `hold` is there.
cat >held.c <<'C'
#include <dlfcn.h>
#include <unistd.h>
int fsync(int fd) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  while (access("hold", F_OK) == 0) usleep(1000);
  return next(fd);
}
C
if cc -D_GNU_SOURCE -shared -fPIC held.c -o held.so -ldl; then
  held() { : >lines; LD_PRELOAD=./held.so ./two --steps 100000000 $data --checkpoint held "$@" >lines 2>err & run=$!; }
  : >hold
  held --every 20
  begun lines 30 # step 20 began the checkpoint
  check "it is not whole yet" [ "$(files held)" = "checkpoint.safetensors.part " ]
  rm hold
  timeout 300 sh -c 'until [ -e held/checkpoint.safetensors ]; do sleep .02; done'
  kill -TERM $run
  wait $run
  check "the run ends" [ $? -eq 0 ]
  check "the last one is whole" [ "$(files held)" = "checkpoint.safetensors " ]
  expect 0 "" ./two --steps 5 $data --checkpoint held
  : >hold
  held --every 20 --resume held
  begun lines 18 # steps 6 to 23
  ranks=$(pgrep -P $run)
  kill -9 $run
  wait $run 2>/dev/null
  timeout 60 sh -c 'for r in $0; do while kill -0 "$r" 2>/dev/null; do sleep .02; done; done' "$ranks"
  rm hold
  check "a part is left" [ "$(files held)" = "checkpoint.safetensors checkpoint.safetensors.part " ]
  check "the one before is whole" [ "$(steps_of held/checkpoint.safetensors)" = 5 ]
  expect 0 "match their checksums" ./two --steps 8 $data --resume held --checkpoint held --save on.safetensors
  check "the part is used again" [ "$(files held)" = "checkpoint.safetensors " ]
  expect 0 "" ./two --steps 8 $data --save straight.safetensors
  check "the same as undisturbed" cmp straight.safetensors on.safetensors
  # A rank is killed before its part is on the disk: that checkpoint is given up, and that is said.
  : >hold
  held --every 20 --resume held
  begun lines 18
  pkill -9 -n -P $run
  rm hold
  wait $run
  check "it ends with exit code 6" [ $? -eq 6 ]
  check "it is said" grep -q "warning: the checkpoint of step 20 was given up: " err
  # A step that fails while a checkpoint is written: the run ends, and the one before stays.
  "$apc" compile $mlp -q --train mse --optimizer 'sgd(lr=1e30)' --batch 8 --target cpux2 -o fails
  : >hold
  : >lines
  LD_PRELOAD=./held.so ./fails --steps 99 $data --checkpoint failed --every 1 >lines 2>err &
  run=$!
  begun lines 1
  rm hold
  wait $run
  check "it ends with exit code 6" [ $? -eq 6 ]
  check "no part is left" [ "$(find failed -name '*.part' | wc -l)" -eq 0 ]
fi

# A checkpoint's folder is a source of weights: as files without the optimizer's states, in ONNX, for a run.
expect 0 "" ./two --steps 5 $data --checkpoint made --keep 1 --save made.safetensors
expect 0 "" "$apc" convert made of_folder.safetensors -q
expect 0 "" "$apc" convert made/checkpoint-5.safetensors of_file.npz -q
expect 0 "" "$apc" convert made.safetensors saved.npz -q
check "the trained weights, and nothing else" env PYTHONPATH="$source_dir/tests" /usr/bin/python3 -B - <<'P'
import numpy as np, stored
of_folder = stored.read("of_folder.safetensors")
a, b = dict(np.load("of_file.npz")), dict(np.load("saved.npz"))
assert sorted(of_folder) == sorted(a) == sorted(b) and len(a) == 8 and not any(":" in k for k in a), (sorted(of_folder), sorted(b))
for k, x in of_folder.items():
    assert np.array_equal(x, b[k]) and np.array_equal(a[k], b[k]), k
P
expect 0 "" "$apc" convert $mlp made.onnx -q --weights made
expect 0 "" "$apc" convert $mlp saved.onnx -q --weights made.safetensors
check "the same ONNX file" cmp made.onnx saved.onnx
expect 0 "" "$apc" convert saved.onnx back.onnx -q --weights made
expect 0 "" "$apc" convert back.onnx back.npz -q
expect 0 "" "$apc" run $mlp -q --dim batch=8 --weights made --input x=random --outputs from_made.npz
for model in "$mlp --weights made.safetensors" back.onnx; do
  expect 0 "" "$apc" run $model -q --dim batch=8 --input x=random --expect from_made.npz --rtol 0
done
/usr/bin/python3 -c '
import os
raw = bytearray(open("made/checkpoint.safetensors", "rb").read())
raw[-1] ^= 1
os.mkdir("damaged"), open("damaged/checkpoint.safetensors", "wb").write(raw)'
expect 1 "the checkpoint is damaged: '" "$apc" convert damaged no.safetensors -q
expect 1 "the checkpoint is damaged: '" "$apc" convert saved.onnx no.onnx -q --weights damaged
mkdir empty
expect 2 "convert takes FILE.safetensors, or the folder of a checkpoint" "$apc" convert saved.onnx no.onnx -q --weights empty
check "nothing was written" [ "$(find . -name 'no.*' | wc -l)" -eq 0 ]

# A step fails right after a checkpoint began: what is being written is whole in the end, by one rank, by several, and
# by those of a launcher.
cp "$source_dir/tests/cli/look.ir" .
/usr/bin/python3 -c '
import numpy as np
rows = np.zeros((24, 3), np.int64)
np.save("labels.npy", rows)
rows[17, 2] = 30  # of the fifth step
np.save("i.npy", rows)'
rows="--data i=@i.npy --data labels=@labels.npy --shuffle none --every 4"
wrong="index [1, 2] is 31; it must be 0 to 9"
for ranks in 1 2; do
  "$apc" compile look.ir -q --train cross_entropy --optimizer 'sgd(lr=.1)' --batch 4 --target cpux$ranks --dp $ranks -o failing$ranks
  expect 0 "" ./failing$ranks --steps 4 $rows --checkpoint four$ranks --writes step
  expect 1 "$wrong" ./failing$ranks --steps 6 $rows --checkpoint failed$ranks
  check "the checkpoint before the error, $ranks ranks" diff -r four$ranks failed$ranks
done
launcher=(env WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "MASTER_PORT=$((20000 + $$ % 20000))")
program=failing2
launched() { # launched FOLDER LIBRARY OPTION...: rank 1 with that library
  local folder=$1 library=$2
  shift 2
  "${launcher[@]}" RANK=1 LOCAL_RANK=1 LD_PRELOAD="$library" ./$program --steps 6 $rows --checkpoint "$folder" "$@" >out.1 2>err.1 &
  expect 1 "$wrong" "${launcher[@]}" RANK=0 LOCAL_RANK=0 ./$program --steps 6 $rows --checkpoint "$folder" "$@"
  wait
}
launched launched ""
check "the checkpoint before the error, ranks of a launcher" diff -r four2 launched
"$apc" compile look.ir -q --train cross_entropy --optimizer 'sgd(lr=.1)' --batch 4 --target cpux2 --world 2,1 -o failing_met
program=failing_met
launched met "" --elastic
check "an error of the data is no lost rank" test "$(grep -c 'meets the others' err err.1)" = "$(printf 'err:0\nerr.1:0')"
check "the checkpoint before it" [ "$(steps_of met/checkpoint.safetensors)" = 4 ]
program=failing2
# Each piece of rank 1 takes less than --timeout, and all of them more than twice as much.
cat >slow.c <<'C'
#include <dlfcn.h>
#include <unistd.h>
ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
  ssize_t (*next)(int, const void *, size_t, off_t) = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
  usleep(700000);
  return next(fd, from, n, at);
}
ssize_t pwrite64(int fd, const void *from, size_t n, off_t at) { return pwrite(fd, from, n, at); }
C
if cc -D_GNU_SOURCE -shared -fPIC slow.c -o slow.so -ldl; then
  launched slow ./slow.so --timeout 1s
  check "a slow checkpoint is waited for" diff -r four2 slow
fi

# What cannot be done is said before the first step.
expect 2 "--keep needs --checkpoint DIR" ./two --steps 1 $data --keep 2
expect 2 "--writes needs --checkpoint DIR" ./two --steps 1 $data --writes step
expect 2 "--writes sometimes: expected background or step" ./two --steps 1 $data --checkpoint at --writes sometimes
for keep in 0 x 3,x best,3 3, ,best -1; do
  expect 2 "--keep $keep: expected a positive number, best, or both as 3,best" ./two --steps 1 $data --checkpoint at --keep $keep
done
expect 2 "the best checkpoint needs --eval" ./two --steps 1 $data --checkpoint at --keep best
for every in 0 0s 10x m -3m 1e300h; do
  expect 2 "--every $every: expected a positive number of steps, or a time" ./two --steps 1 $data --checkpoint at --every $every
done
check "nothing was made" test ! -e at
# A name of a file is no folder for checkpoints: the file stays as it is.
cp made.safetensors mine.safetensors
for name in mine at; do
  expect 2 "$name.safetensors: checkpoints are written to a folder" ./two --steps 1 $data --checkpoint $name.safetensors
done
check "the file stays" cmp made.safetensors mine.safetensors
check "no such folder" test ! -e at.safetensors
}
summary 96
