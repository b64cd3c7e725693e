"""One machine: `apply` streams through polars, in memory that does not grow with the file."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from calcli.batch import FloatArray
from calcli.errors import CalcliError, DataError
from calcli.tables.arrays import Levels
from calcli.tables.row_counts import Mask

BadRows: TypeAlias = Literal["fail", "null"]
"""What to do with a row that cannot be used: refuse the table, or go on without it."""


REFUSED = "some rows cannot be used"


@dataclass(frozen=True, slots=True)
class Computed:
    """The values of added columns for some rows, and which rows could not be used, if any.

    An array of shape (n, K) is K columns. `others` follow them, in types of their own.
    """

    values: Sequence[FloatArray]
    bad: Mask | None = None
    others: Sequence[pl.Series] = ()

    def columns(self) -> Iterator[FloatArray]:
        """An array for each column, contiguous as polars takes them."""
        for values in self.values:
            yield from map(np.ascontiguousarray, values[None] if values.ndim == 1 else values.T)


class AddedColumns(Protocol):
    """The columns that are added to a table, and the columns that they are computed from."""

    @property
    def reads(self) -> Sequence[str]:
        """The columns that are read."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are added."""
        ...

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        """Of the added columns that are no float64; they come last."""
        ...

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        """Their values for rows with the columns that are read; `levels` are the categories of rows before."""
        ...


@dataclass(slots=True)
class RowWatch:
    """Counts bad rows and keeps the first error of a stream: polars calls from several threads, and wraps errors.

    Attributes
    ----------
    bad
        Rows that could not be used.
    failure
        The error that ended the stream, as it was raised.
    """

    bad: int = 0
    failure: CalcliError | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count_bad(self, rows: int) -> None:
        with self._lock:
            self.bad += rows

    def keep(self, failure: CalcliError) -> None:
        with self._lock:
            self.failure = self.failure or failure


@dataclass(frozen=True, slots=True)
class Stream:
    """How columns are added to rows as they pass.

    Attributes
    ----------
    whole_table
        Whether rows depend on each other, so that all rows of a table are needed at once.
    """

    added: AddedColumns
    bad_rows: BadRows
    whole_table: bool = False

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
        elementwise = not self.whole_table
        added = pl.struct(self.added.reads).map_batches(add, return_dtype=kind, is_elementwise=elementwise)
        return frame.with_columns(added.alias(names[0]).struct.unnest())

    def compute(self, rows: pl.DataFrame, levels: Levels, watch: RowWatch | None = None) -> pl.DataFrame:
        """The added columns of some rows; null where a row is bad and may be."""
        computed = self.added.compute(rows, levels)
        columns = [*map(_series, computed.columns()), *computed.others]
        added = pl.DataFrame(dict(zip(self.added.names, columns, strict=True)))
        if computed.bad is not None:
            if watch is not None:
                watch.count_bad(int(computed.bad.sum()))
            if self.bad_rows == "fail":
                raise DataError(REFUSED)
            added = added.select(pl.when(pl.Series(~computed.bad)).then(pl.all()))
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
