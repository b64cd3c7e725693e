"""Between scores and probabilities.

A binary score is a log-odds z, a multiclass one a row of logits. Probabilities are clipped to
[`CLIP`, 1 - `CLIP`] before a logarithm is taken of them; probabilities that calibrators give are held inside the
open interval (0, 1) with `open_interval`, at the ends that float64 has, so that their order survives.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray

CLIP = 1e-12
"""How far from 0 and 1 a probability is held before its logarithm is taken."""

LEAST = float(np.finfo(np.float64).tiny)
GREATEST = 1.0 - float(np.finfo(np.float64).epsneg)


def sigmoid(z: FloatArray, *, out: FloatArray | None = None) -> FloatArray:
    """1 / (1 + exp(-z)). Where exp overflows to infinity, 1 / infinity is the 0 that is meant."""
    with np.errstate(over="ignore"):
        p = np.negative(z, out=out)
        np.exp(p, out=p)
        p += 1.0
        np.reciprocal(p, out=p)
    return p


def logit(p: FloatArray) -> FloatArray:
    """Log-odds of probabilities, clipped first."""
    clipped = np.clip(p, CLIP, 1.0 - CLIP)
    return np.log(clipped) - np.log1p(-clipped)


def softplus(u: FloatArray) -> FloatArray:
    """ln(1 + exp(u)) without overflow."""
    return np.maximum(u, 0.0) + np.log1p(np.exp(-np.abs(u)))


def softmax(v: FloatArray) -> FloatArray:
    """Rows of logits to rows of probabilities."""
    e: FloatArray = np.exp(v - v.max(axis=1, keepdims=True))
    e /= e.sum(axis=1, keepdims=True)
    return e


def log_softmax(v: FloatArray) -> FloatArray:
    """Rows of logits to rows of log-probabilities."""
    centred: FloatArray = v - v.max(axis=1, keepdims=True)
    total: FloatArray = np.exp(centred).sum(axis=1, keepdims=True)
    return centred - np.log(total)


def probabilities(score: FloatArray) -> FloatArray:
    """The uncalibrated probability of a score: P(positive), or a probability for each class."""
    return sigmoid(score) if score.ndim == 1 else softmax(score)


def scores(prob: FloatArray) -> FloatArray:
    """The score that stands for given probabilities: log-odds, or log-probabilities."""
    return logit(prob) if prob.ndim == 1 else np.log(np.clip(prob, CLIP, 1.0))


def one_against_rest(score: FloatArray, index: int) -> FloatArray:
    """The log-odds of class `index` against all others.

    For logits V it is V_k - ln(sum of exp V_j over j != k), which keeps its precision where the class probability has
    rounded to 0 or 1.
    """
    if score.ndim == 1:
        return score if index == 1 else -score
    others = np.delete(score, index, axis=1)
    top = others.max(axis=1)
    rest: FloatArray = top + np.log(np.exp(others - top[:, None]).sum(axis=1))
    return score[:, index] - rest


def open_interval(prob: FloatArray, *, out: FloatArray | None = None) -> FloatArray:
    """Probabilities held strictly between 0 and 1; in place where `out` is the argument itself."""
    return np.clip(prob, LEAST, GREATEST, out=out)
