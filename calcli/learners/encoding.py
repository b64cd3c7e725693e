"""Features as coordinates: numbers standardised, categories one-hot.

Rows of different categories have a squared distance of 2, as two rows have on average in a standardised number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from calcli.batch import Column, FloatArray
from calcli.numeric.sums import totals
from calcli.state import State, pack_texts, unpack_texts

LEAST_SHARE, MOST_LEVELS = 0.01, 20
"""Levels of a category with this share of the weight get a coordinate, the heaviest first, up to so many."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How features become coordinates."""

    numbers: tuple[str, ...]
    """Names of numbers and booleans, a coordinate each."""

    median: FloatArray
    mean: FloatArray
    scale: FloatArray
    """`median`, `mean`, `scale`: one entry for each. A missing value is replaced by the median; the coordinate is
    (value - mean) / scale, and 0 where the scale is 0, which marks a feature without spread.
    """

    categories: tuple[str, ...]
    """Names of categories."""

    levels: tuple[tuple[str, ...], ...]
    """The levels of each that have a coordinate, 1 for rows of that level and 0 for others. Rare, unseen and missing
    levels have none.
    """

    @classmethod
    def of(cls, features: Mapping[str, Column], weight: FloatArray, *, standardise: bool = True) -> Encoding:
        """The encoding of rows of which some have a positive weight."""
        numbers = tuple(name for name, column in features.items() if column.role != "category")
        categories = tuple(name for name, column in features.items() if column.role == "category")
        moments = [_moments(features[name].values.astype(np.float64), weight) for name in numbers]
        median, mean, scale = np.array(moments, dtype=np.float64).reshape(-1, 3).T
        if not standardise:
            mean, scale = np.zeros_like(mean), np.ones_like(scale)
        levels = tuple(_common_levels(features[name], weight) for name in categories)
        return cls(numbers, median, mean, scale, categories, levels)

    def coordinates(self, features: Mapping[str, Column]) -> FloatArray:
        """The rows as points, shape (n, d); d may be 0."""
        rows = len(next(iter(features.values())).values)
        columns: list[FloatArray] = []
        for place, name in enumerate(self.numbers):
            scale = float(self.scale[place])
            values = features[name].values.astype(np.float64)
            known = np.where(np.isfinite(values), values, self.median[place])
            columns.append((known - self.mean[place]) / scale if scale > 0 else np.zeros(rows))
        for name, levels in zip(self.categories, self.levels, strict=True):
            codes = features[name].recode(levels, unseen=-1)
            columns += [(codes == code).astype(np.float64) for code in range(len(levels))]
        return np.column_stack(columns) if columns else np.zeros((rows, 0))

    def to_state(self) -> State:
        counts = np.array([len(levels) for levels in self.levels], dtype=np.int64)
        moments = {"median": self.median, "mean": self.mean, "scale": self.scale, "level_counts": counts}
        texts = {**pack_texts(self.numbers, "numbers"), **pack_texts(self.categories, "categories")}
        levels = pack_texts([level for levels in self.levels for level in levels], "levels")
        return State(arrays={**moments, **texts, **levels})

    @classmethod
    def of_state(cls, state: State) -> Encoding:
        numbers, categories, texts = (unpack_texts(state.arrays, name) for name in ("numbers", "categories", "levels"))
        ends = np.cumsum(state.array("level_counts").astype(np.int64))
        levels = tuple(texts[start:end] for start, end in pairwise([0, *ends.tolist()]))
        return cls(numbers, state.array("median"), state.array("mean"), state.array("scale"), categories, levels)


def _moments(values: FloatArray, weight: FloatArray) -> tuple[float, float, float]:
    """Median, mean and standard deviation, with missing values replaced by the median."""
    known = np.isfinite(values)
    total = float(weight.sum())
    if not float(weight[known].sum()) > 0:
        return 0.0, 0.0, 0.0
    median = weighted_median(values[known], weight[known])
    filled = np.where(known, values, median)
    mean = float(weight @ filled) / total
    variance = float(weight @ np.square(filled - mean)) / total
    spread = float(np.sqrt(variance))
    return median, mean, spread if np.isfinite(spread) and spread > 1e-12 * abs(mean) else 0.0


def _common_levels(column: Column, weight: FloatArray) -> tuple[str, ...]:
    """The levels that get a coordinate, in alphabetical order."""
    least = LEAST_SHARE * float(weight.sum())
    return tuple(sorted(heaviest_levels(column, level_weights(column, weight), least=least, most=MOST_LEVELS)))


def feature_codes(features: Mapping[str, Column]) -> FloatArray:
    """A row of numbers for each row, equal bit for bit where the features are equal."""
    columns = [column.values.astype(np.float64) for column in features.values()]
    return np.column_stack([np.where(np.isnan(values), np.nan, values) for values in columns])


def weighted_median(values: FloatArray, weight: FloatArray) -> float:
    """The least value up to which at least half of the weight lies."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2.0)])


def level_weights(column: Column, weight: FloatArray | None) -> FloatArray:
    """The weight of the missing values of a category, and then of each of its levels."""
    return totals(column.values.astype(np.int32, copy=False) + 1, weight, len(column.levels) + 1)


def heaviest_levels(column: Column, weights: FloatArray, *, least: float, most: int) -> tuple[str, ...]:
    """The levels with at least this weight, up to `most`, the heaviest first; see `level_weights`."""
    frequent = np.flatnonzero(weights[1:] >= least)
    ordered = sorted((-float(weights[1 + place]), column.levels[place]) for place in frequent)
    return tuple(level for _, level in ordered[:most])
