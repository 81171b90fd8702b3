#!/bin/bash
# ONNX files in training mode: batch norms by the batch, with running statistics, and dropouts that drop; --train-mode
# for files that were exported for inference.  References are computed by numpy.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
cat >models.py <<'P'
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
rng = np.random.default_rng(1)
node, F = helper.make_node, np.float32
image = (3 + 2 * rng.standard_normal((12, 3, 4, 4))).astype(F)
np.save("image", image), np.save("zeros", np.zeros((12, 3, 4, 4), F))
np.save("ones", np.ones((8, 64), F)), np.save("none", np.zeros((8, 64), F))

def add_note(message, number, key, text): # a map entry in a field that is newer than the library
    size = lambda n: bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7])
    entry = b"".join(bytes([tag]) + size(len(t)) + t for tag, t in ((10, key.encode()), (18, text.encode())))
    message.MergeFromString(bytes([number << 3 | 2]) + size(len(entry)) + entry)

def save(name, nodes, weights, shape, producer="pytorch", opset=15, functions=[], notes={}, kinds={}):
    info = helper.make_tensor_value_info
    values = [info(n, TensorProto.FLOAT, weights[n].shape) for n in kinds]
    for v in values:
        add_note(v, 4, "pkg.torch.export.graph_signature.InputSpec.kind", kinds[v.name])
        add_note(v, 4, "pkg.torch.onnx.original_node_name", kinds[v.name].lower()[0] + "_" + v.name.replace(".", "_"))
    for n in nodes:
        if n.name in notes:
            add_note(n, 9, "pkg.torch.onnx.fx_node", notes[n.name])
            add_note(n, 9, "pkg.torch.onnx.name_scopes", f"['', '{n.name}', 'call']")
    graph = helper.make_graph(nodes, name, [info("x", TensorProto.FLOAT, ["batch", *shape])],
                              [info("y", TensorProto.FLOAT, ["batch", *shape])],
                              [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()], value_info=values)
    sets = [helper.make_opsetid("", opset)] + [helper.make_opsetid("own", 1)] * bool(functions)
    model = helper.make_model(graph, opset_imports=sets, producer_name=producer, functions=functions)
    model.ir_version = 8
    onnx.save(model, name + ".onnx")

# A convolution and a batch norm, as exporters write them.
conv = {"w": rng.standard_normal((3, 3, 1, 1)).astype(F)}
kept = {"bn.weight": np.ones(3, F), "bn.bias": np.zeros(3, F), "bn.running_mean": np.zeros(3, F), "bn.running_var": np.ones(3, F)}
operands = ["h", *kept]
norm = lambda name, outputs=("y", "m", "v"), **more: [node("Conv", ["x", "w"], ["h"], "/conv/Conv"),
    node("BatchNormalization", operands, list(outputs), name, momentum=.9, **more)]
small = {**conv, **kept}
image_shape = (3, 4, 4)
save("trained", norm("/bn/BatchNormalization", training_mode=1), small, image_shape)
save("biased", norm("bn", training_mode=1), small, image_shape, producer="other")
save("before14", norm("bn", ("y", "m", "v", "sm", "sv")), small, image_shape, opset=13)
save("frozen", norm("/bn/BatchNormalization", ("y",)), small, image_shape)
call = "%n : call_function[target=torch.ops.aten._native_batch_norm_legit_functional.default](args = (%h, %p_bn_weight, %p_bn_bias, %b_bn_running_mean, %b_bn_running_var, True, 0.1, 1e-05))"
kinds = {n: "BUFFER" if "running" in n else "PARAMETER" for n in small}
save("noted", norm("bn", ("y",)), small, image_shape, notes={"bn": call}, kinds=kinds)
fn = helper.make_function("own", "Norm", operands, ["y"], [node("BatchNormalization", operands, ["y", "m", "v"], "inner", momentum=.9, training_mode=1)],
                          [helper.make_opsetid("", 15)])
save("function", [norm("")[0], node("Norm", operands, ["y"], "bn", domain="own")], small, image_shape, functions=[fn])

