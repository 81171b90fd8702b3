#!/bin/bash
# Chosen plans at the size of Mixtral-8x7B on eight GPUs.
. "$(dirname "$0")/lib.sh"
moe=$source_dir/examples/moe.apc

# 46.7 billion weights of 16 bits do not fit one device.  Experts with places for 1.25 * top_k / experts of the tokens
# do 0.31 of the work of all experts on all tokens, the rest stays; no plan is faster than the arithmetic at full speed.
mixtral() { # ROUTING GAP CONDITION
  expect 0 "" "$apc" plan "$moe" -D routing="$1" --target dgx-h100x8 --dtype bf16 --json -q
  expect_json 'd["params"] == 46702792704 and d["bytes_per_device"] < 80e9 and d["gap"] < '$2' and d["time_one_device_us"] is None'
  expect_json 'd["flops"] / (8 * 989e6) < d["time_us"] < 1e5'
  expect_json "$3"
}
mixtral dense 0.1 'd["chosen"]["ep"] * d["chosen"]["tp"] > 1 and 94e12 < d["flops"] < 96e12'
# Grouped products are our own kernels without tensor cores: 67 TFLOPS of f32 instead of 989.
mixtral dropless 0.25 '25e12 < d["flops"] < 27e12 and d["time_us"] > 20e12 / (8 * 67e12) * 1e6'
mixtral capacity 0.1 'd["chosen"]["ep"] > 1 and 31e12 < d["flops"] < 33e12'
summary 12
