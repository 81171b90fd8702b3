#!/usr/bin/env python3
"""tests/cli/blocks.py APC - blocks of README.md and docs/ without commands are what they seem: apc reads the models,
IR, plans, targets and optimizers, and prints the outputs.

A block is fenced, or indented after an empty line.  BLOCKS has a row for each: its kind, which is a function of this
file, and the function's arguments.  Parts of files are put into a frame: `BLOCK` in it stands for the block, and what
follows `REST` for a line `...` in the block.  Each check must fail for the same block with a wrong line.

Not here: blocks with commands (tests/commands.py), code within a paragraph or a table."""
import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import commands  # noqa: E402

APC = str(pathlib.Path(sys.argv[1]).resolve())
ON_FOUR = "apc plan examples/largest.onnx --target cpux4"
GPT = ("apc plan examples/gpt.apc -q -D layers=4 --train cross_entropy --batch 16 --target cpux8 --pp 2 --tp 2 --dp 2 "
       "--micro-batches 4 --zero 3 --schedule 1f1b --recompute none --save-plan saved.plan && cat saved.plan")

LAYERS = "import nn\nparam d = 64\nparam hidden = 4 * d\ndim batch\nBLOCK"
TABLE = "param vocab = 100\nparam d = 64\ndim batch, seq\nBLOCK"
LOOP = "param d = 8\ndim batch, seq\nentry main(x: f32[seq, batch, d]) {\nBLOCK\n}"
CACHE = """param heads = 4\nparam kv_heads = 4\nparam ctx = 32\nparam size = 8\ndim batch, seq
entry main(q: f32[batch, heads, seq, size], k: f32[batch, kv_heads, seq, size], at: i64[]) {
state values : f32[batch, kv_heads, ctx, size]
values <- update(values, 2.0 * k, at, 2)
BLOCK
output y = a
}"""
SLOTS = """dim batch, seq
entry main(q: f32[batch, 4, seq, 8], k: f32[batch, 4, seq, 8], values: f32[batch, 4, 32, 8], at: i64[batch],
           count: i64[batch]) {
state keys : f32[batch, 4, 32, 8]
BLOCK
output y = a
}"""
NORM = """dim batch\nBLOCK
entry main(x: f32[batch, 3, 4, 4]) {
  weight gain : f32[1] = ones
  output y = gain * batch_norm(x)
}
REST }
  return x - reshape(mean, [1, -1, 1, 1])
}"""
OPAQUE = "dim batch\nentry main(x: f32[batch, 8], centres: f32[3, 8]) {\nBLOCK\noutput y = far\n}"
RULE = """dim batch, seq
entry main(x: f32[batch, seq, 12], index: i64[seq], other: f32[5]) {
  both = opaque("BLOCK", [x, index, other], head_size=3)
  output y = both[0]
}"""
COMPUTED = """apc.ir 1\nsymbol rows\nBLOCK
func @main level 1 {
  %hit = input {name="hit"} : bool[rows]
  %x = input {name="x"} : f32[rows, 4]
  %at = input {name="at"} : i64[rows]
  %to = input {name="to"} : i64[rows]
  BODY
  output "y" %picked
}"""
ROUNDS = """apc.ir 1\nsymbol batch\nsymbol seq
func @main level 1 {
  %x = input {name="x"} : f32[seq, batch, 64]
  %h0 = const {value=0} : f32[batch, 64]
  %zeros = const {value=0} : f32[seq, batch, 64]
BLOCK
  output "last" %last
  output "all" %all
}"""
REPEATED = """apc.ir 1\nsymbol batch
param "layers.3.w" : f32[64, 64] = zeros
BLOCK
  output "y" %block0.3
}
REST   output "out" %"layers.{0}.dot"
}
func @main level 1 {
  %block0.2 = input {name="x"} : f32[batch, 64]
  %layers.3.w = param {name="layers.3.w"} : f32[64, 64]"""


def run(command):
    words = ["bash", "-e", "-o", "pipefail", "-c", 'apc() { "$APC" "$@"; }\n' + command]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"APC": APC, "APC_CACHE": "off"})
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}"
    return done.stdout


def framed(text, frame):
    frame, _, rest = frame.partition("REST")
    return frame.replace("BLOCK", re.sub(r"^ *\.\.\.$", lambda _: rest, text, flags=re.M))


