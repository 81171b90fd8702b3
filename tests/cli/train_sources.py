"""tests/cli/train_sources.py APC - the data of training programs: indexed token files, mixtures, places, epochs, the
last batch of an epoch, readers, documents.

A run is compared with one whose rows are computed here and given as arrays in order: the losses must be equal.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
GPT = [SOURCE + "/examples/gpt.apc", "-D", "layers=1", "-D", "d=16", "-D", "heads=2", "-D", "vocab=24", "-D", "ctx=8",
       "--dim", "seq=6"]
MLP = [SOURCE + "/examples/mlp.apc", "-D", "layers=2", "-D", "d=12"]
T, V, B = 6, 24, 4
CODES = {"u1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "f8": 6, "f4": 7, "u2": 8}
passed = 0


def run(*command, code=0, says=""):
    global passed
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    assert done.returncode == code, (command, done.returncode, done.stdout[-500:], done.stderr[-2000:])
    assert says in done.stdout + done.stderr, (command, says, done.stderr[-2000:])
    passed += 1
    return done


def losses(*command):
    lines = [json.loads(line) for line in run(*command, "--json").stdout.splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def same(name, got, want):
    global passed
    assert got == want and len(got) > 0, (name, got, want)
    passed += 1


def near(name, got, want, by=1e-6):
    global passed
    assert len(got) == len(want) and np.allclose(got, want, rtol=by), (name, got, want)
    passed += 1


def metadata(folder):
    raw = open(folder + "/checkpoint.safetensors", "rb").read()
    return json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])["__metadata__"]


def megatron(name, tokens, cuts, dtype="u2", **changes):
    """Writes NAME.bin and NAME.idx; a document ends at each of `cuts`."""
    tokens.astype("<" + dtype).tofile(name + ".bin")
    lengths = np.diff([0, *cuts]).astype("<i4")
    pointers = (np.cumsum(lengths) - lengths).astype("<i8") * np.dtype(dtype).itemsize
    starts = np.arange(len(cuts) + 1, dtype="<i8")
    head = {"magic": b"MMIDIDX\0\0", "version": 1, "code": CODES[dtype], "sequences": len(cuts), "documents": len(starts),
            "lengths": lengths, "pointers": pointers, "starts": starts, "more": b"", "cut": None, **changes}
    raw = head["magic"] + struct.pack("<QBQQ", head["version"], head["code"], head["sequences"], head["documents"])
    raw += b"".join(head[k].tobytes() for k in ("lengths", "pointers", "starts")) + head["more"]
    open(name + ".idx", "wb").write(raw[:head["cut"]])


def windows(tokens):
    return [tokens[k:k + T + 1] for k in range(0, len(tokens) - T, T)]


def as_rows(name, rows):
    rows = np.array(rows)
    np.save(name + "_x.npy", rows[:, :-1]), np.save(name + "_y.npy", rows[:, 1:])
    return ["--data", f"tokens=@{name}_x.npy", "--data", f"labels=@{name}_y.npy"]


def test_indexed(tokens):
    cuts = [5, 18, 19, 90, 200]
    want = losses("./words", "--steps", "9", *as_rows("plain", windows(tokens)))
    for dtype in "u1", "i2", "i4", "i8", "u2":
        megatron("meg_" + dtype, tokens, cuts, dtype)
        for name in f"meg_{dtype}.bin", f"meg_{dtype}.idx", f"meg_{dtype}":
            same(name, losses("./words", "--steps", "9", "--data", "tokens=@" + name), want)
    megatron("modes", tokens, cuts, more=bytes(5))
    same("with modes", losses("./words", "--steps", "9", "--data", "tokens=@modes"), want)
    # A folder of indexed files, one of which has no documents; no window crosses files.
    os.mkdir("folder")
    megatron("folder/a", tokens[:90], [90])
    megatron("folder/b", tokens[90:90], [])
    megatron("folder/c", tokens[90:], [3, 110])
    rows = as_rows("cut", windows(tokens[:90]) + windows(tokens[90:]))
    same("folder", losses("./words", "--steps", "9", "--data", "tokens=@folder"), losses("./words", "--steps", "9", *rows))


def test_malformed(tokens):
    cuts = [50, 120, 200]
    far = np.array([0, 100, 1 << 40], "<i8")

    def bad(says, dtype="u2", options=(), values=tokens, **changes):
        megatron("bad", values, cuts, dtype, **changes)
        run("./words", "--steps", "9", "--data", "tokens=@bad.bin", *options, code=1, says=says)
    bad("bad.idx: it lies beside a token file, but is no index", magic=b"MMIDIDY\0\0")
    bad("bad.idx: it lies beside a token file, but is no index", cut=4)
    bad("bad.idx: the index of Megatron's is shorter than its header", cut=33)
    bad("bad.idx: the index has version 2; only 1 is supported", version=2)
    bad("bad.idx: the type of tokens, 9, is unknown", code=9)
    bad("bad.idx: the type of tokens, 0, is unknown", code=0)
    bad("bad.idx: tokens of type float32 are no numbers of words", "f4")
    for cut in 40, 60, -1:
        bad("counts 3 sequences and 4 document indices, but", cut=cut)
    for key in "sequences", "documents":
        for count in 2, 5, 1 << 61, (1 << 64) - 1:
            bad("sequences and", **{key: count})
    bad("bad.idx: sequence 1 has a negative length", lengths=np.array([50, -70, 80], "<i4"))
    bad("bad.idx: sequence 2 does not begin where the one before it ends", pointers=far)
    bad("bad.idx: its sequences have at least", lengths=np.array([50, 70, 1 << 30], "<i4"))
    bad("bad.idx: its sequences have 398 bytes, but the .bin file has 400", lengths=np.array([50, 70, 79], "<i4"))
    bad("document index 2 is 1: out of order", starts=np.array([0, 2, 1, 3], "<i8"))
    bad("document index 3 is 4: out of order, or above 3", starts=np.array([0, 1, 2, 4], "<i8"))
    bad("document index 0 is -1", starts=np.array([-1, 1, 2, 3], "<i8"))
    bad("its index (Megatron) says 16-bit tokens, but --bits 32", options=["--bits", "32"])
    for dtype, value, text in ("i4", -1, "-1"), ("u2", 24, "24"), ("i8", 1 << 62, str(1 << 62)), ("i2", -300, "-300"):
        values = tokens.copy()
        values[150] = value
        bad(f"bad.bin: token 150 is {text}; the model's vocabulary has 24", dtype, values=values)
    run("./words", "--steps", "1", "--data", "tokens=@bad", "--data", "tokens=@bad", code=2, says="a mixture needs weights")


def blend(weights, n):
    """The sources of the first n rows: those of Megatron's build_blending_indices, but with the weights as they are."""
    taken, out = [0] * len(weights), []
    for i in range(n):
        behind = [w * max(i, 1) - t for w, t in zip(weights, taken)]
        out.append(behind.index(max(behind)))
        taken[out[-1]] += 1
    return out


