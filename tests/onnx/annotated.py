"""Writes small ONNX models with multi-device annotations (IR version 11): python3 annotated.py FOLDER.

It needs no packages: the messages are written with the field numbers of onnx.in.proto.  The models are the examples of
ONNX's multi-device proposals 0006 and 0007, those of onnx-ir's documentation, the multi-device samples of TensorRT 11
as annotations, and the usual tensor and pipeline parallelism of an MLP; tests/cli/annotated.sh plans, proves and runs
them."""
import random
import struct
import sys


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


# ---- annotations


def spec(tensor, devices, groups={}, dims=()):
    """devices: of the shards in order; groups: by key; dims: (axis, shards), or (axis, [(extent, shards), ...])."""
    out = message(1, tensor) + b"".join(number(2, d) for d in devices)
    for key, members in groups.items():
        out += message(3, number(1, key) + b"".join(number(2, d) for d in members))
    for axis, shards in dims:
        blocks = shards if isinstance(shards, list) else [(None, shards)]
        parts = [(number(1, n) if n else b"") + number(3, k) for n, k in blocks]
        out += message(4, number(1, axis) + b"".join(message(2, p) for p in parts))
    return message(2, out)


def whole(tensor, n, first=0):
    """The tensor whole on n devices."""
    return spec(tensor, [-1], {-1: range(first, first + n)})


def device(configuration, *specs, stage=None):
    return message(10, message(1, configuration) + b"".join(specs) + (b"" if stage is None else number(3, stage)))


# ---- models


def node(kind, inputs, outputs, name, *devices):
    out = b"".join(message(1, x) for x in inputs) + b"".join(message(2, x) for x in outputs)
    return message(1, out + message(3, name) + message(4, kind) + b"".join(devices))


def value(field, name, shape):
    dims = b"".join(message(1, number(1, d)) for d in shape)
    return message(field, message(1, name) + message(2, message(1, number(1, 1) + message(2, dims))))


def weight(name, shape):
    count = 1
    for d in shape:
        count *= d
    draw = random.Random(name)
    data = struct.pack("<%df" % count, *(draw.uniform(-0.5, 0.5) for _ in range(count)))
    return message(5, b"".join(number(1, d) for d in shape) + number(2, 1) + message(8, name) + message(9, data))


def model(configurations, nodes, weights, inputs, outputs, constants=b""):
    graph = b"".join(nodes) + message(2, "annotated") + constants
    graph += b"".join(weight(n, s) for n, s in weights.items())
    graph += b"".join(value(11, n, s) for n, s in inputs.items())
    graph += b"".join(value(12, n, s) for n, s in outputs.items())
    out = number(1, 11) + message(7, graph) + message(8, message(1, "") + number(2, 23))
    return out + b"".join(message(26, message(1, n) + number(2, k)) for n, k in configurations.items())


def product(devices, configurations, x=(8, 16), w=(16, 32)):
    return model(configurations, [node("MatMul", ["x", "w"], ["y"], "mm", *devices)], {"w": w}, {"x": x},
                 {"y": (x[0], w[1])})


def integers(name, values):
    data = struct.pack("<%dq" % len(values), *values)
    return message(5, number(1, len(values)) + number(2, 7) + message(8, name) + message(9, data))


def numbers(name, values):
    data = struct.pack("<%df" % len(values), *values)
    return message(5, number(1, len(values)) + number(2, 1) + message(8, name) + message(9, data))


def attribute_int(name, value):
    return message(5, message(1, name) + number(3, value) + number(20, 2))


def attribute_ints(name, values):
    return message(5, message(1, name) + b"".join(number(8, v) for v in values) + number(20, 7))


def attention(configurations, column, row):
    """A transformer layer with heads; column and row: of the name of a weight or the tensor beside it."""
    nodes = []
    for x in "qkv":
        nodes += [node("MatMul", ["x", "w" + x], [x + "0"], x + "p", column("w" + x)),
                  node("Reshape", [x + "0", "heads"], [x + "1"], x + "r"),
                  node("Transpose", [x + "1"], [x + "2"], x + "t",
                       attribute_ints("perm", [0, 2, 3, 1] if x == "k" else [0, 2, 1, 3]))]
    nodes += [node("MatMul", ["q2", "k2"], ["s0"], "qk"), node("Softmax", ["s0"], ["s1"], "sm"),
              node("MatMul", ["s1", "v2"], ["o0"], "pv"),
              node("Transpose", ["o0"], ["o1"], "ot", attribute_ints("perm", [0, 2, 1, 3])),
              node("Reshape", ["o1", "rows"], ["o2"], "or"), node("MatMul", ["o2", "wo"], ["o3"], "op", row("o2",
                      "wo")),
              node("Add", ["x", "o3"], ["r"], "res"), node("MatMul", ["r", "w1"], ["h"], "up", column("w1")),
              node("Relu", ["h"], ["a"], "act"), node("MatMul", ["a", "w2"], ["d"], "down", row("a", "w2")),
              node("Add", ["r", "d"], ["y"], "out")]
    weights = {"wq": (32, 32), "wk": (32, 32), "wv": (32, 32), "wo": (32, 32), "w1": (32, 64), "w2": (64, 32)}
    return model(configurations, nodes, weights, {"x": (2, 8, 32)}, {"y": (2, 8, 32)},
                 integers("heads", [0, 0, 4, 8]) + integers("rows", [0, 0, 32]))


