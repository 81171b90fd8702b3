#!/usr/bin/env python3
"""Processor time of training steps: compiled programs against PyTorch eager, with channels last, and compiled.

usage: bench/train_speed.py [resnet18] [resnet50] [convnext_t] [unet] [gpt] [llama] [vit] [--threads 1,2] [--rounds R]
                            [--steps S] [--batch B] [--image PIXELS] [--modes eager,channels_last,compiled] [--build DIR]

All train the same model in training mode (batch norms by the batch, no dropout) with AdamW, which is fused in PyTorch,
in f32 from the same weights and batches.  Rounds alternate between all of them.  Measured is user and system time per
step, for machines that others use as well: of a program the difference between two runs, of PyTorch that of the steps
after two.  Other work still disturbs it through caches and memory, so the least of the rounds counts.  The ratio is
our time over the least of PyTorch's: below 1 we are faster.  Losses of the first steps must agree.

Needs torch, torchvision, timm and onnxscript, which are no dependencies of apc.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import torch
from torch import nn

import train

LR, WARMUP, RTOL = 1e-4, 2, 2e-3
MODES = ["eager", "channels_last", "compiled"]


class Double(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    """examples/unet.apc with 32 channels, and the mean of the image's results as logits."""
    def __init__(self, channels=32, levels=4, classes=16):
        super().__init__()
        wide = [channels << i for i in range(levels + 1)]
        self.down = nn.ModuleList(Double(3 if i == 0 else wide[i - 1], wide[i]) for i in range(levels + 1))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(wide[i + 1], wide[i], 2, stride=2) for i in range(levels))
        self.up = nn.ModuleList(Double(2 * wide[i], wide[i]) for i in range(levels))
        self.head = nn.Conv2d(channels, classes, 1)

    def forward(self, x):
        across = []
        for i, down in enumerate(self.down):
            x = down(x if i == 0 else nn.functional.max_pool2d(x, 2))
            across.append(x)
        for i in reversed(range(len(self.up))):
            x = self.up[i](torch.cat([across[i], self.grow[i](x)], 1))
        return self.head(x).mean((2, 3))


def timm_model(name):
    def make(_):
        import timm
        return timm.create_model(name, pretrained=False)
    return make


def vision(name):
    def make(_):
        import torchvision
        return getattr(torchvision.models, name)(weights=None)
    return make


MODELS = {"resnet18": train.of_images(vision("resnet18")), "resnet50": train.of_images(vision("resnet50")),
          "convnext_t": train.of_images(timm_model("convnext_tiny")), "unet": train.of_images(lambda _: UNet()),
          "gpt": train.MODELS["gpt"], "llama": train.MODELS["llama"], "vit": train.MODELS["vit"]}
MEASURED = ["resnet18", "resnet50", "convnext_t", "unet", "gpt"]


def make(name, o):
    torch.manual_seed(0)
    model, x, labels, _, _ = MODELS[name](o)
    return train.distinct(model).train(), torch.from_numpy(x), torch.from_numpy(labels % 16)


def export(name, folder, o):
    model, x, labels = make(name, o)
    np.save(f"{folder}/x.npy", x.numpy())
    np.save(f"{folder}/labels.npy", labels.numpy())
    torch.onnx.export(model, (x[:o.batch],), f"{folder}/{name}.onnx", dynamo=True, optimize=False, external_data=False,
                      verbose=False, input_names=["x"], output_names=["y"], dynamic_shapes=({0: "batch"},))


def run(words, threads):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"train_speed.py: {' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout, sum(after[:2]) - sum(before[:2])


def compile_trainer(name, folder, o):
    run([f"{o.build}/apc", f"{folder}/{name}.onnx", "--train", "cross_entropy", "--optimizer", f"adamw(lr={LR})",
         "--batch", str(o.batch), "--target", "cpu", "--quiet", "-o", f"{folder}/{name}"], 1)


def ours(name, folder, threads, o):
    used = []
    for steps in (WARMUP, WARMUP + o.steps):
        text, seconds = run([f"{folder}/{name}", "--steps", str(steps), "--shuffle", "none", "--data",
                             f"x=@{folder}/x.npy", "--data", f"labels=@{folder}/labels.npy", "--json"], threads)
        used.append(seconds)
    return (used[1] - used[0]) / o.steps * 1e3, [json.loads(line)["loss"] for line in text.splitlines()]


def torch_steps(name, mode, o):
    """In a process of its own; prints a line of JSON."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model, x, labels = make(name, o)
    if mode != "eager" and x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    called = torch.compile(model) if mode == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-2, fused=True)
    losses, used = [], 0
    for step in range(WARMUP + o.steps):
        if step == WARMUP:
            used = time.process_time()
        rows = [(step * o.batch + i) % train.ROWS for i in range(o.batch)]
        loss = nn.functional.cross_entropy(called(x[rows]).flatten(0, -2), labels[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps({"ms": (time.process_time() - used) / o.steps * 1e3, "losses": losses}))


def theirs(name, mode, threads):
    text, _ = run([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--torch", name, mode], threads)
    d = json.loads(text.splitlines()[-1])
    return d["ms"], d["losses"]


def same_losses(name, mode, a, b):
    for i in range(2):
        if abs(a[i] - b[i]) > RTOL * abs(b[i]):
            sys.exit(f"train_speed.py: {name}, step {i}: loss {a[i]}, PyTorch's ({mode}) {b[i]}")


def measure(name, folder, threads, o):
    modes = [m for m in o.modes.split(",") if m != "channels_last" or name not in ("gpt", "llama")]
    times = {m: [] for m in ["apc", *modes]}
    for _ in range(o.rounds):
        for m in times:
            ms, losses = ours(name, folder, threads, o) if m == "apc" else theirs(name, m, threads)
            times[m].append(ms)
            if m == "apc":
                mine = losses
            else:
                same_losses(name, m, mine, losses)
    least = {m: min(t) for m, t in times.items()}
    best = min(modes, key=least.get)
    cells = [f"{least[m]:.0f} to {max(times[m]):.0f}" if m in times else "-" for m in ["apc", *MODES]]
    print(f"| {name} | {threads} | {' | '.join(cells)} | {least['apc'] / least[best]:.2f} of {best} |", flush=True)


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("names", nargs="*")
    sizes = dict(rounds=3, steps=8, batch=8, layers=6, width=384, heads=6, vocab=1024, seq=128, image=128)
    for name, default in sizes.items():
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--threads", default="1")
    p.add_argument("--modes", default=",".join(MODES))
    p.add_argument("--build", default="build")
    p.add_argument("--torch", nargs=2, help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.torch:
        return torch_steps(*o.torch, o)
    print("| model | threads | apc, ms | PyTorch eager | channels last | compiled | ratio |\n"
          "| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in o.names or MEASURED:
        with tempfile.TemporaryDirectory() as folder:
            export(name, folder, o)
            compile_trainer(name, folder, o)
            for threads in o.threads.split(","):
                measure(name, folder, int(threads), o)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    main()
