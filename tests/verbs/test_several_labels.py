"""Laws of several labels: one run for each, the order of columns says nothing, a row without a label lacks that one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import calcli
from calcli.artifacts import store
from calcli.cli.main import main
from calcli.errors import ArtifactError, CalcliError
from calcli.metrics.multiple import adjusted, holm
from calcli.models.multi import MultiModel
from calcli.models.requests import FitRequest
from calcli.state import State
from calcli.verbs.export import ExportRequest, export
from calcli.verbs.fit import fit
from tests.support.listener import Recorder

NAMES = ("spam", "threat", "toxicity")
MULTI = ("label_*", "score_*")
ROWS = 400


def table(rows: int = ROWS, seed: int = 0) -> pl.DataFrame:
    """Three labels with overconfident scores, of which one is missing in every seventh row; a feature; a unit."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"f": rng.normal(size=rows), "w": rng.gamma(2.0, size=rows), "user": np.arange(rows) // 3}
    for shift, name in enumerate(NAMES):
        odds = rng.normal(-shift / 2, 1.5, rows)
        columns[f"label_{name}"] = (rng.random(rows) < 1 / (1 + np.exp(-odds - columns["f"]))).astype(int)
        columns[f"score_{name}"] = 1 / (1 + np.exp(-2 * odds))
    gone = pl.when(pl.int_range(rows) % 7 != 0).then(pl.col("label_spam")).alias("label_spam")
    return pl.DataFrame(columns).with_columns(gone)


