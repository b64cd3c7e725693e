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
from itertools import combinations

import numpy as np

from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.numeric.links import probabilities
from calcli.numeric.rng import stream

BINS, VALUES, LEVELS, LEAST, DRAWS = 5, 9, 20, 20, 20
SCORE = "raw score"


def of_classes(prob: FloatArray) -> FloatArray:
    """A column for each class; one alone for two."""
    return prob.reshape(len(prob), -1)


def binned(train: FloatArray, test: FloatArray, bins: int) -> IntArray:
    """Bins of equal mass; the first is that of missing values."""
    cuts = np.unique(np.nanquantile(train, np.arange(1, bins) / bins)) if np.isfinite(train).any() else np.empty(0)
    return np.where(np.isnan(test), 0, 1 + np.searchsorted(cuts, test, side="right")).astype(np.int64)


def valued(train: Column, test: Column) -> IntArray:
    """The most frequent values in their order, then all others; the first is that of missing values."""
    values = train.values.astype(np.int64)
    frequent = np.argsort(-np.bincount(values[values >= 0], minlength=len(train.levels)), kind="stable")[:VALUES]
    place = np.full(len(train.levels) + 1, VALUES + 1)
    place[frequent] = 1 + np.arange(len(frequent))
    place[-1] = 0  # of the code -1
    unseen = len(train.levels)
    codes = test.recode(train.levels, unseen=unseen).astype(np.int64)
    return np.where(codes == unseen, VALUES + 1, place[np.where(codes == unseen, -1, codes)])


class Segments:
    """Those of the rows to judge on."""

    def __init__(self, train: Batch, test: Batch) -> None:
        self._raw = of_classes(probabilities(test.score))
        before = of_classes(probabilities(train.score))
        label = of_classes(test.labels)
        self._label = (label if self._raw.shape[1] == 1 else label == np.arange(test.classes)).astype(np.float64)
        self._features = {
            name: valued(own, test.features[name])
            if own.role == "category"
            else binned(own.values.astype(np.float64), test.features[name].values.astype(np.float64), BINS)
            for name, own in train.features.items()
        }
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
