"""Leaving rows to a person: by what that costs (Chow 1970), or so that a share of the rows is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray
from calcli.decisions.costs import Costs
from calcli.decisions.targets import NEVER
from calcli.errors import DataError
from calcli.numeric.binomial import exact_interval

COVERAGES = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
"""The shares of decided rows that are reported."""


@dataclass(frozen=True, slots=True)
class AbstentionBand:
    """A band of probabilities that are left open: no below `low`, yes from `high` on, neither between them."""

    low: float
    high: float
    limit: float | None = None
    """Rows whose uncertainty is larger, or not known, are left open too; None where there is no column of it."""

    def decides(self, prob: FloatArray, uncertainty: FloatArray | None = None) -> np.ndarray:
        """The rows that are not left open."""
        clear = (prob < self.low) | (prob >= self.high)
        return clear if self.limit is None or uncertainty is None else clear & (uncertainty <= self.limit)


@dataclass(frozen=True, slots=True)
class Risk:
    """The errors among the rows that are decided."""

    band: AbstentionBand
    coverage: float
    """The share of the rows that is decided."""

    risk: float | None
    bound: float
    """`risk`, `bound`: the share of errors among them, and the most that it may be: all bounds of a table hold at once.
    """


def by_cost(costs: Costs, abstain: float) -> AbstentionBand:
    """Leave a row open where either decision is expected to cost more than leaving it open."""
    low = float((abstain - costs.tn) / (costs.fn - costs.tn)) if costs.fn > costs.tn else 1.0
    high = float((costs.fp - abstain) / (costs.fp - costs.tp)) if costs.fp > costs.tp else 0.0
    if low >= high:
        return AbstentionBand(costs.threshold, costs.threshold)
    return AbstentionBand(max(low, 0.0), high if high <= 1.0 else NEVER)


def by_coverage(
    costs: Costs, prob: FloatArray, coverage: float, mass: FloatArray, uncertainty: FloatArray | None = None
) -> AbstentionBand:
    """Decide this share of the rows: those of the least expected cost, or of the least uncertainty."""
    if uncertainty is not None:
        return AbstentionBand(costs.threshold, costs.threshold, _limit(uncertainty, mass, coverage))
    yes = prob >= costs.threshold
    cost = np.where(yes, prob * costs.tp + (1.0 - prob) * costs.fp, prob * costs.fn + (1.0 - prob) * costs.tn)
    sure = cost <= _quantile(cost, mass, coverage)
    low = float(np.nextafter(prob[sure & ~yes].max(), 2.0)) if (sure & ~yes).any() else 0.0
    high = float(prob[sure & yes].min()) if (sure & yes).any() else NEVER
    return AbstentionBand(low, high)


def by_confidence(
    sure: FloatArray, coverage: float, mass: FloatArray, uncertainty: FloatArray | None = None
) -> AbstentionBand:
    """Decide this share of the rows: those whose decision has the largest probability, or the least uncertainty."""
    if uncertainty is not None:
        return AbstentionBand(0.0, 0.0, _limit(uncertainty, mass, coverage))
    return AbstentionBand(0.0, -_quantile(-sure, mass, coverage))


def _limit(uncertainty: FloatArray, mass: FloatArray, coverage: float) -> float:
    """The least uncertainty with this share of the rows at or below it; the largest one if fewer are known."""
    known = np.isfinite(uncertainty)
    if not known.any():
        raise DataError("--uncertainty: the column has no numbers", hint="leave it out")
    limit = _quantile(np.where(known, uncertainty, np.inf), mass, coverage)
    return min(limit, float(uncertainty[known].max()))


def _quantile(values: FloatArray, mass: FloatArray, share: float) -> float:
    """The least value with this share of the mass at or below it."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(mass[order])
    return float(values[order[min(int(np.searchsorted(below, share * below[-1] * (1.0 - 1e-12))), len(order) - 1)]])


def risks(
    bands: Sequence[AbstentionBand],
    prob: FloatArray,
    wrong: np.ndarray,
    mass: FloatArray,
    uncertainty: FloatArray | None,
    *,
    confidence: float,
) -> list[Risk]:
    """The risk of each, with exact bounds that hold for all of them at once (Bonferroni).

    `wrong` are the rows that are decided wrongly, if they are: outside of a band, all bands decide alike.
    """
    level = 1.0 - 2.0 * (1.0 - confidence) / len(bands)
    found = []
    for band in bands:
        decided = band.decides(prob, uncertainty)
        of = float(mass[decided].sum())
        rows = of**2 / float(np.square(mass[decided]).sum()) if of > 0 else 0.0
        risk = float(mass[decided & wrong].sum()) / of if of > 0 else None
        bound = 1.0 if risk is None else exact_interval(risk * rows, rows, level)[1]
        found.append(Risk(band, of / float(mass.sum()), risk, bound))
    return found
