#!/bin/bash
# Usage: help, versions, typos, malformed values, refusals of features that are not built.
. "$(dirname "$0")/lib.sh"
mlp=$source_dir/examples/mlp.apc

# help goes to standard output, fits a screen, exit 0
expect 0 "apc MODEL" "$apc" --help; no_err
check "--help is longer than a screen" test "$(wc -l <out)" -le 24
check "--help is wider than 80 columns" test "$(wc -L <out)" -le 80
for c in compile plan run verify bench inspect targets doctor convert explain; do
  "$apc" --help >out; expect_out "  $c"
  expect 0 "apc $c" "$apc" $c --help; no_err
done
expect 0 "--micro-batches" "$apc" plan --help
expect 0 "apc 0." "$apc" --version
expect 0 "apc 0." "$apc" version; no_err
expect 0 "apc.version/1" "$apc" version --json; expect_json 're.match(r"\d+\.\d+\.\d+$", d["version"])'
expect 0 "apc COMMAND" "$apc" help; no_err
expect 0 "apc plan MODEL" "$apc" help plan; no_err
expect 2 "there is no command 'paln'" "$apc" help paln; expect_err "nearest command is 'plan'"
expect 2 "usage: apc version" "$apc" version extra
expect 0 "APC0217  " "$apc" explain --list; no_err; check "not all codes" test "$(wc -l <out)" -eq "$(grep -c '^DIAG(' "$source_dir/base/diag.def")"
expect 0 "" "$apc" explain --list --json; expect_json 'd["schema"] == "apc.codes/1" and {"code": "APC0610", "brief": "an unknown option"} in d["codes"]'
expect 2 "usage: apc explain" "$apc" explain --list APC0217
expect 0 "apc run MODEL" "$apc" run --help --foo; no_err
expect 0 "apc run MODEL" "$apc" run extra --help
expect 0 "apc COMMAND" "$apc" model.onnx --help
expect 2 "--version takes no arguments" "$apc" --version extra; no_out
expect 1 "cannot be written" bash -c "'$apc' --version >/dev/full"
expect 2 "no model and no command" "$apc"

# typos
expect 2 "nearest option is '--target'" "$apc" plan "$mlp" --targte cpu; no_out
expect 2 "nearest option is '--save-plan'" "$apc" plan "$mlp" --saveplan x
expect 2 "nearest command is 'inspect'" "$apc" insepct x
expect 2 "nearest command is 'verify'" "$apc" verfy
expect 2 "nearest is 'schedule'" "$apc" "$mlp" --emit=shedule
expect 2 "nearest is 'latency'" "$apc" "$mlp" --objective latencey
for command in compile plan run verify bench; do
  expect 1 "error[APC0601]: --print-after: there is no pass 'vews'" "$apc" $command "$mlp" --print-after vews; expect_err "nearest name is 'views'"
  expect 1 "error[APC0601]: --emit=ir: there is no pass 'vews'" "$apc" $command "$mlp" --emit=ir:vews; expect_err "nearest name is 'views'"
done
expect 1 "pass 'outline' runs on demand only" "$apc" plan "$mlp" --print-after outline; expect_err "--emit=ir:outline"
expect 0 "# widen does not run for a gpu" "$apc" plan "$mlp" -D d=8 -D layers=1 -q --target dgx-a100x2 --print-after widen
expect 2 "--device takes a kind of device" "${apc%/*}/apc-opt" --device=tpu x.ir
expect 2 "'--runs' takes at most 1000000, not '4294967297'" "$apc" bench "$mlp" --runs 4294967297
expect 2 "'--warmup' takes at most 1000000, not '1000001'" "$apc" bench "$mlp" --warmup 1000001
expect 0 "# after order" "$apc" plan "$mlp" -D d=8 -D layers=1 -q --print-after all
expect 1 "--print-after: there is no pass 'vews'" "${apc%/*}/apc-opt" --print-after=vews "$source_dir/tests/text/dce.ir"; no_out
expect 0 "# after outline" "${apc%/*}/apc-opt" --passes=outline --print-after=outline "$source_dir/tests/text/dce.ir"
expect 0 "# after dce" "${apc%/*}/apc-opt" --passes=dce --print-after=dce "$source_dir/tests/text/dce.ir"
expect 2 "neither a command nor a model" "$apc" something
expect 2 "nearest is 'show'" "$apc" targets shwo cpu
expect 1 "nearest name is 'batch'" "$apc" plan "$mlp" --dim bacth=2
expect 1 "nearest name is 'x'" "$apc" run "$mlp" -D d=8 -D layers=1 --input xx=zeros
expect 1 "nearest name" "$apc" plan "$mlp" --target cpx4
expect 1 "the nearest name is 'cpu'" "$apc" plan "$mlp" --target CPU
expect 2 "it takes none, selective, full, full:K, K" "$apc" plan "$mlp" --recompute K
expect 2 "nearest is 'full:K'" "$apc" plan "$mlp" --recompute full:0
expect 2 "nearest is 'interleaved:V'" "$apc" plan "$mlp" --schedule interleaved:x
expect 2 "codes are APC and four digits" "$apc" explain foo
expect 2 "the nearest code is APC0" "$apc" explain 0218
for letter in -V -qv; do expect 2 "unknown option '$letter'" "$apc" plan "$mlp" $letter; expect_err "\`apc plan --help\` lists the options"; done

