"""Temporary copies of inputs that cannot be read twice or in pieces.

These are standard input, pipes, compressed files, JSON arrays, objects of stores and rows of databases. So a distant
table is fetched once, whatever is done with it, and all of its rows are of one moment. A JSON array becomes lines, an
object each: the form in which JSON can be read in pieces. Lines with a byte order mark, or with NaN and infinity as
Python writes them, become lines without.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import polars as pl
import pyarrow as pa

from calcli.errors import DataError, FileSystemError
from calcli.extras import require
from calcli.files import as_text, create_locked, remove_folder_unless_locked
from calcli.places import Database, Lake, Url, external_tables, stores
from calcli.tables.paths import BLANK, JSON, InputFile, compression_of, is_workbook, one_line, reading

CHUNK = 1 << 20

MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
"""The first bytes of compressed data."""

MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""

CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b')
"""A text, or a number that Python writes and JSON does not have."""

KEEP_BYTES = "surrogateescape"
"""Copies bytes that are not UTF-8, for their reader to refuse."""

PREFIX, LOCK = "calcli-", "lock"
"""The beginning of the directories' names, and the file in each that its owner keeps locked."""


@dataclass(frozen=True)
class FileFact:
    """An input file as reports describe it."""

    path: str | None
    """None for standard input."""

    bytes: int
    sha256: str
    """`bytes`, `sha256`: for a database, or a table of Delta or Iceberg, those of the Parquet file with its rows."""

    query: str | None = None
    """The query to a database, or the version of a table of Delta or Iceberg."""

    def to_json(self) -> dict[str, str | int | None]:
        """The entry of a report or a manifest."""
        entry = {**asdict(self), "path": None if self.path is None else as_text(self.path)}
        return {key: value for key, value in entry.items() if key != "query" or value is not None}


