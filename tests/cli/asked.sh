#!/bin/bash
# Queries to the planner about more than the plan: the user's own plans, other hardware, several targets.
. "$(dirname "$0")/lib.sh"
mlp=$source_dir/examples/mlp.apc
gpt=$source_dir/examples/gpt.apc
plan=("$apc" plan "$mlp" -D layers=4 -D d=512 -D hidden=2048 --dim batch=64 --target dgx-a100x4)

# --compare: the numbers shown equal those of the forced plan.
expect 0 "compared" "${plan[@]}" -q --compare tp=4 --compare pp=2,dp=2,micro-batches=2
check "two rows" [ "$(sed -n '/compared/,/one device/p' out | wc -l)" -eq 3 ]
expect 0 "" "${plan[@]}" -q --json --tp 4; cp out tp.json
expect 0 "" "${plan[@]}" -q --json --pp 2 --dp 2 --micro-batches 2; cp out pp.json
expect 0 "" "${plan[@]}" -q --json --compare tp=4 --compare pp=2,dp=2,micro-batches=2
named='[x for x in d["alternatives"] if "compared" in x]'
expect_json "[x['compared'] for x in $named] == ['tp=4', 'pp=2,dp=2,micro-batches=2']"
expect_json "[x['time_us'] for x in $named] == [json.load(open(f))['time_us'] for f in ('tp.json', 'pp.json')]"
expect_json "[x['bytes_per_device'] for x in $named] == [json.load(open(f))['bytes_per_device'] for f in ('tp.json', 'pp.json')]"
expect_json "$named[1]['pp'] == 2 and $named[1]['dp'] == 2 and $named[1]['micro_batches'] == 2"
# The plan is the same as without it.
expect_json 'd["time_us"] <= min(x["time_us"] for x in d["alternatives"])'
chosen=$(/usr/bin/python3 -c 'import json; d=json.load(open("out")); print(d["time_us"], d["chosen"])')
expect 0 "" "${plan[@]}" -q --json
check "the same plan" [ "$(/usr/bin/python3 -c 'import json; d=json.load(open("out")); print(d["time_us"], d["chosen"])')" = "$chosen" ]
# An impossible plan is shown with the reason; the others are shown all the same.
expect 0 "tp 3 would leave 1 of the 4 ranks of dgx-a100x4 idle" "${plan[@]}" -q --compare tp=3 --compare dp=4
expect_out "tp=3"
expect 0 "" "${plan[@]}" -q --json --compare tp=3
expect_json "$named[0]['time_us'] is None and 'idle' in $named[0]['why_not']"
# Of a training step: schedules, ZeRO, recomputation.
step=("$apc" plan "$gpt" -D layers=2 -D d=128 -D heads=4 -D vocab=512 -D ctx=64 --dim seq=64 --train cross_entropy --batch 8 --target dgx-a100x2 -q --json)
expect 0 "" "${step[@]}" --compare pp=2,micro-batches=4,schedule=zbh1 --compare dp=2,zero=1,recompute=full
expect_json "[x['schedule'] for x in $named][0] == 'zbh1' and $named[1]['zero'] == 1 and $named[1]['recompute'] == 'full'"
cp out step.json
expect 0 "" "${step[@]}" --dp 2 --zero 1 --recompute full
expect_json "d['time_us'] == [x for x in json.load(open('step.json'))['alternatives'] if x.get('compared')][1]['time_us']"
# With a plan that is read from a file.
expect 0 "" "${plan[@]}" -q --tp 2 --dp 2 --save-plan a.plan
expect 0 "compared" "${plan[@]}" -q --plan a.plan --compare tp=4
# Faults in it are reported.
expect 2 "a plan has no 'tq'" "${plan[@]}" --compare tq=2; no_out
expect_err "the nearest is 'tp'"
expect 2 "tp takes a whole number from 1, not 'many'" "${plan[@]}" --compare tp=many; no_out
expect 2 "--compare takes NAME=VALUE,..." "${plan[@]}" --compare tp; no_out
expect 2 "--compare takes NAME=VALUE,..." "${plan[@]}" --compare tp=2,,pp=2; no_out
expect 2 "need --train" "${plan[@]}" --compare dp=4,zero=1; no_out
expect 2 "zero takes 0, 1, 2 or 3, not '4'" "${step[@]}" --compare zero=4
expect 2 "schedule takes gpipe" "${step[@]}" --compare schedule=best
expect 2 "recompute takes none" "${step[@]}" --compare recompute=some
expect 2 "tp is given twice" "${plan[@]}" --compare tp=2,tp=4; no_out
expect 2 "--compare takes NAME=VALUE,..." "${plan[@]}" --compare tp=2,; no_out
expect 2 "micro-batch and micro-batches cannot be combined" "${plan[@]}" --compare micro-batch=1,micro-batches=2; no_out
# Options of one compared plan do not affect the next one.
expect 0 "" "${step[@]}" --compare dp=2 --compare dp=2,recompute=full --compare dp=2,recompute=none
expect_json "[x['recompute'] for x in $named][1:] == ['full', 'none'] and $named[1]['time_us'] > $named[2]['time_us'] and $named[0]['time_us'] <= $named[2]['time_us']"
# A plan that fits only by its Program's memory is accepted here as well.
tight=("$apc" plan "$mlp" -D layers=2 -D d=64 -D hidden=256 --dim batch=64 --target cpux4 -q --json --memory 100KB)
expect 0 "" "${tight[@]}" --tp 4; cp out tight.json
expect 0 "" "${tight[@]}" --compare tp=4
expect_json "$named[0]['bytes_per_device'] <= 100e3"
expect 0 "" "$apc" plan "$mlp" -D layers=2 --target cpux4 -q --compare micro-batch=1
expect_out "needs a batch of known size"
expect 2 "takes no option '--compare'" "$apc" compile "$mlp" --compare tp=2; no_out

