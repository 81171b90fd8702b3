#!/usr/bin/env python3
"""tests/cli/guides.py APC - the commands that tests/commands.txt marks with `run` end well, as they stand in their
document and in its order.  Their output is not compared.

Each document has a folder with examples/ and stand-ins for the reader's files, which STAND_INS makes before a command.
SHORTER replaces words that would only take time.  `cat FILE` of a file that does not exist writes it first, with the
lines that the document shows."""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("tests", "tests/onnx", "tests/hf")]
import annotated  # noqa: E402
import commands  # noqa: E402
import folder as hugging  # noqa: E402

APC = pathlib.Path(sys.argv[1]).resolve()
LOOPBACK = "127." + ".".join(str(os.getpid() >> shift & 255) for shift in (16, 8, 0))  # a test's own
SHORTER = (("--steps 1000", "--steps 3"), ("--runs 100", "--runs 2"), ("--bench=20", "--bench=2"),
           ("layers=128 -D d=25600", "layers=64 -D d=2560"), ("layers=96 -D d=12288", "layers=24 -D d=1536"),
           ("layers=96 -D d=9216", "layers=24 -D d=9216"), ("--metrics 9100", f"--metrics {LOOPBACK}:9100"))


def apc(folder, *words):
    subprocess.run([APC, *words, "-q"], cwd=folder, check=True)


def example(folder, name="model"):
    shutil.copy(ROOT / "examples/largest.onnx", folder / f"{name}.onnx")


def inputs(*names):
    def make(folder):
        for name in names: shutil.copy(ROOT / "examples/largest.inputs.npz", folder / name)
    return make


def program(*words):
    def make(folder):
        example(folder)
        apc(folder, "model.onnx", "-o", "model", *words)
    return make


def cached(folder):
    """The folder of the cache has entries."""
    os.environ["APC_CACHE"] = str(folder / "cache")
    program()(folder)


def mlp(folder):
    """Annotated for four devices."""
    (folder / "mlp.onnx").write_bytes(annotated.MODELS["megatron"])


def reshaping(folder):
    """A model whose input `shape` is the target of a Reshape."""
    a = annotated
    value = lambda field, name, kind, dims: a.message(field, a.message(1, name) + a.message(2, a.message(  # noqa: E731
        1, a.number(1, kind) + a.message(2, b"".join(a.message(1, a.number(1, n)) for n in dims)))))
    graph = (a.node("Reshape", ["x", "shape"], ["y"], "reshape") + a.message(2, "reshaping") +
             value(11, "x", 1, [2, 6]) + value(11, "shape", 7, [2]) + value(12, "y", 1, [3, 4]))
    (folder / "model.onnx").write_bytes(a.number(1, 8) + a.message(7, graph) + a.message(8, a.number(2, 17)))
    numpy.save(folder / "shape.npy", numpy.array([3, 4]))


def hugging_folder(folder):
    """Four times as wide as the stored model: narrower weights are not packed."""
    d = json.loads((ROOT / "tests/hf/folders/llama2.json").read_text())
    narrow = {d["config"]["hidden_size"], d["config"]["intermediate_size"]}
    shapes = {name: [4 * n if n in narrow else n for n in shape] for name, shape in d["shapes"].items()}
    wide = {name: 4 * d["config"][name] for name in ("hidden_size", "intermediate_size", "head_dim")}
    hugging.write(str(folder / "DIR"), d["config"] | wide, shapes)
    numpy.save(folder / "tokens.npy", numpy.array([d["tokens"]]))


def weights(name):
    return lambda folder: (example(folder), apc(folder, "convert", "model.onnx", name))


def data(folder):
    rng = numpy.random.default_rng(0)
    numpy.save(folder / "x.npy", rng.integers(0, 64, (256, 16)))
    numpy.save(folder / "labels.npy", rng.integers(0, 64, 256))


def trainer(folder):
    example(folder)
    data(folder)
    apc(folder, "model.onnx", "--train", "cross_entropy", "--batch", "64", "--target", "cpux2", "-o", "trainer")


# By the document and the start of the command.
STAND_INS = {
    ("README.md", "apc plan"): (example, inputs("inputs.npz")),
    ("docs/guide/cache.md", "apc cache list"): (cached,),
    ("docs/guide/convert.md", "apc convert"): (weights("trained.safetensors"),),
    ("docs/guide/convert.md", "apc model.onnx --const"): (reshaping,),
    ("docs/guide/convert.md", "apc plan mlp.onnx"): (mlp,),
    ("docs/guide/convert.md", "apc plan model.onnx"): (example,),
    ("docs/guide/launch.md", "./model"): (program("--target", "cpux2"), inputs("a.npz")),
    ("docs/guide/llm.md", "apc import-hf"): (hugging_folder,),
    ("docs/guide/profile.md", "./model"): (program("--target", "cpux2"), inputs("x.npz")),
    ("docs/guide/report.md", "apc plan"): (example,),
    ("docs/guide/training.md", "apc convert"): (weights("trained.safetensors"),),
    ("docs/guide/training.md", "./trainer"): (trainer,),
    ("docs/ir.md", "apc-opt"): (lambda folder: shutil.copy(ROOT / "tests/prove/accumulated.ir", folder / "file.ir"),),
    ("docs/ir.md", "apc plan"): (example,),
    ("docs/train.md", "apc model.onnx"): (example, data),
}


def prepare(folder, document, command):
    for (where, start), makers in STAND_INS.items():
        if where == document and command.text.startswith(start):
            for make in makers: make(folder)


def run(folder, document, starts):
    """Returns the starts of which no command was found."""
    (folder / "bin").mkdir(parents=True)
    for name in "apc", "apc-opt":
        (folder / "bin" / name).symlink_to(APC.parent / name)
    (folder / "examples").symlink_to(ROOT / "examples")
    example(folder, "largest")
    os.environ["APC_CACHE"] = "off"
    left = set(starts)
    for command in commands.shown((ROOT / document).read_text()):
        own = {start for start in starts if commands.begins(command, start)}
        if not own: continue
        left -= own
        prepare(folder, document, command)
        name = command.text[4:] if command.text.startswith("cat ") else None
        if name and not (folder / name).exists(): (folder / name).write_text("\n".join(command.output) + "\n")
        words = command.text
        for long, short in SHORTER: words = words.replace(long, short)
        shell = ["bash", "-o", "pipefail", "-c", words]
        env = os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
        done = subprocess.run(shell, cwd=folder, env=env, capture_output=True, text=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{used.ru_utime + used.ru_stime:6.1f} s  {document}: {words}", flush=True)
        assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return left


def main():
    found = {}
    for reason, document, start in commands.rows(ROOT):
        if reason == "run": found.setdefault(document, []).append(start)
    with tempfile.TemporaryDirectory() as folder:
        for document, starts in found.items():
            left = run(pathlib.Path(folder) / document, document, starts)
            assert not left, f"{document} has no command: {left}"


main()
