"""Lazy frames over rows that Python reads, for files that polars cannot scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl
from polars.io.plugins import register_io_source


def scan_frames(
    read: Callable[[Sequence[str]], Iterator[pl.DataFrame]], schema: Mapping[str, pl.DataType]
) -> pl.LazyFrame:
    """A lazy frame that calls `read` with the columns it needs each time it is collected.

    polars pushes filters and limits down to its sources, and leaves them to be applied here.
    """

    def frames(
        wanted: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        left = limit
        for frame in read(list(schema) if wanted is None else wanted):
            part = frame if left is None else frame.head(left)
            left = None if left is None else left - len(part)
            yield part if predicate is None else part.filter(predicate)
            if left == 0:
                return

    return register_io_source(frames, schema=dict(schema), is_pure=True)
