#!/bin/bash
# apc calibrate: the file that it writes is a target, whose figures plans use and name; values that cannot be measured
# here.  Times are not checked: the machine does other work as well.
. "$(dirname "$0")/lib.sh"
mlp=("$source_dir/examples/mlp.apc" -D layers=2 -D d=64 --dim batch=4)
ranks=cpux2
[ "$(nproc)" -gt 1 ] || ranks=cpu

# ---- errors, before any measurement
expect 2 "needs -o FILE.topo" "$apc" calibrate; no_out
expect 2 "the extension .topo" "$apc" calibrate -o here.txt; no_out
expect 1 "error[APC0002]" "$apc" calibrate -o nowhere/here.topo; no_out
expect 2 "unexpected argument 'model.apc'" "$apc" calibrate model.apc -o here.topo
expect 5 "ranks that share a core cannot be measured" "$apc" calibrate --target cpux64 -o here.topo; no_out
expect 5 "at most 8 ranks" "$apc" calibrate --target dgx-a100x16 -o here.topo; no_out
expect 1 "there is no target 'cpuxx'" "$apc" calibrate --target cpuxx -o here.topo
check "an error left a file" test ! -e here.topo
# interrupted: no file, and no temporary folder
timeout -s INT 1 "$apc" calibrate -o here.topo -q >out 2>err
last="calibrate, interrupted"
check "it left a file" test ! -e here.topo
gone() { for _ in $(seq 50); do [ -z "$(ls "$TMPDIR")" ] && return; sleep 0.1; done; false; }
check "it left a folder" gone

# ---- without calibration: figures are fixed text, and plans say so
expect 0 "figures are fixed, not measured on this machine" "$apc" plan "${mlp[@]}" --target $ranks -q
expect 0 "" "$apc" plan "${mlp[@]}" --target $ranks -q --json
expect_json "d['figures'] == {'kind': 'fixed', 'file': None, 'notes': []}"
cp out fixed.json

# ---- a file
expect 0 "\"schema\": \"apc.calibrate/1\"" "$apc" calibrate --target $ranks --effort 0.5 -o here.topo --json
expect_json "d['file'] == 'here.topo' and d['source'].startswith('measured by apc calibrate on 20') and len(d['measured']) > 80"
# a launch is a difference of two times, at least 0
expect_json "all(m['time_us'] is None or m['time_us'] > 0 or (m['what'] == 'launch' and m['time_us'] == 0) for m in d['measured'])"
expect_json "{'request', 'launch', 'move', 'product of weights', 'attention', 'convolution', 'exp'} <= {m['what'] for m in d['measured']}"
expect_err "Measuring round 1"
expect 0 "here.topo: 1 cpu rank of 1 node" "$apc" targets check here.topo
check "it does not say who measured it" grep -q 'source "measured by apc calibrate on 20..-..-..: .*, [0-9]* core' here.topo
for line in 'fork ' 'cache ' 'product ' 'convolution forward ' 'scores ' 'element exp '; do
  check "it lacks '$line'" grep -q "^  $line" here.topo
done
of=here.topo
[ $ranks = cpu ] || of=here.topox2
expect 0 "figures measured by apc calibrate: here.topo" "$apc" plan "${mlp[@]}" --target $of -q
expect 0 "" "$apc" plan "${mlp[@]}" --target $of -q --json
cp out file.json
expect_json "d['figures'] == {'kind': 'measured', 'file': 'here.topo', 'notes': []} and d['lower_bound_us'] <= d['time_us']"
expect_json "d['time_us'] != json.load(open('fixed.json'))['time_us']"
# under the built-in names
expect 0 "figures measured by apc calibrate: here.topo" env APC_CALIBRATION=here.topo "$apc" plan "${mlp[@]}" --target $ranks -q
expect 0 "" env APC_CALIBRATION=here.topo "$apc" plan "${mlp[@]}" --target $ranks -q --json
expect_json "d['time_us'] == json.load(open('file.json'))['time_us'] and d['target']['name'] == '$ranks'"
expect 0 "cpu measured {" env APC_CALIBRATION=here.topo "$apc" targets show $ranks
expect 0 "" env APC_CALIBRATION=here.topo "$apc" plan "${mlp[@]}" --target dgx-a100x2 -q --json
expect_json "d['figures']['kind'] == 'fixed'"
# and for this machine as it is found, from a calibration of cpu or of local
sed 's/^machine cpu /machine local /' here.topo >local.topo
if "$apc" doctor | grep -q '^ok  *hwloc' && [ ! -e /dev/nvidiactl ]; then
  for file in here local; do
    expect 0 "" env APC_CALIBRATION=$file.topo "$apc" plan "${mlp[@]}" --target "${ranks/cpu/local}" -q --json
    expect_json "d['time_us'] == json.load(open('file.json'))['time_us'] and d['target']['name'] == '${ranks/cpu/local}' and d['figures']['file'] == '$file.topo'"
  done
fi
expect 1 "nowhere.topo" env APC_CALIBRATION=nowhere.topo "$apc" plan "${mlp[@]}" --target $ranks -q
# programs for it run
expect 0 "predicted" env APC_CALIBRATION=here.topo "$apc" bench "${mlp[@]}" --target $ranks --runs 2 -q
summary 40
