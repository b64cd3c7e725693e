"""A sequence of trees, each grown on the residuals of the ones before it.

z_0 is the score that the shared calibrator gives. Tree m is grown on y - p(z_{m-1}); in each of its cells g calibrates
z_{m-1}, shrunk to z_{m-1} itself, and z_m = z_{m-1} + rate (g(z_{m-1}) - z_{m-1}). The number of trees, the least
weight of a cell and the strength of the shrinkage are chosen by cross-validation, no tree among the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.methods.calibrator import FittedMethod
from calcli.methods.heterogeneous import cell_calibrators as cells
from calcli.methods.heterogeneous.cell_calibrators import Cells
from calcli.methods.heterogeneous.coding import Codes, Coding
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.heterogeneous.tree import Tree, grow
from calcli.methods.shrinkage import information, own_share
from calcli.methods.spec import MethodSpec
from calcli.methods.trees.held_out_choice import held_out_rows, held_out_splits, least_loss
from calcli.numeric.links import probabilities, scores
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import Split
from calcli.numeric.sums import totals

DEPTH = 3
TREES = 40
TAUS = (10.0, 30.0)

PATIENCE = 5
"""The search ends after so many trees that do not lower the held-out loss."""


@dataclass(frozen=True)
class Plan:
    """The maximum number of trees, and the candidate settings: a single one where the user has given it."""

    trees: int
    rate: float
    least: tuple[float, ...]
    depth: int = DEPTH
    taus: tuple[float, ...] = TAUS


@dataclass
class Boosting:
    """The rows that trees are grown on, with their codes and their current scores."""

    rows: Batch
    codes: Codes
    coding: Coding
    shared: FittedMethod
    score: FloatArray

    @classmethod
    def start(cls, rows: Batch, shared: FittedMethod) -> Boosting:
        coding = Coding.of(rows)
        score = scores(shared.predict(Batch(rows.score)))
        return cls(rows, coding.encode(rows.features), coding, shared, score)

    def step(self, plan: Plan, least: float, tau: float) -> tuple[Tree, Cells] | None:
        """Grow the next tree and calibrate the rows by its cells; None where no split helps."""
        # Grow a tree on the residuals.
        prob = probabilities(self.score)
        residual = cells.one_hot(self.rows) - cells.as_table(prob)
        target = cells.in_order(residual, self.rows)
        tree = grow(self.coding, self.codes, target, self.rows.weights, depth=plan.depth, least=least)
        if len(tree.left) == 1:
            return None
        # Calibrate the current scores in each of its cells.
        leaf, count = tree.leaf_of(self.codes), int(tree.is_leaf.sum())
        current = replace(self.rows.bare, score=self.score)
        own = cells.fit_each(self.shared.spec, current, leaf, [self.shared] * count, rising=True)
        in_cell = totals(leaf, information(prob, self.rows.weights), count)
        fitted = cells.summarise(own, plan.rate * own_share(in_cell, tau), current, leaf)
        self.score = fitted.calibrate(self.score, current, leaf)
        return tree, fitted


def fit(rows: Batch, method: MethodSpec, plan: Plan) -> Partition:
    """The shared calibrator and as many trees as cross-validation chooses."""
    shared = cells.fit_by_score(method, rows)
    count, least, tau = _chosen(rows, method, plan)
    boosting = Boosting.start(rows, shared)
    steps: list[tuple[Tree, Cells]] = []
    while len(steps) < count and (step := boosting.step(plan, least, tau)) is not None:
        steps.append(step)
    trees, fitted = tuple(tree for tree, _ in steps), tuple(of_tree for _, of_tree in steps)
    return Partition(True, shared, boosting.coding, trees, fitted)


def _chosen(rows: Batch, method: MethodSpec, plan: Plan) -> tuple[int, float, float]:
    """The number of trees, the least weight of a cell and tau, by held-out loss."""
    splits = held_out_splits(rows)
    no_trees = 0, plan.least[0], plan.taus[0]
    if not splits:
        return no_trees
    tested = held_out_rows(rows, splits)
    losses: dict[tuple[int, float, float], FloatArray] = {}
    for least, tau in product(plan.least, plan.taus):
        for count, loss in enumerate(_held_out(rows, splits, method, plan, least, tau)):
            losses.setdefault((count, least, tau) if count else no_trees, loss)
    return list(losses)[least_loss(list(losses.values()), tested.weights, tested.together)]


def _held_out(
    rows: Batch, splits: Sequence[Split], method: MethodSpec, plan: Plan, least: float, tau: float
) -> Iterator[FloatArray]:
    """The held-out losses with 0, 1, .. trees, until they no longer fall."""
    runs = [_losses(rows.take(split.train), rows.take(split.test), method, plan, least, tau) for split in splits]
    weight = held_out_rows(rows, splits).weights
    best, best_count = np.inf, 0
    for count in range(plan.trees + 1):
        loss = np.concatenate([next(run) for run in runs])
        yield loss
        mean = float(weight @ loss)
        if mean < best:
            best, best_count = mean, count
        elif count - best_count >= PATIENCE:
            return


def _losses(
    seen: Batch, unseen: Batch, method: MethodSpec, plan: Plan, least: float, tau: float
) -> Iterator[FloatArray]:
    """The losses of the held-out rows with 0, 1, .. trees, without end."""
    shared = cells.fit_by_score(method, seen)
    boosting = Boosting.start(seen, shared)
    codes, prob = boosting.coding.encode(unseen.features), shared.predict(Batch(unseen.score))
    score = scores(prob)
    while True:
        yield log_loss(prob, unseen.labels)
        step = boosting.step(plan, least, tau)
        if step is not None:
            tree, fitted = step
            score = fitted.calibrate(score, Batch(score), tree.leaf_of(codes))
            prob = probabilities(score)
