#!/usr/bin/env python3
"""tests/launch/knocks.py - hard knocks: programs whose ranks or launcher are killed, stopped or continued at random
moments.

usage: knocks.py APC [N] [--seed S] [--engine local|tcp|mpi]... [--round I] [--verbose]

Each of the N rounds (12) starts a program, hits one of its processes, and checks what docs/guide/launch.md promises:

  - every other process exits with 6 if a rank died, with 7 if one is late; a harmless hit (a stop that is continued in
    time, a hit after the work is done) leaves code 0 and complete outputs;
  - the message names the rank and, while the ranks compute, the schedule step (if rank 0 is gone the others do not know
    its step);
  - all processes end in time: a death is noticed within 2 s, a late rank after --timeout.  SLACK is added for a loaded
    machine;
  - no process is left, nothing in TMPDIR, /dev/shm or the working folder; the output file is complete or absent.

Engines: `local` ranks are children of the program, `tcp` ranks are started here one by one, `mpi` ranks by mpirun.
Under MPI the launcher gets time to end all ranks after a death, so the code is mpirun's (128 + signal) and the message
has no step; inside MPI_Init and MPI_Finalize no rank knows which one is missing.

All random choices come from the seed and the number of the round: --seed S --round I repeats one.  At the end it prints
a table: how often each hit occurred, and the longest time from the hit to the end of the last process.  Not done: hits
on several machines (tests/launch/netns.sh).
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SLACK = 10.0        # seconds added to every promised limit, as the machine may be busy
NOTICE = 2.0        # seconds within which a death is noticed
PATIENCE = 90.0     # longer is a hang
ALONE = 20.0        # mpirun without ranks takes no longer
LONG = 8.0          # seconds that a program computes if it is hit and goes on, in at most 5000 runs
MEDIAN = {}         # milliseconds of a run, by program
SOURCE = pathlib.Path(__file__).resolve().parents[2]
INPUTS = SOURCE / "examples" / "gpt-tiny.inputs.npz"

PROGRAMS = {  # name: ranks, options of the plan
    "tp2": (2, ["--tp", "2"]),
    "dp2": (2, ["--dp", "2"]),
    "pp3": (3, ["--pp", "3", "--micro-batches", "2"]),
    "mixed4": (4, ["--tp", "2", "--dp", "2"]),
    "pipe4": (4, ["--pp", "2", "--dp", "2", "--micro-batches", "2"]),
}
SIGNALS = ["KILL", "KILL", "SEGV", "TERM", "STOP", "STOP", "PAUSE"]  # PAUSE: a stop that is continued in time
MOMENTS = ["start", "load", "run", "run", "end"]
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_mpi_yield_when_idle": "1"}
LAUNCHERS = re.compile("^(APC_|OMPI_|PMI|SLURM_|(RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)$)")


# ---- processes

def processes(program):
    """Ids of the living processes that run the program."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/exe") == program:
                found.append(int(entry))
        except OSError:
            pass
    return found


def words_of(pid, file):
    try:
        return pathlib.Path(f"/proc/{pid}/{file}").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def rank_of(pid):
    """The rank of a process, from its command line or environment; None for a host, or not yet."""
    words = words_of(pid, "cmdline")
    if "--rank" in words:
        return int(words[words.index("--rank") + 1])
    for word in words_of(pid, "environ"):
        if word.startswith("OMPI_COMM_WORLD_RANK="):
            return int(word.split("=")[1])
    return None


def computes(pid):
    """True if the process has loaded its kernels, which is the last step before the first run."""
    try:
        return "memfd:apc-kernels" in pathlib.Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False


def wait_until(condition, seconds, nap=0.002):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(nap)


# ---- one round

