"""A Spark session, its failures in calcli's words, and the rows of a table on it: read, known by keys, a few of them
here.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
import pyarrow as pa

from calcli import errors, extras
from calcli.errors import CalcliError, DataError, FileSystemError, MissingExtraError, UsageError
from calcli.metrics.gathered import UNITS
from calcli.tables.checks import null_refused
from calcli.tables.request import TABLE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LOGGING = Path(__file__).with_name("log4j2.properties")
_OURS = re.compile(r"calcli\.errors\.(\w+): (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_CAUSES = re.compile(r"^(?:: |Caused by: )[\w.$]+: (.+)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Exit|Interrupt)\b.*", re.MULTILINE)

BATCH = 1 << 16
"""Rows that Java hands to Python at a time: with Spark's 10,000 the way takes a sixth longer."""

OPENING = 1 << 18
"""So many bytes are read in the time that a small file takes to open. With Spark's 4 MB a task has 32 small files at
most, and each task costs a twentieth of a second to start in Python."""

HUGE_METHOD = 8_000
"""Bytes of a generated method that Java still compiles. Spark's own limit is that of what Java can load, so that a
longer expression would be interpreted, which is many times slower than code that Spark generates in pieces."""


@contextmanager
def spark_session(master: str | None) -> Iterator[SparkSession]:
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
    """Whether the session speaks to a server (Spark Connect), and has nothing of Java here."""
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


@contextmanager
def failures(output: str = "") -> Iterator[None]:
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
            raise DataError(f"Spark could not finish: {why or first_line(error)}") from error
        kind = getattr(errors, ours[1], DataError)
        raise kind(ours[2]) from None


def _of_worker(text: str) -> str | None:
    """The last line of the traceback of a Python worker, if there is one."""
    lines = _PYTHON_ERROR.findall(text.partition("Traceback (most recent call last)")[2])
    return lines[-1] if lines else None


def first_line(error: Exception) -> str:
    """The reason for an error: the last cause of one in Java, else its first line."""
    if causes := _CAUSES.findall(str(error)):
        return str(causes[-1])
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


SAMPLE = 1000
"""Rows of the example on which columns are bound."""

KEY = "__calcli_key"
KEYS = 1 << 30
"""The column that `with_keys` adds, and how many values it can have."""


def read_table(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """A dataset of Parquet files (directories, files, globs; partition columns are texts), or a table by its name."""
    from pyspark.errors import AnalysisException

    try:
        if paths[0].startswith(TABLE):
            return spark.table(paths[0].removeprefix(TABLE))
        return spark.read.parquet(*paths)
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error) or "TABLE_OR_VIEW_NOT_FOUND" in str(error):
            raise DataError(f"Spark finds nothing at {', '.join(paths)}") from None
        raise DataError(f"Spark cannot read {', '.join(paths)}: {first_line(error)}") from None


def example_rows(table: DataFrame, complete: Mapping[str, int] = MappingProxyType({})) -> pl.DataFrame:
    """Some of the rows, on which columns are bound.

    A column in `complete` has every value there, unless it has more than the number given.
    """
    sample = _collected(table.limit(SAMPLE))
    complete = {name: most for name, most in complete.items() if name in sample.columns}
    if not len(sample):
        return sample
    values = [
        _collected(table.select(column_named(name)).distinct().limit(most + 1))[name].sort()
        for name, most in complete.items()
        if not sample.schema[name].is_nested()
    ]
    place = np.arange(max(len(sample), *map(len, values), 0))
    return sample[place % len(sample)].with_columns(column[place % len(column)] for column in values)


def _collected(table: DataFrame) -> pl.DataFrame:
    with failures():
        if hasattr(table, "toArrow"):
            rows = table.toArrow()
        else:  # Spark 3.5
            from pyspark.sql.pandas.types import to_arrow_schema

            rows = pa.Table.from_batches(cast("Any", table)._collect_as_arrow(), to_arrow_schema(table.schema))
        return cast("pl.DataFrame", pl.from_arrow(rows))


def schema_of(table: DataFrame) -> pl.Schema:
    """The columns of a table, a streaming one too, as they arrive on the workers."""
    return _collected(table.sparkSession.createDataFrame([], table.schema)).schema


