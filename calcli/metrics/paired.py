"""The paired difference of two scores on the same rows, and what dependence between rows does to it.

Single rows: normal theory, corrected for skewness (`PairedSums`). Units, which are what is independent where their rows
depend on each other: the jackknife (`of_units`, `by_unit`).

Folds: the mean of held-out losses looks like a mean over independent rows, but the rows of one fold have fitted the
calibrators by which the others are judged, and the other way round. In sums S of the scores of the folds, with the
inverse A of the information, a row of fold k loses S_k A S_l by its share in what fold l did to its calibrator, and
fold l has the same from fold k. The variance over rows counts each of the two by itself: half the variance of their sum
is missing (`missing`). It matters where the gain is small: of calibrated scores it is all of the variance.

Signs: if a score is calibrated, the gap y - p of a row is 0 on average, whatever else its unit shares, and units are
independent of each other. So the gaps of a unit, all together, are as likely with the other sign, as far as their sums
are symmetric (the wild bootstrap by cluster, Cameron, Gelbach & Miller 2008). Nothing is assumed of rows within a unit
(`signed_sums`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Folds, Scored
from calcli.numeric.bins import totals
from calcli.numeric.seeded import stream

_SYMMETRIC = 1e-9
"""Skewness up to which rounding would be all that is left of the correction."""

SHRUNK = 0.75
"""The share of the estimated skewness that is corrected for. Where ten positives bear the sum, it is estimated from
them too, and all of it is too much: with 1,000 rows at a rate of 1 % intervals hold in 97.5 % of cases by the whole, in
95.5 to 96.5 % by three quarters and in 92.5 % by none; where rows are many the three agree."""

LEVEL = 0.95
"""The probability that an interval covers, where nothing else is asked for."""

Z975 = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""

_ALONE = 1e-6
"""Units that are worth no more than one and this leave no degree of freedom."""

_FURTHEST = 1e6
"""Ends of intervals are looked for within so many standard errors."""

_ROUNDING, _TINY = 1e-13, 1e-9
"""Probabilities that become log-odds and back leave differences up to this share of the largest number; of those beyond
`_TINY` nothing more is asked, as that takes time.
"""

_MOST_LUCK = 5.0
"""An estimate is taken to be unlucky by no more than so many standard deviations: else the cut did not choose it."""

_STEP = 0.03
_BEYOND = _STEP * (np.arange(400) + 0.5)
"""Where the density of what is found is added up, in standard errors above what was."""


class Paired(NamedTuple):
    """A difference with its interval and two-sided p-value; None where the rows do not determine them.

    The interval has 0 in it if p is greater than 1 - its level: both are of one law.
    """

    value: float | None
    lo: float | None
    hi: float | None
    p: float | None


@dataclass(frozen=True, slots=True)
class PairedSums:
    """Sums over rows of the differences d = a - b. Sums over parts of the rows add up to those over all."""

    rows: int = 0
    """How many have a positive weight."""

    weight: float = 0.0
    square: float = 0.0
    total: float = 0.0
    """`weight`, `square`, `total`: sums of w, w^2 and w d."""

    centre: float = 0.0
    about: float = 0.0
    """`centre`, `about`: c = sum w^2 d / sum w^2, and the sum of w^2 (d - c)^2: about a centre, so that no large
    numbers are subtracted.
    """

    cubes: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Sums of w^3 (d - c)^k, k = 0 .. 3."""

    def __add__(self, other: PairedSums) -> PairedSums:
        square = self.square + other.square
        share = other.square / square if square > 0 else 0.0
        gap = other.centre - self.centre
        mine, theirs = self._about(share * gap), other._about((share - 1.0) * gap)
        return PairedSums(
            self.rows + other.rows,
            self.weight + other.weight,
            square,
            self.total + other.total,
            self.centre + share * gap,
            self.about + other.about + gap**2 * self.square * share,
            (mine[0] + theirs[0], mine[1] + theirs[1], mine[2] + theirs[2], mine[3] + theirs[3]),
        )

    def _about(self, step: float) -> tuple[float, float, float, float]:
        """The `cubes` about a centre that is `step` further up."""
        none, one, two, three = self.cubes
        return (
            none,
            one - step * none,
            two - 2.0 * step * one + step**2 * none,
            three - 3.0 * step * two + 3.0 * step**2 * one - step**3 * none,
        )

    @classmethod
    def of(cls, a: FloatArray, b: FloatArray, weight: FloatArray | None) -> PairedSums:
        difference = apart(a, b)
        w = np.ones(len(difference)) if weight is None else weight
        mass = np.square(w)
        square, total = float(mass.sum()), float((w * difference).sum())
        centre = float((mass * difference).sum()) / square if square > 0 else 0.0
        gap = difference - centre
        about = float((mass * np.square(gap)).sum())
        with np.errstate(over="ignore"):  # weights whose cubes overflow have no skewness
            cubes = [mass * w]
            for _ in range(3):  # powers take several times as long as products
                cubes.append(cubes[-1] * gap)
            none, one, two, three = (float(each.sum()) for each in cubes)
        return cls(int(np.count_nonzero(w)), float(w.sum()), square, total, centre, about, (none, one, two, three))

    def difference(self, level: float = LEVEL) -> Paired:
        """The weighted mean of d, by normal theory corrected for skewness.

        Its variance is sum w^2 (d - mean d)^2 / (sum w)^2, times n/(n - 1): the sandwich estimate, which does not
        assume that weights say how precise a row is; without weights it is the usual s^2/n. Rows of weight zero count
        for nothing. Few rows with large differences, as positives are where they are rare, make t skewed: Hall's
        transformation g(t) = ((1 + s t/3)^3 - 1)/s + s/6 (1992), with s the skewness of the sum, is normal to a higher
        order, and t itself where s is 0. Three quarters of the estimated s are taken.
        """
        if self.weight <= 0:
            return Paired(None, None, None, None)
        mean = self.total / self.weight
        if self.rows < 2:
            return Paired(mean, None, None, None)
        about = self.about + self.square * (self.centre - mean) ** 2
        error = math.sqrt(about * self.rows / (self.rows - 1)) / self.weight
        if error == 0.0:
            return Paired(mean, mean, mean, 1.0 if mean == 0.0 else 0.0)
        scale = about**1.5  # 0 where the differences are so small that their squares vanish
        skew = self._about(mean - self.centre)[3] / scale if scale > 0 else 0.0
        quantile = Z975 if level == LEVEL else NormalDist().inv_cdf(0.5 + level / 2.0)
        lo, hi, t = skewed(mean, error, skew, quantile)
        return Paired(mean, lo, hi, math.erfc(abs(t) / math.sqrt(2.0)))


