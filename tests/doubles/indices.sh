#!/bin/bash
# Computed indices outside their table, in programs for GPUs on the doubles: the run ends as on CPU ranks, with the same
# message and exit code 1, call by call and in graphs, in rounds of loops, in training steps.
#
# usage: indices.sh APC DOUBLES
. "$(dirname "$0")/../cli/lib.sh"
doubles=$(realpath "$2")
"$apc" plan "$source_dir/examples/mlp.apc" -q --target dgx-a100x2 -S >/dev/null 2>err || { cat err; exit 77; }
mkdir shared
export DOUBLES_REPORT=$work/report DOUBLES_SHARED=$work/shared

compile() { # compile NAME MODEL TARGET PLAN OPTIONS...: ./NAME, and ./host for a CPU; PLAN: words in one argument
  name=$1
  expect 0 "" "$apc" compile "$2" -q --target cpu "${@:5}" -o host
  # shellcheck disable=SC2086
  expect 0 "" "$apc" compile "$2" -q --target "$3" $4 "${@:5}" --save-temps=texts -o "$name"
}
gpu=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_TEXTS=$work/texts")
said() { sed -n 's/^error: .*: \(launch .*\)/\1/p' err; }

# refused TEXT WORDS...: on a CPU, and on GPUs in four ways, with the same words
refused() {
  local text=$1 how wanted
  shift
  expect 1 "$text" ./host "$@"
  wanted=$(said)
  rm -rf kept
  for how in graphs APC_EAGER=1 APC_COMM=staged DOUBLES_WATCH=1; do
    [ $how = graphs ] && how=
    expect 1 "$text" "${gpu[@]}" $how "./$name" "$@"
    check "$name, $how: '$(said)', on a CPU '$wanted'" test -n "$wanted" -a "$(said | sed 's/rank [0-9]*/rank 0/')" = "$wanted"
    check "$name: $(head -n 3 report 2>/dev/null)" test ! -s report
    [ ! -e right ] || check "$name, $how: another checkpoint" diff -r right kept
    rm -rf kept
  done
}

/usr/bin/python3 - <<'P'
import numpy as np
i = np.array([[0, 1, 2], [3, 0, 2], [1, 1, 1], [8, 0, 0]])
np.save("right.npy", i)
i[1, 1] = 9
np.save("one.npy", i)
i[2, 0], i[3, 2] = 99, -5
np.save("several.npy", i)
i[1, 1], i[3, 2] = 0, 0
np.save("late.npy", i)
many = np.zeros((5000, 3), np.int64)
many[3456:, 2] = 50 + np.arange(5000 - 3456)
np.save("many.npy", many)
rows = np.zeros((24, 3), np.int64)
np.save("labels.npy", rows)
rows[17, 2] = 30 # of the fifth step
np.save("fifth.npy", rows)
rows[19, 1], rows[18, 0] = 9, 31
np.save("more.npy", rows)
P

# A table lookup: one wrong index, several, and the first of many.
cp "$source_dir/tests/cli/look.ir" .
for ranks in 1 2; do
  compile look$ranks look.ir dgx-a100x$ranks ""
  expect 0 "" "${gpu[@]}" ./$name --input i=@right.npy --bench=3 --warmup=0 --output y=@y.npy
  rm -f y.npy
  refused "index [1, 1] is 10; it must be 0 to 9" --input i=@one.npy --bench=3 --output y=@y.npy
  refused "index [2, 0] is 100; it must be 0 to 9" --input i=@late.npy
  check "outputs of a run that failed" test ! -e y.npy
  [ $ranks = 2 ] && continue # either may report it first
  refused "index [1, 1] is 10; it must be 0 to 9" --input i=@several.npy
  refused "index [3456, 2] is 51; it must be 0 to 9" --input i=@many.npy
done

# If no index is wrong, a captured request calls nothing but its graph.
calls() {
  rm -f names
  expect 0 "" "${gpu[@]}" DOUBLES_ON=0 "DOUBLES_NAMES=$work/names" ./look2 --input i=@right.npy --warmup=0 --bench="$1"
  grep -vE '^(cuStreamQuery|cuEventQuery|ncclCommGetAsyncError|DOUBLES_.*)$' names | sort | uniq -c >"calls.$1"
}
calls 2
calls 5
check "calls of more requests: $(diff calls.2 calls.5)" test "$(diff calls.2 calls.5 | awk '/[<>]/ { print $3 }' | uniq)" = cuGraphLaunch

