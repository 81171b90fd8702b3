#!/usr/bin/env python3
"""bench/accuracy.py [APC] [ROW...] - published runs against what the planner says of them.

In: bench/published/training.csv, one published training run a row with its layout and seconds per step (RUNS=FILE:
another file); APC, build/apc without it; beginnings of names of rows, all without them.  Out: docs/accuracy.md.

Each row is one `apc plan --assume-kernels` of an example with every degree forced.  What a source does not say is set
once for all its rows, and said in the column `assumed`.  The error of a row is predicted / published - 1; a source's is
the mean of its rows' absolute errors, and the whole is the mean of the sources', so that a long table counts as one.
Rows in fp8 are told apart and not judged.
"""
import csv
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {"A100": "dgx-a100", "A100-80GB-SXM": "dgx-a100", "A100-SXM": "dgx-a100", "A100-40GB-SXM": "dgx-a100-40gb",
           "H100-80GB-SXM": "dgx-h100", "H200-141GB-SXM": "dgx-h200", "B200-180GB-SXM": "dgx-b200"}
SEEN = {"issued": "issued.topo", "lists": "listed.topo"}  # machines as such programs see them
NEEDED = ["layers", "hidden", "heads", "seq", "n_gpus", "tp", "pp", "dp", "cp", "microbatch", "global_batch", "seconds"]


HEAD = """# Published training runs against predictions

Made by `bench/accuracy.py` of `bench/published/training.csv`: what a source says a step took against what
`apc plan --assume-kernels` says of the same layout, every degree forced. Errors are predicted / published - 1. No
constant was fitted to these rows but to those that the table counts. `bench/published/README.md` says what programs of
which years had. Not counted: products in fp8, which the rows that are not judged had.
"""


def model_of(row):
    """The example and its parameters; None: no example is this model."""
    sizes = {"layers": row["layers"], "d": row["hidden"], "heads": row["heads"], "vocab": row["vocab"] or "50304"}
    if row["ffn"]: sizes["ffn"] = row["ffn"]
    name = row["model"].lower()
    if "proxy" in name and "deepseek" in name: return None
    if name.startswith("gpt") and row["kernels"] in ("scores", *SEEN):
        dropout = {"dropout_p": "0.1"} if row["recompute"] == "selective" else {"dropout_p": "0"}
        return "bench/published/gpt_scores.apc", sizes | {"ctx": row["seq"]} | dropout
    if name.startswith("gpt"): return "examples/gpt.apc", sizes | {"ctx": row["seq"]}
    if not name.startswith("llama"): return None
    grouped = "70b" in name or "405b" in name or name.startswith("llama3")
    return "examples/llama.apc", sizes | {"kv_heads": "8" if grouped else row["heads"]}


def why_not(row):
    """What keeps a row out of the table; None: nothing does."""
    missing = [k for k in NEEDED if not row[k]]
    if missing: return "not stated: " + ", ".join(missing)
    if row["gpu"] not in TARGETS: return "no target: " + row["gpu"]
    if row["kernels"] == "eager": return "every operation was a kernel of its own (PyTorch without a compiler)"
    if not model_of(row): return "no example of this model: " + row["model"]
    ranks = int(row["tp"]) * int(row["pp"]) * int(row["dp"]) * int(row["cp"])
    if ranks != int(row["n_gpus"]): return f"tp x pp x dp x cp is {ranks}, of {row['n_gpus']} GPUs"
    if int(row["global_batch"]) % (int(row["dp"]) * int(row["microbatch"])): return "the batch is not cut evenly"
    return None


def target_of(row):
    return ROOT / "bench/published" / SEEN[row["kernels"]] if row["kernels"] in SEEN else TARGETS[row["gpu"]]


