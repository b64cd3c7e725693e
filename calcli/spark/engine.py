"""Spark as an engine: a table on a cluster, over which passes run, and the totals of its tasks.

The workers get rows as Arrow batches (`mapInArrow`): these become frames of polars without a copy, and so the workers
run the very code of one machine. A pass is pickled into the task, and needs calcli there.
"""

from __future__ import annotations

import functools
import math
import operator
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import polars as pl
import pyarrow as pa

from calcli.errors import DataError, UsageError
from calcli.reports.groups import MOST_GROUPS
from calcli.spark.session import (
    KEY,
    column_named,
    connected,
    distinct_values,
    example_rows,
    failures,
    files_of,
    numbered,
    of_files,
    read_table,
    refuse_paths,
    spark_session,
    with_units,
)
from calcli.tables.arrays import numbers
from calcli.tables.binding import with_scale
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.labels import MOST, label_column
from calcli.tables.passes import Pass, Passed, add_up
from calcli.tables.request import EngineRequest, paths_of
from calcli.tables.source import Source
from calcli.tables.weights import WeightSums

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

TOGETHER = 1 << 19
"""Rows that a worker adds up at a time: sums are large, and made anew each time."""

TASKS = 256
"""So many tasks are expected where Spark does not tell their number."""

Total = TypeVar("Total")
AddUp: TypeAlias = Callable[[Iterator[pl.DataFrame]], Total]
"""Makes a total of the rows of one task; totals have ``+=``, and both are pickled."""

Block = TypeVar("Block")
Encode: TypeAlias = Callable[[Iterator[pl.DataFrame]], Iterator[Block]]
"""Makes blocks of the rows of one task; both are pickled."""


@dataclass(frozen=True)
class SparkTable:
    """A table on a cluster."""

    rows: DataFrame
    """The table as Spark knows it."""

    name: str
    """Its name in messages."""

    keep_going: bool = False
    """Whether bad rows are left out; else the table is refused."""

    unit_key = KEY

    def example(self, flags: Flags, known: Binding | None = None, groups: Iterable[str] = ()) -> Source:
        """A small table on this machine with the same columns and all labels, so that it is bound as the whole one.

        The values of the columns `groups` are all there too, or more of them than there may be.
        """
        names = [column for column in self.rows.columns if column not in flags.ignore]
        if flags.trials is not None or (known is not None and known.trials is not None):
            raise UsageError("--engine spark does not count trials", hint="make a row of each, or give one label a row")
        label = label_column(names, flags, known, need=False)
        complete = dict.fromkeys(groups, MOST_GROUPS) | ({} if label is None else {label: MOST})
        return Source(example_rows(self.rows, complete).lazy(), name=self.name)

    def with_weight_scale(self, binding: Binding) -> Binding:
        """The binding with the scale of all weights, from a pass over them."""
        if binding.score.kind == "rank":
            raise UsageError(
                "--engine spark learns and measures no score that only ranks, but applies its artifacts",
                hint="work on a sample of the rows on one machine",
            )
        if binding.soft:
            raise UsageError(
                f"--engine spark does not read soft labels, and {binding.label!r} holds shares between 0 and 1",
                hint="work on a sample of the rows on one machine",
            )
        if binding.weight is None:
            return binding
        return with_scale(binding, total_of(self.rows, [binding.weight], partial(_weights, binding.weight), self.name))

    def run(self, gathering: Pass[Total]) -> Passed[Total]:
        """The total of all rows, which have been judged."""
        reading, adding = gathering.reading(), partial(add_up, gathering, self.name, self.keep_going)
        passed = total_of(self.rows, reading.columns, adding, self.name)
        if reading.judged:
            passed.judge()
        return passed

    def with_units(self, column: str | None, seed: int) -> SparkTable:
        return replace(self, rows=with_units(self.rows, column, seed))

    def count_units(self, column: str, flag: str) -> int:
        return distinct_values(self.rows, column, flag)

    def count_rows(self) -> int:
        """How many rows there are; of Parquet files only the footers are read."""
        with failures():
            return int(self.rows.count())

    def without_files(self, known: frozenset[str]) -> tuple[SparkTable, Sequence[tuple[str, str]]] | None:
        files = [(path, sha256) for path, sha256 in files_of(self.rows) if sha256 not in known]
        return (replace(self, rows=of_files(self.rows, [path for path, _ in files])), files) if files else None


@contextmanager
def spark_table(request: EngineRequest, *, keep_going: bool = False) -> Iterator[SparkTable]:
    """The table of a request, in a session; over it passes run."""
    paths = paths_of(request)
    with spark_session(request.master) as session:
        yield SparkTable(read_table(session, paths), ", ".join(paths), keep_going)


