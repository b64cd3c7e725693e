"""How calibrated a calibrator was at its fit, kept so that it can be told later whether that has changed.

What the calibrated probabilities were off by on held-out rows, in the directions in which calibration can move, follows
from two passes of sums over the rows: of the log-odds first, which the directions are measured on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, LabelArray
from calcli.numeric.e_process import DIRECTIONS, directions
from calcli.numeric.links import logit
from calcli.state import Json

_FORGIVEN = 2.0
"""Standard errors of the residuals at the fit."""


@dataclass(frozen=True, slots=True)
class LogOdds:
    """Sums of w, w z and w z^2 for each class that has residuals of its own, shape (classes, 3)."""

    sums: FloatArray

    def __add__(self, other: LogOdds) -> LogOdds:
        return LogOdds(self.sums + other.sums)

    @classmethod
    def nothing(cls, classes: int) -> LogOdds:
        """Of no rows."""
        return cls(np.zeros((classes, 3)))

    @classmethod
    def of(cls, prob: FloatArray, label: LabelArray, weight: FloatArray) -> LogOdds:
        """Of these rows."""
        total = weight.sum()
        return cls(np.array([[total, weight @ z, weight @ z**2] for z, _ in each_class(prob, label)]))

    @property
    def centre(self) -> FloatArray:
        """The mean."""
        return np.asarray(self.sums[:, 1] / self.sums[:, 0])

    @property
    def spread(self) -> FloatArray:
        """The standard deviation."""
        variance = self.sums[:, 2] / self.sums[:, 0] - self.centre**2
        return np.asarray(np.maximum(np.sqrt(np.maximum(variance, 0.0)), 1e-3))


@dataclass(frozen=True, slots=True)
class Products:
    """Sums over rows of products of residual and direction d: of w d, w^2 d^2, w^2 d; and of w, w^2.

    Shapes (classes, 3, directions) and (2,).
    """

    sums: FloatArray
    weight: FloatArray

    def __add__(self, other: Products) -> Products:
        return Products(self.sums + other.sums, self.weight + other.weight)

    @classmethod
    def nothing(cls, classes: int) -> Products:
        """Of no rows."""
        return cls(np.zeros((classes, 3, len(DIRECTIONS))), np.zeros(2))

    @classmethod
    def of(cls, prob: FloatArray, label: LabelArray, weight: FloatArray, scale: LogOdds) -> Products:
        """Of these rows; `scale` is of all."""
        found = []
        for (z, residual), centre, spread in zip(each_class(prob, label), scale.centre, scale.spread, strict=True):
            products = directions(z, centre, spread) * residual
            found.append([products @ weight, products**2 @ weight**2, products @ weight**2])
        return cls(np.array(found), np.array([weight.sum(), weight @ weight]))


@dataclass(frozen=True, slots=True)
class DriftBaseline:
    """How calibrated a calibrator was on rows that it had not seen, for each class that has residuals of its own.

    Attributes
    ----------
    centre, spread
        The mean of the log-odds, and their standard deviation.
    mean, error
        The mean residual in each direction, and its standard error; shape (classes, directions).
    """

    centre: FloatArray
    spread: FloatArray
    mean: FloatArray
    error: FloatArray

    @classmethod
    def of(cls, prob: FloatArray, label: LabelArray, weight: FloatArray | None) -> DriftBaseline:
        """On these rows."""
        share = np.ones(len(label)) if weight is None else weight
        share = share / share.sum()
        scale = LogOdds.of(prob, label, share)
        return cls.of_sums(scale, Products.of(prob, label, share, scale))

    @classmethod
    def of_sums(cls, scale: LogOdds, products: Products) -> DriftBaseline:
        """The same from sums over the rows."""
        weight, square = products.weight
        first, squares, squared = (products.sums[:, place] for place in range(3))
        mean = first / weight
        about = squares - 2.0 * mean * squared + mean**2 * square
        return cls(scale.centre, scale.spread, mean, np.sqrt(np.maximum(about, 0.0)) / weight)

    @property
    def margin(self) -> FloatArray:
        """How far off is not yet further off, in each direction."""
        return np.asarray(np.abs(self.mean) + _FORGIVEN * self.error)

    def to_json(self) -> dict[str, Json]:
        return {name: getattr(self, name).tolist() for name in self.__match_args__}

    @classmethod
    def from_json(cls, found: Json) -> DriftBaseline | None:
        """What `to_json` gave; None where there is nothing."""
        if not isinstance(found, dict) or not found.keys() >= set(cls.__match_args__):
            return None
        return cls(*(np.array(found[name], dtype=np.float64) for name in cls.__match_args__))


def each_class(prob: FloatArray, label: LabelArray) -> list[tuple[FloatArray, FloatArray]]:
    """Log-odds and residuals: of the positive class, or of each class against the rest."""
    if prob.ndim == 1:
        return [(logit(prob), label - prob)]
    return [(logit(prob[:, index]), (label == index) - prob[:, index]) for index in range(prob.shape[1])]
