"""Calibration errors that choose their own resolution, where the ECE is given bins.

The sweep takes as many bins of equal mass as keep their label means from falling (Roelofs et al. 2020). The smooth
calibration error is measured at the kernel width that equals it (Blasiok & Nakkiran 2023; Gaussian, reflected at 0 and
1). The cumulative error ECCE-R has no bins at all: it is Kuiper's statistic of y - p over sorted p (Arrieta-Ibarra et
al. 2022).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.forms import of_ties
from calcli.metrics.tied import TiedScores, cumulated

MOST_BINS = 5000
"""The sweep ends here; only near-perfect separation of many rows gets so far."""


def sweep_bins(ties: TiedScores) -> int:
    """The number of bins at which the sweep ends: one less than the first at which a label mean falls."""
    ties = ties.with_positive_weight
    for count in range(2, min(round(ties.count), MOST_BINS + 1)):
        cuts = ties.cuts(count)
        weight, positive = (ties.between(cuts, below) for below in ties.below[1:])
        some = weight > 0
        means = positive[some] / weight[some]
        if (np.diff(means) < -1e-12).any():  # equal means differ by rounding
            return count - 1
    return max(1, min(round(ties.count) - 1, MOST_BINS))


def sweep_of(ties: TiedScores, options: Options, norm: float = 1.0) -> float:
    """The `norm`-mean of the gaps over the bins at which the sweep ends."""
    ties = ties.with_positive_weight
    cuts = ties.cuts(sweep_bins(ties))
    weight = ties.between(cuts, ties.below[1])
    gap = ties.between(cuts, cumulated(ties.positive - ties.weight * ties.prob))
    some = weight > 0
    weight, gap = weight[some], gap[some]
    return float(((weight * np.abs(gap / weight) ** norm).sum() / weight.sum()) ** (1.0 / norm))


def _ended(measured: Measured, scored: Scored, options: Options) -> Measured:
    return replace(measured, reason=f"the sweep ended at {sweep_bins(scored.top.ties):,} bins")


_SWEEP = Definition(
    "lower",
    binning="mass",
    edge="the i-th sorted row of n, from 0, is in bin floor(i bins/n)",
    norm=1.0,
    approximation=f"as many bins as keep the label means rising, at most {MOST_BINS}",
)

ece_sweep = of_ties("top", _SWEEP, complete=_ended)(sweep_of)
"""The ECE at the largest number of bins up to which the label means of the bins have never fallen.

