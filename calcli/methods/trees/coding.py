"""Features as small integers: what MBCT splits by.

A category or a boolean is coded by its value, a number by the quantile bin that it falls into, and so is the score
itself. Missing is a value of its own. Code 0 takes whatever is rarer than a branch may be, or was never seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, cast

import numpy as np

from calcli.batch import Batch, Column, FloatArray
from calcli.methods.trees import kernels
from calcli.methods.trees.compiled import on_threads
from calcli.methods.trees.kernels import Codes
from calcli.numeric.links import logit, sigmoid
from calcli.state import Json, State, pack_texts, unpack_texts

Kind = Literal["category", "number", "boolean", "score"]

MOST_LEVELS = 65_000
"""Categories beyond so many, the rarest, are another value: codes are 16 bits wide."""

BLOCK = 1 << 18
"""Rows that one thread takes at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Coding:
    """How one feature is coded.

    Attributes
    ----------
    name
        Of the feature; empty for the score.
    cuts
        Between the bins of a number, of a boolean, or of the score as log-odds. A bin ends at its cut, which belongs
        to it.
    levels
        Of a category: those with a code of their own, the most frequent first.
    missing
        Whether a missing value has a code of its own. It is 1 then, and the others follow.
    """

    name: str
    kind: Kind
    cuts: FloatArray = field(default_factory=lambda: np.empty(0))
    levels: tuple[str, ...] = ()
    missing: bool = False

    @property
    def codes(self) -> int:
        """How many codes there are, 0 among them."""
        values = len(self.levels) if self.kind == "category" else len(self.cuts) + 1
        return 1 + self.missing + values

    @property
    def splits(self) -> bool:
        """Whether rows may differ in their codes."""
        return self.codes > 2 or bool(self.levels)

    def said(self, code: int) -> str:
        """A code in words, as the condition of a rule."""
        name = self.name or "score"
        place = code - 1 - self.missing
        if code == 0:
            return f"{name} is another value"
        if place < 0:
            return f"{name} is missing"
        if self.kind == "category":
            return f"{name} is {self.levels[place]}"
        if self.kind == "boolean":
            return f"{name} is {'true' if place else 'false'}"
        cuts = sigmoid(self.cuts) if self.kind == "score" else self.cuts
        low = f"{cuts[place - 1]:.6g} < " if place > 0 else ""
        high = f" <= {cuts[place]:.6g}" if place < len(cuts) else ""
        return f"{low}{name}{high}"

    def table(self, levels: Sequence[str]) -> Codes:
        """The code of each of a batch's `levels`, and of a missing value at the end."""
        place = {level: code for code, level in enumerate(self.levels, 1 + self.missing)}
        return np.array([*(place.get(level, 0) for level in levels), int(self.missing)], dtype=np.uint16)


@dataclass(frozen=True, slots=True, eq=False)
class Coder:
    """How rows become lines of codes, one for each feature."""

    features: tuple[Coding, ...]

    @property
    def offsets(self) -> kernels.Places:
        """Where the cells of each feature start, and where the last one's end."""
        return np.array([0, *accumulate(feature.codes for feature in self.features)], dtype=np.int64)

    def encode(self, batch: Batch) -> Codes:
        """The codes of all rows."""
        rows = len(batch)
        codes = np.empty((rows, len(self.features)), dtype=np.uint16)

        def work(task: tuple[int, Coding, int]) -> None:
            place, feature, start = task
            stop = min(start + BLOCK, rows)
            if feature.kind == "category":
                column = batch.features[feature.name]
                levels = np.ascontiguousarray(column.values, dtype=np.int32)
                kernels.encode_categories(levels, tables[feature.name], start, stop, codes, place)
            else:
                values = batch.score if feature.kind == "score" else batch.features[feature.name].values
                numbers = np.ascontiguousarray(values, dtype=np.float64)
                kernels.encode_numbers(numbers, feature.cuts, int(feature.missing), start, stop, codes, place)

        tables = {
            feature.name: feature.table(batch.features[feature.name].levels)
            for feature in self.features
            if feature.kind == "category"
        }
        on_threads(
            work,
            [(place, feature, start) for start in range(0, rows, BLOCK) for place, feature in enumerate(self.features)],
        )
        return codes

    def only(self, places: Sequence[int]) -> Coder:
        """Some of the features."""
        return Coder(tuple(self.features[place] for place in places))

    def to_state(self) -> State:
        """For an artifact."""
        facts: list[Json] = [
            {
                "name": feature.name,
                "kind": feature.kind,
                "cuts": len(feature.cuts),
                "levels": len(feature.levels),
                "missing": feature.missing,
            }
            for feature in self.features
        ]
        cuts = np.concatenate([np.empty(0), *(feature.cuts for feature in self.features)])
        return State(
            {"features": facts}, {"cuts": cuts, **pack_texts([text for f in self.features for text in f.levels])}
        )

    @classmethod
    def from_state(cls, state: State) -> Coder:
        """What `to_state` gave."""
        levels, cuts = unpack_texts(state.arrays), state.array("cuts")
        features = []
        for fact in cast(list[dict[str, Json]], state.params["features"]):
            own_levels, own_cuts = int(str(fact["levels"])), int(str(fact["cuts"]))
            features.append(
                Coding(
                    str(fact["name"]),
                    cast(Kind, fact["kind"]),
                    cuts[:own_cuts],
                    levels[:own_levels],
                    bool(fact["missing"]),
                )
            )
            levels, cuts = levels[own_levels:], cuts[own_cuts:]
        return cls(tuple(features))