def skewed(mean: float, error: float, skew: float, quantile: float) -> tuple[float, float, float]:
    """The ends of the interval, and Hall's transform of the mean over its error; `skew` is that of the mean."""
    skew = SHRUNK * skew if math.isfinite(skew) and abs(skew) > _SYMMETRIC else 0.0
    t = mean / error
    if skew:
        t = ((1.0 + skew * t / 3.0) ** 3 - 1.0) / skew + skew / 6.0
    return mean - error * _student(quantile, skew), mean - error * _student(-quantile, skew), t


def _student(normal: float, skew: float) -> float:
    """The t that Hall's transformation makes `normal`."""
    return 3.0 * (math.cbrt(1.0 + skew * (normal - skew / 6.0)) - 1.0) / skew if skew else normal


def of_units(total: FloatArray, weight: FloatArray, level: float = LEVEL) -> Paired:
    """The weighted mean of d over rows that belong to units, from the sums of w d and of w over each unit.

    The mean is a ratio of two sums over units, with the residuals e = sum w (d - mean). That of a unit with a share h
    of all weight is smaller than its error, by 1 - h on average.
    """
    held = weight > 0
    total, weight = total[held], weight[held]
    if len(weight) == 0:
        return Paired(None, None, None, None)
    mass = float(weight.sum())
    mean = float(total.sum()) / mass
    with np.errstate(divide="ignore", invalid="ignore"):  # a unit that leaves nothing to the others
        return by_unit(mean, (total - mean * weight) / (1.0 - weight / mass) / mass, weight, level)


