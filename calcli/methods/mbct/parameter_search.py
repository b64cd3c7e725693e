"""How large, how deep, how bold: chosen by log-loss on rows that the trees have not seen.

What counts is the mean change beside no trees at all plus `CAUTION` standard errors of it, row by row: the least such
number wins, and where none is below 0 there will be no trees. So at worst the scores are left as they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.mbct import row_losses
from calcli.methods.mbct.boosting import Boosted, Boosting
from calcli.methods.mbct.forest import Forest, score_of
from calcli.methods.mbct.kernels import Places
from calcli.methods.mbct.kernels import predict as applying
from calcli.methods.mbct.nodes import Mask, Rows
from calcli.methods.trees.compiled import on_threads
from calcli.numeric.score_folds import folds_by_score, share_by_score

CAUTION = 1.5

PATIENCE = 10
"""So many trees without a lower loss on held-out rows end the search for more."""

FOLDS = 5
CROSS_VALIDATED_ROWS = 100_000
"""Up to so many rows each fold is held out in turn, above it one."""

MOST_ROWS = 300_000
"""More rows than this are chosen on a sample of them. Of six million rows, a million choose no better: the same pull,
and a few trees more or less where the loss is flat."""

LOSS, CHANGE, SQUARE = 0, 1, 2
"""Sums over held-out rows: of w loss, of w d and of w d^2, with d the loss less that without trees."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """How to boost, and how many trees."""

    how: Boosting
    trees: int


def choose(score: FloatArray, rows: Rows, offsets: Places, ways: Sequence[Boosting], most: int, seed: int) -> Chosen:
    """One of the `ways`, and how many trees, up to `most`; `score` is what the rows came with."""
    part, share = np.ones(len(rows), dtype=np.bool_), 1.0
    if len(rows) > MOST_ROWS:
        part = share_by_score(score, MOST_ROWS / len(rows), seed, "mbct/sample")
        rows, score, share = rows.take(part), score[part], float(part.mean())
    tests = _tests(score, rows, seed)
    if not tests:
        return Chosen(ways[0], 0)  # rows that are all the same
    tasks = [(_on_a_share(how, share), test) for how in ways for test in tests]

    def work(task: tuple[Boosting, Mask]) -> FloatArray:
        how, test = task
        return _curve(rows.take(~test), rows.take(test), offsets, how, most, seed)

    curves = on_threads(work, tasks)
    mass = sum(rows.take(test).mass for test in tests)
    best = (0.0, 0, 0)
    for way in range(len(ways)):
        bound = _bound(_added(curves[way * len(tests) : (way + 1) * len(tests)]), mass)
        best = min(best, (float(bound.min()), way, int(bound.argmin())))
    return Chosen(ways[best[1]], best[2])


def _on_a_share(how: Boosting, share: float) -> Boosting:
    """The same leaves from a share of the rows: so much fewer must be in each."""
    return replace(how, growth=replace(how.growth, min_weight=max(1.0, share * how.growth.min_weight)))


def _tests(score: FloatArray, rows: Rows, seed: int) -> list[Mask]:
    """Which rows are held out each time. Rows that are the same are held out together."""
    if len(rows) > CROSS_VALIDATED_ROWS:
        tests = [share_by_score(score, 1 / FOLDS, seed, "mbct")]
    else:
        fold = folds_by_score(np.column_stack([score, rows.codes]), rows.label.astype(np.int64), FOLDS, seed, "mbct")
        tests = [fold == index for index in range(FOLDS)]
    return [test for test in tests if test.any() and not test.all()]


def _curve(seen: Rows, unseen: Rows, offsets: Places, how: Boosting, most: int, seed: int) -> FloatArray:
    """Sums over the unseen rows after 0, 1, .. trees grown on the others: `LOSS`, `CHANGE` and `SQUARE`."""
    link, weight = how.growth.link, unseen.weights
    score = score_of(unseen.prob, link)
    loss = np.empty(len(unseen))
    applying.row_losses(score, unseen.label, link, loss)
    before = loss.copy()
    curve = [(float(weight @ loss), 0.0, 0.0)]
    lowest = 0
    for tree in islice(Boosted(seen, offsets, how, row_losses.search_for(how.growth, seed)), most):
        if len(tree) == 1:
            break
        Forest.of([tree], link, how.rate).calibrate(unseen.codes, score)
        applying.row_losses(score, unseen.label, link, loss)
        change = loss - before
        curve.append((float(weight @ loss), float(weight @ change), float(weight @ change**2)))
        if curve[-1][LOSS] < curve[lowest][LOSS]:
            lowest = len(curve) - 1
        if len(curve) - lowest > PATIENCE:
            break
    return np.array(curve)


def _added(curves: Sequence[FloatArray]) -> FloatArray:
    """The sum of the curves; where one has ended, its last entry counts."""
    length = max(len(curve) for curve in curves)
    longer = [np.concatenate([curve, np.repeat(curve[-1:], length - len(curve), axis=0)]) for curve in curves]
    return np.asarray(np.sum(longer, axis=0))


def _bound(curve: FloatArray, mass: float) -> FloatArray:
    """How much higher the summed loss is than without trees, `CAUTION` standard errors of that added."""
    variance = np.maximum(curve[:, SQUARE] - curve[:, CHANGE] ** 2 / mass, 0.0)
    return curve[:, CHANGE] + CAUTION * np.sqrt(variance)
