"""Soft labels: a share y between 0 and 1 is two rows, of weight y with class 1 and of 1 - y with class 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import CalcliError
from calcli.reports.schema import Report
from calcli.spark.engine import SparkTable
from calcli.tables.binding_types import Binding, Score

RNG = np.random.default_rng(0)
ROWS = 300
LOGIT = RNG.normal(-0.5, 1.5, ROWS)
SHARE = RNG.binomial(5, 1 / (1 + np.exp(-0.6 * LOGIT - RNG.normal(0, 1, ROWS)))) / 5
SOFT = pl.DataFrame({"y": SHARE, "logit": LOGIT, "place": RNG.choice(["a", "b"], ROWS), "w": RNG.uniform(0.5, 2, ROWS)})
SOFT = SOFT.with_columns(day=np.sort(RNG.integers(0, 40, ROWS)), cost=RNG.uniform(1, 2, ROWS))
COLUMNS = {"features": ("place",)}


def halves(table: pl.DataFrame, weight: pl.Expr) -> pl.DataFrame:
    """Two weighted rows for each."""
    rows = table.with_row_index("row")
    one = rows.with_columns(y=pl.lit(1), half=weight * pl.col("y"))
    other = rows.with_columns(y=pl.lit(0), half=weight * (1.0 - pl.col("y")))
    return pl.concat([one, other]).sort("row", maintain_order=True)


HALVES = halves(SOFT, pl.lit(1.0))
BY_ROW = {"weight": "half", "resample_by": "row", **COLUMNS}


def numbers(report: Report, rows_of_each: int = 1) -> dict[str, object]:
    """The numbers of a report, in which so many rows of a group are counted as one; bands know which rows are one."""
    whole = report.to_json()
    whole["curves"] = {
        kind: [{**point, "lo": None, "hi": None} for point in points] for kind, points in whole["curves"].items()
    }
    for group in whole["groups"]:
        group["rows"] //= rows_of_each
    scores = {score["name"]: score["metrics"] for score in whole["scores"]}
    kept = ("differences", "groups", "curves", "definitions", "decisions", "drift")
    return {"scores": scores, **{name: whole[name] for name in kept}}


@pytest.mark.parametrize(
    "method", ["platt", "isotonic", "spline", "effects", pytest.param("auto", marks=pytest.mark.slow)]
)
def test_a_fit_is_that_of_two_weighted_rows_for_each(method: str) -> None:
    asked: dict[str, Any] = {"method": method, "holdout": "cv:2"}
    ours, own = calcli.fit(SOFT, **asked, **COLUMNS), calcli.fit(HALVES, **asked, **BY_ROW)
    for name, array in own.model.calibrator.state.arrays.items():
        np.testing.assert_array_equal(ours.model.calibrator.state.arrays[name], array)
    assert numbers(ours.report) == numbers(own.report)
    assert (ours.report.data.rows, own.report.data.rows) == (ROWS, 2 * ROWS)


def test_a_report_is_that_of_two_weighted_rows_for_each() -> None:
    asked: dict[str, Any] = {"by": ("place",), "metrics": ("all",), "bootstrap": 5, "clusters_from": "place"}
    ours = calcli.evaluate(SOFT, **asked)
    assert numbers(ours) == numbers(calcli.evaluate(HALVES, weight="half", resample_by="row", **asked), 2)
    weighed = calcli.evaluate(SOFT, weight="w", **asked)
    own = calcli.evaluate(halves(SOFT, pl.col("w")), weight="half", resample_by="row", **asked)
    assert numbers(weighed) == numbers(own, 2)


def test_scores_are_compared_and_decisions_made_by_row() -> None:
    asked: dict[str, Any] = {"methods": "platt,isotonic", "folds": 3}
    ours, own = calcli.compare(SOFT, **asked, **COLUMNS), calcli.compare(HALVES, **asked, **BY_ROW)
    assert numbers(ours.report) == numbers(own.report)
    goal: dict[str, Any] = {"target": "precision >= 0.5", "bootstrap": 20}
    decided = [
        calcli.decide(SOFT, **goal, features=()),
        calcli.decide(HALVES, **goal, weight="half", resample_by="row", features=()),
    ]
    one, other = (found.to_json() for found in decided)
    assert all(one[name] == other[name] for name in ("policy", "chosen", "options", "bound", "curves"))
    assert one["chosen"] is not None


def test_the_mean_of_the_labels_has_the_interval_of_a_mean_over_rows() -> None:
    """The difference of two log-losses is a mean over rows, each of which has one number."""
    table = SOFT.with_columns(prob=1 / (1 + np.exp(-LOGIT)), other=1 / (1 + np.exp(-0.6 * LOGIT))).drop("logit")
    (found,) = calcli.evaluate(table, scores=("other",), metrics=("nll",)).differences
    first, second = table["prob"].to_numpy(), table["other"].to_numpy()
    gain = SHARE * np.log(first / second) + (1 - SHARE) * np.log((1 - first) / (1 - second))
    assert found.value == pytest.approx(gain.mean(), rel=1e-9)
    assert found.lo is not None
    assert found.hi is not None
    assert (found.hi - found.lo) / 2 == pytest.approx(1.97 * gain.std(ddof=1) / np.sqrt(ROWS), rel=0.02)


def test_in_order_of_time_intervals_are_by_row_too() -> None:
    ours = calcli.fit(SOFT, method="platt", order_by="day", features=())
    own = calcli.fit(HALVES, method="platt", order_by="day", weight="half", features=())
    assert [score.metrics["nll"].value for score in ours.report.scores] == [
        score.metrics["nll"].value for score in own.report.scores
    ]
    (one,), (other,) = ([d for d in each.report.differences if d.metric == "nll"] for each in (ours, own))
    assert one.lo != other.lo


def test_a_share_of_the_positive_class_is_of_the_other_class_too() -> None:
    turned = calcli.evaluate(SOFT.with_columns(logit=-pl.col("logit")), positive="0", metrics=("nll", "auc"))
    asked = calcli.evaluate(SOFT, metrics=("nll", "auc"))
    for name in ("nll", "auc"):
        assert turned.scores[0].metrics[name].value == pytest.approx(asked.scores[0].metrics[name].value, rel=1e-12)


def test_an_artifact_of_soft_labels_is_measured_on_hard_ones(tmp_path: Path) -> None:
    calcli.fit(SOFT, method="platt", output=tmp_path / "kept", **COLUMNS)
    hard = SOFT.with_columns(y=(pl.col("y") > 0.5).cast(pl.Float64))
    assert "soft" not in calcli.evaluate(hard, artifacts=(tmp_path / "kept",)).binding
    assert calcli.evaluate(SOFT, artifacts=(tmp_path / "kept",)).binding["soft"]
    assert calcli.apply(tmp_path / "kept", SOFT.drop("y")).frame.height == ROWS


def test_a_picture_is_that_of_two_weighted_rows_for_each() -> None:
    ours, own = calcli.diagram(SOFT), calcli.diagram(HALVES, weight="half")
    (one,), (other,) = ours.curves, own.curves
    assert [(at.x, at.y, at.n) for at in one.points] == [(at.x, at.y, at.n) for at in other.points]
    assert one.diagnosis != other.diagnosis  # it knows which two rows are one


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("reliability", {"binning": "mass"}),
        ("reliability", {"by": ("place",)}),
        ("corp", {"by": ("place",)}),
        *((kind, {"weight": "w"}) for kind in ("reliability", "corp", "smooth", "rejection")),
    ],
)
def test_the_band_of_a_calibrated_score_is_that_of_as_many_rows_with_hard_labels(
    kind: str, more: dict[str, Any]
) -> None:
    """Such a band is of probabilities and numbers of rows alone."""
    hard = SOFT.with_columns(y=(pl.col("y") > 0.5).cast(pl.Int8))
    ours, own = (calcli.diagram(table, kind=kind, **COLUMNS, **more).curves for table in (SOFT, hard))
    bands = [{round(at.x, 9): (at.lo, at.hi) for curve in curves for at in curve.points} for curves in (ours, own)]
    same = bands[0].keys() & bands[1].keys()  # the corners of isotonic curves differ
    assert len(same) >= 10
    for x in same:
        assert bands[0][x] == pytest.approx(bands[1][x], abs=1e-9)


def test_text_and_many_values_are_soft_labels_too(tmp_path: Path) -> None:
    SOFT.write_csv(tmp_path / "soft.csv")
    assert numbers(calcli.evaluate(tmp_path / "soft.csv")) == numbers(calcli.evaluate(SOFT))
    many = pl.DataFrame({"y": np.linspace(0, 1, 11_000), "prob": np.linspace(0.1, 0.9, 11_000)})
    assert calcli.evaluate(many, metrics=("nll",)).binding["soft"]


def test_floats_that_are_all_0_or_1_are_classes() -> None:
    hard = SOFT.with_columns(y=(pl.col("y") > 0.5).cast(pl.Float64))
    assert "soft" not in calcli.evaluate(hard, metrics=("nll",)).binding


def test_bad_labels_are_left_out_or_refused() -> None:
    labels = pl.Series([None, *SHARE[1:]])
    with pytest.raises(CalcliError, match=r"the label is missing \(first in row 1\)"):
        calcli.evaluate(SOFT.with_columns(y=labels))
    found = calcli.evaluate(SOFT.with_columns(y=labels), bad_rows="null", metrics=("nll",), by=("place",))
    assert numbers(found) == numbers(calcli.evaluate(SOFT[1:], metrics=("nll",), by=("place",)))
    many = pl.DataFrame({"y": np.append(np.linspace(0, 1, 60_000), 1.5), "prob": np.full(60_001, 0.5)})
    with pytest.raises(CalcliError, match=r"1\.5|outside \[0, 1\]"):
        calcli.evaluate(many)


@pytest.mark.parametrize(
    ("change", "asked", "words"),
    [
        ({"y": SHARE * 3}, {}, "looks like a regression target"),
        ({"y": SHARE - 0.1}, {}, "looks like a regression target"),
        ({"n": 2}, {"weight": "n", "weight_kind": "counts"}, "counts rows, which have a label each"),
    ],
)
def test_what_is_no_soft_label_is_refused(change: dict[str, Any], asked: dict[str, Any], words: str) -> None:
    with pytest.raises(CalcliError, match=words):
        calcli.evaluate(
            SOFT.with_columns(**{k: pl.lit(v) if k == "n" else pl.Series(v) for k, v in change.items()}), **asked
        )


def test_estimates_are_of_classes() -> None:
    with pytest.raises(CalcliError, match="shares between 0 and 1, and not classes"):
        calcli.estimate(SOFT, logit="logit")


def test_a_cluster_says_that_it_does_not_read_them() -> None:
    binding = Binding("y", "float", (0, 1), 1, Score("prob", ("p",)), soft=True)
    with pytest.raises(CalcliError, match="--engine spark does not read soft labels"):
        SparkTable(cast("Any", None), "days").with_weight_scale(binding)


def test_a_word_among_shares_is_named_by_its_row(tmp_path: Path) -> None:
    """Words with few shares are classes, as before."""
    shares = [f"{k / 50:.2f}" for k in range(50)]
    path = tmp_path / "rows.csv"
    path.write_text("label,prob\n" + "".join(f"{y},0.{k:03}\n" for k, y in enumerate([*shares, "maybe", *shares])))
    with pytest.raises(CalcliError, match="the label 'label' is 'maybe' in row 51, among shares between 0 and 1"):
        calcli.evaluate(path)
    path.write_text("label,prob\n0.5,0.1\nmaybe,0.2\n0.5,0.3\nmaybe,0.4\n")
    assert calcli.evaluate(path, positive="maybe", metrics="nll").binding["classes"] == ["0.5", "maybe"]
