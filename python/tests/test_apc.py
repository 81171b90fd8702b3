"""Tests of the package apc with the programs of a build folder (APC_HOME).  No torch: a module stands in for it."""
import ctypes
import gc
import json
import os
import re
import subprocess
import sys
import threading
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import apc  # noqa: E402
import build_wheel  # noqa: E402

SMALL = {"target": "cpux2", "defines": {"d": 16, "hidden": 32, "layers": 2}}
CACHED = {"cache": 1, "layers": 1, "d": 16, "heads": 2, "ffn": 16, "vocab": 32, "ctx": 16}  # of llama.apc
MLP = ROOT / "examples/mlp.apc"


@pytest.fixture(scope="module")
def mlp():
    with apc.compile(MLP, **SMALL) as m:
        yield m


def numbers(rows=8):
    return np.random.default_rng(3).standard_normal((rows, 16), dtype=np.float32)


def test_onnx_model_gives_pytorchs_numbers():
    given = np.load(ROOT / "examples/gpt-tiny.inputs.npz")
    expected = np.load(ROOT / "examples/gpt-tiny.outputs.npz")
    with apc.compile(ROOT / "examples/gpt-tiny.onnx", "cpux2") as m:
        y = m(**given)
        assert m.ranks == 2 and m.plan.ranks == 2
        np.testing.assert_allclose(y, expected[m.outputs[0].name], rtol=2e-4, atol=2e-5)


def test_operators_of_the_user(tmp_path):
    library = tmp_path / "operators.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT}/program", str(ROOT / "examples/operators.c"), "-o",
                    str(library), "-lm"], check=True)
    apc_file = ROOT / "examples/operators.apc"
    m = apc.compile(apc_file, target="cpux2", op_library=library, dims={"batch": 4})
    assert m(np.ones((4, 256), np.float32)).shape == (4,)
    with pytest.raises(apc.UsageError, match="the rules are in the text"):
        apc.compile(apc_file, op=["my.Softcap: x.. -> x.."], op_library=[library])


def test_layouts_and_outputs(mlp):
    x = numbers()
    y = mlp(x)
    assert y.shape == (8, 16) and y.dtype == np.float32 and np.abs(y).sum() > 0
    out = np.zeros_like(y)
    assert mlp(x=x, out=out) is out and np.array_equal(out, y)
    assert np.array_equal(mlp(np.asfortranarray(x)), y)  # another layout is copied
    assert np.array_equal(mlp(x[::-1]), mlp(x[::-1].copy()))
    assert np.array_equal(mlp(x.tolist()), y)
    assert mlp(numbers(3)).shape == (3, 16)
    with pytest.raises(apc.BadInput, match="type f32"):
        mlp(x.astype(np.float64))
    for wrong in (np.zeros((8, 15), np.float32), np.zeros((8, 32), np.float32)[:, ::2], np.zeros((8, 16))):
        with pytest.raises(apc.BadInput):
            mlp(x, out=wrong)
    with pytest.raises(apc.UsageError, match="no input 'z'"):
        mlp(z=x)
    with pytest.raises(apc.BadInput, match="missing"):
        mlp()
    assert np.array_equal(mlp(x), y)


def test_out_is_written_by_the_call(mlp):
    x = numbers()
    out = np.full((8, 16), 7, np.float32)
    with pytest.raises(apc.BadInput):
        mlp(x, out=out[:4])  # too small: nothing runs
    assert (out == 7).all()
    y = mlp(x, out=out).copy()
    mlp(2 * x)
    assert np.array_equal(out, y)  # the binding has ended with its call


