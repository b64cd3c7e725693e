"""Multiple boosting calibration trees (Huang et al. 2022): features tell where the score errs, and by how much.

A tree splits the rows by the values of features, a branch for each value, and each leaf has a bias pattern. The paper's
is p' = k p (``link=linear``); the default is z' = z + b on log-odds (``odds``), which cannot leave [0, 1]. The pattern
of a node is shrunk to its parent's. A split must lower a loss: the log-loss, the paper's multi-view calibration error
(equation 10), or one of those that the paper compares it with. Each tree is grown on the scores that the trees before
it have calibrated, by default after Platt scaling.

What the parameters leave open is chosen by log-loss on held-out rows, with no trees among the candidates.

`coding` makes codes of features. `boosting` chooses settings and grows tree after tree, `grow` one tree level by level.
Its rows are in `buffers`, with `level_passes` over them, whose inner loops are `kernels`, or on a cluster. `forest`
applies the trees, keeps them, and writes them as terms and as rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs, spans
from calcli.expressions import Inputs, Terms
from calcli.learners.catboost import most_important
from calcli.methods.base import SETTINGS, Chosen, Params, Section, number
from calcli.methods.mbct import kernels
from calcli.methods.mbct.boosting import (
    AUTO,
    DEEPEST,
    LARGE,
    LINKS,
    MOST_ROWS,
    MOST_TREES,
    Search,
    Setting,
    Trial,
    Trials,
    chosen,
    fit_trees,
    growth_settings,
)
from calcli.methods.mbct.buffers import Buffers
from calcli.methods.mbct.coding import Coder, learn_codes
from calcli.methods.mbct.forest import Forest, calibrated, prob_of, sections
from calcli.methods.mbct.grow import Tree
from calcli.methods.mbct.level_passes import BLOCK, Growth, Rows
from calcli.methods.scaling.linear import Platt
from calcli.methods.trees.coding import unpacked_once
from calcli.methods.trees.held_out_choice import each_held_out_once
from calcli.numeric import pooled
from calcli.numeric.links import sigmoid
from calcli.numeric.seeded import Split
from calcli.numeric.side_by_side import on_threads
from calcli.state import SUPPORTED, Json, Numbers, Rules, State, prefixed, unit, unprefixed


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    plan, rows = prepared(batch, params, seed)
    buffers = Buffers(rows, plan.coder.offsets, plan.growth, seed)
    return plan.state(fit_trees(buffers, plan.growth, plan.trees), params)


@dataclass(frozen=True, slots=True)
class Start:
    """The calibration before the first tree: z' = slope z + intercept."""

    slope: float
    intercept: float

    @classmethod
    def of(cls, batch: Batch, params: Params, seed: int) -> Start:
        """Platt scaling, or the raw score."""
        if params["start"] == "raw":
            return cls(1.0, 0.0)
        fitted = Platt().fit(batch, NO_SIDE_INPUTS, {}, seed)
        return cls(fitted.number("a"), fitted.number("b"))

    def of_scores(self, score: FloatArray) -> FloatArray:
        z = score * self.slope
        z += self.intercept
        return z

    @property
    def text(self) -> str:
        if (self.slope, self.intercept) == (1.0, 0.0):
            return "First the raw score."
        return f"First Platt scaling, z' = {self.slope:.6g} z {self.intercept:+.6g}."


