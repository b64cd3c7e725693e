"""Trees in SQL as tables that are joined: a CASE of tens of thousands of branches is more than a database can read.

A tree is a `Switch` of switches and numbers. Its nodes are numbered level by level, the root being 0. A step down is
two joins: the node table has the term that a node tests and the child for all other keys, the branch table the child
for each of its keys. The last join has the numbers of the leaves. The tables stand within the query, or beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeAlias

from sqlglot import exp

from calcli.export.dialects import Dialect
from calcli.export.lists import Numbers
from calcli.expressions import Number, Switch, Term

Sql: TypeAlias = Any
Written: TypeAlias = Callable[[Term], str]
"""A term as text."""
Row: TypeAlias = tuple[Any, ...]
Columns: TypeAlias = dict[str, str]

NODES: Columns = {"node": "int", "asked": "int", "rest": "int"}
BRANCHES: Columns = {"node": "int", "code": "int", "child": "int"}
LEAVES: Columns = {"node": "int", "value": "double"}
LISTS: Columns = {"place": "int", "value": "double"}

ROWS = "calcli_rows"
"""The rows to which tables are joined."""


@dataclass(slots=True)
class _Level:
    """The switches of one depth as (node, tested term, child for other keys); branches as (node, key, child)."""

    nodes: list[tuple[int, int, int]] = field(default_factory=list)
    branches: list[tuple[int, str | int, int]] = field(default_factory=list)

    @property
    def has_texts(self) -> bool:
        return any(isinstance(key, str) for _, key, _ in self.branches)


@dataclass(slots=True)
class Outside:
    """Tables beside the query, which hold all trees: their nodes are numbered on, and joined under other names.

    With `lookups` they hold the values of look-ups too. Where a database has lists, all lists are one table, one after
    the other.
    """

    name: str
    lookups: bool = False
    nodes: list[Row] = field(default_factory=list)
    branches: list[Row] = field(default_factory=list)
    leaves: list[Row] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    known: int = 0

    def added(self, numbers: Numbers) -> int:
        """Add a list; gives how many numbers are before it."""
        before = len(self.numbers)
        self.numbers += numbers.tolist()
        return before

    def rows(self) -> dict[str, tuple[Columns, int, list[Row]]]:
        """The tables by name: the columns with their types, how many of them are the key, and the rows."""
        return {
            f"{self.name}_nodes": (NODES, 1, self.nodes),
            f"{self.name}_branches": (BRANCHES | {"code": "double"}, 2, self.branches),
            f"{self.name}_leaves": (LEAVES, 1, self.leaves),
            f"{self.name}_lists": (LISTS, 1, list(enumerate(self.numbers, start=1))),
        }


def _tables(root: Switch, written: Written, first: int) -> tuple[list[Term], list[_Level], list[Row], int]:
    """A tree as tables: the distinct terms that its nodes test, its levels, its leaves, and the next free number."""
    tested: dict[int, tuple[int, Term]] = {}
    levels: list[_Level] = []
    leaves: list[Row] = []
    here: list[tuple[int, Term]] = [(first, root)]
    known = first + 1
    while here:
        level, below = _Level(), []
        for node, term in here:
            if isinstance(term, Switch):
                place, _ = tested.setdefault(id(term.x), (len(tested), term.x))
                level.nodes.append((node, place, known))
                children = range(known + 1, known + 1 + len(term.keys))
                level.branches += zip(repeat(node), term.keys, children, strict=False)
                below += list(enumerate((term.otherwise, *term.values), known))
                known += 1 + len(term.keys)
            elif isinstance(term, Number):
                leaves.append((node, exp.Var(this=written(term))))
        if level.nodes:
            levels.append(level)
        here = below
    return [term for _, term in tested.values()], levels, leaves, known


def joins(
    root: Switch, stem: str, written: Written, dialect: Dialect, outside: Outside | None = None
) -> tuple[list[exp.Join], Sql]:
    """The joins that find the leaf of each row, and the column with its number."""
    first, name = (outside.known, outside.name) if outside else (0, None)
    tested, levels, leaves, known = _tables(root, written, first)
    terms: list[Sql] = [exp.Var(this=written(term)) for term in tested]
    needed: list[exp.Join] = []
    here: Sql = exp.convert(first)
    for depth, level in enumerate(levels):
        branch = f"{stem}_branch_{depth}"
        if depth == 0:
            ((_, place, root_rest),) = level.nodes
            node, code, rest = here, terms[place], exp.convert(root_rest)
        else:
            facts = f"{stem}_node_{depth}"
            source = _source(facts, NODES, level.nodes, dialect, name and f"{name}_nodes")
            needed.append(_join(facts, source, {"node": here}))
            node, asked, rest = (exp.column(column, facts) for column in ("node", "asked", "rest"))
            code = exp.Case(this=asked, ifs=[exp.If(this=exp.convert(at), true=term) for at, term in enumerate(terms)])
        rows = [(of, exp.Var(this=_key(each, dialect)), child) for of, each, child in level.branches]
        columns = BRANCHES | ({"code": "text"} if level.has_texts else {})
        source = _source(branch, columns, rows, dialect, name and f"{name}_branches")
        needed.append(_join(branch, source, {"node": node, "code": code}))
        here = exp.Coalesce(this=exp.column("child", branch), expressions=[rest, here])
        if outside:
            outside.nodes += level.nodes
            outside.branches += rows
    source = _source(f"{stem}_leaf", LEAVES, leaves, dialect, name and f"{name}_leaves")
    needed.append(_join(f"{stem}_leaf", source, {"node": here}))
    if outside:
        outside.leaves += leaves
        outside.known = known
    return needed, exp.column("value", f"{stem}_leaf")


def leaf_join(values: Sequence[float], stem: str, place: str, outside: Outside) -> tuple[exp.Join, Sql]:
    """The join that finds one of the values by its place among all leaves outside, and the column with it."""
    outside.leaves += enumerate(values, outside.known)
    outside.known += len(values)
    name = f"{stem}_leaf"
    source = _outside(name, f"{outside.name}_leaves")
    return _join(name, source, {"node": exp.Var(this=place)}), exp.column("value", name)


def _source(name: str, columns: Columns, rows: list[Row], dialect: Dialect, table: str | None) -> Sql:
    """A table of these rows, within the query unless they are in one outside."""
    if table is not None:
        return _outside(name, table)
    if dialect.rows:
        kinds = [str(exp.DataType.build(kind).sql(dialect.name)) for kind in columns.values()]
        cells = [[str(cell).strip("()") for cell in row] for row in rows]
        text = dialect.literal("[" + ",".join(f"({','.join(row)})" for row in cells) + "]")
        named = ", ".join(f"calcli_row.{place} AS {column}" for place, column in enumerate(columns, start=1))
        return exp.Var(this=f"{dialect.rows.format(columns=named, values=text, types=', '.join(kinds))} AS {name}")
    return exp.values(rows, alias=name, columns=tuple(columns))


def _outside(name: str, table: str) -> Sql:
    return exp.alias_(exp.Table(this=exp.to_identifier(table, quoted=True)), name, table=True)


def _key(key: str | int, dialect: Dialect) -> str:
    return dialect.literal(key) if isinstance(key, str) else str(key)


def _join(name: str, source: Sql, where: dict[str, Sql]) -> exp.Join:
    equal = [exp.EQ(this=exp.column(column, name), expression=value) for column, value in where.items()]
    return exp.Join(this=source, side="LEFT", on=exp.and_(*equal))
