"""Losses: of each row, and of shuffled rows as a function of a few sums."""

from __future__ import annotations

import math

import numpy as np

from calcli.batch import FloatArray, LabelArray
from calcli.numeric.links import CLIP

Numbers = float | FloatArray
"""One number, or an array of candidates that are judged at once."""


def prob_of_label(prob: FloatArray, label: LabelArray) -> FloatArray:
    """The probability that was given to what happened; `prob` is P(positive), or a column for each class."""
    if prob.ndim == 1:
        happened: FloatArray = np.abs(prob - (label == 0))  # |p - 0| where y = 1, |p - 1| where y = 0
        return happened
    return np.take_along_axis(prob, label[:, None], axis=1)[:, 0]


def log_loss(prob: FloatArray, label: LabelArray) -> FloatArray:
    """-ln of the probability of what happened, which is held inside [1e-12, 1 - 1e-12]."""
    loss = prob_of_label(prob, label)
    np.clip(loss, CLIP, 1.0 - CLIP, out=loss)
    np.log(loss, out=loss)
    return np.negative(loss, out=loss)


def divergence(prob: FloatArray, other: FloatArray) -> FloatArray:
    """The Kullback-Leibler divergence: by how much the expected log-loss of `other` is higher, were `prob` right.

    Probabilities are held inside [1e-12, 1 - 1e-12] under the logarithm.
    """
    one, two = (np.stack([1.0 - p, p]) if p.ndim == 1 else p.T for p in (prob, other))
    ratio = np.log(np.clip(one, CLIP, 1.0 - CLIP)) - np.log(np.clip(two, CLIP, 1.0 - CLIP))
    found: FloatArray = (one * ratio).sum(axis=0)
    return found


def squared_error(prob: FloatArray, label: LabelArray) -> FloatArray:
    """(p - y)^2 of the positive class; the sum over the classes where there are more than two."""
    if prob.ndim == 1:
        return np.square(prob - label)
    error = prob.copy()
    error[np.arange(len(label)), label] -= 1.0
    loss: FloatArray = np.einsum("ij,ij->i", error, error)
    return loss


def ranked_error(prob: FloatArray, label: LabelArray) -> FloatArray:
    """(F - [y <= k])^2, summed over all classes k but the last, of the cumulative probability F of classes up to k."""
    if prob.ndim == 1:
        return np.square(prob - label)
    up_to = np.cumsum(prob, axis=1)[:, :-1]
    error = up_to - (label[:, None] <= np.arange(up_to.shape[1]))
    loss: FloatArray = np.einsum("ij,ij->i", error, error)
    return loss


def mixture_log_loss(mean: FloatArray, variance: FloatArray, target: FloatArray) -> FloatArray:
    """-ln mean_m N(y; mu_m, var_m) of each row, for mixtures of M normal distributions, shape (n, M)."""
    away = np.square(target[:, None] - mean) / variance
    each: FloatArray = -0.5 * (away + np.log(2.0 * math.pi * variance))
    top: FloatArray = each.max(axis=1)
    likelihood: FloatArray = top + np.log(np.exp(each - top[:, None]).mean(axis=1))
    return -likelihood


def shuffled_bins(rows: float, bin_size: float) -> int:
    """The number of bins of `bin_size` rows that shuffled rows are cut into: floor(n / c), at least one."""
    return max(1, math.floor(rows / bin_size))


def shuffled_moments(rows: Numbers, weight: Numbers, error: Numbers, square: Numbers) -> tuple[Numbers, Numbers]:
    """Mean and sample variance of the errors e = p - y of n rows, from the sums of w, of w e and of w^2 e^2.

    Weighted rows count as the errors u = n w e / sum w.
    """
    mean = error / weight
    about: FloatArray = np.maximum(square * (rows / weight) ** 2 - rows * mean**2, 0.0)
    return mean, about / np.maximum(rows - 1.0, 1.0)


def shuffled_gap(mean: Numbers, variance: Numbers, rows: Numbers, bins: Numbers, norm: float = 2.0) -> FloatArray:
    """The multi-view calibration error in closed form: what infinitely many shuffles would give.

    In a view the rows are shuffled and cut into bins of equal row count; its error is the mean over bins of
    |mean p - mean y|, and MVCE is the `norm`-mean of that over views (Huang et al. 2022, MBCT, equation 10).

    The mean error of a bin is that of a sample without replacement, close to normal with mean mu and variance
    v = S^2/c (1 - 1/t) where c = n/t. So its absolute value is folded normal, which gives the mean m of a view. Bins
    add up to the whole, so any two of a view correlate by -1/(t - 1), which gives the variance of a view.

    `mean` and `variance` are mu and S^2 of the errors p - y, `rows` and `bins` are n and t. There is no closed form for
    other norms than 1 and 2.
    """
    if norm not in {1.0, 2.0}:
        raise ValueError(f"there is no closed form for the norm {norm}")
    mu = np.abs(np.asarray(mean, dtype=np.float64))
    v = np.asarray(variance * bins / rows * (1.0 - 1.0 / bins), dtype=np.float64)
    s = np.sqrt(v)
    d = np.minimum(np.divide(mu, s, out=np.full(np.broadcast(mu, s).shape, 40.0), where=s > 0), 40.0)
    density = np.exp(-np.square(d) / 2.0) / math.sqrt(2.0 * math.pi)
    inside = _erf(d / math.sqrt(2.0))
    gap: FloatArray = 2.0 * s * density + mu * inside
    if norm == 1.0:
        return gap
    pairs = 2.0 * v * np.square(density) / np.maximum(bins - 1.0, 1.0)
    of_view = np.maximum(0.0, np.square(mu) + v - np.square(gap) - v * np.square(inside) + pairs)
    gap = np.sqrt(np.square(gap) + of_view / bins)
    return gap


def _erf(x: FloatArray) -> FloatArray:
    """The error function; for one number without scipy, whose import takes longer than measuring a small file."""
    if x.ndim == 0:
        return np.asarray(math.erf(x))
    from scipy.special import erf

    result: FloatArray = erf(x)
    return result
