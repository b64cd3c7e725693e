"""The parts of a formula: what it reads, how large and deep it is when written out, which of its terms get a name.

`Codes` and `Entry` are terms that only databases with lists know.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms

FEW = 4
"""Up to so many cases are tested one after the other."""

Numbers: TypeAlias = NDArray[np.floating[Any] | np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Codes(terms.Term):
    """Whole numbers of a row as a list: a column of a step, in which `Entry` finds a number."""

    parts: terms.Terms


@dataclass(frozen=True, slots=True, eq=False)
class Entry(terms.Term):
    """The number at a place of a list, counted from 1; the place is always within the list."""

    place: terms.Term
    numbers: Numbers | Codes


def inputs(outputs: Iterable[terms.Term]) -> set[tuple[str, str]]:
    """The columns that are read, each with its role, which is ``whole`` for categories of whole numbers."""
    below = bottom_up(outputs)
    columns = [term for term in below if isinstance(term, terms.Input)]
    columns += (
        one.column for term in below for one in _conditions(term) if isinstance(one, terms.Missing | terms.Among)
    )
    return {(column.name, "whole" if column.whole else column.role) for column in columns}


def tested_values(outputs: Iterable[terms.Term]) -> dict[str, set[float | str]]:
    """The numbers or texts that each column is compared with."""
    found: dict[str, set[float | str]] = {}

    def seen(column: terms.Term, values: Iterable[float | str]) -> None:
        if isinstance(column, terms.Choice) and column.otherwise is not None:  # missing values are some number
            column = column.otherwise
        if isinstance(column, terms.Input):
            found.setdefault(column.name, set()).update(values)

    for term in bottom_up(outputs):
        match term:
            case terms.Steps(x, cuts, _, _):
                seen(x, cuts.tolist())
            case terms.Switch(x, keys, _, _):
                seen(x, keys)
        for condition in _conditions(term):
            match condition:
                case terms.Compared(_, left, terms.Number(value)):
                    seen(left, [value])
                case terms.Among(column, levels):
                    seen(column, levels)
    return found


def _conditions(node: terms.Term | terms.Condition) -> Iterator[terms.Condition]:
    """The conditions of a term; a condition of several parts gives its parts."""
    match node:
        case terms.Choice(cases, _):
            yield from chain.from_iterable(_conditions(condition) for condition, _ in cases)
        case terms.Lookup(conditions, _) | terms.Every(conditions) | terms.Some(conditions):
            yield from chain.from_iterable(map(_conditions, conditions))
        case terms.Condition():
            yield node


def _subterms(node: terms.Term | terms.Condition) -> Iterator[terms.Term]:
    """The terms directly inside a term or a condition, each as often as it is written out."""
    match node:
        case terms.Arithmetic(_, left, right) | terms.Compared(_, left, right):
            yield left
            yield right
        case terms.Function(_, arguments) | Codes(arguments) | terms.Trees(arguments):
            yield from arguments
        case terms.Choice(cases, otherwise):
            for condition, then in cases:
                yield from _subterms(condition)
                yield then
            if otherwise is not None:
                yield otherwise
        case terms.Every(conditions) | terms.Some(conditions):
            yield from chain.from_iterable(map(_subterms, conditions))
        case terms.Steps(x, cuts, values, _):
            yield from repeat(x, len(cuts))
            yield from values
        case terms.Switch(x, keys, values, otherwise):
            # halving asks for x about half as often as there are keys
            yield from repeat(x, 1 if is_choice_of_places(node) else len(keys[::2]))
            yield from values
            yield otherwise
        case terms.Lookup(conditions, _):
            for place, condition in enumerate(conditions):
                yield from list(_subterms(condition)) * (1 << place)
        case Entry(place, numbers):
            yield from (place, numbers) if isinstance(numbers, Codes) else (place,)


def bottom_up(outputs: Iterable[terms.Term]) -> list[terms.Term]:
    """All terms once, each after the terms inside it. Without recursion: formulas may be deep."""
    ordered: list[terms.Term] = []
    seen: set[int] = set()
    stack: list[tuple[terms.Term, bool]] = [(term, False) for term in outputs]
    while stack:
        term, ready = stack.pop()
        if ready:
            ordered.append(term)
        elif id(term) not in seen:
            seen.add(id(term))
            stack.append((term, True))
            stack += [(part, False) for part in _subterms(term) if id(part) not in seen]
    return ordered


def sizes(outputs: Iterable[terms.Term]) -> dict[int, float]:
    """The number of terms in each term when it is written out, by identity."""
    counts: dict[int, float] = {}
    for term in bottom_up(outputs):
        counts[id(term)] = 1.0 + sum(counts[id(part)] for part in _subterms(term))
    return counts


def depths(outputs: Iterable[terms.Term]) -> dict[int, int]:
    """The depth of each term when it is written out, by identity, in symbols that a parser keeps meanwhile."""
    deep: dict[int, int] = {}
    for term in bottom_up(outputs):
        deep[id(term)] = _own_depth(term) + max((deep[id(part)] for part in _subterms(term)), default=0)
    return deep


def _own_depth(term: terms.Term) -> int:
    match term:
        case terms.Arithmetic() | terms.Function() | terms.Input() | Entry():
            return 3
        case terms.Choice():
            return 6
        case terms.Steps(_, cuts, _, _):
            return 4 * len(cuts).bit_length()
        case terms.Switch(_, keys, _, _):
            return 4 * len(keys).bit_length()
        case terms.Lookup(conditions, _):
            return 4 * len(conditions)
        case _:
            return 1


def too_deep(outputs: Iterable[terms.Term], most: int, trees: Iterable[terms.Term] = ()) -> list[terms.Term]:
    """The terms that need a name so that nothing is nested deeper than `most`; `trees` are joined as tables."""
    deep: dict[int, int] = {}
    named: list[terms.Term] = []
    joined = {id(one) for tree in trees for one in (tree, *switches(tree))}
    for term in bottom_up(outputs):
        parts = [part for part in _subterms(term) if not isinstance(part, terms.Number | terms.Input)]
        depth = _own_depth(term) + max((deep[id(part)] for part in parts), default=3)
        if depth > most and id(term) not in joined:
            for part in parts:
                if deep[id(part)] > most // 4:
                    deep[id(part)] = 1
                    named.append(part)
            depth = _own_depth(term) + most // 4
        deep[id(term)] = 1 if id(term) in joined else depth
    return named


def switches(tree: terms.Term) -> Iterator[terms.Switch]:
    """The switches of a tree, each as often as the tree has it."""
    if isinstance(tree, terms.Switch):
        yield tree
        for one in (*tree.values, tree.otherwise):
            yield from switches(one)


def numbers_of(some: Sequence[terms.Term]) -> list[float] | None:
    """The numbers that the terms are; None where one is another term."""
    numbers = [one.value for one in some if isinstance(one, terms.Number)]
    return numbers if len(numbers) == len(some) else None


def listed(switch: terms.Switch) -> list[float] | None:
    """The numbers that a switch gives for the keys 0, 1, 2 and so on; None where it gives others, or for others."""
    return numbers_of((*switch.values, switch.otherwise)) if switch.keys == tuple(range(len(switch.keys))) else None


def is_list(switch: terms.Switch) -> bool:
    """Whether the switch is a list of more than `FEW` numbers."""
    return len(switch.keys) >= FEW and listed(switch) is not None


def is_choice_of_places(switch: terms.Switch) -> bool:
    """Whether conditions choose the place of the number: they can choose the number itself."""
    return isinstance(switch.x, terms.Choice) and _chooses(switch.x) and listed(switch) is not None


def _chooses(term: terms.Term | None) -> bool:
    if isinstance(term, terms.Choice):
        return _chooses(term.otherwise) and all(_chooses(then) for _, then in term.cases)
    return isinstance(term, terms.Number)


def chosen(switch: terms.Switch) -> terms.Term:
    """A number at a chosen place as a choice of numbers."""
    numbers = dict[float, terms.Term](enumerate(switch.values))

    def below(place: terms.Term | None) -> terms.Term:
        if isinstance(place, terms.Choice):
            cases = [(condition, below(then)) for condition, then in place.cases]
            return terms.Choice(tuple(cases), below(place.otherwise))
        return numbers.get(place.value, switch.otherwise) if isinstance(place, terms.Number) else switch.otherwise

    return below(switch.x)


def has_texts(tree: terms.Term) -> bool:
    """Whether a tree has keys that are texts."""
    return any(isinstance(key, str) for one in switches(tree) for key in one.keys[:1])


def tree_depth(tree: terms.Term) -> int:
    """The greatest number of switches that a row passes."""
    return 1 + max(map(tree_depth, (*tree.values, tree.otherwise))) if isinstance(tree, terms.Switch) else 0


def tree_paths(outputs: Iterable[terms.Term], longer: int) -> list[terms.Switch]:
    """The outermost trees of more than `longer` keys; a tree is a `Switch` of numbers and of trees."""
    keys: dict[int, float] = {}
    trees: list[terms.Switch] = []
    order = bottom_up(outputs)
    for term in order:
        if isinstance(term, terms.Number):
            keys[id(term)] = 0
        elif isinstance(term, terms.Switch):
            below = [keys.get(id(one), math.inf) for one in (*term.values, term.otherwise)]
            keys[id(term)] = len(term.keys) + sum(below)
    inside: set[int] = set()
    for term in reversed(order):
        if isinstance(term, terms.Switch) and id(term) not in inside and longer < keys[id(term)] < math.inf:
            trees.append(term)
            inside |= {id(one) for one in bottom_up([term])}
    return trees


def sums_of_lookups(outputs: Iterable[terms.Term], most: int) -> dict[int, list[terms.Lookup]]:
    """The largest sums of at most so many look-ups, or single ones, by identity, each with its look-ups."""
    inside: dict[int, list[terms.Lookup]] = {}
    largest: dict[int, list[terms.Lookup]] = {}
    for term in bottom_up(outputs):
        parts = list(_subterms(term)) if isinstance(term, terms.Arithmetic) and term.operator == "+" else []
        if isinstance(term, terms.Lookup):
            inside[id(term)] = [term]
        elif parts and all(id(part) in inside for part in parts):
            found = [one for part in parts for one in inside[id(part)]]
            if len(found) <= most:
                inside[id(term)] = found
                for part in parts:
                    largest.pop(id(part), None)
        if id(term) in inside:
            largest[id(term)] = inside[id(term)]
    return largest


def read_by(outputs: Iterable[terms.Term], named: Collection[int]) -> set[int]:
    """The terms, among those with these identities, that are written as a name inside the outputs."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = [part for term in outputs for part in _subterms(term)]
    while stack:
        term = stack.pop()
        if id(term) in named:
            found.add(id(term))
        elif id(term) not in seen:
            seen.add(id(term))
            stack += _subterms(term)
    return found


def steps(outputs: Iterable[terms.Term], apart: Collection[terms.Term] = ()) -> list[list[terms.Term]]:
    """The terms used more than once, and those `apart`, by the step in which they can be computed."""
    order = bottom_up(outputs)
    single = {id(term) for term in apart}
    used = Counter(id(part) for term in order for part in _subterms(term))
    level: dict[int, int] = {}
    levels: list[list[terms.Term]] = []
    for term in order:
        below = max((level[id(part)] for part in _subterms(term)), default=0)
        if id(term) in single or (used[id(term)] > 1 and not isinstance(term, terms.Number | terms.Input)):
            if below == len(levels):
                levels.append([])
            levels[below].append(term)
            below += 1
        level[id(term)] = below
    return levels
