"""Tests of calibration, and the diagnosis of a score that fails: level, confidence or the shape of its curve is wrong.

Where the joint test finds that something is wrong, three tests tell what. The level: calibration in the large. The
confidence: whether the slope of Cox's recalibration is 1, its intercept free. The shape: what is left of the gaps once
intercept and slope are fitted. What is found, after Holm's correction for three tests, stands in the order of how much
it explains; where none of the three is found by itself, it is the shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from calcli.batch import FloatArray
from calcli.errors import FitError
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.forms import of_ties
from calcli.metrics.joint_test import LEVEL, GapSums, at_least, indicators, joint_test, ties_of
from calcli.metrics.multiple import holm
from calcli.metrics.paired import merged_units, paired_difference, signed_sums, unit_table
from calcli.metrics.regression import recalibration, separated
from calcli.metrics.tied import TiedScores
from calcli.numeric import bins
from calcli.numeric.links import logit, sigmoid
from calcli.numeric.seeded import stream

GROUPS = 10

EXPECTED = 5.0
"""Rows of either label that a group must expect, for its count to be as good as normal (Cochran 1954)."""

TEST_DRAWS = 9999
_CERTAIN = "predictions of exactly 0 or 1, or next to them, are wrong in a group"
_NO_CHANCE = "every prediction is 0, 1 or 1/2, where the statistic does not vary"


class _Groups(NamedTuple):
    """The groups that hold rows: their effective number of rows, mean prediction, the rest of it to 1, and mean gap."""

    rows: FloatArray
    prob: FloatArray
    rest: FloatArray
    gap: FloatArray

    @classmethod
    def of(cls, ties: TiedScores) -> _Groups:
        place = bins.assign(ties.prob, ties.quantiles(GROUPS))
        rest = ties.weight * (1.0 - ties.prob)  # summed by itself: 1 less a mean near 1 has no digits left
        columns = (ties.weight, ties.weight * ties.prob, rest, ties.positive, ties.square)
        sums = np.stack([np.bincount(place, column, minlength=GROUPS) for column in columns])
        weight, expected, rest, observed, square = sums[:, sums[0] > 0]
        return cls(weight**2 / square, expected / weight, rest / weight, (observed - expected) / weight)

    @property
    def variance(self) -> FloatArray:
        """The variance of the gaps, if the score is calibrated."""
        return self.prob * self.rest / self.rows

    @property
    def expected(self) -> float:
        """The least number of rows of a label that a group expects."""
        return float((self.rows * np.minimum(self.prob, self.rest)).min())

    @property
    def statistic(self) -> float:
        """Infinite where a certain prediction is wrong."""
        some = self.variance > 0
        if (np.abs(self.gap[~some]) > 1e-12).any():
            return math.inf
        with np.errstate(over="ignore"):  # as good as certain, and wrong
            return float((self.gap[some] ** 2 / self.variance[some]).sum())

    def drawn_p(self, seed: int) -> float:
        """How often counts that are drawn from the mean predictions show as much."""
        some = self.variance > 0
        rows, prob = np.rint(self.rows[some]).astype(np.int64), self.prob[some]
        counts = stream(seed, "hosmer_lemeshow").binomial(rows, prob, (TEST_DRAWS, len(rows)))
        return _share_above(((counts / rows - prob) ** 2 / self.variance[some]).sum(axis=1), self.statistic)


def _share_above(drawn: FloatArray, found: float) -> float:
    return (1.0 + float(np.count_nonzero(drawn >= found * (1.0 - 1e-9)))) / (1.0 + TEST_DRAWS)


def _p_by_unit(rows: Scored, groups: _Groups) -> float | None:
    """How often gaps whose sign is drawn by unit show as much; None where rows have no units."""
    if rows.units is None:
        return None
    rows = rows.with_positive_weight
    assert rows.units is not None
    place = np.unique(bins.assign(rows.prob, rows.ties.quantiles(GROUPS)), return_inverse=True)[1]
    weight = rows.weights
    gaps = unit_table(merged_units(rows.units), place, weight * (rows.label - rows.prob), len(groups.rows))
    some = groups.variance > 0
    noise = groups.variance[some] * np.bincount(place, weight)[some] ** 2
    sums = np.concatenate([gaps.sum(axis=0)[None], signed_sums(gaps, TEST_DRAWS, 0)])[:, some]
    found = (sums**2 / noise).sum(axis=1)
    return _share_above(found[1:], found[0])


def _grouped(scored: Scored, options: Options) -> Definition:
    return Definition(
        "lower",
        bins=GROUPS,
        binning="mass",
        edge="right-closed, 0 in the first bin",
        approximation="chi-squared with as many degrees of freedom as groups"
        + (", less 2: fitted on these rows" if options.in_sample else "")
        + f"; from {TEST_DRAWS:,} draws where a group expects fewer than {EXPECTED:g} rows of a label",
    )


def _grouped_p(result: Measured, scored: Scored, options: Options) -> Measured:
    if result.value is None:
        return replace(result, p=0.0)
    groups = _Groups.of(ties_of(scored.top))
    count = len(groups.rows)
    by_unit = _p_by_unit(scored.top, groups)
    if options.in_sample and by_unit is not None:
        return replace(result, reason=result.reason or "no p-value by unit on fitted rows")
    few = f"ties leave {count} of {GROUPS} groups" if count < GROUPS else None
    if groups.expected >= EXPECTED:
        from scipy.special import chdtrc

        freedom = max(1, count - 2) if options.in_sample else count
        p = max(float(chdtrc(freedom, result.value)), by_unit or 0.0)
        return replace(result, p=p, reason=result.reason or few)
    if options.in_sample or not scored.top.ties.with_positive_weight.even:
        which = "on fitted rows" if options.in_sample else "with unequal weights"
        withheld = f"no p-value {which} where a group expects fewer than {EXPECTED:g} rows of a label"
        return replace(result, reason=result.reason or withheld)
    return replace(result, p=max(groups.drawn_p(options.seed), by_unit or 0.0), reason=result.reason or few)


@of_ties("top", _grouped, _CERTAIN, complete=_grouped_p, ties=ties_of)
def hosmer_lemeshow(ties: TiedScores, options: Options) -> float | None:
    """Hosmer & Lemeshow's test (1980): sum (O - E)^2 / (n_g pbar (1 - pbar)) over ten groups of equal mass.

    Chi-squared with as many degrees of freedom as there are groups, because the rows were not fitted on; two fewer
    where they were. With weights n_g is Kish's effective number of rows, or what the variance of the gap says where
    weights depend on the label. Where a group expects fewer than `EXPECTED`
    rows of a label, chi-squared is wrong (it rejects 20 % of calibrated scores at 200 rows with a rate of 1 %): the
    p-value is then that of counts drawn from the score, and there is none with unequal weights or on fitted rows.
    """
    statistic = _Groups.of(ties).statistic
    return statistic if math.isfinite(statistic) else None


def _two_sided(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2.0))


def _z_definition(scored: Scored, options: Options) -> Definition:
    fitted = "free of a fitted intercept and slope: fitted on these rows"
    return Definition("target", approximation=fitted if options.in_sample else None)


def _z_p(result: Measured, scored: Scored, options: Options) -> Measured:
    if result.value is None:
        return result
    p, rows = _two_sided(result.value), scored.top
    if rows.units is None:
        return replace(result, p=p)
    if options.in_sample:
        return replace(result, reason="no p-value by unit on fitted rows")
    turned = 1.0 - 2.0 * rows.prob
    by_unit = paired_difference(turned * rows.label, turned * rows.prob, rows.weight, rows.units).p
    if by_unit is None:
        return replace(result, reason="no p-value: all rows are of one unit")
    return replace(result, p=max(p, by_unit))


@of_ties("top", _z_definition, _NO_CHANCE, complete=_z_p, ties=ties_of)
def spiegelhalter_z(ties: TiedScores, options: Options) -> float | None:
    """Spiegelhalter's z (1986): the Brier score less what it would be on average, in standard deviations.

    The sum of w (y - p) g / sqrt(sum w^2 g^2 p (1 - p)), with g = 1 - 2 p; where weights depend on the label, w^2 is
    the product of both. Standard normal for a calibrated score; the
    p-value is two-sided. Over-confidence makes it positive. Where the rows were fitted on, g is taken free of what an
    intercept and a slope of the log-odds have fitted already.
    """
    p = ties.prob
    direction = 1.0 - 2.0 * p
    if options.in_sample:
        basis = np.stack([np.ones(len(p)), logit(p)])
        bent = basis * (ties.weight * p * (1.0 - p))
        direction = direction - (np.linalg.pinv(bent @ basis.T) @ (bent @ direction)) @ basis
    variance = float((ties.square * direction**2 * p * (1.0 - p)).sum())
    if variance <= 0:
        return None
    gap = ties.positive * (1.0 - p) - (ties.weight - ties.positive) * p  # w (y - p), with its digits near p = 1
    return float((gap * direction).sum()) / math.sqrt(variance)


Fault: TypeAlias = Literal["high", "low", "over", "under", "shape"]
"""Too high or too low on average; over- or under-confident; neither of these two."""

DRAWS = 999
"""Draws of labels for the test of the shape."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Whether a score is calibrated, and what is wrong where it is not."""

    p: float
    level: float
    """`p`, `level`: of the test of all gaps together, and at which p-value they are more than chance."""

    predicted: float
    happened: float
    """`predicted`, `happened`: the mean prediction and the share that came true."""

    shift_p: float
    detectable: float | None
    """`shift_p`, `detectable`: of calibration in the large, and the mean error that the joint test would have found in
    four cases of five.
    """

    slope: float | None
    slope_p: float | None
    """`slope`, `slope_p`: of Cox's recalibration: below 1 the score is over-confident. None where the rows do not
    determine it.
    """

    shape_p: float | None
    """The p-value of the gaps that intercept and slope leave; None where the joint test finds nothing."""

    faults: tuple[Fault, ...]
    """The faults, the one that explains most first; empty where chance alone can make all gaps."""

    @property
    def chance(self) -> bool:
        """Whether chance alone can make all gaps."""
        return self.p > self.level


