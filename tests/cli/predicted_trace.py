#!/usr/bin/env python3
"""predicted_trace.py TRACE PLAN - checks --emit=trace against the plan's --json: its end, its calls, its arrows."""
import json
import sys

trace, plan = (json.load(open(f)) for f in sys.argv[1:3])
events = trace["traceEvents"]
calls = [e for e in events if e["ph"] == "X" and e["tid"] == 0]
operations = [e for e in events if e["ph"] == "X" and e["tid"] == 1]
end = max(e["ts"] + e["dur"] for e in calls)
assert trace["otherData"]["predicted"], "it does not say that it is predicted"
assert abs(end / plan["time_us"] - 1) < 0.01, f"the trace takes {end} us, the plan {plan['time_us']}"
places = sorted({e["pid"] for e in calls})
assert sorted(e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index") == places, "order of places"
for place in places:
    for row in calls, operations:
        mine = sorted((e for e in row if e["pid"] == place), key=lambda e: e["ts"])
        assert mine, f"place {place} has an empty row"
        for a, b in zip(mine, mine[1:]): assert a["ts"] + a["dur"] <= b["ts"] + 0.01, (a, b)
stages = 1 + max(e["args"].get("stage", 0) for e in calls)
batches = 1 + max(e["args"].get("micro_batch", 0) for e in calls)
passes = len({e["name"] for e in calls} & {"forward", "backward"})
place_of = {e["args"]["stage"]: e["pid"] for e in calls if "stage" in e["args"]}
for name in {e["name"] for e in calls} - {"once"}:
    assert sum(e["name"] == name for e in calls) == stages * batches, f"calls of {name}"
begins, ends = ({e["id"]: e for e in events if e["ph"] == form} for form in "sf")
crossings = sum(place_of[s] != place_of[s + 1] for s in range(stages - 1))
assert begins.keys() == ends.keys() and len(begins) == passes * batches * crossings, f"{len(begins)} arrows"
for i, a in begins.items():
    inside = lambda e, x: x["pid"] == e["pid"] and x["ts"] - 0.01 <= e["ts"] <= x["ts"] + x["dur"] + 0.01
    assert a["ts"] <= ends[i]["ts"] and a["pid"] != ends[i]["pid"], (a, ends[i])
    if int(i) % 97 == 0: assert all(any(inside(e, x) for x in calls) for e in (a, ends[i])), "an arrow between no calls"
assert {e["cat"] for e in operations} <= {"compute", "memory", "collective", "transfer"} and sum(e["dur"] for e in operations) > 0
