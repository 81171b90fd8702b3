#!/usr/bin/env python3
"""bench/accuracy.py [APC] [ROW...] - published measurements against what the cost model and the planner say of them.

In: bench/published/*.csv, one published measurement a row (README.md there; RUNS=FILE: another file of training runs);
APC, build/apc without it, with bench/bench_cost_model beside it; beginnings of names of rows, all without them.  Out:
docs/accuracy.md.

Products and collectives are those of bench_cost_model.  Every other row is one or two runs of `apc plan
--assume-kernels` of a model with every degree forced.  What a source does not say is set once for all its rows, and
said in the column `assumed`.  The error of a row is predicted / published - 1; a source's is the mean of its rows'
absolute errors, and the whole is the mean of the sources', so that a long table counts as one.  Training in fp8 is told
apart and not judged.
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


LAYERS = (3, 6)  # layers of two plans; their difference is three of them
STEP = ["--train", "cross_entropy", "--optimizer", "adamw"]
AIMS = {"Products": 8, "Collectives": 15, "Inference": 12}

HEAD = """# Published measurements against predictions

Made by `bench/accuracy.py` of `bench/published`, whose `README.md` says where rows come from and what programs of which
years had. Errors are predicted / published - 1. Rows that were *fit* were looked at when a constant was chosen; all
others only check. Each mean is of absolute errors. The mean of sources' means counts a long table once; in this table
it is of rows that check, in the section of training steps of all rows.
"""
PRODUCTS = """## Products

What `build/bench/bench_cost_model` says of single products. Those of `microsoft/SuperScaler` and `eth-easl/sailor` were
timed by the host: none takes less than 208 us, which is fit to the first and checked by the second. Those of
`EleutherAI/cookbook` are timed around the call of PyTorch: none takes less than the 36 us that vTrain's training runs
have for a kernel. The rows of `stas00/ml-engineering` are the best of thousands of shapes; four of the six count as
fit, since `targets/nvidia-gpus.topo` names them.
"""
COLLECTIVES = """## Collectives

The same of NCCL's collectives. Farthest off are 1,440 ranks in 20 racks, since the target does not say what joins more
than two racks, and pairs of the DGX-1, of which some have one link and some two.
"""
LAYER = """## Layers

One layer of tensor-parallel training: a third of the difference between plans of six and of three layers, without the
optimizer. No constant was set for them. Dropout counts where attention is recomputed, as for training steps.
"""
STEPS = """## Training steps

What a source says a step took against what `apc plan --assume-kernels` says of the same layout. No constant was fitted
to these rows but to those that the table counts. Not counted: products in fp8, which the rows that are not judged had.
"""
INFERENCE = """## Inference

Latency is one pass over the prompt and one for each further token, with a cache of keys and values; of T5 it is the
encoder and one pass of the decoder for each token. What FasterTransformer's host takes to issue a kernel was set once,
by two rows; without it these two are 29 and 26 % too fast, and the others are as they are here.
"""
MEMORY = """## Memory

Bytes that a rank of our program allocates at its peak, against what PyTorch had allocated, of the training runs whose
source says that. Nothing was fitted. Weights, gradients and moments are the same. What our forward pass keeps for the
backward pass, and what kernels hand to each other, take more than that program's, most of all with 131,072 tokens.
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
    args = [apc, "plan", ROOT / example, "-q", "--json", "--assume-kernels", *STEP, "--dtype", dtype,
            "--target", f"{target_of(row)}x{row['n_gpus']}", "--dim", f"seq={row['seq']}",
            "--batch", row["global_batch"], "--micro-batches", str(micro),
            "--zero", row["zero"] if int(row["dp"]) > 1 else "0", "--recompute", row["recompute"],
            "--memory", "1000GiB"]
    for name, value in sizes.items(): args += ["-D", f"{name}={value}"]
    for name in ("tp", "pp", "dp", "cp"): args += ["--" + name, row[name]]
    return args + (["--schedule", schedule] if int(row["pp"]) > 1 else [])


def plan(args):
    """What apc plan says, in JSON; or the error, a text."""
    done = subprocess.run(args, capture_output=True, text=True)
    if not done.returncode: return json.loads(done.stdout)
    return next((x for x in done.stderr.splitlines() if "error" in x), f"apc ended with {done.returncode}")


def forced(apc, model, target, row, pp, sizes):
    args = [apc, "plan", ROOT / model, "-q", "--json", "--assume-kernels", "--target", target, "--dtype", "f16"]
    args += ["--memory", "1000GiB", "--tp", row["tp"], "--pp", pp, "--dp", "1"]
    for name, value in sizes.items(): args += ["-D", f"{name}={value}"]
    return args


