"""examples_agree.py RUNNER EXAMPLES: the examples, computed once by the reference interpreter and once here.

The implementations below are written from the papers (GPT-2, LLaMA), one head and one position at a time where that is
simplest, in double precision.  They share nothing with the language but the names and shapes of weights.
Skipped (exit 77) without numpy.
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


def llama(w, tokens, layers, heads, kv_heads, base=10000.0, eps=1e-6):
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
            gate = h @ w[p + "mlp.gate.w"]
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w[p + "mlp.up.w"])) @ w[p + "mlp.down.w"]
        out.append(norm(x, "ln_f") @ w["head"])
    return np.array(out)


def mlp(w, x, layers):
    for i in range(layers):
        p = f"layers.{i}."
        x = np.maximum(x @ w[p + "up.w"] + w[p + "up.b"], 0) @ w[p + "down.w"] + w[p + "down.b"]
        if i + 1 < layers:
            x = np.maximum(x, 0)
    return x


CASES = [
    ("gpt.apc", dict(layers=2, d=12, heads=3, ffn=20, vocab=11, ctx=9), dict(batch=2, seq=7),
     lambda w, a: gpt(w, a["tokens"], 2, 3, True)),
    ("gpt.apc", dict(layers=1, d=8, heads=2, vocab=6, ctx=5, tied=0), dict(batch=3, seq=5),
     lambda w, a: gpt(w, a["tokens"], 1, 2, False)),
    ("llama.apc", dict(layers=2, d=16, heads=4, ffn=10, vocab=9), dict(batch=2, seq=6),
     lambda w, a: llama(w, a["tokens"], 2, 4, 4)),
    ("llama.apc", dict(layers=2, d=24, heads=6, kv_heads=2, ffn=7, vocab=8, rope_base=500.0, eps=1e-3), dict(batch=2, seq=5),
     lambda w, a: llama(w, a["tokens"], 2, 6, 2, 500.0, 1e-3)),
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
