"""How far a rate can be from its expectation by chance alone."""

from __future__ import annotations

import math

import numpy as np

from calcli.batch import FloatArray

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
