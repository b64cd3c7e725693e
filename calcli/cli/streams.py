"""stdout and stderr as files that can be full, closed, or read by nobody."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TextIO

from calcli.errors import CalcliError, ClosedPipeError, FileSystemError


def write(text: str) -> None:
    """Put an answer out, at once: a full disk or a closed pipe has to show while there is somebody to handle it."""
    if sys.stdout is None:
        raise FileSystemError("cannot write to standard output: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise refused(error) from error


def write_path(path: os.PathLike[str]) -> None:
    """Put out the name of a file, byte for byte, whatever the encoding of the terminal."""
    write("")
    try:
        sys.stdout.buffer.write(os.fsencode(path) + b"\n")
        sys.stdout.buffer.flush()
    except OSError as error:
        raise refused(error) from error


def flush() -> None:
    """What was printed behind our back, by Typer for one, is written only here: it fails now or never."""
    if sys.stdout is not None:
        write("")


def refused(error: OSError) -> CalcliError:
    """What the operating system said about stdout."""
    if error.errno == errno.EPIPE:
        return ClosedPipeError("the reader of standard output went away")
    return FileSystemError(f"cannot write to standard output: {error.strerror or error}")


def say(text: str) -> None:
    """A line on stderr. Where nobody can hear it, there is nobody to tell."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)


def silence(stream: TextIO | None) -> None:
    """Let what is still in a stream's buffer go nowhere, so that the interpreter's last flush has nothing to say."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
