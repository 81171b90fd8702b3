#!/usr/bin/env python3
"""The model of docs/guide/start.md: a Transformer encoder of two layers names the largest of 16 numbers from 0 to 99.

    largest.py model    exports it from PyTorch: largest.onnx, largest.inputs.npz, largest.outputs.npz
    largest.py data     writes rows to train with and to evaluate: x.npy, labels.npy, held_x.npy, held_labels.npy
    largest.py check    loads trained.npz into the PyTorch model and counts its right answers for the rows held out

All need numpy; `model` and `check` also torch, `model` onnx and onnxscript.  examples/largest.onnx and the two files
beside it were written by `model` with torch 2.15, without the stack traces of nodes.
"""
import sys

import numpy


def network():
    """The model in PyTorch, with random weights from a fixed seed."""
    import torch
    from torch import nn

    class Largest(nn.Module):
        def __init__(self, width=32, heads=4, layers=2):
            super().__init__()
            self.number = nn.Embedding(100, width)
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
                for _ in range(layers))
            self.head = nn.Linear(width, 100)

        def forward(self, x):
            h = self.number(x)
            for layer in self.layers:
                h = layer(h)
            return self.head(h.mean(1))

    torch.manual_seed(0)
    return Largest().eval()


def model():
    import torch
    net = network()
    x = torch.randint(100, (8, 16))
    torch.onnx.export(net, (x,), "largest.onnx", input_names=["x"], output_names=["logits"],
                      external_data=False, optimize=False,
                      dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    numpy.savez("largest.inputs.npz", x=x)
    numpy.savez("largest.outputs.npz", logits=net(x).detach())


def data():
    x = numpy.random.default_rng(0).integers(0, 100, (8192, 16))
    for name, rows in ("", x[:7168]), ("held_", x[7168:]):
        numpy.save(name + "x.npy", rows)
        numpy.save(name + "labels.npy", rows.max(1))


def check():
    import torch
    net = network()
    weights = numpy.load("trained.npz")
    net.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights})
    labels = net(torch.from_numpy(numpy.load("held_x.npy"))).argmax(1).numpy()
    print((labels == numpy.load("held_labels.npy")).sum(), "of", len(labels), "are right")


{"model": model, "data": data, "check": check}[sys.argv[1]]()
