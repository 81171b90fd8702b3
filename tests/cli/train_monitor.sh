#!/bin/bash
# Watching a training run: its log, its profile and trace, the page for Prometheus, the line of a terminal.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
train_rows
train_tokens
"$apc" compile "$source_dir/examples/mlp.apc" -D layers=1 -D d=12 -D hidden=12 -q --train mse --optimizer 'sgd(lr=.05)' --batch 8 --target cpux2 -o trainer
data="--data x=@x.npy --data labels=@y.npy"

# A log has a row per step and evaluation; after --resume each step is there once.
# shellcheck disable=SC2086
for kind in csv jsonl; do
  expect 0 "" ./trainer --steps 4 $data --checkpoint half --log log.$kind
  expect 0 "" ./trainer --steps 7 $data --log log.$kind --resume half --eval x=@x.npy --eval labels=@y.npy
  printf 'half a row' >>log.$kind
  expect 0 "" ./trainer --steps 6 $data --log log.$kind --resume half --eval x=@x.npy --eval labels=@y.npy
done
check "rows" /usr/bin/python3 - <<'P'
import csv, json
rows = list(csv.DictReader(open("log.csv")))
lines = [json.loads(line) for line in open("log.jsonl")]
for log in rows, lines:
    assert [int(r["step"]) for r in log if r.get("loss")] == [1, 2, 3, 4, 5, 6], log
    assert [int(r["step"]) for r in log if r.get("eval_loss")] == [6], log
for a, b in zip(rows, lines):
    assert all(float(a[k]) == b[k] for k in ("loss", "lr", "grad_norm", "samples", "tokens") if k in b), (a, b)
assert lines[0]["samples"] == 8 and lines[0]["tokens"] == 0 and lines[0]["step_ms"] > 0
P
# MFU: the FLOPs of a small GPT are those of the formula (24 BSd^2 and 4 BS^2d a layer, 2 BSdV at the end, three times),
# whatever is recomputed; a row has them over its time and the peak.  A CSV log of an earlier version goes on without.
tiny="-D layers=3 -D d=32 -D heads=2 -D vocab=40 -D ctx=64 -q --train cross_entropy --target cpux2 --recompute full"
# shellcheck disable=SC2086
expect 0 "" "$apc" "$source_dir/examples/gpt.apc" $tiny --micro-batches 2 --emit=schedule -o gpt.txt
# shellcheck disable=SC2086
expect 0 "" "$apc" plan "$source_dir/examples/gpt.apc" $tiny --micro-batches 2 --dim batch=4 --dim seq=10 --hours 1 --json
cp out plan.json
expect 0 "" "$apc" inspect -v trainer
check "MFU" /usr/bin/python3 - <<'P'
import csv, json, re
def flops(text, **sizes): return eval(re.search("^  flops (.*)", text, re.M)[1].replace("div", "//"), sizes)
gpt, mlp = open("gpt.txt").read(), open("out").read()
def formula(B, S): return 3 * (3 * (24 * B * S * 32**2 + 4 * B * S * S * 32) + 2 * B * S * 32 * 40)
for B, S in (2, 64), (4, 10): assert flops(gpt, batch=B, seq=S) == formula(B, S)
plan = json.load(open("plan.json"))
assert abs(plan["run"]["mfu"] * plan["run"]["peak_flops_per_s"] * plan["time_us"] * 1e-6 / formula(4, 10) - 1) < 1e-9, plan["run"]
peak = float(re.search('^peak (.*) of "f32, the figures of the target, not measured on this machine"', mlp, re.M)[1])
assert peak == 220e9, peak
rows = [r for r in csv.DictReader(open("log.csv")) if r["loss"]]
for r in rows + [r for r in map(json.loads, open("log.jsonl")) if "loss" in r]:
    assert abs(float(r["mfu"]) * float(r["step_ms"]) * 1e-3 * peak / flops(mlp) - 1) < .02 + 5e-4 / float(r["step_ms"]), (r, flops(mlp))
