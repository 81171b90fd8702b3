#!/usr/bin/env python3
"""Exports a small GPT from PyTorch to ONNX, with inputs and the outputs PyTorch computes for them.

    export_gpt.py OUT [--layers 2] [--width 64] [--heads 4] [--vocab 512] [--context 64] [--batch 4] [--seq 32]

Writes OUT.onnx, OUT.inputs.npz and OUT.outputs.npz.  Needs torch and numpy (Debian: python3-torch, python3-numpy).
Weights are random, from a fixed seed.  examples/gpt-tiny.* were made by `export_gpt.py examples/gpt-tiny` with torch 1.13.
"""
import argparse

import numpy
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        batch, seq, width = x.shape
        q, k, v = (t.view(batch, seq, self.heads, width // self.heads).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        position = torch.arange(seq, device=x.device)
        hidden = position[None, :] > position[:, None]
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, seq, width))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.down(nn.functional.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, vocab, context):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    for name, default in dict(layers=2, width=64, heads=4, vocab=512, context=64, batch=4, seq=32).items():
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = GPT(args.layers, args.width, args.heads, args.vocab, args.context).eval()
    tokens = torch.randint(0, args.vocab, (args.batch, args.seq))
    with torch.no_grad():
        logits = model(tokens)
    torch.onnx.export(model, (tokens,), args.out + ".onnx", input_names=["tokens"], output_names=["logits"], opset_version=15,
                      dynamic_axes={"tokens": {0: "batch", 1: "seq"}, "logits": {0: "batch", 1: "seq"}})
    numpy.savez(args.out + ".inputs.npz", tokens=tokens.numpy())
    numpy.savez(args.out + ".outputs.npz", logits=logits.numpy())


if __name__ == "__main__":
    main()
