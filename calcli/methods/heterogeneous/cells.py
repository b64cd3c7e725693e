"""Calibrators in the cells of a partition, each shrunk to the prediction without it.

Platt scaling is fitted in all cells at once: partitions have hundreds of small ones, which one by one would take most
of a fit's time. The formula is that of `Platt`, sigmoid(a z + b) of least log-loss against
Platt's smoothed targets. Within a cell scores are standardised, u = slope x + level with x = (z - mean) / scale, so
that the two parameters are nearly independent; Newton's method runs in all cells side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.methods import calibrator
from calcli.methods.calibrator import FittedMethod
from calcli.methods.spec import MethodSpec
from calcli.numeric.bins import totals
from calcli.numeric.links import probabilities, scores, sigmoid, softplus
from calcli.numeric.moments import LIMIT
from calcli.numeric.seeded import class_order, ordered
from calcli.state import State


@dataclass(frozen=True)
class Cells:
    """The cells of one tree."""

    own: tuple[FittedMethod, ...]
    """The calibrator of each cell."""

    share: FloatArray
    """The share of the result that comes from it; see `calcli.methods.base`."""

    weight: FloatArray
    label: FloatArray
    predicted: FloatArray
    """`weight`, `label`, `predicted`: sums over the calibration rows in each cell: of their weights, and of weight
    times label and times the incoming probability. The last two have a column for each class; of two classes only the
    positive one.
    """

    def check(self, leaves: int) -> None:
        """Raise a `ValueError` where these are not the cells of so many leaves."""
        arrays = (self.share, self.weight, self.label, self.predicted)
        lengths = {len(self.own), *(len(array) for array in arrays)}
        if lengths != {leaves}:
            raise ValueError(f"there are {leaves} cells, and numbers of {', '.join(map(str, sorted(lengths)))}")

    def calibrate(self, without: FloatArray, rows: Batch, cell: IntArray) -> FloatArray:
        """The scores of rows in these cells; `without` are their scores without the cells."""
        return mix(own_scores(self.own, rows, cell), without, self.share[cell])


def rows_by_cell(cell: IntArray) -> Iterator[tuple[int, IntArray]]:
    """The cells that have rows, each with its rows."""
    order = np.argsort(cell, kind="stable")
    ends = np.cumsum(np.bincount(cell))
    for index in np.flatnonzero(np.diff(ends, prepend=0)):
        yield int(index), order[(0 if index == 0 else ends[index - 1]) : ends[index]]


def own_scores(own: Sequence[FittedMethod], rows: Batch, cell: IntArray) -> FloatArray:
    """The score that the calibrator of each row's cell gives it."""
    score = np.empty_like(rows.score)
    for index, members in rows_by_cell(cell):
        score[members] = scores(own[index].predict(Batch(rows.score[members])))
    return score


def mix(own: FloatArray, without: FloatArray, share: FloatArray) -> FloatArray:
    """``(1 - share) without + share own``, row by row."""
    return without + (share if own.ndim == 1 else share[:, None]) * (own - without)


def fit_by_score(method: MethodSpec, rows: Batch) -> FittedMethod:
    """A calibrator of these rows that sees their scores alone.

    It counts as many rows as they weigh, for equal rows have been merged.
    """
    fitted = calibrator.fit(method, rows.bare, method.resolve())
    return replace(fitted, rows=max(1, round(float(rows.weights.sum()))))


def fit_each(
    method: MethodSpec, rows: Batch, cell: IntArray, default: Sequence[FittedMethod], *, rising: bool = False
) -> list[FittedMethod]:
    """A calibrator for each cell, the `default` one where there are no rows.

    With `rising` a Platt scaling of negative slope, which would reverse the scores, is replaced by a constant.
    """
    own = list(default)
    if method.name != "platt" or rows.classes > 2:
        for index, members in rows_by_cell(cell):
            own[index] = fit_by_score(method, rows.take(members))
        return own
    a, b = platt_each(rows, cell, len(own), rising=rising)
    weight = totals(cell, rows.weights, len(own))
    for index in np.flatnonzero(weight).tolist():
        state = State({"a": float(a[index]), "b": float(b[index])})
        own[index] = FittedMethod(method, 2, max(1, round(weight[index])), state)
    return own


