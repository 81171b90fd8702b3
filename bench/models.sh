#!/usr/bin/env bash
# bench/models.sh - every model of a folder: ONNX Runtime, one rank with two threads and two ranks with one thread each, on the same two cores.
#
# usage: bench/models.sh FOLDER [NAME...]      FOLDER/NAME.onnx with FOLDER/NAME.inputs.npz
#   BUILD=build  PYTHON=python3 (with onnxruntime, numpy)  CORES=0,1  ROUNDS=5  RUNS=20
#   RTOL=1e-4: largest relative L2 distance of the outputs from ONNX Runtime's
# Rounds alternate between the three, so that other work on the machine hits all.  Prints a table for bench/results/cpu.md: median of the rounds'
# medians / least time of all, peak resident memory of the largest process, time to compile.  Stops when outputs differ.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build} python=${PYTHON:-python3} rounds=${ROUNDS:-5} runs=${RUNS:-20} cores=${CORES:-0,1}
models=${1:?usage: bench/models.sh FOLDER [NAME...]}
shift
[ $# -gt 0 ] || set -- $(cd "$models" && for f in *.inputs.npz; do echo "${f%.inputs.npz}"; done)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The wrapper only reports the peak memory of its children.
ours() { # THREADS PROGRAM INPUTS
  OMP_NUM_THREADS=$1 taskset -c "$cores" "$python" - "$2" --inputs "$3" --bench="$runs" <<'PY'
import re, resource, subprocess, sys
text = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True)
found = re.search(r"median ([\d.]+) ms.*min ([\d.]+) ms", text.stdout + text.stderr)
print(found[1], found[2], "%.1f" % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024))
PY
}

echo "| model | ONNX Runtime, 2 threads | 1 rank, 2 threads | 2 ranks, 1 thread each | peak memory, MiB | compiling 1, 2 ranks, s |"
echo "| --- | --- | --- | --- | --- | --- |"
for name in "$@"; do
  rm -f "$folder"/*
  model=$models/$name.onnx inputs=$models/$name.inputs.npz
  for ranks in 1 2; do
    start=$EPOCHREALTIME
    "$build/apc" -q "$model" --target "$([ $ranks = 1 ] && echo cpu || echo cpux2)" -o "$folder/$ranks"
    awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", b - a }' >"$folder/compile$ranks"
    "$folder/$ranks" --inputs "$inputs" --outputs "$folder/out$ranks.npz"
  done
  for ((i = 0; i < rounds; i++)); do
    taskset -c "$cores" "$python" bench/gpt_reference.py "$model" --threads 2 --runs "$runs" --inputs "$inputs" \
      --save-outputs "$folder/reference.npz" >>"$folder/reference.txt"
    ours 2 "$folder/1" "$inputs" >>"$folder/1.txt"
    ours 1 "$folder/2" "$inputs" >>"$folder/2.txt"
  done
  "$python" - "$folder" "$name" "${RTOL:-1e-4}" <<'PY'
import sys
import numpy as np
folder, name, rtol = sys.argv[1], sys.argv[2], float(sys.argv[3])
want = np.load(folder + "/reference.npz")
for ranks in "12":
    got = np.load(f"{folder}/out{ranks}.npz")
    for key in want:
        far = np.linalg.norm(got[key].astype("f8") - want[key]) / max(np.linalg.norm(want[key].astype("f8")), 1e-30)
        if not far <= rtol:
            sys.exit(f"models.sh: {name}: output {key} of {ranks} ranks differs: relative L2 {far:.2e}, allowed {rtol:.0e}")
rows = {side: np.loadtxt(f"{folder}/{side}.txt", ndmin=2) for side in ("reference", "1", "2")}
times = " | ".join(f"{np.median(r[:, 0]):.2f} / {r[:, 1].min():.2f} ms" for r in rows.values())
peaks = ", ".join(f"{r[:, 2].max():.0f}" for r in rows.values())
compiling = ", ".join(open(f"{folder}/compile{ranks}").read().strip() for ranks in "12")
print(f"| {name} | {times} | {peaks} | {compiling} |", flush=True)
PY
done
