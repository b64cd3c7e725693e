"""Minimising smooth convex functions of a few variables, roots on the line; Taylor series and natural cubic splines.

A jet is a function's Taylor coefficients around many points at once: an array of shape (order + 1, points) whose row k
holds the k-th derivative divided by k!. Sums over rows of a smooth function follow from the jets around the means of
narrow cells and the moments of the rows within them (see `curves`).

Natural cubic splines are given by their values at the knots (Green & Silverman 1994, chapter 2). Between knots the
curve is a cubic, beyond the outermost it is straight. Its second derivatives at the inner knots follow linearly from
the values, R gamma = Q^T g, and the integral of its squared second derivative is g^T Q R^-1 Q^T g.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.errors import FitError
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


_STEPS = 200

_STALLS = 3
"""Steps without a lower value after which the search ends."""

_FLAT = 1e-4
"""Of a function whose curvature along each variable is scaled to one, a direction counts as flat if the root of the
curvature along it is less.
"""

_STRAIGHT = 1e-200
"""A function does not bend along a direction in which its curvature is less: a step there would overflow."""


class Expansion(NamedTuple):
    """A function around one point: value, gradient, Hessian."""

    value: float
    gradient: FloatArray
    hessian: FloatArray


Expand = Callable[[FloatArray], Expansion]


class Expansions(NamedTuple):
    """Functions, each around a point of its own; the first axis of each array is that of the functions."""

    value: FloatArray
    gradient: FloatArray
    hessian: FloatArray


def newton(expand: Expand, start: FloatArray, *, tolerance: float = 1e-12) -> FloatArray:
    """The minimiser of a convex function; see `minimum`."""
    return minimum(expand, start, tolerance=tolerance)[0]


def minimum(expand: Expand, start: FloatArray, *, tolerance: float = 1e-12) -> tuple[FloatArray, Expansion]:
    """The minimiser of a convex function and the function around it.

    Newton's method with a backtracking line search.
    The Hessian gets just enough of its own diagonal to be invertible, so that a direction the data say nothing about
    is left where it starts. The search ends when the Newton decrement, which bounds how much there is still to gain,
    falls below `tolerance` relative to the value.
    """
    x = start
    here = expand(x)
    stalled = 0
    for _ in range(_STEPS):
        step = _direction(here)
        decrement = -float(here.gradient @ step)
        if decrement <= tolerance * tolerance * (1.0 + abs(here.value)):
            return x, here
        x, there, moved = _backtrack(expand, x, here, step, decrement)
        # Near the minimum the value is flat to rounding while steps still add digits: a few are taken, not endlessly.
        stalled = 0 if there.value < here.value else stalled + 1
        here = there
        if not moved or stalled == _STALLS:
            return x, here
    raise FitError(f"Newton's method did not converge in {_STEPS} steps")


def newton_each(
    expand: Callable[[FloatArray], Expansions], start: FloatArray, *, tolerance: float = 1e-12
) -> FloatArray:
    """The minimisers of convex functions, a row for each, all found side by side as `newton` finds them.

    Only whole steps are made: NaN stands for a minimiser on whose way `newton` would shorten one, or where a direction
    does not bend.
    """
    x, here = start, expand(start)
    going, lost = np.ones(len(x), dtype=np.bool_), np.zeros(len(x), dtype=np.bool_)
    stalled = np.zeros(len(x), dtype=np.int64)
    for _ in range(_STEPS):
        step, bends = _directions(here)
        decrement = -(here.gradient * step).sum(axis=1)
        size = 1.0 + np.abs(here.value)
        lost |= going & ~bends
        going &= bends & ~(decrement <= tolerance * tolerance * size) & (stalled < _STALLS)
        if not going.any():
            break
        candidate = np.where(going[:, None], x + step, x)
        there = expand(candidate)
        rounding = 4.0 * float(np.finfo(np.float64).eps) * size
        lower = there.value <= here.value - 1e-4 * decrement + rounding
        lost |= going & ~lower
        going &= lower
        stalled = np.where(there.value < here.value, 0, stalled + 1)
        x, here = candidate, there
    return np.where((lost | going)[:, None], np.nan, x)


def _directions(here: Expansions) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The Newton steps, and which of the functions safely bend in every direction; no step for others."""
    scale = np.sqrt(np.maximum(np.diagonal(here.hessian, axis1=1, axis2=2), _STRAIGHT))
    scaled = here.hessian / (scale[:, :, None] * scale[:, None, :])
    finite = np.isfinite(scaled).all(axis=(1, 2)) & np.isfinite(here.gradient).all(axis=1)
    scaled[~finite] = 0.0
    bends = finite & (np.linalg.eigvalsh(scaled)[:, 0] > _FLAT**2)
    scaled[~bends] = np.eye(scaled.shape[1])
    toward = np.where(bends[:, None], here.gradient / scale, 0.0)
    return -np.linalg.solve(scaled, toward[:, :, None])[:, :, 0] / scale, bends


