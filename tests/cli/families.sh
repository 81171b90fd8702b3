#!/bin/bash
# The model files of examples/ at small sizes: four ranks, tensors cut or stages, equal one rank and the reference, and
# are proved.
. "$(dirname "$0")/lib.sh"

number=0
family() { # MODEL SETTINGS...
  local model=$source_dir/examples/$1.apc plan
  shift
  for plan in "--tp 4" "--pp 2 --tp 2"; do
    in_quarter $((number++)) || continue
    expect 0 "" "$apc" verify "$model" "$@" --init random --target cpux4 $plan --json -q
    expect_json 'd["ok"] and d["proof"] == "proved" and d["ranks"] == 4'
  done
}

family resnet -D depth=18 -D width=4 -D classes=5 -D image=32 --dim batch=2
family resnet -D depth=50 -D width=2 -D classes=5 -D image=32 --dim batch=2
family unet -D channels=4 -D levels=2 -D image=16 --dim batch=2
family vit -D layers=2 -D d=32 -D heads=4 -D patch=8 -D image=32 -D classes=10 --dim batch=2
family bert -D layers=2 -D d=32 -D heads=4 -D vocab=50 -D ctx=32 --dim batch=2 --dim seq=16
family t5 -D layers=2 -D d=32 -D d_kv=8 -D heads=4 -D ffn=64 -D vocab=50 --dim batch=2 --dim seq=16 --dim tgt=9
family moe -D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50 --dim batch=2 --dim seq=16
family moe -D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50 -D routing=capacity -D capacity_factor=0.5 --dim batch=2 --dim seq=16
family moe -D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50 -D routing=dropless --dim batch=2 --dim seq=16
summary 36 8