def test_mixtures(tokens):
    rows = [windows(tokens[:80]), windows(tokens[60:120]), windows(tokens[100:])]
    parts = [np.concatenate([r[0][:1], *[w[1:] for w in p]]) for p, r in ((p, p) for p in rows)]
    weights = [0.5, 0.3125, 0.1875]
    mixed = []
    for name, part, weight in zip("abc", parts, ("8", "5", "3e0")):
        megatron("mix_" + name, part, [len(part)])
        mixed += ["--data", f"tokens={weight}@mix_{name}"]
    taken = [0, 0, 0]
    order = []
    for k in blend(weights, 20 * B):
        order.append(rows[k][taken[k] % len(rows[k])])
        taken[k] += 1
    want = losses("./words", "--steps", "20", "--shuffle", "none", *as_rows("blended", order))
    same("a mixture", losses("./words", "--steps", "20", "--shuffle", "none", *mixed), want)
    both = []
    for name, part, weight in zip("abc", rows, (8, 5, 3)):
        as_rows("both_" + name, part)
        both += ["--data", f"tokens={weight}@both_{name}_x.npy", "--data", f"labels={weight}@both_{name}_y.npy"]
    same("of arrays", losses("./words", "--steps", "20", "--shuffle", "none", *both), want)

    # Resumed runs go on where they were: under the same plan bit for bit, under another one with the same rows.
    straight = losses("./words", "--steps", "30", *mixed)
    assert straight[:20] != want
    part = losses("./words", "--steps", "11", *mixed, "--checkpoint", "mid")
    same("resumed", part + losses("./words", "--steps", "30", *mixed, "--resume", "mid"), straight)
    place = metadata("mid")["place"]
    assert place.startswith("given 44 batch 4 shuffle 0 last wrap, rows 13 weight 2147483648 "), place
    near("under another plan", losses("./one", "--steps", "30", *mixed, "--resume", "mid"), straight[11:], 1e-5)
    run("./one", "--steps", "11", *mixed, "--checkpoint", "mid_one")
    assert metadata("mid_one")["place"] == place
    # Other batches take the same rows in the same order.
    said = run("./words2", "--steps", "33", *mixed, "--resume", "mid", "--checkpoint", "other").stderr
    assert "warning: the data go on from their places in the checkpoint, but its run had batches of 4" in said, said
    run("./words", "--steps", "22", *mixed, "--resume", "mid", "--checkpoint", "more")
    one, two = (metadata(f)["place"].split(",")[1:] for f in ("other", "more"))
    same("places after 88 rows", one, two)
    changed = [x.replace("=8@", "=1@") for x in mixed]
    assert "its run had other weights" in run("./words", "--steps", "12", *changed, "--resume", "mid").stderr
    assert "its run had --shuffle 0" in run("./words", "--steps", "12", "--shuffle", "3", *mixed, "--resume", "mid").stderr
    assert "its run had 3 sources" in run("./words", "--steps", "12", *mixed[:2], "--resume", "mid").stderr

    def wrong(says, *data):
        run("./words", "--steps", "1", *[x for d in data for x in ("--data", d)], code=2, says=says)
    wrong("needs weights", "tokens=@mix_a", "tokens=@mix_b")
    wrong("every source of a mixture needs a weight", "tokens=@mix_a", "tokens=1@mix_b")
    wrong("must be above 0", "tokens=0@mix_a", "tokens=1@mix_b")
    wrong("must be above 0", "tokens=-1@mix_a", "tokens=1@mix_b")
    wrong("expected NAME=@FILE.npy or", "tokens=half@mix_a")
    wrong("'labels' has 1", "tokens=1@both_a_x.npy", "tokens=1@both_b_x.npy", "labels=1@both_a_y.npy")
    # Labels that follow from tokens need tokens in every source; labels with files of their own do not.
    unknown = "is no token file, so the labels of its rows are not known"
    wrong("--data tokens: both_b_x.npy " + unknown, "tokens=1@mix_a", "tokens=1@both_b_x.npy")
    wrong("--data tokens: both_b_x.npy " + unknown, "tokens=1@both_b_x.npy", "tokens=1@mix_a")
    run("./words", "--steps", "1", *mixed, "--eval", "tokens=1@mix_a", "--eval", "tokens=1@both_b_x.npy", code=2,
        says="--eval tokens: both_b_x.npy " + unknown)
    beside = ["--data", "tokens=8@mix_a", "--data", "labels=8@both_a_y.npy"]
    same("labels of their own", losses("./words", "--steps", "20", "--shuffle", "none", *beside, *both[4:]), want)
    wrong("different weights", "tokens=1@both_a_x.npy", "labels=2@both_a_y.npy")
    run("./words", "--epochs", "1", *mixed, code=2, says="a mixture has no epochs")
    run("./words", "--steps", "1", "--last-batch", "drop", *mixed, code=2, says="a mixture has no end, so no last batch")