def diagnose(sums: GapSums) -> Diagnosis | None:
    """The diagnosis from sums over rows; None without rows."""
    sums = sums.compact()
    if len(sums.cell) == 0:
        return None
    test = joint_test(sums)
    happened, predicted = (float(each.sum()) / sums.total for each in (sums.positive, sums.sums[3]))
    cox = _Cox.of(sums)
    faults, shape_p = _faults(sums, cox, test.shift_p, low=happened > predicted) if test.p <= LEVEL else ((), None)
    return Diagnosis(
        p=test.p,
        level=LEVEL,
        predicted=predicted,
        happened=happened,
        shift_p=test.shift_p,
        detectable=test.detectable if test.detectable > 0 else None,
        slope=None if cox is None else float(cox.both[1]),
        slope_p=None if cox is None else _two_sided(cox.slope_z),
        shape_p=shape_p,
        faults=faults,
    )


class _Cox(NamedTuple):
    """Cox's recalibration of the cells: (a, b), and the score tests of a = 0 and of b = 1, the other one free."""

    both: FloatArray
    shift_z: float
    slope_z: float

    @classmethod
    def of(cls, sums: GapSums) -> _Cox | None:
        """None where no finite intercept and slope are the best."""
        ties = TiedScores(sums.prob, sums.sums[0], sums.sums[1], sums.positive, sums.sums[2])
        if separated(ties):
            return None
        z = sums.log_odds
        one = np.ones(len(z))
        try:
            shift, slope, both = (recalibration(ties, free) for free in ("intercept", "slope", "both"))
        except FitError:  # pragma: no cover - convex, and the classes overlap
            return None
        # In the model that holds one of the two, the score of that one, free of the other.
        shift_z = _score(sums, sigmoid(slope @ [one, z]), one, z)
        return cls(both, shift_z, _score(sums, sigmoid(shift @ [one, z]), z, one))


