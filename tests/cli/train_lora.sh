#!/bin/bash
# --lora: low-rank adapters of weights, trained alone, in a file of their own, and added to their weights.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
cat >net.apc <<'M'
dim batch
entry main(x: f32[batch, 6, 12]) {
  weight wq : f32[2, 12, 10] = normal(0.3)
  weight wo : f32[10, 2, 16] = normal(0.3)
  weight b : f32[16] = normal(0.1)
  weight c : f32[16, 5] = normal(0.3)
  h = tanh(einsum("bsi,hio->bsho", x, wq))
  h = tanh(einsum("bsho,ohd->bsd", h, wo) + b)
  output y = matmul(h, c)
}
M
export PYTHONPATH=$source_dir/tests PYTHONDONTWRITEBYTECODE=1 # stored.py
/usr/bin/python3 -c '
import numpy as np
r = np.random.default_rng(0)
np.save("x.npy", r.standard_normal((32, 6, 12)).astype("f4")), np.save("labels.npy", r.integers(0, 5, (32, 6)))'
data="--data x=@x.npy --data labels=@labels.npy --shuffle none"
train="-q --train cross_entropy --batch 8 --optimizer adamw(lr=0.02)"
lora="--lora w*:rank=3,alpha=6 --lora c:rank=2"
set -f

# Only the adapters have moments and gradients; every plan makes the steps of one rank; a fresh adapter adds nothing.
# shellcheck disable=SC2086
{
expect 0 "only the adapters of --lora are" "$apc" plan net.apc ${train/-q /} $lora --json
expect_json "0 <= d['memory_bytes']['optimizer'] - 8 * (3 * (12 + 20) + 3 * (20 + 16) + 2 * (16 + 5)) < 300" # rounded up
expect 0 "" "$apc" compile net.apc $train -o base
expect 0 "" ./base --steps 1 $data --json
mv out base.txt
expect 0 "" "$apc" compile net.apc $train $lora -o one
expect 0 "" ./one --steps 9 $data --json --save merged.safetensors --save-lora adapter.safetensors --checkpoint at
losses out >want.txt
check "a fresh adapter adds nothing" /usr/bin/python3 -c '
import json
assert json.loads(open("base.txt").readline())["loss"] == float(open("want.txt").readline())'
cuts=0
for cut in "cpux2 --dp 2 --zero 1" "cpux2 --tp 2" "cpux2 --pp 2 --micro-batches 2" "cpux4 --dp 2 --tp 2 --zero 3"; do
  in_quarter $((cuts++)) || continue
  expect 0 "" "$apc" compile net.apc $train $lora --target $cut -o many
  expect 0 "" ./many --steps 9 $data --json
  losses out >got.txt
  check "$cut" near got.txt want.txt 1e-5
done
expect 0 "ok" "$apc" verify net.apc $train $lora --target cpux2 --dp 2
expect 0 "ok" "$apc" verify net.apc $train $lora --target cpux2 --tp 2 --dtype bf16
expect 0 "" ./one --steps 5 $data --checkpoint half
expect 0 "" ./one --steps 9 $data --resume half --save-lora again.safetensors
}
check "resumed" cmp adapter.safetensors again.safetensors

# The file of adapters; weights with adapters added; both compute the same.
check "files" /usr/bin/python3 -c '
import stored, numpy as np
a, m = stored.read("adapter.safetensors"), stored.read("merged.safetensors")
assert sorted(m) == ["b", "c", "wo", "wq"], sorted(m)
assert {k: v.shape for k, v in a.items() if "wq" in k or "wo" in k} == {"wq.lora_A": (3, 12), "wq.lora_B": (2, 10, 3),
    "wq.lora_scale": (), "wo.lora_A": (3, 10, 2), "wo.lora_B": (16, 3), "wo.lora_scale": ()}, a.keys()
assert a["wq.lora_scale"] == 2 and a["c.lora_scale"] == 1 and all(abs(v).max() > 0 for v in a.values())
peft = {"base_model.model." + k: v for k, v in a.items() if "scale" not in k and k[0] == "w"}
stored.write("peft.safetensors", peft), stored.write("bad.safetensors", {k: v[:, :2] if k == "c.lora_A" else v for k, v in a.items()})'
ask="--dim batch=32 --input x=@x.npy -q"
# shellcheck disable=SC2086
{
expect 0 "" "$apc" run net.apc $ask --output y=@base.npy
expect 0 "" "$apc" run net.apc $ask --weights merged.safetensors --output y=@merged.npy
expect 0 "" "$apc" run net.apc $ask --lora adapter.safetensors --target cpux2 --output y=@adapted.npy
expect 0 "ok" "$apc" verify net.apc -q --dim batch=32 --lora adapter.safetensors --target cpux2 --tp 2
expect 0 "" "$apc" run net.apc $ask --lora peft.safetensors:alpha=6 --output y=@peft.npy
}
check "loaded and added" /usr/bin/python3 -c '
import numpy as np
base, merged, adapted, peft = (np.load(n + ".npy") for n in ("base", "merged", "adapted", "peft"))
assert abs(merged - adapted).max() < 1e-5 and abs(base - adapted).max() > .1 and abs(peft - adapted).max() > 1e-3'

