#!/usr/bin/env python3
"""tests/plain.py SOURCE_DIR [PATH...] - prose is plain: comments, messages and documents.

Without PATH the whole project is read; with it only those files and folders.  Faults:
  word      a word that docs/glossary.md lists after "not" of a term
  what      sentences that begin with "What" or "Who" and are no questions: at most 60 in the whole project
  columns   lines over 120 columns: of C, of documents (except tables, links and listings), and comments of scripts
  function  functions of headers without a comment: above the function, at its end, or above its group (no empty line);
            a section's title without a colon is no comment
Read are comments, strings of C and, if they have a blank, of Python and in double quotes of shell, and documents.
Not read: generated documents, published tables, seeds of fuzzers; functions of texts of kernels may lack comments."""
import io
import pathlib
import re
import sys
import tokenize

ROOMS = ["base", "bench", "codegen", "docs", "driver", "examples", "frontend", "ir", "passes", "program", "proof", "runtime",
         "solver", "targets", "tests", "tools"]
FUNCTION_ROOMS = set(ROOMS) - {"bench", "docs", "examples", "targets", "tests"}

LIMIT = 60
SLASH, TEXT = {".c", ".h", ".def", ".l", ".y", ".cu", ".proto"}, {".md"}
SCRIPT = {".py", ".sh", ".cmake", ".txt"}
HASH = SCRIPT | {".apc", ".ir", ".toml", ".topo", ".in", ".supp"}
SKIPPED = re.compile(r"bench/published/.*\.csv|docs/(status|accuracy|inside/kernels_gpu|kernels_gpu)\.md|tests/fuzz/seeds/|"
                     r"tests/plain\.py|docs/glossary\.md")
KERNELS = re.compile(r"codegen/(cpu|cuda)/(kernel_|dialect|prelude)")
root = pathlib.Path(sys.argv[1])


def files():
    """The files to read, sorted."""
    if sys.argv[2:]:
        found = [p for a in sys.argv[2:] for p in ([root / a] if (root / a).is_file() else (root / a).rglob("*"))]
    else:
        found = [p for room in ROOMS for p in (root / room).rglob("*")] + [p for p in root.glob("*.*")]
    kinds = SLASH | HASH | TEXT
    return sorted(p for p in found if p.is_file() and p.suffix in kinds and not SKIPPED.search(p.relative_to(root).as_posix()))


def blank(text):
    """Blanks in place of the text; lines keep their numbers."""
    return re.sub(r"[^\n]", " ", text)


def kept(text, parts):
    """The parts (begin, end) of a text; the rest is blank."""
    out, at = [], 0
    for begin, end in parts:
        out += [blank(text[at:begin]), text[begin:end]]
        at = end
    return "".join(out) + blank(text[at:])


