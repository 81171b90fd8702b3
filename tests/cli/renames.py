#!/usr/bin/env python3
"""tests/cli/renames.py APC [ROUNDS] - a program or its weight file is replaced at random moments of a run: the result
is that of the old file, or exit 1.  Or weights or inputs are truncated: the right result, exit 1, or for weights 6, and
the file is named.

200 rounds take a minute.
"""
import hashlib, os, random, shutil, subprocess, sys, tempfile, time

apc, rounds = os.path.realpath(sys.argv[1]), int(sys.argv[2]) // (4 if "APC_QUARTER" in os.environ else 1) if len(sys.argv) > 2 else 12
source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
model, inputs = source + "/examples/gpt-tiny.onnx", source + "/examples/gpt-tiny.inputs.npz"


def sh(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def put(path, kept):
    """Replaces a file as an editor or an installer does: by renaming another one."""
    shutil.copy(kept, path + ".new")
    os.rename(path + ".new", path)


def main():
    faults, codes, seed = 0, {}, int(os.environ.get("SEED", time.time_ns() % 10**6))
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        content = bytearray(open(model, "rb").read())
        open("one.onnx", "wb").write(content)
        for at in range(len(content) // 2, len(content) // 2 + 4000, 4): content[at + 3] ^= 0x80  # signs of weights
        open("two.onnx", "wb").write(content)
        shutil.copy("one.onnx", "m.onnx")
        sh(apc, "m.onnx", "-q", "--weights", "ref", "--target", "cpux2", "--tp", "2", "-o", "one")
        shutil.copy("one", "program")
        run = ["./program", "--inputs", "inputs.npz", "--outputs", "out.npz"]
        put("inputs.npz", inputs)
        digest = lambda: hashlib.sha256(open("out.npz", "rb").read()).hexdigest() if os.path.exists("out.npz") else None
        begin = time.time()
        sh(*run)
        length, right = time.time() - begin, digest()
        sh(apc, "two.onnx", "-q", "--target", "cpux2", "--tp", "2", "-o", "other")
        sh("./other", *run[1:])
        if digest() == right: sys.exit("the two files have the same results")
        for i in range(rounds):
            what = dice.choice(["program", "program", "weights", "weights", "cut weights", "cut inputs"])
            put("program", "one"), put("m.onnx", "one.onnx"), put("inputs.npz", inputs)
            if os.path.exists("out.npz"): os.remove("out.npz")
            p = subprocess.Popen(run, stderr=subprocess.PIPE)
            time.sleep(dice.choice([dice.uniform(0, .02), dice.uniform(0, length)]))
            if what == "program": put("program", "other")
            elif what == "weights": put("m.onnx", "two.onnx")
            else: os.truncate("m.onnx" if what == "cut weights" else "inputs.npz", 1000)
            said = p.communicate()[1].decode()
            codes[p.returncode] = codes.get(p.returncode, 0) + 1
            ok = p.returncode in ((1, 6) if what == "cut weights" else (1,)) if p.returncode else digest() == right
            if what.startswith("cut") and p.returncode: ok = ok and ("m.onnx" if what == "cut weights" else "inputs.npz") in said
            if not ok:
                faults += 1
                print(f"round {i}: {what} replaced: exit {p.returncode}, {'other results' if not p.returncode else said}")
        print(f"{rounds} renames, {faults} wrong; exit codes {codes} (seed {seed})")
    return faults > 0


sys.exit(main())
