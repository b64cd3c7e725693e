"""The same rows, however they are given: one fit for one table.

Trees add up rows one after another and break ties by what comes first, so that rounding and order would show in what
they learn. Here equal rows become one that weighs as much as they do, rows follow each other in an order drawn from
what they hold, and columns by name. A fit on that cannot depend on the order of rows or columns, and a row of weight
two is the row twice.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.numeric.rng import stream

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def distinct(batch: Batch, seed: int) -> Batch:
    """The rows that weigh anything, each once, in an order that follows from `seed` and from what they hold."""
    batch = batch if batch.weight is None else batch.take(batch.weight > 0)
    _, first, place = np.unique(_keys(batch, seed), return_index=True, return_inverse=True)
    weight: FloatArray = np.bincount(place, weights=batch.weights, minlength=len(first)).astype(np.float64)
    rows = batch.take(first)
    features = {name: _sorted_levels(rows.features[name]) for name in sorted(rows.features)}
    return Batch(rows.score, rows.label, weight, features)


def deal(label: IntArray, count: int) -> IntArray:
    """A fold, 0 .. count-1, for each of such rows: every class is dealt out evenly, as the rows follow each other."""
    fold = np.empty(len(label), dtype=np.int64)
    fold[np.argsort(label, kind="stable")] = np.arange(len(label)) % count
    return fold


def _sorted_levels(column: Column) -> Column:
    if column.role != "category":
        return column
    used = np.unique(column.values[column.values >= 0])
    levels = tuple(sorted(column.levels[code] for code in used))
    return Column("category", column.recode(levels, unseen=-1), levels)


def _keys(batch: Batch, seed: int) -> NDArray[np.uint64]:
    """A 64-bit number for each row: equal rows, equal keys (Steele et al. 2014, splitmix64)."""
    salt = stream(seed, "distinct rows").integers(0, 2**63, dtype=np.uint64)
    key = np.full(len(batch), salt, dtype=np.uint64)
    columns = [*batch.score.reshape(len(batch), -1).T]
    columns += [] if batch.label is None else [batch.label.astype(np.float64)]
    for column in columns:
        key = _mixed(key, _bits(column))
    for name in sorted(batch.features):
        feature = batch.features[name]
        if feature.role == "category":
            levels = np.array([_name(level) for level in feature.levels] + [0], dtype=np.uint64)
            key = _mixed(key, levels[feature.values.astype(np.int64)])  # code -1, missing, picks the last
        else:
            key = _mixed(key, _bits(feature.values.astype(np.float64, copy=False)))
    return key


def _bits(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    same = np.where(np.isnan(values), np.nan, values) + 0.0  # one NaN, and -0.0 is 0.0
    return np.ascontiguousarray(same).view(np.uint64)


def _name(level: str) -> int:
    return int.from_bytes(hashlib.blake2b(level.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _mixed(key: NDArray[np.uint64], column: NDArray[np.uint64]) -> NDArray[np.uint64]:
    key = (key ^ column) * _MIX + _ODD
    key ^= key >> np.uint64(29)
    key *= _ODD
    key ^= key >> np.uint64(32)
    return key
