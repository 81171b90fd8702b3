#!/usr/bin/env python3
"""tests/names.py SOURCE_DIR - public names are unique: every type of a header has its own name, and the first word of a
function's name belongs to one room, so that a reader knows where to look.  Skipped: texts of kernels, which are
compiled separately, and functions of libraries that a header declares."""
import collections
import pathlib
import re
import sys

ROOMS = ["base", "solver", "ir", "proof", "program", "frontend", "passes", "codegen", "runtime", "driver", "tools"]
WHOLE = {"ir"}  # its folders are one room
KERNELS = re.compile(r"codegen/(?:cpu|cuda)/(?:kernel_|dialect|prelude)")
TYPE = re.compile(r"^\}\s*(\w+);|^typedef (?:struct|enum|union) \w+ (\w+);", re.M)
FUNCTION = re.compile(r"^(?!static|typedef|#|\s|return|_Static_assert)[\w \*]*?\b([a-z]\w*)\(", re.M)

root = pathlib.Path(sys.argv[1])
types, words, functions = collections.defaultdict(set), collections.defaultdict(lambda: collections.defaultdict(set)), 0
for path in sorted(p for room in ROOMS for p in (root / room).glob("**/*.h")):
    name = path.relative_to(root).as_posix()
    if KERNELS.match(name):
        continue
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    for match in TYPE.finditer(text):
        types[match[1] or match[2]].add(name)
    room = name.split("/")[0] if name.split("/")[0] in WHOLE else name.rpartition("/")[0]
    for function in FUNCTION.findall(text):
        functions += 1
        words[function.split("_")[0]][room].add(function)
faults = [f"type {t}: {', '.join(sorted(where))}" for t, where in sorted(types.items()) if len(where) > 1]
for word, where in sorted(words.items()):
    if len(where) > 1:
        rooms = "; ".join(f"{room} ({', '.join(sorted(names)[:3])})" for room, names in sorted(where.items()))
        faults.append(f"{word}_ is a prefix of several rooms: {rooms}")
print(*faults, sep="\n")
print(f"{len(types)} types, {functions} functions, {len(words)} first words, {len(faults)} faults")
sys.exit(bool(faults) or len(types) < 200 or functions < 800)
