#!/bin/bash
# Rows that a huge finite number masks whole have uniform weights, and their gradients, too: attention whose queries see
# no key, and rows of classes of which none is left.  So have rows that mask only the label's class.  Against the
# gradients in doubles of scores and logits that are rounded to f32, on one rank, and with heads, classes, queries and
# keys cut.
. "$(dirname "$0")/lib.sh"
cat >model.apc <<'M'
dim batch, seq
entry main(x: f32[batch, seq, 16], keys: i64[batch, seq, seq], classes: i64[batch, seq, 6]) {
  weight wq : f32[16, 2, 8] = normal(0.5)
  weight wk : f32[16, 2, 8] = normal(0.5)
  weight wv : f32[16, 2, 8] = normal(0.5)
  weight wo : f32[2, 8, 6] = normal(0.5)
  q = einsum("bsd,dhk->bhsk", x, wq)
  k = einsum("bsd,dhk->bhsk", x, wk)
  v = einsum("bsd,dhk->bhsk", x, wv)
  scores = einsum("bhsk,bhtk->bhst", q, k) / sqrt(8.0) + reshape(cast(1 - keys, f32) * -1e9, [batch, 1, seq, seq])
  y = einsum("bhst,bhtk->bhsk", softmax(scores), v)
  output logits = einsum("bhsk,hkv->bsv", y, wo) + cast(1 - classes, f32) * -1e9
}
M
cat >data.py <<'P'
import numpy as np
r = np.random.default_rng(3)
keys, classes = (r.random((4, 24, n)) < 0.6 for n in (24, 6))
keys[:, 5:9] = keys[1] = False # queries; all of a batch
keys[2, :, :12] = False        # the keys of a rank
labels = r.integers(0, 6, (4, 24))
np.put_along_axis(classes, labels[..., None], True, -1)
classes[:, 7:11] = False       # of some rows none is left, of others all but the label's
np.put_along_axis(classes[:, 14:18], labels[:, 14:18, None], False, -1)
np.save("x.npy", r.standard_normal((4, 24, 16)).astype("f4"))
np.save("keys.npy", keys.astype("i8"))
np.save("classes.npy", classes.astype("i8"))
np.save("labels.npy", labels)
P
cat >compare.py <<'P'
import sys
import numpy as np, stored
def load(name): return {k: v.astype("f8") for k, v in stored.read(name).items()}
def masked(x, seen): # as f32 adds it
    return (x.astype("f4") + np.where(seen, np.float32(0), np.float32(-1e9))).astype("f8")
def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
old, new = load(sys.argv[1]), load(sys.argv[2])
x, keys, classes, labels = (np.load(n + ".npy") for n in ("x", "keys", "classes", "labels"))
x = x.astype("f8")
q, k, v = (np.einsum("bsd,dhk->bhsk", x, old[n]) for n in ("wq", "wk", "wv"))
p = softmax(masked(np.einsum("bhsk,bhtk->bhst", q, k) / 8**0.5, keys[:, None] > 0))
y = p @ v
dl = (softmax(masked(np.einsum("bhsk,hkv->bsv", y, old["wo"]), classes > 0)) - np.eye(6)[labels]) / labels.size
dy = np.einsum("bsv,hkv->bhsk", dl, old["wo"])
dp = np.einsum("bhsk,bhtk->bhst", dy, v)
ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / 8**0.5
want = {"wo": np.einsum("bhsk,bsv->hkv", y, dl), "wv": np.einsum("bhst,bhsk,btd->dhk", p, dy, x),
        "wq": np.einsum("bhst,bhtk,bsd->dhk", ds, k, x), "wk": np.einsum("bhst,bhsk,btd->dhk", ds, q, x)}
for n, g in want.items():
    off = np.linalg.norm(old[n] - new[n] - g) / np.linalg.norm(g)
    assert off < 1e-4, (n, off)
P
expect 0 "" /usr/bin/python3 data.py
options="--train cross_entropy --batch 4 --dim-hint seq=24"
data="--data x=@x.npy --data keys=@keys.npy --data classes=@classes.npy --data labels=@labels.npy"
step() { # step NAME RATE PLAN...: the weights after one step
  local name=$1 rate=$2
  shift 2
  # shellcheck disable=SC2086
  expect 0 "" "$apc" model.apc -q $options --optimizer "sgd(lr=$rate)" "$@" -o "$name"
  # shellcheck disable=SC2086
  expect 0 "" "./$name" --steps 1 --shuffle none $data --save "$name.safetensors"
}
step start 1e-30 --target cpux1
step one 1 --target cpux1
step four 1 --target cpux4 --tp 2 --cp 2
for name in one four; do
  check "gradients, $name" env PYTHONPATH="$source_dir/tests" /usr/bin/python3 -B compare.py start.safetensors $name.safetensors
done
summary 9
