#!/bin/bash
# One model in four files: with every weight separate, and as exporters write it: equal tensors once, a tied table
# twice, a token for every row of the batch, a bias of zeros left out.  All make the same steps; --tie, --untie, --pad,
# --trainable and --freeze change what is trained; the file computes with the trained weights afterwards.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
cat >model.py <<'P'
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
rng = np.random.default_rng(7)
draw = lambda *shape: (.5 * rng.normal(size=shape)).astype(np.float32)
D, V = 6, 12
zeros, ones = np.zeros(D, np.float32), np.ones(D, np.float32)
own = {"table": draw(V, D), "token": draw(1, 1, D), "a.w": draw(D, D), "b.w": draw(D, D), "c.w": draw(D, D), "places": draw(1, 5, D),
       "a.bias": zeros, "b.bias": zeros, "c.bias": zeros, "a.gain": ones, "b.gain": ones}
node = helper.make_node

def block(name, x, w, bias, gain, y):
    return [node("MatMul", [x, w], [name + ".dot"], f"/{name}/MatMul"), node("Add", [bias, name + ".dot"], [name + ".sum"], f"/{name}/Add"),
            node("Mul", [name + ".sum", gain], [name + ".scaled"], f"/{name}/Mul"), node("Relu", [name + ".scaled"], [y], f"/{name}/Relu")]

def nodes(token="token", a=("a.bias", "a.gain"), b=("b.bias", "b.gain"), bias=["c.bias"], head=None):
    expand = [] if token == "expanded" else [node("Expand", [token, "rows"], ["expanded"])]
    return [node("Gather", ["table", "ids"], ["embedded"], "/Gather")] + expand + [
        node("Concat", ["expanded", "embedded"], ["joined"], axis=1), node("Add", ["joined", "places"], ["x"]),
        *block("a", "x", "a.w", *a, "h"), *block("b", "h", "b.w", *b, "k"), node("Reshape", ["k", "flat"], ["k2"]),
        node("Gemm", ["k2", "c.w"] + bias, ["l2"], "c.Gemm"), node("Reshape", ["l2", "back"], ["l"]),
        *([] if head else [node("Transpose", ["table"], ["head"], perm=[1, 0])]), node("MatMul", ["l", head or "head"], ["y"], "/head/MatMul")]

def add_note(message, number, key, text): # a map entry in a field that is newer than the library
    size = lambda n: bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7])
    entry = b"".join(bytes([tag]) + size(len(t)) + t for tag, t in ((10, key.encode()), (18, text.encode())))
    message.MergeFromString(bytes([number << 3 | 2]) + size(len(entry)) + entry)

def save(name, nodes, weights, producer="", kinds={}, folded={}, quotes={}):
    info = helper.make_tensor_value_info
    values = [info(n, TensorProto.FLOAT, v.shape) for n, v in weights.items()] if kinds else []
    for v in values:
        if v.name in kinds: add_note(v, 4, "pkg.torch.export.graph_signature.InputSpec.kind", kinds[v.name])
        if v.name in kinds: add_note(v, 4, "pkg.torch.onnx.original_node_name", "p_" + v.name.replace(".", "_"))
        if v.name in folded: add_note(v, 4, "pkg.onnxscript.optimizer.folded_from", folded[v.name])
    for n in nodes:
        if n.name in quotes:
            add_note(n, 9, "pkg.torch.onnx.fx_node", quotes[n.name])
            add_note(n, 9, "pkg.torch.onnx.name_scopes", f"['', '{n.name.strip('/')[0]}', 'linear']")
            if n.op_type == "Gemm": add_note(n, 9, "pkg.onnxscript.rewriter.rule_name", "RemoveOptionalBiasFromGemm")
    shapes = {"rows": [2, 1, D], "flat": [10, D], "back": [2, 5, D]}
    every = [numpy_helper.from_array(v, n) for n, v in weights.items()] + [numpy_helper.from_array(np.array(v), n) for n, v in shapes.items()]
    every += [numpy_helper.from_array(zeros)] if name == "traced" else [] # one without a name
    graph = helper.make_graph(nodes, name, [info("ids", TensorProto.INT64, [2, 4])], [info("y", TensorProto.FLOAT, [2, 5, V])], every, value_info=values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name=producer)
    model.ir_version = 8
    onnx.save(model, name + ".onnx")

