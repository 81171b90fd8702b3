#!/usr/bin/env python3
"""bench/launch.py - the time to start the ranks of a program: by itself on one machine, and one by one over TCP on the
loopback.

usage: launch.py [--rounds N] [--ranks N] APC...

Compiles examples/gpt-tiny.onnx with each APC (several builds, side by side), runs the programs alternately for N rounds
(100), and prints per APC the least and the median time from the start of the first process to the end of the last, and
the median processor time of all.  On a machine with other load, compare least times.  APC_SECRET_FILE is set for ranks
over TCP; builds without secrets ignore it.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]


def timed(commands, environment, folder):
    """Wall-clock and processor seconds of all commands, started together."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    jobs = [subprocess.Popen(c, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for c in commands]
    codes = [j.wait() for j in jobs]
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert not any(codes), codes
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("apc", nargs="+")
    arguments.add_argument("--rounds", type=int, default=100)
    arguments.add_argument("--ranks", type=int, default=4)
    a = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        secret = folder / "secret"
        secret.write_text(os.urandom(32).hex())
        secret.chmod(0o600)
        environment = os.environ | {"OMP_NUM_THREADS": "1", "APC_SECRET_FILE": str(secret)}
        programs = []
        for i, apc in enumerate(a.apc):
            programs.append(str(folder / f"program{i}"))
            subprocess.run([os.path.abspath(apc), str(SOURCE / "examples/gpt-tiny.onnx"), "--target", f"cpux{a.ranks}", "--tp", "2", "--dim-hint", "batch=4", "--dim-hint",
                            "seq=32", "-q", "-o", programs[-1]], check=True)
        inputs, port, took = str(SOURCE / "examples/gpt-tiny.inputs.npz"), 21000 + os.getpid() % 20000, {}
        for i in range(a.rounds):
            for number, program in enumerate(programs):
                work = ["--inputs", inputs, "--outputs", "out.npz"]
                took.setdefault((number, "itself"), []).append(timed([[program, *work]], environment, folder))
                port = port + 1 if port < 60000 else 21000
                rank = [program, "--world", str(a.ranks), "--rendezvous", f"127.0.0.1:{port}", "--rank"]
                took.setdefault((number, "TCP"), []).append(timed([[*rank, "0", *work]] + [[*rank, str(r)] for r in range(1, a.ranks)], environment, folder))
        print(f"{'ranks by':8} {'least ms':>9} {'median ms':>10} {'CPU ms':>8}  build   ({a.ranks} ranks, {a.rounds} rounds)")
        for way in ("itself", "TCP"):
            for number, apc in enumerate(a.apc):
                walls, cpus = zip(*took[(number, way)])
                print(f"{way:8} {1e3 * min(walls):9.1f} {1e3 * statistics.median(walls):10.1f} {1e3 * statistics.median(cpus):8.1f}  {apc}")


main()
