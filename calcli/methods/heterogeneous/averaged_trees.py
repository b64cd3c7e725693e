"""One tree, or the mean of several: a calibrator of the incoming scores in each cell.

The depth of the trees, the least weight of a cell and the strength of its shrinkage are chosen by cross-validation, no
partition among the candidates. Trees are grown to the full depth once: a shallower tree consists of their upper nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.methods.calibrator import FittedMethod
from calcli.methods.heterogeneous import cell_calibrators as cells
from calcli.methods.heterogeneous.cell_calibrators import Cells
from calcli.methods.heterogeneous.coding import Codes, Coding
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.heterogeneous.tree import Mask, Tree, grow
from calcli.methods.shrinkage import information, own_share
from calcli.methods.spec import MethodSpec
from calcli.methods.trees.held_out_choice import cross_validated
from calcli.numeric.links import probabilities, scores
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import stream
from calcli.numeric.sums import totals
from calcli.state import Json

DEPTHS = (1, 2, 3, 4, 5, 6)
TAUS = (0.0, 3.0, 10.0, 30.0, 100.0)

TREES = 10
"""Of a forest."""

TRIED = 4
"""In cross-validation a forest has at most so many trees."""

FEATURES = 0.5
"""The share of the features that a node of a forest may split on."""


@dataclass(frozen=True)
class Grown:
    """Trees, and the coding of the features that they split on."""

    coding: Coding
    trees: tuple[Tree, ...]


Grower = Callable[[Batch, FittedMethod, float, int, int], Grown]
"""From calibration rows and their shared calibrator: trees of a least cell weight, a depth and a number."""


@dataclass(frozen=True)
class Plan:
    """The number of trees, and the candidate settings: a single one where the user has given it."""

    trees: int
    least: tuple[float, ...]
    depths: tuple[int, ...] = DEPTHS
    taus: tuple[float, ...] = TAUS

    def only(self, least: float, depth: int, tau: float) -> Plan:
        """The plan with nothing left to choose."""
        return Plan(self.trees, (least,), (depth,), (tau,))

    @property
    def settled(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.depths) == len(self.least) == len(self.taus) == 1

    @property
    def settings(self) -> dict[str, Json]:
        """The settings of a settled plan, as parameters."""
        tau = self.taus[0]
        return {"min_rows": self.least[0], "depth": self.depths[0], "tau": "inf" if math.isinf(tau) else tau}


def choose(rows: Batch, method: MethodSpec, plan: Plan, grower: Grower) -> Plan:
    """The least weight of a cell, the depth and tau of least held-out loss; depth 0 where no partition is as good."""
    if plan.settled or max(plan.depths) == 0:
        return plan.only(plan.least[0], plan.depths[0], plan.taus[0])
    candidates = [(plan.least[0], 0, plan.taus[0]), *product(plan.least, plan.depths, plan.taus)]
    place = cross_validated(rows, lambda seen, unseen: np.stack(list(_held_out(seen, unseen, method, plan, grower))))
    return plan.only(*candidates[place])


def fit(rows: Batch, method: MethodSpec, plan: Plan, grower: Grower) -> Partition:
    """The shared calibrator, the trees of a settled plan on all rows, and a calibrator in each of their cells."""
    shared = cells.fit_by_score(method, rows)
    grown = grower(rows, shared, plan.least[0], plan.depths[0], plan.trees) if plan.depths[0] > 0 else None
    if grown is None or all(len(tree.left) == 1 for tree in grown.trees):
        return Partition(False, shared, Coding(()), (), ())
    codes = grown.coding.encode(rows.features)
    fitted = tuple(_cells(tree, codes, rows.bare, shared, plan.taus[0]) for tree in grown.trees)
    return Partition(False, shared, grown.coding, grown.trees, fitted)


def by_labels(partition: Batch | None, seed: int) -> Grower:
    """Trees of the labels of these rows, or of the calibration rows."""

    def grower(rows: Batch, shared: FittedMethod, least: float, depth: int, count: int) -> Grown:
        grown_on = rows if partition is None else partition
        return _grown(grown_on, cells.one_hot(grown_on), count, least, depth, seed)

    return grower


def by_residuals(seed: int) -> Grower:
    """Trees of the difference between the labels of the calibration rows and the shared calibrator."""

    def grower(rows: Batch, shared: FittedMethod, least: float, depth: int, count: int) -> Grown:
        residual = cells.one_hot(rows) - cells.as_table(shared.predict(Batch(rows.score)))
        return _grown(rows, residual, count, least, depth, seed)

    return grower


def _grown(rows: Batch, target: FloatArray, count: int, least: float, depth: int, seed: int) -> Grown:
    """One tree; or a forest, each tree of a bootstrap sample of the rows, each node of a sample of the features."""
    coding, target = Coding.of(rows), cells.in_order(target, rows)
    codes = coding.encode(rows.features)
    if count == 1:
        return Grown(coding, (grow(coding, codes, target, rows.weights, depth=depth, least=least),))
    trees = []
    for index in range(count):
        rng = stream(seed, "forest", index)
        weight = rows.weights * rng.poisson(1.0, len(rows))
        trees.append(grow(coding, codes, target, weight, depth=depth, least=least, draw=_feature_sampler(rng)))
    return Grown(coding, tuple(trees))


def _feature_sampler(rng: np.random.Generator) -> Callable[[int, int], Mask]:
    def draw(nodes: int, features: int) -> Mask:
        rank = rng.random((nodes, features)).argsort(axis=1)
        return rank < max(1, round(FEATURES * features))

    return draw


def _cells(tree: Tree, codes: Codes, rows: Batch, shared: FittedMethod, tau: float) -> Cells:
    """A calibrator for each leaf; the shared one where there are no rows."""
    leaf = tree.leaf_of(codes)
    count = int(tree.is_leaf.sum())
    own = cells.fit_each(shared.spec, rows, leaf, [shared] * count)
    of_rows = information(shared.predict(Batch(rows.score)), rows.weights)
    return cells.summarise(own, own_share(totals(leaf, of_rows, count), tau), rows, leaf)


def _held_out(seen: Batch, unseen: Batch, method: MethodSpec, plan: Plan, grower: Grower) -> Iterator[FloatArray]:
    """The losses of held-out rows: without a partition, then with each of the plan's."""
    # The shared calibrator: its loss, its scores, and the information of the rows that were seen.
    shared = cells.fit_by_score(method, seen)
    yield log_loss(shared.predict(Batch(unseen.score)), unseen.labels)
    of_rows = information(shared.predict(Batch(seen.score)), seen.weights)
    without = scores(shared.predict(Batch(unseen.score)))
    for least in plan.least:
        # One forest of the greatest depth serves all depths, and the calibrators of its cells all tau.
        grown = grower(seen, shared, least, max(plan.depths), min(plan.trees, TRIED))
        codes = grown.coding.encode(seen.features), grown.coding.encode(unseen.features)
        prob = np.zeros((len(plan.depths), len(plan.taus), *unseen.score.shape))
        for tree in grown.trees:
            by_depth = _by_depth(tree, codes, seen.bare, unseen.bare, shared, of_rows, plan.depths)
            for depth, (own, in_cell) in enumerate(by_depth):
                for index, tau in enumerate(plan.taus):
                    mixed = cells.mix(own, without, own_share(in_cell, tau))
                    prob[depth, index] += probabilities(mixed) / len(grown.trees)
        for depth, index in product(range(len(plan.depths)), range(len(plan.taus))):
            yield log_loss(prob[depth, index], unseen.labels)


def _by_depth(
    tree: Tree,
    codes: tuple[Codes, Codes],
    seen: Batch,
    unseen: Batch,
    shared: FittedMethod,
    of_rows: FloatArray,
    depths: Sequence[int],
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """For a tree cut off at each depth: the scores that cells give held-out rows, and the information in their cells.

    `codes` and `of_rows`, the information of each row, are of the rows `seen` and, the codes, of those `unseen`.
    """
    nodes, unseen_nodes, count = tree.path(codes[0]), tree.path(codes[1]), len(tree.left)
    own: list[FittedMethod] = [shared] * count  # by node
    for depth in range(1, max(depths) + 1):
        at = min(depth, len(nodes) - 1)
        new = tree.depth[nodes[at]] == depth  # rows whose node is new: leaves above have their calibrators
        own = cells.fit_each(shared.spec, seen.take(new), nodes[at][new], own)
        if depth in depths:
            cell = unseen_nodes[at]
            yield cells.own_scores(own, unseen, cell), totals(nodes[at], of_rows, count)[cell]
