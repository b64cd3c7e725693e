"""Rows some at a time, so that what is computed between them stays in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator

CHUNK = 1 << 15


def spans(rows: int, size: int = CHUNK) -> Iterator[slice]:
    """All rows, `size` of them at a time."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))
