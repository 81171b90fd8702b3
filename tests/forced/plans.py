#!/usr/bin/python3
"""Compares the plans of apc plan without force with forced ones, on random models, targets, sizes, types and limits.

Every pair of a model and a target is planned without force.  Then:
  * forcing the degrees of the chosen plan, or of an alternative, gives the printed numbers;
  * no plan with random degrees, micro-batches, sizes of micro-batches and memory limits is faster than the bound
    printed without force, needs more memory than allowed, or has other degrees (or larger micro-batches) than
    requested; options that the chosen plan satisfies are not refused;
  * every plan, read back from the file that --save-plan wrote, prints the same time, shares, bytes and degrees, and
    writes the same file.
Any exit code except 0 and 3 is a fault, and so is a command that takes more processor time than --seconds.

usage: plans.py APC [--plans N] [--seed S] [--seconds S] [--models A,B] [--targets A,B] [MODEL.onnx ...]
  --plans     total number of forced plans, spread over all pairs; fewer on many ranks (default 1000)
  MODEL.onnx  further models; their dimensions are as apc takes them
Prints the commands of every fault, and a summary; exit 1 if there are faults.
"""
import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
examples = os.path.join(here, "../../examples")

# name: (file, -D settings, {dimension: sizes to draw from})
BATCH = {"batch": (1, 3, 8, 16, 30, 64)}
TEXT = {"batch": (1, 4, 8, 24), "seq": (1, 37, 64, 128)}
MOE = "layers=1 d=256 heads=8 kv_heads=4 ffn=512 top_k=2 vocab=1000 "
EXAMPLES = {
    "mlp": ("mlp.apc", "layers=4 d=512 hidden=2000", BATCH),
    "gpt": ("gpt.apc", "layers=3 d=192 heads=6 vocab=500 ctx=128 tied=0", TEXT),
    "gpt-medium": ("gpt.apc", "layers=24 d=1024 heads=16 ctx=1024", {"batch": (8, 32), "seq": (1, 256)}),
    "gpt-tiny.onnx": ("gpt-tiny.onnx", "", {"batch": (1, 4, 8), "seq": (1, 32, 64)}),
    "llama": ("llama.apc", "layers=4 d=512 heads=8 kv_heads=2 ffn=1376 vocab=4000", TEXT),
    "llama-30b": ("llama.apc", "layers=6 d=6656 heads=52 kv_heads=52 ffn=17920 vocab=32000",
                  {"batch": (1, 256), "seq": (1, 512)}),
    "llama-cache": ("llama.apc", "layers=2 d=512 heads=8 kv_heads=8 ffn=1376 vocab=1000 cache=1",
                    {"batch": (1, 8), "seq": (1, 16)}),
    "bert": ("bert.apc", "layers=4 d=256 heads=4 ffn=1024 vocab=2000 ctx=128", TEXT),
    "t5": ("t5.apc", "layers=1 d=256 d_kv=32 heads=8 ffn=512 vocab=1000",
           {"batch": (2, 4), "seq": (64,), "tgt": (1, 32)}),
    "moe": ("moe.apc", MOE + "experts=8", {"batch": (1, 4, 16), "seq": (1, 64)}),
    "moe-capacity": ("moe.apc", MOE + "experts=4 routing=capacity groups=2", {"batch": (4, 16), "seq": (64,)}),
    "moe-dropless": ("moe.apc", MOE + "experts=6 routing=dropless", {"batch": (1, 4), "seq": (32,)}),
    "resnet": ("resnet.apc", "depth=18 width=16 classes=100 image=64", BATCH),
    "unet": ("unet.apc", "channels=16 levels=2 image=64", {"batch": (1, 4, 12)}),
    "lstm": ("lstm.apc", "layers=2 d=128 hidden=256 vocab=500", {"batch": (1, 16, 32)}),
}
# Converted to ONNX by apc itself.
CONVERTED = {
    "bert.onnx": ("bert.apc", "layers=2 d=128 heads=4 ffn=512 vocab=500 ctx=128", TEXT),
    "vit.onnx": ("vit.apc", "layers=3 d=192 heads=3 ffn=768 patch=16 image=64 classes=100", BATCH),
}
# name: (ranks, types to compute in); the files are here
GPU = ("f32", "tf32", "bf16", "f16")
TARGETS = {
    "cpux2": (2, ("f32",)),
    "cpux4": (4, ("f32",)),
    "cpux12": (12, ("f32",)),
    "dgx-a100x16": (16, GPU),
    "dgx-a100x64": (64, GPU),
    "dgx-h100x8": (8, GPU),
    "l40s-x8-pcie": (8, GPU),
    "rtx4090-x4": (4, GPU),
    "aws-p3.16xlarge": (8, ("f32", "f16")),
    "gb200-nvl72": (72, GPU),
    "eth8.topo": (8, GPU),
    "pairs12.topo": (12, GPU),
}
GENERATED = ("decoder.onnx", "encoder_decoder.onnx", "cached.onnx", "convolutions.onnx")  # by models.py
written = {}
MANY_RANKS = 16  # a search takes seconds
DEGREES = ("tp", "pp", "dp", "ep", "cp")
SAME = ("chosen", "time_us", "counted_bytes", "bytes_per_device", "breakdown_us", "memory_bytes")


