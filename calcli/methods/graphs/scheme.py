"""How a layer of the network mixes the values of linked rows: GCN averages them, the Laplacian takes differences.

With A the adjacency of the graph, without self-loops, and d its degrees, both schemes turn values X of rows into

    own(d) X + sign R A R X,    R the diagonal matrix of root(d).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.numeric.sums import totals

Hidden: TypeAlias = Callable[[FloatArray], FloatArray]
"""A hidden layer and its output: from a row of values to one number, for each of many rows."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """One of the two schemes.

    Attributes
    ----------
    loops
        Whether every row is its own neighbour too: D^-1/2 (A + I) D^-1/2 X, D the degrees with the loops (Kipf &
        Welling 2017). Otherwise X - D^-1/2 A D^-1/2 X, the Laplacian that RECAL prints as equation 3; a row without
        neighbours stays as it is.
    """

    loops: bool

    @property
    def sign(self) -> float:
        return 1.0 if self.loops else -1.0

    def root(self, degree: FloatArray) -> FloatArray:
        """1 / sqrt of the degree with the loops, if there are some; 0 for a row that has none."""
        count = degree + 1.0 if self.loops else degree
        return np.divide(1.0, np.sqrt(count), out=np.zeros(len(count)), where=count > 0)

    def own(self, degree: FloatArray) -> FloatArray:
        """The weight of a row's own value."""
        return 1.0 / (degree + 1.0) if self.loops else np.ones(len(degree))


def sums_by(place: IntArray, values: FloatArray, count: int) -> FloatArray:
    """The sums of the rows of `values` by place, always added in their order."""
    return np.column_stack([totals(place, column, count) for column in values.T])


class Graph(Protocol):
    """Rows that are linked."""

    def spread(self, values: FloatArray, scheme: Scheme) -> FloatArray:
        """One mixing of `values`, which has a row for each row of the graph."""
        ...


def two_layers(graph: Graph, values: FloatArray, scheme: Scheme, hidden: Hidden) -> FloatArray:
    """The output of the graph part for each row: a mixing and a linear map, twice."""
    return graph.spread(hidden(graph.spread(values, scheme))[:, None], scheme)[:, 0]


GCN = Scheme(loops=True)
LAPLACIAN = Scheme(loops=False)
