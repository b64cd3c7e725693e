"""Features as small integers, on which the trees of mbct and heterogeneous split.

A category is coded by its level, a number or a boolean by the bin that it falls into.
Fitted trees are unpacked once for all chunks of rows, listed as rules, and written as terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import FloatArray, IntArray
from calcli.expressions import MOST, Among, Choice, Condition, Input, Lookup, Missing, Number, Term, Terms
from calcli.learners.oblivious import Above, OneOf, Split, Tree
from calcli.methods.base import Section
from calcli.numeric.links import sigmoid
from calcli.state import State, pack_texts, unpack_texts

Kind = Literal["category", "number", "boolean", "score"]

_LOWEST = float(np.finfo(np.float64).min)


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

    def __post_init__(self) -> None:
        cuts = np.maximum(self.cuts, _LOWEST)  # older artifacts have cuts above values of minus infinity
        if not np.isfinite(cuts).all() or (cuts[1:] <= cuts[:-1]).any():
            raise ValueError(f"the cuts of {self.name!r} do not rise")
        object.__setattr__(self, "cuts", cuts)

    @property
    def codes(self) -> int:
        """The number of codes, 0 among them."""
        values = len(self.levels) + self.unseen_last if self.kind == "category" else len(self.cuts) + 1
        return 1 + self.missing + values

    def level_codes(self, levels: Sequence[str]) -> IntArray:
        """The code of each of a column's `levels`, and of a missing value at the end."""
        unseen = self.codes - 1 if self.unseen_last else 0
        code_of = {level: code for code, level in enumerate(self.levels, 1 + self.missing)}
        return np.array([*(code_of.get(level, unseen) for level in levels), int(self.missing)], dtype=np.int64)

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


