"""Training: the compiled step of `apc --train`, with data from any iterable."""
from __future__ import annotations

import math
import os
from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np

from ._errors import BadInput, RunFailed, UsageError
from ._model import Model, compile
from ._results import Plan, Step


class Training:
    """Iterates over training steps: each `next` makes one and returns a `Step`.

    The weights are in the ranks and stay there between steps.  `save` writes them at any time.
    """

    def __init__(self, model: Model, data: Iterable[Any], batches: Iterator[Any], first: Any, steps: int | None):
        self.model, self.steps, self.done = model, steps, 0
        self._data, self._batches, self._next = data, batches, first

    @property
    def plan(self) -> Plan | None:
        """The plan of a step."""
        return self.model.plan

    def __iter__(self) -> "Training":
        return self

    def _batch(self) -> Any:
        """The next batch; data that can be iterated over again begins anew while `steps` asks for more."""
        if self._next is not None:
            batch, self._next = self._next, None
            return batch
        for batch in self._batches:
            return batch
        if self.steps is None:
            raise StopIteration
        again = iter(self._data)
        if again is not self._batches:
            self._batches = again
            for batch in again:
                return batch
        raise BadInput(f"the data ended after {self.done} of {self.steps} steps")

    def __next__(self) -> Step:
        if self.steps is not None and self.done >= self.steps:
            raise StopIteration
        given = self._inputs(self._batch())
        r = self.model(**given, step=self.done)
        loss, norm, lr = (float(np.asarray(r[k]).reshape(())) for k in ("loss", "grad_norm", "lr"))
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise RunFailed(f"step {self.done + 1}: loss {loss}, norm of gradients {norm}: not finite")
        self.done += 1
        return Step(self.done, loss, norm, lr)

    def _inputs(self, batch: Any) -> Mapping[str, Any]:
        names = [t.name for t in self.model.inputs if t.name != "step"]
        if isinstance(batch, Mapping):
            return batch
        items = batch if isinstance(batch, (tuple, list)) else (batch,)
        if len(items) != len(names):
            raise BadInput(f"a batch has {len(items)} tensors, and a step takes {', '.join(names)}")
        return dict(zip(names, items))

    def evaluate(self, batch: Any) -> float:
        """The loss of a batch with the present weights, which do not change."""
        given = self._inputs(batch)
        names = {t.name for t in self.model._entry("eval").inputs}
        r = self.model(entry="eval", **given, **({"step": self.done} if "step" in names else {}))
        return float(np.asarray(r["loss"]).reshape(()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all weights as a safetensors file, under the names of the model."""
        self.model.write("weights", path)

    def close(self) -> None:
        """Ends the ranks."""
        self.model.close()

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def batch_size(batch: Any) -> int:
    """The first dimension of the first tensor of a batch."""
    items = list(batch.values()) if isinstance(batch, Mapping) else batch
    first = items[0] if isinstance(items, (list, tuple)) and items else items
    shape: Sequence[int] = getattr(first, "shape", ())
    if not shape:
        raise UsageError("the first tensor of a batch has no rows; give batch=")
    return int(shape[0])


def train(model: Any, data: Iterable[Any], loss: str, optimizer: str = "adamw", *, steps: int | None = None,
          target: str | None = None, batch: int | None = None, inputs: Any = None, dynamic: Any = None,
          **options: Any) -> Training:
    """Compiles a training step, and returns an iterator that makes the steps.

        for s in apc.train("model.onnx", batches, "cross_entropy", "adamw(lr=3e-3)", steps=100, target="cpux4"):
            print(s.step, s.loss)

    An element of `data` is a batch: a dictionary by input name (with `labels`), or a tuple in the order of the step's
    inputs.  Every batch has `batch` rows; without `batch` the first one decides.  With `steps`, data that can be
    iterated over again (a list, a DataLoader) is repeated as needed; other data must suffice.  Without `steps` the run
    ends with the data.  A torch module is exported with `optimize=False`; other arguments are as for `compile`.
    """
    batches = iter(data)
    first = next(batches, None)
    if first is None:
        raise BadInput("the data is empty")
    m = compile(model, target, inputs=inputs, dynamic=dynamic, train=loss, optimizer=optimizer,
                batch=batch if batch is not None else batch_size(first), **options)
    return Training(m, data, batches, first, steps)
