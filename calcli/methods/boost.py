"""Gradient boosting from a calibrated score: CatBoost on the features, with the scaled score as its baseline.

Trees add to the log-odds z' = a z + b of Platt scaling (more than two classes: to the log-probabilities of structured
matrix scaling) and may split on the score as well. Their number is chosen by cross-validation of the log-loss, zero
among the candidates: trees must beat the scaled score by a standard error.

The models of that cross-validation are kept, where each row was held out once: the mean of their log-odds is better
than one model of all rows, and nothing is fitted anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import Batch, Column, FloatArray, IntArray, SideInputs
from calcli.errors import UsageError
from calcli.expressions import Inputs, Terms, total
from calcli.learners import catboost
from calcli.learners.oblivious import trees
from calcli.learners.screening import most_telling
from calcli.learners.tree_models import Contributions, of_trees
from calcli.methods import calibrator, catalog
from calcli.methods.base import SETTINGS, Chosen, Params, Section, number
from calcli.methods.calibrator import FittedMethod, formula_of
from calcli.methods.trees.coding import sums
from calcli.methods.trees.held_out_choice import best, distinct, each_held_out_once, enough, held_out_splits
from calcli.numeric.links import probabilities, scores
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import Split, class_order, ordered
from calcli.numeric.side_by_side import on_threads
from calcli.state import Json, Rules, State, nest, pack_texts, unnest, unpack_texts

if TYPE_CHECKING:
    from catboost import CatBoost, Pool

EVERY = 10
"""The rounds between two losses that cross-validation computes."""

SCORE = "calibrated score"
"""The name of the score among the features, followed by the index of the class if there are several."""

_BLOB = "model.cbm"
_LEVELS = "levels"
_BAGS = "bags"


def _encoding(prior: float, borders: int) -> Mapping[str, Any]:
    """Encode categories by the rates of their labels, each with one more row of the rate `prior`.

    CatBoost's borders between rates are equally far apart. Its 15 are too coarse where positives are rare.
    """
    rates = [f"Borders:CtrBorderCount={borders}:Prior={prior:.6g}"]
    return {"simple_ctr": rates, "combinations_ctr": rates}


class _Course(NamedTuple):
    """The learning rate; if rounds are not given, the most there may be, and the patience of a fold's training."""

    rate: float
    most: int
    patience: int
    steps: int
    """The Newton steps for the value of a leaf. CatBoost's own number follows from that of the rounds, so that these
    would be chosen for other trees than are grown.
    """

    @classmethod
    def of(cls, params: Params, rows: Batch) -> _Course:
        rate = None if params["rate"] == "auto" else number(params, "rate")
        many = rows.weights.sum() > FEW if rate is None else rate >= OF_MANY.rate
        course = MORE_CLASSES if rows.classes > 2 else OF_MANY if many else OF_FEW
        return course if rate is None else course._replace(rate=rate)

    def chosen(self, rounds: int) -> dict[str, int | float]:
        """The values of parameters that were left open: a part of the rows has the rate of all."""
        return {"rounds": rounds, "rate": self.rate}


FEW = 5_000
OF_FEW, OF_MANY = _Course(0.05, 300, 50, steps=10), _Course(0.1, 600, 25, steps=5)
"""Of two classes up to `FEW` rows, and of more. 26 real and simulated tables of 13,000 to 25,000 rows gain as much by
the latter in half the time, or up to 6 % of their loss where trees go on to gain for hundreds of rounds. Tables of
1,800 rows lose some tenths of a percent by it."""

MORE_CLASSES = _Course(0.1, 200, 30, steps=1)
"""A round of K classes costs K times as much, so that they have fewer."""

# Chosen on real tables: no noise in the choice of splits, and no combinations of categories, which are target-encoded.
# 64 bins of a number are as good as CatBoost's 254; 32 are not where features are coordinates. One order of the rows
# encodes categories as well as three, each of which costs as much as the first.
_SETTINGS = {
    "border_count": 64,
    "boosting_type": "Plain",
    "permutation_count": 2,
    "bootstrap_type": "No",
    "random_strength": 0,
    "max_ctr_complexity": 1,
}

_LOSSES: tuple[Mapping[str, Any], Mapping[str, Any]] = (
    {"loss_function": "Logloss:hints=skip_train~true"},
    {"loss_function": "MultiClass:hints=skip_train~true", "rsm": 0.5},
)
"""The losses of two classes, and of more: a level of a tree then tries half of the features, as K classes have K scores
and K - 1 encodings of each category among them. Nobody asks for the loss of the rows that the trees have seen, which
would take a tenth of the time.
"""

