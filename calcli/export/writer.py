"""Terms as text in SQL, written from the leaves up.

Databases differ in how NaN compares: for some it is larger than all numbers, others follow IEEE 754. The tests for
missing and for finite numbers hold under both.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlglot import exp

from calcli import expressions as terms
from calcli.batch import FloatArray
from calcli.export.dialects import Dialect, quoted, type_name
from calcli.export.large_trees import SideTables, joins, leaf_join
from calcli.export.subexpressions import (
    FEW,
    Codes,
    Entry,
    Numbers,
    chosen,
    has_texts,
    is_choice_of_places,
    is_list,
    listed,
)

DECIMALS = 15
"""The decimals of the leaves of oblivious trees, whose sum is a log-odds."""

_MOST = repr(sys.float_info.max)
_FUNCTIONS: Mapping[str, Any] = {"exp": exp.Exp, "ln": exp.Ln, "abs": exp.Abs}


@dataclass(slots=True)
class Writer:
    """Terms as text; those that have a name are written as a column."""

    dialect: Dialect
    stem: str = "calcli_"
    outside: SideTables | None = None
    sums: Mapping[int, Sequence[terms.Lookup]] = field(default_factory=dict)
    found: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    @property
    def lists(self) -> str:
        """The step that has the lists outside."""
        return f"{self.stem}lists"

    def output(self, term: terms.Term) -> str:
        return self._cast(self.written(term))

    def named(self, members: Sequence[terms.Term], walked: Collection[terms.Term]) -> tuple[list[str], list[str]]:
        """Terms as named columns, with the joins they need; from then on they are written as these names."""
        trees = {id(tree) for tree in walked}
        names = [f"{self.stem}{len(self.names) + place}" for place in range(len(members))]
        columns: list[str] = []
        needed: list[str] = []
        for term, name in zip(members, names, strict=True):
            if self.outside is not None:
                found = (one for one in self.sums.get(id(term), ()) if id(one) not in self.names)
                needed += [self._joined(one, self.outside) for one in found]
            if isinstance(term, terms.Switch) and id(term) in trees:
                outside = None if has_texts(term) else self.outside
                more, value = joins(term, name, self._last, self.dialect, outside)
                needed += map(self._sql, more)
                columns.append(f"{self._sql(value)} AS {name}")
            else:
                columns.append(f"{self.written(term)} AS {name}")
        self.names |= {id(term): name for term, name in zip(members, names, strict=True)}
        return columns, needed

    def _joined(self, term: terms.Lookup, outside: SideTables) -> str:
        """The join that finds the value of a look-up; from then on the look-up is written as this value."""
        place = self._place([self._condition(one) for one in term.conditions], outside.known)
        join, value = leaf_join(shortened(term.values).tolist(), f"{self.stem}look_up_{outside.known}", place, outside)
        self.found[id(term)] = self._sql(value)
        return self._sql(join)

    def written(self, node: terms.Term) -> str:
        sql: str
        match node:
            # what is a column of the inner query already
            case _ if (known := self.names.get(id(node), self.found.get(id(node)))) is not None:
                sql = known
            case terms.Number(value):
                sql = number(value)
            case terms.Input():
                sql = self._column(node)
            case terms.Arithmetic(operator, left, right):
                sql = f"{self._operand(left)} {operator} {self._operand(right)}"
            case terms.Function(name, arguments):
                sql = self._function(name, [self.written(one) for one in arguments])
            case terms.Choice(cases, otherwise):
                tests = [f"WHEN {self._condition(test)} THEN {self.written(then)}" for test, then in cases]
                rest = "" if otherwise is None else f" ELSE {self._last(otherwise)}"
                sql = f"CASE {' '.join(tests)}{rest} END"
            case terms.Steps(x, cuts, values, side):
                relation = "<=" if side == "left" else "<"
                texts = [self.written(values[0]), *map(self._last, values[1:])]
                sql = _search(self._operand(x), cuts.tolist(), texts, relation)
            case terms.Switch():
                sql = self._switch(node)
            case terms.Lookup(conditions, values):
                sql = self._looked_up([self._condition(test) for test in conditions], shortened(values))
            case Codes(parts):
                sql = self.dialect.listing.format(", ".join(self._cast(self.written(part), "int") for part in parts))
            case Entry():
                sql = self._entry(node)
            case _:
                raise TypeError(f"no term: {node!r}")
        return sql

    def _entry(self, node: Entry) -> str:
        place = str(int(node.place.value)) if isinstance(node.place, terms.Number) else self.written(node.place)
        if isinstance(node.numbers, Codes):
            return self.dialect.look_up.format(list=self.written(node.numbers), place=place)
        return self._listed(node.numbers, place)

    def _switch(self, node: terms.Switch) -> str:
        if id(node.x) not in self.names and is_choice_of_places(node):
            return self.written(chosen(node))
        x = self._operand(node.x)
        if self.dialect.look_up and is_list(node) and (numbers := listed(node)):
            place = self._function("least", [f"{self._cast(x, 'int')} + 1", str(len(numbers))])
            return self._listed(np.array(numbers), place)
        texts = [self.written(value) for value in node.values]
        return self._switched(x, node.keys, texts, self._last(node.otherwise))

    def _condition(self, node: terms.Condition) -> str:
        match node:
            case terms.Compared(relation, left, right):
                return f"{self._operand(left)} {relation} {self._operand(right)}"
            case terms.Missing(column):
                return self._missing(column)
            case terms.Among(column, levels):
                text = self._column(column)
                texts = [self.dialect.literal(level) for level in levels]
                if self.dialect.joins_lists:
                    return f"({' OR '.join(f'{text} = {one}' for one in texts)})"
                return f"{text} IN ({', '.join(texts)})"
            case terms.Every(conditions) | terms.Some(conditions):
                connect = " AND " if isinstance(node, terms.Every) else " OR "
                return f"({connect.join(map(self._condition, conditions))})"
            case _:
                raise TypeError(f"no condition: {node!r}")

    def _operand(self, term: terms.Term) -> str:
        text = self.written(term)
        return f"({text})" if isinstance(term, terms.Arithmetic) and id(term) not in self.names else text

    def _function(self, name: str, arguments: list[str]) -> str:
        if name in _FUNCTIONS:
            return self._sql(_FUNCTIONS[name](this=exp.Var(this=arguments[0])))
        # Scores are never missing where it matters: whichever way of treating nulls is the database's own will do.
        kind = exp.Greatest if name == "greatest" else exp.Least
        first, *rest = (exp.Var(this=one) for one in arguments)
        ways = (self._sql(kind(this=first, expressions=rest, ignore_nulls=flag)) for flag in (True, False))
        return min(ways, key=len)

    def _switched(self, x: str, keys: Sequence[str | int], values: Sequence[str], otherwise: str) -> str:
        """A CASE that tests text keys one after the other, and number keys by halving unless they are few."""
        if not keys:
            return otherwise
        short = not otherwise.startswith("CASE")  # it is written as often as there are halves
        if len(keys) > FEW and short and not isinstance(keys[0], str):
            middle = len(keys) // 2
            below = self._switched(x, keys[:middle], values[:middle], otherwise)
            above = self._switched(x, keys[middle:], values[middle:], otherwise)
            return f"CASE WHEN {x} < {keys[middle]} THEN {below} ELSE {above} END"
        tests = [f"WHEN {self.dialect.key(key)} THEN {value}" for key, value in zip(keys, values, strict=True)]
        return f"CASE {x} {' '.join(tests)} ELSE {otherwise} END"

    def _looked_up(self, tests: Sequence[str], values: FloatArray) -> str:
        if not self.dialect.look_up:
            return _halved(tests, [self._last(terms.Number(value)) for value in values.tolist()])
        return self._listed(values, self._place(tests, 1))

    def _listed(self, numbers: Numbers, place: str) -> str:
        """The number at a place of a list, which stands here or outside."""
        kind = "int" if np.issubdtype(numbers.dtype, np.integer) else "double"
        if self.outside is not None:
            place = f"{self.outside.added(numbers)} + {place}"
            found = self.dialect.look_up.format(list=self.dialect.outside.format(self.lists), place=place)
            return self._cast(found, "int") if kind == "int" else found
        values, typed = ",".join(map(str, numbers.tolist())), type_name(kind, self.dialect)
        return self.dialect.look_up.format(list=self.dialect.numbers.format(values=values, type=typed), place=place)

    def _place(self, tests: Sequence[str], first: int) -> str:
        """The place of the value that the conditions choose; the first value is at `first`."""
        bits = (self.dialect.bit.format(test=test, weight=1 << at) for at, test in enumerate(tests))
        return " + ".join([str(first), *bits])

    def _column(self, given: terms.Input) -> str:
        column = quoted(given.name, self.dialect)
        if given.role == "category":  # of whole numbers 17, 17.0 and '17' are one
            return self.dialect.text.format(self._cast(column, "bigint") if given.whole else column)
        if given.role == "boolean":
            truth = self.dialect.truth.format(column)
            return f"CASE WHEN {truth} THEN 1e0 WHEN NOT {truth} THEN 0e0 END"
        return self._cast(column)

    def _missing(self, column: terms.Input) -> str:
        absent = f"{quoted(column.name, self.dialect)} IS NULL"
        if column.role != "number":
            return absent
        x = self._column(column)
        # 1/NaN is not 0, as that of infinity is; a CASE keeps the division from all other numbers.
        return f"({absent} OR {x} <> {x} OR CASE WHEN {x} > {_MOST} THEN 1e0 / {x} ELSE 0e0 END > 0.5e0)"

    def _last(self, term: terms.Term) -> str:
        """The last branch of a CASE: it makes the others doubles where literals are exact numbers."""
        text = self.written(term)
        return f"{text}::float8" if self.dialect.decimal_literals and isinstance(term, terms.Number) else text

    def _cast(self, text: str, kind: str = "double") -> str:
        return cast(text, self.dialect, kind)

    def _sql(self, node: Any) -> str:
        return str(node.sql(dialect=self.dialect.name))


def _halved(tests: Sequence[str], values: Sequence[str]) -> str:
    """A CASE that halves the values by each test, the last test first."""
    if len(set(values)) == 1:
        return values[0]
    *others, test = tests
    half = len(values) // 2
    passed, failed = _halved(others, values[half:]), _halved(others, values[:half])
    return f"CASE WHEN {test} THEN {passed} ELSE {failed} END"


def shortened(values: FloatArray) -> FloatArray:
    """Values that are added up, at the precision that keeps 1e-12 in sums of thousands."""
    return np.round(values, DECIMALS)


def _search(x: str, cuts: list[float], values: Sequence[str], relation: str) -> str:
    """A CASE of nested halves, so that a row needs log2(cuts) comparisons."""
    if not cuts:
        return values[0]
    middle = len(cuts) // 2
    below = _search(x, cuts[:middle], values[: middle + 1], relation)
    above = _search(x, cuts[middle + 1 :], values[middle + 1 :], relation)
    return f"CASE WHEN {x} {relation} {number(cuts[middle])} THEN {below} ELSE {above} END"


def number(value: float) -> str:
    """A literal that every dialect takes for a double: with an exponent."""
    text = repr(abs(float(value))).removesuffix(".0")
    text = text if "e" in text else f"{text}e0"
    return f"(-{text})" if value < 0 else text


def cast(text: str, dialect: Dialect, kind: str = "double") -> str:
    """A text as float64, or another type."""
    return str(exp.Cast(this=exp.Var(this=text), to=exp.DataType.build(kind)).sql(dialect=dialect.name))
