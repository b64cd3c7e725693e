"""The verbs on nested records: as on a flat table of the same values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli import Flags
from calcli.errors import DataError, UsageError
from tests.support.tables import put_text

NESTED = Flags(
    logprob="out.lp[0]", label="metrics.correct", weight="metrics.w", features=("doc.length",), ignore=("doc.task",)
)
FLAT = Flags(prob="prob", label="label", weight="w", features=("length",), ignore=("task",))


def records(rows: int = 400) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    z = rng.normal(0.5, 1.0, rows)
    return [
        {
            "doc": {"task": "ab"[row % 2], "unit": row // 4, "length": float(rng.integers(1, 50))},
            "out": {"lp": [-float(np.log1p(np.exp(-2 * z[row]))), -1.0]},
            "metrics": {"correct": bool(rng.random() < 1 / (1 + np.exp(-z[row]))), "w": float(rng.integers(1, 4))},
        }
        for row in range(rows)
    ]


def flat(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "task": [row["doc"]["task"] for row in rows],
            "unit": [row["doc"]["unit"] for row in rows],
            "length": [row["doc"]["length"] for row in rows],
            "prob": [float(np.exp(row["out"]["lp"][0])) for row in rows],
            "label": [row["metrics"]["correct"] for row in rows],
            "w": [row["metrics"]["w"] for row in rows],
        }
    )


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return put_text(tmp_path / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in records()))


def numbers(found: Any) -> list[float]:
    """All numbers of a JSON value, in its order."""
    if isinstance(found, Mapping):
        found = list(found.values())
    if isinstance(found, list):
        return [number for part in found for number in numbers(part)]
    return [float(found)] if isinstance(found, int | float) else []


def measured(report: Any) -> list[float]:
    """The numbers of the scores and groups in a report."""
    found = report.to_json()
    return numbers([[score["metrics"] for score in found["scores"]], found["groups"], found["differences"]])


def test_an_artifact_keeps_the_paths_and_every_verb_finds_them_again(lines: Path, tmp_path: Path) -> None:
    table = flat(records())
    nested = calcli.fit(lines, method="beta", output="nested", flags=NESTED, resample_by="doc.unit")
    plain = calcli.fit(table, method="beta", output="plain", flags=FLAT, resample_by="unit")
    assert nested.model.binding.score.columns == ("exp(out.lp[0])",)
    expected = plain.model.predict(table)
    # apply: the records pass through as they are, the paths do not
    calcli.apply("nested", lines, "scored.jsonl")
    scored = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text().splitlines()]
    np.testing.assert_allclose([row.pop("calibrated") for row in scored], expected, rtol=1e-12)
    assert scored == records()
    # predict, on a frame
    np.testing.assert_allclose(calcli.load("nested").predict(pl.read_ndjson(lines)), expected, rtol=1e-12)
    # evaluate
    by = [
        calcli.evaluate(data, artifacts=(artifact,), by=(task,), resample_by=unit, metrics="nll,auc,ece")
        for data, artifact, task, unit in ((lines, "nested", "doc.task", "doc.unit"), (table, "plain", "task", "unit"))
    ]
    assert measured(by[0]) == pytest.approx(measured(by[1]), rel=1e-9)
    assert {group["by"] for group in by[0].groups} == {"doc.task"}
    # refit, on a file that is not that of the fit
    other = tmp_path / "other.jsonl"
    other.write_text("".join(reversed(lines.read_text().splitlines(keepends=True))))
    new, old = calcli.refit("nested", other).report, calcli.refit("plain", table.reverse()).report
    assert measured(new) == pytest.approx(measured(old), rel=1e-9)


def test_compare_and_diagram_read_paths(lines: Path) -> None:
    table = flat(records())
    found = [
        calcli.compare(data, methods="platt,beta", flags=flags, order_by=unit)
        for data, flags, unit in ((lines, NESTED, "doc.unit"), (table, FLAT, "unit"))
    ]
    assert measured(found[0].report) == pytest.approx(measured(found[1].report), rel=1e-9)
    curves = [
        numbers(calcli.diagram(data, flags=flags, by=(by,)).to_json()["curves"])
        for data, flags, by in ((lines, NESTED, "doc.task"), (table, FLAT, "task"))
    ]
    assert len(curves[0]) > 50
    assert curves[0] == pytest.approx(curves[1], rel=1e-9)


def test_logits_and_further_scores_can_be_paths(lines: Path) -> None:
    flags = Flags(logit="out.lp[0]", label="metrics.correct")
    report = calcli.evaluate(lines, flags=flags, scores=("lp=exp(out.lp[0])", "second=exp(out.lp[1])"))
    label = np.array([row["metrics"]["correct"] for row in records()])
    lp = np.array([row["out"]["lp"][0] for row in records()])
    assert report.value("raw", "brier") == pytest.approx(np.mean((1 / (1 + np.exp(-lp)) - label) ** 2))
    assert report.value("lp", "brier") == pytest.approx(np.mean((np.exp(lp) - label) ** 2))
    assert report.value("second", "brier") == pytest.approx(np.mean((np.exp(-1) - label) ** 2))


def test_an_item_beyond_the_end_is_a_bad_row(lines: Path, tmp_path: Path) -> None:
    rows = records()
    rows[3]["out"]["lp"] = []
    rows[5]["out"]["lp"][0] = 0.5
    put_text(lines, "".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"2 bad rows of 400"):
        calcli.fit(lines, method="platt", flags=NESTED)
    calcli.fit(lines, method="platt", flags=NESTED, bad_rows="null", output="kept")
    calcli.apply("kept", lines, "scored.parquet", bad_rows="null")
    missing = pl.read_parquet("scored.parquet")["calibrated"].is_null()
    assert missing.arg_true().to_list() == [3, 5]


def test_what_is_no_logarithm_of_a_probability_is_refused(lines: Path) -> None:
    with pytest.raises(DataError, match=r"'metrics.w' holds no logarithms of probabilities: 400 of 400 are above 0"):
        calcli.evaluate(lines, flags=Flags(logprob="metrics.w", label="metrics.correct"))
    with pytest.raises(UsageError, match="--prob and --logprob are both given"):
        Flags(prob="a", logprob="b")
    with pytest.raises(UsageError, match="prob= and logit= are both given"):
        calcli.evaluate(lines, flags=Flags(logprob="out.lp[0]", logit="out.lp[1]", label="metrics.correct"))


def test_columns_of_text_hold_logarithms_too(lines: Path, tmp_path: Path) -> None:
    table = flat(records()).with_columns(lp=pl.col("prob").log()).select("lp", "label")
    table.write_csv(tmp_path / "flat.csv")
    flags = Flags(logprob="lp")
    assert measured(calcli.evaluate("flat.csv", flags=flags)) == measured(calcli.evaluate(table, flags=flags))
    calcli.fit("flat.csv", method="platt", flags=flags, output="kept")
    calcli.apply("kept", "flat.csv", "scored.csv")
    assert (tmp_path / "scored.csv").read_text().splitlines()[0] == "lp,label,calibrated"


def test_a_table_without_the_path_of_an_artifact_is_refused(lines: Path) -> None:
    calcli.fit(lines, method="platt", flags=NESTED, output="kept")
    for other in ({"out": [{"text": "x"}]}, {"prob": [0.5]}):
        with pytest.raises(DataError, match=r"no column 'exp\(out\.lp\[0\]\)', the score that the artifact was fitted"):
            calcli.apply("kept", pl.DataFrame(other), "scored.csv")
