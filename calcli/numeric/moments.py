"""Moments of log-odds scores in narrow cells: sufficient sums for fitting sigmoid(a z + b) to any number of rows.

Fitting a smooth map of one score needs, at every step of Newton's method, sums over all rows of smooth functions of
the score. The log-odds axis is cut into narrow cells, and each cell keeps the first moments of its rows; a smooth
function is then summed by its Taylor series around the mean of each cell. Cells are 1/512 wide near 0 and grow with
the score (they are even on the asinh axis). A hundred million rows are a megabyte of sums that add up across chunks,
threads and machines.

The series is cut after the fourth moment. With the map sigmoid(a z + b) the relative error of a sum is below
(a w / 2)^5 / 120, w the width of the cells that hold rows: 1e-10 for a = 1 at z = 20. `ScoreMoments.coarseness` tells
a w / 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from calcli.batch import FloatArray, Group, IntArray, spans
from calcli.numeric.bins import totals
from calcli.numeric.links import sigmoid, softplus
from calcli.numeric.solve import Expansion, Expansions

CELLS_PER_UNIT = 512
LIMIT = 1e6
"""Log-odds beyond this are held at it while fitting; a probability has long been 0 or 1 there."""

ORDER = 4
"""The highest moment kept."""

_TOGETHER = 1 << 16
"""Rows that are summed at a time: few enough for the cache, and many compared with the cells."""

_HALF = int(np.ceil(np.arcsinh(LIMIT) * CELLS_PER_UNIT)) + 1
_CENTRES = np.sinh((np.arange(2 * _HALF) - _HALF + 0.5) / CELLS_PER_UNIT)


def gather(z: FloatArray, label: IntArray, weight: FloatArray | None) -> dict[str, FloatArray]:
    """The moments of these rows: ``all`` of order 0 .. 4 of every row, ``positive`` of order 0 and 1 where y = 1."""
    cells = len(_CENTRES)
    moments, positive = np.zeros((ORDER + 1, cells)), np.zeros((2, cells))
    for some in spans(len(z), _TOGETHER):
        _add(z[some], label[some], None if weight is None else weight[some], moments, positive)
    return {"all": moments, "positive": positive}


def _add(z: FloatArray, label: IntArray, weight: FloatArray | None, moments: FloatArray, positive: FloatArray) -> None:
    """Add rows to the sums in place."""
    z = np.clip(z, -LIMIT, LIMIT)
    cell = _cell_of(z)
    offset = z - _CENTRES[cell]
    # Moments of all rows about the centres of their cells: small numbers, so that nothing cancels.
    moments[0] += totals(cell, weight, moments.shape[1])
    term = offset.copy() if weight is None else weight * offset
    for order in range(1, ORDER + 1):
        moments[order] += totals(cell, term, moments.shape[1])
        term *= offset
    # The term y u of the log-loss is linear in z: of the positive rows two moments suffice.
    chosen = label == 1
    cell, offset = cell[chosen], offset[chosen]
    if weight is not None:
        weight = weight[chosen]
        offset *= weight
    positive[0] += totals(cell, weight, moments.shape[1])
    positive[1] += totals(cell, offset, moments.shape[1])


def _cell_of(z: FloatArray) -> IntArray:
    cell: IntArray = (np.floor(np.arcsinh(z) * CELLS_PER_UNIT) + _HALF).astype(np.int64)
    return cell


@dataclass(frozen=True)
class Cells:
    """The cells that hold rows."""

    mean: FloatArray
    """The mean score of each cell."""

    moments: tuple[FloatArray, FloatArray, FloatArray, FloatArray]
    """Sums of w (z - mean)^j for j = 0, 2, 3, 4."""

    width: FloatArray
    """The width of each cell."""

    @classmethod
    def of_sums(cls, centre: FloatArray, sums: FloatArray) -> Cells:
        """Cells with these centres, from the moments about them."""
        m0, m1, m2, m3, m4 = sums
        shift = m1 / m0  # from moments about the centre to moments about the mean
        square = shift * shift
        central = (
            m0,
            np.maximum(m2 - m0 * square, 0.0),
            m3 - 3 * shift * m2 + 2 * m0 * (square * shift),
            np.maximum(m4 - 4 * shift * m3 + 6 * square * m2 - 3 * m0 * (square * square), 0.0),
        )
        return cls(centre + shift, central, np.sqrt(1.0 + centre**2) / CELLS_PER_UNIT)

    @property
    def extent(self) -> FloatArray:
        """The width over which the rows of each cell are spread."""
        return np.minimum(np.sqrt(12.0 * self.moments[1] / self.moments[0]), self.width)

    def summands(self, powers: Powers, b: FloatArray | float) -> tuple[FloatArray, ...]:
        """The sum over the rows of each cell of w ln(1 + exp(a z + b)), and its derivatives by a, b, aa, ab, bb.

        `powers` are those of a; they and b are numbers, or have one for each cell.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # of a step that is far too long
            return self._summands(powers, b)

    def _summands(self, powers: Powers, b: FloatArray | float) -> tuple[FloatArray, ...]:
        m0, m2, m3, m4 = self.moments
        a, a2, a3, a4 = powers
        z = self.mean
        u = a * z + b
        s = sigmoid(u)
        # With d = z_i - mean of a row: softplus(u + a d) = sum_k softplus^(k)(u) (a d)^k / k!; summing over the rows of
        # a cell replaces d^k by the k-th central moment m_k, and m_1 is 0.
        # Derivatives of softplus at u, of order 1 to 5. s2 is written so that it keeps its digits where s is near 1.
        s2 = s * sigmoid(-u)
        s3 = s2 * (1 - 2 * s)
        s4 = s2 * (1 - 6 * s2)
        s5 = s3 * (1 - 12 * s2)
        value = softplus(u) * m0 + a2 * s2 * m2 + a3 * s3 * m3 + a4 * s4 * m4
        # d/db raises every derivative by one; d/da multiplies by z = mean + d: the mean times d/db (`slope`), and d
        # raises every moment by one (`along`). The Hessian follows in the same way.
        slope = s * m0 + a2 * s3 * m2 + a3 * s4 * m3 + a4 * s5 * m4
        along = a * s2 * m2 + a2 * s3 * m3 + a3 * s4 * m4
        bend = s2 * m0 + a2 * s4 * m2
        bend_along = a * s3 * m2 + a2 * s4 * m3
        bend_twice = s2 * m2 + a * s3 * m3 + a2 * s4 * m4
        square = z * z * bend + 2 * z * bend_along + bend_twice
        return value, z * slope + along, slope, square, z * bend + bend_along, bend


