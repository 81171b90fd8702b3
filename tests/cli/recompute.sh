#!/bin/bash
# --recompute: the same run bit by bit in less memory, proved; wrong copies are refuted.
. "$(dirname "$0")/lib.sh"
prove=$(dirname "$apc")/apc-opt
gpt="$source_dir/examples/gpt.apc -D layers=4 -D d=32 -D heads=4 -D vocab=64 -D ctx=16 --dim seq=16 --train cross_entropy --optimizer adamw(lr=1e-3,clip=1) --batch 8"
mlp="$source_dir/examples/mlp.apc -D d=8 -D hidden=8 --train mse --batch 8"

/usr/bin/python3 -c '
import numpy as np
t = np.random.default_rng(0).integers(0, 64, (40, 17))
np.save("t.npy", t[:, :16])
np.save("l.npy", t[:, 1:])'

# allocated CUT RECOMPUTE: bytes of a rank for computed values; the search counts at most 9 % less than the total, and
# more if layers are recomputed
allocated() {
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan ${gpt/--batch 8/--batch 64} -q $1 --recompute "$2" --json
  expect_json "d['chosen']['recompute'] == '$2' and 0.55 < d['allocated_bytes']['total'] / d['counted_bytes'] < 1.1"
  /usr/bin/python3 -c 'import json; print(json.load(open("out"))["allocated_bytes"]["activations"])' >"bytes.$2"
}
less() { test "$(cat "bytes.$1")" -lt "$(cat "bytes.$2")"; }

# Every policy gives the bits of the run without it, for every cut, and takes the predicted bytes.
cuts=0
for cut in "--target cpu" "--target cpux2 --tp 2" "--target cpux2 --cp 2" "--target cpux4 --dp 2 --tp 2 --micro-batches 2"; do
  cuts=$((cuts + 1))
  in_quarter $cuts || continue
  for policy in none 2 selective full:2 full; do
    # shellcheck disable=SC2086
    expect 0 "" "$apc" compile $gpt -q $cut --recompute $policy -o trainer
    expect 0 "" ./trainer --steps 4 --data tokens=@t.npy --data labels=@l.npy --save $policy.safetensors
    check "$cut: $policy has the bits of none" cmp none.safetensors $policy.safetensors
    allocated "$cut" $policy
  done
  for pair in 2,none selective,2 full:2,selective full,full:2; do
    check "$cut: ${pair%,*} takes less than ${pair#*,}" less "${pair%,*}" "${pair#*,}"
  done
done

# Random numbers are the same when they are drawn again.
printf '%s\n' 'apc.ir 1' 'param "w" : f32[3, 3] = normal 1 seed 1' 'param "u" : f32[3, 3] = normal 1 seed 2' \
  'func @main level 1 {' '  %x = input {name="x"} : f32[8, 3]' '  %w = param {name="w"} : f32[3, 3]' \
  '  %u = param {name="u"} : f32[3, 3]' '  %h = dot %x, %w {spec="mk,kn->mn"} : f32[8, 3]' \
  '  %r = random {kind="uniform", seed=3, starts=[0, 0], extents=[8, 3]} : f32[8, 3]' '  %d = mul %h, %r : f32[8, 3]' \
  '  %y = dot %d, %u {spec="mk,kn->mn"} : f32[8, 3]' '  output "y" %y' '}' >drop.ir
/usr/bin/python3 -c '
import numpy as np
r = np.random.default_rng(1)
np.save("x.npy", r.standard_normal((40, 3)).astype("f4"))
np.save("y.npy", r.standard_normal((40, 3)).astype("f4"))'
for policy in none selective; do
  expect 0 "" "$apc" compile drop.ir -q --train mse --target cpux2 --dp 2 --recompute $policy -o trainer
  expect 0 "" ./trainer --steps 4 --data x=@x.npy --data labels=@y.npy --save drop.$policy.safetensors
done
check "masks are the same" cmp drop.none.safetensors drop.selective.safetensors
expect 0 "proved" "$apc" verify drop.ir -q --train mse --target cpux2 --dp 2 --recompute selective

# Proved; a copy of another value is not.
expect 0 "proved" "$apc" verify $gpt -q --target cpux2 --tp 2 --recompute full
expect 0 "" "$apc" plan drop.ir -q --train mse --target cpux2 --dp 2 --recompute selective --emit=spmd=drop.spmd.ir
expect 0 "proved" "$prove" --prove=main,main.spmd drop.spmd.ir
check "a copy is marked" grep -q "random_keyed.* again" drop.spmd.ir
sed '/random_keyed.* again/s/stream=1/stream=2/' drop.spmd.ir >other.ir
check "another stream" test "$(cmp drop.spmd.ir other.ir | wc -l)" -eq 1
expect 4 "refuted" "$prove" --prove=main,main.spmd other.ir
expect 0 "" "$apc" plan $gpt -q --target cpux2 --tp 2 --recompute full --emit=spmd=gpt.ir
expect 0 "proved" "$prove" --prove=main,main.spmd gpt.ir
/usr/bin/python3 - <<'P'
import re
lines = open("gpt.ir").read().split("\n")
copies = [i for i, l in enumerate(lines) if " = dot " in l and " again" in l and "attn.q" in l]
words = re.match(r"( *%\S+ = dot )(\S+), (\S+)( .*)", lines[copies[0]])
other = re.match(r".* = dot \S+, (\S+) ", lines[copies[1]])
lines[copies[0]] = f"{words[1]}{words[2]}, {other[1]}{words[4]}"
open("wrong.ir", "w").write("\n".join(lines))
P
expect 4 "refuted" "$prove" --prove=main,main.spmd wrong.ir

