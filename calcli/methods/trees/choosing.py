"""How large, how deep, how bold: chosen by log-loss on rows that the trees have not seen.

No trees at all is always among the choices, and stays unless trees are better by more than one standard error of the
difference, row by row. So at worst the scores are left as they were when the trees came to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.trees import kernels, rowlosses
from calcli.methods.trees.boosting import Boosting, boosted
from calcli.methods.trees.compiled import on_threads
from calcli.methods.trees.forest import Forest, score_of
from calcli.methods.trees.kernels import Places
from calcli.methods.trees.nodes import Mask, Rows

PATIENCE = 10
"""So many trees without a lower loss on held-out rows end the search for more."""


LOSS, CHANGE, SQUARE = 0, 1, 2
"""Sums over held-out rows: of w loss, of w d and of w d^2, with d the loss less that without trees."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """How to boost, and how many trees."""

    how: Boosting
    trees: int


def choose(
    rows: Rows, offsets: Places, tests: Sequence[Mask], candidates: Sequence[Boosting], most: int, seed: int
) -> Chosen:
    """The candidate and the number of trees, up to `most`, of least log-loss on held-out rows.

    Parameters
    ----------
    tests
        Which rows are held out each time; the trees are grown on all others.
    candidates
        The simplest first: it stays where another is no better.
    """
    tasks = [(how, test) for how in candidates for test in tests]

    def work(task: tuple[Boosting, Mask]) -> FloatArray:
        how, test = task
        return _curve(rows.take(~test), rows.take(test), offsets, how, most, seed)

    curves = on_threads(work, tasks)
    of_each = [_added(curves[place : place + len(tests)]) for place in range(0, len(curves), len(tests))]
    best = min(range(len(candidates)), key=lambda place: float(of_each[place][:, LOSS].min()))
    sums = of_each[best]
    trees = int(sums[:, LOSS].argmin())
    mass = sum(rows.take(test).mass for test in tests)
    change, square = sums[trees, CHANGE], sums[trees, SQUARE]
    error = float(np.sqrt(max(square - change**2 / mass, 0.0)))
    return Chosen(candidates[best], trees if -change > error else 0)


def _curve(seen: Rows, unseen: Rows, offsets: Places, how: Boosting, most: int, seed: int) -> FloatArray:
    """Sums over the unseen rows after 0, 1, .. trees grown on the others: `LOSS`, `CHANGE` and `SQUARE`."""
    link, weight = how.growth.link, unseen.weights
    score = score_of(unseen.prob, link)
    loss = np.empty(len(unseen))
    kernels.row_losses(score, unseen.label, link, loss)
    before = loss.copy()
    curve = [(float(weight @ loss), 0.0, 0.0)]
    lowest = 0
    for step in islice(boosted(seen, offsets, how, rowlosses.search_for(how.growth, seed)), most):
        if len(step.tree) == 1 or len(curve) - lowest > PATIENCE:
            break
        Forest.of([step.tree], link, how.rate).calibrate(unseen.codes, score)
        kernels.row_losses(score, unseen.label, link, loss)
        change = loss - before
        curve.append((float(weight @ loss), float(weight @ change), float(weight @ change**2)))
        if curve[-1][LOSS] < curve[lowest][LOSS]:
            lowest = len(curve) - 1
    return np.array(curve)


def _added(curves: Sequence[FloatArray]) -> FloatArray:
    """The sum of the curves; where one has ended, its last entry counts."""
    length = max(len(curve) for curve in curves)
    longer = [np.concatenate([curve, np.repeat(curve[-1:], length - len(curve), axis=0)]) for curve in curves]
    return np.asarray(np.sum(longer, axis=0))
