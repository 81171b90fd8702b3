#!/usr/bin/python3
"""tests/faults/faults.py - makes one allocation, mapping or write fail, in every command and in the programs it
compiles.

Counts the calls of a command (faults.c), then runs it again once per call and makes that call fail, the first, the
second and so on.  Each run must
  - end by itself, with 0 and its usual output and files, or with the exit code of a run-time failure and a message that
    names the lacking resource (a file that cannot be written has its own code);
  - leave nothing: no file except its own outputs, those whole or absent, no process, no shared memory.

usage: faults.py BUILD LIBRARY MOST [SCENARIO...]   MOST: failing calls per kind and scenario, spread evenly; 0: all
If APC_QUARTER says so, a quarter of them (test.sh).
"""

import dataclasses
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

UNWRITTEN, MISSING, FAILED, LATE = 1, 5, 6, 7  # exit codes
SAYS = {
    "memory": ("memory", "allocate", "cannot get", "temporarily unavailable"),
    "map": ("memory", "allocate", "Too many open files in system"),
    "write": ("No space left", "Input/output error"),
}
UNWRITABLE = ("cannot write the file", "cannot be written")
SECONDS = 60  # more than any run takes
# Starts two ranks as a launcher does, and prints their exit codes.
LAUNCHED = """
"$0" --rank 1 --world 2 --rendezvous ./meeting --timeout 2s & other=$!
"$0" --rank 0 --world 2 --rendezvous ./meeting --timeout 2s --input random --outputs out.npz; codes=$?
wait $other; codes="$codes $?"
echo "codes $codes" >&2
case " $codes " in *" 1 "*) exit 1 ;; *" 6 "*) exit 6 ;; *" 7 "*) exit 7 ;; " 0 0 ") exit 0 ;; esac
exit 99
"""


@dataclasses.dataclass
class Scenario:
    name: str
    program: str  # whose calls count: the name of its file
    command: list
    outputs: list = dataclasses.field(default_factory=list)
    codes: tuple = (FAILED,)
    rank: str = ""  # only this rank's calls count


@dataclasses.dataclass
class Result:
    code: object
    out: bytes
    err: str
    files: dict  # what it wrote, by name
    temporary: list  # what it left in $TMPDIR
    calls: int
    failed: tuple  # the function that failed, the file and the place that called it; None


def rows(path):
    """Eight rows of 16 floats."""
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8, 16), }"
    head += b" " * (117 - len(head)) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<128f", *range(128)))


def scenarios(apc, root):
    """Makes their inputs; everything is small, the calls are the same."""
    examples = pathlib.Path(__file__).parents[2] / "examples"
    onnx = str(examples / "gpt-tiny.onnx")
    model = [str(examples / "mlp.apc"), "-D", "layers=2", "-D", "d=16", "--target", "cpux2"]
    images = [str(examples / "resnet.apc"), "-D", "depth=18", "-D", "width=4", "-D", "image=32", "-D", "classes=4"]
    names = "tensor", "stages", "referring", "convolving", "trainer"
    program, stages, referring, convolving, trainer = (str(root / name) for name in names)

    def make(*words):
        subprocess.run([apc, *words], cwd=root, check=True, capture_output=True)

    make(*model, "--tp", "2", "-o", program)
    make(*model, "--pp", "2", "--save-plan", str(root / "plan"), "-o", stages)
    make(onnx, "--target", "cpux2", "--weights", "ref", "-o", referring)
    make(*model, "--dp", "2", "--zero", "1", "--train", "mse", "--batch", "4", "-o", trainer)
    rows(root / "x.npy"), rows(root / "y.npy")
    train = [trainer, "--steps", "2", "--data", f"x=@{root}/x.npy", "--data", f"labels=@{root}/y.npy"]
    save = [*train, "--checkpoint", ".", "--save", "weights.safetensors"]
    saved = ["checkpoint.safetensors", "weights.safetensors"]
    make(*images, "--target", "cpux2", "--dp", "2", "-o", convolving)
    inputs = ["--inputs", str(examples / "gpt-tiny.inputs.npz")]
    archive = ["--outputs", "out.npz"]
    return [
        Scenario("compile", "apc", [apc, *model, "-o", "out"], ["out"]),
        Scenario("import", "apc", [apc, onnx, "--target", "cpux2", "--emit=spmd=out.ir,schedule=out"], ["out", "out.ir"]),
        Scenario("plan", "apc", [apc, "plan", *model, "--plan", str(root / "plan"), "--json"]),
        Scenario("verify", "apc", [apc, "verify", *model]),
        Scenario("run", "tensor", [program, "--input", "random", *archive], ["out.npz"]),
        Scenario("stages", "stages", [stages, "--input", "random", "--output", "y=@y.npy"], ["y.npy"]),
        Scenario("weights", "referring", [referring, *inputs, *archive], ["out.npz"]),
        Scenario("images", "convolving", [convolving, "--input", "random", *archive], ["out.npz"]),
        Scenario("describe", "tensor", [program, "--describe=json"]),
        Scenario("checkpoint", "trainer", save, saved),
        Scenario("checkpoint of rank 1", "trainer", save, saved, (FAILED,), "1"),
        Scenario("launched", "tensor", ["bash", "-c", LAUNCHED, program], ["out.npz"], (FAILED, LATE)),
    ]