old = [r[:-1] for r in csv.reader(open("log.csv"))]
csv.writer(open("old.csv", "w"), lineterminator="\n").writerows(old[:5])
P
expect 0 "" ./trainer --steps 5 $data --log old.csv --resume half --eval x=@x.npy --eval labels=@y.npy
expect_err "note: mfu is relative to 220 GFLOP/s of 2 ranks: f32, the figures of the target"
check "an older log" /usr/bin/python3 -c 'import csv; rows = list(csv.reader(open("old.csv"))); assert len(rows) == 7 and {len(r) for r in rows} == {11} and rows[5][9] == "" and rows[6][9] != "", rows'
expect 2 "--log log.txt: expected FILE.csv, FILE.jsonl, or DIR/ for TensorBoard" ./trainer --steps 1 $data --log log.txt
expect 2 "--log needs --steps" ./trainer --input x=zeros --log log.csv
echo other >other.csv
expect 1 "it is not a log of this kind" ./trainer --steps 7 $data --resume half --log other.csv
check "it is unchanged" grep -qx other other.csv
expect 0 "" ./trainer --steps 4 $data --log log.csv
# A log that finds no space costs the log, not the run.
: >steps
# shellcheck disable=SC2086
./trainer --steps 100000000 $data --log log.csv > >(cat >steps) 2>err &
trainer=$!
check "it trains" begun steps 4
prlimit --pid $trainer --fsize=1000
check "rows are missing" timeout 60 sh -c "until grep -q 'step 60 ' steps; do sleep .05; done"
kill -INT $trainer
check "no space: 0" wait $trainer
check "a warning" [ "$(grep -c 'a row was not written: File too large; the run continues' err)" -eq 1 ]
check "the missing rows" grep -q '^warning: --log log.csv: [0-9]* rows are missing' err
check "whole rows" [ -z "$(tail -c 1 log.csv)" ]

# TensorBoard's files, read by their definition; a second run begins again after the checkpoint.  A window of one token
# is a sequence too.
printf '%s\n' 'dim batch, seq' 'entry main(tokens: i64[batch, seq]) {' '  weight table : f32[24, 4] = normal(0.5)' \
  '  output logits = einsum("bsd,vd->bsv", gather(table, tokens), table)' '}' >tokens.apc
for length in 1 6; do "$apc" compile tokens.apc -q --train cross_entropy --batch 4 --dim seq=$length --target cpu -o tokens$length; done
expect 0 "" ./tokens1 --steps 1 --data tokens=@t16.bin --log one.jsonl
check "4 windows of 1 token" grep -q '"samples":4,"tokens":4,' one.jsonl
expect 0 "" ./tokens6 --steps 2 --data tokens=@t16.bin --checkpoint g --log board/ --json
losses out >want
expect 0 "" ./tokens6 --steps 3 --data tokens=@t16.bin --resume g --eval tokens=@t16.bin --log board/ --json
check "event files" /usr/bin/python3 - <<'P'
import glob, os, struct
table = [0] * 256
for i in range(256):
    c = i
    for _ in range(8): c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    table[i] = c
def masked(data):
    c = 0xffffffff
    for b in data: c = c >> 8 ^ table[(c ^ b) & 255]
    c ^= 0xffffffff
    return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
assert masked(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xa282ead8) & 0xffffffff
def fields(b):
    i = 0
    def varint():
        nonlocal i
        v = s = 0
        while True:
            v |= (b[i] & 127) << s; s += 7; i += 1
            if b[i - 1] < 128: return v
    while i < len(b):
        key = varint()
        if key & 7 == 0: v = varint()
        elif key & 7 == 1: v = struct.unpack("<d", b[i:i + 8])[0]; i += 8
        elif key & 7 == 5: v = struct.unpack("<f", b[i:i + 4])[0]; i += 4
        else: n = varint(); v = b[i:i + n]; i += n
        yield key >> 3, v
def events(name):
    b = open(name, "rb").read()
    while b:
        n, = struct.unpack("<Q", b[:8])
        assert struct.unpack("<I", b[8:12])[0] == masked(b[:8]) and struct.unpack("<I", b[12 + n:16 + n])[0] == masked(b[12:12 + n])
        e = dict(fields(b[12:12 + n])); b = b[16 + n:]
        yield e, {v[1].decode(): v[2] for f, v in ((f, dict(fields(v))) for f, v in fields(e.get(5, b"")))}
first, second = (list(events(f)) for f in sorted(glob.glob("board/events.out.tfevents.*"), key=os.path.getmtime))
assert first[0][0][3] == b"brain.Event:2" and first[0][0][1] > 1e9
assert second[1][0][2] == 3 and dict(fields(second[1][0][7])) == {1: 1}
want = [float(x) for x in open("want")]
got = [(e[2], v["train/loss"]) for e, v in first[2:]]
assert [s for s, _ in got] == [1, 2] and all(abs(a - b) < 1e-6 * abs(b) for (_, a), b in zip(got, want)), (got, want)
assert 0 < first[2][1]["time/mfu"] < 1
assert abs(first[2][1]["time/tokens_per_s"] / first[2][1]["time/samples_per_s"] - 6) < 1e-4
assert [e[2] for e, v in second if "train/loss" in v] == [3] and second[-1][1]["eval/loss"] > 0
P

# The profile and the trace of a run.
expect 0 "" ./tokens6 --steps 2 --data tokens=@t16.bin --profile=json --trace t.json
check "a trace" /usr/bin/python3 -c 'import json; assert sum(e["ph"] == "X" for e in json.load(open("t.json"))["traceEvents"]) > 9'
check "JSON" /usr/bin/python3 -c '
import json
text, last = open("out").read().strip(), []
while text:
    d, n = json.JSONDecoder().raw_decode(text)
    last.append(d)
    text = text[n:].strip()
