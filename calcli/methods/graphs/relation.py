"""Which rows are linked: those with the same value of a column, the nearest by some numbers, or the edges of a list.

The nearest rows are exactly k where there are as many, ties to the lower row. SciPy's tree leaves open which of several
equally near rows it gives, and slows down where many rows share a place. So it is built on the distinct places and
asked for enough of them that all ties are among the answers; the distances are then computed anew, and the rows behind
the places are ranked by distance and number.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import numpy as np

from calcli.batch import Batch, Column, Edges, FloatArray, IntArray, SideInputs
from calcli.errors import DataError, UsageError, unknown_name
from calcli.learners.catboost import most_important
from calcli.methods.base import Params, number, ranges
from calcli.methods.graphs.mixing import Adjacency, Cliques, Graph
from calcli.state import Json

Kind: TypeAlias = Literal["value", "nearest", "edges"]

_TRUTHS = ("false", "true")

_SPARE = 3
"""How many places to ask for beyond those needed if nothing ties."""

_SLACK = 1.0 + 1e-9
"""The tree's distances and ours may round differently."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Which rows are linked."""

    kind: Kind
    """``value``: rows with the same value of the one column. ``nearest``: each row and those nearest to it by the
    columns. ``edges``: the rows of nodes that an edge list links.
    """

    columns: tuple[str, ...] = ()
    count: int = 0
    radius: float | None = None
    """`count`, `radius`: for ``nearest``: how many neighbours, and how far away at most."""

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

    def graph(self, batch: Batch, sides: SideInputs) -> Graph:
        """The graph of these rows."""
        if self.kind == "value":
            levels = self.levels(batch)
            return Cliques(self.groups(batch, levels), len(levels) + 2)
        if self.kind == "nearest":
            return Neighbourhood(self.points(batch), self.count, self.radius).links()
        return links_within(edges_of(sides), node_of(batch))


