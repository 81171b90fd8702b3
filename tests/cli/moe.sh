#!/bin/bash
# Plans for a mixture of experts: degrees of experts, refusals and their reasons.
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

# A loaded plan means the same degrees.
expect 0 "" "$apc" plan "$moe" $small -D routing=capacity --target cpux4 --ep 2 --dp 2 --save-plan two.plan -q
expect 0 "" "$apc" plan "$moe" $small -D routing=capacity --target cpux4 --plan two.plan --json -q
expect_json 'd["chosen"]["ep"] == 2 and d["chosen"]["dp"] == 2'

# Experts are trained over ranks where each token goes through all of them.
expect 0 "ok" "$apc" verify "$moe" $small -D layers=1 -D experts=4 --dim batch=4 --dim seq=8 --train cross_entropy \
  --target cpux4 --ep 2 --dp 2 -q
summary 27
