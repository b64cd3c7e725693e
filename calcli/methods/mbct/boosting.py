"""Boosting: each tree starts from the probabilities of those before it.

Parameters give candidate settings, several where they leave something open. The settings and the number of trees are
chosen by log-loss on held-out rows: each candidate has, row by row, a mean change of the log-loss against no trees. The
least upper bound of that wins, the mean plus `CAUTION` standard errors; where no bound is below 0 there are no trees,
and the scores are left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import NamedTuple, cast

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray, SamplingUnits
from calcli.methods.base import Params, number
from calcli.methods.mbct import kernels
from calcli.methods.mbct.buffers import Buffers
from calcli.methods.mbct.forest import Forest, score_of
from calcli.methods.mbct.grow import Tree, TreeRows, grow
from calcli.methods.mbct.kernels import Places, predict
from calcli.methods.mbct.level_passes import Growth, Rows, SplitLoss
from calcli.numeric.seeded import Split, share_by_score, splits_by_score
from calcli.numeric.side_by_side import on_threads

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

MOST_NODES = 1 << 15
"""The trees of a trial are kept up to so many nodes, 5 MB."""

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
    before = rows.loss()
    return lasting(before, ((tree, rows.loss()) for tree in boosted(rows, growth)), most)


def lasting(before: float, grown: Iterable[tuple[Tree, float]], most: int) -> list[Tree]:
    """Up to `most` trees, as long as the loss after each is lower than before it."""
    trees: list[Tree] = []
    for tree, after in islice(grown, most):
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


class Curve(NamedTuple):
    """The losses of held-out rows under ever more trees, and the trees."""

    sums: FloatArray
    """Over the held-out rows after 0, 1, .. trees: `LOSS`, `CHANGE` and `SQUARE`."""

    growth: Growth
    losses: list[float]
    """Of the rows that the trees were grown on, after 0, 1, .. trees."""

    trees: list[Tree]
    """The first ones: so many that they have `MOST_NODES` nodes."""


class Setting(NamedTuple):
    """The place of the best candidate, the depth and the number of its trees."""

    place: int
    depth: int
    trees: int


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Rows of which trees are grown on some and judged by others, `unit` that of each row."""

    rows: Rows
    split: Split
    candidates: Sequence[Growth]
    search: Search
    unit: IntArray | None

    def curve(self, place: int, depth: int) -> Curve:
        growth = self.candidates[place]
        on_a_share = replace(growth, depth=depth, min_weight=max(1.0, self.search.share * growth.min_weight))
        train, test = self.split
        unit = None if self.unit is None else self.unit[test]
        return _loss_curve(self.rows.take(train), self.rows.take(test), on_a_share, self.search, unit)

    @property
    def worth(self) -> float:
        """The weight of the rows that judge, or the number of their units."""
        test = self.split.test
        return self.rows.take(test).mass if self.unit is None else len(np.unique(self.unit[test]))


def chosen(
    score: FloatArray, rows: Rows, units: SamplingUnits | None, candidates: Sequence[Growth], search: Search
) -> Setting:
    """The best setting by cross-validation; `score` is the rows' own, before any calibration."""
    # A sample of many rows, with leaves of the same share of them.
    if len(rows) > MOST_ROWS:
        part = share_by_score(score, rows.weights, MOST_ROWS / len(rows), search.seed, "mbct/sample")
        rows, score = rows.take(part), score[part]
        search = replace(search, share=search.share * float(part.mean()))
        units = None if units is None else units.take(part)

    splits = _splits(score, rows, search.seed, units)
    if not splits:
        return Setting(0, candidates[0].depth, 0)  # rows that are all the same
    unit = None if units is None else units.together
    return Trials([Trial(rows, split, candidates, search, unit) for split in splits]).best()


