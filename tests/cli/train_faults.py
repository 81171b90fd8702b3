"""tests/cli/train_faults.py APC APC-OPT - wrong training steps are refuted, without a run.

Two steps are planned and lowered: a GPT whose table is tied, cut by tp, dp and micro-batches, with ZeRO and full
recomputation; and a model with dropout, cut by dp, with selective recomputation.  Their level-2 texts are proved.  Then
each of a list of faults is planted wherever it fits (a few places, evenly chosen), one at a time, and the prover must
refute, or the verifier refuse, every one.
"""
import os
import re
import subprocess
import sys
import tempfile

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/")
SIZES = ["-D", "layers=1", "-D", "d=16", "-D", "heads=2", "-D", "ctx=8", "--dim", "seq=8", "--batch", "8"]
STEP = ["--train", "cross_entropy", "--optimizer", "adamw(lr=1e-3)", "-q"]
GPT = [EXAMPLES + "gpt.apc", "-D", "vocab=24", *SIZES, "--target", "cpux4", "--tp", "2", "--dp", "2", "--micro-batches",
       "2", "--zero", "1", "--recompute", "full", *STEP]
CHARS = [EXAMPLES + "chars.apc", "-D", "dropout_p=0.1", *SIZES, "--target", "cpux2", "--dp", "2", "--micro-batches", "2",
         "--recompute", "selective", *STEP]
MOST = 8


def split_step(text):
    """The lines before main.spmd, its own, and those after."""
    lines = text.split("\n")
    first = next(i for i, x in enumerate(lines) if x.startswith("func @main.spmd"))
    last = next(i for i in range(first, len(lines)) if lines[i] == "}")
    return lines[:first + 1], lines[first + 1:last], lines[last:]


def by_line(pattern, replacement):
    """A fault in one line: its replacement; None if it does not fit."""
    regex = re.compile(pattern)

    def plant(lines, i):
        line, n = regex.subn(replacement, lines[i], count=1)
        return lines[:i] + line.split("\n") + lines[i + 1:] if n and line != lines[i] else None

    return plant


def tied_gradient(lines, i):
    """One of the two gradients of the table is left out."""
    found = re.match(r"(  %\S+) = add (%\S+), %\S+( : .*)", lines[i])
    behind = found and any("wte.grad.accumulate = accumulate " + found[1].strip() + " " in x for x in lines)
    return lines[:i] + [f"{found[1]} = copy {found[2]}{found[3]}"] + lines[i + 1:] if behind else None


def another_operand(lines, i):
    """A recomputation uses another value of the same type."""
    found = re.match(r"  %(\S+) = (mul|add|dot|sub) (%\S+), (%\S+) (.*again.*)", lines[i])
    if not found:
        return None
    types = {m[1]: m[2] for m in (re.match(r"  (%\S+) = .*? : (\S+\[[^]]*\])", x) for x in lines[:i]) if m}
    other = [v for v, t in types.items() if t == types.get(found[3]) and v != found[3] and v != found[4]]
    if not other:
        return None
    return lines[:i] + [lines[i].replace(f" {found[3]},", f" {other[0]},", 1)] + lines[i + 1:]


def behind_nonlinear(lines, i):
    """The sum of parts moves after an operation that is not linear in them."""
    found = re.match(r"  (%\S+) = all_reduce (%\S+) \{(.*)\} : (\S+\[[^]]*\])( .*|$)", lines[i])
    if not found or "op=sum" not in found[3]:
        return None
    return lines[:i] + [f"  {found[1]}.exp = exp {found[2]} : {found[4]}{found[5].split(' loc')[0]}",
                        f"  {found[1]}.sum = all_reduce {found[1]}.exp {{{found[3]}}} : {found[4]}{found[5].split(' loc')[0]}",
                        f"  {found[1]} = log {found[1]}.sum : {found[4]}{found[5].split(' loc')[0]}"] + lines[i + 1:]


FAULTS = {
    "what micro-batches add up to is left out": by_line(r"= accumulate (%\S+) ", r"= copy \1 "),
    "it is added up twice": by_line(r"^  (%\S+) = accumulate (%\S+) : ([^\n]*)$",
                                    r"  \1.once = accumulate \2 : \3\n  \1 = accumulate \1.once : \3"),
    "over dp, not over micro-batches": by_line(r"= accumulate (%\S+) ", r"= all_reduce \1 {op=sum, mesh_axes=[dp]} "),
    "the loss counts as often as there are micro-batches": by_line(
        r"(  %loss\.grad\.const = const \{value)=1\}", r"\1=2}"),
    "the mean of the rows that a rank has": by_line(r"(  %loss\.grad\.const = const \{value)=1\}", r"\1=4}"),
    "a gradient of a tied weight is dropped": tied_gradient,
    "a moment is cut as it does not lie": by_line(r'(read \{name="[^"]*:[mv]"\} : \S+ \S+ @\{0:)tp, 1:dp\}', r"\1dp, 1:tp}"),
    "recomputed from another value": another_operand,
    "recomputed with other random numbers": by_line(r"(= random_keyed .*stream)=1(.* again )", r"\1=2\2"),
    "random numbers that no step changes": by_line(
        r"^  (%\S+) = random_keyed %step (.*)$", r"  \1.key = const {value=1} : i64[]\n  \1 = random_keyed \1.key \2"),
    "parts are added after an operation that is not linear": behind_nonlinear,
    "an all-reduce is left out": by_line(r"= all_reduce (%\S+) \{[^}]*\} ", r"= copy \1 "),
}


def verdict(prover, text):
    with open("wrong.ir", "w") as f:
        f.write(text)
    done = subprocess.run([prover, "--prove=main,main.spmd", "wrong.ir"], capture_output=True, text=True, timeout=120)
    if done.returncode == 0 and "proved" in done.stdout:
        return "proved"
    if done.returncode == 4 and "refuted" in done.stdout + done.stderr:
        return "refuted"
    if done.returncode == 1 and re.match(r"error\[APC0302\]: V\d+: @main\.spmd", done.stderr):
        return "refused"
    return f"exit {done.returncode}: {(done.stdout + done.stderr).strip()[:200]}"


def main():
    apc, prover = map(os.path.realpath, sys.argv[1:3])
    planted, refuted, wrong = dict.fromkeys(FAULTS, 0), dict.fromkeys(FAULTS, 0), []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for model in (GPT, CHARS):
            subprocess.run([apc, "plan", *model, "--emit=spmd=step.ir"], check=True, capture_output=True, timeout=120)
            with open("step.ir") as f:
                text = f.read()
            before, lines, behind = split_step(text)
            assert verdict(prover, text) == "proved", "as it is"
            for name, plant in FAULTS.items():
                fits = [x for x in (plant(lines, i) for i in range(len(lines))) if x]
                for x in fits[::max(1, len(fits) // MOST)]:
                    planted[name] += 1
                    got = verdict(prover, "\n".join(before + x + behind))
                    refuted[name] += got == "refuted"
                    if got not in ("refuted", "refused"):
                        at = next((a for a, b in zip(x, lines) if a != b), "")
                        wrong.append(f"{name}: {got}: {at.strip()[:160]}")
        os.chdir("/")
    for name, n in planted.items():
        print(f"{n:6}  {name}, {refuted[name]} refuted by the prover, else refused by the verifier")
        if not n:
            wrong.append(f"{name}: never planted")
    print("\n".join(wrong))
    print(f"{sum(planted.values()) - len(wrong)} passed, {len(wrong)} failed")
    sys.exit(bool(wrong))


main()
