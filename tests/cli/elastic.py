#!/usr/bin/env python3
"""tests/cli/elastic.py APC [TIMES [SEED]] - training goes on when ranks are lost, leave or come back (--elastic).

First for ranks that the program starts itself, then for those of a launcher, which meet again over TCP.

Ranks are killed, stopped and asked to leave after steps that the test chooses by what the program has printed, at
random moments within a step.  Every step must be there once, with the loss of an undisturbed run, and nothing may be
left of the run.  bench/elastic.py does the same for long; with TIMES, ranks of a launcher are lost so often, in random
ways, and come back, with a line about each."""
import contextlib
import ctypes
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np

APC = str(pathlib.Path(sys.argv[1]).resolve())
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from running import Reading, ranks_of  # noqa: E402

DATA = ["--data", "x=@x.npy", "--data", "labels=@y.npy"]
failed = 0


def check(what, ok):
    global failed
    failed += not ok
    if not ok:
        print("FAILED", what)


class Run(Reading):
    """A run whose ranks the program starts itself."""

    def __init__(self, *options, program="./trainer"):
        super().__init__()
        line = [program, "--json", *DATA, *options]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.follow(self.process)

    def until(self, done):
        with self.changed:
            return self.changed.wait_for(done, timeout=300)

    def ranks(self):
        return ranks_of(self.process.pid)

    def text(self):
        return "".join(self.said)

    def lose(self, after, how, rank):
        """After that many steps sends a rank a signal, and waits until the run goes on."""
        check(f"{after} steps", self.until(lambda: len(self.steps) >= after))
        changes = self.text().count(" after step ")
        time.sleep(random.random() * 0.02)
        ranks = self.ranks()
        while rank not in ranks:  # they are just being started
            time.sleep(0.005)
            ranks = self.ranks()
        os.kill(ranks[rank], how)
        check(f"it goes on after {how}", self.until(lambda: self.text().count(" after step ") > changes))

    def end(self, code=0):
        got = self.process.wait(timeout=300)
        self.join()
        check(f"exit {got}, not {code}: {self.text()}", got == code)
        return [x["loss"] for x in self.steps if "loss" in x]


def compare(what, run, first=1):
    """Ends the run, and compares its losses with those of an undisturbed run of as many steps."""
    run.process.send_signal(signal.SIGINT)
    got = run.end()
    last = run.steps[-1]["step"]
    check(f"{what}: every step once", [x["step"] for x in run.steps] == list(range(first, last + 1)))
    wanted = Run("--steps", str(last)).end()[first - 1:]
    check(f"{what}: the losses of an undisturbed run",
          len(got) == len(wanted) and all(abs(x - y) <= 1e-5 * abs(y) for x, y in zip(got, wanted)))


def nothing_left(what):
    left = []
    for exe in pathlib.Path("/proc").glob("[0-9]*/exe"):
        try:
            left += [exe.parent.name] if os.readlink(exe).startswith(os.getcwd()) else []
        except OSError:
            continue
    check(f"{what}: processes {left}", not left)
    check(f"{what}: files", not list(pathlib.Path(".").rglob("*.part")))


def compiled(name, *options):
    subprocess.run([APC, str(ROOT / "examples/mlp.apc"), "-q", "-D", "layers=2", "-D", "d=12", "--train", "mse", "--batch",
                    "12", "--optimizer", "adamw(lr=.01)", *options, "-o", name], check=True)


def beside():
    """Ranks are lost while checkpoints are written beside the steps: every checkpoint that is there is whole."""
    data = ["--eval", "x=@x.npy", "--eval", "labels=@y.npy", "--evals", "3"]
    run = Run("--steps", "100000000", "--elastic", "--checkpoint", "beside", "--every", "2", "--keep", "3,best", *data)
    for after in (20, 40, 60, 80):
        run.lose(after, signal.SIGKILL, random.randrange(2))
    run.process.send_signal(signal.SIGINT)
    run.end()
    made = [x for x in run.steps if "loss" in x]
    last = made[-1]["step"]
    check("beside: every step once", [x["step"] for x in made] == list(range(1, last + 1)))
    wanted = Run("--steps", str(last + 1)).end()
    names = sorted(os.listdir("beside"))
    check(f"beside: {names}", len(names) == 5 and {"best.safetensors", "checkpoint.safetensors"} < set(names))
    for name in names:
        one = Run("--steps", str(last + 1), "--resume", f"beside/{name}")
        losses = one.end()
        first = one.steps[0]["step"]
        check(f"beside: {name} goes on from its step", f"-{first - 1}." in name or "-" not in name)
        check(f"beside: losses after {name}",
              all(abs(x - y) <= 1e-5 * abs(y) for x, y in zip(losses, wanted[first - 1:], strict=True)))
    nothing_left("beside")


