"""Runs an ONNX model with ONNX Runtime, for bench/gpt.sh and bench/models.sh; with --make, writes a GPT as ONNX.

usage: gpt_reference.py MODEL.onnx --batch B --seq S --threads T --runs N --save-inputs IN.npz [--save-outputs OUT.npz]
       gpt_reference.py MODEL.onnx --inputs IN.npz --threads T --runs N [--warmup N] [--save-outputs OUT.npz]
       gpt_reference.py --make MODEL.onnx [--layers L --d D --heads H --vocab V --seq S]

The first symbolic dimension of the inputs is B, all others are S.  Prints one line: median and least time in ms, the
peak resident set in MiB, and the time from opening the model to the first answer in ms.  ONNX Runtime is not a
dependency of apc: install onnxruntime (and onnx for --make) yourself.
"""
import argparse
import resource
import statistics
import time

import numpy as np


def make_gpt(path, layers, d, heads, vocab, seq):
    """Learned positions, pre-norm blocks with biases, tanh GELU: the model of examples/gpt.apc."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    rng, nodes, weights = np.random.default_rng(0), [], []

    def weight(name, *shape):
        value = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        weights.append(numpy_helper.from_array(value, name))
        return name

    def constant(name, value):
        weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(kind, *inputs, **attributes):
        out = f"v{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [out], name=out, **attributes))
        return out

    def norm(x, name):
        return op("LayerNormalization", x, weight(name + ".g", d), weight(name + ".b", d), axis=-1)

    def linear(x, name, m, n):
        return op("Add", op("MatMul", x, weight(name + ".w", m, n)), weight(name + ".bias", n))

    def split_heads(x, perm):
        return op("Transpose", op("Reshape", x, "head_shape"), perm=perm)

    constant("head_shape", np.array([0, 0, heads, d // heads], np.int64))
    constant("row_shape", np.array([0, 0, d], np.int64))
    constant("scale", np.float32((d // heads) ** -0.5))
    constant("mask", np.triu(np.full((seq, seq), -1e9, np.float32), 1))
    constant("half", np.float32(0.5)), constant("one", np.float32(1)), constant("cubic", np.float32(0.044715))
    constant("root", np.float32((2 / np.pi) ** 0.5))
    x = op("Add", op("Gather", weight("wte", vocab, d), "tokens"), weight("wpe", seq, d))
    for i in range(layers):
        name = f"layers.{i}"
        h = norm(x, name + ".ln1")
        q = split_heads(linear(h, name + ".q", d, d), [0, 2, 1, 3])
        k = split_heads(linear(h, name + ".k", d, d), [0, 2, 3, 1])
        v = split_heads(linear(h, name + ".v", d, d), [0, 2, 1, 3])
        p = op("Softmax", op("Add", op("Mul", op("MatMul", q, k), "scale"), "mask"), axis=-1)
        h = op("Reshape", op("Transpose", op("MatMul", p, v), perm=[0, 2, 1, 3]), "row_shape")
        x = op("Add", x, linear(h, name + ".o", d, d))
        h = linear(norm(x, name + ".ln2"), name + ".up", d, 4 * d)
        inner = op("Add", h, op("Mul", "cubic", op("Mul", h, op("Mul", h, h))))
        h = op("Mul", op("Mul", "half", h), op("Add", "one", op("Tanh", op("Mul", "root", inner))))
        x = op("Add", x, linear(h, name + ".down", 4 * d, d))
    nodes.append(helper.make_node("MatMul", [norm(x, "ln_f"), weight("head", d, vocab)], ["logits"], name="logits"))
    graph = helper.make_graph(
        nodes, "gpt", [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", seq])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", seq, vocab])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def inputs_of(session, batch, seq):
    rng, out = np.random.default_rng(0), {}
    for value in session.get_inputs():
        shape = [n if isinstance(n, int) else (batch if i == 0 else seq) for i, n in enumerate(value.shape)]
        if "int" in value.type:  # 1 indexes any table, and a mask of ones hides nothing
            kind = np.int32 if "int32" in value.type else np.int64
            mask = "mask" in value.name
            out[value.name] = np.ones(shape, kind) if mask else rng.integers(0, 2, shape).astype(kind)
        else:
            out[value.name] = rng.standard_normal(shape, dtype=np.float32)
    return out


def run(o):
    import onnxruntime
    begin = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = o.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(o.model, options, providers=["CPUExecutionProvider"])
    inputs = dict(np.load(o.inputs)) if o.inputs else inputs_of(session, o.batch, o.seq)
    if o.save_inputs:
        np.savez(o.save_inputs, **inputs)
    names = [value.name for value in session.get_outputs()]
    outputs = session.run(names, inputs)
    first = (time.perf_counter() - begin) * 1e3
    if o.save_outputs:
        np.savez(o.save_outputs, **dict(zip(names, outputs)))
    for _ in range(o.warmup):
        session.run(names, inputs)
    times = []
    for _ in range(o.runs):
        start = time.perf_counter()
        session.run(names, inputs)
        times.append((time.perf_counter() - start) * 1e3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{statistics.median(times or [first]):.3f} {min(times or [first]):.3f} {peak:.1f} {first:.3f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("--make", action="store_true")
    for name, default in [("batch", 1), ("seq", 256), ("threads", 1), ("runs", 20), ("warmup", 3), ("layers", 6),
                          ("d", 768), ("heads", 12), ("vocab", 8192)]:
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--inputs")
    p.add_argument("--save-inputs")
    p.add_argument("--save-outputs")
    o = p.parse_args()
    make_gpt(o.model, o.layers, o.d, o.heads, o.vocab, o.seq) if o.make else run(o)