def other_checkpoint(folder, new, facts):
    """Writes a folder with the checkpoint of another one, without checksums and with these facts."""
    raw = open(folder + "/checkpoint.safetensors", "rb").read()
    n = 8 + struct.unpack("<Q", raw[:8])[0]
    head = json.dumps({**json.loads(raw[8:n]), "__metadata__": facts}).encode()
    head += b" " * (-len(head) % 8)
    os.mkdir(new)
    open(new + "/checkpoint.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + raw[n:])


def test_places():
    """Numbers of a checkpoint that no run has: they are refused, or said, and cost no time."""
    mixed = ["--data", "tokens=8@mix_a", "--data", "tokens=5@mix_b", "--data", "tokens=3e0@mix_c"]
    one = ["--data", "tokens=@mix_a"]
    for i, steps in enumerate((2 ** 61 + 7, 2 ** 63 - 1, 2 ** 54 + 1)):
        other_checkpoint("mid", f"far{i}", {"steps": str(steps)})
        for data in one, mixed:
            run("./words", "--steps", "12", *data, "--resume", f"far{i}", code=1,
                says=f"its number of steps, {steps}, is too large for steps of 4 rows")
    other_checkpoint("mid", "long", {"steps": str(10 ** 12)})
    anew = "a mixture is not followed through 1000000000000 steps; every source begins anew"
    more = ["--steps", str(10 ** 12 + 2), "--json", "--resume"]
    got = run("./words", *more, "long", *mixed, says=anew).stdout
    # The first rows again: the place is that of a run from the beginning with the same states.
    other_checkpoint("mid", "first", {"steps": "0"})
    begun = losses("./words", "--steps", "1", *mixed, "--resume", "first")
    near("every source begins anew", [json.loads(got.splitlines()[0])["loss"]], begun)
    assert anew not in run("./words", *more, "long", *one).stderr
    # A mixture without a place is followed through a few steps.
    other_checkpoint("mid", "few", {"steps": "11"})
    same("followed", losses("./words", "--steps", "30", *mixed, "--resume", "few"),
         losses("./words", "--steps", "30", *mixed, "--resume", "mid"))
    place, most = metadata("mid")["place"], str(2 ** 63 - 1)
    for i, (key, name) in enumerate((("given 44", "given"), ("epoch 1", "epoch"), ("taken 22", "taken"))):
        assert key in place, (key, place)
        value = f"{name} {most}"
        other_checkpoint("mid", f"place{i}", {"steps": "11", "place": place.replace(key, value, 1)})
        run("./words", "--steps", "12", *mixed, "--resume", f"place{i}", says="is unknown; step 12 takes the rows")
    other_checkpoint("mid", "both", {"steps": str(10 ** 12), "place": "x" * 3000})
    run("./words", *more, "both", *mixed, says=anew)


def test_epochs():
    r = np.random.default_rng(5)
    x, y = r.standard_normal((10, 12)).astype("f4"), r.integers(0, 12, 10)
    np.save("e_x.npy", x), np.save("e_y.npy", y)
    data = ["--data", "x=@e_x.npy", "--data", "labels=@e_y.npy"]

    def of(rows, program="./still", n=None):
        np.save("r_x.npy", x[rows]), np.save("r_y.npy", y[rows])
        n = n or len(rows) // 4
        return losses(program, "--steps", str(n), "--shuffle", "none", "--data", "x=@r_x.npy", "--data", "labels=@r_y.npy")
    twice = list(range(10)) * 2
    plain = [*data, "--shuffle", "none"]
    same("wrap", losses("./still", "--epochs", "2", *plain), of(twice))
    same("wrap, more", losses("./still", "--epochs", "1", *plain), of(twice[:12]))
    same("drop", losses("./still", "--epochs", "2", "--last-batch", "drop", *plain), of((list(range(8))) * 2))
    rest = of([8, 9], "./still2", 1)
    got = losses("./still", "--epochs", "2", "--last-batch", "pad", *plain)
    near("pad", got, [*of(list(range(8))), *rest] * 2)
    said = run("./still", "--epochs", "3", "--last-batch", "pad", *data).stderr
    assert "note: 3 epochs of 10 rows: 9 steps" in said, said
    for how in "drop", "pad", "wrap":
        whole = losses("./still", "--steps", "14", "--last-batch", how, *data)
        for steps in "2", "3", "7":
            run("./still", "--steps", steps, "--last-batch", how, *data, "--checkpoint", "at")
            same(f"{how}, resumed after {steps}", losses("./still", "--steps", "14", "--last-batch", how, *data, "--resume", "at"),
                 whole[int(steps):])
    # Each row once in an epoch, also shuffled: the mean over an epoch is that of all rows.
    whole = losses("./still", "--epochs", "3", "--last-batch", "pad", *data)
    rows = np.mean([np.dot(whole[k:k + 3], [4, 4, 2]) / 10 for k in (0, 3, 6)])
    near("every row once", [rows], [np.dot(got[:3], [4, 4, 2]) / 10])
    assert whole[:3] != whole[3:6]
    run("./still", "--epochs", "0", *data, code=2, says="--epochs 0: expected a positive number")
    run("./still", "--epochs", "1", "--steps", "1", *data, code=2, says="one of them ends the run")
    run("./still", "--epochs", str(2 ** 62), *data, code=2, says="too many steps")
    run("./still", "--steps", "1", "--last-batch", "cut", *data, code=2, says="expected wrap, drop or pad")
    np.save("e_z.npy", np.zeros((10, 12), "f4"))
    run("./squares", "--steps", "1", "--last-batch", "pad", "--data", "x=@e_x.npy", "--data", "labels=@e_z.npy", code=2,
        says="has no labels that can be ignored")
    # An evaluation counts every row, with more or fewer rows than a batch; where that is impossible it is said.
    run("./logits", "--input", "x=@e_x.npy", "--output", "@logits.npy")
    logits = np.load("logits.npy").astype("f8")
    entropy = np.log(np.exp(logits).sum(1)) - logits[np.arange(10), y]
    for n in 10, 9, 3:
        np.save("n_x.npy", x[:n]), np.save("n_y.npy", y[:n])
        out = run("./still", "--steps", "1", *data, "--eval", "x=@n_x.npy", "--eval", "labels=@n_y.npy", "--json").stdout
        line = json.loads(out.splitlines()[-1])
        assert line["eval_rows"] == n and "eval_perplexity" not in line, line
        near("evaluated", [line["eval_loss"], line["eval_accuracy"]],
             [entropy[:n].mean(), (logits.argmax(1) == y)[:n].mean()], 1e-5)
        out = run("./smooth", "--steps", "1", *data, "--eval", "x=@n_x.npy", "--eval", "labels=@n_y.npy").stdout
        assert f"  {n} rows" in out
    said = run("./squares", "--steps", "1", "--data", "x=@e_x.npy", "--data", "labels=@e_z.npy", "--eval", "x=@e_x.npy",
               "--eval", "labels=@e_z.npy").stderr
    assert "note: 2 of 10 rows are not evaluated" in said, said


def test_perplexity(tokens):
    """Smoothed labels change the loss, not the perplexity."""
    data = ["--data", "tokens=@plain_x.npy", "--data", "labels=@plain_y.npy"]
    evals = ["--eval", "tokens=@plain_x.npy", "--eval", "labels=@plain_y.npy"]
    one, two = (json.loads(run(f"./{p}", "--steps", "1", *data, *evals, "--json").stdout.splitlines()[-1])
                for p in ("fixed", "fixed_smooth"))
    near("perplexity", [one["eval_perplexity"]], [np.exp(one["eval_loss"])])
    near("smoothed", [two["eval_perplexity"], two["eval_accuracy"]], [one["eval_perplexity"], one["eval_accuracy"]])
    assert abs(two["eval_loss"] - one["eval_loss"]) > 1e-4, (one, two)


def test_readers(tokens):
    want = None
    for n in "0", "1", "3", "64":
        got = losses("./words", "--steps", "12", "--readers", n, "--data", "tokens=2@mix_a", "--data", "tokens=1@mix_b")
        want = want or got
        same("readers " + n, got, want)
    run("./words", "--steps", "1", "--readers", "65", "--data", "tokens=@mix_a", code=2, says="expected 0 to 64 threads")
    # An error is that of the first row that has one, and of its step; rows that no step takes are not read.
    values = tokens.copy()
    values[[150, 170]] = 99
    values.astype("<u2").tofile("late.bin")
    for n in "0", "5":
        done = run("./words", "--steps", "9", "--readers", n, "--shuffle", "none", "--data", "tokens=@late.bin", code=1,
                   says="late.bin: token 150 is 99")
        assert len(done.stdout.splitlines()) == 6, done.stdout
        run("./words", "--steps", "6", "--readers", n, "--shuffle", "none", "--data", "tokens=@late.bin")


DOCUMENTS = """apc.ir 1
symbol b
param "w" : f32[] = normal 1 seed 1
func @main level 1 {
  %tokens = input {name="tokens"} : i64[4, 6]
  %positions = input {name="positions"} : i64[4, 6]
  %segments = input {name="segments"} : i32[4, 6]
  %causal = input {name="causal"} : bool[4, 6, 6]
  %both = input {name="both"} : f32[4, 1, 6, 6]
"""


def documents_model():
    text, sums = DOCUMENTS.replace("symbol b\n", ""), []
    for i, (name, shape, axes) in enumerate([("tokens", "4, 6", "0, 1"), ("positions", "4, 6", "0, 1"), ("segments", "4, 6", "0, 1"),
                                             ("causal", "4, 6, 6", "0, 1, 2"), ("both", "4, 1, 6, 6", "0, 1, 2, 3")]):
        value = f"%{name}"
        if name != "both":
            text += f"  %{name}.f = cast %{name} {{to=f32}} : f32[{shape}]\n"
            value += ".f"
        else:  # a mask of floats: 0 or the lowest number
            text += f"  %{name}.z = const {{value=-1}} : f32[{shape}]\n  %{name}.m = max %both, %{name}.z : f32[{shape}]\n"
            value += ".m"
        starts = "[" + ", ".join("0" for _ in shape.split(",")) + "]"
        text += f"  %{name}.r = random {{kind=\"uniform\", seed={i}, starts={starts}, extents=[{shape}]}} : f32[{shape}]\n"
        text += f"  %{name}.p = mul {value}, %{name}.r : f32[{shape}]\n"
        text += f"  %{name}.s = reduce %{name}.p {{axes=[{axes}], op=sum}} : f32[]\n"
        sums.append(f"%{name}.s")
    total = sums[0]
    for i, s in enumerate(sums[1:]):
        text += f"  %t{i} = add {total}, {s} : f32[]\n"
        total = f"%t{i}"
    text += f"  %w = param {{name=\"w\"}} : f32[]\n  %loss = mul {total}, %w : f32[]\n  output \"loss\" %loss\n}}\n"
    open("documents.ir", "w").write(text)


def document_rows(rows, starts):
    """positions, segments and both masks of windows, from which of their tokens begin a document."""
    positions, segments, causal, both = [], [], [], []
    for s in starts:
        number = np.cumsum([False, *s[1:T]])
        begin = [max(k for k in range(i + 1) if k == 0 or s[k]) for i in range(T)]
        equal = number[:, None] == number
        positions.append(np.arange(T) - begin), segments.append(number)
        causal.append(equal & np.tri(T, dtype=bool)), both.append(np.where(equal, 0, np.finfo("f4").min)[None])
    np.save("d_tokens.npy", np.array(rows)[:, :-1]), np.save("d_positions.npy", np.array(positions))
    np.save("d_segments.npy", np.array(segments)), np.save("d_causal.npy", np.array(causal))
    np.save("d_both.npy", np.array(both, "f4"))
    return [x for n in ("tokens", "positions", "segments", "causal", "both") for x in ("--data", f"{n}=@d_{n}.npy")]


def test_documents(tokens):
    made = [x for d in ("positions=positions", "segments=segments", "causal=causal_mask", "both=document_mask")
            for x in ("--documents", d)]
    cuts = [1, 2, 10, 17, 18, 60, 61, 120, 200]
    megatron("doc", tokens, cuts)
    begin = np.isin(np.arange(200), [0, *cuts[:-1]])
    by_index = losses("./documents", "--steps", "12", *document_rows(windows(tokens), windows(begin)))
    same("documents of an index", losses("./documents", "--steps", "12", "--data", "tokens=@doc", *made), by_index)
    tokens.astype("<u2").tofile("ends.bin")
    after = np.concatenate([[True], tokens[:-1] == 7])
    by_token = losses("./documents", "--steps", "12", *document_rows(windows(tokens), windows(after)))
    assert by_token != by_index
    end = ["--document-end", "7"]
    same("after a token", losses("./documents", "--steps", "12", "--data", "tokens=@ends.bin", "--bits", "16", *made, *end),
         by_token)
    same("the token wins", losses("./documents", "--steps", "12", "--data", "tokens=@doc", *made, *end), by_token)
    # Labels within documents.
    rows = np.array(windows(tokens))
    starts = np.array(windows(begin))
    np.save("l_x.npy", rows[:, :-1]), np.save("l_y.npy", np.where(starts[:, 1:], -100, rows[:, 1:]))
    want = losses("./words", "--steps", "12", "--data", "tokens=@l_x.npy", "--data", "labels=@l_y.npy")
    same("labels", losses("./words", "--steps", "12", "--data", "tokens=@doc", "--documents", "labels=next"), want)

    def wrong(says, *options, program="./documents", data="tokens=@doc"):
        run(program, "--steps", "1", "--data", data, *options, code=2, says=says)
    wrong("--document-end needs --documents NAME=KIND", *end, program="./words")
    wrong("is not known: it has no index (.idx)", *made, data="tokens=@ends.bin")
    for program, names, below in ("./words", ["--documents", "labels=next"], 24), ("./documents", made, 2 ** 31):
        for token in str(below), str(2 ** 40):
            wrong(f"--document-end {token}: every token of input 'tokens' is below {below}", *names, "--document-end",
                  token, program=program)
        run(program, "--steps", "1", "--data", "tokens=@doc", *names, "--document-end", str(below - 1))
    np.save("d_rows.npy", windows(tokens)[0][None, :-1])
    run("./documents", "--steps", "1", "--data", "tokens=1@doc", "--data", "tokens=1@d_rows.npy", *made, *end, code=2,
        says="--data tokens: d_rows.npy is no token file, so the documents (--documents) of its rows are not known")
    wrong("with one of the kinds positions, segments, causal_mask, document_mask, next", "--documents", "positions=place")
    wrong("no input of that name", "--documents", "mask=causal_mask", program="./words")
    wrong("needs an input of integers", "--documents", "causal=positions")
    wrong("needs an input [batch, T, T]", "--documents", "positions=causal_mask")
    wrong("the input has other data", "--documents", "tokens=segments")
    wrong("needs labels, some of which can be ignored", "--documents", "positions=next")
    wrong("gives no token files", *made, data="tokens=@d_tokens.npy")
    run("./words", "--steps", "1", "--data", "tokens=@doc", "--document-end", "x", code=2, says="the number of a token")


def main(apc):
    def trainer(name, model, *options, train="cross_entropy", batch="4", optimizer="adamw(lr=1e-2)", target="cpux2"):
        run(apc, "compile", *model, "-q", "--train", train, "--optimizer", optimizer, "--batch", batch, "--target", target,
            *options, "-o", name)
    tokens = np.random.default_rng(3).integers(0, V, 200)
    trainer("words", GPT, "--dp", "2")
    trainer("one", GPT, target="cpu")
    trainer("words2", GPT, batch="2", target="cpu")
    still = "sgd(lr=0)"
    trainer("still", MLP, optimizer=still)
    trainer("still2", MLP, optimizer=still, batch="2", target="cpu")
    trainer("smooth", MLP, optimizer=still, train="cross_entropy(label_smoothing=0.2)", target="cpu")
    trainer("squares", MLP, train="mse", target="cpu")
    trainer("fixed", GPT, optimizer=still, target="cpu")
    trainer("fixed_smooth", GPT, optimizer=still, train="cross_entropy(label_smoothing=0.2)", target="cpu")
    run(apc, "compile", *MLP, "-q", "--dim", "batch=10", "-o", "logits")
    documents_model()
    trainer("documents", ["documents.ir"], train="loss", optimizer=still, target="cpu")
    test_indexed(tokens)
    test_malformed(tokens)
    test_mixtures(tokens)
    test_places()
    test_epochs()
    test_perplexity(tokens)
    test_readers(tokens)
    test_documents(tokens)
    print(f"{passed} checks")


if __name__ == "__main__":
    program = os.path.abspath(sys.argv[1])
    os.environ["APC_CACHE"] = "off"
    SOURCE = os.path.abspath(SOURCE)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main(program)
