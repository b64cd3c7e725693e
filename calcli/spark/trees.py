"""`fit -m mbct` on a cluster: trees grow level by level, from sums over all rows.

The rows stay on the cluster, as blocks of codes, probabilities so far and labels. For each level the workers sum them
by node and cell, and this machine chooses the splits, both with the code of one machine. These sums are exact
(`calcli.numeric.bins`), so that the trees are those of one machine that holds the rows. Only what is chosen before the
trees grow comes from a sample: which features, the borders of their bins, and the settings that are left open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray, IntArray, spans
from calcli.listener import Listener, stage
from calcli.methods import calibrator, catalog
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import FittedMethod
from calcli.methods.mbct import kernels
from calcli.methods.mbct import level_passes as passes
from calcli.methods.mbct.boosting import fit_trees
from calcli.methods.mbct.coding import Coder
from calcli.methods.mbct.forest import Forest
from calcli.methods.mbct.grow import Tree
from calcli.methods.mbct.kernels import Cells, Children, Rule, Splits, predict, split_search, update
from calcli.methods.mbct.kernels.predict import Walk
from calcli.methods.mbct.level_passes import Growth, Mask, Nodes, Rows, cells_of_sums
from calcli.methods.mbct.mbct import Start, Whole, prepared, rows_of, weighted_rows
from calcli.models.learn import Sampled
from calcli.models.requests import FitRequest
from calcli.numeric.moments import ScoreMoments
from calcli.spark.engine import SparkTable, in_blocks, persisted, sum_of_blocks
from calcli.spark.passes import KeyedRows, outcome
from calcli.spark.sample import draw_sample
from calcli.spark.session import KEY, with_keys
from calcli.state import added
from calcli.tables.binding import bind
from calcli.tables.checks import Count
from calcli.tables.load import load

if TYPE_CHECKING:
    from pyspark import RDD

PLATT = catalog.find("platt")
"""Trees start from it; its sums tell the weight of the rows too."""

MBCT = catalog.find("mbct")

FOLD = "__calcli_fold"
"""The key of a row's fold, beside the key that it is drawn by."""

MOST_SUMS = 1 << 21
"""So many sums at most (16 MB) are made at a time: those of some of the nodes, or of one that has more."""

RENEWED = 32
"""After so many trees the blocks are made anew from the table: Spark must remember how each was made."""


def can_grow(params: Params) -> bool:
    """Whether the loss that a split must lower follows from sums."""
    return params["split_loss"] in ("nll", "mvce")


@dataclass(frozen=True)
class PlanRows:
    """Rows that come to this machine, by which features, borders and settings are chosen, and the fold of each."""

    batch: Batch
    fold: IntArray
    sampled: Sampled

    @classmethod
    def drawn(cls, keyed: SparkTable, rows: KeyedRows, most: int, request: FitRequest) -> tuple[PlanRows, KeyedRows]:
        """So many of the rows at most, and these with their features; there must be more."""
        binding = rows.binding
        twice = with_keys(keyed.rows.withColumnRenamed(KEY, FOLD), [*outcome(binding), FOLD], request.seed + 1)
        sample = draw_sample(twice, keyed.name, most, binding.label, None, request)
        bound = bind(sample.source, replace(request.flags, ignore=(*request.flags.ignore, FOLD)))
        request.check_installed(request.sides.roles, len(bound.features))
        binding = replace(binding, features=bound.features, dropped=bound.dropped, notes=bound.notes)
        if not binding.features:
            raise calibrator.no_features(MBCT)
        loaded = load(sample.source, binding, features=True, bad_rows="null", check_scale=False)
        key = sample.source.raw.select(FOLD).collect().to_series().to_numpy()
        key = key if loaded.row_numbers is None else key[loaded.row_numbers]
        assert rows.folds is not None
        assert sample.sampled is not None
        return cls(loaded.batch, rows.folds.of(key), sample.sampled), replace(rows, binding=binding, features=True)


def grown(
    keyed: SparkTable,
    rows: KeyedRows,
    sample: PlanRows,
    params: Params,
    seed: int,
    listener: Listener,
    sums: Sums,
    without: int | None,
) -> FittedMethod:
    """mbct, fitted on the rows of all folds but one; `sums` are those of `PLATT` over these rows."""
    begun = calibrator.finish(PLATT, sums, {}, classes=2)
    start = Start(begun.state.number("a"), begun.state.number("b"))
    weights = ScoreMoments.of(sums.arrays)
    raw = params["start"] == "raw"
    whole = Whole(weights.weight, weights.weight_positive, Start(1.0, 0.0) if raw else start)
    kept = slice(None) if without is None else sample.fold != without
    with stage(listener, "choosing the settings of mbct"):
        plan, _ = prepared(sample.batch.take(kept), params, seed, whole)
    with stage(listener, "growing trees on Spark"):
        blocks = in_blocks(
            keyed.rows, rows.reading().columns, partial(_tree_rows, rows, plan.start, plan.coder, without)
        )
        table = BlockRows(blocks, plan.coder.offsets, plan.growth)
        try:
            trees = fit_trees(table, plan.growth, plan.trees)
        finally:
            table.blocks.unpersist()
    return replace(begun, spec=MBCT, state=plan.state(trees, params))