MOST_FEATURES = 512
"""Trees are grown on so many features, those of a wide table that tell the most beyond the scaled score."""

MOST_ROWS = 500_000
"""Trees are grown on so many rows, drawn from more: of six million rows of seven numbers they gain as much by these.

They are grown on more where fewer than `OF_CLASS` of those would have some label: a sixth of the rows gained 5 % less
with 10,000 of the rarer label among them, 12 % less with 1,000, and half as much with 100. Where a category has a level
for fewer than `OF_LEVEL` of them they are grown on all rows, as rare levels need all.
"""

OF_LEVEL, OF_CLASS = 1_000, 50_000


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    rows, course = _drawn(distinct(batch, seed)), _Course.of(params, batch)
    if params["rounds"] == "auto":
        splits = held_out_splits(rows)
        trials = _trials(rows, params, course, seed, splits)
        rounds = _rounds(trials)
        if params["bags"] is True and each_held_out_once(splits) and (kept := _mean_of(trials, rounds)):
            return kept
    else:
        rounds = int(number(params, "rounds"))
    rows = _telling(rows)
    boosting, start = _Boosting.of(params, course, rows, seed), _scaled(rows)
    model = boosting.train(rows, start, rounds) if rounds else None
    return _state(start, model, boosting, rows)


def choose(batch: Batch, sides: SideInputs, params: Params, seed: int, splits: Sequence[Split]) -> Chosen:
    """The number of rounds by the last split, if it is enough; or by all, if each row is held out by one.

    The trial of a split is its fit. Of several, each has the rounds that the others prefer, so that no row takes part
    in a choice by which it is judged; the calibrator of all rows is their mean.
    """
    if params["rounds"] != "auto":
        return Chosen()
    course = _Course.of(params, batch)
    if params["bags"] is True and each_held_out_once(splits):
        trials = _trials(batch, params, course, seed, splits)
        rounds = _rounds(trials)
        states = {place: trial.state(_rounds(_without(trials, place))) for place, trial in enumerate(trials)}
        return Chosen(course.chosen(rounds), states, _mean_of(trials, rounds))
    if (last := enough(batch, splits)) is None:
        return Chosen()
    (trial,) = trials = _trials(batch, params, course, seed, [last])
    rounds = _rounds(trials)
    return Chosen(course.chosen(rounds), {len(splits) - 1: trial.state(rounds)} if trial.reaches(rounds) else {})


def _without(trials: Sequence[_Trial], place: int) -> list[_Trial]:
    return [*trials[:place], *trials[place + 1 :]]


def holds(classes: int) -> Rules:
    return {}


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    each = [_predicted(one, batch) for one in _bags(state)]
    return each[0] if len(each) == 1 else probabilities(np.mean([scores(prob) for prob in each], axis=0))


def _predicted(state: State, batch: Batch) -> FloatArray:
    start, model = _parts(state)
    if model is None:
        return start.predict(Batch(batch.score))
    prob, order = start.predict(Batch(batch.score)), _order(state, batch.classes)
    features = _features(batch, scores(prob), order)
    with catboost.refusals("predict"):
        data = catboost.pool({name: features[name] for name in model.feature_names_})
        added = np.asarray(model.predict(data, prediction_type="RawFormulaVal"), dtype=np.float64)
    return _moved(prob, added, order)


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    each = [_formula(one, score, features) for one in _bags(state)]
    if len(each) == 1:
        return each[0]
    sums = map(total, zip(*(terms.scores(prob) for prob in each), strict=True))
    return terms.probabilities(tuple(one / float(len(each)) for one in sums))


def _formula(state: State, score: Terms, features: Inputs) -> Terms:
    start, model = _parts(state)
    prob = formula_of(start, score, {})
    if model is None:
        return prob
    order = _order(state, len(prob) if len(prob) > 1 else 2)
    before = terms.scores(prob)
    signed = [before[0] if order[0] == 0 else -1.0 * before[0]] if len(prob) == 1 else [before[at] for at in order]
    names = [name for name in model.feature_names_ if name not in features]
    columns = {**features, **dict(zip(names, signed, strict=True))}
    added = sums(trees(model, _levels(state, features)), columns)
    if len(prob) == 1:
        return terms.probabilities((before[0] + (added[0] if order[0] == 0 else -1.0 * added[0]),))
    moved = terms.probabilities(tuple(before[at] + more for at, more in zip(order, added, strict=True)))
    whole = total([prob[at] for at in order])
    by_class = dict(zip(order.tolist(), (whole * one for one in moved), strict=True))
    return tuple(by_class.get(at, one) for at, one in enumerate(prob))


