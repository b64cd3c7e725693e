"""Multinomial logistic regression with few classes: softmax(X W^T) with a quadratic penalty on each coefficient.

The last column of X is the constant. Some coefficients can be held at 0, so that vector scaling is the same problem
with a diagonal. Newton's method, which ends at the exact minimum, up to `EXACT` free coefficients. Above them the
Hessian is not formed: conjugate gradients find each Newton step, in coordinates of each class in which its own part of
the Hessian is about the identity, so that they need few products with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, spans
from calcli.errors import FitError
from calcli.numeric.links import LEAST
from calcli.numeric.solve import Expand, Expansion, newton
from calcli.numeric.threads import one_thread_of_algebra

EXACT = 240
"""Up to so many coefficients the Hessian is formed: 15 classes with all their pairs."""

QUICK = 60
"""Above so many, conjugate gradients are the faster way to a rough answer."""

_ROWS = 2048
"""Rows whose probabilities are computed at a time: few enough for the cache."""

_BLOCK = 1 << 22
"""Multiplications that are done at a time: few enough for the cache."""

_CURVED_BY = 10_000
"""The coordinates of each class follow from about so many rows: they need not be exact."""

_NOTHING = 1e-30
"""A probability below this is 0 to a product in float32: with numbers that have lost digits processors are slow."""

_RIDGE = 1e-3
"""The part of its diagonal that is added to this curvature: directions without any keep a bounded step."""

_ALIKE = 1e-3
"""Where no probability has moved by more, the last Hessian is as good: a step then leaves about this share of the way,
and a new Hessian costs more than several steps."""


def with_constant(x: FloatArray) -> FloatArray:
    """The features with a column of ones at the end."""
    return np.column_stack([x, np.ones(len(x))])


def linear(x: FloatArray, coefficients: FloatArray) -> FloatArray:
    """X W^T + b for coefficients [W, b], feature by feature.

    A matrix product may round a row differently depending on how many others are beside it; this does not.
    """
    u = np.repeat(coefficients[None, :, -1], len(x), axis=0)
    for feature in range(x.shape[1]):
        u += x[:, feature, None] * coefficients[:, feature]
    return u


@dataclass(frozen=True)
class Multinomial:
    """Multinomial log-loss of rows with a penalty, to be minimised.

    The mean log-loss against targets (1 - smoothing) y + smoothing / K, plus the sum of penalty (W - centre)^2.
    """

    x: FloatArray
    """Features with the constant, shape (n, D)."""

    label: IntArray
    weight: FloatArray
    free: NDArray[np.bool_]
    """Which of the (K, D) coefficients are fitted; the others are 0."""

    penalty: FloatArray
    centre: FloatArray
    """`penalty`, `centre`: shape (K, D)."""

    smoothing: float = 0.0

    def minimise(self, start: FloatArray) -> FloatArray:
        """The coefficients of least loss, shape (K, D), to rounding where the Hessian can be formed."""
        with one_thread_of_algebra():
            if int(self.free.sum()) > EXACT:
                return self._conjugate_gradients(start, 1e-9)
            return self._whole(newton(self._expander(), start[self.free]))

    def near_minimum(self, start: FloatArray) -> FloatArray:
        """The coefficients of least loss to as many digits as a choice between penalties needs, which is faster."""
        with one_thread_of_algebra():
            if int(self.free.sum()) > QUICK:
                return self._conjugate_gradients(start, 1e-3)
            return self._whole(newton(self._expander(), start[self.free], tolerance=1e-6))

    @cached_property
    def _share(self) -> FloatArray:
        """The share of each row in all weight."""
        return np.asarray(self.weight / self.weight.sum())

    def _whole(self, part: FloatArray) -> FloatArray:
        whole = np.zeros(self.free.shape)
        whole[self.free] = part
        return whole

    def _aim(self) -> FloatArray:
        """The mean over rows of target times feature."""
        classes = len(self.free)
        own = np.zeros(self.free.shape)
        for k in range(classes):
            chosen = self.label == k
            own[k] = self.weight[chosen] @ self.x[chosen]
        all_rows = self.weight @ self.x
        mixed: FloatArray = (1.0 - self.smoothing) * own + self.smoothing / classes * all_rows
        mixed /= self.weight.sum()
        return mixed

    def _loss(self, whole: FloatArray, aim: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient, and the probabilities."""
        p = np.empty((len(self.x), len(self.free)))
        normaliser, mean = 0.0, np.zeros(self.free.shape)
        for rows in spans(len(p), _ROWS):
            x, share, q = self.x[rows], self._share[rows], p[rows]
            np.matmul(x, whole.T, out=q)
            most = q.max(axis=1, keepdims=True)
            q -= most
            np.exp(q, out=q)
            sums = q.sum(axis=1, keepdims=True)
            q /= sums
            normaliser += float(share @ (most + np.log(sums))[:, 0])  # ln of the sum of exp(u)
            mean += (q * share[:, None]).T @ x
        off = whole - self.centre
        value = normaliser - float((aim * whole).sum()) + float((self.penalty * off**2).sum())
        return value, mean - aim + 2.0 * self.penalty * off, p

    def _expander(self) -> Expand:
        aim = self._aim()
        hessian, formed_at = np.empty(0), np.full((len(self.x), len(self.free)), np.inf)

        def expand(part: FloatArray) -> Expansion:
            nonlocal hessian, formed_at
            value, gradient, p = self._loss(self._whole(part), aim)
            if not np.abs(p - formed_at).max() <= _ALIKE:
                hessian, formed_at = self._hessian(p), p
            return Expansion(value, gradient[self.free], hessian)

        return expand

    def _hessian(self, p: FloatArray) -> FloatArray:
        """Mean of p_k ([k = l] - p_l) x_i x_j over rows, for free coefficients (k, i) and (l, j)."""
        of_class, of_feature = np.nonzero(self.free)
        count, (classes, features) = len(of_class), self.free.shape
        within, across = np.zeros((classes, features * features)), np.zeros((count, count))
        block = max(64, _BLOCK // count**2)
        for start in range(0, len(p), block):
            rows = slice(start, start + block)
            x, q, of_row = self.x[rows], p[rows], self._share[rows, None]
            within += (q * of_row).T @ (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
            cross = ((q * np.sqrt(of_row))[:, :, None] * x[:, None, :]).reshape(len(x), -1)[:, self.free.ravel()]
            across += cross.T @ cross
        same = within.reshape(classes, features, features)[of_class[:, None], of_feature[:, None], of_feature]
        hessian: FloatArray = np.where(of_class[:, None] == of_class, same, 0.0) - across
        hessian[np.diag_indices(count)] += 2.0 * self.penalty[self.free]
        return hessian

    def _conjugate_gradients(self, start: FloatArray, tolerance: float) -> FloatArray:
        """Newton steps within a trust region, until the gradient in the moved coordinates is shorter than this."""
        from scipy.optimize import minimize

        aim, shape, x = self._aim(), (len(self.free), 1, -1), self.x.astype(np.float32)
        step = self._inverse_factors(self._loss(start, aim)[2])
        at, near = np.empty(0), np.empty(0, np.float32)  # where it was computed last, and the probabilities there

        def whole(moved: FloatArray) -> FloatArray:
            return (moved.reshape(shape) @ step)[:, 0]

        def in_moved(gradient: FloatArray) -> FloatArray:
            return (step @ gradient[:, :, None]).ravel()

        def value_and_gradient(moved: FloatArray) -> tuple[float, FloatArray]:
            nonlocal at, near
            value, gradient, p = self._loss(start + whole(moved), aim)
            at, near = moved.copy(), p.astype(np.float32)
            near[near < _NOTHING] = 0.0
            return value, in_moved(gradient)

        def hessian_product(moved: FloatArray, direction: FloatArray) -> FloatArray:
            if not np.array_equal(moved, at):  # a step was tried since then, and refused
                value_and_gradient(moved)
            return in_moved(self._times_hessian(x, near, whole(direction)))

        result = minimize(
            value_and_gradient,
            np.zeros(start.size),
            jac=True,
            hessp=hessian_product,
            method="trust-ncg",
            options={"gtol": tolerance},
        )
        if not np.isfinite(result.fun):
            raise FitError("the fit of the classes' coefficients did not stay finite")
        return start + whole(np.asarray(result.x, dtype=np.float64))

    def _times_hessian(self, x: NDArray[np.float32], p: NDArray[np.float32], direction: FloatArray) -> FloatArray:
        """The product of the Hessian with a direction, in the precision that a direction of descent needs."""
        toward = np.ascontiguousarray(direction.T, dtype=np.float32)
        share = self._share.astype(np.float32)[:, None]
        product: FloatArray = 2.0 * self.penalty * direction
        for rows in spans(len(p), _ROWS):
            change = p[rows] * (x[rows] @ toward)
            change -= p[rows] * change.sum(axis=1, keepdims=True)
            change *= share[rows]
            product += change.T @ x[rows]
        return product

    def _inverse_factors(self, p: FloatArray) -> FloatArray:
        """For each class R with R^T R = H^-1, H its own part of the Hessian; 0 for coefficients that are held at 0."""
        classes, features = self.free.shape
        some = slice(None, None, max(1, len(p) // _CURVED_BY))
        q, weight = p[some], self.weight[some]
        share = (q * (1.0 - q) * (weight / weight.sum())[:, None]).astype(np.float32)
        x = self.x[some].astype(np.float32)
        curve = np.zeros((classes, features * features))
        for rows in spans(len(x), max(1, _BLOCK // features**2)):
            here = x[rows]
            curve += share[rows].T @ (here[:, :, None] * here[:, None, :]).reshape(len(here), -1)
        curve = curve.reshape(classes, features, features) + 2.0 * self.penalty[:, :, None] * np.eye(features)
        diagonal = np.diagonal(curve, axis1=1, axis2=2)
        scale = np.sqrt(np.maximum(diagonal, max(1e-12 * float(diagonal.max()), LEAST)))
        both = self.free[:, :, None] & self.free[:, None, :]
        scaled = np.where(both, curve / (scale[:, :, None] * scale[:, None, :]), 0.0)
        scaled[:, range(features), range(features)] = 1.0 + _RIDGE
        inverse = np.linalg.inv(np.linalg.cholesky(scaled)) / scale[:, None, :]
        return np.where(both, inverse, 0.0)
