"""Features as small integers, on which the trees of mbct and heterogeneous split.

A category is coded by its level, a number or a boolean by the bin that it falls into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.numeric.links import sigmoid

Kind = Literal["category", "number", "boolean", "score"]


@dataclass(frozen=True, slots=True, eq=False)
class CodedFeature:
    """The codes of one feature: 0, then perhaps that of missing values, then one for each bin or level."""

    name: str
    """Of the feature; empty for the score."""

    kind: Kind
    cuts: FloatArray = field(default_factory=lambda: np.empty(0))
    """Between the bins of a number, of a boolean, or of the score as log-odds. A bin includes its upper cut."""

    levels: tuple[str, ...] = ()
    """Of a category: those with a code of their own."""

    missing: bool = False
    """Whether missing values have code 1; otherwise it is 0."""

    unseen_last: bool = False
    """Whether levels without a code of their own share the last code; otherwise it is 0."""

    @property
    def codes(self) -> int:
        """The number of codes, 0 among them."""
        values = len(self.levels) + self.unseen_last if self.kind == "category" else len(self.cuts) + 1
        return 1 + self.missing + values

    def level_codes(self, levels: Sequence[str]) -> NDArray[np.uint16]:
        """The code of each of a column's `levels`, and of a missing value at the end."""
        unseen = self.codes - 1 if self.unseen_last else 0
        code_of = {level: code for code, level in enumerate(self.levels, 1 + self.missing)}
        return np.array([*(code_of.get(level, unseen) for level in levels), int(self.missing)], dtype=np.uint16)

    def range_words(self, first: int, last: int) -> str:
        """The condition that a number lies in the bins `first` .. `last`; empty if these are all bins."""
        low = f"{self._cut_text(first - 1)} < " if first > 0 else ""
        high = f" <= {self._cut_text(last)}" if last < len(self.cuts) else ""
        return f"{low}{self.name or 'score'}{high}" if low or high else ""

    def _cut_text(self, place: int) -> str:
        """The shortest exact text of a cut; that of the score as a probability."""
        cut = float(self.cuts[place])
        if self.kind == "score":
            cut = float(sigmoid(np.array([cut])).round(14)[0])
        return f"{cut:.15g}" if float(f"{cut:.15g}") == cut else repr(cut)


def quantile_gaps(values: FloatArray, weight: FloatArray | None, count: int) -> tuple[FloatArray, FloatArray]:
    """The gaps in which to cut for `count` bins of about equal weight; fewer where many rows share a value.

    A cut belongs after the least value at which its share is reached, so that a row of weight two counts as the row
    twice, and the order of the rows does not matter. Returns the values below and above each cut.
    """
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    if len(values) == 0:
        return np.empty(0), np.empty(0)
    if weight is None:
        ordered = np.sort(values)
        places = np.ceil(len(ordered) * np.arange(1, count) / count).astype(np.int64) - 1
    else:
        order = np.argsort(values, kind="stable")
        ordered, cumulative = values[order], np.cumsum(weight[order])
        places = np.searchsorted(cumulative, cumulative[-1] * np.arange(1, count) / count * (1 - 1e-12))
    low = np.unique(ordered[places])
    low = low[low < ordered[-1]]
    return low, ordered[np.searchsorted(ordered, low, side="right")]


def cuts_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """The number with the fewest digits in each gap: low <= cut < high."""
    return np.array([_shortest(below, above) for below, above in zip(low.tolist(), high.tolist(), strict=True)])


def _shortest(low: float, high: float) -> float:
    middle = low + (high - low) / 2.0
    for digits in range(1, 17):
        cut = float(f"{middle:.{digits}g}")
        if low <= cut < high:
            return cut
    return middle if middle < high else low
