"""Terms as SQL.

sqlglot knows how each dialect quotes names and spells types and functions. It does not know how a database compares
NaN: some take it as larger than all numbers, others follow IEEE 754. The tests for missing and for finite numbers
hold under both.

A term that is used several times is written out each time in an expression, and once, as a column of a step, in a
query.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from calcli.errors import UsageError, unknown_name
from calcli.export.subexpressions import sizes, steps, tree_paths
from calcli.export.tree_joins import ROWS, can_join, joins
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

Sql: TypeAlias = Any
"""An expression of sqlglot."""

LARGEST = 40_000
"""Terms of the longest expression that is written."""

MOST_BRANCHES = 500
"""In a query, a tree with more branches is joined as tables."""

FEW = 4
"""Up to so many cases are tested one after the other."""

EXCLUDING = ("bigquery", "clickhouse", "databricks", "duckdb", "redshift", "snowflake", "spark")
"""Dialects in which a query can give all columns except some."""

_MOST = repr(sys.float_info.max)
_OPERATORS: dict[str, Any] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div}
_OPERATORS |= {"<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}


def dialects() -> tuple[str, ...]:
    """The names of all dialects."""
    return tuple(sorted(name for name in Dialect.classes if name))


def check_dialect(name: str) -> None:
    if name not in dialects():
        raise UsageError(unknown_name("dialect", name, dialects(), limit=100))


def expression(outputs: Mapping[str, Term], dialect: str) -> str:
    """One expression for each output, under its name, a line each."""
    size = max(sizes(outputs.values()).values())
    if size > LARGEST:
        raise UsageError(
            f"as one expression the calibrator would have {size:,.0f} terms, because parts of it are used many times",
            hint="try: --shape query",
        )
    writer = _Writer()
    columns = [exp.alias_(writer.written(term), _name(name)) for name, term in outputs.items()]
    return ",\n".join(_text(column, dialect) for column in columns)


def query(outputs: Mapping[str, Term], dialect: str, table: str, kept: Sequence[str] | None) -> str:
    """A SELECT that gives the columns of `table` (those `kept`, or all) and the outputs.

    What is used several times is a column of a step on the way, which the last step leaves out.
    """
    if kept is None and dialect not in EXCLUDING:
        raise UsageError(
            f"a query in {dialect} cannot give all columns but those of its own steps",
            hint="name those to pass through: --keep A,B, or --keep none",
        )
    writer = _Writer()
    statement: Sql = exp.to_table(table, dialect=dialect)
    selects: list[tuple[str, Sql]] = []
    apart = tree_paths(outputs.values(), MOST_BRANCHES) if can_join(dialect) else []
    for level, members in enumerate(steps(outputs.values(), apart)):
        columns, needed = writer.named(members, apart)
        rows = exp.alias_(statement, ROWS, table=True)
        every = exp.Column(this=exp.Star(), table=exp.to_identifier(ROWS))
        select = exp.select(every, *columns).from_(rows)
        select.set("joins", needed)
        selects.append((f"calcli_step_{level}", select))
        statement = exp.to_table(f"calcli_step_{level}")
    helpers = list(writer.names.values())
    last = [exp.alias_(writer.written(term), _name(name)) for name, term in outputs.items()]
    whole = exp.select(*_passed(kept, helpers), *last).from_(statement)
    for name, select in selects:
        whole = whole.with_(name, as_=select)
    return _text(whole, dialect, pretty=True)


def _passed(kept: Sequence[str] | None, helpers: Sequence[str]) -> list[Sql]:
    if kept is not None:
        return [exp.column(_name(name)) for name in kept]
    return [exp.Star(**{"except_": [_name(name) for name in helpers]} if helpers else {})]


def _text(written: Sql, dialect: str, *, pretty: bool = False) -> str:
    return str(written.sql(dialect=dialect, pretty=pretty, comments=False))


def _name(name: str) -> Sql:
    return exp.to_identifier(name, quoted=True)


@dataclass(slots=True)
class _Writer:
    """Terms as expressions; those that have a name are written as a column."""

    names: dict[int, str] = field(default_factory=dict)

    def named(self, terms: Sequence[Term], walked: Collection[Term]) -> tuple[list[Sql], list[exp.Join]]:
        """Terms as named columns, with the joins they need; from then on they are written as these names."""
        names = [f"calcli_{len(self.names) + place}" for place in range(len(terms))]
        columns: list[Sql] = []
        needed: list[exp.Join] = []
        for term, name in zip(terms, names, strict=True):
            if isinstance(term, Switch) and term in walked:
                more, value = joins(term, name, self.written)
                needed += more
            else:
                value = self.written(term)
            columns.append(exp.alias_(value, _name(name)))
        self.names |= {id(term): name for term, name in zip(terms, names, strict=True)}
        return columns, needed

    def written(self, node: Term | Condition) -> Sql:
        sql: Sql
        match node:
            # what is a column of the inner query already
            case _ if id(node) in self.names:
                sql = exp.column(_name(self.names[id(node)]))
            # terms
            case Number(value):
                sql = _number(value)
            case Input(name, role):
                sql = _column(name, role)
            case Arithmetic(operator, left, right) | Compared(operator, left, right):
                sql = _OPERATORS[operator](this=self.written(left), expression=self.written(right))
                sql = exp.paren(sql) if isinstance(node, Arithmetic) else sql
            case Function(name, arguments):
                sql = self._function(name, [self.written(one) for one in arguments])
            case Choice(cases, otherwise):
                ifs = [exp.If(this=self.written(test), true=self.written(then)) for test, then in cases]
                sql = exp.Case(ifs=ifs, default=None if otherwise is None else self.written(otherwise))
            case Steps(x, cuts, values, side):
                relation = exp.LTE if side == "left" else exp.LT
                sql = self._search(self.written(x), cuts.tolist(), values, relation)
            case Switch(x, keys, values, otherwise):
                sql = self._switched(x, keys, [self.written(value) for value in values], self.written(otherwise))
            # conditions
            case Missing(column):
                sql = _missing(column)
            case Among(column, levels):
                texts = [exp.Literal.string(level) for level in levels]
                sql = exp.In(this=_column(column.name, "category"), expressions=texts)
            case Every(conditions) | Some(conditions):
                connect = exp.and_ if isinstance(node, Every) else exp.or_
                sql = exp.paren(connect(*map(self.written, conditions)))
            case _:
                raise TypeError(f"no term or condition: {node!r}")
        return sql

    def _function(self, name: str, arguments: list[Sql]) -> Sql:
        if name in ("greatest", "least"):
            kind = exp.Greatest if name == "greatest" else exp.Least
            return kind(this=arguments[0], expressions=arguments[1:], ignore_nulls=True)
        return {"exp": exp.Exp, "ln": exp.Ln, "abs": exp.Abs}[name](this=arguments[0])

    def _search(self, x: Sql, cuts: list[float], values: Sequence[Term], relation: Any) -> Sql:
        """Nested halves, so that a row needs log2(cuts) comparisons."""
        if not cuts:
            return self.written(values[0])
        middle = len(cuts) // 2
        below = self._search(x, cuts[:middle], values[: middle + 1], relation)
        above = self._search(x, cuts[middle + 1 :], values[middle + 1 :], relation)
        test = relation(this=x.copy(), expression=_number(cuts[middle]))
        return exp.Case(ifs=[exp.If(this=test, true=below)], default=above)

    def _switched(self, x: Term, keys: Sequence[str] | Sequence[int], values: Sequence[Sql], otherwise: Sql) -> Sql:
        """Text keys are tested one after the other; number keys by halving, unless they are few."""
        key, literals = self.written(x), [exp.convert(one) for one in keys]
        if len(keys) > FEW and isinstance(otherwise, exp.Literal | exp.Paren) and not isinstance(keys[0], str):
            middle = len(keys) // 2
            below = self._switched(x, keys[:middle], values[:middle], otherwise)
            above = self._switched(x, keys[middle:], values[middle:], otherwise.copy())
            return exp.Case(ifs=[exp.If(this=exp.LT(this=key, expression=literals[middle]), true=below)], default=above)
        if not keys:
            return otherwise
        ifs = [exp.If(this=literal, true=value) for literal, value in zip(literals, values, strict=True)]
        return exp.Case(this=key, ifs=ifs, default=otherwise)


def _number(value: float) -> Sql:
    """A literal that every dialect takes for a double: with an exponent."""
    text = repr(abs(float(value)))
    literal = exp.Literal.number(text if "e" in text else f"{text}e0")
    return exp.paren(exp.Neg(this=literal)) if value < 0 else literal


def _column(name: str, role: str) -> Sql:
    column = exp.column(_name(name))
    if role == "category":
        return exp.cast(column, "text")
    if role == "boolean":
        no = exp.If(this=exp.not_(column.copy()), true=_number(0.0))
        return exp.Case(ifs=[exp.If(this=column, true=_number(1.0)), no])
    return exp.cast(column, "double")


def _missing(column: Input) -> Sql:
    if column.role != "number":
        return exp.Is(this=exp.column(_name(column.name)), expression=exp.Null())
    x = _column(column.name, "number")
    beyond = exp.GT(this=x.copy(), expression=exp.Literal.number(_MOST))
    not_infinite = exp.GT(this=exp.Div(this=_number(1.0), expression=x.copy()), expression=_number(0.5))
    return exp.paren(
        exp.or_(
            exp.Is(this=exp.column(_name(column.name)), expression=exp.Null()),
            exp.NEQ(this=x.copy(), expression=x.copy()),
            exp.paren(exp.and_(beyond, not_infinite)),
        )
    )