def layer_seconds(apc, row):
    """Of one layer: (seconds, None) or (None, the error)."""
    sizes = {"d": row["hidden"], "heads": row["heads"], "ffn": row["ffn"], "vocab": row["vocab"], "ctx": row["seq"]}
    sizes["dropout_p"] = "0.1" if row["recompute"] == "selective" else "0"
    seconds = []
    for layers in LAYERS:
        args = forced(apc, "bench/published/gpt_scores.apc", f"{TARGETS[row['gpu']]}x{row['tp']}", row, "1",
                      sizes | {"layers": layers}) + ["--dim", f"seq={row['seq']}"]
        if row["pass"] == "forward": args += ["--dim", f"batch={row['microbatch']}"]
        else: args += [*STEP, "--zero", "0", "--recompute", row["recompute"], "--batch", row["microbatch"],
                       "--micro-batches", "1"]
        said = plan(args)
        if isinstance(said, str): return None, said
        seconds.append((said["time_us"] - said["breakdown_us"]["optimizer"]) / 1e6)
    return (seconds[1] - seconds[0]) / (LAYERS[1] - LAYERS[0]), None


def latency_seconds(apc, row):
    """Of a prompt and all tokens that are written: (seconds, None) or (None, the error)."""
    t5 = "T5" in row["model"]
    sizes = {"layers": row["layers"], "d": row["hidden"]} | {x: row[x] for x in ("heads", "ffn", "vocab")}
    sizes["ctx"] = int(row["prompt"]) + int(row["written"])
    seconds, model = 0, "bench/published/" + ("t5_cached.apc" if t5 else "gpt_cached.apc")
    target = ROOT / f"bench/published/driven.topox{row['n_gpus']}"
    for first in (1, 0):
        length, times = (row["prompt"], 1) if first else (1, int(row["written"]) - (not t5))
        said = plan(forced(apc, model, target, row, row["pp"], sizes | ({"prompt": first} if t5 else {})) +
                    ["--dim", f"batch={row['batch']}", "--dim", f"seq={length}"])
        if isinstance(said, str): return None, said
        seconds += times * said["time_us"] / 1e6
    return seconds, None


def unlike(row):
    """What keeps a layer or a run of inference out; None: nothing does."""
    if row.get("sequence_parallel") == "1": return "sequence parallelism, which no option forces"
    if row.get("batch") == "": return f"batch not stated: rates of a saturated server, in {row['precision']}"
    return None


def line(cells): print("| " + " | ".join(str(x) for x in cells) + " |")


def percent(x): return f"{100 * x:+.1f} %"


def sources_of(rows):
    """Rows are (row, error) by their source."""
    sources = {}
    for row, error in rows: sources.setdefault(row["source"], []).append((row, error))
    return sources


def fitted(rows): return sum(row["use"] == "fit" for row, _ in rows) or "none"


def absolute(errors): return 100 * statistics.mean(map(abs, errors))


def tell(rows):
    """The tables of training steps; rows are (row, error)."""
    line(["source", "rows", "used to fit", "mean error", "bias", "worst", "set once"]), line(["---"] * 7)
    means, biases = [], []
    for source, errors in sources_of(rows).items():
        judged = [e for row, e in errors if row["precision"] != "fp8"]
        told = judged or [e for _, e in errors]
        if judged: means.append(absolute(told)), biases.append(statistics.mean(told))
        line([source.replace("docs/", "") + ("" if judged else " (fp8, not judged)"), len(told), fitted(errors),
              f"{absolute(told):.1f} %",
              percent(statistics.mean(told)), percent(max(told, key=abs)), errors[0][0]["assumed"]])
    if means:
        print(f"\nMean of the sources' means {statistics.mean(means):.1f} %,",
              f"of their biases {percent(statistics.mean(biases))}.\n")


def tell_sources(rows, name, title):
    """The table of any other kind of row, one line a source and `name` of its rows."""
    line(["source", title, "rows", "used to fit", "mean error", "bias", "worst"]), line(["---"] * 7)
    groups = {}
    for row, error in rows: groups.setdefault((row["source"].split("@")[0], row[name]), []).append((row, error))
    for (source, what), some in groups.items():
        errors = [e for _, e in some]
        line([source, what, len(some), fitted(some), f"{absolute(errors):.1f} %", percent(statistics.mean(errors)),
              percent(max(errors, key=abs))])
    print()


def tell_rows(rows, what, unit=1):
    line(["row", "GPUs", f"published, {what}", f"predicted, {what}", "error"]), line(["---"] * 5)
    for row, published, predicted in rows:
        line([row["id"], row.get("n_gpus") or row["tp"], published, f"{predicted * unit:.4g}",
              percent(predicted * unit / float(published) - 1)])
    print()


