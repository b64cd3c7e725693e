"""``--bins auto`` gives the numbers of the cube root of the number of rows, given as a number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.cli.main import main
from calcli.estimators.metrics import FUNCTIONS
from calcli.reports.schema import Report
from tests.support.reports import REPORT_SCHEMA
from tests.support.samples import breeds, clicks

AUTO = calcli.Options(bins="auto")
BINNED = "ece,rmsce,mce,classwise_ece,ada_ece,ece_debiased"


def numbers(report: Report) -> dict[str, Any]:
    """All that is measured, without the word that tells the two apart."""
    plain = report.to_json()
    REPORT_SCHEMA.validate(plain)
    definitions = {name: one | {"auto_bins": None} for name, one in plain["definitions"].items()}
    scores = [(one["name"], one["metrics"]) for one in plain["scores"]]
    return {"definitions": definitions, "scores": scores} | {
        name: plain[name] for name in ("differences", "groups", "curves")
    }


def test_evaluate_in_every_part_of_its_report(here: Path) -> None:
    """1,800 rows have a weight, and 13 is the cube root of 2,197, 12 that of 1,728."""
    frame = clicks(2000, seed=1).with_columns(
        town=pl.int_range(pl.len()) % 2, zeroed=pl.when(pl.int_range(pl.len()) % 10 > 0).then("w").otherwise(0.0)
    )
    calcli.fit("train.parquet", method="platt", output="m")
    how = {"artifacts": ("m",), "by": ("town",), "bootstrap": 5, "metrics": BINNED, "every_curve": True}
    flags = calcli.Flags(weight="zeroed", features=("age",))
    found = calcli.evaluate(frame, options=AUTO, flags=flags, **how)
    assert {one.bins for one in found.definitions.values()} == {13}
    assert all(one.auto_bins for one in found.definitions.values())
    given = calcli.evaluate(frame, options=calcli.Options(bins=13), flags=flags, **how)
    assert numbers(found) == numbers(given)
    assert not any(one.auto_bins for one in given.definitions.values())


@pytest.mark.parametrize(("convention", "binning"), [("mapie", "width"), ("netcal", "mass"), ("guo", "width")])
def test_conventions_and_more_classes(convention: str, binning: Any) -> None:
    rows = breeds(1000)
    auto, ten = (calcli.Options(bins=bins, convention=convention, binning=binning) for bins in ("auto", 10))
    found, given = (calcli.evaluate(rows, options=options, metrics="ece,classwise_ece") for options in (auto, ten))
    assert numbers(found) == numbers(given)


@pytest.mark.parametrize("verb", ["fit", "compare", "refit"])
def test_verbs_that_hold_rows_out(here: Path, verb: str) -> None:
    """A fifth of 2,500 rows has 8 bins, all of 2,000 have 13."""
    calcli.fit("train.parquet", method="platt", output="m")
    calls = {
        "fit": lambda options: calcli.fit(
            clicks(2500), method="platt", output=f"n{options.bins}", holdout="0.2", options=options
        ),
        "compare": lambda options: calcli.compare(clicks(), methods="platt", options=options),
        "refit": lambda options: calcli.refit("m", clicks(seed=3), options=options),
    }
    bins = 8 if verb == "fit" else 13
    found, given = (calls[verb](options).report for options in (AUTO, calcli.Options(bins=bins)))
    assert found.definitions["ece"].bins == bins
    assert numbers(found) == numbers(given)


def test_functions_of_arrays() -> None:
    rng = np.random.default_rng(0)
    prob, weight = rng.random(700), rng.integers(0, 2, 700)
    y = (rng.random(700) < prob).astype(int)
    bins = {None: 9, "weight": 7 if weight.sum() <= 343 else 8}
    for name in BINNED.split(","):
        for weights, count in ((None, bins[None]), (weight, bins["weight"])):
            found, given = (FUNCTIONS[name](y, prob, bins=one, sample_weight=weights) for one in ("auto", count))
            assert found == given
    one, other = (
        calcli.metrics.summary(y, prob, metrics=BINNED, bootstrap=3, options=calcli.Options(bins=bins))
        for bins in ("auto", 9)
    )
    assert one == other


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_a_picture_of_each_group_has_the_bins_of_its_rows(binning: Any) -> None:
    frame = clicks(1100).with_columns(first=pl.int_range(pl.len()) < 100)
    found = calcli.diagram(frame, by=("first",), bins="auto", binning=binning)
    for curve, rows in zip(found.curves, (frame[100:], frame[:100]), strict=True):
        (given,) = calcli.diagram(rows, bins=10 if len(rows) == 1000 else 5, binning=binning).curves
        assert (curve.points, curve.edges, curve.error) == (given.points, given.edges, given.error)
    plain = found.to_json()
    assert plain["bins"] is None
    assert [one["bins"] for one in plain["readings"]] == [curve.bins for curve in found.curves]


@pytest.mark.parametrize(("rows", "alike"), [(2000, True), (2250, True), (1200, False)])
def test_a_baseline_with_about_as_many_bins_is_alike(
    here: Path, capsys: pytest.CaptureFixture[str], rows: int, alike: bool
) -> None:
    """13 bins, 14 and 11; 13 bins by number are not 14 by the rows."""
    for bins in ("auto", "13"):
        assert main(["evaluate", "test.parquet", "--metrics", "ece", "--bins", bins, "--format", "json"]) == 0
        Path(f"{bins}.json").write_text(capsys.readouterr().out)
    how: dict[str, Any] = {"metrics": "ece", "options": AUTO}
    (change,) = calcli.evaluate(clicks(rows), baseline="auto.json", **how).changes
    assert change.comparable == alike
    (change,) = calcli.evaluate(clicks(rows), baseline="13.json", **how).changes
    assert change.comparable == (rows == 2000)


def test_the_words_say_where_the_number_comes_from(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "test.parquet", "--metrics", "ece", "--bins", "auto"]) == 0
    assert "13 bins (auto) of equal width" in " ".join(capsys.readouterr().out.split())
    assert main(["evaluate", "test.parquet", "--metrics", "ece", "--format", "json", "--bins", "auto"]) == 0
    assert json.loads(capsys.readouterr().out)["definitions"]["ece"]["auto_bins"] is True
