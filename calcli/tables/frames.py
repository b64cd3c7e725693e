"""Files as lazy frames: shared by text files and typed files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from calcli.errors import DataError
from calcli.tables.formats import COMMAS, Dialect, Format


@dataclass(frozen=True)
class LocalFile:
    """A regular, uncompressed file: an input, or the temporary copy of one.

    Attributes
    ----------
    name
        What messages call it.
    constants
        Columns that the directory names give, the same in every row.
    dialect
        Of a text file.
    """

    path: Path
    name: str
    format: Format
    constants: Mapping[str, str | None]
    dialect: Dialect = COMMAS


def refuse_constants(file: LocalFile, names: Collection[str]) -> None:
    """Refuse a file with a column that its directory names give too."""
    both = [name for name in names if name in file.constants]
    if both:
        raise DataError(f"{file.name} has a column {both[0]!r}, and so have the directories above it")


def refuse_other_columns(file: LocalFile, names: Collection[str], first: LocalFile, expected: Collection[str]) -> None:
    """Refuse a file whose columns are not those of the first."""
    missing = [name for name in expected if name not in names]
    if missing:
        raise DataError(f"{file.name} has no column {missing[0]!r}, which {first.name} has")
    extra = [name for name in names if name not in expected]
    if extra:
        raise DataError(f"{file.name} has a column {extra[0]!r}, which {first.name} does not have")


def scan_frames(
    read: Callable[[Sequence[str]], Iterator[pl.DataFrame]], schema: Mapping[str, pl.DataType]
) -> pl.LazyFrame:
    """A lazy frame over rows that Python reads; each time it is collected, `read` gets the columns that are needed.

    polars leaves it to its sources to apply filters and limits.
    """

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        left = limit
        for frame in read(list(schema) if columns is None else columns):
            part = frame if left is None else frame.head(left)
            left = None if left is None else left - len(part)
            yield part if predicate is None else part.filter(predicate)
            if left == 0:
                return

    return register_io_source(frames, schema=dict(schema), is_pure=True)
