#!/usr/bin/env python3
"""tests/recipes.py BUILD - the texts of the recipes of CONTRIBUTING.md compile.

tests/recipes.py --into DIR RECIPE puts the texts of one recipe into a tree.

In:  the indented texts below each `### RECIPE`: a file in the first column, followed by its new text.  A row of a
     table, NAME(...), goes after the last row of that name, all else to the end; a line "before `TEXT`:", "after
     `TEXT`:" or "instead of `TEXT`:" names another place for the lines below it: the only line, or text, with TEXT.
Out: each recipe alone, in a copy of the files that it changes, is compiled: the changed C files, and those that
     include the changed tables and headers.  Nothing is linked or run.  Then each row of a table is compiled
     without its last field, which must not compile.
"""
import json, os, re, shlex, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

SOURCES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILE = re.compile(r"    ([a-z]\S*/\S+\.(?:c|h|def|ir)) +(?=\S)")
PLACE = re.compile(r"(before|after|instead of) `(.+)`:$")
ROW = re.compile(r"[A-Z][A-Z0-9_]*\(")


def recipes(text):
    """{recipe: [(file, place, lines)]}"""
    found, title, column = {}, None, 0
    for line in text.splitlines():
        if line.startswith("#"):
            title, column = line.removeprefix("### ") if line.startswith("### ") else None, 0
            continue
        start = FILE.match(line)
        if start and title:
            column = start.end()
            found.setdefault(title, []).append((start[1], None, []))
        elif line.strip() and (not column or line[:column].strip()):
            column = 0
        if not column:
            continue
        parts, code = found[title], line[column:].rstrip()
        place = PLACE.match(code)
        if place and not parts[-1][2]:
            parts[-1] = (parts[-1][0], place.groups(), [])
        elif place:
            parts.append((parts[-1][0], place.groups(), []))
        else:
            parts[-1][2].append(code)
    return found


def put_row(lines, row):
    """Inserts a row after the last one of its name, which may have several lines."""
    name = ROW.match(row[0])[0]
    last = max((i for i, line in enumerate(lines) if line.startswith(name)), default=None)
    if last is None:
        raise ValueError(f"there is no row {name}...)")
    depth = 0
    for end in range(last, len(lines)):
        bare = re.sub(r'"(\\.|[^"\\])*"', "", lines[end])
        depth += bare.count("(") - bare.count(")")
        if depth <= 0:
            break
    lines[end + 1:end + 1] = row


def rows_of(code):
    """The rows of tables, one by one, and the rest."""
    rows = []
    for line in code:
        if ROW.match(line) or not rows:
            rows.append([])
        rows[-1].append(line)
    return rows


def put(text, place, code):
    while code and not code[-1]:
        code = code[:-1]
    lines = text.splitlines()
    if place is None:
        if not ROW.match(code[0]):
            return "\n".join(lines + [""] * bool(lines) + code) + "\n"
        for row in rows_of(code):
            put_row(lines, row)
        return "\n".join(lines) + "\n"
    where, anchor = place
    if text.count(anchor) != 1:
        raise ValueError(f"`{anchor}` stands there {text.count(anchor)} times, not once")
    if where == "instead of":
        return text.replace(anchor, "\n".join(code))
    at = next(i for i, line in enumerate(lines) if anchor in line) + (where == "after")
    if where == "before" and (code[-1] == "}" or anchor.startswith("/* ----")):
        code = code + [""]
    lines[at:at] = code
    return "\n".join(lines) + "\n"


def apply(parts, sources, out):
    """Writes the changed files below `out`; returns their names."""
    texts = {}
    for file, place, code in parts:
        path = os.path.join(sources, file)
        if file not in texts:
            texts[file] = open(path).read() if os.path.exists(path) else ""
        try:
            texts[file] = put(texts[file], place, code)
        except ValueError as why:
            raise ValueError(f"{file}: {why}") from None
    for file, text in texts.items():
        os.makedirs(os.path.dirname(os.path.join(out, file)), exist_ok=True)
        open(os.path.join(out, file), "w").write(text)
    return list(texts)


