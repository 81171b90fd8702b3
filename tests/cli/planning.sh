#!/bin/bash
# A long search: progress, a time limit, and a report of where the time went.
. "$(dirname "$0")/lib.sh"
gpt=$source_dir/examples/gpt.apc

# Where the time went.
expect 0 "" "$apc" plan "$gpt" -D layers=4 --target cpux4 --time-report -q
expect_err "candidates, "
expect_err "graphs, "
check "seconds by kind of work" grep -Eq 'domains [0-9.]+ s, tables [0-9.]+ s, order [0-9.]+ s, sums [0-9.]+ s of processor time' err
check "the largest graph" grep -Eq 'most work +[0-9]+ variables, width [0-9]+, ' err
check "four joins with names" [ "$(grep -Ec ' with [0-9]+ others?, .* sums: ' err)" -eq 4 ]

# The time is over before the search begins: there is a plan all the same, with the proved gap.
expect 0 "cut short by --effort" "$apc" plan "$gpt" -D layers=4 --target cpux16 --effort 0
expect 0 "" "$apc" plan "$gpt" -D layers=4 --target cpux16 --effort 0 --json -q
expect_json '0 < d["lower_bound_us"] <= d["time_us"] and 0 <= d["gap"] < 1'
# Unexplored parts count with their launches and memory traffic as well, not only with their products; and there are no
# empty stages.
expect 0 "" "$apc" plan "$gpt" -D layers=4 --target dgx-a100x16 --effort 0 --json -q
expect_json 'd["gap"] < 0.7'
expect 0 "" "$apc" plan "$source_dir/examples/mlp.apc" --target dgx-a100x12288 --effort 0 --json -q
expect_json 'd["gap"] < 0.8'
expect 0 "" "$apc" plan "$gpt" -D layers=4 --target cpux16 --effort 0 --json -q
hasty=$(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["time_us"])')
# The same if memory is short, or the batch is cut.
expect 0 "" "$apc" plan "$gpt" -D layers=4 --target cpux4 --memory 300MB --effort 0 --json -q
expect_json 'd["bytes_per_device"] <= 300e6'
expect 0 "" "$apc" plan "$gpt" -D layers=4 --target cpux4 --pp 2 --micro-batches 4 --effort 0 --json -q
expect_json 'd["chosen"]["pp"] == 2 and d["chosen"]["micro_batches"] == 4'
# Forced plans are searched for after the free one, in the same time.
expect 0 "cut short by --effort" "$apc" plan "$gpt" -D layers=4 --target cpux16 --tp 4 --effort 0
# Models that do not fit at all are still reported.
expect 3 "no feasible plan" "$apc" plan "$gpt" -D layers=4 --target cpux4 --memory 1MB --effort 0
# With enough time the limit changes nothing.
expect 0 "" "$apc" plan "$gpt" -D layers=4 --target cpux16 --effort 1000 --json -q
expect_json "d['gap'] < 0.05 and d['time_us'] <= $hasty"
expect 2 "--effort" "$apc" plan "$gpt" --target cpux4 --effort soon
expect 2 "--effort" "$apc" plan "$gpt" --target cpux4 --effort -1

# A training step that does not fit at once: without stages, in micro-batches or with partial recomputation.
expect 0 "" "$apc" plan "$gpt" --train cross_entropy --optimizer 'adamw(lr=3e-4)' --batch 64 --target cpux4 --memory 2500MB --json -q
expect_json 'd["gap"] < 0.02 and d["chosen"]["pp"] == 1 and (d["chosen"]["micro_batches"] > 1 or d["chosen"]["recompute"] != "none")'
step_us=$(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["time_us"])')
for forced in "--dp 4 --micro-batches 2" "--tp 2 --dp 2 --micro-batches 2" "--pp 2" "--cp 4"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan "$gpt" --train cross_entropy --optimizer 'adamw(lr=3e-4)' --batch 64 --target cpux4 --memory 2500MB $forced --json -q
  expect_json "d['time_us'] >= $step_us * (1 - 1e-9)"
done

# Options forced to 1 stay, also if memory is short.
expect 0 "" "$apc" plan "$gpt" --train cross_entropy --optimizer 'adamw(lr=3e-4)' --batch 64 --target cpux4 --memory 2500MB --dp 1 --json -q
expect_json "d['chosen']['dp'] == 1 and d['time_us'] >= $step_us * (1 - 1e-9)"