def refined(expand: Expand, x: FloatArray) -> FloatArray:
    """A minimiser from nearby to as many digits as the gradient has: Newton's steps while they get shorter."""
    last = np.inf
    while (size := float(np.abs(step := _direction(expand(x))).max())) < last:
        x, last = x + step, size
    return x


def _direction(here: Expansion) -> FloatArray:
    """The Newton step, along the directions in which the function bends at all."""
    scale = np.sqrt(np.maximum(np.diag(here.hessian), _STRAIGHT))
    scaled = here.hessian / np.outer(scale, scale)
    if _bends_everywhere(scaled):
        return -np.linalg.solve(scaled, here.gradient / scale) / scale
    values, vectors = np.linalg.eigh(scaled)
    usable = values > 1e-14 * max(float(values[-1]), 1.0)
    inverse = np.where(usable, 1.0 / np.where(usable, values, 1.0), 0.0)
    return -(vectors @ (inverse * (vectors.T @ (here.gradient / scale)))) / scale


def _bends_everywhere(scaled: FloatArray) -> bool:
    """Whether a matrix with a diagonal of ones is safely positive definite.

    Told by its Cholesky factor, because eigenvalues take ten times as long, and a hundred times where the threads of
    the linear algebra library have to share their cores.
    """
    try:
        factor = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return False
    return bool(np.diag(factor).min() > _FLAT)


def _backtrack(
    expand: Expand, x: FloatArray, here: Expansion, step: FloatArray, decrement: float
) -> tuple[FloatArray, Expansion, bool]:
    """Halve the step until the value falls enough (Armijo), as far as rounding lets one see that."""
    length = 1.0
    rounding = 4.0 * float(np.finfo(np.float64).eps) * (1.0 + abs(here.value))
    while length > 1e-16:
        candidate = x + length * step
        there = expand(candidate)
        if np.isfinite(there.value) and there.value <= here.value - 1e-4 * length * decrement + rounding:
            return candidate, there, True
        length /= 2
    return x, here, False


def root_between(
    slope: Callable[[float], tuple[float, float]], low: float, high: float, start: float, *, tolerance: float = 1e-13
) -> float:
    """Where an increasing function of a positive variable is zero: Newton's method, held inside a shrinking bracket.

    `slope` gives the function and its derivative. A function that stays negative has its root at `high`, one that
    stays positive at `low`, and one that is zero at `start` keeps `start`. Where Newton's steps do not get shorter
    (the tail of an exponential gives steps of one length for ever), the bracket is halved in between.
    """
    x = start
    last = np.inf
    for _ in range(200):
        value, derivative = slope(x)
        if value == 0.0:
            return x
        if value > 0:
            high = x
        else:
            low = x
        step = x - value / derivative if derivative > 0 else np.nan
        if abs(step - x) <= tolerance * abs(x):  # where rounding leaves no bracket to be inside of
            return x
        inside = low < step < high and abs(step - x) <= 0.5 * last
        # Without a usable Newton step the bracket is halved on the log scale, on which temperatures live.
        following = float(step) if inside else float(np.sqrt(low * high))
        last = abs(following - x)
        if last <= tolerance * abs(x) or high - low <= tolerance * high:
            return following
        x = following
    raise FitError("the search for the temperature did not converge")


def newton_nonnegative(expand: Expand, start: FloatArray, bounded: tuple[int, ...]) -> FloatArray:
    """The minimiser with ``x[i] >= 0`` for the few i in `bounded`.

    If the free minimum violates a bound, the answer lies on a face where some of the bounded variables are 0. With one
    or two of them there are at most three faces: each is minimised, and the lowest that violates nothing wins. The
    function is convex, so that no face with more zeros can be lower than a valid one with fewer.
    """
    for zeros in range(len(bounded) + 1):
        faces = itertools.combinations(bounded, zeros)
        valid = [x for x in (_on_face(expand, start, face) for face in faces) if (x[list(bounded)] >= 0).all()]
        if valid:
            return min(valid, key=lambda x: expand(x).value)
    return start  # unreachable: the face on which all are 0 violates nothing


def _on_face(expand: Expand, start: FloatArray, zero: tuple[int, ...]) -> FloatArray:
    """The minimiser with the variables `zero` held at 0."""
    free = np.setdiff1d(np.arange(len(start)), zero)

    def whole(part: FloatArray) -> FloatArray:
        x = np.zeros(len(start))
        x[free] = part
        return x

    def on_face(part: FloatArray) -> Expansion:
        value, gradient, hessian = expand(whole(part))
        return Expansion(value, gradient[free], hessian[np.ix_(free, free)])

    return whole(newton(on_face, start[free]))
