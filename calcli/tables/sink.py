"""Where rows go: files that are there whole or not at all, and streams.

A file is written beside its target under another name, flushed to the disk, and takes the target's place in one step.
Whatever happens before that leaves the target as it was, and nothing else behind. Devices and pipes are written
directly. Text formats come back as they were: null is an empty field, an empty string is a quoted one.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import stat
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.parquet

from calcli.errors import DataError, FileSystemError, UsageError
from calcli.tables.carry import ArrowTypes
from calcli.tables.formats import SEPARATORS, Format, compression_of, format_of
from calcli.tables.trouble import writing

Target: TypeAlias = "str | os.PathLike[str]"
STDOUT = "-"


def write(
    frame: pl.LazyFrame,
    target: Target | Literal["-"],
    *,
    format: str | None = None,  # noqa: A002: the word of the command line
    arrow_types: ArrowTypes | None = None,
) -> int:
    """Write all rows and return how many there are.

    Parameters
    ----------
    frame
        Evaluated in a streaming way, once.
    target
        A path, or ``-`` for standard output, which needs `format`.
    format
        Where the suffix does not tell.
    arrow_types
        The types that columns shall have in Parquet and Arrow files, where they differ from what polars makes of them
        (`Source.arrow_types`).
    """
    kind = format_of(target, format, flag="--output-format")
    count = _Count()
    counted = count.through(frame)
    if os.fspath(target) == STDOUT:
        with writing("standard output"):
            _check_columns(counted, kind)
            _stream(counted, sys.stdout.buffer, kind, arrow_types or {})
            sys.stdout.buffer.flush()
        return count.rows
    path = Path(target)
    with writing(str(path)):
        _check_columns(counted, kind)
        if path.exists() and not path.is_file():
            _write_special(counted, path, kind, arrow_types or {})
        else:
            with _replacing(path) as temporary:
                _write_file(counted, temporary, kind, compression_of(path), arrow_types or {})
    return count.rows


class _Count:
    """Counts the rows that pass."""

    def __init__(self) -> None:
        self.rows = 0

    def through(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.map_batches(self._see, streamable=True, schema=None)

    def _see(self, frame: pl.DataFrame) -> pl.DataFrame:
        self.rows += len(frame)
        return frame


def _check_columns(frame: pl.LazyFrame, kind: Format) -> None:
    """Refuse, before anything is written, what a text format cannot hold."""
    if kind not in SEPARATORS:
        return
    for name, dtype in frame.collect_schema().items():
        if dtype.is_nested() or dtype == pl.Binary:
            raise DataError(
                f"column {name!r} is {dtype}, which {kind.upper()} cannot hold",
                hint="write Parquet, or leave the column out with --keep",
            )


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary sibling that takes the place of `path` once it is complete."""
    target = path.resolve()  # a link stays a link
    if not target.parent.is_dir():
        raise FileSystemError(
            f"cannot write {path}: there is no directory {str(target.parent)!r}", hint="make it first"
        )
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
        _sync_directory(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_directory(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems do not know how
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write_special(frame: pl.LazyFrame, path: Path, kind: Format, arrow_types: ArrowTypes) -> None:
    if path.is_dir():
        raise FileSystemError(f"cannot write {path}: it is a directory", hint="name a file in it")
    if stat.S_ISSOCK(path.stat().st_mode):
        raise FileSystemError(f"cannot write {path}: it is a socket", hint="name a file")
    with path.open("wb") as stream:
        _stream(frame, stream, kind, arrow_types)


def _write_file(
    frame: pl.LazyFrame,
    path: Path,
    kind: Format,
    compression: Literal["gzip", "zstd"] | None,
    arrow_types: ArrowTypes,
) -> None:
    if compression is not None and kind not in (*SEPARATORS, "ndjson"):
        raise UsageError(f"{kind} compresses its own columns", hint="leave the .gz or .zst out of the name")
    restored = kind in ("parquet", "ipc") and any(name in arrow_types for name in frame.collect_schema())
    if compression is not None or restored:
        with _opened(path, compression) as stream:
            _stream(frame, stream, kind, arrow_types)
    elif kind == "parquet":
        frame.sink_parquet(path)
    elif kind == "ipc":
        frame.sink_ipc(path, compat_level=pl.CompatLevel.oldest())
    elif kind == "ndjson":
        frame.sink_ndjson(path, check_extension=False)
    else:
        frame.sink_csv(path, separator=SEPARATORS[kind], check_extension=False)


def _opened(path: Path, compression: Literal["gzip", "zstd"] | None) -> Any:
    if compression == "gzip":
        return gzip.open(path, "wb", compresslevel=6)
    if compression == "zstd":
        return pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd")
    return path.open("wb")


def _stream(frame: pl.LazyFrame, stream: IO[bytes], kind: Format, arrow_types: ArrowTypes) -> None:
    """Write batch by batch."""
    schema = frame.collect_schema()
    put, finish = _writer(stream, kind, schema, arrow_types)
    for batch in frame.collect_batches():
        put(batch)
    finish()


def _writer(
    stream: IO[bytes], kind: Format, schema: pl.Schema, arrow_types: ArrowTypes
) -> tuple[Callable[[pl.DataFrame], Any], Callable[[], Any]]:
    if kind == "ndjson":
        return lambda batch: batch.write_ndjson(stream), stream.flush
    if kind in SEPARATORS:
        separator = SEPARATORS[kind]
        pl.DataFrame(schema=schema).write_csv(stream, separator=separator)  # the header, even where no row follows
        return lambda batch: batch.write_csv(stream, separator=separator, include_header=False), stream.flush
    oldest = pl.CompatLevel.oldest()
    target = pa.schema(
        [
            column.with_type(arrow_types.get(column.name, column.type))
            for column in pl.DataFrame(schema=schema).to_arrow(compat_level=oldest).schema
        ]
    )
    writer: Any
    if kind == "parquet":
        writer = pyarrow.parquet.ParquetWriter(stream, target, compression="zstd")
    else:
        writer = pa.ipc.new_file(stream, target)
    return lambda batch: writer.write_table(batch.to_arrow(compat_level=oldest).cast(target)), writer.close
