"""A Spark cluster: the same rows and values as on one machine, computed where the rows are.

The driver binds columns on a small example of the table (`like`), and pickles the calibrator or the metrics into the
task. The workers get rows as Arrow batches (`mapInArrow`): these become frames of polars without a copy, and so the
workers run the very code of one machine. What comes back to the driver is small: the sums of `total`, or the counts of
`apply`. Workers need calcli installed, and the paths that the driver sees; only a calibrator with a short formula is
applied without (`calcli.spark.formula`).
"""

from __future__ import annotations

import functools
import hashlib
import math
import operator
import os
import pickle
import re
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
import polars as pl
import pyarrow as pa

from calcli import errors, extras
from calcli.engines.local import REFUSED, Stream
from calcli.engines.options import TABLE
from calcli.engines.passthrough import RowsWritten
from calcli.errors import CalcliError, DataError, FileSystemError, MissingExtraError, UsageError
from calcli.expressions import Term
from calcli.metrics.unit_means import UNITS
from calcli.spark.formula import HUGE_METHOD, is_short, with_outputs
from calcli.tables.arrays import Levels

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_LOGGING = Path(__file__).with_name("log4j2.properties")
_OURS = re.compile(r"calcli\.errors\.(\w+): (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_CAUSES = re.compile(r"^(?:: |Caused by: )[\w.$]+: (.+)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Exit|Interrupt)\b.*", re.MULTILINE)

SAMPLE = 1000
"""Rows of the example on which columns are bound."""

BATCH = 1 << 16
"""Rows that Java hands to Python at a time: with Spark's 10,000 the way takes a sixth longer."""

OPENING = 1 << 18
"""So many bytes are read in the time that a small file takes to open. With Spark's 4 MB a task has 32 small files at
most, and each task costs a twentieth of a second to start in Python."""

TOGETHER = 1 << 19
"""Rows that a worker adds up at a time: sums are large, and made anew each time."""

KEY = "__calcli_key"
KEYS = 1 << 30
"""The column that `with_keys` adds, and how many values it can have."""

TASKS = 256
"""So many tasks are expected where Spark does not tell their number."""

Total = TypeVar("Total")
AddUp: TypeAlias = Callable[[Iterator[pl.DataFrame]], Total]
"""Makes a total of the rows of one task; totals have ``+=``, and both are pickled."""

Block = TypeVar("Block")
Encode: TypeAlias = Callable[[Iterator[pl.DataFrame]], Iterator[Block]]
"""Makes blocks of the rows of one task; both are pickled."""


@contextmanager
def session(master: str | None) -> Iterator[SparkSession]:
    """The session that runs already, or a new one that is stopped afterwards.

    `master` is the URL of a cluster; None is what Spark's own configuration says, or else this machine.
    """
    extras.require("pyspark", "--engine spark")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # The settings of a new session; one that runs keeps its own where Spark cannot change them.
    running = SparkSession.getActiveSession()
    builder = (
        SparkSession.builder.appName("calcli")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}")
        .config("spark.sql.codegen.hugeMethodLimit", str(HUGE_METHOD))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH))
        .config("spark.sql.files.openCostInBytes", str(OPENING))
        .config("spark.executorEnv.POLARS_MAX_THREADS", "1")  # Spark runs a task for each core already
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")  # as one machine reads them
    )
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    try:
        started = running if running is not None and connected(running) else builder.getOrCreate()
    except (PySparkException, RuntimeError, ImportError) as error:
        raise _without_spark(error) from None
    # Spark's Python workers are the `python3` of the PATH, which on this machine need not be the one that runs.
    if running is None and "PYSPARK_PYTHON" not in os.environ and not connected(started):
        context = started.sparkContext
        if str(context.master).startswith("local"):
            context.pythonExec = sys.executable
    try:
        yield started
    finally:
        if running is None:
            started.stop()


