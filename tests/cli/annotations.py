#!/usr/bin/env python3
"""tests/cli/annotations.py FILE.onnx [WITHOUT.onnx] - prints the sharding annotations of a file, one per line, and exits with 1 if one
contradicts itself.  Reads the bytes of the protobuf message itself, since an installed onnx may not know the fields.

    configuration cpux4: cpu:0 cpu:1 cpu:2 cpu:3
    MatMul /fc/MatMul stage 1: h [_ 2] 2 3
    TYPE   NODE       the node's stage of the pipeline, if it has one: tensor [shards by dimension] devices, or 0+1
                      for a shard that both hold

Also writes the file without its metadata, in which apc keeps the plan.
"""
import sys


def fields(data):
    """(number, value): an integer, or bytes."""
    at = 0

    def varint():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at, n, shift = at + 1, n | (byte & 127) << shift, shift + 7
            if byte < 128: return n - (1 << 64) if n >> 63 else n

    while at < len(data):
        tag = varint()
        if tag & 7 == 0: yield tag >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(tag & 7) or varint()
            yield tag >> 3, bytes(data[at:at + size])
            at += size


def without_metadata(data):
    """The bytes of a model without the fields 14, metadata_props; every field is a number or has a length."""
    out, at = b"", 0
    for n, v in fields(data):
        head = field_head(n, v)
        end = at + len(head) + (len(v) if isinstance(v, bytes) else 0)
        assert data[at:at + len(head)] == head, "a field is not in its shortest form"
        out += data[at:end] if n != 14 else b""
        at = end
    return out


def field_head(number, value):
    def varint(n):
        n &= (1 << 64) - 1
        return (bytes([n & 127 | 128]) + varint(n >> 7)) if n > 127 else bytes([n])

    if isinstance(value, bytes): return varint(number << 3 | 2) + varint(len(value))
    return varint(number << 3) + varint(value)


def all_of(data, number): return [v for n, v in fields(data) if n == number]
def text(data, number): return all_of(data, number)[-1].decode() if all_of(data, number) else ""


def spec_text(spec, devices):
    groups = {all_of(g, 1)[0]: all_of(g, 2) for g in all_of(spec, 3)}
    parts, shards = {}, 1
    for dim in all_of(spec, 4):
        axis, counts = (all_of(dim, 1) or [0])[0], [all_of(s, 3)[0] for s in all_of(dim, 2)]
        if axis in parts or len(counts) != 1: faults.append(f"axis {axis}")
        parts[axis] = counts[0]
        shards *= counts[0]
    lists = [groups.get(d, [d]) for d in all_of(spec, 2)]
    flat = [d for each in lists for d in each]
    if len(lists) != shards or len(set(flat)) != len(flat) or not set(flat) <= set(range(devices)): faults.append(text(spec, 1))
    shape = " ".join(str(parts.get(d, "_")) for d in range(max(parts, default=-1) + 1))
    return f"{text(spec, 1)} [{shape}] " + " ".join("+".join(map(str, each)) for each in lists)


faults = []
model = open(sys.argv[1], "rb").read()
sizes = {}
for c in all_of(model, 26):
    sizes[text(c, 1)] = all_of(c, 2)[0]
    names = [d.decode() for d in all_of(c, 3)]
    if len(set(names)) != sizes[text(c, 1)]: faults.append("names of devices")
    print(f"configuration {text(c, 1)}: " + " ".join(names))
for node in all_of(all_of(model, 7)[0], 1):
    for n in all_of(node, 10):
        stage = all_of(n, 3)
        head = f"{text(node, 4)} {text(node, 3)}" + (f" stage {stage[0]}" if stage else "")
        tensors = [t.decode() for t in all_of(node, 1) + all_of(node, 2)]
        for spec in all_of(n, 2):
            if text(spec, 1) not in tensors: faults.append(f"{head}: {text(spec, 1)}")
            print(f"{head}: {spec_text(spec, sizes[text(n, 1)])}")
        if not all_of(n, 2): print(head)
if len(sys.argv) > 2: open(sys.argv[2], "wb").write(without_metadata(model))
sys.exit(f"contradictions: {faults}" if faults else 0)
