"""Folds and samples drawn by a hash of each row, not by its position.

For choosing a parameter inside a fit: the same rows in another order get the same folds, and rows with equal scores
share a fold, so that a row of weight two counts as the row twice here too. Nor do they depend on which class is the
positive one, or on the order of the classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, Units, spans
from calcli.numeric.folds import Split, in_turn, splits_of_units
from calcli.numeric.rng import stream

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def splits_by_score(
    score: FloatArray,
    label: IntArray,
    count: int,
    seed: int,
    purpose: str,
    beside: Sequence[FloatArray] = (),
    units: Units | None = None,
    most: int | None = None,
) -> list[Split]:
    """The splits of `folds_by_score`, or of units where there are any; at most so many of them."""
    if units is not None:
        return splits_of_units(units, count, stream(seed, purpose), most)
    return in_turn(folds_by_score(score, label, count, seed, purpose, beside), most or count)


def folds_by_score(
    score: FloatArray, label: IntArray, count: int, seed: int, purpose: str, beside: Sequence[FloatArray] = ()
) -> IntArray:
    """A fold, 0 .. count-1, for each row.

    Distinct scores, in an order drawn for `purpose`, are dealt out class by class, so that the folds keep the classes
    in proportion. A score that several classes share counts for the first of them, in the order of `in_class_order`.
    Rows share a fold only if they also agree in the columns `beside`.
    """
    ordered, rank = in_class_order(score)
    label = rank[label]
    keys = column_keys([*_columns(ordered), *beside], seed, purpose)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    of_score = label[first].copy()
    np.minimum.at(of_score, place, label)
    fold = np.empty(len(first), dtype=np.int64)
    fold[np.argsort(of_score, kind="stable")] = np.arange(len(first)) % count
    return fold[place]


def folds_by_row(
    score: FloatArray, count: int, seed: int, purpose: str, beside: Sequence[FloatArray | NDArray[np.uint64]] = ()
) -> IntArray:
    """A fold for each row, which does not look at labels: distinct rows are dealt out in the order of their hashes."""
    keys = column_keys([*_columns(in_class_order(score)[0]), *beside], seed, purpose)
    _, place = np.unique(keys, return_inverse=True)
    return np.asarray(place % count, dtype=np.int64)


def share_by_score(score: FloatArray, share: float, seed: int, purpose: str) -> NDArray[np.bool_]:
    """Marks about so large a share of the distinct log-odds, and all rows that have them; nothing is sorted."""
    keys = column_keys(_columns(score if score.max() + score.min() >= 0.0 else -score), seed, purpose)
    return keys < np.uint64(min(share * 2.0**64, 2.0**64 - 2**11))


def class_order(score: FloatArray) -> IntArray:
    """The classes in an order that follows from the scores alone, whatever order they come in.

    They are ordered by the sum of their distinct scores; of two classes, so that the log-odds of the last one have a
    sum that is not negative.
    """
    if score.ndim == 1:
        return np.array([1, 0] if float(np.unique(score).sum()) < 0.0 else [0, 1])
    return np.argsort([float(np.unique(column).sum()) for column in score.T], kind="stable")


def ordered(values: FloatArray, order: IntArray) -> FloatArray:
    """Log-odds, or a column for each class, with the classes in this order."""
    if values.ndim == 2:
        return values[:, order]
    return values if order[0] == 0 else -values


def in_class_order(score: FloatArray) -> tuple[FloatArray, IntArray]:
    """Scores with their classes in `class_order`, and the place of each class in it."""
    order = class_order(score)
    return ordered(score, order), np.argsort(order)


def _columns(score: FloatArray) -> list[FloatArray]:
    """The columns of scores to eight decimals: the last digits depend on the order in which classes were summed."""
    columns = score.reshape(len(score), -1).T
    return [*np.where(np.abs(columns) < 1e6, np.round(np.clip(columns, -1e6, 1e6), 8), columns)]


def row_keys(rows: FloatArray, seed: int, purpose: str) -> NDArray[np.uint64]:
    """A 64-bit number for each distinct row of a table: equal rows, equal keys."""
    return column_keys([*rows.reshape(len(rows), -1).T], seed, purpose)


def column_keys(columns: Sequence[FloatArray | NDArray[np.uint64]], seed: int, purpose: str) -> NDArray[np.uint64]:
    """The same for rows given as columns of numbers or of 64-bit hashes (splitmix64, Steele et al. 2014)."""
    salt = stream(seed, purpose).integers(0, 2**63, dtype=np.uint64)
    keys = np.full(len(columns[0]), salt, dtype=np.uint64)
    for span in spans(len(keys)):
        key = keys[span]
        for column in columns:
            values = column[span]
            key ^= (values if values.dtype == np.uint64 else values + 0.0).view(np.uint64)  # -0.0 is 0.0
            key *= _MIX
            key += _ODD
            key ^= key >> np.uint64(29)
            key *= _ODD
            key ^= key >> np.uint64(32)
    return keys
