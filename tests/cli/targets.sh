#!/usr/bin/env bash
# apc targets (list, show, check) and plans for every target: targets.sh APC
. "$(dirname "$0")/lib.sh"
gpt="$source_dir/examples/gpt.apc"
shape="-D layers=1 -D d=64 -D heads=4 -D vocab=512 -D ctx=64 --dim seq=64"
small="$shape --dim batch=8"

# the list
expect 0 "dgx-h100" "$apc" targets; no_err
expect 0 "" "$apc" targets --json
expect_json 'd["schema"] == "apc.targets/1" and len(d["targets"]) >= 26'
expect_json '{x["name"]: x for x in d["targets"]}["aws-p5.48xlarge"]["usd_per_hour"] == 55.04'
expect_json '{x["name"]: x for x in d["targets"]}["dgx-h100"]["usd_per_hour"] is None'
expect_json '"fp8" not in {x["name"]: x for x in d["targets"]}["dgx-a100"]["flops_per_s"]'
"$apc" targets --names >names
check "a name is missing" test "$(wc -l <names)" -ge 26

# the output of show is a file that check accepts, and that shows the same again
while read -r name; do
  expect 0 "machine " "$apc" targets show "$name"
  grep -v '^#' out >"$name.topo"
  expect 0 "" "$apc" targets check "$name.topo"
  expect 0 "" "$apc" targets show "./$name.topo"
  check "show differs after being read back" diff <(grep -v '^#' out) "$name.topo"
done <names
expect 0 "source \"" "$apc" targets show dgx-a100x32; expect_out "devices 32"; expect_out "32 gpu ranks of 4 nodes"
expect 0 "" "$apc" targets show dgx-a100x4 --json; expect_json 'd["target"]["ranks"] == 4 and d["target"]["part"] == "A100-SXM4-80GB"'; expect_out '"memory_bytes": 80000000000,'; check "whole numbers have a point" bash -c '! grep -E "_bytes.*\.0,?$" out'

# names
expect 1 "the nearest name is 'dgx-a100'" "$apc" targets show dgx-a10x8
expect 1 "dgx-a100x8 and dgx-a100x16 are" "$apc" targets show dgx-a100x12
cp dgx-a100.topo mine.topo
expect 1 "mine.topox8 and mine.topox16 are" "$apc" targets show mine.topox12
expect 0 "" "$apc" targets show mine.topox16
expect 1 "from 1 to 999999" "$apc" targets show mine.topox0
expect 1 "no network statement" "$apc" targets show rtx4090-x4x8

# files with errors: exit 1, the place, and the nearest name
bad() { # bad LINE:COL TEXT CONTENT
  printf '%s' "$3" >bad.topo
  expect 1 "bad.topo:$1" "$apc" targets check bad.topo
  expect_err "$2"; expect_err "error[APC0501]"; no_out
}
gpu='gpu g { memory 8 GB at 1 TB/s; launch 2 us; peak f32 1 TFLOPS; }'
bad 1:1 "nearest is 'machine'" 'machin m { }'
bad 1:9 "nearest is 'memory'" 'gpu g { memori 8 GB at 1 TB/s; }'
bad 2:10 "a number with a unit" $'gpu g {\n  memory 8 GHz at 1 TB/s; }'
bad 1:14 "nearest is 'bf16'" 'gpu g { peak bf15 1 TFLOPS; }'
bad 1:5 "needs a statement 'launch'" 'gpu g { memory 8 GB at 1 TB/s; }'
bad 1:32 "given twice" 'gpu g { memory 8 GB at 1 TB/s; memory 8 GB at 1 TB/s; }'
bad 2:23 "nearest is 'g1'" "gpu g1 { memory 8 GB at 1 TB/s; launch 2 us; peak f32 1 TFLOPS; }"$'\n'"machine m { devices 2 g2; }"
bad 2:9 "no link that joins all" "$gpu"$'\n''machine m { devices 2 g; }'
bad 2:50 "a date (2026-07-20), found '2026-13-41'" "$gpu"$'\n''machine m { devices 1 g; price 1 USD/h "a price" 2026-13-41; }'
bad 2:50 "a date (2026-07-20), found '2026-02-30'" "$gpu"$'\n''machine m { devices 1 g; price 1 USD/h "a price" 2026-02-30; }'
bad 1:16 "the number is too large" 'gpu g { memory 1e400 GB at 1 TB/s; }'
bad 2:26 "a date" "$gpu"$'\n''machine m { devices 1 g; price 1 USD/h "x"; }'
bad 2:50 "nearest is 'nvlink-ampere'" "$gpu"$'\n''machine m { devices 2 g; link n at 100 GB/s with nvlink-amper; }'
bad 1:8 "end of file" 'gpu g {'
bad 1:1 "no machine" "$gpu"
expect 1 "APC0001" "$apc" targets check missing.topo
printf '%s\n' 'cpu c { cores 2; memory 1 GB at 1 GB/s; launch 1 us; peak f32 1 GFLOPS; }' 'machine m { devices 4 c; link s at 1 GB/s; }' 'target n { machine m; }' >cpus.topo
expect 1 "describe 4 cpus as one" "$apc" targets check cpus.topo; check "reported twice" test "$(grep -c error err)" = 1
expect 2 "reads FILE.topo" "$apc" targets check "$gpt"