def connected(session: SparkSession) -> bool:
    """Whether it speaks to a server (Spark Connect), and has nothing of Java here."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _without_spark(error: Exception) -> CalcliError:
    text = str(error)
    if isinstance(error, ImportError):
        install = extras.install_line(["pyspark"])
        return MissingExtraError(f"no Spark Connect: {text.splitlines()[0]}", hint=f"try: {install}")
    if "JAVA_GATEWAY" in text or "Java gateway" in text:
        return MissingExtraError(
            "Spark needs Java 17 or newer, and could not start it", hint="install it, or set JAVA_HOME"
        )
    return UsageError(f"no Spark: {text.splitlines()[0] if text else type(error).__name__}", hint="see: --master")


def read(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """A dataset of Parquet files (directories, files, globs; partition columns are texts), or a table by its name."""
    from pyspark.errors import AnalysisException

    try:
        if paths[0].startswith(TABLE):
            return spark.table(paths[0].removeprefix(TABLE))
        return spark.read.parquet(*paths)
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error) or "TABLE_OR_VIEW_NOT_FOUND" in str(error):
            raise DataError(f"Spark finds nothing at {', '.join(paths)}") from None
        raise DataError(f"Spark cannot read {', '.join(paths)}: {_first_line(error)}") from None


def like(table: DataFrame, complete: Mapping[str, int] = MappingProxyType({})) -> pl.DataFrame:
    """A small table with the same columns, for binding: some of the rows.

    Of the columns that are `complete` every value is there, as far as there are no more than so many.
    """
    sample = _collected(table.limit(SAMPLE))
    complete = {name: most for name, most in complete.items() if name in sample.columns}
    if not len(sample):
        return sample
    values = [
        _collected(table.select(_column(name)).distinct().limit(most + 1))[name].sort()
        for name, most in complete.items()
        if not sample.schema[name].is_nested()
    ]
    place = np.arange(max(len(sample), *map(len, values), 0))
    return sample[place % len(sample)].with_columns(column[place % len(column)] for column in values)


def _collected(table: DataFrame) -> pl.DataFrame:
    with _failures():
        if hasattr(table, "toArrow"):
            rows = table.toArrow()
        else:  # Spark 3.5
            from pyspark.sql.pandas.types import to_arrow_schema

            rows = pa.Table.from_batches(cast("Any", table)._collect_as_arrow(), to_arrow_schema(table.schema))
        return cast("pl.DataFrame", pl.from_arrow(rows))


def schema_of(table: DataFrame) -> pl.Schema:
    """The columns of a table, a streaming one too, as they arrive on the workers."""
    return _collected(table.sparkSession.createDataFrame([], table.schema)).schema


def _column(name: str) -> Column:
    """The column of this name, also where there are dots in it."""
    from pyspark.sql import functions

    return functions.col(f"`{name.replace('`', '``')}`")


def _refuse_paths(table: DataFrame, reads: Iterable[str]) -> None:
    """Refuse columns that are computed from others."""
    stored = set(table.columns)
    for name in reads:
        if name not in stored:
            raise UsageError(
                f"{name!r} is no column of its own, and --engine spark reads no others",
                hint="add it to the table, before",
            )


def _numbered(table: DataFrame) -> DataFrame:
    """The same columns under plain names: Spark takes a dot in a name for a path into a struct."""
    return table.toDF(*(f"column{place}" for place in range(len(table.columns))))


def rows(table: DataFrame) -> int:
    """How many rows there are; of Parquet files only the footers are read."""
    with _failures():
        return int(table.count())


def with_keys(table: DataFrame, leaving: Collection[str], seed: int) -> DataFrame:
    """The table with a column `KEY`: a random number from 0 .. `KEYS` - 1 for each distinct row.

    It is a hash of all columns but those to leave out. It does not depend on the partition of the row, so that a row
    is in the same fold in each pass, however Spark reads the table.
    """
    from pyspark.sql import functions

    digest = functions.xxhash64(functions.lit(seed), *map(_column, _plain(table, leaving)))
    return table.withColumn(KEY, functions.pmod(digest, functions.lit(KEYS)).cast("int"))


def with_units(table: DataFrame, column: str | None, seed: int) -> DataFrame:
    """The table with a column `KEY`: for rows that agree in the column, or else for each row, one of `UNITS` at random.

    A row is known by its file and its place in it, however Spark splits the files; rows of no file by their partition.
    """
    from pyspark.sql import functions

    known = [_column(column)] if column is not None else _of_file(table, "file_path", "row_index")
    digest = functions.xxhash64(functions.lit(seed), *(known or [functions.monotonically_increasing_id()]))
    return table.withColumn(KEY, functions.pmod(digest, functions.lit(UNITS)).cast("int"))


def _of_file(table: DataFrame, *names: str) -> list[Column] | None:
    """What Spark knows of the file that each row is in; None without files, and where a view hides them."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions

    try:
        # Spark 3.5 has no metadataColumn; later ones log a page where a column is named that is not there.
        has = hasattr(table, "metadataColumn")
        file = table.metadataColumn("_metadata") if has else functions.col("_metadata")
        columns = [file.getField(name) for name in names]
        _ = table.select(*columns).schema  # Spark Connect finds what is missing only when it is asked
    except AnalysisException:
        return None
    return columns


