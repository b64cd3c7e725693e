"""Where rows go: files that are there whole or not at all, and streams.

A file takes the place of its target in one step, once it is whole (`replacing`). Whatever happens before that leaves
the target as it was, and nothing else behind. Devices and pipes are written directly. Text formats come back as they
were: null is an empty field, an empty string is a quoted one.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import mmap
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet

from calcli.errors import DataError, FileSystemError, UsageError
from calcli.files import replacing
from calcli.tables.arrow_types import OLDEST, ArrowTypes
from calcli.tables.formats import SEPARATORS, Format, compression_of, format_of
from calcli.tables.io_errors import writing

STDOUT = "-"

FAST = 1
"""The level at which Parquet is compressed by zstd: a fifth less time than the usual 3, for 3 to 5 % more bytes."""

DEVICES = (Path("/dev"), Path("/dev/fd"))
"""Where names stand for what is open already, such as /dev/stdout, even if that is a file."""


def write(
    frame: pl.LazyFrame,
    target: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 the word of the command line
    arrow_types: ArrowTypes | None = None,
) -> int:
    """Write all rows and return how many there are.

    Parameters
    ----------
    frame
        Evaluated once, in a stream.
    target
        A path, or ``-`` for standard output, which needs `format`.
    format
        Where the suffix does not tell.
    arrow_types
        The types that columns shall have in Parquet and Arrow files, where they differ from what polars makes of them
        (`Source.arrow_types`).
    """
    path = Path(target)
    kind = format_of(path, format, flag="--output-format")
    compression = compression_of(path)
    if compression is not None and kind not in (*SEPARATORS, "ndjson"):
        raise UsageError(f"{kind} compresses its own columns", hint=f"leave the {path.suffix} out of the name")
    with writing(_shown(path)):
        rows = _Rows(frame, kind, arrow_types or {})
        with _opened(path) as (stream, replaces):
            if replaces:
                with _packed(stream, compression) as packed:
                    rows.put(packed, near=path.parent)
            else:
                rows.put(stream)
    return rows.count


def write_bytes(data: bytes, target: str | os.PathLike[str]) -> None:
    """Write a file that is no table, in the same way; ``-`` is standard output."""
    path = Path(target)
    with writing(_shown(path)), _opened(path) as (stream, _):
        stream.write(data)
        stream.flush()


def _shown(path: Path) -> str:
    return "standard output" if str(path) == STDOUT else str(path)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], bool]]:
    """Standard output, a device or a pipe, or a temporary file that will replace `path` (True)."""
    if str(path) == STDOUT:
        yield sys.stdout.buffer, False
    elif _is_special(path):
        with path.open("wb") as device:
            yield device, False
    else:
        with replacing(path) as stream:
            yield stream, True


class _Rows:
    """Rows on their way out; `count` is how many have passed."""

    def __init__(self, frame: pl.LazyFrame, kind: Format, arrow_types: ArrowTypes) -> None:
        self.kind = kind
        self.count = 0
        self._lock = threading.Lock()  # polars calls back from several threads
        self.frame = frame.map_batches(self._see, streamable=True)
        schema = frame.collect_schema()
        self.arrow_types = {name: dtype for name, dtype in arrow_types.items() if name in schema}
        if kind in SEPARATORS or kind == "ndjson":
            _refuse_what_text_cannot_hold(schema, kind)

    def _see(self, batch: pl.DataFrame) -> pl.DataFrame:
        with self._lock:
            self.count += len(batch)
        return batch

    def put(self, stream: IO[bytes], *, near: Path | None = None) -> None:
        """Write everything and flush it; temporary files, if it takes some, are made `near` the target."""
        outlet = _Outlet(stream)
        try:
            if near is not None and self.kind == "parquet" and not self.arrow_types:
                # Into a file polars writes by itself, for a twentieth less time than through Python.
                self.frame.sink_parquet(stream, compression_level=FAST)
            else:
                self._sink(outlet, near)
            stream.flush()
        except Exception:
            if outlet.error is not None:
                raise outlet.error from None
            if near is not None and os.statvfs(near).f_bavail == 0:  # polars does not always say so
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
            raise

    def _sink(self, outlet: Any, near: Path | None) -> None:
        if self.kind == "ndjson":
            self.frame.sink_ndjson(outlet)
        elif self.kind in SEPARATORS:
            self.frame.sink_csv(outlet, separator=SEPARATORS[self.kind])
        elif self.arrow_types:
            self._restore(outlet, near)
        elif self.kind == "parquet":
            self.frame.sink_parquet(outlet, compression_level=FAST)
        else:
            self.frame.sink_ipc(outlet, compat_level=OLDEST)

    def _restore(self, outlet: Any, near: Path | None) -> None:
        """Write types that polars does not have.

        The rows go through a temporary Arrow file first: only there do all batches share one dictionary, as an Arrow
        file must.
        """
        with tempfile.TemporaryFile(dir=near) as spool:  # without a name: whoever is killed leaves nothing
            self.frame.sink_ipc(spool, compat_level=OLDEST)
            mapped = pa.py_buffer(mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ))
            with pa.ipc.open_file(pa.BufferReader(mapped)) as rows:
                target = pa.schema([f.with_type(self.arrow_types.get(f.name, f.type)) for f in rows.schema])
                with pa.PythonFile(outlet, "w") as sink, _arrow_writer(self.kind, sink, target) as writer:
                    for number in range(rows.num_record_batches):
                        writer.write_table(pa.Table.from_batches([rows.get_batch(number)]).cast(target))


class _Outlet:
    """Passes bytes on, and remembers what the operating system said: polars tells only that something failed."""

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
        """Nothing to do before everything is written."""

    def close(self) -> None:
        """The stream belongs to somebody else."""


def _arrow_writer(kind: Format, sink: Any, schema: pa.Schema) -> Any:
    if kind == "parquet":
        return pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd", compression_level=FAST)
    return pa.ipc.new_file(sink, schema)


def _refuse_what_text_cannot_hold(schema: pl.Schema, kind: Format) -> None:
    for name, dtype in schema.items():
        if _holds_bytes(dtype) or (kind in SEPARATORS and dtype.is_nested()):
            raise DataError(
                f"column {name!r} is {dtype}, which {kind.upper()} cannot hold",
                hint="write Parquet, or leave the column out with --keep",
            )


def _holds_bytes(dtype: Any) -> bool:
    """Whether a type has a place for bytes, however deep."""
    if isinstance(dtype, pl.Struct):
        return any(_holds_bytes(part.dtype) for part in dtype.fields)
    if isinstance(dtype, pl.List | pl.Array):
        return _holds_bytes(dtype.inner)
    return dtype in (pl.Binary, pl.Object)


def _is_special(path: Path) -> bool:
    """Whether a path is a device or a pipe, which cannot be replaced by a file."""
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
