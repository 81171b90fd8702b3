#!/bin/bash
# Models that do not fit: by how much, which values are large, how many devices are enough; and the part of a device's
# memory that programs cannot use.
. "$(dirname "$0")/lib.sh"
mlp=$source_dir/examples/mlp.apc
sizes="-D d=1024 -D hidden=2048 -q" # 16,789,504 bytes of weights a layer
cat >box.topo <<'END'
gpu g { memory 100 MB at 1 TB/s; reserve 40 MB; launch 2 us; peak f32 1 TFLOPS; peak bf16 2 TFLOPS; }
machine box { devices 2 g; link l at 1 GB/s; network n 1 at 10 Gbit/s with tcp; }
END
sed 's/network.*;//' box.topo >alone.topo
sed 's/reserve 40 MB;//' box.topo >whole.topo
plan() { # CODE TEXT OPTION...
  local code=$1 text=$2
  shift 2
  # shellcheck disable=SC2086
  expect "$code" "$text" "$apc" plan "$mlp" $sizes "$@"
}

# The deficit, total and per rank, is the missing memory; the largest tensors in their order; in JSON, too.
plan 3 "error[APC0405]: no feasible plan for box.topo: 57.2 MiB are allowed on a rank (95.4 MiB less 38.1 MiB reserved)" -D layers=8 --target box.topo
no_out
expect_err "weights and state are 128.1 MiB; even split over 2 ranks they are 13.7 MiB too much in all, 6.8 MiB per rank"
expect_err 'note: the largest tensors: weight "layers.0.up.w" f32[1024, 2048] 8.0 MiB, weight "layers.0.down.w" f32[2048, 1024] 8.0 MiB, dot '
expect_err "help: the fewest devices on which a plan was found are 4: --target box.topox4"
plan 3 "" -D layers=8 --target box.topo --json
expect_json 'd["exit_code"] == 3 and [x["severity"] for x in d["diagnostics"][0]["notes"]] == ["note", "help"]'
expect_json 'd["diagnostics"][0]["message"].endswith("6.8 MiB per rank") and "are 4: --target box.topox4" in d["diagnostics"][0]["notes"][1]["message"]'
plan 3 "weights and state are 64.0 MiB: 6.8 MiB too much" -D layers=4 --target box.topox1
expect_err "are 2: --target box.topox2"

# Weights fit, computed values do not: the parts of that rank, and by how much.
plan 3 "on a rank, " -D layers=1 --target box.topox1 --memory 20MB --dim-hint batch=2000 --micro-batches 1
expect_err "too much; 19.1 MiB are allowed on a rank"
check "no reserve where --memory counts" bash -c '! grep -q reserved err'
expect_err "note: on that rank: weights 16.0 MiB, state 0 B, activations "
check "the parts are not the sum, or the deficit is another" /usr/bin/python3 - <<'END'
import re
scale = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
read = lambda m: float(m[1]) * scale[m[2]]
text = open("err").read()
one = lambda pattern: read(re.search(pattern + r" ([0-9.e+]+) ([KMG]?i?B)", text))
needs, parts = one("needs"), sum(one(p) for p in ("on that rank: weights", "state", "activations", "communication"))
assert abs(needs - parts) < 0.01 * needs and abs(needs - 20e6 - one("on a rank,")) < 0.01 * needs, text
END

# The number of devices is right: there is a plan on so many, and none on the next smaller number.
for layers in 8 12 30; do
  plan 3 "" -D layers=$layers --target box.topox1
  fewest=$(sed -n 's/.*the fewest devices on which a plan was found are \([0-9]*\): --target \(.*\)/\1/p' err)
  check "no number of devices" test -n "$fewest"
  plan 0 "" -D layers=$layers --target "box.topox$fewest"
  plan 3 "" -D layers=$layers --target "box.topox$((fewest - 2))"
done
plan 3 "weights and state alone need 3 such devices, more than one machine has" -D layers=8 --target alone.topo
plan 3 "ranks of one machine share its memory, so more ranks do not help" -D layers=1200 --target cpux2
plan 3 "the fewest devices on which a plan was found are 4: --target cpux4" -D layers=2 --target cpux2 --memory 10MB
plan 3 "a plan fits without the forced options" -D layers=1 --target box.topox1 --memory 30MB --dim-hint batch=4000 --micro-batches 1
# A type of two bytes needs half of it.
plan 3 "" -D layers=7 --target box.topox1 --dtype f32
plan 0 "" -D layers=6 --target box.topox1 --dtype bf16
plan 3 "the fewest devices on which a plan was found are 2" -D layers=8 --target box.topox1 --dtype bf16

# Stages of a long function are cut everywhere, not only near its beginning: 16 with 10 layers of 32 MiB each.
expect 0 "" "$apc" plan "$source_dir/examples/mlp.apc" -D layers=160 --target cpux16 --pp 16 --micro-batches 1 --json -q
expect_json 'd["bytes_per_device"] < 400e6'

# The reserve: it decides between 60 and 100 MB; --memory overrides it; it is shown.
plan 3 "(95.4 MiB less 38.1 MiB reserved)" -D layers=5 --target box.topox1
plan 0 "" -D layers=5 --target box.topox1 --memory 100MB
plan 0 "" -D layers=5 --target whole.topox1
plan 3 "92.5 MiB are allowed on a rank" -D layers=6 --target box.topox1 --memory 97MB
check "no reserve where --memory counts" bash -c '! grep -q reserved err'
plan 0 "each 1.0 TFLOPS f32, 100 MB at 1.0 TB/s, 40 MB reserved" -D layers=3 --target box.topox1
expect_out "limit    57.2 MiB per rank (95.4 MiB less 38.1 MiB reserved)"
plan 0 "limit    92.5 MiB per rank (--memory)" -D layers=3 --target box.topox1 --memory 97MB
plan 0 "" -D layers=3 --target whole.topox1
check "no limit but the memory" bash -c '! grep -q "^  limit" out'
plan 0 "" -D layers=3 --target box.topox1 --json
expect_json 'd["limit_bytes"] == 60e6 and d["bytes_per_device"] <= 60e6 and d["time_one_device_us"] is not None'
plan 0 "" -D layers=5 --target box.topo --json # one device has enough memory, but not for programs
expect_json 'd["time_one_device_us"] is None'
expect 0 "100 MB at 1.0 TB/s, 40 MB reserved" "$apc" targets check box.topo
expect 0 "reserve 40 MB;" "$apc" targets show box.topo
expect 0 "reserve 40 MB;" "$apc" targets show box.topox4
sed 's/reserve 40 MB/reserve 100 MB/' box.topo >full.topo
expect 1 "leaves a rank no memory" "$apc" targets check full.topo
summary 51