some = lambda *names: {n: own[n] for n in names}
save("own", nodes(), own)
matrices = some("table", "a.w", "b.w", "c.w", "places")
turned = np.ascontiguousarray(own["table"].T)
# The older exporter: an Identity for each equal tensor, and a transposed table.
same = [node("Identity", ["a.bias"], ["b.bias"]), node("Identity", ["a.bias"], ["c.bias"]), node("Identity", ["a.gain"], ["b.gain"])]
save("traced", same + nodes(head="onnx::MatMul_7"), {**matrices, **some("token", "a.bias", "a.gain"), "onnx::MatMul_7": turned}, "pytorch")
# The newer one: nodes quote the values that they read.
call = "%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = ({}), kwargs = {{}})"
quotes = {"c.Gemm": call.format("%p_c_bias, %x, %p_c_w")}
for m in "ab":
    quotes |= {f"/{m}/MatMul": call.format(f"%x, %p_{m}_w, %p_{m}_bias"), f"/{m}/Add": call.format(f"%x, %p_{m}_w, %p_{m}_bias"),
               f"/{m}/Mul": call.format(f"%linear, %p_{m}_gain")}
kinds = {n: "PARAMETER" for n in ("table", "a.w", "b.w", "c.w", "a.bias", "a.gain")}
folded = {"expanded": "['inner.token', 'val_1']", "val_9": "['table']", "places": "['arange', 'inner.places', 'add']"}
save("noted", nodes("expanded", b=("a.bias", "a.gain"), bias=[], head="val_9"),
     {**matrices, **some("a.bias", "a.gain"), "expanded": np.tile(own["token"], (2, 1, 1)), "val_9": turned}, "pytorch", kinds, folded, quotes)
# Another one: without information, several nodes read equal tensors.
save("plain", nodes(b=("a.bias", "a.gain"), bias=["a.bias"]), {**matrices, **some("token", "a.bias", "a.gain")})
# Square tables, each the other transposed, and rows of both are taken; a product with a matrix and its transpose.
square = {"table": draw(D, D), "w": draw(D, D)}
square |= {"turned": np.ascontiguousarray(square["table"].T), "v": np.ascontiguousarray(square["w"].T)}

def save_square(name, *weights):
    turn = [node("Transpose", [x], [y], perm=[1, 0]) for x, y in (("table", "turned"), ("w", "v")) if y not in weights]
    rows = turn + [node("Gather", ["table", "ids"], ["t"]), node("Gather", ["turned", "ids"], ["u"]), node("Add", ["t", "u"], ["x"]),
                   node("MatMul", ["x", "w"], ["h"]), node("MatMul", ["h", "v"], ["k"]), node("MatMul", ["k", "turned"], ["y"])]
    info, model = helper.make_tensor_value_info, None
    graph = helper.make_graph(rows, name, [info("ids", TensorProto.INT64, [2, 4])], [info("y", TensorProto.FLOAT, [2, 4, D])],
                              [numpy_helper.from_array(square[n], n) for n in weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, name + ".onnx")

save_square("square", "table", "turned", "w", "v")
save_square("square_own", "table", "w")

# Norms whose gains, biases and statistics are one tensor each; a layer without its bias that is called twice; equal
# parts of one parameter.  All in f64.
def save_calls(name, noted):
    wide = lambda *shape: rng2.normal(size=shape)
    rng2 = np.random.default_rng(5)
    weights = {"c.w": wide(D, D), "q": np.zeros(D), "k": np.zeros(D), "a.gain": np.ones(D), "a.bias": np.zeros(D)}
    weights |= {} if noted else {"c.bias": np.zeros(D), "b.gain": np.ones(D), "b.bias": np.zeros(D), "mean": np.zeros(D), "var": np.ones(D)}
    norm = lambda m: ["a.gain", "a.bias", "a.bias", "a.gain"] if noted else [m + ".gain", m + ".bias", "mean", "var"]
    bias = [] if noted else ["bias"]
    every = ([] if noted else [node("Identity", ["c.bias"], bias)]) + [
        node("Gemm", ["x", "c.w"] + bias, ["g"], "c.Gemm"), node("Add", ["g", "q"], ["h"]),
        node("BatchNormalization", ["h"] + norm("a"), ["n"], "a.norm"), node("Relu", ["n"], ["r"]),
        node("Gemm", ["r", "c.w"] + bias, ["g2"], "c.Gemm_1"), node("Add", ["g2", "k"], ["h2"]),
        node("BatchNormalization", ["h2"] + norm("b"), ["y"], "b.norm")]
    info = helper.make_tensor_value_info
    values = [info(n, TensorProto.DOUBLE, v.shape) for n, v in weights.items()] if noted else []
    for v in values:
        if v.name in "qk": add_note(v, 4, "pkg.onnxscript.optimizer.folded_from", "['both.bias']")
        else: add_note(v, 4, "pkg.torch.export.graph_signature.InputSpec.kind", "PARAMETER")
    for n in every if noted else []:
        m = n.name[:1]
        if n.op_type == "Gemm":
            add_note(n, 9, "pkg.torch.onnx.fx_node", call.format("%p_c_bias, %x, %p_c_w"))
            add_note(n, 9, "pkg.onnxscript.rewriter.rule_name", "RemoveOptionalBiasFromGemm")
        if n.op_type == "BatchNormalization":
            add_note(n, 9, "pkg.torch.onnx.fx_node", call.format(f"%x, %p_{m}_gain, %p_{m}_bias, %b_{m}_mean, %b_{m}_var"))
        add_note(n, 9, "pkg.torch.onnx.name_scopes", f"['', '{m}', 'call']")
    graph = helper.make_graph(every, name, [info("x", TensorProto.DOUBLE, [4, D])], [info("y", TensorProto.DOUBLE, [4, D])],
                              [numpy_helper.from_array(v, n) for n, v in weights.items()], value_info=values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="pytorch" if noted else "")
    model.ir_version = 8
    onnx.save(model, name + ".onnx")

# Statistics that reach their norm through nodes: of tensors that are its gain and bias as well, equal ones and others,
# and in another type.  A convolution that the older exporter wrote.
def save_handed(name, nodes, weights, producer=""):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, name, [info("x", TensorProto.FLOAT, [4, D])], [info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(v, n) for n, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], producer_name=producer)
    model.ir_version = 8
    onnx.save(model, name + ".onnx")

