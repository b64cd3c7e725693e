"""Steps of many cuts and trees of many branches in SQL: as look-ups in lists, or as tables that are joined.

A tree is a `Switch` of switches and numbers.

A database computes a CASE of thousands of branches for few rows at a time, and a look-up for all of them together. A
tree is walked in as many look-ups as it is deep: at each depth a node has an entry for each code of the column that it
asks for, and the entry is the place of its child.

Where a database has no lists, a CASE of tens of thousands of branches is more than it can read, and trees are joined as
tables. Nodes are numbered level by level, the root being 0. A step down is two joins: the node table has the term that
a node tests and the child for all other keys, the branch table the child for each of its keys. The last join has the
numbers of the leaves. The tables stand within the query, or beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from sqlglot import exp

from calcli.export.dialects import Dialect, type_name
from calcli.export.subexpressions import (
    Codes,
    Entry,
    Numbers,
    bottom_up,
    has_texts,
    is_list,
    numbers_of,
    switches,
    tree_depth,
    tree_paths,
)
from calcli.expressions import MOST, Compared, Condition, Number, Relation, Steps, Switch, Term, choose, least, total

MOST_CUTS = 64
"""Steps with more cuts are found by looking cuts up."""

_AT_ONCE = 8
"""Into so many parts the cuts are cut each time: of more, fewer steps of a query are needed, and more comparisons."""

SPARSEST = 16
"""A tree whose lists would have more entries than so many times its branches stays a tree."""


def by_look_ups(outputs: Mapping[str, Term]) -> dict[str, Term]:
    """The outputs with the place among many cuts found by looking cuts up."""
    made: dict[int, Term] = {}
    for term in bottom_up(outputs.values()):
        made[id(term)] = _looked_up(_remade(term, made))
    return {name: made[id(term)] for name, term in outputs.items()}


def by_lists(outputs: Mapping[str, Term], longer: int) -> dict[str, Term]:
    """The outputs with the leaves of trees of more than `longer` branches found in lists.

    Outer trees come first; then the trees inside the terms that they ask for are the outer ones.
    """
    found = dict(outputs)
    while walked := _walked(tree_paths(found.values(), longer)):
        made = dict(walked)
        for term in bottom_up(found.values()):
            made.setdefault(id(term), _remade(term, made))
        found = {name: made[id(term)] for name, term in found.items()}
    return found


def _walked(trees: Iterable[Switch]) -> dict[int, Term]:
    """The walks of trees, by identity; a tree that is a list already, or asks for a single text, has none."""
    trees = [tree for tree in trees if not is_list(tree) and not (has_texts(tree) and tree_depth(tree) == 1)]
    walker = _Walker.of(trees)
    walks = {id(tree): walker.walk(tree) for tree in trees}
    return {of: walk for of, walk in walks.items() if walk is not None}


@dataclass(frozen=True, slots=True)
class _Walker:
    """The terms that trees ask for, each as a code from 1 on; all unnamed keys have the code after the last."""

    codes: Codes
    """The codes of a row; the first is always 1, for which leaves ask."""

    place: Mapping[int, int]
    """The place of a term in `codes`, by identity, from 1 on."""

    keys: Mapping[int, list[str | int]]
    """The keys of a term, by identity, in the order of their codes."""

    roots: dict[int, Term] = field(default_factory=dict)
    """The code that a root asks for, by the identity of the term, in common for all trees."""

    @classmethod
    def of(cls, trees: Iterable[Switch]) -> _Walker:
        asked: dict[int, Term] = {}
        known: dict[int, set[str | int]] = {}
        for one in {id(one): one for tree in trees for one in switches(tree)}.values():
            asked[id(one.x)] = one.x
            known.setdefault(id(one.x), set()).update(one.keys)
        keys = {of: _in_order(some) for of, some in known.items()}
        codes = (_code(term, keys[of]) for of, term in asked.items())
        return cls(Codes((Number(1.0), *codes)), {of: place for place, of in enumerate(asked, start=2)}, keys)

    def walk(self, tree: Switch) -> Term | None:
        """The number of the leaf of a tree; None if the lists would be long for so few branches."""
        most = SPARSEST * sum(len(one.keys) + 1 for one in switches(tree))
        place = self.roots.setdefault(self.place[id(tree.x)], Entry(Number(float(self.place[id(tree.x)])), self.codes))
        here = self._entries(tree)
        while any(isinstance(one, Switch) for one in here):
            first: dict[int, int] = {}  # the entries before those of a node
            below: list[Term] = []
            for one in here:
                if id(one) not in first:
                    first[id(one)] = len(below)
                    below += self._entries(one)
            if len(below) > most:
                return None
            before = Entry(place, np.array([first[id(one)] for one in here]))
            asked = [self.place[id(one.x)] if isinstance(one, Switch) else 1 for one in here]
            place = before + Entry(Entry(place, np.array(asked)), self.codes)
            here = below
        return Entry(place, np.array([one.value for one in here if isinstance(one, Number)]))

    def _entries(self, node: Term) -> list[Term]:
        """The child for each code; a leaf is its own."""
        if not isinstance(node, Switch):
            return [node]
        children = dict[str | int, Term](zip(node.keys, node.values, strict=True))
        return [*(children.get(key, node.otherwise) for key in self.keys[id(node.x)]), node.otherwise]


def _in_order(keys: set[str | int]) -> list[str | int]:
    """Texts, or all whole numbers from 0 on."""
    numbers = [key for key in keys if isinstance(key, int)]
    return [*range(max(numbers) + 1)] if numbers else sorted(keys, key=str)


def _code(term: Term, keys: list[str | int]) -> Term:
    texts = tuple(key for key in keys if isinstance(key, str))
    if not texts:
        return least(term, Number(float(len(keys)))) + 1.0
    return Switch(term, texts, tuple(Number(code) for code in range(1, len(texts) + 1)), Number(len(texts) + 1.0))


def _remade(part: Any, made: Mapping[int, Term]) -> Any:
    """A term or a condition with the terms inside it replaced by those `made`; itself where none has changed."""
    inside = {field.name: getattr(part, field.name) for field in fields(part)}
    remade = {name: _inside(one, made) for name, one in inside.items()}
    return part if all(remade[name] is one for name, one in inside.items()) else replace(part, **remade)


def _inside(part: Any, made: Mapping[int, Term]) -> Any:
    if isinstance(part, Term):
        return made.get(id(part), part)
    if isinstance(part, Condition):
        return _remade(part, made)
    if isinstance(part, tuple):
        several = tuple(_inside(one, made) for one in part)
        return part if all(new is old for new, old in zip(several, part, strict=True)) else several
    return part


def _looked_up(term: Term) -> Term:
    """The value at the place of x among many cuts, digit by digit from the first, to the base `_AT_ONCE`."""
    if not isinstance(term, Steps) or len(term.cuts) <= MOST_CUTS:
        return term
    if (values := numbers_of(term.values)) is None:
        return term
    digits = math.ceil(math.log(len(values), _AT_ONCE))
    cuts = np.pad(term.cuts, (0, _AT_ONCE**digits - 1 - len(term.cuts)), constant_values=MOST)
    relation: Relation = ">" if term.side == "left" else ">="
    place: Term = Number(0.0)
    for digit in range(digits):
        first, width = np.arange(_AT_ONCE**digit) * _AT_ONCE, _AT_ONCE ** (digits - digit - 1)
        least = [_listed(place, cuts[(first + part) * width - 1].tolist()) for part in range(1, _AT_ONCE)]
        beyond = [choose(Compared(relation, term.x, one), 1.0, 0.0) for one in least]
        place = total([float(_AT_ONCE) * place, *beyond]) if digit else total(beyond)
    return _listed(place, values)


def _listed(place: Term, numbers: list[float]) -> Term:
    """The number at a place, as a switch that ends at the last number that differs from the one before it."""
    *first, last = numbers
    while first and first[-1] == last:
        first.pop()
    return Switch(place, tuple(range(len(first))), tuple(map(Number, first)), Number(last)) if first else Number(last)


Sql: TypeAlias = Any
Written: TypeAlias = Callable[[Term], str]
"""A term as text."""
Row: TypeAlias = tuple[Any, ...]
Columns: TypeAlias = dict[str, str]

NODES: Columns = {"node": "int", "asked": "int", "rest": "int"}
BRANCHES: Columns = {"node": "int", "code": "int", "child": "int"}
LEAVES: Columns = {"node": "int", "value": "double"}
LISTS: Columns = {"place": "int", "value": "double"}

TABLES = {
    "nodes": (NODES, 1),
    "branches": (BRANCHES | {"code": "double"}, 2),
    "leaves": (LEAVES, 1),
    "lists": (LISTS, 1),
}
"""The tables beside a query: the columns with their types, and how many of them are the key."""

ROWS = "calcli_rows"
"""The rows to which tables are joined."""


@dataclass(slots=True)
class _Level:
    """The switches of a depth as (node, tested term, child for other keys), and branches as (node, key, child)."""

    nodes: list[tuple[int, int, int]] = field(default_factory=list)
    branches: list[tuple[int, str | int, int]] = field(default_factory=list)


@dataclass(slots=True)
class SideTables:
    """Tables beside the query that hold all trees; nodes are numbered on from tree to tree.

    With `lookups` they hold the values of look-ups too. Where a database has lists, all lists are one table, one after
    the other.
    """

    name: str
    lookups: bool = False
    rows: dict[str, list[Row]] = field(default_factory=lambda: {kind: [] for kind in TABLES})
    known: int = 0

    def added(self, numbers: Numbers) -> int:
        """Add a list, and return the number of numbers before it."""
        before = len(self.rows["lists"])
        self.rows["lists"] += enumerate(numbers.tolist(), start=before + 1)
        return before

    def source(self, kind: str, name: str, rows: Iterable[Row]) -> Sql:
        """The table of this kind, which has these rows too now, under a name for a query."""
        self.rows[kind] += rows
        return exp.alias_(exp.Table(this=exp.to_identifier(f"{self.name}_{kind}", quoted=True)), name, table=True)


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
    root: Switch, stem: str, written: Written, dialect: Dialect, outside: SideTables | None = None
) -> tuple[list[exp.Join], Sql]:
    """The joins that find the leaf of each row, and the column with its number."""
    first = outside.known if outside else 0
    tested, levels, leaves, known = _tables(root, written, first)
    terms: list[Sql] = [exp.Var(this=written(term)) for term in tested]
    needed: list[exp.Join] = []
    here: Sql = exp.convert(first)

    def join(kind: str, name: str, columns: Columns, rows: list[Row], where: dict[str, Sql]) -> None:
        source = outside.source(kind, name, rows) if outside else _source(name, columns, rows, dialect)
        needed.append(_join(name, source, where))

    for depth, level in enumerate(levels):
        branch = f"{stem}_branch_{depth}"
        if depth == 0:
            ((_, place, root_rest),) = level.nodes
            node, code, rest = here, terms[place], exp.convert(root_rest)
            if outside:  # where all nodes are, though the root needs no join
                outside.rows["nodes"] += level.nodes
        else:
            facts = f"{stem}_node_{depth}"
            join("nodes", facts, NODES, [*level.nodes], {"node": here})
            node, asked, rest = (exp.column(column, facts) for column in ("node", "asked", "rest"))
            code = exp.Case(this=asked, ifs=[exp.If(this=exp.convert(at), true=term) for at, term in enumerate(terms)])
        rows = [(of, exp.Var(this=dialect.key(each)), child) for of, each, child in level.branches]
        texts = any(isinstance(key, str) for _, key, _ in level.branches)
        columns = BRANCHES | ({"code": "text"} if texts else {})
        join("branches", branch, columns, rows, {"node": node, "code": code})
        here = exp.Coalesce(this=exp.column("child", branch), expressions=[rest, here])
    join("leaves", f"{stem}_leaf", LEAVES, leaves, {"node": here})
    if outside:
        outside.known = known
    return needed, exp.column("value", f"{stem}_leaf")


def leaf_join(values: Sequence[float], stem: str, place: str, outside: SideTables) -> tuple[exp.Join, Sql]:
    """The join that finds one of the values by its place among all leaves outside, and the column with it."""
    name = f"{stem}_leaf"
    source = outside.source("leaves", name, enumerate(values, outside.known))
    outside.known += len(values)
    return _join(name, source, {"node": exp.Var(this=place)}), exp.column("value", name)


def _source(name: str, columns: Columns, rows: list[Row], dialect: Dialect) -> Sql:
    """A table of these rows within the query."""
    if dialect.rows:
        kinds = [type_name(kind, dialect) for kind in columns.values()]
        cells = [[str(cell).strip("()") for cell in row] for row in rows]
        text = dialect.literal("[" + ",".join(f"({','.join(row)})" for row in cells) + "]")
        named = ", ".join(f"calcli_row.{place} AS {column}" for place, column in enumerate(columns, start=1))
        return exp.Var(this=f"{dialect.rows.format(columns=named, values=text, types=', '.join(kinds))} AS {name}")
    return exp.values(rows, alias=name, columns=tuple(columns))


def _join(name: str, source: Sql, where: dict[str, Sql]) -> exp.Join:
    equal = [exp.EQ(this=exp.column(column, name), expression=value) for column, value in where.items()]
    return exp.Join(this=source, side="LEFT", on=exp.and_(*equal))