def test_states(tmp_path):
    with apc.compile(ROOT / "examples/llama.apc", "cpux2", defines=CACHED, dims={"batch": 1, "seq": 4}, tp=2) as m:
        def decode(at):
            return m(tokens=[[at * 7 % 32]], at=at, entry="decode")

        assert len(m.states) == 2 and m.states[0].dims == (1, 2, 16, 8) and m.states[0].dtype == "f32"
        with pytest.raises(apc.UsageError, match="initial"):
            m.states.save(tmp_path / "x")
        first = [decode(at) for at in range(2)]
        m.states.save(tmp_path / "x")
        next_ = decode(2)
        m.states.reset()
        assert np.array_equal(decode(0), first[0]) and not np.array_equal(decode(2), next_)
        m.states.load(tmp_path / "x")
        assert np.array_equal(decode(2), next_)
        with pytest.raises(apc.BadInput):
            m.states.load(tmp_path / "absent")


def test_states_as_arrays():
    def decode(m, at, token=None):
        return m(tokens=[[at * 7 % 32 if token is None else token]] * 2, at=at, entry="decode")

    given = {"defines": CACHED, "dims": {"batch": 2, "seq": 4}}
    with apc.compile(ROOT / "examples/llama.apc", "cpux2", tp=2, **given) as m, \
            apc.compile(ROOT / "examples/llama.apc", "cpux2", pp=2, micro_batches=2, **given) as other:
        name = m.states[0].name
        assert name in m.states and "x" not in m.states and m.states[name].dims == (2, 2, 16, 8)
        for initial in (lambda: m.states[name].shape, m.states.copy, lambda: m.states[name][0]):
            with pytest.raises(apc.UsageError, match="initial"):
                initial()
        for at in range(3):
            decode(m, at)
        prompt = m.states.copy()
        assert prompt.nbytes == 2 * 2 * 2 * 16 * 8 * 4
        keys = m.states[name]
        whole = np.asarray(keys)
        assert whole.shape == keys.shape == (2, 2, 16, 8) and len(keys) == 2
        assert np.abs(whole[:, :, :3]).min() > 0 and not whole[:, :, 3:].any()
        for key in (0, -1, (slice(None), 1), (1, 0, slice(1, 3)), (Ellipsis, 5), (0, Ellipsis, slice(2, 7)),
                    (slice(None), 0, slice(4, 0, -2)), (0, 1, 2, 3), slice(2, 2)):
            assert np.array_equal(keys[key], whole[key]), key
        wanted = [decode(m, at) for at in (3, 4)]
        for model in (m, other, m):  # another split takes the same copy
            model.states.restore(prompt)
            assert np.array_equal(np.asarray(model.states[name]), whole)
            for at, y in zip((3, 4), wanted):
                np.testing.assert_allclose(decode(model, at), y, rtol=1e-5, atol=1e-6)
        m.states.restore(prompt)
        decode(m, 3, token=9)
        for s in m.states:  # truncated to three positions
            s[:, :, 3:] = 0
        assert np.array_equal(decode(m, 3), wanted[0])
        for s in other.states:
            s[1] = s[0] * np.float32(2)
            s[:, :, ::5] = 7.0
            assert np.array_equal(np.asarray(s)[1, :, 1], 2 * np.asarray(s)[0, :, 1])
            assert (s[:, :, 5] == 7).all() and (s[:, :, 1] != 7).all()
        for wrong in (lambda: keys[2], lambda: keys[0, 0, 0, 0, 0], lambda: keys[Ellipsis, 0, Ellipsis]):
            with pytest.raises(IndexError):
                wrong()
        with pytest.raises(apc.BadInput, match="broadcast"):
            keys[0] = np.zeros((3, 3), np.float32)
        with pytest.raises(apc.BadInput, match="type f32"):
            keys[0] = np.zeros((2, 16, 8))
        with pytest.raises(apc.UsageError, match="no state 'x'"):
            m.states["x"]
        m.states.reset()
        m.states.restore(prompt)  # after a reset
        assert np.array_equal(decode(m, 3), wanted[0])
    with apc.compile(ROOT / "examples/llama.apc", "cpu", **{**given, "defines": {**CACHED, "ctx": 24}}) as m:
        with pytest.raises(apc.BadInput, match="the copy: dimension 2 of state .* is 16, but the program has 24"):
            m.states.restore(prompt)
        decode(m, 0)


