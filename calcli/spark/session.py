"""A Spark cluster: the same rows and values as on one machine, computed where the rows are.

The driver decides which column plays which part, from the schema alone, and ships the calibrator with the task. The
workers meet rows as Arrow batches and do with each what `local` does. They need calcli installed, and see the paths
that the driver sees.
"""

from __future__ import annotations

import functools
import math
import operator
import pickle
import re
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np
import polars as pl
import pyarrow as pa

from calcli import errors
from calcli.engines.local import Stream
from calcli.engines.passthrough import RowsWritten
from calcli.errors import CalcliError, DataError, FileSystemError, MissingExtraError, UsageError
from calcli.tables.arrays import Levels
from calcli.tables.labels import MOST

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_LOGGING = Path(__file__).with_name("log4j2.properties")
_OURS = re.compile(r"calcli\.errors\.(\w+): (.+)")

SAMPLE = 1000
"""So many rows stand for the table where only its columns matter."""

TOGETHER = 1 << 19
"""Rows that a worker looks at together: sums are large, and made anew each time."""

KEY = "__calcli_key"
KEYS = 1 << 30
"""The column that `with_keys` adds, and how many values it can have."""

Total = TypeVar("Total")
Total_co = TypeVar("Total_co", covariant=True)


class AddUp(Protocol[Total_co]):
    """Makes a total of the rows of one task: something that knows ``+=``. It is pickled."""

    def __call__(self, frames: Iterator[pl.DataFrame], /) -> Total_co: ...


@contextmanager
def session(master: str | None) -> Iterator[SparkSession]:
    """The session that runs already, or one for as long as it is needed.

    `master` is the URL of a cluster; None is what Spark's own configuration says, or else this machine.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError.of("pyspark", "spark", "--engine spark") from None
    running = SparkSession.getActiveSession()
    builder = (
        SparkSession.builder.appName("calcli")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}")
        .config("spark.pyspark.python", sys.executable)
        .config("spark.executorEnv.POLARS_MAX_THREADS", "1")  # Spark runs a task for each core already
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")  # as one machine reads them
    )
    try:
        started = (builder if master is None else builder.master(master)).getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise _without_spark(error) from None
    try:
        yield started
    finally:
        if running is None:
            started.stop()


def _without_spark(error: Exception) -> CalcliError:
    text = str(error)
    if "JAVA_GATEWAY" in text or "Java gateway" in text:
        return MissingExtraError(
            "Spark needs Java 17 or newer, and could not start it", hint="install it, or set JAVA_HOME"
        )
    return UsageError(f"no Spark: {text.splitlines()[0] if text else type(error).__name__}", hint="see: --master")


def read(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """A dataset of Parquet files: directories, files, globs; partition columns are texts."""
    from pyspark.errors import AnalysisException

    try:
        table: DataFrame = spark.read.parquet(*paths)
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            raise DataError(f"Spark finds nothing at {', '.join(paths)}") from None
        raise DataError(f"Spark cannot read {', '.join(paths)}: {_first_line(error)}") from None
    return table


def like(table: DataFrame, label: str | None = None) -> pl.DataFrame:
    """A small table that has the same columns, for binding: some of the rows, and every value of the label."""
    some = _collected(table.limit(SAMPLE))
    if label is None or not len(some) or some.schema[label].is_nested():
        return some
    values = _collected(table.select(_column(label)).distinct().limit(MOST + 1))[label].sort()
    place = np.arange(max(len(some), len(values)))
    return some[place % len(some)].with_columns(values[place % len(values)])


def _collected(table: DataFrame) -> pl.DataFrame:
    with _failures():
        return cast("pl.DataFrame", pl.from_arrow(table.toArrow()))


def _column(name: str) -> Column:
    """The column of this very name, whatever dots are in it."""
    from pyspark.sql import functions

    return functions.col(f"`{name.replace('`', '``')}`")


def _numbered(table: DataFrame) -> DataFrame:
    """The same columns under names in which Spark finds nothing to interpret, as it does in a dot."""
    return table.toDF(*(f"column{place}" for place in range(len(table.columns))))


def rows(table: DataFrame) -> int:
    """How many rows there are; of Parquet files their ends are read, and nothing else."""
    with _failures():
        return int(table.count())


def with_keys(table: DataFrame, leaving: Collection[str], seed: int) -> DataFrame:
    """The table with a column `KEY`: a number drawn from 0 .. `KEYS` - 1 for each distinct row.

    It follows from the values of all columns but those to leave out, and from nothing else: not from where the row is.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import AtomicType

    names = sorted(
        field.name
        for field in table.schema.fields
        if isinstance(field.dataType, AtomicType) and field.name not in leaving
    )
    mixed = functions.xxhash64(functions.lit(seed), *map(_column, names))
    return table.withColumn(KEY, functions.pmod(mixed, functions.lit(KEYS)).cast("int"))


