"""Growing partitions: one tree, several whose probabilities are averaged, or a boosted sequence of trees.

One tree, or each of several, calibrates the incoming scores in its cells. Trees are grown to the full depth once: a
shallower tree consists of their upper nodes.

In a boosted sequence z_0 is the score that the shared calibrator gives. Tree m is grown on y - p(z_{m-1}); in each of
its cells g calibrates z_{m-1}, shrunk to z_{m-1} itself, and z_m = z_{m-1} + rate (g(z_{m-1}) - z_{m-1}).

The least weight of a cell, the strength of its shrinkage, and the depth or the number of trees are chosen by
cross-validation, no partition among the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product, repeat
from typing import NamedTuple

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.methods.base import information, own_share
from calcli.methods.calibrator import FittedMethod
from calcli.methods.heterogeneous import cells
from calcli.methods.heterogeneous.cells import Cells
from calcli.methods.heterogeneous.coding import Codes, Coding, Mask
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.heterogeneous.tree import Tree, grow
from calcli.methods.spec import MethodSpec
from calcli.methods.trees.held_out_choice import cross_validated, held_out_rows, held_out_splits, least_loss
from calcli.numeric.bins import totals
from calcli.numeric.links import probabilities, scores
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import Split, stream
from calcli.state import Json

DEPTHS = (1, 2, 3, 4, 5, 6)
TAUS = (0.0, 3.0, 10.0, 30.0, 100.0)
FOREST_TREES = 10

TRIED = 4
"""In cross-validation a forest has at most so many trees."""

FEATURES = 0.5
"""The share of the features that a node of a forest may split on."""

BOOSTED_DEPTH, BOOSTED_TREES = 3, 40
BOOSTED_TAUS = (10.0, 30.0)

PATIENCE = 5
"""The search ends after so many boosted trees that do not lower the held-out loss."""


class Setting(NamedTuple):
    """The least weight of a cell, the depth of the trees (0: no partition), and how strongly cells are shrunk."""

    least: float
    depth: int
    tau: float

    @property
    def params(self) -> dict[str, Json]:
        return {"min_rows": self.least, "depth": self.depth, "tau": "inf" if math.isinf(self.tau) else self.tau}


@dataclass(frozen=True)
class AveragedPlan:
    """The number of trees, and the candidate settings: a single one where the user has given it."""

    method: MethodSpec
    """The calibrator of a cell."""

    trees: int
    least: tuple[float, ...]
    depths: tuple[int, ...]
    taus: tuple[float, ...]
    on_labels: bool
    """Whether trees are grown on labels, not on the residuals of the shared calibrator."""

    partition_rows: Batch | None
    """Rows to grow the trees on in place of the calibration rows."""

    seed: int

    def grow(
        self, rows: Batch, shared: FittedMethod, least: float, depth: int, count: int
    ) -> tuple[Coding, list[Tree]]:
        """One tree; or a forest, each tree of a bootstrap sample of the rows, each node of a sample of the features."""
        grown_on = rows if self.partition_rows is None else self.partition_rows
        target = cells.one_hot(grown_on)
        if not self.on_labels:
            target = target - cells.as_table(shared.predict(Batch(rows.score)))
        coding, target = Coding.of(grown_on), cells.in_order(target, grown_on)
        codes, weights = coding.encode(grown_on.features), grown_on.weights
        if count == 1:
            return coding, [grow(coding, codes, target, weights, depth=depth, least=least)]
        trees = []
        for index in range(count):
            rng = stream(self.seed, "forest", index)
            weight = weights * rng.poisson(1.0, len(grown_on))

            def draw(nodes: int, features: int, rng: np.random.Generator = rng) -> Mask:
                rank = rng.random((nodes, features)).argsort(axis=1)
                return rank < max(1, round(FEATURES * features))

            trees.append(grow(coding, codes, target, weight, depth=depth, least=least, draw=draw))
        return coding, trees


def choose(rows: Batch, plan: AveragedPlan) -> Setting:
    """The setting of least held-out loss; one of depth 0 where no partition is as good."""
    candidates = [Setting(*each) for each in product(plan.least, plan.depths, plan.taus)]
    if len(candidates) == 1 or max(plan.depths) == 0:
        return candidates[0]
    candidates.insert(0, candidates[0]._replace(depth=0))
    return candidates[
        cross_validated(rows, lambda seen, unseen: np.stack(list(_losses_by_setting(seen, unseen, plan))))
    ]


def fit_averaged(rows: Batch, plan: AveragedPlan, setting: Setting) -> Partition:
    """The shared calibrator, the trees on all rows, and a calibrator in each of their cells."""
    shared = cells.fit_by_score(plan.method, rows)
    coding, trees = Coding(()), list[Tree]()
    if setting.depth > 0:
        coding, trees = plan.grow(rows, shared, setting.least, setting.depth, plan.trees)
    if all(len(tree.left) == 1 for tree in trees):
        return Partition(False, shared, Coding(()), (), ())
    codes, bare = coding.encode(rows.features), rows.bare
    of_rows = information(shared.predict(Batch(rows.score)), rows.weights)
    fitted = []
    for tree in trees:
        leaf, count = tree.leaf_of(codes), int(tree.is_leaf.sum())
        own = cells.fit_each(plan.method, bare, leaf, [shared] * count)
        fitted.append(cells.summarise(own, own_share(totals(leaf, of_rows, count), setting.tau), bare, leaf))
    return Partition(False, shared, coding, tuple(trees), tuple(fitted))


def _losses_by_setting(seen: Batch, unseen: Batch, plan: AveragedPlan) -> Iterator[FloatArray]:
    """The losses of held-out rows: without a partition, then with each of the plan's."""
    shared = cells.fit_by_score(plan.method, seen)
    without = shared.predict(Batch(unseen.score))
    yield log_loss(without, unseen.labels)
    of_rows, score = information(shared.predict(Batch(seen.score)), seen.weights), scores(without)
    for least in plan.least:
        # One forest of the greatest depth serves all depths, and the calibrators of its cells all tau.
        coding, trees = plan.grow(seen, shared, least, max(plan.depths), min(plan.trees, TRIED))
        codes = [coding.encode(rows.features) for rows in (seen, unseen)]
        prob = np.zeros((len(plan.depths), len(plan.taus), *unseen.score.shape))
        for tree in trees:
            nodes, unseen_nodes = map(tree.path, codes)
            for depth, (at, own) in enumerate(_calibrators_by_depth(tree, nodes, seen.bare, shared, plan.depths)):
                cell = unseen_nodes[at]
                in_cell = totals(nodes[at], of_rows, len(tree.left))[cell]
                of_cell = cells.own_scores(own, unseen.bare, cell)
                for index, tau in enumerate(plan.taus):
                    mixed = cells.mix(of_cell, score, own_share(in_cell, tau))
                    prob[depth, index] += probabilities(mixed) / len(trees)
        for each in prob.reshape(-1, *unseen.score.shape):
            yield log_loss(each, unseen.labels)


