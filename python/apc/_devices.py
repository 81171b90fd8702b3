"""Results in the memory of a CUDA device, for other libraries by DLPack and __cuda_array_interface__."""
from __future__ import annotations

import ctypes
import functools
import weakref
from ctypes import c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import Error, Missing
from ._native import TYPES, byref, check, library
from ._tensors import CUDA, dims_of, numpy_dtype

if TYPE_CHECKING:
    from ._model import Model


NAME = ctypes.create_string_buffer(b"dltensor")
ctypes.pythonapi.Py_IncRef(ctypes.py_object(NAME))  # capsules may outlive this module when Python ends
capsule_new = ctypes.pythonapi.PyCapsule_New
capsule_new.restype, capsule_new.argtypes = ctypes.py_object, [c_void_p, c_void_p, c_void_p]


@functools.lru_cache(maxsize=None)
def destructor() -> int:
    """The destructor of capsules, which is not in Python: it may run while an exception is pending."""
    functions = (ctypes.cast(f, c_void_p) for f in (ctypes.pythonapi.PyCapsule_IsValid,
                                                    ctypes.pythonapi.PyCapsule_GetPointer))
    return int(library().apc_capsule_destructor(*functions))


class DeviceArray:
    """A C-contiguous result in the memory of a CUDA device, which is complete.

    Other libraries take it without a copy, as `torch.from_dlpack(y)` does; `numpy()` copies it to the host.  The memory
    lives as long as the array or a tensor made from it, and longer than the model.
    """

    def __init__(self, model: "Model", device: int, kind: int, shape: tuple[int, ...], size: int):
        lib, p = model._lib, model._open()
        memory = c_void_p()
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
        tensor = self._lib.apc_device_dlpack(self._memory, self._kind, len(self.shape), dims_of(self.shape, "the result"))
        if not tensor:
            raise BufferError(f"DLPack tensors of {self.dtype} are not made; numpy() gives a copy")
        return capsule_new(tensor, ctypes.addressof(NAME), destructor())

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