def distinct_values(table: DataFrame, column: str) -> int:
    """How many values a column of units has; null is refused."""
    from pyspark.sql import functions

    with _failures():
        (found,) = table.agg(
            functions.count_distinct(_column(column)).alias("values"),
            functions.count_if(_column(column).isNull()).alias("missing"),
        ).collect()
    if found["missing"]:
        raise DataError(f"--resample-by: the column {column!r} is null in {found['missing']:,} rows")
    return int(found["values"])


def files_of(table: DataFrame) -> list[tuple[str, str]]:
    """The files of a table, and a hash of the rows of each, which is the same wherever a copy of it lies."""
    from pyspark.sql import functions

    path = _of_file(table, "file_path")
    if path is None:
        raise UsageError(
            "--drift knows rows again by their file, and this table shows none",
            hint="give the files themselves in place of a view of them",
        )
    hashes = [functions.xxhash64(functions.lit(seed), *map(_column, _plain(table))) for seed in range(2)]
    digests = [functions.sum(one.cast("decimal(38,0)")).alias(f"d{place}") for place, one in enumerate(hashes)]
    with _failures():
        counted = functions.count(functions.lit(1)).alias("rows")
        found = table.groupBy(path[0].alias("path")).agg(counted, *digests).orderBy("path").collect()
    return [
        (row["path"], hashlib.sha256(f"{row['rows']} {row['d0']} {row['d1']}".encode()).hexdigest()) for row in found
    ]


def of_files(table: DataFrame, paths: Sequence[str]) -> DataFrame:
    """The rows in these files."""
    from pyspark.sql import functions

    return table.filter(functions.col("_metadata.file_path").isin(list(paths)))


def with_own_keys(table: DataFrame, seed: int) -> DataFrame:
    """Other keys for rows that share one: they are numbered in the order of what is in them."""
    from pyspark.sql import Window, functions

    number = functions.row_number().over(Window.partitionBy(KEY).orderBy(*map(_column, _plain(table))))
    digest = functions.xxhash64(functions.lit(seed), functions.col(KEY), number)
    return table.withColumn(KEY, functions.pmod(digest, functions.lit(KEYS)).cast("int"))


def in_order(table: DataFrame, first: str) -> pl.DataFrame:
    """All rows, on this machine: in the order of a column, and where it is the same of all others that have one."""
    return _collected(table).sort([first, *_plain(table)])


