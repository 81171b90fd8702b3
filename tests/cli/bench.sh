#!/bin/bash
# apc bench of models and of compiled programs: consistent figures, inputs, refusals, and a program's exit codes.
. "$(dirname "$0")/lib.sh"
gpt=$source_dir/examples/gpt-tiny.onnx
cat >figures.py <<'EOP'
import json, re, sys
unit = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
def seconds(what):
    m = re.search(rf"^  {what} +([\d.]+) (ns|us|ms|s)\b", open("text").read(), re.M)
    return float(m[1]) * unit[m[2]]
d = json.load(open("out"))
assert d["schema"] == "apc.bench/1" and d["runs"] == int(sys.argv[1]) and d["ranks"] == int(sys.argv[2]), d
order = [d[k + "_us"] for k in ("min", "median", "p90", "p99", "max")]
assert order == sorted(order) and order[0] > 0 and d["min_us"] <= d["mean_us"] <= d["max_us"], d
assert d["p99_us"] == d["max_us"], "of fewer than 100 runs nine tenths and nine are the longest"
batch = int(sys.argv[3])
assert d["batch"] == batch and abs(d["requests_per_s"] * d["mean_us"] / 1e6 / batch - 1) < 1e-9, d
order = [seconds(k) for k in ("median", "p90", "p99")]
assert order == sorted(order), order
rate, together = re.search(r"^  throughput +([\d.]+) requests/s(?:, (\d+) in a run)?$", open("text").read(), re.M).groups()
assert int(together or 1) == batch and abs(float(rate) * seconds("mean") / 1e6 / batch - 1) < 0.02, (rate, seconds("mean"))
EOP
measured() { # measured RANKS COMMAND...
  local ranks=$1
  shift
  expect 0 "" "$@" --runs 7 --warmup 1 -q; cp out text
  expect 0 "" "$@" --runs 7 --warmup 1 -q --json
  check "the figures" /usr/bin/python3 figures.py 7 "$ranks" 2
}

measured 1 "$apc" bench "$gpt" --dim batch=2 --dim seq=8
expect_json 'd["program"] is None and d["model"].endswith("gpt-tiny.onnx") and d["target"] == "cpu" and d["predicted_us"] > 0'
expect 0 "" "$apc" -q "$gpt" --target cpux2 -o prog
measured 2 "$apc" bench prog --dim batch=2,seq=8
expect_json 'd["program"] == "prog" and d["model"] == "gpt-tiny" and d["target"] == "cpux2" and d["predicted_us"] is None'
expect 0 "prog, gpt-tiny for cpux2, 2 ranks, 1 run" "$apc" bench ./prog --runs 1 -q; no_err

# Inputs and outputs of a program.
/usr/bin/python3 -c 'import numpy; numpy.save("x.npy", numpy.full((2, 8), 3)); numpy.savez("x.npz", tokens=numpy.full((2, 8), 3)); numpy.save("over.npy", numpy.full((2, 8), 99999))'
expect 0 "" ./prog --inputs x.npz --outputs y.npz
for given in "--inputs x.npz" "--input tokens=@x.npy" "--input @x.npy" "--input tokens=zeros --inputs x.npz"; do
  # shellcheck disable=SC2086
  expect 0 "equal    logits" "$apc" bench prog $given --expect y.npz --runs 2 -q
done
expect 4 "DIFFERS  logits" "$apc" bench prog --input tokens=zeros --dim batch=2 --dim seq=8 --expect y.npz --runs 2 -q
expect 4 "" "$apc" bench prog --inputs x.npz --input tokens=random:5 --dim batch=2 --dim seq=8 --expect y.npz --runs 2 -q --json
expect_json 'd["ok"] is False and d["expected"][0]["name"] == "logits"'

# Files that are no programs, and options that a program cannot take.
expect 1 "error[APC0603]: this is neither a model nor a program of apc: no: No such file" "$apc" bench no -q; no_out
expect 1 "carries no compiled model" "$apc" bench /bin/true -q; expect_err "models have the extension .onnx, .apc or .ir"
expect 1 "is not a regular file" "$apc" bench . -q
head -c -100 prog >short
expect 1 "short is truncated" "$apc" bench short -q
for option in "--target cpu" "--emit=ir" "--tp 2" "-D d=4" "--shape tokens=1,2" "--plan p"; do
  # shellcheck disable=SC2086
  expect 2 "option '${option%%[ =]*}' concerns compilation, but prog is already compiled" "$apc" bench prog $option -q; no_out
done
expect 2 "" "$apc" bench prog --target cpu --json; expect_json 'd["schema"] == "apc.error/1" and d["exit_code"] == 2'

# The messages and exit code of the program itself.
fails_alike() { # fails_alike CODE OPTIONS...
  local code=$1
  shift
  expect "$code" "" ./prog --bench=2 "$@"; sed -n 's/^error: //p' err >said
  expect "$code" "$(cat said)" "$apc" bench prog --runs 2 -q "$@"; no_out
  check "there is no message" test -s said
}
fails_alike 1 --input tokens=@over.npy
fails_alike 1 --inputs no.npz
fails_alike 1 --weights no.safetensors
fails_alike 2 --input toks=random
fails_alike 2 --input tokens=zero
fails_alike 2 --dim bat=2
expect 0 "" "$apc" -q "$source_dir/examples/mlp.apc" -D layers=2 -D d=16 -D hidden=32 --init random --target cpux2 -o slow
last="a rank of a program is killed"
"$apc" bench slow --runs 1000000 -q >out 2>err </dev/null &
pid=$!
victims() { ls -l /proc/[0-9]*/exe 2>/dev/null | sed -nE "s#.*/proc/([0-9]+)/exe -> $work/slow\$#\\1#p"; }
for _ in $(seq 900); do [ "$(victims | wc -l)" -ge 2 ] && break; sleep 0.1; done
sleep 0.3
kill -KILL "$(victims | tail -n 1)"
wait $pid
check "the exit code of a dead rank" test $? -eq 6
expect_err "error[APC0801]: "
summary 66