# a machine of the user's own
printf '%s\n' "$gpu" 'machine m { devices 4 g; link pcie at 30 GB/s with pcie; price 2 USD/h "home" 2026-01-01; }' >own.topo
expect 0 "own.topo: 4 gpu ranks" "$apc" targets check own.topo
# shellcheck disable=SC2086
expect 0 "" "$apc" plan "$gpt" $small --target ./own.topo --json -q
expect_json 'd["target"]["gpus"] == 4 and d["cost"]["usd_per_hour"] == 2 and abs(d["cost"]["usd_per_step"] - 2 * d["time_us"] / 3.6e9) < 1e-15'

# a plan for every target, or a reason; four devices of the large ones
while read -r name; do
  case $name in h200-x1 | rtx* | dgx-station* | dgx-a100 | cpu) ;; *) name=${name}x4 ;; esac
  # shellcheck disable=SC2086
  timeout 300 "$apc" plan "$gpt" $small --target "$name" --json -q >out 2>err </dev/null
  code=$? last="plan for $name"
  check "exit $code" test $code = 0 -o $code = 3
  if [ $code = 0 ]; then expect_json 'd["time_us"] > 0 and d["chosen"]["tp"] * d["chosen"]["pp"] * d["chosen"]["dp"] * d["chosen"]["cp"] * d["chosen"]["ep"] <= d["target"]["gpus"]'
  else expect_err "error[APC0405]"; expect_err "choose one with --dtype"; fi
done <names

# compute types: a type that the device lacks is refused with the list of its types; two bytes halve the weights
# shellcheck disable=SC2086
{
  expect 3 "known are f32, f16" "$apc" plan "$gpt" $small --target dgx-1-v100-32gb --dtype bf16 -q
  expect 3 "peak of its A100-SXM4-80GB for fp8" "$apc" plan "$gpt" $small --target dgx-a100 --dtype fp8 -q
  expect 3 "for f32 (the default of --dtype)" "$apc" plan "$gpt" $small --target aws-g5.48xlarge -q
  expect 0 "" "$apc" plan "$gpt" $small --target aws-g5.48xlarge --dtype f16 -q
  expect 5 "error[APC0626]" "$apc" compile "$gpt" $small --target dgx-h100 --dtype fp8; no_out
  expect 0 "" "$apc" plan "$gpt" $small --target h200-x1 --json -q; cp out f32.json
  expect 0 "" "$apc" plan "$gpt" $small --target h200-x1 --dtype tf32 --json -q; cp out tf32.json
  expect 0 "" "$apc" plan "$gpt" $small --target h200-x1 --dtype bf16 --json -q
  expect_json 'd["memory_bytes"]["params"] * 2 == json.load(open("f32.json"))["memory_bytes"]["params"]'
  # In so small a model casts take longer than products save.
  large="$gpt -D layers=1 -D d=1024 -D heads=8 -D vocab=4096 -D ctx=512 --dim seq=512 --dim batch=8 --target h200-x1 --json -q"
  for type in f32 tf32 bf16; do expect 0 "" "$apc" plan $large --dtype $type; cp out $type.json; done
  expect_json 'd["time_us"] < json.load(open("tf32.json"))["time_us"] <= json.load(open("f32.json"))["time_us"]'
  expect_json 'd["cost"]["usd_per_hour"] is None and d["cost"]["usd_per_step"] is None'
}

