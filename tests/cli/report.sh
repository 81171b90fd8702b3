#!/usr/bin/env bash
# tests/cli/report.sh APC - the page of --emit=html the graph of --emit=dot and the timeline of --emit=trace, for GPT-3:
# small, complete, with the figures of the plan.  Where Chromium is installed the pages are opened as well.
. "$(dirname "$0")/lib.sh"
here=$source_dir/tests/cli
gpt=(plan "$source_dir/examples/gpt.apc" -D layers=96 -D d=12288 -D heads=96 -D vocab=51200 -D ctx=2048 --dim seq=2048
  --dim batch=1536 --dtype bf16 --ep 1 --cp 1)
train=(--train cross_entropy --optimizer 'adamw()' --recompute full)
page() { # page NAME OPTIONS...
  local name=$1
  shift
  expect 0 "" "$apc" "${gpt[@]}" "$@" --json --emit=html="$name.html",dot="$name.dot",trace="$name.trace"
  cp out "$name.json"
  check "$name.html" /usr/bin/python3 "$here/report.py" "$name.html" "$name.json" 96
  check "$name.trace" /usr/bin/python3 "$here/predicted_trace.py" "$name.trace" "$name.json"
  check "$name.dot has too many nodes" test "$(grep -c ' \[shape' "$name.dot")" -lt 500
  check "$name.dot does not fold" grep -q 'label="layers\..* times"' "$name.dot"
}
page train --target dgx-a100x1024 --tp 8 --pp 16 --dp 8 --micro-batches 96 --schedule 1f1b --zero 1 "${train[@]}"
page many --target dgx-a100x64 --tp 8 --pp 8 --dp 1 --micro-batches 1536 --schedule interleaved:2 --zero 0 "${train[@]}"
page infer --target dgx-a100x1024 --tp 8 --pp 8 --dp 16 --micro-batches 12
check "a page has a time of the search in it" bash -c '! grep -q search_ms infer.html'

# The same plan on other hardware costs what --what-if finds where the options leave the search no other plan.
hardware=(plan "$source_dir/examples/gpt.apc" -D layers=4 -D d=1024 -D heads=16 -D vocab=51200 -D ctx=2048 --dim seq=2048
  --dim batch=16 --dtype bf16 --target dgx-a100x16 --tp 1 --pp 1 --dp 16 --micro-batches 1 --zero 0 "${train[@]}")
expect 0 "" "$apc" "${hardware[@]}" --json --emit=html=hardware.html --what-if 'compute*2,bandwidth*2,launch*0.5,nvlink*2,infiniband*2'
check "hardware of the page" /usr/bin/python3 -c '
import json, re, sys
page, plan = (open(f).read() for f in sys.argv[1:])
page = {x["what"]: x["seconds"] * 1e6 for x in json.loads(re.search(r"id=.data.>(.*?)</script>", page, re.S)[1])["hardware"]}
asked = {x["what"]: x["time_us"] for x in json.loads(plan)["what_if"] if "," not in x["what"]}
assert len(set(asked.values())) == 5 and page.keys() == asked.keys(), (page, asked)
assert all(abs(page[k] / us - 1) < 1e-4 for k, us in asked.items()), (page, asked)' hardware.html out

# The price for twice the batch is that of a plan for it with the same choices.
batch_of() { /usr/bin/python3 -c '
import json, re, sys
x = json.loads(re.search(r"id=.data.>(.*?)</script>", open("hardware.html").read(), re.S)[1])["batch"]
p = json.load(open("out")) if sys.argv[1] == "fits" else None
assert (x["batch"], x["larger"], x["fits"]) == (16, 32, sys.argv[1] == "fits"), x
assert not p or abs(x["seconds"] * 1e6 / p["time_us"] - 1) < 1e-4 and abs(x["bytes"] / p["bytes_per_device"] - 1) < 1e-4, (x, p["time_us"], p["bytes_per_device"])
assert p or "does not fit" in x["memory"] and x["seconds"] > 0, x' "$1"; }
expect 0 "" "$apc" "${hardware[@]/batch=16/batch=32}" --json
check "twice the batch" batch_of fits
limit=$(/usr/bin/python3 -c 'import json; print(int(json.load(open("out"))["bytes_per_device"] * 0.999))')
expect 0 "" "$apc" "${hardware[@]}" --json --memory "$limit" --emit=html=hardware.html
check "twice the batch in too little memory" batch_of less

# The text ends with what comes next: a command that makes the page, and one that opens it.
mlp=(plan "$source_dir/examples/mlp.apc" --dim batch=8 -D d=16 -D hidden=16 --target cpux2)
expect 0 "" "$apc" "${mlp[@]}" --save-plan a.plan
check "the last line is $(tail -n 1 out)" grep -qE "^next: apc plan .*mlp.apc --dim batch=8 -D d=16 -D hidden=16 --target cpux2 --emit=html=mlp.html\$" <(tail -n 1 out)
bash -c "${apc%/*}/$(tail -n 1 out | sed 's/^next: //')" >made 2>&1; check "the command of 'next' fails: $(cat made)" test -s mlp.html
check "the last line is $(tail -n 1 made)" test "$(tail -n 1 made)" = "next: open mlp.html"
expect 0 "" "$apc" "${mlp[@]}" -q; check "-q says what is next" bash -c '! grep -q next: out'
expect 0 "next: open 'it'\\''s <b>.html'" "$apc" "${mlp[@]}" --emit=html="it's <b>.html"
sed 's/"x"/"<\/script><b>x"/' >odd.ir <<'IR'
apc.ir 1
symbol b
func @main level 1 {
  %x = input {name="x"} : f32[b, 4]
  %y = neg %x : f32[b, 4]
  output "y" %y
}
IR
expect 0 "" "$apc" plan odd.ir --emit=html=odd.html; check "a name ends the script" test "$(grep -c '</script>' odd.html)" -eq 2

# In a browser
/usr/bin/python3 "$here/report_browser.py" train.html infer.html >browser 2>&1; code=$?
if [ $code -eq 77 ]; then echo "no Chromium: pages are not opened"; pass; else check "$(cat browser)" test $code -eq 0; fi
# A plan for several entries has no price per operation.
cache=(plan "$source_dir/examples/llama.apc" -D cache=1 -D layers=1 -D d=64 -D heads=4 -D vocab=64 -D ctx=32 --dim batch=2 --dim seq=8)
expect 5 "error[APC0646]" "$apc" "${cache[@]}" --target cpux2 --optimize prefill=1,decode=9 --emit=trace=t.json
check "a trace was written" test ! -e t.json
summary 30
