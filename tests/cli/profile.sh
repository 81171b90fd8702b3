#!/bin/bash
# --profile, --trace and --bench of compiled programs: consistent sums, every instruction of every rank, timelines whose
# events nest.
. "$(dirname "$0")/lib.sh"
unset OMP_NUM_THREADS APC_EAGER
cat >check.py <<'EOP'
import json, re, sys
what, ranks, micro_batches, rounds = sys.argv[1], *map(int, sys.argv[2:5])
p, t = json.load(open("profile.json")), json.load(open("trace.json"))
schedule = open("schedule").read().split("\nentry main", 1)[1]
bodies = [b for b in schedule.split("\nbody ")[1:] if " of prepare stage" not in b.split("\n", 1)[0]]
wanted = set(re.findall(r"^  ([a-z_]+) ", "\n".join(bodies), re.M))
assert p["schema"] == "apc.profile/1" and p["runs"] == 4 and len(p["ranks"]) == ranks, "the head"
found = set()
for r in p["ranks"]:
    rows, sums = r["operations"], r["sums_us"]
    total = sum(o["time_us"] for o in rows)
    assert 0 < total <= r["time_us"] <= p["asked_us"] * 1.001, f"rows {total}, the rank {r['time_us']}, the host {p['asked_us']}"
    assert abs(sum(sums.values()) - r["time_us"]) < 1e-3 * r["time_us"] + 1, f"sums {sums} of {r['time_us']}"
    assert r["threads"] >= 1 and r["peak_gflop_per_s"] > 0.1 and r["peak_gb_per_s"] > 0.1, "the peak"
    for o in rows:
        assert o["waiting_us"] <= o["time_us"] + 1e-6 and o["calls"] % 4 == 0 and o["calls"] > 0, o
        work = o["kind"] in ("gemm", "conv")
        assert (o["flops"] is not None) == work and (not work or o["flops"] > 0), o
        assert (o["kernel"] is not None) == (o["kind"] in ("launch", "conv")), o
        assert o["of_peak"] is None or 0 <= o["of_peak"] <= 1, o
        assert o["predicted_us"] is None or o["predicted_us"] > 0, o
        if o["kind"] in ("gemm", "conv"): assert o["predicted_us"], f"no prediction for {o}"
        if o["bytes"] and o["time_us"]: assert abs(o["gb_per_s"] / (o["bytes"] / o["time_us"] / 1e3) - 1) < 1e-6, o
    found |= {o["kind"] for o in rows}
    # the predicted times of its operations are those of the plan, up to waiting for other stages
    whole, parts = 4 * p["predicted_us"], sum(o["predicted_us"] or 0 for o in rows)
    kinds = sum(v or 0 for v in r["predicted_sums_us"].values())
    assert abs(kinds / whole - 1) < 2e-3 and abs(r["predicted_us"] / whole - 1) < 1e-9, (kinds, whole)
    assert parts < whole * 1.001 and (micro_batches > 1 or parts > whole * 0.999), f"{parts} of {whole} us"
moving = [o for r in p["ranks"] for o in r["operations"] if o["kind"] in ("send", "recv", "wait", "all_gather", "all_reduce", "reduce_scatter", "all_to_all", "exchange")]
assert not moving or any(o["predicted_us"] for o in moving), "communication"
plan = json.load(open("plan.json"))
assert abs(p["predicted_us"] / plan["time_us"] - 1) < 1e-6, f"predicted {p['predicted_us']} us, by the plan {plan['time_us']}"
assert "fixed speeds" in p["prediction_note"] and p["target"] == plan["target"]["name"], p["prediction_note"]
assert found == wanted, f"kinds {found ^ wanted}"
# arrows join the calls of a transfer or of a collective, in the order of time, on different ranks
arrows = {}
for e in t["traceEvents"]:
    if e["ph"] in ("s", "t", "f"): arrows.setdefault(e["id"], []).append(e)
