#!/usr/bin/env python3
"""tests/commands.py ROOT - every command of README.md and docs/ is run by a test, or is listed with the reason in
tests/commands.txt (`run`: by tests/cli/guides.py).

Commands are the lines of fenced or indented blocks that begin with "$ ", with a program that documents show, or with a
variable for one; a line that ends in \\ goes on in the next one.  Other tests run those of two kinds: of the documents
that tests/cli/tests.cmake gives to tour.sh, the lines "$ ..." in blocks fenced by ``` alone; of README.md, the lines of
a block that tests/cli/readme.sh chooses by words in them."""
import pathlib
import re
import sys
from typing import NamedTuple

REASONS = {"gpu", "plain", "run"}
PROGRAMS = (r"apc|apc-opt|build/apc|build/apc-opt|\./\w[\w.]*|mpirun|torchrun|srun|python3|cmake|cc|cpack|apt-get|bench/\S+|"
            r"\(cd|cd|curl|tensorboard")
COMMAND = re.compile(rf"(\s*)(\$ |node\d\$ |(?=(?:[A-Z_]+=\S+ )*(?:{PROGRAMS})(?: |$)))(.*)")


class Command(NamedTuple):
    block: int  # the number of the fenced block; 0: indented
    fence: str | None
    line: int
    prompt: str
    text: str  # in one line, with single spaces, without a comment
    output: list[str]  # the lines between it and the next command


def shown(text):
    """The commands of a document."""
    found, fence, blocks, lines, at = [], None, 0, text.splitlines(), 0
    while at < len(lines):
        line, number, at = lines[at], at + 1, at + 1
        if line.startswith("```"):
            blocks += fence is None
            fence = line if fence is None else None
            continue
        inside = fence is not None or line.startswith("    ")
        match = COMMAND.match(line) if inside and fence in (None, "```") else None
        if match:
            words = match[3]
            while words.endswith("\\"):
                words, at = words[:-1] + lines[at], at + 1
            words = re.sub(r"\s+#.*", "", words)
            found.append(Command(blocks if fence else 0, fence, number, match[2], " ".join(words.split()), []))
        elif inside and found:
            found[-1].output.append(line if fence else line[4:])
    return found


def is_run(document, toured, block, command):
    if document == "README.md": return command.block == block[0] and any(words in command.text for words in block[1])
    return document in toured and command.fence == "```" and command.prompt == "$ "


def rows(root):
    lines = (root / "tests/commands.txt").read_text().splitlines()
    return [tuple(line.split(None, 2)) for line in lines if line and not line.startswith("#")]


def begins(command, start):
    return (command.text + " ").startswith(start + " ")


def faults_of(documents, toured, block, listed, tests):
    faults, used = [], set()
    for document, text in documents.items():
        for command in shown(text):
            own = [row for row in listed if row[1] == document and begins(command, row[2])]
            run = is_run(document, toured, block, command)
            used |= set(own) if not run else set()
            if not run and not own:
                faults.append(f"{document}:{command.line}: no test runs '{command.text}', and tests/commands.txt lacks it")
    faults += [f"tests/commands.txt: {d} has no such command that no test runs: {c}" for r, d, c in listed
               if (r, d, c) not in used]
    return faults + [f"tests/commands.txt: no reason '{r}'" for r, _, _ in listed if r not in REASONS | tests]


def test_itself():
    """Commands that are not listed are faults, and so are rows without a command."""
    text = "```\n$ apc run\nout\n```\n\n    apc plan  x \\\n      y  # why\n\n```\n./model -q\n```\n\n    A=1 apc b\n    none\n"
    assert [c.text for c in shown(text)] == ["apc run", "apc plan x y", "./model -q", "A=1 apc b"]
    assert shown(text)[0].output == ["out"]
    found = [("own", "a.md", "apc plan"), ("gpu", "a.md", "./model"), ("run", "a.md", "A=1")]
    assert faults_of({"a.md": text}, {"a.md"}, (0, []), found, {"own"}) == []
    assert len(faults_of({"a.md": text}, set(), (0, []), found, {"own"})) == 1
    assert len(faults_of({"a.md": text}, {"a.md"}, (0, []), found[1:], {"own"})) == 1
    assert len(faults_of({"a.md": text}, {"a.md"}, (0, []), found + [("gpu", "a.md", "apc pl")], {"own"})) == 1
    assert len(faults_of({"a.md": text}, {"a.md"}, (0, []), found, set())) == 1


def main(root):
    test_itself()
    cmake, readme = ((root / "tests/cli" / name).read_text() for name in ("tests.cmake", "readme.sh"))
    tours = re.findall(r'tour\.sh \S+\s+("[^"]+"|\S+)', cmake)
    toured = {"docs/" + name for names in tours for name in names.strip('"').split()}
    words = re.findall(r'commands \| grep -- "([^"$]+)"', readme) + re.findall(r'^shows "([^"]+)"', readme, re.M)
    words += [w.replace("\\", "").lstrip("^") for w in re.findall(r"readme_block 3 \| grep '([^']+)'", readme)]
    block = int(re.search(r"^commands\(\) \{ readme_block (\d+)", readme, re.M)[1]), words
    documents = {str(path.relative_to(root)): path.read_text()
                 for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]}
    assert len(toured) >= 4 and all((root / name).exists() for name in toured), toured
    table = (root / "tests/suite/table.txt").read_text()
    tests = {line.split()[0] for line in table.splitlines() if line and not line.startswith(("#", "room "))}
    faults = faults_of(documents, toured, block, rows(root), tests)
    print(*faults, sep="\n")
    every = [(name, c) for name, text in documents.items() for c in shown(text)]
    runs = sum(is_run(name, toured, block, c) for name, c in every)
    print(f"{len(every)} commands; {runs} print what the documents show; {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
