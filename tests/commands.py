#!/usr/bin/env python3
"""tests/commands.py ROOT - every command of README.md and docs/guide/*.md is run by a test, or is listed with the reason
in tests/commands.txt (`run`: by tests/cli/guides.py).

Commands are the lines of fenced or indented blocks that begin with "$ ", "apc ", "build/apc " or "./model".  Other tests
run those of two kinds: of the documents that tests/cli/tests.cmake gives to tour.sh, the lines "$ ..." in blocks fenced by
``` alone; of README.md, the lines of a block that tests/cli/readme.sh chooses by words in them."""
import pathlib
import re
import sys

REASONS = {"own", "gpu", "state", "plain", "run"}
COMMAND = re.compile(r"\s*(\$ |(?=apc |build/apc |\./model\b))(.*)")


def shown(text):
    """The commands of a document: the number of the fenced block (0: indented), its fence, the line, the command."""
    found, fence, blocks = [], None, 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            blocks += fence is None
            fence = line if fence is None else None
            continue
        match = COMMAND.match(line)
        if match and (fence is not None or line.startswith("    ")):
            command = " ".join(re.sub(r"\s+#.*", "", match[2]).split())
            found.append((blocks if fence is not None else 0, fence, number, match[1] != "", command))
    return found


def is_run(document, toured, block, command):
    number, fence, _, prompt, text = command
    if document == "README.md": return number == block[0] and any(words in text for words in block[1])
    return document in toured and fence == "```" and prompt


def faults_of(documents, toured, block, listed):
    faults, used = [], set()
    for document, text in documents.items():
        for command in shown(text):
            rows = [row for row in listed if row[1] == document and (command[4] + " ").startswith(row[2] + " ")]
            run = is_run(document, toured, block, command)
            used |= set(rows) if not run else set()
            if not run and not rows:
                faults.append(f"{document}:{command[2]}: no test runs '{command[4]}', and tests/commands.txt lacks it")
    faults += [f"tests/commands.txt: {d} has no such command that no test runs: {c}" for r, d, c in listed
               if (r, d, c) not in used]
    return faults + [f"tests/commands.txt: no reason '{r}'" for r, _, _ in listed if r not in REASONS]


def test_itself():
    """Commands that are not listed are faults, and so are rows without a command."""
    text = "```\n$ apc run\nout\n```\n\n    apc plan  x  # why\n\n```\n./model -q\n```\n"
    assert [c[4] for c in shown(text)] == ["apc run", "apc plan x", "./model -q"]
    rows = [("own", "a.md", "apc plan"), ("gpu", "a.md", "./model")]
    assert faults_of({"a.md": text}, {"a.md"}, (0, []), rows) == []
    assert len(faults_of({"a.md": text}, set(), (0, []), rows)) == 1
    assert len(faults_of({"a.md": text}, {"a.md"}, (0, []), rows[:1])) == 1
    assert len(faults_of({"a.md": text}, {"a.md"}, (0, []), rows + [("own", "a.md", "apc pl")])) == 1
    assert len(faults_of({"a.md": text}, {"a.md"}, (0, []), [("why", *rows[0][1:]), rows[1]])) == 1


def main(root):
    test_itself()
    cmake, readme = ((root / "tests/cli" / name).read_text() for name in ("tests.cmake", "readme.sh"))
    tours = re.findall(r'tour\.sh \S+\s+("[^"]+"|\S+)', cmake)
    toured = {"docs/" + name for names in tours for name in names.strip('"').split()}
    words = re.findall(r'commands \| grep -- "([^"$]+)"', readme) + re.findall(r'^shows "([^"]+)"', readme, re.M)
    block = int(re.search(r"^commands\(\) \{ readme_block (\d+)", readme, re.M)[1]), words
    documents = {str(path.relative_to(root)): path.read_text()
                 for path in [root / "README.md", *sorted((root / "docs/guide").glob("*.md"))]}
    assert len(toured) >= 4 and all((root / name).exists() for name in toured), toured
    rows = [line.split(None, 2) for line in (root / "tests/commands.txt").read_text().splitlines()
            if line and not line.startswith("#")]
    faults = faults_of(documents, toured, block, [(r, d, c.strip()) for r, d, c in rows])
    print(*faults, sep="\n")
    every = [(name, c) for name, text in documents.items() for c in shown(text)]
    runs = sum(is_run(name, toured, block, c) for name, c in every)
    print(f"{len(every)} commands, of which tests run {runs}; {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