assert [d.get("step") for d in last] == [1, 2, None] and last[2]["runs"] == 2, last'

# Prometheus: a page while the run goes on, whatever else connects.  Of the ranks of a launcher rank 0 serves: the other
# one would not get the port.
free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
host=127.0.0.1
if /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_INET6).bind(("::1", 0))' 2>/dev/null; then host='[::1]'; fi
address=$host:$(free_port) at=127.0.0.1:$(free_port)
: >steps
for rank in 1 0; do
  # shellcheck disable=SC2086
  ./trainer --rank $rank --world 2 --rendezvous "$at" --steps 100000000 $data --metrics "$address" >steps 2>said.$rank &
  ranks[rank]=$!
done
check "it trains" begun steps 4
check "the page" /usr/bin/python3 - "$address" <<'P'
import re, socket, sys
host, port = sys.argv[1].rsplit(":", 1)
def ask(text, whole=True):
    s = socket.create_connection((host.strip("[]"), int(port)), 20)
    s.sendall(text)
    if not whole: return s
    got = b""
    while (part := s.recv(65536)): got += part
    return got.decode()
slow = [ask(b"GET /met", False) for _ in range(40)]
assert ask(b"\0\1\2\3\n").startswith("HTTP/1.0 400") and ask(b"x" * 5000).startswith("HTTP/1.0 431")
assert ask(b"POST / HTTP/1.0\r\n\r\n").startswith("HTTP/1.0 405") and ask(b"GET /x HTTP/1.1\r\n\r\n").startswith("HTTP/1.0 404")
head, body = ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").split("\r\n\r\n")
assert "200 OK" in head and f"Content-Length: {len(body)}" in head
assert ask(b"HEAD / HTTP/1.0\n\n").endswith("\r\n\r\n")
value = dict(line.rsplit(" ", 1) for line in body.splitlines() if line[0] != "#")
assert int(value["apc_steps_total"]) >= 4 and float(value["apc_loss"]) > 0 and int(value["apc_rank_memory_bytes{rank=\"1\"}"]) > 0
assert int(value["apc_samples_total"]) == 8 * int(value["apc_steps_total"]) and "apc_tokens_total" not in value
assert 0 < float(value["apc_mfu_ratio"]) < 1
assert value["apc_request_seconds_bucket{le=\"+Inf\"}"] == value["apc_requests_total"]
for name in value: assert f"# TYPE {re.sub('_(bucket|sum|count)?({.*)?$', '', name) if 'seconds_' in name else name.split('{')[0]} " in body, name
assert ".npy" not in body and int(ask(b"GET / HTTP/1.0\n\n").split("\napc_steps_total ")[1].split()[0]) >= int(value["apc_steps_total"])
P
expect 1 "error: metrics: cannot listen at $address: Address already in use" ./trainer --steps 1 $data --metrics "$address"
no_out
kill -TERM "${ranks[@]}"
check "rank 0 ends" wait "${ranks[0]}"
check "rank 1 ends" wait "${ranks[1]}"
for address in x 1.2.3.4 ::1 :0 99999 ''; do expect 2 "expected PORT, HOST:PORT or" ./trainer --steps 1 $data --metrics "$address"; done
# An inference program serves its requests: PORT is one of this machine.
tiny_model >tiny.ir
"$apc" compile tiny.ir -q -o tiny
port=$(free_port)
./tiny --bench=1000000 --metrics "$port" >/dev/null 2>said &
tiny=$!
check "requests" /usr/bin/python3 - "$port" <<'P'
import re, sys, time, urllib.request
for _ in range(600):
    try:
        page = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=20).read().decode()
        if int(re.search("^apc_requests_total (.*)", page, re.M)[1]) > 9: break
    except OSError: pass
    time.sleep(.05)
assert int(re.search("^apc_request_seconds_count (.*)", page, re.M)[1]) > 9 and "apc_step" not in page, page
P
{ kill -KILL $tiny && wait $tiny; } 2>/dev/null

# On a terminal one line is rewritten; with TERM=dumb lines are as in a file.
script -qec "TERM=xterm ./trainer --steps 9 $data" /dev/null >shown </dev/null
check "one line" /usr/bin/python3 -c '
text = open("shown", newline="").read()
assert "\r\033[Kstep 1/9  loss " in text and " samples/s  mfu " in text and " left" in text and "\nstep 9 " in "\n" + text.split("\033[K")[-1], repr(text)
assert "\nstep 4 " not in text, text'
script -qec "TERM=dumb ./trainer --steps 9 $data" /dev/null >shown </dev/null
check "lines" [ "$(grep -c '^step [1-9] ' shown)" -eq 9 ]
summary 47
