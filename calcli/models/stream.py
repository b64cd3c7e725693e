"""Copying a table with columns added, as a stream through polars: in memory that does not grow with the file."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from calcli.batch import FloatArray
from calcli.errors import CalcliError, DataError, UsageError, unknown_name
from calcli.places import Database, place
from calcli.tables.arrays import Levels
from calcli.tables.binding_types import Binding
from calcli.tables.checks import Mask, in_any
from calcli.tables.paths import JSON, SEPARATORS, Format, format_of, writing
from calcli.tables.records import extended
from calcli.tables.request import BadRows
from calcli.tables.sink import STDOUT, write
from calcli.tables.source import Source
from calcli.tables.text import as_written

if TYPE_CHECKING:  # only exports need formulas
    from calcli.expressions import Term

REFUSED = "some rows cannot be used"


@dataclass(frozen=True, slots=True)
class Computed:
    """The values of added columns for some rows, and which rows could not be used, if any.

    An array of shape (n, K) is K columns. `others` follow them, in types of their own. `bad` has a column for each
    added one where a row can be used for some of them.
    """

    values: Sequence[FloatArray]
    bad: Mask | None = None
    others: Sequence[pl.Series] = ()

    def columns(self) -> Iterator[FloatArray]:
        """An array for each column, contiguous as polars takes them."""
        for values in self.values:
            yield from map(np.ascontiguousarray, values[None] if values.ndim == 1 else values.T)


class AddedColumns(ABC):
    """The columns that are added to a table, and what differs between kinds of them when the table is copied."""

    __slots__ = ()

    task = "predicting"
    """The name of the stage in which the columns are computed."""

    rename = "leave it out with --keep, or rename it, before"
    """A hint for a table that has a column of an added one's name."""

    @property
    @abstractmethod
    def reads(self) -> Sequence[str]:
        """The columns that are read."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns that are added."""

    @property
    def whole_table(self) -> bool:
        """Whether rows depend on each other, so that all rows of a table are needed at once."""
        return False

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        """The types of added columns that are no float64; they come last."""
        return {}

    @abstractmethod
    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        """The values for rows with the columns that are read; `levels` are the categories of rows before."""

    def formulas(self) -> dict[str, Term]:
        """The columns as terms of the columns of the table, for exports."""
        raise UsageError("these columns have no formula", hint="see: calcli export --help")

    def numbers(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        """The values of `formulas`."""
        return self.compute(rows, levels)

    def written_terms(self) -> dict[str, Term] | None:
        """The columns as terms where these say all that `compute` does, texts included; else None."""
        return None

    def doubt(self, source: Source) -> str | None:
        """Why the score of the table may not be what the columns take it for, if it may not."""
        return None

    def remarks(self, source: Source) -> Sequence[str]:
        """Notes on the rows of the table, before they are read."""
        return ()

    def refuse_bad_rows(self, source: Source) -> None:  # noqa: B027 where bad rows are not counted, there is nothing to do
        """Read the table again, and raise an error that counts all bad rows."""


@dataclass(frozen=True, slots=True)
class ModelColumns(AddedColumns):
    """The columns that a model adds to a table that is bound to its roles."""

    binding: Binding


@dataclass(slots=True)
class RowWatch:
    """Counts bad rows and keeps the first error of a stream: polars calls from several threads, and wraps errors."""

    bad: int = 0
    """Rows that could not be used."""

    failure: CalcliError | None = None
    """The error that ended the stream, as it was raised."""

    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count_bad(self, rows: int) -> None:
        with self._lock:
            self.bad += rows

    def keep(self, failure: CalcliError) -> None:
        with self._lock:
            self.failure = self.failure or failure


@dataclass(frozen=True, slots=True)
class ColumnAdder:
    """How columns are added to rows as they pass."""

    added: AddedColumns
    bad_rows: BadRows

    def through(self, frame: pl.LazyFrame, watch: RowWatch) -> pl.LazyFrame:
        """The rows with the added columns, lazily.

        One expression over the columns that are read alone, so that polars streams it and never copies the others.
        """
        names = self.added.names
        kind = pl.Struct({name: self.added.types.get(name, pl.Float64()) for name in names})
        levels = Levels()

        def add(rows: pl.Series) -> pl.Series:
            try:
                return self.compute(rows.struct.unnest(), levels, watch).to_struct()
            except CalcliError as failure:
                watch.keep(failure)
                raise

        # Elementwise work is streamed in chunks; else polars brings all rows together, and holds them.
        elementwise = not self.added.whole_table
        added = pl.struct(self.added.reads).map_batches(add, return_dtype=kind, is_elementwise=elementwise)
        return frame.with_columns(added.alias(names[0]).struct.unnest())

    def compute(self, rows: pl.DataFrame, levels: Levels, watch: RowWatch | None = None) -> pl.DataFrame:
        """The added columns of some rows; null where a row is bad and may be."""
        computed = self.added.compute(rows, levels)
        columns = [*map(_series, computed.columns()), *computed.others]
        added = pl.DataFrame(dict(zip(self.added.names, columns, strict=True)))
        if computed.bad is not None:
            if watch is not None:
                watch.count_bad(int(in_any(computed.bad).sum()))
            if self.bad_rows == "fail":
                raise DataError(REFUSED)
            good = cycle([pl.Series(np.ascontiguousarray(one)) for one in np.atleast_2d(~computed.bad.T)])
            added = added.select(pl.when(next(good)).then(pl.col(name)) for name in added.columns)
        return added


@dataclass(frozen=True, slots=True)
class _Exported:
    """An array with the Arrow C interface and nothing else.

    For an array of pyarrow itself polars imports pyarrow.compute, and for one of numpy it imports numpy.ma: both take
    a tenth of the time that a small table takes, and neither is needed.
    """

    array: pa.Array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        capsules: tuple[object, object] = self.array.__arrow_c_array__(requested_schema)
        return capsules


def _series(values: FloatArray) -> pl.Series:
    """The array as a column, without a copy."""
    array = pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(values)])
    return pl.Series(_Exported(array))


