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
from calcli.numeric.links import probabilities

KNOTS = 33
"""The most knots; where values are few, every second value is one."""

SCORE_BINS = 64
"""Scores are recalibrated in so many bins of equal mass."""

LARGER = 4.0
"""Values are a quantity if the variance of its effects is so many times that of effects beside its order."""

FEWEST = 4
"""The fewest values that are told apart from their order."""


class LevelEffects(NamedTuple):
    """The effects of the values of a column on the log-odds of the labels, beside those of their order."""

    z: float
    """How many standard errors they are above what chance makes of none."""

    variance: float
    """Their variance."""

    of_order: float
    """The variance of effects, of each value its own, that would make the order matter as much as it does."""

    @property
    def beside_order(self) -> bool:
        """Whether the order is not what matters most."""
        return self.of_order <= LARGER * max(self.variance, 0.0)


class Residuals(NamedTuple):
    """Labels less the rate in the bin of their score, with their variances and fourth cumulants.

    Each has the shape (classes, rows), with a single class where there are two.
    """

    residual: FloatArray
    variance: FloatArray
    cumulant: FloatArray

    @classmethod
    def of(cls, batch: Batch, *, counts: bool, units: IntArray | None = None) -> Residuals:
        """From scores and labels; `counts` says whether weights are numbers of rows.

        The variance of rows that share a unit is that of their sums.
        """
        weight = batch.weights if counts else batch.weights / max(float(batch.weights.mean()), 1e-300)
        prob = probabilities(batch.score)
        classes = [(prob, 1)] if prob.ndim == 1 else list(zip(prob.T, range(prob.shape[1]), strict=True))
        found = [_residuals(one, batch.labels == label, weight, counts=counts) for one, label in classes]
        residuals = cls(*(np.array(part) for part in zip(*found, strict=True)))
        return residuals if units is None else residuals._of_units(units)

    def _of_units(self, units: IntArray) -> Residuals:
        place = np.unique(units, return_inverse=True)[1]
        together = sum(float(np.square(totals(place, one)).sum()) for one in self.residual)
        effect = max(1.0, together / max(float(np.square(self.residual).sum()), 1e-300))
        return Residuals(self.residual, self.variance * effect, self.cumulant * effect**2)

    def effects(self, values: FloatArray) -> LevelEffects | None:
        """The effects of a column's values, NaN where there is none; None where there are too few to tell."""
        present = ~np.isnan(values)
        levels, place = np.unique(values[present], return_inverse=True)
        sums = [
            [totals(place, part[present], len(levels)) for part in of_class] for of_class in zip(*self, strict=True)
        ]
        parts = [_effects(*of_class) for of_class in sums]
        left, chance, variance, scale, order, scale_of_order = np.sum(parts, axis=0)
        if min(chance, variance, scale) <= 0.0:
            return None
        # Sums of classes depend on each other.
        classes = len(parts)
        variance *= 1.0 if classes == 1 else classes / (classes - 1.0)
        z = _standardised(1.0 + left / chance, 2.0 * chance**2 / variance)
        return LevelEffects(z, left / scale, order / scale_of_order if scale_of_order > 0.0 else 0.0)


def _residuals(
    prob: FloatArray, label: np.ndarray, weight: FloatArray, *, counts: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    place = np.searchsorted(mass_edges(prob, SCORE_BINS)[1:-1], prob, side="right")
    rate = (totals(place, weight * label) / np.maximum(totals(place, weight), 1e-300))[place]
    variance = rate * (1.0 - rate)
    square, fourth = (weight, weight) if counts else (weight**2, weight**4)
    return weight * (label - rate), square * variance, fourth * variance * (1.0 - 6.0 * variance)


def _standardised(ratio: float, freedom: float) -> float:
    """A chi-square over its degrees of freedom as a normal variable (Wilson & Hilferty 1931)."""
    spread = 2.0 / (9.0 * freedom)
    return (math.cbrt(max(ratio, 0.0)) - 1.0 + spread) / math.sqrt(spread)


def _effects(r: FloatArray, v: FloatArray, cumulant: FloatArray) -> FloatArray:
    """Sums over values, of their sums of residuals: how far squares exceed chance, chance, its variance, and how far a
    unit of variance would make them exceed it; how far the order does, and what a unit of variance would add to that.

    A value weighs as it can tell an effect from chance: less where its rows are few, and no more where they are many.
    """
    seen = v > 0.0
    r, v, cumulant = r[seen], v[seen], cumulant[seen]
    if len(v) < FEWEST:
        return np.zeros(6)
    beside, free = _beside_order(r, v)
    weight, chance = 1.0 / (1.0 + 2.0 * v), v * free
    left, whole = weight @ (beside**2 - chance), weight @ (r**2 - v)
    # Without what the order took, sums share their freedom: together they vary as fewer that share nothing.
    variance = weight**2 @ (2.0 * v * chance + np.maximum(cumulant, 0.0))
    scale, of_whole = weight @ (v * chance), weight @ v**2
    return np.array([left, weight @ chance, variance, scale, whole - left, of_whole - scale])


def _beside_order(r: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rest of each sum beside a function of the order, by weighted least squares, and its share of the variance."""
    # Each value lies between two knots: `share` of the way from the one before it to the next.
    knots = _knots(v)
    at = np.arange(len(v))
    before = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
    share = (at - knots[before]) / (knots[before + 1] - knots[before])
    hats = ((before, 1.0 - share), (before + 1, share))
    pairs = [(one, other, of_one * of_other) for one, of_one in hats for other, of_other in hats]
    products = np.zeros((len(knots), len(knots)))
    for one, other, both in pairs:
        np.add.at(products, (one, other), v * both)
    inverse = np.linalg.pinv(products, hermitian=True)
    fitted = inverse @ sum(totals(one, r * of_one, len(knots)) for one, of_one in hats)
    leverage = v * sum(both * inverse[one, other] for one, other, both in pairs)
    return r - v * sum(of_one * fitted[one] for one, of_one in hats), np.clip(1.0 - leverage, 0.0, 1.0)


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
