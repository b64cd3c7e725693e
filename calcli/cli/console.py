"""What goes to stderr: notes, warnings, progress. Nothing of it is an answer, so nothing of it can fail a command."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from calcli.cli.screen import Screen
from calcli.cli.streams import say
from calcli.cli.text import wrapped

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Console:
    """The listener of the verbs, and the voice of the commands.

    Parameters
    ----------
    quiet
        No notes, no tables, no progress; warnings remain.

    Attributes
    ----------
    screen, page
        What stderr and stdout can show.
    """

    def __init__(self, *, quiet: bool = False, no_color: bool = False) -> None:
        self.quiet = quiet
        self.screen = Screen.of(sys.stderr, no_color=no_color)
        self.page = Screen.of(sys.stdout, no_color=no_color)
        self._bar: Progress | None = None
        self._tasks: list[TaskID] = []
        self._said: set[str] = set()

    def show(self, lines: Iterable[str]) -> None:
        """Lines that are laid out already."""
        text = "\n".join(lines)
        if text and not self.quiet:
            self._put(text)

    def note(self, message: str) -> None:
        """A sentence that a user may want to know; the same one once only."""
        if not self.quiet and message not in self._said:
            self._said.add(message)
            self._put("\n".join(map(self.screen.dim, wrapped(message, self.screen.prose))))

    def warn(self, message: str) -> None:
        """A sentence that a user must know, even a quiet one."""
        first, *others = wrapped(f"warning: {message}", self.screen.prose)
        self._put("\n".join([first.replace("warning:", self.screen.doubtful("warning:"), 1), *others]))

    def begin(self, task: str, total: int | None) -> None:
        """A stage of the work starts."""
        if self.quiet or not self.screen.terminal:
            return
        if self._bar is None:
            self._bar = _new_bar(self.screen)
            self._bar.start()
        self._tasks.append(self._bar.add_task(task, total=total, what=""))

    def advance(self, steps: int, what: str = "") -> None:
        """So many steps of the innermost stage are done."""
        if self._bar is not None and self._tasks:
            self._bar.update(self._tasks[-1], advance=steps, what=what)

    def end(self) -> None:
        """The innermost stage is over."""
        if self._bar is None or not self._tasks:
            return
        self._bar.remove_task(self._tasks.pop())
        if not self._tasks:
            self._bar.stop()
            self._bar = None

    def _put(self, text: str) -> None:
        text = self.screen.fit(text)
        if self._bar is not None:
            from rich.text import Text

            self._bar.console.print(Text.from_ansi(text), soft_wrap=True)
        else:
            say(text)


def _new_bar(screen: Screen) -> Progress:
    """A bar that leaves no trace. Rich is imported here, where it is needed and polars costs more."""
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
