#!/bin/bash
# Optimizers, schedules, averages of weights, types of moments, scales of the loss, and the noise of gradients.
# Formulas are checked by `apc verify`, which has them a second time, and against numpy; plans against one rank.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
cp "$source_dir/tests/cli/optimizers.apc" net.apc
export PYTHONPATH=$source_dir/tests PYTHONDONTWRITEBYTECODE=1 # stored.py
/usr/bin/python3 -c '
import numpy as np
r = np.random.default_rng(0)
np.save("x.npy", r.standard_normal((64, 12)).astype("f4")), np.save("labels.npy", r.integers(0, 5, 64))
np.save("row.npy", np.zeros((64, 8), "f4")), np.save("around.npy", (1 + r.standard_normal((64, 8))).astype("f4"))'
data="--data x=@x.npy --data labels=@labels.npy --shuffle none"
train="-q --train cross_entropy --batch 16"

loss_of() { /usr/bin/python3 -c 'import json; [print(json.loads(l)["loss"]) for l in open("out")]'; } # of any settings

# Every formula, and every plan against one rank.
cases=0
while read -r optimizer; do
  cut=$((cases++ % 5))
  in_quarter $cases || continue
  plans=("cpux2 --dp 2 --zero 1" "cpux2 --tp 2" "cpux4 --dp 2 --tp 2 --zero 3" "cpux2 --pp 2 --micro-batches 2" "cpux2 --dp 2 --zero 2 --micro-batches 2")
  # shellcheck disable=SC2086
  {
  expect 0 "ok" "$apc" verify net.apc $train --optimizer "$optimizer" --target ${plans[cut]}
  expect 0 "" "$apc" compile net.apc $train --optimizer "$optimizer" -o one
  expect 0 "" ./one --steps 6 $data --json
  loss_of >want.txt
  expect 0 "" "$apc" compile net.apc $train --optimizer "$optimizer" --target ${plans[(cut + 1) % 5]} -o many
  expect 0 "" ./many --steps 6 $data --json
  loss_of >got.txt
  }
  check "$optimizer, ${plans[(cut + 1) % 5]}" near got.txt want.txt 1e-5
done <<'L'
muon(lr=0.02,ema=0.9)
muon(lr=0.02,adjust=match_rms_adamw,nesterov=no,adamw=c|ab*,weight_decay=0,noise=yes)
adafactor(lr=0.05,weight_decay=0.1,clip=0.5)
adafactor(lr=0.05,moments=bf16,ema=0.99)
adamw(lr=3e-3,moments=bf16,no_decay=*b|c)
adamw(lr=3e-3,schedule=wsd,steps=8,warmup=2,cooldown=3)
adamw(lr=3e-3,schedule=one_cycle,steps=10)
lion(lr=1e-3,ema=0.5,noise=yes)
L
expect 0 "ok" "$apc" verify net.apc -q --train 'cross_entropy(z_loss=0.1,label_smoothing=0.1)' --batch 16 --target cpux2 --tp 2

# Learning rates, as PyTorch's OneCycleLR has them, and of wsd.
rates() { # rates OPTIMIZER STEPS
  # shellcheck disable=SC2086
  {
  expect 0 "" "$apc" compile net.apc $train --optimizer "$1" -o trainer
  expect 0 "" ./trainer --steps "$2" $data --json
  }
}
rates "adamw(lr=0.1,schedule=one_cycle,steps=10)" 12
cat >rates.py <<'P'
import math, sys, json
got = [json.loads(l)["lr"] for l in open("out") if l[0] == "{"]
def cycle(s):
    top, first = 2, .1 / 25
    last, wave = first / 1e4, lambda a, b, x: b + (a - b) / 2 * (1 + math.cos(math.pi * x))
    return wave(first, .1, s / top) if s <= top else wave(.1, last, min(1, (s - top) / (9 - top)))
