#!/usr/bin/env python3
"""tests/plain.py SOURCE_DIR [PATH...] - prose is plain: comments, messages and documents.

Without PATH the whole project is read and judged; with it only those files and folders, for whoever edits them.  Faults:
  word      a word that docs/glossary.md lists after "not" of a term
  what      sentences that begin with "What" or "Who" and ask nothing: at most 60 in the whole project
  columns   lines of documents, comments and code over 120 columns (tables, links and listings of documents aside)
  function  functions of headers without a comment: above the function, at its end, or above its group (no empty line)
Not read: generated documents, tables of published numbers, inputs of tests, and texts
that tests compare with, beyond .c, .h, .py and .sh."""
import pathlib
import re
import sys

ROOMS = ["base", "bench", "codegen", "docs", "driver", "examples", "frontend", "ir", "passes", "program", "proof", "runtime",
         "solver", "targets", "tests", "tools"]
FUNCTION_ROOMS = set(ROOMS) - {"bench", "docs", "examples", "targets", "tests"}

LIMIT = 60
SLASH, HASH, TEXT = {".c", ".h", ".def", ".l", ".y", ".cu"}, {".py", ".sh", ".cmake", ".txt", ".apc", ".toml"}, {".md"}
SKIPPED = re.compile(r"bench/published/.*\.csv|docs/(status|accuracy|inside/kernels_gpu|kernels_gpu)\.md|"
                     r"tests/plain\.py|docs/glossary\.md|/table\.txt")
KERNELS = re.compile(r"codegen/(cpu|cuda)/(kernel_|dialect|prelude)")
root = pathlib.Path(sys.argv[1])


def files():
    """The files to read, sorted."""
    if sys.argv[2:]:
        found = [p for a in sys.argv[2:] for p in ([root / a] if (root / a).is_file() else (root / a).rglob("*"))]
    else:
        found = [p for room in ROOMS for p in (root / room).rglob("*")] + list(root.glob("*.md")) + list(root.glob("*.sh"))
    kinds = SLASH | HASH | TEXT
    return sorted(p for p in found if p.is_file() and p.suffix in kinds and not SKIPPED.search(p.relative_to(root).as_posix()))


def blanked(match):
    """As many line ends as there were, so that lines keep their numbers."""
    return re.sub(r"[^\n]", " ", match[0])


def prose_of_c(text):
    """Comments and strings of C; the rest is blank.  Paths of #include are no prose."""
    text = re.sub(r'^#include.*$', blanked, text, flags=re.M)
    out, at = [], 0
    for m in re.finditer(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', text, re.S):
        out += [blanked(re.match(r".*", text[at:m.start()], re.S)), m[0] if m[0][0] != "'" else blanked(m)]
        at = m.end()
    return "".join(out) + blanked(re.match(r".*", text[at:], re.S))


def prose_of_script(text):
    """Comments, and strings of three quotes, of scripts."""
    lines, inside = [], False
    for line in text.split("\n"):
        quotes = line.count('"""')
        if inside or quotes:
            lines.append(line)
        else:
            comment = re.search(r"(?:^|\s)#(.*)", line)
            lines.append(comment[1] if comment else "")
        inside ^= quotes % 2 == 1
    return "\n".join(lines)


def prose_of_document(text):
    """Paragraphs of Markdown: without listings and code."""
    text = re.sub(r"^```.*?^```", blanked, text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda m: "x" * len(m[0]), text)


def prose(path, text):
    """What a reader reads of a file, at the same lines."""
    if path.suffix in SLASH: return prose_of_c(text)
    return prose_of_document(text) if path.suffix in TEXT else prose_of_script(text)


def forbidden():
    """Word -> the term to use, from the column `not` of the glossary."""
    found = {}
    for row in (root / "docs/glossary.md").read_text().split("\n"):
        cells = [c.strip() for c in row.split("|")]
        if len(cells) > 2 and (m := re.search(r"\(not: ([^)]*)\)", row)):
            found |= {w.strip(): re.sub(r" \(.*", "", cells[1]) for w in m[1].split(",")}
    return found


def starts(text):
    """Offsets of sentences that begin with What or Who and are no questions."""
    for m in re.finditer(r"(?:^|/\*|\*|//|#|[.:;!?](?:\s|\s\*)|\"|\|)[\s*#/>-]*((?:What|Who)\b(?:[^.?!\"]|\.(?=\w))*)(.?)", text, re.M):
        if m[2] != "?": yield m.start(1)


def uncommented(text):
    """(line, name) of functions that a header declares without a comment."""
    lines, group = text.split("\n"), False
    depth, in_comment = 0, False
    i = 0
    while i < len(lines):
        line = lines[i]
        if in_comment:
            in_comment = "*/" not in line
            i += 1
            continue
        if not line.strip(): group = False
        if re.match(r"\s*/\*", line):
            in_comment, group = "*/" not in line, True
        m = re.match(r"(?!static|typedef|#|\s|return|_Static_assert|extern \"C\"|/\*|[A-Z_]+\()[\w \*]*?\b([a-z]\w*)\(", line)
        if m and depth == 0:
            whole = line
            while not re.search(r"[;{]", whole) and i + 1 < len(lines):
                i += 1
                whole += lines[i]
            if not group and "/*" not in whole: yield i + 1, m[1]
        depth += line.count("{") - line.count("}")
        i += 1


faults, whats, functions, read = [], [], 0, 0
bad = forbidden()
pattern = re.compile(r"(?<![\w-])(" + "|".join(re.sub(r" ", r"\\s+(?:\\*\\s+)?", re.escape(w).replace(r"\ ", " ")) for w in bad) +
                     r")(?![\w-])", re.I)
for path in files():
    name, text = path.relative_to(root).as_posix(), path.read_text(errors="replace")
    words = prose(path, text)
    read += 1
    line_of = lambda at: words.count("\n", 0, at) + 1
    for m in pattern.finditer(words):
        word = re.sub(r"[\s*]+", " ", m[1]).lower()
        faults.append(f"{name}:{line_of(m.start())}: word: {word}" + (f" (say: {bad[word]})" if bad.get(word) else ""))
    whats += [f"{name}:{line_of(at)}: what: {words[at:at + 60].split(chr(10))[0]}" for at in starts(words)]
    if path.suffix in SLASH:
        faults += [f"{name}:{n}: columns: {len(l)}" for n, l in enumerate(text.split("\n"), 1) if len(l) > 120 and "http" not in l]
    elif path.suffix in TEXT:
        faults += [f"{name}:{n}: columns: {len(l)}" for n, l in enumerate(prose_of_document(text).split("\n"), 1)
                   if len(l) > 120 and not re.match(r"\||    |.*\bhttp", l)]
    if path.suffix == ".h" and name.split("/")[0] in FUNCTION_ROOMS and not KERNELS.match(name):
        for n, function in uncommented(text):
            functions += 1
            faults.append(f"{name}:{n}: function: {function} has no comment")
print(*faults, sep="\n")
if sys.argv[2:] or len(whats) > LIMIT: print(*whats, sep="\n")
print(f"{read} files, {len(faults)} faults ({functions} functions), {len(whats)} sentences begin with What or Who")
sys.exit(bool(faults) or len(whats) > LIMIT or (not sys.argv[2:] and read < 900))
