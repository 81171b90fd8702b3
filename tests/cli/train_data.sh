#!/bin/bash
# Data of a training program: arrays, their order, token files, evaluation, and messages for wrong data.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
train_rows
train_tokens
/usr/bin/python3 -c '
import numpy as np
x = np.load("x.npy")
c = np.load("ignored.npy")
for value in -1, 12, 2**40: c[13] = value; np.save(f"label{value}.npy", c)
np.save("short.npy", x[:5]), np.save("first12.npy", np.array([-100, 12] + 6 * [0])), np.save("narrow.npy", x[:, :3]), np.save("double.npy", x.astype("f8"))'
data="--data x=@x.npy --data labels=@y.npy"

# shellcheck disable=SC2086
"$apc" compile $mlp -q --train mse --optimizer 'sgd(lr=.05)' --batch 8 --target cpux2 -o trainer

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

# A label that is no class and is not ignored: the message has the row of the file and the label, before the first step;
# also if each rank has a part of the classes.
for how in "cpu" "cpux2 --tp 2"; do
  # shellcheck disable=SC2086
  "$apc" compile $mlp -q --train cross_entropy --batch 8 --target $how -o classes
  for label in -1 12 1099511627776; do
    expect 1 "label$label.npy: row 13 is $label; as an index, input 'labels', it must be 0 to 11, or -100, which is ignored" \
      ./classes --steps 5 --data x=@x.npy --data labels=@label$label.npy; no_out
  done
  expect 1 "row 13 is 12; as an index" ./classes --steps 5 --data x=@x.npy --data labels=@class.npy --eval x=@x.npy \
    --eval labels=@label12.npy; no_out
  expect 1 "input 'labels': element [1] is 12; as an index it must be 0 to 11, or -100, which is ignored" ./classes --entry eval \
    --input x=random --input labels=@first12.npy; no_out
done

# Random numbers of the model differ in every step, and are the same in the next run.
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

# Token files: windows of 16 or 32 bits, labels shifted by one, whole shards only; the losses of the same rows as
# arrays.
/usr/bin/python3 -c '
import numpy as np, os
t = np.load("tokens.npy")
os.mkdir("nothing_here")
cut = [(0, 90), (90, 93), (93, 200)]
def rows(t): return [t[k:k + 7] for k in range(0, len(t) - 6, 6)]
for name, r in ("t", rows(t)), ("s", sum((rows(t[a:b]) for a, b in cut), [])):
    np.save(name + "_x.npy", np.array(r)[:, :-1]), np.save(name + "_y.npy", np.array(r)[:, 1:])
t[150] = 24
t.astype("<u2").tofile("outside.bin")
open("odd.bin", "wb").write(b"abc")
t = np.load("tokens.npy")
x = np.load("t_x.npy")
np.save("x_i4.npy", x.astype("i4")), np.save("x_u2.npy", x.astype("u2")), np.save("x_f4.npy", x.astype("f4"))
for name, value in ("half", 2.5), ("none", np.nan), ("far", 24):
    y = x.astype("f4"); y[5, 1] = value; np.save(f"x_{name}.npy", y)
y = x.astype("u8"); y[5, 1] = 2**64 - 3; np.save("x_huge.npy", y)
def with_header(name, magic, version, count, tokens):
    open(name, "wb").write(np.array([magic, version, count] + 253 * [0], "<u4").tobytes() + tokens.tobytes())
with_header("gpt2.bin", 20240520, 1, 200, t.astype("<u2")), with_header("llama3.bin", 20240801, 7, 200, t.astype("<u4"))
with_header("version.bin", 20240520, 2, 200, t.astype("<u2")), with_header("magic.bin", 20250211, 1, 200, t.astype("<u2"))
with_header("count.bin", 20240520, 1, 201, t.astype("<u2"))
open("begun.bin", "wb").write(open("gpt2.bin", "rb").read()[:500])'
gpt_trainer --target cpux2 -o words
losses_of() { ./words --steps 9 --json "$@" | losses /dev/stdin; }
losses_of --data tokens=@t_x.npy --data labels=@t_y.npy >want.txt
for file in "t16.bin" "t32.bin --bits 32" gpt2.bin llama3.bin; do
  # shellcheck disable=SC2086
  losses_of --data tokens=@$file >got.txt
  check "the losses of $file" cmp got.txt want.txt
done
check "losses" [ "$(wc -l <want.txt)" -eq 9 ]
# Whole numbers of any type are the same tokens.
for type in i4 u2 f4; do
  losses_of --data tokens=@x_$type.npy --data labels=@t_y.npy >got.txt
  check "the losses of tokens of $type" cmp got.txt want.txt
