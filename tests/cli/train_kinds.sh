#!/bin/bash
# A file's information about its initializers decides what is trained: parameters are, one element or many; buffers,
# constants and values that the exporter computed from them are not; of the rest, initializers that are used as weights
# are.  In a file without information all weights are.  Guesses, and initializers that are not trained, are reported.
. "$(dirname "$0")/lib.sh"
cat >model.py <<'P'
import sys
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
said = sys.argv[1] == "said"
rng = np.random.default_rng(7)
draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
weights = {"w": draw(8, 6), "gain": draw(1), "shift": draw(1), "pe": draw(6), "lifted": draw(6), "table": draw(6),
           "turned": draw(6, 6), "scaled": draw(6, 6), "wide": draw(1, 6), "made": draw(6), "buffer": draw(6),
           "zeros": np.zeros(6, np.float32), "old": draw(6)}
node = helper.make_node
nodes = [node("MatMul", ["x", "w"], ["a"]), node("Mul", ["a", "gain"], ["b"]), node("MatMul", ["b", "turned"], ["c"]),
         node("Add", ["c", "shift"], ["d"]), node("Add", ["d", "pe"], ["e"]), node("Add", ["e", "lifted"], ["f"]),
         node("Mul", ["f", "table"], ["g"]), node("MatMul", ["g", "scaled"], ["h"]), node("Add", ["h", "wide"], ["i"]),
         node("Add", ["i", "made"], ["j"]), node("Add", ["j", "buffer"], ["k"]), node("Add", ["k", "zeros"], ["l"]),
         node("Add", ["l", "zeros"], ["m"]), node("Add", ["m", "old"], ["y"])]
info = helper.make_tensor_value_info
values = [info(name, TensorProto.FLOAT, v.shape) for name, v in weights.items()]

# Fields that are newer than the library: a map entry in field `number`.
def add_note(message, number, key, text):
    entry = b"".join(bytes([tag, len(t)]) + t if len(t) < 128 else bytes([tag, len(t) & 127 | 128, len(t) >> 7]) + t
                     for tag, t in ((10, key.encode()), (18, text.encode())))
    message.MergeFromString(bytes([number << 3 | 2, len(entry) & 127 | 128, len(entry) >> 7]) + entry)

kinds = {"w": "PARAMETER", "gain": "PARAMETER", "shift": "BUFFER", "pe": "BUFFER", "lifted": "CONSTANT_TENSOR", "zeros": "PARAMETER"}
folded = {"turned": "['inner.weight']", "table": "['arange', 'cos', 'rotary.inv_freq']", "scaled": "['mul', 'norm.g', 'norm.v']",
          "wide": "['val_1', 'val_2', 'wide_one']", "made": "['arange_1', 'mul_2']", "buffer": "['other.table']"}
if said:
    for v in values:
        if v.name in kinds: add_note(v, 4, "pkg.torch.export.graph_signature.InputSpec.kind", kinds[v.name])
        if v.name in folded: add_note(v, 4, "pkg.onnxscript.optimizer.folded_from", folded[v.name])
    quote = "%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%h, %p_wide_one), kwargs = {})"
    add_note(nodes[8], 9, "pkg.torch.onnx.fx_node", quote)
    add_note(nodes[10], 9, "pkg.torch.onnx.fx_node", quote.replace("p_wide_one", "b_other_table"))
graph = helper.make_graph(nodes, "kinds", [info("x", TensorProto.FLOAT, ["batch", 8])], [info("y", TensorProto.FLOAT, ["batch", 6])],
                          [numpy_helper.from_array(v, n) for n, v in weights.items()], value_info=values)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
model.ir_version = 8
onnx.save(model, sys.argv[1] + ".onnx")
np.savez(sys.argv[1] + ".npz", **weights)
np.save("x.npy", draw(16, 8)), np.save("y.npy", draw(16, 6))
P
/usr/bin/python3 model.py said
/usr/bin/python3 model.py nothing

# changed NAME: the weights that two steps changed.
changed() { /usr/bin/python3 - "$1" <<'P'
import json, struct, sys
import numpy as np
raw, first = open(sys.argv[1] + ".safetensors", "rb").read(), np.load(sys.argv[1] + ".npz")
n = struct.unpack("<Q", raw[:8])[0]
for name, v in sorted(json.loads(raw[8:8 + n]).items()):
    if name == "__metadata__": continue
    got = np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], np.float32)
    if not np.array_equal(got, first[name.replace(".1", "")].reshape(-1)): print(name, end=" ")
P
}
train() { # train NAME OPTIMIZER WANTED
  expect 0 "" "$apc" "$1.onnx" --train mse --optimizer "$2" --batch 8 --target cpux2 -o "$1"
  mv err warnings
  expect 0 "" "./$1" --steps 2 --data x=@x.npy --data labels=@y.npy --save "$1.safetensors"
  check "trained: $(changed "$1")" [ "$(changed "$1")" = "$3 " ]
}
says() { check "no message: $1" grep -qF -- "$1" warnings; }
train said "sgd(lr=.01)" "gain old scaled turned w wide zeros zeros.1"
says 'they are, so they are trained: "scaled", "old" (--freeze NAME keeps one unchanged)'
says 'not trained: "pe", "lifted"; the file says that they are not parameters (--trainable NAME trains one)'
says 'not trained: "made", "buffer"; the exporter computed them from constants'
says 'not trained: "table"; they reach no product, convolution, norm, gather or addition of data'
says 'trained separately, although the file stores them once: "zeros.1" (--tie A=B trains B as A)'
says 'trains 8 of 8 weights, 145 of 145'
check "the program says it too" grep -qx 'trains 8 of 8 weights, 145 of 145' err
train said "sgd(lr=.01,train=[ps]*)" "pe scaled shift" # whatever is named
says 'trains 3 of'
train said "sgd(lr=.01,freeze=w*)" "gain old scaled turned zeros zeros.1"
says 'not trained: "w", "wide"; excluded by train= or freeze= of --optimizer'
train nothing "sgd(lr=.01)" "buffer lifted made old pe scaled shift table turned w wide zeros zeros.1"
says 'trained separately, although the file stores them once: "zeros.1"'
expect 0 "" "$apc" run nothing.onnx -q --dim batch=2
no_err
summary 24
