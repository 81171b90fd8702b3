#!/usr/bin/env python3
"""bench/calibrated.py - predicted times on a calibrated machine against measured ones.

    python3 bench/calibrated.py [--build build] [--calibration FILE.topo] [--runs N] [--only NAME] [--report FILE.md]

Calibrates this machine (unless a file is given), plans 20 models with it for cpu and for cpux2, runs each, and prints
predicted against measured times.  `fit` models were used while choosing the form of the cost model (no figure is fit to
any model); `check` models were not.  The measured time is the least time of a request over runs that alternate between
all programs, in rounds, so that a few seconds of other load do not affect one model alone; the median of the rounds'
least times is printed beside it.  Fails if the mean error is above 15 % or the worst above 40 %, for cpu or cpux2.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

GPT = "gpt.apc"
# name, use, file, options
MODELS = [
    ("gpt-tiny", "fit", GPT, "-D layers=2 -D d=64 -D heads=2 -D vocab=200 -D ctx=64 --dim batch=1,seq=16"),
    ("gpt-small", "fit", GPT, "-D layers=4 -D d=256 -D heads=4 -D vocab=2000 -D ctx=128 --dim batch=1,seq=64"),
    ("mlp-1", "fit", "mlp.apc", "--dim batch=1"),
    ("mlp-32", "fit", "mlp.apc", "--dim batch=32"),
    ("resnet18", "fit", "resnet.apc", "-D depth=18 --dim batch=1"),
    ("resnet18-small", "fit", "resnet.apc", "-D depth=18 -D width=16 -D image=64 --dim batch=1"),
    ("vit", "fit", "vit.apc", "-D layers=2 --dim batch=1"),
    ("bert-small", "fit", "bert.apc", "-D layers=4 -D d=256 -D heads=4 -D vocab=2000 --dim batch=4,seq=32"),
    ("mlp-train", "fit", "mlp.apc", "-D layers=2 -D d=256 --train mse --batch 16"),
    ("gpt-train", "fit", GPT, "-D layers=2 -D d=128 -D heads=4 -D vocab=500 -D ctx=64 --dim seq=32 "
     "--train cross_entropy --batch 4"),
    ("gpt-medium", "check", GPT, "-D layers=2 -D d=512 -D heads=8 -D vocab=8000 -D ctx=256 --dim batch=2,seq=128"),
    ("gpt-onnx", "check", "gpt-tiny.onnx", ""),
    ("mlp-small", "check", "mlp.apc", "-D layers=6 -D d=128 --dim batch=8"),
    ("llama", "check", "llama.apc", "-D layers=2 -D d=256 -D heads=4 -D kv_heads=2 -D ffn=688 -D vocab=1000 "
     "--dim batch=1,seq=64"),
    ("t5", "check", "t5.apc", "-D layers=2 -D d=128 -D d_kv=32 -D heads=4 -D ffn=512 -D vocab=1000 "
     "--dim batch=2,seq=32,tgt=32"),
    ("bert-long", "check", "bert.apc", "-D layers=2 -D d=384 -D heads=6 -D vocab=2000 --dim batch=1,seq=256"),
    ("resnet50", "check", "resnet.apc", "-D depth=50 -D image=128 --dim batch=1"),
    ("unet", "check", "unet.apc", "-D channels=16 -D levels=2 -D image=64 --dim batch=1"),
    ("vit-small", "check", "vit.apc", "-D layers=4 -D d=192 -D heads=3 -D image=96 -D patch=8 --dim batch=2"),
    ("bert-train", "check", "bert.apc", "-D layers=1 -D d=128 -D heads=2 -D vocab=500 --dim seq=32 --batch 8 "
     "--train mse"),
]
TARGETS = ["cpu", "cpux2"]
MEAN, WORST = 0.15, 0.40


def run(line, env=None):
    done = subprocess.run(line, capture_output=True, text=True, env=env)
    return done.returncode, done.stdout, done.stderr


class Case:
    def __init__(self, row, target):
        self.name, self.use, self.file, self.options = row
        self.target, self.least, self.rounds, self.predicted, self.why = target, None, [], None, None
        self.least_calls, self.request = {}, 0

    def prepare(self, apc, examples, folder, env):
        self.program = os.path.join(folder, f"{self.name}.{self.target}")
        line = [os.path.join(examples, self.file), "--target", self.target] + self.options.split()
        code, out, err = run([apc, "plan", *line, "--json", "-q"], env)
        if code == 0:
            self.predicted = json.loads(out)["time_us"]
            code, _, err = run([apc, "compile", *line, "-q", "-o", self.program], env)
        if code:
            self.why = (err.strip().splitlines() or ["exit %d" % code])[0]

    def measure_busy(self, runs):
        """The sum of the least time of each operation, for machines that disturb every whole run."""
        trace = self.program + ".json"
        code, _, err = run([self.program, "--trace", trace, f"--bench={runs}"])
        if code:
            self.why = (err.strip().splitlines() or ["exit %d" % code])[0]
            return
        with open(trace) as f:
            events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X" and e["cat"] != "predicted"]
        order, count = {}, {}
        for e in events:  # the n-th call of an instruction in a run
            at = (e["pid"], e["args"].get("run"), e["name"], e["cat"])
            count[at] = count.get(at, 0) + 1
            key = (e["pid"], e["name"], e["cat"], count[at])
            if e["cat"] != "run":
                order[key] = min(order.get(key, 1e18), e["dur"])
        for key, us in order.items():
            self.least_calls[key] = min(self.least_calls.get(key, 1e18), us)
        ranks = {}
        for key, us in self.least_calls.items():
            ranks[key[0]] = ranks.get(key[0], 0) + us
        self.least = max(ranks.values()) + self.request
        self.rounds.append(self.least)

    def measure(self, apc, runs):
        code, out, err = run([apc, "bench", self.program, "--json", "-q", "--runs", str(runs), "--warmup", "3"])
        if code:
            self.why = (err.strip().splitlines() or ["exit %d" % code])[0]
            return
        self.rounds.append(json.loads(out)["min_us"])
        self.least = min(self.rounds)

    def error(self):
        return self.predicted / self.least - 1


def summary(cases, title):
    errors = sorted(abs(c.error()) for c in cases)
    if not errors:
        return f"{title}: none", True
    mean, worst = sum(errors) / len(errors), errors[-1]
    ok = mean <= MEAN and worst <= WORST
    return f"{title}: {len(errors)} models, mean error {mean:.1%}, worst {worst:.1%}", ok


def table(cases):
    lines = ["| model | use | target | predicted us | measured us | median of rounds | error |",
             "| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    for c in cases:
        if c.why:
            lines.append(f"| {c.name} | {c.use} | {c.target} | | | | {c.why} |")
            continue
        median = sorted(c.rounds)[len(c.rounds) // 2]
        lines.append(f"| {c.name} | {c.use} | {c.target} | {c.predicted:.1f} | {c.least:.1f} | {median:.1f} | "
                     f"{c.error():+.0%} |")
    return lines


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--calibration")
    p.add_argument("--runs", type=int, default=60)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only")
    p.add_argument("--report")
    p.add_argument("--busy", action="store_true", help="add up the least times of operations, instead of whole runs")
    a = p.parse_args()
    apc = os.path.abspath(os.path.join(a.build, "apc"))
    examples = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples")
    with tempfile.TemporaryDirectory() as folder:
        topo = a.calibration and os.path.abspath(a.calibration)
        if not topo:
            topo = os.path.join(folder, "here.topo")
            subprocess.run([apc, "calibrate", "--target", "cpux2", "-o", topo], check=True)
        env = dict(os.environ, APC_CALIBRATION=topo)
        rows = [m for m in MODELS if not a.only or a.only in m[0]]
        cases = [Case(m, t) for m in rows for t in TARGETS]
        for c in cases:
            c.prepare(apc, examples, folder, env)
        with open(topo) as f:
            words = [line.split() for line in f if line.startswith("  request ")][0]
        for c in cases:  # in us
            c.request = float(words[1]) + (float(words[4]) if c.target == "cpux2" else 0)
        for _ in range(a.rounds):
            for c in cases:
                if not c.why and a.busy:
                    c.measure_busy(a.runs)
                elif not c.why:
                    c.measure(apc, a.runs)
    done = [c for c in cases if not c.why]
    lines, ok = table(cases), len(done) == len(cases)
    lines.append("")
    for target in TARGETS:
        for use in ["fit", "check", None]:
            text, good = summary([c for c in done if c.target == target and use in (None, c.use)],
                                 f"{target}, {use or 'all'}")
            lines.append("- " + text)
            ok = ok and (good or use is not None)
    load = os.getloadavg()
    lines.append(f"- load of the machine at the end: {load[0]:.1f} (1 minute), {load[2]:.1f} (15 minutes)")
    print("\n".join(lines))
    if a.report:
        with open(a.report, "w") as f:
            f.write("\n".join(lines) + "\n")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
