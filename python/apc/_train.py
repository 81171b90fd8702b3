"""Training: the compiled step of `apc --train`, with data from any iterable."""
from __future__ import annotations

import json
import math
import os
from ctypes import c_char_p, c_int64
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, Union

import numpy as np

from ._errors import BadInput, RunFailed, UsageError
from ._model import Model, compile
from ._native import byref
from ._results import Plan, Step

Data = Union[Iterable[Any], Callable[[int], Any]]
MOST_HEADER = 1 << 27  # bytes


class Batches:
    """The batches of the steps, from any step on.

    A function of the number of a step, counted from 0, gives the batch of that step.  An iterable gives one after the
    other; if it can be iterated over again and `repeats`, it begins anew at its end.
    """

    def __init__(self, data: Data, first: int, repeats: bool):
        given: Any = data
        self._data = given
        self._function = given if callable(given) and not hasattr(given, "__iter__") else None
        self._repeats = repeats
        self._iterator: Iterator[Any] | None = None if self._function else iter(given)
        self._again = self._iterator is not None and self._iterator is not data
        self._step = first
        self._peeked: list[Any] = []
        if self._iterator is not None:
            self._skip(first)

    def _skip(self, n: int) -> None:
        """Drops the batches of earlier steps, as an uninterrupted run would have taken them."""
        length = len(self._data) if hasattr(self._data, "__len__") else 0
        for done in range(n % length if length and self._again and self._repeats else n):
            if self._take() is None:
                raise BadInput(f"the data ended after {done} of the {n} steps before the checkpoint")

    def _take(self) -> Any:
        assert self._iterator is not None
        for batch in self._iterator:
            return batch
        if not (self._again and self._repeats):
            return None
        self._iterator = iter(self._data)
        return next(self._iterator, None)

    def peek(self) -> Any:
        """The next batch, which stays; None at the end."""
        if not self._peeked:
            self._peeked = [self._function(self._step) if self._function else self._take()]
        return self._peeked[0]

    def next(self) -> Any:
        """The next batch; None at the end."""
        batch, self._peeked = self.peek(), []
        self._step += 1
        return batch


