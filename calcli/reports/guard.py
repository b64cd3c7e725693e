"""The guard: is the calibrated score worse than another one, in a metric, on rows that neither was fitted on?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calcli.errors import UsageError
from calcli.metrics import catalog as metrics
from calcli.reports.schema import Difference

EVEN = 1e-12
"""Differences below this are rounding: the identity is not worse than no calibration."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What must not get worse, and by how much it may.

    Attributes
    ----------
    metric
        A row of the catalog.
    margin
        How much worse is still taken for equal.
    strict
        Whether the upper end of the interval is asked, not the value itself.
    """

    metric: metrics.MetricSpec
    margin: float = EVEN
    strict: bool = False

    @classmethod
    def of(cls, name: str, measured: Sequence[metrics.MetricSpec], *, strict: bool = False) -> Guard:
        """The guard of a metric that is measured anyway."""
        row = metrics.find(name)
        if row not in measured:
            raise UsageError(f"--guard {name}: it is not measured", hint="add it to --metrics")
        if row.direction == "target":
            raise UsageError(f"--guard {name}: neither more nor less of it is better", hint="try: --guard nll")
        if strict and row.rows is None:
            raise UsageError(f"--strict: {name} has no interval", hint="try: --guard nll")
        return cls(row, strict=strict)

    def worse(self, difference: Difference) -> bool:
        """Whether `difference` (one score minus another) says that the one is worse; unknown is not worse."""
        lower = self.metric.direction == "lower"
        value = difference.value
        if self.strict:
            value = difference.hi if lower else difference.lo
        return value is not None and (value if lower else -value) > self.margin
