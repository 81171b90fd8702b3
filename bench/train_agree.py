"""bench/train.py --agree: do the steps of a compiled trainer agree with those of PyTorch?

Both start from the weights of one ONNX file, take the same batches, and make the same number of AdamW steps in f32 on
one rank.  Compares the loss of every step and every final weight: the largest relative difference of a loss, the
relative L2 difference of all weights together and of the worst one.  PyTorch also makes the steps in f64: the
difference of its f32 run from that is the effect of rounding.  If that exceeds a third of the limit, three times as
much is allowed ("as f32 can"): no f32 run is closer to another.  eps is 1e-6, so that gradients that are 0 but for
rounding, such as those of the biases of keys, do not decide the direction of a step.

PyTorch runs a model of train_models.py directly.  It evaluates an ONNX file node by node (evaluate), with its
initializers as weights, and trains those that apc trains: all floats with more than one element.
"""
import copy
import json
import struct
import sys

import numpy as np
import torch
from torch import nn

DECAY, EPS = 1e-2, 1e-6
LOSS_MOST, WEIGHT_MOST, ROUNDING_MOST = 1e-4, 1e-3, 3
BATCH, ROWS = 8, 64


# ---- ONNX by PyTorch

def attribute(node, name, otherwise=None):
    import onnx
    for a in node.attribute:
        if a.name == name:
            return onnx.helper.get_attribute_value(a)
    return otherwise


def ints(t):
    return [int(i) for i in t.flatten().tolist()]


def of_type(node):
    import onnx
    return torch.from_numpy(np.zeros(0, onnx.helper.tensor_dtype_to_np_dtype(attribute(node, "to")))).dtype


def sliced(x, starts, ends, axes=None, steps=None):
    index = [slice(None)] * x.dim()
    for i, (a, b) in enumerate(zip(ints(starts), ints(ends))):
        axis = ints(axes)[i] if axes is not None else i
        step = ints(steps)[i] if steps is not None else 1
        index[axis] = slice(a, min(b, sys.maxsize), step)
    return x[tuple(index)]


def reshaped(x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(ints(shape))])


def unsqueezed(x, axes):
    for axis in sorted(ints(axes)):
        x = x.unsqueeze(axis)
    return x


def constant(node):
    import onnx
    return torch.from_numpy(onnx.numpy_helper.to_array(attribute(node, "value")).copy())


def filled(node, shape):
    import onnx
    value = attribute(node, "value")
    array = onnx.numpy_helper.to_array(value) if value is not None else np.zeros(1, "f4")
    return torch.from_numpy(np.full(ints(shape), array.reshape(-1)[0], array.dtype))


def gathered(x, i, axis):
    i = torch.where(i < 0, i + x.shape[axis], i)
    return torch.index_select(x, axis, i.flatten()).reshape(x.shape[:axis] + i.shape + x.shape[axis + 1:])


def gemm(n, a, b, c):
    a = a.t() if attribute(n, "transA", 0) else a
    b = b.t() if attribute(n, "transB", 0) else b
    return attribute(n, "alpha", 1.0) * (a @ b) + attribute(n, "beta", 1.0) * c


def convolution(n, x, w, b=None):
    pads = attribute(n, "pads", [0, 0, 0, 0])
    assert pads[:2] == pads[2:]
    return nn.functional.conv2d(x, w, b, attribute(n, "strides", [1, 1]), pads[:2], attribute(n, "dilations", [1, 1]),
                                attribute(n, "group", 1))


def max_pool(n, x):
    pads = attribute(n, "pads", [0, 0, 0, 0])
    return nn.functional.max_pool2d(x, attribute(n, "kernel_shape"), attribute(n, "strides"), pads[:2])


def divided(_, a, b):
    return torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc")


