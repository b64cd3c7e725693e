"""Multiple boosting calibration trees (Huang et al. 2022): where the score errs, by the features, and by how much.

A tree splits the rows by the values of features, a branch for each value, and each node has a bias pattern. The paper's
is p' = k p (``link=linear``); the default is z' = z + b on log-odds (``odds``), which cannot leave [0, 1]. Patterns are
shrunk to that of the node above. A split must lower a loss: the log-loss, the multi-view calibration error of the
paper, or one of those it compares with. The next tree starts from what the ones before it made of the scores, and by
default the first from Platt scaling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from threading import Lock
from typing import Literal, cast

import numpy as np

from calcli.batch import NO_SIDES, Batch, FloatArray, Sides
from calcli.learners.catboost import most_important
from calcli.methods.base import Params, Section, number
from calcli.methods.scaling import platt
from calcli.methods.trees import kernels, rules
from calcli.methods.trees.boosting import Boosting, fit_trees
from calcli.methods.trees.choosing import Chosen, choose
from calcli.methods.trees.coding import Coder, learn_codes
from calcli.methods.trees.forest import Forest, prob_of
from calcli.methods.trees.nodes import Growth, Mask, Rows, SplitLoss
from calcli.numeric.links import sigmoid
from calcli.numeric.score_folds import folds_by_score
from calcli.state import State, nest, unnest

LINKS = {"odds": kernels.ODDS, "linear": kernels.LINEAR}
MOST_TREES = 64
FOLDS = 5


def fit(batch: Batch, sides: Sides, params: Params, seed: int) -> State:
    if batch.weight is not None and not (held := batch.weight > 0).all():
        batch = batch.take(held)
    start = _start(batch, params, seed)
    candidates = _candidates(batch, params)
    names = most_important(batch.features, batch.labels, batch.weight, count=int(number(params, "features")), seed=seed)
    coder = learn_codes(
        batch,
        names,
        least=min(how.growth.least for how in candidates),
        bins=int(number(params, "bins")),
        score_bins=int(number(params, "score_bins")),
        score_by=cast(Literal["mass", "width"], params["score_binning"]),
    )
    weight = np.empty(0) if batch.weight is None else batch.weight
    rows = Rows(coder.encode(batch), sigmoid(_started(start, batch.score)), batch.labels.astype(np.uint8), weight)
    chosen = _chosen(batch, rows, coder, candidates, params, seed)
    link = chosen.how.growth.link
    trees = fit_trees(rows, coder.offsets, chosen.how, chosen.trees, seed)
    forest = Forest.of(trees, link, chosen.how.rate)
    used = forest.used
    parts = nest({"start": start, "coder": coder.only(used).to_state(), "forest": forest.renumbered(used).to_state()})
    return State({**parts.params, **_facts(chosen, params)}, parts.arrays)


def predict(state: State, batch: Batch, sides: Sides) -> FloatArray:
    model = _model(state)
    z = _started(model.start, batch.score)
    if len(model.forest) == 0:
        return sigmoid(z)
    score = z if model.forest.link == kernels.ODDS else sigmoid(z)
    model.forest.calibrate(model.coder.encode(batch), score)
    return prob_of(score, model.forest.link)


def explain(state: State) -> tuple[Section, ...]:
    """The trees as rules, and what each split did to the loss."""
    model = _model(state)
    return rules.sections(model.coder, model.forest, alpha=state.number("alpha"), loss=str(state.params["split_loss"]))


@dataclass(frozen=True, slots=True)
class _Model:
    """A state, unpacked."""

    start: State
    coder: Coder
    forest: Forest

    @classmethod
    def of(cls, state: State) -> _Model:
        parts = unnest(state, ["start", "coder", "forest"])
        return cls(parts["start"], Coder.from_state(parts["coder"]), Forest.from_state(parts["forest"]))


def _model(state: State) -> _Model:
    return _Model.of(state)


def _start(batch: Batch, params: Params, seed: int) -> State:
    """The a and b of a z + b."""
    if params["start"] == "raw":
        return State({"a": 1.0, "b": 0.0})
    return platt.fit(batch, NO_SIDES, {}, seed)


def _started(start: State, score: FloatArray) -> FloatArray:
    z = score * start.number("a")
    z += start.number("b")
    return z


GRID = (
    {"link": "odds", "depth": 2, "rate": 0.3, "lambda": 30.0},
    {"link": "odds", "depth": 2, "rate": 0.3, "lambda": 100.0},
    {"link": "odds", "depth": 2, "rate": 0.3, "lambda": 10.0},
    {"link": "linear", "depth": 2, "rate": 0.3, "tau": 30.0},
)


def _candidates(batch: Batch, params: Params) -> list[Boosting]:
    """The ways of boosting that the parameters leave open, the one to begin with first."""
    least = _least(batch, params)
    found: list[Boosting] = []
    for one in GRID:
        if params["link"] not in ("auto", one["link"]):
            continue
        link = str(one["link"])
        pull = "lambda" if link == "odds" else "tau"
        depth, rate, shrink = (
            float(one[name] if params[name] == "auto" else number(params, name)) for name in ("depth", "rate", pull)
        )
        how = Boosting(Growth(LINKS[link], cast(SplitLoss, params["split_loss"]), int(depth), least, shrink), rate)
        if how not in found:
            found.append(how)
    return found


def _least(batch: Batch, params: Params) -> float:
    """beta."""
    rows = float(batch.weights.sum())
    if params["min_rows"] == "eq13":
        return least_by_equation_13(
            float(batch.weights @ batch.labels) / rows, rows, number(params, "alpha"), number(params, "error")
        )
    if params["min_rows"] == "auto":
        return max(10.0, round(0.3 * math.sqrt(rows)))
    return number(params, "min_rows")


def least_by_equation_13(rate: float, rows: float, alpha: float, error: float) -> float:
    """The most rows c with rate <= 1/error (sqrt(2 V L / c) + 3 L / c), V = rate (1 - rate), L = ln(3 rows / (c alpha)).

    The right side falls as c grows. As printed it gives tens of thousands of rows where the paper has hundreds.
    """

    def wrong(c: float) -> float:
        log = math.log(3.0 * rows / (c * alpha))
        return (math.sqrt(2.0 * rate * (1.0 - rate) * log / c) + 3.0 * log / c) / error

    low, high = 1.0, max(rows, 1.0)
    while high - low > 1.0:
        middle = math.floor((low + high) / 2.0)
        low, high = (middle, high) if rate <= wrong(middle) else (low, middle)
    return low


def _chosen(batch: Batch, rows: Rows, coder: Coder, candidates: list[Boosting], params: Params, seed: int) -> Chosen:
    """What is left open, chosen on held-out rows."""
    most = MOST_TREES if params["trees"] == "auto" else int(number(params, "trees"))
    if params["trees"] != "auto" and len(candidates) == 1:
        return Chosen(candidates[0], most)
    content = np.column_stack([batch.score, rows.codes])
    fold = folds_by_score(content, batch.labels, FOLDS, seed, "mbct")
    tests = [test for index in range(FOLDS) if (test := fold == index).any() and not test.all()]
    if not tests:
        return Chosen(candidates[0], 0)  # rows that are all the same
    return choose(rows, coder.offsets, tests, candidates, most, seed)


def _facts(chosen: Chosen, params: Params) -> dict[str, float | int | str]:
    """What was chosen, for a reader."""
    how = chosen.how
    odds = how.growth.link == kernels.ODDS
    return {
        "link": "odds" if odds else "linear",
        "depth": how.growth.depth,
        "rate": how.rate,
        "lambda" if odds else "tau": how.growth.shrink,
        "min_rows": how.growth.least,
        "split_loss": how.growth.split_loss,
        "alpha": number(params, "alpha"),
    }
