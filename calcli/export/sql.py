"""Terms as SQL.

It is written as text from the leaves up, and sqlglot is asked for what dialects spell differently: names, types,
functions, small tables. `calcli.export.dialects` knows the rest. Databases also differ in how NaN compares: for some it
is larger than all numbers, others follow IEEE 754. The tests for missing and for finite numbers hold under both.

A term that is used several times is written out each time in an expression, and once, as a column of a step, in a
query.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from sqlglot import exp

from calcli.batch import FloatArray
from calcli.errors import UsageError
from calcli.export.dialects import Dialect, quoted
from calcli.export.subexpressions import (
    bottom_up,
    chosen,
    depths,
    has_texts,
    inputs,
    is_choice_of_places,
    read_by,
    sizes,
    steps,
    sums_of_lookups,
    too_deep,
    tree_depth,
    tree_paths,
)
from calcli.export.tree_joins import ROWS, Outside, joins, leaf_join
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

LARGEST = 40_000
"""Terms of the longest expression that is tried."""

SHORT = 7_000
"""Terms of the longest expression that is chosen: of more, at 15 characters each, not even the text is made."""

LONGEST = 100_000
"""Characters of the longest expression that is chosen."""

DEEPEST = 60
"""How deep a step of a query may be nested, as `subexpressions.depths` counts: SQLite's parser keeps 100 symbols."""

MOST_BRANCHES = 100
"""In a query, a tree with more branches is joined as tables."""

MOST_JOINED = 40
"""Tables that one step joins: MariaDB takes 61."""

MOST_INSERTED = 1_000
"""Rows that one INSERT brings: SQL Server takes no more."""

DECIMALS = 15
"""Of the leaves of oblivious trees, whose sum is a log-odds."""

FEW = 4
"""Up to so many cases are tested one after the other."""

_MOST = repr(sys.float_info.max)
_FUNCTIONS: Mapping[str, Any] = {"exp": exp.Exp, "ln": exp.Ln, "abs": exp.Abs}


def expression(outputs: Mapping[str, Term], dialect: Dialect, *, short: bool = False) -> str:
    """One expression for each output, under its name, a line each; refused if it is too long, or not `short`."""
    texts = expressions(outputs, dialect, short=short)
    return ",\n".join(f"{text} AS {quoted(name, dialect)}" for name, text in texts.items())


def expressions(outputs: Mapping[str, Term], dialect: Dialect, *, short: bool = False) -> dict[str, str]:
    """An expression for each output by its name."""
    size = max(sizes(outputs.values()).values())
    hint = "name the table that it is for, and there will be a query: --table NAME"
    if size > (SHORT if short else LARGEST):
        raise UsageError(
            f"as one expression the calibrator would have {size:,.0f} terms, because parts of it are used many times",
            hint=hint,
        )
    writer = Writer(dialect)
    texts = {name: writer.output(term) for name, term in outputs.items()}
    length = sum(map(len, texts.values()))
    if short and (length > LONGEST or max(depths(outputs.values()).values()) > dialect.deepest):
        raise UsageError(f"as one expression the calibrator has {length:,} characters, or is nested deep", hint=hint)
    return texts


def query(outputs: Mapping[str, Term], dialect: Dialect, table: str, kept: Sequence[str] | None) -> str:
    """A SELECT that gives the columns of `table` (those `kept`, or all) and the outputs.

    What is used several times is a column of a step on the way, which the last step leaves out.
    """
    ctes, select = _query(outputs, dialect, table, kept)
    return statement(ctes, select)


def with_tables(
    outputs: Mapping[str, Term], dialect: Dialect, table: str, kept: Sequence[str] | None, name: str
) -> list[str]:
    """Statements that make tables of large trees, named after `name`, and last the query that joins them."""
    outside = Outside(name)
    text = statement(*_query(outputs, dialect, table, kept, outside))
    if dialect.is_too_long(text):
        outside = Outside(name, lookups=True)
        text = statement(*_query(outputs, dialect, table, kept, outside))
    made: list[str] = []
    for of_table, (columns, keys, rows) in outside.rows().items():
        if rows:
            typed = [f"{column} {exp.DataType.build(kind).sql(dialect.name)}" for column, kind in columns.items()]
            own, key = quoted(of_table, dialect), ", ".join([*columns][:keys])
            made.append(dialect.create.format(name=own, columns=", ".join(typed), key=key))
            lines = [f"({', '.join(map(str, row))})" for row in rows]
            made += (
                f"INSERT INTO {own} VALUES\n" + ",\n".join(lines[start : start + MOST_INSERTED])
                for start in range(0, len(lines), MOST_INSERTED)
            )
    return [*made, text]


