"""What a set of codes of one feature stands for, in words and as a condition of formulas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calcli import expressions as terms
from calcli.expressions import Among, Condition, Input, Missing, Some
from calcli.methods.heterogeneous.coding import Coded
from calcli.methods.heterogeneous.tree import Mask

MOST_NAMED = 8
"""A rule names so many levels; of more it says how many."""


@dataclass(frozen=True)
class Codeset:
    """Some of the codes of a feature.

    Attributes
    ----------
    coded
        The feature.
    mask
        Which codes; longer than there are codes, it is cut.
    """

    coded: Coded
    mask: Mask

    @property
    def missing(self) -> bool:
        return bool(self.mask[0])

    @property
    def _values(self) -> Mask:
        return self.mask[1 : self.coded.count]

    def __str__(self) -> str:
        """In words: ``age <= 30 (or missing)``."""
        values = self._values
        if not values.any():
            return f"{self.coded.name} is missing" if self.missing else f"{self.coded.name} is nothing"
        if values.all():
            return f"{self.coded.name} is anything" if self.missing else f"{self.coded.name} is not missing"
        words = [self._levels()] if self.coded.category else [self._range(*run) for run in _runs(values)]
        return " or ".join(words) + (" (or missing)" if self.missing else "")

    def _levels(self) -> str:
        named, others = self._values[:-1], bool(self._values[-1])
        levels = [level for level, own in zip(self.coded.levels, named, strict=True) if bool(own) != others]
        several = len(levels) > 1
        what = ", ".join(levels[:MOST_NAMED]) + (f", .. ({len(levels)} in all)" if len(levels) > MOST_NAMED else "")
        if others:
            return f"{self.coded.name} is none of {what}" if several else f"{self.coded.name} is not {what}"
        return f"{self.coded.name} is one of {what}" if several else f"{self.coded.name} is {what}"

    def _range(self, first: int, last: int) -> str:
        cuts = self.coded.cuts
        low = f"{cuts[first - 1]:.15g} < " if first > 0 else ""
        high = f" <= {cuts[last]:.15g}" if last < len(cuts) else ""
        return f"{low}{self.coded.name}{high}"

    def asked(self, column: Input) -> tuple[Condition, bool]:
        """A condition, and whether the codes are those of rows that fulfil it, or of all others."""
        if self.coded.category:
            others = bool(self._values[-1])  # levels that have no code cannot be named: the other side is
            names = self._values[:-1] != others
            found: list[Condition] = []
            if names.any():
                levels = zip(self.coded.levels, names, strict=True)
                found.append(Among(column, tuple(level for level, own in levels if own)))
            if self.missing != others:
                found.append(Missing(column))
            return _either(found), not others
        found = [self._between(column, *run) for run in _runs(self._values)]
        if self.missing:
            found.append(Missing(column))
        return _either(found), True

    def _between(self, column: Input, first: int, last: int) -> Condition:
        """Comparisons, which a missing value never fulfils."""
        cuts, found = self.coded.cuts, list[Condition]()
        if first > 0:
            found.append(column > float(cuts[first - 1]))
        if last < len(cuts):
            found.append(column <= float(cuts[last]))
        if not found:
            found.append(Some((column <= 0.0, column > 0.0)))
        return found[0] if len(found) == 1 else terms.Every(tuple(found))


def _runs(values: Mask) -> Iterator[tuple[int, int]]:
    """First and last place of each run of what is in the set."""
    edges = np.flatnonzero(np.diff(values.astype(np.int8), prepend=0, append=0))
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        yield int(first), int(end) - 1


def _either(conditions: list[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else Some(tuple(conditions))
