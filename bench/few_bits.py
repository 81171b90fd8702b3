#!/usr/bin/env python3
"""bench/few_bits.py - tokens of a decoder with weights in 32, 8 and 4 bits (--weights-dtype), and the speed of copying.

usage: few_bits.py APC [--rounds N] [--form FORM]... [-- OPTIONS OF THE MODEL]

Compiles examples/llama.apc with a cache, batch 1, in f32 and in each FORM (int8, int4, int4:128), and runs the entry
decode of all programs alternately for N rounds (5), 40 tokens each, with one thread.  Prints per program the bytes of
the weights of products, the least and the median time of a token, the ratios of both to f32, the bytes per second of
the least time, and the largest resident memory beside the prediction of apc plan.  Beside them stands the rate of
memcpy of 256 MiB (bytes read) in the same rounds.  On a machine with other load, compare least times.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
SIZES = ["-D", "layers=8", "-D", "d=1024", "-D", "heads=16", "-D", "ffn=2816", "-D", "ctx=256"]


def milliseconds(program):
    """The least and the median time of a token, and the largest resident memory in bytes."""
    job = subprocess.Popen([program, "--entry", "decode", "--bench=40", "--thread-count", "1"], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = job.stdout.read()
    _, status, usage = os.wait4(job.pid, 0)
    assert status == 0, text
    least, median = (float(re.search(rf"{word} ([0-9.]+) ms", text).group(1)) for word in ("min", "median"))
    return least, median, usage.ru_maxrss * 1024


COPY = """
import ctypes, time
n = 256 << 20
source, to = ctypes.create_string_buffer(n), ctypes.create_string_buffer(n)
best = 1e9
for _ in range(4):
    begin = time.perf_counter()
    ctypes.memmove(to, source, n)
    best = min(best, time.perf_counter() - begin)
print(n / best)
"""


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("apc")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--form", action="append")
    given = sys.argv[1:]
    own = given[:given.index("--")] if "--" in given else given
    a = arguments.parse_args(own)
    a.model = given[len(own) + 1:]
    apc, model = str(pathlib.Path(a.apc).resolve()), [str(SOURCE / "examples/llama.apc"), *(a.model or SIZES),
                                                      "-D", "cache=1", "--dim", "batch=1", "--dim-hint", "seq=8"]
    forms = ["f32", *(a.form or ["int8", "int4", "int4:128"])]
    with tempfile.TemporaryDirectory() as folder:
        programs, weights, predicted = {}, {}, {}
        for form in forms:
            option = [] if form == "f32" else ["--weights-dtype", form]
            programs[form] = os.path.join(folder, form.replace(":", "-"))
            subprocess.run([apc, *model, *option, "-q", "-o", programs[form]], check=True)
            plan = json.loads(subprocess.run([apc, "plan", *model, *option, "-q", "--json"], check=True,
                                             stdout=subprocess.PIPE).stdout)
            predicted[form] = plan["bytes_per_device"]
            weights[form] = plan["memory_bytes"]["params"]
        table = int(next(s.split("=")[1] for s in reversed(["vocab=32000", *model]) if s.startswith("vocab=")))
        width = int(next(s.split("=")[1] for s in reversed(["d=4096", *model]) if s.startswith("d=")))
        times, memory, copies = {f: [] for f in forms}, {}, []
        for _ in range(a.rounds):
            copied = subprocess.run([sys.executable, "-c", COPY], check=True, stdout=subprocess.PIPE)
            copies.append(float(copied.stdout))
            for form in forms:
                least, middle, memory[form] = milliseconds(programs[form])
                times[form].append((least / 1e3, middle / 1e3))
        print(f"copying {max(copies) / 1e9:.1f} GB/s (median {statistics.median(copies) / 1e9:.1f})")
        for form in forms:
            least, middle = min(x[0] for x in times[form]), statistics.median(x[1] for x in times[form])
            if form == "f32":
                whole, half = least, middle
            read = weights[form] - 4 * table * width  # the table of tokens is only looked up
            print(f"{form:9} {read / 1e6:7.1f} MB of products  "
                  f"least {least * 1e3:6.2f} ms, median {middle * 1e3:6.2f} ms  "
                  f"{whole / least:4.2f}, {half / middle:4.2f} times f32  "
                  f"{read / least / 1e9:5.1f} GB/s, {read / least / max(copies):4.2f} of copying  "
                  f"memory {memory[form] / 2**20:.0f} MiB, predicted {predicted[form] / 2**20:.0f}")


if __name__ == "__main__":
    main()
