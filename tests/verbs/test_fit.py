from __future__ import annotations

import json
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import brier_score_loss, log_loss

import calcli
from calcli.batch import Batch
from calcli.errors import CalcliError, DataError, FileSystemError, FitError, UsageError
from calcli.methods import calibrator, catalog
from calcli.numeric.seeded import folds, stream
from tests.support.samples import breeds, clicks


def test_before_is_what_the_peers_say_of_the_raw_score(here: Path) -> None:
    report = calcli.fit("train.parquet", method="platt").report
    frame = clicks()
    label, prob = frame["label"].to_numpy(), 1 / (1 + np.exp(-frame["logit"].to_numpy()))
    assert report.value("raw", "nll") == pytest.approx(log_loss(label, prob), rel=1e-12)
    assert report.value("raw", "brier") == pytest.approx(brier_score_loss(label, prob), rel=1e-12)


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_after_is_measured_out_of_fold(here: Path, method: str) -> None:
    """Five fits on four fifths each, written out; one method fits from sums, the other from rows."""
    report = calcli.fit("train.parquet", method=method, seed=3).report
    frame, row = clicks(), catalog.find(method)
    batch = Batch(frame["logit"].to_numpy(), frame["label"].to_numpy().astype(np.int64))
    fold = folds(len(batch), 5, stream(3, "folds"))
    prob = np.empty(len(batch))
    for index in range(5):
        fitted = calibrator.fit(row, batch.take(fold != index), row.resolve())
        prob[fold == index] = fitted.predict(batch.take(fold == index))
    assert report.value(method, "nll") == pytest.approx(log_loss(batch.labels, prob), rel=1e-9)


def test_the_artifact_is_the_fit_on_all_rows(here: Path) -> None:
    result = calcli.fit("train.parquet", method="platt")
    frame, row = clicks(), catalog.find("platt")
    batch = Batch(frame["logit"].to_numpy(), frame["label"].to_numpy().astype(np.int64))
    expected = calibrator.fit(row, batch, {}).predict(batch)
    np.testing.assert_array_equal(calcli.load(result.path).predict(frame), expected)


def test_one_split_keeps_the_calibrator_that_was_measured(here: Path) -> None:
    result = calcli.fit("train.parquet", method="isotonic", holdout="0.25")
    facts = result.model.manifest.fit["holdout"]
    assert facts == {"scheme": "0.25", "rows": 500, "refit_on_all": False}
    assert result.model.calibrator.rows == 1500


def test_without_holdout_there_is_only_the_raw_score(here: Path) -> None:
    result = calcli.fit("train.parquet", method="platt", holdout="none")
    assert [score.name for score in result.report.scores] == ["raw"]
    assert result.model.manifest.fit["after"] == {}


def test_the_holdout_changes_no_byte_of_the_artifact(here: Path) -> None:
    """Payloads depend on data, parameters and seed only."""
    names = [
        [
            payload.name
            for payload in calcli.fit("train.parquet", method="platt", holdout=scheme).model.manifest.payloads
        ]
        for scheme in ("cv:5", "cv:3", "none")
    ]
    assert names[0] == names[1] == names[2]


def test_weights_are_found_when_named_and_used(here: Path) -> None:
    frame = clicks()
    report = calcli.fit(frame, method="platt", flags=calcli.Flags(weight="w")).report
    label, prob = frame["label"].to_numpy(), 1 / (1 + np.exp(-frame["logit"].to_numpy()))
    assert report.value("raw", "nll") == pytest.approx(log_loss(label, prob, sample_weight=frame["w"]), rel=1e-12)
    assert report.data.weight_sum == pytest.approx(frame["w"].sum() ** 2 / (frame["w"] ** 2).sum(), rel=1e-7)


def test_the_default_directory_is_stem_and_method(here: Path) -> None:
    clicks().write_csv("morning.csv.csv")
    assert calcli.fit("train.parquet", method="platt").path == Path("train.platt")
    assert calcli.fit("morning.csv.csv", method="identity").path == Path("morning.identity")


def test_a_frame_is_kept_only_where_it_is_told(here: Path) -> None:
    before = set(here.iterdir())
    result = calcli.fit(clicks(), method="platt")
    assert result.path is None
    assert set(here.iterdir()) == before
    assert calcli.fit(clicks(), method="platt", output="kept").path == Path("kept")
    assert result.model.predict(clicks()) == pytest.approx(calcli.load("kept").predict(clicks()))


def test_several_inputs_need_a_name(here: Path) -> None:
    with pytest.raises(UsageError, match=r"output='NAME\.platt'"):
        calcli.fit(["train.parquet", "test.parquet"], method="platt")
    result = calcli.fit(["train.parquet", "test.parquet"], method="platt", output="both")
    assert result.report.data.rows == 4000


