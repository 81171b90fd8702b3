#!/bin/bash
# --train: a training step, its results for every kind of cut, and refusals.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
train_rows

# The same by NumPy in double: cross-entropy, AdamW.
reference() { /usr/bin/python3 - "$@" <<'P'
import sys, json, struct, numpy as np
steps, labels, start = int(sys.argv[1]), np.load(sys.argv[2]), sys.argv[3]
ignored, smooth = (int(sys.argv[4]), float(sys.argv[5])) if len(sys.argv) > 4 else (-100, 0)
raw = open(start, "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8:8 + n])
w = {k: np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], "f4").reshape(v["shape"])
     .astype("f8") for k, v in head.items() if k != "__metadata__"}
x = np.load("x.npy").astype("f8")
m, v = {k: 0 * a for k, a in w.items()}, {k: 0 * a for k, a in w.items()}
names = [f"layers.{i}.{p}" for i in range(2) for p in ("up", "down")]
for s in range(steps):
    rows = [(8 * s + i) % 40 for i in range(8)]
    a, saved = x[rows], []
    for i, k in enumerate(names):
        z = a @ w[k + ".w"] + w[k + ".b"]
        saved.append((a, z))
        a = np.maximum(z, 0) if i < 3 else z
    l = labels[rows]
    kept = l != ignored
    p = np.exp(a - a.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    at = np.where(kept, l, 0)
    target = np.full(p.shape, smooth / p.shape[1])
    target[np.arange(8), at] += 1 - smooth
    print(-(target * np.log(p)).sum(1)[kept].mean())
    d, g = (p - target) * kept[:, None] / kept.sum(), {}
    for i in reversed(range(4)):
        a, z = saved[i]
        if i < 3: d = d * (z > 0)
        g[names[i] + ".w"], g[names[i] + ".b"] = a.T @ d, d.sum(0)
        d = d @ w[names[i] + ".w"].T
    for k in w:
        m[k] = .9 * m[k] + .1 * g[k]
        v[k] = .999 * v[k] + .001 * g[k]**2
        w[k] = w[k] - 1e-3 * (m[k] / (1 - .9**(s + 1)) / (np.sqrt(v[k] / (1 - .999**(s + 1))) + 1e-8) + .01 * w[k])
P
}

# A run equals that of NumPy, on one rank and on several, for every kind of cut.
# shellcheck disable=SC2086
expect 0 "" "$apc" convert $mlp start.safetensors
cuts=0
for labels in class ignored; do
  cuts=$((cuts + 1))
  reference 12 $labels.npy start.safetensors >want.txt
  for cut in "--target cpu" "--target cpux4 --dp 4" "--target cpux2 --tp 2" "--target cpux4 --dp 2 --tp 2" \
    "--target cpu --micro-batches 3" "--target cpux4 --dp 2 --tp 2 --micro-batches 2" \
    "--target cpux3 --pp 3 --micro-batches 4" "--target cpux4 --pp 2 --dp 2 --micro-batches 2"; do
    in_quarter $((cuts++)) || continue
    # shellcheck disable=SC2086
    expect 0 "" "$apc" compile $mlp -q --train cross_entropy --optimizer 'adamw(lr=1e-3)' --batch 8 $cut -o trainer
    expect 0 "" ./trainer --steps 12 --data x=@x.npy --data labels=@$labels.npy --shuffle none --json
    losses out >got.txt
    check "$labels $cut" near got.txt want.txt 1e-5
  done
done

# Another ignored label, and smoothed labels; also with classes that are cut.
reference 6 class.npy start.safetensors 3 .25 >want.txt
for cut in "cpu" "cpux4 --dp 2 --tp 2"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" compile $mlp -q --train 'cross_entropy(ignore=3,label_smoothing=.25)' --optimizer 'adamw(lr=1e-3)' --batch 8 \
    --target $cut -o trainer
  expect 0 "" ./trainer --steps 6 --data x=@x.npy --data labels=@class.npy --shuffle none --json
  losses out >got.txt
  check "smoothed labels, $cut" near got.txt want.txt 1e-5