# Two norms of a fresh model, whose equal tensors the file has once; and one module that is called twice.
shared = {**conv, "ones": np.ones(3, F), "zeros": np.zeros(3, F)}
one = lambda name, x, y, mean="zeros", var="ones": node("BatchNormalization", [x, "ones", "zeros", mean, var], [y, "m" + y, "v" + y], name, momentum=.9, training_mode=1)
pair = [norm("")[0], one("first", "h", "k"), node("Relu", ["k"], ["r"]), one("second", "r", "y")]
save("pair", pair, shared, image_shape, producer="other")
separate = {**conv, **{f"{n}.{k}": f(3, dtype=F) for n in ("first", "second") for k, f in (("weight", np.ones), ("bias", np.zeros), ("mean", np.zeros), ("var", np.ones))}}
of = lambda n, x, y: node("BatchNormalization", [x, *(f"{n}.{k}" for k in ("weight", "bias", "mean", "var"))], [y, "m" + y, "v" + y], n, momentum=.9, training_mode=1)
save("separate", [norm("")[0], of("first", "h", "k"), node("Relu", ["k"], ["r"]), of("second", "r", "y")], separate, image_shape, producer="other")
save("twice", [norm("")[0], of("first", "h", "k"), node("Relu", ["k"], ["r"]), of("first", "r", "y")],
     {k: v for k, v in separate.items() if "second" not in k}, image_shape)
computed = [norm("")[0], node("Add", ["mean", "mean"], ["sum"]), node("BatchNormalization", ["h", "g", "b", "sum", "var"], ["y", "m", "v"], "bn", training_mode=1)]
# A norm without running statistics, as newer exporters write it: mean and variance are computed by the file.
own = [norm("")[0], node("ReduceMean", ["h"], ["m"], axes=[0, 2, 3], keepdims=0), node("ReduceMean", ["h"], ["mk"], axes=[0, 2, 3]),
       node("Sub", ["h", "mk"], ["d"]), node("Mul", ["d", "d"], ["q"]), node("ReduceMean", ["q"], ["v"], axes=[0, 2, 3], keepdims=0),
       node("BatchNormalization", ["h", "g", "b", "m", "v"], ["y"], "bn")]
save("itself", own, {**conv, "g": np.ones(3, F), "b": np.zeros(3, F)}, image_shape)
save("computed", computed, {**conv, "g": np.ones(3, F), "b": np.zeros(3, F), "mean": np.ones(3, F), "var": np.ones(3, F)}, image_shape)

# Both in the bodies of a loop and of a branch.
info = helper.make_tensor_value_info
inner = {"norm": lambda x, y: node("BatchNormalization", [x, *kept], [y, "m", "v"], "norm", training_mode=1),
         "drop": lambda x, y: node("Dropout", [x, "p", "on"], [y], "drop")}