def by_unit(value: float, influence: FloatArray, weight: FloatArray, level: float = LEVEL) -> Paired:
    """An estimate from units, which are what is independent, with its interval and its test of 0.

    Its variance is the jackknife's, (G - 1)/G times the sum of squares of the influences f, and Student's t takes the
    place of the normal distribution. Its degrees of freedom are one less than Kish's number of units,
    (sum w)^2 / sum w^2, or Satterthwaite's (1946) if these are fewer: 3 (sum f^2)^2 / sum f^4 - 3, which is G - 1 for
    normal influences of one size. The correction for skewness is that of `PairedSums.difference`, and the smaller the
    fewer units bear the sum.

    Parameters
    ----------
    value
        The estimate.
    influence
        Of each unit: by how much the estimate is greater than without the unit.
    weight
        Of each unit, positive.
    level
        The probability that the interval covers.
    """
    worth = float(weight.sum()) ** 2 / float(np.square(weight).sum())
    return by_powers(value, Powers.of(influence), worth, level)


class Powers(NamedTuple):
    """Sums of powers of the influences of units."""

    units: float
    """How many there are."""

    square: float
    skew: float = 0.0
    """The sum of third powers over square^(3/2); like `fourth` 0 where all influences are."""

    fourth: float = 0.0
    """The sum of fourth powers over square^2."""

    @classmethod
    def of(cls, influence: FloatArray) -> Powers:
        with np.errstate(over="ignore"):
            square = float(np.square(influence).sum())
        if not 0.0 < square < math.inf:
            return cls(len(influence), square)
        size = influence / math.sqrt(square)
        return cls(len(influence), square, float((size**3).sum()), float((size**4).sum()))

    def freedom(self, worth: float) -> float:
        """The degrees of freedom of the sum of squares, which is not 0; `worth` is Kish's number of units."""
        return min(worth - 1.0, max(1.0, 3.0 / self.fourth - 3.0))


def by_powers(value: float, powers: Powers, worth: float, level: float = LEVEL) -> Paired:
    """The interval and test of `by_unit`, from sums over the units; `worth` is Kish's number of them."""
    from scipy.special import stdtr, stdtrit

    count, square = powers.units, powers.square
    if worth - 1.0 < _ALONE or not math.isfinite(square):  # one unit, or one that leaves nothing to the others
        return Paired(value, None, None, None)
    error = math.sqrt(square * (count - 1) / count)
    if error <= _SYMMETRIC * abs(value):
        return Paired(value, value, value, 1.0 if value == 0.0 else 0.0)
    freedom = powers.freedom(worth)
    lo, hi, t = skewed(value, error, powers.skew * worth / count, float(stdtrit(freedom, 0.5 + level / 2.0)))
    return Paired(value, lo, hi, 2.0 * float(stdtr(freedom, -abs(t))))


def unit_sums(units: IntArray, *columns: FloatArray) -> list[FloatArray]:
    """The sums of each column over the rows of each unit that occurs."""
    place = np.unique(units, return_inverse=True)[1]
    return [totals(place, column, int(place.max(initial=-1)) + 1) for column in columns]


def apart(a: FloatArray, b: FloatArray) -> FloatArray:
    """The differences a - b; exactly nothing where rounding is all that is left of every one: its sign says nothing."""
    difference: FloatArray = a - b
    most = max(difference.max(initial=0.0), -difference.min(initial=0.0))
    if most < _TINY and most <= _ROUNDING * np.abs(a).max(initial=0.0):
        difference[:] = 0.0
    return difference


def paired(one: Scored, other: Scored, rows: Callable[[Scored], FloatArray]) -> Paired:
    """The mean of what `rows` gives for one score less what it gives for another, over rows or units of them."""
    if one.units is None:
        return paired_sums(one, other, rows).difference()
    difference = np.concatenate(
        [apart(rows(here), rows(there)) for here, there in zip(one.parts(), other.parts(), strict=True)]
    )
    return paired_difference(difference, np.zeros(len(difference)), one.weight, one.units)


