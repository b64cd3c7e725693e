"""Exceptions of polars, pyarrow and the operating system, in the words of calcli."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
import pyarrow as pa

from calcli.errors import ClosedPipeError, DataError, FileSystemError

FULL = (errno.ENOSPC, errno.EDQUOT)


def one_line(error: BaseException) -> str:
    """The first line of what an exception says; the rest is a query plan or a stack."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever goes wrong while `what` is read into a DataError, or a FileSystemError where the disk is to blame."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{what} is not there any more: {one_line(error)}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{what} is not UTF-8 text: {one_line(error)}", hint="convert it, for example with iconv"
        ) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, EOFError) as error:
        raise DataError(f"{what} cannot be read: {one_line(error)}") from error
    except OSError as error:
        raise _system(error, f"cannot read {what}") from error


@contextmanager
def writing(target: str) -> Iterator[None]:
    """Turn whatever the operating system says while `target` is written into a FileSystemError."""
    try:
        yield
    except BrokenPipeError as error:
        raise ClosedPipeError(f"the reader of {target} went away") from error
    except OSError as error:
        raise _system(error, f"cannot write {target}") from error
    except (pl.exceptions.PolarsError, pa.ArrowException) as error:
        number = _os_error_in(error)
        if number == errno.EPIPE:
            raise ClosedPipeError(f"the reader of {target} went away") from error
        if number is not None:
            raise _system(OSError(number, one_line(error)), f"cannot write {target}") from error
        raise DataError(f"cannot write {target}: {one_line(error)}") from error
    except pl.exceptions.PanicException as error:
        raise DataError(f"cannot write {target}: {one_line(error)}") from error


def _system(error: OSError, what: str) -> FileSystemError:
    number = error.errno if error.errno is not None else _os_error_in(error)
    if number in FULL:
        return FileSystemError(f"{what}: the disk is full", hint="free some space, or write somewhere else")
    if number in (errno.EACCES, errno.EPERM):
        return FileSystemError(f"{what}: permission denied", hint="check its owner and mode")
    if number == errno.EROFS:
        return FileSystemError(f"{what}: the file system is read-only", hint="write somewhere else")
    return FileSystemError(f"{what}: {error.strerror or one_line(error)}")


def _os_error_in(error: BaseException) -> int | None:
    """The number in the ``(os error 28)`` that Rust puts behind its messages; pyarrow writes ``[errno 28]``."""
    text = str(error)
    for number in (*FULL, errno.EPIPE, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO):
        if f"os error {number})" in text or f"errno {number}]" in text:
            return number
    return None
