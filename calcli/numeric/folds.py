"""Seeded splits of rows that keep the classes in proportion."""

from __future__ import annotations

import numpy as np

from calcli.batch import IntArray


def folds(label: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """A fold, 0 .. count-1, for each row: every class is dealt out evenly, in random order.

    Dealing goes on from class to class where the last one stopped, so that the folds are of equal size too.
    """
    fold = np.empty(len(label), dtype=np.int64)
    fold[_class_by_class(label, rng)] = np.arange(len(label)) % count
    return fold


def held_out(label: IntArray, share: float, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A mask of about `share` of the rows of each class."""
    held = np.floor(np.arange(len(label) + 1) * share)
    mask = np.empty(len(label), dtype=np.bool_)
    mask[_class_by_class(label, rng)] = held[1:] > held[:-1]
    return mask


def _class_by_class(label: IntArray, rng: np.random.Generator) -> IntArray:
    """The places of all rows, class after class, each in random order."""
    shuffled = rng.permutation(len(label))
    narrow = label.astype(np.min_scalar_type(int(label.max(initial=0))))  # NumPy sorts 16 bits or less in linear time
    return shuffled[np.argsort(narrow[shuffled], kind="stable")]


def group_folds(groups: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """A fold for each row such that rows of one group (0 .. G-1) share it, of about equal size.

    The largest groups are dealt first, each to the fold that is smallest so far; groups of one size in random order.
    """
    size = np.bincount(groups)
    shuffled = rng.permutation(len(size))
    held = np.zeros(count, dtype=np.int64)
    fold_of = np.empty(len(size), dtype=np.int64)
    for group in shuffled[np.argsort(-size[shuffled], kind="stable")]:
        fold_of[group] = held.argmin()
        held[fold_of[group]] += size[group]
    return fold_of[groups]
