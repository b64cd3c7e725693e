"""Steps of many cuts as look-ups: a database computes a CASE of thousands of branches for few rows at a time.

A look-up it computes for all together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from calcli.export.subexpressions import bottom_up
from calcli.expressions import MOST, Compared, Condition, Number, Relation, Steps, Switch, Term, choose, total

MOST_CUTS = 64
"""Steps with more cuts are found by looking cuts up."""

_AT_ONCE = 8
"""Into so many parts the cuts are cut each time: of more, fewer steps of a query are needed, and more comparisons."""


def by_look_ups(outputs: Mapping[str, Term]) -> dict[str, Term]:
    """The same outputs, with the place among many cuts found by looking cuts up."""
    made: dict[int, Term] = {}
    for term in bottom_up(outputs.values()):
        made[id(term)] = _looked_up(_remade(term, made))
    return {name: made[id(term)] for name, term in outputs.items()}


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
