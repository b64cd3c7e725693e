"""Whether a score is calibrated, by one test of all its gaps together.

The labels are drawn anew as a calibrated score would have them, and seven statistics are computed on the draws as on
the rows: calibration in the large, the slope (Cox's score test, free of the first), Spiegelhalter's, both of the first
two together (a score test with two degrees of freedom, in the limit the likelihood ratio of intercept and slope), the
ECE over bins of equal width and of equal weight, and the largest gap of a bin by its deviance. Each is ranked among its
draws. The harmonic mean of the seven p-values (Wilson 2019), a third of which is that of intercept and slope, is what
is tested, ranked among those of the draws: so the seven, which depend on each other, cost no more than they must, and a
calibrated score is called off in `LEVEL` of all cases or less, however few its positives are.

Rows are gathered on narrow cells of p or 1 - p, an eighth of an octave wide and cut at the edges of the bins of equal
width, and of the weight, half an octave wide. In a cell the number of positives is binomial, so that millions of rows
cost what a hundred cells do, and rows of unequal weight are drawn as what they are.

Weights may depend on the label: of a table that keeps a tenth of its negatives these have the weight 10. A score is
calibrated if the weighted share of positives is p. The odds that a row is positive are then p / (1 - p) times r, the
mean weight of negatives over that of positives at its score, and a row that is drawn with the other label weighs r
times as much, or as little. So its gap is 0 on average, and the variance of the gap is p (1 - p) times the product of
both weights, which is w^2 where r is 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Scored
from calcli.metrics.paired import Paired, merged_units, of_units, signed_sums, unit_sums, unit_table
from calcli.metrics.tied import TiedScores
from calcli.numeric.bins import width_edges
from calcli.numeric.links import logit
from calcli.numeric.seeded import stream

LEVEL = 0.05
"""The level of the test."""

DRAWS = 1999
"""Tables of labels that are drawn from the score."""

WIDTHS = 20
"""Bins of equal width."""

MASSES = 15
"""Bins of equal weight."""

_SHARES = np.array([1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0]) / 9.0
"""The share of each statistic in the harmonic mean; intercept and slope together have a third."""

_TIES = 9
"""Statistics that agree to so many decimals are equal."""

_TOGETHER = 1 << 22
"""Numbers that are drawn at a time."""

_MANY = 25.0
"""So many expected rows of the rarer label make the weights of single rows unimportant."""

_PROB_BITS, _WEIGHT_BITS = 49, 51
_KIND_BITS = 12
"""The bits of a weight without its lower ones."""

_PRECISE = 0.1
"""The ratio of the weights of the labels is averaged over scores until its relative error is this."""

_ROUNDING = 1e-12

_LEAST = 2.0**-60
"""Probabilities below share a cell."""

_FIRST = int(np.float64(_LEAST).view(np.int64)) >> _PROB_BITS
_HALF = (int(np.float64(0.5).view(np.int64)) >> _PROB_BITS) - _FIRST + 1
_PLACES = 4 * _HALF
"""The narrow cells of the probability, each below and above the edge of a bin that may be in it."""


def _cuts() -> tuple[FloatArray, IntArray]:
    """The edge inside each cell, infinite where there is none, and the bin of equal width of each place."""
    low = (np.arange(_HALF + 1) + _FIRST << _PROB_BITS).view(np.float64)
    inner = width_edges(WIDTHS)[1:-1]
    below = np.concatenate(
        [np.searchsorted(inner, low[:-1], "left"), np.searchsorted(inner, 1.0 - low[:0:-1], "right")]
    )
    end = np.concatenate([low[1:], 1.0 - low[-2::-1]])
    edge = np.append(inner, np.inf)[below]
    edge = np.where(edge < end, edge, np.inf)
    return edge, np.minimum(np.stack([below, below + 1], axis=1).ravel(), WIDTHS - 1)


_EDGE, _BIN = _cuts()


@dataclass(frozen=True)  # a slot would leave no room for the cached ratio
class GapSums:
    """Sums over the rows of each cell. Those over parts of the rows add up to those over all."""

    cell: IntArray
    """Which cells hold rows, rising: by probability, within it by weight."""

    sums: FloatArray
    """Sums of 1, w, w^2, w p, w (1 - p), w (y - p), and of 1, w and w^2 over the positive rows, shape (9, cells)."""

    impossible: float = 0.0
    """The weight of the rows that are what their score says they cannot be."""

    units: UnitGaps | None = None
    """The gaps of each unit, where rows belong to units."""

    @classmethod
    def empty(cls) -> GapSums:
        """The sums over no rows."""
        return cls(np.zeros(0, np.int64), np.zeros((9, 0)))

    @classmethod
    def of(cls, rows: Scored) -> GapSums:
        """The sums over the rows of a binary problem."""
        total = cls.empty()
        for part in rows.parts():
            total += cls._of_part(part.with_positive_weight)
        return total

    @classmethod
    def _of_part(cls, rows: Scored) -> GapSums:
        # The smaller one of p and 1 - p is summed, by label: all else follows from it without a loss of digits.
        tail, right, place = np.minimum(rows.prob, 1.0 - rows.prob), rows.prob > 0.5, _places(rows.prob)
        certain = tail <= 0.0
        impossible = certain & (right != (rows.label == 1)) if certain.any() else certain
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        kinds, kind = _kinds(rows.weight)
        place, count = place * len(kinds) + kind, _PLACES * len(kinds)
        columns = (None, None, None, tail) if rows.weight is None else (None, weight, weight**2, weight * tail)
        by_label = _sums(place + count * rows.label.astype(np.int64), columns, 2 * count).reshape(4, 2, count)
        held = np.flatnonzero(by_label[0].any(axis=0))
        n, w, square, smaller = by_label[..., held]
        left = held // len(kinds) < 2 * _HALF
        prob, rest = (np.where(side, smaller.sum(0), w.sum(0) - smaller.sum(0)) for side in (left, ~left))
        gap = np.where(left, w[1] - smaller.sum(0), smaller.sum(0) - w[0])
        cell = (held // len(kinds) << _KIND_BITS) + kinds[held % len(kinds)]
        sums = np.stack([n.sum(0), w.sum(0), square.sum(0), prob, rest, gap, n[1], w[1], square[1]])
        of_units = None
        if rows.units is not None:
            of_row = (place // len(kinds) << _KIND_BITS) + kinds[kind]
            of_units = UnitGaps(rows.units, of_row, weight, weight * (rows.label - rows.prob))
        return cls(cell, sums, float(weight[impossible].sum()), of_units)

    def __add__(self, other: GapSums) -> GapSums:
        cell, place = np.unique(np.concatenate([self.cell, other.cell]), return_inverse=True)
        sums = np.concatenate([self.sums, other.sums], axis=1)
        units = other.units if self.units is None else self.units + other.units
        return GapSums(cell, _sums(place, tuple(sums), len(cell)), self.impossible + other.impossible, units)

    def compact(self) -> GapSums:
        """The sums with rows of all weights in one cell where so many are expected that their weights do not matter."""
        some = self.sums[2] > 0  # beside the others, what vanishes when it is squared is nothing
        held = GapSums(self.cell[some], self.sums[:, some], self.impossible, self.units)
        places, place = np.unique(held.cell >> _KIND_BITS, return_inverse=True)
        merged = replace(held, cell=places << _KIND_BITS, sums=_sums(place, tuple(held.sums), len(places)))
        rows, prob, _ = merged.drawn(merged.prob)
        many = rows * np.minimum(prob, 1.0 - prob) >= _MANY
        own = ~many[place]
        cell = np.concatenate([held.cell[own], merged.cell[many]])
        order = np.argsort(cell)
        sums = np.concatenate([held.sums[:, own], merged.sums[:, many]], axis=1)
        return replace(held, cell=cell[order], sums=sums[:, order])

    @property
    def total(self) -> float:
        """The sum of w."""
        return float(self.sums[1].sum())

    @property
    def prob(self) -> FloatArray:
        """The mean prediction of each cell."""
        mean: FloatArray = self.sums[3] / self.sums[1]
        return mean

    @property
    def positive(self) -> FloatArray:
        """The weight of the positive rows of each cell."""
        positive: FloatArray = np.clip(self.sums[3] + self.sums[5], 0.0, self.sums[1])
        return positive

    @cached_property
    def ratio(self) -> FloatArray:
        """The mean weight of the negative rows over that of the positive ones, at the score of each cell."""
        places, place = np.unique(self.cell >> _KIND_BITS, return_inverse=True)
        sums = _sums(place, tuple(self.sums), len(places))
        return label_ratio(*np.stack([sums[:3] - sums[6:], sums[6:]], axis=1))[place]

    @property
    def square(self) -> FloatArray:
        """The variance of the gap of each cell over p (1 - p): the sum of w^2 where weights do not depend on labels."""
        square: FloatArray = self.ratio * self.sums[8] + (self.sums[2] - self.sums[8]) / self.ratio
        return square

    @property
    def mass(self) -> FloatArray:
        """The weight that each cell has on average, if the score is calibrated; the same for all labels drawn."""
        more = self.ratio - 1.0
        mass: FloatArray = (self.sums[1] + more * self.sums[7]) / (1.0 + more * self.prob)
        return mass

    @property
    def log_odds(self) -> FloatArray:
        """The log-odds of the mean prediction of each cell."""
        return logit(self.prob)

    @property
    def widths(self) -> IntArray:
        """Which of `WIDTHS` bins of equal width each cell is in."""
        place: IntArray = _BIN[self.cell >> _KIND_BITS]
        return place

    @property
    def masses(self) -> IntArray:
        """Which of `MASSES` bins each cell is in, of equal weight as far as no score is cut."""
        place = np.unique(self.cell >> _KIND_BITS, return_inverse=True)[1]
        mass = np.bincount(place, self.mass)  # an edge between two weights would part the labels of one score
        before = np.cumsum(mass) - mass / 2.0
        bins: IntArray = np.minimum((before / mass.sum() * MASSES).astype(np.int64), MASSES - 1)
        return bins[place]

    def drawn(self, prob: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The number of rows that each cell is drawn as, the chance that one is positive, and by how much its gap is
        then greater than if it is negative.
        """
        ratio = self.ratio
        share, squares = 1.0 - prob + ratio * prob, self.square / ratio
        rows = np.maximum(1.0, np.rint((self.sums[7] + (self.sums[1] - self.sums[7]) / ratio) ** 2 / squares))
        return rows, ratio * prob / share, share * np.sqrt(squares / rows)

    def draw(self, prob: FloatArray, draws: int, rng: np.random.Generator) -> FloatArray:
        """The sums of w (y - p) over each cell, with labels drawn from the probabilities; shape (draws, cells)."""
        count, chance, weight = (each[:, None] for each in self.drawn(prob))
        rows = count.astype(np.int64)
        # Cell by cell: numpy prepares a distribution once for draws that follow each other.
        gaps: FloatArray = (rng.binomial(rows, chance, (len(rows), draws)) - rows * chance) * weight
        return gaps.T

    def by_unit(self, prob: FloatArray) -> FloatArray | None:
        """The sums of w (y - p) over each unit and cell, for other probabilities; None where rows have no units."""
        return None if self.units is None else self.units.table(self.cell, self.prob - prob)


