"""The file formats: their names, suffixes and separators, and the errors of their readers in calcli's words."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import polars as pl
import pyarrow as pa

from calcli.errors import ClosedPipeError, DataError, FileSystemError, UsageError, unknown_name

Format: TypeAlias = Literal["parquet", "csv", "tsv", "ipc", "ndjson", "json"]

SUFFIXES: Mapping[str, Format] = MappingProxyType(
    {
        ".parquet": "parquet",
        ".pq": "parquet",
        ".csv": "csv",
        ".tsv": "tsv",
        ".tab": "tsv",
        ".ipc": "ipc",
        ".arrow": "ipc",
        ".arrows": "ipc",
        ".feather": "ipc",
        ".ndjson": "ndjson",
        ".jsonl": "ndjson",
        ".json": "json",
    }
)
FORMATS: tuple[Format, ...] = get_args(Format)

SEPARATORS: Mapping[Format, str] = MappingProxyType({"csv": ",", "tsv": "\t"})
"""The separators of fields in the formats without types."""

JSON: tuple[Format, ...] = ("ndjson", "json")
"""The formats with an object in each line, or an array of objects; a file that is read tells by its first byte."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text file is written."""

    separator: str
    commas: frozenset[str] = frozenset()
    """The columns of numbers with decimal commas."""

    declared: bool = False
    """Whether a line ``sep=;`` stands before the names, as for Excel."""


def check_delimiter(given: str | None, kind: Format) -> str | None:
    """The separator of fields that a flag gives; a tab can be written as in C."""
    if given is None:
        return None
    separator = "\t" if given == "\\t" else given
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise UsageError(f"--delimiter takes one letter, not {given!r}", hint="such as ';'")
    if kind not in SEPARATORS:
        raise UsageError(f"--delimiter is for CSV, and the table is {kind}", hint="leave it out")
    return separator


COMMAS = Dialect(",")
"""CSV in its default form."""

COMPRESSIONS: Mapping[str, Literal["gzip", "zstd"]] = MappingProxyType({".gz": "gzip", ".zst": "zstd"})


def compression_of(path: str | os.PathLike[str]) -> Literal["gzip", "zstd"] | None:
    """The compression of the whole file, by its last suffix."""
    return COMPRESSIONS.get(PurePosixPath(path).suffix.lower())


def suffix_format(path: str | os.PathLike[str]) -> Format | None:
    """The format that the suffix of a file names; None for an unknown suffix."""
    name = PurePosixPath(path)
    if name.suffix.lower() in COMPRESSIONS:
        name = name.with_suffix("")
    return SUFFIXES.get(name.suffix.lower())


def format_of(
    path: str | os.PathLike[str],
    given: str | None,
    *,
    flag: str = "--input-format/--output-format",
    stream: Format | None = None,
) -> Format:
    """The format of a file: the given one, or else that of its suffix; a stream has the format `stream`."""
    if given is not None:
        for known in FORMATS:
            if given.lower() == known:
                return known
        raise UsageError(f"{flag}: {unknown_name('format', given, FORMATS)}")
    if (by_suffix := suffix_format(path)) is not None:
        return by_suffix
    if str(path) == "-":
        if stream is not None:
            return stream
        raise UsageError("a stream has no suffix that gives its format", hint=f"name the format with {flag}")
    raise UsageError(
        f"{str(path)!r}: unknown suffix; known are {', '.join(SUFFIXES)}",
        hint=f"name the format with {flag}",
    )


LIBRARY_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException)


def one_line(error: BaseException) -> str:
    """The first line of an exception's message; the rest is a query plan or a stack."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn errors while `what` is read into a DataError, or a FileSystemError if they are the operating system's."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{what} is not there any more: {one_line(error)}") from error
    except UnicodeDecodeError as error:
        raise not_utf8(what) from error
    except (*LIBRARY_ERRORS, OSError, EOFError) as error:
        number = _number(error)
        if number is not None:
            raise _refused(number, f"cannot read {what}") from error
        raise DataError(f"{what} cannot be read: {one_line(error)}") from error


@contextmanager
def writing(target: str) -> Iterator[None]:
    """Turn errors of the operating system while `target` is written into a FileSystemError."""
    try:
        yield
    except (*LIBRARY_ERRORS, OSError) as error:
        number = _number(error)
        if number == errno.EPIPE:
            raise ClosedPipeError(f"the reader of {target} closed it") from error
        if number is not None:
            raise _refused(number, f"cannot write {target}") from error
        raise DataError(f"the rows for {target} cannot be computed: {one_line(error)}") from error


def not_utf8(what: str) -> DataError:
    """The error for text in another encoding."""
    return DataError(f"{what} is not UTF-8 text", hint="convert it, for example with iconv")


def _number(error: BaseException) -> int | None:
    """The errno; polars and pyarrow have it only in their messages."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    number = re.search(r"(?:os error|errno) (\d+)[)\]]", str(error), re.IGNORECASE)
    return int(number[1]) if number else None


def _refused(number: int, what: str) -> FileSystemError:
    match number:
        case errno.ENOSPC | errno.EDQUOT:
            return FileSystemError(f"{what}: the disk is full", hint="free some space, or write somewhere else")
        case errno.EACCES | errno.EPERM:
            return FileSystemError(f"{what}: permission denied", hint="check its owner and mode")
        case errno.EROFS:
            return FileSystemError(f"{what}: the file system is read-only", hint="write somewhere else")
        case errno.EISDIR:
            return FileSystemError(f"{what}: it is a directory", hint="name a file in it")
        case _:
            return FileSystemError(f"{what}: {os.strerror(number)}")
