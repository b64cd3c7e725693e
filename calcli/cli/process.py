"""The process around a command: its environment, and its stdout and stderr, which can be full or closed."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from calcli.errors import CalcliError, ClosedPipeError, FileSystemError

_NO = {"", "0", "false", "no", "off", "n", "f"}

THREAD_VARIABLES = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Variables from which polars, OpenMP and numba read how many threads they may start."""


def variable_of(flag: str, command: str | None = None) -> str:
    """The variable of an option: ``CALCLI_INPUT_FORMAT`` of ``--input-format``; one `command` may have its own."""
    words = [*([] if command is None else command.split()), *flag.removeprefix("--").split("-")]
    return "_".join(["CALCLI", *words]).upper()


def is_set(flag: str, words: Sequence[str]) -> bool:
    """Whether a switch is on, before the words are parsed, and even if they cannot be."""
    return flag in words or os.environ.get(variable_of(flag), "").lower() not in _NO


def forget_what_stops_libraries() -> None:
    """Drop invalid numbers of threads, and matplotlib's backend, which pictures in files do not need.

    polars, numba and matplotlib read these variables when they are imported, and raise where they make no sense.
    """
    os.environ.pop("MPLBACKEND", None)
    for name in THREAD_VARIABLES:
        value = os.environ.get(name, "1")
        if not (value.isdecimal() and int(value) > 0):
            del os.environ[name]


_STDERR = 2


def write(text: str) -> None:
    """Write to stdout and flush, so that a full disk or a closed pipe raises here and not at exit."""
    if sys.stdout is None:
        raise FileSystemError("cannot write to standard output: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise stdout_error(error) from error


def write_path(path: os.PathLike[str]) -> None:
    """Write the name of a file to stdout, byte for byte, whatever the encoding of the terminal."""
    write_bytes(os.fsencode(path) + b"\n")


def write_bytes(content: bytes) -> None:
    """Write bytes to stdout."""
    write("")
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise stdout_error(error) from error


def flush() -> None:
    """Flush the output of Typer to stdout, so that an error of the stream raises here."""
    if sys.stdout is not None:
        write("")


def stdout_error(error: OSError) -> CalcliError:
    """An error of the operating system on stdout as an error of calcli."""
    if error.errno == errno.EPIPE:
        return ClosedPipeError("the reader of standard output closed it")
    return FileSystemError(f"cannot write to standard output: {error.strerror or error}")


def write_stderr(text: str) -> None:
    """Write a line to stderr; if stderr is closed, the line is lost."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)


def keep_stderr() -> None:
    """Keep stderr for what is written to `sys.stderr`: what libraries write to the file itself is dropped.

    The panics of polars, which are written before they are raised, can be caught in no other way. Processes that are
    started write to the null device too. What would end this process at once is still shown.
    """
    import faulthandler

    try:
        if sys.stderr is None or sys.stderr.fileno() != _STDERR:
            return
        own = os.fdopen(os.dup(_STDERR), "w", 1, sys.stderr.encoding, "backslashreplace")
    except (OSError, ValueError):
        return  # closed
    sys.stderr.flush()
    silence(sys.stderr)
    sys.stderr = own
    faulthandler.enable(own)


def silence(stream: TextIO | None) -> None:
    """Send the rest of a stream's buffer to the null device, so that the flush at exit raises nothing."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
