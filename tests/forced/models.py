"""ONNX models in the style of exporters, for plans.py: sizes read with Shape, layers from primitive operations, random
weights.

MAKERS[name](folder) writes one and returns its file and {dimension: sizes to draw from}.
"""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LEAST = float(np.finfo(np.float32).min)


class Graph:
    def __init__(self, name):
        self.name, self.nodes, self.weights, self.inputs, self.outputs = name, [], [], [], []
        self.random = np.random.default_rng(7)

    def input(self, name, dims, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def output(self, name, value, dims, kind=TensorProto.FLOAT):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, dims))

    def constant(self, value, kind):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def ints(self, *values):
        return self.constant(values, np.int64)

    def number(self, value):
        return self.constant(value, np.float32)

    def weight(self, *shape):
        return self.constant(self.random.standard_normal(shape) * 0.02, np.float32)

    def __call__(self, kind, *inputs, outputs=1, **attributes):
        names = [f"{kind.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def size(self, x, axis):
        """The size of one dimension, as a list of one."""
        return self("Gather", self("Shape", x), self.ints(axis), axis=0)

    def reshape(self, x, *sizes):
        """Sizes are whole numbers, or results of size()."""
        parts = [self.ints(s) if isinstance(s, int) else s for s in sizes]
        return self("Reshape", x, self("Concat", *parts, axis=0))

    def range(self, first, n):
        return self("Range", first, n, self.constant(1, np.int64))

    def scalar(self, x):
        return self("Squeeze", x, self.ints(0))

    def linear(self, x, n_in, n_out, bias=True):
        y = self("MatMul", x, self.weight(n_in, n_out))
        return self("Add", y, self.weight(n_out)) if bias else y

    def layer_norm(self, x, d):
        centred = self("Sub", x, self("ReduceMean", x, axes=[-1]))
        variance = self("ReduceMean", self("Pow", centred, self.number(2)), axes=[-1])
        scaled = self("Div", centred, self("Sqrt", self("Add", variance, self.number(1e-5))))
        return self("Add", self("Mul", scaled, self.weight(d)), self.weight(d))

    def rms_norm(self, x, d):
        mean = self("ReduceMean", self("Pow", x, self.number(2)), axes=[-1])
        scale = self("Reciprocal", self("Sqrt", self("Add", mean, self.number(1e-6))))
        return self("Mul", self.weight(d), self("Mul", x, scale))

    def gelu(self, x):
        cubic = self("Add", x, self("Mul", self("Pow", x, self.number(3)), self.number(0.044715)))
        grown = self("Add", self("Tanh", self("Mul", cubic, self.number(0.7978845608))), self.number(1))
        return self("Mul", self("Mul", self.number(0.5), x), grown)

    def heads(self, x, like, heads, width):
        """[batch, seq, heads * width] as [batch, heads, seq, width]."""
        split = self.reshape(x, self.size(like, 0), self.size(like, 1), heads, width)
        return self("Transpose", split, perm=[0, 2, 1, 3])

    def attend(self, q, k, v, width, bias=None):
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self("Div", scores, self.number(width ** 0.5))
        if bias:
            scores = self("Add", scores, bias)
        return self("MatMul", self("Softmax", scores, axis=-1), v)

    def joined(self, x, like, d):
        return self.reshape(self("Transpose", x, perm=[0, 2, 1, 3]), self.size(like, 0), self.size(like, 1), d)

    def mlp(self, x, d):
        return self.linear(self.gelu(self.linear(x, d, 4 * d)), 4 * d, d)

    def causal(self, x):
        """[seq, seq]: the positions of x [batch, seq, ..] that each position sees."""
        n = self.scalar(self.size(x, 1))
        positions = self.range(self.constant(0, np.int64), n)
        rows = self("Unsqueeze", positions, self.ints(1))
        return self("LessOrEqual", self("Unsqueeze", positions, self.ints(0)), rows)

    def save(self, folder):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        file = os.path.join(folder, self.name + ".onnx")
        onnx.save(model, file)
        return file


def decoder(folder, layers=4, d=128, heads=4, vocab=600):
    """One mask, of causality and of padding, feeds all layers; query, key and value are one product."""
    g = Graph("decoder")
    tokens = g.input("tokens", ["batch", "seq"], TensorProto.INT64)
    padding = g.input("attention_mask", ["batch", "seq"], TensorProto.INT64)
    positions = g.range(g.constant(0, np.int64), g.scalar(g.size(tokens, 1)))
    x = g("Add", g("Gather", g.weight(vocab, d), tokens), g("Gather", g.weight(512, d), positions))
    kept = g("Unsqueeze", g("Cast", padding, to=TensorProto.BOOL), g.ints(1, 2))
    seen = g("And", kept, g.causal(x))
    bias = g("Where", seen, g.number(0), g.number(LEAST))
    for _ in range(layers):
        h = g.layer_norm(x, d)
        parts = g("Split", g.linear(h, d, 3 * d), g.ints(d, d, d), outputs=3, axis=2)
        q, k, v = (g.heads(p, h, heads, d // heads) for p in parts)
        x = g("Add", x, g.linear(g.joined(g.attend(q, k, v, d // heads, bias), h, d), d, d))
        x = g("Add", x, g.mlp(g.layer_norm(x, d), d))
    g.output("logits", g("MatMul", g.layer_norm(x, d), g.weight(d, vocab)), ["batch", "seq", vocab])
    return g.save(folder), {"batch": (1, 4, 8, 24), "seq": (1, 32, 100, 256)}


def encoder_decoder(folder, layers=2, d=128, heads=4, vocab=400):
    """Attention with a bias by distance, looked up once for all layers of a side, and attention over the other side."""
    g = Graph("encoder_decoder")
    source = g.input("source", ["batch", "seq"], TensorProto.INT64)
    target = g.input("target", ["batch", "tgt"], TensorProto.INT64)
    table = g.weight(vocab, d)
    width = d // heads

    def distances(x):
        positions = g.range(g.constant(0, np.int64), g.scalar(g.size(x, 1)))
        far = g("Sub", g("Unsqueeze", positions, g.ints(0)), g("Unsqueeze", positions, g.ints(1)))
        near = g("Clip", far, g.constant(-16, np.int64), g.constant(15, np.int64))
        bias = g("Gather", g.weight(32, heads), g("Add", near, g.constant(16, np.int64)))
        return g("Unsqueeze", g("Transpose", bias, perm=[2, 0, 1]), g.ints(0))

    def block(x, over, bias):
        h = g.rms_norm(x, d)
        of = over if over else h
        q = g.heads(g.linear(h, d, d, False), h, heads, width)
        k, v = (g.heads(g.linear(of, d, d, False), of, heads, width) for _ in range(2))
        return g("Add", x, g.linear(g.joined(g.attend(q, k, v, width, bias), h, d), d, d, False))

    def feed(x):
        h = g("Relu", g.linear(g.rms_norm(x, d), d, 3 * d, False))
        return g("Add", x, g.linear(h, 3 * d, d, False))

    x = g("Gather", table, source)
    bias = distances(x)
    for _ in range(layers):
        x = feed(block(x, None, bias))
    memory = g.rms_norm(x, d)
    y = g("Gather", table, target)
    bias = g("Add", distances(y), g("Where", g.causal(y), g.number(0), g.number(LEAST)))
    for _ in range(layers):
        y = feed(block(block(y, None, bias), memory, None))
    g.output("logits", g("MatMul", g.rms_norm(y, d), g("Transpose", table, perm=[1, 0])), ["batch", "tgt", vocab])
    return g.save(folder), {"batch": (1, 4, 8), "seq": (16, 60, 128), "tgt": (1, 16, 48)}


def cached(folder, layers=3, d=128, heads=8, shared=2, vocab=500):
    """Rotary positions that follow the cache, groups of heads that share keys, past and present keys and values."""
    g = Graph("cached")
    width = d // heads
    tokens = g.input("tokens", ["batch", "seq"], TensorProto.INT64)
    caches = [[g.input(f"past.{i}.{kind}", ["batch", shared, "past", width]) for kind in "kv"] for i in range(layers)]
    x = g("Gather", g.weight(vocab, d), tokens)
    before, n = g.scalar(g.size(caches[0][0], 2)), g.scalar(g.size(tokens, 1))
    places = g.range(before, g("Add", before, n))
    seen = g("LessOrEqual", g("Unsqueeze", g.range(g.constant(0, np.int64), g("Add", before, n)), g.ints(0)),
             g("Unsqueeze", places, g.ints(1)))
    bias = g("Where", seen, g.number(0), g.number(LEAST))
    frequencies = g.constant(10000.0 ** (-np.arange(0, width, 2) / width), np.float32)
    angles = g("Mul", g("Unsqueeze", g("Cast", places, to=TensorProto.FLOAT), g.ints(1)), frequencies)
    angles = g("Concat", angles, angles, axis=-1)
    cos, sin = g("Cos", angles), g("Sin", angles)

    def rotated(v):
        low, high = g("Split", v, g.ints(width // 2, width // 2), outputs=2, axis=3)
        return g("Add", g("Mul", v, cos), g("Mul", g("Concat", g("Neg", high), low, axis=-1), sin))

    def repeated(v):
        wide = g("Expand", g("Unsqueeze", v, g.ints(2)), g.ints(1, 1, heads // shared, 1, 1))
        return g.reshape(wide, g.size(v, 0), heads, g.size(v, 2), width)

    for i, past in enumerate(caches):
        h = g.rms_norm(x, d)
        q = rotated(g.heads(g.linear(h, d, d, False), h, heads, width))
        k = rotated(g.heads(g.linear(h, d, shared * width, False), h, shared, width))
        v = g.heads(g.linear(h, d, shared * width, False), h, shared, width)
        k, v = (g("Concat", old, new, axis=2) for old, new in zip(past, (k, v)))
        for kind, value in zip("kv", (k, v)):
            g.output(f"present.{i}.{kind}", value, ["batch", shared, f"all.{i}.{kind}", width])
        a = g.attend(q, repeated(k), repeated(v), width, bias)
        x = g("Add", x, g.linear(g.joined(a, h, d), d, d, False))
        h = g.rms_norm(x, d)
        gate = g.linear(h, d, 3 * d, False)
        gate = g("Mul", gate, g("Sigmoid", gate))
        x = g("Add", x, g.linear(g("Mul", gate, g.linear(h, d, 3 * d, False)), 3 * d, d, False))
    g.output("logits", g.linear(g.rms_norm(x, d), d, vocab, False), ["batch", "seq", vocab])
    return g.save(folder), {"batch": (1, 4, 16), "seq": (1, 24), "past": (8, 63, 200)}


def convolutions(folder, width=16, image=64, classes=40):
    """Full, grouped and depthwise convolutions with batch norms and residuals, then a classifier."""
    g = Graph("convolutions")
    x = g.input("image", ["batch", 3, image, image])

    def norm(v, n):
        scale = [g.constant(np.ones(n), np.float32) for _ in range(4)]
        return g("BatchNormalization", v, *scale)

    def conv(v, n_in, n_out, size, stride=1, group=1):
        pad = [size // 2] * 4
        w = g.weight(n_out, n_in // group, size, size)
        v = g("Conv", v, w, kernel_shape=[size, size], strides=[stride, stride], pads=pad, group=group)
        return norm(v, n_out)

    x = g("MaxPool", g("Relu", conv(x, 3, width, 7, 2)), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage in range(3):
        n = width << stage
        h = g("Relu", conv(x, n, n, 3, group=4 if stage else 1))
        x = g("Relu", g("Add", x, conv(h, n, n, 3, group=n)))
        x = g("Relu", conv(x, n, 2 * n, 1, 2 if stage < 2 else 1))
    x = g("Flatten", g("GlobalAveragePool", x))
    n = width << 3
    g.output("scores", g("Gemm", x, g.weight(classes, n), g.weight(classes), transB=1), ["batch", classes])
    return g.save(folder), {"batch": (1, 6, 16, 64)}


MAKERS = {"decoder": decoder, "encoder_decoder": encoder_decoder, "cached": cached, "convolutions": convolutions}
