"""Boosting: each tree starts from the probabilities of those before it.

Parameters give candidate settings, several where they leave something open. The settings and the number of trees are
chosen by log-loss on held-out rows: each candidate has, row by row, a mean change of the log-loss against no trees. The
least upper bound of that wins, the mean plus `CAUTION` standard errors; where no bound is below 0 there are no trees,
and the scores are left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import cast

import numpy as np

from calcli.batch import FloatArray, IntArray, SamplingUnits
from calcli.methods.base import Params, number
from calcli.methods.mbct import kernels
from calcli.methods.mbct.buffers import Buffers
from calcli.methods.mbct.forest import Forest, score_of
from calcli.methods.mbct.grow import Tree, TreeRows, grow
from calcli.methods.mbct.kernels import Places, predict
from calcli.methods.mbct.level_passes import Growth, Rows, SplitLoss
from calcli.methods.trees.compiled import on_threads
from calcli.numeric.seeded import Split, share_by_score, splits_by_score, tested

LINKS = {"odds": kernels.ODDS, "linear": kernels.LINEAR}

AUTO = "auto"

MOST_TREES = 64
"""Where the number of trees is left open."""

DEPTH, RATE = 2, 0.3
"""Where these are left open. Others did not pay on real files of up to 20,000 rows."""

DEEPEST, LARGE = 5, 30_000
"""Of at least so many rows deeper trees are tried too: there are enough to see errors where three features meet."""

FIRM = 30.0
"""The least shrinkage of deeper trees, whose leaves have fewer rows."""

GRID = (("odds", 30.0), ("odds", 100.0), ("odds", 10.0), ("linear", 30.0))
"""Link and shrinkage, each tried where it is left open; the best guess is first."""

CAUTION = 1.5
"""Standard errors that a candidate must stay below the loss without trees."""

PATIENCE = 10
"""The search for more trees ends after so many without a lower loss on held-out rows."""

FOLDS = 5
CROSS_VALIDATED_ROWS = 20_000
"""Up to so many rows each fold is held out in turn, above it one."""

MOST_ROWS = 300_000
"""Where there are more rows, a sample is used. Of six million rows, a million choose no better: the same shrinkage, and
a few trees more or less where the loss is flat."""

LOSS, CHANGE, SQUARE = 0, 1, 2
"""Sums over held-out rows: of w loss, of w d and of w d^2, with d the loss less that without trees."""


def boosted(rows: TreeRows, growth: Growth) -> Iterator[Tree]:
    """Trees without end; the rows are calibrated by each as soon as it has grown."""
    while True:
        tree = grow(rows, growth)
        rows.calibrate(tree)
        yield tree


def fit_trees(rows: TreeRows, growth: Growth, most: int) -> list[Tree]:
    """Up to `most` trees, as long as each lowers the loss of the rows that it was grown on."""
    trees: list[Tree] = []
    before = rows.loss()
    for tree in islice(boosted(rows, growth), most):
        after = rows.loss()
        if not after < before:
            break
        trees.append(tree)
        before = after
        if len(tree) == 1:
            break  # the next would be the same
    return trees


def growth_settings(mass: float, positive: float, params: Params) -> list[Growth]:
    """All candidates that the parameters admit for rows of weight `mass`, `positive` of it that of positive rows."""
    min_weight, loss = min_weight_of(mass, positive, params), cast(SplitLoss, params["split_loss"])
    depth = DEPTH if params["depth"] == AUTO else int(number(params, "depth"))
    rate = RATE if params["rate"] == AUTO else number(params, "rate")
    candidates: list[Growth] = []
    for link, shrinkage in GRID:
        if params["link"] in (AUTO, link):
            name = "lambda" if link == "odds" else "tau"
            shrink = shrinkage if params[name] == AUTO else number(params, name)
            candidates.append(Growth(LINKS[link], loss, depth, min_weight, shrink, rate))
    return list(dict.fromkeys(candidates))


def min_weight_of(mass: float, positive: float, params: Params) -> float:
    """beta: the least weight of a branch."""
    given = params["min_rows"]
    if given == "eq13":
        return least_by_equation_13(positive / mass, mass, alpha=number(params, "alpha"), error=number(params, "error"))
    return least_by_rows(mass) if given == AUTO else number(params, "min_rows")


def least_by_rows(mass: float) -> float:
    """0.3 times the root of the number of rows: 30 of ten thousand, 1000 of twelve million; at least 10."""
    return max(10.0, round(0.3 * math.sqrt(mass)))


def least_by_equation_13(rate: float, rows: float, *, alpha: float, error: float) -> float:
    """The most rows c of a leaf for which rate <= (sqrt(2 V L / c) + 3 L / c) / error.

    V = rate (1 - rate) and L = ln(3 rows / (c alpha)). The right side falls as c grows, so bisection finds it. As
    printed, the equation gives tens of thousands where the paper has hundreds.
    """

    def admits(c: float) -> bool:
        log = math.log(3.0 * rows / (c * alpha))
        return rate <= (math.sqrt(2.0 * rate * (1.0 - rate) * log / c) + 3.0 * log / c) / error

    low, high = 1.0, max(1.0, math.floor(rows))
    while high - low > 1.0:
        middle = math.floor((low + high) / 2.0)
        low, high = (middle, high) if admits(middle) else (low, middle)
    return high if admits(high) else low


@dataclass(frozen=True, slots=True)
class Search:
    """The settings that all candidates share."""

    offsets: Places
    """Of the coder whose codes the rows have."""

    most: int
    """The greatest number of trees."""

    seed: int
    average: float | None
    """The label rate of all rows, if leaves are held within what their rows support."""

    share: float
    """The share of the rows that trees will grow on which the rows at hand are."""

    deepest: int
    """The greatest depth that is tried; each only if the one before it was better than those before."""


def choose(
    score: FloatArray, rows: Rows, units: SamplingUnits | None, candidates: Sequence[Growth], search: Search
) -> tuple[Growth, int]:
    """The best candidate and its number of trees; `score` is the rows' own, before any calibration."""
    # A sample of many rows, with leaves of the same share of them.
    share = search.share
    if len(rows) > MOST_ROWS:
        part = share_by_score(score, MOST_ROWS / len(rows), search.seed, "mbct/sample")
        rows, score, share = rows.take(part), score[part], share * float(part.mean())
        units = None if units is None else units.take(part)

    # Boost each candidate on the rows outside each test set, and sum the test losses by number of trees.
    splits = _splits(score, rows, search.seed, units)
    if not splits:
        return candidates[0], 0  # rows that are all the same
    together = None if units is None else units.together
    mass = sum(rows.take(split.test).mass for split in splits)
    worth = mass if together is None else len(np.unique(together[tested(splits, len(rows))]))

    def work(task: tuple[Growth, Split]) -> FloatArray:
        growth, (train, test) = task
        on_a_share = replace(growth, min_weight=max(1.0, share * growth.min_weight))
        unit = None if together is None else together[test]
        return _loss_curve(rows.take(train), rows.take(test), on_a_share, search, unit)

    def best_of(candidates: Sequence[Growth]) -> tuple[float, int, int]:
        """The least bound, the place of its candidate, and the number of trees; no trees if none is below 0."""
        curves, best = on_threads(work, [(growth, split) for growth in candidates for split in splits]), (0.0, 0, 0)
        for place in range(len(candidates)):
            bound = _upper_bound(curves[place * len(splits) : (place + 1) * len(splits)], worth)
            best = min(best, (float(bound.min()), place, int(bound.argmin())))
        return best

    # The candidate and the number of trees with the least bound, and then of deeper trees as long as these are better.
    least, place, trees = best_of(candidates)
    chosen = candidates[place]
    firm = [growth for growth in candidates if growth.link == chosen.link and growth.shrink >= FIRM] or [chosen]
    for depth in range(chosen.depth + 1, search.deepest + 1):
        deeper = [replace(growth, depth=depth) for growth in firm]
        bound, place, more = best_of(deeper)
        if bound >= least:
            break
        least, chosen, trees = bound, deeper[place], more
    return chosen, trees


