"""Fitting sigmoid(theta . f(z)) for any smooth functions f of one score, from sums over rows.

The rows are summed as in `moments`: the moments of the scores in narrow cells, here up to order 4 for the positive rows
too, because f need not be linear. Sums over rows of w g(z) are then sums over cells of Taylor coefficients of g times
moments, and the Taylor coefficients of the log-loss come from those of f by the rules of `solve`. Single rows are
cells of width 0, so that the same code sums over rows where cells are too coarse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.numeric import moments, solve
from calcli.numeric.moments import ScoreMoments
from calcli.numeric.solve import Expand, Expansion

Basis = Callable[[FloatArray, int], FloatArray]
"""From points and an order to the Taylor coefficients of the functions f, shape (functions, order + 1, points)."""

COARSE = 0.1
"""Cells within which theta . f(z) varies by more than twice this are too coarse: the error would exceed 1e-7."""


def gather(z: FloatArray, label: IntArray, weight: FloatArray | None) -> dict[str, FloatArray]:
    """The moments of order 0 .. 4 of all of these rows and of the positive ones."""
    chosen = label == 1
    everyone = moments.gather(z, label, weight)
    positive = moments.gather(z[chosen], label[chosen], None if weight is None else weight[chosen])
    return {"all": everyone["all"], "positive": positive["all"]}


@dataclass(frozen=True)
class Points:
    """Points of expansion: cells with the moments of their rows, or single rows."""

    z: FloatArray
    """The mean score of each cell, or the score of each row."""

    moments: FloatArray
    """Sums of w (score - z)^k, shape (order + 1, points)."""

    extent: FloatArray
    """The width over which the rows of a cell are spread."""

    @classmethod
    def of_cells(cls, sums: FloatArray) -> Points:
        """From the moments about the cells' centres, as `gather` gives them."""
        rows = ScoreMoments.of({"all": sums, "positive": sums[:2]})
        m0, m2, m3, m4 = rows.moments
        return cls(rows.mean, np.stack([m0, np.zeros_like(m0), m2, m3, m4]), rows.extent)

    @classmethod
    def of_rows(cls, z: FloatArray, weight: FloatArray) -> Points:
        weighted = weight > 0
        z = np.clip(z[weighted], -moments.LIMIT, moments.LIMIT)
        return cls(z, weight[None, weighted], np.zeros(len(z)))

    @property
    def order(self) -> int:
        return len(self.moments) - 1

    @property
    def weight(self) -> float:
        return float(self.moments[0].sum())

    def total(self, jet: FloatArray) -> FloatArray:
        """The sums over rows of functions, given their Taylor coefficients around the points (last two axes)."""
        return np.asarray((jet * self.moments).sum(axis=(-2, -1)))


@dataclass(frozen=True)
class Sample:
    """The rows of a fit: all of them, and the positive ones."""

    everyone: Points
    positive: Points
    separated: bool

    @classmethod
    def of_cells(cls, sums: Mapping[str, FloatArray]) -> Sample:
        """From the sums of `gather`."""
        everyone, positive = sums["all"], sums["positive"]
        return cls(Points.of_cells(everyone), Points.of_cells(positive), _separated(everyone[0], positive[0]))

    def by_rows(self, z: FloatArray, label: IntArray, weight: FloatArray) -> Sample:
        """The sample with each row as a point of its own."""
        chosen = label == 1
        return Sample(Points.of_rows(z, weight), Points.of_rows(z[chosen], weight[chosen]), self.separated)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest score: the means of the outermost cells."""
        return float(self.everyone.z.min()), float(self.everyone.z.max())

    def targets(self, *, smooth: bool) -> tuple[float, float]:
        """The targets of negative and of positive rows: 0 and 1, or smoothed (Platt 1999)."""
        if not smooth:
            return 0.0, 1.0
        positive = self.positive.weight
        return 1.0 / (self.everyone.weight - positive + 2.0), (positive + 1.0) / (positive + 2.0)

    def log_odds(self, *, smooth: bool) -> float:
        """The log-odds of the mean target."""
        low, high = self.targets(smooth=smooth)
        rate = low + (high - low) * self.positive.weight / self.everyone.weight
        return float(np.log(rate) - np.log1p(-rate))

    def log_loss(self, basis: Basis, *, smooth: bool) -> Expand:
        """The mean log-loss of sigmoid(theta . f), with its gradient and Hessian in theta."""
        # The loss of a row is softplus(u) - target u, and linear in the target: its second part is theta . aim, where
        # aim is the sum of target f over rows, the same at every step.
        rows = self.everyone
        low, high = self.targets(smooth=smooth)
        f = basis(rows.z, rows.order)
        aim = low * rows.total(f)
        if self.positive.weight > 0:
            aim = aim + (high - low) * self.positive.total(basis(self.positive.z, rows.order))
        weight = rows.weight

        def expand(theta: FloatArray) -> Expansion:
            # Taylor coefficients of u = theta . f, then of s = sigmoid(u) and of its derivative; the gradient is the
            # sum of s f, the Hessian that of s' f f^T, each over all products of coefficients up to the order.
            u = np.tensordot(theta, f, axes=1)
            s, slope = solve.sigmoid(u)
            value = float(rows.total(solve.softplus(u, s))) - float(theta @ aim)
            gradient = np.tensordot(f, _transposed(s, rows.moments), axes=2) - aim
            bend = _transposed(slope, rows.moments)
            hessian = np.sum([f[:, a] @ _against(bend[a:], f).T for a in range(len(bend))], axis=0)
            return Expansion(value / weight, gradient / weight, hessian / weight)

        return expand

    def coarseness(self, basis: Basis, theta: FloatArray) -> float:
        """The most that theta . f varies within half a cell."""
        if self.everyone.order == 0:
            return 0.0
        slope = np.tensordot(theta, basis(self.everyone.z, 1), axes=1)[1]
        return float((np.abs(slope) * self.everyone.extent).max()) / 2


def _transposed(jet: FloatArray, sums: FloatArray) -> FloatArray:
    """The weights of the coefficients f_l of a function in the sum over rows of its product with `jet`.

    The total of f g is the sum over i + l <= order of f_l g_i m_{i+l}: row l is the sum over i of g_i m_{i+l}.
    """
    return np.stack([(jet[: len(sums) - low] * sums[low:]).sum(axis=0) for low in range(len(sums))])


def _against(bend: FloatArray, f: FloatArray) -> FloatArray:
    """The sum over l of f_l bend_l, for each function."""
    total: FloatArray = f[:, 0] * bend[0]
    for low in range(1, len(bend)):
        total += f[:, low] * bend[low]
    return total


def _separated(everyone: FloatArray, positive: FloatArray) -> bool:
    """Whether a threshold separates the classes, up to one shared cell: then no finite map minimises the loss."""
    negative = everyone - positive > 1e-9 * everyone
    if not negative.any() or not positive.any():
        return True
    return bool(np.flatnonzero(negative)[-1] <= np.flatnonzero(positive)[0])
