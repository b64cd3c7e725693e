"""Terms as JSON: for a cache, a service, or a language that is not SQL.

A document names its inputs, then the steps that are used more than once, then the outputs. A term is a number, the
name of a step or an input as ``{"ref": NAME}``, or an object with one operation; `docs/formula.md` says which, and has
an interpreter of a few dozen lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    Lookup,
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
    names: Names = {}
    written: list[Json] = []
    for level in steps(outputs.values()):
        for term in level:
            name = f"step_{len(names)}"
            written.append({"name": name, "term": _json(term, names)})
            names[id(term)] = name
    return {
        "schema": "calcli.formula/1",
        "inputs": [{"name": name, "role": role} for name, role in sorted(inputs(outputs.values()))],
        "steps": written,
        "outputs": [{"name": name, "term": _json(term, names)} for name, term in outputs.items()],
    }


def _json(node: Term, names: Names) -> Json:
    def every(nodes: Iterable[Term]) -> Json:
        return [_json(one, names) for one in nodes]

    entry: Json
    match node:
        # what has a name already, as subexpressions that occur more than once
        case _ if id(node) in names:
            entry = {"ref": names[id(node)]}
        case Number(value):
            entry = value
        case Input(name, _):
            entry = {"ref": name}
        case Arithmetic(operator, left, right):
            entry = {"op": operator, "args": every((left, right))}
        case Function(name, arguments):
            entry = {"op": name, "args": every(arguments)}
        case Choice(cases, otherwise):
            branches: list[Json] = [
                {"if": _condition(condition, names), "then": _json(then, names)} for condition, then in cases
            ]
            rest = None if otherwise is None else _json(otherwise, names)
            entry = {"op": "choose", "cases": branches, "else": rest}
        case Steps(x, cuts, values, side):
            entry = {
                "op": "steps",
                "x": _json(x, names),
                "cuts": cuts.tolist(),
                "values": every(values),
                "side": side,
            }
        case Switch(x, keys, values, otherwise):
            entry = {"op": "switch", "x": _json(x, names), "keys": list(keys), "values": every(values)}
            entry["else"] = _json(otherwise, names)
        case Lookup(conditions, values):
            entry = {"op": "lookup", "if": [_condition(one, names) for one in conditions], "values": values.tolist()}
        case _:
            raise TypeError(f"no term: {node!r}")
    return entry


def _condition(node: Condition, names: Names) -> Json:
    match node:
        case Compared(relation, left, right):
            return {"op": relation, "args": [_json(left, names), _json(right, names)]}
        case Missing(column):
            return {"op": "missing", "column": column.name}
        case Among(column, levels):
            return {"op": "among", "column": column.name, "levels": list(levels)}
        case Every(conditions) | Some(conditions):
            parts: Json = [_condition(one, names) for one in conditions]
            return {"op": "and" if isinstance(node, Every) else "or", "args": parts}
        case _:
            raise TypeError(f"no condition: {node!r}")