def paired_sums(one: Scored, other: Scored, rows: Callable[[Scored], FloatArray]) -> PairedSums:
    """The sums of what `rows` gives for each row of one score, less what it gives for the same row of another."""
    total = PairedSums()
    for here, there in zip(one.parts(), other.parts(), strict=True):
        total += PairedSums.of(rows(here), rows(there), here.weight)
    return total


def paired_difference(
    a_rows: FloatArray,
    b_rows: FloatArray,
    weight: FloatArray | None,
    units: IntArray | None = None,
    level: float = LEVEL,
) -> Paired:
    """The weighted mean over rows of a - b.

    Parameters
    ----------
    a_rows, b_rows
        What each row adds to the metric under either score.
    weight
        Non-negative, or None for all ones.
    units
        Which rows belong together, if any do.
    level
        The probability that the interval covers.
    """
    if units is None:
        return PairedSums.of(a_rows, b_rows, weight).difference(level)
    w = np.ones(len(a_rows)) if weight is None else weight
    total, mass = unit_sums(units, w * apart(a_rows, b_rows), w)
    return of_units(total, mass, level)


def widened(found: Paired, variance: float) -> Paired:
    """The interval of a mean whose variance is greater by so much than its rows, or units, say."""
    if variance <= 0 or found.value is None or found.lo is None or found.hi is None:
        return found
    value = found.value
    below, above = (math.hypot(end - value, Z975 * math.sqrt(variance)) for end in (found.lo, found.hi))
    p = math.erfc(Z975 / math.sqrt(2.0) * abs(value) / (below if value > 0 else above))
    return Paired(value, value - below, value + above, p)


class Deals(NamedTuple):
    """How the mean of two estimates differs from the first of them."""

    more: float
    """By how much it is greater."""

    luck: float
    """The standard deviation of such a difference by chance."""


def given_at_least(found: Paired, least: float, deals: Deals | None = None) -> Paired:
    """The interval of a mean that is only looked at because it was found to be `least` or more.

    The normal distribution cut off at `least` takes the place of the whole one (Lee et al. 2016). A mean that is found
    far above has the interval that it had; one just above may well be much less, or nothing.

    Of two `deals` it was the mean that had to be so much, which differs from this estimate by luck: the cut is blurred
    (Tian & Taylor 2018). There was a second one because this was small, so that it may as well be unlucky: the upper
    end is no lower than without a choice, or than that of the mean.
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, logsumexp

    if found.value is None or found.lo is None or found.hi is None or found.lo == found.hi:
        return found
    value = found.value
    more, luck = deals or Deals(0.0, 0.0)
    cut = min(least, value + _MOST_LUCK * luck)

    def tail(mean: float, error: float) -> float:
        """The probability of at least what was found, if this were the mean."""
        if not luck:
            return math.exp(log_ndtr((mean - value) / error) - log_ndtr((mean - cut) / error))
        beyond = value + error * _BEYOND
        density = log_ndtr((beyond - cut) / luck) - np.square((beyond - mean) / error) / 2.0
        share = logsumexp(density) + math.log(_STEP / math.sqrt(2.0 * math.pi))
        return math.exp(min(0.0, share - log_ndtr((mean - cut) / math.hypot(error, luck))))

    def mean_of(probability: float, error: float) -> float:
        width = 10.0 * error
        while tail(value - width, error) > probability and width < _FURTHEST * error:
            width *= 2.0
        if width >= _FURTHEST * error:  # it was found at the very edge: anything below is possible
            return value - width
        return float(brentq(lambda mean: tail(mean, error) - probability, value - width, value + 10.0 * error))

    below, above = (value - found.lo) / Z975, (found.hi - value) / Z975
    hi = found.hi + max(0.0, more) if deals else max(value, mean_of(0.975, above))  # it has in it what was found
    return Paired(value, mean_of(0.025, below), hi, min(1.0, 2.0 * tail(0.0, below)))


LEAST_FOLDS, MOST_FOLDS = 3, 20
"""The numbers of folds: with two, a row has one other calibrator, which shows no variance; many take much time."""


@dataclass(frozen=True, slots=True)
class FoldFits:
    """The predictions of each fold's calibrator for rows of all folds."""

    prob: tuple[FloatArray, ...]
    """By fold, of each `step`-th held-out row."""

    step: int = 1

    def sums(self, scored: Scored, folds: Folds, rows: Callable[[Scored], FloatArray]) -> FloatArray:
        """The part of the rows of each fold (down) in the mean of `rows` by the calibrator of each fold (across)."""
        count, every = folds.count, slice(None, None, self.step)
        some, place = scored.take(every), folds.fold_of[every]
        weight = np.ones(len(some)) if some.weight is None else some.weight
        sums = np.stack([totals(place, weight * rows(replace(some, prob=prob)), count) for prob in self.prob], axis=1)
        return sums * (self.step / scored.total_weight) if scored.total_weight > 0 else np.zeros_like(sums)


