"""Weights: what one stands for, and the scale on which it is worked with.

Counts say how many rows of the table before it was aggregated a row stands for: it is read as so many rows, so that
whatever follows is what those rows give. Importance weights say how much a row matters beside others, as where groups
were sampled at different rates: only their ratios count, and they are scaled (`WeightScale`).

A guess between the two may be wrong in silence: 1 and 10 may be counts, or the weights of rows of which a tenth was
sampled. Taken for counts, the latter give intervals that are too narrow; taken for importance weights, counts give
intervals that are too wide. So weights are importance weights unless it is said that they are counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import numpy as np

from calcli.batch import FloatArray
from calcli.errors import DataError

WeightKind: TypeAlias = Literal["importance", "counts"]

MOST_COUNTED = 100_000_000
"""Counts may add up to so many rows, each of which is worked with as a row."""

WIDEST = 1e32
"""The greatest weight over the least one above 0, at most: libraries keep weights as float32, which reach so far."""


@dataclass(frozen=True, slots=True)
class WeightScale:
    """Takes importance weights to a sum that is the effective number of rows.

    After Kish (1965) rows with weights w are worth (sum w)^2 / sum w^2 equal ones; for equal weights that is their
    number. Whatever counts rows, priors and shrinkage and tests, then counts as many. Weights on this scale also have a
    sum of squares equal to their sum.

    Attributes
    ----------
    exponent
        Weights are multiplied by 2^exponent first, which is exact, so that no square overflows.
    factor
        Then by this, which has seven digits.
    """

    exponent: int = 0
    factor: float = 1.0

    def apply(self, weight: FloatArray) -> FloatArray:
        """The weights on this scale."""
        return np.ldexp(weight, self.exponent) * self.factor


UNSCALED = WeightScale()


@dataclass(slots=True)
class WeightSums:
    """Sums over the weights of a table, chunk by chunk; what is no finite number above 0 is left out.

    `total` and `squares` are of weights times 2^-exponent, the greatest of which lies between 1 and 2; `whole` says
    whether all weights are whole numbers.
    """

    count: int = 0
    least: float = math.inf
    greatest: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    whole: bool = True

    def add(self, weight: FloatArray) -> None:
        """More weights."""
        weight = weight[np.isfinite(weight) & (weight > 0)]
        if not len(weight):
            return
        other = WeightSums(len(weight), float(weight.min()), float(weight.max()))
        other.whole = bool((weight == np.floor(weight)).all())
        scaled = np.ldexp(weight, -other.exponent)
        other.total, other.squares = float(scaled.sum()), float(scaled @ scaled)
        self += other

    def __iadd__(self, other: Self) -> Self:
        """The sums over the weights of both."""
        here, there = self.exponent, other.exponent
        self.count, self.whole = self.count + other.count, self.whole and other.whole
        self.least, self.greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        shifts = here - self.exponent, there - self.exponent
        self.total = sum(math.ldexp(part.total, shift) for part, shift in zip((self, other), shifts, strict=True))
        self.squares = sum(
            math.ldexp(part.squares, 2 * shift) for part, shift in zip((self, other), shifts, strict=True)
        )
        return self

    @property
    def exponent(self) -> int:
        """That of the greatest weight as a power of two; 0 without one."""
        return math.frexp(self.greatest)[1] - 1 if self.greatest else 0

    def check_counts(self, name: str) -> None:
        """Refuse what are no counts of rows; `name` is their column's."""
        if not self.count:
            raise DataError(f"the counts {name!r} add up to 0: there are no rows")
        if not self.whole:
            raise DataError(
                f"the counts {name!r} are not all whole numbers", hint="weights of any size: --weight-kind importance"
            )
        total = math.ldexp(self.total, min(self.exponent, 1000))
        if total > MOST_COUNTED:
            raise DataError(
                f"the counts {name!r} add up to {total:,.0f} rows; the maximum is {MOST_COUNTED:,}",
                hint="divide them by a whole number, and round",
            )

    def scale(self, name: str) -> WeightScale:
        """The scale of importance weights; `name` is their column's."""
        if not self.count:
            return UNSCALED
        if self.least < self.greatest / WIDEST:
            raise DataError(
                f"the weights {name!r} reach from {self.least:.0e} to {self.greatest:.0e}, "
                "so that the least are lost in rounding",
                hint="correct the greatest, or set the least to 0",
            )
        if self.least == self.greatest:
            return WeightScale(-self.exponent, 1.0 / math.ldexp(self.least, -self.exponent))
        # To seven digits, as float32 has: the products and sums of whole weights stay exact, so that bins of equal
        # weight end at the same rows, and rounding errors of the sums, which depend on the chunks, do not show.
        return WeightScale(-self.exponent, float(np.float32(self.total / self.squares)))
