"""Implements bench/models.sh, which describes it."""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import numpy as np
except ImportError:
    sys.exit(f"models.sh: {sys.executable} has no numpy: set PYTHON to one with numpy and onnxruntime")

SETTINGS = {"BUILD": "build", "CORES": "0,1", "ROUNDS": "5", "SECONDS_EACH": "4", "MOST": "50", "RTOL": "1e-4",
            "CHECK": "1", "FORCE": "0", "TORCH": "0"}
NUMBERS = {"ROUNDS": int, "SECONDS_EACH": float, "MOST": int, "RTOL": float}
LOAD_MOST, WAIT_MOST = 0.5, 90  # load of a minute, and cores in use by others; seconds to wait
SIDES = ["ort2", "1x2", "2x1", "ort1", "1x1"]  # in this order in each round
TIMES = ["model", "ONNX Runtime, 2 threads", "1 rank, 2 threads", "2 ranks, 1 thread each", "ONNX Runtime, one core",
         "1 rank, one core", "ratio, 1 rank", "ratio, 2 ranks", "ratio, one core", "second core: ONNX Runtime",
         "second core: 1 rank", "second core: 2 ranks", "others, cores"]
REST = ["model", "memory: ONNX Runtime, 1, 2 ranks", "compiling 1, 2 ranks", "first answer: ONNX Runtime, 1, 2 ranks",
        "1 rank reads, GB/s", "of the bandwidth", "and writes outputs, together GB/s", "of the bandwidth"]
MEANS = {"one rank": 6, "two ranks": 7, "one core": 8, "second core, ONNX Runtime": 9, "second core, one rank": 10,
         "second core, two ranks": 11}  # columns of TIMES


def stop(text):
    sys.exit("models.sh: " + text)


def settings():
    values = {k: os.environ.get(k, v) for k, v in SETTINGS.items()}
    for name, kind in NUMBERS.items():
        try:
            values[name] = kind(values[name])
        except ValueError:
            stop(f"{name}={values[name]}: a number is wanted")
        if values[name] <= 0:
            stop(f"{name}={values[name]}: a number above 0 is wanted")
    return values


def cores_in(text):
    """The cores of a list as taskset takes it: 0,1 or 0-1."""
    found = re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text)
    if not found:
        stop(f"CORES={text}: must be two cores, such as 0,1")
    cores = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cores += [c for c in range(int(first), int(last or first) + 1) if c not in cores]
    if len(cores) != 2:
        stop(f"CORES={text}: two cores are needed, as 0,1: every side is measured on two and on the first of them")
    allowed = os.sched_getaffinity(0)
    for core in cores:
        if core not in allowed:
            stop(f"CORES={text}: this process may not use core {core}, only {', '.join(map(str, sorted(allowed)))}")
    return cores


# ---- other load