product = [node("MatMul", ["x", "w"], ["h"]), node("BatchNormalization", ["h", "gain", "bias", "mean", "var"], ["y"])]
some_of = np.arange(1, D + 1, dtype=np.float32)
layer = {"w": draw(D, D), "gain": np.ones(D, np.float32), "bias": some_of, "var": some_of + 1}
save_handed("handed_same", [node("Identity", ["bias"], ["mean"]), node("Identity", ["gain"], ["var"])] + product,
            {"w": layer["w"], "gain": layer["gain"], "bias": np.zeros(D, np.float32)}, "pytorch")
save_handed("handed_other", [node("Identity", ["bias"], ["mean"])] + product, layer)
save_handed("handed_cast", [node("Cast", ["mean16"], ["mean"], to=TensorProto.FLOAT)] + product, {**layer, "mean16": some_of.astype(np.float16)})
save_handed("joined", [node("Unsqueeze", ["x", "last"], ["i"]), node("Conv", ["i", "onnx::Conv_7"], ["y"])],
            {"last": np.array([2]), "onnx::Conv_7": draw(D, D, 1)}, "pytorch")

save_calls("calls", True)
save_calls("calls_own", False)
np.save("x.npy", rng.normal(size=(20, D))), np.save("class.npy", rng.integers(0, D, 20)), np.save("squares.npy", rng.integers(0, D, (20, 4)))
ids = rng.integers(0, V, (20, 4))
ids[::2, 1] = 3
np.save("ids.npy", ids), np.save("labels.npy", rng.integers(0, V, (20, 5)))
np.savez("first.npz", **own), np.save("narrow.npy", draw(20, D))
P
/usr/bin/python3 model.py

data="--shuffle none --data ids=@ids.npy --data labels=@labels.npy"
train() { # train NAME OPTIONS...: NAME.onnx; leaves NAME.txt, NAME.safetensors and apc's messages in said
  local name=$1
  shift
  expect 0 "" "$apc" "$name.onnx" --train cross_entropy --optimizer "adamw(lr=.02)" --target cpux2 -o "$name" "$@"
  mv err said
  # shellcheck disable=SC2086
  expect 0 "" "./$name" --steps 6 $data --json --save "$name.safetensors"
  losses out >"$name.txt"
  tail -n 1 err >trains
}
says() { check "apc does not say '$1'" grep -qF -- "$1" said; }
weights() { /usr/bin/python3 - "$@" <<'P'
import json, struct, sys
import numpy as np
raw, first = open(sys.argv[1] + ".safetensors", "rb").read(), np.load("first.npz")
n = struct.unpack("<Q", raw[:8])[0]
w = {k: np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], np.float32).reshape(v["shape"])
     for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