for kind, make in inner.items():
    weights = {**small, "p": np.array(.25, F), "on": np.array(True), "three": np.array(3), "zero": np.array(0, F)}
    then = helper.make_graph([make("h", "t")], "then", [], [info("t", TensorProto.FLOAT, None)])
    other = helper.make_graph([node("Identity", ["h"], ["e"])], "other", [], [info("e", TensorProto.FLOAT, None)])
    save("branch_" + kind, [norm("")[0], node("ReduceSum", ["h"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"]),
                            node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)], weights, image_shape)
    body = helper.make_graph([node("Identity", ["ci"], ["co"]), make("hi", "ho")], "body",
                             [info("i", TensorProto.INT64, []), info("ci", TensorProto.BOOL, []), info("hi", TensorProto.FLOAT, ["batch", *image_shape])],
                             [info("co", TensorProto.BOOL, []), info("ho", TensorProto.FLOAT, ["batch", *image_shape])])
    save("loop_" + kind, [norm("")[0], node("Loop", ["three", "on", "h"], ["y"], "loop", body=body)], weights, image_shape)

# Dropout of a product whose elements are 1: the mean square of the result counts the elements that are kept.
flat = {"w": np.full((64, 64), 1 / 64, F)}
ratio = lambda p: {"p": np.array(p, F), "on": np.array(True)}
product = node("MatMul", ["x", "w"], ["h"])
drop = lambda *more, **attrs: [product, node("Dropout", ["h", *more], ["y"], "/drop/Dropout", **attrs)]
save("dropped", drop("p", "on"), {**flat, **ratio(.25)}, (64,), producer="other")
save("zero", drop("p", "on"), {**flat, **ratio(0)}, (64,))
save("plain", [product, node("Identity", ["h"], ["y"])], flat, (64,))
save("all", drop("p", "on"), {**flat, **ratio(1)}, (64,))
save("beyond", drop("p", "on"), {**flat, **ratio(1.5)}, (64,))
save("idle", drop("p"), {**flat, **ratio(.25)}, (64,))
save("old", drop(ratio=.25), flat, (64,), opset=11)
body = helper.make_function("own", "Drop", ["h", "p", "on"], ["y"], [node("Dropout", ["h", "p", "on"], ["y"], "inner")], [helper.make_opsetid("", 15)])
save("body", [product, node("Drop", ["h", "p", "on"], ["y"], "drop", domain="own")], {**flat, **ratio(.25)}, (64,), functions=[body])
# PyTorch's Dropout2d and DropPath: a mask that the file draws.
path = [product, node("RandomUniformLike", ["h"], ["u"], "draw"), node("Less", ["u", "keep"], ["less"]), node("Cast", ["less"], ["mask"], to=1),
        node("Div", ["mask", "keep"], ["share"], "path"), node("Mul", ["h", "share"], ["y"])]
save("path", path, {**flat, "keep": np.array(.75, F)}, (64,))
save("noise", [product, node("RandomNormalLike", ["h"], ["u"], "draw"), node("Add", ["h", "u"], ["y"])], flat, (64,))
P
/usr/bin/python3 models.py || exit 1

# Batch norm: statistics of the whole batch over all ranks; running ones are states under the names of the file.
bn() { # bn KIND FILE OPTIONS: trains the file, and compares with numpy
  local kind=$1 file=$2
  shift 2
  expect 0 "" "$apc" compile "$file.onnx" -q --train mse --optimizer 'sgd(lr=.1,train=bn.*)' --batch 6 "$@" -o trainer
  expect 0 "" ./trainer --steps 4 --data x=@image.npy --data labels=@zeros.npy --shuffle none --json --save w.safetensors \
    --eval x=@image.npy --eval labels=@zeros.npy --checkpoint at
  check "batch norm, $file $*" /usr/bin/python3 "$source_dir/tests/cli/normed.py" weight bias running_mean running_var "$kind"
}
bn unbiased trained
bn unbiased trained --target cpux2 --dp 2
bn unbiased trained --target cpux3 --dp 3
bn biased biased
bn unbiased before14
bn unbiased noted
bn unbiased function
bn unbiased frozen --train-mode bn
bn unbiased frozen --train-mode '*/BatchNormalization' --target cpux2 --dp 2
expect 0 "" ./trainer --steps 8 --data x=@image.npy --data labels=@zeros.npy --shuffle none --save whole.safetensors
expect 0 "" ./trainer --steps 8 --data x=@image.npy --data labels=@zeros.npy --shuffle none --resume at --save rest.safetensors
check "statistics go on" cmp whole.safetensors rest.safetensors
expect 0 'batch norms take mean and variance from the batch: "bn" (running variances are unbiased' \
  "$apc" plan trained.onnx --train mse --batch 6
expect 0 'batch norms that keep their stored statistics: "bn" (--train-mode' "$apc" plan frozen.onnx --train mse --batch 6
expect 0 "" "$apc" verify trained.onnx -q --train mse --batch 6 --target cpux2 --dp 2
check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
expect_out "state bn.running_mean"
expect_out "gradients and differences of the loss"
expect 3 'cannot be cut into 2 micro-batches' "$apc" plan trained.onnx -q --train mse --batch 6 --micro-batches 2

# The weights come back into the file, and as weights of another export.
expect 0 "" "$apc" run frozen.onnx -q --weights w.safetensors --input x=@image.npy --output y=@y.npy
expect 0 "" "$apc" convert frozen.onnx back.onnx --weights w.safetensors
expect 0 "" "$apc" run back.onnx -q --input x=@image.npy --output y=@z.npy
check "a converted file computes the same" cmp y.npy z.npy

# Statistics that the file has once are one for each norm; a module that is called twice moves its own twice.
for m in pair separate twice; do
  expect 0 "" "$apc" compile $m.onnx -q --train mse --optimizer 'sgd(lr=.1)' --batch 6 -o trainer
  expect 0 "" ./trainer --steps 3 --data x=@image.npy --data labels=@zeros.npy --shuffle none --json --save $m.safetensors
  losses out >$m.losses
done
check "norms of equal tensors" near pair.losses separate.losses 1e-6
check "each with its statistics" /usr/bin/python3 -c '
import json, struct, numpy as np
def load(name):
    raw = open(name + ".safetensors", "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], "f4").reshape(v["shape"])
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
pair, separate, twice = load("pair"), load("separate"), load("twice")
means = [v for k, v in pair.items() if abs(v - separate["first.mean"]).max() < 1e-6]
others = [v for k, v in pair.items() if abs(v - separate["second.mean"]).max() < 1e-6]
assert len(means) == 1 and len(others) == 1, (pair, separate)
x, w, mean = np.load("image.npy").astype("f8"), twice["w"].astype("f8"), 0
'
cat >twice.py <<'P'
import numpy as np, onnx, json
from onnx import numpy_helper
t = {i.name: numpy_helper.to_array(i).astype("f8") for i in onnx.load("twice.onnx").graph.initializer}
x = np.einsum("nchw,oc->nohw", np.load("image.npy").astype("f8")[:6], t["w"][:, :, 0, 0])
mean, wide = np.zeros(3), lambda a: a[:, None, None]
for i in range(2):
    m, v = x.mean((0, 2, 3)), x.var((0, 2, 3))
    mean = .9 * mean + .1 * m
    x = (x - wide(m)) / np.sqrt(wide(v) + 1e-5)
    if i == 0: x = np.maximum(x, 0)
import struct
raw = open("w.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
e = json.loads(raw[8:8 + n])["first.mean"]["data_offsets"]
got = np.frombuffer(raw[8 + n + e[0]:8 + n + e[1]], "f4")
assert abs(got - mean).max() < 1e-5, (got, mean)
P
expect 0 "" ./trainer --steps 1 --data x=@image.npy --data labels=@zeros.npy --shuffle none --save w.safetensors
check "a module that is called twice" /usr/bin/python3 twice.py
expect 1 "a running statistic is computed" "$apc" plan computed.onnx --train mse --batch 6
for how in "" "--train-mode *"; do
  # shellcheck disable=SC2086
  set -f; expect 0 "trains 3 of 3 weights" "$apc" plan itself.onnx --train mse --batch 6 $how; set +f
  check "a norm without running statistics has no mode" eval '! grep -q "batch norms" err'
done
# In loops and branches neither is built.
for file in branch loop; do
  expect 5 "BatchNormalization: a batch norm in a loop or branch" "$apc" plan ${file}_norm.onnx -q --train mse --batch 6
  expect 5 "Dropout: random numbers in a loop or branch" "$apc" plan ${file}_drop.onnx -q --train mse --batch 6
done

# Without --train the file is computed as it says: by the batch.
expect 0 "batch norms in training mode take mean and variance from the batch" "$apc" run trained.onnx --input x=@image.npy --output y=@y.npy
check "by the batch" /usr/bin/python3 -c 'import numpy as np; y = np.load("y.npy"); assert abs(y.mean((0, 2, 3))).max() < 1e-5 and abs(y.var((0, 2, 3)) - 1).max() < 1e-4'

# Dropout: masks are those of one rank however the step is cut, differ in every step, and are absent in evaluation.
cuts=0
for cut in "--target cpu" "--target cpux2 --dp 2" "--target cpux2 --tp 2" "--target cpux4 --dp 2 --tp 2" \
  "--target cpu --micro-batches 4" "--target cpux2 --pp 2 --micro-batches 2" "--target cpu --recompute selective"; do
  [ "$cut" = "--target cpu" ] || in_quarter $((cuts++)) || continue
  # shellcheck disable=SC2086
  expect 0 "" "$apc" compile dropped.onnx -q --train mse --optimizer 'sgd(lr=0)' --batch 8 $cut -o trainer
  expect 0 "" ./trainer --steps 6 --data x=@ones.npy --data labels=@none.npy --json --eval x=@ones.npy --eval labels=@none.npy
  check "$cut: eval has no dropout" grep -q '"eval_loss":1,' out
  grep -v eval_loss out >lines
  losses lines >dropped.got
  [ "$cut" = "--target cpu" ] && cp dropped.got dropped.want
  check "$cut: the masks of one rank" near dropped.got dropped.want 1e-6
done
cat >density.py <<'P'
import sys
x = [float(l) for l in open(sys.argv[1])]
assert len(set(x)) > 3, x  # two steps may keep equally many
kept = [l * .75 ** 2 * 512 for l in x]  # whole numbers of elements
assert all(abs(k - round(k)) < 1e-2 and abs(k / 512 - .75) < .08 for k in kept), kept
P
check "in each step another mask, of the right density" /usr/bin/python3 density.py dropped.want
step() { # step FILE OPTIONS: the losses of six steps without learning, and the evaluation
  local file=$1
  shift
  expect 0 "" "$apc" compile "$file.onnx" -q --train mse --optimizer 'sgd(lr=0)' --batch 8 "$@" -o trainer
  expect 0 "" ./trainer --steps 6 --data x=@ones.npy --data labels=@none.npy --json --eval x=@ones.npy --eval labels=@none.npy
  cp out whole
  grep -v eval_loss whole >out
  losses out >"$file.losses"
}
for how in "idle --train-mode *drop*" "old --train-mode drop.*" body path; do
  # shellcheck disable=SC2086
  set -f; step $how; set +f
  check "$how: masks" /usr/bin/python3 density.py "${how%% *}.losses"
  check "$how: no dropout in evaluation" grep -q '"eval_loss":1,' whole
done
for file in zero plain idle; do
  step $file
  check "$file drops nothing" test "$(sort -u $file.losses)" = 1
done
expect 0 'dropouts that drop values: "path"' "$apc" plan path.onnx --train mse --batch 8
check "its mask is not drawn in evaluation" bash -c '! grep -q "evaluation draws" err'
step all
check "a ratio of 1 drops all" test "$(sort -u all.losses)" = 0
step noise
check "noise stays in evaluation" bash -c '! grep -q "\"eval_loss\":1," whole'
expect 0 'random numbers that evaluation draws too: "draw"' "$apc" plan noise.onnx --train mse --batch 8
expect 0 'dropouts that do nothing, as the file says: "/drop/Dropout" (--train-mode' "$apc" plan idle.onnx --train mse --batch 8
expect 0 'dropouts that drop values: "/drop/Dropout"' "$apc" plan dropped.onnx --train mse --batch 8
expect 0 "" "$apc" verify dropped.onnx -q --train mse --batch 8 --target cpux4 --dp 2 --tp 2
check "it is not proved" grep -Eq "^proved .*the parallel program computes the model" out
expect 1 "which is not in [0, 1]" "$apc" plan beyond.onnx --train mse --batch 8
expect 1 "training_mode is true: --train drops values" "$apc" plan dropped.onnx --dim batch=8

# Globs that fit nothing are errors, which name what there is.
expect 2 "--train-mode none*: the file has no batch norm or dropout of that name" "$apc" plan frozen.onnx --train mse --batch 6 --train-mode 'none*'
expect_err 'batch norms of the file: "bn"'
expect_err "folded into a convolution"
expect 2 "--train-mode *: the file has no batch norm or dropout" "$apc" plan plain.onnx --train mse --batch 8 --train-mode '*'
expect 5 "inserting a dropout" "$apc" plan plain.onnx --train mse --batch 8 --train-mode 'h=dropout(0.1)'
expect 2 "--train-mode needs --train" "$apc" plan frozen.onnx --train-mode bn
expect 2 "--train-mode needs an .onnx model" "$apc" plan "$source_dir/examples/mlp.apc" -D layers=2 -D d=12 --train mse --batch 8 --train-mode '*'
summary 130 106
