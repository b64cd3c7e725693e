"""Rows that are too many to be held: the limit is lowered, so that few are many."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import UsageError
from calcli.reports.schema import Report
from calcli.verbs import score_passes
from calcli.verbs.score_passes import _Growing
from tests.support.reports import REPORT_SCHEMA
from tests.support.samples import breeds, clicks


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_passes, "HELD", 1500)


def chunked(frame: pl.DataFrame, size: int = 700) -> pl.LazyFrame:
    return pl.concat([part.lazy() for part in frame.iter_slices(size)])


def both_ways(monkeypatch: pytest.MonkeyPatch, frame: pl.DataFrame, **how: object) -> tuple[Report, Report]:
    held = calcli.evaluate(chunked(frame), **how)
    monkeypatch.setattr(score_passes, "HELD", 1500)
    return held, calcli.evaluate(chunked(frame), **how)


@pytest.mark.parametrize(
    ("rows", "weight"),
    [
        (2000, "w"),
        (5000, None),
        pytest.param(2000, None, marks=pytest.mark.slow),
        pytest.param(5000, "w", marks=pytest.mark.slow),
    ],
)
def test_sums_say_what_held_rows_say(here: Path, monkeypatch, rows: int, weight: str | None) -> None:
    calcli.fit("train.parquet", method="isotonic", output="m")
    frame = clicks(rows, seed=1).with_columns(fine=1 / (1 + ((0.5 - pl.col("logit")) / 2).exp()))
    how = {"artifacts": ("m",), "scores": ("fine",), "flags": calcli.Flags(weight=weight)}
    held, summed = both_ways(monkeypatch, frame, **how)
    text = summed.definitions["auc"].approximation
    assert held.definitions["auc"].approximation is None
    assert "histogram" in text
    bound = float(text.rpartition(" ")[2])
    assert 0 < bound < 1e-3
    for score in ("raw", "m", "fine"):
        for metric in ("nll", "brier", "ece", "mvce"):
            assert summed.value(score, metric) == pytest.approx(held.value(score, metric), rel=1e-9)
            assert summed.definitions[metric] == held.definitions[metric]
        assert abs(summed.value(score, "auc") - held.value(score, "auc")) <= bound
    assert summed.data.label_rate == pytest.approx(held.data.label_rate)
    assert summed.data.weight_sum == pytest.approx(held.data.weight_sum)
    for one, other in zip(summed.differences, held.differences, strict=True):
        assert (one.score, one.metric) == (other.score, other.metric)
        if one.metric == "auc":
            assert abs(one.value - other.value) <= 2 * bound
        else:
            assert (one.value, one.lo, one.hi, one.p) == pytest.approx((other.value, other.lo, other.hi, other.p))
    assert summed.score("m").seconds.apply > 0
    REPORT_SCHEMA.validate(summed.to_json())


def test_more_classes_are_held_in_fewer_rows(here: Path, monkeypatch) -> None:
    frame = breeds()  # 1,500 rows of four classes
    held, summed = both_ways(monkeypatch, frame)
    assert "histogram" in summed.definitions["auc"].approximation
    bound = float(summed.definitions["auc"].approximation.rpartition(" ")[2])
    for metric in ("nll", "brier", "ece", "mvce", "auc"):
        near = {"abs": bound} if metric == "auc" else {"rel": 1e-9}
        one, other = (report.score("raw").metrics[metric] for report in (summed, held))
        assert one.value == pytest.approx(other.value, **near)
        if other.per_class is not None:
            assert list(one.per_class) == list(other.per_class)
            assert list(one.per_class.values()) == pytest.approx(list(other.per_class.values()), **near)


@pytest.mark.usefixtures("few")
def test_other_metrics_are_null_and_say_why(here: Path) -> None:
    report = calcli.evaluate(chunked(clicks(2000)), metrics="all")
    means = {"nll", "brier", "brier_sum", "d2_nll", "d2_brier", "accuracy", "net_benefit", "pud", "o_e"}
    gaps = {"ece", "rmsce", "mce", "classwise_ece", "mvce", "cece", "cece_mce", "cece_ada"}
    for name, value in report.score("raw").metrics.items():
        if name in {"auc", *means, *gaps}:
            assert value.value is not None
        else:
            assert value.value is None
            assert "all rows at once" in value.reason


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ({"by": ("age",)}, "by="),
        ({"bootstrap": 10}, "bootstrap="),
        ({"options": calcli.Options(bins="auto")}, "options=Options(bins='auto')"),
    ],
)
def test_what_needs_the_rows_is_refused(here: Path, how: dict, asked: str) -> None:
    with pytest.raises(UsageError, match=f"{re.escape(asked)} needs all rows at once, and more than 1,500 are"):
        calcli.evaluate(chunked(clicks(2000)), **how)
    calcli.evaluate(chunked(clicks(1500)), **how)


def test_arrays_grow_where_they_lie() -> None:
    grown: _Growing = _Growing(np.float64, (2,))
    rng = np.random.default_rng(0)
    parts = [rng.random((int(size), 2)) for size in rng.integers(0, 500, 40)]
    for part in parts:
        grown.append(part)
    np.testing.assert_array_equal(grown.whole(), np.concatenate(parts))
    assert len(grown.whole()) == grown.size
