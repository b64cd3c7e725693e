"""The codes of features and of the score in MBCT.

A category or a boolean is coded by its value, a number by the quantile bin that it falls into, and so is the score
itself. Missing values that are frequent enough for a branch have code 1. Code 0 is for all values that are too rare
for a branch, or were never seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, Column, FloatArray
from calcli.learners.encoding import heaviest_levels, level_weights
from calcli.methods.mbct import kernels
from calcli.methods.mbct.kernels import Codes
from calcli.methods.mbct.kernels import predict as applying
from calcli.methods.trees.coding import CodedFeature, Kind, cuts_between, pack_features, quantile_gaps, unpack_features
from calcli.methods.trees.kernels import encode_numbers, only_read, scratch
from calcli.numeric.bins import just_above
from calcli.numeric.links import logit, sigmoid
from calcli.numeric.seeded import in_class_order
from calcli.numeric.side_by_side import on_threads

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

MOST_LEVELS = 65_000
"""Codes are 16 bits wide; the rarest categories beyond this many have no code of their own."""

BLOCK, STRIDE = 1 << 18, 1 << 14
"""Rows that one thread takes at a time, and rows of which it codes all features before it goes on."""


@dataclass(frozen=True, slots=True, eq=False)
class Coder:
    """Codes rows, each as a line with a code for each feature; the table of each category's last levels is kept."""

    features: tuple[CodedFeature, ...]
    _tables: dict[str, tuple[tuple[str, ...], Codes]] = field(default_factory=dict, init=False, repr=False)

    @property
    def offsets(self) -> kernels.Places:
        """The first cell of each feature, and the end of the last one's."""
        return np.array([0, *accumulate(self.codes)], dtype=np.int64)

    @property
    def codes(self) -> list[int]:
        """The number of codes of each feature."""
        return [feature.codes for feature in self.features]

    def encode(self, batch: Batch) -> Codes:
        codes = np.empty((len(batch), len(self.features)), dtype=np.uint16)
        self.encode_into(codes, 0, batch)
        return codes

    def encode_into(self, lines: Codes, first: int, batch: Batch) -> None:
        """Put the codes of each row into its line, from place `first` on."""
        rows, columns = len(batch), [self._column(feature, batch) for feature in self.features]

        def work(start: int) -> None:
            below = scratch()
            for low in range(start, min(start + BLOCK, rows), STRIDE):
                high = min(low + STRIDE, start + BLOCK, rows)
                for place, (missing, values, table) in enumerate(columns, first):
                    if missing is not None:
                        encode_numbers(values, table, missing, low, high, below, lines, place)
                    else:
                        applying.encode_categories(values, table, low, high, lines, place)

        on_threads(work, range(0, rows, BLOCK))

    def _column(self, feature: CodedFeature, batch: Batch) -> tuple[int | None, NDArray[Any], NDArray[Any]]:
        """How many codes missing numbers have, the values, and the cuts; of a category None, and the codes of levels.

        These are the levels of the batch.
        """
        if feature.kind == "category":
            column = _of(batch.features[feature.name], category=True)
            return None, np.ascontiguousarray(column.values, dtype=np.int32), self._table(feature, column.levels)
        score = feature.kind == "score"
        values = batch.score if score else _of(batch.features[feature.name], category=False).values
        return int(feature.missing), only_read(values), only_read(feature.cuts)

    def _table(self, feature: CodedFeature, levels: tuple[str, ...]) -> Codes:
        """`CodedFeature.level_codes`; chunks of a table often come with the very same levels."""
        last = self._tables.get(feature.name)
        if last is None or last[0] is not levels:
            self._tables[feature.name] = last = levels, feature.level_codes(levels).astype(np.uint16)
        return last[1]

    def only(self, places: Sequence[int]) -> Coder:
        return Coder(tuple(self.features[place] for place in places))

    def to_arrays(self) -> Arrays:
        """Arrays for an artifact."""
        return pack_features(self.features) | {
            "missing": np.array([feature.missing for feature in self.features], dtype=np.bool_)
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Coder:
        """The inverse of `to_arrays`."""
        return cls(
            tuple(
                CodedFeature(name, cast(Kind, kind), cuts, levels, bool(arrays["missing"][place]))
                for place, (name, kind, cuts, levels) in enumerate(unpack_features(arrays))
            )
        )


def _of(column: Column, *, category: bool) -> Column:
    """The column if it has the role that was coded; otherwise compiled loops would take numbers for codes."""
    if (column.role == "category") is not category:
        raise ValueError(f"a {column.role} is coded as something else")
    return column


def learn_codes(
    batch: Batch, names: Sequence[str], *, least: float, bins: int, score_bins: int, score_by: Literal["width", "mass"]
) -> Coder:
    """The coding of these features and of the score, without features that no split could use.

    A branch must have the weight `least`. Labels are not looked at. Bins of the score have equal width on [0, 1], or
    equal weight.
    """

    def work(name: str | None) -> CodedFeature | None:
        if name is None:
            if score_by == "mass":
                # Rows of one score are in the same bin whichever class is the positive one.
                score, rank = in_class_order(batch.score, batch.weight)
                low, high = quantile_gaps(score, batch.weight, score_bins)
                low, high = (-high[::-1], -low[::-1]) if rank[0] else (low, high)
                # Few digits as probabilities, where these can be told apart.
                cuts = just_above(logit(cuts_between(sigmoid(low), sigmoid(high))))
                cuts = np.where((low <= cuts) & (cuts < high), cuts, low + (high - low) / 2.0)
                return CodedFeature("", "score", cuts)
            return CodedFeature("", "score", just_above(logit(np.arange(1, score_bins) / score_bins)))
        column = batch.features[name]
        if column.role == "category":
            return _category(name, column, batch.weight, least)
        return _number(name, column, batch.weight, least, bins)

    features = on_threads(work, [*names, None])  # None is the score
    return Coder(tuple(feature for feature in features if feature is not None))


def _category(name: str, column: Column, weight: FloatArray | None, least: float) -> CodedFeature | None:
    weights = level_weights(column, weight)
    enough = weights[weights >= least]
    if not len(enough) or enough[0] == weights.sum():
        return None
    levels = heaviest_levels(column, weights, least=least, most=MOST_LEVELS)
    return CodedFeature(name, "category", levels=levels, missing=bool(weights[0] >= least))


def _number(name: str, column: Column, weight: FloatArray | None, least: float, bins: int) -> CodedFeature | None:
    absent = np.isnan(column.values)
    values, missing = column.values, False
    if absent.any():
        missing = bool((absent.sum() if weight is None else weight[absent].sum()) >= least)
        values, weight = values[~absent], None if weight is None else weight[~absent]
    if len(values) == 0 or (len(values) == len(absent) and (values == values[0]).all()):
        return None
    if column.role == "boolean":
        return CodedFeature(name, "boolean", np.array([0.5]), missing=missing)
    low, high = quantile_gaps(values.astype(np.float64), weight, bins)
    return CodedFeature(name, "number", cuts_between(low, high), missing=missing)
