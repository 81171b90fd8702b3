#!/bin/bash
# Requests as one graph, on the doubles: how many calls of the driver and of NCCL a captured request makes (one launch,
# and queries whether it is over), that it gives the same bits as call by call, and that a late instruction is
# one of the at most 16 that are named, the right one if every call is marked.
#
# usage: graphs.sh APC DOUBLES
. "$(dirname "$0")/../cli/lib.sh"
doubles=$(realpath "$2")
"$apc" plan "$source_dir/examples/mlp.apc" -q --target dgx-a100x2 -S >/dev/null 2>err || { cat err; exit 77; }
mkdir shared
run=(env "LD_LIBRARY_PATH=$doubles" "DOUBLES_REPORT=$work/report" "DOUBLES_SHARED=$work/shared")
asks='cuStreamQuery|cuEventQuery|ncclCommGetAsyncError'

# compile NAME MODEL OPTIONS...: $program runs it
compile() {
  name=$1
  local model=$2
  shift 2
  rm -rf texts
  expect 0 "" "$apc" compile "$source_dir/examples/$model" -q "$@" --save-temps=texts -o "$name"
  program=("${run[@]}" "DOUBLES_TEXTS=$work/texts")
}

# calls RANK COMMAND...: how often that rank calls each function, except queries whether something is over
calls() {
  rm -f names
  "${program[@]}" DOUBLES_ON="$1" DOUBLES_NAMES="$work/names" "${@:2}" >/dev/null 2>err
  check "$name: $(head -n 3 err report 2>/dev/null)" test ! -s report
  grep -vE "^($asks|DOUBLES_.*)\$" names | sort | uniq -c | awk '{print $2, $1}' >calls.now
}

# more RANKS FEW MANY COMMAND...: the calls per request, from a run of MANY requests minus a run of FEW; the number of
# requests is the last word of the command
more() {
  local ranks=$1 few=$2 many=$3 r
  shift 3
  for ((r = 0; r < ranks; r++)); do
    calls $r "$@$few"
    mv calls.now calls.few
    calls $r "$@$many"
    join -a 1 -a 2 -e 0 -o 0,1.2,2.2 calls.few calls.now | awk -v n=$((many - few)) \
      '$2 != $3 { printf "%s %g\n", $1, ($3 - $2) / n }' >"more.$r"
  done
}
one_launch() { # one_launch RANKS
  local r
  for ((r = 0; r < $1; r++)); do check "$name, rank $r: $(paste -sd' ' "more.$r")" test "$(cat "more.$r")" = "cuGraphLaunch 1"; done
}

# request NAME RANKS MODEL OPTIONS...: a program whose requests are one graph
ask=(--input tokens=random:5 --output logits=@logits.npy --warmup=0)
request() {
  local ranks=$2 seed
  compile "$1" "${@:3}"
  more "$ranks" 2 5 "./$name" "${ask[@]}" --bench=
  one_launch "$ranks"
  expect 0 "" "${program[@]}" APC_EAGER=1 "./$name" "${ask[@]}"
  mv logits.npy eager.npy
  for seed in 1 2 3; do
    expect 0 "" "${program[@]}" DOUBLES_SEED=$seed "./$name" "${ask[@]}" --bench=2
    check "$name, seed $seed: other bits than call by call" cmp -s logits.npy eager.npy
  done
  # communicators that take long to end are still waited for when others are closed
  [ "$ranks" = 1 ] && return
  rm -f names
  expect 0 "" "${program[@]}" DOUBLES_ENDING=2500 MALLOC_PERTURB_=165 DOUBLES_ON=0 DOUBLES_NAMES="$work/names" "./$name" "${ask[@]}" --bench=2
  check "$name, slow ends: $(grep -E '^ncclComm(Abort|Destroy)$' names | sort | uniq -c | paste -sd' ')" \
    eval 'grep -q ncclCommDestroy names && ! grep -q ncclCommAbort names'
  # and through host memory, where the calls between communication are recorded
  expect 0 "" "${program[@]}" APC_COMM=staged "./$name" "${ask[@]}" --bench=2
  more 1 2 5 env APC_COMM=staged "./$name" "${ask[@]}" --bench=
  check "$name, staged: $(paste -sd' ' more.0)" grep -q '^cuMemcpyDtoHAsync' more.0
}
small="-D vocab=50 --dim batch=2 --dim seq=8"
llama="-D layers=2 -D d=64 -D heads=4 -D kv_heads=4 -D ffn=96"
# shellcheck disable=SC2086
{
  request alone 1 gpt.apc $small -D layers=1 -D d=32 -D heads=4 --target dgx-a100x1
  request tensors 4 llama.apc $small $llama --target dgx-a100x4 --tp 4
  request pipeline 4 llama.apc $small $llama --target dgx-a100x4 --tp 2 --pp 2 --micro-batches 2
}

# Outputs above 256 MiB are fetched after the graph, small ones in it.
cat >large.apc <<'E'
import nn