# sizes whose price cannot be computed
for how in --dim --dim-hint; do
  expect 1 "dimension 'batch' cannot be 9223372036854775807" timeout 10 "$apc" plan "$source_dir/examples/mlp.apc" $how batch=9223372036854775807 --target cpux4 -q; expect_err "error[APC0602]"
done

# the device's memory is the limit: 18 GB of weights on cards of 16 and of 24 GB
big="-D layers=24 -D d=4096 -D heads=32 -D vocab=50257 -D ctx=128 --dim seq=128 --dim batch=1"
# shellcheck disable=SC2086
{
  expect 3 "no feasible plan for aws-p3.16xlargex1" "$apc" plan "$gpt" $big --target aws-p3.16xlargex1 -q
  expect 0 "" "$apc" plan "$gpt" $big --target rtx3090-x2-nvlinkx1 --json -q; expect_json 'd["time_one_device_us"] > 0'
  expect 0 "" "$apc" plan "$gpt" $big --target aws-p3.16xlargex2 --json -q; expect_json 'd["time_one_device_us"] is None and d["bytes_per_device"] <= 16e9'
}

# a faster link never makes the best time worse
for options in "--dim batch=1" "--dim batch=8 --tp 4" "--dim batch=8 --pp 2 --micro-batches 2"; do
  times=
  for rate in 0.1 1 10 100; do
    printf '%s\n' "$gpu" "machine m { devices 4 g; link l at $rate GB/s with nvlink-ampere; }" >link.topo
    # shellcheck disable=SC2086
    expect 0 "" "$apc" plan "$gpt" $shape -D d=1024 $options --target ./link.topo --json -q
    times="$times $(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["time_us"])')"
  done
  last="times of faster links, $options:$times"
  # shellcheck disable=SC2086
  check "a time grows" /usr/bin/python3 -c 'import sys; t = [float(x) for x in sys.argv[1:]]; sys.exit(any(b > a * (1 + 1e-9) for a, b in zip(t, t[1:])) or t[-1] == t[0])' $times
done


# machines that are found (tests/targets/README.md): GPUs, links, sockets, and the same target from the text of show
machines=$source_dir/tests/targets
machine() { # TARGET TEXT...
  local target=$1 text
  shift
  expect 0 "" "$apc" targets show "$target"
  for text in "$@"; do expect_out "$text"; done
  grep -v '^#' out >shown.topo
  expect 0 "" "$apc" targets show ./shown.topo
  check "show of $target differs after being read back" diff <(grep -v '^#' out) shown.topo
}
machine "nvidia-smi:$machines/smi-dgx-a100.txt?gpu=A100-SXM4-40GB" "devices 8 A100-SXM4-40GB" "nvlink at 300 GB/s with" "4 NUMA"
machine "nvidia-smi:$machines/smi-dgx-h100.txt" "devices 8 H100-SXM5-80GB" "nvlink at 450 GB/s with" "adapters (12)" "2 NUMA"
machine "nvidia-smi:$machines/smi-p3.8xlarge.txt?gpu=V100-SXM2-16GB" "devices 4 V100" "nvlink at 100 GB/s pair 37.5 GB/s"
machine "nvidia-smi:$machines/smi-rtx3090-x2.txt?gpu=RTX-3090-24GB" "devices 2 RTX" "nvlink at 56.25 GB/s"
machine "nvidia-smi:$machines/smi-l40s-x8.txt?gpu=L40S-48GB" "devices 8 L40S" "link pcie-node joins 4 at 31 GB/s with pcie;" \
  "link sockets at 3.281 GB/s with pcie;" "13.12 GB/s each way between sockets; the processor is not known" "2 NUMA"
