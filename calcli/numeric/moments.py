"""What a table of log-odds scores adds up to.

Fitting a smooth map of one score needs, at every step of Newton's method, sums over all rows of smooth functions of
the score. The log-odds axis is cut into narrow cells, and each cell keeps the first moments of its rows about its
centre; a smooth function is then summed by its Taylor series around the centres. Cells are 1/128 wide near 0 and grow
with the score (they are even on the asinh axis). The error that this leaves in the fitted numbers is below 1e-9 for
slopes up to 10, and a hundred million rows fit in 250 kB that add up across chunks, threads and machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.numeric.links import sigmoid, softplus
from calcli.numeric.solve import Expansion

CELLS_PER_UNIT = 128
LIMIT = 1e6
"""Log-odds beyond this are held at it while fitting; a probability has long been 0 or 1 there."""

ORDER = 4
"""The highest moment kept."""

_HALF = int(np.ceil(np.arcsinh(LIMIT) * CELLS_PER_UNIT)) + 1
_CENTRES = np.sinh((np.arange(2 * _HALF) - _HALF + 0.5) / CELLS_PER_UNIT)


def gather(z: FloatArray, label: IntArray, weight: FloatArray | None) -> dict[str, FloatArray]:
    """The moments of these rows: ``all`` of order 0 .. 4 of every row, ``positive`` of order 0 and 1 where y = 1."""
    z = np.clip(z, -LIMIT, LIMIT)
    cell = (np.floor(np.arcsinh(z) * CELLS_PER_UNIT) + _HALF).astype(np.int64)
    offset = z - _CENTRES[cell]
    cells = len(_CENTRES)
    moments = np.empty((ORDER + 1, cells))
    moments[0] = np.bincount(cell, weight, minlength=cells)
    term = offset.copy() if weight is None else weight * offset
    for order in range(1, ORDER + 1):
        moments[order] = np.bincount(cell, term, minlength=cells)
        term *= offset
    chosen = label == 1
    cell, offset = cell[chosen], offset[chosen]
    positive = np.empty((2, cells))
    if weight is None:
        positive[0] = np.bincount(cell, minlength=cells)
    else:
        weight = weight[chosen]
        positive[0] = np.bincount(cell, weight, minlength=cells)
        offset *= weight
    positive[1] = np.bincount(cell, offset, minlength=cells)
    return {"all": moments, "positive": positive}


@dataclass(frozen=True)
class ScoreMoments:
    """The cells that hold rows.

    Attributes
    ----------
    centre
        The middle of each cell on the log-odds axis.
    moments
        Sums of w d^j, j = 0 .. 4, with d the distance to the centre.
    weight, weight_positive
        Total weight, and that of the rows with y = 1.
    score, score_positive
        Sums of w z over all rows, and over those with y = 1.
    """

    centre: FloatArray
    moments: FloatArray
    weight: float
    weight_positive: float
    score: float
    score_positive: float

    @classmethod
    def of(cls, sums: Mapping[str, FloatArray]) -> ScoreMoments:
        """From what `gather` gave, added up."""
        moments, positive = sums["all"], sums["positive"]
        held = moments[0] > 0
        return cls(
            centre=_CENTRES[held],
            moments=moments[:, held],
            weight=float(moments[0].sum()),
            weight_positive=float(positive[0].sum()),
            score=float((moments[0] * _CENTRES + moments[1]).sum()),
            score_positive=float((positive[0] * _CENTRES + positive[1]).sum()),
        )

    @property
    def spread(self) -> float:
        """The standard deviation of the score."""
        if self.weight <= 0:
            return 0.0
        mean = self.score / self.weight
        about = self.centre - mean
        square = self.moments[2] + 2 * about * self.moments[1] + about**2 * self.moments[0]
        return float(np.sqrt(max(square.sum() / self.weight, 0.0)))

    def softplus(self, a: float, b: float) -> Expansion:
        """The sum over rows of w ln(1 + exp(a z + b)), expanded in (a, b)."""
        m = self.moments
        u = a * self.centre + b
        s = sigmoid(u)
        # Derivatives of softplus at u, of order 1 to 5. s2 is written so that it keeps its digits where s is near 1.
        s2 = s * sigmoid(-u)
        s3 = s2 * (1 - 2 * s)
        s4 = s2 * (1 - 6 * s2)
        s5 = s3 * (1 - 12 * s2)
        a2, a3, a4 = a * a / 2, a**3 / 6, a**4 / 24
        value = softplus(u) * m[0] + a * s * m[1] + a2 * s2 * m[2] + a3 * s3 * m[3] + a4 * s4 * m[4]
        # d/db raises every derivative by one; d/da does the same for the centre and adds what multiplies d.
        slope = s * m[0] + a * s2 * m[1] + a2 * s3 * m[2] + a3 * s4 * m[3] + a4 * s5 * m[4]
        along = s * m[1] + a * s2 * m[2] + a2 * s3 * m[3] + a3 * s4 * m[4]
        bend = s2 * m[0] + a * s3 * m[1] + a2 * s4 * m[2]
        bend_along = s2 * m[1] + a * s3 * m[2] + a2 * s4 * m[3]
        bend_twice = s2 * m[2] + a * s3 * m[3] + a2 * s4 * m[4]
        c = self.centre
        cross = float((c * bend + bend_along).sum())
        square = float((c * c * bend + 2 * c * bend_along + bend_twice).sum())
        return Expansion(
            value=float(value.sum()),
            gradient=np.array([float((c * slope + along).sum()), float(slope.sum())]),
            hessian=np.array([[square, cross], [cross, float(bend.sum())]]),
        )
