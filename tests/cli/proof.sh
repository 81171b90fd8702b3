#!/bin/bash
# What `apc verify` says of a proof: over which numbers it holds, and never that it is one for all inputs beside outputs that differ.
. "$(dirname "$0")/lib.sh"

cat >scaled.ir <<'END'
apc.ir 1
func @main level 1 {
  %x = input {name="x"} : f32[4, 8]
  %f = input {name="f"} : f32[8]
  %s = reduce %x {axes=[0], op=sum} : f32[8]
  %y = mul %s, %f : f32[8]
  output "y" %y
}
END
plan() { # plan STRATEGY-OF-Y: the sum over rows is cut
  printf 'apc.plan 1\ngraph @main 0000000000000000\ntarget cpux2 ranks 2\nmesh [tp=2] stages 1\nop "x" {x0:tp}\nop "s" {r0:tp}\nop "y" %s\n' "$1" >y.plan
}
verify() { # verify CODE TEXT OPTIONS...
  local code=$1 text=$2
  shift 2
  expect "$code" "$text" "$apc" verify scaled.ir --target cpux2 --plan y.plan "$@"
}
/usr/bin/python3 - <<'END'
import numpy as np
x, f = np.ones((4, 8), np.float32), np.ones(8, np.float32)
x[:2, 0], f[0] = 0, np.inf  # the first rank's part is 0
np.savez("infinite.npz", x=x, f=f)
END

# Parts of the sum are multiplied, then added: right over the real numbers.
plan '{L0:tp}'
verify 0 "over the real numbers (infinities, NaN and the sign of a zero may differ at y)" -q
verify 0 "" --json
expect_json 'd["ok"] and d["proof"] == "proved" and d["proof_numbers"] == "real" and d["proof_real_at"] == "y"'
verify 4 "DIFFERS" -q --inputs infinite.npz
expect_out "NOT OK"
expect_out "proved   the parallel program computes the model, for all sizes, over the real numbers; what differs above"
check "a proof for all inputs beside outputs that differ" bash -c '! grep -q "for all inputs" out'
verify 4 "" --json --inputs infinite.npz
expect_json 'not d["ok"] and d["proof"] == "proved" and d["proof_numbers"] == "real"'

# The sum is made whole first: right for every input.
plan '{}'
verify 0 "proved   the parallel program computes the model, for all inputs and sizes" -q --inputs infinite.npz
expect_out "equal    y"
verify 0 "" --json
expect_json 'd["ok"] and d["proof_numbers"] == "all" and d["proof_real_at"] is None'
summary 12