# Training goes on from the file, and --trainable trains a weight beside the adapters.
# shellcheck disable=SC2086
{
expect 0 "" "$apc" compile net.apc $train --lora adapter.safetensors -o more
expect 0 "trains 7 of 10 weights" "$apc" plan net.apc ${train/-q /} $lora --trainable b
expect 0 "" ./more --steps 1 $data --json --save-lora more.safetensors
}
check "it begins with the trained loss" /usr/bin/python3 -c '
import json, stored
first, fresh = json.loads(open("out").readline())["loss"], float(open("want.txt").readline())
assert first < fresh - .05 and stored.read("more.safetensors").keys() == stored.read("adapter.safetensors").keys()'
# shellcheck disable=SC2086
{
expect 2 "no product has a weight of that name" "$apc" plan net.apc $train --lora 'x*:rank=2'
expect_err 'weights of products: "wq", "wo", "c"'
expect 2 "no product has a weight of that name" "$apc" plan net.apc $train --lora 'b:rank=2'
expect 2 "expected GLOB:rank=N,alpha=X or FILE.safetensors" "$apc" plan net.apc $train --lora 'wq'
expect 2 "the rank must be a whole number" "$apc" plan net.apc $train --lora 'wq:rank=2.5'
expect 2 "expected rank=N or alpha=X" "$apc" plan net.apc $train --lora 'wq:rank=2,beta=1'
expect 2 "tensor 'b' is no lora_A, lora_B or lora_scale" "$apc" plan net.apc $train --lora merged.safetensors
expect 2 "the file has no lora_scale" "$apc" plan net.apc $train --lora peft.safetensors
expect 1 "the adapter of 'c' does not fit the weight" "$apc" plan net.apc $train --lora bad.safetensors
expect 2 "the program has no adapters" ./base --steps 1 $data --save-lora a.safetensors
}

# `--save-ema` has the averages of adapters added to their weights; the option's alpha wins over the file's scale.
# shellcheck disable=SC2086
{
expect 0 "" "$apc" compile net.apc ${train/lr=0.02/lr=0.02,ema=1e-9} $lora -o averaged
expect 0 "" ./averaged --steps 3 $data --save now.safetensors --save-ema ema.safetensors
expect 0 "" "$apc" compile net.apc ${train/lr=0.02/lr=0.02,ema=0.9} $lora -o averaged
expect 0 "" ./averaged --steps 9 $data --save now9.safetensors --save-ema ema9.safetensors
expect 2 "--save-ema and --save-lora would both write same.st" ./averaged --steps 1 $data --save-ema same.st --save-lora same.st
expect 2 "--save and --save-lora would both write ./same.st" ./one --steps 1 $data --save same.st --save-lora ./same.st
cp x.npy kept.npy; cp labels.npy y.npy
expect 2 "--save-lora would write x.npy, which is read by --data" ./one --steps 1 $data --save-lora x.npy
expect 2 "--save-ema would write x.npy, which is read by --data" ./averaged --steps 1 $data --save-ema x.npy
expect 2 "--save-lora would write y.npy, which is read by --eval" ./one --steps 1 $data --eval x=@x.npy --eval labels=@y.npy --save-lora y.npy
expect 0 "" "$apc" run net.apc $ask --lora adapter.safetensors:alpha=12 --output y=@alpha.npy
expect 5 "APC0644" "$apc" run net.apc $ask --lora adapter.safetensors --weights-dtype int8 --output y=@z.npy
expect_err "--weights-dtype is not built yet for --lora"
}
check "data is as before" cmp x.npy kept.npy
check "averages and alpha" /usr/bin/python3 -c '
import stored, numpy as np
now, ema, now9, ema9 = (stored.read(n + ".safetensors") for n in ("now", "ema", "now9", "ema9"))
assert sorted(ema) == sorted(ema9) == ["b", "c", "wo", "wq"], sorted(ema)
assert all(np.allclose(now[k], ema[k], atol=1e-6) for k in now)
assert (now9["b"] == ema9["b"]).all() and all(0 < abs(now9[k] - ema9[k]).max() < .2 for k in ("c", "wo", "wq"))
alpha, adapted, base = (np.load(n + ".npy") for n in ("alpha", "adapted", "base"))
assert abs(alpha - adapted).max() > 1e-3'