def label_ratio(rows: FloatArray, weight: FloatArray, square: FloatArray) -> FloatArray:
    """The mean weight of negative rows over that of positive ones at each of the rising scores.

    It is averaged (Mantel & Haenszel 1959) over as many neighbouring scores as `_PRECISE` needs: over hardly any where
    weights are a function of label and score, over all where they vary much beside these. What is then still within
    chance of 1 is drawn to 1 (James & Stein 1961). `rows`, `weight` and `square` are the sums of 1, w and w^2 by label
    and score, shape (2, scores).
    """
    held = (rows > 0) & (weight > 0)
    both, total = held.all(axis=0), np.maximum(rows.sum(axis=0), 1.0)
    worth = rows[0] * rows[1] / total
    freedom = float(np.sum(rows[held] - 1.0))
    if not both.any() or freedom == 0.0:  # one row of each label and score says nothing of how much weights vary
        return np.ones(len(total))
    vary = float(np.sum(square[held] * (rows[held] / weight[held]) ** 2 - rows[held])) / freedom
    width = min(float(worth.sum()), max(1.0, vary / _PRECISE**2))
    ends = np.append(0.0, np.cumsum(worth))
    low = np.clip((ends[1:] + ends[:-1] - width) / 2.0, 0.0, ends[-1] - width)
    parts = np.where(both, rows[::-1] * weight / total, 0.0)
    sums = [np.append(0.0, np.cumsum(part)) / part.sum() for part in parts]
    shares = np.array([np.interp(low + width, ends, one) - np.interp(low, ends, one) for one in sums])
    # Rounding is all there is of weights that are next to nothing beside others: these have the ratio of all rows.
    ratio = np.divide(shares[0], shares[1], out=np.ones_like(low), where=(shares > _ROUNDING).all(axis=0))
    log = np.log(ratio * parts[0].sum() / parts[1].sum())
    kept = 1.0 - np.divide(2.0 * max(0.0, vary) / width, log**2, out=np.ones_like(log), where=log != 0.0)
    shrunk: FloatArray = np.exp(log * np.maximum(0.0, kept))
    return shrunk