want = {"cycle": cycle, "wsd": lambda s: .1 * min(1, (s + 1) / 3) * (1 - min(1, max(0, s - 6) / 4))}[sys.argv[1]]
assert len(got) == 12 and all(abs(g - want(s)) < 1e-7 for s, g in enumerate(got)), (got, [want(s) for s in range(12)])
P
check "one_cycle" /usr/bin/python3 rates.py cycle
rates "adamw(lr=0.1,schedule=wsd,steps=10,warmup=3,cooldown=4)" 12
check "wsd" /usr/bin/python3 rates.py wsd

# Averages: the weights after the first step, then a share of each; also after a checkpoint.
# shellcheck disable=SC2086
{
expect 0 "" "$apc" compile net.apc $train --optimizer 'adamw(lr=0.01,ema=0.75)' --target cpux2 --dp 2 --zero 1 -o trainer
for steps in 1 2 3; do expect 0 "" ./trainer --steps $steps $data --save w$steps.safetensors --save-ema e$steps.safetensors --checkpoint at$steps; done
expect 0 "" ./trainer --steps 3 $data --resume at2 --save-ema again.safetensors
}
check "resumed averages" cmp e3.safetensors again.safetensors
cat >average.py <<'P'
import stored
w, e = ([stored.read(f"{k}{s}.safetensors") for s in (1, 2, 3)] for k in "we")
want = {k: .75 * (.75 * w[0][k].astype("f8") + .25 * w[1][k]) + .25 * w[2][k] for k in w[0]}
assert all((e[0][k] == w[0][k]).all() and abs(e[2][k] - want[k]).max() < 1e-6 for k in want)
assert any(abs(e[2][k] - w[2][k]).max() > 1e-3 for k in want)
P
check "averages are those of the weights" /usr/bin/python3 average.py
# shellcheck disable=SC2086
{
expect 0 "" "$apc" compile net.apc $train -o trainer
expect 2 "the program keeps no averages" ./trainer --steps 1 $data --save-ema e.safetensors
}

# Moments in bf16: rounded to the nearest, small changes are lost; at random, their mean stays.
cat >flat.apc <<'M'
dim batch
entry main(x: f32[batch, 256]) {
  weight w : f32[256] = constant(1)
  output y = x + w
}
M
/usr/bin/python3 -c 'import numpy as np; np.save("flat.npy", np.zeros((4, 256), "f4"))'
for kind in f32 bf16 bf16_random; do
  expect 0 "" "$apc" compile flat.apc -q --train mse --batch 4 --optimizer "adamw(lr=0,beta2=0.9999,moments=$kind)" -o trainer
  expect 0 "" ./trainer --steps 1500 --data x=@flat.npy --data labels=@flat.npy --shuffle none --checkpoint $kind
done
cat >moments.py <<'P'
import stored
v = {k: stored.read(k + "/checkpoint.safetensors")["w:v"] for k in ("f32", "bf16", "bf16_random")}
v = {k: (x.astype("u4") << 16).view("f4") if x.dtype == "u2" else x for k, x in v.items()}
exact, nearest, random = (v[k].mean() for k in ("f32", "bf16", "bf16_random"))
assert nearest < .5 * exact and abs(random / exact - 1) < .02, (exact, nearest, random)
P
check "random rounding keeps the mean" /usr/bin/python3 moments.py

