#!/bin/bash
# Plans for a mixture of experts: degrees of experts, what is refused and why, and what is chosen at Mixtral's size.
. "$(dirname "$0")/lib.sh"

moe=$source_dir/examples/moe.apc
small="-D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50"

degrees() { # ROUTING DEGREES CONDITION
  expect 0 "" "$apc" plan "$moe" $small -D routing="$1" --target cpux4 $2 --json -q
  expect_json "$3"
}
for routing in dense dropless capacity; do
  degrees $routing "--ep 4" 'd["chosen"]["ep"] == 4'
  degrees $routing "--ep 2 --tp 2" 'd["chosen"]["ep"] == 2 and d["chosen"]["tp"] == 2'
  degrees $routing "--ep 2 --dp 2" 'd["chosen"]["ep"] == 2 and d["chosen"]["dp"] == 2'
  expect 3 "ep 16 would only replicate work" "$apc" plan "$moe" $small -D routing=$routing --target cpux16 --ep 16
done
expect 3 "nothing in the model is known to run over experts" "$apc" plan "$source_dir/examples/gpt.apc" --target cpux4 --ep 4
expect 3 "nothing in the model is known to run over experts" "$apc" plan "$source_dir/examples/gpt-tiny.onnx" --target cpux4 --ep 2

# A plan that is loaded means the same degrees.
expect 0 "" "$apc" plan "$moe" $small -D routing=capacity --target cpux4 --ep 2 --dp 2 --save-plan two.plan -q
expect 0 "" "$apc" plan "$moe" $small -D routing=capacity --target cpux4 --plan two.plan --json -q
expect_json 'd["chosen"]["ep"] == 2 and d["chosen"]["dp"] == 2'

# Mixtral-8x7B, 46.7 billion weights of 16 bits, does not fit one device.  Experts with places for 1.25 * top_k / experts of the tokens do 0.31 of
# the work of all experts on all tokens, the rest stays; nothing is faster than the arithmetic at full speed.
mixtral() { # ROUTING GAP CONDITION
  expect 0 "" "$apc" plan "$moe" -D routing="$1" --target dgx-h100x8 --dtype bf16 --json -q
  expect_json 'd["params"] == 46702792704 and d["bytes_per_device"] < 80e9 and d["gap"] < '$2' and d["time_one_device_us"] is None'
  expect_json 'd["flops"] / (8 * 989e6) < d["time_us"] < 1e5'
  expect_json "$3"
}
mixtral dense 0.1 'd["chosen"]["ep"] * d["chosen"]["tp"] > 1 and 94e12 < d["flops"] < 96e12'
mixtral dropless 0.25 'd["chosen"]["ep"] * d["chosen"]["tp"] > 1 and 25e12 < d["flops"] < 27e12'
mixtral capacity 0.1 'd["chosen"]["ep"] > 1 and 31e12 < d["flops"] < 33e12'
summary 38
