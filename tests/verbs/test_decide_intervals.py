"""`decide --intervals` from rows to an artifact, to intervals, to what they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.artifacts import generation, store
from calcli.cli.main import main
from calcli.decisions.conformal import PredictionIntervals
from calcli.errors import ArtifactError, DataError, UsageError
from calcli.models.intervals import IntervalModel
from tests.support.reports import ANSWERS_SCHEMA, REPORT_SCHEMA


def forecasts(rows: int, seed: int) -> pl.DataFrame:
    """Predicted amounts whose errors grow with the predicted spread, in two groups."""
    rng = np.random.default_rng(seed)
    forecast = rng.normal(0.0, 2.0, rows)
    sd = np.exp(0.5 * forecast)
    return pl.DataFrame(
        {
            "label": forecast + sd * rng.normal(size=rows),
            "forecast": forecast,
            "sd": sd,
            "variance": np.square(sd),
            "low": forecast - sd,
            "high": forecast + 2 * sd,
            "site": rng.choice(["a", "b"], rows),
        }
    )


ASKED: dict[str, dict[str, Any]] = {
    "absolute": {"prediction": "forecast"},
    "spread": {"prediction": "forecast", "spread": "sd"},
    "variance": {"prediction": "forecast", "variance": "variance"},
    "quantiles": {"quantiles": ("low", "high")},
    "one side": {"prediction": "forecast", "spread": "sd", "side": "lower"},
    "groups": {"prediction": "forecast", "by": "site"},
}


@pytest.mark.parametrize("kind", ASKED)
def test_from_rows_to_intervals_to_what_they_hold(kind: str, here: Path) -> None:
    """The ends are those of the split-conformal rule on these arrays; evaluate counts what they hold."""
    asked, rows, new = ASKED[kind], forecasts(900, 0), forecasts(700, 1)
    result = calcli.decide(rows, intervals=0.9, output="p", **asked)
    ANSWERS_SCHEMA.validate(result.to_json())
    names = asked.get("quantiles", ("forecast", "forecast"))
    scaled = kind in ("spread", "variance", "one side")
    code = {"a": 0, "b": 1}

    def columns(table: pl.DataFrame) -> dict[str, Any]:
        group = np.array([code[site] for site in table["site"]]) if kind == "groups" else None
        return {
            "lower": table[names[0]].to_numpy(),
            "upper": table[names[1]].to_numpy(),
            "spread": table["sd"].to_numpy() if scaled else None,
            "group": group,
        }

    options = {"level": 0.9, "confidence": 0.95, "side": asked.get("side", "both")}
    peer = PredictionIntervals.fit(rows["label"].to_numpy(), **options, **columns(rows))
    lo, hi = peer.predict(**columns(new))
    calcli.apply("p", new, "out.parquet")
    out = pl.read_parquet("out.parquet")
    np.testing.assert_allclose(out["lo"], lo, rtol=1e-12)
    np.testing.assert_allclose(out["hi"], hi, rtol=1e-12)
    assert out.columns == [*new.columns, "lo", "hi"]
    report = calcli.evaluate(new, artifacts=("p",))
    REPORT_SCHEMA.validate(report.to_json())
    (entry,) = report.to_json()["decisions"]
    held = (lo <= new["label"].to_numpy()) & (new["label"].to_numpy() <= hi)
    assert entry["numbers"]["coverage"]["value"] == pytest.approx(held.mean())
    assert entry["promise"]["broken"] is False


def test_a_promise_that_does_not_hold_any_more(here: Path) -> None:
    calcli.decide(forecasts(900, 0), intervals=0.9, prediction="forecast", spread="sd", output="p")
    moved = forecasts(700, 1).with_columns(label=pl.col("label") + pl.col("sd"))
    assert calcli.evaluate(moved, artifacts=("p",)).decisions[0]["promise"]["broken"] is True


def test_the_columns_of_uncertainty_are_found(here: Path) -> None:
    rows = forecasts(100, 0).select("label", uncertainty_mean="forecast", uncertainty_total="variance")
    result = calcli.decide(rows, intervals=0.8, variance="uncertainty_total")
    assert [option.name for option in result.choice.options] == ["scaled", "absolute"]


def test_a_group_that_was_not_there_and_rows_without_a_prediction(here: Path) -> None:
    calcli.decide(forecasts(500, 0), intervals=0.9, prediction="forecast", by="site", output="p")
    rows = forecasts(3, 1).with_columns(site=pl.Series(["a", "new", "b"]), forecast=pl.Series([1.0, 1.0, None]))
    calcli.apply("p", rows, "out.parquet", bad_rows="null")
    out = pl.read_parquet("out.parquet")
    widths = (out["hi"] - out["lo"]).to_list()
    limits = IntervalModel.read(store.read("p")).rule.intervals.thresholds.values
    assert widths[1] == pytest.approx(2 * max(limit for (limit,) in limits))
    assert out["lo"][2] is None


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({}, DataError, "uncertainty_mean"),
        ({"prediction": "site"}, DataError, "no numbers"),
        ({"prediction": "forecast", "spread": "forecast"}, DataError, "0 or more"),
        ({"prediction": "forecast", "quantiles": ("low", "high")}, UsageError, "quantiles= takes two"),
        ({"prediction": "forecast", "spread": "sd", "variance": "sd"}, UsageError, "variance= are both"),
        ({"prediction": "forecast", "artifact": "m"}, UsageError, "artifact= is a calibrator"),
        ({"prediction": "forecast", "sets": 0.9}, UsageError, "sets= excludes intervals="),
    ],
)
def test_what_cannot_be_asked(options: dict[str, Any], error: type[Exception], word: str, here: Path) -> None:
    with pytest.raises(error, match=word):
        calcli.decide(forecasts(50, 0), intervals=0.9, **options)


def test_intervals_are_no_calibrator(here: Path) -> None:
    calcli.decide(forecasts(200, 0), intervals=0.9, prediction="forecast", output="p")
    with pytest.raises(ArtifactError, match="intervals of amounts"):
        calcli.load("p")
    with pytest.raises(UsageError, match="on their own"):
        calcli.evaluate(forecasts(200, 0), artifacts=("p",), scores=("low",))


def test_a_forged_rule_is_refused(here: Path) -> None:
    calcli.decide(forecasts(200, 0), intervals=0.9, prediction="forecast", output="p")
    model = IntervalModel.read(store.read("p"))
    state = model.rule.to_state()
    for params in ({"lower": 5}, {"kind": "sets"}, {"rule": {}}, {"spread": "sd"}):
        store.write("forged", model.manifest, {"threshold": type(state)({**state.params, **params})})
        with pytest.raises(ArtifactError, match="does not hold"):
            IntervalModel.read(store.read("forged"))


def test_the_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forecasts(300, 0).write_csv("valid.csv")
    assert main(["decide", "valid.csv", "--intervals", "0.9", "--prediction", "forecast", "--spread", "sd"]) == 0
    out = capsys.readouterr()
    assert out.out == "valid.policy\n"
    assert "coverage" in out.err
    for words in (["inspect", "valid.policy"], ["evaluate", "valid.csv", "--with", "valid.policy", "-q"]):
        assert main(words) == 0
        assert "valid.policy" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["calibrator", "intervals"])
def test_a_verb_reads_an_artifact_once(here: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    table: Any = "test.parquet"
    if kind == "calibrator":
        calcli.fit("train.parquet", method="platt", output="p")
    else:
        table = forecasts(300, 0)
        calcli.decide(table, intervals=0.9, prediction="forecast", output="p")
    reads, read = list[object](), generation.manifest_bytes
    monkeypatch.setattr(generation, "manifest_bytes", lambda path: reads.append(path) or read(path))
    for verb in (
        lambda: calcli.evaluate(table, artifacts=("p",)),
        lambda: calcli.apply("p", table, "out.parquet"),
        lambda: calcli.inspect("p"),
    ):
        reads.clear()
        verb()
        assert len(reads) == 1


def test_a_password_of_the_output_is_not_in_the_result(here: Path) -> None:
    calcli.decide(forecasts(500, 0), intervals=0.9, prediction="forecast", output="p")
    result = calcli.apply("p", forecasts(3, 1), "postgresql://me:secret@host/db#scored", dry_run=True)
    assert result.output == "postgresql://me@host/db#scored"


@pytest.mark.parametrize("given", [{"fail_if": ("nll > 0.3",)}, {"baseline": "old.json"}], ids=["gate", "baseline"])
def test_a_gate_on_metrics_does_not_pass_in_silence(here: Path, given: dict[str, Any]) -> None:
    calcli.decide(forecasts(500, 0), intervals=0.9, prediction="forecast", output="p")
    rows = forecasts(200, 1)
    Path("old.json").write_text(json.dumps(calcli.evaluate(rows, artifacts=("p",)).to_json()))
    with pytest.raises(UsageError, match="intervals have none"):
        calcli.evaluate(rows, artifacts=("p",), **given)
