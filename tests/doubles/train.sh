#!/bin/bash
# Training steps for GPUs, run on the doubles: losses, norms and trained weights equal those of one CPU rank, to 1e-4 in
# f32 and 2e-2 in bf16, recorded and call by call, with convolutions by cuDNN and by our kernels; no double reports
# anything.  For pipelines, whose transfers are waited for in other bodies, no double reports that two pieces of work
# use memory without an order (watch.h).
#
# usage: train.sh APC DOUBLES
. "$(dirname "$0")/../cli/lib.sh"
doubles=$(realpath "$2")
"$apc" plan "$source_dir/examples/mlp.apc" -q --target dgx-a100x2 -S >/dev/null 2>err || { cat err; exit 77; }
/usr/bin/python3 - <<'P'
import numpy as np
r = np.random.default_rng(0)
t = r.integers(0, 64, (12, 17))
np.save("tokens.npy", t[:, :16])
np.save("next.npy", t[:, 1:])
np.save("images.npy", r.standard_normal((8, 3, 32, 32)).astype("f4"))
np.save("class.npy", r.integers(0, 10, 8))
np.save("x.npy", r.standard_normal((16, 12)).astype("f4"))
np.save("y.npy", r.standard_normal((16, 3)).astype("f4"))
keys = r.random((8, 24, 24)) < 0.6
keys[:, 5:9] = keys[1] = False # queries whose keys are all masked
np.save("keys.npy", keys.astype("i8"))
np.save("rows.npy", r.standard_normal((8, 24, 16)).astype("f4"))
np.save("mixed.npy", r.standard_normal((8, 2, 24, 8)).astype("f4"))
P

# near TOLERANCE A B: lines of losses and norms, and weights
near() { /usr/bin/python3 - "$@" <<'P'
import json, struct, sys, numpy as np
def weights(f):
    raw = open(f, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], "f4").astype("f8")
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
tolerance, a, b = float(sys.argv[1]), sys.argv[2], sys.argv[3]
x, y = ([json.loads(line) for line in open(f + ".json")] for f in (a, b))
assert len(x) == len(y) == 3, (len(x), len(y))
for p, q in zip(x, y):
    for k in ("loss", "grad_norm", "lr"):
        assert abs(p[k] - q[k]) <= tolerance * (1 + abs(p[k])), (k, p, q)
x, y = weights(a + ".safetensors"), weights(b + ".safetensors")
assert x.keys() == y.keys()
for k in x:
    assert np.linalg.norm(x[k] - y[k]) <= tolerance * (1e-2 + np.linalg.norm(x[k])), (k, np.abs(x[k] - y[k]).max())
P
}

# steps PROGRAM NAME DATA...
steps() {
  local program=$1 name=$2
  shift 2
  expect 0 "" ./"$program" --steps 3 "$@" --shuffle none --json --save "$name.safetensors"
  cp out "$name.json"
}

# trains TOLERANCE PLAN MODEL DATA...: words of plan and model in one argument each; a quarter of all cases
number=0
trains() {
  in_quarter $((number++)) || return 1
  local tolerance=$1 plan=$2 model=$3
  shift 3
  # shellcheck disable=SC2086
  expect 0 "" "$apc" compile $model -q --target cpu -o host
  steps host host "$@"
  rm -rf texts
  # shellcheck disable=SC2086
  expect 0 "" "$apc" compile $model -q $plan --save-temps=texts -o device
  for how in recorded APC_EAGER=1 APC_CONV=kernel; do
    [ $how != APC_CONV=kernel ] || [[ $model = *resnet* ]] || continue
    export LD_LIBRARY_PATH=$doubles DOUBLES_TEXTS=$PWD/texts DOUBLES_ARCH=80 DOUBLES_REPORT=$PWD/report
    [ $how = recorded ] || export "${how?}"
    [[ $plan != *--pp* ]] || export DOUBLES_WATCH=1
    steps device device "$@"
    unset LD_LIBRARY_PATH DOUBLES_TEXTS DOUBLES_ARCH DOUBLES_REPORT DOUBLES_WATCH APC_EAGER APC_CONV
    check "$model, $plan, $how: as on a CPU" near "$tolerance" host device
    check "$model, $plan, $how: $(head -c 300 report 2>/dev/null)" test ! -e report
  done
  return 0
}

