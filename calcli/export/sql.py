"""Statements in SQL: an expression for each output or a query of steps, also as a view, functions, or a macro of dbt.

`calcli.export.writer` writes the terms, and sqlglot is asked for what dialects spell differently: names, types,
functions, small tables. `calcli.export.dialects` knows the rest.

A term that is used several times is written out each time in an expression, and once, as a column of a step, in a
query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from sqlglot import exp

from calcli.errors import UsageError
from calcli.export.dialects import Dialect, quoted, quotes, type_name
from calcli.export.large_trees import ROWS, TABLES, SideTables, by_lists, by_look_ups
from calcli.export.subexpressions import (
    Codes,
    bottom_up,
    depths,
    has_texts,
    inputs,
    is_list,
    read_by,
    sizes,
    steps,
    sums_of_lookups,
    too_deep,
    tree_depth,
    tree_paths,
)
from calcli.export.writer import Writer, cast, number
from calcli.expressions import Term

LARGEST = 40_000
"""Terms of the longest expression that is tried."""

SHORT = 7_000
"""Terms of the longest expression that is chosen: of more, at 15 characters each, not even the text is made."""

LONGEST = 100_000
"""Characters of the longest expression that is chosen."""

DEEPEST = 60
"""How deep a step of a query may be nested, as `subexpressions.depths` counts: SQLite's parser keeps 100 symbols."""

MOST_BRANCHES = 100
"""In a query, a tree with more branches is joined as tables, where the database has no lists."""

MOST_UNLISTED = 30
"""In a query, the leaf of a tree with more branches is found in lists, where the database has them."""

MOST_JOINED = 40
"""Tables that one step joins: MariaDB takes 61."""

MOST_INSERTED = 1_000
"""Rows that one INSERT brings: SQL Server takes no more."""


def expression(outputs: Mapping[str, Term], dialect: Dialect, *, short: bool = False) -> str:
    """A line for each output, an expression under its name; refused where it is too long, or not `short`."""
    texts = expressions(outputs, dialect, short=short)
    return ",\n".join(f"{text} AS {quoted(name, dialect)}" for name, text in texts.items())


