"""One machine: `apply` streams through polars, in memory that does not grow with the file."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from calcli.errors import CalcliError, DataError
from calcli.methods.calibrator import Calibrator
from calcli.tables.binding import Binding
from calcli.tables.checks import BadRows, encode


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


def calibrated_columns(stem: str, binding: Binding) -> tuple[str, ...]:
    """The columns that `apply` adds: one for two classes, else one for each."""
    if len(binding.classes) == 2:
        return (stem,)
    return tuple(f"{stem}_{name}" for name in binding.class_names)


def calibrated(
    frame: pl.LazyFrame,
    binding: Binding,
    calibrator: Calibrator,
    columns: Sequence[str],
    *,
    features: bool,
    bad_rows: BadRows,
    watch: Watch,
) -> pl.LazyFrame:
    """The rows of `frame` with the calibrated `columns` added, lazily.

    One expression over the bound columns alone, so that polars streams it and never copies the others.
    """
    bound = binding.input_columns(features=features)
    kind: pl.DataType = pl.Struct({name: pl.Float64() for name in columns})

    def add(bound_rows: pl.Series) -> pl.Series:
        try:
            return _predicted(bound_rows.struct.unnest(), binding, calibrator, columns, features, bad_rows, watch)
        except CalcliError as failure:
            watch.keep(failure)
            raise

    added = pl.struct(bound).map_batches(add, return_dtype=kind, is_elementwise=True).alias("")
    return frame.with_columns(added.struct.unnest())


def _predicted(
    rows: pl.DataFrame,
    binding: Binding,
    calibrator: Calibrator,
    columns: Sequence[str],
    features: bool,
    bad_rows: BadRows,
    watch: Watch,
) -> pl.Series:
    encoded = encode(rows, binding, label=False, features=features)
    prob = calibrator.predict(encoded.batch)
    parts = [prob] if prob.ndim == 1 else [np.ascontiguousarray(part) for part in prob.T]
    series = [pl.Series(name, part) for name, part in zip(columns, parts, strict=True)]
    if encoded.bad is not None:
        watch.count_bad(int(encoded.bad.sum()))
        if bad_rows == "fail":
            raise DataError("there are rows that cannot be calibrated")
        good = pl.Series(~encoded.bad)
        nothing = pl.Series([None], dtype=pl.Float64)
        series = [one.zip_with(good, nothing.new_from_index(0, len(one)).alias(one.name)) for one in series]
    return pl.DataFrame(series).to_struct()