def test_a_second_fit_makes_the_first_the_previous(here: Path) -> None:
    first = calcli.fit("train.parquet", method="platt")
    calcli.fit("test.parquet", method="platt", output="train.platt")
    manifest = calcli.load("train.platt").manifest
    assert manifest.previous is not None
    assert first.model.manifest.previous is None


def test_a_dry_run_binds_and_writes_nothing(here: Path) -> None:
    before = set(here.iterdir())
    result = calcli.fit("train.parquet", method="platt", dry_run=True)
    assert result.binding.label == "label"
    assert result.binding.score.columns == ("logit",)
    assert result.path == Path("train.platt")
    assert result.model is None
    assert set(here.iterdir()) == before


def test_it_says_when_it_is_not_better(here: Path) -> None:
    """Labels that the score says nothing about, scores that say one half: nothing can beat it."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"label": np.arange(400) % 2, "logit": rng.normal(0, 1e-3, 400)})
    codes = [warned.code for warned in calcli.fit(frame, method="histogram").report.warnings]
    assert codes == ["not-better"]
    assert not calcli.fit(clicks(), method="platt").report.warnings


def test_more_classes_are_bound_by_name(here: Path) -> None:
    frame = breeds()
    result = calcli.fit(frame, method="temperature")
    assert result.binding.classes == ("a", "b", "c", "d")
    v = frame.select(f"logit_{name}" for name in "abcd").to_numpy()
    prob = np.exp(v - v.max(axis=1, keepdims=True))
    prob /= prob.sum(axis=1, keepdims=True)
    assert result.report.value("raw", "nll") == pytest.approx(log_loss(frame["label"], prob, labels=list("abcd")))
    assert result.report.value("temperature", "nll") < result.report.value("raw", "nll")
    assert sum(result.report.data.label_rate.values()) == pytest.approx(1)


def test_the_manifest_tells_what_a_refit_needs(here: Path) -> None:
    calcli.fit("train.parquet", method="histogram", params={"bins": "7"}, holdout="cv:3", seed=9)
    manifest = json.loads(Path("train.histogram/manifest.json").read_text())
    assert manifest["seed"] == 9
    assert manifest["params"] == {"bins": 7, "binning": "mass"}
    assert manifest["recipe"]["params"] == {"bins": "7"}
    assert manifest["recipe"]["holdout"] == "cv:3"
    assert manifest["fit"]["before"]["nll"] > manifest["fit"]["after"]["nll"]
    assert manifest["data"]["files"][0]["path"] == "train.parquet"


BAD = {
    "no such method": ({"method": "plat"}, UsageError, "'platt'"),
    "no such parameter": ({"method": "histogram", "params": {"bin": 3}}, UsageError, "'bins'"),
    "parameter out of range": ({"method": "histogram", "params": {"bins": 0}}, UsageError, "from 1 to 100,000"),
    "parameter no number": ({"method": "histogram", "params": {"bins": "many"}}, UsageError, "give a number"),
    "no such choice": ({"method": "histogram", "params": {"binning": "weight"}}, UsageError, "width"),
    "no such preset": ({"method": "platt", "preset": "paper"}, UsageError, "preset"),
    "no such metric": ({"method": "platt", "metrics": "nll,bier"}, UsageError, "'brier'"),
    "no such holdout": ({"method": "platt", "holdout": "five"}, UsageError, "cv:5"),
    "more folds than rows": ({"method": "platt", "holdout": "cv:9999"}, UsageError, "2,000 rows"),
    "no such guard": ({"method": "platt", "guard": "nil"}, UsageError, "'nll'"),
    "guard without a direction": ({"method": "platt", "guard": "slope"}, UsageError, "neither a higher nor a lower"),
    "sample of no cluster": ({"method": "platt", "sample": 9}, UsageError, "sample= is how many rows"),
    "one fold": ({"method": "platt", "holdout": "cv:1"}, UsageError, "at least 2"),
}


@pytest.mark.parametrize(("options", "error", "words"), BAD.values(), ids=BAD)
def test_what_is_asked_wrongly_is_named(here: Path, options: dict, error: type[CalcliError], words: str) -> None:
    before = set(here.iterdir())
    with pytest.raises(error, match=words):
        calcli.fit("train.parquet", **options)
    assert set(here.iterdir()) == before


def test_foreign_directories_are_left_alone(here: Path) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("keep me")
    with pytest.raises(FileSystemError):
        calcli.fit("train.parquet", method="platt", output="mine")
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


def test_rows_that_determine_nothing(here: Path) -> None:
    frame = clicks(40).with_columns(w=pl.lit(0.0))
    for run in (partial(calcli.fit, method="platt"), calcli.fit, partial(calcli.compare, methods="platt")):
        with pytest.raises(FitError, match="weight 0"):
            run(frame, flags=calcli.Flags(weight="w"))
    with pytest.raises(FitError, match="held out"):
        calcli.fit(clicks(1), method="platt", flags=calcli.Flags(classes=("0", "1")))


def test_bad_rows_fail_or_are_counted(here: Path) -> None:
    frame = clicks().with_columns(logit=pl.when(pl.col("row_id") == 6).then(None).otherwise(pl.col("logit")))
    with pytest.raises(DataError, match="row 7"):
        calcli.fit(frame, method="platt")
    report = calcli.fit(frame, method="platt", bad_rows="null").report
    assert (report.data.rows, report.data.rows_bad) == (2000, 1)
    none = clicks(40).with_columns(logit=pl.lit(None, pl.Float64))  # with integers that could be names
    for run in (calcli.fit, calcli.compare):
        with pytest.raises(DataError, match="40 bad rows of 40"):
            run(none, bad_rows="null")


def test_a_dry_run_refuses_what_the_fit_would(here: Path) -> None:
    clicks().rename({"logit": "score"}).write_csv("logits.csv")
    for dry_run in (True, False):
        with pytest.raises(DataError, match=r"'score' looks like logits, not probabilities: .* pass logit='score'"):
            calcli.fit("logits.csv", method="platt", dry_run=dry_run)


def users(count: int = 30, each: int = 20) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    user, logit = np.repeat(np.arange(count), each), rng.normal(size=count * each)
    label = (rng.random(len(user)) < 1 / (1 + np.exp(-0.5 * logit))).astype(int)
    frame = pl.DataFrame({"user_name": user, "day": user * each + np.arange(len(user)) % each, "logit": logit})
    return frame.with_columns(label=pl.Series(label), x=pl.Series(rng.normal(size=len(user)))).sample(
        fraction=1.0, shuffle=True, seed=0
    )


def spied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores of the rows that each calibrator was fitted on, and of those that it predicted right after."""
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    predicted = calibrator.FittedMethod.predict
    fit = calibrator.fit

    def fitting(spec, batch, params, **more):
        fitted = fit(spec, batch, params, **more)
        seen.append((batch.score, np.empty(0)))
        return fitted

    def predicting(self, batch, *more):
        if seen and not len(seen[-1][1]):
            seen[-1] = (seen[-1][0], batch.score)
        return predicted(self, batch, *more)

    monkeypatch.setattr(calibrator, "fit", fitting)
    monkeypatch.setattr(calibrator.FittedMethod, "predict", predicting)
    return seen