def total(table: DataFrame, reads: Sequence[str], add_up: AddUp[Total]) -> Total | None:
    """What the rows add up to, of which only the columns `reads` are looked at; None where there are none.

    The totals of the tasks are added up in groups on the workers, and those of the groups here: always in the order of
    the tasks, so that the same files give the same total to the last bit.
    """
    from pyspark.sql import functions

    place = functions.col("place")
    with _failures():
        chosen = _numbered(table.select(*map(_column, reads)))
        groups = max(1, math.isqrt(chosen.rdd.getNumPartitions()))
        parts = chosen.mapInArrow(_AddingUp(add_up, reads), "place int, total binary")
        parts = parts.repartition(groups, place % groups)
        found = parts.sortWithinPartitions(place).rdd.mapPartitions(_joined).collect()
    return functools.reduce(operator.iadd, map(_unpacked, found)) if found else None


class _AddingUp:
    """What a worker does with the rows of one task."""

    def __init__(self, add_up: AddUp[Any], names: Sequence[str]) -> None:
        self.add_up, self.names = add_up, list(names)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        frames = _larger(batch.rename_columns(self.names) for batch in batches)
        first = next(frames, None)
        task = TaskContext.get()
        if first is None or task is None:
            return
        found = _packed(self.add_up(chain([first], frames)))
        yield pa.RecordBatch.from_pydict(
            {"place": pa.array([task.partitionId()], pa.int32()), "total": pa.array([found], pa.binary())}
        )


def _larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """The rows, many at a time."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
        if sum(one.num_rows for one in held) >= TOGETHER:
            yield cast("pl.DataFrame", pl.from_arrow(pa.Table.from_batches(held)))
            held = []
    if held:
        yield cast("pl.DataFrame", pl.from_arrow(pa.Table.from_batches(held)))


def _joined(rows: Iterable[Row]) -> Iterator[bytes]:
    """One total for those of some tasks, if there are any."""
    totals = (_unpacked(row.total) for row in rows)
    first = next(totals, None)
    if first is not None:
        yield _packed(functools.reduce(operator.iadd, totals, first))


def _packed(total: object) -> bytes:
    """A total on its way; most of what it holds is zeros."""
    return zlib.compress(pickle.dumps(total), level=1)


def _unpacked(packed: bytes) -> Any:
    return pickle.loads(zlib.decompress(packed))


def apply(table: DataFrame, stream: Stream, kept: Sequence[str], output: str) -> RowsWritten:
    """Write the `kept` columns and the calibrated ones, in the partitions in which the table came."""
    from pyspark.sql import Observation, functions
    from pyspark.sql.types import DoubleType, StructField, StructType

    names = stream.added.names
    needed = [name for name in table.columns if name in {*kept, *stream.added.reads}]
    rows = _numbered(table.select(*map(_column, needed)))
    added = [StructField(f"added{place}", DoubleType()) for place in range(len(names))]
    scored = rows.mapInArrow(_Calibrated(stream, needed), StructType([*rows.schema.fields, *added]))
    scored = scored.toDF(*needed, *names).select(*map(_column, (*kept, *names)))
    counted = Observation("calcli")
    missing = functions.count_if(_column(names[0]).isNull())
    scored = scored.observe(counted, functions.count(functions.lit(1)).alias("rows"), missing.alias("bad"))
    partitions = [name for name in partition_columns(table) if name in kept]
    with _failures(output):
        scored.write.partitionBy(*partitions).parquet(output)
    return RowsWritten(int(counted.get["rows"]), int(counted.get["bad"]))


class _Calibrated:
    """What a worker does with the batches of one task."""

    def __init__(self, stream: Stream, names: Sequence[str]) -> None:
        self.stream, self.names = stream, list(names)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        levels = Levels()
        for batch in batches:
            named = batch.rename_columns(self.names)
            frame: Any = pl.from_arrow(named.select(list(self.stream.added.reads)))
            added = self.stream.compute(frame, levels)
            names = [*batch.schema.names, *(f"added{place}" for place in range(added.width))]
            yield pa.RecordBatch.from_arrays([*batch.columns, *(column.to_arrow() for column in added)], names=names)


def partition_columns(table: DataFrame) -> list[str]:
    """The columns that are written in the names of directories, outermost first."""
    files = table.inputFiles()
    parts = [part.partition("=")[0] for part in files[0].split("/")[:-1] if "=" in part] if files else []
    return [name for name in parts if name in table.columns]


@contextmanager
def _failures(output: str = "") -> Iterator[None]:
    """What went wrong on a worker, as the error that was raised there."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if "PATH_ALREADY_EXISTS" in text:
            raise FileSystemError(f"{output} exists already", hint="choose another directory") from None
        ours = _OURS.search(text)
        if ours is None:
            raise DataError(f"Spark could not finish: {_first_line(error)}") from error
        kind = getattr(errors, ours[1], DataError)
        raise kind(ours[2]) from None


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
