"""One tree, or the mean of several: a calibrator of the incoming scores in each cell.

How deep the trees are, how many rows a cell has and how strongly it is drawn to the map of all rows is chosen by
cross-validation, no partition among the candidates. Trees are grown to the full depth once: what they would be had they
stopped earlier is read off their upper nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.methods.calibrator import Calibrator
from calcli.methods.heterogeneous import cell_calibrators as cells
from calcli.methods.heterogeneous.cell_calibrators import Cells
from calcli.methods.heterogeneous.cell_platt import sums
from calcli.methods.heterogeneous.coding import Codes, Coding
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.heterogeneous.tree import Mask, Tree, grow
from calcli.methods.spec import MethodSpec
from calcli.methods.trees.held_out_choice import cross_validated
from calcli.numeric.links import probabilities, scores
from calcli.numeric.losses import log_loss
from calcli.numeric.rng import stream

DEPTHS = (1, 2, 3, 4, 5, 6)
TAUS = (0.0, 3.0, 10.0, 30.0, 100.0)

TREES = 10
"""Of a forest."""

TRIED = 4
"""The most trees that stand for a forest in cross-validation."""

FEATURES = 0.5
"""The share of the features that a node of a forest may split on."""


@dataclass(frozen=True)
class Grown:
    """Trees, and how features become the codes that they ask for."""

    coding: Coding
    trees: tuple[Tree, ...]


Grower = Callable[[Batch, Calibrator, float, int, int], Grown]
"""For calibration rows and their shared map: trees with so much weight in each cell, so deep, so many."""


@dataclass(frozen=True)
class Plan:
    """How many trees, and what is tried: one value each where the user has said it."""

    trees: int
    least: tuple[float, ...]
    depths: tuple[int, ...] = DEPTHS
    taus: tuple[float, ...] = TAUS

    @property
    def settled(self) -> bool:
        return len(self.depths) == len(self.least) == len(self.taus) == 1


def fit(rows: Batch, method: MethodSpec, plan: Plan, grower: Grower) -> Partition:
    """The shared map and the trees that cross-validation asks for."""
    shared = cells.calibrated(method, rows)
    chosen: tuple[float, int, float] | None = None
    if plan.settled:
        chosen = plan.least[0], plan.depths[0], plan.taus[0]
    elif max(plan.depths) > 0:
        chosen = _chosen(rows, method, plan, grower)
    if chosen is None:
        return Partition(False, shared, Coding(()), (), ())
    least, depth, tau = chosen
    grown = grower(rows, shared, least, depth, plan.trees)
    if all(len(tree.left) == 1 for tree in grown.trees):
        return Partition(False, shared, Coding(()), (), ())
    codes = grown.coding.encode(rows.features)
    found = tuple(_cells(tree, codes, rows, shared, tau) for tree in grown.trees)
    return Partition(False, shared, grown.coding, grown.trees, found)


def of_labels(partition: Batch, seed: int) -> Grower:
    """Trees that tell the labels of these rows, whatever the calibration rows are."""
    return lambda rows, shared, least, depth, count: _grown(
        partition, cells.one_hot(partition), count, least, depth, seed
    )


def of_own_labels(seed: int) -> Grower:
    """Trees that tell the labels of the calibration rows."""
    return lambda rows, shared, least, depth, count: _grown(rows, cells.one_hot(rows), count, least, depth, seed)


def of_residuals(seed: int) -> Grower:
    """Trees that tell where the labels of the calibration rows differ from the shared map."""

    def grower(rows: Batch, shared: Calibrator, least: float, depth: int, count: int) -> Grown:
        residual = cells.one_hot(rows) - cells.table(shared.predict(Batch(rows.score)))
        return _grown(rows, residual, count, least, depth, seed)

    return grower


def _grown(rows: Batch, target: FloatArray, count: int, least: float, depth: int, seed: int) -> Grown:
    """One tree; or several, each of rows drawn with replacement and of features drawn for each node."""
    coding = Coding.of(rows)
    codes = coding.encode(rows.features)
    if count == 1:
        return Grown(coding, (grow(coding, codes, target, rows.weights, depth=depth, least=least),))
    trees = []
    for index in range(count):
        rng = stream(seed, "forest", index)
        weight = rows.weights * rng.poisson(1.0, len(rows))
        trees.append(grow(coding, codes, target, weight, depth=depth, least=least, draw=_drawing(rng)))
    return Grown(coding, tuple(trees))


def _drawing(rng: np.random.Generator) -> Callable[[int, int], Mask]:
    def draw(nodes: int, features: int) -> Mask:
        rank = rng.random((nodes, features)).argsort(axis=1)
        return rank < max(1, round(FEATURES * features))

    return draw


def _cells(tree: Tree, codes: Codes, rows: Batch, shared: Calibrator, tau: float) -> Cells:
    """A calibrator for each leaf; the shared one where there are no rows."""
    leaf = tree.leaf_index[tree.path(codes)[-1]]
    count = int(tree.is_leaf.sum())
    own = cells.calibrated_each(shared.spec, rows, leaf, [shared] * count)
    told = cells.told(shared.predict(Batch(rows.score)), rows.weights)
    return cells.measured(own, cells.own_share(sums(leaf, told, count), tau), rows, leaf)


def _chosen(rows: Batch, method: MethodSpec, plan: Plan, grower: Grower) -> tuple[float, int, float] | None:
    """The least weight of a cell, the depth and tau of least held-out loss; None where no partition is as good."""
    candidates = [None, *product(plan.least, plan.depths, plan.taus)]
    return candidates[
        cross_validated(rows, lambda seen, unseen: np.stack(list(_held_out(seen, unseen, method, plan, grower))))
    ]


def _held_out(seen: Batch, unseen: Batch, method: MethodSpec, plan: Plan, grower: Grower) -> Iterator[FloatArray]:
    """The losses of rows that were not seen: without a partition, then with each of the plan's."""
    shared = cells.calibrated(method, seen)
    yield log_loss(shared.predict(Batch(unseen.score)), unseen.labels)
    told = cells.told(shared.predict(Batch(seen.score)), seen.weights)
    without = scores(shared.predict(Batch(unseen.score)))
    for least in plan.least:
        grown = grower(seen, shared, least, max(plan.depths), min(plan.trees, TRIED))
        codes = grown.coding.encode(seen.features), grown.coding.encode(unseen.features)
        prob = np.zeros((len(plan.depths), len(plan.taus), *unseen.score.shape))
        for tree in grown.trees:
            for place, (own, weight) in enumerate(_by_depth(tree, codes, seen, unseen, shared, told, plan.depths)):
                for other, tau in enumerate(plan.taus):
                    mixed = cells.mix(own, without, cells.own_share(weight, tau))
                    prob[place, other] += probabilities(mixed) / len(grown.trees)
        for place, other in product(range(len(plan.depths)), range(len(plan.taus))):
            yield log_loss(prob[place, other], unseen.labels)


def _by_depth(
    tree: Tree,
    codes: tuple[Codes, Codes],
    seen: Batch,
    unseen: Batch,
    shared: Calibrator,
    told: FloatArray,
    depths: Sequence[int],
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """For a tree cut off at each depth: the scores that cells give unseen rows, and the H of the cells."""
    nodes, held, count = tree.path(codes[0]), tree.path(codes[1]), len(tree.left)
    own: list[Calibrator] = [shared] * count
    for depth in range(1, max(depths) + 1):
        at = min(depth, len(nodes) - 1)
        new = tree.depth[nodes[at]] == depth  # what was a leaf before has its calibrator
        own = cells.calibrated_each(shared.spec, seen.take(new), nodes[at][new], own)
        if depth in depths:
            yield cells.own_scores(own, unseen, held[at]), sums(nodes[at], told, count)[held[at]]
