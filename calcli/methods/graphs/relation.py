"""Which rows are linked: those with the same value of a column, the nearest by some numbers, or the edges of a list."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import numpy as np

from calcli.batch import Batch, Column, Edges, FloatArray, IntArray, SideInputs
from calcli.errors import DataError, UsageError, unknown_name
from calcli.learners.catboost import most_important
from calcli.methods.base import Params, number
from calcli.methods.graphs.adjacency import Adjacency
from calcli.methods.graphs.cliques import Cliques
from calcli.methods.graphs.nearest import Neighbourhood
from calcli.state import Json

Kind: TypeAlias = Literal["value", "nearest", "edges"]

_TRUTHS = ("false", "true")


@dataclass(frozen=True, slots=True)
class Relation:
    """Which rows are linked.

    Attributes
    ----------
    kind
        ``value``: rows with the same value of the one column. ``nearest``: each row and those nearest to it by the
        columns. ``edges``: the rows of nodes that an edge list links.
    count, radius
        For ``nearest``: how many neighbours, and how far away at most.
    """

    kind: Kind
    columns: tuple[str, ...] = ()
    count: int = 0
    radius: float | None = None

    @classmethod
    def from_params(cls, known: Mapping[str, Json]) -> Relation:
        """The inverse of `to_params`."""
        columns, radius = known["columns"], known["radius"]
        names = tuple(map(str, columns)) if isinstance(columns, list) else ()
        far = None if radius is None else float(str(radius))
        return cls(cast("Kind", known["relation"]), names, int(str(known["count"])), far)

    def to_params(self) -> dict[str, Json]:
        """As parameters of a state."""
        return {"relation": self.kind, "columns": list(self.columns), "count": self.count, "radius": self.radius}

    def __str__(self) -> str:
        names = ", ".join(map(repr, self.columns))
        if self.kind == "value":
            return f"the same value of {names}"
        if self.kind == "edges":
            return "the edges of --edges"
        near = "" if self.radius is None else f" within {self.radius:g}"
        return f"each row and its {self.count} nearest{near} by {names}"

    def points(self, batch: Batch) -> FloatArray:
        """Where the rows are, for ``nearest``."""
        return np.column_stack([batch.features[name].values.astype(np.float64) for name in self.columns])

    def levels(self, batch: Batch) -> tuple[str, ...]:
        """The values that occur, for ``value``."""
        column = batch.features[self.columns[0]]
        return column.levels if column.role == "category" else _TRUTHS

    def groups(self, batch: Batch, levels: tuple[str, ...]) -> IntArray:
        """The place of each row's value among `levels`, for ``value``; then come the missing and the unseen ones."""
        column = batch.features[self.columns[0]]
        missing, unseen = len(levels), len(levels) + 1
        if column.role == "category":
            codes = column.recode(levels, unseen=unseen).astype(np.int64)
            return np.where(codes < 0, missing, codes)
        return np.where(np.isnan(column.values), missing, column.values).astype(np.int64)

    def graph(self, batch: Batch, sides: SideInputs) -> Adjacency | Cliques:
        """The graph of these rows."""
        if self.kind == "value":
            levels = self.levels(batch)
            return Cliques(self.groups(batch, levels), len(levels) + 2)
        if self.kind == "nearest":
            return Neighbourhood(self.points(batch), self.count, self.radius).links()
        return links_within(edges_of(sides), node_of(batch))