def collective(ranks, **how):
    """y = relu(x w), whose annotations need one collective: {node: specs}."""
    nodes = [node("MatMul", ["x", "w"], ["h"], "mm", device("pair", *how["mm"])),
             node("Relu", ["h"], ["y"], "act", device("pair", *how["act"]))]
    return model({"pair": ranks}, nodes, {"w": (16, 32)}, {"x": (8, 16)}, {"y": (8, 32)})


def context_parallel(n, seq, batch, d, heads):
    """Attention of TensorRT's multi-device samples, which its tool shards by hints: every device has a part of the
    sequence (dimension 0); attention gathers keys and values, and the output is gathered.
    `heads` 1: Polygraphy's attention_head.onnx, else attention_mdtrt, with the norms of queries and keys."""
    size = d // heads

    def part(name):
        return spec(name, range(n), dims=[(0, n)])

    def at(*specs):
        return device("gpus", *specs)

    nodes = [node("MatMul", ["input", "w" + x], [x], "mm" + x, at(part("input"), part(x))) for x in "qkv"]
    if heads == 1:
        nodes += [node("Transpose", ["q"], ["q1"], "tq", attribute_ints("perm", [1, 0, 2])),
                  node("Transpose", ["k"], ["k1"], "tk", attribute_ints("perm", [1, 2, 0])),
                  node("Transpose", ["v"], ["v1"], "tv", attribute_ints("perm", [1, 0, 2]))]
        back = [1, 0, 2]
    else:
        for x in "qkv":
            nodes.append(node("Reshape", [x, "heads"], [x + "4"], x + "h"))
            if x != "v":
                nodes += [node("Mul", [x + "4", x + "4"], [x + "s"], x + "sq"),
                          node("ReduceMean", [x + "s", "last"], [x + "m"], x + "mean"),
                          node("Add", [x + "m", "eps"], [x + "e"], x + "eps"),
                          node("Sqrt", [x + "e"], [x + "r"], x + "rt"),
                          node("Div", [x + "4", x + "r"], [x + "n"], x + "norm"),
                          node("Mul", [x + "n", "gain"], [x + "g"], x + "gain")]
            nodes.append(node("Transpose", [x + "4" if x == "v" else x + "g"], [x + "1"], "t" + x,
                              attribute_ints("perm", [1, 2, 3, 0] if x == "k" else [1, 2, 0, 3])))
        back = [2, 0, 1, 3]
    nodes += [node("MatMul", ["q1", "k1"], ["qk"], "mm1"),
              node("Softmax", ["qk"], ["sm_out"], "sm"),
              node("MatMul", ["sm_out", "v1"], ["o1"], "mm2"),
              node("Transpose", ["o1"], ["o2"], "to", attribute_ints("perm", back))]
    if heads > 1:
        nodes.append(node("Reshape", ["o2", "flat"], ["o3"], "flatten"))
    nodes.append(node("MatMul", ["o3" if heads > 1 else "o2", "wo"], ["output"], "project", at(whole("output", n))))
    weights = {"w" + x: (d, d) for x in "qkvo"}
    if heads > 1:
        weights["gain"] = (1, 1, 1, size)
    return model({"gpus": n}, nodes, weights, {"input": (seq, batch, d)}, {"output": (seq, batch, d)},
                 integers("heads", [0, 0, heads, size]) + integers("flat", [0, 0, d]) + integers("last", [-1]) +
                 numbers("eps", [1e-6]))


