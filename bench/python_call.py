#!/usr/bin/env python3
"""bench/python_call.py [BUILD] - the time of a Python call of a compiled model over the same calls in C.

A tiny model on one CPU rank.  The C side is bench_c_call below: bind, run, read, compiled with the system's compiler.
Both sides run in alternation; printed are, for each side, the least time of a call, which a busy machine disturbs
least, and the processor time of a call in the calling process; and their differences.
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
#include <time.h>
#include "apc_runtime.h"
int main(int argc, char **argv) {
  ApcModel *m;
  static float x[8 * 16], y[8 * 16];
  if (argc < 2 || apc_load(argv[1], NULL, &m)) return 1;
  double least = 1e9;
  struct timespec a, b, begin, end;
  for (int i = -500; i < 3000; i++) {
    if (i == 0) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    clock_gettime(CLOCK_MONOTONIC, &a);
    if (apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){8, 16}, x) || apc_run(m, "main") ||
        apc_read_output(m, "y", y, sizeof y)) return 1;
    clock_gettime(CLOCK_MONOTONIC, &b);
    double us = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) * 1e-3;
    if (i >= 0 && us < least) least = us;
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  printf("%.3f %.3f\n", least,
         ((double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) * 1e-3) / 3000);
  apc_close(m);
}
"""


def python_call(m, x, out):
    """The least time of a call, and the processor time of one, in microseconds."""
    least = 1e9
    for i in range(3500):
        if i == 500:
            begin = time.process_time()
        start = time.perf_counter()
        m(x, out=out)
        if i >= 500:
            least = min(least, time.perf_counter() - start)
    return least * 1e6, (time.process_time() - begin) * 1e6 / 3000


with tempfile.TemporaryDirectory() as work, \
        apc.compile(ROOT / "examples/mlp.apc", "cpu", defines={"d": 16, "layers": 1}) as model:
    source = Path(work) / "call.c"
    source.write_text(C)
    subprocess.run(["cc", "-O2", "-I", ROOT / "runtime", source, "-o", f"{work}/call", build / "libapcrt.so",
                    f"-Wl,-rpath,{build}"], check=True)
    a, b = np.zeros((8, 16), np.float32), np.empty((8, 16), np.float32)
    rows = []
    for _ in range(7):
        c = [float(v) for v in subprocess.run([f"{work}/call", model.path], stdout=subprocess.PIPE, text=True,
                                              check=True).stdout.split()]
        p = python_call(model, a, b)
        rows.append((*c, *p))
        print(f"least: C {c[0]:6.1f} us, Python {p[0]:6.1f} us; processor: C {c[1]:6.1f} us, Python {p[1]:6.1f} us")
    c, p = min(r[0] for r in rows), min(r[2] for r in rows)
    print(f"least of all: C {c:.1f} us, Python {p:.1f} us, difference {p - c:.1f} us; processor time, median "
          f"difference {statistics.median(r[3] - r[1] for r in rows):.1f} us")
