"""Seeded splits of rows.

They do not look at labels: folds that keep the classes in proportion tell each fit what the rate of the rows is that it
will be judged on, which makes every held-out loss look better than it is, by about 0.8 / n for Platt scaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.batch import IntArray, Units

Mask = NDArray[np.bool_]


class Split(NamedTuple):
    """The rows that are fitted on, and those that are predicted."""

    train: Mask
    test: Mask

    @property
    def both(self) -> bool:
        """Whether there are rows on both sides."""
        return bool(self.train.any() and self.test.any())


def folds(rows: int, count: int, rng: np.random.Generator) -> IntArray:
    """A fold, 0 .. count-1, for each row, in random order and of equal size."""
    return rng.permutation(rows) % count


def held_out(rows: int, share: float, rng: np.random.Generator) -> Mask:
    """A mask of a share of the rows. Drawing those is much faster than to put all of many into random order."""
    mask = np.zeros(rows, dtype=np.bool_)
    mask[rng.choice(rows, int(rows * share), replace=False, shuffle=False)] = True
    return mask


def in_turn(fold: IntArray, count: int) -> list[Split]:
    """Each of the first `count` folds predicted from all others, as far as there are rows on both sides."""
    splits = (Split(fold != index, fold == index) for index in range(count))
    return [split for split in splits if split.both]


def tested(splits: Sequence[Split], rows: int) -> Mask:
    """The rows that any of these splits predicts."""
    mask = np.zeros(rows, dtype=np.bool_)
    for split in splits:
        mask |= split.test
    return mask


def splits_of_units(units: Units, count: int, rng: np.random.Generator, most: int | None = None) -> list[Split]:
    """At most `most` of `count` splits that part no unit: units dealt into folds, or time spans in their order."""
    most = count if most is None else most
    if not units.in_order:
        return in_turn(group_folds(units.rank, count, rng), most)
    span = time_spans(units.rank, count)
    return [Split(span < index, span == index) for index in range(1, int(span.max(initial=0)) + 1)][-most:]


def group_folds(groups: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """A fold for each row such that rows of one group share it, of about equal size.

    The largest groups are dealt first, each to the fold that is smallest so far; groups of one size in random order.
    """
    place, size = _sizes(groups)
    shuffled = rng.permutation(len(size))
    filled = np.zeros(count, dtype=np.int64)
    fold_of = np.empty(len(size), dtype=np.int64)
    for group in shuffled[np.argsort(-size[shuffled], kind="stable")]:
        fold_of[group] = filled.argmin()
        filled[fold_of[group]] += size[group]
    return fold_of[place]


def held_out_groups(groups: IntArray, share: float, rng: np.random.Generator) -> Mask:
    """A mask of groups drawn at random, as near to a share of the rows as whole groups come."""
    place, size = _sizes(groups)
    shuffled = rng.permutation(len(size))
    filled = np.cumsum(size[shuffled])
    taken = int(np.abs(filled - share * len(groups)).argmin()) + 1 if len(size) else 0
    held = np.zeros(len(size), dtype=np.bool_)
    held[shuffled[: min(taken, len(size) - 1)]] = True
    mask: Mask = held[place]
    return mask


def time_spans(moment: IntArray, count: int) -> IntArray:
    """Which of `count` + 1 spans of about as many rows each row is in; rows of one moment share it.

    Of few moments there are fewer spans, with at least one row in each; of several there are at least two.
    """
    order = np.sort(moment)
    edges = np.unique(order[(np.arange(1, count + 1) * len(order)) // (count + 1)])
    later = edges[edges > order[0]]
    if len(later) == 0:  # nearly all rows are of the first moment
        later = order[order > order[0]][:1]
    return np.searchsorted(later, moment, side="right")


def last_in_time(moment: IntArray, share: float) -> Mask:
    """A mask of about this share of the rows, the last ones; rows of one moment stay together, none of the first."""
    late: Mask = moment >= np.sort(moment)[len(moment) - max(1, int(share * len(moment)))]
    late &= moment > moment.min()
    return late


def _sizes(groups: IntArray) -> tuple[IntArray, IntArray]:
    """The place of each row's group among those that occur, and how many rows each has."""
    _, place, size = np.unique(groups, return_inverse=True, return_counts=True)
    return place, size
