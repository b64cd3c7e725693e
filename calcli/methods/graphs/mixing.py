"""The network that gives each row its temperature, and graphs over rows, by which its layers mix values of linked rows.

The forward pass is NumPy. Each of the network's two parts is one hidden layer and one output, u(x) = relu(x W + b) w.
The part `graph` gets logits mixed by the graph, and its output is mixed again: Kipf's two layers, each a mixing and a
linear map. The part `own` gets the row's own logits, which a mean of neighbours has lost. t = softplus(offset + their
sum), clipped to [0.01, 100].

GCN averages the values of linked rows, the Laplacian takes differences. With A the adjacency of the graph, without
self-loops, and d its degrees, both schemes turn values X of rows into

    own(d) X + sign R A R X,    R the diagonal matrix of root(d).

A graph is held as lists of neighbours, or, where rows with the same value of a column are linked, as cliques, in time
and memory proportional to the rows: no edge of theirs is ever stored.

A new row joins a graph by links to its own neighbours, in both directions; all other edges stay. Two layers see two
steps far, so that only its neighbours and theirs need to be evaluated. Many new rows are evaluated at once, each as if
it were the only new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.methods.base import ranges
from calcli.numeric.bins import totals
from calcli.numeric.links import softplus

HIDDEN = 16
"""Hidden units, as in the paper."""

COOLEST, HOTTEST = 0.01, 100.0
"""Temperatures are clipped to this range."""

Part = Literal["graph", "own"]
PARTS: tuple[Part, ...] = ("graph", "own")

_ROWS = 1 << 13
"""Rows that pass at a time, so that they stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A hidden layer and an output."""

    weight: FloatArray
    bias: FloatArray
    out: FloatArray

    def __call__(self, values: FloatArray) -> FloatArray:
        """One number for each row of `values`.

        No product of matrices: a row's result must not depend, in its last bit, on the rows that come with it.
        """
        output = np.zeros(len(values))
        units = [unit for unit in range(len(self.out)) if self.out[unit] != 0.0]
        for start in range(0, len(values) if units else 0, _ROWS):
            columns = np.ascontiguousarray(values[start : start + _ROWS].T)
            for unit in units:
                hidden = np.full(columns.shape[1], self.bias[unit])
                for column, weight in zip(columns, self.weight[:, unit], strict=True):
                    hidden += weight * column
                output[start : start + _ROWS] += self.out[unit] * np.maximum(hidden, 0.0, out=hidden)
        return output


@dataclass(frozen=True, slots=True)
class Network:
    """The trained network; incoming logits are divided by `scale`, and `offset` is the bias of the output."""

    scale: float
    offset: float
    graph: Layers | None = None
    own: Layers | None = None

    def temperature(self, graph: FloatArray | None, own: FloatArray) -> FloatArray:
        """The temperature of each row, from the output of the graph part (if any) and its own scaled logits."""
        total = np.full(len(own), self.offset)
        if graph is not None:
            total += graph
        if self.own is not None:
            total += self.own(own)
        return np.clip(softplus(total), COOLEST, HOTTEST)

    def to_bytes(self) -> bytes:
        """As a safetensors file."""
        from safetensors.numpy import save

        tensors: dict[str, FloatArray] = {"scale": np.array([self.scale]), "offset": np.array([self.offset])}
        for name, layers in (("graph", self.graph), ("own", self.own)):
            if layers is not None:
                arrays = {"weight": layers.weight, "bias": layers.bias, "out": layers.out}
                tensors |= {f"{name}.{key}": np.ascontiguousarray(array) for key, array in arrays.items()}
        return save(tensors)

    @classmethod
    def from_bytes(cls, content: bytes) -> Network:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            tensors: Mapping[str, FloatArray] = load(content)
        except SafetensorError as error:
            raise ValueError(f"it holds no network: {error}") from None
        parts = {
            name: Layers(*(tensors[f"{name}.{key}"] for key in ("weight", "bias", "out")))
            for name in PARTS
            if f"{name}.out" in tensors
        }
        return cls(float(tensors["scale"][0]), float(tensors["offset"][0]), **parts)


def logits(score: FloatArray) -> FloatArray:
    """A column for each class, with a mean of 0 in every row; (-z/2, z/2) of log-odds z."""
    if score.ndim == 1:
        return np.column_stack([-score / 2.0, score / 2.0])
    centred: FloatArray = score - score.mean(axis=1, keepdims=True)
    return centred


def offset_of(temperature: float) -> float:
    """The output's bias at which every temperature is this one: ln(e^T - 1)."""
    return temperature + float(np.log(-np.expm1(-temperature)))


Hidden: TypeAlias = Callable[[FloatArray], FloatArray]
"""A hidden layer and its output: from a row of values to one number, for each of many rows."""

_PAIRS = 1 << 20
"""Pairs of neighbours that are evaluated at a time, to bound the memory."""

