"""Trees in SQL as tables that are joined: a CASE of tens of thousands of branches is more than a database can read.

A tree is a `Switch` of switches and numbers. Its nodes are numbered level by level, the root being 0. A step down is
two joins: the node table has the term that a node tests and the child for all other keys, the branch table the child
for each of its keys. The last join has the numbers of the leaves. The tables stand within the query, or beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeAlias

from sqlglot import exp

from calcli.expressions import Number, Switch, Term

Sql: TypeAlias = Any
Written: TypeAlias = Callable[[Term], str]
"""A term as text."""
Key: TypeAlias = Callable[[str | int], str]
"""A key as text."""
Row: TypeAlias = tuple[Any, ...]
Columns: TypeAlias = dict[str, str]

ROWS = "calcli_rows"
"""The rows to which tables are joined."""


@dataclass(slots=True)
class _Level:
    """The switches of one depth as (node, tested term, child for other keys); branches as (node, key, child)."""

    nodes: list[tuple[int, int, int]] = field(default_factory=list)
    branches: list[tuple[int, str | int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Outside:
    """Tables beside the query, which hold all trees: their nodes are numbered on, and joined under other names."""

    name: str
    nodes: list[Row] = field(default_factory=list)
    branches: list[Row] = field(default_factory=list)
    leaves: list[Row] = field(default_factory=list)
    known: int = 0

    def rows(self) -> dict[str, tuple[Columns, int, list[Row]]]:
        """The tables by name: the columns with their types, how many of them are the key, and the rows."""
        branches = {"node": "int", "code": "double", "child": "int"}
        return {
            f"{self.name}_nodes": ({"node": "int", "asked": "int", "rest": "int"}, 1, self.nodes),
            f"{self.name}_branches": (branches, 2, self.branches),
            f"{self.name}_leaves": ({"node": "int", "value": "double"}, 1, self.leaves),
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
    root: Switch, stem: str, written: Written, key_text: Key, outside: Outside | None = None
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
            source = _source(facts, ("node", "asked", "rest"), level.nodes, name and f"{name}_nodes")
            needed.append(_join(facts, source, {"node": here}))
            node, asked, rest = (exp.column(column, facts) for column in ("node", "asked", "rest"))
            code = exp.Case(this=asked, ifs=[exp.If(this=exp.convert(at), true=term) for at, term in enumerate(terms)])
        rows = [(of, exp.Var(this=key_text(each)), child) for of, each, child in level.branches]
        source = _source(branch, ("node", "code", "child"), rows, name and f"{name}_branches")
        needed.append(_join(branch, source, {"node": node, "code": code}))
        here = exp.Coalesce(this=exp.column("child", branch), expressions=[rest, here])
        if outside:
            outside.nodes += level.nodes
            outside.branches += rows
    source = _source(f"{stem}_leaf", ("node", "value"), leaves, name and f"{name}_leaves")
    needed.append(_join(f"{stem}_leaf", source, {"node": here}))
    if outside:
        outside.leaves += leaves
        outside.known = known
    return needed, exp.column("value", f"{stem}_leaf")


def _source(name: str, columns: tuple[str, ...], rows: list[Row], table: str | None) -> Sql:
    """A table of these rows, within the query unless they are in one outside."""
    if table is None:
        return exp.values(rows, alias=name, columns=columns)
    return exp.alias_(exp.Table(this=exp.to_identifier(table, quoted=True)), name, table=True)


def _join(name: str, source: Sql, where: dict[str, Sql]) -> exp.Join:
    equal = [exp.EQ(this=exp.column(column, name), expression=value) for column, value in where.items()]
    return exp.Join(this=source, side="LEFT", on=exp.and_(*equal))
