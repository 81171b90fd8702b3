"""tests/cli/verify_faults.py BUILD - `apc verify` finds faults of the compiler and the runtime.

Each fault changes one place of a source.  The changed file is compiled and linked into apc or the runtime as the build
does, by the commands that CMake writes for its generator, and `apc verify` of a small model must not report ok: exit 4
with the differences, or a program that the checkers refuse.  Without a fault it must report ok.  Gradients and updates
are verified for more ranks than run here, so that only the step itself is checked.
"""
import json
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
CONV = """apc.ir 1
func @main level 1 {
  %c = input {name="c"} : f32[2, 5, 5, 3]
  %k = input {name="k"} : f32[3, 3, 3, 3]
  %z = conv %c, %k {spec="nHWi,oiHW->nHWo", starts=[0, 0], strides=[1, 1], dilations=[1, 1]} : f32[2, 3, 3, 3]
  %t = conv_transpose %z, %k {spec="nHWo,oiHW->nHWi", starts=[0, 0], strides=[1, 1], dilations=[1, 1]} : f32[2, 5, 5, 3]
  %g = pool_grad %c, %z {axes=[1, 2], window=[3, 3], starts=[0, 0], strides=[1, 1], dilations=[1, 1]} : f32[2, 5, 5, 3]
  output "t" %t
  output "g" %g
}
"""
GROUP = """apc.ir 1
func @main level 1 {
  %x = input {name="x"} : f32[6, 4]
  %w = input {name="w"} : f32[3, 4, 8]
  %i = iota {axis=0, start=0} : i64[6]
  %three = const {value=3} : i64[6]
  %j = mod %i, %three : i64[6]
  %y = grouped_dot %x, %j, %w {start=0} : f32[6, 8]
  %z = scatter %y, %j {op=sum, axis=0, start=0} : f32[3, 8]
  output "z" %z
}
"""
GPT = f"{ROOT}/examples/gpt.apc -D layers=1 -D d=16 -D heads=2 -D vocab=24 -D ctx=8 --dim seq=6 --train cross_entropy"
FAR = "--target dgx-a100x128 --dp 128 --batch 128"
STEP = {name: f"net.apc --train mse {FAR} --optimizer {how}" for name, how in {
    "adamw": "adamw(lr=0.01,clip=0.5,weight_decay=0.1)", "sgd": "sgd(lr=0.1,momentum=0.9,weight_decay=0.1)",
    "lion": "lion(lr=0.01)", "slow": "sgd(lr=0.1,schedule=cosine,warmup=2,steps=9,min_lr=0.01)",
    "muon": "muon(lr=0.01,adjust=match_rms_adamw)", "adafactor": "adafactor(lr=0.01)"}.items()}
STEP["bce"] = f"net.apc --train bce {FAR}"
STEP["mean"] = f"{GPT}(label_smoothing=0.1) {FAR}"
RUN, LOOKS, GPTS = "dot.ir --target cpux2", "look.ir --target cpux2", f"{GPT} {FAR}"
CONVS, GROUPS = "conv.ir --target cpu", "group.ir --target cpux2"
ONE_GPT = f"{GPT} --target cpux2 --batch 4"

MODELS = ("net.apc", NET), ("dot.ir", DOT), ("look.ir", LOOK), ("conv.ir", CONV), ("group.ir", GROUP)

