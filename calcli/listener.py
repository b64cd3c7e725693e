"""Progress and notes of long work. The library reports them to a listener; the command line draws a bar.

Progress in a notebook: lines below the cell, once its work has taken longer than a moment, gone when it is done.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


class Listener:
    """Gets the progress of long work, and notes worth a line; this one does nothing with them."""

    def begin(self, task: str, total: int | None) -> None:
        """A stage of `total` steps starts; None where their number is not known."""

    def advance(self, steps: int, what: str = "") -> None:
        """More steps are done; `what` names the last, or with none what begins. May be called from several threads."""

    def end(self) -> None:
        """The stage is over."""

    def note(self, message: str) -> None:
        """Something that the user should know: what was chosen, what was left out."""


SILENT = Listener()


@contextmanager
def stage(listener: Listener, task: str, total: int | None = None) -> Iterator[None]:
    """Everything inside is one stage."""
    listener.begin(task, total)
    try:
        yield
    finally:
        listener.end()


PATIENCE = 1.0
"""Seconds that the work of a cell may take before it shows."""

PERIOD = 0.2
"""Seconds between two drawings."""


def here() -> Listener:
    """Who listens where this runs: the cell of a notebook, unless ``CALCLI_QUIET`` is set; elsewhere nobody."""
    ipython: Any = sys.modules.get("IPython")  # a kernel has imported it
    shell = ipython and ipython.get_ipython()
    if not hasattr(shell, "kernel") or os.environ.get("CALCLI_QUIET"):
        return SILENT
    return _cell(shell.execution_count)


@lru_cache(maxsize=1)
def _cell(_number: int) -> Cell:
    """One for each cell, however many models it fits."""
    return Cell(sys.modules["IPython"].display)


@dataclass(slots=True)
class Stage:
    """A stage under way."""

    task: str
    total: int | None
    done: int = 0
    what: str = ""

    def __str__(self) -> str:
        steps = f"{self.done} of {self.total}" if self.total else ""
        return " ".join(filter(None, (self.task, steps, self.what)))

    def html(self) -> str:
        """A bar, and the words."""
        from html import escape

        place = f' max="{self.total}" value="{self.done}"' if self.total else ""
        return f"<div><progress{place}></progress> {escape(str(self))}</div>"


class Cell(Listener):
    """Shows the stages that are under way, the outermost first, by the module that has IPython's `display`."""

    def __init__(self, ipython: Any) -> None:
        self._ipython = ipython
        self._stages: list[Stage] = []
        self._shown: Any = None
        self._due = time.monotonic() + PATIENCE

    def begin(self, task: str, total: int | None) -> None:
        """Show one more stage."""
        self._stages.append(Stage(task, total))
        self._draw()

    def advance(self, steps: int, what: str = "") -> None:
        """Count steps of the innermost stage."""
        if self._stages:
            self._stages[-1].done += steps
            self._stages[-1].what = what
            self._draw()

    def end(self) -> None:
        """Show the innermost stage no longer."""
        if self._stages:
            self._stages.pop()
        if not self._stages and self._shown is not None:
            self._show()

    def _draw(self) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + PERIOD
            self._show()

    def _show(self) -> None:
        shown = {
            "text/plain": "\n".join(map(str, self._stages)),
            "text/html": "".join(stage.html() for stage in self._stages),
        }
        if self._shown is None:
            self._shown = self._ipython.display(shown, raw=True, display_id=True)
        else:
            self._shown.update(shown, raw=True)
