"""The inputs of a tree: rows, the nodes of a level, the settings of growth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.mbct import kernels
from calcli.methods.mbct.kernels import Cells, Codes, Flags, Places, RowArrays, Rule
from calcli.numeric import losses, sums

Mask = NDArray[np.bool_]
SplitLoss = Literal["nll", "mvce", "mvce-sampled", "ece", "ece-sweep"]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows as MBCT sees them: codes, the probability so far, the label, and weights or an empty array.

    A buffer of rows: while trees grow, rows move to other places of it, or to those of a second one.
    """

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
    def arrays(self) -> RowArrays:
        """For kernels."""
        return RowArrays(self.codes, self.prob, self.label, self.weight)

    def take(self, chosen: Mask | Places | slice) -> Rows:
        """Some of the rows; a slice shares their memory."""
        weight = self.weight[chosen] if len(self.weight) else self.weight
        return Rows(self.codes[chosen], self.prob[chosen], self.label[chosen], weight)

    def room(self) -> Rows:
        """A second buffer for as many rows."""
        codes, prob, label, weight = self.arrays
        return Rows(np.empty_like(codes), np.empty_like(prob), np.empty_like(label), np.empty_like(weight))


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Nodes of one level: their rows are ``start`` .. ``stop - 1``; their patterns, and the facts of their rows."""

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

    def take(self, chosen: Mask | slice) -> Nodes:
        """Some of the nodes."""
        return Nodes(self.start[chosen], self.stop[chosen], self.pattern[chosen], self.facts[chosen])


@dataclass(frozen=True, slots=True)
class Growth:
    """The settings on which a tree grows.

    Attributes
    ----------
    link
        `kernels.ODDS` or `kernels.LINEAR`.
    split_loss
        The loss that a split must lower.
    depth
        The greatest number of conditions on the way to a leaf.
    min_weight
        beta: the weight that a node must have to be split, and a branch to be one.
    shrink
        lambda or tau: how strongly a pattern is shrunk to its parent's.
    """

    link: int
    split_loss: SplitLoss
    depth: int
    min_weight: float
    shrink: float

    @property
    def rule(self) -> Rule:
        """For kernels; the log-loss needs no sums of squares."""
        return Rule(self.link, self.split_loss != "nll", float(self.min_weight), self.shrink)

    @property
    def identity(self) -> float:
        """The pattern that changes nothing: b = 0 or k = 1."""
        return 0.0 if self.link == kernels.ODDS else 1.0

    @property
    def bin_size(self) -> float:
        """The rows of a bin of the calibration error: the paper wants at least two bins in every leaf."""
        return self.min_weight / 2.0

    def losses(self, outcome: FloatArray, count: FloatArray, mass: FloatArray) -> FloatArray:
        """The split loss of outcomes (`kernels.OUTCOMES`, the last axis) for so many rows of this weight.

        That is the change of the log-loss per row, or MVCE (equation 10) in closed form.
        """
        if self.split_loss != "mvce":
            loss: FloatArray = outcome[..., kernels.LOSS] / mass
            return loss
        bins = np.maximum(1.0, np.floor(count / self.bin_size))
        errors, squares = outcome[..., kernels.ERROR], outcome[..., kernels.SQUARE]
        mean, variance = losses.shuffled_moments(count, mass, errors, squares)
        return losses.shuffled_gap(mean, variance, count, bins)


def cells_of(rows: Rows, offsets: Places) -> Cells:
    """The cells of these rows; `offsets` as in `Cells`."""
    squares = float(rows.weight @ rows.weight) if len(rows.weight) else float(len(rows))
    return cells_of_sums(offsets, rows.mass, squares, weighted=len(rows.weight) > 0)


def cells_of_sums(offsets: Places, mass: float, squares: float, *, weighted: bool) -> Cells:
    """The same, from the sum of the weights and of their squares."""
    return Cells(offsets.astype(np.uint32), np.array([sums.grid(mass), sums.grid(squares)]), weighted)
