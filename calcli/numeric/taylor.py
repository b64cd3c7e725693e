"""Arithmetic of truncated Taylor series.

A jet is a function's Taylor coefficients around many points at once: an array of shape (order + 1, points) whose row k
holds the k-th derivative divided by k!. Sums over rows of a smooth function follow from the jets around the means of
narrow cells and the moments of the rows within them (see `curves`).
"""

from __future__ import annotations

import numpy as np

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