def model(text, frame="BLOCK", options=""):
    """Builds, and makes a plan."""
    pathlib.Path("block.apc").write_text(framed(text, frame) + "\n")
    run(f"apc plan block.apc -q --target cpu {options}")


def ir(text, frame="BLOCK"):
    """Is read, verified and planned.  If the frame has a body, only symbols stand before it."""
    if "BODY" in frame:
        lines = text.splitlines()
        frame = frame.replace("BODY", "\n".join(x for x in lines if not x.startswith("symbol ")))
        text = "\n".join(x for x in lines if x.startswith("symbol "))
    pathlib.Path("block.ir").write_text(framed(text, frame) + "\n")
    run("apc plan block.ir -q --target cpu")


def plan(text, options):
    """Is a plan file for this model and target."""
    pathlib.Path("block.plan").write_text(text + "\n")
    run(f"apc plan {options} -q --plan block.plan")


def target(text):
    pathlib.Path("block.topo").write_text(text + "\n")
    run("apc targets check block.topo")


def optimizers(text):
    for line in text.splitlines():
        run(f"apc plan examples/mlp.apc -q --train cross_entropy --batch 8 --target cpu --optimizer '{line}'")


def shown(text, command):
    """The lines are in the output, in this order; after ... a line may go on."""
    def known(line): return re.sub(r"found in [0-9.]+ m?u?s", "found in TIME", line).replace("examples/", "")
    output = iter([known(line) for line in run(command).splitlines()])
    for line in text.splitlines():
        start = known(line).removesuffix("...")
        found = (other.startswith(start) if line.endswith("...") else other == start for other in output)
        assert any(found), f"{command} does not print, here: {line}"


def same(text, name):
    """Is a part of the file, apart from spaces."""
    assert " ".join(text.split()) in " ".join((ROOT / name).read_text().split()), f"{name} does not have this text"


def call(text, name):
    """A call, in which each keyword is one of a call of that function in the file."""
    def keywords(code):
        return [(ast.unparse(c.func), {k.arg for k in c.keywords}) for c in ast.walk(ast.parse(code))
                if isinstance(c, ast.Call)]
    function, used = keywords(text)[0]
    assert any(f == function and used <= known for f, known in keywords((ROOT / name).read_text())), f"not in {name}"


def shell(text):
    """Runs."""
    run(text)


def test(_, name):
    """That test uses the block, or checks the same with other names and numbers."""
    assert re.search(rf"^{re.escape(name)} ", (ROOT / "tests/suite/table.txt").read_text(), re.M), f"no test {name}"


def told(_):
    """Nothing to run: a picture, a grammar, what was measured once, or what needs GPUs."""


