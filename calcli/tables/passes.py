"""Passes over the rows of a table: what is gathered of them is said once, and runs wherever the rows are.

A `Pass` gathers a total, chunk by chunk. `LocalTable` runs it over the rows on this machine, in their order. A cluster
runs it with `add_up` in each of its tasks, and adds up the totals of the tasks with ``+=`` (`calcli.spark.engine`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import polars as pl

from calcli.batch import Batch, IntArray
from calcli.tables.arrays import Levels, index_order
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.checks import Count, Encoded, Tally, bound_columns, encode, null_refused, score_values
from calcli.tables.paths import reading
from calcli.tables.scales import Scale
from calcli.tables.source import Source
from calcli.tables.text import cast_text
from calcli.tables.weights import halves

Total = TypeVar("Total")

GoodRows: TypeAlias = tuple[Sequence[Batch], pl.DataFrame]
"""The good rows of a chunk: a batch for each binding, and the columns that are read as they are."""


@dataclass(frozen=True)
class Reading:
    """The columns that a pass reads, and how its rows are encoded."""

    bindings: Sequence[Binding]
    """The bindings by which rows are encoded; labels and weights are those of the first. A row that is bad for one of
    them is bad for all.
    """

    scales: Sequence[Scale | None]
    """For each binding a check of the scale of its score, which has seen no rows; None where it is not checked."""

    others: Sequence[str] = ()
    """Columns that are read as they are; of text with the types of the table."""

    features: bool = True
    """Whether features are read."""

    judged: bool = True
    """Whether bad rows are judged; not in a pass beside another one that judges the same rows."""

    label: bool = True
    """Whether labels and weights are read."""

    few_labels: bool = False
    """Whether a row may lack its label, and is no bad row for that."""

    @property
    def columns(self) -> list[str]:
        """Every column that is read, once."""
        names = [
            name
            for index, binding in enumerate(self.bindings)
            for name in bound_columns(binding, label=self.label and index == 0, features=self.features)
        ]
        return list(dict.fromkeys([*names, *self.others]))

    def good_rows(
        self, frames: Iterable[pl.DataFrame], count: Count, levels: Levels | None = None
    ) -> Iterator[GoodRows]:
        """The good rows in chunks, which are counted; `levels` are those of a table that is read in order."""
        for frame in frames:
            rows = self._good(frame, count, levels)
            if rows is not None:
                yield rows

    def _good(self, frame: pl.DataFrame, count: Count, levels: Levels | None) -> GoodRows | None:
        """The good rows of one chunk; None if it has none, or if the table will be refused."""
        # 1. encode the chunk for each binding; those that read the same columns share the result
        encoded: dict[tuple[object, object], Encoded] = {}
        for index, (binding, scale) in enumerate(zip(self.bindings, self.scales, strict=True)):
            values = score_values(frame, binding)
            if scale is not None:
                scale.see(values)
            if (binding.score, binding.features) not in encoded:
                encoded[binding.score, binding.features] = encode(
                    frame,
                    binding,
                    label=self.label and index == 0,
                    features=self.features,
                    offset=count.rows,
                    levels=levels,
                    values=values,
                    few_labels=self.few_labels,
                )
        parts = [encoded[binding.score, binding.features] for binding in self.bindings]
        # 2. count the rows that are bad for any of them
        union = _union(parts, self.bindings)
        count.see(union)
        if count.hopeless or union.is_bad.all():
            return None
        # 3. the good rows of each, with the labels and weights of the first
        first = union.good
        goods = [first if part is parts[0] else replace(part, bad=union.bad).good for part in parts]
        batches = [replace(good, label=first.label, weight=first.weight) for good in goods]
        numbers = None if union.bad is None else np.flatnonzero(~union.bad)
        # 4. rows that stand for several
        several = self._several(union, first, numbers, count)
        if several is not None:
            copies, changes = several
            if not len(copies):
                return None
            batches = [replace(batch.take(copies), **changes) for batch in batches]
            numbers = copies if numbers is None else numbers[copies]
        others = frame.select(self.others)
        return batches, others[numbers] if self.others and numbers is not None else others

    def _several(
        self, chunk: Encoded, good: Batch, numbers: IntArray | None, count: Count
    ) -> tuple[IntArray, dict[str, Any]] | None:
        """The places of good rows, each as often as it stands for a row, and the labels and weights of these rows.

        None where each is one. A soft label is two rows, in units of these two; a count is so many, as trials are.
        """
        binding = self.bindings[0]
        some = slice(None) if numbers is None else numbers
        if chunk.share is not None:
            count.halved, share = True, chunk.share[some]
            weight = binding.weight_scale.apply(halves(share, good.weights))
            pair = [1, 0] if index_order(binding) == binding.classes else [0, 1]
            return np.repeat(np.arange(len(share)), 2), {"label": np.tile(pair, len(share)), "weight": weight}
        if chunk.trials is not None:
            hits, counts = (part[some] for part in chunk.trials)
            ones = np.tile([1, 0], len(counts))
            changes: dict[str, Any] = {"label": np.repeat(ones, np.column_stack([hits, counts - hits]).ravel())}
        elif good.weight is not None and binding.weight_kind == "counts":
            counts, changes = good.weight.astype(np.int64), {"weight": None}
        else:
            return None
        count.repeat(counts)
        return np.repeat(np.arange(len(counts)), counts), changes


def _union(parts: Sequence[Encoded], bindings: Sequence[Binding]) -> Encoded:
    """The first part with the bad rows of all parts; the reasons name each score but the first."""
    bad = [part.bad for part in parts if part.bad is not None]
    if not bad:
        return parts[0]
    why: dict[str, int] = {}
    firsts: list[tuple[int, str]] = []
    for part, binding in zip(parts, bindings, strict=True):
        suffix = "" if binding.score == bindings[0].score else f" ({binding.score.columns[0]})"
        why |= {reason + suffix: count for reason, count in part.why.items()}
        if part.first is not None:
            firsts.append((part.first[0], part.first[1] + suffix))
    return replace(parts[0], bad=np.logical_or.reduce(bad), why=why, first=min(firsts, key=lambda first: first[0]))


def read_rows(tally: Tally, wanted: Reading) -> Iterator[GoodRows]:
    """The good rows of a table on this machine, in order, in chunks; at the end they are judged."""
    frames, source = tally.source.raw.select(wanted.columns).collect_batches(), tally.source
    typed = [cast_text(name, source.schema[name]) for name in wanted.others if source.text and name in source.stored]
    with reading(tally.name):
        for batches, others in wanted.good_rows(frames, tally, Levels()):
            yield batches, others.with_columns(typed) if typed else others
    judge(wanted.scales, tally)


def judge(scales: Iterable[Scale | None], count: Count) -> None:
    """Refuse scores of another scale than they should have, and bad rows."""
    for scale in scales:
        if scale is not None:
            scale.judge()
    count.judge()


class Pass(ABC, Generic[Total]):
    """Gathers a total of the good rows of a table. A cluster pickles it to its workers, and their totals back."""

    @abstractmethod
    def reading(self) -> Reading:
        """The columns to read, with checks of scales that have seen no rows."""

    @abstractmethod
    def start(self) -> Total:
        """The total of no rows."""

    @abstractmethod
    def add(self, total: Total, batches: Sequence[Batch], others: pl.DataFrame) -> Total:
        """The total with more rows: a batch for each binding, and the other columns of the same rows."""


@dataclass(slots=True)
class Passed(Generic[Total]):
    """The total of a pass, with the number of good and bad rows, and the scales of their scores."""

    total: Total
    count: Count
    scales: Sequence[Scale | None]

    def __iadd__(self, other: Passed[Total]) -> Self:
        self.total += other.total  # type: ignore[operator]
        self.count = self.count + other.count
        pairs = zip(self.scales, other.scales, strict=True)
        self.scales = [None if one is None or more is None else one + more for one, more in pairs]
        return self

    def judge(self) -> None:
        """Refuse what `judge` refuses of all rows together."""
        judge(self.scales, self.count)


def add_up(gathering: Pass[Total], name: str, keep_going: bool, frames: Iterable[pl.DataFrame]) -> Passed[Total]:
    """The total of some of the rows of the table `name`; they are judged when there is a total of all."""
    wanted, total = gathering.reading(), gathering.start()
    count = Count(name, keep_going=keep_going or not wanted.judged)
    for batches, others in wanted.good_rows(frames, count):
        total = gathering.add(total, batches, others)
    return Passed(total, count, wanted.scales)


class Table(Protocol):
    """A table that was opened where its rows are."""

    def example(self, flags: Flags, known: Binding | None, groups: Sequence[str]) -> Source:
        """The table, or a small one with the same columns, all labels, and all values of the columns `groups`."""

    def with_weight_scale(self, binding: Binding) -> Binding:
        """The binding, with the scale of the weights of all rows."""

    def run(self, gathering: Pass[Total]) -> Passed[Total]:
        """The total of all rows, which have been judged."""

    def count_units(self, column: str, flag: str) -> int:
        """The number of values of a column that a flag names; null is refused."""


class ClusterTable(Table, Protocol):
    """A table on a cluster: only totals of its rows come to this machine."""

    @property
    def unit_key(self) -> str:
        """The column that `with_units` adds."""

    def with_units(self, column: str | None, seed: int) -> ClusterTable:
        """The table with a random number below `UNITS` for each value of a column, or else for each row."""

    def without_files(self, known: frozenset[str]) -> tuple[ClusterTable, Sequence[tuple[str, str]]] | None:
        """The rows of the files whose hashes are not known, and these files with their hashes; None without any."""


@dataclass(frozen=True)
class LocalTable:
    """A table on this machine, whose rows are read in order, in one pass."""

    tally: Tally

    @classmethod
    def of(cls, source: Source, *, keep_going: bool) -> LocalTable:
        """The table; `keep_going` leaves out bad rows."""
        return cls(Tally(source, keep_going=keep_going))

    def example(self, flags: Flags, known: Binding | None, groups: Sequence[str]) -> Source:
        return self.tally.source

    def with_weight_scale(self, binding: Binding) -> Binding:
        return binding

    def run(self, gathering: Pass[Total]) -> Passed[Total]:
        wanted, total = gathering.reading(), gathering.start()
        tally = self.tally if wanted.judged else Tally(self.tally.source, keep_going=True)
        for batches, others in self.chunks(tally, wanted):
            total = gathering.add(total, batches, others)
        return Passed(total, tally, wanted.scales)

    def chunks(self, tally: Tally, wanted: Reading) -> Iterator[GoodRows]:
        """The good rows, in order."""
        return read_rows(tally, wanted)

    def count_units(self, column: str, flag: str) -> int:
        found = self.tally.source.typed([column]).select(pl.col(column).n_unique(), missing=pl.col(column).null_count())
        ((count, missing),) = found.collect(engine="streaming").iter_rows()
        if missing:
            raise null_refused(flag, column, missing)
        return int(count)
