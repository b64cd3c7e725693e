"""Folds that follow from what rows hold, not from where they stand.

For choosing a parameter inside a fit: the same rows in another order get the same folds, and rows with equal scores
share one, so that a row of weight two is the row twice here too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, spans
from calcli.numeric.rng import stream

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def folds_by_score(score: FloatArray, label: IntArray, count: int, seed: int, purpose: str) -> IntArray:
    """A fold, 0 .. count-1, for each row.

    Distinct scores, in an order drawn for `purpose`, are dealt out class by class, so that the folds keep the classes
    in proportion. A score that several classes share counts for the first of them.
    """
    _, first, place = np.unique(row_keys(score, seed, purpose), return_index=True, return_inverse=True)
    of_score = label[first].copy()
    np.minimum.at(of_score, place, label)
    fold = np.empty(len(first), dtype=np.int64)
    fold[np.argsort(of_score, kind="stable")] = np.arange(len(first)) % count
    return fold[place]


def share_by_score(score: FloatArray, share: float, seed: int, purpose: str) -> NDArray[np.bool_]:
    """Marks about so large a share of the distinct scores, and all rows that have them; one pass, nothing is sorted."""
    return row_keys(score, seed, purpose) < np.uint64(min(share * 2.0**64, 2.0**64 - 2**11))


def row_keys(rows: FloatArray, seed: int, purpose: str) -> NDArray[np.uint64]:
    """A 64-bit number for each distinct row: equal rows, equal keys (Steele et al. 2014, splitmix64)."""
    salt = stream(seed, purpose).integers(0, 2**63, dtype=np.uint64)
    table, keys = rows.reshape(len(rows), -1), np.full(len(rows), salt, dtype=np.uint64)
    for some in spans(len(rows)):
        key = keys[some]
        for column in table[some].T:
            key ^= (column + 0.0).view(np.uint64)  # -0.0 is 0.0
            key *= _MIX
            key += _ODD
            key ^= key >> np.uint64(29)
            key *= _ODD
            key ^= key >> np.uint64(32)
    return keys
