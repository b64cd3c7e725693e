"""A sample of a table on a cluster, which one machine fits on, and the rows outside it, on which that is measured.

Rows are drawn by their keys (`spark.rows.with_keys`), so that the sample does not depend on how Spark reads them. It
comes in the order of the keys. A table that is no larger than the sample comes whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from calcli.errors import DataError, UsageError, unknown_name
from calcli.export.dialects import find, quoted
from calcli.listener import Listener, stage
from calcli.methods.calibrator import FittedMethod
from calcli.methods.post_processing import PLAIN
from calcli.metrics.base import Options
from calcli.models.auto import Evidence
from calcli.models.held_out import Holdout
from calcli.models.learn import FitOutcome, Sampled
from calcli.models.trial import Judgement, TrialRows, TrialTable
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.measuring import Measurements, class_weights, facts_of
from calcli.reports.schema import DataFacts, ScoreSource, Seconds
from calcli.spark.engine import SparkTable, spark_table
from calcli.spark.passes import KeyedRows, MetricsPass, MetricSums, ResidualsPass, outcome
from calcli.spark.session import KEY, KEYS, in_order, with_keys, with_own_keys
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.checks import Count
from calcli.tables.load import Loaded
from calcli.tables.request import BadRows
from calcli.tables.source import Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_ROWS = 1_000_000
"""A sample has no more rows, unless more are asked for."""

MOST_BYTES = 1 << 29
"""A sample has no more bytes: half of what Spark lets a driver collect by default."""

SHARE = 0.9
"""A sample is no more than this share of the table, so that there are rows to measure on."""

COPIES = 2.0
"""Where more rows than this share a key on average, they get keys of their own: else few distinct rows are drawn."""


@dataclass(frozen=True)
class TableSample(TrialRows):
    """Rows that were drawn, and the `others` with their keys, if there are any."""

    others: DataFrame | None = None
    unit: str | None = None
    """The column whose values were drawn whole."""

    @property
    def has_others(self) -> bool:
        return self.others is not None

    def measure(
        self,
        calibrators: Mapping[str, FittedMethod],
        binding: Binding,
        judgement: Judgement,
        listener: Listener,
        *,
        bad_rows: BadRows,
    ) -> MeasuredOthers:
        assert self.others is not None
        table, main = SparkTable(self.others, self.source.name, bad_rows == "null"), judgement.main
        binding = table.with_weight_scale(binding)
        measuring = MetricsPass(
            KeyedRows(binding, None, features=bool(binding.features), unit=self.unit),
            {name: {0: fitted} for name, fitted in calibrators.items()},
            main,
            PLAIN if main is None else calibrators[main].post_processing,
            judgement.metrics,
            judgement.options,
            judgement.against[0],
            judgement.against,
            judgement.kinds,
        )
        with stage(listener, "measuring on the other rows on Spark"):
            passed = table.run(measuring)
            found = passed.total
            if main is None:
                return MeasuredOthers(found, passed.count, None)
            products = table.run(ResidualsPass(measuring, found.log_odds)).total
        return MeasuredOthers(found, passed.count, DriftBaseline.of_sums(found.log_odds, products))


@dataclass(frozen=True)
class MeasuredOthers:
    """The sums over the rows outside a sample, and how calibrated the primary score is there."""

    total: MetricSums
    count: Count
    drift: DriftBaseline | None

    def measured(self, sources: Sequence[tuple[str, ScoreSource, Seconds]]) -> Measurements:
        """The report's numbers."""
        return self.total.sums.measured(sources)

    def evidence(self, pair: tuple[int, int]) -> Evidence:
        """The nats by which the labels are likelier with the one score of a pair of places than with the other."""
        rows, units, (one, other) = self.total.sums.gathered.pair_sums(pair, "nll"), self.total.sums.units, pair
        mean = rows.total / rows.weight
        alone = together = rows.about + rows.square * (rows.centre - mean) ** 2
        if units is not None:
            noise = units.sums["nll"][one] - units.sums["nll"][other] - mean * units.weight
            together = float(np.square(noise).sum())
        return Evidence.by_squares(-rows.total, alone, together)

    def learned(self, learned: FitOutcome) -> FitOutcome:
        """The outcome of learning from the sample, measured on these rows."""
        return replace(
            learned,
            holdout=Holdout("others"),
            drift_baseline=self.drift,
            held_out_rows=self.total.rows,
        )

    def data(self, loaded: Loaded) -> DataFacts:
        """The report's `data`, of the whole table."""
        count, batch, binding = self.count, loaded.batch, loaded.binding
        share = self.total.weight + class_weights(batch.labels, batch.weight, len(binding.classes))
        rows, bad, normalised = count.facts
        sampled = loaded.tally.facts
        counts = (rows + sampled[0], bad + sampled[1], normalised + sampled[2])
        return facts_of(loaded.source, binding, counts, share, batch.units)


def refuse_auto_bins(options: Options) -> None:
    """Refuse a number of bins that follows from how many rows are held out, which are counted as they are summed."""
    if options.bins == "auto":
        raise UsageError(
            "--bins auto needs the number of held-out rows before they are summed, and --engine spark counts them then",
            hint="give a number, such as --bins 100",
        )