def statement(ctes: Sequence[str], select: str) -> str:
    """A SELECT with its steps before it."""
    return "WITH " + ",\n".join(ctes) + f"\n{select}" if ctes else select


def _query(
    outputs: Mapping[str, Term],
    dialect: Dialect,
    table: str,
    kept: Sequence[str] | None,
    outside: Outside | None = None,
) -> tuple[list[str], str]:
    """The steps of a query, and its last SELECT."""
    if kept is None and not dialect.excluding:
        raise UsageError(
            f"a query in {dialect.name} cannot give all columns but those of its own steps",
            hint="name those to pass through: --keep A,B, or --keep none",
        )
    trees = [
        tree
        for tree in tree_paths(outputs.values(), MOST_BRANCHES)
        if dialect.can_join or (outside is not None and not has_texts(tree))
    ]
    sums = sums_of_lookups(outputs.values(), MOST_JOINED) if outside is not None and outside.lookups else {}
    read = [name for name, _ in sorted(inputs(outputs.values()))]
    writer = Writer(dialect, stem_of([*read, *outputs, *(kept or ())]), outside, sums)
    tables_of = {id(tree): 2 * tree_depth(tree) + 1 for tree in trees}
    tables_of |= {one: len(lookups) for one, lookups in sums.items()}
    source = table_name(table, dialect)
    passed = ["*"] if kept is None else [quoted(name, dialect) for name in dict.fromkeys([*kept, *read])]
    chosen = passed if kept is None else [quoted(name, dialect) for name in kept]
    # The steps, each with the columns of the one before that are still asked for.
    apart = [*trees, *(one for one in bottom_up(outputs.values()) if id(one) in sums)]
    levels = steps(outputs.values(), [*apart, *too_deep(outputs.values(), DEEPEST, [*trees, *chain(*sums.values())])])
    asked = _last_asked(levels, list(outputs.values()))
    ctes: list[str] = []
    carried: list[Term] = []
    for place, members in enumerate(levels):
        for group in _groups(members, tables_of):
            added, tables = writer.named(group, trees)
            selected = [*passed, *(writer.names[id(one)] for one in carried)]
            if (width := len(selected) + len(added)) > dialect.most_columns:
                most = f"{dialect.name} takes {dialect.most_columns:,}"
                raise UsageError(
                    f"a step of the query would have {width:,} columns, and {most}",
                    hint="export it to ONNX, or fit one with fewer parts, as clusters or classes",
                )
            columns = ", ".join([*(f"{ROWS}.{name}" for name in selected), *added])
            lines = [f"SELECT {columns}", f"FROM {source} AS {ROWS}", *tables, dialect.fence]
            source = f"{writer.stem}step_{len(ctes)}"
            ctes.append(f"{source} AS (\n" + "\n".join(filter(None, lines)) + "\n)")
            carried += group if kept is not None else []
        carried = [one for one in carried if asked.get(id(one), 0) > place]
    # What the query gives.
    if kept is None and ctes:
        chosen = [exp.Star(except_=[exp.Var(this=name) for name in writer.names.values()]).sql(dialect.name)]
    columns = ",\n".join(
        [*chosen, *(f"{writer.output(term)} AS {quoted(name, dialect)}" for name, term in outputs.items())]
    )
    return ctes, f"SELECT {columns}\nFROM {source} AS {ROWS}"


def table_name(table: str, dialect: Dialect) -> str:
    """The name of a table, perhaps with a schema, as the user gave it; quoted where it has to be."""
    return str(exp.to_table(table, dialect=dialect.name).sql(dialect=dialect.name, identify="safe"))


