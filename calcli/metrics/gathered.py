"""Metrics of several scores of more rows than are held in memory, from sums over parts of the rows.

`UnitMeans` has the means over rows with their intervals where rows belong to units. A unit is all rows that agree in a
column, or a single row. Units are put at random, by a hash, into `UNITS` buckets, which changes no variance: the sums
need no more room than the buckets do, and those over parts of the rows add up. The bootstrap draws each bucket as often
as a Poisson variable of mean 1 says: on average as many as there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Measured, Options, Scored
from calcli.metrics.bootstrap import CHUNK, Bootstrap
from calcli.metrics.catalog import MetricSpec, finite
from calcli.metrics.paired import Paired, PairedSums, of_units, paired_sums
from calcli.numeric.bins import totals
from calcli.numeric.seeded import stream

MANY = "it needs all rows at once, and so many are not held"


class Gathered:
    """The sums over the rows so far, for each metric and score.

    `empty` holds a `Scored` without rows for each score; `pairs` are the places of scores that are compared.
    """

    def __init__(
        self, chosen: Sequence[MetricSpec], options: Options, empty: Sequence[Scored], pairs: Sequence[tuple[int, int]]
    ) -> None:
        self._chosen, self._options, self._empty, self.pairs = chosen, options, empty, pairs
        self._weight = 0.0
        self._sums: dict[str, list[Any]] = {}
        self._paired: dict[str, list[PairedSums]] = {}

    def add(self, scored: Sequence[Scored]) -> None:
        """Add rows: every score of the same rows."""
        self._weight += scored[0].total_weight
        for metric in self._chosen:
            additive, per_row = metric.load_sums(self._options), metric.load_rows()
            if additive is not None:
                _add_up(self._sums, metric.name, [additive.gather(one, self._options) for one in scored])
            if per_row is not None:
                _add_up(self._paired, metric.name, [paired_sums(scored[a], scored[b], per_row) for a, b in self.pairs])

    def __iadd__(self, other: Gathered) -> Self:
        """Add the sums over other rows of the same metrics and scores."""
        self._weight += other._weight
        for name, sums in other._sums.items():
            _add_up(self._sums, name, sums)
        for name, paired in other._paired.items():
            _add_up(self._paired, name, paired)
        return self

    def pair_sums(self, pair: tuple[int, int], metric: str) -> PairedSums:
        """The sums of the one score of a pair less the other, in a metric that is a mean over rows."""
        return self._paired[metric][self.pairs.index(pair)]

    def measured(self) -> list[dict[str, Measured]]:
        """The metrics of each score."""
        measurements = {metric.name: self._finished(metric) for metric in self._chosen}
        return [
            {name: finite(values[place]) for name, values in measurements.items()} for place in range(len(self._empty))
        ]

    def _finished(self, metric: MetricSpec) -> list[Measured]:
        additive = metric.load_sums(self._options)
        if additive is not None and self._weight > 0:
            return additive.finish(self._sums[metric.name], self._options)
        reason = MANY if self._weight > 0 else "the weights add up to zero"
        return [replace(metric.load()(none, self._options), reason=reason) for none in self._empty]

    def difference(self, pair: tuple[int, int], metric: str) -> Paired | None:
        """The one score of a pair less the other, in a metric that is a mean over rows; None for others."""
        return self.pair_sums(pair, metric).difference() if metric in self._paired else None


def _add_up(totals: dict[str, list[Any]], name: str, more: list[Any]) -> None:
    total = totals.get(name)
    totals[name] = more if total is None else [old + new for old, new in zip(total, more, strict=True)]


UNITS = 1 << 16
"""Intervals from so many buckets are as wide as those from the units themselves, to a third of a percent."""


@dataclass(slots=True)
class UnitMeans:
    """Sums over each bucket of units."""

    weight: FloatArray
    """The sums of w, shape (`UNITS`,)."""

    sums: Mapping[str, FloatArray]
    """By metric that is a mean over rows, of w times what a row adds to it, shape (scores, `UNITS`)."""

    @classmethod
    def empty(cls, chosen: Sequence[MetricSpec], scores: int) -> Self:
        """The sums over no rows."""
        means = [metric.name for metric in chosen if metric.load_rows() is not None]
        return cls(np.zeros(UNITS), {name: np.zeros((scores, UNITS)) for name in means})

    def add(self, scored: Sequence[Scored], chosen: Sequence[MetricSpec], units: IntArray) -> None:
        """Add rows; `units` is the bucket of each row's unit."""
        weight = scored[0].weights
        self.weight += totals(units, weight, UNITS)
        for metric in chosen:
            if (per_row := metric.load_rows()) is not None:
                for place, score in enumerate(scored):
                    self.sums[metric.name][place] += totals(units, weight * per_row(score), UNITS)

    def __iadd__(self, other: UnitMeans) -> Self:
        self.weight += other.weight
        for name, sums in other.sums.items():
            self.sums[name][...] += sums
        return self

    def difference(self, pair: tuple[int, int], metric: str) -> Paired | None:
        """The one score of a pair less the other; None for a metric that is no mean over rows."""
        if metric not in self.sums:
            return None
        one, other = pair
        return of_units(self.sums[metric][one] - self.sums[metric][other], self.weight)

    def bootstrap(self, replicates: int, seed: int) -> Bootstrap:
        """Every mean of every score, on units drawn anew."""
        held = self.weight > 0
        drawn = {name: np.full((len(sums), replicates), np.nan) for name, sums in self.sums.items()}
        for start in range(0, replicates, CHUNK):
            end = min(start + CHUNK, replicates)
            counts = stream(seed, "bootstrap", start).poisson(1.0, (end - start, int(held.sum()))).astype(np.float64)
            with np.errstate(invalid="ignore"):  # of few units none may be drawn
                for name, sums in self.sums.items():
                    drawn[name][:, start:end] = sums[:, held] @ counts.T / (counts @ self.weight[held])
        return Bootstrap(drawn, {})
