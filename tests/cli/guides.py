#!/usr/bin/env python3
"""tests/cli/guides.py APC - the commands that tests/commands.txt marks with `run` end well, as they stand in their
document and in its order.  Their output is not compared.

Each document has a folder with examples/, largest.onnx, and stand-ins for the reader's files: model.onnx and
inputs.npz, which are largest.onnx and its inputs, and mlp.onnx, which is annotated for four devices.  `cat FILE` of a
file that does not exist writes it first, with the lines that the document shows."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/onnx"))
from annotated import MODELS  # noqa: E402
STAND_INS = ("largest.onnx", "largest.onnx"), ("model.onnx", "largest.onnx"), ("inputs.npz", "largest.inputs.npz")


def rows():
    """By document the starts of its commands."""
    found = {}
    for line in (ROOT / "tests/commands.txt").read_text().splitlines():
        if line.startswith("run "):
            _, document, start = line.split(None, 2)
            found.setdefault(document, []).append(start.strip())
    return found


def commands(text):
    """Every indented or fenced command of a document, with its further lines, and the indented output after it."""
    lines, at, fenced = text.splitlines(), 0, False
    while at < len(lines):
        fenced ^= lines[at].startswith("```")
        match = re.match((r"" if fenced else r"    ") + r"(?:\$ |(?=apc |\./model ))(.*)", lines[at])
        at += 1
        if not match: continue
        command, shown = match[1], []
        while command.endswith("\\"):
            command, at = command[:-1] + lines[at].strip(), at + 1
        while at < len(lines) and re.match(r"    (?!\$ |apc )", lines[at]):
            shown.append(lines[at][4:])
            at += 1
        yield command, shown


def run(folder, apc, document, starts):
    """Returns the starts of which no command was found."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/apc").symlink_to(apc)
    (folder / "examples").symlink_to(ROOT / "examples")
    for name, source in STAND_INS:
        shutil.copy(ROOT / "examples" / source, folder / name)
    (folder / "mlp.onnx").write_bytes(MODELS["megatron"])
    env = os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    left = set(starts)
    for command, shown in commands((ROOT / document).read_text()):
        own = {start for start in starts if (" ".join(command.split()) + " ").startswith(start + " ")}
        if not own: continue
        left -= own
        name = command[4:] if command.startswith("cat ") else None
        if name and not (folder / name).exists(): (folder / name).write_text("\n".join(shown) + "\n")
        shell = ["bash", "-o", "pipefail", "-c", command]
        done = subprocess.run(shell, cwd=folder, env=env, capture_output=True, text=True)
        print(f"{document}: {command}")
        assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return left


def main():
    with tempfile.TemporaryDirectory() as folder:
        for document, starts in rows().items():
            left = run(pathlib.Path(folder) / document, pathlib.Path(sys.argv[1]).resolve(), document, starts)
            assert not left, f"{document} has no command: {left}"


main()
