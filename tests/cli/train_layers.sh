#!/bin/bash
# Layers in training: residual branches dropped at random; deeper models that start from the weights of
# ones with fewer layers; layers that share weights, in stages; loops.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"

# Each row keeps both elements of a branch, doubled, or none: the loss of a row is 1 or 9, without dropping 4.
/usr/bin/python3 -c '
import numpy as np
np.save("ones.npy", np.ones((64, 2), "f4")), np.save("none.npy", np.zeros((64, 2), "f4"))'
cat >residual.apc <<'M'
dim batch
entry main(x: f32[batch, 2]) {
  weight w : f32[2, 2] = constant(0.5)
  output y = x + matmul(x, w)
}
M
for cut in "--target cpu" "--target cpux2 --dp 2" "--target cpux2 --tp 2" "--target cpu --micro-batches 4"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" compile residual.apc -q --train mse --optimizer 'sgd(lr=0)' --batch 64 --layer-drop 'w:0.5' $cut -o trainer
  expect 0 "" ./trainer --steps 4 --data x=@ones.npy --data labels=@none.npy --json --eval x=@ones.npy --eval labels=@none.npy
  check "$cut: eval drops nothing" grep -q '"eval_loss":4,' out
  grep -v eval_loss out | losses /dev/stdin >got
  [ "$cut" = "--target cpu" ] && cp got want
  check "$cut: the rows of one rank" near got want 1e-6
done
check "whole rows, others in each step, about half of them" /usr/bin/python3 -c '
kept = [(float(l) - 1) / 8 * 64 for l in open("want")]
assert len(set(kept)) > 1 and all(abs(k - round(k)) < 1e-3 and 16 < k < 48 for k in kept), kept'
expect 0 "" "$apc" compile residual.apc -q --train mse --optimizer 'sgd(lr=0)' --batch 64 --layer-drop 'w:0.5' --seed 3 -o trainer
expect 0 "" ./trainer --steps 4 --data x=@ones.npy --data labels=@none.npy --json
losses out >other && check "another seed drops other rows" eval '! cmp -s other want'

gpt2="$source_dir/examples/gpt.apc -D layers=2 -D d=16 -D heads=2 -D vocab=24 -D ctx=8 --dim seq=6"
train="--train cross_entropy --batch 4"
# shellcheck disable=SC2086
{
expect 0 '"layers.0.attn.out.w", "layers.1.attn.out.w"' "$apc" plan $gpt2 $train --layer-drop 'layers.*.attn.*:0.2'
expect 0 "" "$apc" verify $gpt2 -q $train --layer-drop 'layers.*:0.2' --target cpux2 --dp 2
expect 2 "fits all products of no residual branch" "$apc" plan $gpt2 -q $train --layer-drop 'layers.*.attn.q*:0.2'
expect_err '"layers.0.mlp.proj.w"'
expect 2 "GLOB:RATE with a rate above 0 and below 1" "$apc" plan $gpt2 -q $train --layer-drop 'layers.*:1'
expect 2 "--layer-drop needs --train" "$apc" plan $gpt2 -q --layer-drop 'layers.*:0.5'
}

# A model of 2 layers starts one of 4: each layer twice, or both again on top; the rest and other names as they are.
# shellcheck disable=SC2086
{
expect 0 "" "$apc" compile $gpt2 -q $train --optimizer 'sgd(lr=0)' -o two
/usr/bin/python3 -c 'import numpy as np; (np.arange(80) % 24).astype("<u2").tofile("t.bin")'
expect 0 "" ./two --steps 1 --data tokens=@t.bin --save two.safetensors
gpt4="${gpt2/layers=2/layers=4}"
for map in '/2' '%2'; do
  [ $map = /2 ] && renamed=48 || renamed=32
  expect 0 "$renamed of 68 from tensors of other names (--map); moments and averages start anew" \
    "$apc" compile $gpt4 $train --optimizer 'sgd(lr=0)' --weights two.safetensors --map "layers.*:layers.*$map" -o four
  expect 0 "" ./four --steps 1 --data tokens=@t.bin --save four.safetensors
  check "layers of two, $map" /usr/bin/python3 -c '
import json, struct, sys
def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in json.loads(raw[8:8 + n]).items()
            if k != "__metadata__"}