_NUMBERS = 1 << 21
"""How many numbers are in memory at a time when a new row changes every member of its group."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """One of the two schemes."""

    loops: bool
    """Whether every row is its own neighbour too: D^-1/2 (A + I) D^-1/2 X, D the degrees with the loops (Kipf & Welling
    2017). Otherwise X - D^-1/2 A D^-1/2 X, the Laplacian that RECAL prints as equation 3; a row without neighbours
    stays as it is.
    """

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


def two_layers(graph: Graph, values: FloatArray, scheme: Scheme, hidden: Hidden) -> FloatArray:
    """The output of the graph part for each row: a mixing and a linear map, twice."""
    return graph.spread(hidden(graph.spread(values, scheme))[:, None], scheme)[:, 0]


GCN = Scheme(loops=True)
LAPLACIAN = Scheme(loops=False)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The neighbours of row i are ``ends[start[i]:start[i + 1]]``, in rising order and without repetition."""

    start: IntArray
    ends: IntArray

    def __len__(self) -> int:
        return len(self.start) - 1

    def check(self, rows: int) -> None:
        """Raise a `ValueError` unless these are lists of neighbours of so many rows."""
        lists = self.start.shape == (rows + 1,) and self.start[0] == 0 and (np.diff(self.start) >= 0).all()
        if not lists or self.ends.shape != (self.start[-1],):
            raise ValueError(f"the neighbours of {rows} rows are not in lists")
        if ((self.ends < 0) | (self.ends >= rows)).any():
            raise ValueError("neighbours are none of the rows")

    @classmethod
    def of(cls, sources: IntArray, ends: IntArray, rows: int) -> Adjacency:
        """The graph of these links, which may be in any order and repeated."""
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
        return Adjacency(start, self.ends[ranges(self.start[:-1][rows], count)])

    def spread(self, values: FloatArray, scheme: Scheme) -> FloatArray:
        """One mixing of `values`, which has a row for each row of the graph."""
        degree = self.degree
        root = scheme.root(degree)[:, None]
        gathered = sums_by(self.sources, (values * root)[self.ends], len(self))
        return scheme.own(degree)[:, None] * values + scheme.sign * root * gathered


def join_by_links(
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

    `root` and `own` are for rows with one link more, as the neighbours of a new row have; `change` is by how much the
    link changes `root`; `gathered` are the sums over neighbours without the new row.
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
        """The change of a neighbour's sum: its neighbours that the new row links too have a higher degree."""
        # All pairs of a link of the new row and another of its neighbours.
        count = np.diff(links.start)[links.sources]
        link = np.repeat(np.arange(len(links.ends)), count)
        other = links.ends[ranges(links.start[:-1][links.sources], count)]
        # The pairs that are linked in the graph.
        key = links.ends[link] * len(self.graph) + other
        place = np.searchsorted(self.keys, key)
        linked = np.append(self.keys, -1)[place] == key
        link, other = link[linked], other[linked]
        return sums_by(link, self.change[other, None] * self.values[other], len(links.ends))


@dataclass(frozen=True, slots=True)
class Cliques:
    """The group of each row, 0 .. `count` - 1; a group may be empty.

    With self-loops the normalised adjacency of a clique is the mean of the group; without, a row becomes
    n/(n - 1) (v - mean), and stays v where it is alone.
    """

    group: IntArray
    count: int

    def __len__(self) -> int:
        return len(self.group)

    @property
    def size(self) -> FloatArray:
        """How many rows each group has."""
        return np.bincount(self.group, minlength=self.count).astype(np.float64)

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum of `values` over the rows of each group."""
        return sums_by(self.group, values, self.count)

    def spread(self, values: FloatArray, scheme: Scheme) -> FloatArray:
        """One mixing of `values`, which has a row for each row of the graph."""
        size = self.size
        mean = (self.sums(values) / np.maximum(size, 1.0)[:, None])[self.group]
        if scheme.loops:
            return mean
        count = size[self.group][:, None]
        return np.where(count > 1.0, count / np.maximum(count - 1.0, 1.0) * (values - mean), values)


Graph: TypeAlias = Adjacency | Cliques
"""Rows that are linked."""


def join_by_mean(size: FloatArray, sums: FloatArray, group: IntArray, new: FloatArray, hidden: Hidden) -> FloatArray:
    """`two_layers` with self-loops for `new` rows, each alone with its `group`, whose `size` and `sums` are known.

    All rows of a group see the same mean, so the second mixing is of equals.
    """
    return hidden((sums[group] + new) / (size[group] + 1.0)[:, None])


def join_by_members(
    start: IntArray, members: FloatArray, group: IntArray, new: FloatArray, scheme: Scheme, hidden: Hidden
) -> FloatArray:
    """`join_by_mean` without self-loops: the hidden values of all members move with the mean, so a row costs its group.

    The values of the rows of group g are ``members[start[g]:start[g + 1]]``.
    """
    output = np.empty(len(new))
    for which in np.unique(group):
        rows = np.flatnonzero(group == which)
        others = members[start[which] : start[which + 1]]
        for block in np.array_split(rows, 1 + len(rows) * (len(others) + 1) * new.shape[1] // _NUMBERS):
            output[block] = _one_group(others, new[block], scheme, hidden)
    return output


def _one_group(others: FloatArray, new: FloatArray, scheme: Scheme, hidden: Hidden) -> FloatArray:
    """The output for new rows: each is last in a clique of its own, one clique after another."""
    size = len(others) + 1
    values = np.concatenate([np.repeat(others[None], len(new), axis=0), new[:, None, :]], axis=1)
    cliques = Cliques(np.repeat(np.arange(len(new)), size), len(new))
    return two_layers(cliques, values.reshape(-1, new.shape[1]), scheme, hidden)[size - 1 :: size]