def missing(sums: FloatArray) -> float:
    """The variance of a mean that a sum over independent rows, or units, leaves out: that of all S_k A S_l, k != l.

    What is left of the sums without the effects of fold and calibrator is c_k A c_l, with c_k = S_k less the mean of S:
    a calibrator has seen all folds but one, so that what it does on them is no S_k A S_l by itself. Of normal S, the
    squares of c_k A c_l about their mean add up to less than those of S_k A S_l, by the factor below. Only what is the
    same in k and l counts, because it is their covariance that is missing.
    """
    count = len(sums)
    left = sums - sums.mean(axis=0) - sums.mean(axis=1, keepdims=True) + sums.mean()
    both = ((left + left.T) / 2.0)[~np.eye(count, dtype=np.bool_)]
    rest = count - 1
    factor = count**2 * rest / ((rest - 1) * (rest**2 + rest + 2))
    return factor * float(np.square(both - both.mean()).sum())


MOST_UNITS = 4000
"""More units are put together at random into so many, which changes no variance."""

_MOST_BENT = -4.5
"""The s t at which Hall's factor is least."""


def merged_units(units: IntArray, seed: int = 0) -> IntArray:
    """The unit of each row, 0 .. at most `MOST_UNITS` - 1."""
    place = np.unique(units, return_inverse=True)[1].astype(np.int64)
    count = int(place.max(initial=-1)) + 1
    return place if count <= MOST_UNITS else stream(seed, "units").permutation(count)[place] % MOST_UNITS


def unit_table(units: IntArray, column: IntArray, values: FloatArray, columns: int) -> FloatArray:
    """The sums of the values over each unit (a row) and column; `units` are those of `merged_units`."""
    count = int(units.max(initial=-1)) + 1
    return totals(units * columns + column, values, count * columns).reshape(count, columns)


def signed_sums(gaps: FloatArray, draws: int, seed: int) -> FloatArray:
    """The sums of the columns of a table of units, each with a sign by chance; shape (draws, columns)."""
    signs = stream(seed, "signs of units").integers(0, 2, (draws, len(gaps))) * 2.0 - 1.0
    return signs @ (gaps * chance_widened(gaps.sum(axis=1)))


def chance_widened(gaps: FloatArray) -> float:
    """The factor, 1 or more, by which chance is greater than signs make it, from the sum of all gaps of each unit.

    Gaps of rare positives are skewed: where few units happen to have many, the gaps and their sum are low together, and
    chance looks less than it is. The factor is that by which Hall's transformation g(t) = t + s t^2 / 3 + s^2 t^3 / 27,
    with s and t of opposite signs, makes t less; three quarters of the skewness s are taken, as for a mean.
    """
    about = gaps - gaps.mean()
    square, cube = float(np.square(about).sum()), float((about**3).sum())
    if square == 0.0:
        return 1.0
    t = float(gaps.sum()) / math.sqrt(float(np.square(gaps).sum()))
    bent = SHRUNK * t * cube / (square * math.sqrt(square))
    bent = min(0.0, max(_MOST_BENT, bent))
    return 1.0 / (1.0 + bent / 3.0 + bent**2 / 27.0)
