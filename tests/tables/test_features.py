"""Which columns are features, and why the others are not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
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
        *((name, cycle(0.1, 0.2), "written by calcli") for name in ("calibrated", "calibrated_a", "uncertainty_total")),
        ("uncertain", cycle(0.1, 0.2), "feature"),
        *((name, cycle(1, 2), "named like an id") for name in ("id", "node_id", "row_id", "index")),
        ("site_id", cycle(1, 2), "feature"),
        ("user_id", cycle(1, 2), "named like a group id"),
        ("customerKey", cycle("a", "b"), "named like a group id"),
        ("user", cycle(0.5, 1.5), "feature"),
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


def test_order_is_the_table_s_and_every_column_is_accounted_for(tmp_path: Path) -> None:
    for data in (ordinary(), put(tmp_path / "a.csv", ordinary())):
        with open_source(data) as source:
            binding = bind(source)
        roles = [(feature.name, feature.role) for feature in binding.features]
        assert roles == [("site", "category"), ("age", "number"), ("member", "boolean")]
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
        (("day",), DataError, "the column 'day' is Date, which cannot be a feature"),
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
            assert features.reasons_in_values(source, ["a", "b", "c", "d", "e"]) == {"a": features.ID, "e": features.ID}


def test_a_head_that_repeats_spares_the_full_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "HEADS", (10,))
    read = 0

    def count(rows: pl.DataFrame) -> pl.DataFrame:
        nonlocal read
        read += len(rows)
        return rows

    parts = [pl.LazyFrame({"a": [1, 2] * 50}) for _ in range(100)]
    lazy = pl.concat(parts).map_batches(count, streamable=True)
    assert features.reasons_in_values(open_source(lazy), ["a"]) == {}
    assert read < 100 * 100


EVERY_TYPE = {
    "number": cycle(0.5, None, 2.5),
    "whole": cycle(1, 2, None),
    "flag": cycle(True, False, None),
    "text": cycle("a", "b", None),
    "key": pl.Series([f"k{row}" for row in range(ROWS)]),
    "day": cycle("2024-02-29", "1969-12-31", None).str.to_date(),
    "seconds": cycle("2024-01-01 10:00:00", "2023-12-31 23:59:59").str.to_datetime(),
    "micros": cycle(1, 2_000_001).cast(pl.Datetime("us")),
    "zoned": cycle("2024-07-01 10:00:00", "2024-01-01 10:00:00", None)
    .str.to_datetime()
    .dt.replace_time_zone("Europe/Berlin"),
    "clock": cycle(1000, 3_600_000_000_000).cast(pl.Time),
    "none": pl.Series([None] * ROWS, dtype=pl.Float64),
}


def by_duckdb(frame: pl.DataFrame, path: Path) -> None:
    import duckdb

    duckdb.sql("SELECT * FROM frame").write_csv(str(path))


def by_pyarrow(frame: pl.DataFrame, path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(frame.to_arrow(), path)


WRITERS: dict[str, tuple[str, Callable[[pl.DataFrame, Path], object]]] = {
    **{
        suffix: (suffix, lambda frame, path: put(path, frame))
        for suffix in ("parquet", "arrow", "csv", "tsv", "ndjson")
    },
    "pandas": ("csv", lambda frame, path: frame.to_pandas().to_csv(path, index=False)),
    "pyarrow": ("csv", by_pyarrow),
    "duckdb": ("csv", by_duckdb),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_table_has_the_same_features_in_every_format(tmp_path: Path, writer: str) -> None:
    suffix, write = WRITERS[writer]
    frame = base().with_columns(**EVERY_TYPE)
    expected = bind(open_source(frame))
    path = tmp_path / f"a.{suffix}"
    write(frame, path)
    with open_source(path) as source:
        found = bind(source)
        assert bind(source, known=expected).features == expected.features
        assert [(one.name, one.role) for one in found.features] == [(one.name, one.role) for one in expected.features]
        assert found.dropped == expected.dropped
    assert bind(open_source(frame), known=found).features == found.features


@pytest.mark.parametrize(
    ("texts", "dropped"),
    [
        (("2024-01-01", "NA", None), True),
        (("2024-01-01T10:20Z", "2024-01-01 10:20:30,5+05:30"), True),
        (("2024-01-01 10:20:30 UTC", "NaT", ""), True),
        (("2024-01-01T00:00:00+01:00[Europe/Berlin]",), True),
        (("23:59:60", "24:00:00", "00:00:00.000001"), True),
        (("2024-01-01", "unknown"), False),
        (("2024-02-30",), False),
        (("2024-01-01 10",), False),
        (("2024-01-01x",), False),
        (("16:09", "4:3"), False),
        (("2024-01", "2024-W05"), False),
        (("10-20-30", "555-01-01"), False),
    ],
)
def test_dates_in_text(texts: Sequence[str | None], *, dropped: bool) -> None:
    binding = bound({"x": cycle(*texts)})
    assert [(gone.column, gone.reason) for gone in binding.dropped] == ([("x", features.TIME)] if dropped else [])


def test_a_million_dates_are_enough_and_no_value_is_looked_for_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "HEADS", (10, 40))
    late = {
        "x": [None] * 50 + ["2024-01-01"] * 50,
        "y": ["2024-01-01"] * 50 + ["b"] * 50,
        "z": ["2024-01-01"] * 20 + ["b"] * 80,
        "e": [None] * 99 + ["a"],
        "n": [None] * 99 + [1.0],
        "k": [None] * 45 + [f"k{row}" for row in range(55)],
    }
    with open_source(put(tmp_path / "a.parquet", pl.DataFrame(late))) as source:
        found = features.reasons_in_values(source, list(late))
    assert found == {"x": features.TIME, "y": features.TIME, "e": features.ID, "k": features.ID}


@pytest.mark.slow
def test_the_memory_for_columns_of_integers_grows_no_faster_than_their_number(tmp_path: Path) -> None:
    """A query with a distinct count for each of 3,000 columns took 3 GB."""
    one_hot = {
        f"x{place}": pl.Series([row % 7 == place % 7 for row in range(600)]).cast(pl.Int8) for place in range(3_000)
    }
    path = put(tmp_path / "a.parquet", pl.DataFrame(one_hot))
    script = (
        "import resource, sys\n"
        "from calcli.tables import features, source\n"
        "table = source.open_source(sys.argv[1])\n"
        "names, before = list(table.schema), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert features.reasons_in_values(table, names) == {}\n"
        "print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))\n"
    )
    found = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 500e6


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_category_that_is_mostly_numbers_is_said(tmp_path: Path, suffix: str) -> None:
    columns = {
        "age": cycle("31", "31", "42", "n/a"),
        "half": cycle("x", "1.5"),
        "word": cycle("x", "y", "1.5"),
        "code": cycle("007", "7"),
    }
    with open_source(put(tmp_path / f"a.{suffix}", base().with_columns(**columns))) as source:
        notes = bind(source).notes
    assert notes == (
        "'age' (because of 'n/a'), 'half' (because of 'x') are categories, though they mostly hold numbers; "
        "if the words mean missing, leave the cells empty",
    )
