#!/bin/bash
# usage: cluster.sh APC
# Runs the examples of examples/cluster on loopback.  Slurm's srun and torchrun are stand-ins that set the variables
# which the real ones set; Kubernetes' Job is read as YAML, checked against the rules that the example depends on, and
# its container's command runs once per completion index.
. "$(dirname "$0")/lib.sh"
cluster=$source_dir/examples/cluster
program model 4 # its outputs: model.alone.npz

# stand-ins: both start 4 processes
mkdir bin
cat >bin/srun <<'SH'
#!/bin/bash
while [[ $1 == --* ]]; do shift; done
for rank in 0 1 2 3; do
  SLURM_STEP_ID=0 SLURM_PROCID=$rank SLURM_NTASKS=4 SLURM_LOCALID=$rank SLURM_STEP_NODELIST=127.0.0.1 SLURM_NODELIST=127.0.0.1 "$@" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
SH
cat >bin/torchrun <<'SH'
#!/bin/bash
[ "$1" = --no-python ] || exit 9
while [[ $1 == --* ]]; do case $1 in --nproc-per-node) n=$2; shift 2 ;; --rdzv-endpoint) at=$2; shift 2 ;; --no-python) shift ;; *) shift 2 ;; esac; done
for ((rank = 0; rank < n; rank++)); do
  RANK=$rank WORLD_SIZE=$n LOCAL_RANK=$rank MASTER_ADDR=${at%:*} MASTER_PORT=${at#*:} TORCHELASTIC_RUN_ID=apc "$@" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
SH
chmod +x bin/*
port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

expect 0 "" env PATH="$PWD/bin:$PATH" SLURM_JOB_ID=$$ INPUTS="$inputs" OUTPUTS=slurm.npz bash "$cluster/slurm.sbatch"
same model.alone.npz slurm.npz
check "the secret remains" test ! -e "secret.$$"
expect 0 "" env PATH="$PWD/bin:$PATH" RANKS=4 PORT="$(port)" "$cluster/torchrun.sh" ./model --inputs "$inputs" --outputs torch.npz
same model.alone.npz torch.npz

# Kubernetes: the command with the variables of each pod; names of pods and paths become those of this machine
head -c 32 /dev/urandom | base64 >secret
cat >job.py <<'PY'
import os, subprocess, sys, yaml
path, model, inputs, port = sys.argv[1:]
service, job = yaml.safe_load_all(open(path))
assert (service["apiVersion"], service["kind"]) == ("v1", "Service") and (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
spec, pod = job["spec"], job["spec"]["template"]["spec"]
assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"] == 4
assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
assert service["spec"]["publishNotReadyAddresses"] is True and pod["subdomain"] == service["metadata"]["name"]
assert pod["restartPolicy"] == "Never" and spec["backoffLimit"] == 0
(container,) = pod["containers"]
assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
shell, flag, text = container["command"]
first = job["metadata"]["name"] + "-0." + service["metadata"]["name"] + ":29500"
assert first in text and "/run/apc/secret" in text
ranks = []
for index in range(4):
    folder = f"pod{index}"
    os.mkdir(folder)
    here = text.replace(first, "127.0.0.1:" + port).replace("/run/apc/secret", "secret").replace("/model", model)
    here = here.replace("/inputs.npz", inputs).replace("/tmp/secret", folder + "/secret")
    assert here.count(folder) == 1
    env = {e["name"]: e["value"].replace("/tmp", folder) for e in container["env"]}
    out = [" --outputs kubernetes.npz"] if index == 0 else [""]
    ranks.append(subprocess.Popen([shell, flag, here + out[0]], env={**os.environ, **env, "JOB_COMPLETION_INDEX": str(index)}))
sys.exit(max(r.wait() for r in ranks))
PY
if /usr/bin/python3 -c 'import yaml' 2>/dev/null; then
  expect 0 "" /usr/bin/python3 job.py "$cluster/kubernetes.yaml" "$PWD/model" "$inputs" "$(port)"
  same model.alone.npz kubernetes.npz
else
  echo "no PyYAML: kubernetes.yaml was not run"
fi
summary 8
