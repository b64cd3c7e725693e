"""The mean residuals of a calibrator on held-out rows at its fit, with which the drift test compares later rows.

Residuals (label minus probability) are averaged in several directions: functions of the standardised log-odds, along
which calibration can drift. That takes two passes of sums: `LogOdds` for the standardisation, then `Products`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, LabelArray
from calcli.numeric.e_process import DIRECTIONS, directions
from calcli.numeric.links import logit
from calcli.state import Json, added

_FORGIVEN = 2.0
"""The standard errors of the mean residual at the fit that are tolerated."""


@dataclass(frozen=True, slots=True)
class LogOdds:
    """Sums of w, w z and w z^2 over rows with log-odds z and weight w; shape (residuals, 3), see `each_class`."""

    sums: FloatArray

    __add__ = added

    @classmethod
    def empty(cls, classes: int) -> LogOdds:
        """The sums over no rows."""
        return cls(np.zeros((classes, 3)))

    @classmethod
    def of(cls, prob: FloatArray, label: LabelArray, weight: FloatArray) -> LogOdds:
        """The sums over these rows."""
        total = weight.sum()
        return cls(np.array([[total, weight @ z, weight @ z**2] for z, _ in each_class(prob, label)]))

    @property
    def centre(self) -> FloatArray:
        """The mean of the log-odds."""
        return np.asarray(self.sums[:, 1] / self.sums[:, 0])

    @property
    def spread(self) -> FloatArray:
        """Their standard deviation, at least 0.001."""
        variance = self.sums[:, 2] / self.sums[:, 0] - self.centre**2
        return np.asarray(np.maximum(np.sqrt(np.maximum(variance, 0.0)), 1e-3))


@dataclass(frozen=True, slots=True)
class Products:
    """Sums over rows of products d of residual and direction: of w d, w^2 d^2, w^2 d; and of w, w^2.

    Shapes (residuals, 3, directions) and (2,).
    """

    sums: FloatArray
    weight: FloatArray

    __add__ = added

    @classmethod
    def empty(cls, classes: int) -> Products:
        """The sums over no rows."""
        return cls(np.zeros((classes, 3, len(DIRECTIONS))), np.zeros(2))

    @classmethod
    def of(cls, prob: FloatArray, label: LabelArray, weight: FloatArray, scale: LogOdds) -> Products:
        """The sums over these rows; `scale` must be over all rows."""
        sums = []
        for (z, residual), centre, spread in zip(each_class(prob, label), scale.centre, scale.spread, strict=True):
            products = directions(z, centre, spread) * residual
            sums.append([products @ weight, products**2 @ weight**2, products @ weight**2])
        return cls(np.array(sums), np.array([weight.sum(), weight @ weight]))


@dataclass(frozen=True, slots=True)
class DriftBaseline:
    """The mean residuals of a calibrator on rows that it had not seen."""

    centre: FloatArray
    spread: FloatArray
    """`centre`, `spread`: the mean of the log-odds, and their standard deviation."""

    mean: FloatArray
    error: FloatArray
    """`mean`, `error`: the mean residual in each direction, and its standard error; shape (residuals, directions)."""

    @classmethod
    def of(cls, prob: FloatArray, label: LabelArray, weight: FloatArray | None) -> DriftBaseline:
        """From held-out rows."""
        share = np.ones(len(label)) if weight is None else weight
        share = share / share.sum()
        scale = LogOdds.of(prob, label, share)
        return cls.of_sums(scale, Products.of(prob, label, share, scale))

    @classmethod
    def of_sums(cls, scale: LogOdds, products: Products) -> DriftBaseline:
        """From sums over held-out rows."""
        weight, square = products.weight
        first, squares, squared = (products.sums[:, place] for place in range(3))
        mean = first / weight
        deviations = squares - 2.0 * mean * squared + mean**2 * square  # the sum of w^2 (d - mean)^2
        return cls(scale.centre, scale.spread, mean, np.sqrt(np.maximum(deviations, 0.0)) / weight)

    @property
    def margin(self) -> FloatArray:
        """How far above 0, and below, later rows' mean residual in each direction does not count as drift.

        Shape (residuals, directions, 2).
        """
        either = np.stack([self.mean, -self.mean], axis=-1)
        return np.asarray(np.maximum(either + _FORGIVEN * self.error[..., None], 0.0))

    def to_json(self) -> dict[str, Json]:
        return {name: getattr(self, name).tolist() for name in self.__match_args__}

    @classmethod
    def from_json(cls, kept: Json) -> DriftBaseline | None:
        """The inverse of `to_json`; None for anything else."""
        if not isinstance(kept, dict) or not kept.keys() >= set(cls.__match_args__):
            return None
        return cls(*(np.array(kept[name], dtype=np.float64) for name in cls.__match_args__))


def each_class(prob: FloatArray, label: LabelArray) -> list[tuple[FloatArray, FloatArray]]:
    """Log-odds and residuals of the positive class of two, or of each of more classes against the rest."""
    if prob.ndim == 1:
        return [(logit(prob), label - prob)]
    return [(logit(prob[:, index]), (label == index) - prob[:, index]) for index in range(prob.shape[1])]
