"""Seeded splits of rows that keep the classes in proportion."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.batch import IntArray


def folds(label: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """A fold, 0 .. count-1, for each row: every class is dealt out evenly, in random order.

    Dealing goes on from class to class where the last one stopped, so that the folds are of equal size too.
    """
    fold = np.empty(len(label), dtype=np.int64)
    fold[_class_by_class(label, rng)] = np.arange(len(label)) % count
    return fold


def held_out(label: IntArray, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A mask of about `share` of the rows of each class, and of all.

    As many are drawn as are held out: of many rows that is much faster than to put all of them into random order.
    """
    order, mask = np.argsort(_narrow(label), kind="stable"), np.zeros(len(label), dtype=np.bool_)
    for start, end in pairwise([0, *np.cumsum(np.bincount(label)).tolist()]):
        count = math.floor(end * share) - math.floor(start * share)
        mask[order[start + rng.choice(end - start, count, replace=False, shuffle=False)]] = True
    return mask


def _class_by_class(label: IntArray, rng: np.random.Generator) -> IntArray:
    """The places of all rows, class after class, each in random order."""
    shuffled = rng.permutation(len(label))
    return shuffled[np.argsort(_narrow(label)[shuffled], kind="stable")]


def _narrow(label: IntArray) -> NDArray[np.unsignedinteger[Any]]:
    """The same numbers in as few bits as hold them: NumPy sorts 16 bits or less in linear time."""
    return label.astype(np.min_scalar_type(int(label.max(initial=0))))


def group_folds(groups: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """A fold for each row such that rows of one group (0 .. G-1) share it, of about equal size.

    The largest groups are dealt first, each to the fold that is smallest so far; groups of one size in random order.
    """
    size = np.bincount(groups)
    shuffled = rng.permutation(len(size))
    filled = np.zeros(count, dtype=np.int64)
    fold_of = np.empty(len(size), dtype=np.int64)
    for group in shuffled[np.argsort(-size[shuffled], kind="stable")]:
        fold_of[group] = filled.argmin()
        filled[fold_of[group]] += size[group]
    return fold_of[groups]
