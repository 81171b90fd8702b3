# tests/cli/train_lib.sh - sourced by the tests of training, after lib.sh: models, data, and functions that read the
# losses.
#
#   losses FILE      one per line, of a program's --json lines
#   near A B R       as many numbers, with at most this relative distance
#   begun FILE N     waits until the program started just now has written that many lines (the file is emptied before
#                    the start, so that nothing of an earlier run is read)
#   train_rows       writes x.npy, and labels of its 40 rows: y.npy, class.npy, ignored.npy
#   train_tokens     writes 200 tokens of 24: t16.bin, t32.bin, tokens.npy, and the folder shards
#   gpt_trainer ...  compiles a small gpt, with batches of 4

mlp="$source_dir/examples/mlp.apc -D layers=2 -D d=12"
gpt="$source_dir/examples/gpt.apc -D layers=1 -D d=16 -D heads=2 -D vocab=24 -D ctx=8 --dim seq=6"
llama="$source_dir/examples/llama.apc -D layers=1 -D d=16 -D heads=4 -D kv_heads=2 -D ffn=24 -D vocab=24 --dim seq=6"

losses() { /usr/bin/python3 -c '
import json, sys
for line in open(sys.argv[1]):
    d = json.loads(line)
    assert sorted(d) == ["grad_norm", "loss", "lr", "step", "time_us", "tokens_per_s"], d
    print(d["loss"])' "$1"; }
near() { /usr/bin/python3 -c '
import sys
a, b = ([float(x) for x in open(f)] for f in sys.argv[1:3])
assert len(a) == len(b) and all(abs(x - y) < float(sys.argv[3]) * (1 + abs(y)) for x, y in zip(a, b)), (a, b)' "$@"; }
begun() { timeout 300 sh -c 'until [ "$(wc -l <"$0")" -ge "$1" ]; do sleep .05; done' "$1" "$2"; }
train_rows() { /usr/bin/python3 -c '
import numpy as np
r = np.random.default_rng(0)
x = r.standard_normal((40, 12)).astype("f4")
np.save("x.npy", x)
np.save("y.npy", np.tanh(x @ r.standard_normal((12, 12)).astype("f4")))
np.save("class.npy", r.integers(0, 12, 40))
np.save("ignored.npy", np.where(np.arange(40) % 3 == 0, -100, r.integers(0, 12, 40)))'; }
train_tokens() { /usr/bin/python3 -c '
import numpy as np, os
t = np.random.default_rng(3).integers(0, 24, 200)
t.astype("<u2").tofile("t16.bin"), t.astype("<u4").tofile("t32.bin")
os.mkdir("shards")
for i, (a, b) in enumerate([(0, 90), (90, 93), (93, 200)]): t[a:b].astype("<u2").tofile(f"shards/{i}.bin")
np.save("tokens.npy", t)'; }
gpt_trainer() { # shellcheck disable=SC2086
  "$apc" compile $gpt -q --train cross_entropy --batch 4 "$@"; }