# Progress, on a terminal, of long operations; not with -q.
long=("$apc" plan "$gpt" -D layers=96 --target dgx-a100x64)
expect 0 "" script -qec "TERM=xterm ${long[*]}" log
expect_out "candidates done, "
expect_out "gap at most"
expect_out "s left"
expect 0 "" script -qec "TERM=xterm ${long[*]} -q" log
check "no progress with -q" [ "$(grep -c 'candidates done' out)" -eq 0 ]
# The gradient of a table that the first and the last stage use is added over stages while its parts lie over dp: it is
# gathered once.
expect 0 "" "$apc" plan "$gpt" -D layers=2 -D d=24 -D heads=3 -D ffn=36 -D vocab=50 -D ctx=16 --train cross_entropy \
  --batch 64 --target cpux4 --pp 2 --dp 2 --micro-batches 4 -q --emit=spmd=tied.ir
check "one sum over dp" grep -q '%x.gather.grad.add.reduce_scatter = ' tied.ir
check "only numbers are all-reduced" [ "$(grep '= all_reduce' tied.ir | grep -vc ': f32\[\]')" -eq 0 ]

# Another form of a value that a gradient reads, such as the output of a norm in f32, is in no later stage than the
# gradient, wherever stages are cut.
for schedule in 1f1b zbh1 zbv interleaved:2; do
  expect 0 "pp 4" "$apc" plan "$gpt" -D layers=2 -D d=256 -D heads=4 -D ctx=64 -D vocab=1000 --dim seq=64 --dtype bf16 \
    --train cross_entropy --batch 8 --target dgx-a100x4 -q --pp 4 --micro-batches 8 --schedule $schedule
done

# A fully specified training step is priced on one mesh; with anything left open it is searched for.
layout=("$gpt" -D layers=2 -D d=32 -D heads=4 -D vocab=64 -D ctx=16 --train cross_entropy --batch 16 --target cpux8 -q
  --tp 2 --pp 2 --dp 2 --micro-batches 4 --zero 1 --recompute selective --time-report)
expect 0 "of mirrored plans with one mesh axis per degree" "$apc" plan "${layout[@]}" --schedule 1f1b
expect_err "1 candidates, 1 graphs"
expect 0 "of mirrored plans" "$apc" plan "${layout[@]}"
check "more than one mesh" [ "$(grep -c "one mesh axis" out) $(grep -c " 1 candidates" err)" = "0 0" ]

# A signal during planning: the best plan so far is shown and saved; messages are not repeated.
/usr/bin/python3 - "${long[@]}" --save-plan stopped.plan >signalled 2>&1 <<'P'
import signal, subprocess, sys
for sig in signal.SIGINT, signal.SIGTERM:
    p = subprocess.Popen(["script", "-qec", "TERM=xterm exec " + " ".join(sys.argv[1:]), "log"], stdout=subprocess.PIPE,
                         start_new_session=True)
    seen = b""
    while b"gap at most" not in seen:
        more = p.stdout.read1()
        assert more, seen
        seen += more
    children = open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()
    import os
    os.kill(int(children[0]), sig)
    seen += p.stdout.read()
    assert p.wait() == 0 and b"cut short by a signal" in seen and b"lower bound" in seen, (p.returncode, seen)
    open("stopped.plan").close()
    os.remove("stopped.plan")
P
code=$?
check "a signal: $(cat signalled)" [ $code -eq 0 ]
# A published run: 1,008 G parameters on 3,072 A100, of which 502 PFLOP/s were reported, so 102.4 s a step.
expect 0 "on 384 machines" "$apc" plan "$gpt" -D layers=128 -D d=25600 -D heads=160 -D vocab=51200 -D ctx=2048 --dim seq=2048 \
  --train cross_entropy --batch 3072 --dtype bf16 --target dgx-a100x3072 --tp 8 --pp 64 --dp 6 --micro-batch 1 --recompute full \
  --schedule 1f1b --zero 0 --assume-kernels -q --tokens 300e9 --step-time 102.4s
expect_out " of 958 PFLOP/s, "
expect_out "502 PFLOP/s, 52 %"
summary 43