class Dlpack:
    """A tensor of another library: DLPack only."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **_):
        return self.array.__dlpack__()


def test_dlpack(mlp):
    x = numbers()
    y = mlp(x)
    assert np.array_equal(mlp(Dlpack(x)), y)
    wide = np.zeros((8, 40), np.float32)
    wide[:, 38:6:-2] = x  # strides that are neither positive nor contiguous
    assert np.array_equal(mlp(Dlpack(wide[:, 38:6:-2])), y)
    assert np.array_equal(mlp(Dlpack(np.asfortranarray(x))), y)
    out = np.zeros_like(y)
    mlp(x, out=Dlpack(out))
    assert np.array_equal(out, y)
    with pytest.raises(apc.BadInput, match="input 'x': the program runs on CPUs .* copy the tensor to the host"):
        mlp(Dlpack(x, device=2))
    with pytest.raises(apc.BadInput, match="managed memory"):
        mlp(Dlpack(x, device=13))
    count = sys.getrefcount(x)
    for _ in range(10):
        mlp(Dlpack(x))
    assert sys.getrefcount(x) == count  # every capsule has released the array


def take(capsule):
    """Takes the tensor of a capsule, as consumers do; returns a function that ends it, without Python's lock."""
    from apc import _tensors
    tensor = _tensors.capsule_pointer(capsule, b"dltensor")
    used = ctypes.create_string_buffer(b"used_dltensor")
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), used)
    at = tensor + ctypes.sizeof(_tensors.DLTensor) + ctypes.sizeof(ctypes.c_void_p)
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.c_void_p.from_address(at).value)
    del capsule
    assert used
    return lambda: deleter(tensor)


def on_device(work, gpu):
    """Run by the next test in a process that finds the doubles of CUDA: tensors on a device, with other libraries."""
    class Tensor:
        """A tensor of another library, by DLPack alone; `streams` lists what consumers asked for."""

        def __init__(self, array):
            self.array, self.streams = array, []

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, stream=None):
            self.streams.append(stream)
            return self.array.__dlpack__(stream=stream)

    from apc import _tensors
    with apc.compile(MLP, **{**SMALL, "target": gpu}, save_temps=work) as m:
        m._lib.apc_device_write.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]

        def put(array, device):
            made = apc.DeviceArray(m, device, 0, array.shape, array.nbytes)
            assert m._lib.apc_device_write(made._memory, 0, np.ascontiguousarray(array).ctypes.data, array.nbytes) == 0
            return made

        x = numbers()
        y = m(x)
        for device in (0, 1, 1, 1):
            given = Tensor(put(x, device))
            z = m(given)
            assert isinstance(z, apc.DeviceArray) and z.device == device and z.shape == (8, 16) and z.dtype == "f32"
            assert given.streams == [1] and np.array_equal(z.numpy(), y) and np.array_equal(np.asarray(z), y)
            assert z.__dlpack_device__() == (2, device) and len(z) == 8
        again = _tensors.memory(z, 0, "z")
        assert again.address == z.address and again.device == 1
        interface = z.__cuda_array_interface__
        assert interface["data"] == (z.address, False) and interface["typestr"] == "<f4"
        assert interface["shape"] == (8, 16)
        out = put(np.zeros((8, 16), np.float32), 1)
        assert m(x, out=out) is out and np.array_equal(out.numpy(), y)  # from the host to a device
        host = np.zeros_like(y)
        assert m(put(x, 0), out=host) is host and np.array_equal(host, y)
        assert np.array_equal(m(m(put(x, 1))).numpy(), m(y))  # a result is an input
        small = put(np.zeros((8, 15), np.float32), 0)
        for wrong in (lambda: m(small), lambda: m(x, out=small)):
            with pytest.raises(apc.BadInput):
                wrong()
        with pytest.raises(BufferError):
            z.__dlpack__(dl_device=(1, 0))
        with pytest.raises((RuntimeError, BufferError), match="[Dd]evice"):
            np.from_dlpack(z)  # NumPy's own error: the memory is not the host's
        with pytest.raises(ZeroDivisionError):
            (z.__dlpack__(), 1 / 0)  # the capsule ends while the exception is pending
        with pytest.raises(BufferError, match="f8e4m3fn"):
            apc.DeviceArray(m, 0, 13, (4,), 4).__dlpack__()
        taken = [take(z.__dlpack__()) for _ in range(3)]
    assert np.array_equal(z.numpy(), y)  # results outlive the model
    del again, given, z, interface
    for end in taken:
        end()
    with apc.compile(ROOT / "examples/llama.apc", gpu, defines=CACHED, dims={"batch": 1, "seq": 4}, tp=2,
                     save_temps=work) as m:
        def decode(at, token):
            return m(tokens=[[token]], at=at, entry="decode")

        decode(0, 3), decode(1, 5)
        prompt, keys = m.states.copy(), np.asarray(m.states[0])
        wanted = decode(2, 7)
        m.states.restore(prompt)
        assert np.array_equal(np.asarray(m.states[0]), keys) and not keys[:, :, 2:].any() and keys[:, :, :2].any()
        decode(2, 9)
        for s in m.states:
            s[:, :, 2:] = 0
        assert np.array_equal(decode(2, 7), wanted)
    print("fine")


