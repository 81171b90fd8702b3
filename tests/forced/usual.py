#!/usr/bin/python3
"""Compares usual plans with the plan that apc chooses.

Every case is a model of middling size on a target.  It is planned without force; then usual plans are drawn, with every
degree, the micro-batches, the schedule, ZeRO and recomputation forced: at random, and every other time a neighbour of
the fastest so far, which differs in one or two of these.  None may be faster than the bound of the free plan: that is a
fault, and so is any exit code except 0 and 3.  Plans faster than the free plan itself, within its gap, are listed.
With --all every plan of that kind is priced instead, which is possible for tiny cases on up to 8 ranks: all degrees,
micro-batches by powers of two, schedules, stages of ZeRO and recomputation.

usage: usual.py APC [--plans N | --all] [--memory SHARE] [--seed S] [--cases A,B] [--targets A,B] [--most SHARE] ...
  --plans    usual plans of each case that fit (default 200)
  --all      all of them
  --memory   with a memory limit of this share of the unlimited free plan's memory
  --cases    names of cases; only these
  --targets  only these
  --most     a plan faster than the free plan by more than this share is a fault, too (default: none is)
  --seconds  most processor time of a command (default 120)
  --log      also writes the list to this file
Prints each plan that beats the free one with its command, a line for every case, and a summary; exit 1 if there are
faults.
"""
import argparse
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
examples = os.path.join(here, "../../examples")
DEGREES = ("tp", "pp", "dp", "cp", "ep")

# name: (file, options, batches to train with and to infer with, layers, experts, has a sequence)
GPT = "-D d=1024 -D heads=16 -D ctx=1024 -D vocab=32000 --dim seq=512 --dtype bf16"
LLAMA = "-D d=2048 -D heads=16 -D kv_heads=8 -D ffn=5632 -D vocab=32000 --dim seq=1024 --dtype bf16"
MOE = "-D d=1024 -D heads=16 -D kv_heads=8 -D ffn=2816 -D vocab=32000 --dim seq=512 --dtype bf16"
MODELS = {
    "gpt-tiny": ("gpt.apc", "-D layers=2 -D d=256 -D heads=4 -D ctx=64 -D vocab=1000 --dim seq=64 --dtype bf16",
                 (8,), (8,), 2, 1, True),
    "gpt-small": ("gpt.apc", "-D layers=4 -D d=512 -D heads=8 -D ctx=256 -D vocab=8000 --dim seq=256 --dtype bf16",
                  (16,), (8,), 4, 1, True),
    "gpt": ("gpt.apc", f"-D layers=8 {GPT}", (32, 128), (8, 64), 8, 1, True),
    "gpt-long": ("gpt.apc", "-D layers=4 -D d=1024 -D heads=16 -D ctx=16384 -D vocab=32000 --dim seq=16384 "
                 "--dtype bf16", (8,), (1, 4), 4, 1, True),
    "gpt-deep": ("gpt.apc", f"-D layers=24 {GPT}", (64, 256), (64,), 24, 1, True),
    "llama": ("llama.apc", f"-D layers=8 {LLAMA}", (32, 256), (4, 64), 8, 1, True),
    "llama-wide": ("llama.apc", "-D layers=4 -D d=8192 -D heads=64 -D kv_heads=8 -D ffn=28672 -D vocab=32000 "
                   "--dim seq=2048 --dtype bf16", (16, 128), (1, 32), 4, 1, True),
    "moe": ("moe.apc", f"-D layers=4 -D experts=8 {MOE}", (32, 128), (8, 64), 4, 8, True),
    "moe-dropless": ("moe.apc", f"-D layers=4 -D experts=8 -D routing=dropless {MOE}", (), (8,), 4, 8, True),
    "t5": ("t5.apc", "-D layers=4 --dim seq=256 --dim tgt=256 --dtype bf16", (32, 128), (16, 64), 8, 1, True),
    "bert": ("bert.apc", "-D layers=12 --dim seq=256 --dtype bf16", (), (32, 256), 12, 1, True),
    "vit": ("vit.apc", "-D layers=12 --dtype bf16", (64, 512), (64, 256), 12, 1, False),
    "resnet": ("resnet.apc", "-D depth=50 -D frozen=1 --dtype f16", (64, 512), (32, 256), 16, 1, False),
    "unet": ("unet.apc", "--dtype f16", (16, 64), (8, 64), 9, 1, False),
}
TARGETS = {"dgx-a100x4": 4, "dgx-h100x8": 8, "l40s-x8-pcie": 8, "dgx-a100x16": 16, "dgx-h100x32": 32,
           "dgx-a100x64": 64, "dgx-h100x128": 128, "dgx-a100x256": 256, "dgx-a100x512": 512}
