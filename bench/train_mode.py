#!/usr/bin/env python3
"""Do models in training mode train as in PyTorch: batch norms by the batch, with their running statistics?

usage: bench/train_mode.py [MODEL...] [--exporter old|new|frozen] [--single] [--steps S] [--batch B] [--image PIXELS]
                           [--lr LR] [--target T] [--build DIR] [--folder DIR]

Each model of torchvision or timm gets seeded weights, and dropouts of probability 0.  It is exported in training mode:
by the older exporter (`dynamo=False, training=TRAINING`), by the newer one (`dynamo=True, optimize=False`), or, for
`frozen`, in evaluation mode by the newer one, with `--train-mode '*'` for apc.  Without --exporter: old and new.

Both sides make the same SGD steps from the same weights and batches.  Compared are the loss of every step, all weights
and running statistics at the end, and the loss in evaluation mode, by the running statistics.  The models compute in
f64: in f32 a relu of one of these models soon changes sides by rounding, which hides faults.  --single computes in f32,
and shows beside it how far PyTorch is from itself: from f64, and from weights that differ by 1e-7.  Where that exceeds
a third of the limit, three times as much is allowed ("as f32 can").

Needs torch, torchvision, timm and onnxscript, which are no dependencies of apc.
"""
import argparse
import copy
import json
import os
import struct
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from torch import nn

LOSS_MOST, WEIGHT_MOST = {True: 1e-5, False: 1e-7}, {True: 1e-4, False: 1e-6}  # by --single
ROUNDING_MOST, DISTURBED, CLASSES = 3, 2, 10
MODELS = {  # name: (package, size of its images where it needs a larger one)
    "resnet18": ("torchvision", 0), "vgg11_bn": ("torchvision", 0), "mobilenet_v2": ("torchvision", 0),
    "mobilenet_v3_small": ("torchvision", 0), "shufflenet_v2_x0_5": ("torchvision", 0),
    "efficientnet_b0": ("torchvision", 0), "regnet_y_400mf": ("torchvision", 0), "densenet121": ("torchvision", 0),
    "mnasnet0_5": ("torchvision", 0), "googlenet": ("torchvision", 0),
    "resnet10t": ("timm", 0), "ghostnet_050": ("timm", 0), "repvgg_a0": ("timm", 0), "levit_128s": ("timm", 224),
}
DEFAULT = ["resnet18", "densenet121", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5", "efficientnet_b0",
           "regnet_y_400mf", "repvgg_a0", "resnet10t", "googlenet"]


def make(name):
    torch.manual_seed(0)
    if MODELS[name][0] == "timm":
        import timm
        model = timm.create_model(name, pretrained=False, num_classes=CLASSES)
    else:
        import torchvision
        more = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
        model = getattr(torchvision.models, name)(weights=None, num_classes=CLASSES, **more)
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        elif type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        elif type(module).__name__ == "DropPath":
            module.drop_prob = 0.0
        if isinstance(module, nn.modules.batchnorm._BatchNorm):  # ONNX has these numbers as f32
            module.eps, module.momentum = float(np.float32(module.eps)), 1 - float(np.float32(1 - module.momentum))
    return model.train()


def export(model, x, path, exporter):
    if exporter == "old":
        torch.onnx.export(model, (x,), path, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                          input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}})
    else:
        model.train(exporter == "new")
        torch.onnx.export(model, (x,), path, dynamo=True, optimize=False, external_data=False, verbose=False,
                          input_names=["x"], output_names=["y"], dynamic_shapes=({0: "batch"},))
    model.train()


def take_statistics(model, path):
    """The older exporter runs the model, which moves its running statistics: both sides start from the file's."""
    import onnx
    state = model.state_dict()
    for t in onnx.load(path).graph.initializer:
        if "running_" in t.name:
            state[t.name].copy_(torch.from_numpy(onnx.numpy_helper.to_array(t).copy()))


def disturbed(model, seed):
    """A copy whose weights differ in their last bits."""
    copied, random = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in copied.parameters():
            p.mul_(1 + 1e-7 * torch.randn(p.shape, generator=random))
    return copied


def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    types = {"F32": "<f4", "F64": "<f8"}
    return {k: np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], types[v["dtype"]]).reshape(v["shape"])
            for k, v in json.loads(raw[8:8 + n]).items() if v.get("dtype") in types}


def rows(step, batch, n):
    return [(step * batch + i) % n for i in range(batch)]


