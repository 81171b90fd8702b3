#!/bin/bash
# A cache that is input and output of every request: no kernel joins it with the new keys, the attention does, on one
# rank and on two that share its heads.
. "$(dirname "$0")/lib.sh"

cat >cache.apc <<'END2'
dim batch, new, past
entry main(q: f32[batch, 4, new, 24], oldk: f32[batch, 4, past, 24], oldv: f32[batch, 4, past, 16], k: f32[batch, 4, new, 24], v: f32[batch, 4, new, 16]) {
  keys = concat([oldk, k], 2)
  values = concat([oldv, v], 2)
  output y = attention(q, keys, values, q_positions=iota(new) + past, causal=1)
  output keys
  output values
}
END2
sed 's/attention(q, keys/attention(q, relu(keys)/' cache.apc >apart.apc # the attention reads another value

for how in "" "--target cpux2 --tp 2"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan cache.apc $how --emit=legal=legal.ir,schedule=program.txt
  check "no remark" grep -qE '^# y.* joins keys and values while it reads$' legal.ir
  check "the cache is joined by a kernel" bash -c '! grep concat program.txt'
  check "no kernel of the attention" grep -q attention program.txt
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan apart.apc $how --emit=legal=legal.ir,schedule=program.txt
  check "keys are no kernel" grep -q relu program.txt
  check "not only values" grep -qE '^# y.* joins values while it reads$' legal.ir
  for sizes in "1 70" "3 1" "1 1" "5 59" "40 130"; do
    read -r new past <<<"$sizes"
    # shellcheck disable=SC2086
    expect 0 "proved" "$apc" verify cache.apc $how --dim batch=2 --dim "new=$new" --dim "past=$past" -q
  done
  # shellcheck disable=SC2086
  expect 0 "proved" "$apc" verify cache.apc $how -q # sizes that are known at compile time
done
summary 24
