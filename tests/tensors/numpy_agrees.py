"""numpy reads the files that apc writes, and apc those that numpy writes, bit for bit.

usage: numpy_agrees.py TENSOR_TOOL; exits 77 (skipped) if numpy is missing.
"""
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

try:
    import numpy as np
except ImportError:
    print("skipped: python3 has no numpy")
    sys.exit(77)

TOOL = os.path.abspath(sys.argv[1])
TYPES = ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
SHAPES = [(), (1,), (7,), (2, 3), (0,), (3, 0, 2), (2, 3, 4, 5), (1, 2, 1, 2, 1, 2, 1, 2)]
SAFETENSORS = {"F32": "f4", "F64": "f8", "F16": "f2", "BF16": "V2", "I8": "i1", "I16": "i2", "I32": "i4",
               "I64": "i8", "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8", "BOOL": "?"}
rng = np.random.default_rng(1)
checks = 0


def check(condition, what):
    global checks
    checks += 1
    if not condition:
        sys.exit(f"FAILED: {what}")


def copy(source, target, *options):
    result = subprocess.run([TOOL, *options, source, target], capture_output=True, text=True)
    check(result.returncode == 0, f"copying {source} to {target}: {result.stderr}")


def refuse(source, target, part):
    result = subprocess.run([TOOL, source, target], capture_output=True, text=True)
    check(result.returncode == 1 and part in result.stderr and os.path.basename(source) in result.stderr,
          f"{source} gives exit {result.returncode}, {result.stderr!r}, which lacks {part!r}")
    check(not os.path.exists(target), f"{target} was written")


def same(a, b, what):
    check(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), what)


def make(type_name, shape):
    dtype = np.dtype(type_name)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype("?")
    raw = rng.integers(0, 256, int(np.prod(shape)) * dtype.itemsize, dtype="u1")
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)  # any bits, NaNs included


def arrays():
    return {f"{t}/{'x'.join(map(str, s))}": make(t, s) for t in TYPES for s in SHAPES}


def test_npy():
    for t in TYPES:
        for version in [(1, 0), (2, 0), (3, 0)]:
            for order in "CF":
                a = np.asarray(make(t, (4, 3, 5)), order=order)
                with open("a.npy", "wb") as f:
                    np.lib.format.write_array(f, a, version=version)
                copy("a.npy", "b.npy")
                same(np.load("b.npy"), np.ascontiguousarray(a), f"npy {t} {version} {order}")
    for shape in SHAPES:
        a = make("f4", shape)
        np.save("a.npy", a)
        copy("a.npy", "b.npy")
        same(np.load("b.npy"), a, f"npy {shape}")
        with open("b.npy", "rb") as f:  # also the strict parser, and the alignment
            version = np.lib.format.read_magic(f)
            check(version == (1, 0), "version")
            np.lib.format.read_array_header_1_0(f)
            check(f.tell() % 64 == 0, "alignment")


def test_npz():
    all_arrays = arrays()
    for save in (np.savez, np.savez_compressed):
        save("a.npz", **all_arrays)
        for options in ([], ["--zip64"]):
            copy("a.npz", "b.npz", *options)
            check(zipfile.ZipFile("b.npz").testzip() is None, "testzip")
            with np.load("b.npz") as loaded:
                check(list(loaded.keys()) == list(all_arrays), "names and their order")
                for name, a in all_arrays.items():
                    same(loaded[name], a, f"{save.__name__} {options} {name}")
            copy("b.npz", "c.npz")
            with np.load("c.npz") as loaded:
                check(len(loaded.files) == len(all_arrays), "our own zip64 is read back")
    np.savez("a.npz", **{"é ü": np.arange(3), "big": np.zeros(3_000_000)})
    copy("a.npz", "b.npz")
    with np.load("b.npz") as loaded:
        same(loaded["é ü"], np.arange(3), "names in UTF-8")
    np.savez_compressed("a.npz", big=np.zeros(3_000_000))  # near deflate's highest ratio
    copy("a.npz", "b.npz")
    with np.load("b.npz") as loaded:
        same(loaded["big"], np.zeros(3_000_000), "a highly compressed member")


