"""Progress of a long fit: methods report it here, and need not know who listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("progress listener", default=None)


def tell(step: str) -> None:
    """Report the current step in a few words, if anybody listens."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(step)


@contextmanager
def told(listener: Callable[[str], None]) -> Iterator[None]:
    """Call `listener` with the steps of the fits inside."""
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)
