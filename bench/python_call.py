#!/usr/bin/env python3
"""bench/python_call.py [BUILD] - the time of a Python call of a compiled model over the same calls in C.

A tiny model on one CPU rank.  The C side is bench_c_call below: bind, run, read, compiled with the system's compiler.
Both sides run in alternation; printed are the medians of a call, and their difference.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
os.environ["APC_HOME"] = str(build)
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402

import apc  # noqa: E402

C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "apc_runtime.h"
static int order(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }
int main(int argc, char **argv) {
  ApcModel *m;
  static float x[8 * 16], y[8 * 16];
  static double t[3000];
  if (argc < 2 || apc_load(argv[1], NULL, &m)) return 1;
  for (int i = -500; i < 3000; i++) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    if (apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){8, 16}, x) || apc_run(m, "main") ||
        apc_read_output(m, "y", y, sizeof y)) return 1;
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (i >= 0) t[i] = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) * 1e-3;
  }
  qsort(t, 3000, sizeof *t, order);
  printf("%.3f\n", t[1500]);
  apc_close(m);
}
"""


def python_call(m, x, out):
    times = []
    for i in range(3500):
        start = time.perf_counter()
        m(x, out=out)
        if i >= 500:
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


with tempfile.TemporaryDirectory() as work, \
        apc.compile(ROOT / "examples/mlp.apc", "cpu", defines={"d": 16, "layers": 1}) as model:
    source = Path(work) / "call.c"
    source.write_text(C)
    subprocess.run(["cc", "-O2", "-I", ROOT / "runtime", source, "-o", f"{work}/call", build / "libapcrt.so",
                    f"-Wl,-rpath,{build}"], check=True)
    a, b = np.zeros((8, 16), np.float32), np.empty((8, 16), np.float32)
    rows = []
    for _ in range(5):
        c = float(subprocess.run([f"{work}/call", model.path], stdout=subprocess.PIPE, text=True, check=True).stdout)
        p = python_call(model, a, b)
        rows.append((c, p, p - c))
        print(f"C {c:7.1f} us   Python {p:7.1f} us   difference {p - c:6.1f} us")
    print(f"median difference {statistics.median(r[2] for r in rows):.1f} us")
