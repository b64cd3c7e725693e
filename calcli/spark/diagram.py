"""`diagram` on a cluster: the workers add up the curves, this machine draws them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import polars as pl

from calcli.batch import FloatArray
from calcli.diagrams.curve_sums import CurveBuilder
from calcli.evaluation.tracing import Tracing
from calcli.reports.schema import DataFacts
from calcli.spark.rows import read_table
from calcli.spark.session import spark_session
from calcli.spark.table import example_of, facts_of_sums, judge, of_both, scaled
from calcli.spark.totals import total_of
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.load import columns_of, encode_chunk
from calcli.tables.row_counts import Count
from calcli.tables.scores import Scale
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
    with spark_session(master) as session:
        table = read_table(session, paths)
        tracing = begin(example_of(table, name, flags, known, groups))
        raw, *others = tracing.scores
        tracing.scores = (replace(raw, binding=scaled(table, raw.binding, name)), *others)
        total = total_of(table, columns_of(tracing.bindings), _Pass(name, tracing, keep_going), name)
    judge(total.suspect, total.count)
    tracing.builder, tracing.share = total.builder, total.share
    return tracing, facts_of_sums(total.count, total.share, tracing.bindings[0])


@dataclass(slots=True)
class _Traced:
    """How many rows there are, the scale of their scores, their curves, and the weight of each class."""

    count: Count
    suspect: list[Scale | None]
    builder: CurveBuilder
    share: FloatArray

    def __iadd__(self, other: _Traced) -> Self:
        self.count = self.count + other.count
        self.suspect = of_both(self.suspect, other.suspect)
        self.builder += other.builder
        self.share = self.share + other.share
        return self


@dataclass(frozen=True)
class _Pass:
    """On a worker, the curves of the rows of one task."""

    name: str
    nothing: Tracing
    keep_going: bool

    def __call__(self, frames: Iterator[pl.DataFrame]) -> _Traced:
        count = Count(self.name, keep_going=self.keep_going)
        tracing = copy.deepcopy(self.nothing)
        suspect = tracing.scale_checks
        for frame in frames:
            chunk = encode_chunk(frame, tracing.bindings, count, suspect)
            if chunk is not None:
                tracing.add(chunk.batches)
        return _Traced(count, suspect, tracing.builder, tracing.share)