sys.exit(not eval(sys.argv[2]))
P
}

train own --dp 2
says 'trains 11 of 11 weights, 246 of 246'
check "the program: $(cat trains)" [ "$(cat trains)" = "trains 11 of 11 weights, 246 of 246" ]
check "all steps were made" [ "$(wc -l <own.txt)" -eq 6 ]
train traced --tp 2
says 'trained separately, although the file stores them once: "b.bias", "c.bias", "b.gain" (--tie A=B trains B as A)'
says 'tied: "onnx::MatMul_7" is "table" transposed, and both are trained as one weight'
says 'trains 11 of 11 weights, 246 of 246'
check "the same steps" near traced.txt own.txt 2e-6
train noted --pp 2
says 'trained separately, although the file stores them once: "b.bias", "b.gain"'
says 'biases of zeros that the exporter left out are trained: "c.bias"'
says 'trained as the part that they repeat: "expanded"'
says 'tied: "val_9" is "table" transposed'
says 'judging by their use they are, so they are trained: "places" (--freeze NAME'
says 'trains 11 of 11 weights, 246 of 246'
check "the same steps" near noted.txt own.txt 2e-6
train plain
says 'trains 11 of 11 weights, 246 of 246'
check "the same steps" near plain.txt own.txt 2e-6

# Each file computes with the trained weights, by its own names.
expect 0 "" "$apc" run own.onnx -q --weights own.safetensors --input ids=random --outputs own.npz
for name in traced noted plain; do
  expect 0 "" "$apc" run $name.onnx -q --weights $name.safetensors --input ids=random --expect own.npz --rtol 1e-4
  expect 0 "" "$apc" convert $name.onnx new.onnx -q --weights $name.safetensors
  expect 0 "" "$apc" run new.onnx -q --input ids=random --expect own.npz --rtol 1e-4
done
check "the names of its modules" weights noted '{"b.bias", "b.gain", "c.bias"} < set(w)'

# Square tables, tied in a ring; a product with a matrix and its transpose, tied by an option.
all=$data
data="--shuffle none --data ids=@squares.npy --data labels=@squares.npy"
train square_own
says 'trains 2 of 2 weights, 72 of 72'
train square --tie w=v
says 'tied: "turned" is "table" transposed'
says 'tied: "v" is "w" transposed, as their elements show'
says 'trains 2 of 2 weights, 72 of 72'
check "the same steps" near square.txt square_own.txt 2e-6
expect 0 "" "$apc" run square_own.onnx -q --weights square_own.safetensors --input ids=random --outputs square.npz
expect 0 "" "$apc" run square.onnx -q --weights square.safetensors --input ids=random --expect square.npz --rtol 1e-4
expect 0 "" "$apc" convert square.onnx new.onnx -q --weights square.safetensors
expect 0 "" "$apc" run new.onnx -q --input ids=random --expect square.npz --rtol 1e-4
cp square.txt whole.txt
train square --tie w=v --pad turned=2
check "rows of the transposed are padding" [ "$(cat square.txt)" != "$(cat whole.txt)" ]
expect 2 "--pad v=2: no operation takes rows of that table" "$apc" square.onnx -q --train cross_entropy --pad v=2

# Norms, calls and parts: by the notes.
data="--shuffle none --data x=@x.npy --data labels=@class.npy"
train calls_own
says 'trains 8 of 8 weights, 78 of 78'
train calls
says 'trains 8 of 8 weights, 78 of 78'
check "apc reports no part as left out: $(cat said)" sh -c '! grep -q "left out parameters\|is \"q\" again" said'
check "the same steps" near calls.txt calls_own.txt 2e-6
# shellcheck disable=SC2086
expect 0 "" ./calls --steps 6 $data --checkpoint made
expect 0 "" "$apc" run calls_own.onnx -q --weights calls_own.safetensors --input x=random --outputs calls.npz
expect 0 "" "$apc" run calls.onnx -q --weights calls.safetensors --input x=random --expect calls.npz --rtol 1e-4
expect 0 "" "$apc" run calls.onnx -q --weights made/checkpoint.safetensors --input x=random --expect calls.npz --rtol 1e-4
check "apc does not mention the optimizer's states: $(cat err)" sh -c '! grep -q "of this name" err'
for file in calls.safetensors made/checkpoint.safetensors; do
  expect 0 "" "$apc" convert calls.onnx new.onnx -q --weights "$file"
  expect 0 "" "$apc" run new.onnx -q --input x=random --expect calls.npz --rtol 1e-4