def check(
    outputs: Mapping[str, Term],
    dialect: Dialect,
    rows: Sequence[Mapping[str, float | str | bool | None]],
    expected: Mapping[str, Sequence[float | None]],
) -> str:
    """A statement that brings its own rows and gives those whose outputs are not the expected ones.

    No value of the first row is missing: databases take the types from there.
    """
    table, checked = "calcli_given", "calcli_checked"
    names = {name: f"expected_{name}" for name in outputs}
    lines = [
        {"row": float(place), **row, **{names[name]: values[place] for name, values in expected.items()}}
        for place, row in enumerate(rows)
    ]
    ctes, select = _query(outputs, dialect, table, ["row", *names.values()])
    given = f"{table} AS (\n{_constants(lines, dialect)}\n)"
    differs = []
    for name in outputs:
        found, wanted = quoted(name, dialect), quoted(names[name], dialect)
        differs += [f"{found} IS NULL AND {wanted} IS NOT NULL", f"{found} IS NOT NULL AND {wanted} IS NULL"]
        differs.append(f"ABS({found} - {wanted}) > 1e-9")
    last = f"SELECT *\nFROM {checked} AS {ROWS}\nWHERE " + "\n   OR ".join(differs)
    return statement([given, *ctes, f"{checked} AS (\n{select}\n)"], last)


def _constants(rows: Sequence[Mapping[str, float | str | bool | None]], dialect: Dialect) -> str:
    """A SELECT of these rows."""
    cells = [[_constant(value, dialect) for value in row.values()] for row in rows]
    if dialect.can_join:
        tuples = [tuple(exp.Var(this=cell) for cell in row) for row in cells]
        columns: list[Any] = [exp.to_identifier(name, quoted=True) for name in rows[0]]
        values = exp.values(tuples, ROWS, columns)
        return str(exp.select("*").from_(values).sql(dialect=dialect.name))
    names = [quoted(name, dialect) for name in rows[0]]
    lines = [", ".join(f"{cell} AS {name}" for cell, name in zip(row, names, strict=True)) for row in cells]
    return " UNION ALL\n".join(f"SELECT {line}" for line in lines)


