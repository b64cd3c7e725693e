"""What the values of a column of numbers say of the labels beyond their order: little of quantities, all of names.

A click log numbers its sites, and the number of a site is no quantity. The residuals of the score, recalibrated in
bins, are added up by value. A function of the order, straight between 33 knots at most, is taken off these sums. What
is left varies as chance does if the order is all that matters, and more if each value has an effect of its own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.numeric.bins import mass_edges, totals
from calcli.numeric.links import log_odds, probabilities, sigmoid

KNOTS = 33
"""The most knots; where values are few, every second value is one."""

SCORE_BINS = 64
"""Scores are recalibrated in so many bins of equal mass."""

LARGER = 4.0
"""Values are a quantity if the variance of its effects is so many times that of effects beside its order."""

PRECISION = 1.0
"""The log-odds by which the order moves rates have a normal prior of this precision at each knot."""

FEWEST = 4
"""The fewest values that are told apart from their order."""


class LevelEffects(NamedTuple):
    """The effects of the values of a column on the log-odds of the labels, beside those of their order."""

    z: float
    """How many standard errors they are above what chance makes of none."""

    variance: float
    """Their variance."""

    values: int
    """How many values there are."""

    of_order: float
    """The variance of effects, of each value its own, that would make the order matter as much as it does."""

    @property
    def beside_order(self) -> bool:
        """Whether the order is not what matters most."""
        return self.of_order <= LARGER * max(self.variance, 0.0)


class Residuals(NamedTuple):
    """Labels, and the rates of the bins of their scores, of which each column takes off what its order says."""

    label: FloatArray
    rate: FloatArray
    """`label`, `rate`: of shape (classes, rows), a single class where there are two."""

    weight: FloatArray
    counts: bool
    """Whether weights are numbers of rows."""

    effect: float = 1.0
    """How many times the variance of sums is that over independent rows."""

    @classmethod
    def of(cls, batch: Batch, *, counts: bool, units: IntArray | None = None) -> Residuals:
        """From scores and labels; `counts` says whether weights are numbers of rows.

        The variance of rows that share a unit is that of their sums.
        """
        weight = batch.weights if counts else batch.weights / max(float(batch.weights.mean()), 1e-300)
        prob = probabilities(batch.score)
        classes = [(prob, 1)] if prob.ndim == 1 else list(zip(prob.T, range(prob.shape[1]), strict=True))
        label = np.array([batch.labels == one for _, one in classes], dtype=np.float64)
        rate = np.array(
            [rates_of_bins(of_class, one, weight) for (of_class, _), one in zip(classes, label, strict=True)]
        )
        residuals = cls(label, rate, weight, counts)
        return residuals if units is None else residuals._replace(effect=residuals._effect_of(units))

    def _effect_of(self, units: IntArray) -> float:
        residual, place = self.weight * (self.label - self.rate), np.unique(units, return_inverse=True)[1]
        together = sum(float(np.square(totals(place, one)).sum()) for one in residual)
        return max(1.0, together / max(float(np.square(residual).sum()), 1e-300))

    def effects(self, values: FloatArray) -> LevelEffects | None:
        """The effects of a column's values, NaN where there is none; None where there are too few to tell."""
        present = ~np.isnan(values)
        levels, place = np.unique(values[present], return_inverse=True)
        if len(levels) < FEWEST:
            return None
        classes = zip(self.label, self.rate, strict=True)
        parts = [self._of_class(one[present], rate[present], place, self.weight[present]) for one, rate in classes]
        left, chance, variance, scale, order, scale_of_order = np.sum(parts, axis=0)
        if min(chance, variance, scale) <= 0.0:
            return None
        # Sums of classes depend on each other.
        variance *= 1.0 if len(parts) == 1 else len(parts) / (len(parts) - 1.0)
        z = _standardised(1.0 + left / chance, 2.0 * chance**2 / variance)
        return LevelEffects(z, left / scale, len(levels), order / scale_of_order if scale_of_order > 0.0 else 0.0)

    def _of_class(self, label: FloatArray, rate: FloatArray, place: IntArray, weight: FloatArray) -> FloatArray:
        """How far squares of sums by value exceed chance, chance, its variance, and what a unit of variance would add;
        how far the order exceeds chance, and what a unit of variance would add to that.

        A value weighs as it can tell an effect from chance: less where rows are few, and no more where they are many.
        """
        r, v, _ = self._sums(label, rate, place, weight)
        whole, of_whole = (r**2 - v) / (1.0 + 2.0 * v), v**2 / (1.0 + 2.0 * v)
        # With the order in their rates, rows have the variance that they would have if it were all that matters.
        moved, _ = _order(r, v, PRECISION)
        rate = sigmoid(log_odds(rate) + moved[place])
        r, v, cumulant = self._sums(label, rate, place, weight)
        fitted, free = _order(r, v)
        share, chance = 1.0 / (1.0 + 2.0 * v), v * free
        left, scale = share @ ((r - v * fitted) ** 2 - chance), share @ (v * chance)
        # Without what the order took, sums share their freedom: together they vary as fewer that share nothing.
        variance = share**2 @ (2.0 * v * chance + np.maximum(cumulant, 0.0))
        return np.array([left, share @ chance, variance, scale, whole.sum() - left, of_whole.sum() - scale])

    def _sums(self, label: FloatArray, rate: FloatArray, place: IntArray, weight: FloatArray) -> list[FloatArray]:
        """The residuals of each value, their variance and their fourth cumulant."""
        variance = rate * (1.0 - rate)
        square, fourth = (weight, weight) if self.counts else (weight**2, weight**4)
        return [
            totals(place, weight * (label - rate)),
            totals(place, square * variance) * self.effect,
            totals(place, fourth * variance * (1.0 - 6.0 * variance)) * self.effect**2,
        ]