def summarise(own: Sequence[FittedMethod], share: FloatArray, rows: Batch, cell: IntArray) -> Cells:
    """The cells, with the sums over their calibration rows."""
    label, predicted = (
        np.stack([totals(cell, rows.weights * column, len(own)) for column in columns.T], axis=-1)
        for columns in (one_hot(rows), as_table(probabilities(rows.score)))
    )
    return Cells(tuple(own), share, totals(cell, rows.weights, len(own)), label, predicted)


def one_hot(rows: Batch) -> FloatArray:
    """Labels as numbers, a column for each class; of two classes only the positive one."""
    if rows.classes == 2:
        return rows.labels[:, None].astype(np.float64)
    return np.eye(rows.classes)[rows.labels]


def as_table(prob: FloatArray) -> FloatArray:
    """Probabilities with a column for each class; two classes have one column."""
    return prob[:, None] if prob.ndim == 1 else prob


def in_order(target: FloatArray, rows: Batch) -> FloatArray:
    """Targets of trees with a column for each class in `class_order`; the single column of two classes may be negated.

    Which child of a node is the left one follows from the first target, and chance goes by the place of a node: trees
    would else depend on which class is the positive one.
    """
    order = class_order(rows.score, rows.weight)
    return ordered(target, order) if rows.classes > 2 else ordered(target[:, 0], order)[:, None]


STEPS = 100
NEAR = 1e-12
"""A cell converges when its Newton step lowers the mean loss by less than this; that step is still taken."""

_LEAST_CURVATURE = 1e-100
"""Against a division by zero: where a cell has no curvature, its gradient is zero as well."""


def platt_each(rows: Batch, cell: IntArray, count: int, *, rising: bool) -> tuple[FloatArray, FloatArray]:
    """Slope and intercept of each cell; 1 and 0 where there are no rows.

    With `rising` a negative slope is replaced by 0, with the intercept that is then best.
    """
    in_cells = _Rows(rows, cell, count)
    slope, level = in_cells.minimise()
    flat = (in_cells.scale == 0) | (rising & (slope < 0))
    level = np.where(flat, in_cells.log_odds, level)
    slope = np.where(flat, 0.0, slope)
    # Back from standard units to scores.
    a = np.divide(slope, in_cells.scale, out=np.zeros(count), where=in_cells.scale > 0)
    a[in_cells.scale == 0] = 1.0  # a single score does not determine the slope
    return a, level - a * in_cells.mean


class _Rows:
    """Rows by cell, standardised, and the mean and scale of the scores in each cell."""

    def __init__(self, rows: Batch, cell: IntArray, count: int) -> None:
        self.cell, self.count, self.weight = cell, count, rows.weights
        z, weight = np.clip(rows.score, -LIMIT, LIMIT), rows.weights
        mass = np.maximum(self.total(weight), np.finfo(np.float64).tiny)
        positive = self.total(weight * rows.labels)
        self.mean = mean = self.total(weight * z) / mass
        self.scale = scale = np.sqrt(self.total(weight * (z - mean[cell]) ** 2) / mass)
        scale[scale <= 1e-9 * np.maximum(1.0, np.abs(mean))] = 0.0
        self.x = np.divide(z - mean[cell], scale[cell], out=np.zeros(len(z)), where=scale[cell] > 0)
        high, low = (positive + 1.0) / (positive + 2.0), 1.0 / (mass - positive + 2.0)
        self.target = np.where(rows.labels == 1, high[cell], low[cell])
        expected = high * positive + low * (mass - positive)
        self.log_odds = np.log(expected) - np.log(mass - expected)  # of the mean target

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
