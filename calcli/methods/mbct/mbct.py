"""Multiple boosting calibration trees (Huang et al. 2022): where the score errs, by the features, and by how much.

A tree splits the rows by the values of features, a branch for each value, and each node has a bias pattern. The paper's
is p' = k p (``link=linear``); the default is z' = z + b on log-odds (``odds``), which cannot leave [0, 1]. Patterns are
shrunk to that of the node above. A split must lower a loss: the log-loss, the multi-view calibration error of the
paper, or one of those it compares with. The next tree starts from what the ones before it made of the scores, and by
default the first from Platt scaling.

What the parameters leave open is chosen by log-loss on held-out rows, no trees among the choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.learners.catboost import most_important
from calcli.methods.base import Params, Section, number
from calcli.methods.mbct import kernels, rules
from calcli.methods.mbct.boosting import Boosting, fit_trees
from calcli.methods.mbct.coding import Coder, learn_codes
from calcli.methods.mbct.forest import Forest, prob_of
from calcli.methods.mbct.formula import calibrated
from calcli.methods.mbct.nodes import Rows
from calcli.methods.mbct.parameter_search import Chosen, choose
from calcli.methods.mbct.search_grid import LINKS, boosting_settings, most_trees
from calcli.methods.scaling import platt
from calcli.methods.trees.unpacked import unpacked_once
from calcli.numeric.links import sigmoid
from calcli.state import Json, State, prefixed, unprefixed


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    if batch.weight is not None and not (held := batch.weight > 0).all():
        batch = batch.take(held)
    start = _Start.of(batch, params, seed)
    ways = boosting_settings(batch, params)
    names = most_important(batch.features, batch.labels, batch.weight, count=int(number(params, "features")), seed=seed)
    coder = learn_codes(
        batch,
        names,
        least=min(how.growth.least for how in ways),
        bins=int(number(params, "bins")),
        score_bins=int(number(params, "score_bins")),
        score_by=cast(Literal["mass", "width"], params["score_binning"]),
    )
    weight = np.empty(0) if batch.weight is None else batch.weight
    rows = Rows(coder.encode(batch), sigmoid(start.of_scores(batch.score)), batch.labels.astype(np.uint8), weight)
    chosen = _chosen(batch, rows, coder, ways, params, seed)
    how = chosen.how
    forest = Forest.of(fit_trees(rows, coder.offsets, how, chosen.trees, seed), how.growth.link, how.rate)
    used = forest.used
    facts: dict[str, Json] = {
        "a": start.slope,
        "b": start.intercept,
        "link": next(name for name, link in LINKS.items() if link == how.growth.link),
        "trees": len(forest),
        "depth": how.growth.depth,
        "rate": how.rate,
        "shrinkage": how.growth.shrink,
        "min_rows": how.growth.least,
        "split_loss": how.growth.split_loss,
        "alpha": number(params, "alpha"),
    }
    return State(
        facts,
        {**prefixed("feature", coder.only(used).to_arrays()), **prefixed("tree", forest.renumbered(used).to_arrays())},
    )


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    model = _unpacked(state)
    z = model.start.of_scores(batch.score)
    if len(model.forest) == 0:
        return sigmoid(z, out=z)
    score = z if model.forest.link == kernels.ODDS else sigmoid(z, out=z)
    model.forest.calibrate(model.coder.encode(batch), score)
    return prob_of(score, model.forest.link)


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    model = _unpacked(state)
    start = model.start.slope * score[0] + model.start.intercept
    return (calibrated(model.coder, model.forest, score[0], start, features),)


def explain(state: State) -> tuple[Section, ...]:
    """The trees as rules, and what each split did to the loss."""
    model = _unpacked(state)
    return rules.sections(
        model.coder,
        model.forest,
        start=model.start.said,
        alpha=state.number("alpha"),
        loss=str(state.params["split_loss"]),
    )


@dataclass(frozen=True, slots=True)
class _Start:
    """What the trees start from: z' = slope z + intercept."""

    slope: float
    intercept: float

    @classmethod
    def of(cls, batch: Batch, params: Params, seed: int) -> _Start:
        """Platt scaling, or the raw score."""
        if params["start"] == "raw":
            return cls(1.0, 0.0)
        found = platt.fit(batch, NO_SIDE_INPUTS, {}, seed)
        return cls(found.number("a"), found.number("b"))

    def of_scores(self, score: FloatArray) -> FloatArray:
        z = score * self.slope
        z += self.intercept
        return z

    @property
    def said(self) -> str:
        """In words."""
        if (self.slope, self.intercept) == (1.0, 0.0):
            return "First the raw score."
        return f"First Platt scaling, z' = {self.slope:.6g} z {self.intercept:+.6g}."


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """A state, unpacked."""

    start: _Start
    coder: Coder
    forest: Forest


@unpacked_once("tree/feature")
def _unpacked(state: State) -> _Model:
    coder = Coder.from_arrays(unprefixed("feature", state.arrays))
    forest = Forest.from_arrays(LINKS[str(state.params["link"])], unprefixed("tree", state.arrays), coder.codes)
    return _Model(_Start(state.number("a"), state.number("b")), coder, forest)


def _chosen(batch: Batch, rows: Rows, coder: Coder, ways: list[Boosting], params: Params, seed: int) -> Chosen:
    """What is left open, chosen on held-out rows."""
    most = most_trees(params)
    if params["trees"] != "auto" and len(ways) == 1:
        return Chosen(ways[0], most)
    return choose(batch.score, rows, coder.offsets, ways, most, seed)