def explain(state: State) -> tuple[Section, ...]:
    """The importance of each feature for the output of the trees."""
    if not state.blobs:
        return (Section("boost", (), (), "No trees: the scaled score is as good."),)
    bags = _bags(state)
    importance: dict[str, float] = {}
    count = 0
    for one in bags:
        model = _parts(one)[1]
        if model is None:
            raise ValueError("it holds no model")
        count += model.tree_count_
        for name, value in zip(model.feature_names_, one.array("importances").tolist(), strict=True):
            importance[name] = importance.get(name, 0.0) + value / len(bags)
    rows = sorted(importance.items(), key=lambda item: (-item[1], item[0]))
    of_models = f" in {len(bags)} models, each of other rows, whose log-odds are averaged" if len(bags) > 1 else ""
    note = f"{count} trees{of_models}. Importance of each feature for their correction of the scaled score, in percent."
    return (Section("features", ("feature", "importance"), tuple(rows), note),)


def contributions(state: State, batch: Batch, rows: IntArray, background: IntArray) -> Contributions | None:
    """Contributions by shap's explainer of trees, with the move of the score by scaling; None without trees."""
    bags = _bags(state)
    each = [found for one in bags if (found := _contributions(one, batch, rows, background)) is not None]
    if len(each) < len(bags):
        return None
    if len(each) == 1:
        return each[0]
    base, values = (np.mean([getattr(one, part) for one in each], axis=0) for part in ("base", "values"))
    return Contributions(each[0].names, base if each[0].values.ndim > 2 else float(base), values)


def _contributions(state: State, batch: Batch, rows: IntArray, background: IntArray) -> Contributions | None:
    start, model = _parts(state)
    if model is None:
        return None
    scaled, order = scores(start.predict(Batch(batch.score))), _order(state, batch.classes)
    features = _features(batch, scaled, order)
    data = {name: features[name].take(rows) for name in model.feature_names_}
    trees = of_trees(model, catboost.pool(data))
    sign = float(ordered(np.ones(1), order)[0])
    score = next(place for place, name in enumerate(trees.names) if name not in batch.features)
    moved = scaled - batch.score
    mean = float(moved[background].mean())
    values = sign * trees.values
    values[:, score] += moved[rows] - mean
    places = [score, *(place for place in range(len(trees.names)) if place != score)]
    return Contributions(tuple(trees.names[place] for place in places), sign * trees.base + mean, values[:, places])


@dataclass(frozen=True, slots=True)
class _Boosting:
    """The settings of the models, and the order in which they see the classes.

    Another order would change what they learn. It follows from the scores, so that it does not matter which class is
    the positive one.
    """

    settings: Mapping[str, Any]
    course: _Course
    seed: int
    order: IntArray

    @classmethod
    def of(cls, params: Params, course: _Course, rows: Batch, seed: int) -> _Boosting:
        own = {"depth": int(number(params, "depth")), "l2_leaf_reg": number(params, "l2")}
        order = class_order(rows.score)
        # K classes have K - 1 rates a category: 255 borders of each would double the time, and are no better.
        encoding = _encoding(float((rows.labels == order[1]).mean()), 255) if rows.classes == 2 else _encoding(0.5, 64)
        loss = _LOSSES[rows.classes > 2]
        settings = {**_SETTINGS, "rsm": 1.0, **loss, **encoding, **own, "learning_rate": course.rate}
        settings["leaf_estimation_iterations"] = course.steps
        return cls(settings, course, seed, order)

    def train(self, rows: Batch, start: FittedMethod, rounds: int, unseen: Batch | None = None) -> CatBoost | None:
        """A model, stopped early on the rows `unseen` if given; None where there is nothing to learn."""
        order = self.of_labels(rows)
        features = _features(rows, scores(start.predict(Batch(rows.score))), order)
        if len(np.unique(rows.labels)) == 1 or not any(catboost.differs(column) for column in features.values()):
            return None
        if unseen is not None:
            unseen = unseen.take(np.isin(unseen.labels, order))
        stopping = {"od_type": "Iter", "od_wait": self.course.patience, "use_best_model": False} if unseen else {}
        return catboost.train(
            _pool(rows, start, order),
            {**self.settings, **stopping, "iterations": rounds},
            seed=self.seed,
            evaluated=_pool(unseen, start, order) if unseen else None,
        )

    def of_labels(self, rows: Batch) -> IntArray:
        """The order of the classes of these labels; of two classes both, of more CatBoost takes no others."""
        return self.order if rows.classes == 2 else self.order[np.isin(self.order, rows.labels)]