# Name, where it is linked (apc, its kernels, or the runtime), source, what becomes what, what is verified.
FAULTS = [
    ("gradient: relu where it is not", "apc", "ir/ops/gradient_pointwise.c",
     "build_binary(g->b, OP_gt, x, gradient_number(g, x, 0))", "build_binary(g->b, OP_lt, x, gradient_number(g, x, 0))",
     STEP["adamw"]),
    ("gradient: of the divisor", "apc", "ir/ops/gradient_pointwise.c",
     "dx[1] = w[1] ? unary(g, OP_neg, gradient_mul(g, dx[0], g->op->out)) : 0;",
     "dx[1] = w[1] ? gradient_mul(g, dx[0], g->op->out) : 0;", STEP["adamw"]),
    ("gradient: of the loss is 2", "apc", "passes/train/backward.c", "build_splat(b, type_of(b->f, loss), 1)",
     "build_splat(b, type_of(b->f, loss), 2)", STEP["sgd"]),
    ("gradient: cross entropy without its label", "apc", "ir/ops/gradient_sums.c", "slope = gradient_sub(g, share, hit)",
     "slope = share", GPTS),
    ("gradient: norm without its mean", "apc", "ir/ops/gradient_sums.c",
     "gradient_sub(g, across, gradient_mul(g, y, along))", "across", GPTS),
    ("gradient: scores of an attention without their scale", "kernels", None,
     "? 1 : a->scale) / sum;", "? 1 : 1) / sum;", ONE_GPT),
    ("loss: the mean is over all labels, ignored ones too", "apc", "passes/train/loss.c",
     "Val count = all_sum(b, build_cast(b, kept, t));",
     "Val count = all_sum(b, number(b, build_cast(b, kept, t), 1));", GPTS),
    ("loss: ignored labels are counted as class 0", "apc", "passes/train/loss.c",
     "Val counted = select(b, kept, each, number(b, each, 0));", "Val counted = each;", GPTS),
    ("loss: smoothing over one class less", "apc", "passes/train/loss.c",
     "build_size(b, type_of(b->f, sum), t->dims[t->rank - 1])",
     "build_size(b, type_of(b->f, sum), ex_addi(b->m, t->dims[t->rank - 1], -1))", STEP["mean"]),
    ("loss: squares are added", "apc", "passes/train/loss.c",
     "total_over(b, x, build_size(b, type_get(b->m, t->dtype, 0, NULL), type_elements(b->m, t)))",
     "total_over(b, x, build_splat(b, type_get(b->m, t->dtype, 0, NULL), 1))", STEP["adamw"]),
    ("loss: binary entropy of the other label", "apc", "passes/train/loss.c",
     "build_binary(b, OP_sub, positive, product)", "build_binary(b, OP_sub, product, positive)", STEP["bce"]),
    ("update: both corrections by one beta", "apc", "passes/train/update.c",
     "update_correction(u, u->t, i ? o->beta2 : o->beta1)", "update_correction(u, u->t, o->beta1)", STEP["adamw"]),
    ("update: the moment takes as much as it keeps", "apc", "passes/train/update.c", "scaled(u, y, 1 - part)", "scaled(u, y, part)",
     STEP["adamw"]),
    ("update: decay is added", "apc", "passes/train/update.c", "build_binary(u->b, OP_sub, w->read, move)",
     "build_binary(u->b, OP_add, w->read, move)", STEP["lion"]),
    ("update: clipped from below", "apc", "passes/train/update.c", "return at_most_1(u, update_binary(u, OP_div, most, above))",
     "return update_binary(u, OP_max, update_binary(u, OP_div, most, above), update_number(u, 1))", STEP["adamw"]),
    ("update: momentum of the new gradient", "apc", "passes/train/update.c", "update_scaled(u, old, u->o->momentum)",
     "update_scaled(u, old, 1 - u->o->momentum)", STEP["sgd"]),
    ("update: lion keeps what it signs", "apc", "passes/train/update.c", "update_mixed(u, u->o->beta2, m, g), m);",
     "update_mixed(u, u->o->beta1, m, g), m);", STEP["lion"]),
    ("update: warm one step late", "apc", "passes/train/schedule.c", "update_times(u, u->now, 1 / o->warmup)",
     "update_times(u, u->now, 1 / (o->warmup + 1))", STEP["slow"]),
    ("update: muon forgets the shape of its matrix", "apc", "passes/train/muon.c", "update_scaled(u, turned, ratio)", "turned",
     STEP["muon"]),
    ("update: adafactor takes steps of one size", "apc", "passes/train/adafactor.c",
     "update_binary(u, OP_mul, size, rate)", "rate", STEP["adafactor"]),
    ("mask: a query sees the key after it", "kernels", None,
     "position[r] = a->causal ? attention_queries(a, group)[r % a->s] : INT64_MAX;",
     "position[r] = a->causal ? attention_queries(a, group)[r % a->s] + 1 : INT64_MAX;", LOOKS),
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
     "b.depth = border(g->k, i, parts),", "b.depth = border(g->k, i, parts + 1),", RUN),
    ("border: the second lanes of a convolution have the first ones' weights", "kernels", None,
     "bs = first * t->lanes_b;", "bs = 0;", CONVS),
    ("border: the second lanes of a depthwise convolution read the first ones", "kernels", None,
     "int64_t from = (first + lane) / t->repeat, left", "int64_t from = lane / t->repeat, left", CONVS),
    ("border: places of a convolution go on where a chunk ends", "kernels", None,
     "conv_pixels(t, at, n, y + ys, a + as, pixel);", "conv_pixels(t, at % CONV_CHUNK, n, y + ys, a + as, pixel);",
     CONVS),
    ("border: the second neighbours of a pool's gradient", "kernels", None,
     "first = item_ % chunks_ * POOL_LANES;", "first = item_ % chunks_ * (POOL_LANES + 1);", CONVS),
    ("border: rows of a group after its first block", "kernels", None,
     "blocks[n++] = (GroupedBlock){i, first,", "blocks[n++] = (GroupedBlock){i, i ? end[i - 1] : 0,", GROUPS),
    ("border: terms of a grouped product after the first panel", "kernels", None,
     "const stored *from = w + p * g->n + column;", "const stored *from = w + column;", GROUPS),
    ("border: columns of a grouped product after the first panel", "kernels", None,
     "int64_t column = i / n * wide,", "int64_t column = i / n * (wide + 1),", GROUPS),
    ("border: columns of a scatter after the first block", "kernels", None,
     "c0 = at_ % blocks_ * COLUMNS, cs", "c0 = at_ % blocks_ * (COLUMNS + 1), cs", GROUPS),
    ("second piece: it is written where the first was", "runtime", "runtime/comm/transport_local.c",
     "strided_scatter(&transfer->block, transfer->first + transfer->moved,",
     "strided_scatter(&transfer->block, transfer->first + (transfer->moved < PIECE ? transfer->moved : 0),", RUN),
    ("second piece: a rank's summand that is not contiguous", "runtime", "runtime/comm/items.c",
     "strided_gather(own, &op->own, op->own_begin + op->reduced, n);", "strided_gather(own, &op->own, op->own_begin, n);",
     RUN),
    ("border: a pool's gradient goes to the last of equal ones", "kernels", None,
     "at[i] < 0 || v > largest[i] ||", "at[i] < 0 || v >= largest[i] ||", CONVS),
    ("second piece: reductions after the first block", "runtime", "runtime/comm/reduce.c", "E *result = (E *)to + at;",
     "E *result = (E *)to + at / 2 * 2 % (4 * BLOCK);", RUN),
    ("lifetime: buffers that meet at one operation share memory", "apc", "program/memory.c",
     "return a->first <= b->last && b->first <= a->last;", "return a->first < b->last && b->first < a->last;", ONE_GPT),
]