done
# shellcheck disable=SC2086
expect 0 "proved   the parallel program" "$apc" verify $mlp -q --train 'cross_entropy(label_smoothing=.1)' --batch 8 --target cpux2 --tp 2
for wrong in "cross_entropy(ignor=1): unknown setting 'ignor'" "mse(ignore=1): this loss has no setting 'ignore'" \
  "cross_entropy(label_smoothing=2): label_smoothing must be a number, 0 to 1" "cross_entropy(ignore=.5): ignore must be a whole number" \
  "cross_entropy(ignore=1: expected ')' after"; do
  # shellcheck disable=SC2086
  expect 2 "$wrong" "$apc" plan $mlp -q --batch 8 --train "${wrong%%: *}"
done

# Several steps of every optimizer are proved, and equal one rank and the interpreter in all states.
for how in "mse sgd(lr=.1,momentum=.9,weight_decay=.01)" "cross_entropy adamw(clip=.5,schedule=cosine,warmup=1,steps=9)" \
           "bce lion(schedule=linear,steps=5,min_lr=1e-5)"; do
  read -r loss optimizer <<<"$how"
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify $mlp -q --train "$loss" --optimizer "$optimizer" --batch 8 --target cpux4 --dp 2 --tp 2
  check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
  expect_out "state layers.0.up.w "
  expect_out "equal    gradients and differences of the loss along 8 random directions"
  expect_out "equal    update and the optimizer's formula"
  expect_out "eval/loss "
done

# A loss of the model's own is a sum over micro-batches, or cannot be cut.
for own in "mean(y * y)" "sqrt(mean(y * y))"; do
  printf 'import nn\ndim batch\nentry main(x: f32[batch, 12]) {\n  y = linear(x, 3, std=0.3) as "up"\n  output own = %s\n}\n' \
    "$own" >own.apc
  [ "$own" = "mean(y * y)" ] || break
  for cut in "--micro-batches 2" "--dp 2 --micro-batches 2" "--tp 2 --micro-batches 3"; do
    # shellcheck disable=SC2086
    expect 0 "" "$apc" verify own.apc -q --train own --batch 8 --target cpux2 $cut
    check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
  done
done
expect 3 'sqrt "own" cannot be cut into 2 micro-batches' "$apc" plan own.apc -q --train own --batch 8 --micro-batches 2

# Weights that mask elements are weights of every micro-batch; rows that are compared with each other are not cut.
cat >hidden.apc <<'M'
import nn
dim batch
entry main(x: f32[batch, 12]) {
  weight w : f32[3] = normal(1)
  weight v : f32[3] = normal(1)
  y = linear(x, 3, std=0.3) as "up"
  y = y + where(iota(f32[3], 0) > 0.5, w, -1) + where(iota(f32[3], 0) > 0.5, 2, v)
  output own = mean(y * y)
}
M
expect 0 "" "$apc" verify hidden.apc -q --train own --batch 8 --target cpux2 --pp 2 --micro-batches 4
check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out

# A bias of attention that is trained stays outside of it; one that is not trained does not.
cat >biased.apc <<'M'
import nn
dim batch
entry main(x: f32[batch, 6, 8]) {
  weight table : f32[2, 6, 6] = normal(0.5)
  q = split_heads(x, 2, 4) as "q"
  k = split_heads(x, 2, 4) as "k"
  v = split_heads(x, 2, 4) as "v"
  share = softmax(einsum("bhsk,bhtk->bhst", q, k) + table)
  output y = merge_heads(einsum("bhst,bhtk->bhsk", share, v), 3) as "out"
}
M
expect 0 "" "$apc" verify biased.apc -q --train mse --batch 8 --target cpux2 --tp 2
expect 0 "" "$apc" plan biased.apc -q --train mse --batch 8 --target cpux2 --emit=ir:recognise=-
check "attention hides a trained bias" test "$(grep -c "= attention " out)" = 0
expect 0 "" "$apc" plan biased.apc -q --train mse --freeze table --batch 8 --target cpux2 --emit=ir:recognise=-
check "attention has no bias" grep -q "= attention .*%table" out
expect 0 "" "$apc" plan biased.apc -q --train mse --batch 8 --target cpux2 --emit=ir:train=-
check "the text is not that of the step" grep -q "= read {name=\"table\"}" out
cat >pairs.apc <<'M'
import nn
dim batch
fn unit(x) { return x / sqrt(sum(x * x, [1], keep=1)) }
entry main(x: f32[batch, 12]) {
  output y = einsum("bd,cd->bc", unit(linear(x, 3, std=0.3) as "a"), unit(linear(x, 3, std=0.3) as "b"))
}
M
expect 3 'would have to be joined: dot "y.2" needs all of div "y.1" at once' "$apc" plan pairs.apc -q \
  --train cross_entropy --dim batch=8 --micro-batches 2
