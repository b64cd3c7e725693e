"""`diagram` on a cluster: the workers add up the curves, this machine draws them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import polars as pl

from calcli.evaluation.tracing import Tracing
from calcli.reports.schema import DataFacts
from calcli.spark import session as spark
from calcli.spark.table import example_of, facts_of_sums, scaled
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.load import columns_of, encode_chunk
from calcli.tables.row_counts import Count
from calcli.tables.scale import Scale
from calcli.tables.source import Source


def trace(
    paths: Sequence[str],
    master: str | None,
    flags: Flags,
    known: Binding | None,
    groups: Sequence[str],
    begin: Callable[[Source], Tracing],
    *,
    keep_going: bool,
) -> tuple[Tracing, DataFacts]:
    """The curves of all rows, and the facts about these; `begin` binds an example, whose `groups` are complete."""
    name = ", ".join(paths)
    with spark.session(master) as session:
        table = spark.read(session, paths)
        tracing = begin(example_of(table, name, flags, known, groups))
        raw, *others = tracing.scores
        tracing.scores = (replace(raw, binding=scaled(table, raw.binding, name)), *others)
        total = spark.total(table, columns_of(tracing.bindings), _Pass(name, tracing, keep_going), name)
    for scale in total.suspect:
        if scale is not None:
            scale.judge()
    total.count.judge()
    return total.tracing, facts_of_sums(total.count, total.tracing.share, tracing.bindings[0])


@dataclass(slots=True)
class _Traced:
    """The curves of some rows, how many these are, and the scale of their scores."""

    count: Count
    suspect: list[Scale | None]
    tracing: Tracing

    def __iadd__(self, other: _Traced) -> Self:
        self.count = self.count + other.count
        self.suspect = [
            None if here is None or there is None else here + there
            for here, there in zip(self.suspect, other.suspect, strict=True)
        ]
        self.tracing += other.tracing
        return self


@dataclass(frozen=True)
class _Pass:
    """On a worker, the curves of the rows of one task."""

    name: str
    nothing: Tracing
    keep_going: bool

    def __call__(self, frames: Iterator[pl.DataFrame]) -> _Traced:
        count = Count(self.name, keep_going=self.keep_going)
        total = _Traced(count, self.nothing.scale_checks, copy.deepcopy(self.nothing))
        for frame in frames:
            chunk = encode_chunk(frame, total.tracing.bindings, total.count, total.suspect)
            if chunk is not None:
                total.tracing.add(chunk.batches)
        return total