def mlp(configurations, up, act, down, add):
    nodes = [node("MatMul", ["x", "w1"], ["h"], "up", *up), node("Relu", ["h"], ["a"], "act", *act),
             node("MatMul", ["a", "w2"], ["y0"], "down", *down), node("Add", ["y0", "b"], ["y"], "add", *add)]
    return model(configurations, nodes, {"w1": (16, 32), "w2": (32, 16), "b": (16,)}, {"x": (8, 16)}, {"y": (8, 16)})


FOUR = {"four": 4}
ROWS = {-1: [0, 1], -2: [2, 3]}  # the groups of the proposal's examples
COLUMNS = {-1: [0, 2], -2: [1, 3]}

MODELS = {
    # proposal 0006: a split along axis 0, along axis 1, along both
    "rows": product([device("two", spec("x", [0, 1], dims=[(0, 2)]), spec("y", [0, 1], dims=[(0, 2)]))], {"two": 2}),
    "columns": product([device("two", spec("w", [0, 1], dims=[(1, 2)]), spec("y", [0, 1], dims=[(-1, 2)]))],
            {"two": 2}),
    "grid": product([device("four", spec("y", [0, 1, 2, 3], dims=[(0, 2), (1, 2)]))], FOUR),
    # the summed dimension: parts are added, or added and scattered
    "summed": product([device("two", spec("x", [0, 1], dims=[(1, 2)]), spec("w", [0, 1], dims=[(0, 2)]), whole("y",
            2))],
                      {"two": 2}),
    # 0007: two axes of broadcasts compose
    "compose": model(FOUR, [node("Add", ["x", "w"], ["y"], "sum", device(
        "four", spec("x", [-1, -2], ROWS, [(0, 2)]), spec("w", [-1, -2], COLUMNS, [(1, 2)]),
        spec("y", [0, 1, 2, 3], dims=[(0, 2), (1, 2)])))], {"w": (1, 32)}, {"x": (8, 1)}, {"y": (8, 32)}),
    # 0006: replicas in groups; axes in the other order; an axis split twice
    "groups": product([device("four", spec("x", [-1, -2], ROWS, [(0, 2)]))], FOUR),
    "turned": product([device("four", spec("y", [0, 1, 2, 3], dims=[(1, 2), (0, 2)]))], FOUR),
    "minor": product([device("four", spec("y", [0, 2, 1, 3], dims=[(0, 4)]))], FOUR),
    "blocks": product([device("four", spec("y", [0, 1, 2, 3], dims=[(1, [(2, 2), (16, 2)])]))], FOUR),
    # tensor parallelism of an MLP on pairs of devices, batches on the pairs
    "megatron": mlp(FOUR, [device("four", spec("x", [-1, -2], ROWS, [(0, 2)]), spec("w1", [-1, -2], COLUMNS, [(1, 2)]),
                                  spec("h", [0, 1, 2, 3], dims=[(0, 2), (1, 2)]))], [],
                    [device("four", spec("a", [0, 1, 2, 3], dims=[(0, 2), (1, 2)]),
                            spec("w2", [-1, -2], COLUMNS, [(0, 2)]), spec("y0", [-1, -2], ROWS, [(0, 2)]))], []),
    # a sum that is scattered: the next node reads it so
    "scattered": mlp({"two": 2}, [], [], [device("two", spec("a", [0, 1], dims=[(1, 2)]), spec("w2", [0, 1],
            dims=[(0, 2)]),
                                                 spec("y0", [0, 1], dims=[(0, 2)]))], []),
    # pipelines: numbers of stages, two devices each; blocks of devices without numbers; stages alone
    "pipeline": mlp(FOUR, [device("four", spec("w1", [0, 1], dims=[(1, 2)]), stage=1)],
                    [device("four", spec("a", [0, 1], dims=[(1, 2)]), stage=1)],
                    [device("four", spec("w2", [2, 3], dims=[(0, 2)]), stage=2)], [device("four", stage=2)]),
    "placed": mlp(FOUR, [device("four", spec("w1", [0, 1], dims=[(1, 2)]))], [],
                  [device("four", spec("w2", [2, 3], dims=[(1, 2)]))], []),
    "stages": mlp({"two": 2}, [device("two", stage=7)], [], [device("two", stage=9)], []),
    # tensor parallelism of attention, whose heads become a dimension
    "heads": attention({"two": 2}, lambda w: device("two", spec(w, [0, 1], dims=[(1, 2)])),
                       lambda x, w: device("two", spec(x, [0, 1], dims=[(2, 2)]), spec(w, [0, 1], dims=[(0, 2)]))),
    # onnx-ir's documentation: rows of a weight on four devices, and on two groups; a mesh of axes; stages of layers
    "ir_rows": product([device("four", spec("w", [0, 1, 2, 3], dims=[(0, 4)]))], FOUR),
    "ir_mesh": product([device("four", spec("w", [0, 1, 2, 3], dims=[(0, 2), (1, 2)]))], FOUR),
    "ir_whole": product([device("two", whole("w", 2))], {"two": 2}),
    "ir_groups": product([device("four", spec("w", [-1, -2], ROWS, [(0, [(16, 2)])]))], FOUR),
    "ir_layers": mlp({"two": 2}, [device("two", stage=0)], [device("two", stage=0)], [device("two", stage=1)],
                     [device("two", stage=1)]),
    # TensorRT 11: the collectives of sampleDistCollective that end on all devices, and context parallelism
    "trt_all_reduce": collective(2, mm=[spec("x", [0, 1], dims=[(1, 2)]), spec("w", [0, 1], dims=[(0, 2)]),
                                        whole("h", 2)], act=[whole("h", 2)]),
    "trt_reduce_scatter": collective(2, mm=[spec("x", [0, 1], dims=[(1, 2)]), spec("w", [0, 1], dims=[(0, 2)])],
                                     act=[spec("h", [0, 1], dims=[(0, 2)])]),
    "trt_all_gather": collective(2, mm=[spec("x", [0, 1], dims=[(0, 2)]), spec("h", [0, 1], dims=[(0, 2)])],
                                 act=[whole("h", 2)]),
    "trt_all_to_all": collective(2, mm=[spec("x", [0, 1], dims=[(0, 2)]), spec("h", [0, 1], dims=[(0, 2)])],
                                 act=[spec("h", [0, 1], dims=[(1, 2)])]),
    "trt_head": context_parallel(2, 8, 2, 16, 1),
    "trt_attention": context_parallel(2, 8, 2, 32, 4),
    # several configurations
    "several": product([device("two", spec("w", [0, 1], dims=[(1, 2)])), device("pair", spec("x", [0, 1], dims=[(0,
            2)])),
                        device("four", spec("x", [0, 1, 2, 3], dims=[(0, 4)]))], {"two": 2, "pair": 2, "four": 4}),
    # not expressible, each for another reason
    "order": product([device("two", spec("x", [1, 0], dims=[(0, 2)]), spec("w", [0, 1], dims=[(1, 2)]))], {"two": 2}),
    "uneven": product([device("four", spec("x", [-1, -2], {-1: [0], -2: [1, 2, 3]}, [(0, 2)]))], FOUR),
    "strided": product([device("two", spec("y", [0, 1], dims=[(1, [(4, 1), (8, 2)])]))], {"two": 2}),
    "axes": model({"two": 2}, [node("Add", ["x", "w"], ["y"], "sum", device(
        "two", spec("x", [0, 1], dims=[(0, 2)]), spec("w", [0, 1], dims=[(1, 2)])))], {"w": (8, 32)}, {"x": (8, 32)},
        {"y": (8, 32)}),
    "backwards": mlp({"two": 2}, [device("two", stage=2)], [], [device("two", stage=1)], [device("two", stage=2)]),
    "thirds": mlp(FOUR, [device("four", stage=0)], [device("four", stage=1)], [device("four", stage=2)], []),
    # queries, keys and values in one weight: a half of its columns is no half of the heads
    "fused": model({"two": 2}, [
        node("MatMul", ["x", "w"], ["z"], "qkv", device("two", spec("w", [0, 1], dims=[(1, 2)]))),
        node("Split", ["z"], ["q0", "k0", "v0"], "split", attribute_int("axis", 2), attribute_int("num_outputs",
                3))] + [
        node("Reshape", [x + "0", "heads"], [x + "1"], x + "r") for x in "qkv"] + [
        node("Transpose", [x + "1"], [x + "2"], x + "t",
             attribute_ints("perm", [0, 2, 3, 1] if x == "k" else [0, 2, 1, 3])) for x in "qkv"] + [
        node("MatMul", ["q2", "k2"], ["s0"], "qk"), node("Softmax", ["s0"], ["s1"], "sm"),
        node("MatMul", ["s1", "v2"], ["y"], "pv")], {"w": (32, 96)}, {"x": (2, 8, 32)}, {"y": (2, 4, 8, 8)},
        integers("heads", [0, 0, 4, 8])),
    "subset": product([device("four", spec("x", [0, 1, 2], dims=[(0, 3)]))], FOUR, x=(9, 16)),
}

if __name__ == "__main__":
    for name, text in MODELS.items():
        with open("%s/%s.onnx" % (sys.argv[1], name), "wb") as file:
            file.write(text)
