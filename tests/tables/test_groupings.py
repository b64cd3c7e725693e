"""Columns of groups that are made of other columns."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import CalcliError
from calcli.tables.groupings import add_grouping
from calcli.tables.source import open_source
from calcli.verbs.compared_scores import EvaluateRequest
from calcli.verbs.evaluate import evaluate
from tests.support.listener import Recorder
from tests.support.samples import clicks
from tests.support.tables import put

RNG = np.random.default_rng(0)
ROWS = 1000
FRAME = clicks(ROWS, seed=3).with_columns(
    age=pl.Series(RNG.integers(18, 90, ROWS)),
    price=pl.Series(np.where(RNG.random(ROWS) < 0.1, np.nan, RNG.lognormal(size=ROWS))),
    hands=pl.Series(RNG.integers(0, 3, ROWS)),
    place=pl.Series(RNG.choice(["a", "b", "c"], ROWS)),
    when=pl.Series(
        [datetime.date(2026, 1, 1) + datetime.timedelta(days=int(day)) for day in RNG.integers(0, 90, ROWS)]
    ),
)


def column(path: Path | pl.DataFrame, asked: str) -> pl.Series:
    with open_source(path) as source:
        found = add_grouping(source, asked)
        return source.raw.select(pl.col(found.column).cast(pl.String)).collect().to_series()


@pytest.mark.parametrize("kind", ["parquet", "csv", "ndjson", "ipc"])
@pytest.mark.parametrize("asked", ["age", "age:10", "price:4", "when:month", "when:week", "place*hands", "age:2*place"])
def test_groups_are_the_same_in_every_format(tmp_path: Path, kind: str, asked: str) -> None:
    frame = FRAME if kind in ("parquet", "ipc") else FRAME.with_columns(pl.col("price").fill_nan(None))
    assert column(put(tmp_path / f"rows.{kind}", frame), asked).to_list() == column(FRAME, asked).to_list()


@pytest.mark.parametrize(("name", "bins"), [("age", 5), ("age", 10), ("price", 4), ("price", 100)])
def test_bins_part_the_rows_by_their_order_into_equal_shares(name: str, bins: int) -> None:
    texts = column(FRAME, f"{name}:{bins}")
    kept = FRAME.with_columns(texts.alias("bin")).filter(pl.col(name).cast(pl.Float64).is_not_nan())
    parts = kept.group_by("bin").agg(pl.len(), low=pl.col(name).min(), high=pl.col(name).max()).sort("low")
    most = kept[name].value_counts()["count"].max()
    assert (parts["low"][1:] > parts["high"][:-1]).all()
    assert np.abs(parts["len"].to_numpy() - len(kept) / len(parts)).max() <= most + len(kept) / bins / 2
    if bins <= 10:
        assert len(parts) == bins
        ends = np.array([text.split(" to ") for text in parts["bin"]], dtype=np.float64)
        np.testing.assert_allclose(ends, parts.select("low", "high").to_numpy(), rtol=5e-3)
    assert texts.is_null().to_list() == FRAME[name].cast(pl.Float64).is_nan().to_list()


def test_a_value_that_many_rows_have_is_a_bin_of_its_own_name() -> None:
    frame = FRAME.with_columns(spent=pl.Series(np.where(np.arange(ROWS) < 700, 0.0, np.arange(ROWS))))
    counts = column(frame, "spent:4").value_counts()
    assert dict(counts.iter_rows()) == {"0": 700, "700 to 749": 50, "750 to 999": 250}


def test_a_report_by_bins_and_crosses_is_that_of_a_column_made_before() -> None:
    asked = {"age:3": column(FRAME, "age:3"), "place*hands": column(FRAME, "place*hands")}
    made = FRAME.with_columns(texts.alias(f"own {index}") for index, texts in enumerate(asked.values()))
    ours = calcli.evaluate(made, metrics=("nll", "ece"), by=tuple(asked))
    own = calcli.evaluate(made, metrics=("nll", "ece"), by=("own 0", "own 1"))

    def numbers(report: calcli.Report, names: tuple[str, ...]) -> dict[tuple[int, str], object]:
        return {(names.index(one["by"]), one["group"]): one["metrics"] for one in report.groups}

    assert numbers(ours, tuple(asked)) == numbers(own, ("own 0", "own 1"))
    assert [one["group"] for one in ours.groups if one["by"] == "age:3"] == sorted(
        asked["age:3"].unique(), key=lambda text: int(text.split()[0])
    )


def test_many_numbers_are_binned_and_few_are_not_and_empty_crosses_are_counted() -> None:
    listener = Recorder()
    frame = FRAME.with_columns(place=pl.when(pl.col("hands") == 0).then(pl.lit("a")).otherwise("place"))
    report = evaluate(EvaluateRequest(frame, by=("age", "hands", "place*hands")), listener)
    assert {one["by"] for one in report.groups} == {"age:5", "hands", "place*hands"}
    notes = "\n".join(listener.notes)
    assert "--by age: its numbers are in 5 bins of equal mass" in notes
    assert "--by place*hands: 2 of 9 combinations have no rows" in notes


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("age:x", "give a number of bins, 2 to 100"),
        ("age:1", "give a number of bins"),
        ("when:eon", "known units of time are hour, day, week, month, year"),
        ("place:3", "'place' is String, and only numbers and dates"),
        ("place:day", "holds no dates such as 2026-01-31"),
        ("plac:3", "did you mean 'place'"),
        ("place*hand", "did you mean 'hands'"),
    ],
)
def test_what_cannot_be_a_group_is_refused(asked: str, words: str) -> None:
    with pytest.raises(CalcliError) as found:
        column(FRAME, asked)
    assert words in str(found.value)


def test_bins_do_not_take_a_stored_column_of_their_name() -> None:
    stored = FRAME.with_columns(pl.lit("x").alias("age:5"))
    assert column(stored, "age").to_list() == column(FRAME, "age:5").to_list()
    assert set(column(stored, "age:5")) == {"x"}
