#!/bin/bash
# apc size: the fewest devices and the largest values equal those found by apc plan one by one; budgets, errors, JSON.
. "$(dirname "$0")/lib.sh"
mlp=$source_dir/examples/mlp.apc
gpt=$source_dir/examples/gpt.apc
small=("$mlp" -D d=1024 -D hidden=2048) # 16,789,504 bytes of weights a layer
tiny=("$gpt" -D layers=2 -D d=64 -D heads=2 -D vocab=500)
cat >box.topo <<'END_OF_BOX'
gpu g { memory 100 MB at 1 TB/s; reserve 40 MB; launch 2 us; peak f32 1 TFLOPS; }
machine box { devices 4 g; link l at 1 GB/s; network n 1 at 10 Gbit/s with tcp; price 8 USD/h "list" 2026-01-01; }
END_OF_BOX
sed 's/ price.*;/ }/; s/} }/}/' box.topo >free.topo
size() { # CODE TEXT OPTION...
  local code=$1 text=$2
  shift 2
  expect "$code" "$text" "$apc" size -q "$@"
}
fits() { "$apc" plan -q "$@" >plan.out 2>plan.err; } # true if there is a plan
answer() { sed -n 's/^\(fewest\|largest\) [a-z]*: \([0-9,]*\) .*/\2/p' out | tr -d ,; }
field() { /usr/bin/python3 -c 'import json,sys; print(eval(sys.argv[2], {"d": json.load(open(sys.argv[1]))}))' "$1" "$2"; }

# The fewest devices: so many have a plan, and no smaller number (within a machine, then of whole machines of 4).
for layers in 3 8 26; do
  size 0 "" "${small[@]}" -D layers=$layers --target box.topox3
  fewest=none
  for n in 1 2 3 4 8 12; do
    if fits "${small[@]}" -D layers=$layers --target box.topox$n; then fewest=$n; break; fi
  done
  check "$layers layers: apc plan finds $fewest" test "$(answer)" = "$fewest"
  expect_out "fewest devices: $fewest (box.topox$fewest): "
  check "no line that shows the plan" grep -q "^the plan: apc plan .* -D layers=$layers --target box.topox$fewest\$" out
done
size 0 "fewest devices: 2 (box.topox2)" "${small[@]}" -D layers=3 --target box.topo --memory 40MB
size 0 "fewest devices: 2 (box.topox2)" "${small[@]}" -D layers=3 --target box.topo --budget 40MB
expect_out " --memory 40MB --target box.topox2"
size 0 "fewest devices: 1 (box.topox1)" "${small[@]}" -D layers=3 --target box.topo --memory 60MB
size 0 "fewest devices: 2 (cpux2)" "${small[@]}" -D layers=3 --target cpu --memory 40MB
size 0 "fewest devices: 4 (box.topox4)" "${small[@]}" -D layers=3 --target box.topo --memory 40MB --tp 4 # is not dropped
size 0 "fewest devices: 1 (gh200-x4x1)" "${small[@]}" -D layers=1 --target gh200-x4                      # a name that ends in its count