machine "$machines/nccl-dgx-1.xml" "devices 2 V100-SXM2-32GB" "nvlink at 25 GB/s" "pcie gen3 at 15.75 GB/s" "not in the file"
machine "$machines/hwloc-nvidiaDGX2.xml?gpu=V100-SXM2-32GB" "devices 16 V100" "nvlink at 150 GB/s with" "2 NUMA" "switches join"
# The same without NVLink: 2 GPUs below a switch, 2 switches below another, 2 host bridges of a socket, 2 sockets.
machine "$machines/hwloc-nvidiaDGX2.xml?gpu=L40S-48GB" "link pcie-switch joins 2 at 15.75 GB/s with pcie;" \
  "link pcie-switches joins 4 at 7.877 GB/s" "link pcie-node joins 8 at 3.938 GB/s" "link sockets at 1.641 GB/s" "as of Skylake to Ice Lake" \
  "4 GPUs below a PCIe switch share as many lanes above it"
# GPUs without access to each other go through the host at once.
machine "$machines/hwloc-nvidiaDGX2.xml?gpu=RTX-4090-24GB" "link pcie-node joins 8 at 3.938 GB/s with pcie-through-host;" "link sockets at 1.641 GB/s"
sed 's/NODE/SYS/g' "$machines/smi-l40s-x8.txt" >far.txt
sed 's/NODE/PHB/g' "$machines/smi-l40s-x8.txt" >hosts.txt
card='device="0x26b9" link_speed="16 GT/s" link_width="16"'
printf '%s\n' '<system><cpu vendor="AuthenticAMD" familyid="25" modelid="1"><pci busid="1" class="0x060400">' "<pci busid=\"2\" $card>" \
  '<gpu dev="0"/></pci></pci></cpu>' "<cpu><pci busid=\"3\" $card>" '<gpu dev="1"/></pci></cpu></system>' >two.xml
machine two.xml "devices 2 L40S" "link sockets at 31.5 GB/s with pcie;" "as of Zen 3 or 4"
pair() { # GPU0..: NV4 inside pairs of GPUs, NODE in a socket of four, SYS beyond
  printf '\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tCPU Affinity\n'
  for i in 0 1 2 3 4 5 6 7; do
    printf 'GPU%d' $i
    for j in 0 1 2 3 4 5 6 7; do
      if [ $i = $j ]; then printf '\tX'; elif [ $((i / 2)) = $((j / 2)) ]; then printf '\tNV4'
      elif [ $((i / 4)) = $((j / 4)) ]; then printf '\tNODE'; else printf '\tSYS'; fi
    done
    printf '\t0-9\n'
  done
}
pair >pairs.txt
machine "nvidia-smi:pairs.txt?gpu=RTX-3090-24GB" "link nvlink joins 2 at 56.25 GB/s with nvlink-bridge;" \
  "link pcie-node joins 4 at 31 GB/s with pcie-through-host;" "link sockets at 3.281 GB/s with pcie-through-host;"
