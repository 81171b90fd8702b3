#!/bin/bash
# Models through every command: JSON fields, outputs, saved plans, comparisons, exit codes.
. "$(dirname "$0")/lib.sh"
mlp=$source_dir/examples/mlp.apc gpt=$source_dir/examples/gpt-tiny.onnx
small="-D d=16 -D hidden=32 -D layers=2 -q"
gpt_in=$source_dir/examples/gpt-tiny.inputs.npz gpt_out=$source_dir/examples/gpt-tiny.outputs.npz

# inspect
expect 0 "33,574,912" "$apc" inspect "$mlp"
expect 0 "" "$apc" inspect "$mlp" --json -q
expect_json 'd["schema"] == "apc.inspect/1" and d["params"] == 33574912 and d["entries"][0]["inputs"][0]["shape"] == ["batch", 1024]'
expect 0 "" "$apc" inspect "$gpt" --json -q
expect_json 'd["onnx"]["unsupported"] == {} and d["onnx"]["operators"]["Softmax"] == 2 and {x["name"] for x in d["dimensions"]} == {"batch", "seq"}'
expect 0 "tokens" "$apc" inspect "$gpt_in"
expect 0 "" "$apc" inspect "$gpt_in" --json
expect_json 'd["tensors"] == [{"name": "tokens", "dtype": "i64", "shape": [4, 32], "bytes": 1024}]'

# plan
expect 0 "one device" "$apc" plan "$mlp" $small --target cpux4
expect_out "on cpux4: 4 cpu ranks"
expect_out "with batch 8"
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --json
expect_json 'd["schema"] == "apc.plan/1" and d["target"] == {"name": "cpux4", "gpus": 4, "nodes": 1}'
expect_json 'set("tp pp dp ep cp zero micro_batch micro_batches".split()) <= {k for k, v in d["chosen"].items() if isinstance(v, int)}'
expect_json 'isinstance(d["chosen"]["schedule"], str) and isinstance(d["chosen"]["recompute"], str)'
expect_json 'set("compute memory_bound collectives pipeline_idle optimizer other".split()) == set(d["breakdown_us"])'
expect_json 'set("params grads optimizer activations workspace comm".split()) <= set(d["memory_bytes"])'
expect_json 'all(k in d for k in "time_us time_one_device_us bytes_per_device flops params lower_bound_us gap searches search_ms alternatives cost".split())'
expect_json '{"usd_per_hour", "usd_per_step"} <= set(d["cost"]) and d["params"] == 2144 and d["dims"] == {"batch": 8}'
expect_json 'abs(sum(d["breakdown_us"].values()) - d["time_us"]) <= 0.01 * d["time_us"]'
expect_json 'abs(sum(d["memory_bytes"].values()) - d["bytes_per_device"]) <= 8'
expect_json 'd["lower_bound_us"] <= d["time_us"] * (1 + 1e-9)'
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --tp 2 --dp 2 --json
expect_json 'd["chosen"]["tp"] == 2 and d["chosen"]["dp"] == 2'
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --pp 2 --tp 2 --micro-batches 2 --json
expect_json 'd["chosen"]["pp"] == 2 and d["chosen"]["micro_batches"] == 2 and d["chosen"]["micro_batch"] == 4'
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --dim batch=8 --dp 2 --pp 2 --micro-batch 2 --json
expect_json 'd["chosen"]["micro_batch"] == 2 and d["chosen"]["micro_batches"] == 2 and d["chosen"]["dp"] == 2'
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --dim batch=7 --pp 4 --micro-batch 2 --json
expect_json 'd["chosen"]["micro_batches"] == 4 and d["chosen"]["micro_batch"] == 2'
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --dim batch=8 --json; cp out free
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --dim batch=8 --micro-batch 2 --json
check "not the best plan with micro-batches of 2" /usr/bin/python3 -c 'import json; a, b = (json.load(open(f)) for f in ("free", "out"))
assert b["chosen"]["micro_batch"] == 2 and b["time_us"] >= a["time_us"], (a, b)
assert a["chosen"]["micro_batch"] != 2 or b["time_us"] == a["time_us"], (a, b)'
expect 2 "needs a batch of known size" "$apc" plan "$mlp" $small --target cpux4 --micro-batch 2
expect 2 "cannot be combined" "$apc" plan "$mlp" $small --target cpux4 --dim batch=8 --micro-batch 2 --micro-batches 2
expect 3 "tp 4294967297 is not possible" "$apc" plan "$mlp" $small --target cpux4 --tp 4294967297
expect 3 "error[APC04" "$apc" plan "$mlp" $small --target cpux4 --dim batch=8 --tp 3 --micro-batch 2; no_out
expect 3 "error[APC04" "$apc" plan "$mlp" $small --target cpux4 --tp 3; no_out
expect 3 "error[APC0405]" "$apc" plan "$mlp" -q --target cpux2 --memory 1KiB

