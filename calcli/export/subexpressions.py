"""Common subexpressions: the size of a formula when it is written out, and which of its terms get a name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import repeat

from calcli.expressions import (
    Among,
    Arithmetic,
    Choice,
    Compared,
    Condition,
    Every,
    Function,
    Input,
    Missing,
    Number,
    Some,
    Steps,
    Switch,
    Term,
)


def inputs(outputs: Iterable[Term]) -> set[tuple[str, str]]:
    """The columns that are read, each with its role."""
    terms = _bottom_up(outputs)
    columns = [term for term in terms if isinstance(term, Input)]
    conditions = (condition for term in terms if isinstance(term, Choice) for condition, _ in term.cases)
    columns += (column for condition in conditions for column in _tested_columns(condition))
    return {(column.name, column.role) for column in columns}


def _tested_columns(condition: Condition) -> Iterator[Input]:
    """The columns that a condition tests without reading them as numbers."""
    match condition:
        case Missing(column) | Among(column, _):
            yield column
        case Every(conditions) | Some(conditions):
            for one in conditions:
                yield from _tested_columns(one)


def _subterms(node: Term | Condition) -> Iterator[Term]:
    """The terms directly inside a term or a condition, each as often as it is written out."""
    match node:
        case Arithmetic(_, left, right) | Compared(_, left, right):
            yield left
            yield right
        case Function(_, arguments):
            yield from arguments
        case Choice(cases, otherwise):
            for condition, then in cases:
                yield from _subterms(condition)
                yield then
            if otherwise is not None:
                yield otherwise
        case Every(conditions) | Some(conditions):
            for condition in conditions:
                yield from _subterms(condition)
        case Steps(x, cuts, values, _):
            yield from repeat(x, len(cuts))
            yield from values
        case Switch(x, keys, values, otherwise):
            yield from repeat(x, len(keys[::2]))  # halving asks for x about half as often as there are keys
            yield from values
            yield otherwise


def _bottom_up(outputs: Iterable[Term]) -> list[Term]:
    """All terms once, each after the terms inside it. Without recursion: formulas may be deep."""
    ordered: list[Term] = []
    seen: set[int] = set()
    stack: list[tuple[Term, bool]] = [(term, False) for term in outputs]
    while stack:
        term, ready = stack.pop()
        if ready:
            ordered.append(term)
        elif id(term) not in seen:
            seen.add(id(term))
            stack.append((term, True))
            stack += [(part, False) for part in _subterms(term) if id(part) not in seen]
    return ordered


def sizes(outputs: Iterable[Term]) -> dict[int, float]:
    """The number of terms in each term when it is written out, by identity."""
    counts: dict[int, float] = {}
    for term in _bottom_up(outputs):
        counts[id(term)] = 1.0 + sum(counts[id(part)] for part in _subterms(term))
    return counts


def tree_paths(outputs: Iterable[Term], longer: int) -> list[Switch]:
    """The outermost trees of more than `longer` keys; a tree is a `Switch` of numbers and of trees."""
    keys: dict[int, float] = {}
    trees: list[Switch] = []
    order = _bottom_up(outputs)
    for term in order:
        if isinstance(term, Number):
            keys[id(term)] = 0
        elif isinstance(term, Switch):
            below = [keys.get(id(one), math.inf) for one in (*term.values, term.otherwise)]
            keys[id(term)] = len(term.keys) + sum(below)
    inside: set[int] = set()
    for term in reversed(order):
        if isinstance(term, Switch) and id(term) not in inside and longer < keys[id(term)] < math.inf:
            trees.append(term)
            inside |= {id(one) for one in _bottom_up([term])}
    return trees


def steps(outputs: Iterable[Term], apart: Collection[Term] = ()) -> list[list[Term]]:
    """The terms used more than once, and those `apart`, by the step in which they can be computed."""
    order = _bottom_up(outputs)
    single = {id(term) for term in apart}
    used = Counter(id(part) for term in order for part in _subterms(term))
    level: dict[int, int] = {}
    levels: list[list[Term]] = []
    for term in order:
        below = max((level[id(part)] for part in _subterms(term)), default=0)
        if id(term) in single or (used[id(term)] > 1 and not isinstance(term, Number | Input)):
            if below == len(levels):
                levels.append([])
            levels[below].append(term)
            below += 1
        level[id(term)] = below
    return levels
