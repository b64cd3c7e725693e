"""The guard: whether a score is worse than a reference in a metric, on rows that neither was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calcli.errors import UsageError
from calcli.metrics import catalog as metrics
from calcli.reports.schema import Difference, Report

EVEN = 1e-12
"""Differences below this are rounding: the identity is not worse than no calibration."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The metric that must not get worse, and the tolerance.

    Attributes
    ----------
    metric
        Its specification in the catalog.
    margin
        The tolerance: a difference up to it is not worse.
    """

    metric: metrics.MetricSpec
    margin: float = EVEN

    @classmethod
    def of(cls, name: str, measured: Sequence[metrics.MetricSpec]) -> Guard:
        """The guard of a metric that must be among the measured ones."""
        metric = metrics.find(name)
        if metric.direction == "target":
            raise UsageError(f"--guard {name}: neither a higher nor a lower value is better", hint="try: --guard nll")
        if metric not in measured:
            raise UsageError(f"--guard {name}: it is not measured", hint="add it to --metrics")
        return cls(metric)

    def worse(self, difference: Difference) -> bool:
        """Whether a difference, score minus reference, exceeds the margin; an undefined one does not."""
        value = difference.value
        return value is not None and (value if self.metric.direction == "lower" else -value) > self.margin

    def violation(self, report: Report, score: str) -> Difference | None:
        """The first difference of a report in which the score is worse than a reference."""
        differences = (each for each in report.differences if (each.score, each.metric) == (score, self.metric.name))
        return next(filter(self.worse, differences), None)