done
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
expect 1 "odd.bin: its 3 bytes are not a whole number of 16-bit tokens" ./words --steps 1 --data tokens=@odd.bin
expect 1 "outside.bin: token 150 is 24; the model's vocabulary has 24" ./words --steps 9 --data tokens=@outside.bin
expect 1 "x_half.npy: row 5, element [1], is 2.5; input 'tokens' takes whole numbers" ./words --steps 1 --data tokens=@x_half.npy
expect 1 "x_none.npy: row 5, element [1], is nan" ./words --steps 1 --data tokens=@x_none.npy
expect 1 "x_huge.npy: row 5, element [1], is 18446744073709551613" ./words --steps 1 --data tokens=@x_huge.npy
expect 1 "x_far.npy: row 5, element [1], is 24; as an index" ./words --steps 1 --data tokens=@x_far.npy
expect 1 "token file of llm.c (20240520) of version 2; only 1 is supported" ./words --steps 1 --data tokens=@version.bin
expect 1 "its magic number 20250211 is unknown" ./words --steps 1 --data tokens=@magic.bin
expect 1 "counts 201 tokens of 16 bits, but 400 bytes follow" ./words --steps 1 --data tokens=@count.bin
expect 1 "begun.bin: it begins like a token file of llm.c, but is shorter" ./words --steps 1 --data tokens=@begun.bin
expect 1 "says 16-bit tokens, but --bits 32" ./words --steps 1 --data tokens=@gpt2.bin --bits 32
expect 1 "has no .bin file" ./words --steps 1 --data tokens=@nothing_here
expect 1 "none.bin: cannot read" ./words --steps 1 --data tokens=@none.bin
expect 2 "given twice" ./words --steps 1 --data tokens=@t16.bin --data tokens=@shards
expect 2 "--bits 8: expected 16 or 32" ./words --steps 1 --data tokens=@t16.bin --bits 8
expect 2 "tokens need an input of rows of integers" ./trainer --steps 1 --data x=@t16.bin

# Other data are evaluated with the current weights, and nothing changes by it.
evals() { /usr/bin/python3 -c '
import json, sys
for line in sys.stdin:
    d = json.loads(line)
    if "eval_loss" in d: print(d["step"], d["eval_rows"], "%.6f" % d["eval_loss"])'; }
expect 0 "" ./words --steps 9 --data tokens=@shards --save plain.safetensors
expect 0 "eval after step 9 " ./words --steps 9 --data tokens=@shards --eval tokens=@t16.bin --save seen.safetensors
check "evaluating changes nothing" cmp plain.safetensors seen.safetensors
./words --steps 9 --data tokens=@shards --eval tokens=@t16.bin --evals 4 --json 2>said | evals >got.txt
check "evaluated at 4, 8, 9, all rows" [ "$(cut -d' ' -f1,2 got.txt | tr '\n' ,)" = "4 33,8 33,9 33," ]
check "no row is left out" [ "$(grep -c evaluated said)" -eq 0 ]
# With constant weights it equals the losses of steps on the same rows.
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
expect 2 "--evals needs --eval" ./words --steps 1 --data tokens=@t16.bin --evals 2
expect 2 "--eval x: expected NAME=@FILE.npy or" ./words --steps 1 --data tokens=@t16.bin --eval x
expect 2 "which is read by --eval" ./words --steps 1 --data tokens=@t16.bin --eval tokens=@t32.bin --bits 32 --save t32.bin
expect 2 "--eval needs --steps" ./words --eval tokens=@t16.bin

# Refused requests.
# shellcheck disable=SC2086
{
expect 2 "--steps needs data" ./trainer --steps 2
expect 2 "--data needs --steps" ./trainer $data
expect 2 "expected NAME=@FILE.npy or NAME=@TOKENS.bin" ./trainer --steps 2 --data x.npy
expect 2 "no input of that name" ./trainer --steps 2 --data z=@x.npy
expect 1 "nothing.npy" ./trainer --steps 2 --data x=@nothing.npy
expect 1 "5 rows, but a step takes 8" ./trainer --steps 2 --data x=@short.npy
expect 1 "do not have the shape" ./trainer --steps 2 --data x=@narrow.npy
expect 1 "has another type" ./trainer --steps 2 --data x=@double.npy
expect 1 "input 'labels' is missing" ./trainer --steps 2 --data x=@x.npy
expect 2 "--steps 0: expected a positive number" ./trainer --steps 0 $data
expect 2 "expected a number or none" ./trainer --steps 1 --shuffle sometimes $data
expect 1 "cannot write" ./trainer --steps 1 $data --save /nowhere/w.safetensors
expect 2 "which is read by --data" ./trainer --steps 1 $data --save x.npy
expect 2 "is the program" ./trainer --steps 1 $data --save trainer
expect 1 "nothing/checkpoint.safetensors" ./trainer --steps 1 --resume nothing $data
expect 1 "No such" ./trainer --steps 1 --checkpoint no/such/folder $data
expect 2 "--every needs --checkpoint" ./trainer --steps 1 --every 2 $data
expect 2 "--resume needs --steps" ./trainer --resume x
}
# A model whose file fixes the batch has that one.
printf '%s\n' 'apc.ir 1' 'param "w" : f32[12, 12] = normal 1 seed 1' 'func @main level 1 {' '  %x = input {name="x"} : f32[8, 12]' \
  '  %w = param {name="w"} : f32[12, 12]' '  %h = dot %x, %w {spec="bm,mn->bn"} : f32[8, 12]' '  output "y" %h' '}' >fixed.ir
expect 0 "" "$apc" compile fixed.ir -q --train mse --batch 8 -o fixed
expect 0 "step 1 " ./fixed --steps 1 --data x=@x.npy --data labels=@y.npy
expect 1 "--batch 4: the model's file says 8, the first dimension of its input 'x'" "$apc" compile fixed.ir -q --train mse --batch 4

# shellcheck disable=SC2086
"$apc" compile $mlp -q --dim batch=4 -o model
expect 2 "not a training program" ./model --steps 2 --data x=@x.npy
summary 81
