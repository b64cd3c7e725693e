"""How heterogeneous calibration codes the features.

Code 0 is a missing value. A number or a boolean has 1, 2, .. by the quantile bin that it falls into, a category by its
level. Levels of few rows share the last code with those never seen: ordered by their label rates they would fit noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, Column, FloatArray
from calcli.learners.encoding import heaviest_levels, level_weights
from calcli.methods.trees.coding import CodedFeature, cuts_between, quantile_gaps
from calcli.state import State, pack_texts, unpack_texts

Codes = NDArray[np.uint8]
"""A row for each feature, a column for each row of the table."""

BINS = 64
"""The most bins of a number."""

LEVELS = 250
"""The most levels of a category that have a code of their own: the heaviest."""

COMMON_SHARE, COMMON = 0.02, 400.0
"""A level has a code of its own from this share of the weight on, or from this weight on, whichever is less."""

_number = partial(CodedFeature, kind="number")
_category = partial(CodedFeature, kind="category", unseen_last=True)


@dataclass(frozen=True)
class Coding:
    """The coding of several features."""

    features: tuple[CodedFeature, ...]

    @classmethod
    def of(cls, batch: Batch) -> Coding:
        """By the quantiles, or the common levels, of these rows."""
        return cls(tuple(_learned(name, column, batch.weights) for name, column in batch.features.items()))

    @cached_property
    def width(self) -> int:
        """The most codes that a feature has."""
        return max((feature.codes for feature in self.features), default=0)

    @cached_property
    def categories(self) -> NDArray[np.bool_]:
        """Which features are categories."""
        return np.array([feature.kind == "category" for feature in self.features], dtype=np.bool_)

    def encode(self, features: Mapping[str, Column]) -> Codes:
        """The codes of all features, which are found by name."""
        return np.stack([_encoded(feature, features[feature.name]) for feature in self.features])

    def only(self, places: Sequence[int]) -> Coding:
        """That of some of the features."""
        return Coding(tuple(self.features[place] for place in places))

    def to_state(self) -> State:
        return State(
            arrays={
                "category": self.categories,
                "counts": np.array([feature.codes for feature in self.features], dtype=np.int64),
                "cuts": np.concatenate([feature.cuts for feature in self.features] or [np.empty(0)]),
                **pack_texts([feature.name for feature in self.features], "names"),
                **pack_texts([level for feature in self.features for level in feature.levels], "levels"),
            }
        )

    @classmethod
    def from_state(cls, state: State) -> Coding:
        names, levels = unpack_texts(state.arrays, "names"), unpack_texts(state.arrays, "levels")
        cuts = state.array("cuts")
        features = []
        for name, category, count in zip(names, state.arrays["category"], state.arrays["counts"], strict=True):
            length = int(count) - 2  # of the levels or cuts of this feature
            if category:
                features.append(_category(name, levels=levels[:length]))
                levels = levels[length:]
            else:
                features.append(_number(name, cuts=cuts[:length]))
                cuts = cuts[length:]
        return cls(tuple(features))


def _learned(name: str, column: Column, weight: FloatArray) -> CodedFeature:
    if column.role == "category":
        least = min(COMMON_SHARE * float(weight.sum()), COMMON)
        levels = heaviest_levels(column, level_weights(column, weight), least=least, most=LEVELS)
        return _category(name, levels=tuple(sorted(levels)))
    return _number(name, cuts=_cuts(column.values.astype(np.float64), weight))


def _encoded(feature: CodedFeature, column: Column) -> Codes:
    if feature.kind == "category":
        return feature.level_codes(column.levels)[column.values.astype(np.int32, copy=False)].astype(np.uint8)
    codes = np.searchsorted(feature.cuts, column.values, side="left") + 1
    codes[np.isnan(column.values)] = 0
    return codes.astype(np.uint8)


def _cuts(values: FloatArray, weight: FloatArray) -> FloatArray:
    known = ~np.isnan(values)
    distinct = np.unique(values[known])
    if len(distinct) <= BINS:
        return cuts_between(distinct[:-1], distinct[1:])
    return cuts_between(*quantile_gaps(values[known], weight[known], BINS))