def test_streamed_npz():
    """An archive written to a pipe: sizes only after the data and in the directory."""
    class Pipe(io.RawIOBase):
        def __init__(self):
            self.parts = []

        def writable(self):
            return True

        def write(self, part):
            self.parts.append(bytes(part))
            return len(part)
    pipe = Pipe()
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        pipe.parts.clear()
        with zipfile.ZipFile(pipe, "w", method) as z:
            with z.open("x.npy", "w", force_zip64=True) as f:
                np.lib.format.write_array(f, np.arange(100.0))
        with open("a.npz", "wb") as f:
            f.write(b"".join(pipe.parts))
        copy("a.npz", "b.npz")
        same(np.load("b.npz")["x"], np.arange(100.0), "streamed")


def load_safetensors(path):
    """A separate reader, written from the format's description."""
    with open(path, "rb") as f:
        data = f.read()
    length, = struct.unpack("<Q", data[:8])
    check((8 + length) % 4096 == 0, "data at a multiple of 4096")
    at, found = 0, {}
    for name, entry in json.loads(data[8:8 + length]).items():
        start, end = entry["data_offsets"]
        dtype = np.dtype(SAFETENSORS[entry["dtype"]])
        check(start == at and start % dtype.itemsize == 0, f"{name}: place")
        found[name] = np.frombuffer(data[8 + length + start:8 + length + end], dtype).reshape(entry["shape"])
        at = end
    check(8 + length + at == len(data), "no bytes left over")
    return found


def test_safetensors():
    all_arrays = arrays()
    np.savez("a.npz", **all_arrays)
    copy("a.npz", "b.safetensors")
    found = load_safetensors("b.safetensors")
    check(set(found) == set(all_arrays), "names")
    for name, a in all_arrays.items():
        same(found[name], a, f"safetensors {name}")
    copy("b.safetensors", "c.npz")
    with np.load("c.npz") as loaded:
        for name, a in all_arrays.items():
            same(loaded[name], a, f"safetensors to npz {name}")
    header = json.dumps({"w": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}).encode()
    with open("bf16.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + b"\x80\x3f\x00\x40\x40\x40")
    copy("bf16.safetensors", "again.safetensors")
    check(load_safetensors("again.safetensors")["w"].tobytes() == b"\x80\x3f\x00\x40\x40\x40", "bf16 kept")
    copy("bf16.safetensors", "bf16.npy")
    copy("bf16.safetensors", "bf16.npz")
    for a in (np.load("bf16.npy"), np.load("bf16.npz")["w"]):  # as ml_dtypes writes them
        check(a.dtype == np.dtype("V2") and a.tobytes() == b"\x80\x3f\x00\x40\x40\x40", "bf16 as two raw bytes")
    copy("bf16.npy", "back.safetensors")
    check(list(load_safetensors("back.safetensors").values())[0].tobytes() == b"\x80\x3f\x00\x40\x40\x40", "bf16 back")


def test_refusals():
    rows = [(np.arange(3, dtype=">f4"), "big-endian"), (np.array([{}, None]), "Python objects"),
            (np.array(["a", "b"]), "strings"), (np.array([b"a"]), "strings"), (np.zeros(2, "c8"), "complex"),
            (np.zeros(2, [("a", "i4"), ("b", "f4")]), "structured"), (np.zeros(2, "V3"), "raw bytes"),
            (np.zeros(2, "M8[s]"), "not supported"), (np.zeros(2, "f16"), "not supported"),
            (np.zeros((1,) * 9), "more than 8 dimensions")]
    for a, part in rows:
        np.save("bad.npy", a, allow_pickle=True)
        refuse("bad.npy", "no.npy", part)
        np.savez("bad.npz", x=np.zeros(3), y=a)
        refuse("bad.npz", "no.npz", part)


with tempfile.TemporaryDirectory() as directory:
    os.chdir(directory)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
    os.chdir("/")
print(f"{checks} checks passed")
