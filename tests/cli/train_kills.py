"""tests/cli/train_kills.py APC [TIMES [SEED]] - a rank of a training run is killed at a random moment, repeatedly.

The run ends with exit code 6 within seconds, no process is left, and the folder of checkpoints holds one whole
checkpoint.  From there 4 ranks continue to the bits of an undisturbed run, and 3 ranks to its weights except for
rounding.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from stored import read_all  # noqa: E402

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/mlp.apc")
DATA = ["--data", "x=@x.npy", "--data", "labels=@y.npy"]
FURTHER = 5     # steps after the checkpoint
IN_TIME = 5.0   # seconds from the kill to the end: the watchdog has 2, the machine may be busy


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        found += [int(c) for c in open(f"/proc/{pid}/task/{task}/children").read().split()]
    return found


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (command, done.returncode, done.stderr)


def killed_run(rng):
    """Starts a run of 4 ranks, kills one; returns the steps of the remaining checkpoint."""
    with open("steps", "w") as out:
        trainer = subprocess.Popen(["./train4", "--steps", "100000000", *DATA, "--checkpoint", "kept", "--every",
                                    str(rng.choice([1, 1, 2, 7]))], stdout=out, stderr=subprocess.PIPE)
    enough, deadline = rng.randint(9, 60), time.time() + 60
    while open("steps").read().count("\n") < enough or not os.path.exists("kept/checkpoint.safetensors"):
        assert time.time() < deadline and trainer.poll() is None, "it does not train"
        time.sleep(0.002)
    time.sleep(rng.random() * 0.02)
    ranks = children(trainer.pid)
    assert len(ranks) == 4, ranks
    os.kill(rng.choice(ranks), signal.SIGKILL)
    begin = time.time()
    said = trainer.communicate(timeout=60)[1].decode()
    took = time.time() - begin
    assert trainer.returncode == 6, (trainer.returncode, said)
    assert took < IN_TIME, f"{took:.1f} s until the end"
    assert "rank" in said, said
    assert not any(os.path.exists(f"/proc/{r}") for r in ranks), "a rank is left"
    assert os.listdir("kept") == ["checkpoint.safetensors"], os.listdir("kept")
    return int(read_all("kept/checkpoint.safetensors")[0]["steps"]), took


def main(apc, times, seed):
    rng = random.Random(seed)
    print(f"seed {seed}, {times} times", flush=True)
    r = np.random.default_rng(0)
    x = r.standard_normal((40, 12)).astype("f4")
    np.save("x.npy", x)
    np.save("y.npy", np.tanh(x @ r.standard_normal((12, 12)).astype("f4")))
    for ranks, cut in (3, []), (4, ["--dp", "2", "--tp", "2"]):
        run(apc, "compile", MODEL, "-D", "layers=2", "-D", "d=12", "-q", "--train", "mse", "--optimizer",
            "adamw(lr=.01)", "--batch", "8", "--target", f"cpux{ranks}", *cut, "-o", f"train{ranks}")
    slowest = 0
    for i in range(times):
        if os.path.exists("kept/checkpoint.safetensors"):
            os.remove("kept/checkpoint.safetensors")
        made, took = killed_run(rng)
        slowest = max(slowest, took)
        steps = str(made + FURTHER)
        run("./train4", "--steps", steps, *DATA, "--save", "straight.safetensors")
        for ranks in 4, 3:
            run(f"./train{ranks}", "--steps", steps, *DATA, "--resume", "kept", "--save", f"on{ranks}.safetensors")
        assert open("straight.safetensors", "rb").read() == open("on4.safetensors", "rb").read(), f"after step {made}"
        want, got = read_all("straight.safetensors")[1], read_all("on3.safetensors")[1]
        for name in want:
            apart = np.linalg.norm(want[name] - got[name]) / np.linalg.norm(want[name])
            assert apart < 1e-3, (name, apart)
    print(f"ended at most {slowest:.2f} s after the kill")


if __name__ == "__main__":
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main(program, int(sys.argv[2]) if len(sys.argv) > 2 else 20,
             int(sys.argv[3]) if len(sys.argv) > 3 else int.from_bytes(os.urandom(4), "little"))
