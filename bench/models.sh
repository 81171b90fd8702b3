#!/usr/bin/env bash
# bench/models.sh - models of a folder against ONNX Runtime on the same two cores, and on one.
#
# usage: bench/models.sh FOLDER [NAME[.CASE]...]
#   FOLDER/NAME.onnx with FOLDER/NAME.CASE.inputs.npz or FOLDER/NAME.inputs.npz; bench/real_models.py FOLDER writes
#   models of real size.
#   BUILD=build  PYTHON=python3 (with onnxruntime, numpy)  CORES=0,1 (two)  ROUNDS=5
#   SECONDS_EACH=4 (of a measurement)  MOST=50 (runs of a measurement)
#   TORCH=1: also PyTorch on two threads, for the models of bench/real_models.py
#   RTOL=1e-4: largest relative L2 distance of the outputs from ONNX Runtime's; CHECK=0: do not compare
#   FORCE=1: measure even if others use the machine
#
# Rounds alternate between ONNX Runtime with 2 threads, one rank with 2 threads, two ranks with 1 thread each, and on
# one core ONNX Runtime and one rank.  Prints two Markdown tables:
# - Medians of the rounds' medians; ratios, ONNX Runtime's time over ours; the speedup by the second core: one core's
#   time over that of two, for ONNX Runtime, one rank, and two ranks (against one rank on one core); the number of cores
#   that others used meanwhile.  Below, geometric means and the least.
# - The peak memory of all processes of a side (PSS, sampled every 20 ms; ONNX Runtime's includes Python and numpy);
#   time to compile; time from start to the first answer, with inputs read and files in the page cache (ONNX Runtime's
#   without the start of Python); the read rate of one rank: the bytes of its inputs and of all tensors of its products
#   and convolutions over its median, also relative to the bandwidth that bench/peak.c measures (decoding is bound by
#   it, prefill is not); the same including the bytes of its outputs, which are as large as the inputs if both hold a
#   cache; with TORCH=1 PyTorch's time over ours.
# Stops if outputs differ.  It first prints the load of the machine.  If others use more than half a core, it stops; if
# only the load (of the last minute) is above 0.5, as after a previous run, it waits up to 90 seconds for it to fall.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${PYTHON:-python3}" bench/models.py "$@"