expect 0 "usage: apc-opt" "$(dirname "$apc")/apc-opt" --help; no_err
expect 2 "usage: apc-opt" "$(dirname "$apc")/apc-opt"; no_out
right=$source_dir/tests/prove/loops.ir
expect 0 "proved" "${apc%/*}/apc-opt" --prove=main,rank "$right"; no_err; check "more than the verdict is printed" test "$(wc -l <out)" -eq 1
expect 0 "proved" "${apc%/*}/apc-opt" --passes=order --prove=main,rank "$right"
expect 4 "refuted: " "${apc%/*}/apc-opt" --prove=main,rank "$source_dir/tests/prove/wrong.ir"; no_err
expect 3 "unknown: " "${apc%/*}/apc-opt" --prove=main,rank "$source_dir/tests/prove/calls.ir"
expect 1 "standard output cannot be written" bash -c "'${apc%/*}/apc-opt' --prove=main,rank '$right' >/dev/full"
expect 1 "error[APC0001]" "${apc%/*}/apc-opt" --prove=main,rank none.ir; no_out
for list in main main,rank,other ,main main, ,, ''; do expect 2 "--prove takes the name of a function of level 1" "${apc%/*}/apc-opt" --prove=$list "$right"; no_out; done

# wrong forms
expect 2 "needs a value" "$apc" plan "$mlp" --target
expect 2 "takes no value" "$apc" plan "$mlp" --json=1
expect 2 "takes NAME=N" "$apc" plan "$mlp" --dim batch
expect 1 "it is at least 1" "$apc" plan "$mlp" --dim batch=0
expect 2 "takes NAME=N" "$apc" plan "$mlp" --dim =4
expect 2 "takes NAME=N" "$apc" plan "$mlp" --dim batch=4x
expect 2 "takes N|auto" "$apc" plan "$mlp" --tp zero
expect 2 "takes N|auto" "$apc" plan "$mlp" --tp -1
expect 2 "takes N|auto" "$apc" plan "$mlp" --tp 99999999999999999999
expect 2 "takes SIZE" "$apc" plan "$mlp" --memory 3parsecs
expect 2 "takes SIZE" "$apc" plan "$mlp" --memory ''
expect 2 "takes NAME=VALUE" "$apc" plan "$mlp" -D layers
expect 2 "takes INPUT=" "$apc" plan "$mlp" --shape x=4,
expect 2 "takes R" "$apc" verify "$mlp" --rtol -1
expect 2 "takes R" "$apc" verify "$mlp" --rtol nan
expect 2 "takes no option '--tp'" "$apc" targets --tp 2
expect 2 "takes no option '--emit'" "$apc" inspect "$mlp" --emit=ir
expect 2 "needs MODEL" "$apc" plan
expect 2 "unexpected argument 'other.ir'" "$apc" plan "$mlp" other.ir
expect 2 "only one document" "$apc" "$mlp" --emit=ir=-,plan=-
expect 2 "standard output" "$apc" "$mlp" --emit=exe=-
expect 2 "-o names one file" "$apc" "$mlp" --emit=ir,plan -o x
expect 2 "-o x has no effect" "$apc" "$mlp" --emit=plan=y -o x
expect 2 "-o x has no effect" "$apc" "$mlp" --emit=exe=y -o x
expect 2 "'plan=' needs a file name" "$apc" "$mlp" --emit=ir,plan=
expect 2 "'ir=' needs a file name" "$apc" "$mlp" --emit=ir=,plan
expect 2 "only one document" "$apc" plan "$mlp" --save-plan - --json
expect 2 "takes B.npz, not '-'" "$apc" run "$mlp" --outputs -
expect 0 "" "$apc" verify "$mlp" -q -D d=8 -D hidden=8 -D layers=1 --save-plan -; expect_out "apc.plan 1"; expect_err "proved"