entry main(x: f32[9000, 1], w: f32[1, 8000]) {
  output y = relu(x) + relu(w)
  output z = relu(x) * 2.0
}
E
"$apc" compile large.apc -q --target dgx-a100x2 --save-temps=texts -o large
name=large program=("${run[@]}" "DOUBLES_TEXTS=$work/texts")
large=(./large --input x=random --input w=random --output y=@y.npy --output z=@z.npy --warmup=0)
expect 0 "" "${program[@]}" APC_EAGER=1 "${large[@]}" --bench=1
mv y.npy right.npy && mv z.npy z.right.npy
more 1 2 3 "${large[@]}" --bench=
check "$name: $(paste -sd' ' more.0)" test "$(grep -vE '^(cuMemcpyDtoHAsync_v2|cuEventRecord) ' more.0)" = "cuGraphLaunch 1"
check "$name: $(paste -sd' ' more.0)" test "$(grep -c '^cuMemcpyDtoHAsync_v2 3[0-9]$' more.0)" -eq 1
check "$name: other bits" eval 'cmp -s y.npy right.npy && cmp -s z.npy z.right.npy'
rm -f ./*.npy large

# Rounds of a loop are read by the host: call by call, with stretches of recorded calls.
compile loop lstm.apc -D layers=1 -D d=32 -D vocab=50 --dim batch=2 --dim seq=5 --target dgx-a100x1
more 1 2 5 "./$name" "${ask[@]}" --bench=
check "$name: $(paste -sd' ' more.0)" grep -q '^cuMemcpyDtoHAsync' more.0

# Training: a step is a request.
/usr/bin/python3 - <<'P'
import numpy as np
t = np.random.default_rng(0).integers(0, 64, (12, 17))
np.save("tokens.npy", t[:, :16])
np.save("next.npy", t[:, 1:])
P
steps() { # steps NAME RANKS OPTIONS...
  local model="gpt.apc -D layers=2 -D d=32 -D heads=4 -D vocab=64 -D ctx=16 --dim seq=16"
  local data=(--data tokens=@tokens.npy --data labels=@next.npy --shuffle none)
  # shellcheck disable=SC2086
  compile "$1" $model --train cross_entropy --batch 4 --optimizer "sgd(lr=1e-1,momentum=0.9)" "${@:3}"
  more "$2" 3 6 "./$name" "${data[@]}" --steps=
  one_launch "$2"
  expect 0 "" "${program[@]}" APC_EAGER=1 "./$name" "${data[@]}" --steps 4 --save eager.safetensors
  expect 0 "" "${program[@]}" "./$name" "${data[@]}" --steps 4 --save graph.safetensors
  check "$name: other weights than call by call" cmp -s eager.safetensors graph.safetensors
}
steps data_parallel 2 --target dgx-a100x2 --dp 2 --micro-batches 2
steps training_pipeline 2 --target dgx-a100x2 --pp 2 --micro-batches 4

# A graph marks some calls, so that a late instruction is one of those between two marks; call by call it is exact.  On
# a busy machine another one may be late by a second: then the test retries with a longer timeout.
patience=1s
late() { # late SETTINGS...: the late call, according to the error
  expect 7 "is late" "${program[@]}" "$@" "./$name" "${ask[@]}" --bench=2 --timeout $patience
  sed -nE "s/.*error: rank ([0-9]+) is late.*( at step [0-9]+ .*)/\1\2/p" err
}
# stretch LATE: the rank, the first and the last step, and what it waits for, if anything
stretch() {
  sed -nE 's/^([0-9]+) at step ([0-9]+) \([^)]*\)(.*)/\1 \2 \2 \3/p; s/^([0-9]+) at step ([0-9]+) to ([0-9]+) \([a-z_]+ of [^)]* to [a-z_]+ of [^)]*\)(.*)/\1 \2 \3 \4/p' <<<"$1"
}
# names GRAPH EAGER: the steps of the first, 16 at most, include the step of the second
names() {
  local rank first last rest exact step end wait
  read -r rank first last rest <<<"$(stretch "$1")"
  read -r exact step end wait <<<"$(stretch "$2")"
  [ -n "$end" ] && [ "$step" = "$end" ] && [ "$rank $rest" = "$exact $wait" ] &&
    [ "$first" -le "$step" ] && [ "$step" -le "$last" ] && [ $((last - first)) -lt 20 ]
}
# pieces FILE SETTINGS...: the pieces of work of the first rank in three requests, without marks: number, function
pieces() {
  rm -f trace
  "${program[@]}" DOUBLES_ON=0 DOUBLES_WATCH=1 DOUBLES_TRACE="$work/trace" "${@:2}" "./$name" "${ask[@]}" --bench=2 >/dev/null
  awk '/^(work|node) / && !/cuMemsetD32Async/ { print $2, $4 }' trace >"$1"
  marks=$(grep -cE '^(work|node) .*cuMemsetD32Async' trace)
}
piece() { sed -n "$2s/ .*//p" "$1"; } # piece FILE I: the number of the I-th one
# shellcheck disable=SC2086
compile alone gpt.apc $small -D layers=1 -D d=32 -D heads=4 --target dgx-a100x1
pieces of.graph
check "$name: $marks marks for $(wc -l <of.graph) calls" test $((8 * marks)) -le "$(wc -l <of.graph)"
pieces of.eager APC_EAGER=1
check "$name: $marks marks for $(wc -l <of.eager) calls" test $((2 * marks)) -ge "$(wc -l <of.eager)"
check "$name: graph and call by call do other work" diff <(cut -d' ' -f2 of.graph) <(cut -d' ' -f2 of.eager)
n=$(wc -l <of.graph) stretches=0
for k in 12 9 5 0; do # of the third request
  for patience in 1s 30s; do
    eager=$(late APC_EAGER=1 DOUBLES_STALL="$(piece of.eager $((n - k)))") graph=$(late DOUBLES_STALL="$(piece of.graph $((n - k)))")
    ! names "$graph" "$eager" || break
  done
  check "$name, work $((n - k)) of $n: late is '$graph', call by call '$eager'" names "$graph" "$eager"
  grep -q ' to ' <<<"$graph" && stretches=$((stretches + 1))