def alone(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """The rows that have this label, without the columns of the others."""
    others = [column for other in NAMES if other != name for column in (f"label_{other}", f"score_{other}")]
    return frame.drop(others).filter(pl.col(f"label_{name}").is_not_null())


def columns_of(name: str) -> dict[str, str]:
    return {"label": f"label_{name}", "prob": f"score_{name}"}


CASES: dict[str, dict[str, Any]] = {
    "platt": {"method": "platt", "weight": "w", "ignore": ("user",)},
    "auto": {"method": "auto", "simple": True, "features": (), "holdout": "cv:2"},
    "effects": {"method": "effects", "resample_by": "user", "features": ("f",), "holdout": "cv:3"},
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact of the three labels; read only."""
    path = tmp_path_factory.mktemp("labels") / "all"
    calcli.fit(table(), multi=MULTI, method="platt", features=(), output=path)
    return path


@pytest.mark.parametrize("case", ["platt", "effects", pytest.param("auto", marks=pytest.mark.slow)])
def test_one_run_for_each(case: str, tmp_path: Path) -> None:
    frame, asked = table(), CASES[case]
    fitted = calcli.fit(frame, multi=MULTI, output=tmp_path / "all", **asked)
    kept = calcli.inspect(tmp_path / "all")
    assert [row[0] for row in kept.sections[0].rows] == sorted(NAMES)
    applied = calcli.apply(tmp_path / "all", frame).frame
    assert applied is not None
    for name in NAMES:
        one = calcli.fit(alone(frame, name), **columns_of(name), **asked)
        assert one.model is not None
        assert one.report is not None
        state, expected = (
            calcli.load(f"{tmp_path / 'all'}#{name}").calibrator.to_state(),
            one.model.calibrator.to_state(),
        )
        assert state.params == expected.params
        assert state.arrays.keys() == expected.arrays.keys()
        assert all(np.array_equal(array, expected.arrays[key]) for key, array in state.arrays.items())
        by_itself = calcli.apply(one.model, frame, column=f"calibrated_{name}").frame
        assert by_itself is not None
        assert_frame_equal(
            applied.select(f"calibrated_{name}"), by_itself.select(f"calibrated_{name}"), check_exact=True
        )
        of_label = [entry for entry in fitted.report.groups if entry["group"] == name]
        for entry, row in zip(of_label, one.report.scores, strict=True):
            assert entry["rows"] == len(alone(frame, name))
            assert {m: v["value"] for m, v in entry["metrics"].items()} == {m: v.value for m, v in row.metrics.items()}


def test_measured_as_one_by_one_and_corrected_as_groups(kept: Path) -> None:
    frame = table(seed=1)
    whole = calcli.evaluate(frame, artifacts=(str(kept),), bootstrap=20)
    assert whole == calcli.evaluate(frame, artifacts=(str(kept),), bootstrap=20, multi=MULTI)
    for name in NAMES:
        rows = alone(frame, name).with_columns(pl.lit("x").alias("all rows"))
        alone_in: dict[str, Any] = {"by": ("all rows",), "ignore": ("all rows",)}
        one = calcli.evaluate(rows, artifacts=(f"{kept}#{name}",), bootstrap=20, **alone_in)
        of_label = [entry for entry in whole.groups if entry["group"] == name]
        for entry, row, group in zip(of_label, one.scores, one.groups, strict=True):
            assert entry["metrics"] == {metric: asdict(value) for metric, value in row.metrics.items()}
            assert (entry["p"], entry["p_least"], entry["detectable"]) == (
                group["p"],
                group["p_least"],
                group["detectable"],
            )
        found: Any = of_label[1]["differences"]
        expected = {one.metric: (one.value, one.lo, one.hi, one.p) for one in one.differences}
        assert {m: (d["value"], d["lo"], d["hi"], d["p"]) for m, d in found.items()} == expected
    entries: Any = whole.groups
    assert [e["p_adjusted"] for e in entries] == [*adjusted([(e["p"], e["p_least"]) for e in entries])]
    losses = [e["differences"]["nll"] for e in entries if e["differences"]]
    assert [one["p_adjusted"] for one in losses] == [*holm([one["p"] for one in losses])]


def test_order_of_columns_says_nothing() -> None:
    frame = table()
    turned = frame.select(reversed(frame.columns))
    fits = [calcli.fit(one, multi=MULTI, method="platt", features=()) for one in (frame, turned)]
    reports: list[Any] = [one.report for one in fits]
    assert reports[0].groups == reports[1].groups
    assert all(isinstance(one.model, MultiModel) and [*one.model.members] == sorted(NAMES) for one in fits)


def test_missing_labels_are_counted_by_label() -> None:
    said = Recorder()
    fit(FitRequest(table(), multi=MULTI, method="platt", features=()), said)
    missing = -(-ROWS // 7)
    assert f"rows without a label are left out for that label alone: {missing} without 'label_spam'" in said.notes


def test_bad_scores_are_null_for_their_label_alone() -> None:
    model = calcli.fit(table(), multi=MULTI, method="platt", features=()).model
    frame = table().with_columns(pl.when(pl.int_range(ROWS) != 3).then(pl.col("score_threat")).alias("score_threat"))
    assert model is not None
    result = calcli.apply(model, frame, bad_rows="null")
    assert result.frame is not None
    assert result.rows_bad == 1
    assert result.frame[3, "calibrated_threat"] is None
    assert result.frame.null_count().select("calibrated_spam", "calibrated_toxicity").row(0) == (0, 0)
    with pytest.raises(CalcliError, match=r"1 bad row of 400.*score_threat"):
        calcli.apply(model, frame)
    assert np.array_equal(
        model.predict(table()), calcli.apply(model, table()).frame.select(pl.col("^calibrated_.*$")).to_numpy()
    )


def test_files_are_read_as_frames_are(tmp_path: Path) -> None:
    table().write_csv(tmp_path / "rows.csv")
    """Neither where the rows are, nor when they were read, is in the payloads."""
    one: Any = calcli.fit(tmp_path / "rows.csv", multi=MULTI, method="platt", features=(), output=tmp_path / "a").report
    other: Any = calcli.fit(table(), multi=MULTI, method="platt", features=(), output=tmp_path / "b").report
    assert one.groups == other.groups
    payloads = [store.describe(tmp_path / name).payloads for name in "ab"]
    assert payloads[0] == payloads[1]
    assert one.data.files[0]["path"] == str(tmp_path / "rows.csv")


def test_patterns() -> None:
    """Bare names of labels beside their scores, percent, log-odds, labels that are shares."""
    frame = table()
    bare = frame.rename({f"label_{name}": name for name in NAMES})
    groups = calcli.evaluate(frame, multi=MULTI, metrics="nll,auc").groups
    of_bare = calcli.evaluate(bare, multi=("*", "score_*"), metrics="nll,auc").groups
    assert [{**one, "by": ""} for one in groups] == [{**one, "by": ""} for one in of_bare]
    percent = frame.with_columns(pl.col("^score_.*$") * 100)
    of_percent = calcli.evaluate(percent, multi=("label_*", "percent(score_*)"), metrics="nll").groups
    odds = frame.with_columns((pl.col("^score_.*$") / (1 - pl.col("^score_.*$"))).log())
    of_odds = calcli.evaluate(odds, multi=MULTI, metrics="nll").groups
    for entries in (of_percent, of_odds):
        found: Any = [
            (one["metrics"]["nll"]["value"], two["metrics"]["nll"]["value"])
            for one, two in zip(entries, groups, strict=True)
        ]
        assert np.allclose(*zip(*found, strict=True), rtol=1e-12)
    shares = frame.with_columns(pl.col("label_spam") * 0.5 + 0.25)
    one = calcli.evaluate(alone(shares, "spam"), **columns_of("spam"), metrics="nll").scores[0]
    entry: Any = calcli.evaluate(shares, multi=MULTI, metrics="nll").groups[0]
    assert entry["metrics"]["nll"]["value"] == one.metrics["nll"].value


REFUSED = {
    "'label_spam' has no score: there is no column 'score_spam'": (MULTI, lambda one: one.drop("score_spam")),
    "'score_threat' has no label: there is no column 'label_threat'": (MULTI, lambda one: one.drop("label_threat")),
    "no column is like 'y_\\*'": (("y_*", "score_*"), lambda one: one),
    "'label_\\*_\\*'.: one \\* in each pattern": (("label_*_*", "score_*"), lambda one: one),
    "'score'.: one \\* in each pattern": (("label_*", "score"), lambda one: one),
    "the label 'label_threat' is 0 in every row": (MULTI, lambda one: one.with_columns(label_threat=0)),
    "the label 'label_threat' holds 0, 2": (MULTI, lambda one: one.with_columns(pl.col("label_threat") * 2)),
    "the label 'label_threat' holds 0, 1, 2": (
        MULTI,
        lambda one: one.with_columns(label_threat=pl.int_range(pl.len()) % 3),
    ),
}


@pytest.mark.parametrize("message", REFUSED)
@pytest.mark.parametrize("verb", [calcli.fit, calcli.evaluate])
def test_refused_before_anything_runs(message: str, verb: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    multi, change = REFUSED[message]
    monkeypatch.setattr("calcli.verbs.fit.tried", None)
    with pytest.raises(CalcliError, match=message):
        verb(change(table()), multi=multi)


@pytest.mark.parametrize("ignored", ["label_threat", "score_threat"])
def test_a_label_that_is_left_out_is_no_feature(ignored: str) -> None:
    frame = table().with_columns(label_threat=0)
    one = calcli.fit(frame, multi=MULTI, method="effects", ignore=(ignored, "user", "w"), holdout="cv:3").model
    assert isinstance(one, MultiModel)
    assert {name: [one.name for one in member.fitted_binding.features] for name, member in one.members.items()} == {
        "spam": ["f"],
        "toxicity": ["f"],
    }
    bare = frame.drop("score_threat")
    assert {entry["group"] for entry in calcli.evaluate(bare, multi=MULTI, ignore=("label_threat",)).groups} == {
        "spam",
        "toxicity",
    }


def test_one_label_of_several(tmp_path: Path) -> None:
    """Verbs that take one calibrator say how it is named, and take it."""
    place = str(tmp_path / "all")
    calcli.fit(table(), multi=MULTI, method="platt", features=(), output=place)
    with pytest.raises(ArtifactError, match="several labels") as error:
        calcli.diagram(table(), artifacts=(place,))
    assert f"{place}#LABEL" in str(error.value.hint)
    drawn = calcli.diagram(alone(table(), "threat"), artifacts=(f"{place}#threat",))
    assert {curve.score for curve in drawn.curves} == {"raw", "all#threat"}
    with pytest.raises(CalcliError, match=r"no label 'treat'.*did you mean 'threat'"):
        calcli.load(f"{place}#treat")
    with pytest.raises(CalcliError, match="not renewed"):
        calcli.refit(f"{place}#threat", table())
    with pytest.raises(CalcliError, match="this takes one label"):
        calcli.compare(table(), multi=MULTI)
    with pytest.raises(CalcliError, match="drift= is about one label"):
        calcli.evaluate(table(), drift=place)


def test_exported_as_applied(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("sqlglot")
    frame = table()
    model = calcli.fit(frame, multi=MULTI, method="platt", features=(), output=tmp_path / "all").model
    query = export(ExportRequest(model, table="frame", keep=()))
    found = duckdb.sql(query).pl()
    applied = calcli.apply(model, frame, keep=()).frame
    assert_frame_equal(found, applied, abs_tol=1e-9)
    document = json.loads(export(ExportRequest(model, to="json")))
    assert [one["name"] for one in document["outputs"]] == [f"calibrated_{name}" for name in sorted(NAMES)]


def test_guard_keeps_all_or_none(tmp_path: Path) -> None:
    frame = table().with_columns(
        label_threat=pl.Series(np.random.default_rng(3).permutation(table()["label_threat"].to_numpy()))
    )
    frame = frame.with_columns(score_threat=pl.lit(float(frame["label_threat"].mean())))
    result = calcli.fit(frame, multi=MULTI, method="histogram", guard="nll", features=(), output=tmp_path / "all")
    assert str(result.refused).startswith("threat: on held-out rows")
    assert result.path is None
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize(
    "params",
    [{}, {"labels": []}, {"labels": ["a", "a", "b"]}, {"labels": ["a"] * 9}, {"labels": 3}, {"labels": ["a", "b"]}],
)
def test_forged(params: Any, kept: Path, tmp_path: Path) -> None:
    """Artifacts whose hashes are right, and whose labels have other calibrators or none."""
    whole = store.read(kept)
    blobs = dict(whole.state.blobs)
    if params.get("labels") == ["a", "b"]:  # with the calibrator of a policy, or with bytes that are damaged
        blobs["1/manifest.json"] = blobs["1/manifest.json"].replace(b'"calibrator"', b'"policy"')
    store.write(tmp_path / "all", whole.manifest, {"state": State(params, blobs=blobs)})
    with pytest.raises(ArtifactError):
        calcli.apply(tmp_path / "all", table())


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    table().write_csv("rows.csv")
    assert main(["fit", "rows.csv", "--multi", *MULTI, "-m", "platt", "-o", "all"]) == 0
    told = capfd.readouterr()
    assert told.out == "all\n"
    assert "platt lowers the log-loss of 3 of 3 labels." in told.err
    assert main(["evaluate", "rows.csv", "--with", "all", "--fail-if", "nll.diff > -1", "--format", "csv"]) == 1
    assert "all,label_*=spam,nll" in capfd.readouterr().out
    assert main(["inspect", "all#spam"]) == 0
    capfd.readouterr()
    assert main(["decide", "rows.csv", "--multi", *MULTI]) == 2
    assert "takes one label at a time" in capfd.readouterr().err
