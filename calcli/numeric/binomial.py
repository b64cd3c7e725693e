"""Rates and sums of labels by chance alone: binomial intervals, and the tails of weighted sums.

A sum of labels, each 1 with its predicted probability, is Poisson-binomial without weights, and its tails are exact
where the rows are few, or the labels of one kind. With weights they are where rows are few: the weights are then set on
a grid, which is the exact test with slightly other weights. Of more rows the tails are the saddlepoint approximation of
Lugannani and Rice (1980), with the first continuity correction of Daniels (1987) where weights are equal. The tests
hold the one against the other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from calcli.batch import FloatArray, LabelArray

_REACH = 9.0
"""Counts further than so many standard deviations from the mean have no probability to speak of."""


def rate_interval(rate: FloatArray, rows: FloatArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """The interval that holds the rate of `rows` draws with probability `level`, if each is 1 with probability `rate`.

    Both ends are quantiles of the binomial distribution over `rows`, so that at most half of what is left is below the
    lower and half above the upper one. Rows need not be whole: weighted rows are worth (sum w)^2 / sum w^2 of them.
    Where there are none, the interval is [0, 1].
    """
    tail = (1.0 - level) / 2.0
    ends = [_quantiles(p, n, tail) if n > 0 else (0.0, 1.0) for p, n in zip(rate, rows, strict=True)]
    lo, hi = np.array(ends, dtype=np.float64).reshape(-1, 2).T
    return lo, hi


def exact_interval(hits: float, rows: float, level: float = 0.95) -> tuple[float, float]:
    """The interval of Clopper and Pearson (1934) for a rate: it holds the true one with probability `level` or more.

    Neither hits nor rows need be whole: weighted rows are worth (sum w)^2 / sum w^2 of them.
    """
    from scipy.special import betaincinv

    tail = (1.0 - level) / 2.0
    lo = float(betaincinv(hits, rows - hits + 1.0, tail)) if hits > 0.0 else 0.0
    hi = float(betaincinv(hits + 1.0, rows - hits, 1.0 - tail)) if hits < rows else 1.0
    return lo, hi


def score_interval(rate: float, rows: float, quantile: float) -> tuple[float, float]:
    """The interval of Wilson (1927): the rates p that lie within `quantile` errors sqrt(p (1 - p) / n) of `rate`.

    The error is that of the rate that is tested, so that few hits do not make the interval too narrow; its coverage is
    right on average, where that of `exact_interval` is too high. Neither hits nor rows need be whole.
    """
    rate, square = min(max(rate, 0.0), 1.0), quantile**2 / rows
    middle = (rate + square / 2.0) / (1.0 + square)
    half = math.sqrt(square * (rate * (1.0 - rate) + square / 4.0)) / (1.0 + square)
    return (0.0 if rate == 0.0 else max(0.0, middle - half)), (1.0 if rate == 1.0 else min(1.0, middle + half))


def _quantiles(rate: float, rows: float, tail: float) -> tuple[float, float]:
    """The rates at `tail` and 1 - `tail`: of the least counts that this share of all draws does not exceed.

    The probabilities are built up from their ratios, P(k + 1) / P(k) = (n - k) / (k + 1) p / (1 - p).
    """
    if not 0.0 < rate < 1.0:
        return rate, rate
    spread = _REACH * math.sqrt(rows * rate * (1.0 - rate)) + _REACH
    first = max(0, math.floor(rows * rate - spread))
    counts = np.arange(first, min(math.floor(rows), math.ceil(rows * rate + spread)) + 1, dtype=np.float64)
    steps = np.log((rows - counts[:-1]) / (counts[:-1] + 1.0)) + math.log(rate / (1.0 - rate))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    mass = np.exp(logs - logs.max())
    below = np.cumsum(mass) / mass.sum()
    quantiles = counts[np.minimum(np.searchsorted(below, (tail, 1.0 - tail)), len(counts) - 1)]
    return float(quantiles[0]) / rows, min(1.0, float(quantiles[1]) / rows)


EXACT = 2_000_000
"""Up to so many rows times labels of the rarer kind the distribution is exact."""

EXACT_WEIGHTED, GRID = 100, 5000
"""Up to so many rows it is with unequal weights, whose sum is about so many steps of the grid."""

_NEAR = 1e-4
"""So close to its mean, in standard deviations, a sum is at the mean."""


class TailTest(NamedTuple):
    """A two-sided test of a sum."""

    p: float
    """Twice the smaller tail, at most 1."""

    least: float
    """The smallest p that any labels of these rows can have: where all are 1, or all 0."""


def sum_test(prob: FloatArray, label: LabelArray, weight: FloatArray | None = None) -> TailTest:
    """The test of the sum of w y, if each y is 1 with probability p."""
    if weight is not None:
        held = weight > 0
        prob, label, weight = prob[held], label[held], weight[held]
        if len(weight) and np.ptp(weight) <= 1e-12 * weight[0]:
            weight = None
    with np.errstate(divide="ignore"):
        none, all_ = float(np.log1p(-prob).sum()), float(np.log(prob).sum())
    least = min(1.0, 2.0 * math.exp(min(none, all_)))
    if not label.any():  # the ends have a closed form, however few or many rows there are
        return TailTest(min(1.0, 2.0 * math.exp(none)), least)
    if label.all():
        return TailTest(min(1.0, 2.0 * math.exp(all_)), least)
    if weight is None and len(label) * min(label.sum(), len(label) - label.sum()) <= EXACT:
        lower, upper = _counted(prob, int(label.sum()))
    elif weight is not None and len(label) <= EXACT_WEIGHTED:
        lower, upper = _on_a_grid(prob, label, weight)
    else:
        w = np.ones(len(prob)) if weight is None else weight
        lower, upper = _approximate(prob, float(w @ label), w, np.ones(len(prob)), lattice=weight is None)
    return TailTest(min(1.0, 2.0 * min(lower, upper)), least)


def cell_test(prob: FloatArray, weight: FloatArray, count: FloatArray, value: float) -> TailTest:
    """The test of a sum over cells, each of `count` rows of one probability and weight, that is `value`."""
    with np.errstate(divide="ignore"):
        least = min(1.0, 2.0 * math.exp(min(_total(count, np.log1p(-prob)), _total(count, np.log(prob)))))
    rows, ones = round(float(count.sum())), round(value)
    lattice = bool((weight == 1.0).all())
    if lattice and rows * min(ones, rows - ones) <= EXACT:
        lower, upper = _counted(np.repeat(prob, np.rint(count).astype(np.int64)), ones)
    else:
        lower, upper = _approximate(prob, value, weight, count, lattice=lattice)
    return TailTest(min(1.0, 2.0 * min(lower, upper)), least)


def _total(count: FloatArray, values: FloatArray) -> float:
    return float((count * values).sum())


def _counted(prob: FloatArray, ones: int) -> tuple[float, float]:
    """P(S <= s) and P(S >= s) where s labels are 1; of the rarer kind of labels, no more than there are are counted."""
    rarer = min(ones, len(prob) - ones)
    each = np.stack([1.0 - prob, prob] if rarer == ones else [prob, 1.0 - prob], axis=1)
    # Each row of `each` is the distribution of a sum over some rows; pairs of them are joined until one is left.
    while len(each) > 1:
        if len(each) % 2:
            each = np.concatenate([each, np.eye(1, each.shape[1])])
        left, right, width = each[::2], each[1::2], min(2 * each.shape[1] - 1, rarer + 1)
        each = np.zeros((len(left), width))
        for count in range(min(left.shape[1], width)):
            reach = min(right.shape[1], width - count)
            each[:, count : count + reach] += left[:, count : count + 1] * right[:, :reach]
    mass = each[0]
    fewer = float(mass[:rarer].sum())
    tails = fewer + float(mass[rarer]), max(0.0, 1.0 - fewer)
    return tails if rarer == ones else tails[::-1]


def _on_a_grid(prob: FloatArray, label: LabelArray, weight: FloatArray) -> tuple[float, float]:
    """P(S <= s) and P(S >= s). Weights that are whole multiples of the least are on the grid as they are."""
    steps = np.round(max(1.0, GRID * weight.min() // weight.sum()) * (weight / weight.min()))
    steps = np.maximum(1, np.minimum(steps, np.ceil(GRID * (weight / weight.sum())))).astype(np.int64)
    mass = np.zeros(int(steps.sum()) + 1)
    mass[0], end = 1.0, 0
    for p, step in zip(prob.tolist(), steps.tolist(), strict=True):
        moved = p * mass[: end + 1]
        mass[: end + 1] *= 1.0 - p
        mass[step : end + step + 1] += moved
        end += step
    place = int(steps @ label)
    return float(mass[: place + 1].sum()), float(mass[place:].sum())


def _approximate(
    prob: FloatArray, value: float, weight: FloatArray, count: FloatArray, *, lattice: bool
) -> tuple[float, float]:
    """P(S <= s) and P(S >= s) by the saddlepoint; rows whose label is certain only move the sum.

    Each place stands for `count` rows of its probability and weight.
    """
    mean = _total(count, weight) / float(count.sum())
    w, value = weight / mean, value / mean
    value -= _total(count[prob >= 1.0], w[prob >= 1.0])
    doubtful = (prob > 0.0) & (prob < 1.0)
    odds, w, n = np.log(prob[doubtful]) - np.log1p(-prob[doubtful]), w[doubtful], count[doubtful]
    total, rounding = float(n @ w), 1e-9 * float(n.sum())
    if value < -rounding or value > total + rounding:
        return 0.0, 0.0
    if value < rounding:
        return float(np.exp(-(n @ np.logaddexp(0.0, odds)))), 1.0
    if value > total - rounding:
        return 1.0, float(np.exp(-(n @ np.logaddexp(0.0, -odds))))
    return _saddlepoint(-odds, w, n, total - value, lattice=lattice), _saddlepoint(odds, w, n, value, lattice=lattice)


def _saddlepoint(odds: FloatArray, w: FloatArray, n: FloatArray, value: float, *, lattice: bool) -> float:
    """P(S >= value) from log-odds; the value is neither end of what S can be."""
    prob, mass, mass_square = _sigmoid(odds), n * w, n * np.square(w)
    variance = float(mass_square @ (prob * _sigmoid(-odds)))
    gap = value - float(mass @ prob)
    if abs(gap) <= _NEAR * math.sqrt(variance):
        return 0.5  # twice the smaller tail is then close to 1
    t = _root(odds, w, n, value, gap / variance)
    bend = float(mass_square @ (_sigmoid(odds + t * w) * _sigmoid(-odds - t * w)))
    cumulant = float((n * (np.logaddexp(0.0, odds + t * w) - np.logaddexp(0.0, odds))).sum())
    r = math.copysign(math.sqrt(max(0.0, 2.0 * (t * value - cumulant))), t)
    u = (-math.expm1(-t) if lattice else t) * math.sqrt(bend)
    if abs(r) <= _NEAR:
        return 0.5
    density = math.exp(-0.5 * r * r) / math.sqrt(2.0 * math.pi)
    return min(1.0, max(0.0, 0.5 * math.erfc(r / math.sqrt(2.0)) + density * (1.0 / u - 1.0 / r)))


def _root(odds: FloatArray, w: FloatArray, n: FloatArray, value: float, start: float) -> float:
    """The tilt t under which the sum's mean is its value: Newton's method within a bracket."""
    low, high, t = -math.inf, math.inf, start
    mass, mass_square = n * w, n * np.square(w)
    for _ in range(100):
        tilted = _sigmoid(odds + t * w)
        gap = float(mass @ tilted) - value
        low, high = (low, t) if gap > 0 else (t, high)
        bend = float(mass_square @ (tilted * (1.0 - tilted)))
        step = gap / bend if bend > 0 else math.copysign(1.0, gap)
        if abs(step) <= 1e-12 * (1.0 + abs(t)):
            return t
        following = t - math.copysign(min(abs(step), 2.0 + abs(t)), step)
        if not low < following < high:
            following = 0.5 * (low + high)
        t = following
    return t


def _sigmoid(z: FloatArray) -> FloatArray:
    return np.exp(-np.logaddexp(0.0, -z))
