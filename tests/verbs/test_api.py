"""The verbs as functions: what a notebook shows of them."""

from __future__ import annotations

import inspect
import pickle
import re
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import pytest

import calcli
from calcli.models.requests import FitRequest, FitResult, RefitRequest
from calcli.verbs.apply import ApplyRequest, DecomposeRequest, EnsembleApplyRequest
from calcli.verbs.compare import CompareRequest
from calcli.verbs.compared_scores import EvaluateRequest
from calcli.verbs.decide import DecideRequest
from calcli.verbs.diagram import DiagramRequest
from calcli.verbs.inspect import ExplainRequest
from calcli.verbs.uncertainty import EnsembleEvaluateRequest, EnsembleRequest

REQUESTS: dict[str, Any] = {
    "apply": ApplyRequest,
    "apply_ensemble": EnsembleApplyRequest,
    "compare": CompareRequest,
    "decide": DecideRequest,
    "decompose": DecomposeRequest,
    "diagram": DiagramRequest,
    "evaluate": EvaluateRequest,
    "evaluate_ensembles": EnsembleEvaluateRequest,
    "explain": ExplainRequest,
    "fit": FitRequest,
    "fit_ensemble": EnsembleRequest,
    "refit": RefitRequest,
}
VERBS = pytest.mark.parametrize(("name", "request_type"), REQUESTS.items(), ids=REQUESTS)
PUBLIC = [name for name in calcli.__all__ if name != "__version__"]


@VERBS
def test_a_signature_is_the_fields_of_the_request(name: str, request_type: Any) -> None:
    parameters = inspect.signature(getattr(calcli, name)).parameters
    hints = get_type_hints(request_type)
    assert list(parameters) == list(inspect.signature(request_type).parameters)
    assert parameters.keys() == {field.name for field in fields(request_type)}
    for field in fields(request_type):
        parameter = parameters[field.name]
        assert parameter.annotation == hints[field.name]
        if field.default_factory is not MISSING:
            assert parameter.default == field.default_factory()
        else:
            assert parameter.default == (parameter.empty if field.default is MISSING else field.default)


@VERBS
def test_every_parameter_is_described(name: str, request_type: Any) -> None:
    text = inspect.getdoc(getattr(calcli, name)) or ""
    entries = re.findall(r"^([a-z_]+(?:, [a-z_]+)*)\n    (\S.*)$", text, re.MULTILINE)
    described = [parameter for names, _ in entries for parameter in names.split(", ")]
    assert sorted(described) == sorted(field.name for field in fields(request_type))


@VERBS
def test_a_verb_is_known_by_its_public_name(name: str, request_type: Any) -> None:
    verb = getattr(calcli, name)
    assert (verb.__module__, verb.__qualname__, verb.__name__) == ("calcli", name, name)
    assert pickle.loads(pickle.dumps(verb)) is verb


def test_no_public_function_hides_its_parameters() -> None:
    functions = {name: getattr(calcli, name) for name in PUBLIC if inspect.isfunction(getattr(calcli, name))}
    assert functions.keys() - REQUESTS == {
        "inspect",
        "load",
        "load_ensemble",
        "open_source",
        "reliability_diagram",
        "storage_options",
        "webpage",
    }
    for name, function in functions.items():
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
        assert kinds.isdisjoint({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}), name
        assert inspect.getdoc(function), name
    assert inspect.signature(calcli.fit).return_annotation is FitResult


def test_every_public_name_is_there_and_listed() -> None:
    assert sorted(dir(calcli)) == sorted(calcli.__all__)
    assert all(hasattr(calcli, name) for name in calcli.__all__)
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        _ = calcli.fitt  # type: ignore[attr-defined]