@pytest.mark.parametrize(
    ("method", "how", "holdout"),
    [
        *product(("platt",), ({"resample_by": "user_name"}, {"order_by": "day"}), ("cv:5", "0.3")),
        ("auto", {"resample_by": "user_name"}, "cv:5"),
        ("auto", {"order_by": "day"}, "0.3"),
    ],
)
def test_units_are_on_one_side(how: dict[str, str], holdout: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = users().drop("x")
    splits = spied(monkeypatch)
    result = calcli.fit(frame, method=method, holdout=holdout, seed=2, flags=calcli.Flags(features=()), **how)
    column = next(iter(how.values()))
    of_score = dict(zip(frame["logit"].to_list(), frame[column].to_list(), strict=True))
    checked = [[{of_score[score] for score in side.tolist()} for side in one] for one in splits if len(one[1])]
    assert len(checked) % (5 if holdout == "cv:5" else 1) == 0
    assert checked
    for train, test in checked:
        assert not train & test
        assert column == "user_name" or max(train) < min(test)
    facts = {"column": column, "count": frame[column].n_unique(), "in_order": column == "day"}
    assert result.report.to_json()["data"]["units"] == facts
    assert result.model.manifest.fit["holdout"]["units"] == facts


def test_the_column_of_units_is_no_feature_unless_it_is_named() -> None:
    frame = users()
    unasked = calcli.fit(frame, method="boost", resample_by="user_name", dry_run=True).binding
    assert {one.column: one.reason for one in unasked.dropped}["user_name"] == "rows are held out by it"
    asked = calcli.fit(
        frame, method="boost", resample_by="user_name", flags=calcli.Flags(features=("user_name", "x")), dry_run=True
    )
    assert [one.name for one in asked.binding.features] == ["user_name", "x"]


def test_one_of_two_orders() -> None:
    with pytest.raises(UsageError, match="resample_by= and order_by= are both given"):
        calcli.fit(users(), method="platt", resample_by="user_name", order_by="day")
    with pytest.raises(FitError, match="one group"):
        calcli.fit(users().with_columns(day=pl.lit(1)), method="platt", resample_by="day")