# --what-if: each figure alone, then all together; equal to a target file with that figure.
expect 0 "what if" "${plan[@]}" -q --what-if 'nvlink*2,compute*2'
expect_out "nvlink*2,compute*2"
expect 0 "" "${plan[@]}" -q --json --what-if 'compute*2' --what-if 'bandwidth*2,nvlink*2'
expect_json '[x["what"] for x in d["what_if"]] == ["compute*2", "bandwidth*2", "nvlink*2", "compute*2,bandwidth*2,nvlink*2"]'
expect_json 'all(x["saves"] >= -1e-9 and abs(x["saves"] - 1 + x["time_us"] / d["time_us"]) < 1e-9 for x in d["what_if"])'
expect_json 'd["what_if"][3]["time_us"] <= min(x["time_us"] for x in d["what_if"])'
saved=$(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["what_if"][1]["time_us"])')
expect 0 "" "${plan[@]}" -q --json --what-if 'compute*1,memory*1,nvlink*1,launch*1,bandwidth*1'
expect_json 'len(d["what_if"]) == 6 and all(x["saves"] == 0 and x["time_us"] == d["time_us"] for x in d["what_if"])'
expect 0 "" "${tight[@]}" --what-if 'compute*1'
expect_json 'd["what_if"][0]["saves"] == 0'
expect 0 "" "${plan[@]}" -q --json --objective memory --slower 300% --what-if 'compute*1'
expect_json 'd["what_if"][0]["saves"] == 0'
expect 2 "--memory fixes the limit" "${tight[@]}" --what-if 'memory*2'
expect 2 "with factors from 0.001 to 1000" "${plan[@]}" --what-if 'compute*1e9'; no_out
"$apc" targets show dgx-a100x4 >twice.topo
/usr/bin/python3 - <<'PY'
import re
text = open("twice.topo").read()
doubled = re.sub(r"(\d[\d.]*) (TB|GB)/s(?=[^\n]*(?:\n|$))", lambda m: f"{2 * float(m[1]):g} {m[2]}/s" if "memory" in text[text.rfind("\n", 0, m.start()) + 1:m.start()] else m[0], text)
open("twice.topo", "w").write(doubled)
PY
expect 0 "" "$apc" plan "$mlp" -D layers=4 -D d=512 -D hidden=2048 --dim batch=64 --target ./twice.topo -q --json
expect_json "abs(d['time_us'] / $saved - 1) < 1e-9"
# Less memory than the model needs is a row with its reason.
expect 0 "no feasible plan" "${plan[@]}" -q --what-if 'memory*0.001'
expect 0 "" "${plan[@]}" -q --json --what-if 'memory*0.001'
expect_json 'd["what_if"][0]["time_us"] is None and d["what_if"][0]["saves"] is None and "memory" in d["what_if"][0]["why_not"]'
expect 0 "" "$apc" plan "$mlp" -D layers=2 --target dgx-a100x16 -q --json --what-if 'network*2'
expect_json 'd["what_if"][0]["what"] == "network*2" and d["what_if"][0]["time_us"] <= d["time_us"]'
expect 2 "has no figure 'nvlonk'" "${plan[@]}" --what-if 'nvlonk*2'; no_out
expect_err "the nearest is 'nvlink'"
expect 2 "has no figure 'network'" "${plan[@]}" --what-if 'network*2'; no_out
expect 2 "--what-if takes FIGURE*FACTOR" "${plan[@]}" --what-if nvlink; no_out
expect 2 "--what-if takes FIGURE*FACTOR" "${plan[@]}" --what-if 'nvlink*0'; no_out

# --why: the plan's choice, and others with everything else fixed.  A plan file with that choice takes as long.
two=("$apc" plan "$gpt" -D layers=2 -D d=64 -D heads=4 -D vocab=256 -D ctx=32 --dim seq=32 --dim batch=8 --target dgx-a100x4 --tp 4 -q)
expect 0 "why layers.0.mlp.fc.dot (dot)" "${two[@]}" --why layers.0.mlp.fc.dot --why layers.1.attn.out.dot
expect_out "next best"
expect 0 "" "${two[@]}" --json --why layers.0.mlp.fc.dot --save-plan own.plan
expect_json 'd["why"][0]["name"] == "layers.0.mlp.fc.dot" and d["why"][0]["choices"][0]["step_us"] == d["time_us"]'
expect_json 'sorted(c["step_us"] for c in d["why"][0]["choices"][1:]) == [c["step_us"] for c in d["why"][0]["choices"][1:]]'
expect_json 'all(abs(c["conversions_us"] - sum(m["time_us"] for m in c["moves"])) < 1e-9 for c in d["why"][0]["choices"])'
expect_json 'len(d["why"][0]["choices"]) > 2 and d["why"][0]["possible"] >= len(d["why"][0]["choices"])'
cp out why.json
for k in 1 2; do
  other=$(/usr/bin/python3 -c 'import json,sys; print(json.load(open("why.json"))["why"][0]["choices"][int(sys.argv[1])]["strategy"])' $k)
  { cat own.plan; echo "op \"layers.0.mlp.fc.dot\" $other"; } >other.plan
  expect 0 "" "${two[@]}" --json --plan other.plan
  expect_json "abs(d['time_us'] / json.load(open('why.json'))['why'][0]['choices'][$k]['step_us'] - 1) < 1e-9"
