"""tests/cli/normed.py GAIN BIAS MEAN VARIANCE [biased|unbiased] - checks four steps of a batch norm and an evaluation.

In: image.npy, w.safetensors with the weights "bn." + these names, and the lines of the trainer in `out`.
"""
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from stored import read  # noqa: E402

names, biased = sys.argv[1:5], sys.argv[5:] == ["biased"]
w = read("w.safetensors")
x = np.einsum("nchw,oc->nohw", np.load("image.npy").astype("f8"), w["w"].reshape(w["w"].shape[:2]).astype("f8"))
wide, gain, bias, mean, var, want = lambda a: a[:, None, None], np.ones(3), np.zeros(3), np.zeros(3), np.ones(3), []
for s in range(4):
    b = x[[(6 * s + i) % 12 for i in range(6)]]
    m, v = b.mean((0, 2, 3)), b.var((0, 2, 3))
    h = (b - wide(m)) / np.sqrt(wide(v) + 1e-5)
    y = h * wide(gain) + wide(bias)
    want.append((y ** 2).mean())
    d = 2 * y / y.size
    gain, bias = gain - .1 * (d * h).sum((0, 2, 3)), bias - .1 * d.sum((0, 2, 3))
    mean, var = .9 * mean + .1 * m, .9 * var + .1 * v * (1 if biased else 96 / 95)
for k, a in zip(names, (gain, bias, mean, var)):
    assert abs(w["bn." + k] - a).max() < 1e-5, (k, w["bn." + k], a)
want.append((((x - wide(mean)) / np.sqrt(wide(var) + 1e-5) * wide(gain) + wide(bias)) ** 2).mean())
got = [(lambda d: d.get("loss", d.get("eval_loss")))(json.loads(l)) for l in open("out")]
assert len(got) == 5 and np.allclose(got, want, 1e-4), (got, want)
