"""The verbs as functions: what a notebook shows of them."""

from __future__ import annotations

import inspect
import pickle
import re
from dataclasses import MISSING, InitVar, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import calcli
from calcli.errors import ArtifactError, CalcliError, UsageError, alternatives
from calcli.models.requests import FitRequest, FitResult, RefitRequest
from calcli.verbs.apply import ApplyRequest, DecomposeRequest, EnsembleApplyRequest
from calcli.verbs.compare import CompareRequest
from calcli.verbs.compared_scores import EvaluateRequest
from calcli.verbs.decide import DecideRequest
from calcli.verbs.diagram import DiagramRequest
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.inspect import ExplainRequest
from calcli.verbs.uncertainty import EnsembleEvaluateRequest, EnsembleRequest

REQUESTS: dict[str, Any] = {
    "apply": ApplyRequest,
    "apply_ensemble": EnsembleApplyRequest,
    "compare": CompareRequest,
    "decide": DecideRequest,
    "decompose": DecomposeRequest,
    "diagram": DiagramRequest,
    "estimate": EstimateRequest,
    "evaluate": EvaluateRequest,
    "evaluate_ensembles": EnsembleEvaluateRequest,
    "explain": ExplainRequest,
    "fit": FitRequest,
    "fit_ensemble": EnsembleRequest,
    "refit": RefitRequest,
}
VERBS = pytest.mark.parametrize(("name", "request_type"), REQUESTS.items(), ids=REQUESTS)
FLAGS = inspect.signature(calcli.Flags).parameters
PUBLIC = [name for name in calcli.__all__ if name != "__version__"]


@VERBS
def test_a_signature_is_the_fields_of_the_request(name: str, request_type: Any) -> None:
    parameters = inspect.signature(getattr(calcli, name)).parameters
    hints = get_type_hints(request_type)
    assert list(parameters) == list(inspect.signature(request_type).parameters)
    columns = set(FLAGS) if "flags" in parameters else set()
    assert parameters.keys() == {field.name for field in fields(request_type)} | columns
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
    assert sorted(described) == sorted(inspect.signature(request_type).parameters)


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


def rows(count: int = 1500) -> pl.DataFrame:
    """Over-confident scores under names that nobody would look for."""
    rng = np.random.default_rng(0)
    odds = rng.normal(0, 2, count)
    happened = rng.random(count) < 1 / (1 + np.exp(-odds / 2))
    return pl.DataFrame({"s": 1 / (1 + np.exp(-odds)), "t": happened.astype(int), "x": rng.normal(size=count)})


NAMED: Any = {"label": "t", "prob": "s"}


def fitted(method: str = "platt", **settings: Any) -> Any:
    return calcli.fit(rows(), method=method, holdout="0.2", **NAMED, **settings).model


@pytest.mark.parametrize("column", sorted(set(FLAGS) - {"features", "ignore", "classes", "weight_kind"}))
def test_a_column_named_by_itself_is_that_of_the_flags(column: str) -> None:
    value = ("c", "d") if column in {"categories", "multi", "numbers"} else "c"
    given: Any = {column: value} | {"positives": {"trials": "n"}, "descending": {"rank": "r"}}.get(column, {})
    for kind in (FitRequest, EvaluateRequest, ApplyRequest, DecideRequest, DiagramRequest, CompareRequest):
        needed: Any = {"data": "d"} | ({"artifact": "a"} if kind is ApplyRequest else {})
        assert kind(**needed, **given).flags == calcli.Flags(**given)


def test_a_column_named_by_itself_replaces_that_of_the_flags_alone() -> None:
    flags = calcli.Flags(label="a", prob="b", classes=("0", "1"))
    assert EvaluateRequest("d", flags=flags, label="t").flags == calcli.Flags(label="t", prob="b", classes=("0", "1"))
    assert DiagramRequest("d", classes=("1",)).flags == calcli.Flags()  # there it says whose curve is drawn
    report = calcli.evaluate(rows(), **NAMED)
    assert report.to_json() == calcli.evaluate(rows(), flags=calcli.Flags(**NAMED)).to_json()


