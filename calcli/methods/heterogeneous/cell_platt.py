"""Platt scaling in many cells at once.

The formula is that of `calcli.methods.scaling.linear.Platt`: sigmoid(a z + b) of least log-loss against Platt's
smoothed targets. Partitions have hundreds of small cells; fitted one by one they would take most of a fit's time.

Within a cell scores are standardised, u = slope x + level with x = (z - mean) / scale, so that the two parameters are
nearly independent; Newton's method runs in all cells side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.numeric.links import sigmoid, softplus
from calcli.numeric.moments import LIMIT
from calcli.numeric.sums import totals

STEPS = 100
NEAR = 1e-12
"""A cell converges when its Newton step lowers the mean loss by less than this; that step is still taken."""

_LEAST_CURVATURE = 1e-100
"""Against a division by zero: where a cell has no curvature, its gradient is zero as well."""


def platt_each(rows: Batch, cell: IntArray, count: int, *, rising: bool) -> tuple[FloatArray, FloatArray]:
    """Slope and intercept of each cell; 1 and 0 where there are no rows.

    With `rising` a negative slope is replaced by 0, with the intercept that is then best.
    """
    in_cells = _Rows.of(rows, cell, count)
    slope, level = in_cells.minimise()
    flat = (in_cells.scale == 0) | (rising & (slope < 0))
    level = np.where(flat, in_cells.log_odds, level)
    slope = np.where(flat, 0.0, slope)
    # Back from standard units to scores.
    a = np.divide(slope, in_cells.scale, out=np.zeros(count), where=in_cells.scale > 0)
    a[in_cells.scale == 0] = 1.0  # a single score does not determine the slope
    return a, level - a * in_cells.mean


@dataclass(frozen=True)
class _Rows:
    """Rows by cell: standardised scores `x`, weights and smoothed targets; then, for each cell, the mean and the scale
    of the scores, and the log-odds of the mean target.
    """

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
            return totals(cell, values, count)

        mass = np.maximum(total(weight), np.finfo(np.float64).tiny)
        positive = total(weight * rows.labels)
        mean = total(weight * z) / mass
        scale = np.sqrt(total(weight * (z - mean[cell]) ** 2) / mass)
        scale[scale <= 1e-9 * np.maximum(1.0, np.abs(mean))] = 0.0
        high, low = (positive + 1.0) / (positive + 2.0), 1.0 / (mass - positive + 2.0)
        target = np.where(rows.labels == 1, high[cell], low[cell])
        expected = high * positive + low * (mass - positive)
        x = np.divide(z - mean[cell], scale[cell], out=np.zeros(len(z)), where=scale[cell] > 0)
        return cls(cell, count, x, weight, target, mean, scale, np.log(expected) - np.log(mass - expected))

    def total(self, values: FloatArray) -> FloatArray:
        return totals(self.cell, values, self.count)

    def loss(self, slope: FloatArray, level: FloatArray) -> FloatArray:
        """The log-loss of each cell."""
        u = slope[self.cell] * self.x + level[self.cell]
        return self.total(self.weight * (softplus(u) - self.target * u))

    def minimise(self) -> tuple[FloatArray, FloatArray]:
        """The slope and level of least loss, by Newton's method with a step length for each cell."""
        slope, level = np.zeros(self.count), self.log_odds.copy()
        loss = self.loss(slope, level)
        for _ in range(STEPS):
            slope_step, level_step, gain = self._newton(slope, level)
            moving = gain > NEAR * self.total(self.weight)
            if not moving.any():
                return slope + slope_step, level + level_step
            # Halve the steps of the cells whose loss would rise.
            length = np.ones(self.count)
            new_loss = self.loss(slope + slope_step, level + level_step)
            while (worse := moving & (new_loss > loss) & (length > 1e-9)).any():
                length[worse] /= 2
                new_loss = self.loss(slope + length * slope_step, level + length * level_step)
            slope, level, loss = slope + length * slope_step, level + length * level_step, new_loss
        return slope, level

    def _newton(self, slope: FloatArray, level: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The Newton step of each cell (slope, level), and twice the gain that the quadratic model promises."""
        p = sigmoid(slope[self.cell] * self.x + level[self.cell])
        residual, curvature = self.weight * (p - self.target), self.weight * p * (1.0 - p)
        level_gradient, slope_gradient = self.total(residual), self.total(residual * self.x)
        # The Hessian, [[h_ll, h_ls], [h_ls, h_ss]]; without its mixed term where it is nearly singular.
        h_ll, h_ls, h_ss = (self.total(curvature * power) for power in (1.0, self.x, self.x**2))
        h_ll, h_ss = np.maximum(h_ll, _LEAST_CURVATURE), np.maximum(h_ss, _LEAST_CURVATURE)
        determinant = h_ll * h_ss - h_ls * h_ls
        determinant = np.where(determinant > 1e-14 * h_ll * h_ss, determinant, h_ll * h_ss)
        slope_step = -(h_ll * slope_gradient - h_ls * level_gradient) / determinant
        level_step = -(h_ss * level_gradient - h_ls * slope_gradient) / determinant
        return slope_step, level_step, -(slope_step * slope_gradient + level_step * level_gradient)
