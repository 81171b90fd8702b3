#!/usr/bin/env python3
"""Imports the folders of folder.py and compares logits and greedy tokens with those that transformers gave.

    agree.py APC

A run takes a quarter of the folders (CONTRIBUTING.md), on one rank or two; one folder is also read in shards and in 16
bits.
"""
import array
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import folder

apc = os.path.abspath(sys.argv[1])
names = sorted(n[:-5] for n in os.listdir(folder.FOLDERS) if n.endswith(".json"))
quarter = os.environ.get("APC_QUARTER")
failed = 0


def run(*args):
    r = subprocess.run([apc, *args], capture_output=True, text=True)
    return r.returncode, r.stdout + r.stderr


def check(what, holds, why=""):
    global failed
    if not holds:
        failed += 1
        print(f"FAILED {what}\n{why}")


def npy(tokens):
    """The bytes of an .npy file of i64[1, n]."""
    head = f"{{'descr': '<i8', 'fortran_order': False, 'shape': (1, {len(tokens)}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    data = struct.pack(f"<{len(tokens)}q", *tokens)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def rows(path, width):
    """The rows of an .npy file of f32[1, n, width]."""
    with open(path, "rb") as f:
        data = f.read()
    data = array.array("f", data[10 + struct.unpack("<H", data[8:10])[0]:])
    return [data[i:i + width].tolist() for i in range(0, len(data), width)]


def distance(a, b):
    """The relative L2 distance of a from b."""
    return (sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b)) ** 0.5


def load(name):
    with open(f"{folder.FOLDERS}/{name}.json") as f:
        return json.load(f)


def logits(d, model, weights, *options):
    with open("in.npy", "wb") as f:
        f.write(npy(d["tokens"]))
    code, text = run("run", model, "--weights", weights, "-q", "--input", "tokens=@in.npy", "--output",
                     "logits=@out.npy", "--dim", f"batch=1,seq={len(d['tokens'])}", *options)
    check(f"{model} {options}", code == 0, text)
    return rows("out.npy", d["config"]["vocab_size"]) if code == 0 else None


def agree(name, d, made):
    if made is None:
        return
    error = distance(made[-1], d["logits"])
    check(f"{name}: logits differ by {error:.1e}", error <= 1e-5)
    tokens = [row.index(max(row)) for row in made[d["prompt"] - 1:-1]]
    check(f"{name}: {tokens}", tokens == d["next"] and len(tokens) == 64)


def one(number, name):
    d = load(name)
    folder.write(name, d["config"], d["shapes"], shards=1 + number % 2)
    code, text = run("import-hf", name, "-o", f"{name}.apc")
    check(f"import of {name}", code == 0 and "warning" not in text, text)
    if code == 0:
        split = ["--target", "cpux2", "--tp", "2"] if number % 4 < 2 else ["--target", "cpu"]
        agree(name, d, logits(d, f"{name}.apc", name, *split))


def narrow():
    """bf16 and f16 keep 8 and 11 bits of the weights: near the f32 logits, but not equal."""
    d = load("qwen2")
    folder.write("wide", d["config"], d["shapes"])
    check("import", run("import-hf", "wide", "-o", "narrow.apc")[0] == 0)
    want = logits(d, "narrow.apc", "wide")
    for dtype, bits in (("BF16", 8), ("F16", 11)):
        folder.write(dtype, d["config"], d["shapes"], dtype=dtype)
        made = logits(d, "narrow.apc", dtype)
        error = distance(made[-1], want[-1]) if made else 0
        check(f"{dtype}: {error:.1e}", 0 < error < 20 * 2.0 ** -bits)


def refused(name, text, change, drop=()):
    """Every field that changes the result and is not known is an error that names file and field."""
    d = load(name)
    config = {k: v for k, v in {**d["config"], **change}.items() if k not in drop}
    folder.write("refused", config, d["shapes"])
    code, out = run("import-hf", "refused", "-o", "refused.apc")
    check(f"{change}: exit {code}, no '{text}'", code == 5 and text in out and "refused/config.json" in out, out)
    check("a refused model was written", not os.path.exists("refused.apc"))


def refusals():
    refused("llama2", "'NovelForCausalLM' is not known", {"architectures": ["NovelForCausalLM"]})
    refused("llama2", "field 'logit_scale' is 2", {"logit_scale": 2})
    refused("llama2", 'field \'hidden_act\' is "mish"', {"hidden_act": "mish"})
    refused("llama2", "field 'rope_parameters.rope_type' is \"novel\"", {"rope_scaling": {"type": "novel"},
                                                                        "rope_parameters": None})
    refused("llama2", "field 'rope_parameters.factor' is missing", {"rope_parameters": {"rope_type": "linear"}})
    refused("llama2", "field 'quantization_config' is", {"quantization_config": {"bits": 4}})
    refused("qwen2_window", "has the item \"chunked\"", {"layer_types": ["chunked", "chunked"]})
    d = load("llama2")
    folder.write("other", {**d["config"], "intermediate_size": 20}, d["shapes"])
    code, out = run("import-hf", "other", "-o", "other.apc")
    check("weights of other sizes", code == 1 and "it is f32[24, 16], the weight is f32[20, 16]" in out, out)
    check("no folder", run("import-hf", "absent", "-o", "m.apc")[0] == 1)
    check("no -o", run("import-hf", "other")[0] == 2)


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    os.environ["APC_CACHE"] = "off"
    for number, name in enumerate(names):
        if quarter is None or int(quarter) == number % 4:
            one(number, name)
    if quarter in (None, "0"):
        narrow()
    refusals()
print(f"{failed} failures")
sys.exit(failed > 0)
