"""Writes small folders of Hugging Face from a description, the same bytes each time, without transformers.

folders/NAME.json has the config.json of the folder, the names and shapes of its tensors, a prompt, and what
transformers made of them: 64 greedy tokens, the argmax of the logits before each (`next`, the same tokens unless the
frequencies of rotary positions depend on the length), and the last row of logits (recorded by
compare.py --record; the version is in the file).  The values of a tensor depend on its name only.
"""
import array
import json
import math
import os
import struct
import zlib

FOLDERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "folders")


def values(name, shape, tied=False):
    """Numbers in [-1, 1) by a congruential generator, scaled as the tensor's role asks."""
    state, scale, offset = zlib.crc32(name.encode()), 0.7, 0
    if len(shape) == 1:
        scale, offset = 0.3, 0 if name.endswith("bias") else 1
    elif "wte" in name or "embed" in name:
        scale = 0.4 if tied else 1.5
    out = array.array("f")
    for _ in range(math.prod(shape)):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(((state >> 8) / (1 << 23) - 1) * scale + offset)
    return out


def narrow(x, dtype):
    """The bytes of f32 values in F32, F16 or BF16."""
    if dtype == "F16":
        return struct.pack(f"<{len(x)}e", *x)
    raw = x.tobytes()
    return raw if dtype == "F32" else b"".join(raw[i + 2:i + 4] for i in range(0, len(raw), 4))


def safetensors(path, names, config, shapes, dtype):
    header, data, tied = {}, b"", config.get("tie_word_embeddings", False)
    for name in names:
        piece = narrow(values(name, shapes[name], tied), dtype)
        header[name] = {"dtype": dtype, "shape": shapes[name], "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def write(folder, config, shapes, dtype="F32", shards=1):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/config.json", "w") as f:
        json.dump(config, f, indent=1)
    names = sorted(shapes)
    if shards == 1:
        return safetensors(f"{folder}/model.safetensors", names, config, shapes, dtype)
    files = {n: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, n in enumerate(names)}
    for file in set(files.values()):
        safetensors(f"{folder}/{file}", [n for n in names if files[n] == file], config, shapes, dtype)
    with open(f"{folder}/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {}, "weight_map": files}, f)


def shapes_of(folder):
    shapes = {}
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors"):
            with open(f"{folder}/{file}", "rb") as f:
                header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            shapes.update({n: t["shape"] for n, t in header.items() if n != "__metadata__"})
    return shapes


def record(name, saved, auto, expected, version):
    """Replaces the values of a saved model by the fixed ones and keeps what transformers makes of them."""
    with open(f"{saved}/config.json") as f:
        config = json.load(f)
    shapes = shapes_of(saved)
    fixed = f"{saved}/fixed"
    write(fixed, config, shapes)
    tokens, logits = expected(auto.from_pretrained(fixed).eval())
    os.makedirs(FOLDERS, exist_ok=True)
    with open(f"{FOLDERS}/{name}.json", "w") as f:
        lines = [f'"source": "transformers {version}"', f'"config": {json.dumps(config)}',
                 f'"shapes": {json.dumps(shapes)}', f'"tokens": {json.dumps(tokens[0].tolist())}',
                 f'"next": {json.dumps(logits[0, 11:-1].argmax(-1).tolist())}',
                 '"prompt": 12', f'"logits": {json.dumps([round(float(v), 6) for v in logits[0, -1]])}']
        f.write("{\n " + ",\n ".join(lines) + "\n}\n")
