#!/usr/bin/env python3
"""tests/suite/suite.py - uses of the table of tests besides ctest's labels.

usage: suite.py touched COMMIT QUARTER   the labels of the tests that a change since COMMIT may break, and of the others
                                         that QUARTER runs, joined by |; "everything" if it may break anything
       suite.py warnings BUILD           clang's warnings for the sources that BUILD has not compiled
       suite.py costs FOLDER KIND        the cost of a run: FOLDER has `steps` and, for each build, BUILD.tests; fails
                                         above the budget of its kind, test or ci; the last line counts passed and
                                         failed tests
       suite.py check                    checks that the table names all existing rooms, tests and files, and that the
                                         tests exist which docs/train.md names"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
RUNS = {"fast", "release", "ci", "sanitizers", "threads"}
EVERYTHING = "everything"
DEAREST = 20


def table():
    """Rooms: the prefixes of their files, by name.  Tests: (runs, rooms) by name."""
    rooms, tests = {}, {}
    for line in (SOURCE / "tests/suite/table.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if not words: continue
        if words[0] == "room": rooms[words[1]] = words[2:]
        else: tests[words[0]] = (words[1].replace("/4", "").split(","), words[2].split(","))
    return rooms, tests


# ---- the tables of documentation

COMPARISON = "docs/train.md", "## Beside other trainers"


def comparison_faults(tests):
    """Every feature that apc has names tests that exist; one that it lacks names none."""
    name, heading = COMPARISON
    part = (SOURCE / name).read_text().partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| ")][2:]
    faults = [] if len(rows) >= 20 else [f"{name}: {len(rows)} rows after {heading}"]
    for feature, ours, shown, *_ in rows:
        named = re.findall(r"`([^`]+)`", shown)
        faults += [f"{name}: '{feature}': there is no test {t}" for t in named if t not in tests]
        if (ours == "-") == bool(named): faults.append(f"{name}: '{feature}' is {ours}, with {len(named)} tests")
    return faults


# ---- effects of a change

def room_of(path, rooms):
    """The room with the longest prefix of the path; None if there is none."""
    fits = [(len(start), room) for room, starts in rooms.items() for start in starts if path.startswith(start)]
    return max(fits)[1] if fits else None


def tests_of(path, tests):
    """Tests of a file in tests/: those with its folder and name, or all of its folder."""
    folder, name = pathlib.PurePath(path).parent.name, pathlib.PurePath(path).name.split(".")[0]
    own = f"{folder}.{name}"
    return [t for t in tests if t == own or t == own + "_long"] or [t for t in tests if t.split(".")[0] == folder]


def touched(paths, rooms, tests):
    """Labels of the tests that changes of these files may break; EVERYTHING if unknown."""
    labels = set()
    for path in paths:
        room = room_of(path, rooms)
        found = [f"room.{room}"] if room else tests_of(path, tests) if path.startswith("tests/") else []
        if room == "base" or not found: return EVERYTHING  # everything is built on base/
        labels.update(found)
    return labels


def print_touched(commit, quarter):
    rooms, tests = table()
    changed = subprocess.run(["git", "diff", "--name-only", "--no-renames", f"{commit}...HEAD", "--"], cwd=SOURCE, capture_output=True, text=True)
    if changed.returncode:
        print(f"CI_BASE: {changed.stderr.strip()}", file=sys.stderr)
        return 2
    labels = touched(changed.stdout.split(), rooms, tests)
    shown = labels if labels == EVERYTHING else ", ".join(sorted(labels)) or "nothing"
    print(f"touched since {commit}: {shown}", file=sys.stderr)
    print(labels if labels == EVERYTHING else "|".join([*sorted(map(re.escape, labels)), "room.all", f"quarter.{quarter}"]))
    return 0


# ---- clang's warnings

def warnings(build):
    entries = json.loads((SOURCE / build / "compile_commands.json").read_text())
    ours = [e for e in entries if build not in pathlib.Path(e["file"]).parts]  # no generated files
    left = [e for e in ours if not (pathlib.Path(e["directory"]) / re.search(r" -o (\S+) -c ", e["command"])[1]).exists()]

    def look(entry):
        command = re.sub(r" -o \S+ -c ", " -fsyntax-only ", entry["command"])
        return subprocess.run(command, shell=True, cwd=entry["directory"], capture_output=True, text=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool: results = list(pool.map(look, left))
    for r in results: sys.stderr.write(r.stderr)
    print(f"{len(left)} of {len(ours)} sources looked at, {sum(r.returncode != 0 for r in results)} with warnings")
    return any(r.returncode for r in results) or not left


# ---- costs

def budget():
    lines = (SOURCE / "tests/suite/budget").read_text().splitlines()
    return {words[0]: float(words[1]) for words in map(str.split, lines) if words and words[0] != "#"}


def costs(folder, kind):
    allowed, folder, faults = budget(), pathlib.Path(folder), []
    steps = [(" ".join(w[:-2]), float(w[-2]), float(w[-1])) for w in map(str.split, (folder / "steps").read_text().splitlines())]
    tests = [(float(w[2]), w[0], path.stem, int(w[3])) for path in sorted(folder.glob("*.tests")) for w in map(str.split, path.read_text().splitlines())]
    measures = [s[2] for s in steps if s[0] == "compiling base/"]  # before and after everything else
    speed = sum(measures) / len(measures) / allowed["base"]
    print(f"{'':24}   wall s   processor s")
    for name, wall, processor in [*steps, ("all", sum(s[1] for s in steps), sum(s[2] for s in steps))]:
        print(f"{name:24} {wall:8.1f} {processor:13.1f}")
    print(f"\nthe {DEAREST} most expensive tests\n{'':24}   build         processor s")
    for processor, name, build, _ in sorted(tests, reverse=True)[:DEAREST]: print(f"{name:24}   {build:12} {processor:13.1f}")

    def hold(what, took, most):
        print(f"{what}: {took:.0f} s of processor time, budget {most:.0f} (tests/suite/budget) times {speed:.2f} for this machine")
        if took > most * speed: faults.append(f"{what}: above the budget by {took / speed - most:.0f} s")

    fast = {name for name, (runs, _) in table()[1].items() if "fast" in runs}
    print()
    hold("fast tests", sum(t[0] for t in tests if t[2] == "build" and t[1] in fast), allowed["fast"])
    if kind in allowed: hold("all", sum(s[2] for s in steps), allowed[kind])
    for fault in faults: print(fault, file=sys.stderr)
    bad = [t for t in tests if t[3] not in (0, 77)]
    for _, name, build, code in bad: print(f"failed: {name} in {build}, exit code {code}", file=sys.stderr)
    print(f"{len(tests) - len(bad)} passed, {len(bad)} failed")
    return bool(faults or bad)


# ---- the table itself

def check():
    rooms, tests = table()
    faults, files = [], 0
    faults += [f"room {r}: no test has it" for r in rooms if not any(r in t[1] for t in tests.values())]
    faults += [f"room {r}: there is no {s}*" for r, starts in rooms.items() for s in starts if not list(SOURCE.glob(s.rstrip("/") + "*"))]
    for name, (runs, of) in tests.items():
        faults += [f"{name}: there is no run {run}" for run in runs if run not in RUNS]
        faults += [f"{name}: there is no room {room}" for room in of if room not in [*rooms, "all"]]
        if not {"release", "ci", "sanitizers"} & set(runs): faults.append(f"{name}: runs in no whole run")
    if list(tests) != sorted(tests): faults.append("the tests are not in the order of their names")
    for top in sorted(p for p in SOURCE.iterdir() if p.is_dir() and not re.match(r"\.|build|tests$", p.name)):
        for path in sorted(p for p in top.glob("**/*") if p.is_file() and p.suffix not in (".pyc",)):
            files += 1
            name = path.relative_to(SOURCE).as_posix()
            room = room_of(name, rooms)
            if not room: faults.append(f"{name}: is in no room")
            elif room != "base" and touched([name], rooms, tests) != {f"room.{room}"}: faults.append(f"{name}: not found in {room}")
    for path, want in {"base/arena.c": EVERYTHING, "test.sh": EVERYTHING, "tests/test.h": EVERYTHING, "tests/CMakeLists.txt": EVERYTHING,
                       "tests/unit/secret.c": {"unit.secret"}, "tests/oracle/brute.c": {"oracle.brute"},
                       "tests/verify/run.sh": {"verify"}, "tests/cli/kills.py": {"cli.kills", "cli.kills_long"}}.items():
        got = touched([path], rooms, tests)
        if got != want: faults.append(f"{path}: touches {got}, not {want}")
    faults += comparison_faults(tests)
    print(*faults, sep="\n")
    print(f"{len(rooms)} rooms, {len(tests)} tests, {files} files, {len(faults)} faults")
    return bool(faults) or files < 700 or len(tests) < 200


if __name__ == "__main__":
    what, rest = sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]
    commands = {"touched": (print_touched, 2), "warnings": (warnings, 1), "costs": (costs, 2), "check": (check, 0)}
    if what not in commands or len(rest) != commands[what][1]:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(int(commands[what][0](*rest)))