def _weights(weight: str, frames: Iterator[pl.DataFrame]) -> WeightSums:
    """The sums over the weights of one task, on a worker."""
    sums = WeightSums()
    for frame in frames:
        sums.add(numbers(frame[weight]))
    return sums


def total_of(table: DataFrame, reads: Sequence[str], add_up: AddUp[Total], name: str) -> Total:
    """The total of all rows, of which only the columns `reads` are read; `name` is that of the table.

    Totals are always added in the order of the tasks: the same files give the same total to the last bit.
    """
    from pyspark.sql import functions

    refuse_paths(table, reads)
    place = functions.col("place")
    with failures():
        # On the workers: a total of each task,
        columns = numbered(table.select(*map(column_named, reads)))
        totals = columns.mapInArrow(functools.partial(_adding_up, add_up, list(reads)), "place int, total binary")
        # and of groups of tasks, as many as there are tasks in each: all totals at once would be too much for here.
        tasks = TASKS if connected(table.sparkSession) else columns.rdd.getNumPartitions()
        groups = max(1, math.isqrt(tasks))
        totals = totals.repartition(groups, place % groups).sortWithinPartitions(place)
        # On the driver: the total of the groups, in the order of their first tasks.
        packed = sorted(totals.mapInArrow(_joined, totals.schema).collect())
    if not packed:
        raise DataError(f"{name} has no rows")
    whole: Total = functools.reduce(operator.iadd, (_unpacked(row["total"]) for row in packed))
    return whole


def _adding_up(add_up: AddUp[Any], names: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker, from the Arrow batches of one task to a single row: the task's number and its total."""
    from pyspark import TaskContext

    frames = _larger(batch.rename_columns(names) for batch in batches)
    first = next(frames, None)
    task = TaskContext.get()
    if first is None or task is None:  # an empty partition has no total
        return
    yield _as_row(task.partitionId(), add_up(chain([first], frames)))


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker, the total of a group of tasks, if there is one, and the number of its first task."""
    rows = (row for batch in batches for row in zip(*batch.columns, strict=True))
    first = next(rows, None)
    if first is not None:
        totals = (_unpacked(packed.as_py()) for _, packed in chain([first], rows))
        yield _as_row(first[0].as_py(), functools.reduce(operator.iadd, totals))


def _as_row(place: int, total: object) -> pa.RecordBatch:
    columns = {"place": pa.array([place], pa.int32()), "total": pa.array([_packed(total)], pa.binary())}
    return pa.RecordBatch.from_pydict(columns)


def _packed(total: object) -> bytes:
    """A total as bytes, compressed: most of its numbers are zeros."""
    return zlib.compress(pickle.dumps(total), level=1)


def _unpacked(packed: bytes) -> Any:
    return pickle.loads(zlib.decompress(packed))


def _larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """The rows in frames of `TOGETHER` rows or more: Spark's batches are small."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in chain(batches, [None]):
        if batch is not None and batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
        if waiting and (batch is None or rows >= TOGETHER):
            yield cast("pl.DataFrame", pl.from_arrow(pa.Table.from_batches(waiting)))
            waiting, rows = [], 0


def in_blocks(table: DataFrame, reads: Sequence[str], encode: Encode[Block]) -> RDD[Block]:
    """The rows as objects of Python that the workers make of them; only the columns `reads` are read."""
    refuse_paths(table, reads)
    columns = numbered(table.select(*map(column_named, reads)))
    packed = columns.mapInArrow(functools.partial(_packing, encode, list(reads)), "block binary")
    return packed.rdd.map(lambda row: pickle.loads(row.block))


def _packing(encode: Encode[Any], names: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker, from the Arrow batches of one task to a row for each block."""
    for block in encode(_larger(batch.rename_columns(names) for batch in batches)):
        yield pa.RecordBatch.from_pydict({"block": pa.array([pickle.dumps(block)], pa.binary())})


def persisted(blocks: RDD[Block]) -> RDD[Block]:
    """The blocks, which stay where they are made until `unpersist`: in memory, and beyond that on disk."""
    from pyspark import StorageLevel

    return blocks.persist(StorageLevel.MEMORY_AND_DISK)


def sum_of_blocks(blocks: RDD[Block], add_up: Callable[[Iterable[Block]], Total]) -> Total:
    """The total of all blocks, from the totals of the tasks, which have ``+``; in any order."""
    with failures():
        whole: Total = blocks.mapPartitions(lambda part: [add_up(part)]).treeReduce(operator.add)
    return whole