# Weights whose adapter would not be all that changes; an earlier rule that a later one covers is no error.
weight() { printf '%s\n' 'dim batch' "entry main(t: i64[batch], x: f32[batch, 8]) {" '  weight e : f32[8, 8] = normal(0.3)' \
  '  weight c : f32[8, 8] = normal(0.3)' "$@" '}' >use.apc; }
used() { weight "${@:2}"; expect 2 "weight 'e' cannot have an adapter: $1" "$apc" plan use.apc -q --train cross_entropy --batch 8 --lora 'e:rank=2'; }
other="it is also used other than by a product"
used "$other" '  output y = einsum("bi,vi->bv", gather(e, t) + x, e)'
used "$other" '  output y = einsum("bi,oi->bo", x, e) + sum(e * e, axes=[1])'
used "two products sum over other dimensions of it" '  output y = einsum("bo,oi->bi", tanh(einsum("bi,oi->bo", x, e)), e)'
weight '  output y = einsum("bi,oi->bo", tanh(einsum("bi,oi->bo", x, e)), e)'
expect 0 "ok" "$apc" verify use.apc -q --train cross_entropy --batch 8 --lora 'e:rank=2'
expect 0 "" "$apc" plan use.apc -q --train cross_entropy --batch 8 --lora 'e:rank=2' --lora '*:rank=3'
weight '  output y = einsum("bi,oi->bo", tanh(einsum("bi,oi->bo", x, e)), c)'
expect 2 "weight 'c' cannot have an adapter: it is tied to 'e'" "$apc" plan use.apc -q --train cross_entropy --batch 8 --tie e=c --lora 'c:rank=2'

# Files of adapters with tensors that would be left out, or are no adapters.
/usr/bin/python3 -c '
import stored, numpy as np
a = {"c.lora_A": np.ones((2, 16), "f4"), "c.lora_B": np.ones((5, 2), "f4"), "c.lora_scale": np.ones((), "f4")}
def put(name, **more): stored.write(name + ".safetensors", {k: v for k, v in {**a, **{k.replace("__", "."): v for k, v in more.items()}}.items() if v is not None})
put("only_b", b__lora_B=a["c.lora_B"]), put("only_a", c__lora_B=None), put("magnitude", c__lora_magnitude_vector=np.ones(5, "f4"))
put("infinite", c__lora_scale=np.float32(np.inf).reshape(())), put("vector", c__lora_scale=np.ones(1, "f4"))
put("high", c__lora_A=np.ones((4097, 16), "f4"), c__lora_B=np.ones((5, 4097), "f4"))
put("twice", **{"base_model__model__c__lora_A": a["c.lora_A"], "base_model__model__c__lora_B": a["c.lora_B"], "base_model__model__c__lora_scale": a["c.lora_scale"]})
put("table", b__lora_embedding_A=np.ones((2, 5), "f4"))
put("half"); raw = open("half.safetensors", "rb").read(); open("half.safetensors", "wb").write(raw.replace(b"\"F32\", \"shape\": [2, 16]", b"\"F16\", \"shape\": [2, 32]"))'
# shellcheck disable=SC2086
while IFS='|' read -r file message; do
  expect 2 "$message" "$apc" plan net.apc $train --lora $file.safetensors
done <<'L'
only_b|tensor 'b.lora_B' has no 'b.lora_A' beside it
only_a|tensor 'c.lora_A' has no 'c.lora_B' beside it
magnitude|tensor 'c.lora_magnitude_vector' is no lora_A, lora_B or lora_scale
table|tensor 'b.lora_embedding_A' is no lora_A
infinite|tensor 'c.lora_A' has a scale that is not finite in f32
vector|tensor 'c.lora_scale' must be one number
high|tensor 'c.lora_A' must have a rank of 1 to 4096
twice|is a second adapter of a weight
half|tensor 'c.lora_A' is f16; adapters must be f32
L
# shellcheck disable=SC2086
{
expect 2 "the rank must be a whole number, 1 to 4096" "$apc" plan net.apc $train --lora 'c:rank=4097'
expect 2 "the scale, alpha / rank, must be finite in f32" "$apc" plan net.apc $train --lora 'c:rank=1,alpha=1e39'
}
summary 76 67