def includers():
    """{file: the C files that include it directly}; a header is compiled as the C file of its name."""
    found = {}
    for folder in ("base", "codegen", "frontend", "ir", "passes", "program", "proof", "runtime", "tools"):
        for at, _, files in os.walk(os.path.join(SOURCES, folder)):
            for file in (f for f in files if f.endswith((".c", ".h"))):
                path = os.path.relpath(os.path.join(at, file), SOURCES)
                unit = path[:-1] + "c"
                for name in re.findall(r'^#include "(\S+)"', open(os.path.join(SOURCES, path)).read(), re.M):
                    if os.path.exists(os.path.join(SOURCES, unit)):
                        found.setdefault(name, set()).add(unit)
    return found


def commands(build):
    """{C file: compiler and flags of the build}"""
    found = {}
    for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
        words = shlex.split(entry["command"])
        at = next(i for i, w in enumerate(words) if w.startswith("-"))
        kept = [w for w in words[at:words.index("-o")] if not w.startswith("-fsanitize")]
        found[os.path.relpath(entry["file"], SOURCES)] = [words[at - 1], *kept]
    return found


def compile_unit(flags, out, unit):
    """The compiler's messages; empty if there are none."""
    own = os.path.join(out, unit)
    compiler, *rest = flags.get(unit) or flags["passes/pipeline.c"]  # a new file is compiled as that one
    path = own if os.path.exists(own) else os.path.join(SOURCES, unit)
    r = subprocess.run([compiler, "-I", out, *rest, "-Wmissing-prototypes", "-fsyntax-only", path], capture_output=True, text=True)
    return r.stderr or ("" if r.returncode == 0 else f"{compiler} ends with {r.returncode}")


def units_of(files, by):
    units = {f for f in files if f.endswith(".c")}
    for file in (f for f in files if f.endswith(".def") or f.endswith("passes.h")):
        units |= by.get(file, set())
    return sorted(units)


def shortened(parts):
    """(what, parts, file): the recipe with one row of a table that lacks its last field."""
    for k, (file, place, code) in enumerate(parts):
        if place or not file.endswith(".def"):
            continue
        rows = rows_of(code)
        for i, row in enumerate(rows):
            less = re.sub(r',\s*(?:"(?:\\.|[^"\\])*"|[^,"]*)\)\s*$', ")", "\n".join(row).rstrip())
            assert less != "\n".join(row).rstrip(), row
            other = [line for j, r in enumerate(rows) for line in (less.split("\n") if j == i else r)]
            yield f"{file}: {row[0]}", parts[:k] + [(file, place, other)] + parts[k + 1:], file


def check(build):
    found, by, flags = recipes(open(os.path.join(SOURCES, "CONTRIBUTING.md")).read()), includers(), commands(build)
    failed, jobs = [], []
    if len(found) < 8:
        failed.append(f"CONTRIBUTING.md: only {len(found)} recipes have texts")
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (title, parts) in enumerate(found.items()):
            out = os.path.join(work, str(number))
            try:
                units = units_of(apply(parts, SOURCES, out), by)
            except ValueError as why:
                failed.append(f"{title}: {why}")
                continue
            jobs += [(True, f"{title}: {u}", pool.submit(compile_unit, flags, out, u)) for u in units]
            for i, (what, less, file) in enumerate(shortened(parts)):
                out = os.path.join(work, f"{number}.{i}")
                apply(less, SOURCES, out)
                unit = file[:-3] + "c" if os.path.exists(os.path.join(SOURCES, file[:-3] + "c")) else min(by[file])
                jobs.append((False, f"{title}: {what}", pool.submit(compile_unit, flags, out, unit)))
        for good, what, job in jobs:
            said = job.result()
            if good and said:
                failed.append(f"{what}\n{said}")
            elif not good and not said:
                failed.append(f"{what} ... compiles without its last field")
    print("\n".join(failed) or f"{len(found)} recipes: {sum(j[0] for j in jobs)} files compile, "
          f"{sum(not j[0] for j in jobs)} rows without a field do not")
    return 1 if failed else 0


if sys.argv[1] == "--into":
    tree = sys.argv[2]
    print("\n".join(apply(recipes(open(os.path.join(tree, "CONTRIBUTING.md")).read())[sys.argv[3]], tree, tree)))
else:
    sys.exit(check(sys.argv[1]))
