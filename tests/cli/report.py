#!/usr/bin/env python3
"""tests/cli/report.py PAGE PLAN LAYERS - checks a page of --emit=html against the plan as JSON: the page is small, asks
for nothing from a network, is readable without scripts, folds its layers, and its figures add up to the plan's."""
import html.parser
import json
import pathlib
import re
import sys

page, plan, layers = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text()), int(sys.argv[3])
text = page.read_text(encoding="utf-8")


class Elements(html.parser.HTMLParser):
    """The elements of the page: every one that is opened is closed, none refers to another file."""
    EMPTY = {"meta", "input", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.noscript = [], []

    def handle_starttag(self, tag, attrs):
        assert tag not in {"link", "img", "iframe", "object"}, tag
        for name, value in attrs:
            assert name not in {"src", "srcset"} and (name != "href" or value.startswith("#")), (tag, name, value)
        if tag not in self.EMPTY: self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data):
        if "noscript" in self.open and data.strip(): self.noscript.append(data.strip())


def near(a, b, share):
    assert abs(a - b) <= share * abs(b), (a, b)


elements = Elements()
elements.feed(text)
assert not elements.open
assert len(text.encode()) < 300_000, len(text.encode())
assert not re.search(r"\bhttps?:|//[a-z]+\.|@import|url\((?!#)", text.replace("http://www.w3.org/2000/svg", "")
                     .replace("'url(#' +", "")), "refers to a network"

# Without scripts: degrees, times, memory, choices with their options
static = "\n".join(elements.noscript)
chosen = plan["chosen"]
for need in ("compute", "collectives", "weights", "one device", f"--tp {chosen['tp']} --pp {chosen['pp']} --dp {chosen['dp']}",
             plan["model"], plan["target"]["name"]):
    assert need in static, need

data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
assert data["schema"] == "apc.report/1"
head, table, timeline, memory = data["head"], data["layers"], data["timeline"], data["memory"]
near(head["seconds"] * 1e6, plan["time_us"], 1e-4), near(head["bytes"], plan["bytes_per_device"], 1e-4)
near(head["limit"], plan["limit_bytes"], 1e-4)
assert dict(head["degrees"]) == {d: chosen[d] for d in ("tp", "pp", "dp", "ep", "cp")}
assert data["choices"][0]["why"] == "chosen" and len(data["choices"]) >= 1 + len(plan["alternatives"])

# The same plan on other hardware
hardware = {x["what"]: x for x in data["hardware"]}
assert 4 <= len(hardware) == len(data["hardware"]) <= 6 and {"compute*2", "bandwidth*2", "launch*0.5"} < set(hardware)
for x in hardware.values():
    near(1 - x["saves"], x["seconds"] / head["seconds"], 1e-4)
    assert x["seconds"] <= head["seconds"] * 1.0001 and x["text"] in static, x
assert hardware["compute*2"]["saves"] > 0.1 or hardware["bandwidth*2"]["saves"] > 0.1, hardware

# Layers are folded: all are there, in few groups
column = {name: k for k, name in enumerate(table["columns"])}
rows, groups = [[name, *table["facts"][k]] for name, k in table["rows"]], table["groups"]
first = [g for g in groups if not g["outside"] and "fwd" in {table["phases"][rows[k][column["phase"]]] for k in g["ops"]} and
         any(rows[k][column["kind"]] == "attention" for k in g["ops"])]
assert sum(g["count"] for g in first) == layers and len(groups) < 40, [(g["title"], g["count"]) for g in groups]
assert max(g["count"] for g in first) > layers // 4
assert all(len(g["stages"]) == g["count"] for g in groups)

# The work of a stage is that of its operations and their communication
spent = [0.0] * head["stages"]
often = {"pre": 1, "step": 1}
for g in groups:
    for stage in g["stages"]:
        for k in g["ops"]:
            r = rows[k]
            at = stage + r[column["stage"]]
            n = often.get(table["phases"][r[column["phase"]]], head["micro_batches"])
            spent[at] += n * (r[column["seconds"]] + r[column["again"]])
            for c in r[column["comms"]] if len(r) > column["comms"] else []:
                spent[at] += c[3] * often.get(table["phases"][c[5]], head["micro_batches"])
busiest = sum(v for name, v in head["time"] if name in ("compute", "memory-bound", "collectives"))
places = len(timeline["places"])  # a place has several stages of an interleaved schedule
near(max(sum(spent[k::places]) for k in range(places)), busiest, 0.02)

# The timeline ends when the plan does, and no place has two calls at once
ends, calls = [], 0
for place in timeline["places"]:
    now = 0.0
    for repeats, *pattern in place:
        for call in pattern * repeats:
            if isinstance(call, list): now, call = now + call[1] * timeline["unit"], call[0]
            now += timeline["calls"][call // 3][0][call % 3]
            calls += 1
    ends.append(now)
near(max(ends), timeline["seconds"], 1e-3), near(timeline["seconds"] + max(timeline["once"]), head["seconds"], 2e-3)
assert calls == head["stages"] * head["micro_batches"] * (1 + head["trains"] + (1 if timeline["apart"] else 0)), calls

# Memory over time reaches what the plan counts
held = memory["weights"] + memory["state"] + sum(b for _, b in memory["classes"])
peak = max(sum(p[1:1 + len(memory["classes"])]) for p in memory["points"])
near(held + peak, memory["total"], 1e-3), near(memory["total"], plan["counted_bytes"], 1e-3)
assert all(p[-1] for p in memory["points"] if sum(p[1:-1]) > 0) and memory["points"] == sorted(memory["points"])
assert len(text.encode()) < 300_000, len(text.encode())
print(f"{page}: {len(text.encode())} bytes, {len(groups)} groups, {sum(g['count'] * len(g['ops']) for g in groups)} operations")
