"""Platt scaling in each of many cells at once.

What `calcli.methods.scaling.platt` does for one set of rows, by the same formula: sigmoid(a z + b) of least log-loss
against Platt's smoothed targets. Partitions have hundreds of small cells, and one after another they would take most of
a fit's time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.numeric.links import sigmoid, softplus
from calcli.numeric.moments import LIMIT

STEPS = 100
NEAR = 1e-12
"""A Newton step that lowers the mean loss of a cell by less than this is its last: it doubles the digits once more."""

_SOMETHING = 1e-100
"""The least curvature: where a cell has none, its gradient is zero as well."""


def platt_each(rows: Batch, cell: IntArray, count: int, *, rising: bool) -> tuple[FloatArray, FloatArray]:
    """Slope and intercept of each cell; 1 and 0 where there are no rows.

    With `rising` a slope below zero gives way to 0, with the intercept that is then best.
    """
    each = _Rows.of(rows, cell, count)
    slope, level = each.minimise()
    steady = (each.scale == 0) | (rising & (slope < 0))
    level = np.where(steady, each.log_odds, level)
    slope = np.where(steady, 0.0, slope)
    a = np.divide(slope, each.scale, out=np.zeros(count), where=each.scale > 0)
    a[each.scale == 0] = 1.0  # one score alone says nothing about the slope
    return a, level - a * each.mean


@dataclass(frozen=True)
class _Rows:
    """Rows by cell: scores in standard units of their cell, weights and smoothed targets."""

    cell: IntArray
    count: int
    x: FloatArray
    weight: FloatArray
    target: FloatArray
    mean: FloatArray
    scale: FloatArray
    log_odds: FloatArray

    @classmethod
    def of(cls, rows: Batch, cell: IntArray, count: int) -> _Rows:
        z, weight = np.clip(rows.score, -LIMIT, LIMIT), rows.weights

        def total(values: FloatArray) -> FloatArray:
            return sums(cell, values, count)

        all_rows = np.maximum(total(weight), np.finfo(np.float64).tiny)
        positive = total(weight * rows.labels)
        mean = total(weight * z) / all_rows
        scale = np.sqrt(total(weight * (z - mean[cell]) ** 2) / all_rows)
        scale[scale <= 1e-9 * np.maximum(1.0, np.abs(mean))] = 0.0
        high, low = (positive + 1.0) / (positive + 2.0), 1.0 / (all_rows - positive + 2.0)
        target = np.where(rows.labels == 1, high[cell], low[cell])
        expected = high * positive + low * (all_rows - positive)
        x = np.divide(z - mean[cell], scale[cell], out=np.zeros(len(z)), where=scale[cell] > 0)
        return cls(cell, count, x, weight, target, mean, scale, np.log(expected) - np.log(all_rows - expected))

    def total(self, values: FloatArray) -> FloatArray:
        return sums(self.cell, values, self.count)

    def loss(self, slope: FloatArray, level: FloatArray) -> FloatArray:
        """The log-loss of each cell."""
        u = slope[self.cell] * self.x + level[self.cell]
        return self.total(self.weight * (softplus(u) - self.target * u))

    def minimise(self) -> tuple[FloatArray, FloatArray]:
        """Newton's method in all cells side by side, each with its own step length."""
        slope, level = np.zeros(self.count), self.log_odds.copy()
        here = self.loss(slope, level)
        for _ in range(STEPS):
            along, up, gain = self._newton(slope, level)
            moving = gain > NEAR * self.total(self.weight)
            if not moving.any():
                return slope + along, level + up
            length = np.ones(self.count)
            there = self.loss(slope + along, level + up)
            while (worse := moving & (there > here) & (length > 1e-9)).any():
                length[worse] /= 2
                there = self.loss(slope + length * along, level + length * up)
            slope, level, here = slope + length * along, level + length * up, there
        return slope, level

    def _newton(self, slope: FloatArray, level: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The Newton step of each cell, and twice what it gains where the loss is a parabola."""
        p = sigmoid(slope[self.cell] * self.x + level[self.cell])
        off, bend = self.weight * (p - self.target), self.weight * p * (1.0 - p)
        by_level, by_slope = self.total(off), self.total(off * self.x)
        one, two, three = self.total(bend), self.total(bend * self.x), self.total(bend * self.x**2)
        one, three = np.maximum(one, _SOMETHING), np.maximum(three, _SOMETHING)
        determinant = one * three - two * two
        determinant = np.where(determinant > 1e-14 * one * three, determinant, one * three)
        along = -(one * by_slope - two * by_level) / determinant
        up = -(three * by_level - two * by_slope) / determinant
        return along, up, -(along * by_slope + up * by_level)


def sums(cell: IntArray, values: FloatArray, count: int) -> FloatArray:
    """The sum over the rows of each cell."""
    found: FloatArray = np.bincount(cell, weights=values, minlength=count).astype(np.float64, copy=False)
    return found