# a saved plan gives the same plan again
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --tp 4 --save-plan saved.plan --json; cp out first
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --plan saved.plan --json; cp out second
check "a plan read back differs" /usr/bin/python3 -c 'import json; a, b = (json.load(open(f)) for f in ("first", "second"))
assert all(a[k] == b[k] for k in ("chosen", "time_us", "bytes_per_device", "breakdown_us", "memory_bytes")), (a, b)'
check "a plan is its own alternative" /usr/bin/python3 -c 'import json; d = json.load(open("second"))
assert d["alternatives"] and not any(all(x[k] == d["chosen"][k] for k in "tp pp dp ep cp micro_batches".split()) for x in d["alternatives"]), d'
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --plan saved.plan --save-plan again.plan
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --plan saved.plan --save-plan - -q; check "--save-plan - prints another plan" cmp -s out saved.plan
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --save-temps=kept -q; check "plan keeps nothing" test -s kept/mlp.plan -a -s kept/mlp.ir
check "a plan written again differs" diff saved.plan again.plan
# every dump that is a whole module reads back as the same bytes; resnet has prepared weights
resnet="$source_dir/examples/resnet.apc -D depth=18 -D width=4 -D classes=5 -D image=32 -q"
for kind in ir ir:inline ir:views ir:prepare ir:outline spmd; do
  expect 0 "" "$apc" $resnet --target cpux2 --emit=$kind=dump.ir
  expect 0 "" "$(dirname "$apc")/apc-opt" dump.ir; check "--emit=$kind reads back as another text" cmp dump.ir out
done

# types of two bytes have a wider default tolerance
cat >half.apc <<'END'
import nn
dim batch
entry main(x: f16[batch, 64]) {
  for i in 0..12 scope "l{i}" { x = x + linear(gelu(linear(x, 256, std=0.05) as "up"), 64, std=0.05) as "down" }
  output y = softmax(x, axis=-1)
}
END
expect 0 "proved" "$apc" verify half.apc -q --init random --target cpux4 --tp 4
expect 4 "DIFFERS" "$apc" verify half.apc -q --init random --target cpux4 --tp 4 --rtol 1e-4

# with a plan file, contradicting options are errors
expect 0 "" "$apc" plan "$mlp" $small --target cpux4 --plan saved.plan --tp 4
expect 2 "--dp 4 contradicts the plan, which has 1" "$apc" plan "$mlp" $small --target cpux4 --plan saved.plan --dp 4; no_out
expect 2 "error[APC0406]" "$apc" "$mlp" $small --target cpux4 --plan saved.plan --micro-batches 2
expect 3 "the plan needs" "$apc" plan "$mlp" $small --target cpux4 --plan saved.plan --memory 1KiB; no_out

expect 0 "plan of @main" "$apc" inspect saved.plan
expect_out "4 ranks in 1 stage"
expect_out "layers.0.up.dot"
expect 0 "" "$apc" inspect saved.plan --json
expect_json 'd["schema"] == "apc.inspect/1" and d["kind"] == "plan" and d["ranks"] == 4 and d["stages"] == 1 and {x["axis"][:2] for x in d["mesh"]} == {"tp"}'
expect_json 'abs(d["time"]["time_us"] - json.load(open("first"))["time_us"]) < 1 and any(x["glob"] == "layers.0.up.dot" and "tp" in x["strategy"]["c"] for x in d["ops"])'
expect_json 'd["memory"]["bytes_per_device"] == json.load(open("first"))["bytes_per_device"] and d["memory"]["shares"]["weights"] > 0'
sed 's/ranks 4/ranks many/' saved.plan >bad.plan; expect 1 "error[APC0403]" "$apc" inspect bad.plan

# emit: every form, twice the same bytes
for kind in plan ir ir:inline spmd schedule c dot html; do
  expect 0 "" "$apc" "$mlp" $small --target cpux2 --emit=$kind=-; cp out one
  expect 0 "" "$apc" "$mlp" $small --target cpux2 --emit=$kind=-
  if [ $kind = plan ]; then continue; fi # it contains the time of the search
  check "--emit=$kind differs from run to run" diff out one