def _constant(value: float | str | bool | None, dialect: Dialect) -> str:
    """A value as that of a column."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value)) if dialect.truth.startswith("{}") else str(value).upper()
    return dialect.literal(value) if isinstance(value, str) else _double(_number(value), dialect)


def _double(text: str, dialect: Dialect) -> str:
    return str(exp.Cast(this=exp.Var(this=text), to=exp.DataType.build("double")).sql(dialect=dialect.name))


def stem_of(known: Sequence[str]) -> str:
    """What the names of steps begin with, so that no column is taken for one."""
    stem = "calcli_"
    while any(name.lower().startswith(stem) for name in known):
        stem += "_"
    return stem


def _last_asked(levels: Sequence[Sequence[Term]], outputs: Sequence[Term]) -> dict[int, int]:
    """For each term of a step, by identity, the last step that reads it; that of the outputs is one more."""
    named = {id(term) for level in levels for term in level}
    last: dict[int, int] = {}
    for place, members in enumerate([*levels, outputs]):
        last |= dict.fromkeys(read_by(members, named), place)
    return last | {id(term): len(levels) for term in outputs if id(term) in named}


def _groups(members: Sequence[Term], tables_of: Mapping[int, int]) -> list[list[Term]]:
    """The terms of a level in steps that do not join too many tables; some of them need several, by identity."""
    groups: list[list[Term]] = [[]]
    tables = 0
    for term in members:
        more = tables_of.get(id(term), 0)
        if tables and tables + more > MOST_JOINED:
            groups.append([])
            tables = 0
        groups[-1].append(term)
        tables += more
    return groups


@dataclass(slots=True)
class Writer:
    """Terms as text; those that have a name are written as a column."""

    dialect: Dialect
    stem: str = "calcli_"
    outside: Outside | None = None
    sums: Mapping[int, Sequence[Lookup]] = field(default_factory=dict)
    found: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def output(self, term: Term) -> str:
        return self._cast(self.written(term))

    def named(self, terms: Sequence[Term], walked: Collection[Term]) -> tuple[list[str], list[str]]:
        """Terms as named columns, with the joins they need; from then on they are written as these names."""
        trees = {id(tree) for tree in walked}
        names = [f"{self.stem}{len(self.names) + place}" for place in range(len(terms))]
        columns: list[str] = []
        needed: list[str] = []
        for term, name in zip(terms, names, strict=True):
            if self.outside is not None:
                found = (one for one in self.sums.get(id(term), ()) if id(one) not in self.names)
                needed += [self._joined(one, self.outside) for one in found]
            if isinstance(term, Switch) and id(term) in trees:
                outside = None if has_texts(term) else self.outside
                written = self.written if self.dialect.unnested else self._last  # a list has a type already
                more, value = joins(term, name, written, self.dialect, outside)
                needed += (join.sql(dialect=self.dialect.name) for join in more)
                columns.append(f"{value.sql(dialect=self.dialect.name)} AS {name}")
            else:
                columns.append(f"{self.written(term)} AS {name}")
        self.names |= {id(term): name for term, name in zip(terms, names, strict=True)}
        return columns, needed

    def _joined(self, term: Lookup, outside: Outside) -> str:
        """The join of a look-up, which from then on is written as the value that it finds."""
        place = self._place([self._condition(one) for one in term.conditions], outside.known)
        join, value = leaf_join(shortened(term.values).tolist(), f"{self.stem}look_up_{outside.known}", place, outside)
        self.found[id(term)] = str(value.sql(dialect=self.dialect.name))
        return str(join.sql(dialect=self.dialect.name))

    def written(self, node: Term) -> str:
        sql: str
        match node:
            # what is a column of the inner query already
            case _ if id(node) in self.names:
                sql = self.names[id(node)]
            case _ if id(node) in self.found:
                sql = self.found[id(node)]
            case Number(value):
                sql = _number(value)
            case Input(name, role):
                sql = self._column(name, role)
            case Arithmetic(operator, left, right):
                sql = f"{self._operand(left)} {operator} {self._operand(right)}"
            case Function(name, arguments):
                sql = self._function(name, [self.written(one) for one in arguments])
            case Choice(cases, otherwise):
                tests = [f"WHEN {self._condition(test)} THEN {self.written(then)}" for test, then in cases]
                rest = "" if otherwise is None else f" ELSE {self._last(otherwise)}"
                sql = f"CASE {' '.join(tests)}{rest} END"
            case Steps(x, cuts, values, side):
                relation = "<=" if side == "left" else "<"
                texts = [self.written(values[0]), *map(self._last, values[1:])]
                sql = _search(self._operand(x), cuts.tolist(), texts, relation)
            case Switch():
                sql = self._switch(node)
            case Lookup(conditions, values):
                sql = self._looked_up([self._condition(test) for test in conditions], shortened(values))
            case _:
                raise TypeError(f"no term: {node!r}")
        return sql

    def _switch(self, node: Switch) -> str:
        if id(node.x) not in self.names and is_choice_of_places(node):
            return self.written(chosen(node))
        x = self._operand(node.x)
        if self.dialect.has_null_beyond and is_list(node):
            numbers = np.array([one.value for one in node.values if isinstance(one, Number)])
            return f"COALESCE({self._listed(numbers, f'CAST({x} AS INT) + 1')}, {self.written(node.otherwise)})"
        texts = [self.written(value) for value in node.values]
        return self._switched(x, node.keys, texts, self._last(node.otherwise))

    def _condition(self, node: Condition) -> str:
        match node:
            case Compared(relation, left, right):
                return f"{self._operand(left)} {relation} {self._operand(right)}"
            case Missing(column):
                return self._missing(column)
            case Among(column, levels):
                text = self._column(column.name, "category")
                texts = [self.dialect.literal(level) for level in levels]
                if self.dialect.joins_lists:
                    return f"({' OR '.join(f'{text} = {one}' for one in texts)})"
                return f"{text} IN ({', '.join(texts)})"
            case Every(conditions) | Some(conditions):
                connect = " AND " if isinstance(node, Every) else " OR "
                return f"({connect.join(map(self._condition, conditions))})"
            case _:
                raise TypeError(f"no condition: {node!r}")

    def _operand(self, term: Term) -> str:
        text = self.written(term)
        return f"({text})" if isinstance(term, Arithmetic) and id(term) not in self.names else text

    def _function(self, name: str, arguments: list[str]) -> str:
        if name in _FUNCTIONS:
            return self._sql(_FUNCTIONS[name](this=exp.Var(this=arguments[0])))
        # Scores are never missing where it matters: whichever way of treating nulls is the database's own will do.
        kind = exp.Greatest if name == "greatest" else exp.Least
        first, *rest = (exp.Var(this=one) for one in arguments)
        ways = (self._sql(kind(this=first, expressions=rest, ignore_nulls=flag)) for flag in (True, False))
        return min(ways, key=len)

    def _switched(self, x: str, keys: Sequence[str | int], values: Sequence[str], otherwise: str) -> str:
        """Text keys are tested one after the other; number keys by halving, unless they are few."""
        if not keys:
            return otherwise
        short = not otherwise.startswith("CASE")  # it is written as often as there are halves
        if len(keys) > FEW and short and not isinstance(keys[0], str):
            middle = len(keys) // 2
            below = self._switched(x, keys[:middle], values[:middle], otherwise)
            above = self._switched(x, keys[middle:], values[middle:], otherwise)
            return f"CASE WHEN {x} < {keys[middle]} THEN {below} ELSE {above} END"
        tests = [f"WHEN {self._key(key)} THEN {value}" for key, value in zip(keys, values, strict=True)]
        return f"CASE {x} {' '.join(tests)} ELSE {otherwise} END"

    def _looked_up(self, tests: Sequence[str], values: FloatArray) -> str:
        if not self.dialect.look_up:
            return _halved(tests, [self._last(Number(value)) for value in values.tolist()])
        return self._listed(values, self._place(tests, 1))

    def _listed(self, values: FloatArray, place: str) -> str:
        texts = map(repr, values.tolist())
        return self.dialect.look_up.format(values=",".join(texts), place=place)

    def _place(self, tests: Sequence[str], first: int) -> str:
        """The place of the value that the conditions choose, where that of the first value is `first`."""
        bits = (self.dialect.bit.format(test=test, weight=1 << at) for at, test in enumerate(tests))
        return " + ".join([str(first), *bits])

    def _key(self, key: str | int) -> str:
        return self.dialect.literal(key) if isinstance(key, str) else str(key)

    def _column(self, name: str, role: str) -> str:
        column = quoted(name, self.dialect)
        if role == "category":
            return self.dialect.text.format(column)
        if role == "boolean":
            truth = self.dialect.truth.format(column)
            return f"CASE WHEN {truth} THEN 1e0 WHEN NOT {truth} THEN 0e0 END"
        return self._cast(column)

    def _missing(self, column: Input) -> str:
        absent = f"{quoted(column.name, self.dialect)} IS NULL"
        if column.role != "number":
            return absent
        x = self._column(column.name, "number")
        # 1/NaN is not 0, as that of infinity is; a CASE keeps the division from all other numbers.
        return f"({absent} OR {x} <> {x} OR CASE WHEN {x} > {_MOST} THEN 1e0 / {x} ELSE 0e0 END > 0.5e0)"

    def _last(self, term: Term) -> str:
        """The last branch of a CASE: it makes the others doubles where literals are exact numbers."""
        text = self.written(term)
        return f"{text}::float8" if self.dialect.decimal_literals and isinstance(term, Number) else text

    def _cast(self, text: str) -> str:
        return _double(text, self.dialect)

    def _sql(self, node: Any) -> str:
        return str(node.sql(dialect=self.dialect.name))


def _halved(tests: Sequence[str], values: Sequence[str]) -> str:
    """A test after the other, the last one first: it halves the values."""
    if len(set(values)) == 1:
        return values[0]
    *others, test = tests
    half = len(values) // 2
    passed, failed = _halved(others, values[half:]), _halved(others, values[:half])
    return f"CASE WHEN {test} THEN {passed} ELSE {failed} END"


def is_list(term: Switch) -> bool:
    """Whether it gives numbers, more than a few, for the keys 0, 1, 2 and so on."""
    values = (*term.values, term.otherwise)
    return (
        len(values) > FEW and term.keys == tuple(range(len(term.keys))) and all(isinstance(x, Number) for x in values)
    )


def shortened(values: FloatArray) -> FloatArray:
    """Values that are added up, at the precision that keeps 1e-12 in sums of thousands."""
    return np.round(values, DECIMALS)


def _search(x: str, cuts: list[float], values: Sequence[str], relation: str) -> str:
    """Nested halves, so that a row needs log2(cuts) comparisons."""
    if not cuts:
        return values[0]
    middle = len(cuts) // 2
    below = _search(x, cuts[:middle], values[: middle + 1], relation)
    above = _search(x, cuts[middle + 1 :], values[middle + 1 :], relation)
    return f"CASE WHEN {x} {relation} {_number(cuts[middle])} THEN {below} ELSE {above} END"


def _number(value: float) -> str:
    """A literal that every dialect takes for a double: with an exponent."""
    text = repr(abs(float(value))).removesuffix(".0")
    text = text if "e" in text else f"{text}e0"
    return f"(-{text})" if value < 0 else text