def summary(kinds):
    """One line a kind; kinds are (name, rows of (row, error) that are judged)."""
    line(["", "rows", "of them fit", "mean error of all", "of rows that check", "median", "bias", "worst",
          "mean of sources' means", "aim"]), line(["---"] * 10)
    for name, rows in kinds:
        checks = [(row, e) for row, e in rows if row["use"] != "fit"]
        check = [e for _, e in checks]
        if not check: continue
        means = [absolute([e for _, e in some]) for some in sources_of(checks).values()]
        aim = f"{AIMS[name]} %" if name in AIMS else ""
        line([name, len(rows), fitted(rows), f"{absolute([e for _, e in rows]):.1f} %", f"{absolute(check):.1f} %",
              f"{100 * statistics.median(map(abs, check)):.1f} %", percent(statistics.mean(check)),
              percent(max(check, key=abs)), f"{statistics.mean(means):.1f} %", aim])
    print()


def read(path):
    with open(path, newline="") as f: return list(csv.DictReader(f))


def single(apc):
    """Products and collectives: (row, error) by table."""
    names = ["table", "target", "what", "use", "published", "predicted", "source"]
    done = subprocess.run([Path(apc).parent / "bench/bench_cost_model", "--csv", ROOT / "bench/published"],
                          capture_output=True, text=True, check=True)
    tables = {"Products": [], "Collectives": []}
    for row in csv.DictReader(done.stdout.splitlines(), names):
        row["source"] = row["source"].split("@")[0].split(" ")[0]
        tables[row["table"]].append((row, float(row["predicted"]) / float(row["published"]) - 1))
    return tables


def judge(rows, said, left, published):
    """(row, published, predicted) of rows that could be predicted; the others go to `left`."""
    for row, (_, error) in zip(rows, said):
        if error: left.setdefault(error, []).append(row["id"])
    return [(row, row[published], seconds) for row, (seconds, error) in zip(rows, said) if not error]


def errors_of(rows, unit=1):
    return [(row, predicted * unit / float(published) - 1) for row, published, predicted in rows]


def main():
    apc = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/apc"
    wanted, left = tuple(sys.argv[2:]), {}

    def sift(rows, why):
        kept = []
        for row in rows:
            if wanted and not row["id"].startswith(wanted): continue
            reason = why(row)
            kept.append(row) if not reason else left.setdefault(reason, []).append(row["id"])
        return kept

    runs = sift(read(os.environ.get("RUNS", ROOT / "bench/published/training.csv")), why_not)
    other = "RUNS" not in os.environ
    layers = sift(read(ROOT / "bench/published/layers.csv"), unlike) if other else []
    served = sift(read(ROOT / "bench/published/inference.csv"), unlike) if other else []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda row: plan(command(apc, row)), runs))
        of_layers = list(pool.map(lambda row: layer_seconds(apc, row), layers))
        of_served = list(pool.map(lambda row: latency_seconds(apc, row), served))
    layers = judge(layers, of_layers, left, "ms")
    served = judge(served, of_served, left, "latency_ms")
    of_steps = [(None, x) if isinstance(x, str) else (x["time_us"] / 1e6, None) for x in said]
    steps = judge(runs, of_steps, left, "seconds")
    held = [(row, row["gib"], x["bytes_per_device"] / 2**30) for row, x in zip(runs, said)
            if row.get("gib") and not isinstance(x, str)]
    tables = single(apc) if other and not wanted else {}
    print(HEAD)
    summary([*tables.items(), ("Layers", errors_of(layers, 1e3)),
             ("Training steps", [x for x in errors_of(steps) if x[0]["precision"] != "fp8"]),
             ("Inference", errors_of(served, 1e3)), ("Memory", errors_of(held))])
    for name, text in ("Products", PRODUCTS), ("Collectives", COLLECTIVES):
        if name in tables: print(text), tell_sources(tables[name], "target", "target")
    if layers:
        print(LAYER), tell_sources(errors_of(layers, 1e3), "pass", "pass"), tell_rows(layers, "ms", 1e3)
    if steps: print(STEPS), tell(errors_of(steps))
    if served:
        print(INFERENCE), tell_sources(errors_of(served, 1e3), "assumed", "set once"), tell_rows(served, "ms", 1e3)
    if held: print(MEMORY), tell_sources(errors_of(held), "gpu", "GPU"), tell_rows(held, "GiB")
    if steps: print("## Rows of training steps\n"), tell_rows(steps, "s")
    if not left: return
    print("## Left out\n")
    line(["rows", "why", "the first of them"]), line(["---"] * 3)
    for reason, names in left.items(): line([len(names), reason, names[0]])


main()
