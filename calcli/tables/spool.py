"""What cannot be read twice, or from the middle, is first copied into a temporary file."""

from __future__ import annotations

import gzip
import shutil
import stat
import sys
import tempfile
import weakref
import zlib
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from calcli.errors import DataError
from calcli.tables.formats import compression_of
from calcli.tables.paths import InputFile
from calcli.tables.trouble import one_line, reading

CHUNK = 1 << 20


class Spool:
    """A directory for temporary files that is made when it is first needed and goes away with its owner."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._remove: weakref.finalize[Any, Spool] | None = None
        self._count = 0

    def local(self, file: InputFile) -> Path:
        """A regular, uncompressed file with the content of `file`: itself where it is one already."""
        if file.path is None:
            with reading(file.name):
                return self._copy(sys.stdin.buffer)
        compression = compression_of(file.path)
        with reading(file.name):
            regular = stat.S_ISREG(file.path.stat().st_mode)
            if compression is None and regular:
                with file.path.open("rb"):  # says now, and not in the middle of a query, that it may not be read
                    return file.path
            if compression is None:
                with file.path.open("rb") as stream:
                    return self._copy(stream)
            try:
                opened: Any = (
                    gzip.open(file.path) if compression == "gzip" else pa.CompressedInputStream(str(file.path), "zstd")
                )
                with opened as stream:
                    return self._copy(stream)
            except (gzip.BadGzipFile, EOFError, zlib.error, pa.ArrowException) as error:
                raise DataError(f"{file.name} is damaged or no {compression} file: {one_line(error)}") from error
            except OSError as error:
                if error.errno is None:  # how pyarrow says that the stream does not decode
                    raise DataError(f"{file.name} is damaged or no {compression} file: {one_line(error)}") from error
                raise

    def _copy(self, stream: IO[bytes]) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="calcli-"))
            self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._count += 1
        path = self._folder / f"input-{self._count}"
        with path.open("wb") as copy:
            shutil.copyfileobj(stream, copy, CHUNK)
        return path

    def clear(self) -> None:
        """Delete the temporary files."""
        if self._remove is not None:
            self._remove()
        self._folder = self._remove = None
