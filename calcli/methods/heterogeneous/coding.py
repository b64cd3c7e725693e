"""Features as small integers, which is what trees split on.

Code 0 is a missing value. A number or a boolean has 1, 2, .. by the quantile bin that it falls into, a category by its
level. Levels that few rows have share the last code with those never seen: put in the order of their label rates they
would fit the noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, Column, FloatArray
from calcli.methods.mbct.coding import cuts_between, quantile_gaps
from calcli.state import State, pack_texts, unpack_texts

Codes = NDArray[np.uint8]
"""A row for each feature, a column for each row of the table."""

BINS = 64
"""The most bins of a number."""

LEVELS = 250
"""The most levels of a category that have a code of their own: the heaviest."""

COMMON_SHARE, COMMON = 0.02, 400.0
"""A level has a code of its own from this share of the weight on, or from this weight on, whichever is less."""


@dataclass(frozen=True)
class Coded:
    """How one feature becomes codes: a number by `cuts`, where each bin but the last ends."""

    name: str
    category: bool
    cuts: FloatArray
    levels: tuple[str, ...]

    @classmethod
    def of(cls, name: str, column: Column, weight: FloatArray) -> Coded:
        """By the quantiles, or the common levels, of these rows."""
        if column.role == "category":
            return cls(name, True, np.empty(0), _common_levels(column, weight))
        return cls(name, False, _cuts(column.values.astype(np.float64), weight), ())

    @property
    def count(self) -> int:
        """How many codes there are."""
        return len(self.levels) + 2 if self.category else len(self.cuts) + 2

    def encode(self, column: Column) -> Codes:
        """The codes of a column."""
        if self.category:
            return (column.recode(self.levels, unseen=len(self.levels)) + 1).astype(np.uint8)
        codes = np.searchsorted(self.cuts, column.values, side="left") + 1
        codes[np.isnan(column.values)] = 0
        return codes.astype(np.uint8)


@dataclass(frozen=True)
class Coding:
    """How several features become codes."""

    features: tuple[Coded, ...]

    @classmethod
    def of(cls, batch: Batch) -> Coding:
        return cls(tuple(Coded.of(name, column, batch.weights) for name, column in batch.features.items()))

    @cached_property
    def width(self) -> int:
        """The most codes that a feature has."""
        return max((each.count for each in self.features), default=0)

    @cached_property
    def categories(self) -> NDArray[np.bool_]:
        """Which features are categories."""
        return np.array([each.category for each in self.features], dtype=np.bool_)

    def encode(self, features: Mapping[str, Column]) -> Codes:
        """The codes of all features, which are found by name."""
        return np.stack([each.encode(features[each.name]) for each in self.features])

    def only(self, places: Sequence[int]) -> Coding:
        """That of some of the features."""
        return Coding(tuple(self.features[place] for place in places))

    def to_state(self) -> State:
        return State(
            arrays={
                "category": self.categories,
                "counts": np.array([each.count for each in self.features], dtype=np.int64),
                "cuts": np.concatenate([each.cuts for each in self.features] or [np.empty(0)]),
                **pack_texts([each.name for each in self.features], "names"),
                **pack_texts([level for each in self.features for level in each.levels], "levels"),
            }
        )

    @classmethod
    def from_state(cls, state: State) -> Coding:
        names, levels = unpack_texts(state.arrays, "names"), unpack_texts(state.arrays, "levels")
        cuts = state.array("cuts")
        found = []
        for name, category, count in zip(names, state.arrays["category"], state.arrays["counts"], strict=True):
            own = int(count) - 2
            if category:
                found.append(Coded(name, True, np.empty(0), levels[:own]))
                levels = levels[own:]
            else:
                found.append(Coded(name, False, cuts[:own], ()))
                cuts = cuts[own:]
        return cls(tuple(found))


def _cuts(values: FloatArray, weight: FloatArray) -> FloatArray:
    known = ~np.isnan(values)
    distinct = np.unique(values[known])
    if len(distinct) <= BINS:
        return cuts_between(distinct[:-1], distinct[1:])
    return cuts_between(*quantile_gaps(values[known], weight[known], BINS))


def _common_levels(column: Column, weight: FloatArray) -> tuple[str, ...]:
    known = column.values >= 0
    heap = np.bincount(column.values[known], weights=weight[known], minlength=len(column.levels))
    least = min(COMMON_SHARE * float(weight.sum()), COMMON)
    heaviest = sorted((-held, level) for held, level in zip(heap, column.levels, strict=True) if held >= least)
    return tuple(sorted(level for _, level in heaviest[:LEVELS]))
