"""What trees are grown from: rows, the nodes that they are in, and the terms of growing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.mbct import kernels
from calcli.methods.mbct.kernels import Codes, Flags, Places, Table
from calcli.numeric import losses, sums

Mask = NDArray[np.bool_]
SplitLoss = Literal["nll", "mvce", "mvce-sampled", "ece", "ece-sweep"]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows as MBCT sees them: codes, the probability so far, the label, and weights or an empty array."""

    codes: Codes
    prob: FloatArray
    label: Flags
    weight: FloatArray

    def __len__(self) -> int:
        return len(self.prob)

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return float(self.weight.sum()) if len(self.weight) else float(len(self))

    @property
    def weights(self) -> FloatArray:
        """Weights, ones where none were given."""
        return self.weight if len(self.weight) else np.ones(len(self))

    @property
    def arrays(self) -> tuple[Codes, FloatArray, Flags, FloatArray]:
        return self.codes, self.prob, self.label, self.weight

    def take(self, chosen: Mask | Places | slice) -> Rows:
        """Some of the rows; a slice shares their memory."""
        weight = self.weight[chosen] if len(self.weight) else self.weight
        return Rows(self.codes[chosen], self.prob[chosen], self.label[chosen], weight)

    def room(self) -> Rows:
        """Memory for as many."""
        return Rows(
            np.empty_like(self.codes), np.empty_like(self.prob), np.empty_like(self.label), np.empty_like(self.weight)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """What stays the same of some rows, in whatever order they are and whatever their probabilities have become.

    Attributes
    ----------
    offsets
        Where the cells of each feature start, and where the last one's end.
    grids
        What makes sums over the rows exact: of terms up to their weights, and up to the squares of those.
    """

    offsets: Table
    grids: FloatArray

    def room(self, *, wanted: int, weighted: bool) -> FloatArray:
        """Memory for `searching.add_cells`."""
        return np.zeros((int(self.offsets[-1]), 8 if wanted > 2 or weighted else 4))


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Nodes of one level: where their rows are, their pattern, and the facts about their rows (`kernels.FACTS`)."""

    start: Places
    stop: Places
    pattern: FloatArray
    facts: FloatArray

    def __len__(self) -> int:
        return len(self.start)

    @property
    def count(self) -> FloatArray:
        """How many rows each has."""
        return self.facts[:, kernels.COUNT]

    @property
    def mass(self) -> FloatArray:
        """The weight of the rows of each."""
        return self.facts[:, kernels.MASS]

    @classmethod
    def joined(cls, parts: Sequence[Nodes]) -> Nodes:
        """All of these; none for none."""
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return cls(none, none, np.zeros(0), np.zeros((0, kernels.FACTS)))
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__match_args__))

    def where(self, chosen: Mask) -> Nodes:
        if chosen.all():
            return self
        return Nodes(self.start[chosen], self.stop[chosen], self.pattern[chosen], self.facts[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """How nodes could be split, and what would become of them.

    Attributes
    ----------
    own
        What `searching.judge_as_is` finds of each node, (nodes, `kernels.FOUND`).
    found
        What `searching.judge` finds of each node split by each feature, (nodes, features, `kernels.FOUND`).
    bases
        Where the branches of each of these splits stand in `code` and `facts`.
    code, facts
        Which code leads to a branch, and the facts about its rows.
    """

    own: FloatArray
    found: FloatArray
    bases: Places
    code: Codes
    facts: FloatArray


@dataclass(frozen=True, slots=True)
class Growth:
    """The terms on which a tree grows.

    Attributes
    ----------
    link
        `kernels.ODDS` or `kernels.LINEAR`.
    split_loss
        The loss that a split must lower.
    depth
        The greatest number of conditions on the way to a leaf.
    least
        beta: the weight that a node must have to be split, and a branch to be one.
    shrink
        lambda or tau: how strongly a pattern is held to its parent's.
    """

    link: int
    split_loss: SplitLoss
    depth: int
    least: float
    shrink: float

    @property
    def wanted(self) -> int:
        """How many of the sums of a branch are needed."""
        return 2 if self.split_loss == "nll" else kernels.SUMS

    @property
    def bin_size(self) -> float:
        """Of the bins of shuffled rows: the paper wants at least two in every leaf."""
        return self.least / 2.0

    def losses(self, found: FloatArray, count: FloatArray, mass: FloatArray) -> FloatArray:
        """The loss of so many rows, of which the last axis of `found` holds what `searching.judge` finds."""
        if self.split_loss != "mvce":
            loss: FloatArray = found[..., kernels.LOSS] / mass
            return loss
        bins = np.maximum(1.0, np.floor(count / self.bin_size))
        mean, variance = losses.shuffled_moments(count, mass, found[..., kernels.ERROR], found[..., kernels.SQUARE])
        return losses.shuffled_gap(mean, variance, count, bins)


def cells_of(rows: Rows, offsets: Places) -> Cells:
    """The cells of some rows."""
    squares = float(rows.weight @ rows.weight) if len(rows.weight) else float(len(rows))
    return Cells(offsets.astype(np.uint32), np.array([sums.grid(rows.mass), sums.grid(squares)]))
