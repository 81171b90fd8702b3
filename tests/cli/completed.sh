#!/bin/bash
# Plan files with a few lines: the lines are kept, the rest is searched for: completed.sh APC
. "$(dirname "$0")/lib.sh"
gpt=$source_dir/examples/gpt.apc
small="-D layers=2 -D d=64 -D heads=4 -D vocab=512 -D ctx=64 --dim seq=64"
# shellcheck disable=SC2206
plan=("$apc" plan "$gpt" $small --dim batch=16 --target cpux4 -q)
# shellcheck disable=SC2206
step=("$apc" plan "$gpt" $small --train cross_entropy --batch 16 --target cpux4 -q)

few() { # few LINE...: the file few.plan
  printf 'apc.plan 1\ncomplete\n' >few.plan
  printf '%s\n' "$@" >>few.plan
}
whole() { sed '1a complete' "$1" >few.plan; } # all lines of a file

# Given lines stay, cost no less than the unconstrained plan, and the whole plan that is saved is as fast.
expect 0 "" "${plan[@]}" --json --save-plan free.plan; cp out free.json
few 'op "layers.*.mlp.fc.w" {x1:tp}' 'op "layers.*.attn.q.dot" {}'
expect 0 "" "${plan[@]}" --json --plan few.plan --save-plan done.plan; cp out done.json
expect_json 'd["completes"]["file"] == "few.plan" and d["completes"]["said"] == 4 and d["completes"]["operations"] > 100'
expect_json 'json.load(open("free.json"))["time_us"] <= d["lower_bound_us"] <= d["time_us"] and d["chosen"]["tp"] > 1 and "completes" not in json.load(open("free.json"))'
check "the line is there" grep -qx 'op "layers.\*.mlp.fc.w" {x1:tp}' done.plan
check "uncut dimensions stay whole" [ "$(grep -E '^op .*attn[.]q[.]dot"' done.plan | grep -c :)" -eq 0 ]
expect 0 "" "${plan[@]}" --json --plan done.plan
expect_json "d['time_us'] == json.load(open('done.json'))['time_us'] and d['bytes_per_device'] == json.load(open('done.json'))['bytes_per_device']"
expect 0 "completes few.plan: 4 of " "${plan[@]}" --plan few.plan
# All lines of a plan are that plan, for training steps and pipelines as well.
whole free.plan
expect 0 "" "${plan[@]}" --plan few.plan --save-plan done.plan
check "the same plan" cmp free.plan done.plan
for forced in "--pp 2 --micro-batches 4" "--zero 3 --dp 4" "--pp 2 --schedule interleaved:2" "--recompute full --tp 2"; do
  # shellcheck disable=SC2086
  expect 0 "" "${step[@]}" $forced --save-plan whole.plan
  whole whole.plan
  expect 0 "" "${step[@]}" --plan few.plan --save-plan done.plan
  check "the same plan of $forced" cmp whole.plan done.plan
done
# Some of its lines are completed to a plan that is as fast, whatever the names of mesh axes: globs are followed by
# their exceptions, so the last ones keep their meaning.
for forced in "--pp 2 --schedule zbh1" "--dp 2 --tp 2"; do
  # shellcheck disable=SC2086
  expect 0 "" "${step[@]}" $forced --save-plan whole.plan --json; cp out whole.json
  few "$(grep -E '^(mesh|schedule|stage) ' whole.plan)" "$(grep -E '^(op|store|grad) ' whole.plan | tail -n 40)"
  expect 0 "" "${step[@]}" --json --plan few.plan
  expect_json "d['time_us'] <= json.load(open('whole.json'))['time_us'] * (1 + 1e-9) and d['completes']['said'] >= 40"
done
# A mesh, with names that tell the purpose of axes; with names that do not; micro-batches are open or given.
few 'mesh [tp=2, dp=2] stages 1'
expect 0 "" "${plan[@]}" --json --plan few.plan --save-plan done.plan; cp out mesh.json
expect_json 'd["chosen"]["tp"] == 2 and d["chosen"]["dp"] == 2 and d["chosen"]["pp"] == 1'
check "the mesh is there" grep -qx 'mesh \[tp=2, dp=2\] stages 1' done.plan
few 'mesh [x=2, y=2] stages 1' 'op "layers.*.attn.q.dot" {h:y.x}'
expect 0 "" "${plan[@]}" --plan few.plan --save-plan done.plan
check "the order is there" grep -qx 'op "layers.\*.attn.q.dot" {h:y.x}' done.plan
few 'mesh [mb=2 time, dp=2] stages 2' 'stage 1 "layers.1.ln1.norm"' 'op "layers.*.attn.q.dot" {b:mb, ...}'
expect 0 "" "${plan[@]}" --json --plan few.plan --save-plan done.plan; cp out border.json
expect_json 'd["chosen"]["pp"] == 2 and d["chosen"]["micro_batches"] == 2'
check "the border is there" grep -qx 'stage 1 "layers.1.ln1.norm"' done.plan
expect 0 "" "${plan[@]}" --json --plan done.plan
expect_json "d['time_us'] == json.load(open('border.json'))['time_us']"
few 'mesh [dp=2] stages 2'
expect 0 "" "${plan[@]}" --json --plan few.plan
expect_json "d['chosen']['pp'] == 2 and d['time_us'] < json.load(open('border.json'))['time_us']"
# Degrees and policies without a mesh; options agree or add to them.
few 'force tp=2, micro-batches=1' 'op "layers.*.mlp.fc.dot" {d:tp, ...}'
expect 0 "" "${plan[@]}" --json --plan few.plan --dp 2 --save-plan done.plan
expect_json 'd["chosen"]["tp"] == 2 and d["chosen"]["dp"] == 2'
check "other axes are open" grep -qx 'op "layers.\*.mlp.fc.dot" {a:dp, d:tp}' done.plan
few 'force recompute=full' 'schedule zbh1' 'mesh [] stages 4'
expect 1 "the mesh line above the schedule line" "${step[@]}" --plan few.plan
few 'force recompute=full' 'mesh [] stages 4' 'schedule zbh1'
expect 0 "" "${step[@]}" --json --plan few.plan
expect_json 'd["chosen"]["recompute"] == "full" and d["chosen"]["schedule"] == "zbh1" and d["chosen"]["pp"] == 4 and d["chosen"]["micro_batches"] > 1'
# The training state; gradients follow.
few 'store "layers.*.mlp.fc.w" {x1:dp} gather use' 'op "layers.*.attn.a.attention" {b:dp} again'
expect 0 "" "${step[@]}" --json --plan few.plan --save-plan done.plan
expect_json 'd["chosen"]["zero"] == 3'
check "stored in parts" [ "$(grep -cE '^store "layers.*mlp[.]fc[.]w" [{]x1:dp[}] gather use' done.plan)" -ge 1 ]
check "recomputed" grep -qxE 'op "layers.\*.attn.a.attention" [{]b:(mb.)?dp[}] again' done.plan
# Programs are compiled from it.
few 'mesh [dp=2] stages 2' 'op "layers.*.mlp.fc.dot" {d:dp, ...}'
tiny="-D layers=2 -D d=16 -D heads=2 -D vocab=32 -D ctx=8 --dim seq=8 --dim batch=4"
# shellcheck disable=SC2086
expect 0 "" "$apc" verify "$gpt" $tiny --target cpux4 --seed 1 -q --plan few.plan
# inspect shows it, and the differences to a plan.
expect 0 "few.plan: a partial plan" "$apc" inspect few.plan
expect 0 "" "$apc" inspect few.plan --json
expect_json 'd["complete"] is True and d["function"] is None and d["stages"] == 2'
expect 0 "not given" "$apc" inspect few.plan done.plan

# Impossible lines are errors that name the line.
wrong() { # wrong EXIT LINE:COL MESSAGE LINE...
  local code=$1 place=$2 message=$3
  shift 3
  few "$@"
  expect "$code" "$message" "${plan[@]}" --plan few.plan; no_out
  expect_err "few.plan:$place"
}
wrong 1 3:4 'no operation is named "layers.0.mlp.fx"' 'op "layers.0.mlp.fx" {}'
wrong 1 3:24 "unknown mesh axis 'tq'" 'op "layers.0.mlp.fc.w" {x1:tq}'
wrong 1 3:24 "unknown factor 'x7'" 'op "layers.0.mlp.fc.w" {x7:tp}'
wrong 1 4:4 'has a line already (line 3)' 'op "layers.0.mlp.fc.w" {x1:tp}' 'op "layers.0.mlp.fc.w" {x0:tp}'
wrong 1 4:32 "so the line needs b:mb" 'mesh [mb=2 time, dp=2] stages 2' 'op "layers.0.attn.a.attention" {b:dp}'
wrong 1 3:5 "the mesh has 8 ranks, cpux4 has 4" 'mesh [dp=8] stages 1'
wrong 1 4:9 "stage 1 has a line and stage 3 has none" 'mesh [] stages 4' 'stage 1 "layers.1.ln1.norm"'
wrong 1 3:7 "'tp=none' is none of" 'force tp=none'
wrong 1 3:8 "cannot have update lines" 'update "wte" {}'
wrong 1 3:20 "the plan is for 2 ranks, cpux4 has 4" 'target cpux2 ranks 2'
wrong 3 3:4 "no plan satisfies this line together with the others" 'op "layers.0.mlp.fc.w" {x1:tp}' 'force dp=4'
wrong 3 2:1 "tp 3 would leave 1 of the 4 ranks" 'force tp=3'
few 'force tp=2'
expect 2 "--tp 4 contradicts the plan file, which says 2" "${plan[@]}" --tp 4 --plan few.plan; no_out
few 'op "layers.*.mlp.fc.dot" {a:dp}' 'op "layers.*.mlp.fc.dot.grad*" {}'
expect 3 "no plan satisfies this line together with the others" "${step[@]}" --plan few.plan; no_out
expect_err "few.plan:3:4"; expect_err "few.plan:4:4"
few 'force zero=1' 'store "layers.*.mlp.fc.w" {x1:dp} gather use'
expect 2 "stage 1 is forced" "${step[@]}" --plan few.plan; no_out
sed -i 2d few.plan
expect 1 "expected a complete line above" "${step[@]}" --plan few.plan; no_out
summary 102
