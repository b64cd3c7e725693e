"""The inner loops of MBCT as machine code, and the arrays that they work on.

A row has a code for each feature, a probability p, a label y and perhaps a weight w. Code 0 of a feature stands for
whatever is rare or was never seen, then come 1, 2, .. A cell is one code of one feature: number
``offsets[feature] + code`` of a histogram. A split of a node has a branch for each code with enough rows there, and
branch 0, the rest, for all others. The facts of some rows are sums over them, see `split_search`.

- All sums are exact (`calcli.numeric.bins`), so they are the same bit for bit in whatever order rows, blocks of rows
  and threads are added up.
- Indices are unsigned where they are looked up in tables: for signed ones numba tests each time for negative ones.
- A kernel calls none of another file: numba's cache of compiled code watches the file of a kernel alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray

Codes = NDArray[np.uint16]
Flags = NDArray[np.uint8]
Words = NDArray[np.uint64]
Places = NDArray[np.int64]
Table = NDArray[np.uint32]

ODDS, LINEAR = 0, 1

SUMS = 5
MASS, POSITIVE, COUNT, FACTS = 5, 6, 7, 8
"""The columns of facts: five sums, then the weight of the rows, that of the positive ones, and the number of rows."""

BRANCHES, ERROR, SQUARE, LOSS, OUTCOMES = 0, 1, 2, 3, 4
"""The columns of outcomes: the number of branches (0: no split), and what `split_search.judge` finds."""


class RowArrays(NamedTuple):
    """Rows, each a line of 64-bit words, so that it is read and moved as one.

    First comes the probability, as a negative number where the label is 1, then the weight if rows have weights.
    """

    words: Words
    codes: Codes
    """The rest of the words, as numbers of 16 bits."""

    weighted: bool


class Cells(NamedTuple):
    """The cells of some rows; the same whatever order the rows are in and whatever becomes of their probabilities."""

    offsets: Table
    """The first cell of each feature, and the end of the last one's."""

    grids: FloatArray
    """What makes sums over the rows exact: of terms up to their weights, and up to the squares of those."""

    weighted: bool
    """Whether the rows have weights."""

    def histogram(self, *, squares: bool) -> FloatArray:
        """Zeros for `split_search.add_to_histogram`: a line for each cell, or two."""
        return np.zeros((int(self.offsets[-1]), 8 if squares or self.weighted else 4))


class Scratch(NamedTuple):
    """Memory for `split_search.search_nodes`, an entry for each cell: to make it there would take longer to compile."""

    seen: Flags
    """All 0, before and after."""

    every: Table
    """The numbers of all cells."""

    touched: Table
    heavy: Table
    """`touched`, `heavy`: anything."""

    @classmethod
    def of(cls, cells: int) -> Scratch:
        return cls(np.zeros(cells, np.uint8), np.arange(cells, dtype=np.uint32), *np.zeros((2, cells), np.uint32))


class Rule(NamedTuple):
    """The part of `nodes.Growth` that kernels need; `squares`: whether all five sums are needed or two."""

    link: int
    squares: bool
    min_weight: float
    shrink: float


class Splits(NamedTuple):
    """Nodes, their branches by each feature, and the loss of each of these splits."""

    unsplit: FloatArray
    """The outcome for each node without a split, (nodes, `OUTCOMES`)."""

    outcome: FloatArray
    """The same for each node split by each feature, (nodes, features, `OUTCOMES`)."""

    base: Places
    """The branches of each of these splits are the entries of `code` and `facts` from here on, the rest first."""

    code: Codes
    facts: FloatArray
    """`code`, `facts`: of each branch: which code leads to it (0 for a rest), and the facts of its rows."""

    @classmethod
    def joined(cls, parts: Sequence[Splits]) -> Splits:
        if len(parts) == 1:
            return parts[0]
        ends = np.cumsum([len(part.code) for part in parts])
        moved = [part._replace(base=part.base + end - len(part.code)) for part, end in zip(parts, ends, strict=True)]
        return cls(*(np.concatenate(arrays) for arrays in zip(*moved, strict=True)))


class Children(NamedTuple):
    """The children of nodes that are split by `feature`: number ``first`` .. ``stop - 1``.

    `code` has an entry for each child, rising within a node: the code that leads to it; 0 for a rest, which is first.
    """

    feature: Places
    first: Places
    stop: Places
    code: Codes

    @classmethod
    def same(cls, nodes: int) -> Children:
        """Of each node one child, which has all its rows."""
        each, nothing = np.arange(nodes), np.zeros(nodes, dtype=np.int64)
        return cls(nothing, each, each + 1, nothing.astype(np.uint16))

    @property
    def table(self) -> Table:
        """A table of branches by code, all 0, long enough for the children of any of the nodes."""
        return np.zeros(int(self.code.max(initial=0)) + 2, dtype=np.uint32)

    def of(self, nodes: slice) -> Children:
        return Children(self.feature[nodes], self.first[nodes], self.stop[nodes], self.code)

    def alone(self, node: int) -> Children:
        """Those of one node, numbered from 0 on."""
        code = self.code[self.first[node] : self.stop[node]]
        return Children(self.feature[node : node + 1], np.array([0]), np.array([len(code)]), code)