class Spool:
    """A directory for temporary copies, made when first needed and removed with its owner.

    If its owner is killed, the next `Spool` removes the directory.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._remove: weakref.finalize[Any, Spool] | None = None
        self._count = 0
        self._fetched: dict[Url | Database | Lake, Path] = {}
        self._versions: dict[Lake, str] = {}
        self._facts: tuple[FileFact, ...] | None = None

    def facts(self, files: Sequence[InputFile], local: Sequence[Path]) -> tuple[FileFact, ...]:
        """The size and hash of each file of the table before it is unpacked; the first call reads them."""
        if self._facts is None:
            self._facts = tuple(map(self._fact, files, local))
        return self._facts

    def _fact(self, file: InputFile, local: Path) -> FileFact:
        content = local  # of pipes only the copy exists
        if isinstance(file.path, Path):
            content = file.path if file.path.is_file() else local
        elif file.path is not None:
            content = self._fetched[file.path]
        asked = file.path.query if isinstance(file.path, Database) else None
        if isinstance(file.path, Lake):
            asked = self._versions[file.path]
        with reading(file.name), content.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            return FileFact(None if file.path is None else str(file.path), stream.tell(), digest, asked)

    def local(self, file: InputFile) -> Path:
        """A regular, uncompressed file with the content of `file`, which may be itself."""
        with reading(file.name):
            path = self._encodable(self._plain(file))
            if file.format not in JSON:
                return path
            return self._lines(path, file.name) if is_array(path) else self._standard(path)

    def _plain(self, file: InputFile) -> Path:
        if file.path is None:
            if sys.stdin is None:
                raise FileSystemError("cannot read standard input: it is closed")
            return self._unpacked(self._copy(sys.stdin.buffer), file.name)
        here = file.path if isinstance(file.path, Path) else self._fetch(file.path)
        if is_workbook(file.path):
            return self._sheet(here, file.name)
        with here.open("rb") as stream:  # fails now, not in the middle of a query, if it may not be read
            if (compression := compression_of(file.path)) is not None:
                return self._unpack(stream, compression, file.name)
            path = here if here.is_file() else self._copy(stream)
        return path if file.format in ("parquet", "ipc") else self._unpacked(path, file.name)

    def _sheet(self, workbook: Path, name: str) -> Path:
        """The first sheet of a workbook."""
        require("fastexcel", f"{name}, a workbook,")
        from fastexcel import FastExcelError

        path = self._new_path()
        try:
            pl.read_excel(workbook, engine="calamine").write_parquet(path)
        except (pl.exceptions.PolarsError, FastExcelError) as error:
            raise DataError(f"{name}: its first sheet is no table: {one_line(error)}") from error
        return path

    def _fetch(self, where: Url | Database | Lake) -> Path:
        path = self._fetched[where] = self._new_path()
        if isinstance(where, Database):
            external_tables.fetch_rows(where, path)
            return path
        if isinstance(where, Lake):
            self._versions[where] = external_tables.fetch_lake(where, path)
            return path
        try:
            with path.open("wb") as copy:
                stores.download(where, copy)
        except FileNotFoundError as error:
            raise DataError(f"there is no object '{where}': {error.strerror}") from error
        return path

    def _unpacked(self, copy: Path, name: str) -> Path:
        """The file, unpacked if its first bytes say that it is compressed."""
        with copy.open("rb") as stream:
            start = stream.read(4)
            stream.seek(0)
            for compression, magic in MAGIC.items():
                if start.startswith(magic):
                    return self._unpack(stream, compression, name)
        return copy

    def clear(self) -> None:
        if self._remove is not None:
            self._remove()
        self._folder = self._remove = None

    def _unpack(self, packed: IO[bytes], compression: str, name: str) -> Path:
        unpacked: Any = (
            gzip.GzipFile(fileobj=packed) if compression == "gzip" else pa.CompressedInputStream(packed, "zstd")
        )
        try:
            with unpacked as stream:
                return self._copy(stream)
        except (gzip.BadGzipFile, EOFError, zlib.error, pa.ArrowException) as error:
            raise DataError(f"{name} is damaged, or not a {compression} file: {one_line(error)}") from error

    def _lines(self, array: Path, name: str) -> Path:
        path = self._new_path()
        with array.open(encoding="utf-8-sig") as stream, path.open("w", encoding="utf-8", newline="\n") as copy:
            copy.writelines(lines_of(stream, name))
        return path

    def _standard(self, lines: Path) -> Path:
        """The lines without a byte order mark, and with null for the numbers that only Python writes; or the file."""
        if not has_constants(lines):
            return lines
        path = self._new_path()
        with (
            lines.open(encoding="utf-8-sig", errors=KEEP_BYTES, newline="\n") as stream,
            path.open("w", encoding="utf-8", errors=KEEP_BYTES, newline="\n") as copy,
        ):
            copy.writelines(map(without_constants, stream))
        return path

    def _encodable(self, path: Path) -> Path:
        """A link to a file whose name is not UTF-8, which polars and pyarrow cannot open; else the file itself."""
        if as_text(path) == str(path):
            return path
        link = self._new_path()
        link.symlink_to(path.absolute())
        return link

    def _copy(self, stream: IO[bytes]) -> Path:
        path = self._new_path()
        with path.open("wb") as copy:
            shutil.copyfileobj(stream, copy, CHUNK)
        return path

    def _new_path(self) -> Path:
        if self._folder is None:
            for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
                remove_folder_unless_locked(lock)
            self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            self._remove = weakref.finalize(self, _remove, self._folder, create_locked(self._folder / LOCK))
        self._count += 1
        return self._folder / f"input-{self._count}"


def _remove(folder: Path, lock: IO[bytes]) -> None:
    lock.close()  # first, as Windows removes no file that is open
    shutil.rmtree(folder, ignore_errors=True)


def is_array(path: Path) -> bool:
    """Whether the first letter of a file opens an array."""
    with path.open("rb") as stream:
        return stream.read(CHUNK).removeprefix(MARK).lstrip(BLANK.encode()).startswith(b"[")


def has_constants(path: Path) -> bool:
    """Whether a file begins with a byte order mark, or may have NaN or infinity in its lines."""
    with path.open("rb") as stream:
        text = stream.read(len(MARK))
        if text == MARK:
            return True
        while part := stream.read(CHUNK):
            text = text[-8:] + part  # no word is cut in two
            if b"NaN" in text or b"Infinity" in text:
                return True
    return False


def without_constants(text: str) -> str:
    """The JSON with null for NaN and infinity, which are no numbers of JSON; the rest as it is written."""
    if "NaN" not in text and "Infinity" not in text:
        return text
    return CONSTANT.sub(lambda found: found[0] if found[0].startswith('"') else "null", text)


def lines_of(stream: IO[str], name: str) -> Iterator[str]:
    """The objects of an array, a line each; numbers stay as they are written, and NaN becomes null."""
    array = _Array(stream, name)
    array.expect("[")
    while array.next_letter() != "]":
        yield array.element() + "\n"
        if array.next_letter() != "]":
            array.expect(",")
            if array.next_letter() == "]":
                raise array.broken("a comma before its end")
    array.expect("]")
    if array.next_letter():
        raise array.broken("text after its end")


class _Array:
    """A reader that holds one chunk of the text, or one element if that is longer."""

    def __init__(self, stream: IO[str], name: str) -> None:
        self._stream = stream
        self._name = name
        self._text = ""
        self._position = 0
        self._count = 0
        self._decoder = json.JSONDecoder()

    def broken(self, what: str) -> DataError:
        """The error for a text that is no array of objects."""
        return DataError(f"{self._name} is not a JSON array of objects: {what}", hint="was it cut off?")

    def next_letter(self) -> str:
        """The next letter that is not blank; empty at the end."""
        while True:
            rest = self._text[self._position :].lstrip(BLANK)
            if rest or not self._more():
                self._position = len(self._text) - len(rest)
                return rest[:1]

    def expect(self, letter: str) -> None:
        found = self.next_letter()
        if found != letter:
            raise self.broken(f"{found!r} in place of {letter!r}" if found else f"it ends without {letter!r}")
        self._position += 1

    def element(self) -> str:
        """The next object, in one line."""
        self.next_letter()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._position)
                break
            except json.JSONDecodeError as error:
                if not self._more():
                    raise self.broken(f"element {self._count + 1}: {one_line(error)}") from error
            except RecursionError as error:
                raise self.broken(f"element {self._count + 1} is nested too deeply") from error
        self._count += 1
        if not isinstance(value, dict):
            raise self.broken(f"element {self._count} is not an object")
        written, self._position = self._text[self._position : end], end
        return without_constants(written).replace("\r", " ").replace("\n", " ")

    def _more(self) -> bool:
        """Read on, and drop the text before the present position; False at the end."""
        rest = self._text[self._position :]
        more = self._stream.read(max(CHUNK, len(rest)))
        self._text, self._position = rest + more, 0
        return bool(more)