expect_err "has other values in micro-batches"

# For every number of stages and every schedule a run has the same bits; the plan names the schedule.
# shellcheck disable=SC2086
for how in "cpu" "cpux3 --pp 3 --schedule gpipe" "cpux3 --pp 3" "cpux2 --pp 2 --schedule 1f1b" "cpux2 --pp 2 --schedule interleaved:2" \
  "cpux2 --pp 2 --schedule zbv" "cpux3 --pp 3 --schedule zbh1"; do
  expect 0 "" "$apc" compile $mlp -q --train cross_entropy --optimizer 'adamw(lr=1e-3,clip=1.0)' --batch 8 --micro-batches 4 \
    --target $how -o trainer --save-plan turns.plan
  expect 0 "" ./trainer --steps 4 --data x=@x.npy --data labels=@ignored.npy --save weights.safetensors
  [ -e alone.safetensors ] || cp weights.safetensors alone.safetensors
  check "$how: the bits of one rank" cmp -s weights.safetensors alone.safetensors
done
check "the plan says zbh1" grep -qx "schedule zbh1" turns.plan
# shellcheck disable=SC2086
expect 0 "" "$apc" verify $mlp -q --train cross_entropy --optimizer 'adamw(lr=1e-3,clip=1.0)' --batch 8 --target cpux3 --plan turns.plan
check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
# shellcheck disable=SC2086
expect 2 "--schedule zbv contradicts the plan, which has zbh1" "$apc" plan $mlp -q --train cross_entropy \
  --optimizer 'adamw(lr=1e-3,clip=1.0)' --batch 8 --target cpux3 --plan turns.plan --schedule zbv
sed 's/schedule zbh1/schedule backwards/' turns.plan >bad.plan
# shellcheck disable=SC2086
expect 1 "there is no schedule 'backwards'" "$apc" plan $mlp -q --train cross_entropy --optimizer 'adamw(lr=1e-3,clip=1.0)' \
  --batch 8 --target cpux3 --plan bad.plan
sed 's/schedule zbh1/schedule interleaved:2/' turns.plan >bad.plan
# shellcheck disable=SC2086
expect 1 "schedule interleaved:2 needs a multiple of 2 stages and several micro-batches; the mesh has 3 stages and 4 micro-batches" "$apc" plan $mlp -q \
  --train cross_entropy --optimizer 'adamw(lr=1e-3,clip=1.0)' --batch 8 --target cpux3 --plan bad.plan
sed 's/^stage 2 .*/stage 2 "layers.1.up.dot.grad.dot"/' turns.plan >bad.plan
# shellcheck disable=SC2086
expect 1 'is not an operation of the forward pass' "$apc" plan $mlp -q --train cross_entropy --optimizer 'adamw(lr=1e-3,clip=1.0)' \
  --batch 8 --target cpux3 --plan bad.plan
# shellcheck disable=SC2086
expect 2 "--schedule 1f1b needs --train" "$apc" plan $mlp -q --schedule 1f1b
# shellcheck disable=SC2086
expect 2 "a pipeline rank has 2 to 64 stages" "$apc" plan $mlp -q --train mse --batch 8 --schedule interleaved:1

# The schedule is chosen if none is given, and reported with a bound; forced schedules are no faster.
wide="$source_dir/examples/mlp.apc -D layers=6 -D d=256"
took() { # took options...: sets $seconds and $by
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan $wide -q --train mse --batch 64 --target cpux2 --pp 2 --micro-batches 4 --json "$@"
  expect_json '0 < d["lower_bound_without_gaps_us"] <= d["lower_bound_us"] <= d["time_us"]'
  read -r seconds by < <(python3 -c 'import json; d = json.load(open("out")); print(d["time_us"], d["chosen"]["schedule"])')
}
took
free=$seconds
for schedule in gpipe 1f1b zbh1 zbv interleaved:2; do
  took --schedule $schedule
  check "$schedule is what it was given" test "$by" = $schedule
  check "$schedule takes $seconds us, and without it $free us" awk -v x="$seconds" -v y="$free" 'BEGIN { exit !(x >= y * (1 - 1e-9)) }'
done
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $wide -q --train mse --batch 64 --target cpux4 --json
expect_json 'd["alternatives"] and all(x["schedule"] and x["recompute"] for x in d["alternatives"])'