def drawn_rows(rows: Scored) -> tuple[FloatArray, FloatArray]:
    """The chance that each row is positive if the score is calibrated, and by how much its gap is then greater.

    In place of the probability and of the weight they make every test right that takes weights to be fixed.
    """
    if rows.weight is None:
        return rows.prob, np.ones(len(rows))
    ratio = ratio_of_rows(rows)
    share = 1.0 - rows.prob + ratio * rows.prob
    return ratio * rows.prob / share, rows.weight * share / np.where(rows.label == 1, 1.0, ratio)


def ratio_of_rows(rows: Scored) -> FloatArray:
    """The mean weight of negative rows over that of positive ones at the score of each row."""
    places, place = np.unique(_places(rows.prob), return_inverse=True)
    count = len(places)
    columns = (None, rows.weights, np.square(rows.weights))
    sums = _sums(place + count * rows.label.astype(np.int64), columns, 2 * count).reshape(3, 2, count)
    return label_ratio(*sums)[place]


def ties_of(rows: Scored) -> TiedScores:
    """The tied scores, whose squares times p (1 - p) are the variances of gaps if the score is calibrated."""
    if rows.weight is None:
        return rows.ties
    rows = rows.with_scaled_weights.with_positive_weight
    ratio = ratio_of_rows(rows)
    square = rows.weights**2 * np.where(rows.label == 1, ratio, 1.0 / ratio)
    place = np.searchsorted(rows.ties.prob, rows.prob)
    return replace(rows.ties, square=_sums(place, (square,), len(rows.ties.prob))[0])


