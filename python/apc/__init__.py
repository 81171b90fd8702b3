"""apc - compiles neural networks for several ranks, and runs them from Python.

    m = apc.compile("model.onnx", target="cpux4", dims={"batch": 8})
    y = m(x)

Needs NumPy.  PyTorch is needed only to export a torch module.  docs/guide/python.md is the guide.
"""
from ._devices import DeviceArray
from ._errors import (BadInput, Error, InternalError, Late, Mismatch, Missing, RunFailed, Undecided,
                      UsageError)
from ._export import export
from ._tool import plan
from ._results import Alternative, Diagnostic, Plan, Profile, Step, Verification
from ._model import Entry, Model, TensorInfo, compile, load
from ._states import State, States, StatesCopy
from ._train import Training, optimizer, train

__all__ = ["compile", "load", "plan", "train", "optimizer", "export", "Model", "Entry", "State", "States",
           "StatesCopy", "TensorInfo", "DeviceArray", "Training", "Plan", "Alternative", "Verification", "Profile",
           "Step", "Diagnostic", "Error", "BadInput", "UsageError", "Undecided", "Mismatch", "Missing", "RunFailed",
           "Late", "InternalError"]