# The command in the answer gives the answer.
size 0 "examples/mlp.apc on devices of box.topo, 57.2 MiB a device; 33,579,008 parameters" "${small[@]}" -D layers=8 --target box.topo
size 0 "" "${small[@]}" -D layers=8 --target box.topo --json
expect_json 'd["schema"] == "apc.size/1" and d["target"] == "box.topo" and d["vary"] is None and d["diagnostics"] == []'
expect_json 'set(d["budget"].values()) == {None} and [x["fits"] for x in d["tried"]] == [False] * (len(d["tried"]) - 1) + [True]'
expect_json '"weights and state are 128.1 MiB" in d["tried"][0]["why_not"] and d["tried"][0]["time_us"] is None and d["tried"][-1]["why_not"] is None'
cp out size.json
line=$(field size.json 'd["answer"]["command"]')
# shellcheck disable=SC2086
expect 0 "" "$apc" ${line#apc } --json -q
expect_json 'all(abs(d[k] - json.load(open("size.json"))["answer"][k]) <= 1e-9 * d[k] for k in ("time_us", "bytes_per_device"))'
expect_json 'abs(d["cost"]["usd_per_step"] / json.load(open("size.json"))["answer"]["usd_per_step"] - 1) < 1e-9'

# Time and money: the first number of devices whose plan is within them.
batch=("${small[@]}" -D layers=3 --dim batch=4096)
for n in 1 2 3 4; do
  expect 0 "" "$apc" plan "${batch[@]}" --target box.topox$n --memory 100MB --json -q
  us[n]=$(field out 'd["time_us"]') usd[n]=$(field out 'd["cost"]["usd_per_step"]')
done
between() { /usr/bin/python3 -c 'import sys; print(f"{(float(sys.argv[1]) + float(sys.argv[2])) / 2:.12f}")' "$1" "$2"; }
check "more devices are not faster: ${us[*]}" /usr/bin/python3 -c 'import sys; a = list(map(float, sys.argv[1:])); sys.exit(a[0] <= a[1])' "${us[@]}"
size 0 "fewest devices: 2 (box.topox2)" "${batch[@]}" --target box.topo --memory 100MB --budget "$(between "${us[1]}" "${us[2]}")us"
expect_out "a step takes longer than"
size 0 "fewest devices: 1 (box.topox1)" "${batch[@]}" --target box.topo --memory 100MB --budget "$(between "${us[1]}" 99999999)us"
size 0 "" "${batch[@]}" --target box.topo --budget 100MB --budget 1usd --budget 1s --json
expect_json 'd["answer"]["devices"] == 1 and d["budget"] == {"bytes_per_device": 1e8, "time_us": 1e6, "usd_per_step": 1.0}'
size 3 "error[APC0405]: no device count of box.topo that was tried is enough" "${batch[@]}" --target box.topo --memory 100MB --budget 1us
expect_err "help: the best result, with "
size 3 "a step costs more than" "${batch[@]}" --target box.topo --memory 100MB --budget 0.0000000001usd --json
expect_json 'd["answer"] is None and d["diagnostics"][0]["code"] == "APC0405" and all(x["usd_per_step"] > 1e-10 for x in d["tried"])'
expect_json "abs(d['tried'][0]['usd_per_step'] / ${usd[1]} - 1) < 1e-9"
size 3 "; 1: weights and state are 18.8 GiB: 3.9 GiB too much" "${small[@]}" -D layers=1200 --target cpux2 # ranks share their memory: one try
check "more than one try" test "$(grep -c 'too much' out)" -eq 1

# The largest values equal those of a linear scan.
linear() { # LAST OPTION...: the last value, from 1 on, before the first without a plan
  local n last=$1
  shift
  for ((n = 1; n <= last; n++)); do fits "${@//@/$n}" || break; done
  echo $((n - 1))
}
size 0 "" "${small[@]}" --target box.topox2 --vary layers
check "largest number of layers" test "$(answer)" = "$(linear 64 "${small[@]}" --target box.topox2 -D layers=@)"
check "no value above it" grep -q "^largest layers: [0-9]* ($(($(answer) + 1)) does not fit)" out
few=("${tiny[@]}" --target cpux2 --micro-batches 1 --memory 1500KB)
size 0 "" "${few[@]}" --dim seq=64 --dim batch=40 --vary batch # 40 is too many: it is halved
check "largest batch" test "$(answer)" = "$(linear 64 "${few[@]}" --dim seq=64 --dim batch=@)"
check "largest batch is one that says nothing" test "$(answer)" -gt 1
short=("$gpt" -D layers=1 -D d=32 -D heads=2 -D vocab=500 --target cpux2 --micro-batches 1 --memory 400KB --dim batch=8)
size 0 "" "${short[@]}" --dim seq=4 --vary ctx
check "largest context" test "$(answer)" = "$(linear 64 "${short[@]}" -D ctx=@ --dim seq=@)"
check "both are set" grep -q -- "--dim batch=8 -D ctx=$(answer) --dim seq=$(answer) --target cpux2\$" out
# A width is a whole number of heads, here of an even size.
size 0 "" "${few[@]}" --dim batch=8,seq=4 --vary d --json
expect_json 'd["vary"] == "d" and all(x["value"] % 4 == 0 and "devices" not in x for x in d["tried"])'
expect_json '64 < d["answer"]["value"] < d["answer"]["does_not_fit"] <= d["answer"]["value"] + 4'
expect_json 'max(x["value"] for x in d["tried"] if x["fits"]) == d["answer"]["value"] and {x["target"] for x in d["tried"]} == {"cpux2"}'
odd=$(field out 'd["answer"]["value"]')
check "the answer has no plan" fits "${few[@]}" --dim batch=8,seq=4 -D "d=$odd"
# With a time budget: a step of the next value exceeds it.
size 0 "" "${tiny[@]}" --target cpux2 --dim seq=64 --vary batch --budget 1ms --json
expect_json 'all(x["fits"] == (x["time_us"] <= 1000) for x in d["tried"]) and d["answer"]["does_not_fit"] - d["answer"]["value"] == 1'
# Training: --batch; for an ONNX model its dimension, up to its maximum.
size 0 "" "${tiny[@]}" --target cpux2 --dim seq=64 --train cross_entropy --batch 4 --micro-batches 1 --memory 4MB --vary batch
check "no --batch" grep -q -- "--micro-batches 1 --memory 4MB --batch $(answer) --target cpux2\$" out
size 0 "largest ctx: 64 (the model allows no more): " "$source_dir/examples/gpt-tiny.onnx" --target cpux2 --dim-hint seq=16 --vary ctx
size 0 "--dim batch=" "$source_dir/examples/gpt-tiny.onnx" --target cpux2 --micro-batches 1 --memory 2MB --vary batch

# Not even one; the fault is reported once, by its name.
size 3 "error[APC0405]: no layers that was tried fits cpux2; 1: weights and state are 16.0 MiB" "${small[@]}" --target cpux2 --memory 1000KB --vary layers
sed 's/^check layers >= 1.*/check layers <= 10, "at most ten"/' "$mlp" >ten.apc # the model refuses more: that is the reason
size 0 "largest layers: 10 (11 does not fit)" ten.apc --target cpux2 --vary layers
expect_out "at most ten"
size 1 "at most ten" ten.apc -D layers=11 --target cpux2 --vary layers
size 1 "error[APC0504]: --budget 2usd: the price of free.topo is not known" "${small[@]}" --target free.topo --budget 2usd; no_out
size 1 "--vary ctx: the inputs of the model have no symbolic dimension for it" "${small[@]}" --vary ctx
expect_err "help: they have 'batch'"
tiny_model >m.ir
size 2 "--vary layers sets a parameter of .apc models; m.ir has none" m.ir --vary layers
printf '%s\n' 'param n = 4' 'dim batch' 'entry main(x: f32[batch, n]) { output y = -x }' >n.apc
size 1 "--vary layers: the model has no parameter 'layers' that is an integer" n.apc --vary layers
expect_err "help: it has n"
size 2 "option '--vary' does not take 'depth'" "${small[@]}" --vary depth
for wrong in 5 0ms 5tb ms -1s; do size 2 "option '--budget' takes 80GiB|500ms|2usd: memory, a time or money, not '$wrong'" "${small[@]}" "--budget=$wrong"; done
size 2 "--budget 3MB: another budget of the same kind is given" "${small[@]}" --budget 2MB --budget 3MB
size 2 "--budget 5MB and --memory 3MB both limit the memory" "${small[@]}" --budget 5MB --memory 3MB
size 2 "--shape binds the dimension that --vary batch changes" "${small[@]}" --vary batch --shape x=3,1024
size 2 "--batch needs --train" "${small[@]}" --vary batch --batch 4
size 2 "\`apc size\` takes no option '--plan'" "${small[@]}" --plan a.plan
size 1 "-D layrs=3: the model has no parameter 'layrs'" "${small[@]}" -D layrs=3
check "it is reported twice" test "$(grep -c layrs=3 err)" -eq 1
size 1 "cannot read the file" nothing.apc --json
expect_json 'd["schema"] == "apc.error/1"'
expect 0 "      Trying devices 1: box.topox1" "$apc" size "${small[@]}" -D layers=1 --target box.topo
summary 91
