#!/bin/bash
# --world: one artifact with a Program for each number of ranks, chosen by the number of ranks that run it.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
train_rows
# shellcheck disable=SC2086
model=($mlp --target cpux4 --world 4,3,1)
# 400 KB of weights: they are in the file once.
large=("$source_dir/examples/mlp.apc" -D layers=2 -D d=224 --seed 1 --dim batch=6 -q)
"$apc" compile "${large[@]}" --target cpux4 -o four
expect 0 "" "$apc" compile "${large[@]}" --target cpux4 --world 4,3,1 --weights embed -o large
check "it has the weights more than once" test $(($(stat -c %s large) - $(stat -c %s four))) -lt 300000
"$apc" compile "${large[@]}" --target cpux3 -o three
expect 0 "" ./three --input x=random:3 --outputs by_three.npz
expect 0 "" ./large --ranks 3 --input x=random:3 --outputs chosen.npz
check "the plan for three ranks" cmp by_three.npz chosen.npz
free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
at=127.0.0.1:$(free_port)
for rank in 1 2; do ./large --rank $rank --world 3 --rendezvous "$at" & done
expect 0 "" ./large --rank 0 --world 3 --rendezvous "$at" --input x=random:3 --outputs met.npz
wait
check "the plan for three processes" cmp by_three.npz met.npz
expect 0 "plans for 4, 3, 1 ranks" ./large --describe
expect 0 "" ./large --ranks 1 --describe=json; expect_json "d['ranks'] == 1 and d['worlds'] == [4, 3, 1]"
expect 0 "plans    for 4, 3, 1 ranks" "$apc" inspect large
expect 0 "" "$apc" inspect large --json; expect_json "d['ranks'] == 4 and d['worlds'] == [4, 3, 1]"
expect 2 "this program was compiled for 4, 3 and 1 ranks, not for 2" ./large --ranks 2 --input x=random
expect 2 "--rank started 2 processes: this program was compiled for 4, 3 and 1 ranks, not for 2" \
  ./large --rank 0 --world 2 --rendezvous ./meeting --input x=random
head -c -70000 large >cut; chmod +x cut
expect 1 "is truncated" ./cut --input x=random

# Its training programs continue each other's runs.
expect 0 "" "$apc" compile "${model[@]}" -q --train mse --batch 6 -o trainer
expect 0 "" ./trainer --steps 8 --json --data x=@x.npy --data labels=@y.npy; losses out >whole
expect 0 "" ./trainer --steps 3 --json --data x=@x.npy --data labels=@y.npy --checkpoint kept; losses out >parts
expect 0 "" ./trainer --ranks 3 --steps 6 --json --data x=@x.npy --data labels=@y.npy --resume kept --checkpoint kept; losses out >>parts
expect 0 "" ./trainer --ranks 1 --steps 8 --json --data x=@x.npy --data labels=@y.npy --resume kept; losses out >>parts
check "the losses of an undisturbed run" near whole parts 1e-5

# plan, verify; one number is the same as a target
expect 0 "on 3 targets" "$apc" plan "${model[@]}" --dim batch=6; expect_out "cpux3"
expect 0 "" "$apc" plan "${model[@]}" --dim batch=6 --json; expect_json "[x['target']['name'] for x in d['targets']] == ['cpux4', 'cpux3', 'cpux1']"
expect 0 "" "$apc" verify $mlp --target cpux2 --world 2,1 --dim batch=6 -q
check "both numbers" test "$(grep -c "^ok" out)" = 2
expect 0 "" "$apc" verify $mlp --target cpux2 --world 2,1 --dim batch=6 -q --json
expect_json "d['ok'] and [x['ranks'] for x in d['worlds']] == [2, 1]"
expect 0 "" "$apc" compile "${model[@]}" -q --dim batch=6 --json -o json
expect_json "d['files'] == ['json'] and len(d['worlds']) == 3"
expect 0 "" "$apc" run $mlp --world 2 --dim batch=6 -q --outputs run.npz
refused() { expect "$1" "$2" "$apc" compile $mlp --dim batch=6 --target cpux4 -o none "${@:3}"; no_out; }
refused 2 "--world 4,x: 'x' is not a number of ranks" --world 4,x
refused 2 "--world 4,4: 4 is there twice" --world 4,4
refused 2 "--world 0: '0' is not a number of ranks" --world 0
refused 2 "--save-plan needs one number of ranks" --world 4,2 --save-plan x.plan
refused 2 "--emit: --world with several numbers makes a program only" --world 4,2 --emit=plan
refused 3 "" --world 4,2 --tp 4
expect 2 "apc run runs one number of ranks; give it one, not 2" "$apc" run $mlp --dim batch=6 --world 4,2
summary 44
