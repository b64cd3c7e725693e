"""Fitted trees: unpacked once for all chunks of rows, listed as rules, written as terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.expressions import MOST, Among, Choice, Condition, Input, Lookup, Missing, Number, Term, Terms
from calcli.learners.oblivious import Above, OneOf, Split, Tree
from calcli.methods.base import Section
from calcli.state import Json, State

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


def leaf_section(
    title: str, rows: Sequence[tuple[Json, ...]], corrections: Sequence[str], note: str, *, with_rates: bool = True
) -> Section:
    """A table of leaves: tree, condition, rows, perhaps `rates`, and the columns that say what the leaf does."""
    columns = ("tree", "if", "rows", *(("label rate", "pud") if with_rates else ()), *corrections)
    return Section(title, columns, tuple(rows), note)


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
