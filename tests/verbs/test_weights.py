"""Laws of weights, through the verbs: the unit of importance weights changes nothing, counts are rows."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import DataError, UsageError
from calcli.tables.binding_types import Flags
from calcli.verbs.compared_scores import EvaluateRequest
from calcli.verbs.evaluate import evaluate
from tests.support.listener import Recorder

ROWS = 300
WEIGHTED = Flags(weight="w", features=("f",))
UNITS = pytest.mark.parametrize("unit", [7.0, 1e305, 1e-305])
HETEROGENEOUS = pytest.param("heterogeneous", marks=pytest.mark.slow)


def table(unit: float = 1.0) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=ROWS)
    label = (rng.random(ROWS) < 1 / (1 + np.exp(-truth))).astype(int)
    weight = rng.gamma(2.0, size=ROWS) * unit
    return pl.DataFrame({"logit": 2 * truth, "f": rng.normal(size=ROWS), "label": label, "w": weight})


def numbers(document: Any) -> list[float]:
    """All numbers of a JSON document, in order."""
    if isinstance(document, dict):
        return [number for key in sorted(document) if key != "seconds" for number in numbers(document[key])]
    if isinstance(document, list):
        return [number for part in document for number in numbers(part)]
    return [float(document)] if isinstance(document, int | float) else []


@cache
def fitted(method: str) -> Any:
    return calcli.fit(table(), method=method, flags=WEIGHTED)


@pytest.mark.slow
@UNITS
@pytest.mark.parametrize("method", ["platt", "sms", "isotonic", "bbq", "venn-abers", "spline", HETEROGENEOUS])
def test_the_unit_of_weights_changes_no_fit(method: str, unit: float) -> None:
    one, other = fitted(method), calcli.fit(table(unit), method=method, flags=WEIGHTED)
    np.testing.assert_allclose(other.model.predict(table()), one.model.predict(table()), rtol=1e-6)
    np.testing.assert_allclose(numbers(other.report.to_json()), numbers(one.report.to_json()), rtol=1e-6, atol=1e-9)


@UNITS
def test_the_unit_of_weights_changes_no_metric_and_no_curve(unit: float) -> None:
    one, other = (calcli.evaluate(table(each), metrics="all", flags=WEIGHTED).to_json() for each in (1.0, unit))
    np.testing.assert_allclose(numbers(other), numbers(one), rtol=1e-6, atol=1e-9)
    curves = [calcli.diagram(table(each), kind="smooth", flags=WEIGHTED).to_json() for each in (1.0, unit)]
    np.testing.assert_allclose(*map(numbers, curves), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("weight", [1e308, 5e-324])
def test_equal_weights_are_no_weights(weight: float) -> None:
    equal = table().with_columns(w=pl.lit(weight))
    one, other = (calcli.fit(equal.drop("w"), method="beta"), calcli.fit(equal, method="beta", flags=WEIGHTED))
    np.testing.assert_allclose(other.model.predict(table()), one.model.predict(table()), rtol=1e-9)
    plain, weighted = calcli.evaluate(equal.drop("w")), calcli.evaluate(equal, flags=WEIGHTED)
    np.testing.assert_allclose(*(numbers(each.to_json()["scores"]) for each in (weighted, plain)), rtol=1e-9)


COUNTED = Flags(weight="w", weight_kind="counts", features=("f",))
PLAIN = Flags(features=("f",))


def counted() -> tuple[pl.DataFrame, pl.DataFrame]:
    """A table with counts, and the table whose rows they count."""
    rng = np.random.default_rng(1)
    frame = table().with_columns(w=pl.Series(rng.integers(0, 5, ROWS)), user=pl.Series(rng.integers(0, 30, ROWS)))
    return frame, frame.select(pl.exclude("w").repeat_by("w").explode())


def told(report: Any) -> dict[str, Any]:
    """A report as JSON, without what says that there were weights."""
    document = report.to_json()
    return {key: value for key, value in document.items() if key not in ("binding", "fit")}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["platt", "isotonic", "bbq", "spline", "venn-abers", HETEROGENEOUS])
def test_counts_are_the_rows_they_count_in_every_fit(method: str) -> None:
    frame, rows = counted()
    one = calcli.fit(frame, method=method, flags=COUNTED)
    other = calcli.fit(rows, method=method, flags=PLAIN)
    np.testing.assert_array_equal(one.model.predict(table()), other.model.predict(table()))
    assert told(one.report) | {"scores": 0} == told(other.report) | {"scores": 0}
    assert [score.metrics for score in one.report.scores] == [score.metrics for score in other.report.scores]


@pytest.mark.slow
def test_counts_are_the_rows_they_count_in_every_number() -> None:
    """Values, intervals by rows and by users, tests, groups, curves."""
    frame, rows = counted()
    for more in ({}, {"bootstrap": 20}, {"bootstrap": 20, "resample_by": "user"}):
        asked: dict[str, Any] = {"metrics": "all", "by": ("user",), **more}
        assert told(calcli.evaluate(frame, flags=COUNTED, **asked)) == told(calcli.evaluate(rows, flags=PLAIN, **asked))
    assert calcli.diagram(frame, flags=COUNTED).curves == calcli.diagram(rows, flags=PLAIN).curves
    one, other = (
        calcli.compare(data, methods="platt,isotonic", flags=flags).report
        for data, flags in ((frame, COUNTED), (rows, PLAIN))
    )
    assert [score.metrics for score in one.scores] == [score.metrics for score in other.scores]
    assert one.differences == other.differences


def test_bad_rows_and_counts_go_together() -> None:
    frame, _ = counted()
    frame = frame.with_columns(logit=pl.when(pl.int_range(pl.len()) % 7 > 0).then("logit"))
    rows = frame.select(pl.exclude("w").repeat_by("w").explode()).drop_nulls("logit")
    one = calcli.evaluate(frame, metrics="nll", by=("user",), flags=COUNTED, bad_rows="null")
    other = calcli.evaluate(rows, metrics="nll", by=("user",), flags=PLAIN)
    assert (one.scores, one.groups, one.data.weight_sum) == (other.scores, other.groups, len(rows))


def test_the_kind_is_kept_and_a_refit_takes_it_again(here: Path) -> None:
    frame, rows = counted()
    fitted = calcli.fit(frame, output="kept", method="platt", flags=COUNTED)
    assert fitted.model.manifest.binding["weight_kind"] == "counts"
    more = calcli.refit("kept", pl.concat([frame, frame])).report
    assert more.data.rows == 2 * len(rows)
    assert calcli.evaluate(frame, artifacts=("kept",)).data.rows == len(rows)


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ([1.0, 0.5, 2.0], "are not all whole numbers; weights of any size: weight_kind='importance'"),
        ([0.0, 0.0, 0.0], "add up to 0"),
        ([1e300, 1.0, 1.0], "the maximum is 100,000,000"),
        ([1e8, 1.0, 0.0], "add up to 100,000,001 rows; the maximum is 100,000,000"),
    ],
)
def test_what_is_no_count_is_refused(weight: list[float], said: str) -> None:
    frame = pl.DataFrame({"prob": [0.1, 0.8, 0.4], "label": [0, 1, 0], "w": weight})
    with pytest.raises(DataError) as error:
        calcli.evaluate(frame, flags=Flags(weight="w", weight_kind="counts"))
    assert said in str(error.value)


def test_a_kind_without_weights_is_refused() -> None:
    with pytest.raises(UsageError, match="add weight='COLUMN'"):
        calcli.evaluate(table(), flags=Flags(weight_kind="counts"))


@pytest.mark.parametrize(("weight", "hint"), [([1.0, 10.0], True), ([1.5, 10.0], False)])
def test_one_line_says_what_weights_were_taken_for(weight: list[float], hint: bool) -> None:
    frame = pl.DataFrame({"prob": [0.1, 0.8] * 9, "label": [0, 1, 1] * 6, "w": weight * 9})
    heard = Recorder()
    evaluate(EvaluateRequest(frame, flags=Flags(weight="w")), heard)
    (note,) = (note for note in heard.notes if "'w'" in note)
    assert "holds importance weights" in note
    assert ("--weight-kind counts" in note) == hint
