#!/usr/bin/env python3
"""bench/elastic.py - a training run that loses ranks at random places, against an undisturbed one.

usage: python3 bench/elastic.py APC [--steps N] [--losses K] [--seed S] [--folder DIR] [--ranks 4,3,2]

Trains examples/chars.apc with --elastic on the licenses of this machine, and K times kills (SIGKILL), stops (SIGSTOP) or
asks (SIGTERM) a rank; the first is rank 0.  Prints for each loss the time until the run goes on, and at the end the
largest relative difference of a loss, the times, and whether anything is left: processes, files.

Sums over 3 ranks are rounded in another way than over 4, and training magnifies that.  So an undisturbed run with the
second number of ranks is compared, too: the run that lost ranks may differ no more than it.  With one number of ranks
(--ranks 4) all losses must be equal.  Exit code 1 otherwise.  Results: bench/results/elastic.md."""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from running import Reading, ranks_of  # noqa: E402

SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "asked": signal.SIGTERM}


class Run(Reading):
    def __init__(self, line, folder):
        super().__init__()
        self.process = subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.follow(self.process)

    def until(self, done):
        """Waits until done() or the end of the run; false at the end."""
        with self.changed:
            self.changed.wait_for(lambda: done() or self.process.poll() is not None, timeout=600)
            return done()

    def end(self):
        code = self.process.wait()
        self.join()
        return code

    def news(self):
        return sum("elastic:" in x and " after step " in x for x in self.said)


def lose(run, how, rank):
    """Loses a rank; the seconds until the run has gone on, and until its next step."""
    ranks = ranks_of(run.process.pid)
    while not ranks:
        time.sleep(0.01)
        ranks = ranks_of(run.process.pid)
    rank = rank if rank in ranks else max(ranks)
    before, begun = run.news(), time.monotonic()
    os.kill(ranks[rank], SIGNALS[how])
    if not run.until(lambda: run.news() > before):
        return rank, None, None
    on, made = time.monotonic() - begun, len(run.steps)
    run.until(lambda: len(run.steps) > made)
    return rank, on, time.monotonic() - begun


def prepare(apc, folder, ranks, steps):
    licenses = pathlib.Path("/usr/share/common-licenses")
    text = "".join(f.read_text(errors="ignore") for f in sorted(licenses.iterdir()) if not f.is_symlink())
    (folder / "text.bin").write_bytes(text.encode("ascii", "ignore").decode().encode("utf-16-le"))
    optimizer = f"adamw(lr=3e-3,weight_decay=0.1,clip=1,schedule=cosine,warmup=50,steps={steps},min_lr=1e-4)"
    subprocess.run([apc, str(ROOT / "examples/chars.apc"), "-q", "--train", "cross_entropy", "--batch", "12", "--dim",
                    "seq=64", "--target", "cpux4", "--world", ranks, "--optimizer", optimizer, "-o", "trainer"],
                   cwd=folder, check=True)


def apart(a, b):
    return max(abs(x - y) / abs(x) for x, y in zip(a, b))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("apc")
    a.add_argument("--steps", type=int, default=1000)
    a.add_argument("--losses", type=int, default=20)
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--ranks", default="4,3,2")
    a.add_argument("--folder")
    a = a.parse_args()
    folder = pathlib.Path(a.folder or tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    prepare(str(pathlib.Path(a.apc).resolve()), folder, a.ranks, a.steps)
    line = ["./trainer", "--json", "--steps", str(a.steps), "--data", "tokens=@text.bin"]
    begun = time.monotonic()
    whole = Run(line, folder)
    assert whole.end() == 0, whole.said
    whole_s = time.monotonic() - begun
    other = None
    if "," in a.ranks:
        other = Run(line + ["--ranks", a.ranks.split(",")[1]], folder)
        assert other.end() == 0, other.said
    r = random.Random(a.seed)
    places = sorted(r.sample(range(5, a.steps - 5), a.losses))
    begun, slowest = time.monotonic(), {}
    run = Run(line + ["--elastic"], folder)
    for number, place in enumerate(places):
        if not run.until(lambda place=place: len(run.steps) >= place):
            break
        how = "killed" if number == 0 else r.choice(list(SIGNALS))
        time.sleep(r.random() * 0.05)
        rank, on, step = lose(run, how, 0 if number == 0 else r.randrange(4))
        print(f"after step {place}: rank {rank} {how}; goes on after {on or 0:.2f} s, next step after {step or 0:.2f} s")
        slowest[how] = max(slowest.get(how, 0), on or 0)
    code = run.end()
    run_s = time.monotonic() - begun
    losses = [[x["loss"] for x in y.steps] for y in (whole, run)]
    in_order = [x["step"] for x in run.steps] == list(range(1, a.steps + 1))
    worst, rounding = apart(*losses), 0
    if other:
        rounding = apart(losses[0], [x["loss"] for x in other.steps])
        print("largest relative difference so far, of the run and of undisturbed ones with two numbers of ranks: "
              + ", ".join(f"{n} steps: {apart(losses[0][:n], losses[1][:n]):.1e}, "
                          f"{apart(losses[0][:n], [x['loss'] for x in other.steps[:n]]):.1e}"
                          for n in (50, 100, 200, 500, a.steps)))
    left = [p.parent.name for p in pathlib.Path("/proc").glob("[0-9]*/exe")
            if os.access(p.parent / "maps", os.R_OK) and (folder / "trainer").samefile(p)]
    files = sorted(f.name for f in folder.iterdir() if f.name not in ("trainer", "text.bin"))
    print("".join(run.said[-1:]), end="")
    print(f"exit {code}; every step once: {in_order}; largest relative difference of a loss {worst:.2e}; "
          f"last loss {losses[1][-1]:.6f} and {losses[0][-1]:.6f}")
    print(f"{run_s:.1f} s, undisturbed {whole_s:.1f} s; slowest: "
          + ", ".join(f"{k} {v:.2f} s" for k, v in slowest.items()) + f"; left: {left + files}")
    return 0 if code == 0 and in_order and worst <= 3 * rounding and not files + left else 1


if __name__ == "__main__":
    sys.exit(main())
