"""A graph over rows as lists of neighbours, and its mixing of their values.

A new row joins the graph by links to its own neighbours, in both directions; all other edges stay. Two layers see two
steps far, so that only its neighbours and theirs need to be evaluated. Many new rows are evaluated at once, each as if
it were the only new one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.methods.graphs.scheme import Hidden, Scheme, sums_by

_PAIRS = 1 << 20
"""Pairs of neighbours that are evaluated at a time, to bound the memory."""


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The neighbours of row i are ``ends[start[i]:start[i + 1]]``, in rising order and without repetition."""

    start: IntArray
    ends: IntArray

    def __len__(self) -> int:
        return len(self.start) - 1

    def check(self, rows: int) -> None:
        """A `ValueError` where these are not the neighbours of so many rows."""
        lists = self.start.shape == (rows + 1,) and self.start[0] == 0 and (np.diff(self.start) >= 0).all()
        if not lists or self.ends.shape != (self.start[-1],):
            raise ValueError(f"the neighbours of {rows} rows are not in lists")
        if ((self.ends < 0) | (self.ends >= rows)).any():
            raise ValueError("neighbours are none of the rows")

    @classmethod
    def of(cls, sources: IntArray, ends: IntArray, rows: int) -> Adjacency:
        """From links in any order, each perhaps repeated."""
        width = int(ends.max(initial=0)) + 1
        keys = np.unique(sources * width + ends)
        count = np.bincount(keys // width, minlength=rows)
        return cls(np.concatenate([[0], np.cumsum(count)]).astype(np.int64), keys % width)

    @classmethod
    def both_ways(cls, sources: IntArray, ends: IntArray, rows: int) -> Adjacency:
        """An undirected graph: every edge is a link in each direction, and no row is its own neighbour."""
        apart = sources != ends
        sources, ends = sources[apart], ends[apart]
        return cls.of(np.concatenate([sources, ends]), np.concatenate([ends, sources]), rows)

    @property
    def degree(self) -> FloatArray:
        return np.diff(self.start).astype(np.float64)

    @property
    def sources(self) -> IntArray:
        """The row that each link starts from."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    def take(self, rows: IntArray) -> Adjacency:
        """The lists of some rows."""
        count = np.diff(self.start)[rows]
        start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        places = np.arange(start[-1]) + np.repeat(self.start[:-1][rows] - start[:-1], count)
        return Adjacency(start, self.ends[places])

    def spread(self, values: FloatArray, scheme: Scheme) -> FloatArray:
        """One mixing of `values`, which has a row for each row of the graph."""
        degree = self.degree
        root = scheme.root(degree)[:, None]
        gathered = sums_by(self.sources, (values * root)[self.ends], len(self))
        return scheme.own(degree)[:, None] * values + scheme.sign * root * gathered


def two_layers_alone(
    graph: Adjacency, values: FloatArray, links: Adjacency, new: FloatArray, scheme: Scheme, hidden: Hidden
) -> FloatArray:
    """`two_layers` for the values of `new` rows, each alone with the rows of `graph` and tied to some by `links`."""
    joined = _Joined(graph, values, scheme)
    output = np.empty(len(new))
    # In blocks whose neighbours form a bounded number of pairs.
    block = np.cumsum(links.degree**2) // _PAIRS
    for rows in np.split(np.arange(len(links)), np.flatnonzero(np.diff(block)) + 1):
        output[rows] = joined.output(links.take(rows), new[rows], hidden)
    return output


class _Joined:
    """A graph that single rows join, with the shared quantities computed once.

    `root` and `own` are those of rows that have one link more, as the neighbours of a new row have; `change` is by how
    much that changes `root`; `gathered` are the sums over neighbours without the new row.
    """

    def __init__(self, graph: Adjacency, values: FloatArray, scheme: Scheme) -> None:
        degree = graph.degree
        self.graph = graph
        self.values = values
        self.scheme = scheme
        self.root = scheme.root(degree + 1.0)
        self.own = scheme.own(degree + 1.0)
        self.change = self.root - scheme.root(degree)
        self.gathered = sums_by(graph.sources, (values * scheme.root(degree)[:, None])[graph.ends], len(graph))
        self.keys = graph.sources * len(graph) + graph.ends

    def output(self, links: Adjacency, new: FloatArray, hidden: Hidden) -> FloatArray:
        row, neighbour = links.sources, links.ends
        own, root = self.scheme.own(links.degree), self.scheme.sign * self.scheme.root(links.degree)
        near = self.root[neighbour]
        first = own[:, None] * new + root[:, None] * sums_by(row, near[:, None] * self.values[neighbour], len(links))
        theirs = hidden(self._of_neighbours(links, new))
        return own * hidden(first) + root * np.bincount(row, near * theirs, minlength=len(links))

    def _of_neighbours(self, links: Adjacency, new: FloatArray) -> FloatArray:
        """The first layer at each neighbour of a new row, with the new row among its own neighbours."""
        row, neighbour = links.sources, links.ends
        around = self.gathered[neighbour] + self._moved(links)
        around += (self.scheme.root(links.degree)[:, None] * new)[row]
        own = self.own[neighbour, None] * self.values[neighbour]
        return own + self.scheme.sign * self.root[neighbour, None] * around

    def _moved(self, links: Adjacency) -> FloatArray:
        """The change of a neighbour's sum: those of its neighbours that the new row links too have a higher degree."""
        # All pairs of a link of the new row and another of its neighbours.
        count = np.diff(links.start)[links.sources]
        link = np.repeat(np.arange(len(links.ends)), count)
        first = np.cumsum(count) - count
        other = links.ends[np.arange(len(link)) - np.repeat(first - links.start[:-1][links.sources], count)]
        # Those that are linked in the graph.
        key = links.ends[link] * len(self.graph) + other
        place = np.searchsorted(self.keys, key)
        linked = np.append(self.keys, -1)[place] == key
        link, other = link[linked], other[linked]
        return sums_by(link, self.change[other, None] * self.values[other], len(links.ends))
