"""Notes, warnings and progress on stderr. None of it is an answer, so a broken stderr fails no command."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from calcli.cli.process import write_stderr
from calcli.cli.screen import Screen, wrapped

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Console:
    """The listener of the verbs, which shows their notes and progress.

    Parameters
    ----------
    quiet
        No notes, no tables, no progress; warnings remain.

    Attributes
    ----------
    stderr, stdout
        What each stream can show.
    """

    def __init__(self, *, quiet: bool = False, no_color: bool = False) -> None:
        self.quiet = quiet
        self.stderr = Screen.of(sys.stderr, no_color=no_color)
        self.stdout = Screen.of(sys.stdout, no_color=no_color)
        self._bar: Progress | None = None
        self._tasks: list[TaskID] = []
        self._noted: set[str] = set()

    def show(self, lines: Iterable[str]) -> None:
        """Show lines as they are."""
        text = "\n".join(lines)
        if text and not self.quiet:
            self._write(text)

    def note(self, message: str) -> None:
        """Show a sentence, unless it was shown before."""
        if not self.quiet and message not in self._noted:
            self._noted.add(message)
            self._write("\n".join(map(self.stderr.dim, wrapped(message, self.stderr.prose))))

    def warn(self, message: str) -> None:
        """Show a warning, with `quiet` too."""
        first, *others = wrapped(f"warning: {message}", self.stderr.prose)
        self._write("\n".join([first.replace("warning:", self.stderr.doubtful("warning:"), 1), *others]))

    def begin(self, task: str, total: int | None) -> None:
        """Start a stage of the work."""
        if self.quiet or not self.stderr.terminal:
            return
        if self._bar is None:
            self._bar = _new_bar(self.stderr)
            self._bar.start()
        self._tasks.append(self._bar.add_task(task, total=total, what=""))

    def advance(self, steps: int, what: str = "") -> None:
        """Count steps of the innermost stage."""
        if self._bar is not None and self._tasks:
            self._bar.update(self._tasks[-1], advance=steps, what=what)

    def end(self) -> None:
        """End the innermost stage."""
        if self._bar is None or not self._tasks:
            return
        self._bar.remove_task(self._tasks.pop())
        if not self._tasks:
            self._bar.stop()
            self._bar = None

    def _write(self, text: str) -> None:
        text = self.stderr.fit(text)
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