def _tree_rows(
    rows: KeyedRows, start: Start, coder: Coder, without: int | None, frames: Iterator[pl.DataFrame]
) -> Iterator[Rows]:
    """On a worker, the rows of one task as trees see them, without those of a fold."""
    for chunk in rows.reading().good_rows(frames, Count("the table", keep_going=True)):
        batch, folds = rows.encoded(*chunk)
        kept = weighted_rows(batch if without is None else batch.take(folds != without))
        if len(kept):
            yield rows_of(kept, start, coder)


@dataclass(eq=False)
class BlockRows:
    """`grow.TreeRows` on a cluster, for split losses that follow from sums."""

    blocks: RDD[Rows]
    """The rows as the trees so far have calibrated them."""

    offsets: kernels.Places
    growth: Growth
    facts: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self._first, self._walks = self.blocks, list[Walk]()
        self.blocks = persisted(self.blocks)
        mass, squares, weighted = sum_of_blocks(self.blocks, _weights).tolist()
        self._cells = cells_of_sums(self.offsets, mass, squares, weighted=weighted > 0)
        self._mass: float = mass
        self._begin()

    def search(self, levels: Sequence[Tree], nodes: Nodes, heavy: Mask) -> Splits:
        rule, searched = self.growth.rule, nodes.take(heavy)
        if len(levels) == 1:
            return passes.splits_of(self._root, nodes, self._cells, rule)
        tree = Tree.of_levels(levels)
        numbers = len(tree) - len(nodes) + np.flatnonzero(heavy)
        found: list[Splits] = []
        for part in spans(len(numbers), max(1, MOST_SUMS // self._root.size)):
            adding = partial(_by_node, Forest.of([tree], rule.link, 1.0).walk, numbers[part], self._cells, rule)
            histograms = sum_of_blocks(self.blocks, adding)
            each = (searched.take(slice(place, place + 1)) for place in range(part.start, part.start + len(histograms)))
            found += [passes.splits_of(*pair, self._cells, rule) for pair in zip(histograms, each, strict=True)]
        return Splits.joined(found)

    def split(self, nodes: Nodes, made: Mask, children: Children, into: Nodes, *, last: bool) -> None:
        """Each pass walks through the levels so far."""

    def calibrate(self, tree: Tree) -> None:
        link, before = self.growth.link, self.blocks
        self._walks.append(Forest.of([tree], link, self.growth.rate).walk)
        anew = len(self._walks) % RENEWED == 0
        blocks, walks = (self._first, self._walks) if anew else (before, self._walks[-1:])
        self.blocks = persisted(blocks.map(partial(_calibrated, list(walks), link)))
        self._begin()
        before.unpersist()

    def loss(self) -> float:
        if self.growth.split_loss == "nll":
            return self._log_loss / self._mass
        return passes.loss_of_facts(self.facts, self.growth)

    def _begin(self) -> None:
        """Facts, loss and cells of all rows as they are."""
        total = sum_of_blocks(self.blocks, partial(_at_root, self._cells, self.growth.rule))
        self.facts, self._log_loss, self._root = total.facts, math.fsum(total.losses), total.histogram


def _weights(blocks: Iterable[Rows]) -> FloatArray:
    """On a worker, the sums of the weights and of their squares, and how many blocks have any."""
    total = np.zeros(3)
    for rows in blocks:
        total += rows.mass, float(rows.weights @ rows.weights), rows.weighted
    return total


@dataclass
class _Root:
    """Sums over rows, and the log-loss of each block: sums of these would depend on their order."""

    facts: FloatArray
    losses: list[float]
    histogram: FloatArray

    __add__ = added


def _at_root(cells: Cells, rule: Rule, blocks: Iterable[Rows]) -> _Root:
    """On a worker, the sums over the rows of one task."""
    total = _Root(np.zeros(kernels.FACTS), [], cells.histogram(squares=rule.squares))
    for rows in blocks:
        total.facts += passes.totals(rows, cells, rule.link, squares=rule.squares)
        total.losses.append(update.log_loss(rows.arrays))
        split_search.add_to_histogram(rows.arrays, 0, len(rows), cells, rule, total.histogram)
    return total


def _by_node(walk: Walk, numbers: kernels.Places, cells: Cells, rule: Rule, blocks: Iterable[Rows]) -> FloatArray:
    """On a worker, the sums over the rows of one task by cell, for each of these nodes of the tree that grows."""
    histogram = cells.histogram(squares=rule.squares)
    total = np.zeros((len(numbers), *histogram.shape))
    place = np.full(len(walk.nodes), -1, dtype=np.int32)
    place[numbers] = np.arange(len(numbers))
    for rows in blocks:
        at = place[predict.leaves_of(rows.codes, walk)]
        order = np.argsort(at, kind="stable")[np.count_nonzero(at < 0) :]
        here = rows.take(order)
        ends = np.cumsum(np.bincount(at[order], minlength=len(total)))
        for node, (start, stop) in enumerate(zip([0, *ends.tolist()], ends.tolist(), strict=False)):
            split_search.add_to_histogram(here.arrays, start, stop, cells, rule, total[node])
    return total


def _calibrated(walks: Sequence[Walk], link: int, rows: Rows) -> Rows:
    """On a worker, rows calibrated by more trees."""
    prob = rows.prob
    for walk in walks:
        update.calibrate(prob, walk.pattern[predict.leaves_of(rows.codes, walk)], link, prob)
    rows.put(slice(None), prob, rows.label)
    return rows
