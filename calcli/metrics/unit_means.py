"""Means over rows that are gathered by unit: their intervals, and those of their differences, from sums alone.

A unit is all rows that agree in a column, or a single row. Units are put together at random, by a hash, into `UNITS`
sets, which changes no variance, so that the sums need no more room than that, and those over parts of the rows add up.
The bootstrap draws each set as often as a Poisson variable of mean 1 says: on average as many as there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Scored
from calcli.metrics.bootstrap import CHUNK, Bootstrap
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.paired import Paired, of_units
from calcli.numeric.rng import stream
from calcli.numeric.sums import totals

UNITS = 1 << 16
"""Intervals from so many sets are as wide as those from the units themselves, to a third of a percent."""


@dataclass(slots=True)
class UnitMeans:
    """Sums over each set of units.

    Attributes
    ----------
    weight
        Of w, shape (`UNITS`,).
    sums
        By metric that is a mean over rows, of w times what a row adds to it, shape (scores, `UNITS`).
    """

    weight: FloatArray
    sums: Mapping[str, FloatArray]

    @classmethod
    def nothing(cls, chosen: Sequence[MetricSpec], scores: int) -> Self:
        """Of no rows."""
        means = [metric.name for metric in chosen if metric.load_rows() is not None]
        return cls(np.zeros(UNITS), {name: np.zeros((scores, UNITS)) for name in means})

    def add(self, scored: Sequence[Scored], chosen: Sequence[MetricSpec], units: IntArray) -> None:
        """More rows, and the set of each one's unit."""
        weight = scored[0].weight if scored[0].weight is not None else np.ones(len(units))
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
        return Bootstrap(dict.fromkeys(drawn, "smooth"), drawn, {})