def _plain(table: DataFrame, leaving: Collection[str] = ()) -> list[str]:
    """The columns whose values have an order, and of which a hash can be made."""
    from pyspark.sql.types import AtomicType

    fields = table.schema.fields
    return sorted(one.name for one in fields if isinstance(one.dataType, AtomicType) and one.name not in leaving)


def total(table: DataFrame, reads: Sequence[str], add_up: AddUp[Total], name: str) -> Total:
    """The total of all rows, of which only the columns `reads` are read; `name` is that of the table.

    Totals are always added in the order of the tasks: the same files give the same total to the last bit.
    """
    from pyspark.sql import functions

    _refuse_paths(table, reads)
    place = functions.col("place")
    with _failures():
        # On the workers: a total of each task,
        columns = _numbered(table.select(*map(_column, reads)))
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


def in_blocks(table: DataFrame, reads: Sequence[str], encode: Encode[Block]) -> RDD[Block]:
    """The rows as objects of Python that the workers make of them; only the columns `reads` are read."""
    _refuse_paths(table, reads)
    columns = _numbered(table.select(*map(_column, reads)))
    packed = columns.mapInArrow(functools.partial(_packing, encode, list(reads)), "block binary")
    return packed.rdd.map(_unpacking)


def _packing(encode: Encode[Any], names: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker, from the Arrow batches of one task to a row for each block."""
    for block in encode(_larger(batch.rename_columns(names) for batch in batches)):
        yield pa.RecordBatch.from_pydict({"block": pa.array([pickle.dumps(block)], pa.binary())})


def _unpacking(row: Row) -> Any:
    return pickle.loads(row.block)


def kept(blocks: RDD[Block]) -> RDD[Block]:
    """The blocks, which stay where they are made until `unpersist`: in memory, and beyond that on disk."""
    from pyspark import StorageLevel

    return blocks.persist(StorageLevel.MEMORY_AND_DISK)


def sum_of_blocks(blocks: RDD[Block], add_up: Callable[[Iterable[Block]], Total]) -> Total:
    """The total of all blocks, from the totals of the tasks, which have ``+``; in any order."""
    with _failures():
        whole: Total = blocks.mapPartitions(functools.partial(_of_task, add_up)).treeReduce(operator.add)
    return whole


def _of_task(add_up: Callable[[Iterable[Any]], Any], blocks: Iterable[Any]) -> Iterator[Any]:
    yield add_up(blocks)


def _adding_up(add_up: AddUp[Any], names: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker, from the Arrow batches of one task to a single row: the task's number and its total."""
    from pyspark import TaskContext

    frames = _larger(batch.rename_columns(names) for batch in batches)
    first = next(frames, None)
    task = TaskContext.get()
    if first is None or task is None:  # an empty partition has no total
        return
    yield _as_row(task.partitionId(), add_up(chain([first], frames)))


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


def apply(
    table: DataFrame, stream: Stream, kept: Sequence[str], output: str, outputs: Mapping[str, Term] | None = None
) -> RowsWritten:
    """Write the `kept` columns and the calibrated ones, partitioned as the table is.

    `outputs` are the calibrated columns as terms, if they have any: then no Python runs on the workers.
    """
    from pyspark.sql import Observation, functions

    _refuse_paths(table, stream.added.reads)
    names = stream.added.names
    needed = [name for name in table.columns if name in {*kept, *stream.added.reads}]
    scored = with_added(table.select(*map(_column, needed)), stream, outputs).select(*map(_column, (*kept, *names)))
    # Rows are counted as they are written; bad ones are those in which the first added column is null.
    counted = Observation("calcli")
    missing = functions.count_if(_column(names[0]).isNull())
    scored = scored.observe(counted, functions.count(functions.lit(1)).alias("rows"), missing.alias("bad"))
    partitions = [name for name in partition_columns(table) if name in kept]
    with _failures(output):
        writer = scored.write.partitionBy(*partitions)
        if output.startswith(TABLE):
            writer.saveAsTable(output.removeprefix(TABLE))
        else:
            writer.parquet(output)
    return RowsWritten(int(counted.get["rows"]), int(counted.get["bad"]))


def with_added(rows: DataFrame, stream: Stream, outputs: Mapping[str, Term] | None) -> DataFrame:
    """The rows with the calibrated columns, by their formulas or else by Python on the workers."""
    from pyspark.sql import functions

    if outputs is None or not is_short(outputs):
        return _by_workers(rows, stream)
    scored = with_outputs(rows, outputs)
    if stream.bad_rows == "null":
        return scored
    refused = functions.raise_error(functions.lit(f"calcli.errors.DataError: {REFUSED}"))
    first = _column(stream.added.names[0])
    return scored.withColumn(stream.added.names[0], functions.when(first.isNull(), refused).otherwise(first))


def _by_workers(rows: DataFrame, stream: Stream) -> DataFrame:
    """The rows with the columns that Python on the workers adds."""
    from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

    kinds: dict[pl.DataType, DataType] = {
        pl.String(): StringType(),
        pl.Int64(): LongType(),
        pl.Boolean(): BooleanType(),
    }

    # The columns have plain names until the added ones are there.
    plain, names = _numbered(rows), stream.added.names
    types = [kinds.get(stream.added.types.get(name, pl.Float64()), DoubleType()) for name in names]
    added = [StructField(f"added{place}", kind) for place, kind in enumerate(types)]
    fields = StructType([*plain.schema.fields, *added])
    return plain.mapInArrow(functools.partial(_calibrated, stream, rows.columns), fields).toDF(*rows.columns, *names)


def _calibrated(stream: Stream, names: list[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker, the Arrow batches of one task with the added columns."""
    levels = Levels()
    for batch in batches:
        named = batch.rename_columns(names)
        frame: Any = pl.from_arrow(named.select(list(stream.added.reads)))
        added = stream.compute(frame, levels)
        numbered = [*batch.schema.names, *(f"added{place}" for place in range(added.width))]
        columns = [column.to_arrow(compat_level=pl.CompatLevel.oldest()) for column in added]
        short = [one.cast(pa.string()) if pa.types.is_large_string(one.type) else one for one in columns]
        yield pa.RecordBatch.from_arrays([*batch.columns, *short], names=numbered)


def partition_columns(table: DataFrame) -> list[str]:
    """The columns that are written in the names of directories, outermost first."""
    files = table.inputFiles()
    parts = [part.partition("=")[0] for part in files[0].split("/")[:-1] if "=" in part] if files else []
    return [name for name in parts if name in table.columns]


@contextmanager
def _failures(output: str = "") -> Iterator[None]:
    """Errors of Spark as errors of calcli; one that was raised by calcli on a worker as it was raised there."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if "PATH_ALREADY_EXISTS" in text or "TABLE_OR_VIEW_ALREADY_EXISTS" in text:
            raise FileSystemError(f"{output} exists already", hint="choose another name") from None
        ours = _OURS.search(text)
        if ours is None:
            why = _of_worker(text)
            if why is None and "PythonWorkerFactory" in text:
                raise DataError(
                    f"Spark's workers cannot run Python as {os.environ.get('PYSPARK_PYTHON', 'python3')!r}",
                    hint="name an interpreter that has calcli, on every worker: PYSPARK_PYTHON=/opt/calcli/bin/python",
                ) from error
            raise DataError(f"Spark could not finish: {why or _first_line(error)}") from error
        kind = getattr(errors, ours[1], DataError)
        raise kind(ours[2]) from None


def _of_worker(text: str) -> str | None:
    """The last line of the traceback of a Python worker, if there is one."""
    lines = _PYTHON_ERROR.findall(text.partition("Traceback (most recent call last)")[2])
    return lines[-1] if lines else None


def _first_line(error: Exception) -> str:
    """What went wrong: of an error in Java its last cause."""
    if causes := _CAUSES.findall(str(error)):
        return str(causes[-1])
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
