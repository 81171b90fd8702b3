#!/usr/bin/env python3
"""Decoding for many: slots of examples/llama.apc against single runs, examples/generate.c and examples/serve.py.

    slots.py BUILD

Also caches that a model takes and returns (--kv-cache), against numpy.

A model with random weights continues prompts of unequal lengths one at a time, by the entries with one position for
all; then in slots, with other plans, by the C example and by the server: always the same tokens.
"""
import http.client
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading

build = os.path.abspath(sys.argv[1])
root = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
os.environ.update(APC_HOME=build, APC_CACHE="off", PYTHONPATH=f"{root}/python", PYTHONDONTWRITEBYTECODE="1")
sys.dont_write_bytecode = True
sys.path.insert(0, f"{root}/python")

import numpy as np

import apc

SIZES = dict(layers=2, d=32, heads=4, kv_heads=2, ffn=32, vocab=61, ctx=24)
PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6, 5], [35], [8, 9, 7, 9], [32, 3], [8, 4, 6, 2, 6, 43, 3]]
NEW = 6
failed = 0


def check(what, holds, why=""):
    global failed
    if not holds:
        failed += 1
        print(f"FAILED {what}\n{why}", flush=True)


def compiled(path, slots, **options):
    """A program; slots 0: one sequence, by the entries prefill and decode."""
    defines = {"cache": 1, **({"slots": 1} if slots else {}), **SIZES}
    return apc.compile(f"{root}/examples/llama.apc", defines=defines, dims={"batch": max(slots, 1)}, out=path, **options)


def alone(work):
    """Greedy tokens of each prompt from single runs."""
    made = []
    with compiled(f"{work}/one", 0) as m:
        for p in PROMPTS:
            logits, tokens = m(tokens=np.array([p]), at=0, entry="prefill"), []
            for i in range(NEW):
                tokens.append(int(logits[0, -1].argmax()))
                logits = m(tokens=np.array([tokens[-1:]]), at=len(p) + i, entry="decode")
            made.append(tokens)
    return made


def in_slots(m, prompts):
    """The same at once: the prompts of slots 0 and 1 first, then pieces of the others between steps."""
    n = len(prompts)
    lengths, later = np.array([len(p) for p in prompts]), list(range(2, n))
    tokens = np.zeros((n, lengths.max()), np.int64)
    count = np.where(np.arange(n) < 2, lengths, 0)
    for row in range(2):
        tokens[row, :lengths[row]] = prompts[row]
    logits = m(tokens=tokens, at=np.zeros(n, np.int64), count=count, entry="extend")
    at, last, made = count.copy(), logits[:, -1].argmax(-1), [[] for _ in range(n)]
    while min(map(len, made)) < NEW:
        if later:
            row = later[0]
            piece = prompts[row][at[row]:][:3]
            logits = m(tokens=np.array([piece]), slot=row, at=at[row], entry="admit")
            at[row] += len(piece)
            if at[row] == lengths[row]:
                last[later.pop(0)] = logits[0, -1].argmax()
        count = np.array([row not in later and len(made[row]) < NEW for row in range(n)], np.int64)
        for row in np.flatnonzero(count):
            made[row].append(int(last[row]))
        logits = m(tokens=last[:, None], at=at, count=count, entry="step")
        at, last = at + count, np.where(count, logits[:, -1].argmax(-1), last)
    return made


def plans(wanted, work):
    for target, options in (("cpu", {}), ("cpux4", {"dp": 2, "cp": 2}), ("cpux4", {"tp": 2, "pp": 2})):
        with compiled(f"{work}/split", 4, target=target, **options) as m:
            check(f"slots with {options}", in_slots(m, PROMPTS[:4]) == wanted[:4])


