"""The verbs as functions, for Python: each takes the fields of its request."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from calcli.metrics.base import Options
from calcli.tables.binding import Flags
from calcli.tables.source import open_source
from calcli.verbs.apply import ApplyRequest
from calcli.verbs.apply import apply as run_apply
from calcli.verbs.evaluate import EvaluateRequest
from calcli.verbs.evaluate import evaluate as run_evaluate
from calcli.verbs.fit import FitRequest
from calcli.verbs.fit import fit as run_fit
from calcli.verbs.inspect import inspect
from calcli.verbs.load import load

__all__ = ["Flags", "Options", "apply", "evaluate", "fit", "inspect", "load", "open_source"]

Fields = ParamSpec("Fields")
Request = TypeVar("Request")
Result = TypeVar("Result")


def _verb(
    request: Callable[Fields, Request], run: Callable[[Request], Result], summary: str
) -> Callable[Fields, Result]:
    """A function that takes what the request takes, and runs it."""

    def verb(*args: Fields.args, **kwargs: Fields.kwargs) -> Result:
        return run(request(*args, **kwargs))

    verb.__doc__ = f"{summary}\n\n{request.__doc__}"
    return verb


fit = _verb(FitRequest, run_fit, "Fit a calibrator, measure it on held-out rows, and keep it.")
apply = _verb(ApplyRequest, run_apply, "Add the calibrated columns to a table.")
evaluate = _verb(EvaluateRequest, run_evaluate, "Measure the raw score and each artifact's on the same rows.")