def choose(batch: Batch, sides: SideInputs, params: Params, seed: int) -> Relation:
    """The relation that the parameter asks for.

    ``auto`` is the edges, if there are some, or else the feature that is the most important to CatBoost (RECAL 3.1).
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
    return _by_column(batch, names[0], params) if kind == "column" else _by_numbers(batch, names, params)


def _by_column(batch: Batch, name: str, params: Params) -> Relation:
    number_column = batch.features[name].role == "number"
    return _by_numbers(batch, (name,), params) if number_column else Relation("value", (name,))


def _by_numbers(batch: Batch, names: tuple[str, ...], params: Params) -> Relation:
    for name in names:
        if batch.features[name].role != "number":
            raise UsageError(
                f"relation=knn: {name!r} is not numeric, so distances cannot be computed",
                hint=f"try: --set relation=column:{name}",
            )
    radius = None if params["radius"] is None else number(params, "radius")
    return Relation("nearest", names, int(number(params, "k")), radius)


class Neighbourhood:
    """Rows as points, with the search for the nearest: at most `count`, and at most `radius` away.

    A row with a missing number has no neighbours.
    """

    def __init__(self, points: FloatArray, count: int, radius: float | None = None) -> None:
        from scipy.spatial import cKDTree

        self.count = count
        self.farthest = np.inf if radius is None else radius**2
        self.points = points
        self.somewhere = np.flatnonzero(np.isfinite(points).all(axis=1))
        self.places, place = np.unique(points[self.somewhere], axis=0, return_inverse=True)
        self.members = _lowest(place.ravel(), self.somewhere, len(self.places), count + 1)
        self.tree = cKDTree(self.places)

    def links(self) -> Adjacency:
        """The graph of these rows: two are linked if either is among the other's nearest."""
        row, near = self._nearest(self.points, np.arange(len(self.points)))
        return Adjacency.both_ways(row, near, len(self.points))

    def links_from(self, points: FloatArray) -> Adjacency:
        """The links of other rows, each to its nearest here."""
        row, near = self._nearest(points, None)
        return Adjacency.of(row, near, len(points))

    def _nearest(self, points: FloatArray, itself: IntArray | None) -> tuple[IntArray, IntArray]:
        """Pairs of a row and one near it; `itself` are the numbers of the rows, if they are rows of this space."""
        asking = np.flatnonzero(np.isfinite(points).all(axis=1))
        pairs: list[tuple[IntArray, IntArray]] = []
        ask = self.count + 1 + _SPARE
        while len(asking) and len(self.places):
            ask = min(ask, len(self.places))
            numbers = None if itself is None else itself[asking]
            ranked, distance, reach = self._ranked(points[asking], numbers, ask)
            last = distance[:, -1]
            # More places might tie with the last neighbour, unless the farthest place is farther, or there is no other.
            settled = (reach > last * _SLACK) | (ask == len(self.places))
            row, column = np.nonzero(settled[:, None] & (distance <= self.farthest) & np.isfinite(distance))
            pairs.append((asking[row], ranked[row, column]))
            asking = asking[~settled]
            ask *= 2
        if not pairs:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.concatenate([row for row, _ in pairs]), np.concatenate([near for _, near in pairs])

    def _ranked(self, points: FloatArray, itself: IntArray | None, ask: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """The nearest rows, their squared distances (infinite for none), and the reach of the search."""
        _, place = self.tree.query(points, k=ask)
        place = place.reshape(len(points), ask)
        distance = _squared(points, self.places, place)
        reach = distance[:, -1]
        row = self.members[place].reshape(len(points), -1)
        far = np.repeat(distance, self.members.shape[1], axis=1)
        gone = row < 0 if itself is None else (row < 0) | (row == itself[:, None])
        far = np.where(gone, np.inf, far)
        order = np.lexsort((row, far), axis=1)[:, : self.count]
        return np.take_along_axis(row, order, axis=1), np.take_along_axis(far, order, axis=1), reach


def _squared(points: FloatArray, places: FloatArray, place: IntArray) -> FloatArray:
    """The squared distances of each point to some places, summed over the columns in their order."""
    total = np.zeros(place.shape)
    for column in range(points.shape[1]):
        total += (points[:, column, None] - places[:, column][place]) ** 2
    return total


def _lowest(place: IntArray, rows: IntArray, places: int, count: int) -> IntArray:
    """The lowest `count` rows at each place, -1 where there are fewer; as many columns as any place fills."""
    order = np.argsort(place, kind="stable")  # rows rise, so they rise at each place
    size = np.bincount(place, minlength=places)
    within = ranges(np.zeros_like(size), size)
    few = within < count
    members = np.full((places, min(count, int(size.max(initial=1)))), -1, dtype=np.int64)
    members[place[order][few], within[few]] = rows[order][few]
    return members


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
    """The rows of `node` that each new row is linked to; a row is never linked to its own node."""
    row = _row_of_node(edges, node)
    source, end = np.concatenate([edges.pairs, edges.pairs[:, ::-1]]).T
    known = (source >= 0) & (row[end] >= 0) & (source != end)
    of_node = Adjacency.of(source[known], row[end[known]], len(edges.nodes) + 1)
    return of_node.take(new.recode(edges.nodes, unseen=-1).astype(np.int64) % (len(edges.nodes) + 1))


def _row_of_node(edges: Edges, node: Column) -> IntArray:
    """The row of each node, -1 for none; the last entry, -1, is for missing nodes, whose place is -1."""
    place = node.recode(edges.nodes, unseen=-1)
    rows = np.flatnonzero(place >= 0)
    count = np.bincount(place[rows], minlength=len(edges.nodes))
    if (count > 1).any():
        name = edges.nodes[int(count.argmax())]
        raise DataError(f"the node {name!r} occurs in {count.max():,} rows", hint="each node must have one row")
    row_of_node = np.full(len(edges.nodes) + 1, -1, dtype=np.int64)
    row_of_node[place[rows]] = rows
    return row_of_node