NODES = {
    "Identity": lambda n, x: x, "Constant": constant, "ConstantOfShape": filled,
    "Shape": lambda n, x: torch.tensor(x.shape), "Cast": lambda n, x: x.to(of_type(n)),
    "Range": lambda n, a, b, c: torch.arange(a.item(), b.item(), c.item(), dtype=a.dtype),
    "Gather": lambda n, x, i: gathered(x, i, attribute(n, "axis", 0) % x.dim()),
    "Unsqueeze": lambda n, x, axes: unsqueezed(x, axes), "Concat": lambda n, *x: torch.cat(x, attribute(n, "axis")),
    "Reshape": lambda n, x, s: reshaped(x, s), "Transpose": lambda n, x: x.permute(attribute(n, "perm")),
    "Slice": lambda n, *x: sliced(*x), "Expand": lambda n, x, s: x.expand(torch.broadcast_shapes(x.shape, ints(s))),
    "Split": lambda n, x, s: torch.split(x, ints(s), attribute(n, "axis", 0)),
    "Add": lambda n, a, b: a + b, "Sub": lambda n, a, b: a - b, "Mul": lambda n, a, b: a * b, "Div": divided,
    "Pow": lambda n, a, b: a ** b, "Sqrt": lambda n, x: x.sqrt(), "Neg": lambda n, x: -x, "Erf": lambda n, x: x.erf(),
    "Cos": lambda n, x: x.cos(), "Sin": lambda n, x: x.sin(), "Tanh": lambda n, x: x.tanh(),
    "Sigmoid": lambda n, x: x.sigmoid(), "Relu": lambda n, x: x.relu(), "Equal": lambda n, a, b: a == b,
    "Where": lambda n, c, a, b: torch.where(c, a, b), "Softmax": lambda n, x: x.softmax(attribute(n, "axis", -1)),
    "Trilu": lambda n, x, k=torch.tensor(0): (torch.triu if attribute(n, "upper", 1) else torch.tril)(x, int(k)),
    "ReduceMean": lambda n, x: x.mean(attribute(n, "axes"), bool(attribute(n, "keepdims", 1))),
    "MatMul": lambda n, a, b: a @ b, "Gemm": gemm, "Conv": convolution, "MaxPool": max_pool,
    "GlobalAveragePool": lambda n, x: x.mean((2, 3), keepdim=True), "Flatten": lambda n, x: x.flatten(1),
    "LayerNormalization": lambda n, x, w, b: nn.functional.layer_norm(x, w.shape, w, b, attribute(n, "epsilon", 1e-5)),
}


class Evaluated(nn.Module):
    def __init__(self, path):
        super().__init__()
        import onnx
        self.graph = onnx.load(path).graph
        self.fixed, self.trained = {}, {}
        for t in self.graph.initializer:
            value = torch.from_numpy(onnx.numpy_helper.to_array(t).copy())
            if value.is_floating_point() and value.numel() > 1:
                self.trained[t.name] = nn.Parameter(value)
            else:
                self.fixed[t.name] = value

    def parameters(self, recurse=True):
        return iter(self.trained.values())

    def named_parameters(self, *_, **__):
        return iter(self.trained.items())

    def double(self):
        def wide(values):
            return {k: v.double() if v.is_floating_point() else v for k, v in values.items()}
        self.fixed = wide(self.fixed)
        self.trained = {k: nn.Parameter(v.detach()) for k, v in wide(self.trained).items()}
        return self

    def forward(self, x):
        values = {**self.fixed, **self.trained, self.graph.input[0].name: x, "": None}
        for n in self.graph.node:
            given = [values[i] for i in n.input]
            made = NODES[n.op_type](n, *given)
            values.update(zip(n.output, made if isinstance(made, tuple) else (made,)))
        return values[self.graph.output[0].name]


def of_file(path):
    """The PyTorch model, and data for its first input."""
    import onnx
    model = Evaluated(path)
    port = model.graph.input[0]
    dims = [d.dim_value for d in port.type.tensor_type.shape.dim]
    rng = np.random.default_rng(0)
    if port.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
        x = rng.standard_normal((ROWS, *dims[1:]), dtype=np.float32)
    else:
        table = next(model.trained[n.input[0]].shape[0] for n in model.graph.node
                     if n.op_type == "Gather" and n.input[1] == port.name)
        x = rng.integers(0, table, (ROWS, dims[1] or 32))
    batch = dims[0] or BATCH
    y = model(torch.from_numpy(x[:batch])).shape
    return model, port.name, batch, x, rng.integers(0, y[-1], (ROWS, *y[1:-1]))


# ---- comparison

def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], "f4").reshape(v["shape"])
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__" and v["dtype"] == "F32"}