def learn_codes(
    batch: Batch, names: Sequence[str], *, least: float, bins: int, score_bins: int, score_by: Literal["width", "mass"]
) -> Coder:
    """The coding of these features and of the score, without those that could never be split.

    Parameters
    ----------
    least
        The weight that a branch must have.
    bins, score_bins
        Into how many bins a number and the score are cut.
    score_by
        Bins of the score of equal width on [0, 1], or of equal weight.
    """

    def work(name: str | None) -> Coding:
        if name is None:
            if score_by == "mass":
                return Coding("", "score", quantile_cuts(batch.score, batch.weight, score_bins))
            return Coding("", "score", logit(np.arange(1, score_bins) / score_bins))
        column = batch.features[name]
        if column.role == "category":
            return _category(name, column, batch.weight, least)
        return _number(name, column, batch.weight, least, bins)

    found = on_threads(work, [*names, None])
    return Coder(tuple(coding for coding in found if coding.splits or coding.kind == "score"))


def _category(name: str, column: Column, weight: FloatArray | None, least: float) -> Coding:
    held = np.bincount(column.values + 1, weight, minlength=len(column.levels) + 1)
    by_level = held[1:]
    enough = [int(place) for place in np.flatnonzero(by_level >= least)]
    frequent = sorted(enough, key=lambda place: (-by_level[place], column.levels[place]))[:MOST_LEVELS]
    return Coding(
        name, "category", levels=tuple(column.levels[place] for place in frequent), missing=bool(held[0] >= least)
    )


def _number(name: str, column: Column, weight: FloatArray | None, least: float, bins: int) -> Coding:
    absent = np.isnan(column.values)
    values, missing = column.values, False
    if absent.any():
        missing = bool((absent.sum() if weight is None else weight[absent].sum()) >= least)
        values, weight = values[~absent], None if weight is None else weight[~absent]
    if column.role == "boolean":
        return Coding(name, "boolean", np.array([0.5]), missing=missing)
    return Coding(name, "number", quantile_cuts(values.astype(np.float64), weight, bins), missing=missing)


def quantile_cuts(values: FloatArray, weight: FloatArray | None, count: int) -> FloatArray:
    """Cuts between `count` bins of about equal weight; fewer where many rows share a value.

    A cut lies halfway between two values that occur, the lower of them the least at which its share is reached, so that
    a row of weight two counts as the row twice, and the order of the rows does not matter.
    """
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    if len(values) == 0:
        return np.empty(0)
    if weight is None:
        ordered = np.sort(values)
        places = np.ceil(len(ordered) * np.arange(1, count) / count).astype(np.int64) - 1
    else:
        order = np.argsort(values, kind="stable")
        ordered, below = values[order], np.cumsum(weight[order])
        places = np.searchsorted(below, below[-1] * np.arange(1, count) / count * (1 - 1e-12))
    low = np.unique(ordered[places])
    low = low[low < ordered[-1]]
    high = ordered[np.searchsorted(ordered, low, side="right")]
    cuts: FloatArray = low + (high - low) / 2.0
    return np.where(cuts < high, cuts, low)
