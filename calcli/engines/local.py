"""One machine: `apply` streams through polars, in memory that does not grow with the file."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import polars as pl
import pyarrow as pa

from calcli.batch import FloatArray
from calcli.engines.columns import Added
from calcli.errors import CalcliError, DataError
from calcli.tables.binding import Binding
from calcli.tables.checks import bound_columns, encode

BadRows: TypeAlias = Literal["fail", "null"]
"""What to do with a row that cannot be used: refuse the table, or go on without it."""


@dataclass(slots=True)
class Watch:
    """What went by while rows streamed: polars calls from several threads, and wraps what is raised inside.

    Attributes
    ----------
    bad
        Rows that could not be calibrated.
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
    """How rows are calibrated as they pass.

    Attributes
    ----------
    features
        Whether the method reads them.
    """

    binding: Binding
    added: Added
    features: bool
    bad_rows: BadRows

    @property
    def bound(self) -> list[str]:
        """The columns that are read."""
        return bound_columns(self.binding, label=False, features=self.features)

    def through(self, frame: pl.LazyFrame, watch: Watch) -> pl.LazyFrame:
        """The rows with the calibrated columns added, lazily.

        One expression over the bound columns alone, so that polars streams it and never copies the others.
        """
        kind = pl.Struct({name: pl.Float64() for name in self.added.names})

        def add(rows: pl.Series) -> pl.Series:
            try:
                return self.added_to(rows.struct.unnest(), watch).to_struct()
            except CalcliError as failure:
                watch.keep(failure)
                raise

        added = pl.struct(self.bound).map_batches(add, return_dtype=kind, is_elementwise=True)
        return frame.with_columns(added.alias(self.added.names[0]).struct.unnest())

    def added_to(self, rows: pl.DataFrame, watch: Watch | None = None) -> pl.DataFrame:
        """The columns that are added to some rows; null where a row is bad and may be."""
        encoded = encode(rows, self.binding, label=False, features=self.features)
        values = self.added.values(encoded.batch)
        added = pl.DataFrame([_series(name, part) for name, part in zip(self.added.names, values, strict=True)])
        if encoded.bad is not None:
            if watch is not None:
                watch.count_bad(int(encoded.bad.sum()))
            if self.bad_rows == "fail":
                raise DataError("there are rows that cannot be calibrated")
            good = pl.Series(~encoded.bad)
            added = added.select(pl.when(good).then(pl.all()))
        return added


def _series(name: str, values: FloatArray) -> pl.Series:
    """The array as a column, without a copy.

    Given the array itself, polars would import numpy.ma to look for a mask, for a tenth of the time that a small table
    takes.
    """
    return pl.Series(name, pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(values)]))
