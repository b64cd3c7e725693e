"""Copying a table with columns added: shared by `apply` and its relatives."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from calcli.engines.local import RowWatch, Stream
from calcli.errors import CalcliError, DataError, UsageError, unknown_name
from calcli.places import Database, place
from calcli.tables.formats import SEPARATORS, Format, format_of
from calcli.tables.sink import STDOUT, write
from calcli.tables.source import Source
from calcli.tables.text import as_written


def kept_columns(source: Source, keep: tuple[str, ...] | None, added: tuple[str, ...], *, hint: str) -> list[str]:
    """The input columns that pass through, in the order of the table; None keeps all.

    `hint` is for the error about one that has the name of an added column.
    """
    names = source.stored
    for name in keep or ():
        if name not in names:
            raise UsageError(unknown_name("column to keep:", name, names))
    kept = [name for name in names if keep is None or name in keep]
    for name in added:
        if not name:
            raise UsageError("the name of the column to add is empty", hint=hint)
        if name in kept:
            raise DataError(f"the table already has a column {name!r}, which the added column would replace", hint=hint)
    return kept


def promised_format(output: str | os.PathLike[str], given: str | None) -> Format | None:
    """The format of the output, as far as it is known before the table is opened: None is that of the table."""
    where = place(output)
    if isinstance(where, Database):
        return "parquet"  # a table with types
    return None if str(output) == STDOUT and given is None else format_of(where, given, flag="--output-format")


@dataclass(frozen=True, slots=True)
class RowsWritten:
    """How many rows there were, and how many of them could not be used."""

    rows: int
    bad: int


def write_rows(
    stream: Stream,
    source: Source,
    kept: Sequence[str],
    output: str | os.PathLike[str],
    output_format: Format | None,
    recount: Callable[[], object],
) -> RowsWritten:
    """Write the columns that are kept and those that are added.

    An error within the stream is raised as it was, not as polars wraps it. `recount` reads the table again and raises
    an error that counts all bad rows, which a stream that stops at the first does not know.
    """
    # Text that goes to text is passed through as text, so that 007 and 1.50 stay what they are.
    kind = format_of(output, output_format, flag="--output-format", stream=source.format)
    dialect = source.dialect if kind == source.format else None
    frame = source.raw if source.text and kind in SEPARATORS else source.typed()
    watch = RowWatch()
    rows = stream.through(frame, watch).select(*kept, *stream.added.names)
    if dialect is not None:
        rows = as_written(rows, replace(dialect, commas=dialect.commas & set(kept)))
    try:
        count = write(rows, output, format=kind, arrow_types=source.arrow_types, dialect=dialect)
    except CalcliError:
        if watch.bad and stream.bad_rows == "fail":
            recount()
        if watch.failure is not None:
            raise watch.failure from None
        raise
    return RowsWritten(count, watch.bad)
