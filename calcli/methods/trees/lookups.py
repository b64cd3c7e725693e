"""Oblivious trees as formulas: each is a look-up of its leaf by the answers to its splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from calcli import expressions as terms
from calcli.expressions import MOST, Among, Choice, Condition, Input, Lookup, Missing, Number, Term, Terms
from calcli.learners.oblivious import Above, OneOf, Split, Tree


def sums(trees: Sequence[Tree], columns: Mapping[str, Term]) -> Terms:
    """What the trees add up to, a term for each output; `columns` are the features, of which inputs may be missing."""
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
    """The conditions of a category, of which those that follow from each other ask for the same code."""
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
    """How many splits of the chain a category does not pass."""

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