Powers: TypeAlias = "tuple[FloatArray | float, ...]"
"""a, and its powers as Taylor's series has them."""


def _powers(a: FloatArray | float) -> Powers:
    a = np.asarray(a)[()]  # numbers of Python raise where numpy's become infinite, which makes Newton's method go back
    with np.errstate(over="ignore"):
        return a, a * a / 2, a**3 / 6, a**4 / 24


@dataclass(frozen=True)
class ScoreMoments(Cells):
    """The cells that hold rows, and sums over all rows."""

    weight: float
    weight_positive: float
    """`weight`, `weight_positive`: total weight, and that of the rows with y = 1."""

    score: float
    score_positive: float
    """`score`, `score_positive`: sums of w z over all rows, and over those with y = 1."""

    @classmethod
    def of(cls, sums: Mapping[str, FloatArray]) -> ScoreMoments:
        """From the sums of `gather`: cells that hold rows, with moments about their means."""
        filled = sums["all"][0] > 0
        moments, (y0, y1), centre = sums["all"][:, filled], sums["positive"][:, filled], _CENTRES[filled]
        cells = Cells.of_sums(centre, moments)
        return cls(
            cells.mean,
            cells.moments,
            cells.width,
            weight=float(moments[0].sum()),
            weight_positive=float(y0.sum()),
            score=float((moments[0] * centre + moments[1]).sum()),
            score_positive=float((y0 * centre + y1).sum()),
        )

    @property
    def spread(self) -> float:
        """The standard deviation of the score."""
        m0, m2, _, _ = self.moments
        about = self.mean - self.score / self.weight
        return float(np.sqrt((m2 + about**2 * m0).sum() / self.weight))

    def coarseness(self, a: float) -> float:
        """The most that a z varies within half a cell; 0 where every cell holds a single score."""
        return abs(a) * float(self.extent.max()) / 2

    def softplus(self, a: float, b: float) -> Expansion:
        """The sum over rows of w ln(1 + exp(a z + b)), expanded in (a, b)."""
        value, by_a, by_b, square, cross, bend = (float(each.sum()) for each in self.summands(_powers(a), b))
        return Expansion(value, np.array([by_a, by_b]), np.array([[square, cross], [cross, bend]]))