def rates_of_bins(prob: FloatArray, label: FloatArray, weight: FloatArray) -> FloatArray:
    """The rate of the bin of each score, never 0 or 1."""
    place = np.searchsorted(mass_edges(prob, SCORE_BINS)[1:-1], prob, side="right")
    return ((totals(place, weight * label) + 0.5) / (totals(place, weight) + 1.0))[place]


def _standardised(ratio: float, freedom: float) -> float:
    """A chi-square over its degrees of freedom as a normal variable (Wilson & Hilferty 1931)."""
    spread = 2.0 / (9.0 * freedom)
    return (math.cbrt(max(ratio, 0.0)) - 1.0 + spread) / math.sqrt(spread)


def _order(r: FloatArray, v: FloatArray, precision: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """The effect of each value by a function of the order, by weighted least squares, and the share of the variance of
    its sum that is left free.
    """
    # Each value lies between two knots: `share` of the way from the one before it to the next.
    knots = _knots(v)
    at = np.arange(len(v))
    before = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
    share = (at - knots[before]) / (knots[before + 1] - knots[before])
    hats = ((before, 1.0 - share), (before + 1, share))
    pairs = [(one, other, of_one * of_other) for one, of_one in hats for other, of_other in hats]
    products = precision * np.eye(len(knots))
    for one, other, both in pairs:
        np.add.at(products, (one, other), v * both)
    inverse = np.linalg.pinv(products, hermitian=True)
    fitted = inverse @ sum(totals(one, r * of_one, len(knots)) for one, of_one in hats)
    leverage = v * sum(both * inverse[one, other] for one, other, both in pairs)
    effect = np.sum([of_one * fitted[one] for one, of_one in hats], axis=0)
    return effect, np.clip(1.0 - leverage, 0.0, 1.0)


def _knots(v: FloatArray) -> IntArray:
    """The places of the knots, by mass; a value that has much of it is one, and so are those beside it."""
    last = len(v) - 1
    if len(v) < 2 * KNOTS:
        return np.unique(np.linspace(0, last, len(v) // 2 + 1).round().astype(np.int64))
    heavy = np.flatnonzero(v > v.sum() / KNOTS)
    light = v.copy()
    light[heavy] = 0.0
    inner = np.searchsorted(np.cumsum(light), light.sum() * np.linspace(0.0, 1.0, KNOTS))
    return np.unique(np.clip(np.concatenate([[0, last], inner, heavy - 1, heavy, heavy + 1]), 0, last)).astype(np.int64)
