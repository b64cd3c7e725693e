"""The public names of calcli, but for `webpage`. A verb takes the fields of its request as parameters."""

# ruff: noqa: PLC0414 a name that is imported as itself is public for type checkers

from __future__ import annotations

import inspect as introspection
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, InitVar, fields
from typing import Any, ParamSpec, TypeVar, cast, get_type_hints

from calcli.listener import Listener, here
from calcli.metrics.base import Options as Options
from calcli.models.calibrator import load as run_load
from calcli.models.ensemble import load_ensemble as run_load_ensemble
from calcli.models.requests import FitRequest, RefitRequest
from calcli.models.side_inputs import SideFiles as SideFiles
from calcli.parameters import names_parameters
from calcli.places import Database as Database
from calcli.places.stores import storage_options as storage_options
from calcli.tables.binding_types import Flags as Flags
from calcli.tables.request import COLUMNS
from calcli.tables.source import open_source as run_open_source
from calcli.verbs.apply import ApplyRequest, DecomposeRequest, EnsembleApplyRequest
from calcli.verbs.apply import apply as run_apply
from calcli.verbs.apply import apply_ensemble as run_apply_ensemble
from calcli.verbs.apply import decompose as run_decompose
from calcli.verbs.compare import CompareRequest
from calcli.verbs.compare import compare as run_compare
from calcli.verbs.compared_scores import EvaluateRequest
from calcli.verbs.decide import DecideRequest
from calcli.verbs.decide import decide as run_decide
from calcli.verbs.diagram import DiagramRequest
from calcli.verbs.diagram import diagram as run_diagram
from calcli.verbs.estimate import estimate as run_estimate
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.evaluate import evaluate as run_evaluate
from calcli.verbs.fit import fit as run_fit
from calcli.verbs.inspect import ExplainRequest
from calcli.verbs.inspect import explain as run_explain
from calcli.verbs.inspect import inspect as run_inspect
from calcli.verbs.refit import refit as run_refit
from calcli.verbs.uncertainty import EnsembleEvaluateRequest, EnsembleRequest
from calcli.verbs.uncertainty import evaluate as run_evaluate_ensembles
from calcli.verbs.uncertainty import fit as run_fit_ensemble

_Fields = ParamSpec("_Fields")
_Request = TypeVar("_Request")
_Result = TypeVar("_Result")

_NAMED = "Directories, each as ``DIR`` or ``NAME=DIR``, or the models themselves."

_SHARED = {
    "data": "Paths, globs, directories, ``-``, or a frame.",
    "artifacts": _NAMED,
    "ensembles": _NAMED,
    "column": "The stem of the columns that are added.",
    "extra": "Add more measures of disagreement.",
    "keep": "The input columns to pass through; None for all, () for none.",
    "stream": "Let standard output and pipes have rows as they are computed, although the table may be refused later.",
    "order_by": "A column; rows are predicted from those before them.",
    "bootstrap": "Replicates for intervals; 0 for none.",
    "every_curve": "Whether the report has curves of all kinds, as a page shows them.",
    "fail_if": "Gates: expressions that must not be true of any number.",
    "allow_null": "Let a gate pass where its number is not defined.",
    "engine": "``local`` for this machine, ``spark`` for a cluster.",
    "master": "The URL of the cluster; None is what Spark's own configuration says, or else this machine.",
    "preset": "Parameters that were chosen together, by the name that the catalog gives them.",
    "metrics": "``default``, ``all``, or names separated by commas.",
    "options": "How metrics are computed, as `calcli.Options`.",
    "flags": "Which column plays which part, as `calcli.Flags`; label and score are looked for by their usual names.",
    "sides": "What the methods may use beside the rows, as `calcli.SideFiles`.",
    "input_format": "Of files: ``parquet``, ``csv``, ``tsv``, ``ipc``, ``ndjson`` or ``json``; None goes by "
    "their suffixes.",
    "delimiter": "What stands between the fields of CSV files; None goes by their first line.",
    "output_format": "Of the output, where its suffix does not tell; on standard output None is that of the input.",
    "bad_rows": "``fail`` refuses a table with rows that have no finite score, or no label or weight; ``null`` goes on "
    "without them.",
    "seed": "Of everything that draws random numbers.",
    "dry_run": "Find out what would be bound to what, and stop.",
}
"""Parameters that mean the same in every verb; the others are described by the docstring of their request."""