def train(model, x, labels, o):
    """The losses of the steps, then that in evaluation mode."""
    optimizer = torch.optim.SGD(model.parameters(), lr=o.lr)
    losses = []
    for step in range(o.steps):
        at = rows(step, o.batch, len(x))
        loss = nn.functional.cross_entropy(model(x[at]), labels[at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        losses.append(nn.functional.cross_entropy(model(x), labels).item())
    return losses


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def ours(path, folder, o, exporter):
    wish = ["--train-mode", "*"] if exporter == "frozen" else []
    run([f"{o.build}/apc", path, "-q", "--train", "cross_entropy", "--optimizer", f"sgd(lr={o.lr})", "--batch",
         str(o.batch), "--target", o.target, *wish, "-o", f"{folder}/trainer"])
    data = [f"x=@{folder}/x.npy", f"labels=@{folder}/labels.npy"]
    text = run([f"{folder}/trainer", "--steps", str(o.steps), "--shuffle", "none", "--json", "--save",
                f"{folder}/trained.safetensors", *sum((["--data", d, "--eval", d] for d in data), [])])
    lines = [json.loads(line) for line in text.splitlines()]
    return [d.get("loss", d.get("eval_loss")) for d in lines], load(f"{folder}/trained.safetensors")


def apart(a, b):
    """The relative L2 difference; statistics that are 0 but for rounding count as 1e-6."""
    a, b = a.astype("f8"), b.astype("f8")
    return float(np.sqrt(((a - b) ** 2).sum() / max((b ** 2).sum(), 1e-12 * b.size)))


def relative(a, b):
    return max(abs(p - q) / abs(q) for p, q in zip(a, b))


def compare(name, exporter, folder, o):
    image = MODELS[name][1] or o.image
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2 * o.batch, 3, image, image), dtype=np.float32 if o.single else np.float64)
    labels = rng.integers(0, CLASSES, 2 * o.batch)
    np.save(f"{folder}/x.npy", x)
    np.save(f"{folder}/labels.npy", labels)
    model = make(name) if o.single else make(name).double()
    path = f"{folder}/{name}.onnx"
    export(copy.deepcopy(model), torch.from_numpy(x[:2]), path, exporter)
    take_statistics(model, path)
    got, values = ours(path, folder, o, exporter)
    others = [copy.deepcopy(model).double()] + [disturbed(model, seed) for seed in range(DISTURBED)] if o.single else []
    want = train(model, torch.from_numpy(x), torch.from_numpy(labels), o)
    rounded = [train(m, torch.from_numpy(x).to(next(m.parameters()).dtype), torch.from_numpy(labels), o) for m in others]
    mine, theirs = dict(model.state_dict()), [m.state_dict() for m in others]
    kinds = {"weight": (0, "", 0), "statistic": (0, "", 0)}
    missing, fits = 0, True
    for key, value in mine.items():
        if key.endswith("num_batches_tracked"):
            continue
        if key not in values:
            missing += 1
            continue
        kind = "statistic" if "running_" in key else "weight"
        own = max((apart(value.numpy(), t[key].numpy()) for t in theirs), default=0)
        off = apart(values[key], value.numpy())
        kinds[kind] = max(kinds[kind], (off, key, own))
        fits &= off < max(WEIGHT_MOST[o.single], ROUNDING_MOST * own)
    loss, rounding = relative(got, want), max((relative(want, r) for r in rounded), default=0)
    ok = not missing and len(got) == len(want) and loss < max(LOSS_MOST[o.single], ROUNDING_MOST * rounding) and fits
    within = loss < LOSS_MOST[o.single] and all(d < WEIGHT_MOST[o.single] for d, _, _ in kinds.values())
    (w, wkey, wown), (s, skey, sown) = kinds["weight"], kinds["statistic"]
    verdict = f"NO ({missing} names missing)" if missing else "NO" if not ok else "yes" if within else "as f32 can"
    print(f"| {name} | {exporter} | {want[0]:.4f} to {want[-2]:.4f}, evaluated {want[-1]:.4f} | {loss:.1e} | {rounding:.1e} "
          f"| {w:.1e} (`{wkey}`) | {wown:.1e} | {s:.1e} (`{skey}`) | {sown:.1e} | {verdict} |", flush=True)
    return ok


def main():
    p = argparse.ArgumentParser()
    p.add_argument("names", nargs="*")
    p.add_argument("--exporter", choices=["old", "new", "frozen"])
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--image", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-2)
    p.add_argument("--target", default="cpu")
    p.add_argument("--single", action="store_true")
    p.add_argument("--build", default=os.path.join(os.path.dirname(__file__), "..", "build"))
    p.add_argument("--folder")
    o = p.parse_args()
    warnings.filterwarnings("ignore")
    print("| model | exporter | loss | losses, relative | rounding | worst weight, relative L2 | rounding "
          "| worst running statistic | rounding | agrees |\n" + "| --- " * 10 + "|", flush=True)
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        for name in o.names or DEFAULT:
            for exporter in [o.exporter] if o.exporter else ["old", "new"]:
                try:
                    ok &= compare(name, exporter, o.folder or folder, o)
                except (RuntimeError, torch.onnx.OnnxExporterError) as e:  # refused by the exporter or by apc
                    print(f"| {name} | {exporter} | {str(e).splitlines()[0]} |", flush=True)
                    print(e, file=sys.stderr)
                    ok = False
    sys.exit(0 if ok else "train_mode.py: they do not agree")


if __name__ == "__main__":
    main()
