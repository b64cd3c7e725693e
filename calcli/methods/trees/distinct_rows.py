"""A canonical form of a table, so that a fit does not depend on the order of its rows or columns.

Trees sum over rows in order and break ties by what comes first, so rounding and order would show in what they learn.
Here equal rows (of one unit) are merged into one with their total weight, rows are ordered by a hash of their values,
and columns by name. A row of weight two is then the same as the row twice.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, Column, FloatArray
from calcli.numeric.seeded import column_keys, in_class_order


def distinct(batch: Batch, seed: int) -> Batch:
    """The distinct rows of positive weight, in an order that follows from `seed` and their values."""
    batch = batch if batch.weight is None else batch.take(batch.weight > 0)
    _, first, place = np.unique(_keys(batch, seed), return_index=True, return_inverse=True)
    weight: FloatArray = np.bincount(place, weights=batch.weights, minlength=len(first)).astype(np.float64)
    rows = batch.take(first)
    features = {name: _sorted_levels(rows.features[name]) for name in sorted(rows.features)}
    return replace(rows.bare, weight=weight, features=features)


def _sorted_levels(column: Column) -> Column:
    if column.role != "category":
        return column
    used = np.unique(column.values[column.values >= 0])
    levels = tuple(sorted(column.levels[code] for code in used))
    return Column("category", column.recode(levels, unseen=-1), levels)


def _keys(batch: Batch, seed: int) -> NDArray[np.uint64]:
    """A 64-bit number for each row: equal rows, equal keys, in whatever order the features, levels and classes are."""
    score, rank = in_class_order(batch.score)
    columns = [*score.reshape(len(batch), -1).T]
    columns += [] if batch.label is None else [rank[batch.label].astype(np.float64)]
    columns += [] if batch.units is None else [batch.units.rank.astype(np.float64)]
    features = [_hashable(batch.features[name]) for name in sorted(batch.features)]
    return column_keys([*columns, *features], seed, "distinct rows")


def _hashable(column: Column) -> FloatArray | NDArray[np.uint64]:
    """Numbers with one kind of NaN, or a hash of the name of each category."""
    if column.role != "category":
        values = column.values.astype(np.float64, copy=False)
        return np.where(np.isnan(values), np.nan, values)
    levels = np.array([_name_hash(level) for level in column.levels] + [0], dtype=np.uint64)
    return levels[column.values.astype(np.int64)]  # code -1, missing, picks the last


def _name_hash(level: str) -> int:
    return int.from_bytes(hashlib.blake2b(level.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
