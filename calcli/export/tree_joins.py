"""Trees in SQL as tables that are joined: a CASE of tens of thousands of branches is more than a database can read.

A tree is a `Switch` of switches and numbers. Its nodes are numbered level by level, the root being 0. A step down is
two joins: the node table has the term that a node tests and the child for all other keys, the branch table the child
for each of its keys. The last join has the numbers of the leaves.
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

ROWS = "calcli_rows"
"""The rows to which tables are joined."""


@dataclass(slots=True)
class _Level:
    """The switches of one depth as (node, tested term, child for other keys); branches as (node, key, child)."""

    nodes: list[tuple[int, int, int]] = field(default_factory=list)
    branches: list[tuple[int, str | int, int]] = field(default_factory=list)


def _tables(root: Switch, written: Written) -> tuple[list[Term], list[_Level], list[tuple[int, Sql]]]:
    """A tree as tables: the distinct terms that its nodes test, its levels, and its leaves."""
    tested: dict[int, tuple[int, Term]] = {}
    levels: list[_Level] = []
    leaves: list[tuple[int, Sql]] = []
    here: list[tuple[int, Term]] = [(0, root)]
    known = 1
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
    return [term for _, term in tested.values()], levels, leaves


def joins(root: Switch, stem: str, written: Written, key_text: Key) -> tuple[list[exp.Join], Sql]:
    """The joins that find the leaf of each row, and the column with its number."""
    tested, levels, leaves = _tables(root, written)
    terms: list[Sql] = [exp.Var(this=written(term)) for term in tested]
    needed: list[exp.Join] = []
    here: Sql = exp.convert(0)
    for depth, level in enumerate(levels):
        branch = f"{stem}_branch_{depth}"
        if depth == 0:
            ((_, place, root_rest),) = level.nodes
            node, key, rest = here, terms[place], exp.convert(root_rest)
        else:
            facts = f"{stem}_node_{depth}"
            needed.append(_join(facts, ("node", "asked", "rest"), level.nodes, {"node": here}))
            node, asked, rest = (exp.column(column, facts) for column in ("node", "asked", "rest"))
            key = exp.Case(this=asked, ifs=[exp.If(this=exp.convert(at), true=term) for at, term in enumerate(terms)])
        rows = [(of, exp.Var(this=key_text(each)), child) for of, each, child in level.branches]
        needed.append(_join(branch, ("node", "key", "child"), rows, {"node": node, "key": key}))
        here = exp.Coalesce(this=exp.column("child", branch), expressions=[rest, here])
    needed.append(_join(f"{stem}_leaf", ("node", "value"), leaves, {"node": here}))
    return needed, exp.column("value", f"{stem}_leaf")


def _join(name: str, columns: tuple[str, ...], rows: list[Any], where: dict[str, Sql]) -> exp.Join:
    values = exp.values(rows, alias=name, columns=columns)
    equal = [exp.EQ(this=exp.column(column, name), expression=value) for column, value in where.items()]
    return exp.Join(this=values, side="LEFT", on=exp.and_(*equal))