def ticks():
    """Processor time by process, in seconds."""
    out = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
            out[int(entry.name)] = (name, int(rest[1]), (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK"))
    return out


def others(before, after):
    """(cores used, name, process) of processes outside this process tree, the busiest first."""
    ours, grown = {os.getpid()}, True
    while grown:
        more = {p for p, (_, parent, _) in after.items() if parent in ours} - ours
        ours |= more
        grown = bool(more)
    return sorted(((used - before[p][2] if p in before else used, name, p)
                   for p, (name, _, used) in after.items() if p not in ours), reverse=True)


def machine_busy():
    """Busy seconds of all processors since boot."""
    numbers = [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")


def used_by_others(seconds):
    """Cores used by others, and the busiest of them as text."""
    before, busy, start = ticks(), machine_busy(), time.monotonic()
    time.sleep(seconds)
    span = time.monotonic() - start
    busiest = [(used / span, name, pid) for used, name, pid in others(before, ticks())[:4] if used / span >= 0.01]
    return (machine_busy() - busy) / span, ", ".join(f"{n} ({p}) {used:.2f}" for used, n, p in busiest) or "none"


def look_around(force):
    """Prints the load; stops if others use the cores.  Waits if only the load, a one-minute average, is high, as after a
    previous run."""
    used, who = used_by_others(2)
    load, waited = os.getloadavg()[0], 0
    print(f"load {load:.2f}; cores in use now {used:.2f}, the busiest others: {who}", flush=True)
    if force:
        return
    if used <= LOAD_MOST < load:
        print(f"no other process is busy now: waiting up to {WAIT_MOST} s for the load to fall to {LOAD_MOST}", flush=True)
        while waited < WAIT_MOST and max(used, load) > LOAD_MOST:
            used, who = used_by_others(2)
            load, waited = os.getloadavg()[0], waited + 2
        print(f"load {load:.2f} after {waited} s", flush=True)
    if used > LOAD_MOST:
        stop(f"others use {used:.2f} cores now ({who}): wait, or FORCE=1")
    if load > LOAD_MOST:
        stop(f"the load is {load:.2f}, above {LOAD_MOST}: wait, or FORCE=1")


# ---- running the sides

class Bench:
    def __init__(self, values, cores):
        self.values, self.build = values, values["BUILD"]
        self.both, self.one = ",".join(map(str, cores)), str(cores[0])
        self.bandwidth = self.peak(2)

    def pin(self, side):
        return ["taskset", "-c", self.one if side in ("ort1", "1x1") else self.both]

    def peak(self, threads):
        """Bytes per second that the threads read from memory; prints the measurement."""
        program = f"{self.build}/bench/bench_peak"
        if not os.access(program, os.X_OK):
            stop(f"there is no {program}: build all, or set BUILD")
        text = run(["taskset", "-c", self.both, program, str(threads)])
        print("this machine, " + text.strip())
        return float(re.search(r"([\d.]+) GB/s", text)[1]) * 1e9

    def command(self, case, side, runs, outputs=None):
        warmup = ["--warmup", str(min(3, runs))]
        if side == "torch2":
            return self.pin(side) + [sys.executable, "bench/real_models.py", "--time", Path(case["model"]).stem,
                                     case["inputs"], "--threads", "2", "--runs", str(runs), *warmup]
        if side.startswith("ort"):
            save = ["--save-outputs", outputs] if outputs else []
            return self.pin(side) + [sys.executable, "bench/gpt_reference.py", case["model"], "--threads", side[-1],
                                     "--runs", str(runs), *warmup, "--inputs", case["inputs"], *save]
        how = ["--outputs", outputs] if outputs else [f"--bench={runs}", *warmup]
        return self.pin(side) + [program_of(case, side), "--inputs", case["inputs"], *how]


def program_of(case, side):
    return case["2" if side == "2x1" else "1"]


def run(words):
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "GOMP_SPINCOUNT")}
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
    except OSError as error:
        stop(f"{words[0]}: {error.strerror}")
    if done.returncode:
        stop(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def median_of(bench, case, side, runs):
    text = run(bench.command(case, side, runs))
    found = re.search(r"median ([\d.]+) ms", text) or re.search(r"^([\d.]+) [\d.]+ [\d.]+ [\d.]+$", text, re.M)
    if not found:
        stop(f"{side} printed no median: {text[-300:]}")
    return max(float(found[1]), 1e-3)


def first_answer(bench, case, side):
    """Seconds."""
    if side.startswith("ort"):
        return float(run(bench.command(case, side, 0)).split()[3]) / 1e3
    words = bench.pin(side) + [program_of(case, side), "--inputs", case["inputs"]]
    begin = time.monotonic()
    run(words)
    return time.monotonic() - begin


def tree_pss(root):
    """Memory of a process and its descendants, in MiB; shared pages count once."""
    parents = {}
    for p, (_, parent, _) in ticks().items():
        parents.setdefault(parent, []).append(p)
    todo, total = [root], 0
    while todo:
        p = todo.pop()
        todo += parents.get(p, [])
        try:
            total += int(re.search(r"^Pss: +(\d+)", Path(f"/proc/{p}/smaps_rollup").read_text(), re.M)[1])
        except (OSError, TypeError):
            pass
    return total / 1024


def peak_memory(bench, case, side):
    words = bench.command(case, side, 2)
    process, peak = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), 0
    while process.poll() is None:
        peak = max(peak, tree_pss(process.pid))
        time.sleep(0.02)
    if process.returncode:
        stop(f"{' '.join(words)}: exit {process.returncode}")
    return peak


def bytes_read(bench, case):
    """Bytes that a run of one rank reads: its inputs, and the tensors of its products and convolutions."""
    words = bench.pin("1x2") + [case["1"], "--inputs", case["inputs"], "--bench=1", "--warmup", "0", "--profile=json"]
    text = run(words)
    profile = json.loads(text[text.index("{"):text.rindex("}") + 1])
    products = sum(o["bytes"] for o in profile["ranks"][0]["operations"] if o["flops"] is not None)
    return products / profile["runs"] + Path(case["inputs"]).stat().st_size


def bytes_written(bench, case, folder):
    """Bytes of the outputs of a run."""
    file = f"{folder}/written.npz"
    run(bench.command(case, "1x2", 0, file))
    size = Path(file).stat().st_size
    os.unlink(file)
    return size


# ---- a case

def shape_in(archive, name):
    """The shape of an array, without reading its values."""
    with archive.zip.open(name + ".npy") as f:
        version = np.lib.format.read_magic(f)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return read(f)[0]


def hints(bench, model, inputs):
    """Options with the sizes of this case to plan for, for symbolic dimensions of the model."""
    d = json.loads(run([f"{bench.build}/apc", "-q", "inspect", model, "--json"]))
    given, sizes = np.load(inputs), {}
    for x in d["entries"][0]["inputs"]:
        if x["name"] not in given.files:
            stop(f"{inputs} has no input {x['name']}")
        shape = shape_in(given, x["name"])
        sizes.update({name: n for name, n in zip(x["shape"], shape) if isinstance(name, str) and name.isidentifier()})
    return [w for name, n in sizes.items() for w in ("--dim-hint", f"{name}={n}")]


def compile_case(bench, case, folder):
    took = []
    for ranks, target in (("1", "cpu"), ("2", "cpux2")):
        begin = time.monotonic()
        case[ranks] = f"{folder}/{ranks}"
        run([f"{bench.build}/apc", "-q", case["model"], "--target", target,
             *hints(bench, case["model"], case["inputs"]), "-o", case[ranks]])
        took.append(time.monotonic() - begin)
    return took


def distance(want, got):
    if want.shape != got.shape:
        stop(f"an output has the shape {got.shape}, not {want.shape}")
    want, got = want.astype("f4"), got.astype("f4")
    return np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30)


