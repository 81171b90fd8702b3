"""Compiled models: compile, load, call, verify, profile."""
from __future__ import annotations

import json
import math
import os
import tempfile
import threading
import weakref
from ctypes import c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from . import _native
from ._devices import DeviceArray
from ._errors import BadInput, UsageError
from ._export import model_file
from ._native import SIZES, TYPES, Dims, OptionsC, TensorInfoC, byref, check
from ._results import Plan, Profile, Verification
from ._states import States
from ._tensors import dims_of, memory, numpy_dtype
from ._tool import option_words, run_json


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: `dims` has numbers, and formulas such as "batch" for sizes that depend on the inputs.
    `index_below`: its elements are indices below this; None if they are none, or if sizes decide."""

    name: str
    dtype: str
    dims: tuple[int | str, ...]
    index_below: int | None = None


class EntryInfo:
    """An entry of a program with its inputs and outputs, and their names as bytes for calls."""

    def __init__(self, name: str, inputs: list[TensorInfo], outputs: list[TensorInfo]):
        self.name, self.inputs, self.outputs = name, inputs, outputs
        self.kinds = {t.name: (t.name.encode(), TYPES.index(t.dtype)) for t in inputs + outputs}
        self.input_names = frozenset(t.name for t in inputs)


class Entry:
    """An entry of a model as a function: `m.entries["decode"](tokens, at)` is `m(tokens, at, entry="decode")`."""

    def __init__(self, model: "Model", info: EntryInfo):
        self._model, self.name, self.inputs, self.outputs = model, info.name, info.inputs, info.outputs

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        return self._model(*args, entry=self.name, out=out, **named)

    def __repr__(self) -> str:
        ports = (", ".join(t.name for t in side) for side in (self.inputs, self.outputs))
        return f"<apc.Entry {self.name}: {' -> '.join(ports)}>"


def _path_bytes(argument: str, path: str | os.PathLike[str] | None) -> bytes | None:
    """A path for the library, which would take one with a NUL character as the part before it."""
    if path is None:
        return None
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise UsageError(f"{argument}={os.fspath(path)!r}: a path has no NUL character")
    return encoded


class Model:
    """A compiled model.  Its ranks are processes that start with the first run and end with `close`.

    `m(x)` runs it.  A model may be used from several threads: calls wait for each other.  Several models run at the
    same time, since a run releases the GIL.  Use it as a context manager, call `close`, or let it be collected.
    """

    def __init__(self, path: str | os.PathLike[str], *, weights: str | os.PathLike[str] | None = None,
                 timeout: float | None = None, tune: str | os.PathLike[str] | None = None):
        """Opens a compiled program.  `timeout` is the longest time without progress of a rank, in seconds (60).
        `tune` is a file of choices among the ways to compute on a GPU (docs/guide/gpu.md); it is made if absent."""
        self.path = os.path.abspath(path)
        file = _path_bytes("path", self.path)
        self.plan: Plan | None = None
        self._source: list[str] | None = None
        self._work: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.RLock()
        self._lib = lib = _native.library()
        options = OptionsC(_path_bytes("weights", weights),
                           max(1, round(min(timeout * 1000, 2**31 - 1))) if timeout is not None else 0, None, 0,
                           _path_bytes("tune", tune))
        pointer = c_void_p()
        status = lib.apc_load(file, byref(options), byref(pointer))
        self._pointer: c_void_p | None = pointer
        self._close = weakref.finalize(self, lib.apc_close, pointer)
        try:
            check(pointer, status)
            self._entries = self._read_entries()
        except BaseException:
            self.close()
            raise

    # ---- what the program offers

    def _infos(self, count: int, function: Any) -> list[TensorInfo]:
        found = []
        for i in range(count):
            c = TensorInfoC()
            check(self._pointer, function(self._pointer, i, byref(c)))
            dims = tuple(c.dims[k] if c.dims[k] >= 0 else c.dim_text[k].decode() for k in range(c.rank))
            found.append(TensorInfo(c.name.decode(), TYPES[c.type], dims, c.index_below if c.index_below >= 0 else None))
        return found

    def _read_entries(self) -> dict[str, EntryInfo]:
        lib, p, entries = self._lib, self._pointer, {}
        for i in range(lib.apc_entries(p)):
            name = lib.apc_entry_name(p, i)
            check(p, lib.apc_select(p, name))
            entries[name.decode()] = EntryInfo(name.decode(), self._infos(lib.apc_inputs(p), lib.apc_input_info),
                                           self._infos(lib.apc_outputs(p), lib.apc_output_info))
        return entries

    def _open(self) -> c_void_p:
        if self._pointer is None:
            raise UsageError("the model is closed")
        return self._pointer

    def _call(self, function: Any, *args: Any) -> None:
        """Calls a function of the library about the model, and checks its status."""
        with self._lock:
            p = self._open()
            check(p, function(p, *args))

    def _entry(self, name: str | None) -> EntryInfo:
        if name is None:
            return next(iter(self._entries.values()))
        if name not in self._entries:
            raise UsageError(f"there is no entry {name!r}; entries: {', '.join(self._entries)}")
        return self._entries[name]

    @property
    def entries(self) -> dict[str, Entry]:
        """The entries by name, which can be called; a call of the model runs the first one."""
        return {name: Entry(self, e) for name, e in self._entries.items()}

    @property
    def inputs(self) -> list[TensorInfo]:
        """The inputs of the first entry."""
        return self._entry(None).inputs

    @property
    def outputs(self) -> list[TensorInfo]:
        """The outputs of the first entry."""
        return self._entry(None).outputs

    @property
    def states(self) -> States:
        """The states (KV caches), which all entries share."""
        return States(self)

    @property
    def ranks(self) -> int:
        """The number of ranks that run the program."""
        with self._lock:
            return int(self._lib.apc_ranks(self._open()))

    def describe(self) -> dict[str, Any]:
        """The description of the program, as of its option --describe=json."""
        with self._lock:
            return dict(json.loads(self._lib.apc_describe(self._open(), 1)))

    # ---- running

    def __call__(self, *args: Any, entry: str | None = None, out: Any = None, **named: Any) -> Any:
        """Runs an entry, and returns its output, or a dictionary of outputs by name if it has several.

        Inputs are given in order or by name: NumPy arrays, and everything with `__dlpack__` (torch tensors) or
        `__array_interface__`, of the input's type.  Numbers and lists take the input's type.  A C-contiguous tensor is
        read where it lies; another layout is copied first.  A program for GPUs also takes tensors on CUDA devices; then
        the results are on the device of the first of them, as `DeviceArray` (`torch.from_dlpack(y)`).

        `out` is memory for the outputs: an array or tensor if there is one output, a dictionary by name for several.
        It is contiguous, and has the type and shape of the output; the ranks' results are copied there directly, and
        the call returns it.  Outputs that `out` does not name are new NumPy arrays.
        """
        e = self._entry(entry)
        if len(args) > len(e.inputs):
            raise UsageError(f"{len(args)} inputs are given, and {e.name!r} has {len(e.inputs)}")
        values = {t.name: v for t, v in zip(e.inputs, args)}
        for name, v in named.items():
            if name not in e.input_names:
                raise UsageError(f"{e.name!r} has no input {name!r}; inputs: {', '.join(t.name for t in e.inputs)}")
            if name in values:
                raise UsageError(f"input {name!r} is given twice")
            values[name] = v
        for t in e.inputs:
            if t.name not in values:
                raise BadInput(f"input {t.name!r} is missing")
        given = {} if out is None else out if isinstance(out, Mapping) else {e.outputs[0].name: out}
        if out is not None and not isinstance(out, Mapping) and len(e.outputs) != 1:
            raise UsageError("out= must be a dictionary: there are several outputs")
        for name in given:
            if name not in {t.name for t in e.outputs}:
                raise UsageError(f"out= names {name!r}, which is no output")
        with self._lock:
            results = self._run(e, values, given)
            for t in e.outputs:
                if t.name not in results:
                    results[t.name] = self._read(e, t, given.get(t.name))
        return next(iter(results.values())) if len(e.outputs) == 1 else {t.name: results[t.name] for t in e.outputs}

    def _run(self, e: EntryInfo, values: Mapping[str, Any], out: Mapping[str, Any]) -> dict[str, Any]:
        """Runs an entry, and returns the results that are on a device."""
        lib, p = self._lib, self._open()
        held = []  # memory stays valid until the run has ended
        bound = []
        device = None
        results: dict[str, Any] = {}
        try:
            for name, value in values.items():
                word, kind = e.kinds[name]
                m = memory(value, kind, name)
                held.append(m)
                dims = dims_of(m.shape, name)
                if m.device is None:
                    check(p, lib.apc_bind_input(p, word, kind, len(m.shape), dims, m.address))
                else:
                    check(p, lib.apc_bind_device_input(p, word, kind, len(m.shape), dims, m.device, m.address))
                    device = m.device if device is None else device
            if device is not None:
                results = {t.name: self._device_result(e, t, device) for t in e.outputs if t.name not in out}
            for name, r in results.items():
                word, kind = e.kinds[name]
                if r._size:
                    bound.append((word, kind))
                    check(p, lib.apc_bind_device_output(p, word, kind, device, r.address, r._size))
            for name, value in out.items():
                word, kind = e.kinds[name]
                m = memory(value, kind, name, out=True)
                held.append(m)
                bytes_ = math.prod(m.shape) * SIZES[kind]
                if bytes_ > 0:
                    bound.append((word, kind))
                    if m.device is None:
                        check(p, lib.apc_bind_output(p, word, kind, m.address, bytes_))
                    else:
                        check(p, lib.apc_bind_device_output(p, word, kind, m.device, m.address, bytes_))
            check(p, lib.apc_run(p, e.name.encode()))
            for name, r in results.items():  # data may have decided on fewer elements than there is memory for
                rank, dims, size = c_int(), Dims(), c_size_t()
                check(p, lib.apc_output_shape(p, e.kinds[name][0], byref(rank), dims, byref(size)))
                r.shape, r._size = tuple(dims[:rank.value]), size.value
        finally:
            for word, kind in bound:
                lib.apc_bind_output(p, word, kind, None, 0)
        return results

    def _device_result(self, e: EntryInfo, t: TensorInfo, device: int) -> DeviceArray:
        word, kind = e.kinds[t.name]
        rank, dims, size = c_int(), Dims(), c_size_t()
        check(self._open(), self._lib.apc_expected_shape(self._pointer, e.name.encode(), word, byref(rank), dims,
                                                         byref(size)))
        return DeviceArray(self, device, kind, tuple(dims[:rank.value]), size.value)

    def _read(self, e: EntryInfo, t: TensorInfo, out: Any) -> Any:
        lib, p = self._lib, self._open()
        word, kind = e.kinds[t.name]
        rank, dims, size = c_int(), Dims(), c_size_t()
        check(p, lib.apc_output_shape(p, word, byref(rank), dims, byref(size)))
        shape = tuple(dims[:rank.value])
        if out is not None:
            m = memory(out, kind, t.name, out=True)
            if m.shape != shape:
                raise BadInput(f"output {t.name!r} has shape {list(shape)}, and out= has {list(m.shape)}")
            return out
        result = np.empty(shape, numpy_dtype(kind))
        check(p, lib.apc_read_output(p, word, result.ctypes.data, size.value))
        return result

    def reset(self) -> None:
        """Gives the states (KV caches) their initial values."""
        self._call(self._lib.apc_reset)

    def write(self, entry: str, path: str | os.PathLike[str]) -> None:
        """Runs an entry without inputs, such as `weights` of a training step, and writes a safetensors file."""
        self._call(self._lib.apc_write_entry, entry.encode(), os.fsencode(path), None, 0)

    def profile(self, *args: Any, runs: int = 20, **named: Any) -> Profile:
        """Runs the model `runs` times with these inputs, and returns the times of its operations on every rank."""
        with self._lock:
            self(*args, **named)  # starts the ranks and loads the weights
            p = self._open()
            check(p, self._lib.apc_record(p, 0))
            for _ in range(runs):
                self(*args, **named)
            texts = [(self._lib.apc_profile(p, json_) or b"").decode() for json_ in (0, 1)]
            if not texts[1]:
                check(p, 70)
            return Profile(texts[0], json.loads(texts[1]))

    def verify(self, **options: Any) -> Verification:
        """Runs `apc verify` with the options of the compilation: ranks against one rank, and the proof of the plan.

        Random inputs are used unless `inputs="x.npz"` is given.  A difference gives `ok` False, not an exception.
        """
        if self._source is None:
            raise UsageError("verify needs the model file: use apc.compile, not apc.load")
        code, d = run_json(["verify", *self._source, *option_words(options)], accept=(0, 3, 4))
        return Verification(code == 0, d["outputs"], d["states"], d["proof"], d)

    # ---- the end

    def close(self) -> None:
        """Ends the ranks.  Later calls raise UsageError."""
        with self._lock:
            self._pointer = None
            self._close()
            if self._work is not None:
                self._work.cleanup()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<apc.Model {self.path}{' (closed)' if self._pointer is None else ''}>"


def compile(model: Any, target: str | None = None, *, dtype: str | None = None,
            dims: Mapping[str, int] | None = None, inputs: Sequence[Any] | Mapping[str, Any] | None = None,
            dynamic: Mapping[str, Mapping[int, str]] | None = None, out: str | os.PathLike[str] | None = None,
            timeout: float | None = None, tune: str | os.PathLike[str] | None = None, **options: Any) -> Model:
    """Compiles a model and opens the program.

    `model` is an .onnx or .apc file, or a torch module.  A module is exported first (`apc.export`): `inputs` are
    example arguments, `dynamic` names dimensions that stay symbolic.  `dims` binds symbolic dimensions to sizes.
    `out` is the path of the program; without it the program is temporary and ends with the model.  `timeout` and
    `tune` are as for `load`.  Other keyword arguments are the options of `apc compile`, with underscores: `tp=2`,
    `micro_batches=4`, `defines={"layers": 4}`, `train="mse"`, `plan="file.plan"`.

    Raises `Missing` (code 5) without a C compiler.
    """
    for argument, path in (("out", out), ("tune", tune)):
        _path_bytes(argument, path)  # before the work of compiling
    work = tempfile.TemporaryDirectory(prefix="apc-")
    try:
        file = model_file(model, work.name, inputs, dynamic, training="train" in options)
        if out is not None and not isinstance(model, (str, os.PathLike)):
            options.setdefault("weights", "embed")  # the exported file ends with the model
        program = os.path.abspath(out) if out is not None else str(Path(work.name) / "program")
        page = Path(work.name) / "report.html"
        words = option_words({"target": target, "dtype": dtype, "dims": dims, **options})
        _, document = run_json(["compile", file, *words, f"--emit=exe,html={page}", "-o", program])
        m = Model(program, timeout=timeout, tune=tune)
        m.plan = Plan.of(document, page.read_text(encoding="utf-8"))
        m._source, m._work = [os.path.abspath(file), *words], work
        return m
    except BaseException:
        work.cleanup()
        raise


def load(path: str | os.PathLike[str], *, weights: str | os.PathLike[str] | None = None,
         timeout: float | None = None, tune: str | os.PathLike[str] | None = None) -> Model:
    """Opens a program that was compiled earlier.  `weights` is a safetensors file instead of the compiled weights;
    `timeout` and `tune` are as for `Model`."""
    return Model(path, weights=weights, timeout=timeout, tune=tune)