def torch_losses(model, x, labels, batch, steps, lr):
    x, labels = torch.from_numpy(x), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=DECAY, eps=EPS)
    losses = []
    for step in range(steps):
        rows = [(step * batch + i) % ROWS for i in range(batch)]
        loss = nn.functional.cross_entropy(model(x[rows]).flatten(0, -2), labels[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare(name, folder, o, path, model, port, batch, x, labels):
    steps = o.steps
    np.save(f"{folder}/x.npy", x)
    np.save(f"{folder}/labels.npy", labels)
    fixed = ["--dim", f"seq={x.shape[1]}"] if name == "FILE" and x.ndim == 2 else []
    o.run([f"{o.build}/apc", path, "-q", "--train", "cross_entropy", "--optimizer",
           f"adamw(lr={o.lr},weight_decay={DECAY},eps={EPS})", *(["--batch", str(batch)] if o.symbolic(path) else []), *fixed,
           "--target", "cpu", "-o", f"{folder}/agree"])
    text = o.run([f"{folder}/agree", "--steps", str(steps), "--shuffle", "none", "--data", f"{port}=@{folder}/x.npy",
                  "--data", f"labels=@{folder}/labels.npy", "--json", "--save", f"{folder}/agree.safetensors"])
    ours = [json.loads(line)["loss"] for line in text.splitlines()]
    double = copy.deepcopy(model).double()
    before = {k: p.detach().numpy().copy() for k, p in model.named_parameters()}
    theirs = torch_losses(model, x, labels, batch, steps, o.lr)
    wide = torch_losses(double, x.astype("f8") if x.dtype == np.float32 else x, labels, batch, steps, o.lr)
    if o.verbose:
        print("\n".join(f"step {i + 1}: {a:.7g}, PyTorch's {b:.7g}" for i, (a, b) in enumerate(zip(ours, theirs))))
    loss, rounding = (max(abs(a - b) / abs(b) for a, b in zip(losses, theirs)) for losses in (ours, wide))
    weights, exact = load(f"{folder}/agree.safetensors"), dict(double.named_parameters())
    apart, size, moved, worst, same = 0, 0, 0, (0, "", 0), True
    for key, p in model.named_parameters():
        mine, other = weights[key].astype("f8"), p.detach().numpy().astype("f8")
        square, norm = ((mine - other) ** 2).sum(), (other ** 2).sum()
        apart, size = apart + square, size + norm
        moved += ((other - before[key]) ** 2).sum()
        own = (((exact[key].detach().numpy() - other) ** 2).sum() / norm) ** 0.5
        worst = max(worst, ((square / norm) ** 0.5, key, own))
        same &= (square / norm) ** 0.5 < max(WEIGHT_MOST, ROUNDING_MOST * own)
    all_weights = (apart / size) ** 0.5
    ok = loss < max(LOSS_MOST, ROUNDING_MOST * rounding) and same and len(ours) == steps
    limits = loss < LOSS_MOST and worst[0] < WEIGHT_MOST
    print(f"| {path.rsplit('/', 1)[-1] if name == 'FILE' else name} | {sum(p.numel() for p in model.parameters()):,} "
          f"| {theirs[0]:.4f} to {theirs[-1]:.4f} | {loss:.1e} | {rounding:.1e} | {all_weights:.1e} | {worst[0]:.1e} (`{worst[1]}`) "
          f"| {worst[2]:.1e} | {(moved / size) ** 0.5:.2f} | {'NO' if not ok else 'yes' if limits else 'as f32 can'} |", flush=True)
    return ok


def has_symbol(path):
    import onnx
    dims = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    return bool(dims[0].dim_param)


def agree(o, folder, models, make, export, run):
    o.run, o.symbolic, o.batch = run, has_symbol, BATCH
    print("| model | weights | loss | losses, relative | PyTorch's f32 to f64 | weights, relative L2 | worst weight | PyTorch's f32 to f64 "
          "| moved by | agrees |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    ok = True
    for name in o.names or models:
        if name.endswith(".onnx"):
            model, port, batch, x, labels = of_file(name)
            ok &= compare("FILE", folder, o, name, model, port, batch, x, labels)
        else:
            export(name, folder, o)
            model, x, labels, _, _ = make(name, o)
            ok &= compare(name, folder, o, f"{folder}/{name}.onnx", model, "x", BATCH, x, labels)
    sys.exit(0 if ok else "train.py: they do not agree")