def compare(bench, case, folder):
    want_file, got_file, most = f"{folder}/want.npz", f"{folder}/got.npz", bench.values["RTOL"]
    run(bench.command(case, "ort2", 0, want_file))
    for side in ("1x2", "2x1"):
        run(bench.command(case, side, 0, got_file))
        want, got = np.load(want_file), np.load(got_file)
        for key in want.files:
            far = distance(want[key], got[key]) if key in got.files else float("nan")
            if not far <= most:
                stop(f"{case['name']}: output {key} of {side} differs: relative L2 {far:.2e}, allowed {most}")
        os.unlink(got_file)
    os.unlink(want_file)


def measure(bench, case, folder):
    """The two rows of tables, and the numbers of the first."""
    compiling = compile_case(bench, case, folder)
    if bench.values["CHECK"] != "0":
        compare(bench, case, folder)
    sides = SIDES + (["torch2"] if case["torch"] else [])
    one = {s: median_of(bench, case, s, 2) for s in sides}
    runs = {s: int(min(max(bench.values["SECONDS_EACH"] * 1e3 / one[s], 3), bench.values["MOST"])) for s in sides}
    rounds, busy, own, start = {s: [] for s in sides}, machine_busy(), os.times(), time.monotonic()
    for _ in range(bench.values["ROUNDS"]):
        for s in sides:
            rounds[s].append(median_of(bench, case, s, runs[s]))
    now = os.times()
    foreign = max(0.0, (machine_busy() - busy - sum(now[:4]) + sum(own[:4])) / (time.monotonic() - start))
    ms = {s: statistics.median(rounds[s]) for s in sides}
    first = {s: statistics.median(first_answer(bench, case, s) for _ in range(3)) for s in SIDES[:3]}
    peak = {s: peak_memory(bench, case, s) for s in SIDES[:3]}
    reads = bytes_read(bench, case) / (ms["1x2"] * 1e-3)
    moves = reads + bytes_written(bench, case, folder) / (ms["1x2"] * 1e-3)
    times = [case["name"], *(ms[s] for s in SIDES), ms["ort2"] / ms["1x2"], ms["ort2"] / ms["2x1"],
             ms["ort1"] / ms["1x1"], ms["ort1"] / ms["ort2"], ms["1x1"] / ms["1x2"], ms["1x1"] / ms["2x1"], foreign]
    rest = [case["name"], ", ".join(f"{peak[s]:.0f}" for s in peak), ", ".join(f"{s:.1f}" for s in compiling),
            ", ".join(f"{first[s]:.2f}" for s in first), f"{reads * 1e-9:.1f}",
            f"{100 * reads / bench.bandwidth:.0f} %", f"{moves * 1e-9:.1f}", f"{100 * moves / bench.bandwidth:.0f} %"]
    if bench.values["TORCH"] == "1":
        rest += [f"{ms['torch2']:.2f}", f"{ms['torch2'] / ms['1x2']:.2f}"] if case["torch"] else ["-", "-"]
    return times, rest


