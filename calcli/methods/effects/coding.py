"""The codes under which the values of a feature have effects.

Code 0 is for values that the fit has not seen, 1 for missing ones; categories have a code for each level, numbers for
each bin. A feature has fine codes for its own effect, and coarser ones for its pairs with others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.expressions import Inputs, Missing, Number, Switch, Term, Terms
from calcli.learners.encoding import heaviest_levels, level_weights
from calcli.methods.trees.coding import CodedFeature, Kind, cuts_between, quantile_gaps, unpack_features
from calcli.methods.trees.kernels import encode_numbers, only_read, scratch
from calcli.numeric.bins import run_starts
from calcli.numeric.seeded import ordered

Codes: TypeAlias = NDArray[np.unsignedinteger[Any]]

UNSEEN, MISSING, FIRST = 0, 1, 2
"""The codes that every feature has, and that of its first level or bin."""

MOST_PAIRED = 253
"""The levels with codes of their own in pairs; rarer ones have an effect of their own alone."""


MOST_SORTED = 1_000_000
"""Bins follow from so many rows at most."""

FAR = 15.0
"""Scores are held within this."""


@dataclass(frozen=True, slots=True, eq=False)
class Coding(CodedFeature):
    """The codes of one feature, or of the score, whose name is the number of its class."""

    missing: bool = True

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The narrowest type that holds its codes."""
        return np.min_scalar_type(self.codes - 1)

    def same(self, other: Coding) -> bool:
        """Whether both code the same feature in the same way."""
        alike = (self.name, self.kind, self.levels) == (other.name, other.kind, other.levels)
        return alike and np.array_equal(self.cuts, other.cuts)

    def of(self, batch: Batch, score: FloatArray) -> Codes:
        """The code of each row; `score` has the log-odds, or centred logits for each class."""
        if self.kind == "score":
            return self._binned(self._scores(score))
        column = batch.features[self.name]
        if (column.role == "category") is not (self.kind == "category"):
            raise ValueError(f"a {column.role} is coded as a {self.kind}")
        if self.kind == "category":
            return self.level_codes(column.levels).astype(self.dtype)[column.values.astype(np.int32, copy=False)]
        return self._binned(column.values)

    def _binned(self, values: NDArray[Any]) -> Codes:
        """The codes of numbers."""
        codes = np.empty((len(values), 1), dtype=np.uint16)
        encode_numbers(only_read(values), only_read(self.cuts), MISSING, 0, len(values), scratch(), codes, 0)
        return codes[:, 0].astype(self.dtype)

    def _scores(self, score: FloatArray) -> FloatArray:
        """The log-odds, or the centred logits of its class."""
        return score if score.ndim == 1 else score[:, int(self.name)]

    def term(self, score: Terms, features: Inputs) -> Term:
        """The code as a number."""
        if self.kind == "category":
            column = features[self.name]
            numbers = tuple(Number(float(code)) for code in range(FIRST, self.codes))
            known = Switch(column, self.levels, numbers, Number(float(UNSEEN))) if self.levels else Number(UNSEEN)
            return terms.choose(Missing(column), float(MISSING), known)
        codes = np.arange(FIRST, self.codes, dtype=np.float64)
        if self.kind == "score":
            return terms.steps(score[int(self.name)], self.cuts, codes, "left")
        column = features[self.name]
        return terms.choose(Missing(column), float(MISSING), terms.steps(column, self.cuts, codes, "left"))

    def words(self, code: int, name: str, *, negated: bool = False) -> str:
        """The values with this code: ``30 < age <= 40``. A score that was `negated` is described as it came."""
        if code <= MISSING:
            return f"{name} is missing" if code == MISSING else f"{name} was never seen"
        place = code - FIRST
        if self.kind == "category":
            return f"{name} = {self.levels[place]}"
        if self.kind == "boolean" and len(self.cuts):
            return f"{name} is {'true' if place else 'false'}"
        low = None if place == 0 else float(self.cuts[place - 1])
        high = None if place == len(self.cuts) else float(self.cuts[place])
        if negated:
            low, high = (None if high is None else -high), (None if low is None else -low)
        above, below = ("<=", "<") if negated else ("<", "<=")
        text = ("" if low is None else f"{low:.6g} {above} ") + name + ("" if high is None else f" {below} {high:.6g}")
        return text if text != name else f"{name} is anything"

    def mark(self, code: int, *, negated: bool = False) -> str:
        """The values with this code in a few letters, as below an axis: a bin by its upper cut."""
        if self.kind in ("category", "boolean") or code < FIRST or not len(self.cuts):
            return self.words(code, "").removeprefix(" = ").removeprefix(" is ")
        place, (up_to, above) = code - FIRST, (">=", "<") if negated else ("<=", ">")
        cut = float(self.cuts[min(place, len(self.cuts) - 1)])
        return f"{up_to if place < len(self.cuts) else above} {-cut if negated else cut:.4g}"


