"""Which scores stand side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import log_loss

import calcli
from calcli.batch import Batch, SideInputs
from calcli.errors import DataError, UsageError
from calcli.methods import catalog
from calcli.methods.spec import MethodSpec
from calcli.numeric.links import sigmoid
from calcli.state import State
from calcli.verbs.compared_scores import EvaluateRequest
from calcli.verbs.evaluate import evaluate
from tests.support.listener import Recorder
from tests.support.samples import breeds, clicks
from tests.support.scored import GOLDEN


@pytest.fixture
def fitted(here: Path, fit_once: Callable[..., None]) -> Path:
    fit_once("train.parquet", "m", method="platt")
    return here


def scored(seed: int = 1) -> pl.DataFrame:
    """With the truth as a column that is calibrated already, and another score of another name."""
    frame = clicks(seed=seed)
    truth = (frame["logit"] - 0.5) / 2
    return frame.with_columns(fine=1 / (1 + (-truth).exp()), logit2=truth * 3)


def test_columns_stand_beside_raw_and_artifacts(fitted: Path) -> None:
    frame = scored()
    report = calcli.evaluate(frame, artifacts=("m",), scores=("fine", "again=fine"), metrics="nll,auc")
    assert [score.name for score in report.scores] == ["raw", "m", "fine", "again"]
    sources = [(score.source.kind, score.source.column) for score in report.scores]
    assert sources == [("raw", None), ("artifact", None), ("column", "fine"), ("column", "fine")]
    assert report.value("fine", "nll") == pytest.approx(log_loss(frame["label"], frame["fine"]), rel=1e-9)
    assert report.value("again", "nll") == report.value("fine", "nll")
    change = next(each for each in report.differences if (each.score, each.metric) == ("fine", "nll"))
    assert change.value == pytest.approx(report.value("fine", "nll") - report.value("raw", "nll"), rel=1e-9)
    assert change.hi < 0


def test_a_column_is_measured_to_the_last_digit(here: Path) -> None:
    """Values on the edges of bins stay on their side: fifteen rows that have tripped up four libraries."""
    edge = pl.read_csv(GOLDEN / "edge.csv")
    other = edge.with_columns(again="p")
    report = calcli.evaluate(other, scores=("again",), metrics="ece,nll,brier", options=calcli.Options(bins=10))
    assert report.value("again", "ece") == pytest.approx(0.2733333333333333)  # as scikit-learn says
    for metric in ("ece", "nll", "brier"):
        assert report.value("again", metric) == report.value("raw", metric)


def test_more_classes_have_a_stem(here: Path) -> None:
    frame = breeds()
    calcli.fit(frame, method="temperature", output="t")
    prob = calcli.load("t").predict(frame)
    for place, name in enumerate("abcd"):
        frame = frame.with_columns(pl.Series(f"fine_{name}", prob[:, place]))
    report = calcli.evaluate(frame, artifacts=("t",), scores=("fine",), metrics="default")
    for metric in ("nll", "brier", "auc", "ece", "mvce"):
        assert report.value("fine", metric) == pytest.approx(report.value("t", metric), rel=1e-9)


def test_names_are_unique_over_artifacts_and_columns(fitted: Path) -> None:
    for scores, message in (
        (("m=fine",), "two scores are named 'm'; try: scores=.'NAME=fine'."),
        (("fine", "fine"), "two scores are named 'fine'"),
        (("raw=fine",), "'raw' is the name of the uncalibrated score; try: scores=.'NAME=fine'."),
        (("=fine",), "=fine"),
        (("fine=",), "fine="),
    ):
        with pytest.raises(UsageError, match=message):
            calcli.evaluate(scored(), artifacts=("m",), scores=scores)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("fin", r"scores: no columns fin_<class>, and no column 'fin'; did you mean 'fine'"),
        ("logit", "'logit' looks like logits"),
    ],
)
def test_a_column_must_be_there_and_hold_probabilities(here: Path, column: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        calcli.evaluate(scored(), scores=(column,))


def test_a_column_that_is_named_like_a_raw_score_is_not_taken_for_it(here: Path) -> None:
    frame = scored().rename({"fine": "prob"})  # it disagrees with the logit
    with pytest.raises(DataError, match="disagree"):
        calcli.evaluate(frame)
    report = calcli.evaluate(frame, scores=("prob",), metrics="nll")
    assert report.to_json()["binding"]["score"] == {"kind": "logit", "columns": ["logit"]}
    assert report.value("prob", "nll") == pytest.approx(log_loss(frame["label"], frame["prob"]), rel=1e-9)


def test_without_a_raw_score_the_way_out_is_said_and_works(here: Path) -> None:
    frame = scored().select("label", "fine")
    with pytest.raises(DataError, match=r"no raw score for 'fine' to compare it with; .* use prob='fine' instead of"):
        calcli.evaluate(frame, scores=("fine",))
    report = calcli.evaluate(frame, flags=calcli.Flags(prob="fine"))
    assert report.value("raw", "nll") == pytest.approx(log_loss(frame["label"], frame["fine"]), rel=1e-9)


@pytest.mark.parametrize("where", ["logit", "fine", "both"])
def test_rows_are_the_same_for_every_score(fitted: Path, where: str) -> None:
    frame = scored()
    bad = pl.int_range(pl.len()) % 10
    holes = [
        pl.when(bad == place).then(None).otherwise(name).alias(name)
        for place, name in enumerate(("logit", "fine"))
        if where in (name, "both")
    ]
    spoiled = frame.with_columns(*holes, decade=pl.col("age") // 10)
    kept = spoiled.drop_nulls(["logit", "fine"])
    with pytest.raises(DataError, match="bad rows of 2,000"):
        calcli.evaluate(spoiled, artifacts=("m",), scores=("fine",))
    request = {"artifacts": ("m",), "scores": ("fine",), "by": ("decade",), "metrics": "nll,auc"}
    found = calcli.evaluate(spoiled, bad_rows="null", **request)
    clean = calcli.evaluate(kept, **request)
    assert found.data.rows_bad == len(frame) - len(kept)
    assert [(row.name, row.metrics) for row in found.scores] == [(row.name, row.metrics) for row in clean.scores]
    assert found.groups == clean.groups


def test_artifacts_of_different_scores_each_read_their_own(fitted: Path) -> None:
    train = scored(seed=0)
    calcli.fit(train, method="platt", output="of_logit2", flags=calcli.Flags(logit="logit2"))
    frame = scored()
    report = calcli.evaluate(frame, artifacts=("m", "of_logit2"), metrics="nll")
    assert report.to_json()["binding"]["score"]["columns"] == ["logit"]
    assert [score.source.column for score in report.scores] == [None, None, "logit2"]
    for name, own in (("m", frame), ("of_logit2", frame.select("label", logit2="logit2"))):
        alone = calcli.evaluate(own, artifacts=(name,), metrics="nll")
        assert report.value(name, "nll") == alone.value(name, "nll")
    turned = calcli.evaluate(frame, artifacts=("of_logit2", "m"), metrics="nll")
    assert turned.to_json()["binding"]["score"]["columns"] == ["logit2"]
    assert turned.value("m", "nll") == report.value("m", "nll")


def test_a_flag_names_the_raw_score_where_artifacts_read_different_ones(fitted: Path) -> None:
    calcli.fit(scored(seed=0), method="platt", output="of_logit2", flags=calcli.Flags(logit="logit2"))
    frame = scored()
    plain = calcli.evaluate(frame, artifacts=("m", "of_logit2"), metrics="nll")
    flagged = calcli.evaluate(frame, artifacts=("of_logit2", "m"), metrics="nll", flags=calcli.Flags(logit="logit"))
    for name in ("raw", "m", "of_logit2"):
        assert flagged.value(name, "nll") == plain.value(name, "nll")


def test_a_flag_speaks_of_all_artifacts_where_they_read_the_same(fitted: Path) -> None:
    """As with `apply`: the column has another name today."""
    frame = clicks(seed=1)
    report = calcli.evaluate(
        frame.rename({"logit": "z"}), artifacts=("m",), metrics="nll", flags=calcli.Flags(logit="z")
    )
    assert report.value("m", "nll") == calcli.evaluate(frame, artifacts=("m",), metrics="nll").value("m", "nll")


def test_which_column_an_artifact_reads_is_said(fitted: Path) -> None:
    listener = Recorder()
    calcli.fit(scored(seed=0), method="platt", output="of_logit2", flags=calcli.Flags(logit="logit2"))
    evaluate(EvaluateRequest(scored(), artifacts=("m", "of_logit2"), metrics="nll"), listener)
    assert listener.notes == ["of_logit2 reads the logit in logit2"]


class Sum(ModuleType):
    """sigmoid(z + the sum of the features that are not missing)."""

    @staticmethod
    def fit(batch: Batch, sides: SideInputs, params: object, seed: int) -> State:
        return State({})

    @staticmethod
    def predict(state: State, batch: Batch, sides: SideInputs) -> np.ndarray:
        return sigmoid(batch.score + sum(np.nan_to_num(column.values) for column in batch.features.values()))


def test_artifacts_of_different_features_each_read_their_own(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tests.sum", Sum("sum"))
    row = MethodSpec(
        name="sum", family="trees", target="tests.sum", summary="", reference="", simplicity=99, needs_features=True
    )
    monkeypatch.setattr(catalog, "_SPECS", (*catalog.specs(), row))
    frame = scored().with_columns(a=pl.col("row_id") % 7 / 8, b=pl.col("row_id") % 5 / 8)
    names = ("a", "b", "a,b")
    for name in names:
        calcli.fit(frame, method="sum", output=name, flags=calcli.Flags(features=tuple(name.split(","))))
    chunked = pl.concat([part.lazy() for part in frame.iter_slices(300)])
    report = calcli.evaluate(chunked, artifacts=names, metrics="nll")
    assert report.to_json()["binding"]["features"] == ["a", "b"]
    for name in names:
        shift = frame.select(pl.sum_horizontal(name.split(","))).to_series()
        prob = sigmoid((frame["logit"] + shift).to_numpy())
        assert report.value(name, "nll") == pytest.approx(log_loss(frame["label"], prob), rel=1e-12)
    with pytest.raises(DataError, match="'b'"):
        calcli.evaluate(frame.drop("b"), artifacts=names)


def test_artifacts_agree_on_the_classes(fitted: Path) -> None:
    frame = clicks(seed=0)
    calcli.fit(frame, method="platt", output="turned", flags=calcli.Flags(positive="0"))
    with pytest.raises(UsageError, match="turned was fitted with the positive class 0, not 1"):
        calcli.evaluate("test.parquet", artifacts=("m", "turned"))
    words = frame.with_columns(label=pl.when(pl.col("label") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")))
    calcli.fit(words, method="platt", output="words")
    with pytest.raises(UsageError, match="words was fitted with the classes no, yes, not 0, 1"):
        calcli.evaluate("test.parquet", artifacts=("m", "words"))


def test_one_definition_for_all_scores(here: Path) -> None:
    """A score whose predicted class is always right has no rare label to speak of: then all are sampled."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 3000)
    right = np.where(np.arange(3) == label[:, None], 3.0, 0.0) + rng.normal(0, 0.1, (3000, 3))
    raw = rng.normal(0, 1, (3000, 3))
    sure = np.exp(right) / np.exp(right).sum(axis=1, keepdims=True)
    columns = {f"logit_{k}": raw[:, k] for k in range(3)} | {f"sure_{k}": sure[:, k] for k in range(3)}
    frame = pl.DataFrame({"label": label, **columns})
    alone = calcli.evaluate(frame, metrics="mvce")
    assert alone.definitions["mvce"].views is None
    both = calcli.evaluate(frame, scores=("sure",), metrics="mvce", by=("label",))
    assert "sampled" in both.definitions["mvce"].approximation
    assert both.value("raw", "mvce") == pytest.approx(alone.value("raw", "mvce"), rel=0.03)
    assert both.value("raw", "mvce") != alone.value("raw", "mvce")


