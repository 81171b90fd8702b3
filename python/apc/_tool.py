"""Runs the `apc` command and turns its JSON documents and exit codes into results and exceptions."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Mapping, Sequence

from ._errors import InternalError, Missing, error
from ._export import model_file
from ._results import Diagnostic, Plan

# Keyword arguments whose option has another name; all others are the option with dashes, as `micro_batches`.
WORDS = {"dims": "--dim", "dim_hints": "--dim-hint", "shapes": "--shape", "defines": "-D", "plan": "--plan"}


def folder() -> Path:
    """The folder of the `apc` binary and libapcrt.so: APC_HOME (such as a build folder), else the wheel's own."""
    home = os.environ.get("APC_HOME")
    return Path(home) if home else Path(__file__).parent / "_native"


def use_own_onednn() -> None:
    """Lets programs and ranks that this process starts use the wheel's oneDNN, unless APC_ONEDNN names another one."""
    for name in ("libdnnl.so.3", "libdnnl.so.2"):
        path = folder() / name
        if path.is_file():
            os.environ.setdefault("APC_ONEDNN", str(path))


use_own_onednn()


def binary() -> str:
    """The path of the `apc` binary."""
    path = folder() / "apc"
    if not path.is_file():
        raise Missing(f"there is no apc binary at {path}: install the wheel (python3 python/build_wheel.py), or set "
                      "APC_HOME to a build folder")
    return str(path)


def text_of(value: Any) -> str:
    """A value as on the command line; a sequence of numbers is a shape."""
    if isinstance(value, (list, tuple)):
        return ",".join(str(v) for v in value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Writes keyword arguments as options.

    None is left out, True is a flag, False is refused by no option and left out; a dictionary gives NAME=VALUE once
    per item, a list the option once per element.
    """
    words: list[str] = []

    def add(flag: str, value: str) -> None:
        words.extend([f"{flag}={value}"] if flag.startswith("--") else [flag, value])

    for key, value in options.items():
        flag = WORDS.get(key, "--" + key.replace("_", "-"))
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            for name, v in value.items():
                add(flag, f"{name}={text_of(v)}")
        elif isinstance(value, (list, tuple)):
            for v in value:
                add(flag, text_of(v))
        else:
            add(flag, text_of(value))
    return words


def run_json(words: Sequence[str], accept: Sequence[int] = (0,)) -> tuple[int, dict[str, Any]]:
    """Runs `apc WORDS --json` and returns its exit code and document; another exit code raises an exception."""
    done = subprocess.run([binary(), *words, "--json", "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, errors="replace", check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = None
    if done.returncode in accept and document is not None and document.get("schema") != "apc.error/1":
        return done.returncode, document
    found = [Diagnostic.of(d) for d in (document or {}).get("diagnostics", [])]
    if done.returncode < 0:
        raise InternalError(f"apc was ended by signal {-done.returncode}: {done.stderr.strip()}")
    faults = [d for d in found if d.severity == "error"]
    message = "\n".join(str(d) for d in faults) or done.stderr.strip() or f"apc ended with exit code {done.returncode}"
    raise error(done.returncode or 70, message, found)


def plan(model: Any, target: str | None = None, *, dtype: str | None = None, dims: Mapping[str, int] | None = None,
         inputs: Any = None, dynamic: Any = None, **options: Any) -> Plan:
    """Plans a model without compiling it.

    `model` and `inputs`, `dynamic` are as for `compile`.  Other keyword arguments are the options of `apc plan`, with
    underscores: `micro_batches=4`, `memory="72GiB"`, `train="cross_entropy"`, `defines={"layers": 4}`.
    """
    with tempfile.TemporaryDirectory(prefix="apc-") as work:
        file = model_file(model, work, inputs, dynamic, training="train" in options)
        page = Path(work) / "report.html"
        words = option_words({"target": target, "dtype": dtype, "dims": dims, **options})
        _, document = run_json(["plan", file, f"--emit=html={page}", *words])
        return Plan.of(document, page.read_text(encoding="utf-8"))


def main() -> None:
    """The command `apc` of the wheel: the binary itself."""
    path = binary()
    os.execv(path, [path, *sys.argv[1:]])
