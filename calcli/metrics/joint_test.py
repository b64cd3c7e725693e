"""Whether a score is calibrated, by one test of all its gaps together.

The labels are drawn anew as a calibrated score would have them, and six statistics are computed on the draws as on the
rows: calibration in the large, the slope (Cox's score test, free of the first), Spiegelhalter's, the ECE over bins of
equal width and of equal weight, and the largest gap of a bin by its deviance. Each is ranked among its draws. The least
of the six p-values is what is tested, ranked among the least ones of the draws (Westfall & Young 1993): so the six,
which depend on each other, cost no more than they must, and a calibrated score is called off in `LEVEL` of all cases or
less, however few its positives are.

Rows are gathered on narrow cells of p or 1 - p, an eighth of an octave wide and cut at the edges of the bins of equal
width, and of the weight, half an octave wide. In a cell the number of positives is binomial, so that millions of rows
cost what a hundred cells do, and rows of unequal weight are drawn as what they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Scored
from calcli.metrics.paired import Paired, merged_units, of_units, signed_sums, unit_sums, unit_table
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

_TIES = 9
"""Statistics that agree to so many decimals are equal."""

_TOGETHER = 1 << 22
"""Numbers that are drawn at a time."""

_MANY = 25.0
"""So many expected rows of the rarer label make the weights of single rows unimportant."""

_PROB_BITS, _WEIGHT_BITS = 49, 51
_KIND_BITS = 12
"""The bits of a weight without its lower ones."""

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


@dataclass(frozen=True, slots=True)
class GapSums:
    """Sums over the rows of each cell. Those over parts of the rows add up to those over all."""

    cell: IntArray
    """Which cells hold rows, rising: by probability, within it by weight."""

    sums: FloatArray
    """Of 1, w, w^2, w p, w (1 - p) and w (y - p), shape (6, cells)."""

    impossible: float = 0.0
    """The weight of the rows that are what their score says they cannot be."""

    units: UnitGaps | None = None
    """The gaps of each unit, where rows belong to units."""

    @classmethod
    def empty(cls) -> GapSums:
        """The sums over no rows."""
        return cls(np.zeros(0, np.int64), np.zeros((6, 0)))

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
        tail = np.minimum(rows.prob, 1.0 - rows.prob)
        right = rows.prob > 0.5
        place = (np.maximum(tail, _LEAST).view(np.int64) >> _PROB_BITS) - _FIRST
        place = np.where(right, 2 * _HALF - 1 - place, place)
        place = 2 * place + (rows.prob > _EDGE[place])
        certain = tail <= 0.0
        impossible = certain & (right != (rows.label == 1)) if certain.any() else certain
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        kinds, kind = _kinds(rows.weight)
        place, count = place * len(kinds) + kind, _PLACES * len(kinds)
        columns = (None, None, None, tail) if rows.weight is None else (None, weight, weight**2, weight * tail)
        by_label = _sums(place + count * rows.label, columns, 2 * count).reshape(4, 2, count)
        held = np.flatnonzero(by_label[0].any(axis=0))
        n, w, square, smaller = by_label[..., held]
        left = held // len(kinds) < 2 * _HALF
        prob, rest = (np.where(side, smaller.sum(0), w.sum(0) - smaller.sum(0)) for side in (left, ~left))
        gap = np.where(left, w[1] - smaller.sum(0), smaller.sum(0) - w[0])
        cell = (held // len(kinds) << _KIND_BITS) + kinds[held % len(kinds)]
        sums = np.stack([n.sum(0), w.sum(0), square.sum(0), prob, rest, gap])
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
        """The sums with rows of all weights in one cell where so many are expected that their weights do not matter.

        The cell then has as many rows as all of them are worth, (sum w)^2 / sum w^2.
        """
        some = self.sums[2] > 0  # beside the others, what vanishes when it is squared is nothing
        cells, parts = self.cell[some], self.sums[:, some]
        places, place = np.unique(cells >> _KIND_BITS, return_inverse=True)
        merged_units = _sums(place, tuple(parts), len(places))
        worth = merged_units[1] ** 2 / merged_units[2]
        many = worth * np.minimum(merged_units[3], merged_units[4]) / merged_units[1] >= _MANY
        own = ~many[place]
        merged_units[0] = worth
        cell = np.concatenate([cells[own], places[many] << _KIND_BITS])
        order = np.argsort(cell)
        sums = np.concatenate([parts[:, own], merged_units[:, many]], axis=1)
        return GapSums(cell[order], sums[:, order], self.impossible, self.units)

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

    @property
    def unit(self) -> FloatArray:
        """The weight of a row of each cell: the root of the mean square."""
        root: FloatArray = np.sqrt(self.sums[2] / self.sums[0])
        return root

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
        """Which of `MASSES` bins each cell is in, of equal weight as far as cells are not cut."""
        before = np.cumsum(self.sums[1]) - self.sums[1] / 2.0
        place: IntArray = np.minimum((before / self.total * MASSES).astype(np.int64), MASSES - 1)
        return place

    def draw(self, prob: FloatArray, draws: int, rng: np.random.Generator) -> FloatArray:
        """The sums of w (y - p) over each cell, with labels drawn from the probabilities; shape (draws, cells)."""
        rows = np.rint(self.sums[0]).astype(np.int64)[:, None]
        prob = prob[:, None]
        # Cell by cell: numpy prepares a distribution once for draws that follow each other.
        gaps: FloatArray = (rng.binomial(rows, prob, (len(rows), draws)) - rows * prob) * self.unit[:, None]
        return gaps.T

    def by_unit(self, prob: FloatArray) -> FloatArray | None:
        """The sums of w (y - p) over each unit and cell, for other probabilities; None where rows have no units."""
        return None if self.units is None else self.units.table(self.cell, self.prob - prob)


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
        return of_units(*unit_sums(self.unit, self.gap, self.weight))

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


def _sums(place: IntArray, columns: tuple[FloatArray | None, ...], count: int) -> FloatArray:
    return np.stack([np.bincount(place, column, minlength=count).astype(np.float64) for column in columns])


@dataclass(frozen=True, slots=True)
class JointTest:
    """The result of the test."""

    p: float
    """Of all gaps together: the share of calibrated scores whose gaps are as unlikely."""

    shift_p: float
    """Of calibration in the large alone, from the same draws."""

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
    least = ps.min(axis=0)
    p = float(np.count_nonzero(least <= least[0])) / len(least)
    return p, float(ps[0, 0]), max(1.0 / len(least), float(np.quantile(least, LEVEL, method="lower")))


def at_least(values: FloatArray) -> FloatArray:
    """For each value the share of all that are as large or larger."""
    share: FloatArray = (len(values) - np.searchsorted(np.sort(values), values, side="left")) / len(values)
    return share


def quantile(share: float) -> float:
    """The quantile of the normal distribution."""
    from statistics import NormalDist  # not worth its import where nothing is tested

    return NormalDist().inv_cdf(share)


@dataclass(frozen=True, slots=True)
class _Statistics:
    """The parts of the six statistics that follow from the score, whatever the labels are."""

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
        noise = sums.sums[2] * prob * (1.0 - prob)
        centre = float(noise @ z) / max(float(noise.sum()), np.finfo(np.float64).tiny)
        directions = np.stack([np.ones(len(z)), z - centre, 1.0 - 2.0 * prob], axis=1)
        widths, masses = (indicators(place) for place in (sums.widths, sums.masses))
        bins = np.concatenate([widths, masses], axis=1)
        _, weight, square, expected, *_ = sums.sums @ bins
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
        """The statistics of tables, given the gaps of their cells; shape (tables, 6)."""
        sizes = np.divide(
            np.abs(gaps @ self.directions), self.spread, out=np.zeros((len(gaps), 3)), where=self.spread > 0
        )
        shift = gaps @ self.bins
        gap = np.abs(shift) / self.weight[: self.widths].sum()
        ece = [gap[:, : self.widths].sum(axis=1), gap[:, self.widths :].sum(axis=1)]
        rate = np.clip(self.expected + shift / self.weight, 0.0, 1.0)
        largest = (self.rows * divergence(rate, self.expected)).max(axis=1)
        return np.column_stack([sizes, *ece, largest])


def indicators(place: IntArray) -> FloatArray:
    """A column of zeros and ones for each place that occurs."""
    kinds, number = np.unique(place, return_inverse=True)
    columns: FloatArray = np.eye(len(kinds))[number]
    return columns


def divergence(rate: FloatArray, expected: FloatArray) -> FloatArray:
    """Kullback and Leibler's, of one rate from another: half a row's deviance."""
    return _part(rate, expected) + _part(1.0 - rate, 1.0 - expected)


def _part(rate: FloatArray, expected: FloatArray) -> FloatArray:
    expected = np.broadcast_to(expected, rate.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rate > 0, rate * np.log(rate / np.maximum(expected, 1e-300)), 0.0)