def kept_columns(source: Source, keep: Sequence[str] | None, added: AddedColumns, hint: str = "") -> list[str]:
    """The input columns that pass through, in the order of the table; None keeps all.

    `hint` replaces that of `added` in the error about a column that has the name of an added one.
    """
    hint = hint or added.rename
    names = source.stored
    for name in keep or ():
        if name not in names:
            raise UsageError(unknown_name("column to keep:", name, names))
    kept = [name for name in names if keep is None or name in keep]
    for name in added.names:
        if not name:
            raise UsageError("the name of the column to add is empty", hint=hint)
        if added.names.count(name) > 1:
            raise UsageError(f"two of the added columns would be named {name!r}", hint=hint)
        if name in kept:
            raise DataError(f"the table already has a column {name!r}, which the added column would replace", hint=hint)
    return kept


def promised_format(output: str | os.PathLike[str] | None, given: str | None) -> Format | None:
    """The format of the output, as far as it is known before the table is opened: None is that of the table."""
    if output is None:
        return None
    where = place(output)
    if isinstance(where, Database):
        return "parquet"  # a table with types
    return None if str(output) == STDOUT and given is None else format_of(where, given, flag="--output-format")


@dataclass(frozen=True, slots=True)
class RowsWritten:
    """How many rows there were, and how many of them could not be used; the rows themselves if they went nowhere."""

    rows: int
    bad: int
    frame: pl.DataFrame | None = None


def write_rows(
    stream: ColumnAdder,
    source: Source,
    kept: Sequence[str],
    output: str | os.PathLike[str] | None,
    output_format: Format | None,
    *,
    at_once: bool = False,
) -> RowsWritten:
    """Write the columns that are kept and those that are added; without an output, keep them in memory.

    With `at_once` pipes and standard output get rows as they are computed, before all are known to be good.

    An error within the stream is raised as it was, not as polars wraps it. A stream that stops at the first bad row
    does not know how many there are, so the table is read again for the error that counts them.
    """
    # Text that goes to text is passed through as text, so that 007 and 1.50 stay what they are; so do records of JSON.
    kind = None if output is None else format_of(output, output_format, flag="--output-format", stream=source.format)
    dialect = source.dialect if output is not None and kind == source.format else None
    passed = [pl.col(name) for name in kept] if kind in SEPARATORS else source.as_typed(kept)
    watch = RowWatch()
    records = source.records if kind in JSON else None
    if records is None:
        # Columns are computed from the text too: 1.10 and 1e5 may be names, whatever the format of the output.
        rows = stream.through(source.raw, watch).select(*passed, *stream.added.names)
    else:
        beside = [name for name in kept if name in source.inputs.files[0].partition]
        keep = None if list(kept) == list(source.stored) else kept
        rows = extended(stream.through(records, watch), [*beside, *stream.added.names], keep)
    if dialect is not None:
        rows = as_written(rows, replace(dialect, commas=dialect.commas & set(kept)))
    try:
        if output is None:
            with writing("memory"):
                collected = rows.collect(engine="streaming")
            return RowsWritten(len(collected), watch.bad, collected)
        count = write(rows, output, format=kind, arrow_types=source.arrow_types, dialect=dialect, stream=at_once)
    except CalcliError:
        if watch.bad and stream.bad_rows == "fail":
            stream.added.refuse_bad_rows(source)
        if watch.failure is not None:
            raise watch.failure from None
        raise
    return RowsWritten(count, watch.bad)