done
expect 0 "" "$apc" "$gpt" -q --emit=ir:outline=-; expect_out 'call %block0.0, %blocks.0.ln1.weight'; expect_out 'labels=["1"]'
summed="-D d=16 -D hidden=64 -D layers=2 -q --target cpux4 --tp 2 --pp 2" # a product's partial sums are added up
expect 0 "" "$apc" plan "$mlp" $summed --emit=dot=m.dot
check "m.dot is not the graph" /usr/bin/python3 -c 'import re
t = open("m.dot").read()
nodes = set(re.findall(r"^ +([no]\d+) \[", t, re.M)); edges = re.findall(r"^  (\w+) -> (\w+)", t, re.M)
assert t.count("{") == t.count("}") and edges and all(a in nodes and b in nodes for a, b in edges), nodes
assert t.count("subgraph cluster_") == 2 and t.count("style=dashed") == 1 and "{sum:tp} to {}" in t'
expect 0 "" "$apc" plan "$mlp" $summed --emit=html=m.html
check "m.html has another plan" /usr/bin/python3 -c 'import json, re
d = json.loads(re.search(r"id=\"data\">(.*?)</script>", open("m.html").read(), re.S)[1])
x = d["layers"]; column = {n: k for k, n in enumerate(x["columns"])}; axes = [a["name"] for a in x["axes"]]
rows = [[name, *x["facts"][k]] for name, k in x["rows"]]
row = next(r for r in rows if r[0] == "layers.0.down.dot"); partial = x["layouts"][row[column["layout"]]][1]
assert [axes[k] for k in range(len(axes)) if partial >> k & 1] == ["tp"], row
assert [x["comms"][c[0]] for c in row[column["comms"]]] == ["all_reduce"] and dict(d["head"]["degrees"])["pp"] == 2'
expect 0 "" "$apc" "$mlp" $small --emit=ir -o here.ir; check "no here.ir" test -s here.ir
expect 0 "" "$apc" plan here.ir -q --target cpux2
expect 0 "" "$apc" "$mlp" $small --target cpux2 --emit=spmd,plan=p.plan; check "no mlp.spmd.ir" test -s mlp.spmd.ir -a -s p.plan
expect 1 "level 2" "$apc" plan mlp.spmd.ir -q
expect 0 "# after views" "$apc" "$mlp" $small --emit=ir=- --print-after views; expect_err "# after views"
expect 1 "there is no pass 'vews'" "$apc" "$mlp" $small --emit=ir:vews

# the kernels as one file
expect 0 "" "$apc" "$gpt" -q --target cpux2 --emit=c=kernels.c; expect 0 "" cc -std=gnu11 -march=native -fopenmp -w -c kernels.c -o kernels.o
check "one unit only" grep -q "translation unit 2 of" kernels.c

# the program
expect 0 "" "$apc" "$gpt" -q --target cpux4 -o gpt --save-temps=temps
check "no program" test -x gpt
check "no temporaries" test -s temps/gpt-tiny.ir -a -s temps/gpt-tiny.plan -a -s temps/kernels0.c -a -s temps/kernels0.o
check "empty logs are kept" test -z "$(find temps -name '*.log' -empty)"
mkdir elsewhere; expect 0 "" "$apc" "$gpt" -q -o elsewhere/prog --save-temps
check "no gpt-tiny.temps, the folder that --help names" test -s gpt-tiny.temps/gpt-tiny.ir -a -s gpt-tiny.temps/kernels0.c
expect 0 "MODEL.temps here" "$apc" compile --help
expect 0 "" ./gpt --inputs "$gpt_in" --outputs mine.npz
expect 0 "4 in 1 stage" "$apc" inspect gpt
expect 0 "" "$apc" inspect gpt --json; expect_json 'd["kind"] == "program" and d["ranks"] == 4'
expect 0 "" "$apc" run "$gpt" -q --target cpux3 --inputs "$gpt_in" --outputs theirs.npz --expect "$gpt_out"; expect_out "equal"
expect 0 "" "$apc" run "$gpt" -q --inputs "$gpt_in" --expect mine.npz --json --output @logits.npy; check "no output" test -s logits.npy
expect_json 'd["schema"] == "apc.run/1" and d["ok"] and d["expected"][0]["rel_l2"] < 1e-5'
expect 4 "DIFFERS" "$apc" run "$gpt" -q --input tokens=random:7 --dim batch=4 --dim seq=32 --expect "$gpt_out"
expect 0 "" "$apc" run "$gpt" -q --input tokens=random:7 --dim batch=4 --dim seq=32 --expect "$gpt_out" --atol 1000
expect 4 "the model gives f32[2,16," "$apc" run "$gpt" -q --dim batch=2 --dim seq=16 --expect "$gpt_out"; expect_out "f32[4,32,"
expect 1 "no input 'logits'" "$apc" run "$gpt" -q --inputs "$gpt_out"
expect 2 "random:SEED" "$apc" run "$gpt" -q --input tokens=sometimes
expect 1 "" "$apc" run "$gpt" -q --input tokens=@nowhere.npy

