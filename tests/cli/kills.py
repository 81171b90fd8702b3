#!/usr/bin/env python3
"""tests/cli/kills.py APC [ROUNDS] - apc compile, run and verify, killed at random moments: no file and no process is left.

Every signal that ends a process, SIGKILL a third of the time, to apc alone or to its whole process group.  200 rounds take some minutes.
"""
import os, random, resource, signal, subprocess, sys, tempfile, time

apc, rounds = os.path.realpath(sys.argv[1]), int(sys.argv[2]) // (4 if "APC_QUARTER" in os.environ else 1) if len(sys.argv) > 2 else 8
source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
model = [source + "/examples/mlp.apc", "-q", "-D", "layers=2", "-D", "d=16", "-D", "hidden=32"]
commands = {"compile": ["compile", *model, "-o", "prog", "--target", "cpux2"], "run": ["run", *model, "--target", "cpux2"],
            "verify": ["verify", *model, "--target", "cpux2"]}
SIGNALS = [getattr(signal, "SIG" + n) for n in "HUP INT QUIT ILL TRAP ABRT BUS FPE SEGV PIPE ALRM TERM USR1 USR2 STKFLT XCPU XFSZ VTALRM PROF IO PWR SYS".split()
           if hasattr(signal, "SIG" + n)]
PATIENCE = 60  # seconds: compilers get 10 to end
# A sanitizer's own crash handler waits for its own locks, forever if the signal came while one was held.
UNHANDLED = ":".join(f"handle_{s}=0" for s in ("abort", "segv", "sigbus", "sigfpe", "sigill"))


def started(token):
    """The processes that have the token in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if token in f.read(): found.append(int(pid))
        except OSError: pass
    return found


def left(folder, token):
    files = os.listdir(folder + "/tmp") + [f for f in os.listdir(folder + "/work") if f != "prog"]
    return files, [p for p in started(token) if p != os.getpid()]


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    faults, seed = 0, int(os.environ.get("SEED", time.time_ns() % 10**6))
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/tmp"), os.mkdir(folder + "/work")
        token = f"APC_TEST_KILLS={os.getpid()}.{seed}"
        sanitizers = {o: f"{os.environ.get(o, '')}:{UNHANDLED}" for o in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}
        env = dict(os.environ, TMPDIR=folder + "/tmp", **sanitizers, **dict([token.split("=")]))
        start = lambda c: subprocess.Popen([apc, *commands[c]], cwd=folder + "/work", env=env, start_new_session=True,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        length = {}
        for c in commands:
            begin = time.time()
            if start(c).wait() != 0: sys.exit(f"{c} fails by itself")
            length[c] = time.time() - begin
        for i in range(rounds):
            c, number, group = dice.choice(list(commands)), signal.SIGKILL if dice.random() < 1 / 3 else dice.choice(SIGNALS), dice.random() < .3
            moment = dice.uniform(0, 1.05 * length[c])
            p = start(c)
            time.sleep(moment)
            try: (os.killpg if group else os.kill)(p.pid, number)
            except ProcessLookupError: pass
            try: p.wait(PATIENCE)
            except subprocess.TimeoutExpired: pass  # it is among the processes that are left
            end = time.time() + PATIENCE
            while any(left(folder, token.encode())) and time.time() < end: time.sleep(.02)
            files, processes = left(folder, token.encode())
            if files or processes:
                faults += 1
                names = [open(f"/proc/{x}/cmdline").read().replace("\0", " ") for x in processes if os.path.exists(f"/proc/{x}")]
                print(f"round {i}: {c}, signal {number.name}{' to the group' if group else ''} after {moment:.3f} s: files {files}, processes {names}")
                for x in processes: os.kill(x, signal.SIGKILL)
                p.wait()
        print(f"{rounds} kills, {faults} with something left (seed {seed})")
    return faults > 0


sys.exit(main())
