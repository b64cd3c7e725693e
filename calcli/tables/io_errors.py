"""Turn exceptions of polars, pyarrow and the operating system into errors of calcli."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
import pyarrow as pa

from calcli.errors import ClosedPipeError, DataError, FileSystemError

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