done
# Two plan files: the line that differs, with the meaning and the predictions of both.
expect 0 "1 line of strategies differs" "$apc" inspect own.plan other.plan
expect 0 "" "$apc" inspect own.plan other.plan --json
expect_json 'd["kind"] == "plans" and d["same_model"] and [x["glob"] for x in d["differences"]] == ["layers.0.mlp.fc.dot"]'
expect_json "d['differences'][0]['to'] == json.load(open('why.json'))['why'][0]['choices'][2]['strategy'] and d['differences'][0]['from'] == json.load(open('why.json'))['why'][0]['choices'][0]['strategy']"
expect_json "abs(d['files'][0]['time_us'] - json.load(open('why.json'))['time_us']) < 1"
printf 'op "l.*.fc" {n:tp, m:dp}\nop "l.*.up" {n:tp}\n' >lines; printf 'op "l.*.fc" {m:dp, n:tp}\nop "l.0.up" {n:tp}\nop "l.1.up" {n:dp}\n' >others
head='apc.plan 1\ngraph @main 0000000000000001\ntarget t ranks 4\nmesh [dp=2, tp=2] stages 1\n'
{ printf "$head"; cat lines; } >x.plan; { printf "$head"; cat others; } >y.plan
expect 0 "" "$apc" inspect x.plan y.plan --json
expect_json '[(x["glob"], x["from"], x["to"]) for x in d["differences"]] == [("l.1.up", "{n:tp}", "{n:dp}")]'
expect 0 "0 lines of strategies differ" "$apc" inspect own.plan own.plan
expect 2 "only two plans can be compared" "$apc" inspect own.plan why.json; no_out
expect 1 "cannot" "$apc" inspect own.plan none.plan; no_out
expect 2 "" "$apc" inspect own.plan own.plan own.plan; no_out
# A gradient follows the operation of the forward pass.
expect 0 "" "${step[@]}" --why layers.0.mlp.fc.dot.grad.dot
expect_json 'd["why"][0]["follows"] == "layers.0.mlp.fc.dot" and d["why"][0]["followers"] > 0 and d["why"][0]["choices"][0]["step_us"] == d["time_us"]'
expect 2 "no operation of the model has that name" "${two[@]}" --why layers.0.mlp.fc.dit; no_out
expect_err "the nearest is 'layers.0.mlp.fc.dot'"