# outputs that are inputs, or each other: nothing is written
cp "$mlp" m.apc; cp "$source_dir/targets/cpu.topo" c.topo; "$apc" convert m.apc m.ir -q -D d=8 -D hidden=8 -D layers=1; "$apc" plan m.ir -q --save-plan m.plan >out
"$apc" convert m.ir w.safetensors -q; "$apc" convert m.ir w.npz -q; cp "$source_dir/examples/gpt-tiny.onnx" g.onnx; "$apc" convert g.onnx g.ir -q; ln -s m.ir link; ln m.ir hard.ir; mkdir folder
/usr/bin/python3 -c 'import numpy; numpy.save("x.npy", numpy.ones((2, 8), numpy.float32)); numpy.savez("x.npz", x=numpy.load("x.npy"))'
cksum m.* g.* c.topo w.* x.* >before
apart() { # apart WORDS OPTIONS...
  local words=$1
  shift
  expect 2 "$words" "$apc" "$@"; no_out; check "a file has changed" bash -c 'cksum m.* g.* c.topo w.* x.* | cmp -s - before'
}
apart "-o would write 'm.ir', which is read as MODEL" m.ir -o m.ir
apart "-o would write './folder/../m.ir', which is read as MODEL" m.ir -o ./folder/../m.ir
apart "-o would write 'link', which is read as MODEL" m.ir -o link
apart "-o would write 'm.ir', which is read as MODEL" hard.ir -o m.ir
apart "--emit=ir would write 'm.ir', which is read as MODEL" plan m.ir --emit=ir
apart "--save-temps would write './m.ir', which is read as MODEL" m.ir --save-temps=.
apart "--save-plan would write 'm.ir', which is read as MODEL" plan m.ir --save-plan m.ir
apart "--emit=plan would write 'm.plan', which is read as --plan" plan m.ir --plan m.plan --emit=plan
apart "--save-plan would write 'm.plan', which is read as --plan" run m.ir --plan m.plan --save-plan m.plan
apart "-o would write 'w.safetensors', which is read as --weights" m.ir --weights w.safetensors -o w.safetensors
apart "--emit=ir would write 'c.topo', which is read as --target" plan m.ir --target c.topox2 --emit=ir=c.topo
apart "--outputs would write 'x.npz', which is read as --inputs" run m.ir --inputs x.npz --outputs x.npz
apart "--output would write 'x.npy', which is read as --input" run m.ir --input x=@x.npy --output y=@x.npy
apart "--outputs would write 'w.npz', which is read as --expect" run m.ir --expect w.npz --outputs w.npz
apart "OUT would write 'm.ir', which is read as IN" convert m.ir m.ir
apart "OUT would write 'g.onnx', which is read as weights of MODEL" convert g.ir g.onnx -q
apart "--emit=ir would write 'new', which is written by --emit=plan" m.ir --emit=plan=new,ir=new
apart "--emit=ir:inline would write './new', which is written by --emit=plan" m.ir --emit=plan=folder/../new,ir:inline=./new
apart "--save-plan would write 'new', which is written by -o" m.ir -o new --save-plan new
check "something is written" test ! -e new
# but words are no files, outputs that several options do not write do not conflict, and devices are shared
cp m.ir cpu.ir; expect 0 "" "$apc" cpu.ir -q --target cpu; expect 0 "" "$apc" cpu.ir -q --target cpu
expect 0 "" "$apc" plan m.ir -q --plan m.plan --save-plan m.plan --save-plan new --emit=plan=/dev/null,ir=/dev/null
expect 2 "no diagnostic" "$apc" explain APC9999
expect 2 "like 60s" "$apc" run "$mlp" -D d=8 -D hidden=8 -D layers=1 --timeout soon

# several errors at once
expect 2 "'--foo'" "$apc" plan "$mlp" --foo --tp x; expect_err "takes N|auto"