class Count:
    forced = wide = refused = shown = at_bound = faults = commands = pairs = 0
    models, targets = set(), set()


def near(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


class Pair:
    """A model on a target with sizes, a type and perhaps a limit of memory."""

    def __init__(self, args, work, name, model, target):
        self.args, self.work = args, work
        self.random = r = random.Random(f"{args.seed} {os.path.basename(name)} {target}")
        file, settings, sizes = model
        self.ranks, types = TARGETS[target]
        at = os.path.join(here, target) if target.endswith(".topo") else target
        self.command = [args.apc, "plan", file, "-q", "--json", "--target", at]
        for setting in settings.split():
            self.command += ["-D", setting]
        self.sizes = {dimension: r.choice(values) for dimension, values in sizes.items()}
        self.bound_batch = r.random() < 0.25 and "batch" in self.sizes
        for dimension, size in self.sizes.items():
            bound = self.bound_batch and dimension == "batch"
            self.command += ["--dim" if bound else "--dim-hint", f"{dimension}={size}"]
        if r.random() < 0.6:
            self.command += ["--dtype", r.choice(types)]
        self.limit = None
        self.words = []  # the options of the checks

    def fault(self, text):
        Count.faults += 1
        print(f"FAULT {text}\n      {' '.join(self.command + self.words)}", flush=True)

    def run(self, options):
        """Exit code and JSON; None if the result itself is a fault."""
        Count.commands += 1
        limit = ["prlimit", f"--cpu={self.args.seconds}"]
        done = subprocess.run(limit + self.command + options, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode not in (0, 3):
            self.fault(f"exit {done.returncode}: {done.stderr.strip()[-300:]}")
            return None, None
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            self.fault("standard output is not JSON")
            return None, None

    def with_limit(self, limit):
        return ["--memory", str(limit)] if limit else []

    def planned(self, options, limit):
        """A plan that keeps the rules of all plans, also when read back from its file; None if it is refused."""
        first, again = (os.path.join(self.work, f) for f in ("first.plan", "again.plan"))
        for file in (first, again):
            if os.path.exists(file):
                os.remove(file)
        self.words = options + self.with_limit(limit)
        code, plan = self.run(self.words + ["--save-plan", first])
        if code != 0:
            return None
        if plan["time_us"] < plan["lower_bound_us"] * (1 - 1e-9):
            self.fault(f"{plan['time_us']} us is less than its own bound {plan['lower_bound_us']}")
        if limit and plan["bytes_per_device"] > limit:
            self.fault(f"{plan['bytes_per_device']} bytes, {limit} are allowed")
        code, read = self.run(self.with_limit(limit) + ["--plan", first, "--save-plan", again])
        if code == 3:
            self.fault("its plan is refused when it is read")
        if code == 0:
            for key in SAME:
                if read[key] != plan[key]:
                    self.fault(f"{key}: {plan[key]}, read from its file {read[key]}")
            if open(first).read() != open(again).read():
                self.fault("its plan is written as another one when it is read")
        return plan

    # ---- printed plans

    def check_shown(self, degrees, time, size):
        if math.prod(degrees[d] for d in DEGREES) != self.ranks:
            return  # an axis that splits nothing has no degree
        options = [word for d in DEGREES for word in (f"--{d}", str(degrees[d]))]
        options += ["--micro-batches", str(degrees["micro_batches"])]
        plan = self.planned(options, self.limit)
        Count.shown += 1
        if plan is None and time is not None:
            self.fault(f"shown at {time} us and refused")
        elif plan is not None:
            forced, its_size = plan["time_us"], plan["bytes_per_device"]
            if time is None or not near(forced, time) or its_size != size:
                self.fault(f"shown at {time} us, {size} bytes; forced {forced} us, {its_size} bytes")

    # ---- random plans

    def divisor(self, n):
        return self.random.choice([k for k in range(1, n + 1) if n % k == 0])

    def draw(self, best):
        """{option: value}: mostly some of the degrees of one way to divide the ranks."""
        r = self.random
        if best and r.random() < 0.2:
            of = r.choice([best["chosen"]] + [x for x in best["alternatives"] if x["time_us"] is not None])
            picked = {d: of[d] for d in DEGREES + ("micro_batches",) if r.random() < 0.5}
            return picked, of
        left, degrees = self.ranks, {}
        order = list(DEGREES)
        r.shuffle(order)
        for d in order:
            degrees[d] = self.divisor(left)
            left //= degrees[d]
        degrees[order[-1]] *= left
        share = r.choice((0.3, 0.6, 1))
        picked = {d: n for d, n in degrees.items() if r.random() < share and (d != "ep" or n == 1 or r.random() < 0.4)}
        if r.random() < 0.05:
            picked[r.choice(DEGREES)] = r.randint(1, self.ranks + 1)
        if r.random() < 0.35:
            picked["micro_batches"] = r.choice((1, 2, 3, 4, 5, 8, 12, 16, 30, 64, 100))
        elif self.bound_batch and r.random() < 0.3:
            picked["micro_batch"] = r.randint(1, self.sizes["batch"])
        return picked, None

    def check_forced(self, best):
        picked, of = self.draw(best)
        if not picked:
            return False
        limit = self.limit
        if of is None and best and self.random.random() < 0.15:
            limit = int(best["bytes_per_device"] * self.random.uniform(0.6, 1.3))
        options = [word for d, n in picked.items() for word in ("--" + d.replace("_", "-"), str(n))]
        plan = self.planned(options, limit)
        if plan is None:
            Count.refused += 1
            if of:
                self.fault(f"refused, and a plan that was shown satisfies it: {of}")
            return False
        Count.forced += 1
        Count.wide += self.ranks > 8
        if not best:
            self.fault(f"a plan of {plan['time_us']} us; without force there is none")
            return True
        if plan["time_us"] < best["lower_bound_us"] * (1 - 1e-9):
            self.fault(f"{plan['time_us']} us is faster than the bound {best['lower_bound_us']} us without force")
        got = plan["chosen"]
        wrong = {d: got[d] for d, n in picked.items() if (got[d] > n if d == "micro_batch" else got[d] != n)}
        if wrong:
            self.fault(f"asked for {picked}, the plan has {wrong}")
        Count.at_bound += near(plan["time_us"], best["lower_bound_us"])
        return True

    def check(self, wanted):
        code, best = self.run([])
        if code is None:
            return
        if code == 0 and self.random.random() < 0.1:
            self.limit = int(best["bytes_per_device"] * self.random.uniform(0.6, 1))
            self.words = self.with_limit(self.limit)
            code, best = self.run(self.words)
            if code is None:
                return
        if code == 0:
            shown = [best["chosen"] | {"time_us": best["time_us"], "bytes_per_device": best["bytes_per_device"]}]
            x = self.random.choice(shown + best["alternatives"])
            self.check_shown(x, x["time_us"], x["bytes_per_device"])
        else:
            best = None
        made = 0
        for _ in range(4 * wanted):
            made += self.check_forced(best)
            if made == wanted:
                break


def find_model(args, work, name):
    """Its file, settings and sizes; converts it first if it is no example."""
    if name in EXAMPLES:
        file, settings, sizes = EXAMPLES[name]
        return os.path.join(examples, file), settings, sizes
    if name in CONVERTED:
        file, settings, sizes = CONVERTED[name]
        made = os.path.join(work, name)
        defines = [word for s in settings.split() for word in ("-D", s)]
        if not os.path.exists(made):
            subprocess.run([args.apc, "convert", os.path.join(examples, file), *defines, made, "-q"], check=True)
        return made, "", sizes
    if name in GENERATED:
        if name not in written:
            import models
            written[name] = models.MAKERS[name[:-5]](work)
        file, sizes = written[name]
        return file, "", sizes
    return name, "", {}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("apc", type=os.path.abspath)
    parser.add_argument("further", nargs="*", metavar="MODEL.onnx")
    parser.add_argument("--plans", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--models")
    parser.add_argument("--targets")
    args = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as work:
        models = args.models.split(",") if args.models else [*EXAMPLES, *CONVERTED, *GENERATED]
        models += args.further
        targets = args.targets.split(",") if args.targets else list(TARGETS)
        pairs = [(m, t) for m in models for t in targets]
        random.Random(args.seed).shuffle(pairs)
        weights = [1 if TARGETS[t][0] >= MANY_RANKS else 4 for _, t in pairs]
        for i, (name, target) in enumerate(pairs):
            before = Count.forced
            wanted = math.ceil((args.plans - Count.forced) * weights[i] / sum(weights[i:]))
            if wanted <= 0:
                break
            Pair(args, work, name, find_model(args, work, name), target).check(wanted)
            Count.pairs += 1
            if Count.forced > before:
                Count.models.add(name)
                Count.targets.add(target)
            if sys.stdout.isatty() or i % 10 == 9:
                done = f"{i + 1} of {len(pairs)} pairs"
                print(f"{done}, {Count.forced} forced plans, {Count.faults} faults", flush=True)
    print(f"{Count.pairs} pairs of {len(Count.models)} models and {len(Count.targets)} targets: "
          f"{Count.forced} forced plans ({Count.wide} on more than 8 ranks), {Count.refused} refused, "
          f"{Count.shown} shown ones forced, {Count.at_bound} at the bound, {Count.commands} commands, "
          f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime:.0f} s of processor time, {Count.faults} faults")
    return 1 if Count.faults or not Count.forced else 0


sys.exit(main())
