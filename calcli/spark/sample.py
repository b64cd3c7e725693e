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

from calcli.errors import DataError, unknown_name
from calcli.export.dialects import find, quoted
from calcli.fitting.auto import Evidence
from calcli.fitting.held_out import Holdout
from calcli.fitting.learn import FitOutcome, Sampled
from calcli.listener import Listener, stage
from calcli.methods.calibrator import PLAIN, FittedMethod
from calcli.models.trial import Judgement, TrialRows, TrialTable
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.measuring import Measurements, class_weights, facts_of
from calcli.reports.schema import DataFacts, ScoreSource, Seconds
from calcli.spark.passes import KeyedRows, MetricsPass, MetricSums, ResidualsPass
from calcli.spark.rows import KEY, KEYS, in_order, read_table, with_keys, with_own_keys
from calcli.spark.session import spark_session
from calcli.spark.table import example_of, refuse_auto_bins, scaled
from calcli.spark.totals import total_of
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.load import Loaded
from calcli.tables.request import BadRows, paths_of
from calcli.tables.source import Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_ROWS = 1_000_000
"""A sample has no more rows, unless more are asked for."""

MOST_BYTES = 1 << 29
"""Nor more bytes: half of what Spark lets a driver collect by default."""

SHARE = 0.9
"""Nor more than this share of the table, so that there are rows to measure on."""

COPIES = 2.0
"""Where more rows than this share a key on average, they are numbered: else only some of what is in them were drawn."""


@dataclass(frozen=True)
class Sample(TrialRows):
    """The rows that were drawn, and the others, with their keys; None if there are none.

    Attributes
    ----------
    unit
        The column whose values were drawn whole.
    """

    others: DataFrame | None = None
    unit: str | None = None

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
    ) -> Measured:
        assert self.others is not None
        name, main = self.source.name, judgement.main
        post_processing = PLAIN if main is None else calibrators[main].post_processing
        keep_going = bad_rows == "null"
        binding = scaled(self.others, binding, name)
        rows = KeyedRows(name, binding, None, keep_going, features=bool(binding.features), unit=self.unit)
        measuring = MetricsPass(
            rows,
            {name: {0: fitted} for name, fitted in calibrators.items()},
            main,
            post_processing,
            judgement.metrics,
            judgement.options,
            judgement.against[0],
            judgement.against,
            judgement.kinds,
        )
        with stage(listener, "measuring on the other rows on Spark"):
            found = total_of(self.others, rows.reads, measuring, name)
            found.count.judge()
            if main is None:
                return Measured(found, None)
            products = total_of(self.others, rows.reads, ResidualsPass(measuring, found.log_odds), name)
        return Measured(found, DriftBaseline.of_sums(found.log_odds, products))


class Measured(NamedTuple):
    """The sums over the rows outside a sample, and how calibrated the main score is there."""

    of: MetricSums
    drift: DriftBaseline | None

    def measured(self, sources: Sequence[tuple[str, ScoreSource, Seconds]]) -> Measurements:
        """The report's numbers."""
        return self.of.sums.measured(sources)

    def evidence(self, pair: tuple[int, int]) -> Evidence:
        """How many nats likelier the labels are with the one score than with the other, by their places."""
        rows, units, (one, other) = self.of.sums.gathered.pair_sums(pair, "nll"), self.of.sums.units, pair
        mean = rows.total / rows.weight
        alone = together = rows.about + rows.square * (rows.centre - mean) ** 2
        if units is not None:
            noise = units.sums["nll"][one] - units.sums["nll"][other] - mean * units.weight
            together = float(np.square(noise).sum())
        return Evidence.by_squares(-rows.total, alone, together)

    def learned(self, learned: FitOutcome) -> FitOutcome:
        """What was learned from the sample, measured on these rows."""
        return replace(
            learned,
            holdout=Holdout("others"),
            drift_baseline=self.drift,
            held_out_rows=self.of.rows,
        )

    def data(self, loaded: Loaded) -> DataFacts:
        """The report's `data`, of the whole table."""
        count, batch, binding = self.of.count, loaded.batch, loaded.binding
        share = self.of.weight + class_weights(batch.labels, batch.weight, len(binding.classes))
        rows = loaded.rows + loaded.copies + count.rows_counted
        return facts_of(loaded.source, binding, rows, loaded.rows_bad + count.rows_bad, share, batch.units)


@contextmanager
def drawn(
    request: TrialTable, flags: Flags, unit: str | None, listener: Listener, known: Binding | None = None
) -> Iterator[Sample]:
    """A sample of the table: of its labels each has its share, or whole units are drawn.

    Parameters
    ----------
    request
        Which table, and how many rows.
    flags, known
        What the columns are.
    unit
        The column that names the unit of each row.
    listener
        Hears of the stage.
    """
    refuse_auto_bins(request.options)
    paths = paths_of(request.data, request.input_format, request.delimiter)
    name = ", ".join(paths)
    with spark_session(request.master) as session:
        table = read_table(session, paths).drop(*flags.ignore)
        example = example_of(table, name, flags, known)
        if unit is not None and unit not in table.columns:
            raise DataError(f"--resample-by: {unknown_name('column', unit, table.columns)}")
        binding = bind(example, flags, known=known, features=False)
        outcome = [column for column in (binding.label, binding.weight) if column is not None]
        leaving = outcome if unit is None else [column for column in table.columns if column != unit]
        with stage(listener, "drawing a sample on Spark"):
            keyed = with_keys(table, leaving, request.seed)
            most = request.sample or default_rows(example)
            sample = draw(keyed, name, most, None if unit else binding.label, unit, request)
        yield sample


def default_rows(example: Source) -> int:
    """How many rows a sample has where that is not said."""
    rows = example.raw.collect()
    return min(MOST_ROWS, int(MOST_BYTES * len(rows) / max(1, rows.estimated_size())))


def draw(keyed: DataFrame, name: str, most: int, label: str | None, unit: str | None, request: TrialTable) -> Sample:
    """So many rows of a table with keys, by label if there is one, else whole units."""
    parts = _parts(keyed, label)
    rows = sum(part.rows for part in parts.values())
    if rows <= most:
        return Sample(_source(in_order(keyed, KEY), name))
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
    return Sample(_source(frame, name), Sampled(len(frame), rows, by), keyed.filter(~_below(limits, label)), unit)


class _Part(NamedTuple):
    """How many rows are of one label, and about how many keys they have."""

    rows: int
    keys: int


def _parts(keyed: DataFrame, label: str | None) -> dict[Any, _Part]:
    """By label; all rows under None where there is none."""
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
    """A key below which there are at least so many of the rows, as good as certainly; so many on average share one."""
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