# ---- ranks of a launcher

class Launched(Reading):
    """Four ranks with torchrun's variables."""

    def __init__(self, folder):
        super().__init__()
        probe = socket.socket()
        probe.bind(("127.0.0.1", 0))
        self.port, self.folder = probe.getsockname()[1], folder
        probe.close()
        self.processes = [None] * 4
        for rank in range(4):
            self.start(rank)

    def start(self, rank):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="4",
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port), OMP_NUM_THREADS="1")
        line = ["./trainer", "--json", *DATA, "--steps", "100000000", "--elastic", "--checkpoint", self.folder,
                "--every", "20", "--ranks", "4"]
        p = self.processes[rank] = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                                    env=env)
        self.follow(p)

    def until_ranks(self, numbers, after):
        """Waits for a round of so many ranks that begins after so many lines were said, and for steps of it."""
        texts = [f", {n} ranks; they meet" for n in numbers]
        with self.changed:
            found = self.changed.wait_for(lambda: any(t in x for x in self.said[after:] for t in texts), 120)
            check(f"{numbers} ranks: {self.said[after:]}", found)
            made = len(self.steps)
            check(f"{numbers} ranks make steps", self.changed.wait_for(lambda: len(self.steps) > made + 25, 120))
            return len(self.said)


def cut_off(pid):
    """Shuts all connections of a process down, as a network that is closed does."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = libc.syscall(434, pid, 0)  # pidfd_open
    for fd in os.listdir(f"/proc/{pid}/fd"):
        mine = libc.syscall(438, process, int(fd), 0)  # pidfd_getfd
        if mine < 0:
            continue
        if os.readlink(f"/proc/self/fd/{mine}").startswith("socket:"):
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(mine)) as one:
                one.shutdown(socket.SHUT_RDWR)
        os.close(mine)
    os.close(process)


def launched():
    run = Launched("met")
    said = run.until_ranks([4], 0)
    pathlib.Path("met/elastic/1").mkdir()
    os.mkfifo("met/elastic/1/plan"), os.mkfifo("met/elastic/1/plan.part")  # no plan, and no process waits at it
    run.processes[0].kill()
    said = run.until_ranks([3], said)
    cut_off(run.processes[2].pid)  # all processes are there still: one that comes late is taken back later
    said = run.until_ranks([3], said)
    run.processes[3].send_signal(signal.SIGSTOP)
    said = run.until_ranks([2], said)
    run.processes[3].send_signal(signal.SIGCONT)
    said = run.until_ranks([3], said)
    run.processes[0].wait()
    run.start(0)
    said = run.until_ranks([4], said)
    run.processes[1].send_signal(signal.SIGTERM)
    said = run.until_ranks([3], said)
    check("the rank that left", run.processes[1].wait(timeout=60) == 0)
    run.start(1)
    run.until_ranks([4], said)
    mine = pathlib.Path("met/elastic/700")  # a folder that looks like one of a round, and files of others
    mine.mkdir()
    (mine / "plan").touch(), (mine / "mine").touch(), pathlib.Path("met/elastic/mine").touch()
    fifth, sixth = another(run), another(run, APC_RUN_ID="other")
    said = sixth.communicate(timeout=60)[1]
    check(f"a run of another name: {said}", sixth.returncode == 6 and "another run trains in met now" in said)
    end_launched(run, 2, (0, 1, 2, 3), ["mine", "700", "700/mine"])
    said = fifth.communicate(timeout=60)[1]
    check(f"another run: {said}", fifth.returncode == 6 and "another run trained in met and has ended after" in said)


def another(run, **more):
    """Starts another run in the folder; it waits for a place, as there is no plan for five."""
    env = dict(os.environ, RANK="0", WORLD_SIZE="4", LOCAL_RANK="0", LOCAL_WORLD_SIZE="4", MASTER_ADDR="127.0.0.1",
               MASTER_PORT=str(run.port), **more)
    line = ["./trainer", *DATA, "--steps", "100000000", "--elastic", "--checkpoint", run.folder]
    p = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    while p.poll() is None and not list(pathlib.Path(run.folder).glob("elastic/wait.*")):
        time.sleep(0.01)
    return p


def others_files():
    """A run removes nothing of others, and goes on without its metrics where an earlier rank 0 has the port."""
    pathlib.Path("own").mkdir(), pathlib.Path("linked").mkdir()
    for name in ("alive.0", "precious"):
        (pathlib.Path("own") / name).touch()
    os.symlink("../own", "linked/elastic")
    line = [*DATA, "--elastic", "--steps", "5", "--checkpoint"]
    p = subprocess.run(["./trainer", *line, "linked"], capture_output=True, text=True)
    check(f"no launcher: {p.stderr}", p.returncode == 0 and sorted(os.listdir("own")) == ["alive.0", "precious"])
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        port.listen()
        env = dict(os.environ, APC_ELASTIC_ROUND="1")
        metrics = ["--metrics", f"127.0.0.1:{port.getsockname()[1]}"]
        p = subprocess.run(["./one", *line, "linked", *metrics], capture_output=True, text=True, env=env)
        check(f"metrics: {p.stderr}", p.returncode == 0 and "the run goes on without" in p.stderr)
    check("through a link", sorted(os.listdir("own")) == ["alive.0", "precious"])
    ranks = [subprocess.Popen(["./one", *line, "linked", "--world", "2", "--rank", str(rank), "--rendezvous", "meet"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
    said = "".join(p.communicate(timeout=120)[1] for p in ranks)
    check(f"a link: {said}", all(p.returncode == 1 for p in ranks) and "is a symbolic link" in said)
    check("through a link", sorted(os.listdir("own")) == ["alive.0", "precious"])


def end_launched(run, first, ranks, others=()):
    """Ends the run by a signal to one rank, and compares it with an undisturbed one."""
    run.processes[first].send_signal(signal.SIGINT)
    check("the others end", [run.processes[r].wait(timeout=60) for r in ranks] == [0] * len(ranks))
    run.join()
    last = max(x["step"] for x in run.steps)
    wanted = Run("--steps", str(last)).end()
    check("every step", {x["step"] for x in run.steps} == set(range(1, last + 1)))
    check("their losses", all(abs(x["loss"] - wanted[x["step"] - 1]) <= 1e-5 * abs(x["loss"]) for x in run.steps))
    left = sorted(str(x.relative_to("met/elastic")) for x in pathlib.Path("met/elastic").rglob("*"))
    check(f"files of meetings: {left}", left == sorted(others))
    names = ["checkpoint.safetensors", *(["elastic"] if others else [])]
    check(f"files: {os.listdir('met')}", sorted(os.listdir("met")) == names)
    nothing_left("a launcher")


def lose_one(run, how, rank):
    """Loses one rank of a launcher, or two, until the others go on; then lets it come back.  The seconds of both."""
    begun, said, pair = time.monotonic(), len(run.said), [rank, (rank + 1) % 4][:1 + (how == "two")]
    for one in pair:
        p = run.processes[one]
        {"killed": p.kill, "two": p.kill, "stopped": lambda p=p: p.send_signal(signal.SIGSTOP),
         "asked": lambda p=p: p.send_signal(signal.SIGTERM), "cut off": lambda p=p: cut_off(p.pid)}[how]()
    with run.changed:
        on = run.changed.wait_for(lambda: any(" ranks; they meet" in x for x in run.said[said:]), 60)
    on_s = time.monotonic() - begun
    for one in pair:
        if how == "stopped":
            run.processes[one].send_signal(signal.SIGCONT)
        elif how != "cut off":
            run.processes[one].wait(timeout=60)
            run.start(one)
    with run.changed:
        back = run.changed.wait_for(lambda: any(" 4 ranks; they meet" in x for x in run.said[said:]), 60)
    check(f"{how}: {run.said[said:]}", on and back)
    return on_s, time.monotonic() - begun


def often(times):
    run = Launched("met")
    run.until_ranks([4], 0)
    for number in range(times):
        time.sleep(random.random() * 0.3)
        how, rank = random.choice(["killed", "stopped", "cut off", "asked", "two"]), random.randrange(4)
        on, back = lose_one(run, how, rank)
        print(f"{number}: rank {rank} {how}: the others go on after {on:.2f} s, four again after {back:.2f} s", flush=True)
    end_launched(run, 0, (0, 1, 2, 3))
    return 1 if failed else 0


def main():
    random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else os.getpid())
    r = np.random.default_rng(0)
    x = r.standard_normal((40, 12)).astype("f4")
    np.save("x.npy", x), np.save("y.npy", np.tanh(x @ r.standard_normal((12, 12)).astype("f4")))
    compiled("trainer", "--target", "cpux4", "--world", "4,3,2")
    if len(sys.argv) > 2:
        return often(int(sys.argv[2]))
    endless = ["--steps", "100000000", "--elastic"]

    # Ranks are lost, and come back ten steps later.
    run = Run(*endless)
    run.lose(20, signal.SIGKILL, 0)
    run.lose(100, signal.SIGSTOP, random.randrange(3))
    run.lose(150, signal.SIGTERM, random.randrange(3))
    run.until(lambda: run.text().count("4 ranks go on") == 3)
    compare("three losses", run)
    said = run.text()
    check("killed: " + said, "rank 0 was killed by signal 9" in said and "3 ranks go on after step" in said)
    check("stopped: " + said, " is stopped" in said and "states from memory" in said)
    check("asked: " + said, "1 rank asked to leave" in said)
    check("started again: " + said, "1 rank started again; 4 ranks go on" in said)
    check("size and cost: " + said, "3 ranks lost" in said and "two copies of all states in memory, " in said)
    nothing_left("three losses")

    # Ranks that are asked at once: each is counted as lost, and as started again.
    run = Run(*endless)
    run.until(lambda: len(run.steps) >= 20)
    for one in run.ranks().values():
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGTERM)
    run.until(lambda: run.said and " asked to leave" in run.text())
    made = len(run.steps)
    run.until(lambda: len(run.steps) > made + 30)
    run.process.send_signal(signal.SIGINT)
    run.end()
    lost, again = re.search(r"elastic: (\d+) ranks? lost, (\d+) started again", run.text()).groups()
    check("as many again: " + run.text(), lost == again != "0")

    # Before there is a copy; then with checkpoints, after one of which ranks come back; then the whole run is killed,
    # and the same command goes on from the checkpoint.
    line = [*endless, "--checkpoint", "kept", "--every", "50", "--log", "log.csv"]
    run = Run(*line)
    run.lose(0, signal.SIGKILL, 1)
    check("from the beginning: " + run.text(), "3 ranks go on after step" in run.text())
    check("back at the checkpoint", run.until(lambda: "1 rank started again; 4 ranks go on after step" in run.text()))
    back = int(run.text().split("1 rank started again; 4 ranks go on after step ")[1].split(",")[0])
    check(f"back at step {back}", back % 50 == 0)
    run.until(lambda: len(run.steps) >= 160)  # the checkpoint of step 150 began, so that of step 100 is whole
    run.process.kill()
    run.end(-signal.SIGKILL)
    again = Run(*line)
    check("it goes on from a checkpoint", again.until(lambda: again.steps))
    first = again.steps[0]["step"]
    check(f"from step {first}", first > 100 and first % 50 == 1)
    again.until(lambda: len(again.steps) >= 20)
    compare("again", again, first)
    rows = pathlib.Path("log.csv").read_text().split()[1:]
    check("the log has every step once", [int(x.split(",")[0]) for x in rows] == list(range(1, again.steps[-1]["step"] + 1)))
    nothing_left("checkpoints")

    beside()

    # Ranks that are lost again and again, with no step in between, end the run; so does one that cannot be replaced.
    compiled("one", "--target", "cpux2", "--world", "2,1")
    run = Run(*endless, program="./one")
    while run.process.poll() is None:
        for one in run.ranks().values():
            try:
                os.kill(one, signal.SIGKILL)
            except OSError:
                continue
    run.end(6)
    check("no step: " + run.text(), "no step was made since the last rank was lost; the run ends" in run.text())
    nothing_left("no step")

    launched()
    others_files()

    for code, text, options in ((2, "--profile cannot be combined with --elastic", ["--steps", "2", "--profile"]),
                                (2, "--elastic needs --steps", [])):
        p = subprocess.run(["./trainer", "--elastic", *options], capture_output=True, text=True)
        check(f"{options}: {p.stderr}", p.returncode == code and text in p.stderr)
    return 1 if failed else 0


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    sys.exit(main())
