"""Tensors of other libraries as memory: address, type, shape.  NumPy arrays and everything with __dlpack__.

A C-contiguous tensor, of the host or of a CUDA device, is used where it lies; any other layout is copied once.  A
DLPack capsule is held until the run has ended, and then frees the tensor by its own destructor; so it is never marked
as used.
"""
from __future__ import annotations

import ctypes
from ctypes import c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any, NamedTuple

import numpy as np

from ._errors import BadInput, Missing
from ._native import Dims, SIZES, TYPES

KINDS = {np.dtype(t): TYPES.index(n) for t, n in (
    ("f4", "f32"), ("f8", "f64"), ("f2", "f16"), ("i1", "i8"), ("i2", "i16"), ("i4", "i32"), ("i8", "i64"),
    ("u1", "u8"), ("u2", "u16"), ("u4", "u32"), ("u8", "u64"), ("?", "bool"))}
# Types that NumPy has with ml_dtypes only, by their names there.
ML_KINDS = {name: TYPES.index(n) for name, n in (
    ("bfloat16", "bf16"), ("float8_e4m3fn", "f8e4m3fn"), ("float8_e4m3fnuz", "f8e4m3fnuz"), ("float8_e5m2", "f8e5m2"),
    ("float8_e5m2fnuz", "f8e5m2fnuz"), ("float8_e8m0fnu", "f8e8m0"), ("float4_e2m1fn", "f4e2m1"), ("int4", "i4"),
    ("uint4", "u4"), ("int2", "i2"), ("uint2", "u2"))}
DLPACK_KINDS = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "bool"}  # DLDataTypeCode
HOST_DEVICES = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost
CUDA, MANAGED = 2, 13  # kDLCUDA, kDLCUDAManaged
DEFAULT_STREAM = 1  # CUDA's legacy default stream, in DLPack


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", ctypes.POINTER(c_int64)),
                ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64)]


capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Memory(NamedTuple):
    """A tensor's memory; `owner` keeps it valid."""

    address: int
    type: int
    shape: tuple[int, ...]
    owner: Any
    device: int | None = None  # the number of a CUDA device; None: the host's memory


def ml_dtype(name: str) -> np.dtype[Any] | None:
    """A type of ml_dtypes, or None if that package is not installed or lacks it."""
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    kind = getattr(ml_dtypes, name, None)
    return None if kind is None else np.dtype(kind)


def numpy_dtype(kind: int) -> np.dtype[Any]:
    """The NumPy type of an ApcType."""
    name = next((n for n, k in ML_KINDS.items() if k == kind), None)
    if name is None:
        return next(d for d, k in KINDS.items() if k == kind)
    dtype = ml_dtype(name)
    if dtype is None:
        tensor = ", or give out= a torch tensor" if name == "bfloat16" else ""
        raise Missing(f"NumPy has no {TYPES[kind]}: install ml_dtypes, which has {name}{tensor}")
    return dtype


def kind_of(array: np.ndarray[Any, Any], name: str) -> int:
    kind = ML_KINDS.get(array.dtype.name, KINDS.get(array.dtype))
    if kind is None or not array.dtype.isnative:
        raise BadInput(f"{name}: apc has no element type for {array.dtype}")
    return kind


def of_array(array: np.ndarray[Any, Any], name: str, out: bool) -> Memory:
    kind = kind_of(array, name)
    if out and not (array.flags.c_contiguous and array.flags.writeable):
        raise BadInput(f"{name}: an array given as out= must be C-contiguous and writable")
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    return Memory(array.ctypes.data, kind, array.shape, array)


def dlpack_kind(t: DLTensor, name: str) -> int:
    word = DLPACK_KINDS.get(t.code, "?")
    word += "" if word == "bool" else "16" if word == "bf" else str(t.bits)
    if word not in TYPES or t.lanes != 1 or t.bits != 8 * SIZES[TYPES.index(word)]:
        raise BadInput(f"{name}: apc has no element type for DLPack type {t.code} of {t.bits} bits")
    return TYPES.index(word)


