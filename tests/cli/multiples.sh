#!/bin/bash
# A dimension of an ONNX file that must be a multiple keeps its name in options, and other sizes are refused where they
# are bound.
. "$(dirname "$0")/lib.sh"

writer=$(dirname "$apc")/tests/test_onnx_assume
npz() { # npz FILE N: x0 of batch 3
  /usr/bin/python3 -c 'import sys, numpy as np; np.savez(sys.argv[1], x0=np.random.default_rng(1).random((3, 2, int(sys.argv[2])), np.float32))' "$@"
}

expect 0 "" "$writer" net.onnx
expect 0 "planning for batch 8, n_div_4 16" "$apc" plan net.onnx --target cpux2 --dim-hint n=64
expect_err 'the dimension "n" is taken to be 4*n_div_4'
expect 1 "--dim-hint n=62: sizes of 'n' are multiples of 4" "$apc" plan net.onnx --target cpux2 --dim-hint n=62
expect 1 "no symbolic dimension 'm'" "$apc" plan net.onnx --target cpux2 --dim-hint m=64
expect 0 "" "$apc" plan net.onnx --target cpux2 --dim n=64
expect 0 "" "$apc" plan net.onnx --target cpux2 --shape x0=2,2,64
expect 1 "is 4*n_div_4, not 62" "$apc" plan net.onnx --target cpux2 --shape x0=2,2,62
expect 0 "" "$apc" verify net.onnx --target cpux3 --json -q
expect_json 'd["ok"] and d["proof"] == "proved"'
expect 0 "" "$apc" net.onnx --target cpux2 -o net -q
npz even.npz 12
npz odd.npz 14
expect 0 "" ./net --inputs even.npz --outputs out.npz
expect 1 "dimension 2 is 14, but must be n_div_4*4, with a whole n_div_4" ./net --inputs odd.npz --outputs out.npz
summary 13
