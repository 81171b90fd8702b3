#!/usr/bin/env python3
"""Training steps of compiled programs against PyTorch's, on the same cores: tokens or images per second.

usage: bench/train.py [gpt] [resnet18] [llama] [moe] [vit] [--ranks N] [--cores LIST] [--rounds R] [--steps S] [--batch B]
                      [--build DIR] [--folder DIR] [--fused] [--layers L --width D --heads H --vocab V --seq S] [--image PIXELS]

Rounds alternate between the trainer (`--train cross_entropy --optimizer adamw`, N ranks, which share the cores) and
PyTorch with a thread per core: the same model, weights, batches, f32, AdamW with the same parameters, no dropout, batch
norms with fixed statistics.  A round makes S steps after two warm-up steps.  Prints the median over rounds of the
median step time, and of the processor time per step, which other load does not affect; the ratio is PyTorch's time over
ours.  Compares the losses of the first steps, which must be equal.

--agree measures no times: it makes 20 steps (--steps) of each model, or of FILE.onnx, in both, and compares all losses
and the final weights (train_agree.py).

Models are written to the folder (default: a temporary one) as PyTorch's exporter writes them with optimize=False.
Needs torch, torchvision and onnxscript, which are no dependencies of apc.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import torch
from torch import nn

from train_agree import agree
from train_models import GPT, Llama

LR, DECAY, WARMUP, ROWS = 3e-4, 1e-2, 2, 64
RTOL = 2e-3  # for losses: rounding errors grow with every step


def distinct(model):
    """Gives each vector its own random numbers: exporters would join equal weights."""
    for weight in model.parameters():
        if weight.dim() < 2:
            weight.data += 0.02 * torch.randn_like(weight)
    return model


def of_tokens(model):
    def make_tokens(o):
        rng = np.random.default_rng(0)
        x = rng.integers(0, o.vocab, (ROWS, o.seq))
        return model(o), x, rng.integers(0, o.vocab, (ROWS, o.seq)), o.seq, "tokens"
    return make_tokens


def of_images(model):
    def make_images(o):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((ROWS, 3, o.image, o.image), dtype=np.float32)
        return model(o), x, rng.integers(0, 1000, ROWS), 1, "images"
    return make_images


def resnet18(_):
    import torchvision
    return torchvision.models.resnet18(weights=None, zero_init_residual=True)  # otherwise losses depend on rounding


def resnet18_plain(_):
    import torchvision
    return torchvision.models.resnet18(weights=None)


def vit(o):
    import torchvision
    return torchvision.models.VisionTransformer(o.image, 16, o.layers, o.heads, o.width, 2 * o.width)


MODELS = {"gpt": of_tokens(GPT), "llama": of_tokens(Llama), "moe": of_tokens(lambda o: Llama(o, 4)),
          "resnet18": of_images(resnet18), "resnet18_plain": of_images(resnet18_plain),
          "vit": of_images(vit)}
MEASURED = ["gpt", "resnet18"]


def make(name, o):
    torch.manual_seed(0)
    model, x, labels, unit, what = MODELS[name](o)
    return distinct(model).eval(), x, labels, unit, what


def export(name, folder, o):
    model, x, labels, _, _ = make(name, o)
    np.save(f"{folder}/x.npy", x)
    np.save(f"{folder}/labels.npy", labels)
    with torch.no_grad():
        torch.onnx.export(model, (torch.from_numpy(x[:o.batch]),), f"{folder}/{name}.onnx", dynamo=True, optimize=False,
                          external_data=False, verbose=False, input_names=["x"], output_names=["y"],
                          dynamic_shapes=({0: "batch"},))


def run(words, **how):
    done = subprocess.run(words, capture_output=True, text=True, **how)
    if done.returncode:
        sys.exit(f"train.py: {' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def compile_trainer(name, folder, o):
    target = "cpu" if o.ranks == 1 else f"cpux{o.ranks}"
    run([f"{o.build}/apc", f"{folder}/{name}.onnx", "--train", "cross_entropy", "--optimizer",
         f"adamw(lr={LR},weight_decay={DECAY})", "--batch", str(o.batch), "--target", target, "--quiet", "-o",
         f"{folder}/{name}"])


def summary(losses, seconds, used):
    return {"losses": losses, "median": statistics.median(seconds[WARMUP:]), "used": used}


def ours(name, folder, o):
    """Includes warm-up steps: the processor time comes from the difference of two runs."""
    used, lines = [], []
    for steps in (WARMUP, WARMUP + o.steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        text = run(["taskset", "-c", o.cores, f"{folder}/{name}", "--steps", str(steps), "--shuffle", "none",
                    "--data", f"x=@{folder}/x.npy",
                    "--data", f"labels=@{folder}/labels.npy", "--json"])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        lines = [json.loads(line) for line in text.splitlines()]
    return summary([d["loss"] for d in lines], [d["time_us"] * 1e-6 for d in lines], (used[1] - used[0]) / o.steps)


def torch_steps(name, o):
    """Runs PyTorch's steps in a process of their own; prints a line of JSON."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model, x, labels, _, _ = make(name, o)
    x, labels = torch.from_numpy(x), torch.from_numpy(labels)
    if name == "resnet18":
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=DECAY, fused=o.fused)
    losses, seconds, used = [], [], 0
    for step in range(WARMUP + o.steps):
        if step == WARMUP:
            used = time.process_time()
        begin = time.perf_counter()
        rows = [(step * o.batch + i) % ROWS for i in range(o.batch)]
        loss = nn.functional.cross_entropy(model(x[rows]).flatten(0, -2), labels[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(summary(losses, seconds, (time.process_time() - used) / o.steps)))


def theirs(name, o):
    rest = [w for w in sys.argv[1:] if w not in MODELS]
    return json.loads(run(["taskset", "-c", o.cores, sys.executable, os.path.abspath(__file__), name, "--torch", *rest]))


def same_losses(name, a, b):
    for i, (x, y) in enumerate(zip(a["losses"][:4], b["losses"])):
        if abs(x - y) > RTOL * abs(y):
            sys.exit(f"train.py: {name}, step {i}: loss {x}, PyTorch's {y}")


def measure(name, folder, o):
    export(name, folder, o)
    compile_trainer(name, folder, o)
    _, _, _, unit, what = make(name, o)
    rounds = []
    for _ in range(o.rounds):
        rounds.append((ours(name, folder, o), theirs(name, o)))
        same_losses(name, *rounds[-1])
    mine, other = (statistics.median(r[i]["median"] for r in rounds) for i in (0, 1))
    used = [statistics.median(r[i]["used"] for r in rounds) for i in (0, 1)]
    per = o.batch * unit
    print(f"| {name}, batch {o.batch} | {o.ranks} | {other * 1e3:.1f} | {mine * 1e3:.1f} | {per / other:.0f} "
          f"| {per / mine:.0f} {what}/s | {other / mine:.2f} | {used[0] * 1e3:.0f} | {used[1] * 1e3:.0f} "
          f"| {used[1] / used[0]:.2f} |", flush=True)


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("names", nargs="*")
    sizes = dict(ranks=1, rounds=3, steps=10, batch=8, layers=6, width=384, heads=6, vocab=1024, seq=128,
                 image=128)
    for name, default in sizes.items():
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--build", default="build")
    p.add_argument("--folder")
    p.add_argument("--cores", default="0,1", help="as taskset takes them")
    p.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--agree", action="store_true")
    p.add_argument("--lr", type=float, default=1e-3, help="of --agree")
    p.add_argument("--verbose", action="store_true", help="--agree prints all losses")
    p.add_argument("--fused", action="store_true", help="PyTorch's fused AdamW")
    o = p.parse_args()
    if o.torch:
        return torch_steps(o.names[0], o)
    if o.agree:
        with tempfile.TemporaryDirectory() as folder:
            return agree(o, o.folder or folder, MODELS, make, export, run)
    print(f"PyTorch {torch.__version__}, {torch.backends.mkldnn.is_available() and 'oneDNN' or 'no oneDNN'}")
    print("| model | ranks | PyTorch, ms | apc, ms | PyTorch, per s | apc, per s | ratio | apc, processor ms "
          "| PyTorch, processor ms | ratio |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name in o.names or MEASURED:
            measure(name, o.folder or folder, o)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    main()