_COLUMNS = "What `flags` says under the same name, by itself."


def _verb(
    name: str, request: Callable[_Fields, _Request], run: Callable[[_Request, Listener], _Result]
) -> Callable[_Fields, _Result]:
    """A function with the request's fields as parameters, which `help` shows with types, defaults and descriptions."""

    def verb(*args: _Fields.args, **kwargs: _Fields.kwargs) -> _Result:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"calcli.{name}: {error}; see help(calcli.{name})") from None
        return run(request(*args, **kwargs), here())

    verb.__name__ = verb.__qualname__ = name
    verb.__module__ = "calcli"
    verb.__doc__ = f"{run.__doc__}\n\nParameters\n----------\n{_descriptions(request)}"
    hints = {name: hint.type if isinstance(hint, InitVar) else hint for name, hint in get_type_hints(request).items()}
    verb.__annotations__ = {**hints, "return": get_type_hints(run)["return"]}
    verb.__signature__ = signature = _signature(request, verb.__annotations__)  # type: ignore[attr-defined]
    return names_parameters(verb, {field.name for field in fields(cast(Any, request))}.intersection(COLUMNS))


def _signature(request: Callable[..., object], hints: Mapping[str, Any]) -> introspection.Signature:
    """That of the request, with types, and a new value where a field has a factory."""
    factories = {field.name: field.default_factory for field in fields(cast(Any, request))}  # columns have none
    parameters = [
        parameter.replace(
            annotation=hints[name],
            default=parameter.default if (factory := factories.get(name, MISSING)) is MISSING else factory(),
        )
        for name, parameter in introspection.signature(request).parameters.items()
    ]
    return introspection.Signature(parameters, return_annotation=hints["return"])


def _descriptions(request: Any) -> str:
    """The parameters in their order: as the `Attributes` of the request and of what it extends describe them, or as
    those of all verbs are described.
    """
    documents = (introspection.cleandoc(kind.__doc__ or "") for kind in request.__mro__[:-1])
    attributes = "\n".join(document.partition("Attributes\n----------\n")[2] for document in documents)
    described = {name: f"{name}\n    {text}\n" for name, text in _SHARED.items()}
    for heading, text in re.findall(r"^(\w.*\n)((?: .*\n?)+)", attributes, re.MULTILINE):
        described |= dict.fromkeys(heading.strip().split(", "), f"{heading}{text}".rstrip() + "\n")
    names = introspection.signature(request).parameters
    columns = ", ".join(name for name in names if name not in described)
    parts = dict.fromkeys(described[name] for name in names if name in described)
    return "".join([*parts, f"{columns}\n    {_COLUMNS}\n" if columns else ""])


fit = _verb("fit", FitRequest, run_fit)
apply = _verb("apply", ApplyRequest, run_apply)
compare = _verb("compare", CompareRequest, run_compare)
refit = _verb("refit", RefitRequest, run_refit)
evaluate = _verb("evaluate", EvaluateRequest, run_evaluate)
estimate = _verb("estimate", EstimateRequest, run_estimate)
explain = _verb("explain", ExplainRequest, run_explain)
fit_ensemble = _verb("fit_ensemble", EnsembleRequest, run_fit_ensemble)
apply_ensemble = _verb("apply_ensemble", EnsembleApplyRequest, run_apply_ensemble)
evaluate_ensembles = _verb("evaluate_ensembles", EnsembleEvaluateRequest, run_evaluate_ensembles)
decide = _verb("decide", DecideRequest, run_decide)
decompose = _verb("decompose", DecomposeRequest, run_decompose)
diagram = _verb("diagram", DiagramRequest, run_diagram)
load = names_parameters(run_load)
load_ensemble = names_parameters(run_load_ensemble)
inspect = names_parameters(run_inspect)
open_source = names_parameters(run_open_source)
for _function in (load, load_ensemble, inspect, open_source):
    _function.__module__ = "calcli"