class Whole(NamedTuple):
    """The weight of all rows that trees grow on, the weight of the positive ones, and the start of them all."""

    mass: float
    positive: float
    start: Start


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The start, the codes, the settings and the number of the trees that will grow."""

    start: Start
    coder: Coder
    average: float | None
    """The label rate of all rows, if leaves shall be held within what their rows support."""

    growth: Growth
    trees: int

    def state(self, trees: Sequence[Tree], params: Params) -> State:
        """The state, with the features that the trees split by."""
        growth = self.growth
        forest = Forest.of(trees, growth.link, growth.rate, average=self.average)
        used = forest.used
        link = next(name for name, code in LINKS.items() if code == growth.link)
        shrinkage = "lambda" if link == "odds" else "tau"
        values: dict[str, Json] = {
            SETTINGS: {"link": link, "trees": len(forest), shrinkage: growth.shrink},
            "a": self.start.slope,
            "b": self.start.intercept,
            "link": link,
            "trees": len(forest),
            "depth": growth.depth,
            "rate": growth.rate,
            "shrinkage": growth.shrink,
            "min_rows": growth.min_weight,
            "split_loss": growth.split_loss,
            "alpha": number(params, "alpha"),
        }
        features, arrays = self.coder.only(used).to_arrays(), forest.renumbered(used).to_arrays()
        held = {} if self.average is None or growth.link == kernels.ODDS else {SUPPORTED: forest.bound}
        return State(values, {**prefixed("feature", features), **prefixed("tree", arrays), **held})


def prepared(batch: Batch, params: Params, seed: int, whole: Whole | None = None) -> tuple[Plan, Rows]:
    """The plan, and the rows as trees see them; the trees will grow on the `whole` where these are a sample."""
    batch = weighted_rows(batch)
    coded = _Coded.of(batch, params, seed, whole)
    rows = coded.rows_of(batch)
    setting = Setting(0, coded.candidates[0].depth, coded.search.most)
    if _is_open(params, coded):
        setting = chosen(batch.score, rows, batch.units, coded.candidates, coded.search)
    return coded.plan(setting), rows


def choose(batch: Batch, sides: SideInputs, params: Params, seed: int, splits: Sequence[Split]) -> Chosen:
    """The settings by the rows that these splits hold out, if each row is held out once, and the trees of each split.

    Trees of a split have the settings that the other splits prefer: no row takes part in a choice by which it is
    judged. Features, their codes and the start are those of the rows that the trees have seen.
    """
    if not each_held_out_once(splits) or len(batch) > MOST_ROWS or len(weighted_rows(batch)) < len(batch):
        return Chosen()
    whole = _Coded.of(batch, params, seed)
    if not _is_open(params, whole):
        return Chosen()
    coded = on_threads(lambda split: _Coded.of(batch.take(split.train), params, seed), splits)
    unit = None if batch.units is None else batch.units.together
    deepest = whole.search.deepest
    trials = Trials(
        [
            Trial(one.rows_of(batch), split, one.candidates, replace(one.search, deepest=deepest), unit)
            for one, split in zip(coded, splits, strict=True)
        ]
    )

    def grown(one: _Coded, rows: Batch, setting: Setting, split: int | None) -> State:
        plan = one.plan(setting)
        trees = None if split is None else trials.grown(split, setting, plan.growth)
        if trees is None:
            buffers = Buffers(one.rows_of(rows), one.coder.offsets, plan.growth, seed)
            trees = fit_trees(buffers, plan.growth, plan.trees)
        return plan.state(trees, params)

    todo: list[tuple[_Coded, Batch, Setting, int | None]] = [(whole, batch, trials.best(), None)]
    for place, (one, split) in enumerate(zip(coded, splits, strict=True)):
        todo.append((one, batch.take(split.train), trials.best(without=place), place))
    of_all, *of_splits = on_threads(lambda each: grown(*each), todo)
    return Chosen({}, dict(enumerate(of_splits)), of_all)


class _Coded(NamedTuple):
    """The start, the codes and the candidates that follow from rows."""

    start: Start
    coder: Coder
    candidates: list[Growth]
    search: Search

    @classmethod
    def of(cls, batch: Batch, params: Params, seed: int, whole: Whole | None = None) -> _Coded:
        mass, positive = float(batch.weights.sum()), float(batch.weights @ batch.labels)
        whole = whole or Whole(mass, positive, Start.of(batch, params, seed))
        share = mass / whole.mass
        candidates = growth_settings(whole.mass, whole.positive, params)
        count = int(number(params, "features"))
        names = most_important(batch.features, batch.labels, batch.weight, count=count, seed=seed)
        coder = learn_codes(
            batch,
            names,
            least=share * min(growth.min_weight for growth in candidates),
            bins=int(number(params, "bins")),
            score_bins=int(number(params, "score_bins")),
            score_by=cast(Literal["mass", "width"], params["score_binning"]),
        )
        average = pooled.average(whole.positive, whole.mass) if params["hold"] is True else None
        trees = MOST_TREES if params["trees"] == AUTO else int(number(params, "trees"))
        deepest = DEEPEST if params["depth"] == AUTO and whole.mass >= LARGE else candidates[0].depth
        return cls(whole.start, coder, candidates, Search(coder.offsets, trees, seed, average, share, deepest))

    def rows_of(self, batch: Batch) -> Rows:
        return rows_of(batch, self.start, self.coder)

    def plan(self, setting: Setting) -> Plan:
        growth = replace(self.candidates[setting.place], depth=setting.depth)
        return Plan(self.start, self.coder, self.search.average, growth, setting.trees)


def _is_open(params: Params, coded: _Coded) -> bool:
    """Whether there is anything to choose."""
    return params["trees"] == AUTO or len(coded.candidates) > 1


def weighted_rows(batch: Batch) -> Batch:
    """The rows of positive weight."""
    return batch if batch.weight is None or (positive := batch.weight > 0).all() else batch.take(positive)


def rows_of(batch: Batch, start: Start, coder: Coder) -> Rows:
    """The rows as the first tree sees them; growing moves them and their weights."""
    rows = Rows.empty(len(batch), len(coder.features), weighted=batch.weight is not None)
    coder.encode_into(rows.numbers, rows.first_code, batch)
    if batch.weight is not None:
        rows.weight[:] = batch.weight

    def begin(some: slice) -> None:
        rows.put(some, sigmoid(start.of_scores(batch.score[some])), batch.labels[some])

    on_threads(begin, spans(len(batch), BLOCK))
    return rows


def holds(classes: int) -> Rules:
    bound = unit("n", optional=True)
    cuts = Numbers(("c",), -np.inf, np.inf)
    trees = {f"tree/{name}": Numbers(("n",), -np.inf, np.inf, missing=True) for name in ("local", "split", "overall")}
    trees |= {"tree/pattern": Numbers(("n",)), SUPPORTED: bound}
    return {"a": Numbers(), "b": Numbers(), "rate": Numbers(), "feature/cut": cuts, **trees}


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    start, coder, forest = _unpacked(state)
    z = start.of_scores(batch.score)
    if len(forest) == 0:
        return sigmoid(z, out=z)
    score = z if forest.link == kernels.ODDS else sigmoid(z, out=z)
    forest.calibrate(coder.encode(batch), score)
    return prob_of(score, forest.link)


def extras(state: State, batch: Batch, sides: SideInputs) -> Mapping[str, FloatArray]:
    """The leaf of the first tree."""
    _, coder, forest = _unpacked(state)
    return {"leaf": forest.first_leaf(coder.encode(batch))}


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    start, coder, forest = _unpacked(state)
    return (calibrated(coder, forest, score[0], start.slope * score[0] + start.intercept, features),)


def explain(state: State) -> tuple[Section, ...]:
    start, coder, forest = _unpacked(state)
    loss = str(state.params["split_loss"])
    return sections(coder, forest, start=start.text, alpha=state.number("alpha"), loss=loss)


@unpacked_once("tree/feature")
def _unpacked(state: State) -> tuple[Start, Coder, Forest]:
    coder = Coder.from_arrays(unprefixed("feature", state.arrays))
    link, bound = LINKS[str(state.params["link"])], state.array(SUPPORTED) if SUPPORTED in state.arrays else None
    forest = Forest.from_arrays(link, unprefixed("tree", state.arrays), coder.codes, bound)
    return Start(state.number("a"), state.number("b")), coder, forest
