"""Multinomial logistic regression with few classes: softmax(X W^T) with a quadratic penalty on each coefficient.

The last column of X is the constant. Some coefficients can be held at 0, so that vector scaling is the same problem
with a diagonal. Newton's method, which ends at the exact minimum, up to `EXACT` free coefficients; L-BFGS above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray
from calcli.errors import FitError
from calcli.numeric.links import log_softmax
from calcli.numeric.solve import Expansion, newton

EXACT = 240
"""Up to so many coefficients the Hessian is formed: 15 classes with all their pairs."""

_BLOCK = 1 << 18
"""Multiplications that are done at a time: few enough for the cache, and for BLAS not to wake its threads for them."""


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
    """Rows and what is to be minimised over them.

    The mean log-loss against targets (1 - smoothing) y + smoothing / K, plus the sum of penalty (W - centre)^2.

    Attributes
    ----------
    x
        Features with the constant, shape (n, D).
    free
        Which of the (K, D) coefficients are fitted; the others are 0.
    penalty, centre
        Shape (K, D).
    """

    x: FloatArray
    label: IntArray
    weight: FloatArray
    free: NDArray[np.bool_]
    penalty: FloatArray
    centre: FloatArray
    smoothing: float = 0.0

    def minimise(self, start: FloatArray, tolerance: float = 1e-12) -> FloatArray:
        """The coefficients of least loss, shape (K, D)."""
        if int(self.free.sum()) <= EXACT:
            return self._whole(newton(self._expander(), start[self.free], tolerance=tolerance))
        return self._whole(self._lbfgs(start[self.free], tolerance))

    def _whole(self, part: FloatArray) -> FloatArray:
        whole = np.zeros(self.free.shape)
        whole[self.free] = part
        return whole

    def _aim(self) -> FloatArray:
        """The mean over rows of target times feature."""
        classes = len(self.free)
        own = np.zeros(self.free.shape)
        np.add.at(own, self.label, self.weight[:, None] * self.x)
        all_rows = self.weight @ self.x
        mixed: FloatArray = (1.0 - self.smoothing) * own + self.smoothing / classes * all_rows
        mixed /= self.weight.sum()
        return mixed

    def _loss(self, whole: FloatArray, aim: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient, and the probabilities."""
        u = self.x @ whole.T
        log_p = log_softmax(u)
        p = np.exp(log_p)
        share = self.weight / self.weight.sum()
        normaliser = float(share @ (u[:, 0] - log_p[:, 0]))  # ln of the sum of exp(u)
        off = whole - self.centre
        value = normaliser - float((aim * whole).sum()) + float((self.penalty * off**2).sum())
        gradient = (p * share[:, None]).T @ self.x - aim + 2.0 * self.penalty * off
        return value, gradient, p

    def _expander(self) -> Callable[[FloatArray], Expansion]:
        aim = self._aim()

        def expand(part: FloatArray) -> Expansion:
            value, gradient, p = self._loss(self._whole(part), aim)
            return Expansion(value, gradient[self.free], self._hessian(p))

        return expand

    def _hessian(self, p: FloatArray) -> FloatArray:
        """Mean of p_k ([k = l] - p_l) x_i x_j over rows, for free coefficients (k, i) and (l, j)."""
        classes, size = self.free.shape
        full = np.zeros((classes, size, classes, size))
        share = self.weight / self.weight.sum()
        block = max(64, _BLOCK // (classes * size) ** 2)
        for start in range(0, len(p), block):
            rows = slice(start, start + block)
            x, w, q = self.x[rows], share[rows, None], p[rows]
            cross = (q[:, :, None] * x[:, None, :]).reshape(len(x), -1)
            full -= ((cross * w).T @ cross).reshape(full.shape)
            for k in range(classes):
                full[k, :, k, :] += (x * (w * q[:, k, None])).T @ x
        chosen = self.free.ravel()
        hessian: FloatArray = full.reshape(classes * size, -1)[np.ix_(chosen, chosen)]
        hessian[np.diag_indices_from(hessian)] += 2.0 * self.penalty[self.free]
        return hessian

    def _lbfgs(self, start: FloatArray, tolerance: float) -> FloatArray:
        from scipy.optimize import minimize

        aim = self._aim()

        def value_and_gradient(part: FloatArray) -> tuple[float, FloatArray]:
            value, gradient, _ = self._loss(self._whole(part), aim)
            return value, gradient[self.free]

        options = {"maxiter": 2000, "maxcor": 20, "gtol": tolerance, "ftol": 1e-15}
        found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
        if not np.isfinite(found.fun):
            raise FitError("the fit of the classes' coefficients did not stay finite")
        return np.asarray(found.x, dtype=np.float64)