def test_device_tensors(tmp_path):
    home = Path(os.environ["APC_HOME"]).resolve()
    if not (home / "doubles/libcuda.so.1").exists():
        pytest.skip("no doubles of CUDA")
    env = {**os.environ, "LD_LIBRARY_PATH": f"{home}/doubles", "DOUBLES_TEXTS": str(tmp_path), "APC_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
                           f"import test_apc; test_apc.on_device({str(tmp_path)!r}, 'dgx-a100x2')"],
                          env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), done.stdout


def test_contiguous_memory_is_not_copied():
    from apc import _tensors
    x = numbers()
    assert _tensors.memory(x, 0, "x").address == x.ctypes.data
    assert _tensors.memory(Dlpack(x), 0, "x").address == x.ctypes.data
    assert _tensors.memory(x.T, 0, "x").address != x.ctypes.data


def test_texts():
    from apc import _results
    assert [_results.size_text(n) for n in (0, 1000, 1536, 2**20 * 13.9, 2**50)] == [
        "0 B", "1000 B", "1.5 KiB", "13.9 MiB", "1024 TiB"]
    assert f"{apc.BadInput.__module__}.{apc.BadInput.__name__}" == "apc.BadInput"


def test_few_bits():
    from apc import _tensors
    assert _tensors.numpy_dtype(2) == np.float16
    for name, kind in _tensors.ML_KINDS.items():
        dtype = _tensors.ml_dtype(name)
        if dtype is None:
            with pytest.raises(apc.Missing, match="ml_dtypes"):
                _tensors.numpy_dtype(kind)
        else:
            assert _tensors.numpy_dtype(kind) == dtype
            assert _tensors.memory(np.zeros(3, dtype), kind, "x").type == kind


def test_threads(mlp):
    x = [numbers(n) for n in range(1, 9)]
    y = [mlp(v) for v in x]
    wrong = []
    with apc.load(mlp.path) as other:
        def work(m):
            for _ in range(5):
                for v, expected in zip(x, y):
                    if not np.array_equal(m(v), expected):
                        wrong.append(v.shape)

        threads = [threading.Thread(target=work, args=(m,)) for m in (mlp, mlp, other)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def children():
    text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], stdout=subprocess.PIPE, text=True)
    return {p for p in text.stdout.split() if Path(f"/proc/{p}/exe").exists()}