class Training:
    """Iterates over training steps: each `next` makes one and returns a `Step`.

    The weights are in the ranks and stay there between steps.  To stop early, leave the loop, or call `stop` in it.
    The last checkpoint is written at the end of the steps, after `stop`, and at the end of a `with` block without an
    exception.
    """

    def __init__(self, model: Model, batches: Batches, *, steps: int | None, done: int,
                 evaluation: Iterable[Any] | None, evals: int | None, checkpoint: str | os.PathLike[str] | None,
                 every: int | None, skip: int):
        self.model, self.steps, self.done = model, steps, done
        self.eval_loss: float | None = None  # of the last evaluation
        self._batches, self._evaluation, self._evals = batches, evaluation, evals
        self._checkpoint, self._every, self._skip = checkpoint, every, skip
        self._begun = self._written = self._evaluated = done
        self._skipped, self._kept, self._stopped, self._ended = 0, False, False, False

    @property
    def plan(self) -> Plan | None:
        """The plan of a step."""
        return self.model.plan

    def __iter__(self) -> "Training":
        return self

    def stop(self) -> None:
        """Ends the iteration after the present step."""
        self._stopped = True

    def __next__(self) -> Step:
        if self._ended or self._stopped or (self.steps is not None and self.done >= self.steps):
            self._end()
            raise StopIteration
        batch = self._batches.next()
        if batch is None and self.steps is not None:
            raise BadInput(f"the data ended after {self.done} of {self.steps} steps")
        if batch is None:
            self._end()
            raise StopIteration
        loss, norm, lr, undone = self._step(batch)
        self.done += 1
        evaluated = None
        if self._evaluation is not None and (self._evals and self.done % self._evals == 0 or self.done == self.steps):
            evaluated = self._evaluate()
        if self._every and self.done % self._every == 0:
            self._write()
        return Step(self.done, loss, norm, lr, evaluated, undone)

    def _step(self, batch: Any) -> tuple[float, float, float, bool]:
        """Makes a step, and undoes it if it is not finite and may be skipped."""
        m = self.model
        if self._skip and not self._kept:
            m._call(m._lib.apc_keep)
        r = m(**self._inputs(batch), step=self.done)
        loss, norm, lr = (float(np.asarray(r[k]).reshape(())) for k in ("loss", "grad_norm", "lr"))
        finite = math.isfinite(loss) and math.isfinite(norm)
        self._kept = self._skip > 0 and not finite
        if finite:
            self._skipped = 0
            return loss, norm, lr, False
        name = self._not_finite() if math.isfinite(loss) else None
        if self._skip:
            m._call(m._lib.apc_back)
        self._skipped += 1
        if self._skipped > self._skip:
            self._ended = True
            first = f"the gradient of {name!r}" if name else "the loss" if not math.isfinite(loss) else "the norm"
            raise RunFailed(f"step {self.done + 1}: loss {loss}, norm of gradients {norm}; the first tensor that is "
                            f"not finite is {first}; nothing is written after step {self.done}")
        return loss, norm, lr, True

    def _not_finite(self) -> str | None:
        m, name = self.model, c_char_p()
        m._call(m._lib.apc_not_finite, byref(name))
        return name.value.decode() if name.value else None

    def _inputs(self, batch: Any) -> Mapping[str, Any]:
        names = [t.name for t in self.model.inputs if t.name != "step"]
        if isinstance(batch, Mapping):
            return batch
        items = batch if isinstance(batch, (tuple, list)) else (batch,)
        if len(items) != len(names):
            raise BadInput(f"a batch has {len(items)} tensors, and a step takes {', '.join(names)}")
        return dict(zip(names, items))

    # ---- evaluation

    def _eval(self, batch: Any) -> tuple[float, float]:
        """The loss of a batch, and the count of which it is the mean."""
        given = self._inputs(batch)
        names = {t.name for t in self.model._entry("eval").inputs}
        r = self.model(entry="eval", **given, **({"step": self.done} if "step" in names else {}))
        return float(np.asarray(r["loss"]).reshape(())), float(np.asarray(r["count"]).reshape(()))

    def evaluate(self, batch: Any) -> float:
        """The loss of a batch with the present weights, which do not change."""
        return self._eval(batch)[0]

    def evaluate_all(self, batches: Iterable[Any]) -> float:
        """The mean loss of batches, each label counted once, as of the program's option --eval."""
        found = [self._eval(b) for b in batches]
        count = sum(n for _, n in found if n > 0)
        if count == 0:
            raise BadInput("the evaluation has no data, or all its labels are ignored")
        return sum(loss * n for loss, n in found if n > 0) / count

    def _evaluate(self) -> float:
        assert self._evaluation is not None
        self.eval_loss = mean = self.evaluate_all(self._evaluation)
        self._evaluated = self.done
        if not math.isfinite(mean):
            raise RunFailed(f"evaluation after step {self.done}: the loss is {mean}")
        return mean

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all weights as a safetensors file, under the names of the model."""
        self.model.write("weights", path)

    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint into a folder: the file of the program's options --checkpoint and --resume."""
        m = self.model
        m._call(m._lib.apc_write_checkpoint, os.fsencode(path), self.done)

    def _write(self) -> None:
        if self._checkpoint is not None and self._written != self.done:
            self.checkpoint(self._checkpoint)
            self._written = self.done

    # ---- the end

    def _end(self) -> None:
        """Writes the last checkpoint, and evaluates unless the caller has stopped the run."""
        if self._ended:
            return
        self._ended = True
        self._write()
        if self._evaluation is not None and self._evaluated != self.done and not self._stopped:
            self._evaluate()

    def close(self) -> None:
        """Ends the ranks.  Steps after the last checkpoint are lost, unless `checkpoint` was called."""
        self._ended = True
        self.model.close()

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None and not self._ended:
                self._stopped = True
                self._end()
        finally:
            self.close()


def optimizer(name: str = "adamw", **settings: Any) -> str:
    """The text of an optimizer and its settings, such as `optimizer("adamw", lr=3e-4, schedule="cosine", warmup=100,
    steps=1000, clip=1.0)`; docs/train.md lists them."""
    return f"{name}({','.join(f'{k}={v}' for k, v in settings.items())})" if settings else name