def centred_scores(score: FloatArray, order: IntArray) -> FloatArray:
    """The log-odds of two classes, or centred logits of more, with the classes in this order, held within `FAR`.

    They are ordered before they are centred: the last digits of a mean depend on what is added to what first.
    """
    score = ordered(score, order)
    return np.clip(score if score.ndim == 1 else score - score.mean(axis=1, keepdims=True), -FAR, FAR)


def centred_terms(score: Terms, order: IntArray) -> Terms:
    """`centred_scores` as terms, with the classes in this order."""
    if len(score) == 1:
        return (terms.clip(score[0] if order[0] == 0 else -1.0 * score[0], -FAR, FAR),)
    mean = terms.total(score) / float(len(score))
    return tuple(terms.clip(score[place] - mean, -FAR, FAR) for place in order)


def learned(batch: Batch, score: FloatArray, bins: int, score_bins: int, coarse: Sequence[int]) -> list[list[Coding]]:
    """The codings of the scores and of all features; a number has up to so many bins.

    Each is followed by the codings of the same feature for pairs: with as many bins as `coarse` says, or with only the
    heaviest levels.
    """
    columns = np.ascontiguousarray(score.T if score.ndim > 1 else score[None])
    found = [
        _of_number(str(place), "score", values, batch.weight, (score_bins, *coarse))
        for place, values in enumerate(columns)
    ]
    return found + [_of(name, column, batch.weight, (bins, *coarse)) for name, column in batch.features.items()]


def _of(name: str, column: Column, weight: FloatArray | None, bins: Sequence[int]) -> list[Coding]:
    if column.role != "category":
        kind: Kind = "boolean" if column.role == "boolean" else "number"
        return _of_number(name, kind, column.values.astype(np.float64, copy=False), weight, bins)
    weights = level_weights(column, weight)
    levels = heaviest_levels(column, weights, least=np.nextafter(0.0, 1.0), most=len(weights))
    fine = Coding(name, "category", levels=levels)
    return [fine, *[fine if len(levels) <= MOST_PAIRED else replace(fine, levels=levels[:MOST_PAIRED])] * len(bins[1:])]


def _of_number(
    name: str, kind: Kind, values: FloatArray, weight: FloatArray | None, bins: Sequence[int]
) -> list[Coding]:
    few = slice(None, None, -(-len(values) // MOST_SORTED) or 1)
    values, weight = values[few], None if weight is None else weight[few]
    known = ~np.isnan(values) if weight is None else ~np.isnan(values) & (weight > 0)
    if not known.all():
        values, weight = values[known], None if weight is None else weight[known]
    if weight is None:
        values = np.sort(values)
        first = run_starts(values)
        mass = np.diff(first, append=len(values)).astype(np.float64)
    else:
        order = np.argsort(values, kind="stable")
        values = values[order]
        first = run_starts(values)
        mass = np.add.reduceat(weight[order], first) if len(first) else weight
    distinct = values[first]
    return [Coding(name, kind, _cuts(distinct, mass, count)) for count in bins]


def _cuts(distinct: FloatArray, mass: FloatArray, bins: int) -> FloatArray:
    """The cuts of quantile bins. A value that holds more rows than a bin is a bin of its own, and leaves the others."""
    if not len(distinct):
        return np.empty(0)
    heavy = mass > mass.sum() / bins
    low, _ = quantile_gaps(distinct[~heavy], mass[~heavy], bins)
    at = np.flatnonzero(heavy)
    below, above = at[at > 0], at[at < len(distinct) - 1]
    low = np.unique(np.concatenate([low, distinct[below - 1], distinct[above]]))
    return cuts_between(low, distinct[np.searchsorted(distinct, low, side="right")])


def codings_of(arrays: Mapping[str, NDArray[Any]]) -> list[Coding]:
    """The codings that `pack_features` packed."""
    found = []
    for name, kind, cuts, levels in unpack_features(arrays):
        if kind not in get_args(Kind):
            raise ValueError(f"{kind!r} is no kind of coding")
        found.append(Coding(name, cast(Kind, kind), cuts, levels))
    return found