def _calibrators_by_depth(
    tree: Tree, nodes: IntArray, rows: Batch, shared: FittedMethod, depths: Sequence[int]
) -> Iterator[tuple[int, list[FittedMethod]]]:
    """The calibrators of a tree cut off at each depth, and the place of its leaves in `nodes`, the path of each row."""
    own = [shared] * len(tree.left)
    for depth in range(1, max(depths) + 1):
        at = min(depth, len(nodes) - 1)
        new = tree.depth[nodes[at]] == depth  # rows whose node is new: leaves above have their calibrators
        own = cells.fit_each(shared.spec, rows.take(new), nodes[at][new], own)
        if depth in depths:
            yield at, own


@dataclass(frozen=True)
class BoostedPlan:
    """The maximum number of trees, and the candidate settings: a single one where the user has given it."""

    method: MethodSpec
    trees: int
    rate: float
    least: tuple[float, ...]
    depth: int
    taus: tuple[float, ...]


@dataclass
class _Boosting:
    """An iterator over trees and their cells, which ends where no split helps; the rows are calibrated by each."""

    rows: Batch
    codes: Codes
    coding: Coding
    shared: FittedMethod
    score: FloatArray
    plan: BoostedPlan
    setting: Setting

    @classmethod
    def start(cls, rows: Batch, shared: FittedMethod, plan: BoostedPlan, setting: Setting) -> _Boosting:
        coding = Coding.of(rows)
        score = scores(shared.predict(Batch(rows.score)))
        return cls(rows, coding.encode(rows.features), coding, shared, score, plan, setting)

    def __iter__(self) -> Iterator[tuple[Tree, Cells]]:
        return self

    def __next__(self) -> tuple[Tree, Cells]:
        # Grow a tree on the residuals.
        prob, weights = probabilities(self.score), self.rows.weights
        target = cells.in_order(cells.one_hot(self.rows) - cells.as_table(prob), self.rows)
        least, depth, tau = self.setting
        tree = grow(self.coding, self.codes, target, weights, depth=depth, least=least)
        if len(tree.left) == 1:
            raise StopIteration
        # Calibrate the current scores in each of its cells.
        leaf, count = tree.leaf_of(self.codes), int(tree.is_leaf.sum())
        current = replace(self.rows.bare, score=self.score)
        own = cells.fit_each(self.shared.spec, current, leaf, [self.shared] * count, rising=True)
        in_cell = totals(leaf, information(prob, weights), count)
        fitted = cells.summarise(own, self.plan.rate * own_share(in_cell, tau), current, leaf)
        self.score = fitted.calibrate(self.score, current, leaf)
        return tree, fitted