def choices() -> list[tuple[Any, str]]:
    """Every field of a request, of the flags and of the options whose type is a few words or None."""
    found = []
    for kind in (*REQUESTS.values(), calcli.Flags, calcli.Options):
        for name, hint in get_type_hints(kind).items():
            parts = [one for one in get_args(hint) or () if one is not type(None)]
            if not isinstance(hint, InitVar) and "Literal[" in str(hint) and int not in parts:
                assert parts or get_origin(hint)
                found.append((kind, name))
    return found


def test_there_are_choices() -> None:
    found = {(kind.__name__, name) for kind, name in choices()}
    assert {
        ("ApplyRequest", "scale"),
        ("FitRequest", "bad_rows"),
        ("RefitRequest", "engine"),
        ("Flags", "weight_kind"),
        ("Options", "binning"),
        ("DecideRequest", "set_score"),
        ("EnsembleRequest", "task"),
        ("DiagramRequest", "bands"),
    } <= found
    assert len(found) > 25


@pytest.mark.parametrize(("kind", "name"), choices(), ids=lambda one: getattr(one, "__name__", one))
@pytest.mark.parametrize("value", ["Importance", "probability", "", 0, ["prob"]])
def test_a_choice_is_one_of_its_words(kind: Any, name: str, value: Any) -> None:
    parameters = inspect.signature(kind).parameters.values()
    needed = {one.name: ("d",) if one.name == "ensembles" else "d" for one in parameters if one.default is one.empty}
    words = str(get_type_hints(kind)[name]).split("'")[1::2]
    for word in words:
        assert getattr(kind(**needed | {name: word}), name) == word
    with pytest.raises(UsageError, match=f"no {name} .*available: {', '.join(words)}$"):
        kind(**needed | {name: value})


@pytest.mark.parametrize(
    ("verb", "given", "text"),
    [
        (calcli.fit, {"holdout": 0.1}, "holdout is 0.1; it takes text"),
        (calcli.fit, {"method": None}, "method is None; it takes text"),
        (calcli.fit, {"method": ["platt"]}, r"method is \['platt'\]; it takes text"),
        (calcli.compare, {"methods": 3}, "methods is 3; it takes text, or a list or a tuple"),
        (calcli.fit, {"seed": None}, "seed is None; it takes a whole number"),
        (calcli.fit, {"features": "x"}, "features is 'x'; it takes a list or a tuple"),
        (calcli.fit, {"params": None}, "params is None; it takes a dict"),
        (calcli.fit, {"sides": "m.cbm"}, r"sides is 'm.cbm'; it takes calcli.SideFiles\(...\)"),
        (calcli.evaluate, {"flags": {"label": "t"}}, r"flags is {'label': 't'}; it takes calcli.Flags\(...\)"),
        (calcli.evaluate, {"seed": -1}, "seed is -1; it takes a whole number, 0 or more"),
        (calcli.evaluate, {"bootstrap": -1}, "bootstrap is -1; it takes a whole number, 0 or more"),
        (calcli.evaluate, {"artifacts": "clicks.platt"}, "artifacts is 'clicks.platt'; it takes a list or a tuple"),
        (calcli.evaluate, {"by": pl.DataFrame({"x": [1]})}, r"by is shape: \(1, 1\) .*…; it takes a list"),
    ],
)
def test_a_value_of_another_type_is_refused_in_a_line(verb: Any, given: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text) as refused:
        verb(rows(), **NAMED, **given)
    assert "\n" not in str(refused.value)


def test_names_of_methods_and_metrics_may_be_a_list() -> None:
    listed, text = (
        calcli.compare(rows(300), methods=methods, metrics=metrics, **NAMED).report
        for methods, metrics in ((["platt", "beta"], ["nll", "ece"]), ("platt,beta", "nll,ece"))
    )
    assert [one.metrics for one in listed.scores] == [one.metrics for one in text.scores]


