"""Exports torch modules to ONNX.  torch is imported only here, and only for a module."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping, Sequence

from ._errors import UsageError


def is_module(model: Any) -> bool:
    """True for a torch module; torch need not be imported."""
    return callable(getattr(model, "forward", None)) and callable(getattr(model, "state_dict", None))


def export(module: Any, path: str | os.PathLike[str], inputs: Sequence[Any] | Mapping[str, Any], *,
           dynamic: Mapping[str, Mapping[int, str]] | None = None, training: bool = False) -> str:
    """Writes a torch module as ONNX with PyTorch's newer exporter, and returns the path.

    `inputs` are example arguments of `forward`: a sequence, or a dictionary of keyword arguments.  `dynamic` names
    dimensions that stay symbolic, by argument: {"x": {0: "batch"}}.  Parameters keep their names.  The module is
    exported in evaluation mode and is afterwards in its present mode.  With `training` it is exported in its present
    mode, part by part, as PyTorch trains it, and the exporter optimizes nothing, so that each parameter stays a weight
    of its own.
    """
    import torch  # type: ignore[import-not-found,unused-ignore]

    if inputs is None:
        raise UsageError("a torch module needs inputs=(...): example arguments of its forward")
    keyword = isinstance(inputs, Mapping)
    args: tuple[Any, ...] = () if keyword else tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    given: dict[str, Any] = {"dynamo": True, "optimize": not training, "verbose": False}
    if keyword:
        given["kwargs"] = dict(inputs)
    if dynamic:
        made: dict[str, Any] = {}
        for axes in dynamic.values():
            for name in axes.values():
                made.setdefault(name, torch.export.Dim(name))
        import inspect

        names = list(inputs) if keyword else list(inspect.signature(module.forward).parameters)[:len(args)]
        unknown = set(dynamic) - set(names)
        if unknown:
            first = sorted(unknown)[0]
            raise UsageError(f"dynamic names {first!r}, which is no argument; arguments: {', '.join(names)}")
        given["dynamic_shapes"] = {n: {axis: made[d] for axis, d in dynamic.get(n, {}).items()} for n in names}
    modes = [(m, m.training) for m in module.modules()] if hasattr(module, "modules") else []
    try:
        if modes and not training:
            module.eval()
        torch.onnx.export(module, args, str(path), **given)
    finally:
        for m, mode in modes:
            m.training = mode
    return str(path)


def model_file(model: Any, work: str | os.PathLike[str], inputs: Any, dynamic: Any, training: bool) -> str:
    """The path of a model file; a torch module is exported into the folder `work`."""
    if isinstance(model, (str, os.PathLike)):
        if inputs is not None or dynamic is not None:
            raise UsageError("inputs= and dynamic= are for torch modules; a file has its inputs")
        return os.fspath(model)
    if not is_module(model):
        raise TypeError(f"a model is a path or a torch module, not {type(model).__name__}")
    return export(model, Path(work) / "model.onnx", inputs, dynamic=dynamic, training=training)