machine "nvidia-smi:hosts.txt?gpu=L40S-48GB" "link pcie-host joins 4 at 31 GB/s"
sed 's/type="NUMANode"/& local_memory="68719476736"/' "$machines/hwloc-16em64t-4s2c2t.xml" >cores.xml
machine cores.xml "cores 8;" "memory 68719 MB" "4 NUMA"
expect 1 "no cores with memory" "$apc" targets check "$machines/hwloc-16em64t-4s2c2t.xml"
expect 1 "kind of the GPU 10de:06d2" "$apc" targets check "$machines/hwloc-24em64t-2n6c2t-pci.xml"; expect_err "kinds: A100-SXM4-40GB"
expect 1 "kind of the GPUs is not known" "$apc" targets check "nvidia-smi:$machines/smi-l40s-x8.txt"
# names from nvidia-smi -q, which has "MIG Mode" for each GPU; devices of MIG are refused
q() { for i in 0 1; do printf '    Product Name                          : NVIDIA GeForce RTX 3090\n    MIG Mode\n        Current : N/A\n'; done; }
{ cat "$machines/smi-rtx3090-x2.txt"; q; } >with_q.txt
expect 0 "2 gpu ranks" "$apc" targets check nvidia-smi:with_q.txt
{ cat "$machines/smi-rtx3090-x2.txt"; echo "  MIG 1g.5gb Device 0: (UUID: MIG-1)"; } >with_mig.txt
expect 1 "divided by MIG" "$apc" targets check "nvidia-smi:with_mig.txt?gpu=RTX-3090-24GB"
expect 0 "assumed: PCIe gen5 x16, the file does not say" "$apc" targets check "nvidia-smi:$machines/smi-dgx-h100.txt"
printf '<!DOCTYPE s [<!ENTITY a "b">]><system/>' >entity.xml
expect 1 "declares an entity" "$apc" targets check entity.xml
printf '<system><cpu><pci vendor="0x1002"><gpu dev="0"/></pci></cpu></system>' >amd.xml
expect 1 "not of NVIDIA" "$apc" targets check amd.xml
sed '/<u64values/s/25000/25001/' "$machines/hwloc-nvidiaDGX2.xml" >odd.xml
expect 0 "links of NVLink of GPU 0, for 25001 MB/s" "$apc" targets check 'odd.xml?gpu=RTX-3090-24GB'
sed '0,/25000 25000/s///' "$machines/hwloc-nvidiaDGX2.xml" >short.xml
expect 1 "782 values for 28 objects" "$apc" targets check 'short.xml?gpu=V100-SXM2-32GB'

# N devices of a machine that is found; a file whose own name ends in xN is that file
h100=nvidia-smi:$machines/smi-dgx-h100.txt
expect 0 "4 gpu ranks of 1 node" "$apc" targets check "${h100}x4"
expect 0 "2 gpu ranks of 1 node" "$apc" targets check "$h100?gpu=H100-SXM5-80GBx2"
expect 1 "one found has 8 devices" "$apc" targets check "${h100}x9"
expect 1 "the number after x must be from 1" "$apc" targets check "${h100}x0"
cp "$machines/smi-dgx-h100.txt" boxx2
expect 0 "8 gpu ranks" "$apc" targets check nvidia-smi:boxx2
expect 0 "4 gpu ranks" "$apc" targets check nvidia-smi:boxx2x4
expect 0 "8 gpu ranks" "$apc" targets check "$machines/hwloc-nvidiaDGX2.xml?gpu=V100-SXM2-32GBx8"
expect 0 "1 gpu rank of" "$apc" targets check "$machines/nccl-dgx-1.xmlx1"
expect 1 "one found has 2 devices" "$apc" targets check "$machines/nccl-dgx-1.xmlx3"
expect 0 "2 cpu ranks" "$apc" targets check cores.xmlx2

# Plans use near links: the same GPUs, all on sockets of their own, take longer.
for file in "$machines/smi-l40s-x8.txt" far.txt; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" plan "$gpt" $small --dtype bf16 --tp 4 --dp 2 --target "nvidia-smi:$file?gpu=L40S-48GB" --json -q
  cp out "$(basename "$file").json"
done
check "near links" /usr/bin/python3 -c 'import json; a, b = (json.load(open(f"{f}.json"))["time_us"] for f in ("smi-l40s-x8.txt", "far.txt")); assert a < .9 * b, (a, b)'

# plans say what is assumed, once
expect 0 "" "$apc" plan "$gpt" $small --target "${h100}x2"
check "a note is not printed once" test "$(grep -c 'Note .*assumed: PCIe gen5 x16' err)" = 1
expect 0 "" "$apc" plan "$gpt" $small --target "${h100}x2" --json -q; no_err
expect_json 'any("PCIe gen5 x16" in note for note in d["figures"]["notes"])'
expect 0 "" "$apc" plan "$gpt" $small --target cpu --json -q; expect_json 'd["figures"]["notes"] == []'

