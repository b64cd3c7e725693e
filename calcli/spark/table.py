"""The table on a cluster: an example to bind its columns on, the facts that a report gives about it, its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calcli.batch import FloatArray
from calcli.errors import DataError
from calcli.reports.measuring import label_rate
from calcli.reports.schema import DataFacts
from calcli.spark import session as spark
from calcli.tables.binding import label_column
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.row_counts import Count
from calcli.tables.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HUGE = 1e100


def example_of(table: DataFrame, name: str, flags: Flags, known: Binding | None = None) -> Source:
    """A small table on this machine with the same columns and all labels, so that it is bound as the whole one."""
    names = [column for column in table.columns if column not in flags.ignore]
    label = label_column(names, flags, known, need=True)
    return Source(spark.like(table, label if label in table.columns else None).lazy(), name=name)


def facts_of_sums(count: Count, weight: FloatArray, binding: Binding) -> DataFacts:
    """The report's `data`, from the weight of each class; files on a cluster are not hashed."""
    return DataFacts((), count.rows, count.rows_bad, float(weight.sum()), label_rate(weight, binding))


def refuse_huge(weight: FloatArray | None) -> None:
    """Refuse weights whose squares overflow or vanish. One machine scales them instead, which needs all of them."""
    if weight is None or len(weight) == 0:
        return
    largest = float(weight.max())
    if largest and not 1.0 / _HUGE < largest < _HUGE:
        raise DataError(f"there are weights of {largest:.0e}, which cannot be squared", hint="scale the weights")
