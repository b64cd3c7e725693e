"""Steps of many cuts and trees of many branches as look-ups in lists.

A CASE of thousands of branches a database computes for few rows at a time, a look-up for all together. A tree is walked
in as many look-ups as it is deep: at each depth a node has an entry for each code of the column that it asks for, and
the entry is the place of its child.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from calcli.export.lists import Codes, Entry
from calcli.export.subexpressions import bottom_up, has_texts, is_list, switches, tree_depth, tree_paths
from calcli.expressions import MOST, Compared, Condition, Number, Relation, Steps, Switch, Term, choose, least, total

MOST_CUTS = 64
"""Steps with more cuts are found by looking cuts up."""

_AT_ONCE = 8
"""Into so many parts the cuts are cut each time: of more, fewer steps of a query are needed, and more comparisons."""

SPARSEST = 16
"""A tree whose lists would have more entries than so many times its branches stays a tree."""


def by_look_ups(outputs: Mapping[str, Term]) -> dict[str, Term]:
    """The same outputs, with the place among many cuts found by looking cuts up."""
    made: dict[int, Term] = {}
    for term in bottom_up(outputs.values()):
        made[id(term)] = _looked_up(_remade(term, made))
    return {name: made[id(term)] for name, term in outputs.items()}


def by_lists(outputs: Mapping[str, Term], longer: int) -> dict[str, Term]:
    """The same outputs, with the leaves of trees of more than `longer` branches found in lists.

    Outer trees come first; those inside what they ask for then are the outer ones.
    """
    found = dict(outputs)
    while walked := _walked(tree_paths(found.values(), longer)):
        made = dict(walked)
        for term in bottom_up(found.values()):
            made.setdefault(id(term), _remade(term, made))
        found = {name: made[id(term)] for name, term in found.items()}
    return found


def _walked(trees: Iterable[Switch]) -> dict[int, Term]:
    """The walks of trees, by identity, but of those that are a list as they are, or ask for one text alone."""
    trees = [tree for tree in trees if not is_list(tree) and not (has_texts(tree) and tree_depth(tree) == 1)]
    walker = _Walker.of(trees)
    walks = {id(tree): walker.walk(tree) for tree in trees}
    return {of: walk for of, walk in walks.items() if walk is not None}


@dataclass(frozen=True, slots=True)
class _Walker:
    """What trees ask for, each as a code from 1 on, which is that of its last key + 1 for all other keys.

    Attributes
    ----------
    codes
        Of a row; the first is always 1, and what leaves ask for.
    place
        Of a term in them, by identity, from 1 on.
    keys
        Of a term, by identity, in the order of their codes.
    roots
        The codes at the places that are the root's, which trees have in common.
    """

    codes: Codes
    place: Mapping[int, int]
    keys: Mapping[int, list[str | int]]
    roots: dict[int, Term] = field(default_factory=dict)

    @classmethod
    def of(cls, trees: Iterable[Switch]) -> _Walker:
        asked: dict[int, Term] = {}
        known: dict[int, set[str | int]] = {}
        for one in {id(one): one for tree in trees for one in switches(tree)}.values():
            asked[id(one.x)] = one.x
            known.setdefault(id(one.x), set()).update(one.keys)
        keys = {of: _in_order(some) for of, some in known.items()}
        codes = (_code(term, keys[of]) for of, term in asked.items())
        return cls(Codes((Number(1.0), *codes)), {of: place for place, of in enumerate(asked, start=2)}, keys)

    def walk(self, tree: Switch) -> Term | None:
        """The number of its leaf; None if the lists would be long for the branches that it has."""
        most = SPARSEST * sum(len(one.keys) + 1 for one in switches(tree))
        place = self.roots.setdefault(self.place[id(tree.x)], Entry(Number(float(self.place[id(tree.x)])), self.codes))
        here = self._entries(tree)
        while any(isinstance(one, Switch) for one in here):
            first: dict[int, int] = {}  # the entries before those of a node
            below: list[Term] = []
            for one in here:
                if id(one) not in first:
                    first[id(one)] = len(below)
                    below += self._entries(one)
            if len(below) > most:
                return None
            before = Entry(place, np.array([first[id(one)] for one in here]))
            asked = [self.place[id(one.x)] if isinstance(one, Switch) else 1 for one in here]
            place = before + Entry(Entry(place, np.array(asked)), self.codes)
            here = below
        return Entry(place, np.array([one.value for one in here if isinstance(one, Number)]))

    def _entries(self, node: Term) -> list[Term]:
        """The child for each code; a leaf is its own."""
        if not isinstance(node, Switch):
            return [node]
        children = dict[str | int, Term](zip(node.keys, node.values, strict=True))
        return [*(children.get(key, node.otherwise) for key in self.keys[id(node.x)]), node.otherwise]


def _in_order(keys: set[str | int]) -> list[str | int]:
    """Texts, or all whole numbers from 0 on."""
    numbers = [key for key in keys if isinstance(key, int)]
    return [*range(max(numbers) + 1)] if numbers else sorted(keys, key=str)


def _code(term: Term, keys: list[str | int]) -> Term:
    texts = tuple(key for key in keys if isinstance(key, str))
    if not texts:
        return least(term, Number(float(len(keys)))) + 1.0
    return Switch(term, texts, tuple(Number(code) for code in range(1, len(texts) + 1)), Number(len(texts) + 1.0))


def _remade(part: Any, made: Mapping[int, Term]) -> Any:
    """A term or a condition with the terms inside it as made; itself where none has changed."""
    inside = {field.name: getattr(part, field.name) for field in fields(part)}
    remade = {name: _inside(one, made) for name, one in inside.items()}
    return part if all(remade[name] is one for name, one in inside.items()) else replace(part, **remade)


def _inside(part: Any, made: Mapping[int, Term]) -> Any:
    if isinstance(part, Term):
        return made.get(id(part), part)
    if isinstance(part, Condition):
        return _remade(part, made)
    if isinstance(part, tuple):
        several = tuple(_inside(one, made) for one in part)
        return part if all(new is old for new, old in zip(several, part, strict=True)) else several
    return part


def _looked_up(term: Term) -> Term:
    """The value at the place of x among many cuts, digit by digit from the first, to the base `_AT_ONCE`."""
    if not isinstance(term, Steps) or len(term.cuts) <= MOST_CUTS:
        return term
    values = [one.value for one in term.values if isinstance(one, Number)]
    if len(values) < len(term.values):
        return term
    digits = math.ceil(math.log(len(values), _AT_ONCE))
    cuts = np.pad(term.cuts, (0, _AT_ONCE**digits - 1 - len(term.cuts)), constant_values=MOST)
    relation: Relation = ">" if term.side == "left" else ">="
    place: Term = Number(0.0)
    for digit in range(digits):
        first, width = np.arange(_AT_ONCE**digit) * _AT_ONCE, _AT_ONCE ** (digits - digit - 1)
        least = [_listed(place, cuts[(first + part) * width - 1].tolist()) for part in range(1, _AT_ONCE)]
        beyond = [choose(Compared(relation, term.x, one), 1.0, 0.0) for one in least]
        place = total([float(_AT_ONCE) * place, *beyond]) if digit else total(beyond)
    return _listed(place, values)


def _listed(place: Term, numbers: list[float]) -> Term:
    """The number at a place; beyond the last that differs from the one before it, that one."""
    *first, last = numbers
    while first and first[-1] == last:
        first.pop()
    return Switch(place, tuple(range(len(first))), tuple(map(Number, first)), Number(last)) if first else Number(last)
