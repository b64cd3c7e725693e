"""Bins of equal mass of more rows than are held in memory: a histogram over narrow cells of the log-odds, cut between
cells.

All rows of a cell are in one bin. Where an exact edge lies inside a cell, some of its rows are in the wrong bin. With
S_b the sum of w (p - y) over the rows of a bin, the calibration error is sum |S_b| / sum w. A group of rows with the
sum s that moves from a bin to another changes it by no more than 2 |s| / sum w, and of any rows of a cell s lies
between -sum w (1 - p) over its positive rows and sum w p over its negative ones. The definition of the metric states
this bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.metrics.additive import Additive, OfProblems, of_problems
from calcli.metrics.base import Definition, Options, Scored
from calcli.metrics.binned import UNBINNED, block_sums, definition_of, edges_of
from calcli.metrics.blocks import Blocks
from calcli.metrics.conventions import convention
from calcli.metrics.ranking import CELLS, CELLS_PER_UNIT, Cells, Merged, cell_of, rounded_up
from calcli.metrics.reduce import Reduction
from calcli.numeric.sums import totals


@dataclass(frozen=True, slots=True)
class Masses:
    """Sums over the rows of each cell.

    Attributes
    ----------
    cells
        The weight of the rows by label, and whether a cell has several probabilities.
    rows
        How many have a positive weight.
    prob
        Sums of w p, of the negative and of the positive rows.
    square
        Sums of w^2.
    heaviest
        The greatest weight of any row.
    """

    cells: Cells
    rows: FloatArray
    prob: FloatArray
    square: FloatArray
    heaviest: float

    def __add__(self, other: Masses) -> Masses:
        merged = Merged(self.cells.cell, other.cells.cell)
        return Masses(
            self.cells + other.cells,
            merged.all(self.rows, other.rows),
            merged.all(self.prob, other.prob),
            merged.all(self.square, other.square),
            max(self.heaviest, other.heaviest),
        )

    @classmethod
    def of(cls, scored: Scored) -> Masses:
        weight = np.ones(len(scored)) if scored.weight is None else scored.weight
        scored = replace(scored, odds=None)
        cell = cell_of(scored)
        of_label = cell + CELLS * scored.label.astype(np.int64, copy=False)
        cells = Cells.of(scored)
        held = cells.cell
        return cls(
            cells,
            totals(cell, (weight > 0).astype(np.float64), CELLS)[held],
            totals(of_label, weight * scored.prob, 2 * CELLS).reshape(2, CELLS)[:, held],
            totals(cell, weight**2, CELLS)[held],
            float(weight.max(initial=0.0)),
        )

    @property
    def blocks(self) -> Blocks:
        """The cells that hold rows as blocks of tied rows, each at its mean probability."""
        filled = self._held
        positive = self.cells.positive[filled]
        weight = positive + self.cells.negative[filled]
        mean = self.prob[:, filled].sum(axis=0) / weight
        prob = np.where(self.cells.mixed[filled], mean, self.cells.lowest[filled])
        return Blocks(prob, self.rows[filled], weight, positive, self.square[filled])

    @property
    def _held(self) -> NDArray[np.bool_]:
        return np.asarray(self.rows > 0)

    def bound(self, options: Options) -> float:
        """An upper bound of the difference between the error of bins cut between cells and of bins cut between rows."""
        filled, blocks = self._held, self.blocks
        mixed = self.cells.mixed[filled]
        if not mixed.any():
            return 0.0
        # Only cells of several probabilities on an edge can have rows in the wrong bin. With unequal weights the place
        # of an edge is itself uncertain, so that all cells near it count.
        cut = np.isin(blocks.prob, edges_of(options, blocks)[1:-1]) & mixed
        if not np.allclose(blocks.square * blocks.rows, blocks.weight**2, rtol=1e-12) or not blocks.even:
            cut |= self._near_cuts(blocks, len(edges_of(options, blocks)) - 1)
        low, high = self.prob[0, filled], self.cells.positive[filled] - self.prob[1, filled]
        return float((low + high + np.maximum(low, high))[cut].sum()) / blocks.total

    def _near_cuts(self, blocks: Blocks, count: int) -> NDArray[np.bool_]:
        """Cells in which an edge may lie whose place depends on how the weight is spread over the rows of a cell.

        Rows stand at the middles of their weights, between the middles of the first and the last one: an edge is
        nowhere further than two of the greatest weights from its share of all.
        """
        end = np.cumsum(blocks.weight)
        start = end - blocks.weight
        near = np.zeros(len(end), dtype=np.bool_)
        for share in np.arange(1, count) / count * blocks.total:
            near |= (end >= share - 2.0 * self.heaviest) & (start <= share + 2.0 * self.heaviest)
        return near


def _value(masses: Masses, options: Options) -> float | None:
    blocks = masses.blocks
    return block_sums(blocks, options).norm(1.0) if len(blocks.prob) else None


def _floor(masses: Masses, options: Options) -> float:
    return block_sums(masses.blocks, options).floor


def _mass_sums(
    reduction: Reduction, floor: Callable[[Masses, Options], float] | None = None
) -> Additive[OfProblems[Masses]]:
    def definition(scores: Sequence[OfProblems[Masses]], options: Options) -> Definition:
        bound = max((part.bound(options) for score in scores for part in score.parts if part.rows.any()), default=0.0)
        text = f"histogram: cut between log-odds 1/{CELLS_PER_UNIT} apart, right to {rounded_up(bound)}"
        return replace(definition_of(scores[0], options, 1.0, reduction), approximation=text)

    return of_problems(reduction, lambda one, _: Masses.of(one), _value, definition, UNBINNED, floor)


ECE_MASSES, CLASSWISE_MASSES = _mass_sums("binned", _floor), _mass_sums("each")


def cuts_between_rows(options: Options) -> bool:
    """Whether the bin of a row depends on the cuts alone, so that cells suffice."""
    rule = convention(options.convention)
    return rule.side != "truncated" and rule.least == "kept" and not rule.last_own
