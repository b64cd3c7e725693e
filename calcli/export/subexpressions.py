"""What a formula is made of: how large it is when it is written out, and which of its parts deserve a name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

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
    columns = {(term.name, term.role) for term in _in_order(outputs) if isinstance(term, Input)}
    asked = (one for term in _in_order(outputs) if isinstance(term, Choice) for one, _ in term.cases)
    return columns | {(column.name, column.role) for condition in asked for column in _asked_columns(condition)}


def _asked_columns(condition: Condition) -> Iterator[Input]:
    match condition:
        case Missing(column) | Among(column, _):
            yield column
        case Every(conditions) | Some(conditions):
            for one in conditions:
                yield from _asked_columns(one)


def _parts(term: Term) -> Iterator[Term]:
    """The terms that a term is made of, each as often as it is written out."""
    match term:
        case Arithmetic(_, left, right):
            yield left
            yield right
        case Function(_, arguments):
            yield from arguments
        case Choice(cases, otherwise):
            for condition, then in cases:
                yield from _asked_of(condition)
                yield then
            if otherwise is not None:
                yield otherwise
        case Steps(x, cuts, values, _):
            yield from (x for _ in cuts)
            yield from values
        case Switch(x, keys, values, otherwise):
            yield from (x for _ in keys[::2])
            yield from values
            yield otherwise


def _asked_of(condition: Condition) -> Iterator[Term]:
    match condition:
        case Compared(_, left, right):
            yield left
            yield right
        case Every(conditions) | Some(conditions):
            for one in conditions:
                yield from _asked_of(one)


def _in_order(outputs: Iterable[Term]) -> list[Term]:
    """All terms once, parts before wholes."""
    found: list[Term] = []
    seen: set[int] = set()
    stack: list[tuple[Term, bool]] = [(term, False) for term in outputs]
    while stack:
        term, ready = stack.pop()
        if ready:
            found.append(term)
        elif id(term) not in seen:
            seen.add(id(term))
            stack.append((term, True))
            stack += [(part, False) for part in _parts(term) if id(part) not in seen]
    return found


def sizes(outputs: Iterable[Term]) -> dict[int, float]:
    """How many terms each is when it is written out, by its identity."""
    found: dict[int, float] = {}
    for term in _in_order(outputs):
        found[id(term)] = 1.0 + sum(found[id(part)] for part in _parts(term))
    return found


def tree_paths(outputs: Iterable[Term], longer: int) -> list[Switch]:
    """The trees of more than so many keys: a `Switch` in which all there is are numbers, and others like it."""
    keys: dict[int, float] = {}
    found: list[Switch] = []
    order = _in_order(outputs)
    for term in order:
        if isinstance(term, Number):
            keys[id(term)] = 0
        elif isinstance(term, Switch):
            below = [keys.get(id(one), math.inf) for one in (*term.values, term.otherwise)]
            keys[id(term)] = len(term.keys) + sum(below)
    inside: set[int] = set()
    for term in reversed(order):
        if isinstance(term, Switch) and id(term) not in inside and longer < keys[id(term)] < math.inf:
            found.append(term)
            inside |= {id(one) for one in _in_order([term])}
    return found


def steps(outputs: Iterable[Term], apart: Collection[Term] = ()) -> list[list[Term]]:
    """The terms that are worth a column of their own, and those `apart`, by the step in which they can be computed."""
    order = _in_order(outputs)
    single = {id(term) for term in apart}
    used = Counter(id(part) for term in order for part in _parts(term))
    level: dict[int, int] = {}
    found: list[list[Term]] = []
    for term in order:
        below = max((level[id(part)] for part in _parts(term)), default=0)
        if id(term) in single or (used[id(term)] > 1 and not isinstance(term, Number | Input)):
            if below == len(found):
                found.append([])
            found[below].append(term)
            below += 1
        level[id(term)] = below
    return found
