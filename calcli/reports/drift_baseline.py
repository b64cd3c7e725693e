"""The mean residuals of a calibrator on held-out rows at its fit, with which the drift test compares later rows.

Residuals (label minus probability) are averaged in several directions: functions of the standardised log-odds, along
which calibration can drift. That takes two passes of sums: `LogOdds` for the standardisation, then `Products`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import FloatArray, IntArray, LabelArray
from calcli.metrics.paired import merged_units
from calcli.numeric.bins import totals
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
    by_unit: FloatArray | None = None
    """Where rows belong together: the sums of w d and of w over each unit; a row for each."""

    def __add__(self, other: Products) -> Products:
        by_unit = other.by_unit if self.by_unit is None else self.by_unit
        if self.by_unit is not None and other.by_unit is not None:
            by_unit = self.by_unit + other.by_unit
        return Products(self.sums + other.sums, self.weight + other.weight, by_unit)

    @classmethod
    def empty(cls, classes: int) -> Products:
        return cls(np.zeros((classes, 3, len(DIRECTIONS))), np.zeros(2))

    @classmethod
    def of(
        cls,
        prob: FloatArray,
        label: LabelArray,
        weight: FloatArray,
        scale: LogOdds,
        units: IntArray | None = None,
        count: int = 0,
    ) -> Products:
        """The sums over these rows; `scale` must be over all rows. Sums of units below the same `count` add up."""
        sums: list[list[FloatArray]] = []
        columns: list[FloatArray] = []
        for (z, residual), centre, spread in zip(each_class(prob, label), scale.centre, scale.spread, strict=True):
            products = directions(z, centre, spread) * residual
            sums.append([products @ weight, products**2 @ weight**2, products @ weight**2])
            columns.extend(weight * products)
        found = cls(np.array(sums), np.array([weight.sum(), weight @ weight]))
        if units is None:
            return found
        return replace(found, by_unit=np.stack([totals(units, one, count) for one in (*columns, weight)], axis=1))

    @property
    def of_units(self) -> Products:
        """The sums over units, each of which counts as one row; those over rows where rows do not belong together."""
        if self.by_unit is None:
            return self
        mass, of_each = self.by_unit[:, -1], self.by_unit[:, :-1]
        sums = np.stack([of_each.sum(axis=0), (of_each**2).sum(axis=0), mass @ of_each])
        shape = len(self.sums), len(DIRECTIONS)
        return Products(sums.reshape(3, *shape).swapaxes(0, 1), np.array([mass.sum(), mass @ mass]))


@dataclass(frozen=True, slots=True)
class DriftBaseline:
    """The mean residuals of a calibrator on rows that it had not seen."""

    centre: FloatArray
    spread: FloatArray
    """`centre`, `spread`: the mean of the log-odds, and their standard deviation."""

    mean: FloatArray
    error: FloatArray
    """`mean`, `error`: the mean residual in each direction, and its standard error, over units where rows belong
    together; shape (residuals, directions)."""

    @classmethod
    def of(
        cls, prob: FloatArray, label: LabelArray, weight: FloatArray | None, units: IntArray | None = None
    ) -> DriftBaseline:
        """From held-out rows; `units` are the rows that belong together."""
        share = np.ones(len(label)) if weight is None else weight
        share = share / share.sum()
        scale = LogOdds.of(prob, label, share)
        place = None if units is None else merged_units(units)
        return cls.of_sums(
            scale, Products.of(prob, label, share, scale, place, 0 if place is None else place.max() + 1)
        )

    @classmethod
    def of_sums(cls, scale: LogOdds, products: Products) -> DriftBaseline:
        """From sums over held-out rows."""
        by_unit, products = products.by_unit is not None, products.of_units
        weight, square = products.weight
        first, squares, squared = (products.sums[:, place] for place in range(3))
        mean = first / weight
        deviations = squares - 2.0 * mean * squared + mean**2 * square  # the sum of w^2 (d - mean)^2
        error = np.sqrt(np.maximum(deviations, 0.0)) / weight
        return cls(scale.centre, scale.spread, mean, error * _few(weight**2 / square) if by_unit else error)

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


def _few(units: float) -> float:
    """The factor by which an error from so few units is larger than it looks: Student's t for the normal quantile."""
    from scipy.special import ndtr, stdtrit

    freedom = max(units - 1.0, 1.0)
    return math.sqrt(1.0 + 1.0 / freedom) * float(stdtrit(freedom, ndtr(_FORGIVEN))) / _FORGIVEN


def each_class(prob: FloatArray, label: LabelArray) -> list[tuple[FloatArray, FloatArray]]:
    """Log-odds and residuals of the positive class of two, or of each of more classes against the rest."""
    if prob.ndim == 1:
        return [(logit(prob), label - prob)]
    return [(logit(prob[:, index]), (label == index) - prob[:, index]) for index in range(prob.shape[1])]
