#!/usr/bin/env bash
# bench/models.sh - models of a folder against ONNX Runtime on the same two cores, and on one.
#
# usage: bench/models.sh FOLDER [NAME[.CASE]...]
#   FOLDER/NAME.onnx with FOLDER/NAME.CASE.inputs.npz or FOLDER/NAME.inputs.npz; bench/real_models.py FOLDER writes
#   models of real size.
#   BUILD=build  PYTHON=python3 (with onnxruntime, numpy)  CORES=0,1 (two)  ROUNDS=5
#   SECONDS_EACH=4 (of a measurement)  MOST=50 (runs of a measurement)
#   TORCH=1: PyTorch on two threads as well, for the models of bench/real_models.py
#   RTOL=1e-4: largest relative L2 distance of the outputs from ONNX Runtime's; CHECK=0: do not compare
#   FORCE=1: measure although others use the machine
#
# Rounds alternate between ONNX Runtime with 2 threads, one rank with 2 threads, two ranks with 1 thread each, and on
# one core ONNX Runtime and one rank.  Prints two Markdown tables:
# - Medians of the rounds' medians; ratios, ONNX Runtime's time over ours; what the second core gives: one core's time
#   over that of two, for ONNX Runtime, one rank, and two ranks (over one rank on one core); how many cores others used
#   meanwhile.  Below it geometric means, and the least.
# - The largest sum of what all processes of a side have in memory (PSS, looked at every 20 ms; ONNX Runtime's has
#   Python and numpy in it); time to compile; time from start to the first answer, inputs read, files in the page cache
#   (ONNX Runtime's without the start of Python); what one rank reads: the bytes of its inputs and of all tensors of
#   its products and convolutions over its median, and that as part of the bandwidth that bench/peak.c measures
#   (decoding is bound by it, prefill is not); the same with the bytes of its outputs, as large as the inputs where a
#   cache is both; with TORCH=1 PyTorch's time over ours.
# Stops when outputs differ.  Before it begins it says what else runs.  Others that use more than half a core now are an
# error; when only the load (of the last minute) is above 0.5, as after an own run, it waits for that up to 90 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${PYTHON:-python3}" bench/models.py "$@"
