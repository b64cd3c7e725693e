"""How far a long fit has come, for whoever wants to know: a method says it here, and knows no listener."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_EAR: ContextVar[Callable[[str], None] | None] = ContextVar("who is told how far a fit has come", default=None)


def tell(what: str) -> None:
    """What is being done, in a few words; nothing happens if nobody listens."""
    ear = _EAR.get()
    if ear is not None:
        ear(what)


@contextmanager
def told(ear: Callable[[str], None]) -> Iterator[None]:
    """`ear` is told what the fits inside have to say."""
    before = _EAR.set(ear)
    try:
        yield
    finally:
        _EAR.reset(before)