# The document, the start of the block or its fence, the kind and its arguments.
BLOCKS = [
    ("README.md", "torch.onnx.export", call, "examples/largest.py"),
    ("README.md", "examples/gpt-tiny.onnx on", test, "cli.readme"),
    ("README.md", "equal ", test, "cli.readme"),
    ("docs/design.md", " model.onnx ─┐", told),
    ("docs/design.md", "base ", test, "rooms"),
    ("docs/guide/dsl.md", "# two.apc", model),
    ("docs/guide/dsl.md", "fn block", model, LAYERS),
    ("docs/guide/dsl.md", "entry main(tokens", model, TABLE),
    ("docs/guide/dsl.md", "h = fill", model, LOOP),
    ("docs/guide/dsl.md", "state keys", model, CACHE),
    ("docs/guide/dsl.md", "keys <- update", model, SLOTS),
    ("docs/guide/dsl.md", "fn batch_norm", model, NORM, "--train mse --batch 8"),
    ("docs/guide/install.md", "find_package", test, "install"),
    ("docs/guide/install.md", "export MANPATH", test, "install"),
    ("docs/guide/launch.md", "head ", shell),
    ("docs/guide/llm.md", "```python", test, "cli.slots"),
    ("docs/guide/llm.md", "weights  logits", test, "cli.packed"),
    ("docs/guide/operators.md", "#include <apc_operator.h>", same, "examples/operators.c"),
    ("docs/guide/operators.md", "my.Op: ", model, RULE),
    ("docs/guide/operators.md", "error: launch", test, "cli.operators"),
    ("docs/guide/operators.md", "h = opaque", model, OPAQUE),
    ("docs/guide/plan.md", "apc.plan 1\ngraph", shown, GPT),
    ("docs/guide/plan.md", "apc.plan 1\ncomplete", plan, "examples/gpt.apc -D layers=2 --target cpux4"),
    ("docs/guide/plan.md", "  ranks ", told),
    ("docs/guide/profile.md", "profile of 20 runs", told),
    ("docs/guide/profile.md", "rank 0: ", told),
    ("docs/guide/profile.md", "    167.840", told),
    ("docs/guide/python.md", "m = apc.compile(net, target=\"dgx", told),
    ("docs/guide/python.md", "```python", test, "python"),
    ("docs/guide/reading.md", "largest.onnx on", shown, ON_FOUR),
    ("docs/guide/reading.md", "  chosen", shown, ON_FOUR),
    ("docs/guide/reading.md", "  where the time", shown, ON_FOUR),
    ("docs/guide/reading.md", "  lower bound", shown, ON_FOUR),
    ("docs/guide/reading.md", "mesh ", shown, ON_FOUR + " -q --tp 2 --dp 2 --save-plan saved.plan && cat saved.plan"),
    ("docs/guide/start.md", "torch.onnx.export", same, "examples/largest.py"),
    ("docs/guide/targets.md", "file ", told),
    ("docs/guide/targets.md", "gpu fast", target),
    ("docs/guide/targets.md", "gpu MyCard", target),
    ("docs/guide/training.md", "x.npy ", told),
    ("docs/guide/training.md", "weights = ", same, "examples/largest.py"),
    ("docs/guide/training.md", "equal ", told),
    ("docs/inside/kernels.md", "level 2 ", told),
    ("docs/ir.md", "apc.ir 1", ir),
    ("docs/ir.md", "symbol n", ir, COMPUTED),
    ("docs/ir.md", "%n = size", ir, ROUNDS),
    ("docs/ir.md", "func @main.block0", ir, REPEATED),
    ("docs/train.md", "sgd(", optimizers),
    ("docs/train.md", "note: elastic", told),
]


def blocks_of(text):
    """(the first line's number, the fence or "", the text) of each block without a command."""
    of_commands, found, lines, at = {c.line for c in commands.shown(text)}, [], text.splitlines(), 0
    while at < len(lines):
        begin, fenced = at + 1, lines[at].startswith("```")
        fence = lines[at] if fenced else ""
        if not fenced and not (lines[at].startswith("    ") and (at == 0 or not lines[at - 1])):
            at += 1
            continue
        at += fenced
        end = at
        while end < len(lines) and not (lines[end].startswith("```") if fenced else lines[end][:4].strip()): end += 1
        words = [line if fenced else line[4:] for line in lines[at:end]]
        if not of_commands & set(range(at + 1, end + 1)):
            found.append((begin + fenced, fence, "\n".join(words).rstrip()))
        at = end + fenced
    return found


def failure(check, text, words):
    try: check(text, *words)
    except (AssertionError, SyntaxError) as fault: return str(fault) or "failed"
    return None


def faults_of(document, text, left):
    """Takes the rows of the blocks out of left."""
    faults = []
    for line, fence, block in blocks_of(text):
        row = next((r for r in BLOCKS if r[0] == document and (block.startswith(r[1]) or fence == r[1])), None)
        if not row:
            faults.append(f"{document}:{line}: BLOCKS in tests/cli/blocks.py has no row for this block")
            continue
        left.discard(row)
        _, _, check, *words = row
        fault = failure(check, block, words)
        if fault: faults.append(f"{document}:{line}: {fault}")
        first, newline, last = block.rpartition("\n")
        if check not in (test, told) and not failure(check, f"{first}{newline}? ?\n{last}", words):
            faults.append(f"{document}:{line}: the check does not see a wrong line in this block")
    return faults


def main():
    text = "a\n\n    b\n\n      c\n\n```\nd\n```\n    no\n\n    apc plan\n"
    assert blocks_of(text) == [(3, "", "b\n\n  c"), (8, "```", "d")]
    assert len(faults_of("a.md", "\n    new\n", set())) == 1
    left, faults, count = set(BLOCKS), [], 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.symlink(ROOT / "examples", "examples")
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            text = path.read_text()
            count += len(blocks_of(text))
            faults += faults_of(str(path.relative_to(ROOT)), text, left)
    faults += [f"BLOCKS: {row[0]} has no block that begins with '{row[1]}'" for row in left]
    print(*faults, sep="\n")
    print(f"{count} blocks; {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