for points in arrows.values():
    assert [e["ph"] for e in points] == ["s"] + ["t"] * (len(points) - 2) + ["f"] and len({e["pid"] for e in points}) == len(points), points
    assert all(a["ts"] <= b["ts"] for a, b in zip(points, points[1:])), points
    for e in points:
        at = [x for x in t["traceEvents"] if x["ph"] == "X" and x["cat"] != "run" and x["pid"] == e["pid"] and x["ts"] <= e["ts"] <= x["ts"] + x["dur"]]
        assert any(x["name"] == e["name"] and x["cat"] in (e["cat"], "recv", "wait") for x in at), (e, at)
met = [o["calls"] for o in p["ranks"][0]["operations"] if o["kind"] in ("send", "all_gather", "all_reduce", "reduce_scatter", "all_to_all", "exchange")]
assert len(arrows) == sum(met), f"{len(arrows)} arrows, {sum(met)} calls"
# the predicted run: all calls that have a prediction, one after another, as long as the plan says
replayed = [e for e in t["traceEvents"] if e.get("cat") == "predicted"]
for rank in range(ranks):
    mine = [e for e in replayed if e["pid"] == ranks + rank]
    for a, b in zip(mine, mine[1:]): assert a["ts"] + a["dur"] <= b["ts"] + 2e-3, (a, b)
    assert len(mine) >= sum(o["calls"] // 4 for o in p["ranks"][rank]["operations"] if (o["predicted_us"] or 0) > 0.02 * o["calls"]), "calls"
end = max(e["ts"] + e["dur"] for e in replayed)
assert 0.9 < end / p["predicted_us"] < 1.02, f"the predicted run takes {end} us, the plan {p['predicted_us']}"
named = [(e["name"], e["args"]["predicted_us"]) for e in t["traceEvents"] if e["ph"] == "X" and "predicted_us" in e["args"]]
assert abs(sum(us for _, us in named) / sum(o["predicted_us"] or 0 for r in p["ranks"] for o in r["operations"]) - 1) < 1e-2, "predictions of the trace"
calls = max(o["calls"] for r in p["ranks"] for o in r["operations"]) // 4
assert calls >= micro_batches * max(rounds, 1), f"{calls} calls a run"
assert t["otherData"]["dropped"] == 0 and {e["pid"] for e in t["traceEvents"]} == set(range(2 * ranks)), "the ranks of the trace"
assert [e["args"]["sort_index"] for e in t["traceEvents"] if e["name"] == "process_sort_index"] == list(range(2 * ranks)), "their order"
for r in p["ranks"]:
    events = [e for e in t["traceEvents"] if e["pid"] == r["rank"] and e["ph"] == "X"]
    runs = [e for e in events if e["cat"] == "run"]
    inner = [e for e in events if e["cat"] != "run"]
    assert len(runs) == 4
    inner.sort(key=lambda e: e["ts"])
    for a, b in zip(inner, inner[1:]): assert a["ts"] + a["dur"] <= b["ts"] + 1e-6, (a, b)
    for e in inner:
        assert any(x["ts"] <= e["ts"] + 1e-6 and e["ts"] + e["dur"] <= x["ts"] + x["dur"] + 1e-6 and x["args"]["run"] == e["args"]["run"] for x in runs), e
    assert abs(sum(e["dur"] for e in inner) - sum(o["time_us"] for o in r["operations"])) < 1, "the trace and the table differ"
    joined = sum(o["calls"] for o in r["operations"] if o["time_us"])
    assert len(inner) == joined, f"{len(inner)} events, {joined} calls"
    assert {e["args"]["micro_batch"] for e in inner} == set(range(micro_batches)), "micro-batches"
    assert max(e["args"].get("round", 0) for e in inner) == rounds, "rounds"
EOP
both() { # both WHAT RANKS MICRO_BATCHES ROUNDS: program `model`, its schedule in `schedule`, its plan in `plan.json`
  expect 0 "" ./model --bench=4 --warmup 1 --profile=json --trace trace.json
  expect_err "4 runs: median"
  cp out profile.json
  last=$1
  check "$1" /usr/bin/python3 check.py "$@"
  expect 0 "of peak" ./model --bench=4 --profile
  expect_out "in all"
  expect_out "everything else"
}
compile() { expect 0 "" "$apc" -q "$@" --json --emit=exe=model,schedule=schedule; cp out plan.json; } # compile MODEL OPTIONS...
gpt="$source_dir/examples/gpt-tiny.onnx --dim-hint batch=4 --dim-hint seq=32"
compile $gpt --target cpu; both "one rank" 1 1 0
compile $gpt --target cpux2 --tp 2; both "two ranks" 2 1 0
expect_out "rank 1 "
expect_out "waiting"
expect_out "predicted for target cpux2: "
expect_out "note: that target has fixed speeds"
expect 0 "planned for batch=4, which is 2 here" ./model --bench=1 --dim batch=2 --profile=worst
expect 0 "no waiting  predicted   ratio" "$apc" inspect trace.json; expect_out "mispredicted"; expect_out "  communication"
expect 0 "" "$apc" inspect trace.json --json
check "kinds of a trace" /usr/bin/python3 -c 'import json
t, p = json.load(open("out")), json.load(open("profile.json"))
kinds = {k["name"]: k["predicted_us"] for k in t["kinds"] if "predicted_us" in k}
for kind, key in ("products", "products"), ("kernels", "kernels"), ("communication", "moving"):
    us = sum(r["predicted_sums_us"][key] or 0 for r in p["ranks"])
    assert abs(kinds[kind] / us - 1) < 1e-2, (kind, kinds, us)'
compile $gpt --target cpux3; both "three ranks" 3 1 0
compile "$source_dir/examples/mlp.apc" -D d=16 -D hidden=32 -D layers=4 --dim batch=8 --target cpux2 --pp 2 --micro-batches 4
both "micro-batches" 2 4 0
expect_out "rank 0 of stage 0"
expect_out "rank 1 of stage 1"
compile "$source_dir/examples/lstm.apc" -D d=8 -D vocab=20 --dim batch=2 --dim seq=5
expect 0 "" ./model --bench=5 --profile=worst
check "the worst predictions come first" /usr/bin/python3 -c 'import re
rows = re.findall(r"^ +([\d.]+) +([\d.]+|-) +[\d.>-]+!? +[\d.]+ % +[\d.]+ +[\d.]+ ", open("out").read().split("  in all")[0], re.M)
faults = [abs(float(a) - float(b.replace("-", "0"))) for a, b in rows]
assert len(faults) > 5 and all(x >= y - 0.002 for x, y in zip(faults, faults[1:])), faults'
both "loops" 1 1 5

# Sizes distinguish products of equal work and bytes; windows count where they overlap the image.
expect 0 "" "$apc" -q "$source_dir/examples/mlp.apc" -D d=16 -D hidden=32 -D layers=2 --init random --dim batch=8 -o model
expect 0 "gemm 8x16x32  " ./model --bench=2 --profile; expect_out "gemm 8x32x16  "
expect 0 "" "$apc" -q "$source_dir/examples/resnet.apc" -D depth=18 -D width=4 -D classes=5 -D image=32 --init random --dim batch=2 -o model
expect 0 "conv k" ./model --bench=2 --profile; expect_out " 2 of 16x16, 3 to 4, 7x7  "
expect 0 "" ./model --bench=2 --profile=json
cat >convolution.py <<'EOP'
import json
o = [o for o in json.load(open("out"))["ranks"][0]["operations"] if o["size"] == "2 of 16x16, 3 to 4, 7x7"]
met = sum(0 <= 2 * u - 3 + k < 32 for u in range(16) for k in range(7))
assert len(o) == 1 and o[0]["flops"] == o[0]["calls"] * 2 * 2 * 3 * 4 * met * met, (o, met)
EOP
check "the work of a convolution" /usr/bin/python3 convolution.py

# Only the rows that are looked up in a table count; a kernel is named after its computation, not after the way it
# stores the result.
printf '%s\n' 'apc.ir 1' 'symbol b' 'func @main level 1 {' '  %t = input {name="t"} : f32[1000, 4]' '  %x = input {name="x"} : i64[b]' \
  '  %g = gather %t, %x {axis=0, start=0} : f32[b, 4]' '  %r = relu %g : f32[b, 4]' '  %y = reshape %r : f32[b, 4, 1]' \
  '  output "y" %y' '}' >look.ir
expect 0 "" "$apc" -q look.ir -o model
expect 0 "launch k0_relu  r" ./model --bench=2 --dim b=2 --profile
expect 0 "" ./model --bench=2 --dim b=2 --profile=json
cat >table.py <<'EOP'
import json
o = [o for o in json.load(open("out"))["ranks"][0]["operations"] if o["kind"] == "launch"]
assert len(o) == 1 and o[0]["bytes"] / o[0]["calls"] == 2 * 8 + 2 * 4 * 4 + 2 * 4 * 4, o
EOP
check "the bytes of a table" /usr/bin/python3 table.py

# One run without --bench, with its results; given inputs are used, a missing one is no error.
expect 0 "profile of 1 run on 1 rank" ./model --profile
expect 0 "apc.profile/1" ./model --profile=json
expect_json "d['runs'] == 1"
expect 2 "expected json or worst" ./model --profile=xml
cp model before
expect 2 "is the program or holds its weights" ./model --trace model
same() { cmp -s "$1" "$2"; }
check "the program was written over" same model before
expect 1 "cannot write the file" ./model --trace /nowhere/t.json
expect 2 "would write" ./model --trace o.npz --outputs o.npz
expect 0 "" "$apc" inspect trace.json

# Rates above the memory's peak, from caches, are shown as more than the peak, without a figure, which would mean
# nothing.
expect 0 "" "$apc" "$source_dir/examples/gpt-tiny.onnx" -q -o small
expect 0 "of peak" ./small --bench=20 --profile; check "more than 100 %" bash -c '! grep -E " (10[1-9]|1[1-9][0-9]|[2-9][0-9][0-9]) % [am]" out'

# Statistics.
expect 0 "7 runs: median" ./model --bench=7
cat >statistics.py <<'EOP'
import re
text = open("out").read()
v = {k: float(x) for k, x in re.findall(r"(median|mean|min|max|p90|p99) ([\d.]+) ms", text)}
rate = float(re.search(r"([\d.]+) requests/s$", text, re.M)[1]) # one in a run; tests/cli/bench.sh has more
assert v["min"] <= v["median"] <= v["p90"] <= v["p99"] <= v["max"] and v["min"] <= v["mean"] <= v["max"], v
assert v["p99"] == v["max"] and abs(rate * v["mean"] - 1e3) < 1e3 * 0.0006 / v["mean"] + 0.06 * v["mean"] + 1, (rate, v)
EOP
check "statistics" /usr/bin/python3 statistics.py
# whole inputs and outputs are used in place on the host
expect 0 "" "$apc" -q "$source_dir/examples/product.apc" --target cpu -o whole
expect 0 "" ./whole --bench=2 --profile=json; cp out profile.json
check "a whole input or output is copied" /usr/bin/python3 -c 'import json
rows = json.load(open("profile.json"))["ranks"][0]["operations"]
moved = [o["bytes"] for o in rows if o["kind"] in ("feed", "fetch")]
assert moved == [0, 0], moved'
# so are contiguous parts, as rows are; columns are not
/usr/bin/python3 -c 'import numpy as np
np.savez("rows.npz", x=np.random.default_rng(1).standard_normal((16, 256), dtype="f4"))'
expect 0 "" ./whole --inputs rows.npz --outputs whole.npz
for parts in dp tp; do
  expect 0 "" "$apc" -q "$source_dir/examples/product.apc" --target cpux2 --$parts 2 -o $parts
  expect 0 "" ./$parts --inputs rows.npz --outputs $parts.npz
  check "outputs of $parts 2" same whole.npz $parts.npz
  expect 0 "" ./$parts --inputs rows.npz --bench=2 --profile=json; cp out profile.json
  check "what $parts 2 copies" /usr/bin/python3 -c 'import json, sys
for r in json.load(open("profile.json"))["ranks"]:
    moved = [o["bytes"] > 0 for o in r["operations"] if o["kind"] in ("feed", "fetch")]
    assert moved == [False, sys.argv[1] == "tp"], moved' $parts
done
summary 75