def states(wanted, work):
    """Slot 0 reads a beginning, which is copied to slot 2, kept in a file, and taken back to a part of it."""
    p = PROMPTS[0]
    with apc.load(f"{work}/three") as m:
        at = next(t for t in m.entries["step"].inputs if t.name == "at")
        check("the capacity is known", at.index_below == SIZES["ctx"] + 1, at)
        m(tokens=np.array([p[:5]]), slot=0, at=0, entry="admit")
        for s in m.states:
            s[2] = s[0]
        m.states.save(f"{work}/begin.safetensors")
        logits = m(tokens=np.array([p[5:]]), slot=2, at=5, entry="admit")
        check("a copied beginning", logits[0, -1].argmax() == wanted[0][0])
        m.states.load(f"{work}/begin.safetensors")
        m(tokens=np.array([[7, 7, 7]]), slot=0, at=5, entry="admit")  # taken back: written over
        logits = m(tokens=np.array([p[5:]]), slot=0, at=5, entry="admit")
        check("a truncated sequence", logits[0, -1].argmax() == wanted[0][0])
        for s in m.states:
            s[:] = 0
        m(tokens=np.ones((3, 1), np.int64), at=np.zeros(3, np.int64), count=np.array([-1, 1, -2**63]), entry="step")
        written = [[bool(s[row].any()) for row in range(3)] for s in m.states]
        check("a negative count is none", written == [[False, True, False]] * len(written), written)
        try:
            m(tokens=np.ones((3, 1), np.int64), at=np.array([0, SIZES["ctx"], 0]), count=np.ones(3, np.int64), entry="step")
            check("a full slot is refused", False)
        except apc.Error as e:
            check("a full slot is refused", "24" in str(e), e)


ODD = """entry step(tokens: i64[], at: i64[]) { output y = gather(fill(f32[4, 5], 0.0), tokens + gather(iota(3), at)) }
entry admit(slot: i64[]) { output z = slot + 1 }
"""


def generate(work, program, *args):
    r = subprocess.run([f"{work}/generate", f"{work}/{program}", *args], capture_output=True, text=True)
    return r.returncode, r.stdout, r.stderr


def by_prompt(out, n):
    """The answers of generate.c: tokens, and the reason of the end."""
    found = [[] for _ in range(n)]
    for line in out.splitlines():
        number, *rest = line.split()
        found[int(number)].append(rest[-1] if rest[0] == "end" else int(rest[0]))
    return found


def examples_in_c(wanted, work):
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{root}/runtime", f"{root}/examples/generate.c",
                    f"{build}/libapcrt.so", f"-Wl,-rpath,{build}", "-lm", "-o", f"{work}/generate"], check=True)
    with open(f"{work}/odd.apc", "w") as f:
        f.write(ODD)
    apc.compile(f"{work}/odd.apc", out=f"{work}/odd").close()
    texts = [" ".join(map(str, p)) for p in PROMPTS]
    code, out, err = generate(work, "three", "--max", str(NEW), "--piece", "2", *texts)
    check("greedy", code == 0 and by_prompt(out, 5) == [t + ["length"] for t in wanted], out + err)
    lines = out.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("1 "))
    check("the second answer begins before the first one ends", begin < lines.index("0 end length"), out)
    code, out, err = generate(work, "three", "--max", str(NEW), "--temperature", "2", "--top-k", "1", texts[0])
    check("top-k 1 is greedy", by_prompt(out, 1)[0][:-1] == wanted[0], out + err)
    random = ["--max", str(NEW), "--temperature", "1.5", "--top-k", "20", "--top-p", "0.9"]
    _, together, _ = generate(work, "three", *random, "--seed", "7", *texts)
    singles = [by_prompt(generate(work, "three", *random, "--seed", str(7 + i), t)[1], 1)[0] for i, t in enumerate(texts)]
    check("drawn tokens are those of single runs", by_prompt(together, 5) == singles, together)
    check("other seeds give others", generate(work, "three", *random, "--seed", "8", *texts)[1] != together)
    stop = wanted[0][2]
    _, out, _ = generate(work, "three", "--stop", str(stop), texts[0])
    check("a stop id", by_prompt(out, 1)[0] == wanted[0][:wanted[0].index(stop)] + ["stop"], out)
    _, out, _ = generate(work, "three", "--max", "99", texts[0])
    check("a full cache", len(by_prompt(out, 1)[0]) == SIZES["ctx"] - len(PROMPTS[0]) + 2 and "end full" in out, out)
    for code, text, args in ((1, "the token 61, of 61", ["three", "61"]), (1, "the cache 24", ["three", "1 " * 25]),
                             (1, "has no entries step and admit", ["one", "1"]),
                             (1, "has no entries step and admit", ["odd", "1"]), (2, "not x", ["three", "x"]),
                             (2, "--top-k", ["three", "--top-k", "0", "1"]), (2, "no such option", ["three", "--no", "1"])):
        r = generate(work, *args)
        check(f"{args} is refused", r[0] == code and text in r[2], r)