class Round:
    def __init__(self, number, seed, engines, folder):
        pick = random.Random(f"{seed}.{number}")
        self.number, self.folder = number, folder
        self.engine = pick.choice(engines)
        self.name = pick.choice(list(PROGRAMS))
        self.ranks = PROGRAMS[self.name][0]
        self.signal = pick.choice(SIGNALS)
        self.moment = pick.choice(MOMENTS)
        has_parent = self.engine != "tcp"
        self.victim = "parent" if has_parent and pick.random() < 0.2 else pick.randrange(self.ranks)
        if self.victim == "parent" and self.signal == "STOP":
            self.signal = "PAUSE"  # a user who stops the program (Ctrl-Z) may leave it so for hours
        self.delay = {"start": pick.random() ** 3 * 0.03, "load": pick.random() * 0.3, "run": 0.3 + pick.random() * 1.5,
                      "end": pick.random() * 0.8}[self.moment]
        self.pause = 0.1 + 0.9 * pick.random()
        self.timeout = {"STOP": 3.0, "PAUSE": 20.0}.get(self.signal, 6.0)
        self.endless = self.moment in ("start", "load", "run") and self.signal != "PAUSE"
        self.port = 20000 + (os.getpid() * 131 + number) % 30000
        self.meeting = pick.choice(["port", "file"])
        self.program = str(folder / self.name)
        self.wrong, self.jobs, self.took = [], {}, 0.0
        self.launcher_fails = False  # mpirun hangs or crashes after its ranks have ended, as Open MPI 4.1 does

    def __str__(self):
        who = "the parent" if self.victim == "parent" else f"rank {self.victim}"
        return (f"round {self.number}: {self.engine} {self.name}, {self.signal} of {who}, moment {self.moment} + {self.delay:.3f} s")

    def fail(self, what):
        self.wrong.append(what)

    # -- starting

    def place(self, name):
        return self.folder / "work" / name

    def command(self, rank):
        """The command line of a rank, or of the only process that is started."""
        long = max(100, min(5000, int(LONG * 1e3 / MEDIAN[self.name])))  # sanitizers make a run a hundred times slower
        runs = 1000000 if self.endless else min(400, long) if self.moment != "run" else min(1000, long) if self.engine == "mpi" else long
        line = [self.program, f"--timeout={self.timeout}s"]
        if rank in (None, 0):
            line += ["--inputs", str(INPUTS), f"--bench={runs}", "--outputs", str(self.place("out.npz"))]
        if self.engine == "tcp":
            meet = f"127.0.0.1:{self.port}" if self.meeting == "port" else str(self.place("meeting"))
            line += ["--rank", str(rank), "--world", str(self.ranks), "--rendezvous", meet]
        if self.engine == "mpi":
            line = ["mpirun", "-np", str(self.ranks), "--oversubscribe"] + line
        return line

    def start(self):
        environment = {k: v for k, v in os.environ.items() if not LAUNCHERS.match(k)}
        environment |= {"TMPDIR": str(self.folder / "tmp"), "OMP_NUM_THREADS": "1"}
        if self.engine == "mpi":
            environment |= MPI | {"OMPI_MCA_btl_vader_backing_directory": str(self.folder / "shm")}
        members = range(self.ranks) if self.engine == "tcp" else ["parent"]
        order = list(members)
        random.Random(self.number).shuffle(order)
        for member in order:
            rank = member if self.engine == "tcp" else None
            errors = open(self.place(f"{member}.err"), "wb")
            output = open(self.place(f"{member}.out"), "wb")
            self.jobs[member] = subprocess.Popen(self.command(rank), stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment,
                                                 cwd=self.place("."), start_new_session=True)
            errors.close(), output.close()

    # -- hitting

    def find_victim(self):
        if self.victim in self.jobs:
            return self.jobs[self.victim].pid
        for pid in processes(self.program):
            if rank_of(pid) == self.victim:
                return pid
        return None

    def send(self, pid, name):
        try:
            os.kill(pid, getattr(signal, "SIG" + name))
            return True
        except ProcessLookupError:
            return False

    def hit(self):
        """Sends the signal; False if the work was done before."""
        if self.moment == "end":
            time.sleep(self.delay)
            pid = self.find_victim()
        else:
            pid = wait_until(self.find_victim, 30)
            if self.moment == "run":
                wait_until(lambda: len([p for p in processes(self.program) if computes(p)]) >= self.ranks, 60, 0.01)
            time.sleep(self.delay)
        self.hit_at = time.monotonic()
        if not pid or not self.send(pid, "STOP" if self.signal == "PAUSE" else self.signal):
            return False
        if self.signal == "PAUSE":
            time.sleep(self.pause)
            self.send(pid, "CONT")
        self.victim_pid = pid
        return True

    # -- checking

    def wait_all(self):
        """Exit codes of all processes; a stopped victim of tcp is continued after the others have ended."""
        codes, gone = {}, {}
        others = [m for m in self.jobs if not (self.engine == "tcp" and self.signal == "STOP" and m == self.victim)]

        def ended():
            for m in others:
                if m not in codes and self.jobs[m].poll() is not None:
                    codes[m], gone[m] = self.jobs[m].returncode, time.monotonic()
            return len(codes) == len(others)

        def over():
            return ended() or (self.engine == "mpi" and time.monotonic() > self.hit_at + ALONE and not processes(self.program))

        wait_until(over, PATIENCE, 0.005)
        if not ended():
            self.launcher_fails = self.engine == "mpi" and not processes(self.program)
        crashed = codes.get("parent", 0) < 0 and not (self.victim == "parent" and self.signal in ("KILL", "SEGV", "TERM"))
        if self.engine == "mpi" and crashed:
            self.launcher_fails = True
        if len(codes) < len(others) and not self.launcher_fails:
            self.fail(f"hangs: {[m for m in others if m not in codes]}")
        self.took = max(gone.values(), default=time.monotonic()) - self.hit_at
        for m in set(self.jobs) - set(others):  # continued, it must find out by itself
            self.send(self.jobs[m].pid, "CONT")
            try:
                codes[m] = self.jobs[m].wait(SLACK + self.timeout + NOTICE)
            except subprocess.TimeoutExpired:
                self.fail("the late rank does not end when it goes on")
        return codes

    def expected(self, codes, hit):
        """The allowed codes: (of the parent or the surviving ranks, of the victim)."""
        number = getattr(signal, "SIG" + self.signal) if self.signal != "PAUSE" else 0
        died, finished = self.signal in ("KILL", "SEGV", "TERM"), not self.endless
        if not hit or self.signal == "PAUSE":
            return {0}, {0}
        if self.victim == "parent":
            done = {0} if finished else set()
            return {-number} | done | ({143, 1} if self.engine == "mpi" and self.signal == "TERM" else set()), set()
        early = self.moment in ("start", "load", "end")
        survivors = {6} if died else {7}
        if self.engine == "mpi" and died:
            survivors = {128 + number} | ({6} if early else set())  # 6: another rank noticed first
        if self.engine == "tcp" and died and early:
            survivors |= {7}  # it never joined
        if finished:
            survivors |= {0}
        return survivors, {-number} | ({0} if finished else set()) if died else {6, 7} | ({0} if finished else set())

    def check_codes(self, codes, hit):
        survivors, victim = self.expected(codes, hit)
        for member, code in codes.items():
            allowed = victim if self.engine == "tcp" and member == self.victim else survivors
            if code not in allowed:
                self.fail(f"{member}: exit code {code}, not one of {sorted(allowed)}")
        alive = {c for m, c in codes.items() if m != self.victim}
        if self.engine == "tcp" and len(alive) > 1 and self.moment == "run":
            self.fail(f"different exit codes: {codes}")

    def check_messages(self, codes, hit):
        if not hit or self.victim == "parent" or self.signal == "PAUSE":
            return
        for member, code in codes.items():
            text = self.place(f"{member}.err").read_text(errors="replace")
            if code == 0 or member == self.victim:
                continue
            before_or_after = "MPI_Init" in text or "MPI_Finalize" in text or "Primary job  terminated normally" in text
            if self.engine == "mpi" and self.moment != "run" and before_or_after:
                continue  # no rank knows which one is missing
            if not re.search(rf"\brank {self.victim}\b", text):
                self.fail(f"{member}: the message does not name rank {self.victim}: {text.strip()}")
            if self.moment == "run" and not (self.engine == "mpi" and code > 128) and self.victim != 0 and " step " not in text:
                self.fail(f"{member}: the message names no step: {text.strip()}")

    def check_time(self):
        limit = SLACK + (NOTICE if self.moment == "run" and self.signal in ("KILL", "SEGV", "TERM") else NOTICE + self.timeout)
        if self.endless and self.took > limit:  # the others may go on with their work
            self.fail(f"took {self.took:.1f} s, at most {limit:.1f} s")

    def check_left(self, codes, own=True):
        """`own`: the launcher was able to remove its own files."""
        left = wait_until(lambda: not processes(self.program), 5.0 if self.victim == "parent" else 2.0, 0.02)
        if not left:
            self.fail("processes are left: " + ", ".join(f"{p} (rank {rank_of(p)})" for p in processes(self.program)))
            for pid in processes(self.program):
                self.send(pid, "KILL")
        lawful = {f"{m}.{kind}" for m in self.jobs for kind in ("err", "out")} | {"out.npz"}
        files = {p.name for p in self.place(".").iterdir()} - lawful
        if self.engine == "tcp" and self.meeting == "file" and self.victim == 0 and self.signal in ("KILL", "SEGV", "TERM"):
            files -= {"meeting"}  # a killed process removes no file; the next run replaces it
        if files:
            self.fail(f"files are left: {sorted(files)}")
        for folder in ("tmp", "shm"):
            names = sorted(p.name for p in (self.folder / folder).iterdir())
            if names and own and not (self.engine == "mpi" and self.victim == "parent" and self.signal in ("KILL", "SEGV")):  # its own files
                self.fail(f"files are left in {folder}: {names}")
        shared = [n for n in os.listdir("/dev/shm") if "apc" in n]
        if shared:
            self.fail(f"files are left in /dev/shm: {shared}")

    def check_output(self, codes):
        out = self.place("out.npz")
        first = codes.get(0, codes.get("parent"))
        if out.exists() and out.read_bytes() != (self.folder / f"{self.name}.npz").read_bytes():
            self.fail("the output file is there and wrong")
        if first == 0 and not out.exists():
            self.fail("exit code 0 without an output file")

    def run(self):
        for name in ("work", "tmp", "shm"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()
        self.start()
        try:
            hit = self.hit()
            codes = self.wait_all()
            if self.launcher_fails:
                self.check_left(codes, own=False)
                return self.finish(hit, codes)
            self.check_codes(codes, hit)
            self.check_messages(codes, hit)
            self.check_time()
            self.check_left(codes)
            self.check_output(codes)
        finally:
            for job in self.jobs.values():
                if job.poll() is None:
                    job.kill()
                    job.wait()
        return self.finish(hit, codes)

    def finish(self, hit, codes):
        self.harmless = not self.launcher_fails and (not hit or all(c == 0 for c in codes.values()))
        self.codes = codes
        if self.wrong:
            self.wrong += [f"{m} says: {self.place(f'{m}.err').read_text(errors='replace').strip()[:400]}" for m in self.jobs]
        return not self.wrong


# ---- all rounds

def compile_all(apc, folder, names):
    """The programs, the right outputs of undisturbed ranks, and the duration of a run."""
    for name in names:
        ranks, options = PROGRAMS[name]
        subprocess.run([apc, SOURCE / "examples" / "gpt-tiny.onnx", "--target", f"cpux{ranks}", *options, "--dim-hint", "batch=4",
                        "--dim-hint", "seq=32", "-o", folder / name, "-q"], check=True)
        environment = {k: v for k, v in os.environ.items() if not LAUNCHERS.match(k)} | {"OMP_NUM_THREADS": "1"}
        text = subprocess.run([folder / name, "--inputs", INPUTS, "--outputs", folder / f"{name}.npz", "--bench=5"], check=True,
                              env=environment, stdout=subprocess.PIPE, text=True).stdout
        MEDIAN[name] = float(re.search(r"median ([0-9.]+) ms", text)[1])


def table(rows):
    print("| engine | signal | victim | moment | rounds | harmless | longest, s |\n| --- | --- | --- | --- | --- | --- | --- |")
    for key in sorted(rows):
        ended = [r for r in rows[key] if not r.launcher_fails]
        longest = max((r.took for r in ended), default=0.0)
        print("| " + " | ".join(key) + f" | {len(rows[key])} | {sum(r.harmless for r in ended)} | {longest:.2f} |")


def main():
    parser = argparse.ArgumentParser(usage="knocks.py APC [N] [--seed S] [--engine E]... [--round I] [--verbose]")
    parser.add_argument("apc")
    parser.add_argument("rounds", nargs="?", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1 + int(os.environ.get("APC_QUARTER", 0)))
    parser.add_argument("--engine", action="append", choices=["local", "tcp", "mpi"])
    parser.add_argument("--round", type=int)
    parser.add_argument("--verbose", action="store_true")
    o = parser.parse_args()
    engines = o.engine or ["local", "tcp"] + (["mpi"] if shutil.which("mpirun") else [])
    print(f"knocks: seed {o.seed}, {o.rounds} rounds, engines {' '.join(engines)}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="knocks-"))
    failed, hung, rows = 0, 0, collections.defaultdict(list)
    try:
        compile_all(os.path.abspath(o.apc), folder, PROGRAMS)
        for i in [o.round] if o.round is not None else range(o.rounds):
            r = Round(i, o.seed, engines, folder)
            ok = r.run()
            failed += not ok
            if o.verbose or not ok:
                print(f"{'ok' if ok else 'FAILED'} {r}: codes {r.codes}, {r.took:.2f} s", *r.wrong, sep="\n  ", flush=True)
            rows[(r.engine, r.signal, "parent" if r.victim == "parent" else "rank", r.moment)].append(r)
            hung += r.launcher_fails
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    table(rows)
    print(f"{sum(map(len, rows.values()))} rounds, {failed} failed" + (f"; mpirun itself hung or crashed {hung} times, after its ranks had ended" if hung else ""))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
