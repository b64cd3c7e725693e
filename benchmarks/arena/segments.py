"""The worst segment: how far probabilities are from the labels where nobody looked.

A segment is a value of one feature, or a pair of values of two. A number has five bins of equal mass and a category its
nine most frequent values and the rest, both of the rows to fit on; a missing value is one too, and the raw probability
counts as a feature. The error of a segment of n_s of n rows, at least `LEAST` of them, is

    sqrt(n_s / n) * |mean(y - p)| / sd(y):

chance moves the mean of few rows more, by as much as the root of their share makes up for, and the spread of labels is
the unit. Beside it stands what chance does to the worst of them all: the mean over draws of labels whose rates are
those of `LEVELS` bins of the raw probability. Of more than two classes each is held against the rest, and the worst
one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np

from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.numeric.links import probabilities
from calcli.numeric.seeded import stream

BINS, VALUES, LEVELS, LEAST, DRAWS = 5, 9, 20, 20, 20
SCORE = "raw score"


def of_classes(prob: FloatArray) -> FloatArray:
    """A column for each class; one alone for two."""
    return prob.reshape(len(prob), -1)


def cuts_of(values: FloatArray, bins: int) -> FloatArray:
    """Between bins of equal mass."""
    return np.unique(np.nanquantile(values, np.arange(1, bins) / bins)) if np.isfinite(values).any() else np.empty(0)


def binned(train: FloatArray, test: FloatArray, bins: int) -> IntArray:
    """Bins of equal mass; the first is that of missing values."""
    cuts = cuts_of(train, bins)
    return np.where(np.isnan(test), 0, 1 + np.searchsorted(cuts, test, side="right")).astype(np.int64)


def frequent(train: Column) -> IntArray:
    """The codes of the most frequent values, in their order."""
    values = train.values.astype(np.int64)
    return np.argsort(-np.bincount(values[values >= 0], minlength=len(train.levels)), kind="stable")[:VALUES]


def valued(train: Column, test: Column) -> IntArray:
    """The most frequent values in their order, then all others; the first is that of missing values."""
    unseen = len(train.levels)
    place = np.full(unseen + 1, VALUES + 1)
    place[frequent(train)] = 1 + np.arange(len(frequent(train)))
    place[-1] = 0  # of the code -1
    codes = test.recode(train.levels, unseen=unseen).astype(np.int64)
    return np.where(codes == unseen, VALUES + 1, place[np.where(codes == unseen, -1, codes)])


def cells(train: Column, test: Column) -> IntArray:
    """The bin or value of each row."""
    if train.role == "category":
        return valued(train, test)
    return binned(train.values.astype(np.float64), test.values.astype(np.float64), BINS)


def names_of(train: Column) -> list[str]:
    """Of the bins or values, as `cells` numbers them."""
    if train.role == "category":
        return ["missing", *(train.levels[code] for code in frequent(train)), "others"]
    cuts = [f"{cut:.4g}" for cut in cuts_of(train.values.astype(np.float64), BINS)]
    if not cuts:
        return ["missing", "any"]
    between = [f"{lo} to {hi}" for lo, hi in pairwise(cuts)]
    return ["missing", f"below {cuts[0]}", *between, f"{cuts[-1]} and more"]


class Segments:
    """Those of the rows to judge on."""

    def __init__(self, train: Batch, test: Batch) -> None:
        self._raw = of_classes(probabilities(test.score))
        before = of_classes(probabilities(train.score))
        label = of_classes(test.labels)
        self._label = (label if self._raw.shape[1] == 1 else label == np.arange(test.classes)).astype(np.float64)
        self._features = {name: cells(own, test.features[name]) for name, own in train.features.items()}
        self._scores = [binned(*sides, BINS) for sides in zip(before.T, self._raw.T, strict=True)]

    def worst(self, prob: FloatArray) -> tuple[float, str]:
        """The error of the worst, and the features that it is of."""
        found = [self._worst(k, (self._label - of_classes(prob))[:, [k]]) for k in range(self._raw.shape[1])]
        return max((value.item(), where) for value, where in found)

    def by_chance(self) -> float:
        """The error of the worst where probabilities are right."""
        rng, worst = stream(0, "segments"), np.zeros(DRAWS)
        for k, raw in enumerate(self._raw.T):
            level = binned(raw, raw, LEVELS)
            rows = np.maximum(np.bincount(level), 1)
            rate = (np.bincount(level, self._label[:, k]) / rows)[level]
            drawn = rng.random((len(raw), DRAWS)) < rate[:, None]
            worst = np.maximum(worst, self._worst(k, drawn - rate[:, None])[0])
        return float(worst.mean())

    def _worst(self, k: int, residuals: FloatArray) -> tuple[FloatArray, str]:
        """The largest error of each column of residuals of a class, and the features of the last one's."""
        rate = self._label[:, k].mean()
        unit = max(np.sqrt(rate * (1 - rate) * len(residuals)), 1e-12)
        worst, where = np.zeros(residuals.shape[1]), ""
        for name, codes in self._cells(k):
            rows = np.bincount(codes)
            big = rows >= LEAST
            if not big.any():
                continue
            for column, residual in enumerate(residuals.T):
                error = np.abs(np.bincount(codes, residual)[big]) / np.sqrt(rows[big])
                if error.max() / unit > worst[column]:
                    worst[column], where = error.max() / unit, name
        return worst, where

    def _cells(self, k: int) -> Iterator[tuple[str, IntArray]]:
        """The segment of each row, by one feature, then by two."""
        features = {SCORE: self._scores[k], **self._features}
        yield from features.items()
        for (one, a), (other, b) in combinations(features.items(), 2):
            yield f"{one} x {other}", a * (int(b.max()) + 1) + b
