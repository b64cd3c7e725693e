"""Terms as JSON: for a cache, a service, or a language that is not SQL.

A document names its inputs, then the steps that are used more than once, then the outputs. A term is a number, the
name of a step or an input as ``{"ref": NAME}``, or an object with one operation; `docs/formula.md` says which, and has
an interpreter of a few dozen lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from calcli.export.subexpressions import inputs, steps
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
from calcli.state import Json

Names: TypeAlias = dict[int, str]


def document(outputs: Mapping[str, Term]) -> dict[str, Json]:
    """The whole formula."""
    names: Names = {}
    written: list[Json] = []
    for level in steps(outputs.values()):
        for term in level:
            name = f"step_{len(names)}"
            written.append({"name": name, "term": _term(term, names)})
            names[id(term)] = name
    return {
        "schema": "calcli.formula/1",
        "inputs": [{"name": name, "role": role} for name, role in sorted(inputs(outputs.values()))],
        "steps": written,
        "outputs": [{"name": name, "term": _term(term, names)} for name, term in outputs.items()],
    }


def _term(term: Term, names: Names) -> Json:
    found: Json
    match term:
        case _ if id(term) in names:
            found = {"ref": names[id(term)]}
        case Number(value):
            found = value
        case Input(name, _):
            found = {"ref": name}
        case Arithmetic(operator, left, right):
            found = {"op": operator, "args": [_term(left, names), _term(right, names)]}
        case Function(name, arguments):
            found = {"op": name, "args": [_term(one, names) for one in arguments]}
        case Choice(cases, otherwise):
            cases_found: list[Json] = [
                {"if": _condition(asked, names), "then": _term(then, names)} for asked, then in cases
            ]
            found = {
                "op": "choose",
                "cases": cases_found,
                "else": None if otherwise is None else _term(otherwise, names),
            }
        case Steps(x, cuts, values, side):
            found = {
                "op": "steps",
                "x": _term(x, names),
                "cuts": [float(cut) for cut in cuts],
                "values": [_term(value, names) for value in values],
                "side": side,
            }
        case Switch(x, keys, values, otherwise):
            found = {
                "op": "switch",
                "x": _term(x, names),
                "keys": list(keys),
                "values": [_term(value, names) for value in values],
                "else": _term(otherwise, names),
            }
        case _:
            raise TypeError(f"no term: {term!r}")
    return found


def _condition(condition: Condition, names: Names) -> Json:
    found: Json
    match condition:
        case Compared(relation, left, right):
            found = {"op": relation, "args": [_term(left, names), _term(right, names)]}
        case Missing(column):
            found = {"op": "missing", "column": column.name}
        case Among(column, levels):
            found = {"op": "among", "column": column.name, "levels": list(levels)}
        case Every(conditions):
            found = {"op": "and", "args": [_condition(one, names) for one in conditions]}
        case Some(conditions):
            found = {"op": "or", "args": [_condition(one, names) for one in conditions]}
        case _:
            raise TypeError(f"no condition: {condition!r}")
    return found
