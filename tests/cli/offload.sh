#!/usr/bin/env bash
# tests/cli/offload.sh APC - --offload: moments in files, on CPU ranks: the same losses in less memory, and the choice
# of the planner.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/train_lib.sh"
train_rows
export APC_OFFLOAD_DIR=$private/homes
mkdir "$APC_OFFLOAD_DIR"
rows="--data x=@x.npy --data labels=@y.npy"
small="$mlp --train mse --batch 8 --optimizer adamw(lr=1e-2,weight_decay=0.1)"

# Losses are the same bit for bit, with every cut; nothing is left in the folder.
pairs=0
pair() { # pair MODEL DATA OPTIONS...
  local model=$1 data=$2 kind
  shift 2
  pairs=$((pairs + 1))
  for kind in none moments; do
    # shellcheck disable=SC2086
    {
    expect 0 "" "$apc" compile $model -q "$@" --offload $kind -o $kind
    expect 0 "" ./$kind --steps 6 $data --json --checkpoint $kind.$pairs
    }
    losses out >$kind.txt
  done
  check "the losses are equal" cmp none.txt moments.txt
  check "six losses" [ "$(wc -l <none.txt)" -eq 6 ]
  check "the checkpoints are equal" cmp none.$pairs/checkpoint.safetensors moments.$pairs/checkpoint.safetensors
}
pair "$small" "$rows" --target cpu
pair "$small" "$rows" --target cpux2 --dp 2 --zero 1
in_half 0 && pair "$small" "$rows" --target cpux2 --pp 2 --micro-batches 2
in_half 1 && pair "$small" "$rows" --target cpux4 --dp 2 --tp 2 --zero 3 --micro-batches 2
check "no file is left" [ -z "$(ls -A "$APC_OFFLOAD_DIR")" ]

# A run that stops goes on, from the checkpoint of either.
# shellcheck disable=SC2086
{
expect 0 "" "$apc" compile $small -q --target cpux2 --dp 2 --zero 1 --offload none -o none
expect 0 "" "$apc" compile $small -q --target cpux2 --dp 2 --zero 1 --offload moments -o moments
expect 0 "" ./none --steps 6 $rows --json
losses out | tail -n 3 >want.txt
expect 0 "" ./none --steps 3 $rows --json --checkpoint half
expect 0 "" ./moments --steps 6 $rows --json --resume half
losses out >got.txt
check "moments in files continue those in memory" cmp got.txt want.txt
expect 0 "" ./moments --steps 3 $rows --json --checkpoint other
expect 0 "" ./none --steps 6 $rows --json --resume other
losses out >got.txt
check "moments in memory continue those in files" cmp got.txt want.txt
}

# Plan, program, report and proof say where states live.
# shellcheck disable=SC2086
{
expect 0 "away     moments: " "$apc" plan $small --target cpux2 --dp 2 --offload moments --save-plan a.plan
check "the plan file says it" grep -qx "offload moments" a.plan
expect 0 "" "$apc" compile $small -q --target cpux2 --plan a.plan --emit=schedule=a.txt,spmd=a.ir
check "the program says it" grep -q '^buffer b[0-9]* "layers.0.up.w:m" away ' a.txt
check "moments are brought and stowed" bash -c 'grep -q "^  bring .*layers.0.up.w" a.txt && grep -q "^  stow .*layers.0.up.w:m" a.txt'
check "level 2 says it" grep -q '^state "layers.0.up.w:m" : .* = 0 away$' a.ir
expect 0 "the parallel program computes the model" "$apc" verify $small -q --target cpux2 --plan a.plan
expect 0 "" "$apc" plan $small --target cpux2 --dp 2 --offload moments --json
expect_json "d['chosen']['offload'] == 'moments' and d['memory_bytes']['optimizer'] == 0 and d['memory_bytes']['away'] > 0"
}

# More memory than --memory allows: refused without, and planned with --offload auto, whose ranks stay within it.
big="$source_dir/examples/mlp.apc -D layers=4 -D d=512 -D hidden=1024 --train mse --batch 8 --optimizer adamw(lr=1e-3)"
limit="--target cpu --memory 42MB"
/usr/bin/python3 -c '
import numpy as np
x = np.random.default_rng(1).standard_normal((16, 512)).astype("f4")
np.save("wide.npy", x)'
wide="--data x=@wide.npy --data labels=@wide.npy"
# shellcheck disable=SC2086
{
expect 3 "no feasible plan" "$apc" plan $big $limit
expect 3 "no feasible plan" "$apc" plan $big --target cpu --memory 20MB --offload auto
expect 0 "" "$apc" plan $big --target cpu --offload auto --json
expect_json "d['chosen']['offload'] == 'none'"
expect 0 "nothing fits: the moments live in files" "$apc" compile $big $limit --offload auto -o less
expect 0 "" "$apc" compile $big -q --target cpu -o more
expect 0 "" ./more --steps 4 $wide --json
losses out >want.txt
expect 0 "" ./less --steps 4 $wide --json
losses out >got.txt
check "the losses beyond --memory are equal" cmp got.txt want.txt
}
peak() { /usr/bin/python3 -c '
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$@"; }
# shellcheck disable=SC2086
more=$(peak ./more --steps 2 $wide) less=$(peak ./less --steps 2 $wide)
check "a rank takes 24 MB less: $more and $less KB" [ $((more - less)) -gt 24000 ]

# Wrong uses.
# shellcheck disable=SC2086
{
expect 2 "--offload moments needs --train" "$apc" plan $mlp --offload moments
expect 2 "the optimizer has none" "$apc" plan $mlp --train mse --batch 8 --optimizer 'sgd(lr=1)' --offload moments
expect 2 "--offload none contradicts the plan, which has moments" "$apc" plan $small --target cpux2 --plan a.plan --offload none
expect 5 "APC0637" "$apc" plan $small --offload weights
expect 5 "APC0637" "$apc" plan $small --offload saved
expect 5 "not built yet for programs of GPUs" "$apc" compile $small --target rtx4090-x4 --offload moments -o gpu
printf 'target t { machine m; }\nmachine m { devices 1 c; }\ncpu c { memory 1 GB at 10 GB/s; peak f32 100 GFLOPS; launch 1 us; cores 1; }\n' >no.topo
expect 2 "--offload needs the rate of the disk" "$apc" plan $small --target no.topo --offload moments
expect 0 "" "$apc" plan "$source_dir/examples/mlp.apc" -q --target cpux2 --save-plan serving.plan
sed -i 's/^mesh.*/&\noffload moments/' serving.plan
expect 2 "offload moments needs --train" "$apc" plan "$source_dir/examples/mlp.apc" -q --target cpux2 --plan serving.plan
APC_OFFLOAD_DIR=/nowhere expect 6 "/nowhere" ./moments --steps 1 $rows
}

summary 62 52
