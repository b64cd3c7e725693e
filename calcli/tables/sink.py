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
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.parquet

from calcli.errors import DataError, FileSystemError, UsageError
from calcli.tables.carry import OLDEST, ArrowTypes
from calcli.tables.formats import SEPARATORS, Format, compression_of, format_of
from calcli.tables.trouble import writing

STDOUT = "-"
Place: TypeAlias = "Path | IO[bytes]"


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
    name = "standard output" if str(path) == STDOUT else str(path)
    rows = _Rows(frame, kind, arrow_types or {})
    with writing(name):
        rows.check()
        if str(path) == STDOUT:
            rows.put(sys.stdout.buffer)
        elif _is_special(path):
            with path.open("wb") as stream:
                rows.put(stream)
        else:
            with _replacing(path) as temporary:
                _put_file(rows, temporary, path)
    return rows.count


class _Rows:
    """Rows on their way out; `count` is how many have passed."""

    def __init__(self, frame: pl.LazyFrame, kind: Format, arrow_types: ArrowTypes) -> None:
        self.kind = kind
        self.count = 0
        self.frame = frame.map_batches(self._see, streamable=True)
        self.schema = frame.collect_schema()
        self.arrow_types = {name: dtype for name, dtype in arrow_types.items() if name in self.schema}

    def _see(self, batch: pl.DataFrame) -> pl.DataFrame:
        self.count += len(batch)
        return batch

    def check(self) -> None:
        """Refuse, before anything is written, what a text format cannot hold."""
        for name, dtype in self.schema.items() if self.kind in SEPARATORS else ():
            if dtype.is_nested() or dtype == pl.Binary:
                raise DataError(
                    f"column {name!r} is {dtype}, which {self.kind.upper()} cannot hold",
                    hint="write Parquet, or leave the column out with --keep",
                )

    def put(self, place: Place) -> None:
        """Write into a file or a stream, and flush it."""
        if isinstance(place, Path):
            self._sink(place)
            return
        place.flush()  # polars writes to the descriptor itself: what was written before comes first
        self._sink(place)
        place.flush()

    def _sink(self, place: Place) -> None:
        if self.kind == "ndjson":
            self.frame.sink_ndjson(place, check_extension=False)
        elif self.kind in SEPARATORS:
            self.frame.sink_csv(place, separator=SEPARATORS[self.kind], check_extension=False)
        elif self.arrow_types:
            self._restore(place)
        elif self.kind == "parquet":
            self.frame.sink_parquet(place)
        else:
            self.frame.sink_ipc(place, compat_level=OLDEST)

    def _restore(self, place: Place) -> None:
        """Write types that polars does not have.

        The rows go through a temporary Arrow file first: only there do all batches share one dictionary, as an Arrow
        file must.
        """
        near = place.parent if isinstance(place, Path) else None
        with tempfile.TemporaryDirectory(prefix=".calcli-", dir=near) as folder:
            spool = Path(folder) / "rows.arrow"
            self.frame.sink_ipc(spool, compat_level=OLDEST)
            with pa.memory_map(str(spool)) as mapped, pa.ipc.open_file(mapped) as rows:
                target = pa.schema([f.with_type(self.arrow_types.get(f.name, f.type)) for f in rows.schema])
                sink = str(place) if isinstance(place, Path) else place
                with _arrow_writer(self.kind, sink, target) as writer:
                    for number in range(rows.num_record_batches):
                        writer.write_table(pa.Table.from_batches([rows.get_batch(number)]).cast(target))


def _arrow_writer(kind: Format, sink: Any, schema: pa.Schema) -> Any:
    if kind == "parquet":
        return pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd")
    return pa.ipc.new_file(sink, schema)


def _is_special(path: Path) -> bool:
    """Whether a path is a device or a pipe, which cannot be replaced by a file."""
    if path.is_dir():
        raise FileSystemError(f"cannot write {path}: it is a directory", hint="name a file in it")
    return (path.exists() and not path.is_file()) or path.is_relative_to("/dev")


def _put_file(rows: _Rows, temporary: Path, path: Path) -> None:
    compression = compression_of(path)
    if compression is None:
        rows.put(temporary)
        return
    if rows.kind not in (*SEPARATORS, "ndjson"):
        raise UsageError(f"{rows.kind} compresses its own columns", hint=f"leave the {path.suffix} out of the name")
    with temporary.open("wb") as plain:
        packed: Any = gzip.GzipFile(fileobj=plain, mode="wb", mtime=0) if compression == "gzip" else _zstd(plain)
        with packed:
            rows.put(packed)


def _zstd(plain: IO[bytes]) -> Any:
    return pa.CompressedOutputStream(plain, "zstd")


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary sibling that takes the place of `path` once it is complete."""
    target = path.resolve()  # a link stays a link
    if not target.parent.is_dir():
        raise FileSystemError(
            f"cannot write {path}: there is no directory {str(target.parent)!r}", hint="make the directory first"
        )
    temporary = target.with_name(f".{target.name[:200]}.{uuid.uuid4().hex[:8]}.tmp")
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
