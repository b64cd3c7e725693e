"""Terms as JSON, for a cache, a service, or a language that is not SQL; the columns of a table as inputs of a formula.

A document names its inputs, then the steps that are used more than once, then the outputs. A term is a number, the
name of a step or an input as ``{"ref": NAME}``, or an object with one operation; `docs/formula.md` says which, and has
an interpreter of a few dozen lines.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from calcli import expressions as terms
from calcli.batch import FloatArray
from calcli.export.subexpressions import inputs, steps, tested_values
from calcli.numeric.links import LEAST, sigmoid, softmax
from calcli.numeric.seeded import stream
from calcli.state import Json
from calcli.tables.arrays import index_order
from calcli.tables.binding_types import Binding
from calcli.tables.scales import SLACK, SUM_SLACK
from calcli.tables.source import call_in

_MOST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class TableInputs:
    """The terms in which a calibrator reads a table."""

    score: terms.Terms
    """The log-odds, or a logit for each class; null where the row is bad."""

    features: terms.Inputs
    """By name."""

    valid: terms.Condition
    """Whether a row can be calibrated."""


def table_inputs(binding: Binding) -> TableInputs:
    """The columns of a binding, checked as `apply` checks them."""
    values = tuple(map(_column, binding.score.columns))
    valid = _validity(values, binding)
    score = tuple(terms.choose(valid, one, None) for one in _score(values, binding))
    # Unsigned integers may be too large for the type that whole numbers have in databases.
    whole = {one.name for one in binding.features if one.whole and one.dtype != "UInt64"}
    features = {one.name: terms.Input(one.name, one.role, one.name in whole) for one in binding.features}
    return TableInputs(score, features, valid)


def _column(name: str) -> terms.Term:
    """The number in a column; of a call, such as ``percent(COLUMN)``, what it makes of the number in its column."""
    match call_in(name):
        case ("minus", inner):
            return -1.0 * terms.Input(inner)
        case ("percent", inner):
            return terms.Input(inner) / 100.0
        case ("exp", inner):
            log = terms.Input(inner)
            # In halves where the exponential is so small that some databases take it for an error.
            half = terms.exp(terms.greatest(0.5 * log, terms.term(math.log(LEAST) / 2.0)))
            small = log < -terms.FAR
            # A probability is no larger than 1: beyond, the row is bad, as it is where there is no number.
            return terms.Choice(((small, half * half), (log <= 1.0, terms.exp(log))), None)
        case _:
            return terms.Input(name)


def _validity(values: terms.Terms, binding: Binding) -> terms.Condition:
    """The condition that no value is null, NaN or infinite, and that probabilities lie in [0, 1] and add up to 1."""
    probabilities = binding.score.kind == "prob"
    low, high = (-SLACK, 1.0 + SLACK) if probabilities else (-_MOST, _MOST)
    conditions: list[terms.Condition] = [each for value in values for each in (value >= low, value <= high)]
    if probabilities and len(values) > 1:
        whole = terms.total(values)
        within = [whole >= 1.0 - SUM_SLACK, whole <= 1.0 + SUM_SLACK]
        conditions += [whole > 0.0] if binding.normalise else within
    return terms.Every(tuple(conditions))


def _score(values: terms.Terms, binding: Binding) -> terms.Terms:
    probabilities = binding.score.kind == "prob"
    if len(values) == 1 or not binding.binary:
        return terms.scores(_normalised(values)) if probabilities else values
    positive = binding.classes.index(index_order(binding)[1])
    pair = (values[positive], values[1 - positive])
    if not probabilities:
        return (pair[0] - pair[1],)
    logs = terms.logits(pair)
    return (terms.drawn_in(logs[0] - logs[1]),)


def _normalised(values: terms.Terms) -> terms.Terms:
    """The probabilities of classes as `apply` normalises them."""
    if len(values) == 1:
        return values
    whole = terms.total(values)
    rough = terms.Some((whole > 1.0 + SLACK, whole < 1.0 - SLACK))
    return tuple(one / terms.choose(rough, whole, 1.0) for one in values)


WHOLE = re.compile(r"-?\d{1,18}")
"""A whole number that every database can keep."""

Values: TypeAlias = "list[float | str | bool | None]"


def sample_rows(binding: Binding, outputs: Mapping[str, terms.Term], count: int) -> pl.DataFrame:
    """Rows with scores of every size, and features on the cuts of the outputs, beside them and missing.

    In the columns that the outputs read, no value of the first row is missing.
    """
    rng = stream(0, "rows to check")
    logits = rng.normal(0.0, 3.0, (count, max(2, len(binding.score.columns))))
    prob = softmax(logits).round(6)
    if len(binding.score.columns) == 1:
        logits, prob = logits[:, :1], sigmoid(logits[:, 0]).round(6)[:, None]
    scores = prob if binding.score.kind == "prob" else logits
    columns: dict[str, Any] = dict(_before(name, scores[:, at]) for at, name in enumerate(binding.score.columns))
    tested = tested_values(outputs.values())
    for name, role in sorted(inputs(outputs.values())):
        if name in columns:
            continue
        values: Values = [True, False]
        if role == "category":
            values = [*sorted(map(str, tested.get(name, ()))), "a level that was never seen"]
        elif role == "whole":
            levels = [int(one) for one in tested.get(name, ()) if WHOLE.fullmatch(str(one))]
            values = [*sorted(levels), max(levels, default=0) // 2 + 1, 0]
        elif role == "number":
            cuts = [float(one) for one in tested.get(name, ()) if abs(float(one)) < 1e300]
            values = [*cuts, *(one + (1.0 + abs(one)) / 8.0 for one in cuts), 0.0]
        chosen = [values[at] for at in rng.integers(0, len(values), count)]
        missing = rng.random(count) < 1.0 / 8.0
        columns[name] = [
            None if place and gone else value for place, (value, gone) in enumerate(zip(chosen, missing, strict=True))
        ]
    rows = pl.DataFrame(columns, strict=False)
    unread = {feature.name: feature.role for feature in binding.features if feature.name not in columns}
    kinds: dict[str, pl.DataType] = {"category": pl.String(), "number": pl.Float64(), "boolean": pl.Boolean()}
    return rows.with_columns(pl.lit(None, kinds[role]).alias(name) for name, role in unread.items())


def _before(name: str, values: FloatArray) -> tuple[str, FloatArray]:
    """The column that the table has, and its numbers, of which a score is made that has these values."""
    match call_in(name):
        case ("minus", inner):
            return inner, -values
        case ("percent", inner):
            return inner, 100.0 * values
        case ("exp", inner):
            return inner, np.log(np.maximum(values, LEAST))
        case _:
            return name, values


Names: TypeAlias = dict[int, str]


def document(outputs: Mapping[str, terms.Term]) -> dict[str, Json]:
    names: Names = {}
    written: list[Json] = []
    for level in steps(outputs.values()):
        for term in level:
            name = f"step_{len(names)}"
            written.append({"name": name, "term": _json(term, names)})
            names[id(term)] = name
    return {
        "schema": "calcli.formula/1",
        "inputs": [
            {"name": name, "role": "category" if role == "whole" else role}
            for name, role in sorted(inputs(outputs.values()))
        ],
        "steps": written,
        "outputs": [{"name": name, "term": _json(term, names)} for name, term in outputs.items()],
    }


def _json(node: terms.Term, names: Names) -> Json:
    entry: Json
    match node:
        # what has a name already, as subexpressions that occur more than once
        case _ if id(node) in names:
            entry = {"ref": names[id(node)]}
        case terms.Number(value):
            entry = value
        case terms.Input(name, _):
            entry = {"ref": name}
        case terms.Arithmetic(operator, left, right):
            entry = {"op": operator, "args": _every((left, right), names)}
        case terms.Function(name, arguments):
            entry = {"op": name, "args": _every(arguments, names)}
        case terms.Choice(cases, otherwise):
            branches: list[Json] = [{"if": _condition(test, names), "then": _json(then, names)} for test, then in cases]
            rest = None if otherwise is None else _json(otherwise, names)
            entry = {"op": "choose", "cases": branches, "else": rest}
        case terms.Steps(x, cuts, values, side):
            entry = {"op": "steps", "x": _json(x, names), "cuts": cuts.tolist()}
            entry |= {"values": _every(values, names), "side": side}
        case terms.Switch(x, keys, values, otherwise):
            entry = {"op": "switch", "x": _json(x, names), "keys": list(keys), "values": _every(values, names)}
            entry["else"] = _json(otherwise, names)
        case terms.Lookup(conditions, values):
            entry = {"op": "lookup", "if": _every(conditions, names), "values": values.tolist()}
        case _:
            raise TypeError(f"no term: {node!r}")
    return entry


def _every(nodes: Iterable[terms.Term | terms.Condition], names: Names) -> Json:
    return [_condition(one, names) if isinstance(one, terms.Condition) else _json(one, names) for one in nodes]


def _condition(node: terms.Condition, names: Names) -> Json:
    match node:
        case terms.Compared(relation, left, right):
            return {"op": relation, "args": _every((left, right), names)}
        case terms.Missing(column):
            return {"op": "missing", "column": column.name}
        case terms.Among(column, levels):
            return {"op": "among", "column": column.name, "levels": list(levels)}
        case terms.Every(conditions) | terms.Some(conditions):
            return {"op": "and" if isinstance(node, terms.Every) else "or", "args": _every(conditions, names)}
        case _:
            raise TypeError(f"no condition: {node!r}")