# Ranks of a launcher: the wrong index may be on any rank, and all ranks end.
for file in one late; do
  launcher=(WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)))
  "${gpu[@]}" "${launcher[@]}" RANK=1 LOCAL_RANK=1 ./look2 >out.1 2>err.1 &
  expect 1 "; it must be 0 to 9" "${gpu[@]}" "${launcher[@]}" RANK=0 LOCAL_RANK=0 ./look2 --input i=@$file.npy --bench=3
  wait
done

# In a loop: the first round with a wrong index is reported, though later rounds have wrong indices of earlier elements.
cat >rounds.ir <<'I'
apc.ir 1
func @main level 1 {
  %t = input {name="t"} : f32[9, 2]
  %i = input {name="i"} : i64[4, 3]
  %three = const {value=3} : i64[4, 3]
  %rounds = const {value=5} : i64[]
  %from = const {value=0} : f32[4, 3, 2]
  %m = loop %rounds {trips=5} : i64[]
  %k = carry %i : i64[4, 3]
  %h = carry %from : f32[4, 3, 2]
  %e = gather %t, %k {axis=0, start=0, checked=1} : f32[4, 3, 2]
  %s = add %h, %e : f32[4, 3, 2]
  %next = add %k, %three : i64[4, 3]
  repeat "again" %m
  %unread = leave %k, %next : i64[4, 3]
  %last = leave %h, %s : f32[4, 3, 2]
  output "last" %last
}
I
compile rounds rounds.ir dgx-a100x1 ""
refused "index [3, 0] is 11; it must be 0 to 8" --input t=zeros --input i=@right.npy

# A loop whose condition stays true because of the result for a wrong index: it ends when the host reads the condition.
cat >endless.ir <<'I'
apc.ir 1
func @main level 1 {
  %t = input {name="t"} : i64[9]
  %i = input {name="i"} : i64[]
  %one = const {value=1} : i64[]
  %rounds = const {value=1000000000} : i64[]
  %m = loop %rounds {trips=1000000000} : i64[]
  %k = carry %i : i64[]
  %e = gather %t, %k {axis=0, start=0, checked=1} : i64[]
  %again = lt %e, %one : bool[]
  %next = add %k, %one : i64[]
  repeat "go" %m, %again
  %last = leave %k, %next : i64[]
  output "last" %last
}
I
compile endless endless.ir dgx-a100x1 ""
refused "index is 9; it must be 0 to 8" --input t=zeros --input i=zeros

# A training step, the fifth, when steps are graphs: the checkpoint of the fourth stays, and no weights are written.
trained() { # trained DATA RANKS PLAN
  compile "train$2${3//[^0-9a-z]/}" look.ir "dgx-a100x$2" "$3" --train cross_entropy --batch 4 --optimizer "sgd(lr=1e-1)"
  local data=(--data "i=@$1.npy" --data labels=@labels.npy --shuffle none --every 1)
  rm -rf right
  expect 0 "" "${gpu[@]}" ./$name "${data[@]}" --steps 4 --checkpoint right
  refused "index [1, 2] is 31; it must be 0 to 9" "${data[@]}" --steps 6 --checkpoint kept --save w.safetensors
  check "$name: weights of a run that failed" test ! -e w.safetensors
}
trained more 1 ""
trained fifth 2 "--dp 2"
trained more 2 "--pp 2 --micro-batches 2"
# A profile has the predicted times of GPUs, at the wait for communication that runs beside computation; it says so
# where the GPUs are others than planned for.
expect 0 "" "$apc" compile "$source_dir/examples/gpt-tiny.onnx" -q --target dgx-a100x2 --tp 2 --save-temps=texts -o gpt
expect 0 "predicted for target dgx-a100x2: " "${gpu[@]}" DOUBLES_ARCH=86 ./gpt --bench=1 --warmup 1 --dim batch=1 --dim seq=8 --profile
expect_out "note: planned for another target: for gpu sm_80, and these ranks run on gpu sm_86"
check "the wait has no prediction" grep -qE '^ +[0-9.]+ +[0-9]+\.[0-9]+ .* wait ' out
check "the communication has one that it does not wait for" grep -qE '^ +[0-9.]+ +- +- .* (all_reduce|all_gather) ' out
summary 175
