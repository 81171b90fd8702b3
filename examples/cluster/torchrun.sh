#!/bin/bash
# usage, on every machine: NODES=2 RANKS=4 MASTER=node1 ./torchrun.sh ./model --inputs a.npz --outputs b.npz
# RANKS is the number per machine; torchrun sets rank and meeting place of each process. With several machines
# APC_SECRET_FILE names a file with the same secret on all of them (docs/guide/launch.md).
set -eu
exec torchrun --no-python --nnodes "${NODES:-1}" --nproc-per-node "${RANKS:-1}" --rdzv-backend c10d \
  --rdzv-endpoint "${MASTER:-127.0.0.1}:${PORT:-29500}" --rdzv-id "${RUN:-apc}" "$@"