def command(apc, row):
    example, sizes = model_of(row)
    micro = int(row["global_batch"]) // (int(row["dp"]) * int(row["microbatch"]))
    schedule = f"interleaved:{row['vpp']}" if int(row["pp"]) > 1 and int(row["vpp"] or 1) > 1 else "1f1b"
    dtype = {"fp32": "f32", "tf32": "tf32", "fp16": "f16", "fp16-mixed": "f16"}.get(row["precision"], "bf16")
    args = [apc, "plan", ROOT / example, "-q", "--json", "--assume-kernels", "--train", "cross_entropy", "--optimizer", "adamw",
            "--target", f"{target_of(row)}x{row['n_gpus']}", "--dtype", dtype, "--dim", f"seq={row['seq']}",
            "--batch", row["global_batch"], "--micro-batches", str(micro), "--zero", row["zero"] if int(row["dp"]) > 1 else "0",
            "--recompute", row["recompute"], "--memory", "1000GiB"]
    for name, value in sizes.items(): args += ["-D", f"{name}={value}"]
    for name in ("tp", "pp", "dp", "cp"): args += ["--" + name, row[name]]
    return args + (["--schedule", schedule] if int(row["pp"]) > 1 else [])


def predict(apc, row):
    """(seconds, bytes, None) or (None, None, the error)."""
    done = subprocess.run(command(apc, row), capture_output=True, text=True)
    if done.returncode:
        return None, None, next((x for x in done.stderr.splitlines() if "error" in x), f"apc ended with {done.returncode}")
    said = json.loads(done.stdout)
    return said["time_us"] / 1e6, said["bytes_per_device"], None


def line(cells): print("| " + " | ".join(str(x) for x in cells) + " |")


def percent(x): return f"{100 * x:+.1f} %"


def tell(rows):
    """The tables; rows are (row, predicted)."""
    sources = {}
    for row, seconds in rows: sources.setdefault(row["source"], []).append((row, seconds / float(row["seconds"]) - 1))
    line(["source", "rows", "used to fit", "mean error", "bias", "worst", "set once"]), line(["---"] * 7)
    means, biases = [], []
    for source, errors in sources.items():
        judged = [e for row, e in errors if row["precision"] != "fp8"]
        told = judged or [e for _, e in errors]
        if judged: means.append(statistics.mean(map(abs, told))), biases.append(statistics.mean(told))
        line([source.replace("docs/", "") + ("" if judged else " (fp8, not judged)"), len(told), sum(row["use"] == "fit" for row, _ in errors) or "none",
              f"{100 * statistics.mean(map(abs, told)):.1f} %", percent(statistics.mean(told)), percent(max(told, key=abs)),
              errors[0][0]["assumed"]])
    if means:
        print(f"\nMean of the sources' means {100 * statistics.mean(means):.1f} %,",
              f"of their biases {percent(statistics.mean(biases))}.\n")
    print("## Rows\n")
    line(["row", "GPUs", "published, s", "predicted, s", "error"]), line(["---"] * 5)
    for row, seconds in rows:
        line([row["id"], row["n_gpus"], row["seconds"], f"{seconds:.4g}", percent(seconds / float(row["seconds"]) - 1)])


def main():
    apc = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/apc"
    with open(os.environ.get("RUNS", ROOT / "bench/published/training.csv"), newline="") as f: rows = list(csv.DictReader(f))
    if len(sys.argv) > 2: rows = [x for x in rows if x["id"].startswith(tuple(sys.argv[2:]))]
    kept, left = [], {}
    for row in rows:
        reason = why_not(row)
        kept.append(row) if not reason else left.setdefault(reason, []).append(row["id"])
    with ThreadPoolExecutor(os.cpu_count()) as pool: said = list(pool.map(lambda row: predict(apc, row), kept))
    for row, (_, _, error) in zip(kept, said):
        if error: left.setdefault(error, []).append(row["id"])
    print(HEAD)
    tell([(row, seconds) for row, (seconds, _, error) in zip(kept, said) if not error])
    if not left: return
    print("\n## Left out\n")
    line(["rows", "why", "the first of them"]), line(["---"] * 3)
    for reason, names in left.items(): line([len(names), reason, names[0]])


main()