@dataclass(frozen=True, slots=True)
class _Trial:
    """A model of as many rounds as there may be, or fewer after early stopping, and its losses on held-out rows.

    `losses` are of the rows `unseen` after 0, 10, 20, .. rounds; after early stopping the last one is repeated.
    """

    boosting: _Boosting
    seen: Batch
    unseen: Batch
    start: FittedMethod
    model: CatBoost | None
    losses: FloatArray

    @classmethod
    def of(cls, boosting: _Boosting, seen: Batch, unseen: Batch, how: Mapping[str, Any]) -> _Trial:
        boosting, start = replace(boosting, settings={**boosting.settings, **how}), _scaled(seen)
        prob = start.predict(Batch(unseen.score))
        losses = [log_loss(prob, unseen.labels)]
        model = boosting.train(seen, start, boosting.course.most, unseen)
        if model is not None and len(unseen):  # of no rows CatBoost prints that there are none
            order = boosting.of_labels(seen)
            data = catboost.pool(_features(unseen, scores(prob), order))
            count = how.get("thread_count", -1)
            for stage in model.staged_predict(data, "RawFormulaVal", eval_period=EVERY, thread_count=count):
                losses.append(log_loss(_moved(prob, stage, order), unseen.labels))
        losses += [losses[-1]] * (1 + boosting.course.most // EVERY - len(losses))
        return cls(boosting, seen, unseen, start, model, np.stack(losses))

    def reaches(self, rounds: int) -> bool:
        """Whether `state` is what `fit` gives for so many rounds on the rows that were seen."""
        return rounds == 0 or self.model is None or bool(self.model.tree_count_ >= rounds)

    def state(self, rounds: int) -> State:
        """The state of the first rounds, or of all if they are fewer."""
        model = self.model.copy() if rounds and self.model is not None else None
        if model is not None and model.tree_count_ > rounds:
            model.shrink(rounds)
        return _state(self.start, model, self.boosting, self.seen)


def _trials(rows: Batch, params: Params, course: _Course, seed: int, splits: Iterable[Split]) -> list[_Trial]:
    """A trial for each split, on one thread each if there are several."""
    tried = list(splits)

    def work(split: Split) -> _Trial:
        seen = _telling(_drawn(distinct(rows.take(split.train), seed)))
        unseen = _drawn(distinct(_with(rows, seen.features).take(split.test), seed))
        boosting = _Boosting.of(params, course, seen, seed)
        return _Trial.of(boosting, seen, unseen, {"thread_count": 1} if len(tried) > 1 else {})

    return on_threads(work, tried)


def _drawn(rows: Batch) -> Batch:
    """Of very many distinct rows, whose order is by chance, the first and the heaviest ones.

    The weights of the first ones add up to those of all that are not among the heaviest.
    """
    if len(rows) <= MOST_ROWS:
        return rows
    count = np.bincount(rows.labels)
    most = max(MOST_ROWS, math.ceil(OF_CLASS * len(rows) / count[count > 0].min()))
    levels = max((len(column.levels) for column in rows.features.values()), default=0)
    if len(rows) <= most or levels * OF_LEVEL > most:
        return rows
    light = rows.weights <= rows.weights.sum() / most
    first = np.flatnonzero(light)[: most - np.count_nonzero(~light)]
    weight = rows.weights.copy()
    weight[first] *= weight[light].sum() / weight[first].sum()
    kept = ~light
    kept[first] = True
    return replace(rows, weight=weight).take(kept)


def _telling(rows: Batch) -> Batch:
    """The rows with no more features than trees are grown on."""
    if len(rows.features) <= MOST_FEATURES:
        return rows
    prob = _scaled(rows).predict(Batch(rows.score))
    return _with(rows, most_telling(rows.features, rows.labels, rows.weights, prob, MOST_FEATURES))


def _with(rows: Batch, names: Iterable[str]) -> Batch:
    """The rows with these features alone."""
    return replace(rows, features={name: rows.features[name] for name in names})


def _rounds(trials: Sequence[_Trial]) -> int:
    """The number of rounds of least held-out loss."""
    return EVERY * best([trial.losses for trial in trials], [trial.unseen for trial in trials])


def _mean_of(trials: Sequence[_Trial], rounds: int) -> State | None:
    """The state whose log-odds are the mean of those of all trials; None where one of them has no trees."""
    if rounds == 0 or any(trial.model is None for trial in trials):
        return None
    whole = nest({str(place): trial.state(rounds) for place, trial in enumerate(trials)})
    chosen: dict[str, Json] = {
        SETTINGS: {**trials[0].boosting.course.chosen(rounds)},
        _BAGS: len(trials),
        "rounds": rounds,
    }
    return replace(whole, params={**whole.params, **chosen})


def _bags(state: State) -> list[State]:
    """The states whose log-odds are averaged."""
    if _BAGS not in state.params:
        return [state]
    return [*unnest(state, map(str, range(int(state.number(_BAGS))))).values()]


def _pool(rows: Batch, start: FittedMethod, order: IntArray) -> Pool:
    """Training rows for CatBoost, with classes in this order and their scaled scores as baseline."""
    score = scores(start.predict(Batch(rows.score)))
    rank = np.empty(rows.classes, dtype=np.int64)
    rank[order] = np.arange(len(order))
    return catboost.pool(_features(rows, score, order), rank[rows.labels], rows.weight, baseline=ordered(score, order))


def _moved(prob: FloatArray, added: FloatArray, order: IntArray) -> FloatArray:
    """Probabilities after the trees have added to the scores of these classes, which keep their total."""
    if prob.ndim == 1:
        return probabilities(scores(prob) + ordered(added, order))
    moved = prob.copy()
    total = 1.0 if len(order) == prob.shape[1] else prob[:, order].sum(axis=1, keepdims=True)
    moved[:, order] = total * probabilities(scores(prob)[:, order] + added)
    return moved


def _scaled(rows: Batch) -> FittedMethod:
    """The calibrator that the trees start from."""
    spec = catalog.find("platt" if rows.classes == 2 else "sms")
    return calibrator.fit(spec, rows.bare, spec.resolve())


def _features(rows: Batch, score: FloatArray, order: IntArray) -> dict[str, Column]:
    """The features by name, and the score among them, with the classes in this order."""
    features = dict(sorted(rows.features.items()))
    name = SCORE
    while any(other.startswith(name) for other in features):
        name = f"{name}_"
    if score.ndim == 1:
        return features | {name: Column("number", ordered(score, order))}
    return features | {f"{name} {index}": Column("number", score[:, index]) for index in order}


def _order(state: State, classes: int) -> IntArray:
    """The order in which the model sees the classes; older states have their own."""
    return state.array("order").astype(np.int64) if "order" in state.arrays else np.arange(classes)


def _state(start: FittedMethod, model: CatBoost | None, boosting: _Boosting, rows: Batch) -> State:
    whole = nest({"start": start.to_state()})
    rounds = 0 if model is None else int(model.tree_count_)
    params: dict[str, Json] = {
        **whole.params,
        SETTINGS: {**boosting.course.chosen(rounds)},
        "method": start.spec.name,
        "rounds": rounds,
    }
    if model is None:
        return State(params, whole.arrays)
    order = boosting.of_labels(rows)
    importances = catboost.importances(model, _pool(rows, start, order))
    arrays = {**whole.arrays, "importances": importances, "order": order, **_levels_of(rows)}
    return State(params, arrays, {_BLOB: catboost.to_bytes(model)})


def _levels_of(rows: Batch) -> dict[str, NDArray[np.generic]]:
    """The levels of categories, as arrays of a state: CatBoost keeps a hash of each only."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, column in rows.features.items():
        if column.role == "category":
            codes = [int(code) for code in np.unique(column.values)]
            arrays |= pack_texts([column.levels[code] for code in codes if code >= 0], f"{_LEVELS}/{name}")
    return arrays


def _levels(state: State, features: Inputs) -> dict[str, tuple[str, ...]]:
    """The levels of each category in the fit."""
    names = [name for name, column in features.items() if column.role == "category"]
    if any(f"{_LEVELS}/{name}/ends" not in state.arrays for name in names):
        raise UsageError(
            "the calibrator does not hold the levels of its categories, as it was fitted by an earlier version",
            hint="fit it again",
        )
    return {name: unpack_texts(state.arrays, f"{_LEVELS}/{name}") for name in names}


def _parts(state: State) -> tuple[FittedMethod, CatBoost | None]:
    start = FittedMethod.from_state(str(state.params["method"]), unnest(state, ["start"])["start"])
    return start, _model(state.blobs[_BLOB]) if state.blobs else None


@lru_cache(maxsize=4)
def _model(content: bytes) -> CatBoost:
    """The model; it is read once for all chunks of rows."""
    return catboost.read(content)
