"""The table on a cluster: an example to bind its columns on, the facts that a report gives about it, its weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from calcli.batch import FloatArray
from calcli.errors import UsageError
from calcli.metrics.base import Options
from calcli.reports.groups import MOST_GROUPS
from calcli.reports.measuring import label_rate
from calcli.reports.schema import DataFacts
from calcli.spark.rows import example_rows
from calcli.spark.totals import total_of
from calcli.state import Json
from calcli.tables.arrays import numbers
from calcli.tables.binding import label_column, with_scale
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.labels import MOST
from calcli.tables.row_counts import Count
from calcli.tables.scores import Scale
from calcli.tables.source import Source
from calcli.tables.weights import WeightSums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def example_of(
    table: DataFrame, name: str, flags: Flags, known: Binding | None = None, groups: Iterable[str] = ()
) -> Source:
    """A small table on this machine with the same columns and all labels, so that it is bound as the whole one.

    The values of the columns `groups` are all there too, or more of them than there may be.
    """
    names = [column for column in table.columns if column not in flags.ignore]
    label = label_column(names, flags, known, need=True)
    complete = dict.fromkeys(groups, MOST_GROUPS) | ({} if label is None else {label: MOST})
    return Source(example_rows(table, complete).lazy(), name=name)


def facts_of_sums(
    count: Count, weight: FloatArray, binding: Binding, units: Mapping[str, Json] | None = None
) -> DataFacts:
    """The report's `data`, from the weight of each class; files on a cluster are not hashed."""
    rate = label_rate(weight, binding)
    return DataFacts((), count.rows_counted, count.rows_bad, float(weight.sum()), rate, units)


def refuse_auto_bins(options: Options) -> None:
    """Refuse a number of bins that follows from how many rows are held out, which are counted as they are summed."""
    if options.bins == "auto":
        raise UsageError(
            "--bins auto needs the number of held-out rows before they are summed, and --engine spark counts them then",
            hint="give a number, such as --bins 100",
        )


def scaled(table: DataFrame, binding: Binding, name: str) -> Binding:
    """The binding with the scale of the whole table's weights, in a pass over them."""
    if binding.weight is None:
        return binding
    sums = total_of(table, [binding.weight], partial(_sums, binding.weight), name)
    return with_scale(binding, sums)


def _sums(weight: str, frames: Iterator[pl.DataFrame]) -> WeightSums:
    """On a worker, the sums over the weights of one task."""
    sums = WeightSums()
    for frame in frames:
        sums.add(numbers(frame[weight]))
    return sums


def of_both(here: Sequence[Scale | None], there: Sequence[Scale | None]) -> list[Scale | None]:
    """The checks of two parts of a table as those of both; None where a score has no check."""
    pairs = zip(here, there, strict=True)
    return [None if one is None or other is None else one + other for one, other in pairs]


def judge(suspect: Iterable[Scale | None], count: Count) -> None:
    """Refuse what the checks of all rows found wrong, and bad rows."""
    for scale in suspect:
        if scale is not None:
            scale.judge()
    count.judge()
