#!/bin/bash
# Ranks that differ: uneven shards and stages are found, shown, saved, read, run on CPU ranks, verified and proved;
# errors.
. "$(dirname "$0")/lib.sh"
gpt=$source_dir/examples/gpt.apc
model=("$gpt" -D layers=2 -D d=64 -D heads=8 -D vocab=300 -D ctx=32 --dim seq=12 --dim batch=8)
cat >mixed.topo <<'END_OF_MIXED'
gpu fast { arch sm_80; memory 2 GB at 200 GB/s; launch 10 ns; peak f32 200 GFLOPS; }
gpu slow { arch sm_70; memory 1 GB at 100 GB/s; launch 10 ns; peak f32 100 GFLOPS; }
machine mixed { devices 1 fast; devices 2 slow; link l at 10 GB/s latency 100 ns; }
END_OF_MIXED
sed 's/^gpu \([a-z]*\) { arch [a-z0-9_]*;/cpu \1 { cores 1;/' mixed.topo >cpus.topo
cat >both.topo <<'END_OF_BOTH'
gpu fast { memory 2 GB at 200 GB/s; launch 10 ns; peak f32 200 GFLOPS; peak bf16 400 GFLOPS; }
gpu slow { memory 1 GB at 100 GB/s; launch 10 ns; peak f32 100 GFLOPS; }
machine a { devices 2 fast; link nvlink at 20 GB/s latency 100 ns; price 2 USD/h "x" 2026-01-01; }
machine b { devices 2 slow; link pcie at 5 GB/s latency 100 ns; price 1 USD/h "x" 2026-01-01; }
target both { machine a; machine b times 2; network ethernet 1 at 10 Gbit/s latency 1 us; }
END_OF_BOTH

# Uneven shards: chosen, shown, saved; the same bytes again; a plan of equal parts is slower.
expect 0 "1 of fast: each 200 GFLOPS f32, 2.0 GB at 200 GB/s; 2 of slow: each 100 GFLOPS f32" "$apc" plan "${model[@]}" --target mixed.topo -q \
  --tp 3 --save-plan uneven.plan
check "no table of ranks" grep -qE '^  0 +fast +tp [0-9]+/[0-9]+ +[0-9]+ ' out
check "no shares in the plan" grep -qE '^mesh \[tp=3 shares [0-9]+:[0-9]+:[0-9]+\] stages 1$' uneven.plan
expect 0 "" "$apc" plan "${model[@]}" --target mixed.topo -q --plan uneven.plan --save-plan again.plan --json
check "another plan" cmp uneven.plan again.plan
cp out uneven.json
expect_json 'd["ranks"][0]["shares"]["tp"] > 1.4 * d["ranks"][1]["shares"]["tp"] and d["ranks"][1]["last"] == 2 and d["gap"] >= 0'
sed 's/ shares [0-9:]*//' uneven.plan >even.plan
expect 0 "" "$apc" plan "${model[@]}" --target mixed.topo -q --plan even.plan --json
expect_json 'd["time_us"] > 1.2 * json.load(open("uneven.json"))["time_us"] and d["lower_bound_us"] <= json.load(open("uneven.json"))["time_us"]'
expect 0 "tp=3 shares " "$apc" inspect uneven.plan
expect 0 "shares" "$apc" inspect uneven.plan --json
expect 0 "shares" "$apc" inspect even.plan uneven.plan

# They compute the model: for GPUs as for CPU ranks, on which the program runs.
expect 0 "proved   the parallel program computes the model over the real numbers, for all inputs and sizes" "$apc" verify "${model[@]}" -D layers=1 \
  --target mixed.topo -q
expect 0 "" "$apc" compile "${model[@]}" --target cpus.topo -q --tp 3 --save-plan cpus.plan -o model
check "no shares for CPU ranks" grep -qE '^mesh \[tp=3 shares ' cpus.plan
expect 0 "wrote parts.npz" ./model --input tokens=random --outputs parts.npz
expect 0 "" "$apc" run "${model[@]}" --target cpu -q --input tokens=random --expect parts.npz
expect 0 "" "$apc" plan "${model[@]}" --target cpux3 -q --plan cpus.plan # equal ranks may have shares too

# Uneven stages: the fast rank has more of the model; only its larger memory makes it fit; training.
deep=("$gpt" -D layers=6 -D d=256 -D heads=4 -D vocab=64 -D ctx=64 --dim seq=64)
expect 0 "" "$apc" plan "${deep[@]}" --dim batch=8 --target mixed.topo -q --pp 3 --micro-batches 8 --json
expect_json 'd["ranks"][0]["operations"] > 1.5 * d["ranks"][1]["operations"] and d["ranks"][0]["place"] == 0 and len(d["ranks"]) == 3'
sed 's/memory 2 GB/memory 18 MB/; s/memory 1 GB/memory 5 MB/' cpus.topo >small.topo
expect 0 "" "$apc" plan "${deep[@]}" --dim batch=1 --target small.topo -q --pp 3 --json
expect_json 'd["ranks"][0]["operations"] > 2 * d["ranks"][1]["operations"] and 5e6 < d["bytes_per_device"] <= 18e6'
sed 's/^cpu fast .*memory [0-9]* MB/cpu fast { cores 1; memory 5 MB/' small.topo >tight.topo
expect 3 "no feasible plan" "$apc" plan "${deep[@]}" --dim batch=1 --target tight.topo -q --pp 3
expect 0 "equal    update and the optimizer's formula" "$apc" verify "$source_dir/examples/mlp.apc" -D layers=2 -D d=48 -D hidden=96 \
  --train mse --batch 8 --target mixed.topo -q --tp 3
expect_out "proved   the parallel program computes the model as the passes leave it, for all inputs and sizes"

# Machines of two kinds, links of two kinds.
expect 0 "6 gpu ranks of 3 nodes; 2 of fast: each 200 GFLOPS f32" "$apc" plan "${model[@]}" --target both.topo -q --what-if 'nvlink*2,ethernet*2'
expect_out "4.00 USD an hour"
check "no line for each kind" grep -qE '^  2-5 +slow ' out
expect 0 "machine b times 2;" "$apc" targets show both.topo
cp out shown.topo
expect 0 "" "$apc" targets show shown.topo
check "the shown target reads back differently" cmp <(tail -n +2 out) <(tail -n +2 shown.topo)
expect 0 "" "$apc" targets show both.topo --json
expect_json '[(k["part"], k["ranks"]) for k in d["target"]["kinds"]] == [("fast", 2), ("slow", 4)]'

# Refused requests.
expect 3 "the peak of its 2 fast + 4 slow for bf16 is not known" "$apc" plan "${model[@]}" --target both.topo -q --dtype bf16
expect 1 "both.topox4: the target has 6 devices of different machines" "$apc" plan "${model[@]}" --target both.topox4 -q
expect 2 "the devices of both.topo differ" "$apc" size "${model[@]}" --target both.topo -q
expect 2 "--objective cost needs a target with equal devices" "$apc" plan "${model[@]}" --target both.topo -q --objective cost
sed 's/shares [0-9]*:/shares /' uneven.plan >bad.plan
expect 1 "bad.plan:4:19" "$apc" plan "${model[@]}" --target mixed.topo -q --plan bad.plan
expect_err "expected 3 shares from 1 to 1000, as 2:1"
sed 's/shares [0-9]*:/shares 0:/' uneven.plan >bad.plan
expect 1 "expected 3 shares" "$apc" plan "${model[@]}" --target mixed.topo -q --plan bad.plan
summary 39
