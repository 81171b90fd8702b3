#!/usr/bin/env bash
# tests/cli/memory.sh APC - the bytes that a plan foretells are those that its ranks allocate: both come from the memory plan of the Program.
. "$(dirname "$0")/lib.sh"

# foretold MODEL OPTIONS...: the largest rank of the compiled program, class by class; at most what the search counted.
foretold() {
  expect 0 "" "$apc" plan "$@" --json
  cp out plan.json
  expect 0 "" "$apc" "$@" -o model -q
  expect 0 "" ./model --describe=json
  /usr/bin/python3 - >differences 2>&1 <<'END'
import json
plan, program = json.load(open("plan.json")), json.load(open("out"))
def sums(r):
    b = r["predicted_bytes"]
    return {"params": b["params"] + b["mapped"], "state": b["state"], "activations": b["activations"], "comm": b["comm"]}
largest = max((sums(r) for r in program["memory"]), key=lambda b: sum(b.values()))
told = plan["allocated_bytes"]
print(told, largest, plan["bytes_per_device"], plan["counted_bytes"])
raise SystemExit(told != largest | {"total": sum(largest.values())} or told["total"] > plan["counted_bytes"] * 1.01 or
                 plan["bytes_per_device"] != told["total"])
END
  local code=$?
  check "$*: $(cat differences)" [ $code -eq 0 ]
}
examples=$source_dir/examples
foretold "$examples/gpt-tiny.onnx" --target cpux4
foretold "$examples/gpt-tiny.onnx" --target cpux4 --tp 2 --pp 2
foretold "$examples/gpt-tiny.onnx" --target cpux4 --cp 2 --tp 2 --dim-hint seq=64
foretold "$examples/resnet.apc" -D depth=18 --target cpux3
foretold "$examples/lstm.apc" --target cpux2 --tp 2
foretold "$examples/llama.apc" -D layers=2 -D d=128 -D heads=4 -D kv_heads=2 -D vocab=500 -D ffn=256 -D ctx=64 --target cpux4 --tp 4
foretold "$examples/moe.apc" -D layers=1 -D d=64 -D heads=4 -D kv_heads=2 -D vocab=100 -D ffn=64 -D routing=capacity --target cpux4 --ep 4

# The search keeps to what the program will take, the room for layouts of convolutions included.
expect 0 "" "$apc" plan "$examples/unet.apc" --target cpu --memory 665MB --json
expect_json "d['allocated_bytes']['total'] <= 665e6 and d['bytes_per_device'] <= 665e6"
expect 0 "" "$apc" plan "$examples/unet.apc" --target cpu --json
expect_json "d['allocated_bytes']['total'] > 665e6 and d['bytes_per_device'] > 665e6"
# Two bytes instead of four.
expect 0 "" "$apc" plan "$examples/mlp.apc" --target dgx-a100x4 --json; cp out f32.json
expect 0 "" "$apc" plan "$examples/mlp.apc" --target dgx-a100x4 --dtype bf16 --json
expect_json "d['allocated_bytes']['params'] * 2 == json.load(open('f32.json'))['allocated_bytes']['params']"
summary 33
