"""The table on a cluster: what may be asked of it, and how its columns are bound."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from calcli.batch import FloatArray
from calcli.engines import spark
from calcli.errors import DataError, UsageError
from calcli.tables.binding import Binding, Flags, label_column
from calcli.tables.checks import Count
from calcli.tables.source import Data, Source
from calcli.verbs.measuring import label_rate
from calcli.verbs.report import DataFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HUGE = 1e100


Engine: TypeAlias = Literal["local", "spark"]
"""Where the work is done: on this machine, or on a cluster."""


def paths_of(data: Data, input_format: str | None) -> list[str]:
    """The paths of a table that Spark can read."""
    given = [data] if isinstance(data, str | os.PathLike) else data
    if not isinstance(given, Sequence) or "-" in map(str, given):
        raise UsageError("--engine spark reads directories and files of Parquet")
    check_parquet(input_format, "--input-format")
    return [str(path) for path in given]


def check_parquet(given: str | None, flag: str) -> None:
    """Refuse other formats."""
    if given not in (None, "parquet"):
        raise UsageError(f"--engine spark reads and writes Parquet, not {given}", hint=f"leave out {flag}")


def check_master(engine: str, master: str | None) -> None:
    """Refuse a cluster for an engine that has none."""
    if master is not None and engine != "spark":
        raise UsageError("--master is the URL of a Spark cluster", hint="add --engine spark")


def example_of(table: DataFrame, name: str, flags: Flags, known: Binding | None = None) -> Source:
    """A small table on this machine that is bound as the whole one: it has its columns and all its labels."""
    names = [column for column in table.columns if column not in flags.ignore]
    label = label_column(names, flags, known, need=True)
    return Source(spark.like(table, label if label in table.columns else None).lazy(), name=name)


def facts_of_sums(count: Count, weight: FloatArray, binding: Binding) -> DataFacts:
    """The report's `data`, with the weight of each class; the files are where they are, and nobody hashes them."""
    return DataFacts((), count.rows, count.rows_bad, float(weight.sum()), label_rate(weight, binding))


def refuse_huge(weight: FloatArray | None) -> None:
    """Refuse weights whose squares are no numbers: on one machine they are scaled, but that needs all of them."""
    if weight is None or len(weight) == 0:
        return
    largest = float(weight.max())
    if largest and not 1.0 / _HUGE < largest < _HUGE:
        raise DataError(f"there are weights of {largest:.0e}, which cannot be squared", hint="scale the weights")
