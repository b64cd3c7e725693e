"""Gradient boosting from a calibrated score: CatBoost on the features, with the scaled score as its baseline.

Trees add to the log-odds z' = a z + b of Platt scaling (more than two classes: to the log-probabilities of structured
matrix scaling) and may split on the score as well. Their number is chosen by cross-validation of the log-loss, zero
among the candidates: trees must beat the scaled score by a standard error.

The models of that cross-validation are kept, where each row was held out once: the mean of their log-odds is better
than one model of all rows, and nothing is fitted anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, IntArray, SideInputs
from calcli.expressions import Inputs, Terms, total
from calcli.learners.tree_models import Contributions
from calcli.methods.base import SETTINGS, Chosen, Params, Section, number
from calcli.methods.boost.correction import Correction
from calcli.methods.boost.growing import Boosting, Course, Trial, chosen_rounds, drawn, telling, trials
from calcli.methods.calibrator import scaled
from calcli.methods.trees.held_out_choice import distinct, each_held_out_once, enough, held_out_splits
from calcli.numeric.links import probabilities, scores
from calcli.numeric.seeded import Split
from calcli.state import Json, Rules, State, nest, unnest

_BAGS = "bags"


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    rows, course = drawn(distinct(batch, seed)), Course.of(params, batch)
    if params["rounds"] == "auto":
        splits = held_out_splits(rows)
        tried = trials(rows, params, course, seed, splits)
        rounds = chosen_rounds(tried)
        if params["bags"] is True and each_held_out_once(splits) and (kept := _mean_of(tried, rounds)):
            return kept
    else:
        rounds = int(number(params, "rounds"))
    rows = telling(rows)
    boosting, start = Boosting.of(params, course, rows, seed), scaled(rows)
    return boosting.state(start, boosting.train(rows, start, rounds) if rounds else None, rows)


def choose(batch: Batch, sides: SideInputs, params: Params, seed: int, splits: Sequence[Split]) -> Chosen:
    """The number of rounds by the last split, if it is enough; or by all, if each row is held out by one.

    The trial of a split is its fit. Of several, each has the rounds that the others prefer, so that no row takes part
    in a choice by which it is judged; the calibrator of all rows is their mean.
    """
    if params["rounds"] != "auto":
        return Chosen()
    course = Course.of(params, batch)
    if params["bags"] is True and each_held_out_once(splits):
        tried = trials(batch, params, course, seed, splits)
        rounds = chosen_rounds(tried)
        states = {place: one.state(chosen_rounds(_without(tried, place))) for place, one in enumerate(tried)}
        return Chosen(course.chosen(rounds), states, _mean_of(tried, rounds))
    if (last := enough(batch, splits)) is None:
        return Chosen()
    (trial,) = tried = trials(batch, params, course, seed, [last])
    rounds = chosen_rounds(tried)
    return Chosen(course.chosen(rounds), {len(splits) - 1: trial.state(rounds)} if trial.reaches(rounds) else {})


def _without(tried: Sequence[Trial], place: int) -> list[Trial]:
    return [*tried[:place], *tried[place + 1 :]]


def _mean_of(tried: Sequence[Trial], rounds: int) -> State | None:
    """The state whose log-odds are the mean of those of all trials; None where one of them has no trees."""
    if rounds == 0 or any(trial.model is None for trial in tried):
        return None
    whole = nest({str(place): trial.state(rounds) for place, trial in enumerate(tried)})
    chosen: Json = {**tried[0].boosting.course.chosen(rounds)}
    return replace(whole, params={**whole.params, SETTINGS: chosen, _BAGS: len(tried), "rounds": rounds})


def _corrections(state: State) -> list[Correction]:
    """The corrections whose log-odds are averaged."""
    if _BAGS not in state.params:
        return [Correction.of_state(state)]
    bags = unnest(state, map(str, range(int(state.number(_BAGS)))))
    return [Correction.of_state(bag) for bag in bags.values()]


def holds(classes: int) -> Rules:
    return {}


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    each = [one.predict(batch) for one in _corrections(state)]
    return each[0] if len(each) == 1 else probabilities(np.mean([scores(prob) for prob in each], axis=0))


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    each = [one.formula(score, features) for one in _corrections(state)]
    if len(each) == 1:
        return each[0]
    sums = map(total, zip(*(terms.scores(prob) for prob in each), strict=True))
    return terms.probabilities(tuple(one / float(len(each)) for one in sums))


def explain(state: State) -> tuple[Section, ...]:
    """The importance of each feature for the output of the trees."""
    if not state.blobs:
        return (Section("boost", (), (), "No trees: the scaled score is as good."),)
    each = _corrections(state)
    importance: Counter[str] = Counter()
    for one in each:
        importance.update({name: value / len(each) for name, value in one.importances.items()})
    rows = sorted(importance.items(), key=lambda item: (-item[1], item[0]))
    of_models = f" in {len(each)} models, each of other rows, whose log-odds are averaged" if len(each) > 1 else ""
    count = sum(one.rounds for one in each)
    note = f"{count} trees{of_models}. Importance of each feature for their correction of the scaled score, in percent."
    return (Section("features", ("feature", "importance"), tuple(rows), note),)


def contributions(state: State, batch: Batch, rows: IntArray, background: IntArray) -> Contributions | None:
    """The mean of the contributions to each correction; None where there is nothing to correct."""
    found = [one.contributions(batch, rows, background) for one in _corrections(state)]
    each = [one for one in found if one is not None]
    if len(each) < len(found):
        return None
    if len(each) == 1:
        return each[0]
    base, values = (np.mean([getattr(one, part) for one in each], axis=0) for part in ("base", "values"))
    return Contributions(each[0].names, base if each[0].values.ndim > 2 else float(base), values)
