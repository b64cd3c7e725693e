"""One machine: `apply` streams through polars, in memory that does not grow with the file."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from calcli.batch import FloatArray
from calcli.engines.calibrated_columns import AddedColumns
from calcli.errors import CalcliError, DataError
from calcli.tables.arrays import Levels
from calcli.tables.binding import Binding
from calcli.tables.checks import Encoded, bound_columns, encode
from calcli.tables.row_counts import Mask

BadRows: TypeAlias = Literal["fail", "null"]
"""What to do with a row that cannot be used: refuse the table, or go on without it."""


@dataclass(slots=True)
class RowWatch:
    """What went by while rows streamed: polars calls from several threads, and wraps what is raised inside.

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


class Work(Protocol):
    """What is read of each row, and what is added to it."""

    @property
    def reads(self) -> Sequence[str]:
        """The columns that are read."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are added."""
        ...

    def done(self, rows: pl.DataFrame, levels: Levels) -> Done:
        """What is added to these rows, which hold the columns that are read; `levels` are those of rows before."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """What is added to some rows: an array for each name, and which rows could not be used, if any."""

    values: Sequence[FloatArray]
    bad: Mask | None = None


@dataclass(frozen=True, slots=True)
class Calibrating:
    """The work of a calibrator.

    Attributes
    ----------
    features
        Whether the method reads them.
    """

    binding: Binding
    added: AddedColumns
    features: bool

    @property
    def reads(self) -> list[str]:
        return bound_columns(self.binding, label=False, features=self.features)

    @property
    def names(self) -> tuple[str, ...]:
        return self.added.names

    def done(self, rows: pl.DataFrame, levels: Levels) -> Done:
        encoded = encode(rows, self.binding, label=False, features=self.features, levels=levels)
        return Done(self._values(encoded), encoded.bad)

    def _values(self, encoded: Encoded) -> Sequence[FloatArray]:
        """An array for each name; where rows depend on each other, no good one on a bad one."""
        if encoded.bad is None or not self.added.calibrator.whole_table:
            return self.added.values(encoded.batch)
        good = ~encoded.bad
        values = np.zeros((len(self.names), len(good)))
        values[:, good] = self.added.values(encoded.batch.take(good))
        return list(values)


@dataclass(frozen=True, slots=True)
class Stream:
    """How work is done on rows as they pass.

    Attributes
    ----------
    whole_table
        Whether rows depend on each other, so that all of a table are worked on at once.
    """

    work: Work
    bad_rows: BadRows
    whole_table: bool = False

    def through(self, frame: pl.LazyFrame, watch: RowWatch) -> pl.LazyFrame:
        """The rows with the added columns, lazily.

        One expression over the columns that are read alone, so that polars streams it and never copies the others.
        """
        names = self.work.names
        kind = pl.Struct({name: pl.Float64() for name in names})
        levels = Levels()

        def add(rows: pl.Series) -> pl.Series:
            try:
                return self.added_to(rows.struct.unnest(), levels, watch).to_struct()
            except CalcliError as failure:
                watch.keep(failure)
                raise

        apart = not self.whole_table  # else polars brings all rows together, and holds them
        added = pl.struct(self.work.reads).map_batches(add, return_dtype=kind, is_elementwise=apart)
        return frame.with_columns(added.alias(names[0]).struct.unnest())

    def added_to(self, rows: pl.DataFrame, levels: Levels, watch: RowWatch | None = None) -> pl.DataFrame:
        """The columns that are added to some rows; null where a row is bad and may be."""
        done = self.work.done(rows, levels)
        added = pl.DataFrame([_series(name, part) for name, part in zip(self.work.names, done.values, strict=True)])
        if done.bad is not None:
            if watch is not None:
                watch.count_bad(int(done.bad.sum()))
            if self.bad_rows == "fail":
                raise DataError("there are rows that cannot be used")
            added = added.select(pl.when(pl.Series(~done.bad)).then(pl.all()))
        return added


@dataclass(frozen=True, slots=True)
class _Exported:
    """Nothing but what passes an array on.

    An array of pyarrow itself sends polars to pyarrow.compute, and one of numpy to numpy.ma, whose imports take a tenth
    of the time that a small table takes; neither is needed.
    """

    array: pa.Array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        passed: tuple[object, object] = self.array.__arrow_c_array__(requested_schema)
        return passed


def _series(name: str, values: FloatArray) -> pl.Series:
    """The array as a column, without a copy."""
    array = pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(values)])
    return pl.Series(_Exported(array)).alias(name)
