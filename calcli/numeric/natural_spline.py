"""Natural cubic splines by their values at the knots (Green & Silverman 1994, chapter 2).

Between knots the curve is a cubic, beyond the outermost it is straight. Its second derivatives at the inner knots
follow linearly from the values, R gamma = Q^T g, and the integral of its squared second derivative is g^T Q R^-1 Q^T g.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray


@dataclass(frozen=True)
class NaturalSpline:
    """All natural cubic splines with these knots.

    Attributes
    ----------
    knots
        Rising, at least two.
    pieces
        The cubics as linear functions of the values: ``pieces[j, k] @ values`` is the coefficient of d^k, d the
        distance from the piece's origin. Piece 0 lies below the first knot, piece j starts at knot j - 1.
    roughness
        The matrix of the integral of the squared second derivative.
    """

    knots: FloatArray
    pieces: FloatArray
    roughness: FloatArray

    @classmethod
    def at(cls, knots: FloatArray) -> NaturalSpline:
        count, h = len(knots), np.diff(knots)
        value = np.eye(count)
        q = np.zeros((count, count - 2))
        r = np.zeros((count - 2, count - 2))
        for j in range(count - 2):
            q[j : j + 3, j] = [1 / h[j], -1 / h[j] - 1 / h[j + 1], 1 / h[j + 1]]
            r[j, j] = (h[j] + h[j + 1]) / 3
            if j + 1 < count - 2:
                r[j, j + 1] = r[j + 1, j] = h[j + 1] / 6
        inner = np.linalg.solve(r, q.T) if count > 2 else q.T
        bend = np.vstack([np.zeros(count), inner, np.zeros(count)])  # second derivatives at the knots
        pieces = np.zeros((count + 1, 4, count))
        pieces[1:, 0] = value
        pieces[1:-1, 1] = (value[1:] - value[:-1]) / h[:, None] - h[:, None] * (2 * bend[:-1] + bend[1:]) / 6
        pieces[1:-1, 2] = bend[:-1] / 2
        pieces[1:-1, 3] = (bend[1:] - bend[:-1]) / (6 * h[:, None])
        pieces[0, 0], pieces[0, 1] = value[0], pieces[1, 1]
        pieces[-1, 1] = (value[-1] - value[-2]) / h[-1] + h[-1] * bend[-2] / 6
        return cls(knots, pieces, q @ inner)

    def jets(self, x: FloatArray, order: int) -> FloatArray:
        """The Taylor coefficients around x of what each value is multiplied with, shape (values, order + 1, points)."""
        piece, d = locate(self.knots, x)
        c = np.moveaxis(self.pieces[piece], 0, -1)  # (4, values, points)
        found = np.zeros((c.shape[1], order + 1, len(x)))
        found[:, 0] = c[0] + d * (c[1] + d * (c[2] + d * c[3]))
        for k, derivative in enumerate((c[1] + d * (2 * c[2] + 3 * d * c[3]), c[2] + 3 * d * c[3], c[3]), start=1):
            if k <= order:
                found[:, k] = derivative
        return found

    def monotone(self, values: FloatArray) -> bool:
        """Whether the curve only rises, or only falls."""
        slopes = np.concatenate([self._extreme_slopes(piece) for piece in range(len(self.pieces))] @ values[:, None])
        return bool((slopes >= 0).all() or (slopes <= 0).all())


def locate(knots: FloatArray, x: FloatArray) -> tuple[np.ndarray, FloatArray]:
    """The piece of each x, and its distance from the origin of that piece."""
    raise NotImplementedError
