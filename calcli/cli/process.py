"""The process around a command: its environment, and its stdout and stderr, which can be full or closed; its console.

Notes, warnings and progress on stderr. None of it is an answer, so a broken stderr fails no command.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO, cast

from calcli.cli.screen import Screen, answered, escaped, is_terminal, wrapped
from calcli.errors import CalcliError, ClosedPipeError, FileSystemError
from calcli.listener import Listener
from calcli.locks import WINDOWS

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

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


def prepare_libraries() -> None:
    """Set what libraries look at when they are imported, and drop what would stop them.

    polars, numba and matplotlib raise where a number of threads or a backend makes no sense; pictures in files need no
    backend. Threads of OpenBLAS that have nothing to do, as all of them when numpy is imported, look for work for a
    thirtieth of a second before they sleep, each on a processor of its own, unless they are told to sleep at once.
    CatBoost goes without its widgets, as where Jupyter is not installed: they take longer to import than the rest.
    glibc keeps the memory of large arrays for those that come after them: pages that the system clears anew for each
    are a sixth of the time of a fit of millions of rows.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 cycles, the least that it takes
    os.environ.pop("MPLBACKEND", None)
    for name in THREAD_VARIABLES:
        value = os.environ.get(name, "1")
        if not (value.isdecimal() and int(value) > 0):
            del os.environ[name]
    cast("dict[str, object]", sys.modules).setdefault("catboost.widget", None)
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # other C libraries have no such setting
            ctypes.CDLL(None).mallopt(_LEAST_MAPPED, 1 << 30)


_LEAST_MAPPED = -3
"""glibc's number for the size from which memory is given back to the system at once (`M_MMAP_THRESHOLD`)."""

_STDERR = 2


def write(content: str | bytes) -> None:
    """Write to stdout and flush, so that a full disk or a closed pipe raises here and not at exit."""
    if sys.stdout is None:
        raise FileSystemError("cannot write to standard output: it is closed")
    try:
        if isinstance(content, bytes):
            sys.stdout.flush()  # the text before them
            sys.stdout.buffer.write(content)
        else:
            sys.stdout.write(content)
        sys.stdout.flush()
    except OSError as error:
        raise stdout_error(error) from error


def write_path(path: os.PathLike[str]) -> None:
    """Write the name of a file to stdout: byte for byte, whatever the encoding, or escaped on a terminal."""
    write(escaped(os.fspath(path)) + "\n" if is_terminal(sys.stdout) else os.fsencode(path) + b"\n")


def flush() -> None:
    """Flush the output of Typer to stdout, so that an error of the stream raises here."""
    if sys.stdout is not None:
        write("")


def stdout_error(error: OSError) -> CalcliError:
    """An error of the operating system on stdout as an error of calcli."""
    if error.errno == errno.EPIPE or (WINDOWS and error.errno == errno.EINVAL):
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


class Console(Listener):
    """The listener of the verbs, which shows their notes and progress; when it is `quiet`, their warnings alone."""

    def __init__(self, *, quiet: bool = False, no_color: bool = False) -> None:
        self.quiet = quiet
        self.stderr = Screen.of(sys.stderr, no_color=no_color)
        self.stdout = Screen.of(sys.stdout, no_color=no_color)
        self._bar: Progress | None = None
        self._tasks: list[TaskID] = []
        self._noted: set[str] = set()

    def show(self, lines: Iterable[str]) -> None:
        if not self.quiet:
            self._write(list(lines))

    def note(self, message: str) -> None:
        """Show a sentence, unless it was shown before."""
        if not self.quiet and message not in self._noted:
            self._noted.add(message)
            self._write(map(self.stderr.dim, wrapped(message, self.stderr.prose)))

    def warn(self, message: str) -> None:
        """Show a warning, with `quiet` too."""
        self._write(answered("warning", self.stderr.doubtful, message, self.stderr.prose))

    def begin(self, task: str, total: int | None) -> None:
        if self.quiet or not self.stderr.terminal:
            return
        if self._bar is None:
            self._bar = _new_bar(self.stderr)
            self._bar.start()
        self._tasks.append(self._bar.add_task(task, total=total, what=""))

    def advance(self, steps: int, what: str = "") -> None:
        """Count steps of the innermost stage."""
        if self._bar is not None and self._tasks:
            self._bar.update(self._tasks[-1], advance=steps, what=self.stderr.fit([what]))

    def end(self) -> None:
        """End the innermost stage."""
        if self._bar is None or not self._tasks:
            return
        self._bar.remove_task(self._tasks.pop())
        if not self._tasks:
            self._bar.stop()
            self._bar = None

    def _write(self, lines: Iterable[str]) -> None:
        if not (text := self.stderr.fit(lines)):
            return
        if self._bar is not None:
            from rich.text import Text

            self._bar.console.print(Text.from_ansi(text), soft_wrap=True)
        else:
            write_stderr(text)


def _new_bar(screen: Screen) -> Progress:
    """A bar that is erased at its end. Rich is imported here, when polars has been imported anyway."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr, no_color=not screen.color, force_terminal=True, width=screen.width)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}", markup=False),
    )
    return Progress(*columns, console=console, transient=True)