def test_artifacts_of_different_labels_are_not_measured_on_one(fitted: Path) -> None:
    frame = clicks(seed=0).with_columns(bought=1 - pl.col("label"))
    calcli.fit(frame, method="platt", output="other", flags=calcli.Flags(label="bought", ignore=("label",)))
    with pytest.raises(UsageError, match="other was fitted with the label bought, not label"):
        calcli.evaluate(frame, artifacts=("m", "other"))
    flagged = calcli.evaluate(frame, artifacts=("m", "other"), flags=calcli.Flags(label="bought"))
    assert flagged.binding["label"] == "bought"


def test_no_verb_takes_another_column_for_that_of_the_fit(fitted: Path) -> None:
    frame = clicks(seed=2).with_columns(prob=1 / (1 + (-pl.col("logit")).exp()))
    for data, said in (
        (frame.drop("logit"), "no column 'logit', the score that the artifact was fitted on"),
        (frame.rename({"label": "target"}), "no column 'label', the label that the artifact was fitted with"),
    ):
        with pytest.raises(DataError, match=said):
            calcli.evaluate(data, artifacts=("m",))
        with pytest.raises(DataError, match=said):
            calcli.diagram(data, artifacts=("m",))
        with pytest.raises(DataError, match=f"{said}.*; a refit reads the same columns"):
            calcli.refit("m", data)
    without = frame.drop("logit")
    with pytest.raises(DataError, match="name it: prob='prob'"):
        calcli.apply("m", without, "out.parquet")
    assert not Path("out.parquet").exists()
    named = calcli.load("m").predict(without, calcli.Flags(prob="prob"))
    np.testing.assert_allclose(named, calcli.load("m").predict(frame.drop("prob")), rtol=1e-9)
