"""The codes of features in heterogeneous calibration.

Code 0 is a missing value. A number or a boolean has 1, 2, .. by the quantile bin that it falls into, a category by its
level. Levels of few rows share the last code with those never seen: ordered by their label rates they would fit noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, Column, FloatArray
from calcli.expressions import Among, Condition, Every, Input, Missing, Some
from calcli.learners.encoding import heaviest_levels, level_weights
from calcli.methods.trees.coding import CodedFeature, Kind, cuts_between, quantile_gaps
from calcli.state import State, pack_texts, unpack_texts

Mask = NDArray[np.bool_]
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
        """The coding by the quantiles, or the common levels, of these rows."""
        return cls(tuple(_learned(name, column, batch.weights) for name, column in batch.features.items()))

    @cached_property
    def width(self) -> int:
        """The most codes that a feature has."""
        return max((feature.codes for feature in self.features), default=0)

    @cached_property
    def categories(self) -> Mask:
        """Which features are categories."""
        return self._of_kind("category")

    def _of_kind(self, kind: Kind) -> Mask:
        return np.array([feature.kind == kind for feature in self.features], dtype=np.bool_)

    def encode(self, features: Mapping[str, Column]) -> Codes:
        """The codes of all features of a table."""
        return np.stack([_encoded(feature, features[feature.name]) for feature in self.features])

    def only(self, places: Sequence[int]) -> Coding:
        """The coding of some of the features."""
        return Coding(tuple(self.features[place] for place in places))

    def to_state(self) -> State:
        return State(
            arrays={
                "category": self.categories,
                **({"boolean": booleans} if (booleans := self._of_kind("boolean")).any() else {}),
                "counts": np.array([feature.codes for feature in self.features], dtype=np.int64),
                "cuts": np.concatenate([feature.cuts for feature in self.features] or [np.empty(0)]),
                **pack_texts([feature.name for feature in self.features], "names"),
                **pack_texts([level for feature in self.features for level in feature.levels], "levels"),
            }
        )

    @classmethod
    def from_state(cls, state: State) -> Coding:
        names, levels = unpack_texts(state.arrays, "names"), unpack_texts(state.arrays, "levels")
        cuts, categories = state.array("cuts"), state.arrays["category"]
        booleans = state.arrays.get("boolean", np.zeros(len(categories), dtype=np.bool_))
        features = []
        for name, category, boolean, count in zip(names, categories, booleans, state.arrays["counts"], strict=True):
            length = int(count) - 2  # of the levels or cuts of this feature
            if category:
                features.append(_category(name, levels=levels[:length]))
                levels = levels[length:]
            else:
                features.append(_number(name, kind="boolean" if boolean else "number", cuts=cuts[:length]))
                cuts = cuts[length:]
        return cls(tuple(features))


def _learned(name: str, column: Column, weight: FloatArray) -> CodedFeature:
    if column.role == "category":
        least = min(COMMON_SHARE * float(weight.sum()), COMMON)
        levels = heaviest_levels(column, level_weights(column, weight), least=least, most=LEVELS)
        return _category(name, levels=tuple(sorted(levels)))
    values = column.values.astype(np.float64)
    known = ~np.isnan(values)
    kind: Kind = "boolean" if column.role == "boolean" else "number"
    distinct = np.unique(values[known])
    if len(distinct) <= BINS:
        return _number(name, kind=kind, cuts=cuts_between(distinct[:-1], distinct[1:]))
    return _number(name, cuts=cuts_between(*quantile_gaps(values[known], weight[known], BINS)))


def _encoded(feature: CodedFeature, column: Column) -> Codes:
    if feature.kind == "category":
        return feature.level_codes(column.levels)[column.values.astype(np.int32, copy=False)].astype(np.uint8)
    codes = np.searchsorted(feature.cuts, column.values, side="left") + 1
    codes[np.isnan(column.values)] = 0
    return codes.astype(np.uint8)


MOST_NAMED = 3
"""A rule for people names so many levels; of more it says how many."""


@dataclass(frozen=True)
class CodeSet:
    """The codes of a feature that `mask` marks, as words and as a condition.

    Entries of the mask beyond the last code are ignored.
    """

    feature: CodedFeature
    mask: Mask

    @property
    def missing(self) -> bool:
        return bool(self.mask[0])

    @property
    def _values(self) -> Mask:
        """The mask without missing values; the last code of a category is for levels without a code of their own."""
        return self.mask[1 : self.feature.codes]

    def words(self, most: int | None = None) -> str:
        """The set in words: ``age <= 30 (or missing)``; a list names at most so many levels."""
        name, values = self.feature.name, self._values
        if not values.any():
            return f"{name} is missing" if self.missing else f"{name} is nothing"
        if values.all():
            return f"{name} is anything" if self.missing else f"{name} is not missing"
        if self.feature.kind == "category":
            words = [self._level_words(most)]
        elif self.feature.kind == "boolean":
            words = [f"{name} is {'true' if values[-1] else 'false'}"]
        else:
            words = [self.feature.range_words(*run) for run in _runs(values)]
        return " or ".join(words) + (" (or missing)" if self.missing else "")

    def _levels(self, *, included: bool) -> tuple[str, ...]:
        """The levels with a code of their own that are in the set, or outside it."""
        pairs = zip(self.feature.levels, self._values[:-1], strict=True)
        return tuple(level for level, in_set in pairs if bool(in_set) == included)

    def _level_words(self, most: int | None) -> str:
        negated = bool(self._values[-1])
        levels = self._levels(included=not negated)
        more = 0 if most is None else len(levels) - most
        listed = f"{', '.join(levels[:most])} and {more} more" if more > 1 else ", ".join(levels)
        if len(levels) > 1:
            return f"{self.feature.name} is {'none' if negated else 'one'} of {listed}"
        return f"{self.feature.name} is {'not ' if negated else ''}{listed}"

    def condition(self, column: Input) -> tuple[Condition, bool]:
        """A condition, and whether the rows that fulfil it are in the set or outside it."""
        if self.feature.kind == "category":
            negated = bool(self._values[-1])  # levels without a code cannot be named: name the other side
            levels = self._levels(included=not negated)
            conditions: list[Condition] = [Among(column, levels)] if levels else []
        else:
            negated = False
            conditions = [self._between(column, *run) for run in _runs(self._values)]
        if self.missing != negated:
            conditions.append(Missing(column))
        return (conditions[0] if len(conditions) == 1 else Some(tuple(conditions))), not negated

    def _between(self, column: Input, first: int, last: int) -> Condition:
        """Comparisons, which a missing value never fulfils."""
        cuts, conditions = self.feature.cuts, list[Condition]()
        if first > 0:
            conditions.append(column > float(cuts[first - 1]))
        if last < len(cuts):
            conditions.append(column <= float(cuts[last]))
        if not conditions:
            return Some((column <= 0.0, column > 0.0))
        return conditions[0] if len(conditions) == 1 else Every(tuple(conditions))


def _runs(values: Mask) -> Iterator[tuple[int, int]]:
    """The first and last place of each run of marked codes."""
    edges = np.flatnonzero(np.diff(values.astype(np.int8), prepend=0, append=0))
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        yield int(first), int(end) - 1
