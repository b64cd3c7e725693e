"""Trees one after another, each of what is left of the labels after the one before it.

z_0 is the map that all rows share. Tree m is grown on y - p(z_{m-1}); in each of its cells g calibrates z_{m-1}, drawn
to z_{m-1} as it is, and z_m = z_{m-1} + rate (g(z_{m-1}) - z_{m-1}). How many trees, the least weight of a cell and how
strongly cells are drawn is chosen by cross-validation, no tree among the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from calcli.methods.trees.held_out_choice import held_out_folds, least_loss
from calcli.numeric.links import probabilities, scores
from calcli.numeric.losses import log_loss

DEPTH = 3
TREES = 40
TAUS = (10.0, 30.0)

PATIENCE = 5
"""How many trees that do not lower the held-out loss end the search."""


@dataclass(frozen=True)
class Plan:
    """What is tried: one value each where the user has said it; `trees` is the most."""

    trees: int
    rate: float
    least: tuple[float, ...]
    depth: int = DEPTH
    taus: tuple[float, ...] = TAUS


@dataclass
class Boosting:
    """A sequence of trees, as far as it has come: the rows, their codes, and the scores that they have by now."""

    rows: Batch
    codes: Codes
    coding: Coding
    shared: Calibrator
    score: FloatArray

    @classmethod
    def start(cls, rows: Batch, shared: Calibrator) -> Boosting:
        coding = Coding.of(rows)
        score = scores(shared.predict(Batch(rows.score)))
        return cls(rows, coding.encode(rows.features), coding, shared, score)

    def step(self, plan: Plan, least: float, tau: float) -> tuple[Tree, Cells] | None:
        """The next tree and its cells; None where there is nothing left to split."""
        prob = probabilities(self.score)
        residual = cells.one_hot(self.rows) - cells.table(prob)
        tree = grow(self.coding, self.codes, residual, self.rows.weights, depth=plan.depth, least=least)
        if len(tree.left) == 1:
            return None
        leaf = tree.leaf_index[tree.path(self.codes)[-1]]
        now = Batch(self.score, self.rows.label, self.rows.weight)
        count = int(tree.is_leaf.sum())
        own = cells.calibrated_each(self.shared.spec, now, leaf, [self.shared] * count, rising=True)
        told = sums(leaf, cells.told(prob, self.rows.weights), count)
        found = cells.measured(own, plan.rate * cells.own_share(told, tau), now, leaf)
        self.score = found.mixed(self.score, now, leaf)
        return tree, found


def fit(rows: Batch, method: MethodSpec, plan: Plan) -> Partition:
    """The shared map and as many trees as cross-validation asks for."""
    shared = cells.calibrated(method, rows)
    count, least, tau = _chosen(rows, method, plan)
    boosting = Boosting.start(rows, shared)
    made: list[tuple[Tree, Cells]] = []
    while len(made) < count and (step := boosting.step(plan, least, tau)) is not None:
        made.append(step)
    return Partition(True, shared, boosting.coding, tuple(tree for tree, _ in made), tuple(each for _, each in made))


def _chosen(rows: Batch, method: MethodSpec, plan: Plan) -> tuple[int, float, float]:
    """How many trees, the least weight of a cell and tau, by held-out loss."""
    tests = held_out_folds(rows)
    nothing = 0, plan.least[0], plan.taus[0]
    if not tests:
        return nothing
    losses: dict[tuple[int, float, float], FloatArray] = {}
    for least, tau in product(plan.least, plan.taus):
        for count, loss in enumerate(_held_out(rows, tests, method, plan, least, tau)):
            losses.setdefault((count, least, tau) if count else nothing, loss)
    return list(losses)[least_loss(list(losses.values()), rows.weights)]


def _held_out(
    rows: Batch, tests: Sequence[Mask], method: MethodSpec, plan: Plan, least: float, tau: float
) -> Iterator[FloatArray]:
    """The held-out losses with 0, 1, .. trees, until they no longer fall."""
    runs = [_losses(rows.take(~test), rows.take(test), method, plan, least, tau) for test in tests]
    best, at = np.inf, 0
    for count in range(plan.trees + 1):
        loss = np.empty(len(rows))
        for test, run in zip(tests, runs, strict=True):
            loss[test] = next(run)
        yield loss
        mean = float(rows.weights @ loss)
        if mean < best:
            best, at = mean, count
        elif count - at >= PATIENCE:
            return


def _losses(
    seen: Batch, unseen: Batch, method: MethodSpec, plan: Plan, least: float, tau: float
) -> Iterator[FloatArray]:
    """The losses of unseen rows with 0, 1, .. trees, without end."""
    shared = cells.calibrated(method, seen)
    boosting = Boosting.start(seen, shared)
    codes, prob = boosting.coding.encode(unseen.features), shared.predict(Batch(unseen.score))
    score = scores(prob)
    while True:
        yield log_loss(prob, unseen.labels)
        step = boosting.step(plan, least, tau)
        if step is not None:
            tree, found = step
            score = found.mixed(score, Batch(score), tree.leaf_index[tree.path(codes)[-1]])
            prob = probabilities(score)