# weights: embedded, by reference, from another file
expect 0 "" "$apc" "$gpt" -q --weights ref -o ref; expect 0 "" ./ref --inputs "$gpt_in" --outputs ref.npz
expect 0 "" "$apc" run "$gpt" -q --weights embed --inputs "$gpt_in" --expect ref.npz
/usr/bin/python3 - <<'PY'
import numpy
shapes = {"layers.0.up.w": (16, 32), "layers.0.up.b": (32,), "layers.0.down.w": (32, 16), "layers.0.down.b": (16,)}
numpy.savez("w.npz", **{k: numpy.ones(v, numpy.float32) for k, v in shapes.items()})
numpy.savez("x.npz", x=numpy.ones((1, 16), numpy.float32))
numpy.savez("y.npz", y=numpy.full((1, 16), 17 * 32 + 1, numpy.float32))
numpy.savez("less.npz", **{k: numpy.ones(v, numpy.float32) for k, v in list(shapes.items())[1:]})
PY
expect 0 "" "$apc" convert w.npz ones.safetensors; expect 0 "" "$apc" convert less.npz less.safetensors
one="-D d=16 -D hidden=32 -D layers=1 -q"
expect 0 "equal" "$apc" run "$mlp" $one --target cpux2 --weights ones.safetensors --inputs x.npz --expect y.npz
expect 1 "no tensor 'layers.0.up.w'" "$apc" run "$mlp" $one --weights less.safetensors
expect 1 "error[APC0604]" "$apc" run "$mlp" $small --weights ones.safetensors
expect 1 "no model.safetensors" "$apc" plan "$mlp" $one --weights elsewhere
expect 2 "ref, embed, FILE" "$apc" plan "$mlp" $one --weights nowhere

# verify
expect 0 "proved" "$apc" verify "$gpt" -q --target cpux4 --tp 2 --dp 2 --dim batch=2 --dim seq=16
expect 0 "" "$apc" verify "$gpt" -q --target cpux4 --pp 2 --micro-batches 2 --dim batch=4 --dim seq=16 --json
expect_json 'd["schema"] == "apc.verify/1" and d["ranks"] == 4 and d["proof"] == "proved" and d["ok"] is True'
expect_json 'd["outputs"][0]["name"] == "logits" and d["outputs"][0]["rel_l2"] < 1e-5 and d["outputs"][0]["ok"] and d["reference"]'
expect_json '"max_abs" in d["outputs"][0]'
expect_json '[(p["pass"], p["check"]) for p in d["passes"]][-1] == ("order", "proved") and [p["check"] for p in d["passes"] if p["pass"] in ("views", "recognise")] == ["proved_reals", "proved_reals"]'
expect 0 "proved   passes fold, channels_last: over the real numbers; 3 runs at small sizes, in floats and modulo p" "$apc" verify "$source_dir/examples/resnet.apc" -D depth=18 -D width=4 -D classes=5 -D image=32 --init random --dim batch=2 -q
expect_out "computes the model over the real numbers, for all"
# a proof needs no numbers; a model of several entries is interpreted with the states that they leave
expect 0 "proved   passes fold, channels_last: over the real numbers" "$apc" verify "$source_dir/examples/resnet.apc" -D depth=18 --target dgx-a100x128 --dp 128 --dim-hint batch=128 -q
expect 4 "NOT OK" "$apc" verify "$gpt" -q --target cpux4 --tp 4 --dim batch=2 --dim seq=16 --rtol 0
llama="$source_dir/examples/llama.apc -D cache=1 -D layers=1 -D d=32 -D heads=2 -D ffn=64 -D vocab=64 -D ctx=32"
expect 0 "decode/logits" "$apc" verify $llama -q --target cpux4 --tp 2 --pp 2 --optimize prefill=1,decode=100 --dim batch=2 --dim seq=8 --input at=zeros; expect_out "; reference: "
check "both entries are ok" grep -qx ok out
# the first entry runs, and the prediction is for one call of it
expect 0 "" "$apc" plan $llama -q --json --target cpux2 --optimize decode=1 --dim batch=2 --dim seq=8; cp out both.json
expect 0 "" "$apc" bench $llama -q --json --target cpux2 --optimize decode=1 --dim batch=2 --dim seq=8 --input at=zeros --runs 1 --warmup 0
expect_json 'd["predicted_us"] == json.load(open("both.json"))["entries"][0]["time_us"]'