def compile_command(source):
    """Of a source of a room's library, or of the kernels' prelude; and where it is given."""
    room = "codegen" if source.is_relative_to(BUILD / "generated") else source.relative_to(ROOT).parts[0]
    for x in json.loads((BUILD / "compile_commands.json").read_text()):
        if pathlib.Path(x["file"]) == source and f"/apc_{room}.dir/" in x["command"]:
            return x["command"], x["directory"]
    raise SystemExit(f"compile_commands.json has no {source} of {room}")


def link_command(target):
    """A file of Make's generator; for Ninja, its own query."""
    written = BUILD / f"CMakeFiles/{target}.dir/link.txt"
    if written.exists():
        return written.read_text()
    done = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", target], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[-1]


def plant(folder, where, source, old, new):
    """Links the fault into the folder: apc and its runtime."""
    target = "apcrt-stub" if where == "runtime" else "apc"
    path = BUILD / "generated/kernel_prelude.c" if where == "kernels" else ROOT / source
    text = path.read_text()
    assert text.count(old) == 1, f"{path}: {text.count(old)} times {old}"
    changed, made = folder / path.name, folder / "changed.o"
    changed.write_text(text.replace(old, new))
    command, at = compile_command(path)
    build, compiles = re.subn(r" -o \S+ -c \S+$", f" -I{path.parent} -w -o {made} -c {changed}", command)
    link, links = re.subn(rf" -o {target} ", f" -o {folder / target} {made} ", link_command(target))  # before the library
    assert compiles == links == 1, (command, link)
    subprocess.run(build, shell=True, check=True, cwd=at)
    subprocess.run(link, shell=True, check=True, cwd=BUILD)


def verify(folder, what):
    own_kernels = {**os.environ, "APC_CONV": "kernel"}  # instead of oneDNN
    done = subprocess.run([folder / "apc", "verify", "-q", *what.split()], cwd=folder, env=own_kernels,
                          capture_output=True, text=True, timeout=300)
    said = [x for x in done.stdout.splitlines() if re.match("DIFFERS|refuted|unknown", x)]
    return done.returncode, (said or (done.stderr + done.stdout).strip().splitlines()[-3:] or [""])[0][:150]


def new_folder(folder, planted):
    for name, text in MODELS:
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
