"""The table on a cluster: how its columns are bound, and what of it is a report's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calcli.batch import FloatArray
from calcli.errors import DataError
from calcli.reports.measuring import label_rate
from calcli.reports.schema import DataFacts
from calcli.spark import session as spark
from calcli.tables.binding import Binding, Flags, label_column
from calcli.tables.row_counts import Count
from calcli.tables.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HUGE = 1e100


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
