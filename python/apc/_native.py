"""libapcrt.so through ctypes: the part of runtime/apc_runtime.h that the package uses."""
from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

from ._errors import Missing, error
from ._tool import folder

MAX_RANK = 8
Dims = c_int64 * MAX_RANK
# The order of ApcType.
TYPES = ("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool",
         "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4", "u4", "i2", "u2")
SIZES = (4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1, *(10 * (1,)))


class TensorInfoC(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("rank", c_int), ("dims", Dims), ("dim_text", c_char_p * MAX_RANK),
                ("index_below", c_int64), ("index_from", c_int64), ("index_ignored", c_int64)]


class OptionsC(ctypes.Structure):
    _fields_ = [("weights", c_char_p), ("timeout_ms", c_int), ("launch", c_void_p), ("hands_on", c_int),
                ("tune", c_char_p)]


FUNCTIONS = {
    "apc_load": (c_int, [c_char_p, POINTER(OptionsC), POINTER(c_void_p)]),
    "apc_close": (None, [c_void_p]),
    "apc_error": (c_char_p, [c_void_p]),
    "apc_entries": (c_int, [c_void_p]),
    "apc_entry_name": (c_char_p, [c_void_p, c_int]),
    "apc_select": (c_int, [c_void_p, c_char_p]),
    "apc_inputs": (c_int, [c_void_p]),
    "apc_outputs": (c_int, [c_void_p]),
    "apc_input_info": (c_int, [c_void_p, c_int, POINTER(TensorInfoC)]),
    "apc_output_info": (c_int, [c_void_p, c_int, POINTER(TensorInfoC)]),
    "apc_ranks": (c_int, [c_void_p]),
    "apc_bind_input": (c_int, [c_void_p, c_char_p, c_int, c_int, Dims, c_void_p]),
    "apc_run": (c_int, [c_void_p, c_char_p]),
    "apc_reset": (c_int, [c_void_p]),
    "apc_bind_output": (c_int, [c_void_p, c_char_p, c_int, c_void_p, c_size_t]),
    "apc_states": (c_int, [c_void_p]),
    "apc_state_info": (c_int, [c_void_p, c_int, POINTER(TensorInfoC)]),
    "apc_state_shape": (c_int, [c_void_p, c_char_p, POINTER(c_int), Dims, POINTER(c_size_t)]),
    "apc_read_state": (c_int, [c_void_p, c_char_p, Dims, Dims, c_void_p, c_size_t]),
    "apc_write_state": (c_int, [c_void_p, c_char_p, Dims, Dims, c_void_p, c_size_t]),
    "apc_copy_states": (c_int, [c_void_p, POINTER(c_void_p)]),
    "apc_restore_states": (c_int, [c_void_p, c_void_p]),
    "apc_free_states": (None, [c_void_p]),
    "apc_save_states": (c_int, [c_void_p, c_char_p]),
    "apc_load_states": (c_int, [c_void_p, c_char_p]),
    "apc_bind_device_input": (c_int, [c_void_p, c_char_p, c_int, c_int, Dims, c_int, c_void_p]),
    "apc_bind_device_output": (c_int, [c_void_p, c_char_p, c_int, c_int, c_void_p, c_size_t]),
    "apc_expected_shape": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(c_int), Dims, POINTER(c_size_t)]),
    "apc_device_alloc": (c_int, [c_void_p, c_int, c_size_t, POINTER(c_void_p)]),
    "apc_device_data": (c_void_p, [c_void_p]),
    "apc_device_free": (None, [c_void_p]),
    "apc_device_dlpack": (c_void_p, [c_void_p, c_int, c_int, Dims]),
    "apc_capsule_destructor": (c_void_p, [c_void_p, c_void_p]),
    "apc_device_read": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t]),
    "apc_write_entry": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(c_char_p), c_int]),
    "apc_write_checkpoint": (c_int, [c_void_p, c_char_p, c_int64]),
    "apc_read_checkpoint": (c_int, [c_void_p, c_char_p, POINTER(c_int64)]),
    "apc_keep": (c_int, [c_void_p]),
    "apc_back": (c_int, [c_void_p]),
    "apc_not_finite": (c_int, [c_void_p, POINTER(c_char_p)]),
    "apc_output_shape": (c_int, [c_void_p, c_char_p, POINTER(c_int), Dims, POINTER(c_size_t)]),
    "apc_read_output": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "apc_record": (c_int, [c_void_p, c_size_t]),
    "apc_profile": (c_char_p, [c_void_p, c_int]),
    "apc_describe": (c_char_p, [c_void_p, c_int]),
}


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Loads libapcrt.so once; its calls release the GIL."""
    path = folder() / "libapcrt.so.0"
    if not path.is_file():
        raise Missing(f"there is no {path}: install the wheel, or set APC_HOME to a build folder")
    lib = ctypes.CDLL(str(path))
    for name, (result, args) in FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, args
    return lib


def check(pointer: c_void_p | None, status: int) -> None:
    """Raises the exception of a status with the explanation of the library."""
    if status:
        text = library().apc_error(pointer)
        raise error(status, (text or b"there is no memory").decode(errors="replace"))


__all__ = ["library", "check", "Dims", "TYPES", "SIZES", "TensorInfoC", "OptionsC", "byref"]