expect 4 "1 rank against one: relative L2 0, largest difference 0; reference: " "$apc" verify "$mlp" $small -q --rtol 0; expect_out ", above the tolerance"
# bench
expect 0 ", 1 run" "$apc" bench "$mlp" $small --runs 1 --warmup 0 -q; check "1 runs" bash -c "! grep '1 runs' out"
expect 0 "" "$apc" bench "$mlp" $small --target cpux2 --runs 5 --warmup 1 --json
expect_json 'd["schema"] == "apc.bench/1" and d["runs"] == 5 and d["min_us"] <= d["median_us"] <= d["max_us"]'

# convert
expect 0 "" "$apc" convert "$mlp" -D layers=1 m.ir -q; expect 0 "entry main" "$apc" inspect m.ir -q
expect 0 "" "$apc" convert "$gpt_in" w.safetensors
expect 0 "" "$apc" convert w.safetensors back.npz
check "npz to safetensors and back" /usr/bin/python3 -c 'import numpy; a, b = numpy.load("back.npz"), numpy.load("'"$gpt_in"'"); assert (a["tokens"] == b["tokens"]).all()'
expect 0 "" "$apc" convert "$gpt" out.onnx -q; expect 0 "reference" "$apc" verify out.onnx -q --target cpux2

# targets, explain, doctor
expect 0 "cpu " "$apc" targets
expect 0 "" "$apc" targets --json; expect_json 'd["schema"] == "apc.targets/1" and "cpu" in [x["name"] for x in d["targets"]]'
"$apc" targets --names >out; check "--names lacks cpu" grep -qx cpu out
expect 0 "cpux4" "$apc" targets show cpux4
expect 1 "error[APC05" "$apc" targets show cpux65
expect 0 "does not fit" bash -c "'$apc' explain APC0802 && '$apc' explain 0802"
# it opens vendor libraries that leak when they are closed
expect 0 "C compiler" env ASAN_OPTIONS=detect_leaks=0 "$apc" doctor
expect 0 "" env ASAN_OPTIONS=detect_leaks=0 "$apc" doctor --json; expect_json 'd["schema"] == "apc.doctor/1" and d["ok"]'
for name in CPU "shared memory" /dev/shm "C compiler" permissions perf ptrace links MPI GPUs oneDNN NVRTC NCCL "CUDA driver" hwloc NVML; do
  expect_json "sum(c['name'] == '$name' and bool(c['detail']) and bool(c['needed_for']) for c in d['checks']) == 1"
done
expect_json 'all(c["package"] for c in d["checks"] if not c["found"] and c["name"] in ("oneDNN", "NVRTC", "NCCL", "CUDA driver", "MPI", "GPUs", "hwloc", "NVML"))'
expect_json 'all(re.match("[0-9]+[.][0-9]+", c["detail"]) for c in d["checks"] if c["found"] and c["name"] in ("oneDNN", "NVRTC", "NCCL"))'
# a long text for every code: more than its title
codes=$(sed -n 's/^| \(APC[0-9]*\) |.*/\1/p' "$source_dir/docs/status.md")
check "codes are missing" test "$(wc -w <<<"$codes")" -gt 60
for code in $codes; do
  "$apc" explain "$code" >out 2>err
  last="explain $code"; check "the text is no longer than the title" test "$(tail -n +3 out | wc -w)" -ge 16
done

# files that cannot be written or read
expect 1 "error[APC0002]" "$apc" "$mlp" $small -o /nonexistent/x
expect 1 "cannot be written" bash -c "'$apc' --help >/dev/full"

# without the runtime next to apc, or with half of it
mkdir bare; cp "$apc" bare/apc
broken() { # broken WHY
  expect 5 "error[APC0701]" bare/apc "$mlp" $small -o x; expect_err "$1"; expect_err "bare/apcrt-stub"
  expect 5 "MISSING  runtime" env ASAN_OPTIONS=detect_leaks=0 bare/apc doctor; expect_out "$1"
}
broken "No such file"
: >bare/apcrt-stub; broken "not a complete program"
head -c 300000 "$(dirname "$apc")/apcrt-stub" >bare/apcrt-stub; broken "not a complete program"
check "a program was written" test ! -e x
summary 160
