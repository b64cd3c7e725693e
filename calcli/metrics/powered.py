"""The mean label of rows of which few have labels, from scores that all rows have (prediction-powered inference).

With g the score that stands in for the label, and lambda its weight, the estimate is

    theta = mean of Y - lambda (g - mean of g over all rows), over the labelled rows

(Angelopoulos et al. 2023; lambda by the regression of Y on g: Angelopoulos, Duchi & Zrnic 2023, PPI++). It is right
whatever g is worth, if the labelled rows were drawn at random and g was not fitted on the rows whose labels it meets
here: of labelled rows, g comes from calibrators of other folds. With a calibrated g and lambda = 1 it is the efficient
estimate; with lambda = 0 it is the mean of the labels alone, which it never falls far behind.

Each row has an influence on the estimate: lambda (g - mean) / N, and for a labelled row also its share of what the
residuals add. Sums over units of the influences give the variance, for rows, units, weights, label probabilities and
strata alike. For rates the interval is Wilson's with as many labels as that variance is worth: the error that it allows
for is that of the rate that is tested, where an estimated error would be too small whenever few positives were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray
from calcli.metrics.paired import Z975, Paired, Powers, by_powers, unit_sums
from calcli.numeric.binomial import exact_interval, score_interval
from calcli.numeric.bins import totals

FEWEST = 10
"""Labels, or units with labels, below which there is only the mean of the labels, with an exact interval."""

_PSEUDO = 2.0
"""So many pseudo-labels of one kind draw the worth of a label towards that of a label drawn at random."""

_RIDGE = 0.2
"""The share of one label's variance by which lambda is drawn towards 0."""


ORDERS = tuple((power, order) for power in range(5) for order in range(power + 1))
"""The orders of `Moments`; w^0 is 0 where w is."""

Moments: TypeAlias = Mapping[tuple[int, int], FloatArray]
"""For each pair of `ORDERS` (p, k), of each entry of a sample the sum of w^p (g - mean g)^k over its rows."""


