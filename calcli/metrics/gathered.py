"""Metrics of several scores of more rows than are held in memory, from sums over parts of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from calcli.metrics.base import Measured, Options, Scored
from calcli.metrics.catalog import MetricSpec, finite
from calcli.metrics.paired import Paired, PairedSums, paired_sums

MANY = "it needs all rows at once, and so many are not held"


class Gathered:
    """The sums over the rows so far, for each metric and score.

    Parameters
    ----------
    chosen, options
        The metrics, and how they are computed.
    nothing
        A `Scored` without rows for each score.
    against
        The scores, by their places, from which the differences of the others are wanted.
    """

    def __init__(
        self,
        chosen: Sequence[MetricSpec],
        options: Options,
        nothing: Sequence[Scored],
        against: Sequence[int] = (0,),
    ) -> None:
        self._chosen, self._options, self._nothing = chosen, options, nothing
        self.pairs = [(one, other) for other in against for one in range(len(nothing)) if one != other]
        self._weight = 0.0
        self._sums: dict[str, list[Any]] = {}
        self._paired: dict[str, list[PairedSums]] = {}

    def add(self, scored: Sequence[Scored]) -> None:
        """Add rows: every score of the same rows."""
        self._weight += scored[0].total_weight
        for metric in self._chosen:
            additive, per_row = metric.load_sums(self._options), metric.load_rows()
            if additive is not None:
                _add(self._sums, metric.name, [additive.gather(one, self._options) for one in scored])
            if per_row is not None:
                _add(self._paired, metric.name, [paired_sums(scored[a], scored[b], per_row) for a, b in self.pairs])

    def __iadd__(self, other: Gathered) -> Self:
        """Add the sums over other rows of the same metrics and scores."""
        self._weight += other._weight
        for name, sums in other._sums.items():
            _add(self._sums, name, sums)
        for name, paired in other._paired.items():
            _add(self._paired, name, paired)
        return self

    def measured(self) -> list[dict[str, Measured]]:
        """The metrics of each score."""
        measurements = {metric.name: self._finished(metric) for metric in self._chosen}
        return [
            {name: finite(values[place]) for name, values in measurements.items()}
            for place in range(len(self._nothing))
        ]

    def _finished(self, metric: MetricSpec) -> list[Measured]:
        additive = metric.load_sums(self._options)
        if additive is not None and self._weight > 0:
            return additive.finish(self._sums[metric.name], self._options)
        reason = MANY if self._weight > 0 else "the weights add up to zero"
        return [replace(metric.load()(none, self._options), reason=reason) for none in self._nothing]

    def difference(self, pair: tuple[int, int], metric: str) -> Paired | None:
        """The one score of a pair less the other, in a metric that is a mean over rows; None for others."""
        return self._paired[metric][self.pairs.index(pair)].difference() if metric in self._paired else None


def _add(totals: dict[str, list[Any]], name: str, more: list[Any]) -> None:
    total = totals.get(name)
    totals[name] = more if total is None else [old + new for old, new in zip(total, more, strict=True)]