def expressions(outputs: Mapping[str, Term], dialect: Dialect, *, short: bool = False) -> dict[str, str]:
    """An expression for each output, by name."""
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
    outside = SideTables(name)
    text = statement(*_query(outputs, dialect, table, kept, outside))
    if dialect.is_too_long(text) and not dialect.look_up:
        outside = SideTables(name, lookups=True)
        text = statement(*_query(outputs, dialect, table, kept, outside))
    made: list[str] = []
    for kind, (columns, keys) in TABLES.items():
        if rows := outside.rows[kind]:
            typed = [f"{column} {type_name(of, dialect)}" for column, of in columns.items()]
            own, key = quoted(f"{name}_{kind}", dialect), ", ".join([*columns][:keys])
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
    outside: SideTables | None = None,
) -> tuple[list[str], str]:
    """The steps of a query, and its last SELECT."""
    if kept is None and not dialect.excluding:
        raise UsageError(
            f"a query in {dialect.name} cannot give all columns but those of its own steps",
            hint="name those to pass through: --keep A,B, or --keep none",
        )
    outputs = by_lists(outputs, MOST_UNLISTED) if dialect.look_up else outputs
    outputs = by_look_ups(outputs) if dialect.slow_cases else outputs
    trees = [
        tree
        for tree in tree_paths(outputs.values(), MOST_BRANCHES)
        if (dialect.can_join or (outside is not None and not has_texts(tree)))
        and not (dialect.look_up and is_list(tree))
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
    apart = [*trees, *(one for one in bottom_up(outputs.values()) if id(one) in sums or isinstance(one, Codes))]
    if outside is not None and dialect.crossed:
        apart += outputs.values()  # the last step gives all columns but some, and a list would be one
    levels = steps(outputs.values(), [*apart, *too_deep(outputs.values(), DEEPEST, [*trees, *chain(*sums.values())])])
    asked = _last_asked(levels, list(outputs.values()))
    ctes: list[str] = []
    carried: list[Term] = []
    for place, members in enumerate(levels):
        for group in _groups(members, tables_of):
            added, tables = writer.named(group, trees)
            selected = [*passed, *(writer.names[id(one)] for one in carried)]
            before, source = source, f"{writer.stem}step_{len(ctes)}"
            ctes.append(f"{source} AS (\n{_step(writer, before, selected, added, tables)}\n)")
            carried += group if kept is not None else []
        carried = [one for one in carried if asked.get(id(one), 0) > place]
    if outside is not None and outside.rows["lists"]:
        of_lists = quoted(f"{outside.name}_lists", dialect)
        ctes.insert(0, f"{writer.lists} AS (\nSELECT {dialect.gathered} AS numbers\nFROM {of_lists}\n)")
    # What the query gives.
    if kept is None and ctes:
        chosen = [exp.Star(except_=[exp.Var(this=name) for name in writer.names.values()]).sql(dialect.name)]
    columns = ",\n".join(
        [*chosen, *(f"{writer.output(term)} AS {quoted(name, dialect)}" for name, term in outputs.items())]
    )
    return ctes, f"SELECT {columns}\nFROM {source} AS {ROWS}"


def _step(writer: Writer, source: str, passed: Sequence[str], added: Sequence[str], tables: Sequence[str]) -> str:
    """A SELECT of the columns of the step before that are passed on, and those that are added."""
    dialect = writer.dialect
    if (width := len(passed) + len(added)) > dialect.most_columns:
        most = f"{dialect.name} takes {dialect.most_columns:,}"
        raise UsageError(
            f"a step of the query would have {width:,} columns, and {most}",
            hint="export it to ONNX, or fit one with fewer parts, as clusters or classes",
        )
    columns = ", ".join([*(f"{ROWS}.{name}" for name in passed), *added])
    crossed = f"CROSS JOIN {writer.lists}" if dialect.crossed and f"{writer.lists}." in columns else ""
    return "\n".join(filter(None, [f"SELECT {columns}", f"FROM {source} AS {ROWS}", crossed, *tables, dialect.fence]))


def table_name(table: str, dialect: Dialect) -> str:
    """The name of a table, perhaps with a schema, as the user gave it; quoted where it has to be.

    Its parts are names and nothing else: what would be an operator, a comment or a second statement is quoted.
    """
    ends = quotes(dialect)
    in_quotes = (
        f"{start}(?:[^{end}]|{end}{end})+{end}"
        for start, end in ((re.escape(start), re.escape(end)) for start, end in ends.items())
    )
    part = f"(?:{'|'.join(in_quotes)}|[^.{re.escape(''.join(ends))}][^.]*)"
    if not table.isprintable() or not re.fullmatch(rf"{part}(?:\.{part})*", table):
        raise UsageError(f"--table {table!r} is no name of a table", hint="put a name that has a dot in quotes")
    return ".".join(_part_of_name(found, ends, dialect) for found in re.findall(rf"{part}(?=\.|$)", table))


def _part_of_name(given: str, ends: Mapping[str, str], dialect: Dialect) -> str:
    if (end := ends.get(given[0])) is not None:
        return quoted(given[1:-1].replace(2 * end, end), dialect)
    if not re.fullmatch(r"[^\W\d]\w*", given):
        return quoted(given, dialect)
    return str(exp.Identifier(this=given, quoted=False).sql(dialect=dialect.name, identify="safe"))


def check(
    outputs: Mapping[str, Term],
    dialect: Dialect,
    rows: Sequence[Mapping[str, float | str | bool | None]],
    expected: Mapping[str, Sequence[float | None]],
) -> str:
    """A statement that brings its own rows and gives those with other outputs than expected.

    No value of the first row may be missing: databases take the types from there.
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
    """A SELECT that gives these rows."""
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
    """The literal of a value in a column."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value)) if dialect.truth.startswith("{}") else str(value).upper()
    return dialect.literal(value) if isinstance(value, str) else cast(number(value), dialect)


def stem_of(known: Sequence[str]) -> str:
    """The beginning of the names of steps, which no column has."""
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
    """The terms of a level in steps that do not join too many tables; `tables_of` terms, by identity, need several."""
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


_TYPES = {"number": "double", "category": "text", "whole": "bigint", "boolean": "boolean"}
_RELATION = "calcli_relation"


def view(outputs: Mapping[str, Term], dialect: Dialect, table: str, kept: Sequence[str] | None, name: str) -> str:
    """A statement that makes a view of the query."""
    return f"{dialect.view} {quoted(name, dialect)} AS\n{query(outputs, dialect, table, kept)}"


def functions(outputs: Mapping[str, Term], dialect: Dialect) -> str:
    """A function of the columns that are read, for each output, under its name."""
    if not dialect.function:
        raise UsageError(f"{dialect.name} has no functions of an expression", hint="it has views: --shape view")
    read = sorted(inputs(outputs.values()))
    names = [quoted(name, dialect) for name, _ in read]
    parameters = ", ".join(f"{quoted(name, dialect)} {type_name(_TYPES[role], dialect)}" for name, role in read)
    made = []
    for name, text in expressions(outputs, dialect, short=True).items():
        if "$" in dialect.function and "$$" in text:
            raise UsageError(f"a level has $$, which ends a function in {dialect.name}", hint="--shape view")
        made.append(
            dialect.function.format(
                name=quoted(name, dialect), names=", ".join(names), parameters=parameters, expression=text
            )
        )
    return ";\n".join(made)


def dbt(outputs: Mapping[str, Term], dialect: Dialect, kept: Sequence[str] | None, name: str, comment: str) -> str:
    """A macro of dbt, which makes the query that reads a relation."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise UsageError(f"{name!r} is no name of a macro in dbt", hint="name it: --column NAME")
    text = comment + query(outputs, dialect, _RELATION, kept)
    if re.search(r"\{%-?\s*endraw", text):
        raise UsageError("a name or level holds {% endraw %}, where dbt begins to read again", hint="rename it")
    source = f"FROM {table_name(_RELATION, dialect)} AS {ROWS}"
    text = text.replace(source, f"FROM {{% endraw %}}{{{{ relation }}}}{{% raw %}} AS {ROWS}")
    return f"{{% macro {name}(relation) -%}}\n{{% raw %}}{text}{{% endraw %}}\n{{%- endmacro %}}"
