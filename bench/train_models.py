"""The models of bench/train.py in PyTorch, written so that its exporter makes an ONNX file whose initializers are their
weights, with their names.  Needs torch; vit and resnet18 are torchvision's."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def parts(self, x):
        y, n = self.qkv(x), x.shape[-1]  # not chunk, which the exporter writes as a sequence
        return y[..., :n], y[..., n:2 * n], y[..., 2 * n:]

    def attention(self, x):
        batch, seq, width = x.shape
        q, k, v = (t.view(batch, seq, self.heads, width // self.heads).transpose(1, 2)
                   for t in self.parts(x))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, seq, width))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.down(nn.functional.gelu(self.up(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.token, self.position = nn.Embedding(o.vocab, o.width), nn.Embedding(o.seq, o.width)
        self.blocks = nn.ModuleList(Block(o.width, o.heads) for _ in range(o.layers))
        self.ln, self.head = nn.LayerNorm(o.width), nn.Linear(o.width, o.vocab, bias=False)

    def forward(self, x):
        x = self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Rotary(nn.Module):
    """Attention with grouped queries and rotary positions."""
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, kv_heads * self.size, bias=False) for _ in range(2))

    def turn(self, x):
        half = self.size // 2
        rate = 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
        angle = torch.arange(x.shape[2], dtype=torch.float32)[:, None] * rate
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    def forward(self, x):
        batch, seq, width = x.shape
        q, k, v = (f(x).view(batch, seq, n, self.size).transpose(1, 2)
                   for f, n in ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads)))
        repeat = self.heads // self.kv_heads
        k, v = (t[:, :, None].expand(-1, -1, repeat, -1, -1).reshape(batch, self.heads, seq, self.size)
                for t in (self.turn(k), v))
        y = nn.functional.scaled_dot_product_attention(self.turn(q), k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(batch, seq, width))


class Gated(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    """Every expert computes every token; each token adds the results of its two largest scores."""
    def __init__(self, width, hidden, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.gate, self.up = (nn.Parameter(0.05 * torch.randn(experts, width, hidden)) for _ in range(2))
        self.down = nn.Parameter(0.05 * torch.randn(experts, hidden, width))

    def forward(self, x):
        score = self.router(x)
        least = score.topk(2, -1).values[..., 1:2]
        share = torch.where(score >= least, score, torch.full_like(score, float("-inf"))).softmax(-1)
        h = torch.einsum("bsd,edf->besf", x, self.gate)
        h = nn.functional.silu(h) * torch.einsum("bsd,edf->besf", x, self.up)
        return torch.einsum("besf,efd,bse->bsd", h, self.down, share)


class LlamaBlock(nn.Module):
    def __init__(self, o, experts):
        super().__init__()
        self.ln1, self.ln2 = RMSNorm(o.width), RMSNorm(o.width)
        self.attention = Rotary(o.width, o.heads, o.heads // 2)
        self.mlp = Mixture(o.width, o.width, experts) if experts else Gated(o.width, 3 * o.width)

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Llama(nn.Module):
    def __init__(self, o, experts=0):
        super().__init__()
        self.token = nn.Embedding(o.vocab, o.width)
        self.blocks = nn.ModuleList(LlamaBlock(o, experts) for _ in range(o.layers))
        self.ln, self.head = RMSNorm(o.width), nn.Linear(o.width, o.vocab, bias=False)

    def forward(self, x):
        x = self.token(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))