@dataclass(frozen=True, slots=True)
class UnitGaps:
    """The unit of each row, its cell, w and w (y - p)."""

    unit: IntArray
    cell: IntArray
    weight: FloatArray
    gap: FloatArray

    def __add__(self, other: UnitGaps | None) -> UnitGaps:
        if other is None:
            return self
        names = ("unit", "cell", "weight", "gap")
        return UnitGaps(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    @property
    def mean(self) -> Paired:
        """The mean of all gaps: where they are skewed, as those of rare positives are, random signs are not enough."""
        gap, weight = unit_sums(self.unit, self.gap, self.weight)
        return of_units(gap, weight)

    def table(self, cells: IntArray, lower: FloatArray) -> FloatArray:
        """The gaps of each unit in these cells, of probabilities that are by so much lower in each cell.

        A cell of its own weight may be part of a wider one; rows of neither weigh next to nothing.
        """
        own = np.searchsorted(cells, self.cell)
        wide = np.searchsorted(cells, self.cell >> _KIND_BITS << _KIND_BITS)
        own, wide = (np.minimum(place, len(cells) - 1) for place in (own, wide))
        place = np.where(cells[own] == self.cell, own, wide)
        return unit_table(merged_units(self.unit), place, self.gap + self.weight * lower[place], len(cells))


def _kinds(weight: FloatArray | None) -> tuple[IntArray, IntArray]:
    """The kinds of weight that occur, half an octave each, and the place of each row's among them."""
    if weight is None:
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    kind = weight.view(np.int64) >> _WEIGHT_BITS
    present = np.bincount(kind, minlength=1 << _KIND_BITS) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[kind]


def _places(prob: FloatArray) -> IntArray:
    """The narrow cell of each probability, rising with it."""
    tail = np.maximum(np.minimum(prob, 1.0 - prob), _LEAST)
    place = (tail.view(np.int64) >> _PROB_BITS) - _FIRST
    place = np.where(prob > 0.5, 2 * _HALF - 1 - place, place)
    cut: IntArray = 2 * place + (prob > _EDGE[place])
    return cut


def _sums(place: IntArray, columns: tuple[FloatArray | None, ...], count: int) -> FloatArray:
    return np.stack([np.bincount(place, column, minlength=count).astype(np.float64) for column in columns])


@dataclass(frozen=True, slots=True)
class JointTest:
    """The result of the test."""

    p: float
    """The p-value of all gaps together: the share of calibrated scores whose gaps are as unlikely."""

    shift_p: float
    """The p-value of calibration in the large alone, from the same draws."""

    detectable: float
    """The mean error that this test would have found in four cases of five."""


def joint_test(sums: GapSums, seed: int = 0) -> JointTest:
    """The test of rows that there are; one that is impossible under its score settles it."""
    statistics = _Statistics.of(sums)
    rng = stream(seed, "joint test")
    size = max(1, _TOGETHER // len(sums.cell))
    drawn = [statistics.compute(sums.draw(sums.prob, min(size, DRAWS - done), rng)) for done in range(0, DRAWS, size)]
    p, shift_p, critical = _ranked(statistics, sums.sums[5], np.concatenate(drawn))
    spread = float(statistics.spread[0])
    # Where rows belong to units, whose rows may be alike in what no score knows, chance does at least as much.
    if (gaps := sums.by_unit(sums.prob)) is not None:
        by_unit = _ranked(statistics, sums.sums[5], statistics.compute(signed_sums(gaps, DRAWS, seed)))
        assert sums.units is not None
        p, shift_p = max(p, by_unit[0]), max(shift_p, by_unit[1], sums.units.mean.p or 0.0)
        spread = max(spread, float(np.sqrt(np.square(gaps.sum(axis=1)).sum())))
    detectable = (quantile(1.0 - critical / 2.0) + quantile(0.8)) * spread / sums.total
    return JointTest(0.0 if sums.impossible > 0 else p, shift_p, detectable)


def _ranked(statistics: _Statistics, gaps: FloatArray, drawn: FloatArray) -> tuple[float, float, float]:
    """The p-values of all statistics together and of the first, and which least p-value is critical."""
    # The rows are one table more among those drawn: if the score is calibrated, no rank of theirs is more likely.
    values = np.round(np.concatenate([statistics.compute(gaps[None]), drawn]), _TIES)
    ps = np.stack([at_least(column) for column in values.T])
    together = np.round(_SHARES @ (1.0 / ps), _TIES)
    least = float(np.quantile(ps.min(axis=0), LEVEL, method="lower"))
    return float(at_least(together)[0]), float(ps[0, 0]), max(1.0 / len(together), least)


def at_least(values: FloatArray) -> FloatArray:
    """For each value the share of all that are as large or larger."""
    return (len(values) - np.searchsorted(np.sort(values), values, side="left")) / len(values)


def quantile(share: float) -> float:
    """The quantile of the normal distribution."""
    from statistics import NormalDist  # not worth its import where nothing is tested

    return NormalDist().inv_cdf(share)


@dataclass(frozen=True, slots=True)
class _Statistics:
    """The parts of the seven statistics that follow from the score, whatever the labels are."""

    directions: FloatArray
    """By which the gaps of the cells are multiplied and summed, shape (cells, 3): for the mean, the slope and
    Spiegelhalter's.
    """

    spread: FloatArray
    """The standard deviation of these sums under a calibrated score."""

    bins: FloatArray
    """Which cells make up the bins, shape (cells, bins): first the `widths` ones of equal width."""

    widths: int
    expected: FloatArray
    rows: FloatArray
    """`expected`, `rows`: the mean prediction and the effective number of rows of each bin."""

    weight: FloatArray
    """Of each bin."""

    @classmethod
    def of(cls, sums: GapSums) -> _Statistics:
        prob, z = sums.prob, sums.log_odds
        mass, square = sums.mass, sums.square
        noise = square * prob * (1.0 - prob)
        centre = float(noise @ z) / max(float(noise.sum()), np.finfo(np.float64).tiny)
        directions = np.stack([np.ones(len(z)), z - centre, 1.0 - 2.0 * prob], axis=1)
        widths, masses = (indicators(place) for place in (sums.widths, sums.masses))
        bins = np.concatenate([widths, masses], axis=1)
        weight, expected, square = np.stack([mass, mass * prob, square]) @ bins
        return cls(
            directions=directions,
            spread=np.sqrt(noise @ directions**2),
            bins=bins,
            widths=widths.shape[1],
            expected=expected / weight,
            rows=weight**2 / square,
            weight=weight,
        )

    def compute(self, gaps: FloatArray) -> FloatArray:
        """The statistics of tables, given the gaps of their cells; shape (tables, 7)."""
        sizes = np.divide(
            np.abs(gaps @ self.directions), self.spread, out=np.zeros((len(gaps), 3)), where=self.spread > 0
        )
        shift = gaps @ self.bins
        gap = np.abs(shift) / self.weight[: self.widths].sum()
        ece = [gap[:, : self.widths].sum(axis=1), gap[:, self.widths :].sum(axis=1)]
        rate = np.clip(self.expected + shift / self.weight, 0.0, 1.0)
        largest = (self.rows * divergence(rate, self.expected)).max(axis=1)
        both = np.square(sizes[:, :2]).sum(axis=1)  # the slope is free of the mean: they are independent
        return np.column_stack([sizes, both, *ece, largest])


def indicators(place: IntArray) -> FloatArray:
    """A column of zeros and ones for each place that occurs."""
    kinds, number = np.unique(place, return_inverse=True)
    return np.eye(len(kinds))[number]


def divergence(rate: FloatArray, expected: FloatArray) -> FloatArray:
    """Kullback and Leibler's, of one rate from another: half a row's deviance."""
    return _part(rate, expected) + _part(1.0 - rate, 1.0 - expected)


def _part(rate: FloatArray, expected: FloatArray) -> FloatArray:
    expected = np.broadcast_to(expected, rate.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rate > 0, rate * np.log(rate / np.maximum(expected, 1e-300)), 0.0)