done

# Statistics that pass through nodes are no weights, and keep their numbers when a checkpoint is read.
for name in handed_same handed_other handed_cast; do
  expect 0 "" "$apc" $name.onnx --train mse --target cpu -o handed
  mv err said
  says 'trains 3 of 3 weights, 48 of 48'
  check "apc says that no statistic is trained: $(cat said)" sh -c '! grep -q "trained separately" said'
  expect 0 "" ./handed --steps 4 --data x=@narrow.npy --data labels=@narrow.npy --save handed.safetensors --checkpoint handed.made
  expect 0 "" "$apc" run $name.onnx -q --weights handed.safetensors --input x=random --outputs handed.npz
  expect 0 "" "$apc" run $name.onnx -q --weights handed.made/checkpoint.safetensors --input x=random --expect handed.npz --rtol 1e-5
  rm -rf handed.made
done
expect 0 "" "$apc" joined.onnx --train mse --target cpu -o joined
mv err said
says 'with training=torch.onnx.TrainingMode.PRESERVE and do_constant_folding=False to train its own parameters'
data=$all

# A part is repeated only if the file is known to repeat it.
/usr/bin/python3 - <<'P'
import json, struct
raw = open("noted.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
data, head = b"", {}
for name, v in json.loads(raw[8:8 + n]).items():
    if name == "__metadata__": continue
    part = raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]
    if name == "a.w": part, v["shape"] = part[:24], [1, 6]
    head[name] = {**v, "data_offsets": [len(data), len(data) + len(part)]}
    data += part
text = json.dumps(head).encode()
open("row.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
P
expect 1 "tensor 'a.w' does not have the type and shape of the initializer" "$apc" convert noted.onnx new.onnx -q --weights row.safetensors

# Options of the user have priority.
train traced --tie a.bias=b.bias --tie a.gain=b.gain
says 'trains 9 of 9 weights, 234 of 234'
check "tied: one weight" weights traced 'np.array_equal(w["a.bias"], w["b.bias"]) and not np.array_equal(w["a.bias"], w["c.bias"])'
train traced --untie 'onnx::*'
says 'trains 12 of 12 weights, 318 of 318'
check "untied: two tables" weights traced 'not np.array_equal(w["table"], w["onnx::MatMul_7"].T)'
expect 0 "" "$apc" run traced.onnx -q --weights traced.safetensors --input ids=random --outputs untied.npz
expect 0 "" "$apc" run own.onnx -q --weights traced.safetensors --input ids=random
expect_err "the model has no weight of this name: 'onnx::MatMul_7'"
train own --untie table
expect 0 "" "$apc" run own.onnx -q --weights own.safetensors --input ids=random --expect untied.npz --rtol 1e-4
train own --untie table --freeze '*' --trainable 'table*' --trainable a.w --pad table=3
says ' and 5 more; excluded by --freeze'
says 'trains 3 of 12 weights, 180 of 318'
check "the last glob counts" weights own 'np.array_equal(w["b.w"], first["b.w"]) and not np.array_equal(w["a.w"], first["a.w"])'
check "row 3 has only decayed" weights own 'np.allclose(w["table"][3], first["table"][3] * (1 - .02 * .01) ** 6, rtol=1e-6, atol=0)'
check "others have not" weights own '(abs(w["table"] - first["table"]).max(1) > 1e-3).sum() > 8'
train own --pad table=-9
check "a tied table gets the head's" weights own 'abs(w["table"][3] - first["table"][3]).max() > 1e-3'
train noted --trainable val_9 --freeze places
says 'trains 10 of 11 weights, 216 of 246'

# Names that no weight has, and shapes that do not fit.
refuse() { expect 2 "$1" "$apc" own.onnx -q --train cross_entropy "${@:2}"; }
refuse "--freeze a.giin: the model has no such weight" --freeze a.giin
expect_err "the nearest name is 'a."
refuse "--tie a.w=table: the types differ, also transposed" --tie a.w=table
refuse "--pad table=12: the table has 12 rows" --pad table=12
refuse "--pad tabel: the model has no such weight" --pad tabel=0
refuse "--untie b.*: no tensor of that name is read by several nodes" --untie 'b.*'
expect 2 "--pad takes TABLE=ID with a whole number, not 'table=x'" "$apc" own.onnx -q --train cross_entropy --pad table=x
expect 2 "--untie needs --train" "$apc" own.onnx -q --untie table
summary 105