def _score(sums: GapSums, prob: FloatArray, direction: FloatArray, fitted: FloatArray) -> float:
    """The score in a direction at a fit of another, in its standard deviations."""
    bend = sums.sums[1] * prob * (1.0 - prob)
    fits = float(bend @ fitted**2)
    free = direction - fitted * (float(bend @ (direction * fitted)) / fits if fits > 0 else 0.0)
    variance = float((sums.square * prob * (1.0 - prob)) @ free**2)
    if (gaps := sums.by_unit(prob)) is not None and len(gaps) > 1:
        variance = max(variance, float(np.square(gaps @ free).sum()) * len(gaps) / (len(gaps) - 1))
    return float((sums.positive - sums.sums[1] * prob) @ free) / math.sqrt(variance) if variance > 0 else 0.0


def _faults(sums: GapSums, cox: _Cox | None, shift_p: float, *, low: bool) -> tuple[tuple[Fault, ...], float | None]:
    """The findings of the three tests, and the p-value of the last one, of the shape.

    `gains` is twice the log-likelihood that mending each fault would add.
    """
    level: Fault = "low" if low else "high"
    if cox is None:
        return (level,) if shift_p <= LEVEL else ("shape",), None
    shape_p, gain = _shape(sums, cox.both)
    names: tuple[Fault, ...] = (level, "over" if cox.both[1] < 1.0 else "under", "shape")
    gains = (cox.shift_z**2 - 1.0, cox.slope_z**2 - 1.0, gain)
    adjusted = holm([shift_p, _two_sided(cox.slope_z), shape_p])
    found = [(-gain, name) for name, gain, p in zip(names, gains, adjusted, strict=True) if (p or 0.0) <= LEVEL]
    return tuple(name for _, name in sorted(found)) or ("shape",), shape_p


def _shape(sums: GapSums, both: FloatArray) -> tuple[float, float]:
    """The p-value and the gain of the gaps over bins of equal weight that intercept and slope leave.

    The gaps are held against labels drawn from the fit. What a refit would take off each draw is projected out of it:
    for small gaps that is the same.
    """
    basis = np.stack([np.ones(len(sums.cell)), sums.log_odds])
    prob = sigmoid(both @ basis)
    bend = sums.sums[1] * prob * (1.0 - prob)
    taken = np.linalg.pinv((basis * bend) @ basis.T) @ basis
    bins = indicators(sums.masses)
    square = sums.square
    noise = (square * prob * (1.0 - prob)) @ bins
    room = noise > 1e-9 * (square @ bins)  # in the others the fit is certain of every label
    bins, noise = bins[:, room], noise[room]

    draws = [sums.draw(prob, DRAWS, stream(0, "shape"))]
    if (gaps := sums.by_unit(prob)) is not None:
        draws.append(signed_sums(gaps, DRAWS, 0))
    found, p = (sums.positive - sums.sums[1] * prob)[None], 0.0
    for drawn in draws:
        left = drawn - (drawn @ taken.T) @ (basis * bend)
        size = ((np.concatenate([found, left]) @ bins) ** 2 / noise).sum(axis=1)
        p = max(p, float(at_least(size)[0]))
    return p, float(size[0]) - max(0, bins.shape[1] - 2)
