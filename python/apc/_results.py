"""The results of commands as dataclasses, made from the JSON documents of apc.  `raw` has the whole document."""
from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any, Mapping


def size_text(size: float) -> str:
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.4g} {units[0]}"


@dataclass(frozen=True)
class Diagnostic:
    """A message of the compiler: `severity` ("error", "warning"), `code` ("APC0101"), the text and its place."""

    severity: str
    code: str
    message: str
    location: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "Diagnostic":
        notes = tuple(n if isinstance(n, str) else str(n.get("message", n)) for n in d.get("notes") or ())
        return cls(d["severity"], d["code"], d["message"], d.get("location"), notes)

    def __str__(self) -> str:
        place = self.location or {}
        where = ":".join(str(place[k]) for k in ("file", "line", "column") if place.get(k) is not None)
        node = f" (node {place['node']})" if place.get("node") else ""
        lines = [f"{self.severity}[{self.code}]: {where + ': ' if where else ''}{self.message}{node}"]
        return "\n".join(lines + [f"  {n}" for n in self.notes])


DEGREES = ("tp", "pp", "dp", "ep", "cp")


def degrees_of(d: Mapping[str, Any]) -> dict[str, int]:
    return {k: int(d[k]) for k in DEGREES if int(d.get(k) or 1) > 1}


@dataclass(frozen=True)
class Alternative:
    """Another plan that the search considered; `why_not` is set if it is not possible."""

    degrees: dict[str, int]
    micro_batches: int
    time_us: float | None
    memory: int | None
    why_not: str | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "Alternative":
        return cls(degrees_of(d), int(d.get("micro_batches") or 1), d.get("time_us"), d.get("bytes_per_device"),
                   d.get("why_not"), d)


@dataclass(frozen=True)
class Plan:
    """The plan of a model on a target: how it is split, and the predicted time and memory.

    `dims` has the sizes that were assumed for dimensions that stay symbolic.  `time_us` is the predicted time of a run
    or step, `time_one_device_us` that of one rank alone.  `memory` is the number of bytes of a rank, `memory_by_class`
    its parts.  In a notebook a plan shows its report.
    """

    target: str
    ranks: int
    degrees: dict[str, int]
    micro_batches: int
    dims: dict[str, int]
    time_us: float
    time_one_device_us: float | None
    memory: int
    memory_by_class: dict[str, int]
    lower_bound_us: float | None
    alternatives: list[Alternative]
    warnings: list[Diagnostic]
    html: str = field(repr=False, compare=False)
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, d: Mapping[str, Any], page: str) -> "Plan":
        return cls(d["target"]["name"], d["target"]["gpus"], degrees_of(d["chosen"]), d["chosen"]["micro_batches"],
                   dict(d["dims"]), d["time_us"], d.get("time_one_device_us"), d["bytes_per_device"],
                   dict(d["memory_bytes"]), d.get("lower_bound_us"), [Alternative.of(a) for a in d["alternatives"]],
                   [Diagnostic.of(x) for x in d["diagnostics"]], page, d)

    def __str__(self) -> str:
        split = " x ".join(f"{k} {n}" for k, n in self.degrees.items()) or "one rank"
        return f"{split} on {self.target}: {self.time_us:.4g} us, {size_text(self.memory)} per rank"

    def _repr_html_(self) -> str:
        # The report is a document of its own with style and script, so a frame separates it from the notebook.
        return f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="640" style="border:0"></iframe>'


@dataclass(frozen=True)
class Verification:
    """The result of `apc verify`: `ok`, the differences of outputs and states, and the verdict of the proof."""

    ok: bool
    outputs: list[Mapping[str, Any]]
    states: list[Mapping[str, Any]]
    proof: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True)
class Profile:
    """Times of one model's runs: `str()` is a table for people, `raw` the JSON document (docs/guide/profile.md)."""

    text: str = field(repr=False)
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def runs(self) -> int:
        return int(self.raw["runs"])

    @property
    def ranks(self) -> list[Mapping[str, Any]]:
        return list(self.raw["ranks"])

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Step:
    """A training step, numbered from 1."""

    step: int
    loss: float
    grad_norm: float
    lr: float
    eval_loss: float | None = None  # of an evaluation after this step
    undone: bool = False  # it was not finite, and changed nothing (skip_nonfinite)