def prose_of_c(text):
    """Comments and strings of C.  Paths of #include are no prose."""
    text = re.sub(r"^#include.*$", lambda m: blank(m[0]), text, flags=re.M)
    found = re.finditer(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', text, re.S)
    return kept(text, [m.span() for m in found if m[0][0] != "'"])


def prose_of_python(text):
    """Comments, and strings that have a blank, without their expressions in braces."""
    starts = [0, *(m.end() for m in re.finditer(r"\n", text))]
    offset = lambda place: starts[place[0] - 1] + place[1]
    found = [t for t in tokenize.generate_tokens(io.StringIO(text).readline)
             if t.type == tokenize.COMMENT or t.type == tokenize.STRING and " " in t.string]
    words = kept(text, [(offset(t.start), offset(t.end)) for t in found])
    return re.sub(r"\{[^{}\n]*\}", lambda m: blank(m[0]), words)


def prose_of_script(text):
    """Comments, and strings in double quotes that have a blank."""
    found = re.finditer(r'(?<!\S)#[^\n]*|"(?:\\.|[^"\\\n])*"', text)
    return kept(text, [m.span() for m in found if m[0][0] == "#" or " " in m[0]])


def prose_of_document(text):
    """Paragraphs of Markdown, without listings and code."""
    text = re.sub(r"^ *```.*?^ *```", lambda m: blank(m[0]), text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda m: "x" * len(m[0]), text)


def prose(path, text):
    """The words of a file that a reader reads, at the same lines."""
    kinds = [(SLASH, prose_of_c), (TEXT, prose_of_document), ({".py"}, prose_of_python)]
    return next((read for suffixes, read in kinds if path.suffix in suffixes), prose_of_script)(text)


def forbidden():
    """Word -> the term to use, from the glossary."""
    found = {}
    for row in (root / "docs/glossary.md").read_text().split("\n"):
        cells = [c.strip() for c in row.split("|")]
        if len(cells) > 2 and (m := re.search(r"\(not: ([^)]*)\)", row)):
            found |= {w.strip(): re.sub(r" \(.*", "", cells[1]) for w in m[1].split(",")}
    return found


def starts(text):
    """Offsets of sentences that begin with What or Who and are no questions."""
    before, rest = r"(?:^|/\*|\*|//|#|[.:;!?](?:\s|\s\*)|[\"(|])[\s*#/>-]*", r"(?:[^.?!\"]|\.(?=\w))*"
    for m in re.finditer(before + rf"((?:What|Who)\b)(?={rest}(.?))", text, re.M):
        if m[2] != "?": yield m.start(1)


def functions(text):
    """(line, name, has a comment) of functions that a header declares."""
    text = re.sub(r'^#ifdef __cplusplus\n.*?^#endif', lambda m: blank(m[0]), text, flags=re.M | re.S)
    code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', lambda m: blank(m[0]), text, flags=re.S).split("\n")
    lines, group, depth, i = text.split("\n"), False, 0, 0
    while i < len(lines):
        if not lines[i].strip(): group = False
        if re.match(r"\s*/\*(?! ----[^:]*\*/)", lines[i]): group = True
        m = re.match(r"(?!typedef|#|\s|return|_Static_assert|[A-Z_]+\()(?:__attribute__\(\(.*?\)\) )?[\w \*]*?\b([a-z]\w*)\(",
                     code[i])
        if m and depth == 0:
            first = i
            while not re.search(r"[;{]", code[i]) and i + 1 < len(lines): i += 1
            yield first + 1, m[1], group or "/*" in "".join(lines[first:i + 1])
        depth += sum(c.count("{") - c.count("}") for c in code[i:i + 1])
        i += 1


def long_lines(path, text, words):
    """(line, columns) of lines that are too long."""
    if path.suffix in SLASH: lines, aside = text, r".*http"
    elif path.suffix in TEXT: lines, aside = words, r"\||    |.*\bhttp"
    else: lines, aside = text if path.suffix in SCRIPT else "", r"(?!\s*#)|.*http"
    return [(n, len(l)) for n, l in enumerate(lines.split("\n"), 1) if len(l) > 120 and not re.match(aside, l)]


faults, whats, declared, read = [], [], 0, 0
bad = forbidden()
gap = r'(?:[\s*]|"\s*")+'
pattern = re.compile(r"(?<![\w/-])(" + "|".join(gap.join(map(re.escape, w.split())) for w in bad) + r")(?![\w-]|\.md)", re.I)
for path in files():
    name, text = path.relative_to(root).as_posix(), path.read_text(errors="replace")
    words = prose(path, text)
    read += 1
    line_of = lambda at: words.count("\n", 0, at) + 1
    for m in pattern.finditer(words):
        word = re.sub(r'[\s*"]+', " ", m[1]).lower()
        faults.append(f"{name}:{line_of(m.start())}: word: {word}" + (f" (say: {bad[word]})" if bad.get(word) else ""))
    whats += [f"{name}:{line_of(at)}: what: {words[at:at + 60].split(chr(10))[0]}" for at in starts(words)]
    faults += [f"{name}:{n}: columns: {columns}" for n, columns in long_lines(path, text, words)]
    if path.suffix == ".h" and name.split("/")[0] in FUNCTION_ROOMS and not KERNELS.match(name):
        for n, function, commented in functions(text):
            declared += 1
            if not commented: faults.append(f"{name}:{n}: function: {function} has no comment")
if faults: print(*faults, sep="\n")
if sys.argv[2:] or len(whats) > LIMIT: print(*whats, sep="\n")
print(f"{read} files, {declared} functions, {len(faults)} faults, {len(whats)} sentences begin with What or Who")
sys.exit(bool(faults) or len(whats) > LIMIT or (not sys.argv[2:] and (read < 900 or declared < 2000)))
