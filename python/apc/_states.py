"""States (KV caches) of a model: as arrays, as copies in memory, as files."""
from __future__ import annotations

import math
import operator
import os
import weakref
from ctypes import c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np

from ._errors import BadInput, UsageError
from ._native import SIZES, TYPES, Dims, byref
from ._tensors import numpy_dtype

if TYPE_CHECKING:
    from ._model import Model, TensorInfo


class State:
    """A state of a model, whose values are in the ranks: an array-like object.

    `s[...]` reads elements as a new NumPy array and `s[...] = values` writes them, with integers, slices and `...` as
    of NumPy; only the elements that are named are moved.  `np.asarray(s)` reads all.  UsageError while the states have
    their initial values, since their sizes may follow from the first call.
    """

    def __init__(self, model: "Model", info: "TensorInfo"):
        self._model, self.name, self.dtype, self.dims = model, info.name, info.dtype, info.dims
        self._kind = TYPES.index(info.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The present sizes."""
        m, rank, dims, size = self._model, c_int(), Dims(), c_size_t()
        m._call(m._lib.apc_state_shape, self.name.encode(), byref(rank), dims, byref(size))
        return tuple(dims[:rank.value])

    def _box(self, key: Any, shape: tuple[int, ...]) -> tuple[list[int], list[int], tuple[Any, ...]]:
        """The begin and the extents of the elements that a key names, and the key inside that box."""
        keys = list(key) if isinstance(key, tuple) else [key]
        if sum(k is Ellipsis for k in keys) > 1 or len([k for k in keys if k is not Ellipsis]) > len(shape):
            raise IndexError(f"state {self.name!r} has {len(shape)} dimensions")
        at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
        fill = [slice(None)] * (len(shape) - len([k for k in keys if k is not Ellipsis]))
        keys = keys[:at] + fill + keys[at + 1:]
        start: list[int] = []
        extents: list[int] = []
        inside: list[Any] = []
        for d, (k, n) in enumerate(zip(keys, shape)):
            if isinstance(k, slice):
                places = range(n)[k]
                low, high = (min(places), max(places) + 1) if len(places) else (0, 0)
                step = None if places.step == 1 else places.step
                inside.append(slice(None, None, step) if len(places) else slice(0, 0))
            else:
                i = operator.index(k)
                if not -n <= i < n:
                    raise IndexError(f"state {self.name!r}: index {i} in dimension {d}, which has {n} elements")
                low, high = i % n, i % n + 1
                inside.append(0)
            start.append(low)
            extents.append(high - low)
        return start, extents, tuple(inside)

    def _move(self, function: Any, start: list[int], values: np.ndarray[Any, Any]) -> None:
        self._model._call(function, self.name.encode(), Dims(*start), Dims(*values.shape), values.ctypes.data,
                          values.nbytes)

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        m = self._model
        with m._lock:
            start, extents, inside = self._box(key, self.shape)
            values = np.empty(extents, numpy_dtype(self._kind))
            self._move(m._lib.apc_read_state, start, values)
        return np.asarray(values[inside])

    def __setitem__(self, key: Any, value: Any) -> None:
        m, dtype = self._model, numpy_dtype(self._kind)
        given = np.asarray(value)
        if isinstance(value, np.ndarray) and given.dtype != dtype:
            raise BadInput(f"state {self.name!r} has type {self.dtype}, and the given array has {given.dtype}")
        with m._lock:
            start, extents, inside = self._box(key, self.shape)
            values = np.empty(extents, dtype)
            if any(isinstance(i, slice) and i.step for i in inside):
                self._move(m._lib.apc_read_state, start, values)
            try:
                values[inside] = given
            except ValueError as e:
                raise BadInput(f"state {self.name!r}: {e}") from None
            self._move(m._lib.apc_write_state, start, values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a state must be copied to become a NumPy array")
        return self[...] if dtype is None else self[...].astype(dtype, copy=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<apc.State {self.name} {self.dtype}{list(self.dims)}>"


class StatesCopy:
    """A copy of all states in this process's memory.  It outlives its model and fits any split of it."""

    def __init__(self, lib: Any, pointer: c_void_p, size: int):
        self._pointer, self.nbytes = pointer, size
        weakref.finalize(self, lib.apc_free_states, pointer)

    def __repr__(self) -> str:
        return f"<apc.StatesCopy of {self.nbytes} bytes>"


class States:
    """The states of a model (KV caches), which its ranks keep from call to call: by name, by number, in order.

    `reset` gives them their initial values.  `copy` and `restore` keep them in memory, `save` and `load` in a
    safetensors file with whole tensors, such as the cache of a system prompt; a program with the same weights and
    another split may take both.
    """

    def __init__(self, model: "Model"):
        self._model = model

    def _all(self) -> list[State]:
        m = self._model
        with m._lock:
            return [State(m, t) for t in m._infos(m._lib.apc_states(m._open()), m._lib.apc_state_info)]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[State]:
        return iter(self._all())

    def __contains__(self, name: object) -> bool:
        return any(s.name == name for s in self._all())

    def __getitem__(self, which: str | int) -> State:
        states = self._all()
        if not isinstance(which, str):
            return states[which]
        for s in states:
            if s.name == which:
                return s
        raise UsageError(f"there is no state {which!r}; states: {', '.join(s.name for s in states)}")

    def reset(self) -> None:
        """Gives the states their initial values."""
        self._model.reset()

    def copy(self) -> StatesCopy:
        """A copy of all states.  UsageError if they have their initial values."""
        m, pointer = self._model, c_void_p()
        with m._lock:
            m._call(m._lib.apc_copy_states, byref(pointer))
            size = sum(math.prod(s.shape) * SIZES[s._kind] for s in self._all())
        return StatesCopy(m._lib, pointer, size)

    def restore(self, copy: StatesCopy) -> None:
        """Replaces the states by a copy, which stays.  BadInput, and no change, if it is of other states or sizes."""
        m = self._model
        m._call(m._lib.apc_restore_states, copy._pointer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the states to a safetensors file.  UsageError if they have their initial values."""
        m = self._model
        m._call(m._lib.apc_save_states, os.fsencode(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replaces the states by those of a file.  BadInput, and no change, if they differ in names, types or sizes."""
        m = self._model
        m._call(m._lib.apc_load_states, os.fsencode(path))

    def __repr__(self) -> str:
        return f"<apc.States {', '.join(t.name for t in self)}>"
