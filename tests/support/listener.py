"""A listener that remembers what it was told."""

from __future__ import annotations

import threading

from calcli.listener import Listener


class Recorder(Listener):
    """Keeps stages, steps with their words, notes, and the threads that reported; `stop_at` interrupts a stage, or a
    step with such words."""

    def __init__(self, stop_at: str = "") -> None:
        self.stop_at = stop_at
        self.stages: list[tuple[str, int | None]] = []
        self.steps: list[tuple[int, str]] = []
        self.notes: list[str] = []
        self.threads: set[int] = set()

    def begin(self, task: str, total: int | None) -> None:
        if self.stop_at and task.startswith(self.stop_at):
            raise KeyboardInterrupt
        self.stages.append((task, total))

    def advance(self, steps: int, what: str = "") -> None:
        if self.stop_at and what.startswith(self.stop_at):
            raise KeyboardInterrupt
        self.steps.append((steps, what))
        self.threads.add(threading.get_ident())

    def note(self, message: str) -> None:
        self.notes.append(message)

    @property
    def done(self) -> int:
        """How many steps have been done."""
        return sum(steps for steps, _ in self.steps)