def column_named(name: str) -> Column:
    """The column of this name, also where there are dots in it."""
    from pyspark.sql import functions

    return functions.col(f"`{name.replace('`', '``')}`")


def refuse_paths(table: DataFrame, reads: Iterable[str]) -> None:
    """Refuse columns that are computed from others."""
    stored = set(table.columns)
    for name in reads:
        if name not in stored:
            raise UsageError(
                f"{name!r} is no column of its own, and --engine spark reads no others",
                hint="add it to the table, before",
            )


def numbered(table: DataFrame) -> DataFrame:
    """The table with its columns under plain names: Spark takes a dot in a name for a path into a struct."""
    return table.toDF(*(f"column{place}" for place in range(len(table.columns))))


def partition_columns(table: DataFrame) -> list[str]:
    """The columns that are written in the names of directories, outermost first."""
    files = table.inputFiles()
    parts = [part.partition("=")[0] for part in files[0].split("/")[:-1] if "=" in part] if files else []
    return [name for name in parts if name in table.columns]


def with_keys(table: DataFrame, leaving: Collection[str], seed: int) -> DataFrame:
    """The table with a column `KEY`: a random number from 0 .. `KEYS` - 1 for each distinct row.

    The number is a hash of all columns but those in `leaving`. It does not depend on the partition, so that a row is in
    the same fold in each pass, however Spark reads the table.
    """
    return _keyed(table, seed, KEYS, *map(column_named, _plain(table, leaving)))


def _keyed(table: DataFrame, seed: int, keys: int, *hashed: Column) -> DataFrame:
    """The table with a column `KEY`: a hash below `keys` of other columns."""
    from pyspark.sql import functions

    digest = functions.xxhash64(functions.lit(seed), *hashed)
    return table.withColumn(KEY, functions.pmod(digest, functions.lit(keys)).cast("int"))


def with_units(table: DataFrame, column: str | None, seed: int) -> DataFrame:
    """The table with a column `KEY`: for rows that agree in the column, or else for each row, one of `UNITS` at random.

    A row is known by its file and its place in it, however Spark splits the files; rows of no file by their partition.
    """
    from pyspark.sql import functions

    known = [column_named(column)] if column is not None else _of_file(table, "file_path", "row_index")
    return _keyed(table, seed, UNITS, *(known or [functions.monotonically_increasing_id()]))


def _of_file(table: DataFrame, *names: str) -> list[Column] | None:
    """Spark's metadata about the file that each row is in; None without files, and where a view hides them."""
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


def distinct_values(table: DataFrame, column: str, flag: str) -> int:
    """How many values a column has that a flag names; null is refused."""
    from pyspark.sql import functions

    with failures():
        (found,) = table.agg(
            functions.count_distinct(column_named(column)).alias("values"),
            functions.count_if(column_named(column).isNull()).alias("missing"),
        ).collect()
    if found["missing"]:
        raise null_refused(flag, column, found["missing"])
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
    hashes = [functions.xxhash64(functions.lit(seed), *map(column_named, _plain(table))) for seed in range(2)]
    digests = [functions.sum(one.cast("decimal(38,0)")).alias(f"d{place}") for place, one in enumerate(hashes)]
    with failures():
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
    """The table with other keys for rows that share one, which are numbered in the order of their values."""
    from pyspark.sql import Window, functions

    number = functions.row_number().over(Window.partitionBy(KEY).orderBy(*map(column_named, _plain(table))))
    return _keyed(table, seed, KEYS, functions.col(KEY), number)


def in_order(table: DataFrame, first: str) -> pl.DataFrame:
    """All rows, on this machine, in the order of a column; ties in the order of all others that have one."""
    return _collected(table).sort([first, *_plain(table)])


def _plain(table: DataFrame, leaving: Collection[str] = ()) -> list[str]:
    """The columns whose values have an order, and of which a hash can be made."""
    from pyspark.sql.types import AtomicType

    fields = table.schema.fields
    return sorted(one.name for one in fields if isinstance(one.dataType, AtomicType) and one.name not in leaving)
