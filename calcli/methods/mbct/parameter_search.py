"""The settings of boosting and the number of trees, chosen by log-loss on held-out rows.

Each candidate has, row by row, a mean change of the log-loss against no trees. The least upper bound of that wins, the
mean plus `CAUTION` standard errors; where no bound is below 0 there are no trees, and the scores are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from calcli.batch import FloatArray, IntArray, Units
from calcli.methods.mbct.boosting import Boosted, Boosting
from calcli.methods.mbct.buffers import Buffers
from calcli.methods.mbct.forest import Forest, score_of
from calcli.methods.mbct.kernels import Places, predict
from calcli.methods.mbct.nodes import Rows
from calcli.methods.trees.compiled import on_threads
from calcli.numeric.seeded import Split, share_by_score, splits_by_score, tested

CAUTION = 1.5

PATIENCE = 10
"""The search for more trees ends after so many without a lower loss on held-out rows."""

FOLDS = 5
CROSS_VALIDATED_ROWS = 20_000
"""Up to so many rows each fold is held out in turn, above it one."""

MOST_ROWS = 300_000
"""Of more rows a sample is used. Of six million rows, a million choose no better: the same shrinkage, and a few trees
more or less where the loss is flat."""

LOSS, CHANGE, SQUARE = 0, 1, 2
"""Sums over held-out rows: of w loss, of w d and of w d^2, with d the loss less that without trees."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Settings, and the number of trees."""

    boosting: Boosting
    trees: int


def choose(
    score: FloatArray,
    rows: Rows,
    offsets: Places,
    candidates: Sequence[Boosting],
    most: int,
    seed: int,
    average: float | None = None,
    units: Units | None = None,
    share: float = 1.0,
) -> Chosen:
    """The best of the candidates, and up to `most` trees; `score` is the rows' own, before any calibration.

    `average` is the label rate of all rows, if leaves are held within what their rows support; `units` are the rows
    that belong together. These rows may be a `share` of those that trees will grow on.
    """
    # A sample of many rows, with leaves of the same share of them.
    if len(rows) > MOST_ROWS:
        part = share_by_score(score, MOST_ROWS / len(rows), seed, "mbct/sample")
        rows, score, share = rows.take(part), score[part], share * float(part.mean())
        units = None if units is None else units.take(part)

    # Boost each candidate on the rows outside each test set, and sum the test losses by number of trees.
    splits = _splits(score, rows, seed, units)
    if not splits:
        return Chosen(candidates[0], 0)  # rows that are all the same
    tasks = [(_on_a_share(boosting, share), split) for boosting in candidates for split in splits]
    together = None if units is None else units.together

    def work(task: tuple[Boosting, Split]) -> FloatArray:
        boosting, (train, test) = task
        unit = None if together is None else together[test]
        return _loss_curve(rows.take(train), rows.take(test), offsets, boosting, most, seed, average, unit)

    curves = on_threads(work, tasks)

    # The candidate and the number of trees with the least bound.
    mass = sum(rows.take(split.test).mass for split in splits)
    worth = mass if together is None else len(np.unique(together[tested(splits, len(rows))]))
    best = (0.0, 0, 0)
    for place in range(len(candidates)):
        bound = _upper_bound(_summed(curves[place * len(splits) : (place + 1) * len(splits)]), worth)
        best = min(best, (float(bound.min()), place, int(bound.argmin())))
    return Chosen(candidates[best[1]], best[2])


def _on_a_share(boosting: Boosting, share: float) -> Boosting:
    """The settings that give a share of the rows leaves with the same share of the weight."""
    growth = boosting.growth
    return replace(boosting, growth=replace(growth, min_weight=max(1.0, share * growth.min_weight)))


def _splits(score: FloatArray, rows: Rows, seed: int, units: Units | None) -> list[Split]:
    """The rows that are fitted on and held out each time. Rows that are the same, or of a unit, are on one side."""
    most = FOLDS if len(rows) <= CROSS_VALIDATED_ROWS else 1
    if most == 1 and units is None:
        test = share_by_score(score, 1 / FOLDS, seed, "mbct")
        return [split for split in [Split(~test, test)] if split.both]
    features = rows.codes[:, :-1].T.astype(np.float64)  # the last is that of the score
    return splits_by_score(score, rows.label.astype(np.int64), FOLDS, seed, "mbct", [*features], units, most)


def _loss_curve(
    train: Rows,
    test: Rows,
    offsets: Places,
    boosting: Boosting,
    most: int,
    seed: int,
    average: float | None,
    unit: IntArray | None = None,
) -> FloatArray:
    """Sums over the test rows after 0, 1, .. trees grown on the others: `LOSS`, `CHANGE` and `SQUARE`.

    Where the `unit` of each row is given, the squares are those of the units' sums.
    """
    # Without trees.
    link, weight = boosting.growth.link, test.weights
    score = score_of(test.prob, link)
    loss = np.empty(len(test))
    predict.row_losses(score, test.label, link, loss)
    before = loss.copy()
    curve = [(float(weight @ loss), 0.0, 0.0)]
    # Tree after tree, until a tree is a mere root or the loss has not fallen for long.
    lowest = 0
    for tree in islice(Boosted(Buffers(train, offsets, boosting.growth, seed), boosting), most):
        if len(tree) == 1:
            break
        Forest.of([tree], link, boosting.rate, average=average).calibrate(test.codes, score)
        predict.row_losses(score, test.label, link, loss)
        change = loss - before
        square = weight @ change**2 if unit is None else np.square(np.bincount(unit, weight * change)).sum()
        curve.append((float(weight @ loss), float(weight @ change), float(square)))
        if curve[-1][LOSS] < curve[lowest][LOSS]:
            lowest = len(curve) - 1
        if len(curve) - lowest > PATIENCE:
            break
    return np.array(curve)


def _summed(curves: Sequence[FloatArray]) -> FloatArray:
    """The sum of the curves; where one has ended, its last entry counts."""
    length = max(len(curve) for curve in curves)
    longer = [np.concatenate([curve, np.repeat(curve[-1:], length - len(curve), axis=0)]) for curve in curves]
    return np.asarray(np.sum(longer, axis=0))


def _upper_bound(curve: FloatArray, mass: float) -> FloatArray:
    """The change of the summed loss against no trees, plus `CAUTION` standard errors; `mass` rows or units add up."""
    variance = np.maximum(curve[:, SQUARE] - curve[:, CHANGE] ** 2 / mass, 0.0)
    return curve[:, CHANGE] + CAUTION * np.sqrt(variance)
