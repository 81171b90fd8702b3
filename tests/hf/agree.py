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


def imported(name, change, drop=()):
    """The text of the model of a changed config, without weights."""
    config = {k: v for k, v in {**load(name)["config"], **change}.items() if k not in drop}
    os.makedirs("changed", exist_ok=True)
    with open("changed/config.json", "w") as f:
        json.dump(config, f)
    code, text = run("import-hf", "changed", "-o", "changed.apc")
    check(f"{name} with {change} without {drop}", code == 0, text)
    with open("changed.apc" if code == 0 else os.devnull) as f:
        return f.read()


# Fields of public checkpoints that change nothing: Phi-4-mini, Qwen2-VL's relatives, SmolLM2, gemma-2-9b, gpt2-medium.
NEUTRAL = [
    ("phi3", {"attention_bias": False, "mlp_bias": False, "lm_head_bias": False, "full_attn_mod": 1,
              "interpolate_factor": 1, "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}}),
    ("qwen2", {"use_mrope": False, "sliding_window": 32768, "max_window_layers": 28}),
    ("llama2", {"rope_interleaved": False, "is_llama_config": True, "pretraining_tp": 1, "rope_scaling": None,
                "transformers.js_config": {"dtype": "q4"}}),
    ("gemma2", {"sliding_window_size": 4096, "hidden_act": "gelu_pytorch_tanh", "cache_implementation": "hybrid"}),
    ("gpt2", {"n_ctx": 1024, "n_special": 0, "predict_special_tokens": True, "_num_labels": 1,
              "task_specific_params": {"text-generation": {"do_sample": True}}}),
]


def readings():
    for name, change in NEUTRAL:
        imported(name, change)
    check("mistral: the default window", "window = 4096" in imported("mistral", {}, drop=["sliding_window"]))
    check("mistral: no window", "window =" not in imported("mistral", {"sliding_window": None}))
    window = imported("qwen3_moe", {"use_sliding_window": True}, drop=["sliding_window"])
    check("qwen3_moe: the default window", "window = 4096" in window)
    window = imported("qwen2", {"use_sliding_window": True, "sliding_window": None, "layer_types": None})
    check("qwen2: no window", "window =" not in window)
    nested = {"sliding_attention": {"rope_type": "default"},
              "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5}}
    text = imported("gemma3", {"rope_parameters": nested})
    check("gemma3: two bases", "local_base = 1e+04" in text and "rope_base = 5e+05" in text, text[:3000])


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
    for field, value in {"norm_offset": True, "query_pre_attn_scalar": 100, "final_logit_softcapping": 30,
                         "attn_logit_softcapping": 50, "unscaled": True, "windows": "all", "qk_norm": True,
                         "experts": 2, "n_shared_experts": 1, "lm_head_bias": True}.items():
        refused("llama2", f"field '{field}' is", {field: value})
    refused("llama2", "field 'own.qk_norm' is", {"own": {"qk_norm": True}})
    refused("llama2", "field 'rope_parameters.partial_rotary_factor' is 0.5", {"partial_rotary_factor": 0.5})
    refused("qwen3_moe", "field 'routed_scaling_factor' is 2.5", {"routed_scaling_factor": 2.5})
    refused("phi3", "field 'mlp_bias' is true", {"mlp_bias": True})
    refused("llama2", "field 'rope_parameters' is \"yarn\"", {"rope_parameters": "yarn"})
    refused("llama2", "both 'rope_scaling' and", {"rope_scaling": {"type": "linear", "factor": 2}})
    refused("gemma3", "beside 'full_attention'", {"rope_theta": 3.0, "rope_parameters": {
        "sliding_attention": {"rope_type": "default"}, "full_attention": {"rope_type": "default"}}})
    refused("gemma3", "field 'sliding_attention.factor' is 2", {"rope_parameters": {
        "sliding_attention": {"rope_type": "default", "factor": 2}, "full_attention": {"rope_type": "default"}}})
    for field, value in {"rms_norm_eps": "layers", "num_hidden_layers": True, "num_attention_heads": 0,
                         "hidden_size": -1, "vocab_size": 1.5, "tie_word_embeddings": "no"}.items():
        refused("llama2", f"field '{field}' is", {field: value})
    for factor in ("2", 0):
        refused("llama2", "field 'rope_parameters.factor' is", {"rope_parameters": {"rope_type": "linear",
                                                                                    "factor": factor}})
    d = load("llama2")
    folder.write("both", d["config"], d["shapes"])
    with open("both/model.safetensors.index.json", "w") as f:
        f.write('{"weight_map": {"absent": "absent.safetensors"}}')
    check("model.safetensors comes before the index", run("import-hf", "both", "-o", "both.apc")[0] == 0)
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
    readings()
    refusals()
print(f"{failed} failures")
sys.exit(failed > 0)
