#!/bin/bash
# Multi-device annotations of ONNX (IR version 11): the plan is what they say, it is proved, and programs compute what
# one rank computes.  The models are those of tests/onnx/annotated.py.
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 "$source_dir/tests/onnx/annotated.py" . || exit 1

# planned MODEL RANKS LINE...: nothing is left out, and the plan has the lines
planned() {
  local model=$1 ranks=$2 line
  shift 2
  expect 0 "" "$apc" plan "$model.onnx" -q --target "cpux$ranks" --save-plan a.plan
  no_err
  for line in "$@"; do check "no line '$line' in: $(grep -v '#' a.plan)" grep -qxF -- "$line" a.plan; done
}
# followed MODEL RANKS LINE...: the same; and the program is proved
followed() {
  planned "$@"
  expect 0 "ok" "$apc" verify "$1.onnx" -q --target "cpux$2"
}
# left_out MODEL RANKS NODE REASON: a warning with node and tensor; an error if the configuration is asked for
left_out() {
  local asked=two
  [ "$2" -eq 4 ] && asked=four
  expect 0 "" "$apc" plan "$1.onnx" -q --target "cpux$2"
  expect_err "warning[APC0121]: $4"
  expect_err "$1.onnx$3"
  expect 1 "error[APC0121]: $4" "$apc" plan "$1.onnx" -q --target "cpux$2" --configuration $asked
}

planned rows 2 'op "mm" {m:dp}'
planned columns 2 'op "w" {x1:tp}' 'op "mm" {n:tp}'
planned grid 4 'mesh [dp=2, tp=2] stages 1' 'op "mm" {m:dp, n:tp}'
followed summed 2 'op "mm" {k:tp}'
planned compose 4 'op "sum" {x0:dp, x1:tp}' 'op "sum.broadcast" {x0:dp, x1:tp}'
planned groups 4 'mesh [dp=2, tp=2] stages 1' 'op "mm" {m:dp, n:tp}'
planned turned 4 'mesh [tp=2, dp=2] stages 1' 'op "mm" {m:dp, n:tp}'
planned minor 4 'mesh [dp=2, dp2=2] stages 1' 'op "mm" {m:dp2.dp}'
planned blocks 4 'op "mm" {n:tp}'
followed megatron 4 'mesh [dp=2, tp=2] stages 1' 'op "up" {m:dp, n:tp}' 'op "w2" {x0:tp}' 'op "down" {m:dp, k:tp}'
followed scattered 2 'op "down" {k:tp}' 'op "add" {x0:tp}'
followed pipeline 4 'mesh [tp=2] stages 2' 'stage 1 "down"' 'op "up" {n:tp}' 'op "down" {k:tp}'
planned placed 4 'mesh [tp=2] stages 2' 'stage 1 "down"' 'op "up" {n:tp}' 'op "down" {n:tp}'
planned stages 2 'mesh [] stages 2' 'stage 1 "down"'
planned heads 2 'op "qp.heads" {n:tp}' 'op "wk.heads.1" {x1:tp}' 'op "op" {k:tp}' 'op "down" {k:tp}'
expect 0 "" "$apc" run heads.onnx -q --outputs one.npz; no_err
expect 0 "equal" "$apc" run heads.onnx -q --target cpux2 --expect one.npz
expect 0 "" "$apc" plan megatron.onnx -q --target cpux4 --train mse --save-plan a.plan; no_err
check "training does not follow" grep -qxF 'op "down" {m:dp, k:tp}' a.plan

