"""Labelled rows that choose and judge policies, and numbers with intervals of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, LabelArray, Units
from calcli.decisions.costs import Costs
from calcli.decisions.rates import decided


@dataclass(frozen=True, slots=True)
class Rows:
    """Labelled rows with their probabilities.

    Attributes
    ----------
    costs
        Of each row, where they differ.
    uncertainty
        By which rows may be left open; NaN where it is not known.
    units
        Which rows belong together.
    group, groups
        The group of each row, and what they are called; None and none without.
    classes
        Their names, in the order of the class index.
    """

    prob: FloatArray
    label: LabelArray
    weight: FloatArray | None = None
    units: Units | None = None
    costs: Costs | None = None
    uncertainty: FloatArray | None = None
    group: IntArray | None = None
    groups: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def together(self) -> IntArray | None:
        """The unit of each row, where rows of a unit count as one."""
        return None if self.units is None else self.units.together

    @property
    def mass(self) -> FloatArray:
        """Weights, ones where none were given."""
        return np.ones(len(self.prob)) if self.weight is None else self.weight

    def taken(self, mask: NDArray[np.bool_]) -> Rows:
        """Some of them."""
        return Rows(
            self.prob[mask],
            self.label[mask],
            None if self.weight is None else self.weight[mask],
            None if self.units is None else self.units.take(mask),
            None if self.costs is None else self.costs.taken(mask),
            None if self.uncertainty is None else self.uncertainty[mask],
            None if self.group is None else self.group[mask],
            self.groups,
            self.classes,
        )


@dataclass(frozen=True, slots=True)
class Number:
    """An estimate with its 95 % interval."""

    value: float | None
    lo: float | None = None
    hi: float | None = None


def rates_of(rows: Rows, yes: NDArray[np.bool_]) -> dict[str, Number]:
    """The rates of decisions, with exact binomial intervals."""
    found = decided(yes.astype(np.float64), rows.label, np.array([0.5]), rows.weight, rows.together)
    return {name: Number(*rate) for name, rate in found.at(0).items()}


def intervals(value: float, replicates: FloatArray) -> Number:
    """A mean with the percentile interval of its replicates, if there are any."""
    if not len(replicates):
        return Number(value)
    lo, hi = np.quantile(replicates, (0.025, 0.975))
    return Number(value, float(lo), float(hi))


def set_numbers(rows: Rows, members: NDArray[np.bool_]) -> dict[str, Number]:
    """How often the sets hold the truth, how many classes they have on average, and how often just one, or none."""
    size = members.sum(axis=1)
    held = members[np.arange(len(size)), rows.label]
    return {
        "coverage": rates_of(rows, held)["positive-rate"],
        "size": Number(float(np.average(size, weights=rows.weight))),
        "single": rates_of(rows, size == 1)["positive-rate"],
        "empty": rates_of(rows, size == 0)["positive-rate"],
    }