def hostile(port):
    """Bad HTTP: an answer of that status, after which the server closes the connection."""
    deep = b"[" * 200000
    post = "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
    for status, head, body in (
            (400, f"{post}Content-Length: {len(deep)}\r\n", deep), (400, f"{post}Content-Length: -1\r\n", b""),
            (413, f"{post}Content-Length: 99999999999\r\n", b""), (413, f"{post}Content-Length: {'9' * 5000}\r\n", b""),
            (400, f"{post}Content-Length: 2\r\nContent-Length: 2\r\n", b"{}"), (411, post, b""),
            (411, f"{post}Transfer-Encoding: chunked\r\n", b"2\r\n{}\r\n0\r\n\r\n"),
            (404, "POST /x HTTP/1.1\r\nContent-Length: 30\r\n", b"GET /health HTTP/1.1\r\nX: abc\r\n\r\n"),
            (200, "GET /health HTTP/1.1\r\nContent-Length: 30\r\n", b"GET /health HTTP/1.1\r\nX: abc\r\n\r\n")):
        with socket.create_connection(("127.0.0.1", port), timeout=120) as c:
            c.sendall(head.encode() + b"\r\n" + body)
            answer = b""
            try:
                while piece := c.recv(65536):
                    answer += piece
            except ConnectionResetError:
                pass  # the server has closed the connection without reading the body
            fine = answer.startswith(b"HTTP/1.1 %d " % status) and answer.count(b"HTTP/1.1") == 1
            check(f"{head[:100]} gives {status}", fine, answer)
    for _ in range(3):  # gone before the answer
        with socket.create_connection(("127.0.0.1", port), timeout=120) as c:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            c.sendall(b"GET /health HTTP/1.1\r\n\r\n" * 50)


