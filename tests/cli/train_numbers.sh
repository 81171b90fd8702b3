#!/bin/bash
# Weights of one element in an ONNX file: the bias of a layer with one result is trained, as NumPy trains it, and a
# scale is not, unless it is named; the model computes with the trained values afterwards.
. "$(dirname "$0")/lib.sh"
cat >model.py <<'P'
import sys
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
rng = np.random.default_rng(7)
weights = {"w": rng.normal(size=(1, 8)), "bias": [0.25], "k": [[0.5]], "added": [-0.125], "scale": [0.75]}
weights = {name: np.array(v, np.float32) for name, v in weights.items()}
nodes = [
    helper.make_node("Gemm", ["x", "w", "bias"], ["a"], transB=1),
    helper.make_node("MatMul", ["a", "k"], ["b"]),
    helper.make_node("Add", ["b", "added"], ["c"]),
    helper.make_node("Mul", ["c", "scale"], ["y"]),
]
info = lambda name, columns: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", columns])
graph = helper.make_graph(nodes, "numbers", [info("x", 8)], [info("y", 1)], [numpy_helper.from_array(v, n) for n, v in weights.items()])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
model.ir_version = 8
onnx.save(model, "m.onnx")
x, y = rng.normal(size=(40, 8)).astype(np.float32), rng.normal(size=(40, 1)).astype(np.float32)
np.save("x.npy", x), np.save("y.npy", y)

def steps(trained):
    p = {n: v.astype(np.float64) for n, v in weights.items()}
    for i in range(5):
        rows, want = x[8 * i:8 * i + 8], y[8 * i:8 * i + 8]
        a = rows @ p["w"].T + p["bias"]
        c = a @ p["k"] + p["added"]
        gy = 2 * (c * p["scale"] - want) / 8
        gc = gy * p["scale"]
        ga = gc @ p["k"].T
        g = {"scale": [(gy * c).sum()], "added": [gc.sum()], "k": a.T @ gc, "bias": [ga.sum()], "w": ga.T @ rows}
        for n in trained: p[n] = p[n] - 0.1 * np.reshape(g[n], p[n].shape)
    return {n: p[n] for n in trained}
np.savez("default.npz", **steps(["w", "bias", "k", "added"]))
np.savez("named.npz", w=weights["w"], **steps(["bias", "scale"]))  # other weights are kept
P
/usr/bin/python3 model.py

# same WEIGHTS WANTED: the same names, and the numbers to 1e-5.
same() { /usr/bin/python3 - "$1" "$2" <<'P'
import json, struct, sys
import numpy as np
raw, want = open(sys.argv[1], "rb").read(), np.load(sys.argv[2])
n = struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8:8 + n])
head.pop("__metadata__", None)
assert sorted(head) == sorted(want.files), sorted(head)
for name, v in head.items():
    got = np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], np.float32).reshape(v["shape"])
    assert got.shape == want[name].shape and np.allclose(got, want[name], rtol=1e-5, atol=1e-6), (name, got, want[name])
P
}
run="--steps 5 --shuffle none --data x=@x.npy --data labels=@y.npy --save"
train() { # train NAME OPTIMIZER
  expect 0 "" "$apc" m.onnx -q --train mse --optimizer "$2" --batch 8 --target cpux2 -o "$1"
  # shellcheck disable=SC2086
  expect 0 "" "./$1" $run "$1.safetensors"
  check "what $1 has trained" same "$1.safetensors" "$1.npz"
}
train default "sgd(lr=.1)"
train named "sgd(lr=.1,train=[bs][ic]a*)"

# A model with trained weights, by both ways; the untrained one computes something else.
for name in default named; do
  expect 0 "" "$apc" convert m.onnx $name.onnx -q --weights $name.safetensors
  expect 0 "" "$apc" run $name.onnx -q --input x=@x.npy --outputs $name.out.npz
  expect 0 "" "$apc" run m.onnx -q --weights $name.safetensors --input x=@x.npy --outputs got.npz
  check "the outputs of $name" cmp $name.out.npz got.npz
done
expect 0 "" "$apc" run m.onnx -q --input x=@x.npy --outputs first.npz
check "the first weights give other outputs" test "$(cmp first.npz default.out.npz >/dev/null; echo $?)" = 1
summary 16