class Interval(NamedTuple):
    """A number with its 95 % interval; None where the rows do not determine it."""

    value: float | None
    lo: float | None = None
    hi: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Rows with scores, of which some have labels.

    Rows without labels may be merged into entries that stand for many: their weight is then that of all of them, and
    their stand-in the mean. Entries lie within a unit, or have `moments`.
    """

    labelled: IntArray
    """The places of the rows that have labels."""

    value: FloatArray
    """The labels of these rows: 1 and 0 for a rate, or amounts."""

    stand_in: FloatArray
    """The stand-in for the label of every row; of a labelled one by calibrators that have not seen its label."""

    rate: bool
    """Whether labels are 1 and 0."""

    weight: FloatArray | None = None
    """The weight of every row; None for all ones."""

    label_prob: FloatArray | None = None
    """The probability with which each labelled row was drawn; None where all have the same."""

    strata: IntArray | None = None
    """The stratum of every row, where labels were drawn at another rate in each."""

    units: IntArray | None = None
    """The unit of every row, where rows belong together."""

    counts: FloatArray | None = None
    """The number of rows that each entry stands for; None for ones."""

    moments: Moments | None = None
    """The moments of entries that stand for rows which do not belong together."""

    alike: bool = False
    """Whether all rows have the same weight, though entries have not."""

    score: FloatArray | None = None
    """The mean score of every entry; None for scores that only rank."""

    items: IntArray | None = None
    """The item of every row, where another system has judged the same items."""

    def __len__(self) -> int:
        return len(self.stand_in)

    @property
    def rows(self) -> int:
        """How many rows the entries stand for."""
        return len(self) if self.counts is None else round(float(self.counts.sum()))

    @property
    def weights(self) -> FloatArray:
        """The weight of every row."""
        return np.ones(len(self)) if self.weight is None else self.weight

    @property
    def scores_mean(self) -> float | None:
        """The mean of the scores as they are."""
        weight = self.weights
        return None if self.score is None or not weight.any() else float(self.score @ weight / weight.sum())

    @property
    def drawn(self) -> FloatArray:
        """The weight of each labelled row over the probability that it was drawn with."""
        weight = self.weights[self.labelled]
        return weight if self.label_prob is None else weight / self.label_prob

    @property
    def count(self) -> int:
        """How many units have labels; rows are units where none are named."""
        return len(self.labelled) if self.units is None else len(np.unique(self.units[self.labelled]))

    def of(self, inside: NDArray[np.bool_]) -> Sample:
        """The sample of some of the rows."""
        place = np.cumsum(inside) - 1
        kept = inside[self.labelled]
        cuts = dict.fromkeys(("stand_in", "weight", "strata", "units", "counts", "score", "items"), inside)
        cuts |= dict.fromkeys(("value", "label_prob"), kept)
        parts = {name: part[cut] for name, cut in cuts.items() if (part := getattr(self, name)) is not None}
        if self.moments is not None:
            parts["moments"] = {order: sums[inside] for order, sums in self.moments.items()}
        return replace(self, labelled=place[self.labelled[kept]], **parts)

    def powers(self, influence: FloatArray, slope: FloatArray | float) -> Powers:
        """The sums of powers of the influences of units, of which some is not 0.

        `influence` is that of each entry, and by `slope` times its weight that of a row grows with its stand-in.
        """
        if self.moments is None:
            sums = influence if self.units is None else totals(self.units, influence, int(self.units.max()) + 1)
            return Powers.of(sums[sums != 0.0])
        weight = self.weights
        mean = np.divide(influence, weight, out=np.zeros(len(weight)), where=weight > 0)
        moved = (mean != 0.0) | (np.asarray(slope != 0.0) & (self.moments[2, 2] > 0.0))
        count = float(self.moments[0, 0][moved].sum())
        square, cube, fourth = (
            sum(
                float((math.comb(power, k) * mean ** (power - k) * slope**k * self.moments[power, k]).sum())
                for k in range(power + 1)
            )
            for power in (2, 3, 4)
        )
        return Powers(count, square, cube / square**1.5, fourth / square**2) if square > 0.0 else Powers(count, 0.0)


@dataclass(frozen=True, slots=True)
class Powered:
    """The estimate of a mean label."""

    rows: int
    labels: int
    value: float
    lo: float | None
    hi: float | None
    labels_only: Interval
    """The mean of the labels by themselves, with its interval."""

    worth: float | None
    """The number of labels that would be as good without scores."""

    scale: float
    """lambda, the weight of the scores; 0 where only the labels count."""

    influence: FloatArray
    """The influence of every row on the estimate, or of the rows of every entry."""

    slope: float
    """By this times its weight the influence of a row grows with its stand-in."""

    residual: float
    """The variance of a label about its stand-in, times lambda; with weights that of a label drawn at random."""

    spread: float
    """The variance of a label."""

    items: IntArray | None = None
    """The item of each row, as the sample has it."""


def powered(sample: Sample) -> Powered:
    """The mean label of all rows, from the labels and the scores; at least one row has a label."""
    share = LabelShares.of(sample)
    alone = share.estimate(0.0)
    enough = sample.count >= FEWEST
    scale = share.slope() if enough else 0.0
    found = alone if scale == 0.0 else share.estimate(scale)
    bare, whole = share.interval(alone), share.interval(found)
    labels = len(sample.labelled)
    worth = None if not enough or found.size <= 0.0 else labels * found.size / alone.size
    value = float(whole.value or 0.0)
    more = (found.influence, found.slope, found.residual, share.spread, sample.items)
    return Powered(sample.rows, labels, value, whole.lo, whole.hi, bare, worth, scale, *more)


class _Estimate(NamedTuple):
    scale: float
    value: float
    influence: FloatArray
    slope: float
    residual: float
    powers: Powers
    size: float
    """The number of labels, drawn at random and without scores, that would be as good."""


@dataclass(frozen=True, slots=True)
class LabelShares:
    """The share that each labelled row has in a mean of labels, and what follows from it."""

    sample: Sample
    each: FloatArray
    """The share of each labelled row; they add up to 1, and in each stratum to its share of all rows."""

    of_all: FloatArray
    """The share of every row."""

    stratum: IntArray
    """The stratum of each labelled row, and 0 where there are none."""

    mass: FloatArray
    """The share of each stratum."""

    @classmethod
    def of(cls, sample: Sample) -> LabelShares:
        weight, drawn = sample.weights, sample.drawn
        of_all = weight / weight.sum()
        if sample.strata is None:
            return cls(sample, drawn / drawn.sum(), of_all, np.zeros(len(drawn), dtype=np.int64), np.ones(1))
        mass = totals(sample.strata, of_all, int(sample.strata.max()) + 1)
        stratum = sample.strata[sample.labelled]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = mass / totals(stratum, drawn, len(mass))
        return cls(sample, drawn * ratio[stratum], of_all, stratum, mass)

    @property
    def mean(self) -> float:
        """The mean label."""
        return float(self.each @ self.sample.value)

    @property
    def spread(self) -> float:
        """The variance of a label."""
        return float(self.each @ np.square(self.sample.value - self.mean))

    @property
    def doubt(self) -> float:
        """The variance of the mean of 0/1 labels, kept off 0."""
        labels = len(self.each)
        rate = min(max(self.mean, 0.5 / labels), 1.0 - 0.5 / labels)
        return rate * (1.0 - rate) / labels

    def _means(self, values: FloatArray) -> FloatArray:
        """The mean of the values in each stratum."""
        sums = totals(self.stratum, self.each * values, len(self.mass))
        return np.divide(sums, self.mass, out=np.zeros(len(sums)), where=self.mass > 0)

    def slope(self) -> float:
        """lambda: the regression of labels on their stand-ins, a little less; of rates between 0 and 1."""
        sample = self.sample
        known = sample.stand_in[sample.labelled], sample.value
        stand_in, value = (one - self._means(one)[self.stratum] for one in known)
        square, product = float(self.each @ stand_in**2), float(self.each @ (stand_in * value))
        if not sample.rate:
            return product / square if square > 0.0 else 0.0
        return min(max(product / (square + _RIDGE * self.doubt), 0.0), 1.0)

    def estimate(self, scale: float) -> _Estimate:
        """The estimate with this lambda."""
        sample = self.sample
        middle = float(self.of_all @ sample.stand_in)
        residual = sample.value - scale * (sample.stand_in[sample.labelled] - middle)
        value, means = float(self.each @ residual), self._means(residual)
        about = residual - means[self.stratum]
        influence = self.of_all * (scale * (sample.stand_in - middle))
        if sample.strata is not None:
            influence += self.of_all * (means[sample.strata] - value)
        influence[sample.labelled] += self.each * about
        slope = scale / float(sample.weights.sum())
        powers = sample.powers(influence, slope)
        return _Estimate(scale, value, influence, slope, float(self.each @ about**2), powers, self._size(powers.square))

    def _size(self, square: float) -> float:
        """The number of labels drawn at random whose mean has the variance of this estimate.

        Few positives determine it badly: it is drawn towards the number of labels, by weight.
        """
        labels, count = len(self.each), self.sample.count
        variance = square * (count / (count - 1.0) if count > 1 else 1.0)
        spread = self.spread * labels / max(labels - 1.0, 1.0)
        if not self.sample.rate:
            return spread / variance if variance > 0.0 else float(labels)
        prior = _PSEUDO * self.doubt
        return (spread + prior) / (variance + prior * float(self.each @ self.each))

    def interval(self, found: _Estimate) -> Interval:
        """The estimate with its interval; a rate is held within [0, 1]."""
        sample, count = self.sample, self.sample.count
        if not sample.rate:
            return Interval(*self._of_amounts(found)[:3])
        value = min(max(found.value, 0.0), 1.0)
        if count < FEWEST:
            rows = min(found.size, float(count))
            return Interval(value, *exact_interval(value * rows, rows))
        # Rows that stand for themselves, and count the same, need no degrees of freedom.
        drawn_alike = sample.label_prob is None and sample.strata is None and sample.units is None
        quantile = Z975
        if not (drawn_alike and (sample.weight is None or sample.alike)) and found.powers.fourth > 0.0:
            from scipy.special import stdtrit

            quantile = float(stdtrit(found.powers.freedom(float(count)), 0.975))
        return Interval(value, *score_interval(value, found.size, quantile))

    def _of_amounts(self, found: _Estimate) -> Paired:
        """The mean of amounts, by the units that move it."""
        count, powers, known = self.sample.count, found.powers, 2.0 if found.scale else 1.0
        if count < 2 or not powers.units:
            return Paired(found.value, None, None, None)
        widened = powers.square * count / max(count - known, 1.0)  # for the mean and lambda, which were estimated
        return by_powers(found.value, powers._replace(square=widened), powers.units)


def difference(one: Powered, other: Powered) -> Paired:
    """The estimate of one system less that of another, over the same items; p is that of no difference.

    The ends are those of both estimates, squared and added with the correlation that the items give them (Newcombe
    1998), so that they keep the skewness of rates.
    """
    value = one.value - other.value
    if one.lo is None or one.hi is None or other.lo is None or other.hi is None:
        return Paired(value, None, None, None)
    assert one.items is not None
    assert other.items is not None
    cut = len(one.items)
    influence = np.zeros((2, cut + len(other.items)))
    influence[0, :cut], influence[1, cut:] = one.influence, other.influence
    mine, its = unit_sums(np.concatenate([one.items, other.items]), *influence)
    scale = math.sqrt(float(mine @ mine) * float(its @ its))
    common = float(mine @ its) / scale if scale > 0.0 else 0.0
    below, above = (
        math.sqrt(max(a * a + b * b - 2.0 * common * a * b, 0.0))
        for a, b in ((one.value - one.lo, other.hi - other.value), (one.hi - one.value, other.value - other.lo))
    )
    towards = below if value > 0 else above
    p = 1.0 if value == 0.0 else math.erfc(Z975 / math.sqrt(2.0) * abs(value) / towards) if towards > 0 else 0.0
    return Paired(value, value - below, value + above, p)
