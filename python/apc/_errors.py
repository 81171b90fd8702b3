"""Errors: one class per exit code of apc (tools/exits.def), which are also the statuses of apc_runtime.h."""
from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

if TYPE_CHECKING:
    from ._results import Diagnostic


class Error(Exception):
    """An error of apc.  `code` is the exit code; `diagnostics` lists the compiler's messages with their codes."""

    code = 70

    def __init__(self, message: str, code: int | None = None, diagnostics: Sequence["Diagnostic"] = ()):
        super().__init__(message)
        if code is not None:
            self.code = code
        self.diagnostics = list(diagnostics)


class BadInput(Error):
    """A model, plan, target, tensor or shape is wrong."""
    code = 1


class UsageError(Error):
    """There is no such option or name, or the call came at the wrong time."""
    code = 2


class Undecided(Error):
    """There is no feasible plan, or the proof is unknown."""
    code = 3


class Mismatch(Error):
    """Results differ from the expected ones."""
    code = 4


class Missing(Error):
    """Something is missing (such as a C compiler), too old or not supported yet."""
    code = 5


class RunFailed(Error):
    """A rank ended unexpectedly, or there is no memory."""
    code = 6


class Late(Error):
    """A rank made no progress for the time-out."""
    code = 7


class InternalError(Error):
    """A fault in apc."""
    code = 70


CLASSES = {c.code: c for c in (BadInput, UsageError, Undecided, Mismatch, Missing, RunFailed, Late, InternalError)}
for c in (Error, *CLASSES.values()):
    c.__module__ = "apc"  # as users name it, also in tracebacks


def error(code: int, message: str, diagnostics: Sequence["Diagnostic"] = ()) -> Error:
    """Makes the exception of an exit code."""
    return CLASSES.get(code, Error)(message, code, diagnostics)
