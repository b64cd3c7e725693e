"""Choosing by held-out log-loss, with doing nothing among the candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray
from calcli.numeric.score_folds import in_class_order

FOLDS = 5

CROSS_VALIDATED_ROWS = 20_000
"""Up to so many rows each fold is held out in turn, above it one: 4,000 rows tell candidates apart well enough."""


def held_out_folds(rows: Batch) -> list[NDArray[np.bool_]]:
    """Which rows each fold holds out; no folds where there are fewer rows than these, and one where there are many.

    Every class is dealt out evenly in the order of the rows, which `distinct_rows` makes canonical, as it does that of
    the classes.
    """
    if len(rows) < FOLDS:
        return []
    fold = np.empty(len(rows), dtype=np.int64)
    _, rank = in_class_order(rows.score)
    fold[np.argsort(rank[rows.labels], kind="stable")] = np.arange(len(rows)) % FOLDS
    return [fold == index for index in range(FOLDS if len(rows) <= CROSS_VALIDATED_ROWS else 1)]


def cross_validated(rows: Batch, losses_of: Callable[[Batch, Batch], FloatArray]) -> int:
    """The candidate that `least_loss` prefers on held-out rows; the first where there are too few rows.

    `losses_of` is given rows to fit on and rows that are held out, and returns the losses of the latter: an array for
    each candidate.
    """
    tests = held_out_folds(rows)
    if not tests:
        return 0
    losses = [losses_of(rows.take(~test), rows.take(test)) for test in tests]
    return least_loss(np.concatenate(losses, axis=1), np.concatenate([rows.weights[test] for test in tests]))


def least_loss(losses: Sequence[FloatArray] | FloatArray, weight: FloatArray) -> int:
    """The candidate of least mean loss, if it beats the first by more than a standard error, else the first.

    `losses` has, for each candidate, the loss of each held-out row. The standard error is that of the paired difference
    over rows. The best of several candidates owes part of its lead to chance; the first, which does nothing, is safe.
    """
    total = float(weight.sum())
    mean = np.array([float(weight @ loss) for loss in losses]) / total
    best = int(np.argmin(mean))
    lead = losses[0] - losses[best]
    error = math.sqrt(float(np.square(weight * (lead - (mean[0] - mean[best]))).sum())) / total
    return best if mean[0] - mean[best] > error else 0