Rows that share a prediction share their labels evenly, so that their order does not matter.
"""


CELLS = 1 << 14
"""Residuals are gathered on so many cells of [0, 1], each shared between the two nearest nodes."""

TOLERANCE = 1e-6
"""The precision to which the width is found, at least."""


def smooth_of(ties: TiedScores, options: Options) -> float:
    """The one s at which the error smoothed at width s is s: the error falls as s grows, so that there is just one.

    It is bracketed, and the bracket's chord is followed; the end that stays put twice counts half (Illinois).
    """
    waves = cosines(ties)
    low, high = 0.0, 1.0
    above, below = at_width(waves, low), 1.0 - at_width(waves, high)
    s, last = high, 0
    while high - low > TOLERANCE and above > 0.0:
        previous, s = s, low + (high - low) * above / (above + below)
        gap = at_width(waves, s) - s
        if gap > 0:
            low, above, below, last = s, gap, below / 2 if last > 0 else below, 1
        else:
            high, below, above, last = s, -gap, above / 2 if last < 0 else above, -1
        if abs(s - previous) < TOLERANCE * 1e-6 or gap == 0.0:
            break
    return s if above > 0.0 else 0.0


def cosines(ties: TiedScores) -> FloatArray:
    """The cosine transform of the residuals: sums of w (y - p) cos(k pi p) over the sum of w, k = 0 .. CELLS."""
    residual = (ties.positive - ties.weight * ties.prob) / ties.total
    place = ties.prob * CELLS
    node = np.minimum(place.astype(np.int64), CELLS - 1)
    upper = place - node
    mass = np.bincount(node, residual * (1.0 - upper), minlength=CELLS + 1)
    mass[1:] += np.bincount(node, residual * upper, minlength=CELLS)
    even = np.concatenate([mass, np.zeros(CELLS - 1)])
    return np.fft.rfft(even).real


def at_width(waves: FloatArray, width: float) -> float:
    """The integral over [0, 1] of the absolute residual, smoothed at `width`.

    Smoothing with a Gaussian and all its images at 0 and 1 multiplies the k-th cosine by exp(-(k pi s)^2 / 2). Waves
    that this makes vanish are not added up, and a smooth function is integrated on few points.
    """
    points = 1 << max(8, min(14, math.ceil(math.log2(64.0 / max(width, 1e-9)))))
    k = np.arange(points + 1)
    damped = waves[: points + 1] * np.exp(-np.square(k * (math.pi * width)) / 2.0)
    values = np.abs(np.fft.irfft(damped, 2 * points)[: points + 1]) * (2 * points)
    return float(values.sum() - (values[0] + values[-1]) / 2.0) / points


_APPROXIMATION = f"reflected Gaussian; residuals on {CELLS} cells; the width equals the value to {TOLERANCE:g}"

smooth_ece = of_ties("top", Definition("lower", norm=1.0, approximation=_APPROXIMATION))(smooth_of)
"""smECE: the integral of the absolute smoothed residual, at the width that equals it."""


_FITTED = "no p-value on fitted rows: how far a fit holds the sum together depends on the method"
_BY_UNIT = "no p-value where rows belong to units: that of Brownian motion is for independent rows"
_CERTAIN = "every prediction is 0 or 1: a calibrated score would not vary"

_SURE = 1e-15
"""A variance of labels that is no more than this is that of rounding a 0 or a 1."""


def _with_p(measured: Measured, scored: Scored, options: Options) -> Measured:
    if measured.value is None:
        return measured
    if options.in_sample or scored.units is not None:
        return replace(measured, reason=measured.reason or (_FITTED if options.in_sample else _BY_UNIT))
    return replace(measured, p=brownian_range(measured.value))


_CUMULATIVE = Definition(
    "lower",
    edge="cumulated over sorted p, read after each tie",
    approximation="p-value of the range of Brownian motion",
)


@of_ties("top", _CUMULATIVE, _CERTAIN, complete=_with_p)
def ecce(ties: TiedScores, options: Options) -> float | None:
    """The range of the cumulative sum of y - p, rows sorted by p, in its own standard deviations, with its p-value.

    range(C) / sd, with C_k = sum_{i <= k} w_i (y_i - p_i) and sd^2 = sum w^2 p (1 - p). The sum is read after the last
    row of each tied p, so that the order of ties does not matter.
    """
    variance = float((ties.square * ties.prob * (1.0 - ties.prob)).sum())
    if not variance > _SURE * float(ties.square.sum()):
        return None
    return cumulated_range(ties) * ties.total / math.sqrt(variance)


def cumulated_range(ties: TiedScores) -> float:
    """The range max C - min C, where C_0 = 0, divided by the sum of w: the metric before it is scaled."""
    path = np.cumsum(ties.positive - ties.weight * ties.prob)
    return float(max(path.max(), 0.0) - min(path.min(), 0.0)) / ties.total


def _located(measured: Measured, scored: Scored, options: Options) -> Measured:
    """The measurement with the scores between which the error is, and its direction."""
    ties = scored.top.ties
    path = cumulated(ties.positive - ties.weight * ties.prob)
    low, high = int(path.argmin()), int(path.argmax())
    if low == high:
        return measured
    begin, end = (f"{ties.prob[place]:.3g}" for place in (min(low, high), max(low, high) - 1))
    side = "low" if low < high else "high"
    return replace(measured, reason=f"predictions from {begin} to {end} are too {side}")


_INTERVALS = Definition("lower", edge="any interval of scores")


@of_ties("top", _INTERVALS, complete=_located)
def cutoff_error(ties: TiedScores, options: Options) -> float:
    """The largest |mean of (y - p) 1[p in I]| over all intervals I of scores: the range of the cumulative sum.

    It is the share of the rows that are in the interval, times how far their mean prediction is off. The reason of the
    measurement says which interval it is.
    """
    return cumulated_range(ties)


def brownian_range(x: float) -> float:
    """The probability that the range of Brownian motion on [0, 1] exceeds x (Feller 1951).

    The two series are equal; each is used where it converges at once and nothing cancels.
    """
    if x <= 0:
        return 1.0
    if x < 1.0:
        below = sum(
            (8.0 / x**2 + 2.0 / (j * math.pi) ** 2) * math.exp(-2.0 * (j * math.pi / x) ** 2) for j in (0.5, 1.5, 2.5)
        )
        return min(max(1.0 - below, 0.0), 1.0)
    tail = sum((-1.0) ** (k - 1) * k * math.erfc(k * x / math.sqrt(2.0)) / 2.0 for k in range(1, 41))
    return min(max(8.0 * tail, 0.0), 1.0)
