"""examples_agree.py RUNNER EXAMPLES: computes the examples with the reference interpreter and with numpy, and compares.

The implementations below are written from the papers (GPT-2, LLaMA), one head and one position at a time where that is
simplest, in double precision.  They share only the names and shapes of weights with the language.  Skipped (exit 77)
without numpy.
"""
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(77)


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def causal_attention(q, k, v):
    """q, k, v: [positions, size] of one head."""
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        scores = np.array([q[i] @ k[j] for j in range(i + 1)]) / math.sqrt(q.shape[1])
        out[i] = softmax(scores) @ v[: i + 1]
    return out


def gpt(w, tokens, layers, heads, tied):
    def norm(x, name):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(var + 1e-5) * w[name + ".gain"] + w[name + ".bias"]

    out = []
    for row in tokens:
        x = w["wte"][row] + w["wpe"][: len(row)]
        for i in range(layers):
            p = f"layers.{i}."
            h = norm(x, p + "ln1")
            total = w[p + "attn.out.b"].copy()
            for head in range(heads):
                q, k, v = (h @ w[p + f"attn.{n}.w"][:, head] + w[p + f"attn.{n}.b"][head] for n in "qkv")
                total = total + causal_attention(q, k, v) @ w[p + "attn.out.w"][head]
            x = x + total
            h = norm(x, p + "ln2") @ w[p + "mlp.fc.w"] + w[p + "mlp.fc.b"]
            h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
            x = x + h @ w[p + "mlp.proj.w"] + w[p + "mlp.proj.b"]
        x = norm(x, "ln_f")
        out.append(x @ (w["wte"].T if tied else w["head"]))
    return np.array(out)


def rotate(x, base):
    """Rotary positions of x: [positions, size]; element i pairs with element i + size / 2."""
    half = x.shape[1] // 2
    out = np.zeros_like(x)
    for s in range(len(x)):
        for i in range(half):
            angle = s / base ** (i / half)
            a, b = x[s, i], x[s, i + half]
            out[s, i] = a * math.cos(angle) - b * math.sin(angle)
            out[s, i + half] = a * math.sin(angle) + b * math.cos(angle)
    return out


def silu(x):
    return x / (1 + np.exp(-x))


def gated_mlp(w, p, rows):
    """rows: [sequences, positions, d]."""
    return silu(rows @ w[p + "mlp.gate.w"]) * (rows @ w[p + "mlp.up.w"]) @ w[p + "mlp.down.w"]


