#!/usr/bin/env bash
# tests/cli/zero.sh APC - --zero: the parts of the training state that data parallel ranks shard.
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 -c '
import numpy as np
r = np.random.default_rng(0)
np.save("x.npy", r.standard_normal((40, 12)).astype("f4"))
np.save("class.npy", r.integers(0, 12, 40))
r.integers(0, 24, 400).astype("<u2").tofile("tokens.bin")'
mlp="$source_dir/examples/mlp.apc -D layers=2 -D d=12 --train cross_entropy --optimizer adamw(lr=1e-3) --batch 8"
gpt="$source_dir/examples/gpt.apc -D layers=2 -D d=16 -D heads=2 -D vocab=24 -D ctx=8 --dim seq=6 --train cross_entropy --batch 8"
rows="--data x=@x.npy --data labels=@class.npy" tokens="--data tokens=@tokens.bin"

# losses: one per line, of a program's --json lines
losses() { /usr/bin/python3 -c '
import json, sys
for line in sys.stdin: print(json.loads(line)["loss"])'; }
near() { /usr/bin/python3 -c '
import sys
a, b = ([float(x) for x in open(f)] for f in sys.argv[1:])
assert len(a) == len(b) == 12 and all(abs(x - y) < 1e-5 for x, y in zip(a, b)), (a, b)' "$@"; }

# A link so slow that sums of gradients begin while the backward pass runs.
printf '%s\n' 'cpu core { arch avx2; cores 2; memory 8 GB at 45 GB/s; launch 5 us; peak f32 100 GFLOPS; }' \
  'machine pair { devices 1 core; link cable at 125 MB/s latency 50 us; }' >slow.topo

# Every stage is proved, and trains like one rank.
cuts=0
each() { # each DATA CUT MODEL...
  local data=$1 cut=$2 zero
  shift 2
  cuts=$((cuts + 1))
  for zero in 0 1 2 3; do
    in_quarter $((cuts + zero)) || continue
    # shellcheck disable=SC2086
    {
    expect 0 "the parallel program computes the model" "$apc" verify "$@" -q --target $cut --zero $zero
    expect 0 "" "$apc" compile "$@" -q --target $cut --zero $zero -o trainer
    ./trainer --steps 12 $data --json | losses >got.txt
    }
    check "zero $zero on $cut" near got.txt want.txt
  done
}
# shellcheck disable=SC2086
{
expect 0 "" "$apc" compile $mlp -q -o one
./one --steps 12 $rows --json | losses >want.txt
each "$rows" "./slow.topox2 --dp 2" $mlp
each "$rows" "cpux4 --dp 2 --tp 2 --micro-batches 2" $mlp
expect 0 "" "$apc" compile $gpt -q -o one
./one --steps 12 $tokens --json | losses >want.txt
each "$tokens" "cpux4 --dp 4" $gpt
each "$tokens" "cpux2 --dp 2 --micro-batches 2" $gpt
expect 0 "the parallel program computes the model" "$apc" verify $gpt -q --target cpux2 --dp 2 --dtype bf16 --zero 3 --micro-batches 2
expect 0 "the parallel program computes the model" "$apc" verify $gpt -q --target cpux4 --dp 2 --tp 2 --dtype bf16 --zero 1 --micro-batches 2
}

# Weights are cast in parts, and gathered in 16 bits; if they are stored whole, or gathered at use, they are cast whole.
cast='^op "layers.*attn.q.w.bf16" {x[01]:dp}$' gpus="--target dgx-a100x8 --dtype bf16 --tp 1 --pp 1 --micro-batches 1 --recompute none"
for zero in 0 1 2 3; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan ${gpt/ -D d=16/ -D d=1024} -q $gpus --dp 8 --zero $zero --save-plan $zero.plan --json
  expect_json "d['chosen']['zero'] == $zero and d['gap'] < 0.01"
  mv out told$zero.json
  check "zero $zero casts parts or not" test "$(grep -c "$cast" $zero.plan)" = $((zero == 1 || zero == 2))
done
sed 's/^\(op .*\.bf16" \){x[01]:dp}$/\1{}/' 1.plan >whole.plan
# shellcheck disable=SC2086
expect 0 "" "$apc" plan ${gpt/ -D d=16/ -D d=1024} -q $gpus --plan whole.plan --json
expect_json "d['chosen']['zero'] == 1 and d['time_us'] > 1.05 * json.load(open('told1.json'))['time_us']"
# They are not recomputed for gradients: they would be gathered twice.
# shellcheck disable=SC2086
expect 0 "" "$apc" plan ${gpt/ -D d=16/ -D d=1024} -q ${gpus/none/full} --dp 8 --zero 1 --save-plan full.plan --json
expect_json "d['chosen']['recompute'] == 'full'"
check "casts of parts are kept" grep -q "$cast" full.plan

# The placement of stored weights changes no bit: the plan of stage 0, with the lines of stage 1 that define it.  Nor do
# sums that begin early.
for cut in "cpux2 --dp 2" "cpux4 --dp 2 --tp 2 --micro-batches 2"; do
  cuts=$((cuts + 1))
  in_half $cuts || continue
  # shellcheck disable=SC2086
  {
  for zero in 0 1; do expect 0 "" "$apc" plan $gpt -q --target $cut --zero $zero --save-plan $zero.plan; done
  check "a line says where a weight is stored" grep -q '^store "layers.0.attn.q.w" {.*dp' 1.plan
  grep -v '^store' 0.plan >moved.plan
  grep '^store' 1.plan >>moved.plan
  expect 0 "" "$apc" compile $gpt -q --target $cut --zero 0 --plan 0.plan -o whole
  expect 0 "" "$apc" compile $gpt -q --target ${cut/cpux2/./slow.topox2} --zero 1 --plan moved.plan -o parts
  expect 0 "" ./whole --steps 9 $tokens --save whole.safetensors
  expect 0 "" ./parts --steps 9 $tokens --save parts.safetensors
  }
  check "the same bits" cmp whole.safetensors parts.safetensors
done

# A plan file keeps it, byte for byte, and options beside it must agree.
for zero in 0 1 2 3; do
  # shellcheck disable=SC2086
  {
  expect 0 "" "$apc" plan $gpt -q --target cpux2 --dp 2 --zero $zero --save-plan saved.plan --json
  expect_json "d['chosen']['zero'] == $zero and d['chosen']['dp'] == 2"
  expect 0 "" "$apc" plan $gpt -q --target cpux2 --plan saved.plan --zero $zero --save-plan again.plan --json
  expect_json "d['chosen']['zero'] == $zero"
  check "the same plan" cmp saved.plan again.plan
  expect 2 "--zero $(((zero + 1) % 4)) contradicts the plan, which has $zero" "$apc" plan $gpt -q --target cpux2 --plan saved.plan \
    --zero $(((zero + 1) % 4))
  }
done
check "gathered at use" grep -q '^store "layers.0.attn.q.w" {x[01]:dp} gather use$' saved.plan
check "gradients" grep -q '^grad "layers.*attn.q.w.grad.accumulate" {x[01]:dp}' saved.plan
check "no line of an update" eval '! grep -q "^update" saved.plan'
expect 0 "stored, gathered at use" "$apc" inspect saved.plan
expect 0 "" "$apc" inspect saved.plan --json
expect_json "any(o['line'] == 'store' and o['gather_at_use'] for o in d['ops'])"
# The search undercounts updates; a program above the limit is refused all the same.
few="$source_dir/examples/mlp.apc -D layers=2 -D d=64 --train cross_entropy --batch 8 --target cpux4 --dp 4"
# shellcheck disable=SC2086
{
expect 0 "" "$apc" plan $few -q --micro-batches 1 --zero 3 --json
expect_json "d['counted_bytes'] < 340e3 < d['bytes_per_device'] == d['allocated_bytes']['total']"
expect 3 "the smallest program tried takes " "$apc" plan $few -q --micro-batches 1 --zero 3 --memory 340KB --save-plan large.plan
enough=$(sed -n 's/.*help: a plan may exist with --memory \([0-9]*KB\)/\1/p' err)
check "nothing is saved" test ! -e large.plan
expect 0 "" "$apc" plan $few -q --micro-batches 1 --zero 3 --memory "$enough"
expect 0 "" "$apc" plan $few -q --memory 0.01% --json # of 4 GB
expect_json "d['bytes_per_device'] <= 400e3 and d['gap'] > 0"
no_err
expect 2 "as in 72GiB, 16GB, 512MiB or 90%, not '101%'" "$apc" plan $few -q --memory 101%
}
# Bytes by class: the compiler's prediction equals the allocation of each rank, and every stage takes less than the one
# before.
/usr/bin/python3 -c '
import numpy as np
r = np.random.default_rng(1)
np.save("wide.npy", r.standard_normal((16, 64)).astype("f4"))
np.save("of64.npy", r.integers(0, 64, 16))'
wide="$source_dir/examples/mlp.apc -D layers=2 -D d=64 --train cross_entropy --batch 8"
for parts in 1 2; do
  in_half $parts || continue
  # shellcheck disable=SC2086
  for zero in 0 1 2 3; do
    expect 0 "" "$apc" plan $wide -q --target cpux4 --dp 4 --micro-batches $parts --zero $zero --json
    mv out told$zero.json
    expect 0 "" "$apc" compile $wide -q --target cpux4 --dp 4 --micro-batches $parts --zero $zero -o trainer
    expect 0 "" ./trainer --steps 2 --data x=@wide.npy --data labels=@of64.npy --describe=json
    sed -n '/^{/,$p' out >did$zero.json
  done
  check "bytes with $parts micro-batches" /usr/bin/python3 - $parts <<'P'
import json, sys
def classes(b):
    of = b["of_activations"]
    return {"weights": b["params"] + b["mapped"] + of["gathered"], "gradients": of["gradients"], "optimizer": b["state"],
            "saved": of["saved"], "transient": b["activations"] - sum(of.values()), "communication": b["comm"]}
told = [json.load(open(f"told{z}.json")) for z in range(4)]
stored = []  # of weights, not counting those gathered during a step
for z in range(4):
    ranks = json.load(open(f"did{z}.json"))["memory"]
    assert all(r["predicted_bytes"] == r["allocated_bytes"] for r in ranks), ranks
    stored.append(max(r["allocated_bytes"]["params"] + r["allocated_bytes"]["mapped"] for r in ranks))
    largest = max((classes(r["allocated_bytes"]) for r in ranks), key=lambda c: sum(c.values()))
    assert told[z]["allocated_bytes"]["classes"] == largest, (z, told[z]["allocated_bytes"], largest)
    assert abs(sum(told[z]["memory_bytes"].values()) - told[z]["bytes_per_device"]) <= 8, told[z]
for bytes in [t["bytes_per_device"] for t in told], [t["allocated_bytes"]["total"] for t in told]:
    assert bytes == sorted(bytes, reverse=True) and len(set(bytes)) == 4, bytes
has = [t["allocated_bytes"]["classes"] for t in told]
whole = 4 * told[0]["params"]
assert stored[0] == whole and all(whole // 4 <= n < whole // 4 * 1.05 for n in stored[1:]), stored
assert has[0]["weights"] == whole and has[0]["optimizer"] == 2 * whole, has[0]
assert all(2 * whole // 4 <= h["optimizer"] < 2 * whole // 4 * 1.05 for h in has[1:]), has
if sys.argv[1] == "2":  # values kept over micro-batches exist at the time of peak memory
    assert all(whole * 5 // 4 <= h["weights"] < whole * 3 // 2 for h in has[1:3]) and whole // 4 <= has[3]["weights"] < whole * 3 // 4, has
    assert has[1]["gradients"] >= whole > has[2]["gradients"] >= whole // 4, has
P
done

# shellcheck disable=SC2086
{
sed 's/gather use/gather twice/' saved.plan >bad.plan
expect 1 "expected 'once'" "$apc" plan $gpt -q --target cpux2 --plan bad.plan
sed 's/^store "layers.0.attn.q.w"/store "layers.0.attn.q"/' saved.plan >bad.plan
expect 1 'no trained weight is named "layers.0.attn.q"' "$apc" plan $gpt -q --target cpux2 --plan bad.plan
echo 'grad "x" {}' | cat saved.plan - >bad.plan
expect 1 'no accumulation is named "x"' "$apc" plan $gpt -q --target cpux2 --plan bad.plan

# Left to apc: weights are sharded, and gathered at use if they do not fit otherwise.
wide="${wide/--batch 8/--batch 64}"
expect 0 "dp 4, zero 3" "$apc" plan $wide -q --target cpux4 --dp 4 --zero 3
expect 0 "" "$apc" plan $wide -q --target cpux4 --dp 4 --json
expect_json "d['chosen']['zero'] in (1, 2) and d['bytes_per_device'] > 500e3"
expect 0 "" "$apc" plan $wide -q --target cpux4 --dp 4 --memory 440KB --json
expect_json "d['chosen']['zero'] == 3 and d['bytes_per_device'] <= 440e3"
expect 3 "no feasible plan" "$apc" plan $wide -q --target cpux4 --dp 4 --memory 200KB
expect_err "optimizer"

# Refused requests.
expect 3 "zero 1 would have no effect" "$apc" plan $gpt -q --target cpu --zero 1
expect 3 "zero 3 would have no effect" "$apc" plan $gpt -q --target cpux2 --dp 1 --zero 3
expect 3 "zero 2 would have no effect" "$apc" plan $gpt -q --target cpux2 --pp 2 --zero 2
expect 3 "" "$apc" plan $gpt -q --target cpux2 --tp 2 --zero 2
expect 2 "--zero" "$apc" plan $gpt -q --target cpux2 --zero 4
expect 2 "--zero needs --train" "$apc" plan "$source_dir/examples/mlp.apc" -q --target cpux2 --zero 1
}
summary 150 78