# this machine through NVML (a double); a calibration of it
mkdir nvml
"${CC:-cc}" -shared -fPIC -o nvml/libnvidia-ml.so.1 "$source_dir/tests/doubles/nvml.c"
nvml=(env "LD_LIBRARY_PATH=$PWD/nvml")
expect 0 "devices 8 H100-SXM5-80GB;" "${nvml[@]}" DOUBLE_NVML=h100 "$apc" targets show local
expect_out "link nvlink at 450 GB/s with nvlink-hopper;"; expect_out "pcie gen5 at 63.02 GB/s;"; expect_out "NVLink 4.0 by NVML"; expect_out "2 NUMA"
cp out h100
expect 0 "assumed: switches at the other ends of 144 links of NVLink" "${nvml[@]}" DOUBLE_NVML=blind "$apc" targets show local
check "the machine is another one" bash -c 'diff <(grep -v "assumed: switches" out) h100'
cp h100 out
sed '/^target/,$d; s/H100-SXM5-80GB\( {\|;\)/H100-SXM5-80GB-measured\1/; s/450 GB/400 GB/; s/devices 8/source "measured by apc calibrate on 2026-11-30";\n  &/' out >measured.topo
expect 0 "devices 4 RTX-4090-24GB;" "${nvml[@]}" DOUBLE_NVML=rtx "$apc" targets show local
expect_out "link pcie-node joins 2 at 31.51 GB/s with pcie-through-host;"; expect_out "link sockets at"; expect_out "cannot access each other's memory over PCIe"
expect 0 "localx2: 2 gpu ranks of 1 node" "${nvml[@]}" DOUBLE_NVML=rtx "$apc" targets check localx2
expect 1 "the kind of NVIDIA TITAN Q is not known" "${nvml[@]}" DOUBLE_NVML=titan "$apc" targets check local; expect_err "?gpu=KIND"
expect 0 "1 gpu rank of 1 node" "${nvml[@]}" DOUBLE_NVML=titan "$apc" targets check 'local?gpu=RTX-4090-24GB'
expect 1 "GPU 0 is divided by MIG" "${nvml[@]}" DOUBLE_NVML=mig "$apc" targets check local
expect 1 "the GPUs 0 and 1 disagree about their links" "${nvml[@]}" DOUBLE_NVML=ends "$apc" targets check local
export APC_CALIBRATION=measured.topo
expect 0 "link nvlink at 400 GB/s" "${nvml[@]}" DOUBLE_NVML=h100 "$apc" targets show local; expect_out "devices 8 H100-SXM5-80GB-measured;"
# shellcheck disable=SC2086
expect 0 "figures measured by apc calibrate: measured.topo" "${nvml[@]}" DOUBLE_NVML=h100 "$apc" plan "$gpt" $small --dtype bf16 --target localx2 -q
expect 1 "measured 8 H100-SXM5-80GB-measured, but local has 4 RTX-4090-24GB" "${nvml[@]}" DOUBLE_NVML=rtx "$apc" targets check local
expect 0 "link pcie-node joins 4 at 31 GB/s" "$apc" targets show "nvidia-smi:$machines/smi-l40s-x8.txt?gpu=L40S-48GB"
unset APC_CALIBRATION

# this machine
mkdir -p broken
: >broken/libhwloc.so.15
expect 5 "needs libhwloc.so.15" env LD_LIBRARY_PATH="$PWD/broken" "$apc" targets check local; expect_err "package is libhwloc15"
if "$apc" doctor | grep -q '^ok  *hwloc'; then
  expect 0 "local: " "$apc" targets check local
  expect 0 "localx2: 2 " "$apc" targets check localx2
  expect 1 "localx0" "$apc" targets check localx0
  expect 0 "cpu rank" "${nvml[@]}" DOUBLE_NVML=none "$apc" targets check local
  expect 0 "NVML, which does not start (error 9)" "${nvml[@]}" DOUBLE_NVML=lost "$apc" targets check local
fi
if "$apc" doctor | grep -q '^ok  *hwloc' && [ ! -e /dev/nvidiactl ]; then
  expect 0 "" "$apc" compile "$source_dir/examples/mlp.apc" --target localx2 -o local
  expect_err "Note localx2: assumed: rates of the built-in cpu"
  expect 0 "" ./local --bench
  expect 0 "" "$apc" run "$source_dir/examples/mlp.apc" --target local
fi
summary 425
