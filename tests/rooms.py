#!/usr/bin/env python3
"""tests/rooms.py SOURCE_DIR - checks what files include and name:
  - no file includes one of a room that its own room may not include; docs/design.md draws the rooms, which are the
    existing folders;
  - every file that a comment, a document or a build file names exists, and so does every file that a document links to;
  - every decision cited by its number has an entry in docs/inside/decisions.md, every document one in docs/README.md;
  - the prover and the algebra of elements include no part of an operation's record; evaluators of operations call no
    other part of it."""
import pathlib
import re
import sys

DRAWN = re.compile(r"^    ([a-z/]+)(?: +-> ([a-z/]+(?:, [a-z/]+)*))?  +[^ ]", re.M)


def rooms_drawn(design):
    """The rooms that each room may include, itself among them, as docs/design.md draws them: a room stands below those
    it serves."""
    above = {room: set(names.split(", ") if names else []) for room, names in DRAWN.findall(design)}
    below = {}

    def find(room, path=()):
        if room in path: sys.exit(f"docs/design.md: {' -> '.join([*path, room])}")
        if room not in below: below[room] = {room}.union(*(find(other, (*path, room)) for other in above[room]))
        return below[room]

    for room in above: find(room)
    return below


root = pathlib.Path(sys.argv[1])
BELOW = rooms_drawn(re.search(r"^## Rooms\n(.*?)^## ", (root / "docs/design.md").read_text(), re.M | re.S)[1])
TOP = sorted({room.split("/")[0] for room in BELOW})


def room_of(name):
    """The room with the longest beginning of the path."""
    parts = name.split("/")[:-1]
    return next(("/".join(parts[:n]) for n in range(len(parts), 0, -1) if "/".join(parts[:n]) in BELOW), None)


# Includes that a part of a room may not have: devices are a table of functions to the rest of the runtime,
# communication to the executor.
DEVICES = r'"runtime/device/(?!device\.h)|<(?:dlfcn|omp)\.h>'
HIDDEN = {"exec": DEVICES + r'|"runtime/comm/(?!comm\.h)', "host": DEVICES, "launch": DEVICES, "session": DEVICES}
HIDDEN = {f"runtime/{part}/": re.compile(rf"\s*#include (?:{what})") for part, what in HIDDEN.items()}
# Code shared by kinds of devices depends on none of them, and none on another.
HIDDEN |= {f"codegen/{part}/": re.compile(rf'\s*#include "codegen/(?:{others})/') for part, others in {"rows": "cpu|cuda", "cpu": "cuda", "cuda": "cpu"}.items()}
NAMED = re.compile(r"(?:(?<![\w/.*{}$-])|(?<=\$source/)|(?<=\$source_dir/))((?:%s|tests|bench|docs|examples|targets)/[\w/.-]*\.(?:c|h|def|y|l|md|sh|py|cmake|apc|topo|proto))(?![\w*{]|\.in)"
                   % "|".join(TOP))
LINKED = re.compile(r"\]\(([^)#:]+)[^):]*\)")
RECORD = re.compile(r'#include "ir/(?:record|infer|ops/|layout/(?:rule|local|count))')   # not for proof/prove*, proof/element*
REST = re.compile(r"\b(?:rule|infer|local|halo|products|op_record)_?\w*\(")  # not in `eval_` functions
CITED = re.compile(r"\bD[1-9][0-9]?\b")
SOURCES = {".c", ".h", ".def", ".y", ".l"}
OTHERS = {".md", ".cmake", ".sh", ".py", ".txt"}

faults, files, includes, named, cited = [], 0, 0, 0, 0
decisions = re.findall(r"^\*\*(D[0-9]+)\. ", (root / "docs/inside/decisions.md").read_text(), re.M)
faults += [f"docs/inside/decisions.md: {d} has {decisions.count(d)} entries" for d in sorted(set(decisions)) if decisions.count(d) > 1]
index = (root / "docs/README.md").read_text()
documents = [path.relative_to(root / "docs").as_posix() for path in sorted((root / "docs").glob("**/*.md"))]
faults += [f"docs/README.md lacks {name}" for name in documents if name != "README.md" and f"]({name})" not in index]
folders = {path.parent.relative_to(root).as_posix() for top in TOP for path in (root / top).glob("**/*.[ch]")}
faults += [f"docs/design.md draws {room}, and there is no such folder" for room in BELOW if not (root / room).is_dir()]
faults += [f"docs/design.md does not draw {folder}" for folder in sorted(folders) if folder not in BELOW and folder != "runtime/device/cuda"]
for folder in [*TOP, "tests", "bench", "docs", "."]:
    for path in sorted((root / folder).glob("*" if folder == "." else "**/*")):
        if path.suffix not in SOURCES | OTHERS or not path.is_file(): continue
        files += 1
        name = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = re.match(r'\s*#include "([\w/]+/)', line)
            if include and folder in TOP:
                includes += 1
                room, other = room_of(name), room_of(include[1])
                if other not in BELOW[room]: faults.append(f"{name}:{number}: {room} may not include {other}")
            for part, hidden in HIDDEN.items():
                if name.startswith(part) and hidden.match(line): faults.append(f"{name}:{number}: {part} may not have {line}")
            for link in LINKED.findall(line) if path.suffix == ".md" else []:
                if not (path.parent / link).exists(): faults.append(f"{name}:{number}: there is no {link}")
            for decision in CITED.findall(line):
                cited += 1
                if decision not in decisions: faults.append(f"{name}:{number}: docs/inside/decisions.md has no {decision}")
            for mentioned in NAMED.findall(line):
                named += 1
                if line.startswith(f"    {mentioned}  /* {mentioned} - "): continue # a recipe creates it
                if "NAME" not in mentioned and not (root / mentioned).is_file(): faults.append(f"{name}:{number}: there is no {mentioned}")
evaluators = 0
for path in sorted(p for room in ("ir", "proof") for p in (root / room).glob("**/*.[ch]")):
    text, name = path.read_text(), path.relative_to(root).as_posix()
    if re.match(r"proof/(?:prove|element)", name): faults += [f"{name}: reads operations' records" for _ in RECORD.findall(text)]
    for meaning in re.findall(r"^(?:static )?bool eval_\w+\(Eval \*e\) \{$.*?^\}", text, re.M | re.S):
        evaluators += 1
        faults += [f"{name}: an evaluator calls {call}" for call in REST.findall(meaning)]
print(*faults, sep="\n")
print(f"{files} files, {includes} includes, {named} names of files, {cited} of decisions, {evaluators} evaluators, {len(faults)} faults")
sys.exit(bool(faults) or evaluators < 40 or files < 700 or includes < 1000 or named < 1000 or cited < 60)