two, four = load("two.safetensors"), load("four.safetensors")
assert len(four) > len(two)
for name, bytes in four.items():
    p = name.split(".")
    if p[0] == "layers": p[1] = str(eval(p[1] + sys.argv[1].replace("/", "//")))
    assert bytes == two[".".join(p)], name' "$map"
done
expect 0 "" "$apc" convert $gpt2 two.onnx -q
expect 0 "" "$apc" plan two.onnx -q --weights two.safetensors --map 'layers.1:layers.0'
expect 1 "has no tensor 'block.0.ln1.bias' (for weight 'layers.0.ln1.bias')" "$apc" plan $gpt2 -q --weights two.safetensors --map layers:block
expect 2 "no weight of the model has a name that begins with 'layer'" "$apc" plan $gpt2 -q --weights two.safetensors --map layer:h
expect 1 "tensor 'wte' (for weight 'wpe') does not have the type and shape of the weight: it is f32[24, 16], the weight is f32[8, 16]" \
  "$apc" plan $gpt2 -q --weights two.safetensors --map wpe:wte
expect 2 "expected A:B" "$apc" plan $gpt2 -q --weights two.safetensors --map layers
expect 2 "division by 0" "$apc" plan $gpt2 -q --weights two.safetensors --map 'layers.*:layers.*/0'
expect 2 "more than one '*'" "$apc" plan $gpt2 -q --weights two.safetensors --map '*.*:*'
expect 2 "--map needs --weights FILE or a folder" "$apc" plan $gpt2 -q --map 'layers:h'
}
# One layer used four times (ALBERT), in stages, and loops: the weights of one rank, under every plan.
cat >shared.apc <<'M'
dim batch
fn layer(x, w, b) { return x + tanh(matmul(x, w) + b) }
entry main(x: f32[batch, 12]) {
  weight w : f32[12, 12] = normal(0.3)
  weight b : f32[12] = zeros
  x = layer(layer(layer(layer(x, w, b), w, b), w, b), w, b)
  output y = x
}
M
train_rows
lstm="$source_dir/examples/lstm.apc -D layers=2 -D d=6 -D hidden=8 -D vocab=24 --dim seq=5"
apart() { /usr/bin/python3 -c '
import json, struct, sys
import numpy as np
def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], "<f4")
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
a, b = load(sys.argv[1]), load(sys.argv[2])
assert a.keys() == b.keys() and a
for k in a: assert np.abs(a[k] - b[k]).max() <= 1e-5 * np.abs(b[k]).max() + 1e-7, k' "$@"; }
same_weights() { # same_weights MODEL LOSS DATA CUT...
  local model=$1 loss=$2 data=$3 cut
  shift 3
  for cut in "--target cpu" "$@"; do
    # shellcheck disable=SC2086
    {
    expect 0 "" "$apc" compile $model -q --train $loss --optimizer 'sgd(lr=0.1)' --batch 4 $cut -o trainer
    expect 0 "" ./trainer --steps 3 $data --save got.safetensors
    }
    [ "$cut" = "--target cpu" ] && cp got.safetensors want.safetensors
    check "$cut: the weights of one rank" apart got.safetensors want.safetensors
  done
}
same_weights shared.apc mse "--data x=@x.npy --data labels=@y.npy" "--target cpux2 --pp 2 --micro-batches 2" "--target cpux4 --pp 4 --micro-batches 2"
same_weights "$lstm" cross_entropy "--data tokens=@t.bin" "--target cpux2 --dp 2" "--target cpux2 --pp 2 --micro-batches 2"
# shellcheck disable=SC2086
{
expect 0 "gradients and differences" "$apc" verify $lstm -q --train cross_entropy --batch 4 --target cpux2 --dp 2
expect 5 "the number of its rounds is not known; bind the dimension" "$apc" plan ${lstm% --dim*} -q --train cross_entropy --batch 4
}
# A loop whose body only swaps its carries makes operations, too: the numbers of its rounds.
cat >swaps.apc <<'M'
dim batch
entry main(x: f32[batch, 4]) {
  weight w : f32[4, 4] = normal(0.3)
  h = x
  g = x
  loop t < 2000000000 carrying h, g {
    a = h
    h = g
    g = a
  }
  output y = matmul(h, w)
}
M
expect 5 "the loop 't' cannot be trained: it has too many rounds" "$apc" plan swaps.apc -q --train mse --batch 4
summary 61 31
