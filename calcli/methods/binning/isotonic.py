"""Isotonic regression, and a strictly increasing form of it."""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, ScoresMethod, Sums
from calcli.numeric.pooled import SAME, isotonic_blocks, supported_levels
from calcli.state import SUPPORTED, State


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