# A plan lists it operation by operation, and reads back.
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $gpt -q --target cpux2 --tp 2 --recompute selective --save-plan saved.plan
check "lines" grep -q '^op "layers\.\*\.ln1\.norm" {.*} again$' saved.plan
expect 0 "" "$apc" plan $gpt -q --target cpux2 --plan saved.plan --save-plan again.plan --json
expect_json 'd["chosen"]["recompute"] == "selective"'
check "the same plan" cmp saved.plan again.plan
expect 2 "--recompute full contradicts the plan, which has selective" "$apc" plan $gpt --target cpux2 --plan saved.plan --recompute full
(cat saved.plan; echo 'op "layers.1.ln2.norm" {}') >edited.plan
expect 0 "" "$apc" plan $gpt -q --target cpux2 --plan edited.plan --json
expect_json 'd["chosen"]["recompute"] == "by operation"'
(cat saved.plan; echo 'op "loss.grad.*" {} again') >bwd.plan
expect 1 "is only for operations of the forward pass" "$apc" plan $gpt --target cpux2 --plan bwd.plan
(cat saved.plan; echo 'op "layers.1.ln2.norm" {} twice') >word.plan
expect 1 "expected 'again'" "$apc" plan $gpt --target cpux2 --plan word.plan

# If memory is short apc chooses recomputation by itself, and only as much as is needed.
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $gpt -q --target cpu --json
expect_json 'd["chosen"]["recompute"] == "none"'
total=$(/usr/bin/python3 -c 'import json; print(int(json.load(open("out"))["bytes_per_device"] * 0.9))')
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $gpt -q --target cpu --memory "$total" --json
expect_json 'd["chosen"]["recompute"] == "1" and d["chosen"]["micro_batches"] == 1'
with_one=$(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["time_us"])')
for policy in 2 selective full:1 full; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan $gpt -q --target cpu --memory "$total" --json --recompute "$policy"
  expect_json "d['time_us'] > $with_one"
done

# Each policy recomputes at least as much as the one before: it takes more time and less memory; but the last layer is
# recomputed at once, so that none of it is kept long.
# shellcheck disable=SC2086
for policy in none 1 2 3 4 selective full:1 full:2 full:3 full:4 full; do
  expect 0 "" "$apc" plan $gpt -q --target cpu --batch 64 --recompute $policy --save-plan $policy.plan --json
  mv out $policy.json
done
check "each next policy" /usr/bin/python3 - <<'P'
import json
plans = [json.load(open(f"{p}.json")) for p in "none 1 2 3 selective full:1 full:2 full:3 full".split()]
for a, b in zip(plans, plans[1:]):
    last = b["chosen"]["recompute"] == "full"
    less = a["bytes_per_device"] > b["bytes_per_device"] and a["counted_bytes"] > b["counted_bytes"]
    assert a["time_us"] < b["time_us"] and (less or last), (a["chosen"], b["chosen"])
P
check "all layers are selective" cmp 4.plan selective.plan
check "all whole layers are full" cmp full:4.plan full.plan
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $gpt -q --target cpu --batch 64 --recompute 4 --plan selective.plan
# shellcheck disable=SC2086
expect 2 "--recompute full:3 contradicts the plan, which has full" "$apc" plan $gpt -q --target cpu --batch 64 --recompute full:3 --plan full.plan
# shellcheck disable=SC2086
expect 2 "--recompute 9 contradicts the plan, which has selective" "$apc" plan $gpt -q --target cpu --batch 64 --recompute 9 --plan selective.plan
# Programs decide what fits: the memory of a program is enough for it, or for a faster one, whatever the search counts.
for policy in selective full:2 full; do
  memory=$(/usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["bytes_per_device"])' $policy.json)
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan $gpt -q --target cpu --batch 64 --micro-batches 1 --memory "$memory" --json
  expect_json "d['bytes_per_device'] <= $memory < d['counted_bytes']"
  expect_json "d['time_us'] <= json.load(open('$policy.json'))['time_us'] * 1.0001"
done
# Plans above the limit that the search meets are compiled to see their memory: one search is enough.
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $gpt -q --target cpu --memory 1MB --json
expect_json 'd["searches"] == 1 and d["bytes_per_device"] <= 1e6 < d["counted_bytes"] and d["time_us"] < 12000'
expect_json 'd["lower_bound_us"] <= d["time_us"] and all(x["time_us"] is None or x["bytes_per_device"] <= 1e6 for x in d["alternatives"])'
# shellcheck disable=SC2086
expect 3 "needs" "$apc" plan $gpt -q --target cpu --memory "$total" --micro-batches 1 --recompute none

# Requests that are impossible.
expect 3 "cannot recompute 5 layers: 4 layers of the model repeat" "$apc" plan $gpt --target cpu --recompute 5
expect 3 "cannot recompute 5 layers: 4 layers of the model repeat" "$apc" plan $gpt --target cpu --recompute full:5
expect 3 "no layer of the model repeats" "$apc" plan $mlp -D layers=1 --target cpu --recompute full
expect 2 "--recompute full needs --train" "$apc" plan "$source_dir/examples/mlp.apc" --recompute full
summary 125 50