def test_errors_stay_with_their_model(mlp):
    """Threads call two models at the same time, some with wrong inputs; the death of one model's rank ends no other."""
    x, failed = numbers(), []
    y = mlp(x)

    def work(m, wrong):
        for _ in range(20):
            try:
                z = m(x[:, :wrong] if wrong else x)
                ok = not wrong and np.array_equal(z, y)
            except apc.BadInput as e:
                ok = wrong and f"dimension 1 is {wrong}, but must be 16" in str(e)
            if not ok:
                failed.append((m.path, wrong))

    with apc.load(mlp.path) as other, apc.load(mlp.path) as late:
        before = children()
        other(x)
        ranks = children() - before
        assert len(ranks) == 2
        threads = [threading.Thread(target=work, args=(m, wrong))
                   for m, wrong in ((mlp, 0), (mlp, 7), (other, 0), (other, 9), (late, 0), (late, 0), (late, 3))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failed
        for p in ranks:
            os.kill(int(p), 9)
        with pytest.raises(apc.RunFailed, match="signal 9"):
            other(x)
        for m in (mlp, late, other):  # the last one starts new ranks
            assert np.array_equal(m(x), y)


def test_entries(tmp_path):
    with apc.compile(ROOT / "examples/llama.apc", "cpu", defines=CACHED, dims={"batch": 1, "seq": 4}) as m:
        assert list(m.entries) == ["prefill", "decode"]
        decode = m.entries["decode"]
        assert [t.name for t in decode.inputs] == ["tokens", "at"] and decode.outputs[0].name == "logits"
        y = decode([[3]], 0)
        m.states.reset()
        assert np.array_equal(m(tokens=[[3]], at=0, entry="decode"), y)
        assert decode([[3]], at=1, out=y) is y
        with pytest.raises(apc.UsageError, match="no entry 'x'"):
            m(entry="x")


def test_close_ends_the_ranks():
    m = apc.compile(MLP, **SMALL)
    before = children()
    m(numbers())
    started = children() - before
    assert started
    m.close()
    m.close()
    assert not any(Path(f"/proc/{p}").exists() for p in started)
    with pytest.raises(apc.UsageError, match="closed"):
        m(numbers())
    m = apc.compile(MLP, **SMALL)
    path = m.path
    del m
    gc.collect()
    assert not Path(path).exists()


def test_plan(mlp):
    p = apc.plan(MLP, "cpux4", dims={"batch": 64}, defines={"d": 64, "layers": 2})
    assert p.ranks == 4 and p.dims == {} and p.time_us > 0 and p.memory > 0
    assert p.alternatives and all(a.time_us is None or a.time_us > 0 for a in p.alternatives)
    frame = p._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and "&lt;html" in frame.lower() and '"<' not in frame
    forced = apc.plan(MLP, "cpux4", tp=4, dims={"batch": 64}, defines={"d": 64, "layers": 2})
    assert forced.degrees == {"tp": 4}
    assert mlp.plan.html.startswith("<!")


def test_verify_and_profile(mlp):
    v = mlp.verify()
    assert v and v.proof == "proved" and v.outputs[0]["name"] == "y"
    p = mlp.profile(numbers(), runs=3)
    assert p.runs == 3 and len(p.ranks) == 2 and "profile of 3 runs" in str(p)


def test_errors(mlp, tmp_path, monkeypatch):
    with pytest.raises(apc.BadInput) as e:
        apc.compile(tmp_path / "none.onnx")
    assert e.value.code == 1 and e.value.diagnostics[0].code == "APC0001" and "APC0001" in str(e.value)
    with pytest.raises(apc.UsageError) as e:
        apc.compile(MLP, mikro_batches=3)
    assert e.value.code == 2 and "mikro-batches" in str(e.value)
    with pytest.raises(TypeError):
        apc.compile(3)
    with pytest.raises(apc.BadInput):
        apc.load(os.devnull)
    for use in (lambda: apc.load(mlp.path, tune=tmp_path / "t"), lambda: apc.compile(MLP, tune=tmp_path / "t", **SMALL)):
        with pytest.raises(apc.Error, match="--tune .*: it chooses among the ways to compute on a GPU") as e:
            use()
        assert e.value.code == 5
    for use in (lambda: apc.load(mlp.path, tune="t\0x"), lambda: apc.load(mlp.path, weights="w\0x"),
                lambda: apc.load(mlp.path + "\0x"), lambda: apc.compile(MLP, tune="t\0x", **SMALL),
                lambda: apc.compile(MLP, out=str(tmp_path / "p\0x"), **SMALL)):
        with pytest.raises(apc.UsageError, match="a path has no NUL character"):
            use()
    monkeypatch.setenv("CC", "/no/such/cc")
    with pytest.raises(apc.Missing, match="no C compiler") as e:
        apc.compile(MLP, **SMALL)
    assert e.value.code == 5


def test_training_gives_the_losses_of_the_program(tmp_path):
    rng = np.random.default_rng(1)
    x, labels = (rng.standard_normal((32, 16), dtype=np.float32) for _ in range(2))
    np.save(tmp_path / "x.npy", x), np.save(tmp_path / "labels.npy", labels)
    batches = [(x[i:i + 8], labels[i:i + 8]) for i in range(0, 32, 8)]
    with apc.train(MLP, batches, "mse", "adamw(lr=1e-2)", steps=6, **SMALL) as t:
        steps = list(t)
        t.save(tmp_path / "w.safetensors")
        after = t.evaluate(batches[0])
        done = subprocess.run([t.model.path, "--steps", "6", "--data", f"x=@{tmp_path}/x.npy", "--data",
                               f"labels=@{tmp_path}/labels.npy", "--shuffle", "none", "--json", "--save",
                               str(tmp_path / "program.safetensors")], stdout=subprocess.PIPE, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    lines = [d for d in lines if "loss" in d]
    assert [s.step for s in steps] == [1, 2, 3, 4, 5, 6]
    assert [s.loss for s in steps] == pytest.approx([d["loss"] for d in lines], rel=1e-6)
    assert (tmp_path / "w.safetensors").read_bytes() == (tmp_path / "program.safetensors").read_bytes()
    assert after < steps[0].loss
    with apc.train(MLP, iter(batches[:1]), "mse", steps=2, **SMALL) as t:
        next(t)
        with pytest.raises(apc.BadInput, match="1 of 2 steps"):
            next(t)
    with pytest.raises(apc.BadInput, match="empty"):
        apc.train(MLP, [], "mse", **SMALL)


def test_checkpoints_are_the_programs(tmp_path):
    """Python continues what the program began, and the reverse, to the same bits as an uninterrupted run."""
    rng = np.random.default_rng(1)
    x, labels = (rng.standard_normal((32, 16), dtype=np.float32) for _ in range(2))
    np.save(tmp_path / "x.npy", x), np.save(tmp_path / "labels.npy", labels)
    batches = [(x[i:i + 8], labels[i:i + 8]) for i in range(0, 32, 8)]
    text = apc.optimizer("adamw", lr=1e-2, schedule="cosine", warmup=2, steps=7)
    given = {"loss": "mse", "optimizer": text, "eval": batches[:2], "evals": 3, **SMALL}
    with apc.train(MLP, batches, steps=7, **given) as t:
        whole = list(t)
        t.save(tmp_path / "whole")
        assert t.evaluate_all(batches[:2]) == t.eval_loss == whole[6].eval_loss
    assert [s.eval_loss is not None for s in whole] == [False, False, True, False, False, True, True]
    assert whole[0].lr < whole[1].lr > whole[6].lr
    with apc.train(MLP, batches, steps=7, checkpoint=tmp_path / "at", every=2, out=tmp_path / "program", **given) as t:
        for s in t:
            if s.step == 2:
                assert (tmp_path / "at/checkpoint.safetensors").exists()
            if s.step == 3:
                break  # the end of the block writes a checkpoint
    run = [str(tmp_path / "program"), "--data", f"x=@{tmp_path}/x.npy", "--data", f"labels=@{tmp_path}/labels.npy",
           "--shuffle", "none", "--checkpoint", str(tmp_path / "at"), "--resume", str(tmp_path / "at"), "--steps"]
    said = subprocess.run(run + ["5", "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
    losses = [d["loss"] for d in map(json.loads, said.splitlines()) if "loss" in d]
    assert losses == pytest.approx([s.loss for s in whole[3:5]], rel=1e-6)
    for data in (iter(batches + batches), lambda step: batches[step % 4] if step < 7 else None):
        with apc.train(MLP, data, steps=7, resume=tmp_path / "at", **given) as t:
            assert [(s.step, s.loss, s.eval_loss) for s in t] == [(s.step, s.loss, s.eval_loss) for s in whole[5:]]
            t.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes()
    file = tmp_path / "at/checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(apc.BadInput, match="does not match its checksum"):
        apc.train(MLP, batches, steps=7, resume=tmp_path / "at", **given)
    with pytest.raises(apc.BadInput, match="No such file"):
        apc.train(MLP, batches, steps=7, resume=tmp_path / "none", **given)
    with pytest.raises(apc.UsageError, match="checkpoint="):
        apc.train(MLP, batches, steps=7, every=2, **given)


def test_steps_that_are_not_finite(tmp_path):
    rng = np.random.default_rng(1)
    good, bad = [(rng.standard_normal((8, 16), dtype=np.float32),) * 2 for _ in range(2)]
    bad = (bad[0] * np.inf, bad[1])
    data = [good, bad, good, bad, bad]
    with apc.train(MLP, data, "mse", steps=5, checkpoint=tmp_path, skip_nonfinite=1, **SMALL) as t:
        assert [next(t).undone for _ in range(4)] == [False, True, False, True]
        with pytest.raises(apc.RunFailed, match="step 5: loss nan"):
            next(t)
    assert not (tmp_path / "checkpoint.safetensors").exists()
    with apc.train(MLP, [good, bad], "mse", **SMALL) as t, pytest.raises(apc.RunFailed):
        list(t)
    with apc.train(MLP, lambda step: good, "mse", **SMALL) as t:  # endless
        for s in t:
            if s.step == 3:
                t.stop()
    assert s.step == 3


class Module:
    """A stand-in for a torch module."""

    def __init__(self):
        self.training = True

    def forward(self, x):
        return x

    def state_dict(self):
        return {}

    def modules(self):
        return [self]

    def eval(self):
        self.training = False


def test_torch_module(monkeypatch):
    calls = []

    def onnx_export(module, args, path, **given):
        calls.append((module.training, args, given))
        Path(path).write_bytes((ROOT / "examples/gpt-tiny.onnx").read_bytes())

    torch = types.ModuleType("torch")
    torch.onnx = types.SimpleNamespace(export=onnx_export)
    torch.export = types.SimpleNamespace(Dim=lambda name: ("dim", name))
    monkeypatch.setitem(sys.modules, "torch", torch)
    module = Module()
    p = apc.plan(module, "cpux2", inputs=("x",), dynamic={"x": {0: "batch"}}, dims={"batch": 4})
    assert "batch" not in p.dims and module.training
    assert calls.pop() == (False, ("x",), {"dynamo": True, "optimize": True, "verbose": False,
                                           "dynamic_shapes": {"x": {0: ("dim", "batch")}}})
    apc.plan(module, "cpux2", inputs=("x",), train="cross_entropy", batch=4)
    assert calls.pop() == (True, ("x",), {"dynamo": True, "optimize": False, "verbose": False})  # trained in its mode
    module.eval()
    apc.plan(module, "cpux2", inputs=("x",), train="cross_entropy", batch=4)
    assert calls.pop()[0] is False and not module.training
    with pytest.raises(apc.UsageError, match="inputs="):
        apc.plan(module)
    with pytest.raises(apc.UsageError, match="'z'"):
        apc.plan(module, inputs=("x",), dynamic={"z": {0: "batch"}})


def test_torch_module_in_training_mode(tmp_path):
    """Batch norm by the batch and dropout, with PyTorch only: the names, and the losses where nothing is dropped."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(0.0),
                              torch.nn.Linear(8, 4))
    x, y = torch.randn(16, 6), torch.randn(16, 4)
    with apc.train(net, [(x.numpy(), y.numpy())], "mse", "sgd(lr=0.1)", steps=3, inputs=(x,)) as training:
        losses = [step.loss for step in training]
        held = training.evaluate((x.numpy(), y.numpy()))
        training.save(tmp_path / "w.safetensors")
    optimizer, wanted = torch.optim.SGD(net.parameters(), lr=0.1), []
    for _ in range(3):
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    np.testing.assert_allclose(losses, wanted, 1e-5)
    np.testing.assert_allclose(held, torch.nn.functional.mse_loss(net.eval()(x), y).item(), 1e-5)
    raw = (tmp_path / "w.safetensors").read_bytes()
    names = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
    assert {n for n in net.state_dict() if not n.endswith("num_batches_tracked")} <= set(names)
    net[3].p = 0.5
    with apc.train(net.train(), [(x.numpy(), y.numpy())], "mse", "sgd(lr=0.0)", steps=3, inputs=(x,)) as training:
        assert len({step.loss for step in training}) == 3  # another mask in every step


def test_wheel(tmp_path):
    path = build_wheel.pack(os.environ["APC_HOME"], tmp_path, zipfile.ZIP_STORED)
    assert re.fullmatch(r"apc-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl", path.name)
    with zipfile.ZipFile(path) as z:
        names = set(z.namelist())
        assert {"apc/__init__.py", "apc/_native/apc", "apc/_native/apcrt-stub", "apc/_native/libapcrt.so.0",
                "apc/_native/apc_runtime.h", "apc/_native/apc_operator.h"} <= names
        dnnl = next(n for n in names if "_native/libdnnl.so." in n)  # with a license, as all libraries of others
        assert {f"{n.split('/')[0]}/licenses/{dnnl.split('/')[-1]}" for n in names if n.endswith("RECORD")} <= names
        assert z.getinfo("apc/_native/apc").external_attr >> 16 & 0o111
        record = next(n for n in names if n.endswith("RECORD"))
        assert {line.split(",")[0] for line in z.read(record).decode().split()} == names
    newest = int(re.search(r"manylinux_2_(\d+)", path.name)[1])
    have = ctypes.CDLL(None).gnu_get_libc_version
    have.restype = ctypes.c_char_p
    assert newest <= int(have().decode().split(".")[1])


def test_type_hints():
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, ROOT / "python/apc"],
                          stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout


def run_cells(cells):
    space = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell, "<example>", "exec"), space)  # noqa: S102


def test_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    book = json.loads((ROOT / "python/examples/first.ipynb").read_text())
    run_cells("".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code")


def test_guide(tmp_path, monkeypatch):
    """Every Python example of the guide runs, in order; those of torch run with PyTorch only."""
    for name in ("gpt-tiny.onnx", "gpt-tiny.inputs.npz", "mlp.apc", "llama.apc", "largest.onnx"):
        (tmp_path / name).symlink_to(ROOT / "examples" / name)
    monkeypatch.chdir(tmp_path)
    cells = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/guide/python.md").read_text(), re.M | re.S)
    assert len(cells) >= 6
    try:
        import torch  # noqa: F401
    except ImportError:
        for c in cells:
            compile(c, "<example>", "exec")
        cells = [c for c in cells if "torch" not in c]
    run_cells(cells)