gpt="$source_dir/examples/gpt.apc -D layers=2 -D d=32 -D heads=4 -D vocab=64 -D ctx=16 --dim seq=16 --train cross_entropy --batch 4 --optimizer sgd(lr=1e-1,momentum=0.9,clip=1)"
text=(--data tokens=@tokens.npy --data labels=@next.npy)
trains 1e-4 "--target dgx-a100x4 --dp 2 --tp 2 --micro-batches 2 --recompute full" "$gpt" "${text[@]}"
trains 1e-4 "--target dgx-a100x2 --pp 2 --micro-batches 4" "$gpt" "${text[@]}"
trains 1e-4 "--target dgx-a100x4 --pp 4 --micro-batches 4 --schedule zbh1" "$gpt" "${text[@]}"
trains 1e-4 "--target dgx-a100x4 --pp 2 --dp 2 --micro-batches 2 --schedule zbv" "$gpt" "${text[@]}"
trains 1e-4 "--target dgx-a100x2 --dp 2 --zero 3 --micro-batches 2" "$gpt" "${text[@]}"
# The gradient of a key's bias is 0 except for rounding: eps keeps the optimizer from following that.
adamw="${gpt/sgd*/adamw(lr=1e-2,eps=1e-3,clip=1,decay=*.w)}"
trains 1e-4 "--target dgx-a100x4 --dp 2 --tp 2 --zero 2" "$adamw --freeze wpe" "${text[@]}"
trains 2e-2 "--target dgx-a100x2 --tp 2" "$gpt --dtype bf16" "${text[@]}"
llama="$source_dir/examples/llama.apc -D layers=1 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=64 --dim seq=16 --train cross_entropy --batch 4 --optimizer sgd(lr=1e-1)"
trains 1e-4 "--target dgx-a100x2 --cp 2" "$llama" "${text[@]}"
# masks that are huge finite numbers
cat >masked.apc <<'M'
param low = -1e9
dim batch, seq
entry main(x: f32[batch, seq, 16], keys: i64[batch, seq, seq]) {
  weight wq : f32[16, 2, 8] = normal(0.5)
  weight wk : f32[16, 2, 8] = normal(0.5)
  weight wv : f32[16, 2, 8] = normal(0.5)
  scores = einsum("bhsk,bhtk->bhst", einsum("bsd,dhk->bhsk", x, wq), einsum("bsd,dhk->bhsk", x, wk)) / sqrt(8.0)
  share = softmax(scores + reshape(cast(1 - keys, f32) * low, [batch, 1, seq, seq]))
  output y = einsum("bhst,bhtk->bhsk", share, einsum("bsd,dhk->bhsk", x, wv))
}
M
masked="masked.apc --train mse --batch 4 --dim-hint seq=24 --optimizer sgd(lr=1e-1)"
hidden=(--data x=@rows.npy --data keys=@keys.npy --data labels=@mixed.npy)
trains 1e-4 "--target dgx-a100x2 --cp 2" "$masked" "${hidden[@]}"
trains 2e-2 "--target dgx-a100x2 --tp 2" "$masked -D low=-3.4e38 --dtype bf16" "${hidden[@]}"
resnet="$source_dir/examples/resnet.apc -D depth=18 -D classes=10 -D image=32 -D width=8 --train cross_entropy --batch 4 --optimizer sgd(lr=1e-3)"
trains 1e-4 "--target dgx-a100x2 --dp 2" "$resnet" --data x=@images.npy --data labels=@class.npy
export DOUBLES_DNN_GAPS=0 DOUBLES_ON=0 DOUBLES_NAMES=$PWD/names # all of it by cuDNN
if trains 1e-4 "--target dgx-a100x2 --dp 2" "$resnet" --data x=@images.npy --data labels=@class.npy; then
  for of in Forward BackwardData BackwardFilter; do
    check "cuDNN is asked for Convolution$of" grep -qx "cudnnConvolution$of" names
  done
