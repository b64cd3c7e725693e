"""A set of codes of one feature as words, and as a condition of formulas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calcli.expressions import Among, Condition, Every, Input, Missing, Some
from calcli.methods.heterogeneous.tree import Mask
from calcli.methods.trees.coding import CodedFeature

MOST_NAMED = 8
"""A rule names so many levels; of more it says how many."""


@dataclass(frozen=True)
class CodeSet:
    """Some of the codes of a feature: those that `mask` marks. Its entries beyond the last code are ignored."""

    feature: CodedFeature
    mask: Mask

    @property
    def missing(self) -> bool:
        return bool(self.mask[0])

    @property
    def _values(self) -> Mask:
        """All codes but that of missing values; of a category the last is for levels without a code of their own."""
        return self.mask[1 : self.feature.codes]

    def __str__(self) -> str:
        """In words: ``age <= 30 (or missing)``."""
        name, values = self.feature.name, self._values
        if not values.any():
            return f"{name} is missing" if self.missing else f"{name} is nothing"
        if values.all():
            return f"{name} is anything" if self.missing else f"{name} is not missing"
        category = self.feature.kind == "category"
        words = [self._level_words()] if category else [self.feature.range_words(*run) for run in _runs(values)]
        return " or ".join(words) + (" (or missing)" if self.missing else "")

    def _levels(self, *, included: bool) -> tuple[str, ...]:
        """The levels with a code of their own that are in the set, or that are not."""
        pairs = zip(self.feature.levels, self._values[:-1], strict=True)
        return tuple(level for level, in_set in pairs if bool(in_set) == included)

    def _level_words(self) -> str:
        negated = bool(self._values[-1])
        levels = self._levels(included=not negated)
        listed = ", ".join(levels[:MOST_NAMED]) + (f", .. ({len(levels)} in all)" if len(levels) > MOST_NAMED else "")
        if len(levels) > 1:
            return f"{self.feature.name} is {'none' if negated else 'one'} of {listed}"
        return f"{self.feature.name} is {'not ' if negated else ''}{listed}"

    def condition(self, column: Input) -> tuple[Condition, bool]:
        """A condition, and whether the rows that fulfil it are those of the set, or all others."""
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
    """First and last place of each run of codes in the set."""
    edges = np.flatnonzero(np.diff(values.astype(np.int8), prepend=0, append=0))
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        yield int(first), int(end) - 1
