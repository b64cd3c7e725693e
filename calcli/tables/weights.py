"""The meaning of weights, and the scale on which they are used.

A count is the number of rows that a row stood for before the table was aggregated: it is read as so many rows, with the
results of so many rows. An importance weight says how much a row matters beside others, as when groups were sampled at
different rates: only the ratios count, and the weights are scaled (`WeightScale`).

A guess between the two could be wrong in silence: 1 and 10 may be counts, or the weights of rows of which a tenth was
sampled. Weights taken for counts give intervals that are too narrow, counts taken for weights intervals that are too
wide. So weights are importance weights unless flags call them counts.
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
"""The greatest sum of counts: each counted row is worked with as a row."""

WIDEST = 1e32
"""The greatest ratio of two weights above 0: libraries keep weights as float32, which reach so far."""


@dataclass(frozen=True, slots=True)
class WeightScale:
    """Scales importance weights so that their sum is the effective number of rows.

    After Kish (1965) rows with weights w are worth (sum w)^2 / sum w^2 equal ones; for equal weights that is their
    number. Priors, shrinkage and tests, which count rows, then count as many. On this scale the sum of squares of the
    weights is equal to their sum.
    """

    exponent: int = 0
    """Weights are multiplied by 2^exponent first, which is exact, so that no square overflows."""

    factor: float = 1.0
    """Then by this, which has seven digits."""

    def apply(self, weight: FloatArray) -> FloatArray:
        return np.ldexp(weight, self.exponent) * self.factor


UNSCALED = WeightScale()

LEAST_SHARE = 1e-30
"""A smaller share is lost in rounding beside the rest of its row, and counts as 0."""


def halves(share: FloatArray, weight: FloatArray) -> FloatArray:
    """The weights of the two rows of each soft label y, one after the other: w y for class 1, w (1 - y) for class 0."""
    share = np.where(share < LEAST_SHARE, 0.0, share)
    return (weight[:, None] * np.column_stack([share, 1.0 - share])).ravel()


@dataclass(slots=True)
class WeightSums:
    """Sums over the weights of a table, chunk by chunk; only finite numbers above 0 count.

    `total` and `squares` are sums of weights times 2^-exponent, the greatest of which lies between 1 and 2; `whole`
    says whether all weights are whole numbers.
    """

    count: int = 0
    least: float = math.inf
    greatest: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    whole: bool = True

    def add(self, weight: FloatArray) -> None:
        weight = weight[np.isfinite(weight) & (weight > 0)]
        if not len(weight):
            return
        other = WeightSums(len(weight), float(weight.min()), float(weight.max()))
        other.whole = bool((weight == np.floor(weight)).all())
        scaled = np.ldexp(weight, -other.exponent)
        other.total, other.squares = float(scaled.sum()), float(scaled @ scaled)
        self += other

    def __iadd__(self, other: Self) -> Self:
        one, two = self.exponent, other.exponent
        self.count, self.whole = self.count + other.count, self.whole and other.whole
        self.least, self.greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        one, two = one - self.exponent, two - self.exponent
        self.total = math.ldexp(self.total, one) + math.ldexp(other.total, two)
        self.squares = math.ldexp(self.squares, 2 * one) + math.ldexp(other.squares, 2 * two)
        return self

    @property
    def exponent(self) -> int:
        """The exponent of the greatest weight as a power of two; 0 without weights."""
        return math.frexp(self.greatest)[1] - 1 if self.greatest else 0

    def check_counts(self, name: str) -> None:
        """Refuse weights that are no counts of rows; `name` is that of their column."""
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
        """The scale of importance weights; `name` is that of their column."""
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