# A weight that is not trained, and that the first and the last stage read: stored once on a place that has both.
train_tokens
rm weights.safetensors
# shellcheck disable=SC2086
for how in "1f1b 2" "zbv 1"; do
  expect 0 "" "$apc" compile $gpt -q --train cross_entropy --optimizer 'adamw(freeze=wte)' --batch 8 --micro-batches 4 --target cpux2 --pp 2 \
    --schedule ${how% *} -o trainer --emit=exe,schedule=frozen.schedule
  check "$how: copies of the table" [ "$(grep -c '^param "wte"' frozen.schedule)" -eq ${how#* } ]
  expect 0 "" ./trainer --steps 3 --data tokens=@t16.bin --save weights.safetensors
  [ -e frozen.safetensors ] || cp weights.safetensors frozen.safetensors
  # Stages that end between a product and its bias round once more.
  check "$how: the same weights" /usr/bin/python3 -c '
import json, struct, sys
import numpy as np
def read(path):
    data = open(path, "rb").read()
    n = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:n])
    return {k: np.frombuffer(data[n + v["data_offsets"][0]:n + v["data_offsets"][1]], "<f4")
            for k, v in header.items() if k != "__metadata__"}
a, b = read(sys.argv[1]), read(sys.argv[2])
sys.exit(not (a.keys() == b.keys() and all(np.abs(a[k] - b[k]).max() < 1e-6 for k in a)))' \
    weights.safetensors frozen.safetensors
done

# The legalised form shows accumulation as well.
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $mlp -q --train mse --batch 8 --micro-batches 2 --emit=legal=legal.ir
check "accumulated" grep -q "loss.accumulate = accumulate %loss" legal.ir

# Refused requests.
# shellcheck disable=SC2086
{
expect 2 "unknown optimizer 'adam'" "$apc" plan $mlp --train mse --optimizer 'adam(lr=1)'
expect 2 "this optimizer has no setting 'momentum'" "$apc" plan $mlp --train mse --optimizer 'adamw(momentum=.9)'
expect 2 "the nearest is 'beta1'" "$apc" plan $mlp --train mse --optimizer 'adamw(betal1=.9)'
expect 2 "lr must be a number, at least 0" "$apc" plan $mlp --train mse --optimizer 'adamw(lr=-1)'
expect 2 "needs steps=N" "$apc" plan $mlp --train mse --optimizer 'adamw(schedule=linear)'
expect 2 "expected ')' after" "$apc" plan $mlp --train mse --optimizer 'adamw(lr=1'
expect 2 "expected KEY=VALUE, got 'lr'" "$apc" plan $mlp --train mse --optimizer 'adamw(lr)'
expect 0 "" "$apc" plan $mlp --train mse --optimizer 'adamw(lr=1e-3, beta1=0.8)' -q
expect 2 "is not a loss (cross_entropy, mse, bce) and not an output" "$apc" plan $mlp --train perplexity
expect 2 "output 'y' is f32" "$apc" plan $mlp --train y
expect 2 "--optimizer needs --train" "$apc" plan $mlp --optimizer sgd
expect 2 "--batch needs --train" "$apc" plan $mlp --batch 8
expect 5 "no weight that is trained" "$apc" plan $mlp --train mse --optimizer 'sgd(freeze=*)'
expect 2 "--optimizer: train nothing*: the model has no such weight" "$apc" plan $mlp --train mse --optimizer 'sgd(train=nothing*)'
expect 2 "--optimizer: freeze nothing*: the model has no such weight" "$apc" plan $mlp --train mse --optimizer 'sgd(freeze=nothing*)'
expect 2 "cooldown has no effect with schedule=constant, only with: wsd" "$apc" plan $mlp --train mse --optimizer 'sgd(cooldown=3)'
expect 2 "steps has no effect with schedule=constant" "$apc" plan $mlp --train mse --optimizer 'sgd(steps=30)'
expect 2 "this optimizer has no setting 'nesterov'" "$apc" plan $mlp --train mse --optimizer 'adamw(nesterov=no)'
expect 0 "" "$apc" compile $mlp --train mse --dtype f16 --batch 4 -q -o x
expect 0 "" "$apc" plan $mlp --train mse --dtype f16 --target dgx-1-v100-32gbx2 -q --json
expect_json 'd["breakdown_us"]["optimizer"] > 0'
expect 5 "the number of its rounds is not known" "$apc" plan "$source_dir/examples/lstm.apc" --train cross_entropy
}
summary 150 124
