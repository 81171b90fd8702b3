#!/bin/bash
# --train: a step of training, the programs that make steps, and what is refused.
. "$(dirname "$0")/lib.sh"
mlp="$source_dir/examples/mlp.apc -D layers=2 -D d=12"

/usr/bin/python3 -c '
import numpy as np
r = np.random.default_rng(0)
x = r.standard_normal((40, 12)).astype("f4")
np.save("x.npy", x)
np.save("y.npy", np.tanh(x @ r.standard_normal((12, 12)).astype("f4")))
np.save("class.npy", r.integers(0, 12, 40))
np.save("short.npy", x[:5])
np.save("eight.npy", x[:8])
np.save("narrow.npy", x[:, :3])
np.save("double.npy", x.astype("f8"))
np.save("ignored.npy", np.where(np.arange(40) % 3 == 0, -100, r.integers(0, 12, 40)))'

# losses FILE: one per line, of a program's --json lines
losses() { /usr/bin/python3 -c '
import json, sys
for line in open(sys.argv[1]):
    d = json.loads(line)
    assert sorted(d) == ["grad_norm", "loss", "lr", "step", "time_us", "tokens_per_s"], d
    print(d["loss"])' "$1"; }
# The same by NumPy in double: cross-entropy, AdamW.
reference() { /usr/bin/python3 - "$@" <<'P'
import sys, json, struct, numpy as np
steps, labels, start = int(sys.argv[1]), np.load(sys.argv[2]), sys.argv[3]
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
    kept = l != -100
    p = np.exp(a - a.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    at = np.where(kept, l, 0)
    print(-np.log(p[np.arange(8), at])[kept].mean())
    p[np.arange(8), at] -= 1
    d, g = p * kept[:, None] / kept.sum(), {}
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
near() { /usr/bin/python3 -c '
import sys
a, b = ([float(x) for x in open(f)] for f in sys.argv[1:3])
assert len(a) == len(b) and all(abs(x - y) < float(sys.argv[3]) * (1 + abs(y)) for x, y in zip(a, b)), (a, b)' "$@"; }

# A run is that of NumPy, on one rank and on several, however they are cut.
# shellcheck disable=SC2086
expect 0 "" "$apc" convert $mlp start.safetensors
for labels in class ignored; do
  reference 12 $labels.npy start.safetensors >want.txt
  for cut in "--target cpu" "--target cpux4 --dp 4" "--target cpux2 --tp 2" "--target cpux4 --dp 2 --tp 2" \
    "--target cpu --micro-batches 3" "--target cpux4 --dp 2 --tp 2 --micro-batches 2" \
    "--target cpux3 --pp 3 --micro-batches 4" "--target cpux4 --pp 2 --dp 2 --micro-batches 2"; do
    # shellcheck disable=SC2086
    expect 0 "" "$apc" compile $mlp -q --train cross_entropy --optimizer 'adamw(lr=1e-3)' --batch 8 $cut -o trainer
    expect 0 "" ./trainer --steps 12 --data x=@x.npy --data labels=@$labels.npy --shuffle none --json
    losses out >got.txt
    check "$labels $cut" near got.txt want.txt 1e-5
  done
done

# Several steps of every optimizer are proved, and equal to one rank and to the interpreter in all states.
for how in "mse sgd(lr=.1,momentum=.9,weight_decay=.01)" "cross_entropy adamw(clip=.5,schedule=cosine,warmup=1,steps=9)" \
           "bce lion(schedule=linear,steps=5,min_lr=1e-5)"; do
  read -r loss optimizer <<<"$how"
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify $mlp -q --train "$loss" --optimizer "$optimizer" --batch 8 --target cpux4 --dp 2 --tp 2
  expect_out "proved   the parallel program"
  expect_out "state layers.0.up.w "
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
    expect_out "proved   the parallel program"
  done
done
expect 3 'sqrt "own" cannot be cut into 2 micro-batches' "$apc" plan own.apc -q --train own --batch 8 --micro-batches 2

# Whatever the number of stages and the order in which they take turns, a run has the same bits; the plan says the order.
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
expect_out "proved   the parallel program"
sed 's/schedule zbh1/schedule backwards/' turns.plan >bad.plan
# shellcheck disable=SC2086
expect 1 "there is no schedule 'backwards'" "$apc" plan $mlp -q --train cross_entropy --optimizer 'adamw(lr=1e-3,clip=1.0)' \
  --batch 8 --target cpux3 --plan bad.plan
sed 's/schedule zbh1/schedule interleaved:2/' turns.plan >bad.plan
# shellcheck disable=SC2086
expect 1 "schedule interleaved:2 has 2 stages on each place and several micro-batches; the mesh has 3 and 4" "$apc" plan $mlp -q \
  --train cross_entropy --optimizer 'adamw(lr=1e-3,clip=1.0)' --batch 8 --target cpux3 --plan bad.plan
sed 's/^stage 2 .*/stage 2 "layers.1.up.dot.grad.dot"/' turns.plan >bad.plan
# shellcheck disable=SC2086
expect 1 'is no operation of the forward pass' "$apc" plan $mlp -q --train cross_entropy --optimizer 'adamw(lr=1e-3,clip=1.0)' \
  --batch 8 --target cpux3 --plan bad.plan
# shellcheck disable=SC2086
expect 2 "--schedule 1f1b is of training" "$apc" plan $mlp -q --schedule 1f1b
# shellcheck disable=SC2086
expect 2 "a place has 2 to 64 stages" "$apc" plan $mlp -q --train mse --batch 8 --schedule interleaved:1

# What is accumulated is written as that in the legalised form, too.
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $mlp -q --train mse --batch 8 --micro-batches 2 --emit=legal=legal.ir
check "accumulated" grep -q "loss.accumulate = accumulate %loss" legal.ir

# Attention with rotations, tied tables, convolutions and pools are trained through as well.
gpt="$source_dir/examples/gpt.apc -D layers=1 -D d=16 -D heads=2 -D vocab=24 -D ctx=8 --dim seq=6"
llama="$source_dir/examples/llama.apc -D layers=1 -D d=16 -D heads=4 -D kv_heads=2 -D ffn=24 -D vocab=24 --dim seq=6"
resnet="$source_dir/examples/resnet.apc -D depth=18 -D width=4 -D classes=5 -D image=32"
for model in "$gpt --dp 2" "$llama --tp 2" "$resnet --dp 2" "$gpt --micro-batches 2" "$resnet --dp 2 --micro-batches 2" \
  "$gpt --pp 2 --micro-batches 4" "$resnet --pp 2" "$gpt --pp 2 --micro-batches 2 --schedule zbv" \
  "$gpt --pp 2 --micro-batches 3 --schedule interleaved:2"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify $model -q --train cross_entropy --batch 4 --target cpux2
  expect_out "proved   the parallel program"
done

# The weights are written under the names of the model, and taken back by it; an interrupted run writes them as well.
# shellcheck disable=SC2086
"$apc" compile $mlp -q --train mse --optimizer 'sgd(lr=.05)' --batch 8 --target cpux2 -o trainer
expect 0 "" ./trainer --steps 30 --data x=@x.npy --data labels=@y.npy --save trained.safetensors
first=$(head -1 out | sed 's/.*loss \([^ ]*\).*/\1/') last=$(tail -1 out | sed 's/.*loss \([^ ]*\).*/\1/')
check "from $first to $last" /usr/bin/python3 -c "assert $last < 0.7 * $first"
# shellcheck disable=SC2086
expect 0 "" "$apc" run $mlp -q --weights trained.safetensors --dim batch=8
# begun OUTPUT LINES: waits until what was started just now has written that many lines (the file is emptied before it is
# started, so that nothing is read of what ran earlier).
begun() { timeout 60 sh -c 'until [ "$(wc -l <"$0")" -ge "$1" ]; do sleep .05; done' "$1" "$2"; }
: >steps
./trainer --steps 100000000 --data x=@x.npy --data labels=@y.npy --save stopped.safetensors >steps &
trainer=$!
check "it trains" begun steps 4
kill -INT $trainer
check "a run that SIGINT ends: 0" wait $trainer
check "its weights" test -s stopped.safetensors

cp trained.safetensors whole_mlp.safetensors
# Going on from a checkpoint is as if there had been no end, whatever the number of ranks.
# shellcheck disable=SC2086
for n in 1 2 3; do "$apc" compile $mlp -q --train mse --optimizer 'adamw(lr=.01)' --batch 8 --target cpux$n -o train$n; done
data="--data x=@x.npy --data labels=@y.npy"
# shellcheck disable=SC2086
{
expect 0 "" ./train2 --steps 9 $data --save whole.safetensors
expect 0 "step 4 " ./train2 --steps 4 $data --checkpoint half
expect 0 "step 5 " ./train2 --steps 9 $data --resume half --save rest.safetensors
check "the same bytes" cmp -s whole.safetensors rest.safetensors
for n in 1 3; do
  expect 0 "step 9 " ./train$n --steps 9 $data --resume half --save other.safetensors
  check "$n ranks go on" /usr/bin/python3 - whole.safetensors other.safetensors <<'P'
import sys, numpy as np
a, b = (np.frombuffer(open(f, "rb").read()[4096:], "f4") for f in sys.argv[1:])
assert np.linalg.norm(a - b) < 1e-5 * np.linalg.norm(a)
P
done
expect 0 "step 9 " ./train2 --steps 9 $data --resume half --checkpoint half --every 2
expect 0 "" ./train2 --steps 9 $data --resume half; no_out
}
# A rank that is killed ends the run; what was written last is whole, and the run goes on from there to the same end.
for after in 2 5 9; do
  rm -rf kept
  : >steps
  # shellcheck disable=SC2086
  ./train2 --steps 100000000 $data --checkpoint kept --every 1 >steps 2>said &
  trainer=$!
  check "it trains" begun steps $after
  kill -KILL "$(pgrep -P $trainer | tail -1)"
  wait $trainer
  check "a killed rank: 6" [ $? -eq 6 ]
  check "nothing but the checkpoint is left" [ "$(ls kept)" = checkpoint.safetensors ]
  made=$(/usr/bin/python3 -c 'import json, struct
f = open("kept/checkpoint.safetensors", "rb")
print(json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]["steps"])')
  # shellcheck disable=SC2086
  {
  expect 0 "" ./train2 --steps $((made + 3)) $data --resume kept --save resumed.safetensors
  expect 0 "" ./train2 --steps $((made + 3)) $data --save straight.safetensors
  }
  check "killed behind step $made" cmp -s resumed.safetensors straight.safetensors
done

# The order of rows: every one once, then again, in another order; the same for the same seed.
# shellcheck disable=SC2086
"$apc" compile $mlp -q --train mse --optimizer 'sgd(lr=0)' --batch 8 --target cpu -o still
sum() { ./still --steps 5 --data x=@x.npy --data labels=@y.npy "$@" --json | losses /dev/stdin | /usr/bin/python3 -c '
import sys
x = [float(l) for l in sys.stdin]
print(f"{sum(x):.5f}", x[0] == x[1])'; }
check "all rows in five steps" [ "$(sum)" = "$(sum --shuffle none)" ]
check "with any seed" [ "$(sum --shuffle 7)" = "$(sum --shuffle none)" ]
./still --steps 2 --data x=@x.npy --data labels=@y.npy --json | losses /dev/stdin >a
./still --steps 2 --data x=@x.npy --data labels=@y.npy --json --shuffle 0 | losses /dev/stdin >b
./still --steps 2 --data x=@x.npy --data labels=@y.npy --json --shuffle 1 | losses /dev/stdin >c
check "seed 0 is the default" cmp -s a b
check "another seed" eval '! cmp -s a c'

# Random numbers of the model are others in every step, and the same in the next run.
printf '%s\n' 'apc.ir 1' 'param "w" : f32[12, 3] = normal 1 seed 1' 'func @main level 1 {' \
  '  %x = input {name="x"} : f32[8, 12]' '  %w = param {name="w"} : f32[12, 3]' \
  '  %h = dot %x, %w {spec="bm,mn->bn"} : f32[8, 3]' \
  '  %r = random {kind="uniform", seed=3, starts=[0, 0], extents=[8, 3]} : f32[8, 3]' '  %y = mul %h, %r : f32[8, 3]' \
  '  output "y" %y' '}' >noisy.ir
/usr/bin/python3 -c 'import numpy as np; np.save("ones.npy", np.ones((8, 12), "f4")); np.save("none.npy", np.zeros((8, 3), "f4"))'
"$apc" compile noisy.ir -q --train mse --optimizer 'sgd(lr=0)' -o noisy
for file in a b; do ./noisy --steps 3 --data x=@ones.npy --data labels=@none.npy --json | losses /dev/stdin >$file; done
check "three losses" [ "$(sort -u a | wc -l)" -eq 3 ]
check "the same again" cmp -s a b

# Token files: windows of 16 or 32 bits, labels one further, whole shards only; the losses of the same rows as arrays.
/usr/bin/python3 -c '
import numpy as np, os
t = np.random.default_rng(3).integers(0, 24, 200)
t.astype("<u2").tofile("t16.bin"), t.astype("<u4").tofile("t32.bin")
os.mkdir("shards"), os.mkdir("nothing_here")
cut = [(0, 90), (90, 93), (93, 200)]
for i, (a, b) in enumerate(cut): t[a:b].astype("<u2").tofile(f"shards/{i}.bin")
def rows(t): return [t[k:k + 7] for k in range(0, len(t) - 6, 6)]
for name, r in ("t", rows(t)), ("s", sum((rows(t[a:b]) for a, b in cut), [])):
    np.save(name + "_x.npy", np.array(r)[:, :-1]), np.save(name + "_y.npy", np.array(r)[:, 1:])
t[150] = 24
t.astype("<u2").tofile("outside.bin")
open("odd.bin", "wb").write(b"abc")'
gpt_trainer() { # shellcheck disable=SC2086
  "$apc" compile $gpt -q --train cross_entropy --batch 4 "$@"; }
gpt_trainer --target cpux2 -o words
losses_of() { ./words --steps 9 --json "$@" | losses /dev/stdin; }
losses_of --data tokens=@t_x.npy --data labels=@t_y.npy >want.txt
for file in "t16.bin" "t32.bin --bits 32"; do
  # shellcheck disable=SC2086
  losses_of --data tokens=@$file >got.txt
  check "the losses of $file" cmp got.txt want.txt
done
check "losses" [ "$(wc -l <want.txt)" -eq 9 ]
losses_of --data tokens=@s_x.npy --data labels=@s_y.npy >want.txt
losses_of --data tokens=@shards >got.txt
check "the losses of shards" cmp got.txt want.txt
losses_of --data tokens=@t16.bin --data labels=@t_x.npy >got.txt
check "labels of one's own" eval '! cmp -s got.txt want.txt'
expect 0 "" ./words --steps 9 --data tokens=@shards --save whole.safetensors
expect 0 "" ./words --steps 4 --data tokens=@shards --checkpoint told
expect 0 "step 5 " ./words --steps 9 --data tokens=@shards --resume told --save rest.safetensors
check "tokens go on" cmp whole.safetensors rest.safetensors
expect 1 "t32.bin: every second token of 16 bits is 0" ./words --steps 1 --data tokens=@t32.bin
expect 1 "odd.bin: its 3 bytes are no whole number of 16-bit tokens" ./words --steps 1 --data tokens=@odd.bin
expect 1 "outside.bin: token 150 is 24; the model's vocabulary has 24" ./words --steps 9 --data tokens=@outside.bin
expect 1 "no file in the folder" ./words --steps 1 --data tokens=@nothing_here
expect 1 "none.bin: cannot read" ./words --steps 1 --data tokens=@none.bin
expect 2 "given twice" ./words --steps 1 --data tokens=@t16.bin --data tokens=@shards
expect 2 "--bits 8: 16 or 32" ./words --steps 1 --data tokens=@t16.bin --bits 8
expect 2 "tokens are for an input of integers" ./trainer --steps 1 --data x=@t16.bin

# Other data are evaluated with the weights as they are by then, and nothing changes by it.
evals() { /usr/bin/python3 -c '
import json, sys
for line in sys.stdin:
    d = json.loads(line)
    if "eval_loss" in d: print(d["step"], d["eval_rows"], "%.6f" % d["eval_loss"])'; }
expect 0 "" ./words --steps 9 --data tokens=@shards --save plain.safetensors
expect 0 "eval behind step 9 " ./words --steps 9 --data tokens=@shards --eval tokens=@t16.bin --save seen.safetensors
check "evaluating changes nothing" cmp plain.safetensors seen.safetensors
expect_err "note: 1 of 33 rows to evaluate are left out"
./words --steps 9 --data tokens=@shards --eval tokens=@t16.bin --evals 4 --json 2>said | evals >got.txt
check "evaluated at 4, 8, 9" [ "$(cut -d' ' -f1,2 got.txt | tr '\n' ,)" = "4 32,8 32,9 32," ]
# Of weights that stand still it is what steps say of the same rows.
for labels in class ignored; do
  # shellcheck disable=SC2086
  "$apc" compile $mlp -q --train cross_entropy --optimizer 'sgd(lr=0)' --batch 8 --target cpux2 -o still
  ./still --steps 5 --data x=@x.npy --data labels=@$labels.npy --shuffle none --eval x=@x.npy --eval labels=@$labels.npy \
    --json >got.txt
  check "the loss of all rows" /usr/bin/python3 - $labels.npy <<'P'
import json, sys, numpy as np
rows = [json.loads(l) for l in open("got.txt")]
kept = (np.load(sys.argv[1]).reshape(5, 8) != -100).sum(1)
want = sum(r["loss"] * k for r, k in zip(rows, kept)) / kept.sum()
assert len(rows) == 6 and abs(rows[5]["eval_loss"] - want) < 1e-6, (rows, want)
P
done
expect 2 "--evals says nothing without --eval" ./words --steps 1 --data tokens=@t16.bin --evals 2
expect 2 "--eval x: NAME=@FILE.npy or" ./words --steps 1 --data tokens=@t16.bin --eval x
expect 2 "which is read by --eval" ./words --steps 1 --data tokens=@t16.bin --eval tokens=@t32.bin --bits 32 --save t32.bin
expect 2 "--eval is of training" ./words --eval tokens=@t16.bin

# Trained weights go back into the ONNX model; frozen ones are in the file as well, and a checkpoint serves too.
tiny=$source_dir/examples/gpt-tiny.onnx
"$apc" compile "$tiny" -q --train cross_entropy --optimizer 'adamw(freeze=*bias)' --batch 4 --dim seq=16 --target cpux2 -o tiny
expect 0 "" ./tiny --steps 3 --data tokens=@t16.bin --save tiny.safetensors --checkpoint tiny_at
expect 0 "" "$apc" convert "$tiny" trained.onnx -q --weights tiny.safetensors
expect 0 "" "$apc" convert "$tiny" again.onnx -q --weights tiny_at/checkpoint.safetensors
check "a checkpoint gives the same model" cmp trained.onnx again.onnx
inputs="--inputs $source_dir/examples/gpt-tiny.inputs.npz"
# shellcheck disable=SC2086
{
expect 0 "" "$apc" run trained.onnx -q $inputs --outputs new.npz
expect 0 "" "$apc" run "$tiny" -q $inputs --weights tiny.safetensors --outputs with.npz
expect 0 "" "$apc" run "$tiny" -q $inputs --outputs old.npz
}
check "it computes what --weights computes" cmp new.npz with.npz
check "and not what it did" eval '! cmp -s new.npz old.npz'
expect 0 "" "$apc" convert "$tiny" first.safetensors -q
expect 0 "" "$apc" convert trained.onnx back.onnx -q --weights first.safetensors
check "its first weights make the first model" "$apc" run back.onnx -q $inputs --expect old.npz
/usr/bin/python3 - first.safetensors <<'P'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head, data = json.loads(raw[8:8 + n]), raw[8 + n:]
def write(name, head):
    text = json.dumps(head).encode()
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + data)
names = sorted(k for k in head if k != "__metadata__")
other = dict(head)
other["nobody"] = other.pop(names[0])
write("other.safetensors", other)
for k in names:
    if len(head[k]["shape"]) == 2 and head[k]["shape"][0] != head[k]["shape"][1]: break
turned = dict(head)
turned[k] = dict(head[k], shape=head[k]["shape"][::-1])
write("turned.safetensors", turned)
P
expect 1 "the model has no initializer 'nobody'" "$apc" convert "$tiny" x.onnx --weights other.safetensors
expect_err "the file has no tensor '"
expect 1 "has not the type and shape of the initializer" "$apc" convert "$tiny" x.onnx --weights turned.safetensors
check "nothing was written" test ! -e x.onnx
expect 2 "--dim has no meaning" "$apc" convert "$tiny" x.onnx --weights first.safetensors --dim batch=2
expect 2 "convert takes FILE.safetensors" "$apc" convert "$tiny" x.onnx --weights embed
expect 2 "--weights is for models" "$apc" convert first.safetensors x.npz --weights first.safetensors
# A model of the model language takes them on the way to ONNX.
# shellcheck disable=SC2086
expect 0 "" "$apc" convert $mlp mlp.onnx -q --weights whole_mlp.safetensors
# shellcheck disable=SC2086
{
expect 0 "" "$apc" run $mlp -q --weights whole_mlp.safetensors --dim batch=8 --input x=@eight.npy --outputs m1.npz
expect 0 "" "$apc" run mlp.onnx -q --dim batch=8 --input x=@eight.npy --expect m1.npz
}

# In bf16 products are, and nothing else: states keep f32, casts of weights stand in the IR, and a run is that of f32.
for model in "$gpt --dp 2" "$llama --tp 2" "$gpt --dp 2 --micro-batches 2"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" verify $model -q --train cross_entropy --batch 4 --dtype bf16 --target cpux2
  expect_out "proved   the parallel program"
done
gpt_trainer --dtype bf16 --target cpu --emit=ir=- >step.ir
check "states of f32" eval 'grep -q "^state \"wte\" : f32" step.ir && ! grep -q "^state .* : bf16" step.ir'
check "a cast in every step" grep -q "%wte.bf16 = cast %wte {to=bf16}" step.ir
check "products of bf16" grep -q "%logits.grad.dot.* : bf16" step.ir
check "no update of bf16" eval '! grep "update\." step.ir | grep -v "cast" | grep -q ": bf16"'
check "a loss of f32" grep -q "loss.cross_entropy = .* : f32" step.ir
for type in f32 bf16; do
  gpt_trainer --target cpux2 --optimizer "adamw(lr=1e-2)" --dtype $type -o words_$type
  ./words_$type --steps 30 --data tokens=@shards --save $type.safetensors --json | losses /dev/stdin >$type.txt
done
check "losses of bf16" near bf16.txt f32.txt 2e-2
check "they are others" eval '! cmp -s bf16.txt f32.txt'
check "it learns" /usr/bin/python3 -c '
x = [float(l) for l in open("bf16.txt")]; assert sum(x[-10:]) < sum(x[:10]) - .5, x'
check "all weights are f32" eval '! strings bf16.safetensors | grep -q BF16'

# What cannot be.
# shellcheck disable=SC2086
{
expect 2 "there is no optimizer 'adam'" "$apc" plan $mlp --train mse --optimizer 'adam(lr=1)'
expect 2 "this optimizer has no 'momentum'" "$apc" plan $mlp --train mse --optimizer 'adamw(momentum=.9)'
expect 2 "the nearest is 'beta1'" "$apc" plan $mlp --train mse --optimizer 'adamw(betal1=.9)'
expect 2 "lr must be a number, at least 0" "$apc" plan $mlp --train mse --optimizer 'adamw(lr=-1)'
expect 2 "needs steps=N" "$apc" plan $mlp --train mse --optimizer 'adamw(schedule=linear)'
expect 2 "a ')' is wanted" "$apc" plan $mlp --train mse --optimizer 'adamw(lr=1'
expect 2 "KEY=VALUE is wanted, not 'lr'" "$apc" plan $mlp --train mse --optimizer 'adamw(lr)'
expect 2 "neither cross_entropy, mse, bce nor an output" "$apc" plan $mlp --train perplexity
expect 2 "output 'y' is f32" "$apc" plan $mlp --train y
expect 2 "--optimizer is of training" "$apc" plan $mlp --optimizer sgd
expect 2 "--batch is of training" "$apc" plan $mlp --batch 8
expect 5 "no weight that is trained" "$apc" plan $mlp --train mse --optimizer 'sgd(train=nothing*)'
expect 5 "training in it needs a scaled loss" "$apc" plan $mlp --train mse --dtype f16
expect 5 "models with loops cannot be trained yet" "$apc" plan "$source_dir/examples/lstm.apc" --train cross_entropy
}
# shellcheck disable=SC2086
{
expect 2 "--steps needs data" ./trainer --steps 2
expect 2 "--data is of training" ./trainer $data
expect 2 "NAME=@FILE.npy or NAME=@TOKENS.bin is wanted" ./trainer --steps 2 --data x.npy
expect 2 "no input of that name" ./trainer --steps 2 --data z=@x.npy
expect 1 "nothing.npy" ./trainer --steps 2 --data x=@nothing.npy
expect 1 "5 rows, and a step takes 8" ./trainer --steps 2 --data x=@short.npy
expect 1 "do not have the shape" ./trainer --steps 2 --data x=@narrow.npy
expect 1 "has another type" ./trainer --steps 2 --data x=@double.npy
expect 1 "input 'labels' is missing" ./trainer --steps 2 --data x=@x.npy
expect 2 "--steps 0: a number is wanted" ./trainer --steps 0 $data
expect 2 "a number or none is wanted" ./trainer --steps 1 --shuffle sometimes $data
expect 1 "cannot write" ./trainer --steps 1 $data --save /nowhere/w.safetensors
expect 2 "which is read by --data" ./trainer --steps 1 $data --save x.npy
expect 2 "is the program" ./trainer --steps 1 $data --save trainer
expect 1 "nothing/checkpoint.safetensors" ./trainer --steps 1 --resume nothing $data
expect 1 "No such" ./trainer --steps 1 --checkpoint no/such/folder $data
expect 2 "--every says nothing without --checkpoint" ./trainer --steps 1 --every 2 $data
expect 2 "--resume is of training" ./trainer --resume x
}
# shellcheck disable=SC2086
"$apc" compile $mlp -q --dim batch=4 -o model
expect 2 "no training program" ./model --steps 2 --data x=@x.npy
summary 172
