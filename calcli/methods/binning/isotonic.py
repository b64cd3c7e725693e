"""Isotonic regression: the best non-decreasing function of the score (Zadrozny & Elkan 2002).

Pool-adjacent-violators on the log-odds, then linear interpolation between the ends of the blocks and a constant beyond
the outermost, as scikit-learn does. Rows with equal scores are one point. Levels are held within what the rows of their
block support (`calcli.numeric.pooled`), unless outputs shall be exact.
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums
from calcli.numeric.pooled import by_score, isotonic_blocks, supported_levels
from calcli.state import SUPPORTED, State


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    return finish(gather(batch, params), params)


def gather(batch: Batch, params: Params) -> Sums:
    return Sums(scores={"all": by_score(batch.score, batch.labels, batch.weight)})


def finish(sums: Sums, params: Params) -> State:
    pooled = sums.scores["all"]
    first, last, level = blocks = isotonic_blocks(pooled)
    held = supported_levels(pooled, blocks)
    # The two ends of each block: interpolation needs no others. A block of one score has one end.
    ends, place = np.unique(np.concatenate([first, last]), return_index=True)
    level, held = (np.concatenate([each, each])[place] for each in (level, held))
    return State(arrays={"score": pooled.score[ends], "level": level, SUPPORTED: held})


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    return np.interp(batch.score, state.array("score"), state.supported("level"))


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    return (terms.interpolate(score[0], state.array("score"), state.supported("level")),)