@dataclass(frozen=True)
class GroupMoments:
    """The cells of groups of rows, those of one group after those of another, and sums over the rows of each."""

    cells: Cells
    first: IntArray
    """The first cell of each group."""

    weight: FloatArray
    weight_positive: FloatArray
    score: FloatArray
    score_positive: FloatArray
    """As in `ScoreMoments`."""

    @classmethod
    def of(cls, z: FloatArray, label: IntArray, groups: Sequence[Group]) -> GroupMoments:
        """From rows of the groups, each of which has some weight."""
        z, count = np.clip(z, -LIMIT, LIMIT), len(_CENTRES)
        cell = _cell_of(z)
        offset, positive = z - _CENTRES[cell], label == 1
        rows, weight = (np.concatenate(parts) for parts in zip(*groups, strict=True))
        key = cell[rows] + np.repeat(count * np.arange(len(groups)), [len(group.rows) for group in groups])
        # Few of all cells hold rows: these are numbered anew.
        filled = np.flatnonzero(totals(key, weight, count * len(groups)) > 0.0)
        number = np.zeros(count * len(groups), dtype=np.int64)
        number[filled] = np.arange(len(filled))
        place, term, offset = number[key], weight, offset[rows]
        moments = np.empty((ORDER + 1, len(filled)))
        for order in range(ORDER + 1):
            moments[order] = totals(place, term, len(filled))
            term = term * offset
        chosen = np.flatnonzero(positive[rows])
        place, weight, offset = place[chosen], weight[chosen], offset[chosen]
        y0, y1 = totals(place, weight, len(filled)), totals(place, weight * offset, len(filled))
        centre, first = _CENTRES[filled % count], np.searchsorted(filled, count * np.arange(len(groups)))
        sums = (moments[0], y0, moments[0] * centre + moments[1], y0 * centre + y1)
        return cls(Cells.of_sums(centre, moments), first, *(np.add.reduceat(each, first) for each in sums))

    @property
    def spread(self) -> FloatArray:
        """The standard deviation of the scores of each group."""
        m0, m2, _, _ = self.cells.moments
        about = self.cells.mean - self._of_cells(self.score / self.weight)
        return np.sqrt(np.add.reduceat(m2 + about**2 * m0, self.first) / self.weight)

    def coarseness(self, a: FloatArray) -> FloatArray:
        """For each group the most that a z varies within half a cell."""
        return np.abs(a) * np.maximum.reduceat(self.cells.extent, self.first) / 2

    def softplus(self, a: FloatArray, b: FloatArray) -> Expansions:
        """For each group the sum over its rows of w ln(1 + exp(a z + b)), expanded in (a, b)."""
        powers = tuple(map(self._of_cells, _powers(a)))
        summands = self.cells.summands(powers, self._of_cells(b))
        value, by_a, by_b, square, cross, bend = (np.add.reduceat(each, self.first) for each in summands)
        hessian = np.stack([square, cross, cross, bend], axis=1).reshape(-1, 2, 2)
        return Expansions(value, np.stack([by_a, by_b], axis=1), hessian)

    def _of_cells(self, values: FloatArray | float) -> FloatArray:
        """The value of its group for each cell."""
        return np.repeat(values, np.diff(self.first, append=len(self.cells.mean)))


def softplus_of_rows(z: FloatArray, weight: FloatArray, a: float, b: float) -> Expansion:
    """The sum over rows of w ln(1 + exp(a z + b)), row by row."""
    u = a * z + b
    s = sigmoid(u)
    bend = weight * s * sigmoid(-u)
    cross = float(bend @ z)
    return Expansion(
        value=float(weight @ softplus(u)),
        gradient=np.array([float((weight * s) @ z), float(weight @ s)]),
        hessian=np.array([[float(bend @ z**2), cross], [cross, float(bend.sum())]]),
    )
