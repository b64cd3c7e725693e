"""Seeded chance: a stream of random numbers for each purpose, and the folds and samples of rows that are drawn with it.

Each use of chance has a name. The stream of one name does not depend on how much another has drawn, so that adding a
method to a comparison does not change the folds of the others.

Folds by position do not look at labels: folds that keep the classes in proportion tell each fit what the rate of the
rows is that it will be judged on, which makes every held-out loss look better than it is, by about 0.8 / n for Platt
scaling.

Folds by score are drawn by a hash of each row, not by its position, for choosing a parameter inside a fit: the same
rows in another order get the same folds, and rows with equal scores share a fold, so that a row of weight two counts as
the row twice here too. Nor do they depend on which class is the positive one, or on the order of the classes, or on the
last digits of the scores.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray, IntArray, SamplingUnits, spans


@contextmanager
def importing() -> Iterator[None]:
    """Leave the state of `random` as it was: some libraries draw from it when they are imported, as rich does, which
    comes with parts of scikit-learn.
    """
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The generator for `purpose` under `seed`; the same on every machine and in every process."""
    text = "/".join(str(part) for part in purpose)
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.default_rng([seed, *(int(word) for word in words)])


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


def splits_of_units(units: SamplingUnits, count: int, rng: np.random.Generator, most: int | None = None) -> list[Split]:
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
    return held[place]


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


_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def splits_by_score(
    rows: Batch, count: int, seed: int, purpose: str, beside: Sequence[FloatArray] = (), most: int | None = None
) -> list[Split]:
    """The splits of `folds_by_score`, or of units where there are any; at most so many of them."""
    if rows.units is not None:
        return splits_of_units(rows.units, count, stream(seed, purpose), most)
    return in_turn(folds_by_score(rows, count, seed, purpose, beside), most or count)


def folds_by_score(rows: Batch, count: int, seed: int, purpose: str, beside: Sequence[FloatArray] = ()) -> IntArray:
    """A fold, 0 .. count-1, for each row.

    Distinct scores, in an order drawn for `purpose`, are dealt out class by class, so that the folds keep the classes
    in proportion. A score that several classes share counts for the first of them, in the order of `in_class_order`.
    Rows share a fold only if they also agree in the columns `beside`.
    """
    ordered, rank = in_class_order(rows.score, rows.weight)
    label = rank[rows.labels]
    keys = column_keys([*sure_columns(ordered), *beside], seed, purpose)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    of_score = label[first].copy()
    np.minimum.at(of_score, place, label)
    fold = np.empty(len(first), dtype=np.int64)
    fold[np.argsort(of_score, kind="stable")] = np.arange(len(first)) % count
    return fold[place]


def folds_by_row(score: FloatArray, weight: FloatArray | None, count: int, seed: int, purpose: str) -> IntArray:
    """A fold for each row, which does not look at labels: distinct rows are dealt out in the order of their hashes."""
    keys = column_keys(sure_columns(in_class_order(score, weight)[0]), seed, purpose)
    _, place = np.unique(keys, return_inverse=True)
    return np.asarray(place % count, dtype=np.int64)


def share_by_score(
    score: FloatArray, weight: FloatArray | None, share: float, seed: int, purpose: str
) -> NDArray[np.bool_]:
    """Marks about so large a share of the distinct log-odds, and all rows that have them; nothing is sorted."""
    ends = np.array([score.min(), score.max()])
    keys = column_keys(sure_columns(-score if _lean(ends, score, weight) < 0.0 else score), seed, purpose)
    return keys < np.uint64(min(share * 2.0**64, 2.0**64 - 2**11))


_DIGITS = 9
"""Sums are compared to so many digits, so that rounding does not decide which is the greater one."""


def class_order(score: FloatArray, weight: FloatArray | None) -> IntArray:
    """The classes in an order that follows from the rows' scores and weights, whatever order the classes come in.

    They are ordered by the sum of their distinct scores; of two classes, so that the log-odds of the last one have a
    sum that is not negative. Where these sums are equal, as for probabilities of two decimals all of which occur, the
    sums over all rows decide.
    """
    distinct = [np.unique(column) for column in score_columns(score)]
    if score.ndim == 1:
        return np.array([1, 0] if _lean(distinct[0], score, weight) < 0.0 else [0, 1])
    of_distinct = np.array([column.sum() for column in distinct])
    of_rows = score.sum(axis=0) if weight is None else weight @ score
    keys = [np.round(sums / (np.abs(sums).max() or 1.0), _DIGITS) for sums in (of_rows, of_distinct)]
    return np.lexsort(keys)  # by the last key first


def _lean(some: FloatArray, score: FloatArray, weight: FloatArray | None) -> float:
    """The sum of some of the log-odds, as a share of their sizes; where it is zero, that of all with their weights."""
    for values in (some, score if weight is None else weight * score):
        if lean := round(float(values.sum()) / (float(np.abs(values).sum()) or 1.0), _DIGITS):
            return lean
    return 0.0


def ordered(values: FloatArray, order: IntArray) -> FloatArray:
    """Log-odds, or a column for each class, with the classes in this order."""
    if values.ndim == 2:
        return values[:, order]
    return values if order[0] == 0 else -values


def in_class_order(score: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, IntArray]:
    """Scores with their classes in `class_order`, and the place of each class in it."""
    order = class_order(score, weight)
    return ordered(score, order), np.argsort(order)


_OFF_TIES = 1e-13
"""One float32 number in 33,000 lies in the middle of two that have eight decimals, where the last digit decides."""


def score_columns(score: FloatArray) -> list[FloatArray]:
    """The columns of scores to eight decimals: further ones depend on which library took the logarithm.

    Logits of more than two classes are centred: what is added to all of a row says nothing.
    """
    columns = score[None] if score.ndim == 1 else (score - score.mean(axis=1, keepdims=True)).T
    return [*np.where(np.abs(columns) < 1e6, np.round(np.clip(columns, -1e6, 1e6) + _OFF_TIES, 8), columns)]


def sure_columns(score: FloatArray) -> list[FloatArray]:
    """The `score_columns` with log-odds beyond 6 drawn together, the more the less of them 1 - p in float64 keeps.

    For orders and folds, which must not depend on whether p or 1 - p was written down.
    """
    if score.ndim == 1:
        far = np.maximum(np.abs(score) - 6.0, 0.0)
        score = score - np.copysign(far + np.expm1(-0.8 * far) / 0.8, score)
    return score_columns(score)


def row_keys(rows: FloatArray, seed: int, purpose: str) -> NDArray[np.uint64]:
    """A 64-bit number for each distinct row of a table: equal rows, equal keys."""
    return column_keys([*rows.reshape(len(rows), -1).T], seed, purpose)


def column_keys(columns: Sequence[FloatArray | NDArray[np.uint64]], seed: int, purpose: str) -> NDArray[np.uint64]:
    """A 64-bit number for each distinct row of columns, of numbers or hashes (splitmix64, Steele et al. 2014)."""
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
