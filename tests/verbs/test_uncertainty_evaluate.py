"""Evaluating: each number derived again, the report against its schema, and what cannot be evaluated."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

import calcli
from calcli.errors import DataError, UsageError
from calcli.models.ensemble import load_ensemble
from calcli.numeric.seeded import stream
from calcli.tables.load import load
from calcli.tables.source import open_source
from tests.support.ensembles import ensemble, features, table
from tests.support.reports import REPORT_SCHEMA

TASKS = ("binary", "multiclass", "regression")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ensembles")
    for task in TASKS:
        ensemble(task, folder / task)
    ensemble("regression", folder / "virtual", ensemble="virtual", members=4)
    table("binary").write_parquet(folder / "train.parquet")
    calcli.fit_ensemble(folder / "train.parquet", folder / "filed", members=2, trees=5)
    return folder


def evaluated(frame, *ensembles: Path | str, **more):
    return calcli.evaluate_ensembles(frame, ensembles=tuple(map(str, ensembles)), **more)


def values(report, score: str) -> dict[str, float | None]:
    return {name: value.value for name, value in report.score(score).metrics.items()}


def members_of(path: Path, frame: pl.DataFrame):
    model = load_ensemble(path)
    with open_source(frame) as source:
        return model.ensemble.members(load(source, model.binding, features=True, label=False).batch.features)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_classes_derived_again(task: str, kept: Path) -> None:
    rows = table(task, seed=9)
    strange = features(200, seed=10).with_columns(size=pl.col("size") + 20)
    report = evaluated(rows, kept / task, ood=strange)
    found = values(report, task)
    members = members_of(kept / task, rows)
    mean = members.mean.mean(axis=1)
    prob = np.column_stack([1 - mean, mean]) if mean.ndim == 1 else mean
    classes = [0, 1] if mean.ndim == 1 else ["cat", "dog", "elk"]
    label = rows["label"].to_list()
    assert found["nll"] == pytest.approx(log_loss(label, prob, labels=classes), rel=1e-12)
    predicted = [classes[place] for place in prob.argmax(axis=1)]
    assert found["error"] == pytest.approx(1 - accuracy_score(label, predicted), abs=1e-12)
    total = -(prob * np.log(prob)).sum(axis=1)
    wrong = np.array(predicted) != np.array(label)
    assert found["prr_total"] == pytest.approx(200 * roc_auc_score(wrong, total) - 100, abs=1e-9)
    far = members_of(kept / task, strange).mean.mean(axis=1)
    far = np.column_stack([1 - far, far]) if far.ndim == 1 else far
    beyond = -(far * np.log(far)).sum(axis=1)
    expected = roc_auc_score(np.repeat([0, 1], [300, 200]), np.concatenate([total, beyond]))
    assert found["ood_auc_total"] == pytest.approx(expected, abs=1e-12)


def test_amounts_derived_again(kept: Path) -> None:
    rows = table("regression", seed=9)
    found = values(evaluated(rows, kept / "regression"), "regression")
    members, label = members_of(kept / "regression", rows), rows["label"].to_numpy()
    density = np.exp(-((label[:, None] - members.mean) ** 2) / (2 * members.variance))
    density /= np.sqrt(2 * math.pi * members.variance)
    assert found["nll"] == pytest.approx(-np.log(density.mean(axis=1)).mean(), rel=1e-12)
    error = (members.mean.mean(axis=1) - label) ** 2
    assert found["rmse"] == pytest.approx(math.sqrt(error.mean()), rel=1e-12)
    assert set(found) == {"nll", "rmse", "prr_total", "prr_knowledge"}


def test_beside_it_stands_the_single_model(kept: Path) -> None:
    rows = table("regression", seed=9)
    report = evaluated(rows, kept / "regression", kept / "virtual", ood=features(50, seed=3))
    assert [row.name for row in report.scores] == ["regression", "regression.single", "virtual", "virtual.single"]
    members, label = members_of(kept / "regression", rows), rows["label"].to_numpy()
    rmse = math.sqrt(((members.mean[:, 0] - label) ** 2).mean())
    assert report.value("regression.single", "rmse") == pytest.approx(rmse, rel=1e-12)
    last = members_of(kept / "virtual", rows).mean[:, -1]
    assert report.value("virtual.single", "rmse") == pytest.approx(math.sqrt(((last - label) ** 2).mean()), rel=1e-12)
    alone = report.score("virtual.single").metrics["ood_auc_knowledge"]
    assert (alone.value, alone.reason) == (None, "one model alone cannot tell knowledge from data uncertainty")
    change = next(one for one in report.differences if (one.score, one.metric) == ("virtual", "nll"))
    assert change.versus == "virtual.single"
    assert change.value == pytest.approx(report.value("virtual", "nll") - report.value("virtual.single", "nll"))
    assert change.lo < change.value < change.hi


@pytest.mark.parametrize("task", TASKS)
def test_the_report_keeps_to_its_schema(task: str, kept: Path) -> None:
    report = evaluated(table(task, seed=9), kept / task, ood=features(60, seed=3)).to_json()
    REPORT_SCHEMA.validate(json.loads(json.dumps(report, allow_nan=False)))
    assert report["command"] == "uncertainty evaluate"
    assert report["scores"][0]["source"]["kind"] == "ensemble"
    assert list(report["definitions"]) == list(report["scores"][0]["metrics"])


def test_the_rejection_curves(kept: Path) -> None:
    rows = table("binary", seed=9)
    report = evaluated(rows, kept / "binary")
    points = report.to_json()["curves"]["rejection"]
    assert {(point["score"], point["by"]) for point in points} == {
        ("binary", "total"), ("binary", "knowledge"), ("binary", "oracle"),
        ("binary.single", "total"), ("binary.single", "oracle"),
    }  # fmt: skip
    first = next(point for point in points if (point["score"], point["by"]) == ("binary", "total"))
    assert (first["x"], first["n"], first["y"]) == (0.0, 300.0, pytest.approx(report.value("binary", "error")))


@pytest.mark.parametrize("task", [pytest.param("binary", marks=pytest.mark.slow), "regression"])
def test_the_picture(task: str, kept: Path, tmp_path: Path) -> None:
    """One line for each order, an oracle once; of amounts the error as a share of what it was."""
    named = [f"{name}={kept / task}" for name in ("one", "two")]
    evaluated(table(task, seed=9), *named, output=tmp_path / "curves.svg")
    text = (tmp_path / "curves.svg").read_text()
    for name in ("one by total", "one by knowledge", "one.single by total", "two by total", "an oracle"):
        assert text.count(f"{name}:") == 1
    assert ("relative RMSE" if task == "regression" else "error rate") + " of the rows kept" in text


def test_a_picture_is_an_image(kept: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown suffix for an image; known are \.png"):
        evaluated(table("binary", seed=9), kept / "binary", output="x.html")


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_replicates_are_tables_of_the_drawn_rows(task: str, kept: Path) -> None:
    """The same counts as weights of a table give every metric of a replicate, and the interval is their quantiles."""
    rows, strange = table(task, seed=9), features(40, seed=3)
    names = [str(kept / task), f"other={kept / task}"]
    report = evaluated(rows, *names, ood=strange, bootstrap=12, seed=5)
    drawn = []
    for replicate in range(12):
        rng = stream(5, "bootstrap", replicate)
        counts = np.bincount(rng.integers(0, len(rows), len(rows)), minlength=len(rows)).astype(float)
        outside = strange[rng.integers(0, 40, 40).tolist()]
        weighted = rows.with_columns(w=pl.Series(counts))
        drawn.append(evaluated(weighted, kept / task, ood=outside, flags=calcli.Flags(weight="w")))
    for name, value in report.score(task).metrics.items():
        lo, hi = np.quantile([values(one, task)[name] for one in drawn], (0.025, 0.975))
        assert (value.lo, value.hi) == (pytest.approx(lo, rel=1e-9), pytest.approx(hi, rel=1e-9))
    loss = "rmse" if task == "regression" else "error"
    gap = next(one for one in report.differences if (one.score, one.metric) == (task, loss))
    gaps = [values(one, task)[loss] - values(one, f"{task}.single")[loss] for one in drawn]
    assert (gap.lo, gap.hi) == pytest.approx(tuple(np.quantile(gaps, (0.025, 0.975))), rel=1e-9)
    same = [one for one in report.differences if (one.score, one.versus) == ("other", task)]
    assert [(one.value, one.lo, one.hi) for one in same] == [(0, 0, 0)] * len(report.definitions)
    plain = evaluated(rows, *names)
    assert all((one.lo is None) == (one.metric not in ("nll", "error")) for one in plain.differences if one.value)


def test_weights_count_rows(kept: Path) -> None:
    rows = table("binary", seed=9).with_columns(w=pl.Series(np.random.default_rng(0).integers(1, 4, 300)))
    often = rows.select(pl.all().repeat_by("w").explode())
    strange = features(40, seed=3)
    one = evaluated(rows, kept / "binary", ood=strange, flags=calcli.Flags(weight="w"))
    other = evaluated(often, kept / "binary", ood=strange)
    for metric, value in values(one, "binary").items():
        assert value == pytest.approx(values(other, "binary")[metric], rel=1e-9)


def test_made_rows(kept: Path, tmp_path: Path) -> None:
    """From a table whose columns mean something else; the same seed makes the same rows."""
    rng = np.random.default_rng(0)
    other = pl.DataFrame({f"c{place}": rng.gamma(1 + place, size=500) for place in range(4)} | {"word": ["x"] * 500})
    other.write_csv(tmp_path / "other.csv")
    rows = table("multiclass", seed=9)
    one, same = (evaluated(rows, kept / "multiclass", make_ood=tmp_path / "other.csv", seed=3) for _ in range(2))
    assert one.value("multiclass", "ood_auc_knowledge") == same.value("multiclass", "ood_auc_knowledge")
    paper = evaluated(rows, kept / "multiclass", make_ood=other, preset="paper", seed=3)
    assert paper.value("multiclass", "ood_auc_total") != one.value("multiclass", "ood_auc_total")
    with pytest.raises(DataError, match="has 100 rows, and it takes 300"):
        evaluated(rows, kept / "multiclass", make_ood=other.head(100))
    with pytest.raises(DataError, match="has no columns of numbers"):
        evaluated(rows, kept / "multiclass", make_ood=other.select("word"))


def test_rows_that_were_trained_on_are_noticed(kept: Path) -> None:
    report = evaluated(kept / "train.parquet", kept / "filed")
    assert [warning.code for warning in report.warnings] == ["training-rows"]
    assert evaluated(table("binary", seed=9), kept / "filed").warnings == ()


def test_no_error_leaves_nothing_to_reject(kept: Path) -> None:
    rows = table("binary", seed=9)
    mean = load_ensemble(kept / "binary").predict(rows).mean
    right = rows.with_columns(label=pl.Series((mean > 0.5).astype(int)))
    found = evaluated(right, kept / "binary").score("binary").metrics["prr_total"]
    assert (found.value, found.reason) == (None, "the loss is the same in every row: there is nothing to reject first")


def test_what_cannot_be_evaluated(kept: Path) -> None:
    rows = table("binary", seed=9)
    with pytest.raises(DataError, match="no column 'label', the label"):
        evaluated(rows.drop("label"), kept / "binary")
    with pytest.raises(DataError, match="1 bad row of 300: the label is missing"):
        evaluated(rows.with_columns(label=pl.when(pl.col("row_id") > 0).then(pl.col("label"))), kept / "binary")
    with pytest.raises(DataError, match="the label 2 is not a class of"):
        evaluated(rows.with_columns(label=pl.col("label") + 1), kept / "binary")
    with pytest.raises(DataError, match="'size', a feature of the artifact"):
        evaluated(rows, kept / "binary", ood=features(20).drop("size"))
    with pytest.raises(UsageError, match="which ensemble"):
        evaluated(rows)
    with pytest.raises(UsageError, match="keep one"):
        evaluated(rows, kept / "binary", ood=rows, make_ood=rows)
    with pytest.raises(UsageError, match="add make_ood='FILE'"):
        evaluated(rows, kept / "binary", preset="paper")
    with pytest.raises(UsageError, match="two ensembles are named 'binary'"):
        evaluated(rows, kept / "binary", kept / "binary")
    with pytest.raises(UsageError, match="regression and binary have different tasks"):
        evaluated(rows, kept / "binary", kept / "regression")
    with pytest.raises(DataError, match="weights add up to zero"):
        evaluated(rows.with_columns(w=0.0), kept / "binary", flags=calcli.Flags(weight="w"))


def test_rows_from_elsewhere_need_no_label_and_may_have_any(kept: Path) -> None:
    rows, strange = table("binary", seed=9), features(40, seed=3)
    one = evaluated(rows, kept / "binary", ood=strange)
    other = evaluated(rows, kept / "binary", ood=strange.with_columns(label=pl.lit("anything")))
    assert one.value("binary", "ood_auc_total") == other.value("binary", "ood_auc_total")
