"""Columns of groups: a column as it is, its numbers in bins, its dates by a unit of time, and crosses of columns.

``age:10`` is age in ten bins of equal mass, ``day:month`` the month of a date, ``device*country`` each pair of values.
They become columns of the table under these names, so that whatever reads a column of groups reads them too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from calcli.batch import FloatArray
from calcli.errors import DataError, UsageError
from calcli.tables.paths import reading
from calcli.tables.source import Computed, Source
from calcli.tables.text import cast_text

MANY = 30
"""A column of more different numbers than these is put into bins."""

BINS = 5
MOST_BINS = 100

UNITS = {"hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}
"""The units of time, and how a group of each is written: such texts have the order of time."""


class Grouping(NamedTuple):
    """A column of groups, and a sentence about it, if there is something to say."""

    column: str
    note: str | None = None


def add_grouping(source: Source, asked: str) -> Grouping:
    """The column of groups that `asked` names, which is a column of the table afterwards."""
    source.find(asked)
    if asked not in source.columns and "*" in asked:
        return _crossed(source, asked)
    column, colon, size = asked.rpartition(":")
    if asked in source.columns or not colon:
        column, size = asked, ""
    name = source.named(column, "--by")
    dtype = source.schema[name]
    if dtype.is_numeric() and (size or _has_many(source, name)):
        return _binned(source, name, size)
    if size and (dtype in (pl.Date, pl.Datetime) or (dtype == pl.String and size in UNITS)):
        return _by_time(source, name, size)
    if size:
        raise UsageError(
            f"--by {asked}: {column!r} is {dtype}, and only numbers and dates are put into bins", hint=f"--by {column}"
        )
    return Grouping(name)


def _values(source: Source, name: str) -> pl.Expr:
    return cast_text(name, source.schema[name]) if source.text and name in source.stored else pl.col(name)


def _has_many(source: Source, name: str) -> bool:
    """Whether a column has more different numbers than can be looked at one by one."""
    with reading(source.name):
        found = source.raw.select(_values(source, name).unique().head(MANY + 2)).collect(engine="streaming")
    return found.to_series().drop_nulls().len() > MANY


def _binned(source: Source, column: str, size: str) -> Grouping:
    """Numbers in bins of equal mass, each named by its least and its greatest number."""
    if size and not (size.isdecimal() and 2 <= int(size) <= MOST_BINS):
        raise UsageError(
            f"--by {column}:{size}: give a number of bins, 2 to {MOST_BINS}", hint=f"try: --by {column}:10"
        )
    bins, name = int(size or BINS), f"{column}:{size or BINS}"
    name += " bins" * (name in source.stored)  # a column of the table has the name
    values = _values(source, column).cast(pl.Float64)
    with reading(source.name):
        numbers = source.raw.select(values.drop_nulls().drop_nans().alias(column)).collect(engine="streaming")
    if not len(numbers):
        raise DataError(f"--by: the column {column!r} holds no numbers")
    edges, names = _bins(np.sort(numbers.to_series().to_numpy()), bins)
    place = pl.sum_horizontal(pl.lit(0), *(values > edge for edge in edges.tolist()))
    text = place.replace_strict(list(range(len(names))), names, return_dtype=pl.Enum(names))
    source.compute(name, Computed(pl.when(values.is_not_nan()).then(text), pl.Enum(names)))
    by_itself = (
        None if size else f"--by {column}: its numbers are in {len(names)} bins of equal mass; {column}:N makes N"
    )
    return Grouping(name, by_itself)


def _bins(ordered: FloatArray, bins: int) -> tuple[FloatArray, list[str]]:
    """The upper edges of all bins but the last, and the name of each; equal numbers share a bin."""
    places = len(ordered) * np.arange(1, bins) // bins
    edges = np.unique(ordered[np.maximum(places - 1, 0)])
    edges = edges[edges < ordered[-1]]
    ends = np.searchsorted(ordered, np.append(edges, ordered[-1]), side="right")
    starts = np.append(0, ends[:-1])
    digits = next((d for d in range(3, 18) if _differ(ordered, starts, ends, d)), 17)
    pairs = [(f"{ordered[a]:.{digits}g}", f"{ordered[b - 1]:.{digits}g}") for a, b in zip(starts, ends, strict=True)]
    return edges, [low if low == high else f"{low} to {high}" for low, high in pairs]


def _differ(ordered: FloatArray, starts: np.ndarray, ends: np.ndarray, digits: int) -> bool:
    """Whether so many digits tell the end of each bin from the beginning of the next."""
    return all(
        f"{ordered[end - 1]:.{digits}g}" != f"{ordered[start]:.{digits}g}"
        for end, start in zip(ends[:-1], starts[1:], strict=True)
    )


def _by_time(source: Source, column: str, unit: str) -> Grouping:
    """Dates by hour, day, week, month or year."""
    if unit not in UNITS:
        raise UsageError(f"--by {column}:{unit}: known units of time are {', '.join(UNITS)}")
    name, values = f"{column}:{unit}", _values(source, column)
    if source.schema[column] == pl.String:  # text formats have no dates
        values = values.str.to_datetime(strict=False)
        with reading(source.name):
            known = source.raw.select(values.is_not_null().any()).collect(engine="streaming").item()
        if not known:
            raise DataError(f"--by {name}: {column!r} holds no dates such as 2026-01-31 or 2026-01-31 12:00:00")
    source.compute(name, Computed(values.dt.strftime(UNITS[unit]), pl.String()))
    return Grouping(name)


def _crossed(source: Source, asked: str) -> Grouping:
    """The pairs of values of columns, of which only those are groups that have rows."""
    parts = [add_grouping(source, part.strip()) for part in asked.split("*")]
    columns = [part.column for part in parts]
    texts = [_values(source, column).cast(pl.String).fill_null("null") for column in columns]
    source.compute(asked, Computed(pl.concat_str(texts, separator=", "), pl.String()))
    with reading(source.name):
        counts = source.raw.select(
            *(text.n_unique().alias(column) for text, column in zip(texts, columns, strict=True)),
            pl.col(asked).n_unique(),
        ).collect(engine="streaming")
    *alone, together = counts.row(0)
    pairs = int(np.prod(alone))
    empty = f"--by {asked}: {pairs - together:,} of {pairs:,} combinations have no rows"
    notes = [note for _, note in parts if note is not None] + [empty] * (together < pairs)
    return Grouping(asked, "; ".join(notes) or None)