done
check "$stretches of 4 late calls are named with others" test "$stretches" -ge 3
# A stretch ends at a jump: each round of a loop marks its one launch, and the round is not named with what follows it.
cat >rounds.apc <<'E'
import nn

entry main(x: f32[4, 8], n: i64[]) {
  c = x
  loop t < n <= 5 carrying c {
    c = c * 1.5 + x
  }
  d = relu(c)
  output y = softmax(d)
  output z = transpose(exp(d), [1, 0])
}
E
"$apc" compile rounds.apc -q --target dgx-a100x1 --save-temps=texts -o rounds
name=rounds
asked=("${ask[@]}")
/usr/bin/python3 -c 'import numpy; numpy.save("n.npy", numpy.int64(4))'
ask=(--input x=random --input n=@n.npy --output y=@y.npy --warmup=0)
pieces of.graph
pieces of.eager APC_EAGER=1
check "$name: graph and call by call do other work" diff <(cut -d' ' -f2 of.graph) <(cut -d' ' -f2 of.eager)
row=$(grep -n 'k0_add$' of.graph | sed -n '2s/:.*//p') # of the second round
for patience in 1s 30s; do
  eager=$(late APC_EAGER=1 DOUBLES_STALL="$(piece of.eager "$row")") graph=$(late DOUBLES_STALL="$(piece of.graph "$row")")
  [ "$graph" != "$eager" ] || break
done
check "$name: late is '$graph', call by call '$eager'" eval '[ -n "$graph" ] && [ "$graph" = "$eager" ]'
check "$name: late is '$graph'" grep -qE 'at step [0-9]+ \(launch of ' <<<"$graph"
ask=("${asked[@]}")
# One rank skips a sum, the other waits in it.
# shellcheck disable=SC2086
compile tensors llama.apc $small $llama --target dgx-a100x2 --tp 2
calls 1 "./$name" "${ask[@]}"
n=$((2 * $(awk '$1 == "ncclAllReduce" { print $2 }' calls.now)))
for patience in 1s 30s; do
  eager=$(late APC_EAGER=1 DOUBLES_ON=1 DOUBLES_DROP=ncclAllReduce:$n) graph=$(late DOUBLES_ON=1 DOUBLES_DROP=ncclAllReduce:$n)
  ! names "$graph" "$eager" || break
done
check "$name: late is '$graph', call by call '$eager'" names "$graph" "$eager"
check "$name: no collective is named: $graph" grep -q 'all_reduce.*waiting in all_reduce at order key' <<<"$graph"
# The third request, a replay: around its second sum; the key is that of this request.
pieces of.graph
pieces of.eager APC_EAGER=1
sum() { awk -v n="$(($(grep -c ncclAllReduce "$1") / 3 * 2 + 2))" '/ncclAllReduce/ && ++k == n { print NR }' "$1"; } # the row
# The collective and its wait are two steps; the other queue may have reached either of them.
collectives() { sed -nE 's/.*, (waiting in .*)/\1/p' "$1" | sort -u; }
for patience in 1s 30s; do
  : >eager.late >graph.late
  for k in -1 0 1 2; do
    late APC_EAGER=1 DOUBLES_ON=0 DOUBLES_STALL="$(piece of.eager $(($(sum of.eager) + k)))" >>eager.late
    late DOUBLES_ON=0 DOUBLES_STALL="$(piece of.graph $(($(sum of.graph) + k)))" >>graph.late
  done
  collectives eager.late >eager.waits
  collectives graph.late >graph.waits
  [ -s graph.waits ] && [ -z "$(grep -vFxf eager.waits graph.waits)" ] && break
done
check "$name: late are $(paste -sd';' graph.late)" test -s graph.waits
check "$name: late are $(paste -sd';' graph.waits), call by call $(paste -sd';' eager.waits)" test -z "$(grep -vFxf eager.waits graph.waits)"
rm -f report
summary 60