# ---- all cases

def cases_of(folder, names, torch):
    found = []
    for path in sorted(folder.glob("*.inputs.npz")):
        label = path.name[:-len(".inputs.npz")]
        name = label if (folder / f"{label}.onnx").exists() else label.rpartition(".")[0]
        model = folder / f"{name}.onnx"
        if model.exists() and (not names or label in names or name in names):
            found.append({"name": label, "model": str(model), "inputs": str(path), "torch": name in torch})
    missing = [n for n in names if not any(c["name"] == n or Path(c["model"]).stem == n for c in found)]
    if missing or not found:
        stop(f"{folder} has no model with inputs called {', '.join(missing) or 'anything'}")
    return found


def torch_models(wanted):
    if not wanted:
        return []
    try:
        import real_models
    except ImportError as error:
        stop(f"TORCH=1: {error}")
    return list(real_models.MODELS)


def row(cells):
    print("| " + " | ".join(c if isinstance(c, str) else f"{c:.2f}" for c in cells) + " |", flush=True)


def head(titles):
    row(titles)
    print("|" + " --- |" * len(titles), flush=True)


def show_means(results):
    print()
    for title, column in MEANS.items():
        values = [times[column] for times, _ in results]
        print(f"{title}: geometric mean {statistics.geometric_mean(values):.3f}, least {min(values):.3f}")


def main():
    if len(sys.argv) < 2:
        print("usage: bench/models.sh FOLDER [NAME[.CASE]...]", file=sys.stderr)
        sys.exit(2)
    values = settings()
    cores = cores_in(values["CORES"])
    todo = cases_of(Path(sys.argv[1]), sys.argv[2:], torch_models(values["TORCH"] == "1"))
    look_around(values["FORCE"] == "1")
    bench, results = Bench(values, cores), []
    print("\nTimes in ms; ratios: ONNX Runtime's time over that of apc.\n")
    head(TIMES)
    try:
        for case in todo:
            with tempfile.TemporaryDirectory() as folder:
                results.append(measure(bench, case, folder))
            row(results[-1][0])
    finally:  # print partial results also after an error
        if results:
            show_means(results)
            print("\nMemory in MiB, compiling and first answer in s.\n")
            head(REST + ["PyTorch, 2 threads, ms", "ratio to PyTorch"] * (values["TORCH"] == "1"))
            for _, rest in results:
                row(rest)


try:
    main()
except KeyboardInterrupt:
    sys.exit(130)