# why a forced degree is impossible
expect 3 "tp 2 is not possible on cpu, which has 1 rank" "$apc" plan "$mlp" --tp 2
expect 3 "tp 99999999999 is not possible on cpux2, which has 2 ranks" "$apc" plan "$mlp" -D d=8 -D hidden=8 --target cpux2 --tp 99999999999
expect 3 "micro-batches 99999999999 is not" "$apc" plan "$mlp" -D d=8 -D hidden=8 --target cpux2 --micro-batches 99999999999
expect 3 "dp 16 would only replicate work: the largest dimension of kind batch has 8 elements" "$apc" plan "$mlp" -D d=8 -D hidden=8 --target cpux16 --dp 16
expect 3 "cp 2 would only replicate work: no dimension of the model is of kind sequence" "$apc" plan "$mlp" -D d=8 -D hidden=8 --target cpux2 --cp 2
printf 'apc.ir 1\nsymbol b\nfunc @main level 1 {\n  %%x = input {name="x"} : f32[b, 8]\n  %%y = mul %%x, %%x : f32[b, 8]\n  output "y" %%y\n}\n' >square.ir
expect 3 "cannot be cut into 2 stages: it has too few places" "$apc" plan square.ir --target cpux2 --pp 2
expect 3 "dp 3 x tp 2 would need 6 ranks, but cpux4 has 4" "$apc" plan "$mlp" -D d=8 -D hidden=8 --target cpux4 --tp 2 --dp 3
# a given plan in which all ranks do the same work does not mean that more ranks do not help
"$apc" plan "$source_dir/examples/gpt-tiny.onnx" -q --target cpux4 --save-plan - 2>err | grep -v '^op ' >same.plan
expect 0 "this plan is no faster, but others are" "$apc" plan "$source_dir/examples/gpt-tiny.onnx" -q --target cpux4 --plan same.plan; expect_out "instead  dp 4"
expect 0 "more devices do not help here" "$apc" plan "$mlp" -q -D d=8 -D hidden=8 -D layers=1 --target cpux2 --tp 2

# every spelling of a value
small="-D d=8 -D hidden=8 -D layers=1"
expect 0 "" "$apc" plan "$mlp" $small --target=cpux2 --dim=batch=4 -q
expect 0 "" "$apc" plan "$mlp" -Dd=8 -Dhidden=8 -D layers=1 --target cpux2 -q
expect 0 "" "$apc" --target cpux2 plan "$mlp" $small -q
expect 0 "" "$apc" plan $small -q -- "$mlp"
APC_TARGET=cpux2 expect 0 "on cpux2" "$apc" plan "$mlp" $small -q

# part of the contract, but not built: exit 5, its own code, nothing on standard output
later() { # later CODE OPTION...
  local code=$1
  shift
  expect 5 "error[$code]" "$apc" compile "$mlp" $small "$@"; no_out
}
later APC0626 --dtype fp8
later APC0636 --train mse --train-mode 'y=dropout(0.1)'
later APC0637 --train mse --offload weights
later APC0644 --weights-dtype int8 --dtype bf16
later APC0644 --weights-dtype int8 --target dgx-a100x1
later APC0644 --weights-dtype int8 --train cross_entropy
# Kernels that are not built count for plans only, which say so.
attention="$source_dir/examples/llama.apc -D layers=1 --dtype bf16 --target dgx-h100x1 --dim seq=2048"
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $attention -q --json; cp out built.json
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $attention -q --json --assume-kernels
expect_json "d['assumed_kernels'] and d['time_us'] < json.load(open('built.json'))['time_us'] and 'assumed_kernels' not in json.load(open('built.json'))"
# In training: gradients that recompute elementwise chains read and store less; a host that issues kernels slowly.
training="$source_dir/examples/gpt.apc -D layers=1 --dim seq=256 --batch 8 --train cross_entropy --dtype bf16"
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $training --target dgx-a100x1 -q --json; cp out built.json
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $training --target dgx-a100x1 -q --json --assume-kernels; cp out assumed.json
expect_json "d['breakdown_us']['memory_bound'] < json.load(open('built.json'))['breakdown_us']['memory_bound']"
"$apc" targets show dgx-a100x1 | sed 's/launch 3 us;/launch 3 us; host 900 us;/' >slow.topo
# shellcheck disable=SC2086
expect 0 "" "$apc" plan $training --target ./slow.topo -q --json --assume-kernels
expect_json "d['time_us'] > 2 * json.load(open('assumed.json'))['time_us']"
# shellcheck disable=SC2086
expect 0 "; assuming kernels that are known but not built" "$apc" plan $attention -q --assume-kernels
expect 2 "takes no option '--assume-kernels'" "$apc" compile "$mlp" $small --assume-kernels; no_out
expect 1 "error" "$apc" import-hf folder -o m.apc; no_out
expect 5 "error[APC0649]" "$apc" convert "$mlp" m.html; no_out
# each of them has its own text, and help says so
for code in $(sed -n 's/^DIAG(later_[a-z_]*, "\(APC[0-9]*\)".*/\1/p' "$source_dir/base/diag.def"); do expect 0 "not built yet" "$apc" explain "$code"; done
# help: common options first, unbuilt ones last
for command in compile plan run verify bench; do
  "$apc" $command --help >out
  last="$command --help"
  check "the common options are not first" test "$(grep -n '^Common' out | cut -d: -f1)" -eq 4
  check "--target is not the first option" bash -c 'sed -n 5p out | grep -q -- --target'
  check "options that are not built are not last" bash -c "! sed -n '/^Not built yet/,\$p' out | tail -n +2 | grep '^[A-Z]'"
