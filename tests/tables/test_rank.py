"""Numbers that only rank: grades, stars, distances."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

import calcli
from calcli.errors import CalcliError
from calcli.spark.engine import SparkTable
from calcli.tables.binding_types import Binding, Score
from calcli.verbs.export import ExportRequest, export, export_onnx
from tests.support.export import applied, in_duckdb

RNG = np.random.default_rng(0)
ROWS = 3000
SIZE = RNG.exponential(3.0, ROWS)
TRUTH = expit(2.0 * np.log1p(SIZE) - 3.0)
LABEL = (RNG.random(ROWS) < TRUTH).astype(np.int64)
TABLE = pl.DataFrame({"label": LABEL, "size": SIZE, "near": -SIZE})
ALONE: dict[str, Any] = {"rank": "size", "features": ()}


def test_the_curve_is_found() -> None:
    found = calcli.fit(TABLE, method="platt", holdout="none", **ALONE)
    prob = found.model.predict(TABLE)
    assert np.abs(prob - TRUTH).mean() < 0.02
    assert found.model.binding.score == Score("rank", ("size",))


def test_only_the_order_has_a_say_up_to_scale() -> None:
    asked: dict[str, Any] = {"method": "histogram", "holdout": "none", **ALONE}
    own = calcli.fit(TABLE, **asked)
    moved = TABLE.with_columns(size=1e-7 * pl.col("size") - 3.0)
    np.testing.assert_allclose(calcli.fit(moved, **asked).model.predict(moved), own.model.predict(TABLE), rtol=1e-6)
    turned = calcli.fit(TABLE, **(asked | {"rank": "near"}), descending=True)
    np.testing.assert_array_equal(turned.model.predict(TABLE), own.model.predict(TABLE))
    assert turned.model.binding.score.columns == ("minus(near)",)


@pytest.mark.parametrize("measure", ["fit", "evaluate"])
def test_the_raw_score_has_the_order_of_the_number_and_the_loss_of_the_base_rate(measure: str) -> None:
    metrics: dict[str, Any] = {"metrics": ("nll", "auc", "pr_auc", "ece")}
    if measure == "fit":
        report = calcli.fit(TABLE, method="platt", holdout="0.5", **metrics, **ALONE).report
        found = report.scores[0].metrics
        assert found["nll"].value is not None
        assert report.differences[0].value == pytest.approx(report.scores[1].metrics["nll"].value - found["nll"].value)
    else:
        found = calcli.evaluate(TABLE, rank="size", **metrics).scores[0].metrics
        rate = LABEL.mean()
        assert found["nll"].value == pytest.approx(-rate * np.log(rate) - (1 - rate) * np.log1p(-rate))
        assert found["auc"].value == pytest.approx(roc_auc_score(LABEL, SIZE))
    assert found["ece"].value is None
    assert found["ece"].reason == "a number that only ranks has no calibration"


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1.0, 1e20, 1e140])
def test_the_order_of_the_raw_score_does_not_depend_on_its_scale(scale: float) -> None:
    for sign in (1.0, -1.0):
        table = TABLE.with_columns(size=sign * scale * pl.col("size"))
        found = calcli.evaluate(table, rank="size", metrics="auc").scores[0].metrics["auc"].value
        assert found == pytest.approx(roc_auc_score(LABEL, sign * SIZE), abs=1e-12)


def test_p_values_rank_over_all_their_magnitudes() -> None:
    tiny = 10.0 ** (-60.0 * SIZE / SIZE.max())
    found = calcli.evaluate(TABLE.with_columns(p=tiny), rank="p", descending=True, metrics="auc", features=())
    assert found.scores[0].metrics["auc"].value == pytest.approx(roc_auc_score(LABEL, SIZE), abs=1e-12)


@pytest.mark.parametrize("descending", [False, True])
def test_a_text_among_the_numbers_is_named_as_one(tmp_path: Path, descending: bool) -> None:
    (tmp_path / "rows.csv").write_text("near,label\n0.1,1\n0.7,0\nfoo,1\n-1e-300,0\n1e300,0\n")
    with pytest.raises(CalcliError, match="1 bad row of 5: the score is not a number"):
        calcli.evaluate(tmp_path / "rows.csv", rank="near", descending=descending)
    found = (
        calcli.evaluate(tmp_path / "rows.csv", rank="near", descending=descending, bad_rows="null", metrics="auc")
        .scores[0]
        .metrics["auc"]
        .value
    )
    assert found == (1 / 3 if not descending else 2 / 3)


def test_held_out_rows_have_no_part_in_the_curve() -> None:
    """On labels that are drawn by chance nothing is better than the base rate: a curve that saw them would be."""
    gains = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        table = TABLE[:300].with_columns(label=pl.Series(rng.permutation(LABEL[:300])))
        asked: dict[str, Any] = {"method": "temperature", "holdout": "cv:2", "metrics": ("nll",)}
        report = calcli.fit(table, seed=seed, **asked, **ALONE).report
        gains.append(report.differences[0].value)
    assert np.mean(gains) > 0.0


def test_small_steps_and_ties_are_fine() -> None:
    """Five stars: with so few numbers the curve is a line on the log-odds."""
    stars = np.clip(np.round(SIZE), 1, 5)
    table = pl.DataFrame({"label": LABEL, "stars": stars.astype(np.int64)})
    found = calcli.fit(table, method="auto", rank="stars", features=())
    rates = [LABEL[stars == star].mean() for star in range(1, 6)]
    prob = found.model.predict(pl.DataFrame({"stars": np.arange(1, 6)}))
    np.testing.assert_allclose(prob, rates, atol=0.07)
    same = calcli.fit(table.with_columns(stars=3), method="platt", rank="stars", features=())
    np.testing.assert_allclose(same.model.predict(pl.DataFrame({"stars": [3]})), LABEL.mean(), atol=0.01)


def test_an_artifact_has_the_curve_wherever_it_is_applied(here: Path) -> None:
    calcli.fit(TABLE, method="isotonic", output="kept", holdout="0.3", rank="near", descending=True, features=())
    found = calcli.evaluate(TABLE, artifacts=("kept",), metrics=("nll",))
    assert found.scores[1].metrics["nll"].value < found.scores[0].metrics["nll"].value
    some = TABLE[:50].drop("label")
    plain = calcli.fit(TABLE, method="isotonic", output="plain", holdout="0.3", **ALONE)
    np.testing.assert_array_equal(applied("kept", some)["calibrated"], plain.model.predict(some))
    for name in ("plain", "kept"):
        query = ExportRequest(name, shape="query", table="the table", keep=())
        np.testing.assert_allclose(in_duckdb(some, query)["calibrated"], plain.model.predict(some), rtol=1e-12)
        assert duckdb.sql(export(ExportRequest(name, check=20))).fetchall() == []
    calcli.decide(TABLE, artifact="plain", target="precision >= 0.7", output="policy")
    assert set(applied("policy", some)["decision"].to_list()) == {0, 1}
    assert calcli.diagram(TABLE, artifacts=("plain",)).curves[0].score == "plain"
    calcli.refit("plain", TABLE)


@pytest.mark.parametrize(("fit", "asked"), [({"rank": "size"}, {"prob": "p"}), ({"prob": "p"}, {"rank": "size"})])
def test_an_artifact_reads_no_other_kind_of_score(fit: dict[str, Any], asked: dict[str, Any], here: Path) -> None:
    table = TABLE.with_columns(p=pl.Series(TRUTH))
    calcli.fit(table, method="platt", output="kept", holdout="none", features=(), **fit)
    for verb in (calcli.evaluate, calcli.apply):
        given = {"artifacts": ("kept",)} if verb is calcli.evaluate else {"artifact": "kept"}
        with pytest.raises(CalcliError, match="names another kind of score"):
            verb(data=table, **given, **asked)


def test_onnx_has_the_curve_too(here: Path) -> None:
    """`export_onnx` runs the model beside `apply` before it gives it."""
    pytest.importorskip("onnxruntime")
    calcli.fit(TABLE, method="platt", output="kept", holdout="none", **ALONE)
    assert export_onnx(ExportRequest("kept"))


def test_compare_has_the_base_rate_without_a_method() -> None:
    report = calcli.compare(TABLE[:600], methods="platt", folds=2, **ALONE).report
    losses = {score.name: score.metrics["nll"].value for score in report.scores}
    rate = LABEL[:600].mean()
    assert losses["identity"] == pytest.approx(-rate * np.log(rate) - (1 - rate) * np.log1p(-rate))
    assert losses["platt"] < losses["identity"]


@pytest.mark.parametrize(
    ("verb", "asked", "words"),
    [
        ("evaluate", {"prob": "size"}, "rank='size' if it only ranks"),
        ("evaluate", {"rank": "size", "prob": "near"}, "prob= and rank= are both given"),
        ("evaluate", {"rank": "size", "logit": "near"}, "rank= and logit= are both given"),
        ("evaluate", {"descending": True}, "add rank='COLUMN'"),
        ("evaluate", {"rank": "sise"}, "did you mean 'size'"),
        ("evaluate", {"rank": "size", "label": "three"}, "rank= is for two classes"),
        ("evaluate", {"rank": "near"}, None),
        ("diagram", {"rank": "size"}, "no probabilities to draw"),
        ("decide", {"rank": "size", "target": "recall >= 0.5"}, "decisions need probabilities"),
    ],
)
def test_what_a_number_cannot_do_is_said(verb: str, asked: dict[str, Any], words: str | None) -> None:
    table = TABLE.with_columns(three=pl.int_range(pl.len()) % 3)
    if words is None:
        (warning,) = getattr(calcli, verb)(table, **asked).warnings
        assert warning.message.endswith("if small is sure, add --descending")
        return
    with pytest.raises(CalcliError, match=words):
        getattr(calcli, verb)(table, **asked)


def test_a_cluster_says_that_it_does_not_measure_them() -> None:
    binding = Binding("y", "int", (0, 1), 1, Score("rank", ("grade",)))
    with pytest.raises(CalcliError, match="learns and measures no score that only ranks"):
        SparkTable(cast("Any", None), "days").with_weight_scale(binding)


def test_soft_labels_have_their_mean_as_base_rate() -> None:
    table = TABLE.with_columns(label=pl.Series(expit(logit(TRUTH))))
    found = calcli.evaluate(table, rank="size", metrics=("nll",)).scores[0].metrics["nll"].value
    rate = TRUTH.mean()
    assert found == pytest.approx(-rate * np.log(rate) - (1 - rate) * np.log1p(-rate))
