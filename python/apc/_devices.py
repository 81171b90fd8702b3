"""Results in the memory of a CUDA device, for other libraries by DLPack and __cuda_array_interface__."""
from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from ctypes import POINTER, c_char_p, c_int64, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import Error, Missing
from ._native import SIZES, TYPES, byref, check
from ._tensors import CUDA, DLPACK_CODES, DLTensor, numpy_dtype

if TYPE_CHECKING:
    from ._model import Model


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager", c_void_p), ("deleter", c_void_p)]


NAME = b"dltensor"
capsule_new = ctypes.pythonapi.PyCapsule_New
capsule_new.restype, capsule_new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
capsule_is = ctypes.pythonapi.PyCapsule_IsValid
capsule_is.restype, capsule_is.argtypes = ctypes.c_int, [ctypes.py_object, c_char_p]

# Held by consumers: the C structs, and the array that owns the memory, by the address of the struct.
given: dict[int, tuple[Any, ...]] = {}
# Capsules, by the same address, until a consumer has taken them: it gives them another name, and calls the deleter
# later.  They have no destructor, as that would run Python code while a consumer's exception is pending, as NumPy's for
# memory of a device, and would replace this exception.
offered: dict[int, Any] = {}


def drop(address: int, given: dict[int, tuple[Any, ...]] = given) -> None:
    """The deleter of DLPack: any thread may call it."""
    given.pop(address, None)


def drop_unused(*_: Any) -> None:
    """Drops the capsules that a consumer has refused; called before new ones, and when Python collects garbage."""
    for address, capsule in list(offered.items()):
        taken = not capsule_is(capsule, NAME)
        if taken or sys.getrefcount(capsule) <= CAPSULE_REFERENCES:
            offered.pop(address, None)
            if not taken:
                given.pop(address, None)
        del capsule


CAPSULE_REFERENCES = 4  # of `offered`, of the list of its items, of the variable, of the call
gc.callbacks.append(drop_unused)
deleter = ctypes.CFUNCTYPE(None, c_void_p)(drop)
# A consumer's tensor may outlive this module when Python ends, and then still calls it.
for kept in (given, drop, deleter):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


class DeviceArray:
    """A C-contiguous result in the memory of a CUDA device, which is complete.

    Other libraries take it without a copy, as `torch.from_dlpack(y)` does; `numpy()` copies it to the host.  The memory
    lives as long as the array or a tensor made from it, and longer than the model.
    """

    def __init__(self, model: "Model", device: int, kind: int, shape: tuple[int, ...], size: int):
        lib, p = model._lib, model._open()
        memory = c_void_p()
        drop_unused()
        check(p, lib.apc_device_alloc(p, device, size, byref(memory)))
        self.device, self.shape, self.dtype = device, shape, TYPES[kind]
        self.address = int(lib.apc_device_data(memory))
        self._lib, self._kind, self._size, self._memory = lib, kind, size, memory
        # Not when Python ends: tensors made from the array may still be used then, and the driver frees it anyway.
        weakref.finalize(self, lib.apc_device_free, memory).atexit = False

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy in the host's memory."""
        result = np.empty(self.shape, numpy_dtype(self._kind))
        status = self._lib.apc_device_read(self._memory, 0, result.ctypes.data, self._size)
        if status:
            raise Error(f"the memory of CUDA device {self.device} cannot be read", status)
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a result on a device must be copied to become a NumPy array")
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """As the array API standard says.  No stream has to wait: the values are complete."""
        if dl_device is not None and tuple(dl_device) != (CUDA, self.device):
            raise BufferError("a result on a device goes to another one by its own library, or by numpy()")
        if copy:
            raise BufferError("a copy is made by the consumer")
        if self.dtype not in DLPACK_CODES:
            raise BufferError(f"DLPack tensors of {self.dtype} are not made; numpy() gives a copy")
        n = len(self.shape)
        shape, strides = (c_int64 * n)(*self.shape), (c_int64 * n)()
        step = 1
        for i in reversed(range(n)):
            strides[i], step = step, step * max(1, self.shape[i])
        code, bits = DLPACK_CODES[self.dtype], 8 * SIZES[self._kind]
        managed = DLManagedTensor(DLTensor(self.address, CUDA, self.device, n, code, bits, 1,
                                           ctypes.cast(shape, POINTER(c_int64)), ctypes.cast(strides, POINTER(c_int64)),
                                           0), None, ctypes.cast(deleter, c_void_p))
        address = ctypes.addressof(managed)
        drop_unused()
        given[address] = (managed, shape, strides, self)
        capsule = offered[address] = capsule_new(address, NAME, None)
        return capsule

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        try:
            kind = numpy_dtype(self._kind).str
        except Missing as e:
            raise AttributeError(str(e)) from None
        return {"shape": self.shape, "typestr": kind, "data": (self.address, False), "version": 3, "strides": None,
                "stream": None}

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("the array has no dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<apc.DeviceArray {self.dtype}{list(self.shape)} on CUDA device {self.device}>"
