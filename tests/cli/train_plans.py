"""tests/cli/train_plans.py APC APC-OPT [RANDOM [SEED]] - many plans of the same training give the same training.

Small models are trained under plans of 2, 3, 4 and 8 ranks, and under random ones: plans with random changes of
strategies (dropped, or given to other axes).  Each is proved, and its losses equal those of one rank to 1e-5.  A random
plan that the compiler refuses is drawn again.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import numpy as np

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/")
STEPS = 6
QUARTER = int(os.environ["APC_QUARTER"]) if "APC_QUARTER" in os.environ else None  # of the plans, one random one for each model
AS_CLOSE = 1e-5

GPT = ["-D", "layers=1", "-D", "d=16", "-D", "heads=4", "-D", "vocab=24", "-D", "ctx=8", "--dim", "seq=8"]
MOE = ["-D", "layers=1", "-D", "d=16", "-D", "heads=4", "-D", "kv_heads=2", "-D", "ffn=24", "-D", "experts=4", "-D",
       "vocab=24", "--dim", "seq=6"]
CONV = """import nn
dim batch
param frozen = 0
fn conv_bn(x, n, stride=1) {
  y = conv2d(x, n, 3, stride=stride, bias=false, std=0.2) as "conv"
  return batch_norm(y, frozen=frozen) as "bn"
}
fn block(x) {
  h = relu(conv_bn(x, 6) as "a")
  return relu(x + conv_bn(h, 6) as "b")
}
entry main(x: f32[batch, 3, 12, 12]) {
  h = max_pool(relu(conv_bn(x, 6, stride=2) as "stem"), 2)
  h = block(h) as "0"
  output logits = linear(mean(h, [2, 3]), 6) as "head"
}
"""
MODELS = {
    "mlp": (["mlp.apc", "-D", "layers=3", "-D", "d=12"], "mse", "adamw(lr=1e-3)", 12, """
        2: dp=2 | tp=2 | dp=2 micro-batches=3
        3: dp=3 | tp=3 | tp=3 micro-batches=2
        4: dp=4 | tp=4 | dp=2 tp=2 | dp=2 tp=2 micro-batches=2
        8: dp=4 tp=2 | dp=2 tp=4 | tp=8"""),
    "gpt": (["gpt.apc", *GPT], "cross_entropy", "adamw(lr=1e-3,clip=1,schedule=cosine,warmup=2,steps=9)", 12, """
        2: dp=2 | tp=2 | cp=2 | tp=2 micro-batches=3
        3: dp=3 | tp=3 | dp=3 micro-batches=2
        4: dp=2 tp=2 | dp=2 cp=2 | tp=4 | dp=2 tp=2 micro-batches=2
        8: dp=4 tp=2 | dp=2 tp=4 | dp=2 tp=2 cp=2"""),
    "conv": (["conv.apc"], "cross_entropy", "sgd(lr=1e-2,momentum=.9)", 12, """
        2: dp=2 | tp=2
        3: dp=3 | tp=3
        4: dp=2 tp=2 | tp=4
        8: dp=4 tp=2"""),
    "frozen": (["conv.apc", "-D", "frozen=1"], "cross_entropy", "sgd(lr=1e-2)", 12, """
        2: dp=2 micro-batches=3 | tp=2 micro-batches=2
        4: dp=2 tp=2 micro-batches=2"""),
    "moe": (["moe.apc", *MOE], "cross_entropy", "lion(lr=1e-4)", 6, """
        2: dp=2 | ep=2 | tp=2 | ep=2 micro-batches=2
        3: dp=3 | tp=3
        4: dp=2 ep=2 | ep=4 | dp=2 tp=2
        8: dp=2 ep=4 | dp=2 ep=2 tp=2"""),
}


def cuts(text):
    for line in text.strip().splitlines():
        ranks, _, rest = line.strip().partition(":")
        for cut in rest.split("|"):
            options = []
            for word in cut.split():
                name, value = word.split("=")
                options += ["--" + name, value]
            yield int(ranks), options


def data_of(name, batch):
    r = np.random.default_rng(1)
    rows = 4 * batch
    if name == "mlp":
        x = r.standard_normal((rows, 12)).astype("f4")
        inputs = {"x": x, "labels": np.tanh(x @ r.standard_normal((12, 12)).astype("f4"))}
    elif name in ("conv", "frozen"):
        inputs = {"x": r.standard_normal((rows, 3, 12, 12)).astype("f4"), "labels": r.integers(0, 6, rows)}
    else:
        seq = 8 if name == "gpt" else 6
        t = r.integers(0, 24, (rows, seq + 1))
        inputs = {"tokens": t[:, :-1].copy(), "labels": t[:, 1:].copy()}
    given = []
    for key, array in inputs.items():
        np.save(f"{name}.{key}.npy", array)
        given += ["--data", f"{key}=@{name}.{key}.npy"]
    return given


def call(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


class Test:
    def __init__(self, apc, opt):
        self.apc, self.opt, self.plans, self.faults = apc, opt, 0, 0

    def make(self, model, ranks, options, program):
        file, loss, optimizer, batch, _ = model
        return call(self.apc, "compile", file[0] if os.path.exists(file[0]) else EXAMPLES + file[0], *file[1:], "-q", "--train", loss, "--optimizer", optimizer,
                    "--batch", str(batch), "--target", f"cpux{ranks}" if ranks > 1 else "cpu", "--effort", "1", *options,
                    "--save-plan", program + ".plan", f"--emit=exe={program},spmd={program}.ir")

    def losses(self, name, program, batch):
        done = call("./" + program, "--steps", str(STEPS), *data_of(name, batch), "--json")
        assert done.returncode == 0, (program, done.returncode, done.stderr)
        return np.array([json.loads(line)["loss"] for line in done.stdout.splitlines()])

    def judge(self, name, what, program, want):
        proof = call(self.opt, "--prove=main,main.spmd", program + ".ir")
        got = self.losses(name, program, MODELS[name][3])
        apart = float(np.max(np.abs(got - want) / np.abs(want)))
        self.plans += 1
        if proof.stdout.startswith("proved") and apart < AS_CLOSE:
            return apart
        self.faults += 1
        print(f"FAILED {name} {what}: {proof.stdout.strip()}, losses {apart:.2g} apart")
        return apart


# The parts of a strategy that may change: micro-batches stay.
def changed(rng, line):
    m = re.fullmatch(r'(op "[^"]*") \{(.*)\}', line)
    if not m or rng.random() < 0.95:
        return [line]
    parts = m[2].split(", ")
    i = rng.randrange(len(parts))
    factor, _, axes = parts[i].partition(":")
    if "mb" in axes.split("."):
        return [line]
    if rng.random() < 0.5 and len(parts) > 1:
        j = rng.randrange(len(parts))
        other = parts[j].partition(":")
        if "mb" not in other[2].split("."):
            parts[i], parts[j] = f"{factor}:{other[2]}", f"{other[0]}:{axes}"
    else:
        del parts[i]
    return [f"{m[1]} {{{', '.join(parts)}}}"] if parts else []


def random_plan(rng, text):
    return "\n".join(new for line in text.splitlines() for new in changed(rng, line)) + "\n"


def main(apc, opt, times, seed):
    rng = random.Random(seed)
    print(f"seed {seed}, {times} random plans per model", flush=True)
    test, worst = Test(apc, opt), 0
    open("conv.apc", "w").write(CONV)
    for name, model in MODELS.items():
        done = test.make(model, 1, [], "one")
        assert done.returncode == 0, done.stderr
        want = test.losses(name, "one", model[3])
        plans = []
        for number, (ranks, options) in enumerate(cuts(model[4])):
            if QUARTER not in (None, number % 4):
                continue
            done = test.make(model, ranks, options, "many")
            if done.returncode:
                test.faults += 1
                print(f"FAILED {name} on {ranks} ranks, {' '.join(options)}: {done.stderr}")
                continue
            worst = max(worst, test.judge(name, f"on {ranks} ranks, {' '.join(options)}", "many", want))
            plans.append((ranks, options, open("many.plan").read()))
        drawn = refused = 0
        while plans and drawn < times and refused < 20 * times:
            ranks, options, text = rng.choice(plans)
            open("random.plan", "w").write(random_plan(rng, text))
            done = test.make(model, ranks, ["--plan", "random.plan"], "many")
            if done.returncode:
                assert done.returncode in (1, 3), (done.returncode, done.stderr)
                refused += 1
                continue
            drawn += 1
            what = f"random plan {drawn} like {ranks} ranks, {' '.join(options)}"
            worst = max(worst, test.judge(name, what, "many", want))
        print(f"{name}: {len(plans)} plans, {drawn} random ones, {refused} drawn again", flush=True)
        test.faults += plans != [] and drawn < times
    print(f"{test.plans} plans, {test.faults} faults; losses at most {worst:.1e} apart")
    return test.faults > 0 or test.plans < (40 if QUARTER is None else 10)


if __name__ == "__main__":
    programs = [os.path.abspath(p) for p in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.exit(main(*programs, int(sys.argv[3]) if len(sys.argv) > 3 else 2 if QUARTER is None else 1,
                      int(sys.argv[4]) if len(sys.argv) > 4 else int.from_bytes(os.urandom(4), "little")))