def test_a_refit_measures_what_a_list_named(tmp_path: Path) -> None:
    model = fitted(metrics=["nll", "ece"], output=tmp_path / "kept")
    measured = calcli.refit(model, rows(), guard="brier").report.scores[0].metrics
    assert list(measured) == ["nll", "ece", "brier"]


def test_several_names_are_a_sequence_for_type_checkers() -> None:
    hints = [hint for kind in (*REQUESTS.values(), calcli.Flags) for hint in get_type_hints(kind).values()]
    assert tuple[str, ...] not in {one for hint in hints for one in alternatives(hint)}


def test_a_model_and_a_report_fit_a_line() -> None:
    result: Any = calcli.fit(rows(), method="platt", holdout="0.2", metrics="nll", **NAMED)
    assert repr(result.model) == "CalibratorModel('platt', method='platt', reads=['s'])"
    values = {one.name: one.metrics["nll"].value for one in result.report.scores}
    assert repr(result.report) == f"Report('fit', rows=1500, nll={values})"
    wide = rows(300).with_columns(pl.col("x").shuffle(seed).alias(f"x{seed}") for seed in range(40))
    several: Any = calcli.fit(wide, method="mbct", holdout="none", **NAMED).model
    assert repr(several).endswith("'x6', 'x7'] and 32 more)")


def test_a_report_names_what_it_has() -> None:
    report: Any = calcli.fit(rows(), method="platt", holdout="0.2", metrics="nll", **NAMED).report
    with pytest.raises(UsageError, match="no score 'plat'; did you mean 'platt'"):
        report.value("plat", "nll")
    with pytest.raises(UsageError, match="no metric 'ece'; available: nll"):
        report.value("platt", "ece")


def test_a_result_is_shown_in_a_few_lines() -> None:
    model = fitted()
    scored, decided = calcli.apply(model, rows()), calcli.decide(rows(), artifact=model, cost_fp=1, cost_fn=5, **NAMED)
    assert "rows=1500, rows_bad=0, columns=('calibrated',)" in repr(scored)
    assert "frame=<DataFrame of 1,500>" in repr(scored)
    assert "scores=<tuple of 2>" in repr(decided)
    assert repr(decided.choice.why) in repr(decided.choice)
    for result in (scored, decided, calcli.inspect(model), calcli.diagram(rows(), by=["x"], **NAMED)):
        assert len(repr(result)) < 600


@pytest.mark.parametrize("call", [lambda: calcli.load(None), lambda: calcli.apply(rows(), fitted())])
def test_what_is_no_path_is_named(call: Any) -> None:
    with pytest.raises(UsageError, match=r"a (NoneType|DataFrame) stands where a path is expected"):
        call()


def test_a_misspelt_parameter_is_an_error_of_the_verb() -> None:
    with pytest.raises(TypeError, match=r"^calcli\.fit: got an unexpected keyword argument 'lable'; see help"):
        calcli.fit(rows(), lable="t")  # type: ignore[call-arg]


def test_a_model_stands_where_its_directory_may(tmp_path: Path) -> None:
    path, table = tmp_path / "kept=here", rows()
    model = fitted(output=path)
    again = calcli.load(path)
    for number, given in enumerate((path, model, again)):
        measured = calcli.evaluate(table, artifacts=(given,), **NAMED)
        assert [score.name for score in measured.scores] == ["raw", "kept=here"]
        assert measured.scores[1].metrics == calcli.evaluate(table, artifacts=(f"a={path}",), **NAMED).scores[1].metrics
        assert calcli.apply(given, table).frame.equals(calcli.apply(str(path), table).frame)
        assert calcli.diagram(table, artifacts=(given,), **NAMED).curves[1].score == "kept=here"
        assert calcli.decide(table, artifact=given, cost_fp=1.0, cost_fn=3.0, **NAMED).model.method == "platt"
        assert calcli.inspect(given).path == path
        assert calcli.evaluate(table, drift=given, state=tmp_path / f"{number}.json", **NAMED).drift is not None
        assert calcli.load(given).sha256 in (None, again.sha256)
    assert calcli.refit(model, table).path == path


