"""The class rates of rows without labels, if nothing but these rates has moved since the probabilities were calibrated.

If the rows of each class are what they were, a row's probability p_k is to its class rate q_k at the fit as the density
of the class is to that of all rows. The likelihood of the new rates pi is then the product over rows of

    sum_k pi_k p_k / q_k

It is concave, and the EM of Saerens, Latinne and Decaestecker (2002) climbs it; of two classes the root of its slope is
found at once. `moved` tests the assumption: rows weighted by 1 / (sum_k pi_k p_k / q_k) have the distribution of scores
that the rows of the fit had.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from calcli.batch import FloatArray
from calcli.numeric.links import logit, scores, sigmoid, softmax

_STEPS = 5000
_NEAR = 1e-10
_STEP = 1e-3
"""The step of the differences by which the effect of the calibration is found."""

WIDEST = 0.5
"""Rates whose interval is wider are not identified."""

Z975 = 1.959963984540054


class NotIdentifiedError(ValueError):
    """The probabilities do not tell the classes apart, so that no class rates follow from them."""


class Rates(NamedTuple):
    """Class rates, with the ends of their 95 % intervals, in the order of the class index."""

    value: FloatArray
    lo: FloatArray
    hi: FloatArray


def rates(prob: FloatArray, before: FloatArray, weight: FloatArray, fitted: float) -> Rates:
    """The class rates of rows.

    Parameters
    ----------
    prob
        Calibrated probabilities, a column for each class.
    before
        The class rates of the rows that the calibrator was fitted on.
    weight
        Of each row.
    fitted
        The number of those rows, which says how well the calibration is known.
    """
    value = _solved(prob, before, weight)
    chance, fit = _chance(prob, before, weight, value), _calibration(prob, before, weight, value, fitted)
    if prob.shape[1] == 2:
        below, above = _sides(prob / before, weight, float(value[1]))
        sides = np.array([[above, below], [below, above]])
    else:
        sides = np.tile(Z975 * np.sqrt(np.diag(chance)), (2, 1)).T
    sides = np.hypot(sides, Z975 * np.sqrt(np.maximum(np.diag(fit), 0.0))[:, None])
    lo, hi = np.maximum(value - sides[:, 0], 0.0), np.minimum(value + sides[:, 1], 1.0)
    if not np.isfinite(sides).all() or float((hi - lo).max()) > WIDEST:
        raise NotIdentifiedError
    return Rates(value, lo, hi)


def _sides(density: FloatArray, weight: FloatArray, rate: float) -> tuple[float, float]:
    """How far the rate of the second class may lie below and above, by the ratio of likelihoods."""
    kish = float(weight.sum() / np.square(weight).sum())  # weights count as so many rows as they are worth
    gap = density[:, 1] - density[:, 0]

    def height(at: float) -> float:
        return kish * float(weight @ np.log(np.maximum(density[:, 0] + at * gap, 1e-300)))

    least = height(rate) - Z975**2 / 2.0

    def end(out: float) -> float:
        inner = rate
        if height(out) >= least:
            return out
        for _ in range(40):
            middle = (inner + out) / 2.0
            inner, out = (middle, out) if height(middle) >= least else (inner, middle)
        return inner

    return rate - end(0.0), end(1.0) - rate


def _solved(prob: FloatArray, before: FloatArray, weight: FloatArray, start: FloatArray | None = None) -> FloatArray:
    """The rates of the greatest likelihood."""
    density = prob / before
    share = weight / weight.sum()
    if prob.shape[1] == 2:
        return _of_two(density, share)
    value = before.copy() if start is None else start
    for _ in range(_STEPS):
        joint = density * value
        new: FloatArray = share @ (joint / joint.sum(axis=1, keepdims=True))
        if float(np.abs(new - value).max()) < _NEAR:
            break
        value = new
    return value


def _of_two(density: FloatArray, share: FloatArray) -> FloatArray:
    """The root of the slope, by bisection; it falls all the way."""
    gap = density[:, 1] - density[:, 0]
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        slope = float(share @ (gap / np.maximum(density[:, 0] + middle * gap, 1e-300)))
        low, high = (middle, high) if slope > 0.0 else (low, middle)
    rate = (low + high) / 2.0
    return np.array([1.0 - rate, rate])


def _scores(prob: FloatArray, before: FloatArray, value: FloatArray) -> FloatArray:
    """The slope of each row's log-likelihood in the rates of all classes but the first."""
    density = prob / before
    return (density[:, 1:] - density[:, :1]) / np.maximum(density @ value, 1e-300)[:, None]


