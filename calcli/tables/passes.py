"""Passes over the rows of a table: what is gathered of them is said once, and runs wherever the rows are.

A `Pass` gathers a total, chunk by chunk. `LocalTable` runs it over the rows on this machine, in their order. A cluster
runs it with `add_up` in each of its tasks, and adds up the totals of the tasks with ``+=`` (`calcli.spark.engine`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import polars as pl

from calcli.batch import Batch
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.checks import Count, Tally
from calcli.tables.load import columns_of, encode_chunk, read_batches
from calcli.tables.scores import Scale
from calcli.tables.source import Source

Total = TypeVar("Total")


@dataclass(frozen=True)
class Reading:
    """The columns that a pass reads, and how its rows are encoded."""

    bindings: Sequence[Binding]
    """The bindings by which rows are encoded; labels and weights are those of the first."""

    scales: Sequence[Scale | None]
    """For each binding a check of the scale of its score, which has seen no rows; None where it is not checked."""

    others: Sequence[str] = ()
    """Columns that are read as they are; only on a cluster."""

    features: bool = True
    """Whether features are read."""

    judged: bool = True
    """Whether bad rows are judged; not in a pass beside another one that judges the same rows."""

    @property
    def columns(self) -> list[str]:
        """Every column that is read, once."""
        return list(dict.fromkeys([*columns_of(self.bindings, features=self.features), *self.others]))

    def good_rows(self, frames: Iterable[pl.DataFrame], count: Count) -> Iterator[tuple[Sequence[Batch], pl.DataFrame]]:
        """The good rows in chunks: a batch for each binding, and the columns that are read as they are."""
        for frame in frames:
            chunk = encode_chunk(frame, self.bindings, count, self.scales, features=self.features)
            if chunk is not None:
                others = frame.select(self.others)
                yield (
                    chunk.batches,
                    others[chunk.row_numbers] if others.width and chunk.row_numbers is not None else others,
                )


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
        """Refuse scores of another scale than they should have, and bad rows."""
        for scale in self.scales:
            if scale is not None:
                scale.judge()
        self.count.judge()


def add_up(gathering: Pass[Total], name: str, keep_going: bool, frames: Iterable[pl.DataFrame]) -> Passed[Total]:
    """The total of some of the rows of the table `name`; they are judged when there is a total of all."""
    reading = gathering.reading()
    count = Count(name, keep_going=keep_going or not reading.judged)
    total = gathering.start()
    for batches, others in reading.good_rows(frames, count):
        total = gathering.add(total, batches, others)
    return Passed(total, count, reading.scales)


class Table(Protocol):
    """A table that was opened where its rows are."""

    def example(self, flags: Flags, known: Binding | None, groups: Sequence[str]) -> Source:
        """The table, or a small one with the same columns, all labels, and all values of the columns `groups`."""
        ...

    def with_weight_scale(self, binding: Binding) -> Binding:
        """The binding, with the scale of the weights of all rows."""
        ...

    def run(self, gathering: Pass[Total]) -> Passed[Total]:
        """The total of all rows, which have been judged."""
        ...


class ClusterTable(Table, Protocol):
    """A table on a cluster: only totals of its rows come to this machine."""

    @property
    def unit_key(self) -> str:
        """The column that `with_units` adds."""
        ...

    def with_units(self, column: str | None, seed: int) -> ClusterTable:
        """The table with a random number below `UNITS` for each value of a column, or else for each row."""
        ...

    def count_units(self, column: str) -> int:
        """The number of values of a column; null is refused."""
        ...

    def without_files(self, known: frozenset[str]) -> tuple[ClusterTable, Sequence[tuple[str, str]]] | None:
        """The rows of the files whose hashes are not known, and these files with their hashes; None without any."""
        ...


@dataclass(frozen=True)
class LocalTable:
    """A table on this machine, whose rows are read in order, in one pass."""

    source: Source
    tally: Tally

    @classmethod
    def of(cls, source: Source, *, keep_going: bool) -> LocalTable:
        """The table; `keep_going` leaves out bad rows."""
        return cls(source, Tally(source, keep_going=keep_going))

    def example(self, flags: Flags, known: Binding | None, groups: Sequence[str]) -> Source:
        return self.source

    def with_weight_scale(self, binding: Binding) -> Binding:
        return binding

    def run(self, gathering: Pass[Total]) -> Passed[Total]:
        reading, total = gathering.reading(), gathering.start()
        for batches in read_batches(self.tally, reading.bindings, reading.scales, features=reading.features):
            total = gathering.add(total, batches, pl.DataFrame())
        return Passed(total, self.tally, reading.scales)