def test_a_model_that_is_kept_nowhere_is_called_by_its_method() -> None:
    table, model = rows(), fitted()
    report = calcli.evaluate(table, artifacts=(model, fitted("beta")), **NAMED)
    assert [score.name for score in report.scores] == ["raw", "platt", "beta"]
    with pytest.raises(UsageError, match="two scores are named 'platt'"):
        calcli.evaluate(table, artifacts=(model, fitted()), **NAMED)
    for needs_a_place in (lambda: calcli.refit(model, table), lambda: calcli.evaluate(table, drift=model, **NAMED)):
        with pytest.raises(UsageError, match=r"kept in no directory; keep it first: model\.save\(PATH\)"):
            needs_a_place()


def test_an_ensemble_stands_where_its_directory_may() -> None:
    table = rows()
    settings: Any = {"label": "t", "ignore": ("s",), "members": 2, "trees": 5}
    ensemble = calcli.fit_ensemble(table, **settings).model
    frame = calcli.apply_ensemble(ensemble, table).frame
    assert frame is not None
    assert frame.columns[:4] == ["s", "t", "x", "uncertainty_mean"]
    assert calcli.evaluate_ensembles(table, (ensemble,), label="t").scores[0].name == "sglb"
    for not_for_it in (calcli.apply, calcli.explain):
        with pytest.raises(ArtifactError, match="not a calibrator"):
            not_for_it(ensemble, table)
    with pytest.raises(ArtifactError, match="not an ensemble"):
        calcli.apply_ensemble(fitted(), table)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pl.Series, pd.Series])
def test_arrays_are_scores(kind: Any) -> None:
    model, scores = fitted(), [0.1, 0.9, 0.5]
    np.testing.assert_array_equal(model.predict(kind(scores)), model.predict(pl.DataFrame({"s": scores})))


def test_arrays_are_refused_where_they_are_no_scores() -> None:
    model = fitted()
    for wrong in ([1.5, -2.0], [0.1, float("nan")], [], [[0.5, 0.5]]):
        with pytest.raises(CalcliError):
            model.predict(wrong)
    with pytest.raises(UsageError, match="reads features too: x; predict a frame that has them"):
        fitted("mbct").predict([0.1])


def test_without_an_output_the_result_has_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table, model = rows(), fitted()
    table.write_csv("rows.csv")
    for data in (table, table.to_pandas(), table.to_arrow(), "rows.csv"):
        result = calcli.apply(model, data, extra=True)
        written = calcli.apply(model, table, "scored.parquet", extra=True)
        assert written.frame is None
        assert result.output == ""
        assert_frame_equal(result.frame, pl.read_parquet("scored.parquet"), check_exact=True)
        assert (result.rows, result.columns) == (written.rows, written.columns)
    assert calcli.apply(model, table, dry_run=True).frame is None
    with_gap = table.with_columns(s=pl.when(pl.int_range(pl.len()) != 3).then("s"))
    frame = calcli.apply(model, with_gap, bad_rows="null").frame
    assert frame is not None
    assert frame["calibrated"].is_null().arg_true().to_list() == [3]
    with pytest.raises(CalcliError, match="1 bad row"):
        calcli.apply(model, with_gap)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["rows.csv", "scored.parquet"]


def test_decompose_without_an_output_gives_the_table() -> None:
    members = pl.DataFrame({"m_0": [0.2, 0.4], "m_1": [0.3, 0.4]})
    frame = calcli.decompose(members, "m").frame
    assert frame is not None
    np.testing.assert_allclose(frame["uncertainty_mean"], [0.25, 0.4])
