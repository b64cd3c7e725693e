"""A report that was written before, against which every number is held."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calcli
from calcli.cli.main import main
from calcli.errors import UsageError
from calcli.reports.conditions import check_gates
from calcli.reports.gates import parse
from tests.support.reports import REPORT_SCHEMA
from tests.support.samples import breeds, clicks

PLAIN = "nll,brier,auc,ece,mvce"


@pytest.fixture
def fitted(here: Path, fit_once: Callable[..., None]) -> Path:
    fit_once("train.parquet", "m", method="platt")
    return here


def town(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(town=pl.when(pl.col("row_id") % 3 == 0).then(pl.lit("oslo")).otherwise(pl.lit("rome")))


def write(name: str, *words: str, change: Callable[[dict[str, Any]], object] | None = None) -> Path:
    """A baseline as the command line writes it, then `change`d."""
    path = Path(name)
    report = json.loads(evaluated(words, Path(words[0]).read_bytes()))
    if change is not None:
        change(report)
    path.write_text(json.dumps(report))
    return path


@cache
def evaluated(words: tuple[str, ...], rows: bytes) -> str:
    """The report of rows that several tests begin with, and of the artifact of `fitted`."""
    return json.dumps(calcli.evaluate(words[0], artifacts=words[1:]).to_json())


def test_old_new_and_change_of_every_number(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old_rows, new_rows = town(clicks(seed=1)), town(clicks(seed=2))
    old_rows.write_parquet("old.parquet")
    assert main(["evaluate", "old.parquet", "--with", "m", "--by", "town", "--format", "json"]) == 0
    Path("old.json").write_text(capsys.readouterr().out)
    found = calcli.evaluate(new_rows, artifacts=("m",), by=("town",), baseline="old.json", metrics=PLAIN)
    old = calcli.evaluate(old_rows, artifacts=("m",), by=("town",), metrics=PLAIN)
    assert [(one.by, one.group, one.score, one.metric) for one in found.changes] == [
        *((None, None, score, metric) for score in ("raw", "m") for metric in PLAIN.split(",")),
        *(("town", group, score, metric) for score in ("raw", "m") for group in ("oslo", "rome")
          for metric in PLAIN.split(",")),
    ]  # fmt: skip
    for one in found.changes:
        if one.by is None:
            before, now = (report.value(one.score, one.metric) for report in (old, found))
        else:
            before, now = (
                next(row for row in report.groups if (row["group"], row["score"]) == (one.group, one.score))["metrics"][
                    one.metric
                ]["value"]
                for report in (old, found)
            )
        assert (one.old, one.new, one.comparable, one.reason) == (before, now, True, None)
        assert one.change == now - before
    sha256 = hashlib.sha256(Path("old.json").read_bytes()).hexdigest()
    assert found.baseline == {"path": "old.json", "sha256": sha256, "version": calcli.__version__}
    text = json.dumps(found.to_json(), allow_nan=False)
    REPORT_SCHEMA.validate(json.loads(text))
    assert json.loads(text) == found.to_json()


def test_without_a_baseline_there_is_none(here: Path) -> None:
    report = calcli.evaluate("test.parquet").to_json()
    assert (report["baseline"], report["changes"]) == (None, [])


def test_gates_see_the_change(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    town(clicks(seed=1)).write_parquet("new.parquet")
    write("same.json", "new.parquet", "m")
    run = ["evaluate", "new.parquet", "--with", "m", "--baseline"]
    assert main([*run, "same.json", "--fail-if", "nll.change > 0", "--fail-if", "raw.nll.change > 0"]) == 0

    def better_before(report: dict[str, Any]) -> None:
        report["scores"][1]["metrics"]["nll"]["value"] -= 0.01

    write("better.json", "new.parquet", "m", change=better_before)
    assert main([*run, "better.json", "--fail-if", "nll.change > 0.02"]) == 0
    assert main([*run, "better.json", "--fail-if", "brier.change > 0"]) == 0
    capsys.readouterr()
    assert main([*run, "better.json", "--fail-if", "nll.change > 0.002"]) == 1
    assert "nll.change of m is 0.01, the limit 0.002" in " ".join(capsys.readouterr().out.split())


def test_gates_see_the_change_of_a_group(fitted: Path) -> None:
    frame = town(clicks(seed=1))
    report = calcli.evaluate(frame, artifacts=("m",), by=("town",)).to_json()
    rome = next(row for row in report["groups"] if (row["group"], row["score"]) == ("rome", "m"))
    rome["metrics"]["ece"]["value"] -= 0.01
    Path("old.json").write_text(json.dumps(report))

    def judged(expression: str) -> list[dict[str, Any]]:
        how = {"artifacts": ("m",), "by": ("town",), "baseline": "old.json"}
        return calcli.evaluate(frame, **how, fail_if=(expression,)).to_json()["gates"][0]["failed"]

    assert [(one["score"], one["group"], one["metric"]) for one in judged("ece.change@town > 0.005")] == [
        ("m", "rome", "ece.change")
    ]
    assert judged("ece.change@town=oslo > 0.005") == []
    assert judged("ece.change > 0.005") == []


def test_what_the_baseline_does_not_have_is_null(fitted: Path) -> None:
    write("old.json", "test.parquet")
    how = {"artifacts": ("m",), "metrics": "nll,slope", "baseline": "old.json"}
    found = {(one.score, one.metric): one for one in calcli.evaluate("test.parquet", **how).changes}
    assert found["raw", "nll"].change == 0.0
    for place, reason in (
        (("m", "nll"), "the baseline has no score 'm'"),
        (("m", "slope"), "the baseline has no score 'm'"),
        (("raw", "slope"), "the baseline has no slope"),
    ):
        assert (found[place].old, found[place].change, found[place].comparable) == (None, None, True)
        assert found[place].reason == reason
    for expression, reason in (
        ("nll.change > 0", "nll.change of m has no value: the baseline has no score 'm'"),
        ("raw.slope.change > 0", "slope.change of raw has no value: the baseline has no slope"),
    ):
        with pytest.raises(UsageError, match=f"{reason}; try: allow_null=True"):
            calcli.evaluate("test.parquet", **how, fail_if=(expression,))
        calcli.evaluate("test.parquet", **how, fail_if=(expression,), allow_null=True)


def test_what_has_no_value_on_either_side_is_null(fitted: Path) -> None:
    one_class = clicks(seed=1).filter(label=1)
    Path("old.json").write_text(json.dumps(calcli.evaluate(one_class, artifacts=("m",)).to_json()))
    found = calcli.evaluate("test.parquet", artifacts=("m",), baseline="old.json")
    auc = next(one for one in found.changes if (one.score, one.metric) == ("m", "auc"))
    assert (auc.change, auc.reason) == (None, "it has no value in the baseline")
    with pytest.raises(UsageError, match="no value in the baseline; try: allow_null=True"):
        calcli.evaluate("test.parquet", artifacts=("m",), baseline="old.json", fail_if=("auc.change < 0",))


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        (calcli.Options(bins=20), "ece is another one in the baseline: bins 15, here 20"),
        (calcli.Options(binning="mass"), "ece is another one in the baseline: binning width, here mass"),
        (calcli.Options(convention="netcal"), "ece is another one in the baseline: edge right-closed"),
        (calcli.Options(norm=1.0), "mvce is another one in the baseline: norm 2.0, here 1.0"),
        (calcli.Options(bin_size=400), "mvce is another one in the baseline: bin size 62.5, here 400.0"),
    ],
)
def test_another_metric_of_the_same_name_is_refused(fitted: Path, options: calcli.Options, difference: str) -> None:
    """Where a gate is about it, whether or not nulls are allowed; all other metrics are compared."""
    write("old.json", "test.parquet", "m")
    found = calcli.evaluate("test.parquet", artifacts=("m",), baseline="old.json", options=options)
    metric = difference.partition(" ")[0]
    for one in found.changes:
        assert one.comparable == (one.metric != metric)
        assert one.change == (None if one.metric == metric else 0.0)
        assert one.reason is None or one.reason.startswith(difference)
    for allow_null in (False, True):
        with pytest.raises(UsageError, match=difference):
            check_gates([parse(f"{metric}.change > 0")], found, allow_null=allow_null)
    assert check_gates([parse("nll.change > 0")], found)[0]["passed"]


@pytest.mark.parametrize(("rows", "alike"), [(2000, True), (2100, True), (1850, True), (1500, False)])
def test_shuffled_bins_are_alike_if_they_hold_about_as_many_rows(here: Path, rows: int, alike: bool) -> None:
    write("old.json", "test.parquet")
    found = calcli.evaluate(clicks(rows, seed=1), baseline="old.json")
    assert {one.metric: one.comparable for one in found.changes} == dict.fromkeys(PLAIN.split(","), True) | {
        "mvce": alike,
        "cece": rows == 2000,  # clusters of the features: others where the rows are others
    }


def test_other_classes_are_refused(here: Path) -> None:
    write("old.json", "test.parquet")
    for other, flags in ((breeds(), calcli.Flags()), (clicks(), calcli.Flags(positive="0"))):
        with pytest.raises(UsageError, match=r"old.json' is of the classes 0, 1, not (a, b, c, d|1, 0)"):
            calcli.evaluate(other, flags=flags, baseline="old.json")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no such file"),
        ("a directory", "it is a directory"),
        (b"", "it is no JSON"),
        (b"PAR1\xff", "it is no JSON"),
        (b"[]", "it holds list, not an object"),
        (b'{"schema": "calcli.report/2"}', "its schema is 'calcli.report/2'"),
        (b'{"schema": "calcli.report/1", "command": "fit"}', "it is one of 'fit'"),
        (b'{"schema": "calcli.report/1", "command": "evaluate"}', "it does not hold what a report holds"),
        (b'{"schema": "calcli.report/1", "command": "evaluate", "scores": NaN}', "it is no JSON"),
    ],
)
def test_what_is_no_baseline_is_refused_in_a_line(here: Path, content: bytes | str | None, why: str) -> None:
    if isinstance(content, bytes):
        Path("old.json").write_bytes(content)
    elif content is not None:
        Path("old.json").mkdir()
    with pytest.raises(UsageError, match=why) as caught:
        calcli.evaluate("test.parquet", baseline="old.json")
    assert "calcli evaluate ... --format json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["version", "binding", "definitions", "scores", "groups"])
def test_a_report_with_a_part_missing_is_none(here: Path, key: str) -> None:
    write("old.json", "test.parquet", change=lambda report: report.pop(key))
    with pytest.raises(UsageError, match="does not hold what a report holds"):
        calcli.evaluate("test.parquet", baseline="old.json")


def test_a_report_of_before_there_were_baselines_is_one(here: Path) -> None:
    write("old.json", "test.parquet", change=lambda report: [report.pop(key) for key in ("baseline", "changes")])
    assert all(one.change == 0.0 for one in calcli.evaluate("test.parquet", baseline="old.json").changes)