def fit_boosted(rows: Batch, plan: BoostedPlan) -> Partition:
    """The shared calibrator and as many trees as cross-validation chooses."""
    shared = cells.fit_by_score(plan.method, rows)
    count, setting = _chosen(rows, plan)
    boosting = _Boosting.start(rows, shared, plan, setting)
    steps = list(islice(boosting, count))
    return Partition(True, shared, boosting.coding, tuple(tree for tree, _ in steps), tuple(own for _, own in steps))


def _chosen(rows: Batch, plan: BoostedPlan) -> tuple[int, Setting]:
    """The number of trees and their setting, by held-out loss."""
    settings = [Setting(least, plan.depth, tau) for least, tau in product(plan.least, plan.taus)]
    splits = held_out_splits(rows)
    no_trees = 0, settings[0]
    if not splits:
        return no_trees
    tested = held_out_rows(rows, splits)
    losses: dict[tuple[int, Setting], FloatArray] = {}
    for setting in settings:
        for count, loss in enumerate(_losses_by_count(rows, splits, tested.weights, plan, setting)):
            losses.setdefault((count, setting) if count else no_trees, loss)
    return list(losses)[least_loss(list(losses.values()), tested.weights, tested.together)]


def _losses_by_count(
    rows: Batch, splits: Sequence[Split], weight: FloatArray, plan: BoostedPlan, setting: Setting
) -> Iterator[FloatArray]:
    """The losses of the held-out rows, which have this weight, with 0, 1, .. trees, until they no longer fall."""
    runs = [_losses_of_split(rows.take(split.train), rows.take(split.test), plan, setting) for split in splits]
    best, best_count = np.inf, 0
    for count in range(plan.trees + 1):
        loss = np.concatenate([next(run) for run in runs])
        yield loss
        mean = float(weight @ loss)
        if mean < best:
            best, best_count = mean, count
        elif count - best_count >= PATIENCE:
            return


def _losses_of_split(seen: Batch, unseen: Batch, plan: BoostedPlan, setting: Setting) -> Iterator[FloatArray]:
    """The losses of held-out rows with 0, 1, .. trees, without end."""
    shared = cells.fit_by_score(plan.method, seen)
    boosting = _Boosting.start(seen, shared, plan, setting)
    codes, prob = boosting.coding.encode(unseen.features), shared.predict(Batch(unseen.score))
    score, loss = scores(prob), log_loss(prob, unseen.labels)
    yield loss
    for tree, fitted in boosting:
        score = fitted.calibrate(score, Batch(score), tree.leaf_of(codes))
        loss = log_loss(probabilities(score), unseen.labels)
        yield loss
    yield from repeat(loss)
