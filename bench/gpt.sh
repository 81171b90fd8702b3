#!/usr/bin/env bash
# bench/gpt.sh - a model compiled by apc for one rank against ONNX Runtime, on the same cores.
#
# usage: bench/gpt.sh [MODEL.onnx]
#   BUILD=build  PYTHON=python3 (with onnxruntime, numpy, and onnx if no model is given)
#   CORES=0-N (as for taskset; default all)  ROUNDS=5  RUNS=20  BATCH=1  SEQ=256 (for symbolic dimensions)
#   RTOL=1e-3: largest relative L2 distance of the outputs
# Rounds alternate between the two, so that other load affects both.  Prints per side the least of the rounds' medians
# and the least time, the ratio of each (ONNX Runtime's time / apc's time; above 1 apc is faster), and peak resident
# memory.  Stops if the outputs differ.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build} python=${PYTHON:-python3} rounds=${ROUNDS:-5} runs=${RUNS:-20}
cores=${CORES:-0-$(($(nproc) - 1))} batch=${BATCH:-1} seq=${SEQ:-256}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
model=${1:-$folder/gpt.onnx}
[ $# -gt 0 ] || "$python" bench/gpt_reference.py --make "$model" --seq "$seq"
threads=$(taskset -c "$cores" nproc)

reference() {
  taskset -c "$cores" "$python" bench/gpt_reference.py "$model" --threads "$threads" --runs "$runs" --batch "$batch" \
    --seq "$seq" --save-inputs "$folder/in.npz" --save-outputs "$folder/reference.npz"
}
# The wrapper only reports the peak memory of its children.
ours() {
  taskset -c "$cores" "$python" - "$folder/model" --inputs "$folder/in.npz" --bench="$runs" <<'PY'
import re, resource, subprocess, sys
text = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True)
found = re.search(r"median ([\d.]+) ms.*min ([\d.]+) ms", text.stdout + text.stderr)
print(found[1], found[2], "%.1f" % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024))
PY
}

taskset -c "$cores" "$build/apc" -q "$model" --target cpu -o "$folder/model"
for ((i = 0; i < rounds; i++)); do
  reference >>"$folder/reference.txt"
  [ "$i" -gt 0 ] || "$folder/model" --inputs "$folder/in.npz" --outputs "$folder/out.npz"
  ours >>"$folder/apc.txt"
done
"$python" - "$folder" "$threads" "${RTOL:-1e-3}" <<'PY'
import sys
import numpy as np
folder, threads, rtol = sys.argv[1], sys.argv[2], float(sys.argv[3])
want, got = np.load(folder + "/reference.npz"), np.load(folder + "/out.npz")
for name in want:
    far = np.linalg.norm(got[name].astype("f8") - want[name]) / max(np.linalg.norm(want[name].astype("f8")), 1e-30)
    if not far <= rtol:
        sys.exit(f"gpt.sh: output {name} differs: relative L2 {far:.2e}, allowed {rtol:.0e}")
best = {}
for side in ("reference", "apc"):
    rows = np.loadtxt(f"{folder}/{side}.txt", ndmin=2)
    best[side] = rows[:, 0].min(), rows[:, 1].min()
    print(f"{side:9s} median {best[side][0]:9.3f} ms  least {best[side][1]:9.3f} ms  peak {rows[:, 2].max():8.1f} MiB")
print(f"ratio {best['reference'][0] / best['apc'][0]:.2f} of medians, {best['reference'][1] / best['apc'][1]:.2f} of least times, {threads} threads")
PY
