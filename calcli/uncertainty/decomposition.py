"""The mean of an ensemble's members, and its uncertainty in two parts.

Data uncertainty is in every member: classes that overlap, noise. Knowledge uncertainty is their disagreement: rows
unlike those that they were trained on. They add up to the total (equations 3 to 6 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray
from calcli.numeric.links import CLIP, LEAST

_BLOCK = 1 << 12
"""How many rows are decomposed at a time, so that intermediate results stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Members:
    """The predictions of M members."""

    mean: FloatArray
    """The probability of the positive class, shape (n, M); of each class, shape (n, M, K); or the mean of the amount,
    shape (n, M).
    """

    variance: FloatArray | None = None
    """The variance of the amount, shape (n, M); None for classes."""

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def count(self) -> int:
        """M."""
        return int(self.mean.shape[1])

    def only(self, member: int) -> Members:
        """One member, as an ensemble of one; -1 is the last."""
        place = slice(member, None) if member == -1 else slice(member, member + 1)
        return Members(self.mean[:, place], None if self.variance is None else self.variance[:, place])


@dataclass(frozen=True, slots=True)
class Decomposed:
    """The mean and the uncertainty of each row.

    Attributes
    ----------
    mean
        The mean over the members, shape (n,), or (n, K) for more than two classes.
    data, knowledge
        Uncertainty in nats; for amounts in their square. Never negative.
    """

    mean: FloatArray
    data: FloatArray
    knowledge: FloatArray

    @property
    def total(self) -> FloatArray:
        return self.data + self.knowledge


def decompose(members: Members) -> Decomposed:
    """The mean, and the uncertainty in its parts.

    Classes: the total is the entropy of the mean, -sum_k pbar_k ln pbar_k; data uncertainty the mean of the members'
    entropies; the rest is knowledge uncertainty, the mutual information of label and member (equation 4). Amounts:
    data uncertainty is the mean of the members' variances, knowledge uncertainty the variance of their means, over M
    (equation 6).
    """
    if members.variance is not None:
        knowledge: FloatArray = members.mean.var(axis=1)
        return Decomposed(_mean(members.mean), _mean(members.variance), knowledge)
    starts = range(0, max(len(members), 1), _BLOCK)
    parts = [_decompose_classes(members.mean[start : start + _BLOCK]) for start in starts]
    return Decomposed(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _decompose_classes(prob: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    mean = _mean(prob)
    total, data = _entropy(mean, binary=mean.ndim == 1), _mean(_entropy(prob, binary=prob.ndim == 2))
    return mean, data, np.maximum(total - data, 0.0)  # below 0 it can only be rounding


def _mean(values: FloatArray) -> FloatArray:
    """The mean over members."""
    mean: FloatArray = np.einsum("nm...->n...", values)
    mean /= values.shape[1]
    return mean


def _entropy(prob: FloatArray, *, binary: bool) -> FloatArray:
    """The entropy in nats of a probability and its complement, or of the last axis."""
    negative: FloatArray = _times_log(prob) + _times_log(1.0 - prob) if binary else _times_log(prob).sum(axis=-1)
    return -negative


def _times_log(prob: FloatArray) -> FloatArray:
    """The product p ln p, 0 where p is 0."""
    product: FloatArray = np.log(np.maximum(prob, LEAST))
    product *= prob
    return product


def expected_kl(members: Members, parts: Decomposed) -> FloatArray:
    """The expected Kullback-Leibler divergence of one member from another: a second measure of disagreement.

    Classes: -sum_k pbar_k mean_m ln p_mk - data, probabilities held at 1e-12 or more under the logarithm. Amounts: the
    mean over pairs m, l of two different members of [(mu_m - mu_l)^2 + var_m] / (2 var_l) - 1/2 + ln(var_l / var_m)/2.
    """
    if members.variance is not None:
        return _expected_kl_of_amounts(members.mean, members.variance)
    logs = np.log(np.maximum(members.mean, CLIP)).mean(axis=1)
    cross: FloatArray
    if parts.mean.ndim == 2:
        cross = -(parts.mean * logs).sum(axis=1)
    else:
        logs_of_other = np.log(np.maximum(1.0 - members.mean, CLIP)).mean(axis=1)
        cross = -(parts.mean * logs + (1.0 - parts.mean) * logs_of_other)
    return np.maximum(cross - parts.data, 0.0)


def _expected_kl_of_amounts(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """`expected_kl` from sums over members: the sum over m of (mu_m - mu_l)^2 is M (var mu + (mu_l - mubar)^2)."""
    count = mean.shape[1]
    squares = np.square(mean - mean.mean(axis=1, keepdims=True))
    spread = count * (squares.mean(axis=1, keepdims=True) + squares)
    others = variance.sum(axis=1, keepdims=True) - variance
    divergence: FloatArray = ((spread + others) / (2.0 * variance)).sum(axis=1) / (count * (count - 1)) - 0.5
    return np.maximum(divergence, 0.0)  # the logarithms cancel over all pairs


def reverse_information(parts: Decomposed, divergence: FloatArray) -> FloatArray:
    """Reverse mutual information: `expected_kl` less knowledge uncertainty."""
    return np.maximum(divergence - parts.knowledge, 0.0)
