"""The rows of a table on a cluster: reading them, the keys by which they are known again, and a few of them here."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
import pyarrow as pa

from calcli.errors import DataError, UsageError
from calcli.metrics.gathered import UNITS
from calcli.spark.session import failures, first_line
from calcli.tables.request import TABLE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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


def count_rows(table: DataFrame) -> int:
    """How many rows there are; of Parquet files only the footers are read."""
    with failures():
        return int(table.count())


def with_keys(table: DataFrame, leaving: Collection[str], seed: int) -> DataFrame:
    """The table with a column `KEY`: a random number from 0 .. `KEYS` - 1 for each distinct row.

    The number is a hash of all columns but those in `leaving`. It does not depend on the partition, so that a row is in
    the same fold in each pass, however Spark reads the table.
    """
    from pyspark.sql import functions

    digest = functions.xxhash64(functions.lit(seed), *map(column_named, _plain(table, leaving)))
    return table.withColumn(KEY, functions.pmod(digest, functions.lit(KEYS)).cast("int"))


def with_units(table: DataFrame, column: str | None, seed: int) -> DataFrame:
    """The table with a column `KEY`: for rows that agree in the column, or else for each row, one of `UNITS` at random.

    A row is known by its file and its place in it, however Spark splits the files; rows of no file by their partition.
    """
    from pyspark.sql import functions

    known = [column_named(column)] if column is not None else _of_file(table, "file_path", "row_index")
    digest = functions.xxhash64(functions.lit(seed), *(known or [functions.monotonically_increasing_id()]))
    return table.withColumn(KEY, functions.pmod(digest, functions.lit(UNITS)).cast("int"))


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


def distinct_values(table: DataFrame, column: str) -> int:
    """How many values a column of units has; null is refused."""
    from pyspark.sql import functions

    with failures():
        (found,) = table.agg(
            functions.count_distinct(column_named(column)).alias("values"),
            functions.count_if(column_named(column).isNull()).alias("missing"),
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
    digest = functions.xxhash64(functions.lit(seed), functions.col(KEY), number)
    return table.withColumn(KEY, functions.pmod(digest, functions.lit(KEYS)).cast("int"))


def in_order(table: DataFrame, first: str) -> pl.DataFrame:
    """All rows, on this machine, in the order of a column; ties in the order of all others that have one."""
    return _collected(table).sort([first, *_plain(table)])


def _plain(table: DataFrame, leaving: Collection[str] = ()) -> list[str]:
    """The columns whose values have an order, and of which a hash can be made."""
    from pyspark.sql.types import AtomicType

    fields = table.schema.fields
    return sorted(one.name for one in fields if isinstance(one.dataType, AtomicType) and one.name not in leaving)
