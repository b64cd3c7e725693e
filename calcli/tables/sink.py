"""Write tables to files, objects, databases, devices, pipes and standard output.

A file is written under a temporary name and replaces its target once it is complete (`files.replacing`); an object is
sent once a temporary file is complete, and the rows of a database are committed with the last one. So an error leaves
the target as it was. Devices, pipes and standard output get a temporary file that is complete too, or, with `stream`,
the rows as they come. In text formats null is an empty field and an empty string a quoted one, so that both can be read
back.

polars writes Parquet into files by itself. Everything else goes through `_Outlet`, a stream in Python that keeps the
error of the operating system. Columns of Arrow types that polars does not have take a detour over a temporary Arrow
file, where they are cast back (`_Rows._restore`), and so does what an Arrow file declares of its columns.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import mmap
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, cast

import polars as pl
import pyarrow as pa

from calcli.errors import DataError, FileSystemError, UsageError
from calcli.files import replacing
from calcli.places import Database, Url, external_tables, folder, place, stores
from calcli.tables.arrays import check_years
from calcli.tables.arrow_types import OLDEST, ArrowTypes, arrow_schema
from calcli.tables.paths import JSON, SEPARATORS, Dialect, Format, compression_of, format_of, writing
from calcli.tables.records import RECORD

STDOUT = "-"

FAST = 1
"""The level at which Parquet is compressed by zstd: a fifth less time than the usual 3, for 3 to 5 % more bytes."""

CHUNK = 1 << 20

DEVICES = (Path("/dev"), Path("/dev/fd"))
"""Directories of names for open files, such as /dev/stdout, which are never replaced even if they are files."""


def write(
    frame: pl.LazyFrame,
    target: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 the word of the command line
    arrow_types: ArrowTypes | None = None,
    dialect: Dialect | None = None,
    stream: bool = False,
) -> int:
    """Write all rows and return their number.

    The target ``-`` is standard output. `format` is needed there, and where a suffix does not tell. `arrow_types` are
    restored in Parquet and Arrow files (`Source.arrow_types`); `dialect` is how CSV or TSV is written, if not as usual.
    A frame with the column `records.RECORD` alone is written as JSON, a record as it is. With `stream` devices, pipes
    and standard output get rows before all are known to be good.
    """
    path = place(target)
    if isinstance(path, Database):
        with writing(str(path)):
            return _insert(frame, path)
    kind = format_of(path, format, flag="--output-format")
    compression = compression_of(path)
    if compression is not None and kind not in (*SEPARATORS, *JSON):
        raise UsageError(
            f"{kind} compresses its own columns", hint=f"leave the {PurePosixPath(path).suffix} out of the name"
        )
    with writing(_shown(path)):
        rows = _Rows(frame, kind, arrow_types or ArrowTypes(), dialect)
        special = not isinstance(path, Url) and _is_special(path)
        with _opened(path, whole=not stream) as (file, near), _packed(file, None if special else compression) as packed:
            rows.put(packed, near)
    return rows.count


def _insert(frame: pl.LazyFrame, database: Database) -> int:
    """Write rows into a table of a database, batch by batch."""
    schema = frame.collect_schema()
    _refuse_what_text_cannot_hold(schema, "csv", "a database")  # nor can the tables of some
    names = [name for name, dtype in schema.items() if isinstance(dtype, pl.Categorical | pl.Enum)]
    plain = frame.with_columns(pl.col(names).cast(pl.String))
    rows = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for part in plain.collect_batches():
            rows += len(part)
            yield from part.to_arrow(compat_level=OLDEST).to_batches()

    external_tables.write_rows(database, arrow_schema(plain.collect_schema()), batches())
    return rows


def write_bytes(data: bytes, target: str | os.PathLike[str]) -> None:
    """Write a file that is no table, as `write` does; ``-`` is standard output."""
    path = folder(target)
    with writing(_shown(path)), _opened(path, whole=False) as (stream, _):
        stream.write(data)
        stream.flush()


def _shown(path: Path | Url) -> str:
    return "standard output" if str(path) == STDOUT else str(path)


@contextlib.contextmanager
def _opened(path: Path | Url, *, whole: bool) -> Iterator[tuple[IO[bytes], Path | None]]:
    """A temporary file that `path` will get, with the directory of such files; or the target itself, with None.

    The latter are devices, pipes and standard output, if they need not get the `whole` table or nothing.
    """
    if isinstance(path, Url):
        with tempfile.TemporaryFile() as copy:
            yield copy, Path(tempfile.gettempdir())
            copy.seek(0)
            stores.put(path, copy)
    elif not _is_special(path):
        with replacing(path) as stream:
            yield stream, path.parent
    elif not whole:
        with _direct(path) as stream:
            yield stream, None
    else:
        with _direct(path) as stream, tempfile.TemporaryFile() as copy:
            yield copy, Path(tempfile.gettempdir())
            copy.seek(0)
            shutil.copyfileobj(copy, stream, CHUNK)
            stream.flush()


@contextlib.contextmanager
def _direct(path: Path) -> Iterator[IO[bytes]]:
    """A device, a pipe or standard output."""
    if str(path) != STDOUT:
        with path.open("wb") as device:
            yield device
    elif sys.stdout is None:
        raise FileSystemError("cannot write standard output: it is closed")
    else:
        yield sys.stdout.buffer


class _Rows:
    """Rows being written; `count` is the number so far."""

    def __init__(self, frame: pl.LazyFrame, kind: Format, arrow_types: ArrowTypes, dialect: Dialect | None) -> None:
        self.kind = kind
        self.dialect = dialect or Dialect(SEPARATORS.get(kind, ","))
        self.count = 0
        self._lock = threading.Lock()  # polars calls back from several threads
        self.frame = frame.map_batches(self._see, streamable=True)
        schema = frame.collect_schema()
        self.records = schema.names() == [RECORD]
        self.arrow_types = arrow_types
        self.arrow = arrow_types.restored(arrow_schema(schema), {}) if arrow_types.declared(schema.names()) else None
        # polars declares things of flat columns in Parquet, and of nothing else
        flat = kind == "parquet" and not any(dtype.is_nested() or _storage(dtype) for dtype in schema.values())
        retyped = any(name in arrow_types.types for name in schema)
        self.detour = retyped or (self.arrow is not None and not flat)
        self._failure: DataError | None = None
        self._dates: list[str] = []
        if kind in (*SEPARATORS, *JSON):
            _refuse_what_text_cannot_hold(schema, kind)
            self._dates = [name for name, dtype in schema.items() if dtype in (pl.Date, pl.Datetime)]

    def _see(self, batch: pl.DataFrame) -> pl.DataFrame:
        with self._lock:
            self.count += len(batch)
        try:
            for name in self._dates:
                check_years(batch[name])
        except DataError as error:
            self._failure = error  # polars passes on its text only
            raise
        return batch

    def put(self, stream: IO[bytes], near: Path | None) -> None:
        """Write everything and flush it; `near` is the directory of temporary files, as of `_opened`."""
        outlet = _Outlet(stream)
        try:
            if near is not None and self.kind == "parquet" and not self.detour:
                # polars writes into a file directly, which takes 5 % less time than through Python
                self._parquet(stream)
            else:
                self._sink(outlet, near)
            stream.flush()
        except Exception:
            if self._failure is not None:
                raise self._failure from None
            if outlet.error is not None:
                raise outlet.error from None
            if near is not None and shutil.disk_usage(near).free == 0:  # polars does not always report it
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
            raise

    def _sink(self, outlet: Any, near: Path | None) -> None:
        if self.kind in JSON:
            array = _Array(outlet) if self.kind == "json" else None
            lines = cast("IO[bytes]", array or outlet)
            if self.records:
                self.frame.sink_csv(lines, include_header=False, quote_style="never")
            else:
                self.frame.sink_ndjson(lines)
            if array is not None:
                array.finish()
        elif self.kind in SEPARATORS:
            self.frame.sink_csv(outlet, separator=self.dialect.separator, decimal_comma=bool(self.dialect.commas))
        elif self.detour:
            self._restore(outlet, near)
        elif self.kind == "parquet":
            self._parquet(outlet)
        else:
            self.frame.sink_ipc(outlet, compat_level=OLDEST)

    def _parquet(self, stream: IO[bytes]) -> None:
        metadata = None if self.arrow is None else self.arrow.metadata
        texts = {key.decode(): value.decode() for key, value in (metadata or {}).items()}
        self.frame.sink_parquet(stream, compression_level=FAST, metadata=texts, arrow_schema=self.arrow)

    def _restore(self, outlet: Any, near: Path | None) -> None:
        """Write types that polars does not have.

        polars writes a temporary Arrow file first, because only there do all batches share one dictionary; pyarrow
        casts its batches and writes them into the target.
        """
        with tempfile.TemporaryFile(dir=near) as spool:  # it has no name, so nothing is left if calcli is killed
            self.frame.sink_ipc(spool, compat_level=OLDEST)
            mapped = pa.py_buffer(mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ))
            with pa.ipc.open_file(pa.BufferReader(mapped)) as rows:
                # all batches share the dictionaries of the first
                first = rows.get_batch(0) if rows.num_record_batches else []
                levels = {
                    column.name: len(values.dictionary)
                    for column, values in zip(rows.schema, first, strict=False)
                    if pa.types.is_dictionary(column.type)
                }
                target = self.arrow_types.restored(rows.schema, levels)
                with pa.PythonFile(outlet, "w") as sink, _arrow_writer(self.kind, sink, target) as writer:
                    for number in range(rows.num_record_batches):
                        writer.write_table(pa.Table.from_batches([rows.get_batch(number)]).cast(target))


class _Outlet:
    """Passes bytes on and keeps the `OSError` of a failed write: polars reports only that something failed."""

    closed = False

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return self._stream.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        """`_Rows.put` flushes at the end."""

    def close(self) -> None:
        """The owner of the stream closes it."""


class _Array(_Outlet):
    """Lines of JSON as one array: a line end becomes a comma once there is another line."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._before = b"[\n"

    def write(self, data: Any) -> int:
        lines = bytes(data)
        if not lines:
            return 0
        ended = lines.endswith(b"\n")
        super().write(self._before + lines[: len(lines) - ended].replace(b"\n", b",\n"))
        self._before = b",\n" if ended else b""
        return len(lines)

    def finish(self) -> None:
        super().write((b"[" if self._before == b"[\n" else b"\n") + b"]\n")


def _arrow_writer(kind: Format, sink: Any, schema: pa.Schema) -> Any:
    if kind == "parquet":
        from pyarrow.parquet import ParquetWriter

        return ParquetWriter(sink, schema, compression="zstd", compression_level=FAST)
    return pa.ipc.new_file(sink, schema)


def _refuse_what_text_cannot_hold(schema: pl.Schema, kind: Format, name_of_kind: str | None = None) -> None:
    """Refuse columns of bytes, and for CSV nested columns."""
    for name, dtype in schema.items():
        if _holds_bytes(dtype) or (kind in SEPARATORS and (dtype.is_nested() or _storage(dtype) is not None)):
            raise DataError(
                f"column {name!r} is {dtype}, which {name_of_kind or kind.upper()} cannot hold",
                hint="write Parquet, or leave the column out with --keep",
            )


def _storage(dtype: Any) -> Any:
    """The type that an extension type is stored as; None for other types."""
    extension = getattr(pl, "BaseExtension", None)  # polars 2.1 has none
    return dtype.ext_storage() if extension is not None and isinstance(dtype, extension) else None


def _holds_bytes(dtype: Any) -> bool:
    """Whether a type is binary, or contains bytes at any depth."""
    parts = [part.dtype for part in dtype.fields] if isinstance(dtype, pl.Struct) else [_storage(dtype)]
    parts += [getattr(dtype, name, None) for name in ("inner", "key", "value")]  # of lists, arrays and maps
    return dtype in (pl.Binary, pl.Object) or any(_holds_bytes(part) for part in parts if part is not None)


def _is_special(path: Path) -> bool:
    """Whether a path is standard output, a device or a pipe, which is not replaced."""
    if str(path) == STDOUT:
        return True
    if path.is_dir():
        raise FileSystemError(f"cannot write {path}: it is a directory", hint="name a file in it")
    return (path.exists() and not path.is_file()) or path.parent in DEVICES


@contextlib.contextmanager
def _packed(stream: IO[bytes], compression: Literal["gzip", "zstd"] | None) -> Iterator[Any]:
    if compression is None:
        yield stream
    elif compression == "gzip":
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=6, mtime=0) as packed:
            yield packed
    else:
        with pa.CompressedOutputStream(pa.PythonFile(_Outlet(stream), "w"), "zstd") as packed:
            yield packed
