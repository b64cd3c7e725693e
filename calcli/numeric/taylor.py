"""Truncated Taylor series, and the natural cubic splines that have them.

A jet is a function's Taylor coefficients around many points at once: an array of shape (order + 1, points) whose row k
holds the k-th derivative divided by k!. Sums over rows of a smooth function follow from the jets around the means of
narrow cells and the moments of the rows within them (see `curves`).

Natural cubic splines are given by their values at the knots (Green & Silverman 1994, chapter 2). Between knots the
curve is a cubic, beyond the outermost it is straight. Its second derivatives at the inner knots follow linearly from
the values, R gamma = Q^T g, and the integral of its squared second derivative is g^T Q R^-1 Q^T g.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.numeric import links


def variable(points: FloatArray, order: int) -> FloatArray:
    """The jet of the variable itself."""
    jet = np.zeros((order + 1, len(points)))
    jet[0] = points
    if order > 0:
        jet[1] = 1.0
    return jet


def product(one: FloatArray, other: FloatArray) -> FloatArray:
    """The jet of a product: the Cauchy product, cut off."""
    return np.stack([(one[: k + 1] * other[k::-1]).sum(axis=0) for k in range(len(one))])


def sigmoid(u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The jets of the sigmoid s of u, and of its slope s (1 - s).

    From s' = s (1 - s) u', coefficient by coefficient. 1 - s is kept beside s as sigmoid(-u), so that neither loses its
    digits where the other is near 1.
    """
    s, rest, slope = np.empty_like(u), np.empty_like(u), np.empty_like(u)
    s[0], rest[0] = links.sigmoid(u[0]), links.sigmoid(-u[0])
    slope[0] = s[0] * rest[0]
    for k in range(1, len(u)):
        s[k] = sum(j * u[j] * slope[k - j] for j in range(1, k + 1)) / k
        rest[k] = -s[k]
        slope[k] = (s[: k + 1] * rest[k::-1]).sum(axis=0)
    return s, slope


def softplus(u: FloatArray, s: FloatArray | None = None) -> FloatArray:
    """The jet of ln(1 + exp(u)), whose derivative is s = sigmoid(u) times u'."""
    if s is None:
        s = sigmoid(u)[0]
    jet = np.empty_like(u)
    jet[0] = links.softplus(u[0])
    for k in range(1, len(u)):
        jet[k] = sum(j * u[j] * s[k - j] for j in range(1, k + 1)) / k
    return jet


@dataclass(frozen=True)
class NaturalSpline:
    """All natural cubic splines with these knots."""

    knots: FloatArray
    """Rising, at least three."""

    pieces: FloatArray
    """The cubics as linear functions of the values: ``pieces[j] @ values`` are the coefficients of 1, d, d^2, d^3, d
    the distance from the piece's origin (see `locate`).
    """

    roughness: FloatArray
    """The matrix of the integral of the squared second derivative."""

    @classmethod
    def at(cls, knots: FloatArray) -> NaturalSpline:
        count, h = len(knots), np.diff(knots)
        q, r = np.zeros((count, count - 2)), np.zeros((count - 2, count - 2))
        for j in range(count - 2):
            q[j : j + 3, j] = 1 / h[j], -1 / h[j] - 1 / h[j + 1], 1 / h[j + 1]
            r[j, j] = (h[j] + h[j + 1]) / 3
            if j > 0:
                r[j, j - 1] = r[j - 1, j] = h[j] / 6
        inner = np.linalg.solve(r, q.T)
        bend = np.vstack([np.zeros(count), inner, np.zeros(count)])  # the second derivatives at the knots
        value, wide = np.eye(count), h[:, None]
        pieces = np.zeros((count + 1, 4, count))
        pieces[1:, 0] = value
        pieces[1:-1, 1] = np.diff(value, axis=0) / wide - wide * (2 * bend[:-1] + bend[1:]) / 6
        pieces[1:-1, 2] = bend[:-1] / 2
        pieces[1:-1, 3] = np.diff(bend, axis=0) / (6 * wide)
        pieces[0, :2] = pieces[1, :2]
        pieces[-1, 1] = (value[-1] - value[-2]) / h[-1] + h[-1] * bend[-2] / 6
        return cls(knots, pieces, q @ inner)

    def jets(self, x: FloatArray, order: int) -> FloatArray:
        """The Taylor coefficients around x of what each value is multiplied with, shape (values, order + 1, points)."""
        piece, d = locate(self.knots, x)
        one, first, second, third = np.moveaxis(self.pieces, 1, 0)[:, piece].transpose(0, 2, 1)
        rows = (
            one + d * (first + d * (second + d * third)),
            first + d * (2 * second + 3 * d * third),
            second + 3 * d * third,
            third,
        )
        jets = np.zeros((len(self.knots), order + 1, len(x)))
        for k, row in enumerate(rows[: order + 1]):
            jets[:, k] = row
        return jets

    def is_monotone(self, values: FloatArray) -> bool:
        """Whether the curve only rises, or only falls."""
        first, second, third = (self.pieces @ values)[:, 1:].T
        reach = np.concatenate([[0.0], np.diff(self.knots), [0.0]])
        turn = np.clip(np.divide(-second, 3 * third, out=np.zeros_like(third), where=third != 0), 0.0, reach)
        slopes = [first + d * (2 * second + 3 * d * third) for d in (0.0, reach, turn)]
        return bool(np.min(slopes) >= 0 or np.max(slopes) <= 0)


def locate(knots: FloatArray, x: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """The piece of each x and its distance from that piece's origin.

    Piece 0 lies below the first knot and has its origin there; piece j starts at knot j - 1.
    """
    piece = np.searchsorted(knots, x, side="right")
    return piece, x - knots[np.maximum(piece - 1, 0)]
