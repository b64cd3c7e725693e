"""Conditions on features that a person can read: ``age > 54``, ``device = tablet``, ``income is missing``.

An `Axis` puts the values of a feature into bins, of which a condition takes some that lie beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Column, FloatArray, IntArray
from calcli.numeric.bins import totals

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Numbers are cut at these quantiles: the tails, where scores are often wrong, are cut more finely."""

LEVELS, LEAST_ROWS = 60, 20
"""So many of the most frequent categories can be conditions, if they have so many rows."""

DIGITS = 3
"""Ends of bins are rounded to so many digits, or to as many more as keep them apart."""

LOOKED_AT = 200_000
"""Quantiles are those of at most so many rows, evenly spaced."""

LONGEST = 1e15
"""Whole numbers from here on are written as others are."""

Codes = NDArray[np.uint8]


class Condition(NamedTuple):
    """The bins `lo` to `hi` of a feature, both included."""

    axis: int
    lo: int
    hi: int
    bounds: int = 1
    """How many bounds a reader has to keep in mind."""


class Choices(NamedTuple):
    """The conditions that a feature allows, as arrays."""

    lo: IntArray
    hi: IntArray
    bounds: IntArray


@dataclass(frozen=True, slots=True)
class Axis:
    """A feature in bins; two bins more hold the rows without a value, and those of rare categories."""

    name: str
    names: tuple[str, ...]
    """The categories, or the upper ends of the bins of numbers, but of the last bin."""

    ends: FloatArray | None = None
    """The ends as numbers; None for categories."""

    range: tuple[float, float] | None = None
    """The least and the greatest number, where none has a fraction."""

    missing: bool = False
    """Whether there are rows without a value."""

    @classmethod
    def of(cls, name: str, column: Column) -> Axis:
        """The bins of a feature's values."""
        values = column.values
        if column.role == "category":
            rows = totals(values[values >= 0].astype(np.int64), None, len(column.levels))
            often = np.argsort(-rows, kind="stable")[:LEVELS]
            names = tuple(column.levels[level] for level in often if rows[level] >= LEAST_ROWS)
            return cls(name, names, missing=bool((values < 0).any()))
        absent = np.isnan(values)
        if column.role == "boolean":
            return cls(name, ("false", "true"), missing=bool(absent.any()))
        present = values[~absent].astype(np.float64)
        finite = np.isfinite(present)
        whole = len(present) > 0 and bool(finite.all()) and bool((present % 1.0 == 0.0).all())
        whole = whole and bool(np.abs(present).max() < LONGEST)
        ordered = np.sort(present[finite][:: -(-len(values) // LOOKED_AT)])
        ends = np.unique(ordered[(len(ordered) * np.array(SHARES)).astype(np.int64)] if len(ordered) else ordered)
        names = _texts(ends[ends < ordered[-1]] if len(ends) else ends, whole=whole)
        between = (float(present.min()), float(present.max())) if whole else None
        return cls(name, names, np.array(names, dtype=np.float64), between, bool(absent.any()))

    @property
    def bins(self) -> int:
        """The number of bins that hold values."""
        return len(self.names) + (self.ends is not None)

    @property
    def size(self) -> int:
        """The number of all codes."""
        return self.bins + 2

    def codes(self, column: Column) -> Codes:
        """The bin of each row."""
        if self.ends is not None:
            place = np.searchsorted(self.ends, column.values, side="left")
            return np.where(np.isnan(column.values), self.bins, place).astype(np.uint8)
        if column.role == "boolean":
            return np.nan_to_num(column.values, nan=self.bins).astype(np.uint8)
        code = column.recode(self.names, unseen=self.bins + 1)
        return np.where(code < 0, self.bins, code).astype(np.uint8)

    def choices(self) -> Choices:
        """Each value, each range of numbers, and that there is no value; not what all rows fulfil."""
        last = self.bins - 1
        if self.ends is None:
            lo = hi = np.arange(self.bins)
            bounds = np.ones(self.bins, dtype=np.int64)
        else:
            lo, hi = np.triu_indices(self.bins)
            ranges = zip(lo.tolist(), hi.tolist(), strict=True)
            alone = np.array([self._value(*one) is not None for one in ranges], dtype=np.bool_)
            bounds = (lo > 0).astype(np.int64) + (hi < last)
            bounds = np.where(alone, np.minimum(bounds, 1), bounds)
        found = Choices(lo, hi, bounds)
        if self.missing:
            found = Choices(*(np.append(one, new) for one, new in zip(found, (last + 1, last + 1, 1), strict=True)))
        kept = found.bounds > 0
        return Choices(found.lo[kept], found.hi[kept], found.bounds[kept])

    def text(self, condition: Condition) -> str:
        """The condition in words."""
        lo, hi, last = condition.lo, condition.hi, self.bins - 1
        if lo > last:
            return f"{self.name} is missing"
        if self.ends is None:
            return f"{self.name} = {self.names[lo]}"
        if (value := self._value(lo, hi)) is not None:
            return f"{self.name} = {value}"
        if lo == 0:
            return f"{self.name} <= {self.names[hi]}"
        above = f"{self.name} > {self.names[lo - 1]}"
        return above if hi == last else f"{self.names[lo - 1]} < {self.name} <= {self.names[hi]}"

    def _value(self, lo: int, hi: int) -> str | None:
        """The one whole number that a range holds, if it holds one."""
        if self.range is None or self.ends is None:
            return None
        below = self.ends[lo - 1] if lo > 0 else self.range[0] - 1.0
        last = self.ends[hi] if hi < self.bins - 1 else self.range[1]
        return f"{last:.0f}" if last - below == 1.0 else None


def _texts(ends: FloatArray, *, whole: bool) -> tuple[str, ...]:
    """The ends of bins as short texts, which are what the bins end at."""
    if whole:
        return tuple(f"{end:.0f}" for end in ends)
    for digits in range(DIGITS, 17):
        texts = tuple(f"{end:.{digits}g}" for end in ends)
        if len({float(text) for text in texts}) == len(ends):
            return texts
    return tuple(repr(float(end)) for end in ends)


def rows_of(codes: Codes, conditions: tuple[Condition, ...]) -> NDArray[np.bool_]:
    """The rows that fulfil all conditions; `codes` has a row for each axis."""
    held = np.ones(codes.shape[1], dtype=np.bool_)
    for one in conditions:
        held &= (codes[one.axis] >= one.lo) & (codes[one.axis] <= one.hi)
    return held
