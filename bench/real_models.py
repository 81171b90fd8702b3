"""Writes models of real size as ONNX, with inputs, for bench/models.sh.

usage: real_models.py FOLDER [NAME...]      NAME.onnx, and NAME.CASE.inputs.npz for every case
       real_models.py --time NAME INPUTS.npz [--threads T --runs N --warmup N]

Architectures and sizes are the published ones; weights are random, so nothing is downloaded.  Dimensions that a user
would change (batch, positions) are symbolic.  With --time PyTorch itself runs the model and prints the line of
bench/gpt_reference.py: median and least time in ms, peak resident set in MiB, time of the first answer in ms (without
building the model).  Needs torch, torchvision, transformers and onnxscript, which are no dependencies of apc.
"""
import argparse
import os
import resource
import statistics
import sys
import time
import warnings

import numpy as np
import torch

BATCH, TOKENS = {0: "batch"}, {0: "batch", 1: "seq"}


class Pick(torch.nn.Module):
    """One output of a model of transformers, by name."""

    def __init__(self, model, output, **fixed):
        super().__init__()
        self.model, self.output, self.fixed = model, output, fixed

    def forward(self, x):
        return getattr(self.model(x, **self.fixed), self.output)


class Step(torch.nn.Module):
    """A decoder with its keys and values as inputs and outputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, *past):
        from transformers.cache_utils import DynamicCache
        cache = DynamicCache()
        for i in range(len(past) // 2):
            cache.update(past[2 * i], past[2 * i + 1], i)
        out = self.model(input_ids=tokens, past_key_values=cache, use_cache=True)
        return (out.logits, *(t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)))


def images(batch):
    return {"x": np.random.default_rng(batch).standard_normal((batch, 3, 224, 224), dtype=np.float32)}


def tokens(batch, seq, vocabulary=30000):
    return {"x": np.random.default_rng(seq).integers(3, vocabulary, (batch, seq))}


def vision(name, *batches):
    import torchvision
    torch.manual_seed(0)
    model = getattr(torchvision.models, name)(weights=None)
    for weight in model.parameters():  # a head of zeros would make all answers equal
        if not weight.any():
            torch.nn.init.normal_(weight, std=0.02)
    return model, (torch.randn(2, 3, 224, 224),), [BATCH], {
        f"b{b}": (lambda b=b: images(b)) for b in batches}


def bert():
    import transformers as t
    model = t.BertModel(t.BertConfig())
    cases = {"b1s128": lambda: tokens(1, 128)}
    return Pick(model, "last_hidden_state"), (torch.ones(2, 9, dtype=torch.int64),), [TOKENS], cases


def gpt2():
    import transformers as t
    cases = {f"b{b}s{s}": (lambda b=b, s=s: tokens(b, s)) for b in (1, 8) for s in (128, 512)}
    model = t.GPT2LMHeadModel(t.GPT2Config())
    return Pick(model, "logits", use_cache=False), (torch.ones(2, 9, dtype=torch.int64),), [TOKENS], cases


LLAMA = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 12, "num_attention_heads": 16,
         "num_key_value_heads": 16, "max_position_embeddings": 32768, "vocab_size": 32000}


def llama():
    import transformers as t
    cases = {f"b1s{s}": (lambda s=s: tokens(1, s)) for s in (128, 512, 1000)}
    model = t.LlamaForCausalLM(t.LlamaConfig(**LLAMA))
    return Pick(model, "logits", use_cache=False), (torch.ones(2, 9, dtype=torch.int64),), [TOKENS], cases


def llama_decode():
    import transformers as t
    layers, heads, d = LLAMA["num_hidden_layers"], LLAMA["num_key_value_heads"], 64
    names = [f"past{i}" for i in range(2 * layers)]

    def case(at):
        rng = np.random.default_rng(at)
        past = {n: rng.standard_normal((1, heads, at, d), dtype=np.float32) for n in names}
        return {**tokens(1, 1), **past}

    example = (torch.ones(2, 1, dtype=torch.int64), *(torch.randn(2, heads, 7, d) for _ in names))
    model = Step(t.LlamaForCausalLM(t.LlamaConfig(**LLAMA)))
    return model, example, [{0: "batch"}] + [{0: "batch", 2: "past"}] * len(names), {
        f"at{at}": (lambda at=at: case(at)) for at in (1, 1000, 16000)}


MODELS = {
    "mobilenetv2": lambda: vision("mobilenet_v2", 1), "resnet50": lambda: vision("resnet50", 1, 8),
    "vit-b16": lambda: vision("vit_b_16", 1), "bert-base": bert, "gpt2-small": gpt2, "llama": llama,
    "llama-decode": llama_decode
}


def write(folder, name):
    torch.manual_seed(0)
    model, example, dims, cases = MODELS[name]()
    names = ["x"] + [f"past{i}" for i in range(len(example) - 1)]
    outputs = ["y"] + [f"present{i}" for i in range(len(example) - 1)]
    shapes = (dims[0], tuple(dims[1:])) if len(dims) > 1 else tuple(dims)
    with torch.no_grad():
        torch.onnx.export(model.eval(), example, f"{folder}/{name}.onnx", dynamo=True, external_data=False,
                          verbose=False, input_names=names, output_names=outputs, dynamic_shapes=shapes)
    for case, make in cases.items():
        np.savez(f"{folder}/{name}.{case}.inputs.npz", **make())
    print(f"{name}: {os.path.getsize(f'{folder}/{name}.onnx') >> 20} MiB, {', '.join(cases)}", flush=True)


def measure(words):
    p = argparse.ArgumentParser(prog="real_models.py --time")
    p.add_argument("name", choices=MODELS)
    p.add_argument("inputs")
    for name, default in [("threads", 1), ("runs", 20), ("warmup", 3)]:
        p.add_argument("--" + name, type=int, default=default)
    o = p.parse_args(words)
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    model, inputs, times = MODELS[o.name]()[0].eval(), np.load(o.inputs), []
    values = [torch.from_numpy(inputs[name]) for name in sorted(inputs.files, key=order_of_input)]
    with torch.inference_mode():
        for _ in range(1 + o.warmup + o.runs):
            begin = time.perf_counter()
            model(*values)
            times.append((time.perf_counter() - begin) * 1e3)
    measured = times[1 + o.warmup:] or times[:1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{statistics.median(measured):.3f} {min(measured):.3f} {peak:.1f} {times[0]:.3f}")


def order_of_input(name):
    """x, past0, past1, ..., past10: the order in which the model takes them."""
    return -1 if name == "x" else int(name.removeprefix("past"))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    if sys.argv[1:2] == ["--time"]:
        measure(sys.argv[2:])
    elif len(sys.argv) < 2:
        sys.exit(__doc__)
    else:
        os.makedirs(sys.argv[1], exist_ok=True)
        for name in sys.argv[2:] or MODELS:
            if name not in MODELS:
                sys.exit(f"real_models.py: there is no model {name}, only {', '.join(MODELS)}")
            write(sys.argv[1], name)
