"""Between scores and probabilities.

A binary score is a log-odds z, a multiclass one a row of logits. `log_odds` is as exact as float64: from the left it
reaches 1e-308, from the right 1e-16. Scores made of probabilities (`scores`) are these log-odds, drawn in beyond
`CLIP`: their order survives, and no row is so far out that it decides a fit. `logit` is for numbers that are defined
with probabilities clipped to [`CLIP`, 1 - `CLIP`], as the log-loss is. Probabilities that calibrators give are held
inside the open interval (0, 1) with `open_interval`, at the ends that float64 has.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray, spans

CLIP = 1e-12
"""The distance from 0 and 1 at which losses clip a probability, and from which scores are drawn in."""

LEAST = float(np.finfo(np.float64).tiny)
GREATEST = 1.0 - float(np.finfo(np.float64).epsneg)

LEAST_REST = float(np.finfo(np.float64).epsneg) / 2.0
"""The number that stands for 1 - p where p is 1: half of 1 - `GREATEST`."""

FAR = -float(np.log(CLIP))
"""The log-odds beyond which scores are drawn in."""

FARTHEST = 1e40
"""The greatest size of a logit that is computed with, beyond which logits count as this: above the numbers of float32,
with which classes are masked, and below those whose sums and products leave the range of float64.
"""

_ROWS = 2048
"""Rows of logits that are looked at together: few enough for the cache."""


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


def log_odds(p: FloatArray) -> FloatArray:
    """Log-odds of probabilities; 0 counts as `LEAST`, and 1 as half a step above `GREATEST`."""
    held = np.clip(p, LEAST, 1.0)
    with np.errstate(divide="ignore"):
        return np.log(held) - np.maximum(np.log1p(-held), np.log(LEAST_REST))


def logits(prob: FloatArray) -> FloatArray:
    """Probabilities on the scale of logits: log-odds, or a log-probability for each class."""
    return log_odds(prob) if prob.ndim == 1 else np.log(np.clip(prob, LEAST, 1.0))


def drawn_in(z: FloatArray) -> FloatArray:
    """Log-odds as they are up to `FAR`, and beyond as `FAR` + ln(1 + distance): they rise for ever, but slowly.

    A naive Bayes model says 1e-200 as easily as 1e-12. Taken at its word, one such row that is wrong decides a fit; if
    all were held at `FAR`, their order would be lost.
    """
    far = np.abs(z) > FAR
    if not far.any():
        return z
    held = z.copy()
    held[far] = np.copysign(FAR + np.log1p(np.abs(z[far]) - FAR), z[far])
    return held


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
    """The score that stands for given probabilities: log-odds, or log-probabilities, drawn in."""
    return drawn_in(logits(prob))


def against_rest(score: FloatArray) -> FloatArray:
    """The log-odds of each class against all others, a column for each.

    For logits V it is V_k - ln(sum of exp V_j over j != k), which keeps its precision where the class probability has
    rounded to 0 or 1: the sum without the greatest term is taken by itself, and from every other sum a term is taken
    away that is at most half of it.
    """
    if score.ndim == 1:
        return np.column_stack([-score, score])
    z = np.empty(score.shape)
    for rows in spans(len(score), _ROWS):
        here = score[rows]
        top = here.argmax(axis=1)[:, None]
        u = here - np.take_along_axis(here, top, axis=1)
        np.put_along_axis(u, top, -np.inf, axis=1)
        second = u.max(axis=1, keepdims=True)
        others = np.exp(u - second)
        total = others.sum(axis=1, keepdims=True)
        np.put_along_axis(u, top, 0.0, axis=1)
        rest = np.log1p(np.exp(second) * (total - others))
        np.put_along_axis(rest, top, second + np.log(total), axis=1)
        z[rows] = u - rest
    return z


def odds(score: FloatArray) -> FloatArray:
    """The odds of each class against the rest, of two classes those of the positive one.

    For ranking: they tell scores apart where probabilities have rounded to 1. Log-odds beyond 600 are drawn in.
    """
    z = score if score.ndim == 1 else against_rest(score)
    held: FloatArray = np.clip(z, -600.0, 600.0)
    far = held != z
    if far.any():
        held[far] += np.copysign(np.minimum(np.log1p(np.abs(z[far]) - 600.0), 100.0), z[far])
    return np.exp(held, out=held)


def open_interval(prob: FloatArray, *, out: FloatArray | None = None) -> FloatArray:
    """Probabilities held strictly between 0 and 1; in place where `out` is the argument itself."""
    return np.clip(prob, LEAST, GREATEST, out=out)