def mixture(experts, top_k, capacity=None, groups=1):
    """Sends every token to its top_k experts; with a capacity, in groups of ceil(positions / groups) tokens of a
    sequence, first choices first."""
    def layer(w, p, rows):
        out = np.zeros_like(rows)
        size = -(-rows.shape[1] // groups)
        for b, row in enumerate(rows):
            for start in range(0, len(row), size):
                group = row[start : start + size]
                score = group @ w[p + "moe.router"]
                chosen = np.argsort(-score, axis=1, kind="stable")[:, :top_k]
                # An expert has the places of a full group, even if the sequence ends in it.
                free = [len(group) if capacity is None else min(size, math.ceil(capacity * top_k * size / experts))] * experts
                for k in range(top_k):
                    for t, x in enumerate(group):
                        e = chosen[t, k]
                        free[e] -= 1
                        if free[e] < 0:
                            continue
                        h = silu(x @ w[p + "moe.gate"][e]) * (x @ w[p + "moe.up"][e])
                        out[b, start + t] += softmax(score[t, chosen[t]])[k] * (h @ w[p + "moe.down"][e])
        return out

    return layer


def llama(w, tokens, layers, heads, kv_heads, base=10000.0, eps=1e-6, feed_forward=gated_mlp):
    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[name + ".gain"]

    group = heads // kv_heads
    out = []
    for row in tokens:
        x = w["embedding"][row]
        for i in range(layers):
            p = f"layers.{i}."
            h = norm(x, p + "ln1")
            total = np.zeros_like(x)
            for head in range(heads):
                g, r = head // group, head % group
                q = rotate(h @ w[p + "attn.wq"][:, g, r], base)
                k = rotate(h @ w[p + "attn.wk"][:, g], base)
                v = h @ w[p + "attn.wv"][:, g]
                total = total + causal_attention(q, k, v) @ w[p + "attn.wo"][g, r]
            x = x + total
            h = norm(x, p + "ln2")
            x = x + feed_forward(w, p, h[None])[0]
        out.append(norm(x, "ln_f") @ w["head"])
    return np.array(out)


def mlp(w, x, layers):
    for i in range(layers):
        p = f"layers.{i}."
        x = np.maximum(x @ w[p + "up.w"] + w[p + "up.b"], 0) @ w[p + "down.w"] + w[p + "down.b"]
        if i + 1 < layers:
            x = np.maximum(x, 0)
    return x


def lstm(w, tokens, layers):
    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    out = []
    for row in tokens:
        x = w["embedding"][row]
        for i in range(layers):
            p = f"layers.{i}."
            h = c = np.zeros(w[p + "recurrent"].shape[0])
            rows = []
            for token in x:
                step, forget, cell, give = (token @ w[p + "input"][:, g] + h @ w[p + "recurrent"][:, g] + w[p + "bias"][g] for g in range(4))
                c = sigmoid(forget) * c + sigmoid(step) * np.tanh(cell)
                h = sigmoid(give) * np.tanh(c)
                rows.append(h)
            x = np.array(rows)
        out.append(x @ w["head"] + w["head_bias"])
    return np.array(out)


MIXTRAL = dict(layers=2, d=16, heads=4, kv_heads=2, ffn=10, vocab=9)


def mixtral(w, tokens, feed_forward):
    return llama(w, tokens, 2, 4, 2, 1e6, 1e-5, feed_forward)


CASES = [
    ("gpt.apc", dict(layers=2, d=12, heads=3, ffn=20, vocab=11, ctx=9), dict(batch=2, seq=7),
     lambda w, a: gpt(w, a["tokens"], 2, 3, True)),
    ("gpt.apc", dict(layers=1, d=8, heads=2, vocab=6, ctx=5, tied=0), dict(batch=3, seq=5),
     lambda w, a: gpt(w, a["tokens"], 1, 2, False)),
    ("llama.apc", dict(layers=2, d=16, heads=4, ffn=10, vocab=9), dict(batch=2, seq=6),
     lambda w, a: llama(w, a["tokens"], 2, 4, 4)),
    ("llama.apc", dict(layers=2, d=24, heads=6, kv_heads=2, ffn=7, vocab=8, rope_base=500.0, eps=1e-3), dict(batch=2, seq=5),
     lambda w, a: llama(w, a["tokens"], 2, 6, 2, 500.0, 1e-3)),
    ("moe.apc", dict(MIXTRAL, experts=5, top_k=2), dict(batch=2, seq=6), lambda w, a: mixtral(w, a["tokens"], mixture(5, 2))),
    ("moe.apc", dict(MIXTRAL, experts=5, top_k=2, routing="dropless"), dict(batch=2, seq=6), lambda w, a: mixtral(w, a["tokens"], mixture(5, 2))),
    ("moe.apc", dict(MIXTRAL, experts=5, top_k=2, routing="capacity", capacity_factor=0.6), dict(batch=2, seq=9),
     lambda w, a: mixtral(w, a["tokens"], mixture(5, 2, 0.6))),
    ("moe.apc", dict(MIXTRAL, experts=4, top_k=3, routing="capacity", capacity_factor=0.5, groups=3), dict(batch=2, seq=10),
     lambda w, a: mixtral(w, a["tokens"], mixture(4, 3, 0.5, 3))),
    ("lstm.apc", dict(layers=2, d=5, hidden=7, vocab=9), dict(batch=2, seq=6), lambda w, a: lstm(w, a["tokens"], 2)),
    ("mlp.apc", dict(layers=3, d=5, hidden=7), dict(batch=4), lambda w, a: mlp(w, a["x"], 3)),
]


def main(runner, examples):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.npz")
        for file, defines, dims, reference in CASES:
            command = [runner, os.path.join(examples, file), path]
            for k, v in defines.items():
                command += ["-D", f"{k}={v}"]
            for k, v in dims.items():
                command += ["--dim", f"{k}={v}"]
            subprocess.run(command, check=True)
            data = np.load(path)
            part = {kind: {k.split(":", 1)[1]: data[k] for k in data.files if k.startswith(kind + ":")}
                    for kind in ("param", "input", "output")}
            (got,) = part["output"].values()
            want = reference(part["param"], part["input"])
            error = np.linalg.norm(got - want) / np.linalg.norm(want)
            ok = got.shape == want.shape and error < 1e-10
            failed += not ok
            print(f"{'ok' if ok else 'FAILED'} {file} {defines}: relative error {error:.1e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
