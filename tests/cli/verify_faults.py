"""tests/cli/verify_faults.py BUILD - `apc verify` finds faults of the compiler and the runtime.

Each fault is a change of one place of a source.  The changed file is compiled as the build compiles it (what the build's
ninja says), apc or the runtime is linked with it, and `apc verify` of a small model must not say that all is well: exit 4
with what differs, or a program that the checkers refuse.  Without a fault it must say ok.  Gradients and updates are
asked with more ranks than run here, so that nothing but the step itself is looked at.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()

NET = """import nn
dim batch
entry main(x: f32[batch, 12]) {
  weight w : f32[12, 16] = normal(0.3)
  weight b : f32[16] = zeros
  weight v : f32[16, 12] = normal(0.3)
  weight c : f32[12] = normal(0.3)
  h = relu(matmul(x, w) + b)
  output y = sigmoid(matmul(h, v)) / (1.5 - tanh(c))
}
"""
DOT = """apc.ir 1
func @main level 1 {
  %x = input {name="x"} : f32[4, 8]
  %w = input {name="w"} : f32[8, 6]
  %y = dot %x, %w {spec="mk,kn->mn"} : f32[4, 6]
  %s = reduce %y {axes=[1], op=sum} : f32[4]
  output "s" %s
  output "y" %y
}
"""
LOOK = """apc.ir 1
func @main level 1 {
  %q = input {name="q"} : f32[1, 1, 1, 5, 8]
  %k = input {name="k"} : f32[1, 1, 5, 8]
  %v = input {name="v"} : f32[1, 1, 5, 8]
  %i = iota {axis=0, start=0} : i64[5]
  %n = const {value=5} : i64[]
  %y = attention %q, %k, %v, %i, %i, %n {scale=0.35, causal=1} : f32[1, 1, 1, 5, 8]
  output "y" %y
}
"""
GPT = f"{ROOT}/examples/gpt.apc -D layers=1 -D d=16 -D heads=2 -D vocab=24 -D ctx=8 --dim seq=6 --train cross_entropy"
FAR = "--target dgx-a100x128 --dp 128 --batch 128"
STEP = {name: f"net.apc --train mse {FAR} --optimizer {how}" for name, how in {
    "adamw": "adamw(lr=0.01,clip=0.5,weight_decay=0.1)", "sgd": "sgd(lr=0.1,momentum=0.9,weight_decay=0.1)",
    "lion": "lion(lr=0.01)", "slow": "sgd(lr=0.1,schedule=cosine,warmup=2,steps=9,min_lr=0.01)"}.items()}
RUN, LOOKS, GPTS = "dot.ir --target cpux2", "look.ir --target cpux2", f"{GPT} {FAR}"
ONE_GPT = f"{GPT} --target cpux2 --batch 4"

# Name, where it is linked (apc, its kernels, or the runtime), source, what becomes what, what is verified.
FAULTS = [
    ("gradient: relu where it is not", "apc", "ir/ops/gradient_pointwise.c",
     "build_binary(g->b, OP_gt, x, gradient_number(g, x, 0))", "build_binary(g->b, OP_lt, x, gradient_number(g, x, 0))",
     STEP["adamw"]),
    ("gradient: of what is divided by", "apc", "ir/ops/gradient_pointwise.c",
     "dx[1] = w[1] ? unary(g, OP_neg, gradient_mul(g, dx[0], g->op->out)) : 0;",
     "dx[1] = w[1] ? gradient_mul(g, dx[0], g->op->out) : 0;", STEP["adamw"]),
    ("gradient: of the loss is 2", "apc", "passes/train/backward.c", "build_splat(b, type_of(b->f, loss), 1)",
     "build_splat(b, type_of(b->f, loss), 2)", STEP["sgd"]),
    ("gradient: cross entropy without its label", "apc", "ir/ops/gradient_sums.c", "slope = gradient_sub(g, share, hit)",
     "slope = share", GPTS),
    ("gradient: norm without its mean", "apc", "ir/ops/gradient_sums.c",
     "gradient_sub(g, across, gradient_mul(g, y, along))", "across", GPTS),
    ("gradient: scores of an attention without their scale", "kernels", None,
     "(b->change.p[j][l] - b->delta[l]) * a->scale;", "(b->change.p[j][l] - b->delta[l]);", ONE_GPT),
    ("update: both corrections by one beta", "apc", "passes/train/update.c", "correction(&u, i ? o->beta2 : o->beta1)",
     "correction(&u, o->beta1)", STEP["adamw"]),
    ("update: the moment takes as much as it keeps", "apc", "passes/train/update.c", "scaled(u, y, 1 - part)", "scaled(u, y, part)",
     STEP["adamw"]),
    ("update: decay is added", "apc", "passes/train/update.c", "build_binary(u->b, OP_sub, w->read, move)",
     "build_binary(u->b, OP_add, w->read, move)", STEP["lion"]),
    ("update: clipped from below", "apc", "passes/train/update.c", "return at_most_1(u, binary(u, OP_div, most, above))",
     "return binary(u, OP_max, binary(u, OP_div, most, above), number(u, 1))", STEP["adamw"]),
    ("update: momentum of the new gradient", "apc", "passes/train/update.c", 'read_moment(u, w, "momentum"), u->o->momentum)',
     'read_moment(u, w, "momentum"), 1 - u->o->momentum)', STEP["sgd"]),
    ("update: lion keeps what it signs", "apc", "passes/train/update.c", "mixed(u, u->o->beta2, m, g));\n  step",
     "mixed(u, u->o->beta1, m, g));\n  step", STEP["lion"]),
    ("update: warm one step late", "apc", "passes/train/update.c", "times(u, u->t, 1 / o->warmup)",
     "times(u, u->t, 1 / (o->warmup + 1))", STEP["slow"]),
    ("mask: a query sees the key behind it", "kernels", None,
     "position[r] = a->causal ? a->query_position[r % a->s] : INT64_MAX;",
     "position[r] = a->causal ? a->query_position[r % a->s] + 1 : INT64_MAX;", LOOKS),
    ("border: of a row's blocks the second is the first", "apc", "codegen/cpu/print_c.c", '"block / 1024"',
     '"(block / 1024) * (block < 2048)"', RUN),
    ("border: sums of blocks forget a level", "kernels", None,
     "for (uint64_t c = s->count++; c & 1; c >>= 1, l++) v = s->level[l] + v;",
     "for (uint64_t c = s->count++; c & 1; c >>= 1, l++) v = s->level[0] + v;", RUN),
    ("border: a chunk of keys begins where the first does", "kernels", None,
     "attention_chunk(c, i / chunks, i % chunks * CHUNK, attention_part(c, parts, i));",
     "attention_chunk(c, i / chunks, i % chunks * KEYS, attention_part(c, parts, i));", LOOKS),
    ("border: gradients of the second block of keys", "kernels", None,
     "grad_of_keys(g, i % g->c.groups, i / g->c.groups * wide);", "grad_of_keys(g, i % g->c.groups, i / g->c.groups * KEYS);",
     ONE_GPT),
    ("border: a block of terms is read where the first lies", "runtime", "runtime/device/gemm_panels.c",
     "b.depth = i * g->k / parts,", "b.depth = i * g->k / (parts + 1),", RUN),
    ("second piece: it is written where the first was", "runtime", "runtime/comm/transport_local.c",
     "strided_scatter(&transfer->block, transfer->first + transfer->moved,",
     "strided_scatter(&transfer->block, transfer->first + (transfer->moved < PIECE ? transfer->moved : 0),", RUN),
    ("second piece: reductions behind the first block", "runtime", "runtime/comm/reduce.c", "E *result = (E *)to + at;",
     "E *result = (E *)to + at / 2 * 2 % (4 * BLOCK);", RUN),
    ("lifetime: buffers that meet at one operation share memory", "apc", "program/memory.c",
     "return a->first <= b->last && b->first <= a->last;", "return a->first < b->last && b->first < a->last;", ONE_GPT),
]


def commands(target):
    done = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", target], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def compile_command(lines, source):
    return next(x for x in lines if re.search(rf"-c \S*{re.escape(str(source))}$", x))


def plant(folder, where, source, old, new):
    """Links what has the fault into the folder: apc beside its runtime."""
    target = "apcrt-stub" if where == "runtime" else "apc"
    path = BUILD / "generated/kernel_prelude.c" if where == "kernels" else ROOT / source
    text = path.read_text()
    assert text.count(old) == 1, f"{path}: {text.count(old)} times {old}"
    lines = commands(target)
    changed, made = folder / path.name, folder / "changed.o"
    changed.write_text(text.replace(old, new))
    name = path.relative_to(BUILD if where == "kernels" else ROOT)
    build = re.sub(r" -MD.* -o \S+ -c \S+$", f" -I{path.parent} -w -o {made} -c {changed}", compile_command(lines, name))
    subprocess.run(build, shell=True, check=True, cwd=BUILD)
    link = next(x for x in reversed(lines) if f"-o {target} " in x)
    link = re.sub(rf"-o {target} ", f"-o {folder / target} {made} ", link, count=1)
    link = re.sub(rf"\S*{re.escape(str(name))}\.o ", "", link)
    subprocess.run(link, shell=True, check=True, cwd=BUILD)


def verify(folder, what):
    done = subprocess.run([folder / "apc", "verify", "-q", *what.split()], cwd=folder, capture_output=True, text=True,
                          timeout=300)
    said = [x for x in done.stdout.splitlines() if re.match("DIFFERS|refuted|unknown", x)]
    return done.returncode, (said or (done.stderr + done.stdout).strip().splitlines()[-3:] or [""])[0][:150]


def new_folder(folder, planted):
    for name, text in (("net.apc", NET), ("dot.ir", DOT), ("look.ir", LOOK)):
        (folder / name).write_text(text)
    if planted:
        plant(folder, *planted)
    for name in ("apc", "apcrt-stub"):
        if not (folder / name).exists():
            os.link(BUILD / name, folder / name)


def main():
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    quarter, failed, ran = os.environ.get("APC_QUARTER"), 0, 0
    models = sorted({x[5] for x in FAULTS})
    cases = [("nothing", None, m) for m in models] + [(x[0], x[1:5], x[5]) for x in FAULTS]
    for i, (name, planted, what) in enumerate(cases):
        if only not in name or (quarter and i % 4 != int(quarter)):
            continue
        ran += 1
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            new_folder(folder, planted)
            code, said = verify(folder, what)
        right = code == 0 if not planted else code in (4, 70) or (code == 1 and "APC" in said)
        failed += not right
        print(f"{'' if right else 'FAILED: '}{name}: exit {code}: {said}", flush=True)
    print(f"{ran - failed} passed, {failed} failed")
    sys.exit(bool(failed) or not ran)


main()
