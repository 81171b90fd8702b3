#!/bin/bash
# Many ranks: the chosen plan is no slower than usual plans, and is found with little work.
. "$(dirname "$0")/lib.sh"
llama=$source_dir/examples/llama.apc
model=("$apc" plan "$llama" -D layers=8 -D d=2048 -D heads=16 -D kv_heads=8 -D ffn=7168 -D vocab=128256 --dim seq=1024 --dtype bf16 --target dgx-h100x128)
step=("${model[@]}" --train cross_entropy --batch 128 --json -q)

expect 0 "" "${step[@]}"
expect_json 'd["gap"] > 0 and d["chosen"]["pp"] * d["chosen"]["tp"] * d["chosen"]["dp"] * d["chosen"]["cp"] == 128'
step_us=$(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["time_us"])')
while read -r forced; do
  # shellcheck disable=SC2086
  expect 0 "" "${step[@]}" $forced --cp 1 --ep 1
  expect_json "d['time_us'] >= $step_us * (1 - 1e-9)"
done <<'PLANS'
--tp 1 --pp 1 --dp 128 --micro-batches 1 --zero 1 --recompute none
--tp 2 --pp 1 --dp 64 --micro-batches 1 --zero 2 --recompute none
--tp 8 --pp 1 --dp 16 --micro-batches 1 --zero 1 --recompute none
--tp 1 --pp 4 --dp 32 --micro-batches 4 --schedule 1f1b --zero 1 --recompute none
--tp 1 --pp 4 --dp 32 --micro-batches 4 --schedule zbv --zero 1 --recompute none
--tp 1 --pp 2 --dp 64 --micro-batches 2 --schedule zbh1 --zero 1 --recompute none
--tp 1 --pp 8 --dp 16 --micro-batches 8 --schedule zbv --zero 1 --recompute none
--tp 2 --pp 4 --dp 16 --micro-batches 8 --schedule interleaved:2 --zero 1 --recompute none
--tp 4 --pp 2 --dp 16 --micro-batches 8 --schedule zbv --zero 1 --recompute none
PLANS

# Forced options stay: ZeRO needs data parallel ranks, of which there are some then.
expect 0 "" "${step[@]}" --zero 3 --effort 2
expect_json 'd["chosen"]["zero"] == 3 and d["chosen"]["dp"] > 1'
expect 0 "" "${step[@]}" --dp 32 --effort 2
expect_json "d['chosen']['dp'] == 32 and d['time_us'] >= $step_us * (1 - 1e-9)"

# Inference.
expect 0 "" "${model[@]}" --dim batch=512 --json -q
us=$(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["time_us"])')
expect 0 "" "${model[@]}" --dim batch=512 --tp 4 --dp 32 --json -q
expect_json "d['time_us'] >= $us * (1 - 1e-9)"
summary 26