def choose(batch: Batch, sides: SideInputs, params: Params, seed: int) -> Relation:
    """The relation that the parameter asks for; ``auto`` is the edges, if there are some, or else the feature that is
    the most important to CatBoost (RECAL 3.1).
    """
    text = str(params["relation"])
    kind, _, rest = text.partition(":")
    if sides.edges is not None and kind not in ("auto", "edges"):
        raise UsageError(f"--edges is given, but relation={text} does not use it", hint="try: --set relation=edges")
    # Edges of a list.
    if kind == "edges" or (kind == "auto" and sides.edges is not None):
        if rest:
            raise UsageError(f"relation={text}: files are named by flags", hint="try: --edges FILE --node-id COLUMN")
        edges_of(sides)
        node_of(batch)
        return Relation("edges")
    # The most important feature.
    if text == "auto":
        if not batch.features:
            raise DataError("no column can relate the rows", hint="name some with --features")
        names = most_important(batch.features, batch.labels, batch.weight, count=1, seed=seed)
        return _by_column(batch, names[0], params)
    # Named columns.
    names = tuple(name.strip() for name in next(csv.reader([rest], skipinitialspace=True), []) if name.strip())
    if kind not in ("column", "knn") or not names or (kind == "column" and len(names) > 1):
        raise UsageError(
            f"relation={text} is none of auto, column:NAME, knn:A,B and edges", hint="see: calcli methods recal"
        )
    for name in names:
        if name not in batch.features:
            raise UsageError(f"relation={text}: {unknown_name('feature', name, batch.features)}")
    return _by_column(batch, names[0], params) if kind == "column" else _nearest(batch, names, params)


def _by_column(batch: Batch, name: str, params: Params) -> Relation:
    number_column = batch.features[name].role == "number"
    return _nearest(batch, (name,), params) if number_column else Relation("value", (name,))


def _nearest(batch: Batch, names: tuple[str, ...], params: Params) -> Relation:
    for name in names:
        if batch.features[name].role != "number":
            raise UsageError(
                f"relation=knn: {name!r} is not numeric, so distances cannot be computed",
                hint=f"try: --set relation=column:{name}",
            )
    radius = None if params["radius"] is None else number(params, "radius")
    return Relation("nearest", names, int(number(params, "k")), radius)


def edges_of(sides: SideInputs) -> Edges:
    """The edge list, which must be there."""
    if sides.edges is None:
        raise UsageError("relation=edges needs an edge list", hint="try: --edges FILE --node-id COLUMN")
    return sides.edges


def node_of(batch: Batch) -> Column:
    """The ids of rows, which must have some."""
    if batch.node is None:
        raise UsageError(
            "an edge list links nodes, and no column holds the node ids of the rows", hint="try: --node-id COL"
        )
    return batch.node


def links_within(edges: Edges, node: Column) -> Adjacency:
    """The graph of these rows; edges to other nodes are left out."""
    source, end = _row_of_node(edges, node)[edges.pairs].T
    known = (source >= 0) & (end >= 0)
    return Adjacency.both_ways(source[known], end[known], len(node.values))


def left_out(edges: Edges, node: Column) -> int:
    """The number of edges with an end that is not one of these rows."""
    return int((_row_of_node(edges, node)[edges.pairs] < 0).any(axis=1).sum())


def links_from(edges: Edges, node: Column, new: Column) -> Adjacency:
    """For new rows, the rows of `node` that they are linked to; a row is never linked to its own node."""
    row = _row_of_node(edges, node)
    source, end = np.concatenate([edges.pairs, edges.pairs[:, ::-1]]).T
    known = (source >= 0) & (row[end] >= 0) & (source != end)
    of_node = Adjacency.of(source[known], row[end[known]], len(edges.nodes) + 1)
    return of_node.take(new.recode(edges.nodes, unseen=-1).astype(np.int64) % (len(edges.nodes) + 1))


def _row_of_node(edges: Edges, node: Column) -> IntArray:
    """The row of each node, -1 for none; a last -1 is that of missing nodes, whose place is -1."""
    place = node.recode(edges.nodes, unseen=-1)
    rows = np.flatnonzero(place >= 0)
    count = np.bincount(place[rows], minlength=len(edges.nodes))
    if (count > 1).any():
        name = edges.nodes[int(count.argmax())]
        raise DataError(f"the node {name!r} occurs in {count.max():,} rows", hint="each node must have one row")
    row_of_node = np.full(len(edges.nodes) + 1, -1, dtype=np.int64)
    row_of_node[place[rows]] = rows
    return row_of_node
