#!/bin/bash
# Loops of all front ends on three ranks: ONNX Loop and If decided by inputs, examples/lstm.apc, a loop with a
# condition.  They equal one rank and the reference, and are proved.
. "$(dirname "$0")/lib.sh"

equals_one_rank() { # equals_one_rank MODEL OPTIONS...
  expect 0 "" "$apc" verify "$@" --target cpux3 --json -q
  expect_json 'd["ok"] and d["proof"] == "proved" and d["ranks"] == 3'
}

for kind in loop if; do
  expect 0 "" "$(dirname "$apc")/tests/test_onnx_control" $kind $kind.onnx
  equals_one_rank $kind.onnx --tp 3
  equals_one_rank $kind.onnx --dp 3
done

# operators in inner graphs count
expect 0 "" "$apc" inspect loop.onnx --json
expect_json '{"Loop", "MatMul", "Tanh", "Add"} == set(d["onnx"]["operators"])'

cat >while.apc <<'END'
dim batch
entry main(x: f32[batch, 6], n: i64[]) {
  y = x
  rows = fill(f32[8, batch, 6], 0)
  loop t < n + 2 <= 8 carrying y, rows while max(abs(y)) < 2 {
    weight w : f32[6, 6] = normal(1.0)
    y = matmul(y, w) + x
    rows = update(rows, expand_dims(y, 0), t, 0)
  }
  output last = y
  output all = rows
}
END
for plan in "" "--tp 3" "--dp 3"; do
  equals_one_rank "$source_dir/examples/lstm.apc" -D d=12 -D hidden=18 -D vocab=30 $plan
  equals_one_rank while.apc $plan
done

summary 24
