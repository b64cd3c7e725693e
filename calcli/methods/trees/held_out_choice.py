"""Choosing by held-out log-loss, with doing nothing among the candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.numeric.seeded import Split, in_class_order, in_turn, splits_of_units, stream

FOLDS = 5

CROSS_VALIDATED_ROWS = 20_000
"""Up to so many rows each fold is held out in turn, above it one: 4,000 rows tell candidates apart well enough."""


def held_out_splits(rows: Batch) -> list[Split]:
    """Each fold predicted from the others; none where there are fewer rows than folds, one where there are many.

    Every class is dealt out evenly in the order of the rows, which `distinct_rows` makes canonical, as it does that of
    the classes. Where rows belong to units these are dealt out.
    """
    if len(rows) < FOLDS:
        return []
    most = FOLDS if len(rows) <= CROSS_VALIDATED_ROWS else 1
    if rows.units is not None:
        return splits_of_units(rows.units, FOLDS, stream(0, "units of trees"), most)
    fold = np.empty(len(rows), dtype=np.int64)
    _, rank = in_class_order(rows.score)
    fold[np.argsort(rank[rows.labels], kind="stable")] = np.arange(len(rows)) % FOLDS
    return in_turn(fold, most)


def enough(rows: Batch, splits: Sequence[Split]) -> Split | None:
    """The last of these splits, if it holds out as many rows as `held_out_splits` does where there are many.

    Few rows must not both choose and judge: calibrated scores of 500 rows, with ten columns of noise, would be changed
    in 3 of 160 simulated tables and not in 0 of 100.
    """
    last = splits[-1] if len(splits) and len(rows) > CROSS_VALIDATED_ROWS else None
    if last is None or np.count_nonzero(last.test) < CROSS_VALIDATED_ROWS / FOLDS:
        return None
    return last if all(rows.weights[side].any() for side in last) else None


def cross_validated(rows: Batch, losses_of: Callable[[Batch, Batch], FloatArray]) -> int:
    """The candidate that `least_loss` prefers on held-out rows; the first where there are too few rows.

    `losses_of` is given rows to fit on and rows that are held out, and returns the losses of the latter: an array for
    each candidate.
    """
    tried = [(rows.take(split.train), rows.take(split.test)) for split in held_out_splits(rows)]
    return best([losses_of(seen, unseen) for seen, unseen in tried], [unseen for _, unseen in tried])


def best(losses: Sequence[FloatArray], unseen: Sequence[Batch]) -> int:
    """The candidate that `least_loss` prefers on the rows of several splits; the first where there are none."""
    if not unseen:
        return 0
    weight = np.concatenate([rows.weights for rows in unseen])
    together = [rows.together for rows in unseen if rows.together is not None]
    return least_loss(np.concatenate(losses, axis=1), weight, np.concatenate(together) if together else None)


def held_out_rows(rows: Batch, splits: Sequence[Split]) -> Batch:
    """The rows that are predicted, split after split, without their features."""
    return rows.bare.take(np.concatenate([np.flatnonzero(split.test) for split in splits]))


def least_loss(losses: Sequence[FloatArray] | FloatArray, weight: FloatArray, units: IntArray | None = None) -> int:
    """The candidate of least mean loss, if it beats the first by more than a standard error, else the first.

    `losses` has, for each candidate, the loss of each held-out row. The standard error is that of the paired difference
    over rows, or over units of them. The best of several candidates owes part of its lead to chance; the first, which
    does nothing, is safe.
    """
    total = float(weight.sum())
    mean = np.array([float(weight @ loss) for loss in losses]) / total
    best = int(np.argmin(mean))
    lead = losses[0] - losses[best]
    noise = weight * (lead - (mean[0] - mean[best]))
    if units is not None:
        noise = np.bincount(units, noise)
    error = math.sqrt(float(np.square(noise).sum())) / total
    return best if mean[0] - mean[best] > error else 0