class _Coded(Protocol):
    """A feature with what its codes follow from, as `CodedFeature` has it."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def cuts(self) -> FloatArray: ...
    @property
    def levels(self) -> tuple[str, ...]: ...


def pack_features(features: Sequence[_Coded]) -> dict[str, NDArray[Any]]:
    """The names, kinds, levels and cuts of features as arrays of a state."""
    arrays: dict[str, NDArray[Any]] = pack_texts([feature.name for feature in features], "name")
    arrays |= pack_texts([feature.kind for feature in features], "kind")
    arrays |= pack_texts([level for feature in features for level in feature.levels], "level")
    arrays["levels"] = np.array([len(feature.levels) for feature in features], dtype=np.int64)
    arrays["cuts"] = np.array([len(feature.cuts) for feature in features], dtype=np.int64)
    arrays["cut"] = np.concatenate([np.empty(0), *(feature.cuts for feature in features)])
    return arrays


def unpack_features(arrays: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, str, FloatArray, tuple[str, ...]]]:
    """The name, kind, cuts and levels of each feature that `pack_features` packed."""
    names, kinds, levels = (unpack_texts(arrays, name) for name in ("name", "kind", "level"))
    cuts = np.asarray(arrays["cut"], dtype=np.float64)
    if cuts.ndim != 1:
        raise ValueError("the cuts of its features are not in a row")
    level_ends, cut_ends = np.cumsum(arrays["levels"]), np.cumsum(arrays["cuts"])
    for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        own_cuts = cuts[cut_ends[place] - arrays["cuts"][place] : cut_ends[place]]
        yield name, kind, own_cuts, levels[level_ends[place] - arrays["levels"][place] : level_ends[place]]


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
    """The number with the fewest digits in each gap: low <= cut < high; it is finite."""
    low = np.maximum(low, _LOWEST)
    return np.array([_shortest(below, above) for below, above in zip(low.tolist(), high.tolist(), strict=True)])


def _shortest(low: float, high: float) -> float:
    middle = low + (high - low) / 2.0
    for digits in range(1, 17):
        cut = float(f"{middle:.{digits}g}")
        if low <= cut < high:
            return cut
    return middle if middle < high else low


Model = TypeVar("Model")


@dataclass(frozen=True, slots=True, eq=False)
class _Key:
    """A state, equal to another that holds the very same array, and arrays of the same names."""

    state: State
    array: NDArray[np.generic]

    def __hash__(self) -> int:
        return id(self.array)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Key):
            return False
        return self.array is other.array and self.state.arrays.keys() == other.state.arrays.keys()


def unpacked_once(array: str) -> Callable[[Callable[[State], Model]], Callable[[State], Model]]:
    """Keep what a function returns for the last states; two states that share this array and the names are one."""

    def decorated(unpack: Callable[[State], Model]) -> Callable[[State], Model]:
        kept = lru_cache(maxsize=16)(lambda key: unpack(key.state))
        return lambda state: kept(_Key(state, state.arrays[array]))

    return decorated


def rates(weight: float, positive: float, predicted: float) -> tuple[float | None, float | None]:
    """The label rate and the PUD of a leaf, from sums of weight, weight times label and weight times probability."""
    return (positive / weight if weight > 0 else None, predicted / positive if positive > 0 else None)


def leaf_columns(*corrections: str, with_rates: bool = True) -> tuple[str, ...]:
    """The columns of a table of leaves: tree, condition, rows, perhaps `rates`, and what the leaf does."""
    return ("tree", "if", "rows", *(("label rate", "pud") if with_rates else ()), *corrections)


def importance_section(names: Sequence[str], depth: IntArray, gain: FloatArray, what: str) -> Section:
    """A table of the features that trees split by, from the name, the depth and the gain of each split.

    The importance of a feature is the share of `what` that its splits gain, in all and at each level, in percent.
    """
    found, place = np.unique(np.array(names, dtype=np.str_), return_inverse=True)
    levels = int(depth.max(initial=-1)) + 1
    share = np.zeros((len(found), levels))
    np.add.at(share, (place, depth), np.maximum(np.nan_to_num(gain), 0.0))
    share *= 100.0 / (share.sum() or 1.0)
    order = np.argsort(-share.sum(axis=1), kind="stable")
    counts = np.bincount(place, minlength=len(found))
    rows = tuple((str(found[at]), int(counts[at]), float(share[at].sum()), *share[at].tolist()) for at in order)
    columns = ("feature", "splits", "importance", *(f"level {level}" for level in range(1, levels + 1)))
    note = f"Importance: the share of {what}, in percent, in all and by level of the tree."
    return Section("features", columns, rows, note)


def sums(trees: Sequence[Tree], columns: Mapping[str, Term]) -> Terms:
    """The sum of oblivious trees as a term for each output.

    A tree is a look-up of its leaf by the answers to its splits. `columns` are the features; an input may be missing.
    """
    conditions: dict[Split, Condition] = {}
    of_categories = {split for tree in trees for split in tree.splits if isinstance(split, OneOf)}
    for name in sorted({split.feature for split in of_categories}):
        column = columns[name]
        assert isinstance(column, Input)
        conditions |= _of_category(column, [split for split in of_categories if split.feature == name])
    reader = _Reader(columns, conditions)
    each = [reader.lookups(tree) for tree in trees]
    return tuple(terms.total(of_output) for of_output in zip(*each, strict=True))


def _of_category(column: Input, splits: Sequence[OneOf]) -> dict[Split, Condition]:
    """The conditions of a category; where one follows from the other, both ask for the same code."""
    levels = sorted({level for split in splits for level in split.different})
    values: list[str | bool] = [*levels, True, False]
    passing = {split: frozenset(value for value in values if split.passes(value)) for split in splits}
    chains: list[list[OneOf]] = []  # whoever passes a split passes those after it
    for split in sorted(splits, key=lambda one: (len(passing[one]), sorted(map(str, passing[one])))):
        for chain in chains:
            if passing[chain[-1]] <= passing[split]:
                chain.append(split)
                break
        else:
            chains.append([split])
    conditions: dict[Split, Condition] = {}
    for chain in chains:
        code = _code(column, levels, chain)
        conditions |= {split: code < place + 0.5 for place, split in enumerate(chain)}
    return conditions


def _code(column: Input, levels: Sequence[str], chain: Sequence[OneOf]) -> Term:
    """The number of splits of the chain that a category does not pass."""

    def failed(value: str | bool) -> float:
        return float(sum(not split.passes(value) for split in chain))

    alike: dict[float, list[str]] = {}
    for level in levels:
        alike.setdefault(failed(level), []).append(level)
    cases: list[tuple[Condition, Term]] = [(Missing(column), Number(failed(False)))]
    cases += [
        (Among(column, tuple(of_code)), Number(code)) for code, of_code in sorted(alike.items()) if code != failed(True)
    ]
    return Choice(tuple(cases), Number(failed(True)))


@dataclass(slots=True)
class _Reader:
    """The conditions of splits, each made once."""

    columns: Mapping[str, Term]
    conditions: dict[Split, Condition]
    numbers: dict[tuple[str, bool], Term] = field(default_factory=dict)

    def lookups(self, tree: Tree) -> Terms:
        splits, values = tree.splits, tree.values
        for place in reversed(range(len(splits))):
            answer = splits[place]
            if isinstance(answer, bool):  # all rows take the same side
                values = values.reshape(-1, 2, 1 << place, values.shape[-1])[:, int(answer)]
                values = values.reshape(-1, values.shape[-1])
                splits = splits[:place] + splits[place + 1 :]
        if not splits:
            return tuple(Number(float(value)) for value in values[0])
        conditions = tuple(map(self._condition, splits))
        return tuple(Lookup(conditions, column) for column in np.ascontiguousarray(values.T))

    def _condition(self, split: Split) -> Condition:
        if split not in self.conditions:
            assert isinstance(split, Above)  # those of categories are there from the start
            self.conditions[split] = self._number(split.feature, missing=split.missing) > split.cut
        return self.conditions[split]

    def _number(self, name: str, *, missing: bool) -> Term:
        """A column whose missing values are above all cuts, or below."""
        column = self.columns[name]
        if not isinstance(column, Input):
            return column
        if (name, missing) not in self.numbers:
            self.numbers[name, missing] = terms.choose(Missing(column), MOST if missing else -MOST, column)
        return self.numbers[name, missing]
