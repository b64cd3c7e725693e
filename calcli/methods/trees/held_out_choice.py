"""Choosing by held-out log-loss, on rows in a canonical form.

The form makes a fit independent of the order of its rows and columns. Trees sum over rows in order and break ties by
what comes first, so rounding and order would show in what they learn. So equal rows (of one unit) are merged into one
with their total weight, rows are ordered by a hash of their values, and columns by name. A row of weight two is then
the same as the row twice. Scores count to eight decimals.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.learners.encoding import merged
from calcli.numeric.seeded import (
    Split,
    column_keys,
    in_class_order,
    in_turn,
    score_columns,
    splits_of_units,
    stream,
    sure_columns,
)

FOLDS = 5

LEAST_FOLDS = 3
"""From so many folds on, the fits of a cross-validation stand for one of all rows."""

CROSS_VALIDATED_ROWS = 20_000
"""Up to so many rows each fold is held out in turn, above it one: 4,000 rows tell candidates apart well enough."""


def distinct(batch: Batch, seed: int) -> Batch:
    """The distinct rows of positive weight, in an order that follows from `seed` and their values."""
    batch = batch if batch.weight is None else batch.take(batch.weight > 0)
    keys, order = _keys(batch, seed)
    first, weight = merged(keys, batch.weights, order)
    rows = batch.take(first)
    features = {name: _sorted_levels(rows.features[name]) for name in sorted(rows.features)}
    return replace(rows.bare, weight=weight, features=features)


def _sorted_levels(column: Column) -> Column:
    if column.role != "category":
        return column
    used = np.unique(column.values[column.values >= 0])
    levels = tuple(sorted(column.levels[code] for code in used))
    return Column("category", column.recode(levels, unseen=-1), levels)


def _keys(batch: Batch, seed: int) -> Iterator[NDArray[np.uint64]]:
    """Two numbers of 64 bits for each row: equal rows, equal keys, in whatever order the features, levels and classes
    are. The first ones tell rows apart, the second put them in order.
    """
    score, rank = in_class_order(batch.score, batch.weight)
    beside = [] if batch.label is None else [rank[batch.label].astype(np.float64)]
    beside += [] if batch.units is None else [batch.units.rank.astype(np.float64)]
    features = [_hashable(batch.features[name]) for name in sorted(batch.features)]
    for columns in (score_columns(score), sure_columns(score)):
        yield column_keys([*columns, *beside, *features], seed, "distinct rows")


def _hashable(column: Column) -> FloatArray | NDArray[np.uint64]:
    """Numbers with one kind of NaN, or the hash of each category's name."""
    if column.role != "category":
        values = column.values.astype(np.float64, copy=False)
        return np.where(np.isnan(values), np.nan, values)
    names = (level.encode("utf-8", "surrogatepass") for level in column.levels)
    hashes = [int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") for name in names]
    return np.array([*hashes, 0], dtype=np.uint64)[column.values.astype(np.int64)]  # code -1, missing, picks the last


def held_out_splits(rows: Batch) -> list[Split]:
    """A split for each fold that is held out; none where there are fewer rows than folds, one where there are many.

    Every class is dealt out evenly in the order of the rows, which `distinct` makes canonical. Where rows belong to
    units, the units are dealt out.
    """
    if len(rows) < FOLDS:
        return []
    most = FOLDS if len(rows) <= CROSS_VALIDATED_ROWS else 1
    if rows.units is not None:
        return splits_of_units(rows.units, FOLDS, stream(0, "units of trees"), most)
    fold = np.empty(len(rows), dtype=np.int64)
    _, rank = in_class_order(rows.score, rows.weight)
    fold[np.argsort(rank[rows.labels], kind="stable")] = np.arange(len(rows)) % FOLDS
    return in_turn(fold, most)


def enough(rows: Batch, splits: Sequence[Split]) -> Split | None:
    """The last split, if it holds out as many rows as `held_out_splits` does for a large table.

    Few rows must not both choose and judge: calibrated scores of 500 rows, with ten columns of noise, would be changed
    in 3 of 160 simulated tables and not in 0 of 100.
    """
    last = splits[-1] if len(splits) and len(rows) > CROSS_VALIDATED_ROWS else None
    if last is None or np.count_nonzero(last.test) < CROSS_VALIDATED_ROWS / FOLDS:
        return None
    return last if all(rows.weights[side].any() for side in last) else None


def each_held_out_once(splits: Sequence[Split]) -> bool:
    """Whether these are the folds of a cross-validation, of which each fit has seen two thirds of the rows or more."""
    if len(splits) < LEAST_FOLDS:
        return False
    held_out = np.sum([split.test for split in splits], axis=0)
    return bool((held_out == 1).all()) and all((split.train != split.test).all() for split in splits)


def cross_validated(rows: Batch, losses_of: Callable[[Batch, Batch], FloatArray]) -> int:
    """The candidate that `least_loss` prefers on held-out rows; the first where there are too few rows.

    `losses_of` gets rows to fit on and held-out rows, and returns the losses of the held-out rows by each candidate.
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
    """The held-out rows, split after split, without their features."""
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