class Runs:
    def __init__(self, library, root):
        self.library, self.root = library, root
        self.report = root / "report"
        self.failures = 0

    def once(self, s, kind, n):
        """Runs a scenario with call n failing; 0 for none."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.root))
        temporary = folder / "tmp"
        temporary.mkdir()
        self.report.write_bytes(bytes(4096))
        environment = dict(
            os.environ,
            LD_PRELOAD=self.library,
            APC_FAULT=f"{kind}:{n}:{s.program}:{self.report}",
            TMPDIR=str(temporary),
            OMP_NUM_THREADS="1",
        )
        if s.rank:
            environment["APC_FAULT_RANK"] = s.rank
        process = subprocess.Popen(
            s.command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            out, err = process.communicate(timeout=SECONDS)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            code = "no end"
        for _ in range(100):  # another process removes it (base/temporary.h)
            left = sorted(f.name for f in temporary.iterdir())
            if not left:
                break
            time.sleep(0.05)
        files = {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file() and f.name != "meeting"}
        shutil.rmtree(folder)
        raw = self.report.read_bytes()
        calls, place = struct.unpack_from("QQ", raw)
        function, file = (raw[a:b].split(b"\0")[0].decode() for a, b in ((16, 40), (40, 248)))
        failed = (function, s.command[-1] if s.name == "launched" else s.command[0], place)
        if file not in ("", "program"):
            failed = (function, file, place)
        return Result(code, out, err.decode(errors="replace"), files, left, calls, failed if place else None)

    def wrong(self, s, kind, r, clean):
        """Returns the first violation of the rules above; None if there is none."""
        left = sorted(set(r.files) - set(s.outputs)) + r.temporary
        if left:
            return f"leaves {left}"
        if r.code == 0:
            same = r.files == clean.files and (r.out == clean.out or clean.out is None)
            return None if same else "ends with 0 and other outputs"
        if kind == "write" and r.code == UNWRITTEN and any(words in r.err for words in UNWRITABLE):
            return None
        if kind == "memory" and r.code == MISSING and "cc failed" in r.err and "allocate" in r.err:
            return None  # the C compiler, or our process before it becomes the compiler
        if r.code not in s.codes:
            return f"ends with {r.code}"
        if any(clean.files.get(name) != data for name, data in r.files.items()):
            return f"ends with {r.code} and leaves a part of an output"
        return None if r.code == LATE or any(word in r.err for word in SAYS[kind]) else "does not say why"

    def complain(self, s, kind, n, r, what):
        function, file, place = r.failed
        at = subprocess.run(["addr2line", "-fpie", file, hex(place)], capture_output=True, text=True).stdout
        print(f"FAILED {s.name}: {kind} call {n}, {function} at {' '.join(at.split(chr(10))[:2])}: {what}")
        for line in r.err.splitlines()[-4:]:
            print(f"    {line}")
        self.failures += 1

    def kind(self, s, kind, most):
        clean, again = self.once(s, kind, 0), self.once(s, kind, 0)
        if clean.code != 0:
            sys.exit(f"{s.name} ends with {clean.code} when nothing fails:\n{clean.err}")
        if clean.out != again.out:
            clean.out = None  # it contains times
        total = clean.calls
        few = not most or total <= most
        some = range(1, total + 1) if few else sorted({1 + i * total // most for i in range(most)})
        if "APC_QUARTER" in os.environ:
            some = list(some)[int(os.environ["APC_QUARTER"])::4]
        hit = 0
        for n in some:
            r = self.once(s, kind, n)
            what = self.wrong(s, kind, r, clean) if r.failed else None
            hit += r.failed is not None
            if what:
                self.complain(s, kind, n, r, what)
        print(f"{s.name}: {kind}: {hit} of {total} calls failed", flush=True)


def main():
    build, library, most, *names = sys.argv[1:]
    shared = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        runs = Runs(str(pathlib.Path(library).resolve()), root)
        for s in scenarios(str(pathlib.Path(build).resolve() / "apc"), root):
            for kind in SAYS if not names or s.name in names else ():
                runs.kind(s, kind, int(most))
    left = {name for name in set(os.listdir("/dev/shm")) - shared if "apc" in name}
    if left:
        sys.exit(f"shared memory is left: {sorted(left)}")
    sys.exit(1 if runs.failures else 0)


main()
