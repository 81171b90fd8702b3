#!/bin/bash
# Loops of IR files, compiled and run: a recurrence with stacked results of any length, and loops whose rounds depend on
# data, around a state and another loop, on one to three ranks.  No copy grows with the rounds; a rank that dies or
# stops in a loop is named.
. "$(dirname "$0")/lib.sh"
models=$source_dir/tests/cli/rounds

equals() { # MODEL PLAN
  expect 0 "" "$apc" verify "$models/$1.ir" --target $2 --json -q
  expect_json 'd["ok"] and d["proof"] == "proved"'
}
for plan in "cpux1" "cpux2" "cpux3" "cpux2 --tp 2" "cpux3 --tp 3" "cpux2 --dp 2"; do
  equals lstm "$plan"
  equals search "$plan"
done
equals narrow cpux1
equals narrow "cpux2 --dp 2"

# One binary for all lengths: its results for 5 and 31 rounds equal those of a program for that length only, and the
# reference.
expect 0 "" "$apc" "$models/lstm.ir" --target cpux2 --tp 2 -o lstm -q
for seq in 1 5 31; do
  expect 0 "" ./lstm --input x=random --dim seq=$seq --outputs out$seq.npz
  expect 0 "" "$apc" run "$models/lstm.ir" --target cpu --dim seq=$seq --expect out$seq.npz -q
done
expect 0 "" "$apc" verify "$models/lstm.ir" --target cpux2 --tp 2 --dim seq=31 -q

# Computed sizes: proved on all plans; one binary for no row, all rows and some, several requests after each other.
for plan in "cpux1" "cpux3" "cpux2 --tp 2"; do
  expect 0 "" "$apc" verify "$models/picked.ir" --target $plan --json -q
  expect_json 'd["ok"] and d["proof"].startswith("proved")'
done
shape() { # FILE NAME ROWS
  check "$2 has not $3 rows" /usr/bin/python3 -c \
    'import re,sys,zipfile; h=zipfile.ZipFile(sys.argv[1]).read(sys.argv[2] + ".npy")[:128].decode("latin1")
sys.exit(re.search(r"\((\d+),", h)[1] != sys.argv[3])' "$@"
}
expect 0 "" "$apc" "$models/picked.ir" --target cpux2 -o picked -q
for rows in 1 7; do
  none="--input m=zeros --input x=random --dim rows=$rows" some="--input m=random:1 --input x=random --dim rows=$rows"
  expect 0 "" ./picked $none --outputs zeros.npz
  shape zeros.npz y 0
  shape zeros.npz last $rows
  expect 0 "" "$apc" run "$models/picked.ir" --target cpu $none --expect zeros.npz -q
  expect 0 "" ./picked $some --outputs some.npz
  expect 0 "" "$apc" run "$models/picked.ir" --target cpu $some --expect some.npz -q
done
expect 1 "n cannot be chosen" ./picked --input x=random --input m=zeros --dim n=3
expect 1 "the model computes it" "$apc" plan "$models/picked.ir" --target cpu --dim n=3 -q
expect 3 "computes sizes" "$apc" plan "$models/picked.ir" --target cpux2 --pp 2 -q

# In the body of the loop: no copy; the stack is updated in place, as is the state that holds the rows.
body() { # OPTIONS: the instructions between `loop` and `repeat`
  expect 0 "" "$apc" "$@" --emit=schedule=- -q
  sed -n '/^  loop/,/^  repeat/p' out >body
}
updated_in_place() { # the only update writes the buffer that it reads
  grep update body | grep -o ' b[0-9]*:' >places
  test "$(grep -c update body)" = 1 && test "$(head -1 places)" = "$(tail -1 places)"
}
body "$models/lstm.ir" --target cpu
check "the loop copies" test "$(grep -c copy body)" = 0
check "the stack is copied" updated_in_place
check "the loop has $(grep -c '^    [a-z]' body) instructions" test "$(grep -c '^    [a-z]' body)" -le 4
body "$models/search.ir" --target cpux2 --tp 2
check "the loop copies" test "$(grep -c copy body)" = 0
check "the state is copied" updated_in_place
check "the state is written" test "$(grep -c '^  copy' out)" = 0
check "the inner loop is not shown inside" grep -q '^      gemm' body

# Casts for a product of 16-bit numbers: values from outside both loops are cast before them, those of the outer loop in
# it, those of a branch in the branch.
body "$models/narrow.ir" --target cpu
check "before the loops" test "$(sed '/^  loop/,$d' out | grep -c 'launch.*_cast')" = 1
check "in the outer loop" test "$(grep -c '^    launch.*_cast' body)" = 3
check "in the inner loop" test "$(grep -c '^      launch.*_cast' body)" = 2

# Four times the rounds take at most four times the memory.
activations() {
  expect 0 "" ./lstm --input x=random --dim seq="$1" --describe=json
  bytes=$(grep -m1 -o '"activations": *[0-9]*' out | grep -o '[0-9]*$')
}
activations 100
few=$bytes
activations 400
check "$few bytes for 100 rounds, $bytes for 400" test "$bytes" -gt "$few" -a "$bytes" -le $((4 * few))

# The host reads the number of rounds.
expect 0 "" "$apc" "$models/search.ir" --target dgx-h100 --tp 2 --dp 4 --emit=schedule=- -S -q
expect_out "for (round0 = 0; round0 < min(rounds0, 16); round0++) {"
expect_out "  for (round1 = 0; round1 < min(rounds1, 2); round1++) {"
expect_out "if (!again0) break"

# A rank that dies (6) or stops (7) in the middle of an endless loop.
expect 0 "" "$apc" "$models/spin.ir" --target cpux2 --tp 2 -o spin -q
end_rank() { # SIGNAL CODE
  ./spin --input x=random --timeout 2s >out 2>err &
  local host=$! begin=$SECONDS
  sleep 2
  last="a rank gets SIG$1 in a loop"
  kill -"$1" "$(pgrep -P $host | tail -1)"
  wait $host
  local code=$?
  check "exit $code, not $2" test $code = "$2"
  check "it took $((SECONDS - begin)) s" test $((SECONDS - begin)) -le 8
  expect_err "rank 1"
  check "no step is named" grep -qE '(gemm|launch|all_gather|all_reduce|reduce_scatter|all_to_all|loop|repeat) of (h|t|w)[^)]*, round [1-9]' err
}
end_rank KILL 6
end_rank STOP 7
summary 87