def _chance(prob: FloatArray, before: FloatArray, weight: FloatArray, value: FloatArray) -> FloatArray:
    """The covariance of the rates from the chance of the rows."""
    slope = _scores(prob, before, value)
    information = (slope * weight[:, None]).T @ slope
    squared = (slope * np.square(weight)[:, None]).T @ slope
    try:
        inverse = np.linalg.inv(information)
    except np.linalg.LinAlgError:
        raise NotIdentifiedError from None
    return _with_first(inverse @ squared @ inverse)


def _with_first(free: FloatArray) -> FloatArray:
    """The covariance with that of the first class, whose rate is what the others leave."""
    spread = np.vstack([-np.ones(len(free)), np.eye(len(free))])
    return spread @ free @ spread.T


def _calibration(
    prob: FloatArray, before: FloatArray, weight: FloatArray, value: FloatArray, fitted: float
) -> FloatArray:
    """The covariance of the rates from what so many rows leave unknown of the calibration.

    That is a shift and a slope of the log-odds of two classes, and a shift of each class of more.
    """
    back = weight / np.maximum((prob / before) @ value, 1e-300)
    back /= back.sum()
    size = prob.shape[1]
    if size == 2:
        z = logit(prob[:, 1])
        design = np.column_stack([np.ones(len(z)), z])
        information = fitted * (design * (back * prob[:, 0] * prob[:, 1])[:, None]).T @ design
        moved = [sigmoid(z + _STEP), sigmoid((1.0 + _STEP) * z)]
        tables = [np.column_stack([1.0 - p, p]) for p in moved]
        covariance = np.linalg.pinv(information)
    else:
        covariance = np.diag(1.0 / np.maximum(fitted * (back @ (prob * (1.0 - prob))), 1e-9))
        tables = [softmax(scores(prob) + _STEP * np.eye(size)[k]) for k in range(size)]
    # A calibrator whose probabilities are too high on average has found too high a rate at its fit too.
    rates_then = [before * (back @ table) / (back @ prob) for table in tables]
    pairs = zip(tables, rates_then, strict=True)
    slopes = np.array([(_solved(table, then / then.sum(), weight, value) - value) / _STEP for table, then in pairs])
    # The rates at the fit are those of its rows, which were drawn too.
    about = prob - back @ prob
    drawn = (about * back[:, None]).T @ about / fitted
    others = [(before + _STEP * axis) / (1.0 + _STEP) for axis in np.eye(size)]
    by_rates = np.array([(_solved(prob, other, weight, value) - value) / _STEP for other in others])
    found: FloatArray = slopes.T @ covariance @ slopes + by_rates.T @ drawn @ by_rates
    return found


class Moments(NamedTuple):
    """The mean and the standard deviation of the log-odds of the rows of the fit, and how many they were."""

    centre: float
    spread: float
    rows: float


def moved(prob: FloatArray, before: FloatArray, weight: FloatArray, value: FloatArray, fit: Moments) -> float:
    """The p-value of the scores of the fit: that nothing but the class rates has moved, of two classes.

    Mean and mean square of the log-odds, over the rows weighted back to the rates of the fit, are compared with those
    of its rows by a Wald test, in which the rates are estimated too.
    """
    from scipy.special import gammaincc

    z = (logit(prob[:, 1]) - fit.centre) / fit.spread
    functions = np.column_stack([z, z**2 - 1.0])
    slope = _scores(prob, before, value)[:, 0]
    back = weight / np.maximum((prob / before) @ value, 1e-300)
    share = back / back.sum()
    mean = share @ functions
    about = functions - mean
    # By the rate: the weights fall by their slope.
    by_rate = -(share * slope) @ about
    information = float(weight @ np.square(slope))
    influence = share[:, None] * about + np.outer(weight * slope / information, by_rate)
    # The rows of the fit have the distribution to which these are weighted back.
    covariance = influence.T @ influence + (about * share[:, None]).T @ about / fit.rows
    distance = float(mean @ np.linalg.solve(covariance, mean))
    return float(gammaincc(1.0, distance / 2.0)) if math.isfinite(distance) else 1.0
