"""tests/stored.py - tensors of safetensors files as arrays of NumPy, read and written without the package.

Numbers of bf16 are read as their bits, u2; float32 is written alone."""
import json
import struct

import numpy as np

KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def read_all(path):
    """The metadata and the tensors of a file."""
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    meta = head.pop("__metadata__", {})
    return meta, {k: np.frombuffer(raw[8 + n:][slice(*v["data_offsets"])], KINDS[v["dtype"]]).reshape(v["shape"])
                  for k, v in head.items()}


def read(path):
    return read_all(path)[1]


def write(path, tensors):
    head, at = {}, 0
    for name, v in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(np.ascontiguousarray(v).tobytes() for v in tensors.values()))