class Trials:
    """The loss curves of candidates on the rows that several splits hold out, each made when it is first asked for."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials, self._worth = trials, [trial.worth for trial in trials]
        self._curves: dict[tuple[int, int, int], Curve] = {}

    def best(self, without: int | None = None) -> Setting:
        """The setting of the least bound by all trials, or all but one; no trees if no bound is below 0.

        Deeper trees are tried as long as these are better.
        """
        judges = [index for index in range(len(self._trials)) if index != without]
        first = self._trials[0]
        candidates, depth = first.candidates, first.candidates[0].depth
        least, found = self._best_of(range(len(candidates)), depth, judges)
        link = candidates[found.place].link
        firm = [place for place, each in enumerate(candidates) if each.link == link and each.shrink >= FIRM]
        for deeper in range(depth + 1, first.search.deepest + 1):
            bound, other = self._best_of(firm or [found.place], deeper, judges)
            if bound >= least:
                break
            least, found = bound, other
        return found

    def _best_of(self, places: Sequence[int], depth: int, judges: Sequence[int]) -> tuple[float, Setting]:
        keys = [(place, depth, index) for place in places for index in judges]
        todo = [key for key in keys if key not in self._curves]
        self._curves.update(zip(todo, on_threads(self._curve, todo), strict=True))
        worth, best = sum(self._worth[index] for index in judges), (0.0, Setting(places[0], depth, 0))
        for place in places:
            bound = _upper_bound([self._curves[place, depth, index].sums for index in judges], worth)
            best = min(best, (float(bound.min()), Setting(place, depth, int(bound.argmin()))))
        return best

    def grown(self, index: int, setting: Setting, growth: Growth) -> list[Tree] | None:
        """The trees of a setting that `fit_trees` would grow on the rows of a trial, if all are there."""
        curve = self._curves.get((setting.place, setting.depth, index))
        if curve is None or curve.growth != growth or len(curve.trees) < setting.trees:
            return None
        before, *after = curve.losses
        return lasting(before, zip(curve.trees, after, strict=False), setting.trees)

    def _curve(self, key: tuple[int, int, int]) -> Curve:
        place, depth, index = key
        return self._trials[index].curve(place, depth)


def _splits(score: FloatArray, rows: Rows, seed: int, units: SamplingUnits | None) -> list[Split]:
    """Rows to fit on and held-out rows. Equal rows, and those of a unit, are on one side."""
    most = FOLDS if len(rows) <= CROSS_VALIDATED_ROWS else 1
    if most == 1 and units is None:
        test = share_by_score(score, rows.weights, 1 / FOLDS, seed, "mbct")
        return [split for split in [Split(~test, test)] if split.both]
    features = rows.codes[:, :-1].T.astype(np.float64)  # the last is that of the score
    batch = Batch(score, rows.label.astype(np.int64), rows.weights, units=units)
    return splits_by_score(batch, FOLDS, seed, "mbct", [*features], most)


def _loss_curve(train: Rows, test: Rows, growth: Growth, search: Search, unit: IntArray | None = None) -> Curve:
    """The curve of trees that are grown on some rows, over the test rows.

    Where the `unit` of each row is given, sums over units are squared.
    """
    # Without trees.
    link, weight = growth.link, np.ascontiguousarray(test.weights)
    codes, label, score = test.codes.copy(), test.label, score_of(test.prob, link)
    loss = np.empty(len(test))
    predict.row_losses(score, label, link, loss)
    before = loss.copy()
    curve = [(float(weight @ loss), 0.0, 0.0)]
    # Tree after tree, until a tree is a mere root or the loss has not fallen for long. As many trees are applied
    # together as must grow before that can be.
    lowest = nodes = 0
    buffers = Buffers(train, search.offsets, growth, search.seed)
    losses, trees = [buffers.loss()], list[Tree]()
    growing = islice(takewhile(lambda tree: len(tree) > 1, boosted(buffers, growth)), search.most)
    while len(curve) <= lowest + PATIENCE:
        new = list[Tree]()
        for tree in islice(growing, lowest + PATIENCE + 1 - len(curve)):
            new.append(tree)
            nodes += len(tree)
            if nodes <= MOST_NODES:
                trees.append(tree)
                losses.append(buffers.loss())
        if not new:
            break
        forest = Forest.of(new, link, growth.rate, average=search.average)
        for place in range(len(new)):
            forest.calibrate(codes, score, only=place)
            predict.row_losses(score, label, link, loss)
            change = loss - before
            square = weight @ change**2 if unit is None else np.square(np.bincount(unit, weight * change)).sum()
            curve.append((float(weight @ loss), float(weight @ change), float(square)))
            if curve[-1][LOSS] < curve[lowest][LOSS]:
                lowest = len(curve) - 1
    return Curve(np.array(curve), growth, losses, trees)


def _upper_bound(curves: Sequence[FloatArray], worth: float) -> FloatArray:
    """The change of the loss against no trees, summed over splits, plus `CAUTION` standard errors.

    The test rows of all splits are `worth` so many rows or units. Where a curve has ended, its last entry counts.
    """
    length = max(len(curve) for curve in curves)
    longer = [np.concatenate([curve, np.repeat(curve[-1:], length - len(curve), axis=0)]) for curve in curves]
    curve = np.asarray(np.sum(longer, axis=0))
    variance = np.maximum(curve[:, SQUARE] - curve[:, CHANGE] ** 2 / worth, 0.0)
    return curve[:, CHANGE] + CAUTION * np.sqrt(variance)
