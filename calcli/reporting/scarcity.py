"""The warning that a class has few rows, which comes first in a report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calcli.reporting.typesetting import glued, spelled

if TYPE_CHECKING:
    from calcli.reports.schema import Report

FEW = 50
"""Below so many rows of the rarest class, reports warn of low power."""

POWER = 1.959963984540054 + 0.8416212335729143
"""An error of so many standard errors is found in 4 of 5 tables by a test at 5 %."""


def warning(report: Report) -> str:
    """How few rows of a class there are, and the least error of the mean prediction that they would have shown; empty
    where there are enough.
    """
    rows, rate = report.data.rows - report.data.rows_bad, report.data.label_rate
    if rate is None or rows <= 0:
        return ""
    shares = rate if isinstance(rate, Mapping) else {spelled(name): share for name, share in _binary(report, rate)}
    name, share = min(shares.items(), key=lambda item: item[1])
    count = round(share * rows)
    if count >= FEW:
        return ""
    seen = POWER * math.sqrt(max(share, 1.0 / rows) * (1.0 - share) / rows)
    size = f"{100 * seen:.2g} percentage points"
    what = "the mean prediction" if len(shares) == 2 else f"the mean prediction of {name}"
    many = "No row has" if count == 0 else f"Only {count:,} row{'s have' if count > 1 else ' has'}"
    beside = f" ({100 * seen / share:.2g} % of the label's rate)" if count else ""
    return (
        f"{many} the label {name}, so tests have little power: they detect (with 80 % power) only errors of {what} of "
        f"{glued(size)} or more{glued(beside)}."
    )


def _binary(report: Report, rate: float) -> list[tuple[object, float]]:
    classes: Any = report.binding["classes"]
    positive = report.binding["positive"]
    other = next((each for each in classes if each != positive), "of the other class")
    return [(positive, rate), (other, 1.0 - rate)]