IMAGE_LOSS = {"unet": "bce"}


def cases():
    for name, (file, options, train, infer, layers, experts, long) in MODELS.items():
        command = [os.path.join(examples, file), *options.split()]
        for batch in train:
            loss = IMAGE_LOSS.get(name, "cross_entropy")
            step = ["--train", loss, "--optimizer", "adamw", "--batch", str(batch)]
            yield f"{name}-train-{batch}", Shape(command + step, batch, layers, experts, long, True)
        for batch in infer:
            step = ["--dim", f"batch={batch}"]
            yield f"{name}-{batch}", Shape(command + step, batch, layers, experts, long, False)


class Shape:
    def __init__(self, command, batch, layers, experts, long, train):
        self.command, self.batch, self.layers, self.experts = command, batch, layers, experts
        self.long, self.train = long, train


def divisors(n):
    return [k for k in range(1, n + 1) if n % k == 0]


class Drawn:
    """Usual plans of a shape on so many ranks, as {option: value}."""

    def __init__(self, r, shape, ranks):
        self.r, self.shape, self.ranks = r, shape, ranks

    def degrees(self):
        r, s, left = self.r, self.shape, self.ranks
        d = {"ep": 1, "cp": 1}
        d["tp"] = r.choice([k for k in divisors(left) if k <= 16])
        left //= d["tp"]
        d["pp"] = r.choice([1, 1] + [k for k in divisors(left) if k <= s.layers])
        left //= d["pp"]
        if s.experts > 1 and r.random() < 0.6:
            d["ep"] = r.choice([k for k in divisors(left) if s.experts % k == 0])
            left //= d["ep"]
        if s.long and r.random() < 0.3:
            d["cp"] = r.choice([k for k in divisors(left) if k <= 8])
            left //= d["cp"]
        return d | {"dp": left}

    def rest(self, d):
        """The other options, for these degrees."""
        r, s = self.r, self.shape
        most = max(1, s.batch // d["dp"])
        few = [m for m in (1, 2, 4, 8, 16, 32, 64, 128) if m <= most]
        d["micro-batches"] = r.choice(few if d["pp"] > 1 else few + [1] * (2 * len(few)))
        if s.train:
            kinds = ["1f1b", "zbv", "zbh1", "interleaved:2"] + (["interleaved:4"] if 4 * d["pp"] <= s.layers else [])
            d["schedule"] = r.choice(kinds) if d["pp"] > 1 and d["micro-batches"] > 1 else "1f1b"
            d["zero"] = r.choice((0, 1, 1, 2, 3)) if d["dp"] > 1 else 0
            d["recompute"] = r.choice(("none", "none", "none", "selective", "full"))
        return d

    def new(self):
        return self.rest(self.degrees())

    def all(self):
        s, n = self.shape, self.ranks
        for tp, pp, cp, ep in itertools.product(divisors(n), repeat=4):
            if n % (tp * pp * cp * ep) or (cp > 1 and not s.long) or s.experts % ep:
                continue
            d = {"tp": tp, "pp": pp, "dp": n // (tp * pp * cp * ep), "cp": cp, "ep": ep}
            micro = [m for m in (1, 2, 4, 8, 16, 32) if m <= max(1, s.batch // d["dp"])]
            filled = ["1f1b", "gpipe", "zbv", "zbh1", "interleaved:2"]
            for m in micro:
                if not s.train:
                    yield d | {"micro-batches": m}
                    continue
                for schedule, zero, again in itertools.product(filled if pp > 1 and m > 1 else ["1f1b"],
                                                               range(4 if d["dp"] > 1 else 1),
                                                               ("none", "selective", "full")):
                    yield d | {"micro-batches": m, "schedule": schedule, "zero": zero, "recompute": again}

    def near(self, of):
        """Another plan one or two steps from this one."""
        r, d = self.r, dict(of)
        other = self.rest({k: d[k] for k in DEGREES})
        if r.random() < 0.5:
            a, b = r.sample(["tp", "pp", "dp"] + ["cp"] * self.shape.long + ["ep"] * (self.shape.experts > 1), 2)
            primes = [p for p in (2, 3, 5, 7) if d[a] % p == 0]
            if primes:
                p = r.choice(primes)
                d[a], d[b] = d[a] // p, d[b] * p
            if d["pp"] == 1 or d["dp"] == 1 or r.random() < 0.3:
                return self.rest(d)
            return d
        changed = [k for k in other if k not in DEGREES and other[k] != d[k]]
        for k in r.sample(changed, min(len(changed), r.choice((1, 2)))):
            d[k] = other[k]
        return d


class Case:
    def __init__(self, args, name, shape, target):
        self.args, self.name, self.shape, self.target = args, name, shape, target
        self.command = [args.apc, "plan", *shape.command, "--target", target, "-q", "--json"]
        self.forced = self.refused = self.beaten = self.faults = 0

    def say(self, text):
        print(text, flush=True)
        if self.args.log:
            with open(self.args.log, "a") as log:
                log.write(text + "\n")

    def words(self, plan):
        return [word for k, v in plan.items() for word in (f"--{k}", str(v))]

    def fault(self, text, words):
        self.faults += 1
        self.say(f"FAULT {self.name} {self.target}: {text}\n      {' '.join(self.command + words)}")

    def run(self, words):
        """The plan; None if there is none."""
        limit = ["prlimit", f"--cpu={self.args.seconds}"]
        done = subprocess.run(limit + self.command + words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)
        if done.returncode == -signal.SIGKILL:
            self.fault(f"more than {self.args.seconds} s of processor time", words)
        elif done.returncode != 3:
            self.fault(f"exit {done.returncode}: {done.stderr.strip()[-300:]}", words)
        return None

    def compare(self, free, forced, words):
        time, free_time = forced["time_us"], free["time_us"]
        bound = free["lower_bound_us"]
        if forced["chosen"].get("schedule") not in (None, "none", "gpipe", "1f1b"):
            bound = free.get("lower_bound_without_gaps_us", bound)
        if time < bound * (1 - 1e-9):
            self.fault(f"{time} us is faster than the bound {bound} us", words)
        if time < free_time * (1 - 1e-3):
            self.beaten += 1
            chosen = {k: v for k, v in free["chosen"].items() if v not in (None, 1)}
            text = (f"BEATS {self.name} {self.target}: {time:.1f} us, the free plan {free_time:.1f} us "
                    f"({100 * (free_time / time - 1):.2f} %), gap {100 * free['gap']:.1f} %, chosen {chosen}")
            self.say(f"{text}\n      {' '.join(self.command + words)}")
        if self.args.most is not None and time < free_time * (1 - self.args.most):
            self.fault(f"{time} us, the free plan {free_time} us", words)

    def drawn(self):
        """Different usual plans; self.best is the fastest so far."""
        drawn = Drawn(random.Random(f"{self.args.seed} {self.name} {self.target}"), self.shape, TARGETS[self.target])
        if self.args.all:
            yield from drawn.all()
            return
        seen = set()
        for tried in range(3 * self.args.plans):
            plan = drawn.near(self.best_plan) if self.best_plan and tried % 2 else drawn.new()
            key = tuple(sorted(plan.items()))
            if key not in seen:
                yield plan
            seen.add(key)

    def check(self):
        free = self.run([])
        if free and self.args.memory:
            self.command += ["--memory", str(int(free["bytes_per_device"] * self.args.memory))]
            free = self.run([])
        if self.faults:
            return
        self.best, self.best_plan = math.inf, None
        for plan in self.drawn():
            enough = self.forced >= self.args.plans or (not free and self.refused > self.args.plans / 4)
            if enough and not self.args.all:
                break
            words = self.words(plan)
            forced = self.run(words)
            if not forced:
                self.refused += 1
                continue
            self.forced += 1
            if not free:
                self.fault("this fits, and without force there is no plan", words)
                break
            self.compare(free, forced, words)
            if forced["time_us"] < self.best:
                self.best, self.best_plan = forced["time_us"], plan
        compared = free and self.forced
        ratio = f"best {self.best / free['time_us']:.4f} of the free plan" if compared else "nothing to compare"
        told = f"gap {100 * free['gap']:.1f} %, {free['search_ms'] / 1e3:.1f} s" if free else "no free plan"
        self.say(f"{self.name} {self.target}: {self.forced} usual plans, {self.refused} refused, {ratio}, {told}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("apc", type=os.path.abspath)
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--memory", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--cases")
    parser.add_argument("--targets")
    parser.add_argument("--most", type=float)
    parser.add_argument("--log")
    args = parser.parse_args()
    targets = args.targets.split(",") if args.targets else list(TARGETS)
    pairs = [(name, shape, t) for name, shape in cases() for t in targets]
    if args.cases:
        pairs = [p for p in pairs if p[0] in args.cases.split(",")]
    random.Random(args.seed).shuffle(pairs)
    done = []
    for name, shape, target in pairs:
        done.append(Case(args, name, shape, target))
        done[-1].check()
    forced, faults = sum(c.forced for c in done), sum(c.faults for c in done)
    beaten = sum(c.beaten > 0 for c in done)
    print(f"{len(done)} cases, {forced} usual plans, {beaten} cases in which one is faster than the free plan, "
          f"{faults} faults")
    return 1 if faults or not forced else 0


sys.exit(main())