def served(wanted, work):
    server = subprocess.Popen([sys.executable, f"{root}/examples/serve.py", f"{work}/three", "--port", "0"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline().split()[0].rsplit(":", 1)[1])

        def call(method, path, body=None):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            c.request(method, path, json.dumps(body) if body is not None else None)
            return c, c.getresponse()

        def complete(**body):
            c, r = call("POST", "/v1/completions", body)
            return r.status, json.loads(r.read())

        made = [None] * len(PROMPTS)

        def one(i):
            made[i] = complete(prompt=PROMPTS[i], max_tokens=NEW)[1]["choices"][0]["tokens"]

        clients = [threading.Thread(target=one, args=(i,)) for i in range(len(PROMPTS))]
        for t in clients:
            t.start()
        for t in clients:
            t.join()
        check("more clients than slots", made == wanted, made)
        c, r = call("POST", "/v1/completions", dict(prompt=PROMPTS[1], max_tokens=NEW, stream=True))
        events = [line[6:] for line in r.read().decode().split("\n\n") if line]
        tokens = [t for e in events[:-1] for t in json.loads(e)["choices"][0]["tokens"]]
        check("a stream", tokens == wanted[1] and events[-1] == "[DONE]", events)
        drawn = [complete(prompt=PROMPTS[2], max_tokens=NEW, temperature=1.5, top_p=0.9, seed=s) for s in (1, 1, 2)]
        drawn = [d[1]["choices"][0]["tokens"] for d in drawn]
        check("seeds", drawn[0] == drawn[1] != drawn[2], drawn)
        for body in (dict(prompt="text"), dict(prompt=[61]), dict(prompt=[]), dict(prompt=[1], top_p=2), [1]):
            c, r = call("POST", "/v1/completions", body)
            check(f"{body} is refused", r.status == 400 and "error" in json.loads(r.read()))
        hostile(port)
        check("no such completion", call("DELETE", "/v1/completions/cmpl-0")[1].status == 404)
        c, r = call("GET", "/health")
        check("no slot is left in use", json.loads(r.read()) == {"slots": 3, "used": 0})
    finally:
        server.terminate()
        check("no traceback of the server", "Traceback" not in server.communicate()[1])


def cancelled(work):
    """An engine whose steps wait for the test: a request is ended while it runs, another goes on."""
    sys.path.insert(0, f"{root}/examples")
    import serve
    with apc.load(f"{work}/three") as m:
        engine = serve.Engine(m)
        long, other = (serve.Request(dict(prompt=p, max_tokens=12), engine) for p in PROMPTS[:2])
        engine.submit(long)
        engine.submit(other)
        for _ in range(3):
            engine.fill(), engine.admit(), engine.step()
        check("it is found", engine.cancel(long.id) and not engine.cancel("cmpl-none"))
        while not other.answer.queue or not isinstance(other.answer.queue[-1], str):
            engine.fill(), engine.admit(), engine.step()
        ends = [list(r.answer.queue) for r in (long, other)]
        check("a cancelled request", 0 < len(ends[0]) < 8 and ends[0][-1] == "cancelled", ends)
        check("the other one", len(ends[1]) == 13 and ends[1][-1] == "length", ends)
        check("its slot is free", engine.slots == [None] * 3)


def not_finite(wanted, work):
    """The keys and values of one sequence become NaN: it ends, another goes on, the next one in its slot has none."""
    import serve

    def run(engine, *requests):
        while not all(r.answer.queue and isinstance(r.answer.queue[-1], str) for r in requests):
            engine.fill(), engine.admit(), engine.step()

    with apc.load(f"{work}/three") as m:
        engine = serve.Engine(m)
        first, later = (serve.Request(dict(prompt=PROMPTS[i], max_tokens=NEW), engine) for i in (2, 1))
        other = serve.Request(dict(prompt=PROMPTS[0], max_tokens=15), engine)
        engine.submit(first)
        engine.submit(other)
        engine.fill(), engine.admit(), engine.admit(), engine.step()
        for s in m.states:
            s[0] = np.nan
        run(engine, first)
        check("it ends", list(first.answer.queue)[-1] == "not finite", first.answer.queue)
        engine.submit(later)
        run(engine, later)
        check("the next one", list(later.answer.queue) == wanted[1] + ["length"], later.answer.queue)
        check("beside a longer one", other in engine.slots, other.answer.queue)
        run(engine, other)
        ids = list(other.answer.queue)
        check("another goes on", ids[:NEW] == wanted[0] and ids[15:] == ["length"], ids)
        check("temperature", serve.Request(dict(prompt=[1], temperature=1), engine).choose(np.array([np.nan, 1])) is None)


def refused(work):
    """Micro-batches do not fit slots; verify says which sizes its own inputs had."""
    args = [word for name, v in {**SIZES, "cache": 1, "slots": 1}.items() for word in ("-D", f"{name}={v}")]
    for code, text, *command in (
            (3, "APC0405", "plan", "--target", "cpux4", "--pp", "2", "--micro-batches", "2", "--dim", "batch=4"),
            (1, "seq 128; --dim-hint", "verify", "--dim", "batch=2")):
        r = subprocess.run([f"{build}/apc", command[0], f"{root}/examples/llama.apc", *args, *command[1:]],
                           capture_output=True, text=True)
        check(f"{command} is refused", r.returncode == code and text in r.stderr, r)


TAKES = """apc.ir 1
symbol seq hint 4
symbol past hint 8
func @main level 1 {
  %x = input {name="x"} : f32[1, 2, seq, 16]
  %pk = input {name="pk"} : f32[1, 2, past, 16]
  %pv = input {name="pv"} : f32[1, 2, past, 16]
  MASK
  %double = add %x, %x : f32[1, 2, seq, 16]
  %k = concat %pk, %double {axis=2} : f32[1, 2, past + seq, 16]
  %v = concat %pv, %x {axis=2} : f32[1, 2, past + seq, 16]
  %q = reshape %x : f32[1, 2, 1, seq, 16]
  %first = size {expr=past} : i64[seq]
  %count = iota {axis=0, start=0} : i64[seq]
  %at = add %count, %first : i64[seq]
  %keys = iota {axis=0, start=0} : i64[past + seq]
  %length = size {expr=past + seq} : i64[]
  %y = attention %q, %k, %v, %at, %keys, %length BIAS : f32[1, 2, 1, seq, 16]
  %before = reduce %pv {op=sum, axes=[2]} : f32[1, 2, 16]
  output "y" %y
  output "before" %before
  output "k" %k
  output "v" %v
}
"""
MASK = '%mask = input {name="mask"} : f32[past + seq]'


def attended(x, mask, at):
    """The model's result for the positions of x from `at` on."""
    scores = np.einsum("bgsk,bgtk->bgst", x[:, :, at:], 2 * x) * 0.25 + mask
    later = np.arange(x.shape[2])[None, :] > np.arange(at, x.shape[2])[:, None]
    scores = np.exp(np.where(later, -np.inf, scores))
    return np.einsum("bgst,bgte->bgse", scores / scores.sum(-1, keepdims=True), x)[:, :, None]


def run_caches(m, masked):
    """Compares three requests, of 5, 1 and 3 positions."""
    random, at = np.random.default_rng(3), 0
    x = random.standard_normal((1, 2, 9, 16)).astype(np.float32)
    for n in (5, 1, 3):
        mask = random.standard_normal(at + n).astype(np.float32) * masked
        made = m(x=x[:, :, at:at + n], **(dict(mask=mask) if masked else dict(past=at)))
        wanted = attended(x[:, :, :at + n], mask, at)
        check(f"kept caches, mask {masked}", np.allclose(made["y"], wanted, atol=1e-5), (at, made["y"] - wanted))
        check("what was there before", np.allclose(made["before"], x[:, :, :at].sum(2), atol=1e-5))
        at += n


def kept_caches(work):
    """Caches that a model takes and returns stay in the program: as IR text, as an exported graph, over ranks."""
    for masked in (False, True):
        text = TAKES.replace("MASK", MASK if masked else "").replace(
            "BIAS", ", %mask {scale=0.25, causal=1, bias=\"t\"}" if masked else "{scale=0.25, causal=1}")
        path = f"{work}/takes{masked:d}.ir"
        with open(path, "w") as f:
            f.write(text)
        if not masked:
            subprocess.run([f"{build}/apc", "convert", path, f"{work}/takes.onnx", "-q"], check=True)
            path = f"{work}/takes.onnx"
        with apc.compile(path, target="cpux2", tp=2, kv_cache=9) as m:
            names = [t.name for t in m.entries["main"].inputs]
            check("inputs", names == (["x", "mask"] if masked else ["past", "x"]), names)
            run_caches(m, masked)
            try:
                more = dict(mask=np.zeros(10, np.float32)) if masked else dict(past=9)
                m(x=np.zeros((1, 2, 1, 16), np.float32), **more)
                check("a full cache is refused", False)
            except apc.Error as e:
                check("a full cache is refused", ("out of range" if masked else "past would be 9, but is from 0 to 8") in str(e), e)
    r = subprocess.run([f"{build}/apc", f"{work}/takes.onnx", "--kv-cache", "9", f"--emit=onnx={work}/no.onnx"],
                       capture_output=True, text=True)
    check("--emit=onnx is refused", r.returncode == 1 and "APC0605" in r.stderr, r)
    for text in ("dimension 0 of the cache 'pk'", "no output is"):
        changed = TAKES.replace("MASK", "").replace("BIAS", "{scale=0.25, causal=1}")
        changed = (changed.replace("[1, 2,", "[batch, 2,").replace("symbol seq", "symbol batch\nsymbol seq")
                   if "dimension" in text else changed.replace('output "k" %k\n  output "v" %v', ""))
        with open(f"{work}/bad.ir", "w") as f:
            f.write(changed)
        r = subprocess.run([f"{build}/apc", "plan", f"{work}/bad.ir", "--kv-cache", "9"], capture_output=True, text=True)
        check(f"{text} is refused", r.returncode == 1 and text in r.stderr and "APC0605" in r.stderr, r)


def on_gpus(work):
    args = [word for name, v in {**SIZES, "cache": 1, "slots": 1}.items() for word in ("-D", f"{name}={v}")]
    r = subprocess.run([f"{build}/apc", "plan", f"{root}/examples/llama.apc", *args, "--dim", "batch=2", "--target",
                        "dgx-h100x1", f"--emit=cuda={work}/gpu.cu"], capture_output=True, text=True)
    check("kernels for GPUs", r.returncode == 0, r.stderr)
    with open(f"{work}/gpu.cu") as f:
        text = f.read()
    check("of rows", all(word in text for word in ("update_rows_4((", "b.query_position += own", "*position = a.p1 +")))


with tempfile.TemporaryDirectory() as folder:
    tokens = alone(folder)
    compiled(f"{folder}/three", 3).close()
    plans(tokens, folder)
    states(tokens, folder)
    examples_in_c(tokens, folder)
    served(tokens, folder)
    cancelled(folder)
    not_finite(tokens, folder)
    refused(folder)
    kept_caches(folder)
    on_gpus(folder)
print(f"{failed} failures")
sys.exit(failed > 0)
