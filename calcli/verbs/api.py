"""The verbs as functions, for Python: each takes the fields of its request."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from calcli.ensembles.load import load_ensemble
from calcli.evaluation.request import EvaluateRequest
from calcli.fitting.model import load
from calcli.fitting.requests import FitRequest
from calcli.fitting.side_inputs import SideFiles
from calcli.metrics.base import Options
from calcli.tables.binding import Flags
from calcli.tables.source import open_source
from calcli.verbs.apply import ApplyRequest
from calcli.verbs.apply import apply as run_apply
from calcli.verbs.compare import CompareRequest
from calcli.verbs.compare import compare as run_compare
from calcli.verbs.diagram import DiagramRequest
from calcli.verbs.diagram import diagram as run_diagram
from calcli.verbs.evaluate import evaluate as run_evaluate
from calcli.verbs.fit import fit as run_fit
from calcli.verbs.inspect import inspect
from calcli.verbs.refit import RefitRequest
from calcli.verbs.refit import refit as run_refit
from calcli.verbs.uncertainty_apply import EnsembleApplyRequest
from calcli.verbs.uncertainty_apply import apply as run_apply_ensemble
from calcli.verbs.uncertainty_decompose import DecomposeRequest
from calcli.verbs.uncertainty_decompose import decompose as run_decompose
from calcli.verbs.uncertainty_evaluate import EnsembleEvaluateRequest
from calcli.verbs.uncertainty_evaluate import evaluate as run_evaluate_ensembles
from calcli.verbs.uncertainty_fit import EnsembleRequest
from calcli.verbs.uncertainty_fit import fit as run_fit_ensemble

__all__ = [
    "Flags",
    "Options",
    "SideFiles",
    "apply",
    "apply_ensemble",
    "compare",
    "decompose",
    "diagram",
    "evaluate",
    "evaluate_ensembles",
    "fit",
    "fit_ensemble",
    "inspect",
    "load",
    "load_ensemble",
    "open_source",
    "refit",
]

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
compare = _verb(CompareRequest, run_compare, "Predict held-out rows with every method, under the same splits.")
refit = _verb(RefitRequest, run_refit, "Fit on new rows, and replace the artifact unless that makes it worse.")
evaluate = _verb(EvaluateRequest, run_evaluate, "Measure the raw score and each artifact's on the same rows.")
fit_ensemble = _verb(EnsembleRequest, run_fit_ensemble, "Train an ensemble of CatBoost models, and keep it.")
apply_ensemble = _verb(EnsembleApplyRequest, run_apply_ensemble, "Add predictions and their uncertainty to a table.")
evaluate_ensembles = _verb(EnsembleEvaluateRequest, run_evaluate_ensembles, "Measure ensembles on the same rows.")
decompose = _verb(DecomposeRequest, run_decompose, "Split up the uncertainty of predictions that a table holds.")
diagram = _verb(DiagramRequest, run_diagram, "What was predicted beside what happened, as numbers and as a picture.")
