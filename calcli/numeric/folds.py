"""Seeded splits of rows.

They do not look at labels: folds that keep the classes in proportion tell each fit what the rate of the rows is that it
will be judged on, which makes every held-out loss look better than it is, by about 0.8 / n for Platt scaling.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calcli.batch import IntArray


def folds(rows: int, count: int, rng: np.random.Generator) -> IntArray:
    """A fold, 0 .. count-1, for each row, in random order and of equal size."""
    return rng.permutation(rows) % count


def held_out(rows: int, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A mask of a share of the rows. Drawing those is much faster than to put all of many into random order."""
    mask = np.zeros(rows, dtype=np.bool_)
    mask[rng.choice(rows, int(rows * share), replace=False, shuffle=False)] = True
    return mask


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
