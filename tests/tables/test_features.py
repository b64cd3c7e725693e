"""Which columns are features, and why the others are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calcli.errors import DataError, UsageError
from calcli.tables import features
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.source import open_source
from tests.support.tables import ordinary, put

ROWS = 60


def bound(columns: dict[str, Any], flags: Flags = Flags()) -> Binding:
    return bind(open_source(base().with_columns(**columns)), flags)


def base() -> pl.DataFrame:
    return pl.DataFrame({"label": [0, 1] * (ROWS // 2), "logit": [0.5, -0.5] * (ROWS // 2)})


def cycle(*values: Any) -> pl.Series:
    return pl.Series([values[row % len(values)] for row in range(ROWS)])


@pytest.mark.parametrize(
    ("values", "role"),
    [
        (cycle("a", "b", None), "category"),
        (cycle("a", "b").cast(pl.Categorical), "category"),
        (cycle("a", "b").cast(pl.Enum(["a", "b"])), "category"),
        (cycle(True, False, None), "boolean"),
        (cycle(1, 2, None), "number"),
        (cycle(1.5, None), "number"),
        (pl.Series(range(ROWS), dtype=pl.Float64), "number"),
        (cycle(1, 2).cast(pl.Decimal(10, 2)), "number"),
        (cycle(1, 2).cast(pl.UInt8), "number"),
        (pl.Series([str(row) for row in range(ROWS)]).cast(pl.Categorical), "category"),
    ],
)
def test_roles(values: pl.Series, role: str) -> None:
    binding = bound({"x": values})
    assert [(feature.name, feature.role, feature.dtype) for feature in binding.features] == [
        ("x", role, str(values.dtype))
    ]
    assert binding.dropped == ()


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("prob_0", cycle(0.1, 0.2), "named like a score"),
        ("p", cycle(0.1, 0.2), None),
        ("p_value", cycle(0.1, 0.2), "feature"),
        ("probs", cycle(0.1, 0.2), "feature"),
        ("calibrated", cycle(0.1, 0.2), "written by calcli"),
        ("calibrated_a", cycle(0.1, 0.2), "written by calcli"),
        ("uncertainty_total", cycle(0.1, 0.2), "written by calcli"),
        ("uncertain", cycle(0.1, 0.2), "feature"),
        ("id", cycle(1, 2), "named like an id"),
        ("node_id", cycle(1, 2), "named like an id"),
        ("row_id", cycle(1, 2), "named like an id"),
        ("index", cycle(1, 2), "named like an id"),
        ("site_id", cycle(1, 2), "feature"),
        ("key", pl.Series(range(ROWS)), "every value is different, as in an id"),
        ("key", pl.Series([f"k{row}" for row in range(ROWS)]), "every value is different, as in an id"),
        ("key", pl.Series([None, *range(1, ROWS)]), "every value is different, as in an id"),
        ("key", pl.Series([0, 0, *range(2, ROWS)]), "feature"),
        ("day", cycle("2024-01-01", "2024-01-02").str.to_date(), "a date or time"),
        ("at", cycle(1, 2).cast(pl.Datetime), "a date or time"),
        ("took", cycle(1, 2).cast(pl.Duration), "a date or time"),
        ("at", cycle(1, 2).cast(pl.Time), "a date or time"),
        ("v", cycle([1], [2]), "a nested type"),
        ("s", cycle({"a": 1}, {"a": 2}), "a nested type"),
        ("b", cycle(b"x", b"y"), "of type Binary"),
        ("n", pl.Series([None] * ROWS), "no value in any row"),
    ],
)
def test_what_is_dropped(name: str, values: pl.Series, reason: str | None) -> None:
    if reason is None:  # another score beside the logit has to agree with it
        with pytest.raises(DataError, match="disagree"):
            bound({name: values})
        return
    binding = bound({name: values})
    if reason == "feature":
        assert [feature.name for feature in binding.features] == [name]
        assert binding.dropped == ()
    else:
        assert binding.features == ()
        assert [(gone.column, gone.reason) for gone in binding.dropped] == [(name, reason)]


def test_order_is_the_table_s_and_every_column_is_accounted_for() -> None:
    binding = bind(open_source(ordinary()))
    assert [feature.name for feature in binding.features] == ["site", "age", "member"]
    assert [gone.column for gone in binding.dropped] == ["id", "day"]


def test_flags_override() -> None:
    source = open_source(ordinary().with_columns(w=pl.lit(1.0)))
    binding = bind(source, Flags(features=("id", "age")))
    assert [feature.name for feature in binding.features] == ["id", "age"]
    assert binding.dropped == ()
    ignoring = bind(source, Flags(ignore=("age",), weight="w"))
    assert [feature.name for feature in ignoring.features] == ["site", "member"]
    assert ("age", "named by --ignore") in [(gone.column, gone.reason) for gone in ignoring.dropped]
    assert bind(source, Flags(features=())).features == ()
    assert bind(source, features=False).features == bind(source, features=False).dropped == ()


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (("agee",), DataError, "--features: no column 'agee'.*did you mean 'age'"),
        (("label",), UsageError, "--features names 'label', which is the label"),
        (("day",), DataError, "the column 'day' is Date, which is no feature"),
    ],
)
def test_features_that_are_none(names: tuple[str, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        bind(open_source(ordinary()), Flags(features=names))


def test_a_column_named_like_a_label_is_pointed_out() -> None:
    binding = bound({"class": cycle(1, 2, 3)}, Flags(label="label"))
    assert [feature.name for feature in binding.features] == ["class"]
    assert "'class' is named like a label but used as a feature" in binding.notes[0]


def test_ids_are_searched_as_far_as_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "HEADS", (10, 40))
    rows = 100
    late = [*range(rows - 1), 0]  # repeats in the very last row
    frame = pl.DataFrame(
        {"a": range(rows), "b": late, "c": [*range(30), *[0] * 70], "d": [0] * rows, "e": [1, *[None] * 99]}
    )
    for suffix in ("parquet", "csv"):
        path = put(tmp_path / f"a.{suffix}", frame)
        with open_source(path) as source:
            assert features.all_distinct(source, ["a", "b", "c", "d", "e"]) == ["a", "e"]


def test_a_head_that_repeats_spares_the_full_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "HEADS", (10,))
    read = 0

    def count(rows: pl.DataFrame) -> pl.DataFrame:
        nonlocal read
        read += len(rows)
        return rows

    parts = [pl.LazyFrame({"a": [1, 2] * 50}) for _ in range(100)]
    lazy = pl.concat(parts).map_batches(count, streamable=True)
    assert features.all_distinct(open_source(lazy), ["a"]) == []
    assert read < 100 * 100


def test_text_columns_are_features_by_what_they_hold(tmp_path: Path) -> None:
    with open_source(put(tmp_path / "a.csv", ordinary())) as source:
        binding = bind(source)
    assert [(feature.name, feature.role) for feature in binding.features] == [
        ("site", "category"), ("age", "number"), ("member", "boolean"), ("day", "category"),
    ]  # fmt: skip
    assert [gone.column for gone in binding.dropped] == ["id"]