@contextmanager
def sampled_table(
    request: TrialTable,
    flags: Flags,
    unit: str | None,
    listener: Listener,
    known: Binding | None = None,
    most: int | None = None,
) -> Iterator[TableSample]:
    """A sample of the table, in which each label has its share, or in which units are whole.

    `flags` and `known` say what the columns are, `unit` is the one that names the unit of each row, and `most` the
    largest number of rows where the request names none.
    """
    refuse_auto_bins(request.options)
    with spark_table(request) as whole:
        from pyspark.sql import functions  # it is there

        # Columns that are ignored have a name, but no values that would have to be drawn.
        ignored = {name: functions.lit(None).cast("string") for name in flags.ignore if name in whole.rows.columns}
        table = replace(whole, rows=whole.rows.withColumns(ignored))
        columns = table.rows.columns
        example = table.example(flags, known)
        if unit is not None and unit not in columns:
            raise DataError(f"--resample-by: {unknown_name('column', unit, columns)}")
        binding = bind(example, flags, known=known, features=False)
        leaving = outcome(binding) if unit is None else [column for column in columns if column != unit]
        with stage(listener, "drawing a sample on Spark"):
            keyed = with_keys(table.rows, leaving, request.seed)
            count = request.sample or default_rows(example, most)
            sample = draw_sample(keyed, table.name, count, None if unit else binding.label, unit, request)
        yield sample


def default_rows(example: Source, most: int | None = None) -> int:
    """The number of rows of a sample where the request names none: `most`, or fewer where rows are large."""
    rows = example.raw.collect()
    return min(most or MOST_ROWS, int(MOST_BYTES * len(rows) / max(1, rows.estimated_size())))


def draw_sample(
    keyed: DataFrame, name: str, most: int, label: str | None, unit: str | None, request: TrialTable
) -> TableSample:
    """A sample of `most` rows of a table with keys, by label if there is one, else of whole units."""
    parts = _parts(keyed, label)
    rows = sum(part.rows for part in parts.values())
    if rows <= most:
        return TableSample(_source(in_order(keyed, KEY), name))
    if request.sample is None:
        most = min(most, int(SHARE * rows))
    of_key = rows / sum(part.keys for part in parts.values())
    of_key_by_chance = rows / (KEYS * -math.expm1(-rows / KEYS))
    if unit is None and of_key > COPIES * of_key_by_chance:
        keyed, of_key = with_own_keys(keyed, request.seed), 1.0
    quotas = {value: max(1, round(most * part.rows / rows)) for value, part in parts.items()}
    # Somewhat more rows than that: how many there are below a key is not known exactly.
    limits = {value: _above(quota, parts[value].rows, of_key) for value, quota in quotas.items()}
    frame = in_order(keyed.filter(_below(limits, label)), KEY)
    # No more than that.
    for value, quota in quotas.items():
        key = (frame if label is None else frame.filter(pl.col(label).eq_missing(value)))[KEY]
        if len(key) > quota:
            limits[value] = max(key[quota], key[0] + 1)
    kept = [
        (pl.lit(True) if label is None else pl.col(label).eq_missing(value)) & (pl.col(KEY) < limit)
        for value, limit in limits.items()
    ]
    frame = frame.filter(pl.any_horizontal(kept))
    by = str(label if unit is None else unit)
    return TableSample(_source(frame, name), Sampled(len(frame), rows, by), keyed.filter(~_below(limits, label)), unit)


class _Part(NamedTuple):
    """How many rows are of one label, and about how many keys they have."""

    rows: int
    keys: int


def _parts(keyed: DataFrame, label: str | None) -> dict[Any, _Part]:
    """The parts by label; one part under None where there is no label."""
    from pyspark.sql import functions

    by = [] if label is None else [_column(label).alias("label")]
    keys = functions.approx_count_distinct(KEY).alias("keys")
    found = in_order(keyed.groupBy(*by).agg(functions.count(functions.lit(1)).alias("rows"), keys), "rows")
    values = found["label"].to_list() if label is not None else [None]
    parts = {value: _Part(*of) for value, of in zip(values, found.select("rows", "keys").rows(), strict=True)}
    if not sum(part.rows for part in parts.values()):
        raise DataError("the table has no rows")
    return dict(sorted(parts.items(), key=lambda item: (item[0] is None, item[0])))


def _above(quota: int, rows: int, of_key: float) -> int:
    """A key below which lie at least `quota` rows, almost certainly, where `of_key` rows on average share a key."""
    share = (quota + 5.0 * math.sqrt(quota * of_key) + 10.0 * of_key) / rows
    return min(KEYS, math.ceil(KEYS * share))


def _below(limits: Mapping[Any, int], label: str | None) -> Column:
    """Whether a row's key is below the limit of its label."""
    from pyspark.sql import functions

    limit = functions.when(functions.lit(False), functions.lit(0))
    for value, key in limits.items():
        here = functions.lit(True) if label is None else _column(label).eqNullSafe(functions.lit(value))
        limit = limit.when(here, functions.lit(key))
    return functions.col(KEY) < limit


def _column(name: str) -> Column:
    from pyspark.sql import functions

    return functions.col(quoted(name, find("spark")))


def _source(frame: pl.DataFrame, name: str) -> Source:
    return Source(frame.drop(KEY).lazy(), name=name)