def _splits(score: FloatArray, rows: Rows, seed: int, units: SamplingUnits | None) -> list[Split]:
    """Rows to fit on and held-out rows. Equal rows, and those of a unit, are on one side."""
    most = FOLDS if len(rows) <= CROSS_VALIDATED_ROWS else 1
    if most == 1 and units is None:
        test = share_by_score(score, 1 / FOLDS, seed, "mbct")
        return [split for split in [Split(~test, test)] if split.both]
    features = rows.codes[:, :-1].T.astype(np.float64)  # the last is that of the score
    return splits_by_score(score, rows.label.astype(np.int64), FOLDS, seed, "mbct", [*features], units, most)


def _loss_curve(train: Rows, test: Rows, growth: Growth, search: Search, unit: IntArray | None = None) -> FloatArray:
    """Sums over the test rows after 0, 1, .. trees grown on the others: `LOSS`, `CHANGE` and `SQUARE`.

    Where the `unit` of each row is given, sums over units are squared.
    """
    # Without trees.
    link, weight = growth.link, test.weights
    score = score_of(test.prob, link)
    loss = np.empty(len(test))
    predict.row_losses(score, test.label, link, loss)
    before = loss.copy()
    curve = [(float(weight @ loss), 0.0, 0.0)]
    # Tree after tree, until a tree is a mere root or the loss has not fallen for long.
    lowest = 0
    buffers = Buffers(train, search.offsets, growth, search.seed)
    for tree in islice(boosted(buffers, growth), search.most):
        if len(tree) == 1:
            break
        Forest.of([tree], link, growth.rate, average=search.average).calibrate(test.codes, score)
        predict.row_losses(score, test.label, link, loss)
        change = loss - before
        square = weight @ change**2 if unit is None else np.square(np.bincount(unit, weight * change)).sum()
        curve.append((float(weight @ loss), float(weight @ change), float(square)))
        if curve[-1][LOSS] < curve[lowest][LOSS]:
            lowest = len(curve) - 1
        if len(curve) - lowest > PATIENCE:
            break
    return np.array(curve)


def _upper_bound(curves: Sequence[FloatArray], worth: float) -> FloatArray:
    """The change of the loss against no trees, summed over splits, plus `CAUTION` standard errors.

    The test rows of all splits are `worth` so many rows or units. Where a curve has ended, its last entry counts.
    """
    length = max(len(curve) for curve in curves)
    longer = [np.concatenate([curve, np.repeat(curve[-1:], length - len(curve), axis=0)]) for curve in curves]
    curve = np.asarray(np.sum(longer, axis=0))
    variance = np.maximum(curve[:, SQUARE] - curve[:, CHANGE] ** 2 / worth, 0.0)
    return curve[:, CHANGE] + CAUTION * np.sqrt(variance)