fi
unset DOUBLES_DNN_GAPS DOUBLES_ON DOUBLES_NAMES
printf '%s\n' 'apc.ir 1' 'param "w" : f32[12, 3] = normal 1 seed 1' 'func @main level 1 {' \
  '  %x = input {name="x"} : f32[8, 12]' '  %w = param {name="w"} : f32[12, 3]' \
  '  %h = dot %x, %w {spec="bm,mn->bn"} : f32[8, 3]' \
  '  %r = random {kind="uniform", seed=3, starts=[0, 0], extents=[8, 3]} : f32[8, 3]' '  %y = mul %h, %r : f32[8, 3]' \
  '  output "y" %y' '}' >noisy.ir
trains 1e-4 "--target dgx-a100x2 --dp 2" "noisy.ir --train mse --optimizer sgd(lr=1e-2)" --data x=@x.npy --data labels=@y.npy

# A file in training mode: batch norm by the batch, with its running statistics, and dropout.
/usr/bin/python3 - <<'P'
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
r, F, node = np.random.default_rng(4), np.float32, helper.make_node
weights = {"w": .3 * r.standard_normal((8, 3, 3, 3)), "bn.weight": np.ones(8), "bn.bias": np.zeros(8), "bn.running_mean": np.zeros(8),
           "bn.running_var": np.ones(8), "v": .3 * r.standard_normal((8, 10))}
nodes = [node("Conv", ["x", "w"], ["a"], pads=[1] * 4), node("BatchNormalization", ["a", *list(weights)[1:5]], ["b", "m", "s"], "bn", training_mode=1),
         node("Relu", ["b"], ["c"]), node("Dropout", ["c", "p", "on"], ["d"], "drop"), node("GlobalAveragePool", ["d"], ["e"]),
         node("Flatten", ["e"], ["f"]), node("MatMul", ["f", "v"], ["y"])]
info = lambda n, *dims: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", *dims])
every = [numpy_helper.from_array(v.astype(F), n) for n, v in weights.items()]
every += [numpy_helper.from_array(np.array(.25, F), "p"), numpy_helper.from_array(np.array(True), "on")]
model = helper.make_model(helper.make_graph(nodes, "g", [info("x", 3, 32, 32)], [info("y", 10)], every), opset_imports=[helper.make_opsetid("", 15)])
model.ir_version = 8
onnx.save(model, "exported.onnx")
P
trains 1e-4 "--target dgx-a100x2 --dp 2" "exported.onnx --train cross_entropy --batch 4 --optimizer sgd(lr=1e-1)" \
  --data x=@images.npy --data labels=@class.npy

# Checkpoints between steps that are one graph each: no graph contains the writing of files by ranks.
mlp="$source_dir/examples/mlp.apc -D layers=2 -D d=12 --train mse --batch 8"
rows=(--data x=@x.npy --data labels=@x.npy --steps 6)
rm -rf texts
# shellcheck disable=SC2086
expect 0 "" "$apc" compile $mlp -q --target dgx-a100x2 --dp 2 --zero 1 --save-temps=texts -o device
export LD_LIBRARY_PATH=$doubles DOUBLES_TEXTS=$PWD/texts DOUBLES_ARCH=80 DOUBLES_REPORT=$PWD/report
expect 0 "" ./device "${rows[@]}" --checkpoint kept --every 1 --save graphs.safetensors
APC_EAGER=1 expect 0 "" ./device "${rows[@]}" --save calls.safetensors
expect 0 "" ./device "${rows[@]}" --steps 4 --checkpoint kept4 --every 2
expect 0 "" ./device "${rows[@]}" --resume kept4 --save resumed.safetensors
unset LD_LIBRARY_PATH DOUBLES_TEXTS DOUBLES_ARCH DOUBLES_REPORT
check "with checkpoints, without, and resumed" eval 'cmp graphs.safetensors calls.safetensors && cmp graphs.safetensors resumed.safetensors'
check "no double reports anything" test ! -e report
summary 111 20
