"""Isotonic regression, a strictly increasing form of it, and inductive Venn-Abers prediction, which adds the row under
each label.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, ScoresMethod, Sums, of_classes
from calcli.numeric.bins import just_above, just_below
from calcli.numeric.links import against_rest
from calcli.numeric.pooled import SAME, isotonic_blocks, supported_levels
from calcli.state import SCORES, SUPPORTED, Numbers, Rules, State, unit


class Isotonic(ScoresMethod):
    """Isotonic regression: the best non-decreasing function of the score (Zadrozny & Elkan 2002).

    Pool-adjacent-violators on the log-odds, then linear interpolation between the ends of the blocks and a constant
    beyond the outermost, as scikit-learn does. Rows with equal scores are one point. Levels are held within what the
    rows of their block support (`calcli.numeric.pooled`), unless outputs shall be exact.
    """

    def finish(self, sums: Sums, params: Params) -> State:
        pooled = sums.scores["all"]
        first, last, level = blocks = isotonic_blocks(pooled)
        held = supported_levels(pooled, blocks)
        # The two ends of each block: interpolation needs no others. A block of one score has one end.
        ends, place = np.unique(np.concatenate([first, last]), return_index=True)
        level, held = (np.concatenate([each, each])[place] for each in (level, held))
        return State(arrays={"score": pooled.score[ends], "level": level, SUPPORTED: held})

    def holds(self, classes: int) -> Rules:
        held = unit("n", rising="weakly", optional=True)
        return {"score": SCORES, "level": unit("n", rising="weakly"), SUPPORTED: held}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        return np.interp(batch.score, state.array("score"), state.supported("level"))

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        return (terms.interpolate(score[0], state.array("score"), state.supported("level")),)


class IsotonicCentered(ScoresMethod):
    """Centred isotonic regression: isotonic without flat steps (Oron & Flournoy 2017).

    Pool-adjacent-violators first. Each block is then represented by one point, the mean of its scores, and between
    these points the level is interpolated linearly, so that it rises strictly: scores that differ stay different, and
    the order that the model gave to the rows of a block survives. Scores are z/(1 + |z|), z the log-odds: on the
    log-odds themselves a few rows far out would carry the middle of their block away from most of it, and on
    probabilities rows far out could not be told apart.

    Two additions make the order hold everywhere. The levels are held within what the rows of their block support
    (`calcli.numeric.pooled`): a block of one class alone gives neither 0 nor 1. Beyond the outermost points, at
    log-odds c, where the paper's map is flat, the probability of the class that is rarer there falls slowly, to (3 +
    1/(1 + |z - c|))/4 of its value: never below three quarters of what the rows say.
    """

    def finish(self, sums: Sums, params: Params) -> State:
        pooled = sums.scores["all"]
        blocks = isotonic_blocks(pooled)
        level = supported_levels(pooled, blocks)
        apart = np.concatenate([[True], np.diff(level) > SAME])  # blocks that are now one
        first = blocks.first[apart]
        weight = np.add.reduceat(pooled.weight, first)
        centre = np.add.reduceat(pooled.weight * _axis(pooled.score), first) / weight
        return State(arrays={"centre": centre, "level": level[apart]})

    def holds(self, classes: int) -> Rules:
        return {"centre": Numbers(("n",), -1.0, 1.0, "strictly"), "level": unit("n", rising="weakly")}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        z, centre = batch.score, state.array("centre")
        prob = np.interp(_axis(z), centre, state.array("level"))
        ends = centre[[0, -1]]
        low, high = ends / np.maximum(1.0 - np.abs(ends), 1e-16)
        below, above = z < low, z > high
        prob[below] *= _kept(low - z[below])
        prob[above] = 1.0 - (1.0 - prob[above]) * _kept(z[above] - high)
        return prob

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        z, centre, level = score[0], state.array("centre"), state.array("level")
        ends = centre[[0, -1]]
        low, high = (float(end) for end in ends / np.maximum(1.0 - np.abs(ends), 1e-16))
        inside = terms.interpolate(z / (1.0 + terms.absolute(z)), centre, level)
        below = float(level[0]) * (3.0 + 1.0 / (1.0 + (low - z))) / 4.0
        above = 1.0 - float(1.0 - level[-1]) * (3.0 + 1.0 / (1.0 + (z - high))) / 4.0
        return (terms.choose(z < low, below, terms.choose(z > high, above, inside)),)


def _axis(z: FloatArray) -> FloatArray:
    return z / (1.0 + np.abs(z))


def _kept(distance: FloatArray) -> FloatArray:
    """The share of an outermost level that is left at a distance beyond its point."""
    return (3.0 + 1.0 / (1.0 + distance)) / 4.0


class VennAbers(ScoresMethod):
    """Inductive Venn-Abers prediction (Vovk, Petej & Fedorova 2015).

    A new row with score s is added to the calibration rows twice, once with label 0 and once with label 1; isotonic
    regression of each gives s the values p0 and p1. One of the two is fitted to the true label, so that together they
    are calibrated whatever the distribution; p = p1 / (1 - p0 + p1) merges them, and p1 - p0 tells how much the
    calibration rows leave open at s. `interval` gives the two. More than two classes: each against the rest.

    Both values are step functions of s, found for all s at once. Isotonic regression is the slope of the greatest
    convex minorant of the points P_i = (weight, positive weight) of the i lowest scores. A row with label 1 right
    before the i-th score moves all later points by (1, 1), and p1 is the slope of the segment that bridges the hull of
    the points before and the hull of the points after the gap. As i grows, both ends of the bridge only move to the
    right: one sweep finds all bridges. p0 is the same in a mirror. The added row has weight 1.
    """

    def finish(self, sums: Sums, params: Params) -> State:
        pooled = sums.scores["all"]
        p1 = np.append(_with_one_more(pooled.weight, pooled.positive), 1.0)  # above all scores
        mirrored = _with_one_more(pooled.weight[::-1], (pooled.weight - pooled.positive)[::-1])
        p0 = np.append(0.0, 1.0 - mirrored[::-1])  # below all scores
        # p1 holds for scores up to and including its own, p0 from its own on; equal neighbours are one step.
        step1, step0 = np.diff(p1) != 0, np.diff(p0) != 0
        return State(
            arrays={
                "upto": pooled.score[step1],
                "p1": np.append(p1[:-1][step1], 1.0),
                "from": pooled.score[step0],
                "p0": np.append(0.0, p0[1:][step0]),
            }
        )

    def holds(self, classes: int) -> Rules:
        of_one = Numbers(("n+1",), 1e-300, 1.0 + 1e-9, "weakly")  # never 0, and so 1 - p0 + p1 is not
        return {"upto": SCORES, "p1": of_one, "from": replace(SCORES, shape=("m",)), "p0": unit("m+1", rising="weakly")}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        p0, p1 = _binary_interval(state, batch.score)
        return p1 / (1.0 - p0 + p1)

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        p0 = terms.steps(score[0], just_below(state.array("from")), state.array("p0"), "right")
        p1 = terms.steps(score[0], just_above(state.array("upto")), state.array("p1"), "left")
        return (p1 / (1.0 - p0 + p1),)

    def interval(self, state: State, batch: Batch) -> tuple[FloatArray, FloatArray]:
        """p0 and p1 of each row; with more than two classes a column for each class against the rest."""
        if batch.classes == 2:
            return _binary_interval(state, batch.score)
        scores = zip(of_classes(state, batch.classes), against_rest(batch.score).T, strict=True)
        pairs = [_binary_interval(part, score) for part, score in scores]
        return np.column_stack([p0 for p0, _ in pairs]), np.column_stack([p1 for _, p1 in pairs])


def _binary_interval(state: State, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """p0 and p1, whose steps are at scores of the fit: they are moved past rounding, to the side where none is."""
    p0 = state.array("p0")[np.searchsorted(just_below(state.array("from")), z, side="right")]
    p1 = state.array("p1")[np.searchsorted(just_above(state.array("upto")), z, side="left")]
    return p0, p1


def _with_one_more(weight: FloatArray, positive: FloatArray) -> FloatArray:
    """The isotonic value at each distinct score when a row of weight 1 with label 1 joins it.

    After a score of which all rows are positive no bridge of slope below 1 can start or end, and the gap may as well
    lie before it: such points are left out.
    """
    kept = np.flatnonzero(positive[:-1] < weight[:-1]) + 1
    points = np.concatenate([[0], kept, [len(weight)]])
    x = np.concatenate([[0.0], np.cumsum(weight)])[points]
    y = np.concatenate([[0.0], np.cumsum(positive)])[points]
    left, right = _bridges(x.tolist(), y.tolist())
    slope = (y[right] - y[left] + 1.0) / (x[right] - x[left] + 1.0)
    slope = np.maximum.accumulate(np.minimum(slope, 1.0))  # it rises; rounding may have swapped neighbours
    return np.repeat(slope, np.diff(points))


def _following(x: list[float], y: list[float]) -> list[int]:
    """The next corner after each point of the lower hull of that point and all points after it."""
    last = len(x) - 1
    following = [last] * (last + 1)
    for k in range(last - 1, -1, -1):
        j = k + 1
        x_k, y_k = x[k], y[k]
        while j < last:
            m = following[j]
            if (y[j] - y_k) * (x[m] - x[j]) < (y[m] - y[j]) * (x[j] - x_k):
                break
            j = m  # the corner j lies on or above the line from k to m
        following[k] = j
    return following


def _bridges(x: list[float], y: list[float]) -> tuple[list[int], list[int]]:
    """Where the bridges over the gaps at each point but the last start and end.

    The bridge over the gap at P_i goes from P_j - (1, 1), j <= i, to P_k, k >= i. `corners` are those of the lower hull
    of the points before the gap, and `at` is the place of j among them.
    """
    following = _following(x, y)
    left, right = [], []
    corners: list[int] = []
    at = end = 0
    for i in range(len(x) - 1):
        _add_corner(corners, i, x, y)
        at, end = min(at, len(corners) - 1), max(end, i)
        while True:
            start, further = corners[at], following[end]
            run, rise = x[end] - x[start] + 1.0, y[end] - y[start] + 1.0
            if (y[further] - y[end]) * run < rise * (x[further] - x[end]):
                end = further  # the next corner after the gap lies below the bridge
                continue
            if at + 1 == len(corners):
                break
            later = corners[at + 1]
            if (y[later] - y[start]) * run > rise * (x[later] - x[start]):
                break
            at += 1  # the next corner before the gap lies below the bridge, or on it
        left.append(start)
        right.append(end)
    return left, right


def _add_corner(corners: list[int], i: int, x: list[float], y: list[float]) -> None:
    """The lower hull with one more point to its right."""
    while len(corners) > 1:
        a, b = corners[-2], corners[-1]
        if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
            break
        corners.pop()
    corners.append(i)