# f16: too large a scale of the loss is halved in steps that change nothing else, and doubles again.
# shellcheck disable=SC2086
{
expect 0 "" "$apc" compile net.apc $train --optimizer 'adamw(lr=0.01,loss_scale=4e6,scale_steps=5)' --dtype f16 --target cpux2 --dp 2 -o trainer
expect 0 "is skipped: its gradients overflow with a loss scale of 4e+06; now 2e+06" ./trainer --steps 20 $data --json --checkpoint at --every 9
mv out all.txt
check "skipped steps" /usr/bin/python3 -c '
import json
made = [json.loads(l)["step"] for l in open("all.txt")]
assert made[0] > 1 and 12 < len(made) < 19 and max(b - a for a, b in zip(made, made[1:])) > 1, made'
expect 0 "" ./trainer --steps 9 $data --json --checkpoint half
expect 0 "" ./trainer --steps 20 $data --json --resume half
check "resumed with its scale" /usr/bin/python3 -c '
import json
a, b = ([json.loads(l)["loss"] for l in open(f) if json.loads(l)["step"] > 9] for f in ("all.txt", "out"))
assert a == b, (a, b)'
expect 0 "" "$apc" compile net.apc $train --optimizer 'adamw(lr=0.01)' --dtype f16 -o half16
expect 0 "" "$apc" compile net.apc $train --optimizer 'adamw(lr=0.01)' -o single
for p in half16 single; do ./$p --steps 12 $data --json 2>/dev/null >$p.out; losses $p.out >$p.txt; done
check "f16 is near f32" near half16.txt single.txt 2e-3
expect 0 "the first 4 steps in f16 against f32: losses" "$apc" verify net.apc $train --dtype f16 --target cpux2 --pp 2 --micro-batches 2
expect 0 "" "$apc" verify net.apc $train --dtype bf16 --target cpux2 --dp 2 --json
expect_json "d['first_steps']['steps'] == 4 and 1e-6 < d['first_steps']['loss_relative'] < 1e-2 and 0 < d['first_steps']['weights_rel_l2'] < 1e-2"
expect 0 "" "$apc" verify net.apc $train --target cpux2 --dp 2 --json
expect_json "d['first_steps'] is None"
}

# The noise of gradients: rows with variance 1 around 1, and a weight of 0.5, have the noise scale 1 / 0.25.
sed 's/constant(1)/constant(0.5)/; s/256/8/g' flat.apc >noisy.apc
expect 0 "" "$apc" compile noisy.apc -q --train mse --batch 8 --optimizer "adamw(lr=0,weight_decay=0,beta1=0.98,noise=yes)" -o trainer
expect 0 "" ./trainer --steps 600 --data x=@row.npy --data labels=@around.npy --log noise.csv --json
check "noise scale" /usr/bin/python3 -c '
import csv, numpy as np
data = np.load("around.npy").astype("f8")
want = data.var(0).sum() / ((data.mean(0) - .5) ** 2).sum()
got = [float(r["noise_scale"]) for r in csv.DictReader(open("noise.csv")) if r["noise_scale"]]
assert len(got) > 500 and abs(np.median(got[200:]) / want - 1) < .35, (np.median(got[200:]), want)'

# Refused settings.
refuse() { expect 2 "$2" "$apc" plan net.apc -q --train cross_entropy --batch 16 --optimizer "$1"; }
refuse "adamw(schedule=wsd)" "needs steps=N, more than warmup"
refuse "adamw(schedule=wsd,steps=10,warmup=5,cooldown=6)" "needs warmup and cooldown in steps"
refuse "adamw(schedule=one_cycle,steps=10,min_lr=1e-6)" "needs final_div in place of min_lr"
refuse "muon(ns_steps=2.5)" "ns_steps must be a whole number"
refuse "muon(lr=0)" "lr must be above 0"
refuse "sgd(noise=yes)" "needs the mean gradient of adamw, lion or muon"
refuse "adamw(moments=f16)" "moments must be one of: f32 bf16 bf16_random"
refuse "adamw(d=2)" "this optimizer has no setting 'd'"

# Globs that fit nothing, or are too long to be matched.
refuse "adamw(no_decay=*b|x*)" "--optimizer: no_decay x*: the model has no such weight"
refuse "adamw(decay=d)" "--optimizer: decay d: the model has no such weight"
refuse "muon(adamw=c|head)" "--optimizer: adamw head: the model has no such weight"
refuse "adamw(no_decay=$(printf '%0512d' 0))" "--optimizer: a glob of no_decay has more than 511 characters"
summary 100 60
