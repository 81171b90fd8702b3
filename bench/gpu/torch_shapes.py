#!/usr/bin/env python3
"""bench/gpu/torch_shapes.py SECONDS [REGEX] - the measurements of bench/gpu/on_device.sh by PyTorch, compiled with CUDA
graphs.

The same shapes in the same precision (f32 without tf32; bf16 if the name says so), random weights.  Training steps are
compiled without graphs, in bf16 by autocast, with fused AdamW, images with channels last.  Prints NAME=US, the median
of the GPU's time of a call, and NAME_eager=US without torch.compile, for names that match.  No measurement begins after
SECONDS; errors go to standard error."""
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

RUNS, WARM = 10, 3
end = time.monotonic() + float(sys.argv[1])
wanted = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
DEVICE = "cuda"


def random(*shape, dtype=torch.float32):
    return torch.rand(shape, device=DEVICE).mul_(2).sub_(1).to(dtype)


def tokens(vocab, *shape):
    return torch.randint(vocab, shape, device=DEVICE)


def heads_of(x, heads):
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    def __init__(self, d, heads, causal, bias=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.out = (nn.Linear(d, d, bias=bias) for _ in range(4))

    def forward(self, x):
        q, k, v = (heads_of(f(x), self.heads) for f in (self.q, self.k, self.v))
        return self.out(joined(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)))


class Block(nn.Module):
    """A block of GPT-2 (norms before its parts) or of BERT (norms after them)."""

    def __init__(self, d, heads, before):
        super().__init__()
        self.before, self.gelu = before, "tanh" if before else "none"
        self.attention = Attention(d, heads, causal=before)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def mlp(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.gelu))

    def forward(self, x):
        if self.before:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Text(nn.Module):
    def __init__(self, layers, d, heads, vocab, ctx, gpt):
        super().__init__()
        self.gpt, self.words, self.places = gpt, nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.blocks = nn.Sequential(*(Block(d, heads, before=gpt) for _ in range(layers)))
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        h = self.words(x) + self.places.weight[: x.shape[1]]
        if not self.gpt:
            return self.blocks(self.norm(h))
        return F.linear(self.norm(self.blocks(h)), self.words.weight)


class Bottleneck(nn.Module):
    def __init__(self, c, n, stride):
        super().__init__()
        def conv(i, o, size, s=1):
            return nn.Sequential(nn.Conv2d(i, o, size, s, size // 2, bias=False), nn.BatchNorm2d(o))
        self.body = nn.Sequential(conv(c, n, 1), nn.ReLU(), conv(n, n, 3, stride), nn.ReLU(), conv(n, 4 * n, 1))
        self.short = nn.Identity() if c == 4 * n else conv(c, 4 * n, 1, stride)

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


def resnet50():
    layers, c = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for n, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(c, n, stride if i == 0 else 1))
            c = 4 * n
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))


class LlamaBlock(nn.Module):
    def __init__(self, d=4096, heads=32, ffn=11008, past=0):
        super().__init__()
        self.heads, self.past = heads, past
        self.q, self.k, self.v, self.out = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(d, ffn, bias=False), nn.Linear(d, ffn, bias=False), nn.Linear(ffn, d, bias=False)
        self.norm1, self.norm2 = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d))
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, heads, max(past, 1) + 1, d // heads))

    def forward(self, x, cos, sin):
        def turned(t):
            a, b = t.chunk(2, -1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        h = F.rms_norm(x, x.shape[-1:], self.norm1, 1e-6)
        q, k, v = (heads_of(f(h), self.heads) for f in (self.q, self.k, self.v))
        q, k = turned(q), turned(k)
        if self.past:
            self.keys[:, :, self.past :], self.values[:, :, self.past :] = k, v
            k, v = self.keys, self.values
        x = x + self.out(joined(F.scaled_dot_product_attention(q, k, v, is_causal=not self.past)))
        h = F.rms_norm(x, x.shape[-1:], self.norm2, 1e-6)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, seq, past, layers=2, d=4096, heads=32, vocab=4096):
        super().__init__()
        self.words, self.head, self.norm = nn.Embedding(vocab, d), nn.Linear(d, vocab, bias=False), nn.Parameter(torch.ones(d))
        self.blocks = nn.ModuleList(LlamaBlock(d, heads, past=past) for _ in range(layers))
        angle = torch.outer(torch.arange(past, past + seq).float(), 10000.0 ** -torch.linspace(0, 1, d // heads // 2 + 1)[:-1])
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x):
        h = self.words(x)
        for block in self.blocks:
            h = block(h, self.cos, self.sin)
        return self.head(F.rms_norm(h, h.shape[-1:], self.norm, 1e-6))


def rows(f):
    return lambda: (f, (random(8192, 4096),))


def attention(dtype):
    def make():
        q, k, v = (random(1, 16, 8192, 128, dtype=dtype) for _ in range(3))
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v)
    return make