def batch_size(batch: Any) -> int:
    """The first dimension of the first tensor of a batch."""
    items = list(batch.values()) if isinstance(batch, Mapping) else batch
    first = items[0] if isinstance(items, (list, tuple)) and items else items
    shape: Sequence[int] = getattr(first, "shape", ())
    if not shape:
        raise UsageError("the first tensor of a batch has no rows; give batch=")
    return int(shape[0])


def made_before(resume: str | os.PathLike[str]) -> int:
    """The number of steps in the metadata of a checkpoint; its contents are checked when the ranks read it."""
    path = os.path.join(os.fspath(resume), "checkpoint.safetensors")
    try:
        with open(path, "rb") as f:
            size = int.from_bytes(f.read(8), "little")
            if size > MOST_HEADER:
                raise ValueError("it is no safetensors file")
            return int(json.loads(f.read(size))["__metadata__"]["steps"])
    except OSError as e:
        raise BadInput(f"{path}: {e.strerror}") from None
    except (ValueError, KeyError, TypeError) as e:
        raise BadInput(f"{path} is not a checkpoint: {e}") from None


def train(model: Any, data: Data, loss: str, optimizer: str = "adamw", *, steps: int | None = None,
          target: str | None = None, batch: int | None = None, eval: Iterable[Any] | None = None,
          evals: int | None = None, checkpoint: str | os.PathLike[str] | None = None, every: int | None = None,
          resume: str | os.PathLike[str] | None = None, skip_nonfinite: int = 0, inputs: Any = None,
          dynamic: Any = None, **options: Any) -> Training:
    """Compiles a training step, and returns an iterator that makes the steps.

        for s in apc.train("model.onnx", batches, "cross_entropy", "adamw(lr=3e-3)", steps=100, target="cpux4"):
            print(s.step, s.loss)

    An element of `data` is a batch: a dictionary by input name (with `labels`), or a tuple in the order of the step's
    inputs.  Every batch has `batch` rows; without `batch` the first one decides.  With `steps`, data that can be
    iterated over again (a list, a DataLoader) is repeated as needed; other data must suffice.  Without `steps` the run
    ends with the data.  `data` may also be a function: it gives the batch of a step, counted from 0, or None at the
    end.

    `eval` is evaluated at the end and every `evals` steps (`Step.eval_loss`).  `checkpoint` is a folder, written at the
    end and every `every` steps; `resume` is one to continue from: `steps` counts from the beginning, and the batches of
    the earlier steps are passed over.  `skip_nonfinite` steps in a row may be undone because they are not finite.  All
    of this is as for the options of the program, and its files are the same.

    The learning rate and its schedule are settings of the optimizer (`apc.optimizer`).  A torch module is exported with
    `optimize=False`, in its present mode: in training mode batch norms take their statistics from the batch, and
    dropouts drop values; evaluation does neither.  Other arguments are as for `compile`.
    """
    if every is not None and checkpoint is None:
        raise UsageError("every= needs checkpoint=")
    if evals is not None and eval is None:
        raise UsageError("evals= needs eval=")
    if eval is not None and iter(eval) is eval:
        raise UsageError("eval= must be iterable again and again, such as a list or a DataLoader")
    for name, value in (("every", every), ("evals", evals), ("steps", steps)):
        if value is not None and value < 1:
            raise UsageError(f"{name}= must be at least 1")
    done = made_before(resume) if resume is not None else 0
    batches = Batches(data, done, steps is not None)
    if batch is None:
        first = batches.peek()
        if first is None:
            raise BadInput(f"the data ended at step {done} of the checkpoint" if done else "the data is empty")
        batch = batch_size(first)
    m = compile(model, target, inputs=inputs, dynamic=dynamic, train=loss, optimizer=optimizer, batch=batch, **options)
    try:
        if resume is not None:
            made = c_int64()
            m._call(m._lib.apc_read_checkpoint, os.fsencode(resume), byref(made))
            if made.value != done:
                raise BadInput(f"the checkpoint in {os.fspath(resume)} was replaced while it was read")
        return Training(m, batches, steps=steps, done=done, evaluation=eval, evals=evals, checkpoint=checkpoint,
                        every=every, skip=skip_nonfinite)
    except BaseException:
        m.close()
        raise
