"""Plain features as coordinates: numbers beside numbers, categories as 0 and 1.

Two rows of different categories are as far apart as two rows are on average in a standardised number: their squared
distance is 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import Column, FloatArray
from calcli.numeric.sums import totals
from calcli.state import State, pack_texts, unpack_texts

LEAST_SHARE = 0.01
MOST_LEVELS = 20
"""The levels of a category that get a coordinate: at most so many, each with at least this share of the weight."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How features become coordinates.

    Attributes
    ----------
    numbers
        Names of numbers and booleans, a coordinate each.
    median, mean, scale
        Of each of them. Where a value is missing the median stands for it; then (value - mean) / scale. A scale of 0
        marks a feature without spread, whose coordinate is 0.
    categories
        Names of categories.
    levels
        Of each of them, those with a coordinate: 1 where a row has that level, else 0. Rare, unseen and missing ones
        have none.
    """

    numbers: tuple[str, ...]
    median: FloatArray
    mean: FloatArray
    scale: FloatArray
    categories: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, features: Mapping[str, Column], weight: FloatArray, *, standardise: bool = True) -> Encoding:
        """From rows of which not all weigh nothing."""
        numbers = tuple(name for name, column in features.items() if column.role != "category")
        categories = tuple(name for name, column in features.items() if column.role == "category")
        facts = [_moments(features[name].values.astype(np.float64), weight) for name in numbers]
        median, mean, scale = np.array(facts, dtype=np.float64).reshape(-1, 3).T
        if not standardise:
            mean, scale = np.zeros_like(mean), np.ones_like(scale)
        levels = tuple(_frequent(features[name], weight) for name in categories)
        return cls(numbers, median, mean, scale, categories, levels)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.numbers, *self.categories)

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
        texts = {
            "numbers": self.numbers,
            "categories": self.categories,
            "levels": [level for levels in self.levels for level in levels],
        }
        packed = {f"{name}/{key}": array for name, part in texts.items() for key, array in pack_texts(part).items()}
        return State(
            arrays={"median": self.median, "mean": self.mean, "scale": self.scale, "level_counts": counts, **packed}
        )

    @classmethod
    def of_state(cls, state: State) -> Encoding:
        texts = {
            name: unpack_texts({key: state.arrays[f"{name}/{key}"] for key in ("text", "ends")})
            for name in ("numbers", "categories", "levels")
        }
        levels, start = [], 0
        for count in state.array("level_counts").astype(np.int64):
            levels.append(texts["levels"][start : start + count])
            start += count
        return cls(
            texts["numbers"],
            state.array("median"),
            state.array("mean"),
            state.array("scale"),
            texts["categories"],
            tuple(levels),
        )


def _moments(values: FloatArray, weight: FloatArray) -> tuple[float, float, float]:
    """Median, mean and standard deviation of the finite values, where missing ones are the median."""
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


def feature_codes(features: Mapping[str, Column]) -> FloatArray:
    """Numbers that are equal, bit for bit, where rows have the same features."""
    columns = [column.values.astype(np.float64) for column in features.values()]
    return np.column_stack([np.where(np.isnan(values), np.nan, values) for values in columns])


def weighted_median(values: FloatArray, weight: FloatArray) -> float:
    """The least value up to which at least half of the weight lies."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2.0)])


def _frequent(column: Column, weight: FloatArray) -> tuple[str, ...]:
    """The levels that get a coordinate, in the order of the alphabet."""
    mass = totals(column.values.astype(np.int64) + 1, weight, len(column.levels) + 1)[1:]
    enough: Sequence[tuple[str, float]] = [
        (level, float(found))
        for level, found in zip(column.levels, mass, strict=True)
        if found >= LEAST_SHARE * weight.sum() and found > 0
    ]
    ordered = sorted(enough, key=lambda pair: (-pair[1], pair[0]))
    return tuple(sorted(level for level, _ in ordered[:MOST_LEVELS]))