# --pin: values are cut as the user wants, and the cost of each pin is printed.
expect 0 "" "${two[@]}" --json; cp out free.json
expect 0 "" "${two[@]}" --json --pin 'layers.*.mlp.fc:2=none' --pin 'layers.0.attn.q:1=tp' --why layers.0.mlp.fc --why layers.1.mlp.fc
expect_json "all('x2' not in w['choices'][0]['strategy'] for w in d['why']) and d['time_us'] > json.load(open('free.json'))['time_us']"
expect_json "[p['pin'] for p in d['pins']] == ['layers.*.mlp.fc:2=none', 'layers.0.attn.q:1=tp']"
expect_json "d['pins'][0]['without_us'] == json.load(open('free.json'))['time_us'] and d['pins'][1]['without_us'] == d['time_us'] == d['pins'][1]['with_us']"
expect 0 "pinned" "${two[@]}" --pin 'layers.*.mlp.fc:-1=none'
# A pin on the plan's own choice costs nothing, and gives the same plan.
expect 0 "costs 0, +0.0 %" "${two[@]}" --pin 'layers.*.mlp.fc:2=tp'
expect 0 "" "${two[@]}" --json --pin 'layers.*.mlp.fc:2=tp'
expect_json "d['time_us'] == json.load(open('free.json'))['time_us']"
# Without forced degrees a dimension can be left whole; in a training step gradients follow.
expect 0 "" "$apc" plan "$mlp" -D layers=2 --dim batch=64 --target dgx-a100x4 -q --json --pin '*:0=none'
expect_json 'd["chosen"]["dp"] == 1'
expect 0 "" "${step[@]}" --tp 2 --pin 'layers.*.mlp.fc.dot:2=none' --save-plan pinned.plan
check "no product has its columns cut" [ "$(grep -E 'mlp[.]fc[.]dot" ' pinned.plan | grep -c 'd:tp')" -eq 0 ]
# It holds for programs: the ranks compute the same numbers.
expect 0 "" "$apc" verify "$mlp" -D layers=2 -D d=16 -D hidden=32 --dim batch=4 --target cpux2 --tp 2 --seed 1 -q --pin 'layers.0.up:1=none'
# Impossible pins are refused.
expect 3 "cannot be cut as --pin" "${two[@]}" --pin 'layers.0.mlp.fc:2=tp' --pin 'layers.0.mlp.fc:0=none' --pin 'layers.0.mlp.fc.dot:2=none' --pin 'logits:2=none' --pin 'tokens:0=tp'
expect 2 "needs --tp N" "$apc" plan "$gpt" --target cpux4 --pin 'layers.0.mlp.fc:2=tp'; no_out
expect 2 "contradict each other for layers.0.mlp.fc" "${two[@]}" --pin 'layers.*.mlp.fc:2=tp' --pin 'layers.0.mlp.fc:1=tp'; no_out
expect 2 "layers.0.mlp.fc has 3 dimensions" "${two[@]}" --pin 'layers.0.mlp.fc:3=tp'; no_out
expect 2 "no operation of the model matches" "${two[@]}" --pin 'layers.0.mlp.fcx:2=tp'; no_out
expect_err "the nearest is"
expect 2 "change the lines of the file instead" "${two[@]}" --plan own.plan --pin 'layers.0.mlp.fc:2=tp'; no_out
expect 2 "has no layout of its own" "${two[@]}" --pin 'layers.0.attn.a.iota:0=tp'; no_out
expect 0 "pinned" "${two[@]}" --pin '*:0=none'
for pin in nothing layers.0.x:=tp layers.0.x=tp layers.0.x:one=tp layers.0.x:-0=tp ':0=tp'; do expect 2 "--pin takes 'GLOB:dim=axis'" "${two[@]}" --pin "$pin"; done
expect 2 "an axis is tp, dp, ep, cp or none, not 'tq'" "${two[@]}" --pin 'layers.0.mlp.fc:2=tq'; no_out

# Several targets: one row each, equal to a run for that target alone.
expect 0 "on 3 targets" "$apc" plan "$mlp" -D layers=2 --target cpux2,dgx-a100x2,aws-p5.48xlarge -q
check "three rows" [ "$(grep -Ec '^  (cpux2|dgx-a100x2|aws-p5.48xlarge) ' out)" -eq 3 ]
expect 0 "" "$apc" plan "$mlp" -D layers=2 --target cpux2,dgx-a100x2,aws-p5.48xlarge -q --json; cp out three.json
expect_json 'd["schema"] == "apc.plans/1" and [x["target"]["name"] for x in d["targets"]] == ["cpux2", "dgx-a100x2", "aws-p5.48xlarge"]'
expect_json 'd["targets"][2]["cost"]["usd_per_step"] > 0 and d["targets"][1]["joules_per_step"] > 0 and d["targets"][0]["joules_per_step"] is None'
expect 0 "" "$apc" plan "$mlp" -D layers=2 --target dgx-a100x2 -q --json
expect_json 'd["time_us"] == json.load(open("three.json"))["targets"][1]["time_us"] and d["chosen"] == json.load(open("three.json"))["targets"][1]["chosen"]'
# A target that is too small is a row; if all are, it is an error.
expect 0 "no feasible plan for dgx-a100x1" "$apc" plan "$gpt" -D layers=48 -D d=16384 -D heads=128 --dtype bf16 --target dgx-a100x1,dgx-a100x8 -q
expect 3 "no feasible plan" "$apc" plan "$mlp" --target cpux2,cpux4 --memory 1MB -q
expect 1 "there is no target 'cpuxx'" "$apc" plan "$mlp" --target cpux2,cpuxx -q; no_out
expect 2 "a name between commas is empty" "$apc" plan "$mlp" --target cpux2,,cpux4 -q; no_out
expect 2 "a name between commas is empty" "$apc" plan "$mlp" --target cpux2, -q; no_out
expect 2 "--compare needs one target" "$apc" plan "$mlp" --target cpux2,cpux4 --compare tp=2 -q; no_out
expect 2 "--save-plan needs one target" "$apc" plan "$mlp" --target cpux2,cpux4 --save-plan a.plan -q; no_out
expect 1 "no target 'cpux2,cpux4'" "$apc" compile "$mlp" --target cpux2,cpux4 -q
cp twice.topo a,b.topo
expect 0 "" "$apc" plan "$mlp" -D layers=2 --target a,b.topo -q

# --objective memory: the least memory among plans that are fast enough.  A limit slightly below it leaves no such plan.
small=("$apc" plan "$mlp" -D layers=2 -D d=64 -D hidden=256 --dim batch=64 --target cpux4 -q)
expect 0 "" "${small[@]}" --json; cp out fastest.json
expect 0 "" "${small[@]}" --json --objective memory --slower 300%; cp out least.json
expect_json "d['bytes_per_device'] < json.load(open('fastest.json'))['bytes_per_device']"
expect_json "d['objective']['fastest_us'] == json.load(open('fastest.json'))['time_us'] and d['time_us'] <= 4 * d['objective']['fastest_us']"
expect_json "(d['objective']['lower_bound_bytes'] or 0) <= d['counted_bytes'] and d['objective']['fastest_bytes'] >= d['counted_bytes']"
expect_json "any(x['time_us'] == d['objective']['fastest_us'] for x in d['alternatives'])"
below=$(/usr/bin/python3 -c 'import json; d=json.load(open("least.json")); print(int(d["counted_bytes"] * 0.97))')
"${small[@]}" --json --memory "$below" >out 2>err
expect_json "'time_us' not in d or d['time_us'] > 4 * json.load(open('fastest.json'))['time_us'] or d['counted_bytes'] > $below"
expect 0 "the least memory of plans up to 300 % slower" "${small[@]}" --objective memory --slower 300%
expect 0 "" "${small[@]}" --objective memory --slower 300% --save-plan least.plan
expect 0 "" "${small[@]}" --plan least.plan --json
expect_json "d['time_us'] == json.load(open('least.json'))['time_us'] and d['bytes_per_device'] == json.load(open('least.json'))['bytes_per_device']"
expect 0 "none of them takes less than about" "${plan[@]}" -q --objective memory
expect 0 "" "${plan[@]}" -q --objective memory --json
expect_json "0.9 < d['objective']['lower_bound_bytes'] / d['counted_bytes'] <= 1"
expect 2 "--slower takes a percentage like 10%, up to 10000%, not '80GiB'" "${small[@]}" --objective memory --slower 80GiB; no_out
expect 2 "--slower needs --objective memory" "${small[@]}" --slower 10%; no_out
expect 2 "--objective memory and --plan cannot be combined: both determine the plan" "${small[@]}" --objective memory --plan least.plan; no_out

# --objective throughput: replicas, each on the best number of devices.  A rank of cpux4 has a quarter of the machine.
wide=("$apc" plan "$mlp" -D layers=4 -D d=512 -D hidden=2048 --dim batch=64 -q)
full=("${wide[@]}" --target cpux4 --objective throughput)
expect 0 "" "${wide[@]}" --target cpux4 --json; cp out latency.json
expect 0 "" "${full[@]}" --json; cp out full.json
expect_json 'd["target"]["name"] == "cpux4" and d["target"]["gpus"] == 4 and d["time_us"] == json.load(open("latency.json"))["time_one_device_us"]'
expect_json '[d["objective"][k] for k in ("maximises", "target", "replicas", "devices_per_replica", "devices", "idle_devices", "unit", "per_step", "max_latency_us")] == ["throughput", "cpux1", 4, 1, 4, 0, "samples", 64, None]'
expect_json 'abs(d["objective"]["per_s"] * d["objective"]["period_us"] / (4 * 64e6) - 1) < 1e-9 and d["objective"]["upper_bound_per_s"] >= d["objective"]["per_s"] and 0 <= d["objective"]["gap"] < 0.01'
expect 0 "4 replicas of 1 of the 4 devices" "${full[@]}"
expect_out "one device: a rank of cpux4"
expect_out "upper bound"
# A limit that binds takes more devices per replica, and gives no more throughput.
expect 0 "" "${full[@]}" --max-latency 12ms --json
expect_json 'd["time_us"] <= 12000 and d["objective"]["devices_per_replica"] > 1 and d["objective"]["max_latency_us"] == 12000'
expect_json 'd["objective"]["per_s"] <= json.load(open("full.json"))["objective"]["per_s"] and d["objective"]["per_s"] <= d["objective"]["upper_bound_per_s"]'
expect 0 "of plans that take at most 12.0 ms a batch" "${full[@]}" --max-latency 12ms
# Stages begin the next batch as soon as they are free: the busiest one decides.
expect 0 "" "${full[@]}" --pp 2 --json; cp out stages.json
expect_json 'd["objective"]["replicas"] == 2 and d["objective"]["devices_per_replica"] == 2 and d["time_us"] > 1.5 * d["objective"]["period_us"]'
expect_json 'abs(sum(v for k, v in d["breakdown_us"].items() if k != "pipeline_idle") / d["objective"]["period_us"] - 1) < 1e-9'
expect_json 'd["lower_bound_us"] <= d["objective"]["period_us"] and all(x["period_us"] <= x["time_us"] * (1 + 1e-9) for x in d["alternatives"])'
expect 0 "" "${full[@]}" --pp 2 --save-plan stages.plan
check "its own target" grep -q '^target cpux2 ranks 2$' stages.plan
expect 0 "" "${wide[@]}" --target cpux2 --plan stages.plan --json
expect_json 'd["chosen"] == json.load(open("stages.json"))["chosen"] and d["bytes_per_device"] == json.load(open("stages.json"))["bytes_per_device"]'
expect 0 "2 ranks against one" "$apc" verify "$mlp" -D layers=2 -D d=64 -D hidden=128 --dim batch=8 -q --target cpux4 --objective throughput --pp 2
expect_out "proved"
expect 0 "" "${full[@]}" --tp 2 --json
expect_json 'd["chosen"]["tp"] == 2 and d["objective"]["devices_per_replica"] % 2 == 0'
# Training steps run one after another: all devices work on one.
expect 0 "" "${step[@]}" --objective throughput
expect_json 'd["objective"]["replicas"] == 1 and d["objective"]["devices"] == 2 and d["objective"]["period_us"] == d["time_us"]'
one=$(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["time_us"])')
expect 0 "" "${step[@]}"
expect_json "d['time_us'] == $one"
# --objective cost: the money of a step, from the prices of its devices.
cat >quads.topo <<'TOPO'
machine quads {
  devices 4 A100-SXM4-40GB;
  link nvlink at 300 GB/s latency 3 us;
  network ethernet 1 at 25 Gbit/s latency 15 us;
  price 12 USD/h "made up" 2026-01-01;
}
TOPO
cheap=("${wide[@]}" --target quads.topox8 --objective cost)
expect 0 "" "${cheap[@]}" --json
expect_json 'd["objective"]["minimises"] == "cost" and d["objective"]["devices"] == 1 and d["objective"]["target"] == "quads.topox1" and d["cost"]["usd_per_hour"] == 3'
expect_json 'abs(d["objective"]["usd_per_million"] * 64e-6 / d["cost"]["usd_per_step"] - 1) < 1e-9 and d["objective"]["lower_bound_usd_per_million"] <= d["objective"]["usd_per_million"]'
# Each listed alternative is better in time, memory or money than all others.
expect 0 "" "${cheap[@]}" --memory 20MB --json
expect_json 'len(d["alternatives"]) > 0 and d["objective"]["devices"] > 1'
points='[(x["time_us"], x["bytes_per_device"], x["devices_per_replica"] * x["period_us"]) for x in d["alternatives"] + [dict(d, **d["objective"])]]'
expect_json "(lambda p: not any(a != b and all(i <= j for i, j in zip(a, b)) for a in p for b in p))($points)"
expect 0 "USD/M samples" "${cheap[@]}" --memory 20MB
expect 0 "" "${small[@]}" --json --objective memory --slower 300%
expect_json "(lambda p: not any(a != b and a[0] <= b[0] and a[1] <= b[1] for a in p for b in p))([(x['time_us'], x['bytes_per_device']) for x in d['alternatives'] + [d]])"
expect 0 "8 x (" "${wide[@]}" --target quads.topox8,cpux4 --objective throughput --tokens 1e6
expect_out "samples/s"
expect 0 "" "${wide[@]}" --target quads.topox8,cpux4 --objective throughput --tokens 1e6 --json
expect_json 'all(abs(x["run"]["hours"] * 3600 * x["objective"]["per_s"] / x["run"]["seen"] - 1) < 1e-9 for x in d["targets"]) and d["targets"][0]["run"]["machines"] == 2'
# Conflicting options, and requests without a plan.
expect 3 "no plan for cpux4 takes at most 1.00 ms a batch: the fastest plan found takes" "${full[@]}" --max-latency 1ms; no_out
expect 1 "--objective cost: the price of cpux4 is not known" "${wide[@]}" --target cpux4 --objective cost; no_out
expect 2 "--max-latency needs --objective throughput or cost" "${wide[@]}" --target cpux4 --max-latency 1s; no_out
expect 2 "--objective throughput and --plan cannot be combined: both determine the plan" "${full[@]}" --plan stages.plan; no_out
expect 2 "--what-if cannot be combined with --objective throughput" "${full[@]}" --what-if 'compute*2'; no_out
expect 2 "--compare cannot be combined with --objective cost" "${cheap[@]}" --compare tp=2; no_out
expect 2 "--pin cannot be combined with --objective" "${full[@]}" --tp 2 --pin '*:0=none'; no_out
expect 3 "tp 3 would leave 1 of the 4 ranks of cpux4 idle" "${full[@]}" --tp 3; no_out
expect 2 "takes no option '--max-latency'" "$apc" size "$mlp" --max-latency 1s; no_out

# A run of many steps: its numbers follow from the plan's time and the target's price and power.
run=("$apc" plan "$gpt" -D layers=1 -D d=64 -D heads=2 -D vocab=128 -D ctx=32 --dim seq=32 --dim batch=4 --dtype f16 --target aws-p3.16xlargex32 --tp 1 --pp 1 --dp 4 --cp 8 -q)
expect 0 "846,029 USD (AWS on-demand us-east-1" "${run[@]}" --hours 8640
expect_out "on 4 machines"
expect_out "34560.0 machine-hours"
expect 0 "" "${run[@]}" --hours 8640 --json
expect_json 'd["run"]["unit"] == "tokens" and d["run"]["per_step"] == 128 and abs(d["run"]["usd"] - 846028.8) < 1e-6'
expect_json 'abs(d["run"]["steps"] * d["time_us"] / (8640 * 3600e6) - 1) < 1e-9 and abs(d["run"]["usd_per_million"] - d["run"]["usd"] / d["run"]["seen"] * 1e6) < 1e-9'
expect_json 'abs(d["run"]["kwh_at_most"] - 32 * 0.3 * 8640) < 1e-6 and abs(d["run"]["utilisation"] - d["flops"] / d["time_us"] * 1e6 / d["run"]["peak_flops_per_s"]) < 1e-12'
expect_json 'abs(d["run"]["mfu"] * d["run"]["peak_flops_per_s"] * d["time_us"] * 1e-6 / (24 * 128 * 64**2 + 4 * 4 * 32**2 * 64 + 2 * 128 * 64 * 128) - 1) < 1e-9'
expect 0 "" "${run[@]}" --tokens 1e9 --json
expect_json 'd["run"]["steps"] == 7812500 and d["run"]["seen"] == 1e9 and abs(d["run"]["hours"] - 7812500 * d["time_us"] / 3600e6) < 1e-6 * d["run"]["hours"]'
expect 0 "samples: 125,000 steps of 8," "$apc" plan "$mlp" -D layers=1 --target cpux2 -q --tokens 1e6
expect 0 "" "$apc" plan "$mlp" -D layers=1 --target cpux2 -q --tokens 1e6 --json
expect_json 'd["run"]["usd"] is None and d["run"]["kwh_at_most"] is None and d["run"]["unit"] == "samples"'
expect 0 " days " "$apc" plan "$mlp" -D layers=1 --target cpux2,aws-p5.48xlarge -q --tokens 1e9
expect 0 "" "$apc" plan "$mlp" -D layers=1 --target cpux2,aws-p5.48xlarge -q --tokens 1e9 --json
expect_json 'd["targets"][1]["run"]["usd"] > 0 and d["targets"][0]["run"]["usd"] is None'
expect 0 "" "$apc" plan "$mlp" -D layers=1 --target cpux2 -q --json
expect_json '"run" not in d and "what_if" not in d'
expect 2 "--tokens takes a number above 0" "$apc" plan "$mlp" --target cpux2 --tokens 0; no_out
expect 2 "--tokens and --hours cannot be combined" "$apc" plan "$mlp" --target cpux2 --tokens 1e9 --hours 3; no_out
# The price of another cluster: by the list, on other terms, or given by the user; unknown prices are left out.
g5=("${run[@]/aws-p3.16xlargex32/aws-g5.48xlargex32}" --hours 8640)
expect 0 "562,913 USD (AWS on-demand us-east-1, 2026-07-20)" "${g5[@]}"
expect 0 "562,982 USD (--price)" "${g5[@]}" --price 16.29usd
expect 0 "" "${g5[@]}" --price reserved --json
expect_json 'abs(d["run"]["usd"] - 10.26144 * 34560) < 1e-6 and d["cost"]["price"] == "reserved" and d["cost"]["date"] == "2025-11-30"'
expect 0 "the spot price of aws-g5.48xlargex32 is not known: no cost" "${g5[@]}" --price spot
expect 0 "" "${g5[@]}" --price spot --json
expect_json 'd["run"]["usd"] is None and d["cost"] == {"usd_per_hour": None, "usd_per_step": None, "price": "spot", "terms": None, "date": None}'
expect 0 "10.00 USD an hour (Nebius preemptible, 2026-05-18)" "$apc" plan "$mlp" --dtype bf16 --target nebius-h100 --price spot -q
expect 2 "--price takes on-demand, spot, reserved, or" "${g5[@]}" --price cheap; no_out
expect 0 "no spot price is known for aws-g5.48xlarge" "$apc" plan "$mlp" --dtype bf16 --target aws-g5.48xlarge,nebius-h100 --price spot -q
expect 1 "--budget 1usd: the spot price of aws-g5.48xlarge is not known" "$apc" size "$mlp" --dtype bf16 --target aws-g5.48xlarge --budget 1usd --price spot -q; no_out
# A measured step: the run follows from it.
expect 0 "" "${run[@]}" --tokens 1e9 --step-time 36ms --json
expect_json 'abs(d["run"]["hours"] - 7812500 * 0.036 / 3600) < 1e-9 and abs(d["run"]["flops_per_s"] - d["flops"] / 0.036) < 1 and d["time_us"] < 36e3'
expect 2 "--step-time needs --tokens N or --hours H" "${run[@]}" --step-time 36ms; no_out
expect 2 "--step-time takes a time like 102.4s" "${run[@]}" --hours 1 --step-time 5; no_out
# Energy: the device's power at work, idle power while it waits; at most full power if these are unknown.
printf '%s\n' 'gpu g { memory 8 GB at 1 TB/s; launch 2 us; peak f32 1 TFLOPS; power 300 W idle 50 W; }' \
  'machine m { devices 2 g; link n at 30 GB/s latency 5 us; price 2 USD/h "home" 2026-01-01; price 1 USD/h "at night" 2026-01-02 as spot; }' >waits.topo
sed 's/ idle 50 W//' waits.topo >unknown.topo
pipe=("$apc" plan "$mlp" -D layers=2 -D d=256 -D hidden=512 --dim batch=64 --pp 2 --micro-batches 2 -q)
expect 0 "" "${pipe[@]}" --target ./waits.topo --json
expect_json 'd["energy"]["busy"] < 0.9 and not d["energy"]["at_most"] and abs(d["energy"]["busy"] - d["energy"]["computing"] - d["energy"]["communicating"]) < 1e-9'
expect_json 'abs(d["energy"]["joules_per_step"] / (2e-6 * d["time_us"] * (300 * d["energy"]["busy"] + 50 * (1 - d["energy"]["busy"]))) - 1) < 1e-9'
expect_json 'abs(d["energy"]["joules_per_million"] / (d["energy"]["joules_per_step"] / 64 * 1e6) - 1) < 1e-9 and d["energy"]["unit"] == "samples"'
expect 0 "" "${pipe[@]}" --target ./unknown.topo --json
expect_json 'd["energy"]["at_most"] and abs(d["energy"]["joules_per_step"] / (600e-6 * d["time_us"]) - 1) < 1e-9 and d["energy"]["idle_watts"] is None'
expect 0 "(300 W at work, 50 W idle)" "${pipe[@]}" --target ./waits.topo --tokens 1e6 --price spot
expect_out "(at night, 2026-01-02) for"
expect 0 "energy at most" "${pipe[@]}" --target ./unknown.topo --tokens 1e6
expect 0 "" "${pipe[@]}" --target ./waits.topo,./unknown.topo --price spot --tokens 1e6 --json
expect_json 'd["targets"][0]["joules_per_step"] < d["targets"][1]["joules_per_step"] and d["targets"][0]["cost"]["usd_per_hour"] == 1 and d["targets"][0]["run"]["kwh"] < d["targets"][0]["run"]["kwh_at_most"]'
expect 0 "" "$apc" plan "$mlp" -D layers=1 --target cpux2 -q --json
expect_json 'd["energy"] is None'

# --optimize: entries together.  Many tokens should be divided among ranks; for one at a time the weights should.
cache=("$source_dir/examples/llama.apc" -D cache=1 -D layers=1 -D vocab=512 -D ctx=512 --dim batch=8 --dim seq=512 --dtype bf16)
both=("$apc" plan "${cache[@]}" --target dgx-h100x2 -q --json)
sum='sum(x["weight"] * x["time_us"] for x in d["entries"])'
expect 0 "planned for prefill alone, with which decode takes" "$apc" plan "${cache[@]}" --target dgx-h100x2 -q
expect_out "--optimize prefill=1,decode=100 plans both"
expect 0 "" "${both[@]}"; cp out alone.json
expect_json '[(x["name"], x["weight"]) for x in d["entries"]] == [("prefill", 1), ("decode", 0)] and d["entries"][0]["time_us"] == d["time_us"] and d["entries"][1]["time_us"] > 0'
expect 0 "" "${both[@]}" --optimize prefill=1; cp out first.json
expect_json 'abs(d["time_us"] / json.load(open("alone.json"))["time_us"] - 1) < 1e-3 and d["gap"] < 1e-2'
expect 0 "" "${both[@]}" --optimize decode=1; cp out last.json
expect_json 'd["entries"][1]["time_us"] < json.load(open("first.json"))["entries"][1]["time_us"]'
expect_json 'd["entries"][0]["time_us"] > json.load(open("first.json"))["entries"][0]["time_us"]'
for weight in 5 100; do
  expect 0 "" "${both[@]}" --optimize prefill=1 --optimize decode=$weight
  expect_json "abs($sum / d['time_us'] - 1) < 1e-6 and d['lower_bound_us'] <= d['time_us'] and [x['weight'] for x in d['entries']] == [1, $weight]"
  # As good as the plans for either extreme, within the gap.
  expect_json "all(d['time_us'] * (1 - d['gap']) <= (e[0]['time_us'] + $weight * e[1]['time_us']) * (1 + 1e-6) for e in [json.load(open(f))['entries'] for f in ('alone.json', 'first.json', 'last.json')])"
done
expect_json 'd["time_us"] < 0.9 * (lambda e: e[0]["time_us"] + 100 * e[1]["time_us"])(json.load(open("alone.json"))["entries"])'
expect 0 "entries  prefill x 1: " "$apc" plan "${cache[@]}" --target dgx-h100x2 -q --optimize prefill=1,decode=100 --save-plan both.plan
expect_out "decode x 100: "
check "the plan has both" grep -qx 'entries prefill=1 decode=100' both.plan
expect 0 "" "${both[@]}" --plan both.plan --save-plan again.plan
check "the same plan" cmp both.plan again.plan
expect_json 'd["entries"][1]["weight"] == 100'
expect 0 "entries   prefill x 1, decode x 100" "$apc" inspect both.plan
expect 0 "" "$apc" inspect both.plan --json
expect_json 'd["entries"] == [{"name": "prefill", "weight": 1}, {"name": "decode", "weight": 100}]'
expect 2 "--optimize decode=3 contradicts the plan, which has 100" "${both[@]}" --plan both.plan --optimize prefill=1,decode=3
expect 0 "" "${both[@]}" --save-plan one.plan
expect 2 "contradicts the plan, which is for @prefill alone" "${both[@]}" --plan one.plan --optimize prefill=1,decode=3
sed 's/ decode=100/ decoder=100/' both.plan >bad.plan
expect 1 "the plan is for entry 'decoder', which the model does not have" "${both[@]}" --plan bad.plan
sed 's/ decode=100/ prefill=100/' both.plan >bad.plan
expect 1 "the entry 'prefill' is listed twice" "${both[@]}" --plan bad.plan
sed 's/ decode=100/ decode=-1/' both.plan >bad.plan
expect 1 "'-1' is not a number of at least 0" "${both[@]}" --plan bad.plan
expect 0 "" "${both[@]}" --optimize prefill=1,decode=10 --tp 2 --pin 'layers.*.mlp.up:2=tp' --why decode/layers.0.mlp.up --compare dp=2 --what-if 'bandwidth*2' --save-plan tp.plan
expect_json 'd["pins"] and d["why"] and d["what_if"] and d["chosen"]["tp"] == 2 and d["entries"][1]["tp"] == 2'
sed 's/^\(op "decode.*attn.keys"\) .*/\1 {}/' tp.plan >bad.plan
expect 1 "entries share it" "${both[@]}" --plan bad.plan
# Faults in it are reported.
expect 2 "the model has no entry 'prefil'" "${both[@]}" --optimize prefil=1
expect_err "the nearest is 'prefill'"
expect 2 "'decode=many' has 'many'" "${both[@]}" --optimize prefill=1,decode=many
expect 2 "'prefill' has none" "${both[@]}" --optimize prefill
expect 2 "'decode' is given twice" "${both[@]}" --optimize decode=1,decode=2
expect 2 "has only zeros" "${both[@]}" --optimize prefill=0,decode=0
expect 2 "no operation of the entries that are planned together has that name" "${both[@]}" --optimize decode=1 --why layers.0.mlp.up
expect_err "the nearest is 'prefill/layers.0.mlp.up'"
expect 2 "--optimize cannot be combined with --objective throughput" "${both[@]}" --optimize decode=1 --objective throughput
expect 2 "--optimize cannot be combined with --train" "${step[@]}" --optimize main=1
# All entries share stages and micro-batches (programs: cli.models, cli.proof).
tiny=("$source_dir/examples/llama.apc" -D cache=1 -D layers=2 -D d=32 -D heads=4 -D ffn=64 -D vocab=64 -D ctx=16 --dim batch=4 --dim seq=8)
expect 0 "entries have one number of micro-batches: 2" "$apc" plan "${tiny[@]}" --target cpux4 --optimize prefill=1,decode=2 --tp 2 --pp 2 --micro-batches 2 -q --save-plan tiny.plan
expect 0 "" "$apc" plan "${tiny[@]}" --target cpux4 --plan tiny.plan -q --save-plan again.plan
check "the same plan" cmp tiny.plan again.plan
printf '%s\n' 'apc.plan 1' complete 'entries prefill=1 decode=3' 'mesh [a=2] stages 1' 'op "decode/layers.*.mlp.up" {d:a}' >part.plan
expect 0 "decode x 3: " "$apc" plan "${tiny[@]}" --target cpux2 --plan part.plan -q
expect_out "completes part.plan: 2 of "
expect 0 "fewest devices: 1" "$apc" size "${tiny[@]}" --target cpux2 --optimize prefill=1,decode=2 -q
expect 0 "on 2 targets" "$apc" plan "${tiny[@]}" --target cpux1,cpux2 --optimize prefill=1,decode=2 -q
# A range of micro-batches is bounded by all of its numbers: 11 cannot split the reshaped heads of this model, 2 can.
exported=("$source_dir/examples/largest.onnx" --train cross_entropy --batch 64 --target cpux4 -q --json)
for forced in "" "--pp 4 --micro-batches 4" "--pp 2 --micro-batches 2" "--pp 2 --micro-batches 4"; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan "${exported[@]}" $forced
  mv out "pp${forced//[^0-9]/}.json"
done
check "forced micro-batches are below the bound" /usr/bin/python3 -c '
import json
free = json.load(open("pp.json"))
bound = min(free["lower_bound_us"], free["lower_bound_without_gaps_us"])
forced = [json.load(open(f"pp{x}.json"))["time_us"] for x in ("44", "22", "24")]
assert min(forced) >= free["time_us"] * (1 - 1e-9) and min(forced) >= bound, (free["time_us"], bound, forced)'
summary 359