def of_dlpack(tensor: Any, name: str, out: bool) -> Memory:
    if callable(getattr(tensor, "detach", None)):  # torch refuses to give a tensor that requires a gradient
        tensor = tensor.detach()
    where, number = (int(i) for i in tensor.__dlpack_device__())
    if where not in (*HOST_DEVICES, CUDA):
        managed = " (managed memory)" if where == MANAGED else ""
        raise BadInput(f"{name}: the tensor is in the memory of device type {where}{managed} (DLPack); bring it to the "
                       "host first, as by .cpu(), or to memory of cudaMalloc")
    # The run waits for the default stream, and the producer makes that stream wait for its own work.
    capsule = tensor.__dlpack__(stream=DEFAULT_STREAM) if where == CUDA else tensor.__dlpack__()
    t = ctypes.cast(capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(DLTensor)).contents
    kind, shape = dlpack_kind(t, name), tuple(t.shape[i] for i in range(t.ndim))
    address = (t.data or 0) + t.byte_offset
    strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else None
    want, contiguous = 1, True
    for n, s in zip(reversed(shape), reversed(strides or ())):
        contiguous, want = contiguous and (n == 1 or s == want), want * n
    if contiguous or 0 in shape:
        return Memory(address, kind, shape, (capsule, tensor), number if where == CUDA else None)
    if out:
        raise BadInput(f"{name}: a tensor given as out= must be contiguous")
    if where == CUDA:
        if not callable(getattr(tensor, "contiguous", None)):
            raise BadInput(f"{name}: a tensor on a device must be C-contiguous: copy it there first")
        return of_dlpack(tensor.contiguous(), name, out)
    assert strides is not None  # a tensor without them is contiguous
    size = SIZES[kind]
    low = sum(min(0, (n - 1) * s) for n, s in zip(shape, strides)) * size
    high = sum(max(0, (n - 1) * s) for n, s in zip(shape, strides)) * size + size
    raw = np.frombuffer(memoryview((ctypes.c_char * (high - low)).from_address(address + low)), dtype=f"u{size}")
    view = np.lib.stride_tricks.as_strided(raw[-low // size:], shape, [s * size for s in strides])
    copy = view.copy(order="C")
    return Memory(copy.ctypes.data, kind, shape, copy)


def memory(value: Any, kind: int, name: str, out: bool = False) -> Memory:
    """The memory of a value for an input or output of type `kind`.

    Numbers and lists take the type of the input.  Arrays and tensors must have it: nothing is converted silently.
    """
    if isinstance(value, np.ndarray):
        found = of_array(value, name, out)
    elif hasattr(value, "__dlpack__"):
        found = of_dlpack(value, name, out)
    elif hasattr(value, "__array_interface__"):
        found = of_array(np.asarray(value), name, out)
    elif not out and isinstance(value, (bool, int, float, list, tuple)):
        given = np.asarray(value)
        dtype = numpy_dtype(kind)
        array = given.astype(dtype)
        if given.dtype.kind not in "biuf" or (dtype.kind in "biu" and not np.array_equal(array, given)):
            raise BadInput(f"{name}: the values do not fit {TYPES[kind]}")
        found = of_array(np.ascontiguousarray(array).reshape(given.shape), name, False)
    else:
        raise TypeError(f"{name}: neither an array nor a tensor: {type(value).__name__}")
    if found.type != kind:
        raise BadInput(f"{name} has type {TYPES[kind]}, and the given tensor has {TYPES[found.type]}")
    return found


def dims_of(shape: tuple[int, ...], name: str) -> Any:
    """A shape for the C interface."""
    if len(shape) > len(Dims()):
        raise BadInput(f"{name}: {len(shape)} dimensions; at most {len(Dims())} are possible")
    return Dims(*shape)


__all__ = ["Memory", "memory", "numpy_dtype", "dims_of", "c_int"]
