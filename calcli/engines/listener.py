"""Progress and notes of long work. The library reports them to a listener; the command line draws a bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Listener(Protocol):
    """Gets the progress of long work, and notes worth a line."""

    def begin(self, task: str, total: int | None) -> None:
        """A stage of `total` steps starts; None where their number is not known."""
        ...

    def advance(self, steps: int, what: str = "") -> None:
        """More steps are done; `what` names the last. May be called from several threads."""
        ...

    def end(self) -> None:
        """The stage is over."""
        ...

    def note(self, message: str) -> None:
        """Something that the user should know: what was chosen, what was left out."""
        ...


class Silent:
    """Listens to nothing."""

    def begin(self, task: str, total: int | None) -> None:
        pass

    def advance(self, steps: int, what: str = "") -> None:
        pass

    def end(self) -> None:
        pass

    def note(self, message: str) -> None:
        pass


SILENT: Listener = Silent()


@contextmanager
def stage(listener: Listener, task: str, total: int | None = None) -> Iterator[None]:
    """Everything inside is one stage."""
    listener.begin(task, total)
    try:
        yield
    finally:
        listener.end()
