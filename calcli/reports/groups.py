"""Columns beside score and label: groups to report on, clusters to resample, times to order by, linked rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import polars as pl

from calcli.batch import Edges, FloatArray, IntArray, Units
from calcli.errors import DataError, UsageError
from calcli.tables.arrays import check_comparable, check_years
from calcli.tables.io_errors import reading
from calcli.tables.load import Loaded
from calcli.tables.side_tables import load_nodes
from calcli.tables.source import Source

MOST_GROUPS = 1000
"""The largest number of groups in a report."""


class TableRows(Protocol):
    """Rows of a table that were read, with their row numbers in it; None if they are all."""

    @property
    def source(self) -> Source: ...

    @property
    def row_numbers(self) -> IntArray | None: ...


def ranks(rows: TableRows, column: str, flag: str) -> IntArray:
    """The dense rank of each row's value, from 0; null is refused."""
    values = values_of(rows, column, flag)
    if values.null_count():
        raise DataError(f"{flag}: the column {column!r} is null in {values.null_count():,} rows")
    return values.rank("dense").to_numpy().astype(np.int64) - 1


def in_units(loaded: Loaded, resample_by: str | None, order_by: str | None) -> Loaded:
    """The rows with the units that they belong to by one of these columns, if one is given."""
    units = units_of(loaded, resample_by, order_by)
    return loaded if units is None else replace(loaded, batch=replace(loaded.batch, units=units))


def units_of(rows: TableRows, resample_by: str | None, order_by: str | None = None) -> Units | None:
    """The unit of each row by one of these columns, if one is given."""
    if resample_by is not None and order_by is not None:
        raise UsageError("--resample-by and --order-by are both given", hint="keep the one that matters more")
    if order_by is not None:
        return Units(ranks(rows, order_by, "--order-by"), in_order=True, column=order_by)
    if resample_by is None:
        return None
    return Units(ranks(rows, resample_by, "--resample-by"), column=resample_by)


def distinct_texts(source: Source, column: str) -> tuple[str, ...]:
    """The distinct values of a column as text, without null; at most one more than `MOST_GROUPS`."""
    check_comparable(column, source.raw.collect_schema()[column], "--clusters-from")
    with reading(source.name):
        distinct = source.raw.select(pl.col(column).drop_nulls().unique())
        values = distinct.head(MOST_GROUPS + 1).collect(engine="streaming").to_series()
    check_years(values)
    return tuple(sorted(values.cast(pl.String).unique().to_list()))


def groups(rows: TableRows, column: str) -> tuple[tuple[str | None, ...], IntArray]:
    """The distinct values of a column, null included, and for each row the index of its value."""
    values = values_of(rows, column, "--by")
    distinct = distinct_groups(values, column)
    return group_names(distinct), group_codes(values, distinct)


def distinct_groups(values: pl.Series, column: str) -> pl.Series:
    """The distinct values in their order, null last; an error where they are too many."""
    distinct = values.unique().sort(nulls_last=True)
    check_years(distinct)
    if len(distinct) > MOST_GROUPS:
        raise DataError(
            f"--by: the column {column!r} has {len(distinct):,} different values, the maximum is {MOST_GROUPS:,}",
            hint="group its values, before",
        )
    return distinct


def group_names(distinct: pl.Series) -> tuple[str | None, ...]:
    """The groups as text, None for rows without a value."""
    return tuple(None if name is None else str(name) for name in distinct.cast(pl.String).to_list())


def group_codes(values: pl.Series, distinct: pl.Series) -> IntArray:
    """The place of each value among the distinct ones."""
    place = pl.DataFrame({"value": distinct, "place": np.arange(len(distinct))})
    codes = pl.DataFrame({"value": values}).join(place, on="value", how="left", nulls_equal=True, maintain_order="left")
    return codes["place"].to_numpy().astype(np.int64)


def codes(rows: TableRows, column: str) -> IntArray:
    """The dense rank of each row's value, from 0; a row without a value is alone."""
    rank = values_of(rows, column, "--resample-by").rank("dense").to_numpy()
    missing = np.isnan(rank)
    place = np.where(missing, 0, rank).astype(np.int64)
    place[missing] = int(place.max(initial=0)) + 1 + np.arange(int(missing.sum()))
    return np.unique(place, return_inverse=True)[1].astype(np.int64)


def numbers(rows: TableRows, column: str, flag: str) -> FloatArray:
    """The values of a column of numbers; NaN where there is none."""
    values = values_of(rows, column, flag)
    if not values.dtype.is_numeric():
        raise DataError(f"{flag}: the column {column!r} holds {values.dtype}, not numbers")
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def linked_rows(rows: TableRows, node_id: str | None, edges: Edges) -> IntArray:
    """The pairs of rows that an edge links, each once."""
    from calcli.methods.graphs.relation import links_within

    if node_id is None:
        raise UsageError("--edges needs the column with the ids of the rows", hint="add --node-id COLUMN")
    node, row_numbers = load_nodes(rows.source, node_id), rows.row_numbers
    links = links_within(edges, node if row_numbers is None else node.take(row_numbers))
    once = links.sources < links.ends
    return np.column_stack([links.sources[once], links.ends[once]])


def values_of(rows: TableRows, column: str, flag: str) -> pl.Series:
    """The column, for these rows."""
    source, row_numbers = rows.source, rows.row_numbers
    check_comparable(source.named(column, flag), source.raw.collect_schema()[column], flag)
    values = source.typed([column]).collect(engine="streaming").to_series()
    return values if row_numbers is None else values.gather(row_numbers)