def model(make, x, dtype=torch.float32):
    def inputs():
        value = x()
        return value.to(dtype) if value.is_floating_point() else value
    return lambda: (make().to(DEVICE, dtype).eval(), (inputs(),))


class Step(nn.Module):
    """A training step without the optimizer, which is not compiled."""

    def __init__(self, net, dtype):
        super().__init__()
        self.net, self.dtype = net, dtype

    def forward(self, x, labels):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            y = self.net(x)
        return F.cross_entropy(y.flatten(0, -2).float(), labels.flatten())


def training(make, x, classes, dtype=torch.bfloat16):
    def inputs():
        images = x().is_floating_point()
        net = make().to(DEVICE).train()
        if images:
            net = net.to(memory_format=torch.channels_last)
        data = x().contiguous(memory_format=torch.channels_last) if images else x()
        labels = tokens(classes, *(data.shape[:1] if images else data.shape))
        return Step(net, dtype), (data, labels)
    return inputs


ITEMS = {
    "relu": rows(F.relu),
    "softmax": rows(lambda x: F.softmax(x, -1)),
    "layer_norm": rows(lambda x: F.layer_norm(x, x.shape[-1:])),
    "rms_norm": rows(lambda x: F.rms_norm(x, x.shape[-1:])),
    "transpose": rows(lambda x: x.t().contiguous()),
    "product": lambda: (torch.matmul, (random(4096, 4096), random(4096, 4096))),
    "attention_f32": attention(torch.float32),
    "attention_bf16": attention(torch.bfloat16),
    "llama2_prefill": model(lambda: Llama(2048, 0), lambda: tokens(4096, 1, 2048)),
    "llama2_token": model(lambda: Llama(1, 2000), lambda: tokens(4096, 1, 1)),
    "gpt2_124m": model(lambda: Text(12, 768, 12, 50257, 1024, True), lambda: tokens(50257, 1, 1024)),
    "bert_base": model(lambda: Text(12, 768, 12, 30522, 512, False), lambda: tokens(30522, 8, 512)),
    "resnet50": model(resnet50, lambda: random(32, 3, 224, 224)),
    "llama2_prefill_bf16": model(lambda: Llama(2048, 0), lambda: tokens(4096, 1, 2048), torch.bfloat16),
    "llama2_token_bf16": model(lambda: Llama(1, 2000), lambda: tokens(4096, 1, 1), torch.bfloat16),
    "gpt2_124m_b1_bf16": model(lambda: Text(12, 768, 12, 50257, 1024, True), lambda: tokens(50257, 1, 1024), torch.bfloat16),
    "gpt2_124m_b8_bf16": model(lambda: Text(12, 768, 12, 50257, 1024, True), lambda: tokens(50257, 8, 1024), torch.bfloat16),
    "bert_base_bf16": model(lambda: Text(12, 768, 12, 30522, 512, False), lambda: tokens(30522, 8, 512), torch.bfloat16),
    "resnet50_bf16": model(resnet50, lambda: random(32, 3, 224, 224), torch.bfloat16),
    "train_gpt2_124m_bf16": training(lambda: Text(12, 768, 12, 50257, 1024, True), lambda: tokens(50257, 8, 1024), 50257),
    "train_llama2_bf16": training(lambda: Llama(2048, 0), lambda: tokens(4096, 1, 2048), 4096),
    "train_resnet50_bf16": training(resnet50, lambda: random(32, 3, 224, 224), 1000),
    "train_gpt2_124m": training(lambda: Text(12, 768, 12, 50257, 1024, True), lambda: tokens(50257, 8, 1024), 50257, torch.float32),
}


def stepping(f, compiled):
    optimizer = torch.optim.AdamW(f.parameters(), lr=1e-4, fused=True)
    loss = torch.compile(f) if compiled else f

    def step(x, labels):
        loss(x, labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    return step


def measure(f, args):
    """Returns the median in microseconds."""
    us = []
    for i in range(WARM + RUNS):
        begin, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        f(*args)
        done.record()
        torch.cuda.synchronize()
        us.append(begin.elapsed_time(done) * 1e3)
    return statistics.median(us[WARM:])


print(f"version={torch.__version__}", flush=True)
for name, make in ITEMS.items():
    for suffix in ("", "_eager"):
        if not wanted.search(name):
            continue
        if time.monotonic() > end:
            print(f"no time for {name}{suffix} and what follows", file=sys.stderr)
            sys.exit()
        try:
            f, args = make()
            if isinstance(f, Step):
                print(f"{name}{suffix}={measure(stepping(f, not suffix), args):.1f}", flush=True)
            else:
                with torch.no_grad():
                    f = f if suffix else torch.compile(f, mode="reduce-overhead")
                    print(f"{name}{suffix}={measure(f, args):.1f}", flush=True)
        except Exception as e:  # measure the others nevertheless
            print(f"{name}{suffix}: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
        f = args = None
        torch.cuda.empty_cache()