# the examples of onnx-ir and of TensorRT 11 compute what one rank computes
computes() {
  followed "$@"
  expect 0 "" "$apc" run "$1.onnx" -q --outputs one.npz
  expect 0 "equal" "$apc" run "$1.onnx" -q --target "cpux$2" --expect one.npz --rtol 1e-5
}
planned ir_rows 4 'op "mm" {k:tp}'
planned ir_mesh 4 'op "mm" {k:tp, n:tp2}'
planned ir_whole 2 'mesh [dp=2] stages 1'
planned ir_groups 4 'op "w" {x0:tp}'
planned ir_layers 2 'mesh [] stages 2' 'stage 1 "down"'
planned trt_all_reduce 2 'op "mm" {k:tp}'
planned trt_reduce_scatter 2 'op "mm" {k:tp}' 'op "act" {x0:tp}'
planned trt_all_gather 2 'op "mm" {m:dp}'
computes trt_all_to_all 2 'op "mm" {m:dp}' 'op "act" {x1:dp}'
planned trt_head 2 'op "input" {x0:dp}' 'op "mm1" {m:dp}' 'op "sm" {x1:dp}'
computes trt_attention 2 'op "input" {x0:dp}' 'op "mm2.attention" {s:dp}'

left_out order 2 ': node "mm"' 'the sharding of "x" has an order of devices along axis 0 that no mesh has'
left_out uneven 4 ': node "mm"' 'the sharding of "x" has groups of unequal sizes'
left_out strided 2 ': node "mm"' 'the sharding of "y" has strided shards along axis 1'
left_out axes 2 ': node "sum"' 'the sharding of "w" cannot be followed beside the others of the node'
left_out backwards 2 ': node "down"' 'the node has pipeline stage 1 of 2, but comes among the nodes of stage 2'
left_out thirds 4 '' 'configuration "four" has 4 devices, which 3 pipeline stages cannot share evenly'
left_out subset 4 ': node "mm"' 'the sharding of "x" does not use device 3, where the node runs on devices 0 to 3'
left_out fused 2 ': node "qkv"' 'the sharding of "w" is not followed: apc computes that tensor in another form'

# what is used, and what is not
expect 0 "" "$apc" plan axes.onnx -q --target cpux2 --configuration none; no_err
expect 0 "Annotated configuration \"two\" of the model gives the layouts of 1 operation and 1 stage" \
  "$apc" plan rows.onnx --target cpux2
expect_out 'completes configuration "two": 1 of 3 operations are given'
expect 0 "" "$apc" plan rows.onnx -q --target cpux2 --json
expect_json 'd["completes"] == {"annotations": "configuration \"two\"", "said": 1, "operations": 3}'
expect 0 "" "$apc" plan rows.onnx -q; no_err
expect 0 "" "$apc" plan several.onnx -q --target cpux2
expect_err 'the sharding annotations of 1 node are not used: several configurations have 2 devices, as cpux2 has;'
expect 0 'completes configuration "pair"' "$apc" plan several.onnx -q --target cpux2 --configuration pair; no_err
expect 0 "" "$apc" plan several.onnx -q --target cpux3
expect_err 'no configuration has 3 devices, as cpux3 has; configurations: "two" (2 devices), "pair" (2 devices)'
expect 2 "--configuration two: it has 2 devices, but cpux3 has 3" \
  "$apc" plan several.onnx -q --target cpux3 --configuration two
expect 2 "the nearest is 'pair'" "$apc" plan several.onnx -q --target cpux2 --configuration pairs
expect 2 "--pp 2 contradicts configuration" "$apc" plan grid.onnx -q --target cpux4 --pp 2
expect 3 "configuration \"four\" of the model restricted the search" "$apc" plan grid.onnx -q --target cpux4 --tp 4
expect 0 "" "$apc" plan grid.onnx -q --target cpux4 --objective throughput
expect_err "not used: --objective chooses the number of devices"
expect 2 "--configuration four cannot be followed: --optimize plans another function" \
  "$apc" plan grid.onnx -q --target cpux4 --optimize main=1 --configuration four
expect 0 "" "$apc" size grid.onnx -q --target cpux4; no_err
# a plan file takes the place of annotations
expect 0 "" "$apc" plan grid.onnx -q --target cpux4 --configuration none --dp 4 --save-plan b.plan
expect 0 "dp 4" "$apc" plan grid.onnx -q --target cpux4 --plan b.plan; no_err
summary 140