done

# the promised options are in the tables: built, or refused by name
"$apc" "$mlp" $small -q -o program; ./program --help >help.program; "${apc%/*}/apc-opt" --help >help.apc-opt
known() { # known WHERE FLAG: true if the option is shown, or for apc the word
  [ -e "help.$1" ] || "$apc" help "$1" >"help.$1" 2>err
  grep -qE -- "^ +(-[a-z], )?$2([ =[]|\$)|^ +$2, " "help.$1"
}
while IFS=: read -r where what; do
  case $where in
    \#* | of\ * | '') ;;
    words\ of\ *) for word in ${what#:}; do last="$where $word"; check "apc does not know it" bash -c '[[ "$("$1" plan x.onnx "$2=$3" 2>&1)" != *"does not take"* ]]' words "$apc" "${where#words of }" "$word"; done ;;
    *) for command in ${where//,/ }; do for flag in $what; do last="$command $flag"; check "it is in no table" known "$command" "$flag"; done; done ;;
  esac
done <"$source_dir/tests/cli/contract.txt"
expect 0 "mlp for cpu, by apc 0." ./program --version; no_err
expect 0 "1 run: median" ./program --thread-count 1 --bench=1
expect 2 "--thread-count 0: expected a positive number of threads" ./program --thread-count 0 --bench=1

# an option where a value is expected
expect 2 "'--json' is an option" "$apc" plan "$mlp" --target --json
expect 2 "option '--dim' needs a value: NAME=N; '--tp' is an option" "$apc" plan "$mlp" --dim --tp 2
# neutral values of these options are accepted
expect 0 "" "$apc" plan "$mlp" $small -q --zero 0 --recompute none --dtype f32 --objective latency --tp auto --micro-batches auto

# the intended value: a device instead of a machine, files of the other kind
machine() { expect 1 "error[APC0502]: there is no target '$1'" "$apc" plan "$mlp" --target "$1"; expect_err "$2"; no_out; }
machine h100 "machines with it: dgx-h100, nebius-h100, aws-p5.48xlarge"; expect_err "dgx-h100xN takes N of its devices"
machine H100x8 "dgx-h100"; machine 8xh100 "dgx-h100"; machine h100:4 "dgx-h100"; machine A100-80GB "dgx-a100-80gb"; machine 4090 "rtx4090-x4"; machine V100 "aws-p3.16xlarge"
machine xyz "lists all"; machine dgx-h10 "dgx-h100"
for command in run verify bench; do
  expect 2 "'x.npy' is one tensor" "$apc" $command "$mlp" $small --inputs x.npy; expect_err "--input x=@x.npy"
  expect 2 "'x.npz' is an archive" "$apc" $command "$mlp" $small --input x=@x.npz; expect_err "--inputs x.npz"
  expect 2 "--input x=x.npy: the value is @FILE.npy" "$apc" $command "$mlp" $small --input x=x.npy; expect_err "--input x=@x.npy"
  expect 2 "'x.npy' is one tensor" "$apc" $command "$mlp" $small --expect x.npy
done
expect 2 "not 'y.npy'" "$apc" run "$mlp" $small --outputs y.npy; expect_err "--output NAME=@y.npy"

# common input of newcomers
expect 2 "usage: apc MODEL" "$apc" --target cpu
expect 2 "usage: apc doctor [options]" "$apc" doctor extra
expect 2 "alone lists them" "$apc" targets list
expect 2 "takes N, a whole number from 1, not '0'" "$apc" bench "$mlp" --runs 0
expect 2 "takes R, a number from 0, not 'x'" "$apc" run "$mlp" --rtol x
expect 0 "" "$apc" "$mlp" $small -q -o prog
expect 1 "this is a compiled program, which runs by itself: ./prog --help" "$apc" run prog

# manners: colour only on request, none with NO_COLOR
expect 2 "" "$apc" plan --color=always; expect_err $'\033['
expect 2 "" "$apc" plan; check "colour without a terminal" bash -c '! grep -q "$(printf "\033")" err'
expect 0 "" "$apc" plan "$mlp" $small -q; no_err
expect 0 "Planning" "$apc" plan "$mlp" $small
summary 734
