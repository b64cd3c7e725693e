"""A Spark cluster: the same rows and values as on one machine, computed where the rows are.

The driver decides which column plays which part, from the schema alone, and ships the calibrator with the task. The
workers meet rows as Arrow batches and do with each what `local` does. They need calcli installed, and see the paths
that the driver sees.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import polars as pl
import pyarrow as pa

from calcli import errors
from calcli.engines.local import Stream
from calcli.errors import CalcliError, DataError, FileSystemError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOGGING = Path(__file__).with_name("log4j2.properties")
_OURS = re.compile(r"calcli\.errors\.(\w+): (.+)")


class Counts(NamedTuple):
    """How many rows went through, and how many of them could not be calibrated."""

    rows: int
    bad: int


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


def like(table: DataFrame) -> pl.DataFrame:
    """A table of one row that has the same columns, for binding."""
    return cast("pl.DataFrame", pl.from_arrow(table.limit(1).toArrow()))


def apply(table: DataFrame, stream: Stream, kept: Sequence[str], output: str) -> Counts:
    """Write the `kept` columns and the calibrated ones, in the partitions in which the table came."""
    from pyspark.sql import Observation, functions
    from pyspark.sql.types import DoubleType, StructField, StructType

    names = stream.work.names
    added = [StructField(name, DoubleType()) for name in names]
    scored = table.mapInArrow(_Calibrated(stream), StructType([*table.schema.fields, *added])).select(*kept, *names)
    counted = Observation("calcli")
    missing = functions.count_if(functions.col(names[0]).isNull())
    scored = scored.observe(counted, functions.count(functions.lit(1)).alias("rows"), missing.alias("bad"))
    partitions = [name for name in partition_columns(table) if name in kept]
    with _failures(output):
        scored.write.partitionBy(*partitions).parquet(output)
    return Counts(int(counted.get["rows"]), int(counted.get["bad"]))


class _Calibrated:
    """What a worker does with the batches of one task."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            frame: Any = pl.from_arrow(batch.select(list(self.stream.work.reads)))
            added = self.stream.added_to(frame)
            names = [*batch.schema.names, *added.columns]
            yield pa.RecordBatch.from_arrays([*batch.columns, *(column.to_arrow() for column in added)], names=names)


def partition_columns(table: DataFrame) -> list[str]:
    """The columns that are written in the names of directories, outermost first."""
    files = table.inputFiles()
    parts = [part.partition("=")[0] for part in files[0].split("/")[:-1] if "=" in part] if files else []
    return [name for name in parts if name in table.columns]


@contextmanager
def _failures(output: str) -> Iterator[None]:
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
