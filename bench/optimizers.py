"""bench/optimizers.py APC - optimizers, averages and schedules of a training step against PyTorch's.

In: apc, and torch.  Out: for each case the largest relative difference of a weight, in the L2 norm, and of the loss,
over some steps of a small network, on one rank and on cut plans.  PyTorch's Muon computes its products in bf16; it is
compared twice, as it is and with these products in f32, which apc has.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from stored import read  # noqa: E402

STEPS, ROWS = 12, 16
NET = (ROOT / "tests/cli/optimizers.apc").read_text()


def matrices(p): return [v for v in p.values() if v.ndim == 2]
def vectors(p): return [v for v in p.values() if v.ndim != 2]


def with_schedule(make):
    def both(p):
        o = torch.optim.AdamW(p.values(), lr=3e-3)
        return [o], make(o)
    return both


# name, apc's optimizer, PyTorch's optimizers of the parameters, and a schedule
CASES = [
    ("adamw", "adamw(lr=3e-3)", lambda p: ([torch.optim.AdamW(p.values(), lr=3e-3)], None)),
    ("muon", "muon(lr=0.02,adamw_lr=3e-3,weight_decay=0)", lambda p: (
        [torch.optim.Muon(matrices(p), lr=.02, weight_decay=0), torch.optim.AdamW(vectors(p), lr=3e-3, weight_decay=0)], None)),
    ("muon, match_rms_adamw", "muon(lr=3e-3,adamw_lr=3e-3,adjust=match_rms_adamw)", lambda p: (
        [torch.optim.Muon(matrices(p), lr=3e-3, adjust_lr_fn="match_rms_adamw"), torch.optim.AdamW(vectors(p), lr=3e-3, weight_decay=.1)], None)),
    ("adafactor", "adafactor(lr=0.05,weight_decay=0.1)", lambda p: ([torch.optim.Adafactor(p.values(), lr=.05, weight_decay=.1)], None)),
    ("one_cycle", f"adamw(lr=3e-3,schedule=one_cycle,steps={STEPS})", with_schedule(
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 3e-3, total_steps=STEPS, cycle_momentum=False))),
    ("wsd", f"adamw(lr=3e-3,schedule=wsd,steps={STEPS},warmup=3,cooldown=4)", with_schedule(
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: min(1, (s + 1) / 3) * (1 - max(0, s - (STEPS - 4)) / 4)))),
]


def torch_run(start, x, labels, make):
    p = {k: torch.tensor(v.copy(), requires_grad=True) for k, v in start.items()}
    optimizers, schedule = make(p)
    average, losses = None, []
    for s in range(STEPS):
        rows = [(ROWS * s + i) % len(x) for i in range(ROWS)]
        h = torch.tanh(torch.tensor(x[rows]) @ p["a"].T + p["ab"])
        y = torch.tanh(h @ p["b"].T) @ p["c"].T
        loss = torch.nn.functional.cross_entropy(y, torch.tensor(labels[rows]))
        for o in optimizers: o.zero_grad()
        loss.backward()
        losses.append(loss.item())
        for o in optimizers: o.step()
        if schedule: schedule.step()
        now = {k: v.detach().numpy().copy() for k, v in p.items()}
        average = {k: now[k] if average is None else .9 * average[k] + .1 * now[k] for k in now}
    return now, average, losses


def off(got, want): return max(np.linalg.norm(got[k] - want[k]) / np.linalg.norm(want[k]) for k in want)


def main():
    apc = os.path.abspath(sys.argv[1])
    os.chdir(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((64, 12)).astype("f4"), rng.integers(0, 5, 64)
    np.save("x.npy", x), np.save("labels.npy", labels)
    pathlib.Path("net.apc").write_text(NET)
    run = lambda *args: subprocess.run(args, check=True, capture_output=True, text=True)

    def apc_run(optimizer, plan, steps=STEPS):
        end = ")" if optimizer.endswith(")") else "()"
        optimizer = optimizer[:-1] + ",ema=0.9)" if end == ")" else optimizer
        run(apc, "compile", "net.apc", "-q", "--train", "cross_entropy", "--optimizer", optimizer, "--batch", str(ROWS), *plan, "-o", "trainer")
        out = run("./trainer", "--steps", str(steps), "--data", "x=@x.npy", "--data", "labels=@labels.npy", "--shuffle", "none", "--json",
                  "--save", "w.safetensors", "--save-ema", "e.safetensors")
        return read("w.safetensors"), read("e.safetensors"), [json.loads(l)["loss"] for l in out.stdout.splitlines()]

    start = apc_run("sgd(lr=0)", [], 1)[0]
    ns = sys.modules["torch.optim._muon"]._zeropower_via_newtonschulz

    def in_f32(grad, c, steps, eps):
        g = grad.clone()
        tall = g.size(0) > g.size(1)
        g = g.T if tall else g
        g = g / g.norm().clamp(min=eps)
        for _ in range(steps):
            m = g @ g.T
            g = torch.addmm(g, torch.addmm(m, m, m, beta=c[1], alpha=c[2]), g, beta=c[0])
        return g.T if tall else g

    print(f"relative differences after {STEPS} steps\n{'':24}{'plan':22}{'weights':>10}{'averages':>10}{'losses':>10}")
    for name, ours, make in CASES:
        for kind in (["f32 products", "bf16 products"] if name.startswith("muon") else [""]):
            sys.modules["torch.optim._muon"]._zeropower_via_newtonschulz = ns if kind.startswith("bf16") else in_f32
            w, e, losses = torch_run(start, x, labels, make)
            for plan in ([], ["--target", "cpux2", "--dp", "2", "--zero", "1"], ["--target", "cpux2", "--tp", "2"], ["--target", "cpux4", "--dp", "4", "--zero", "3"]):
                got, average, found = apc_run(ours, plan)
                worst = max(abs(a - b) / abs(b) for a, b in zip(found, losses))
                print(f"{name + (', ' if kind else '') + kind:34}{' '.join(plan[2:]) or 'one rank':20}{off(got, w):10.1e}{off(average, e):10.1e}{worst:10.1e}", flush=True)


main()
