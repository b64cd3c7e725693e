"""Growing the trees of boost: how fast and on which rows, and trials of their number on rows that are held out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.learners import catboost
from calcli.learners.screening import most_telling
from calcli.methods.base import SETTINGS, Params, number
from calcli.methods.boost.correction import Correction, features_of, moved, pool
from calcli.methods.calibrator import FittedMethod, scaled
from calcli.methods.trees.held_out_choice import best, distinct
from calcli.numeric.links import scores
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import Split, class_order
from calcli.numeric.side_by_side import on_threads
from calcli.state import State

if TYPE_CHECKING:
    from catboost import CatBoost

EVERY = 10
"""The rounds between two losses that cross-validation computes."""


def _encoding(prior: float, borders: int) -> Mapping[str, Any]:
    """Encode categories by the rates of their labels, each with one more row of the rate `prior`.

    CatBoost's borders between rates are equally far apart. Its 15 are too coarse where positives are rare.
    """
    rates = [f"Borders:CtrBorderCount={borders}:Prior={prior:.6g}"]
    return {"simple_ctr": rates, "combinations_ctr": rates}


class Course(NamedTuple):
    """The learning rate; if rounds are not given, the most there may be, and the patience of a fold's training."""

    rate: float
    most: int
    patience: int
    steps: int
    """The Newton steps for the value of a leaf. CatBoost's own number follows from that of the rounds, so that these
    would be chosen for other trees than are grown.
    """

    @classmethod
    def of(cls, params: Params, rows: Batch) -> Course:
        rate = None if params["rate"] == "auto" else number(params, "rate")
        many = rows.weights.sum() > FEW if rate is None else rate >= OF_MANY.rate
        course = MORE_CLASSES if rows.classes > 2 else OF_MANY if many else OF_FEW
        return course if rate is None else course._replace(rate=rate)

    def chosen(self, rounds: int) -> dict[str, int | float]:
        """The values of parameters that were left open: a part of the rows has the rate of all."""
        return {"rounds": rounds, "rate": self.rate}


FEW = 5_000
OF_FEW, OF_MANY = Course(0.05, 300, 50, steps=10), Course(0.1, 600, 25, steps=5)
"""Of two classes up to `FEW` rows, and of more. 26 real and simulated tables of 13,000 to 25,000 rows gain as much by
the latter in half the time, or up to 6 % of their loss where trees go on to gain for hundreds of rounds. Tables of
1,800 rows lose some tenths of a percent by it."""

MORE_CLASSES = Course(0.1, 200, 30, steps=1)
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


@dataclass(frozen=True, slots=True)
class Boosting:
    """The settings of the models, and the order in which they see the classes.

    Another order would change what they learn. It follows from the scores, so that it does not matter which class is
    the positive one.
    """

    settings: Mapping[str, Any]
    course: Course
    seed: int
    order: IntArray

    @classmethod
    def of(cls, params: Params, course: Course, rows: Batch, seed: int) -> Boosting:
        own = {"depth": int(number(params, "depth")), "l2_leaf_reg": number(params, "l2")}
        order = class_order(rows.score, rows.weight)
        # K classes have K - 1 rates a category: 255 borders of each would double the time, and are no better.
        encoding = _encoding(float((rows.labels == order[1]).mean()), 255) if rows.classes == 2 else _encoding(0.5, 64)
        loss = _LOSSES[rows.classes > 2]
        settings = {**_SETTINGS, "rsm": 1.0, **loss, **encoding, **own, "learning_rate": course.rate}
        settings["leaf_estimation_iterations"] = course.steps
        return cls(settings, course, seed, order)

    def train(self, rows: Batch, start: FittedMethod, rounds: int, unseen: Batch | None = None) -> CatBoost | None:
        """A model, stopped early on the rows `unseen` if given; None where there is nothing to learn."""
        order = self.of_labels(rows)
        features = features_of(rows, scores(start.predict(Batch(rows.score))), order)
        if len(np.unique(rows.labels)) == 1 or not any(catboost.differs(column) for column in features.values()):
            return None
        if unseen is not None:
            unseen = unseen.take(np.isin(unseen.labels, order))
        stopping = {"od_type": "Iter", "od_wait": self.course.patience, "use_best_model": False} if unseen else {}
        return catboost.train(
            pool(rows, start, order),
            {**self.settings, **stopping, "iterations": rounds},
            seed=self.seed,
            evaluated=pool(unseen, start, order) if unseen else None,
        )

    def of_labels(self, rows: Batch) -> IntArray:
        """The order of the classes of these labels; of two classes both, of more CatBoost takes no others."""
        return self.order if rows.classes == 2 else self.order[np.isin(self.order, rows.labels)]

    def state(self, start: FittedMethod, model: CatBoost | None, rows: Batch) -> State:
        """The state of a model that was trained on these rows."""
        correction = Correction.grown(start, model, self.of_labels(rows), rows)
        return correction.to_state({SETTINGS: {**self.course.chosen(correction.rounds)}})


@dataclass(frozen=True, slots=True)
class Trial:
    """A model of as many rounds as there may be, or fewer after early stopping, and its losses on held-out rows.

    `losses` are of the rows `unseen` after 0, 10, 20, .. rounds; after early stopping the last one is repeated.
    """

    boosting: Boosting
    seen: Batch
    unseen: Batch
    start: FittedMethod
    model: CatBoost | None
    losses: FloatArray

    @classmethod
    def of(cls, boosting: Boosting, seen: Batch, unseen: Batch, how: Mapping[str, Any]) -> Trial:
        boosting, start = replace(boosting, settings={**boosting.settings, **how}), scaled(seen)
        prob = start.predict(Batch(unseen.score))
        losses = [log_loss(prob, unseen.labels)]
        model = boosting.train(seen, start, boosting.course.most, unseen)
        if model is not None and len(unseen):  # of no rows CatBoost prints that there are none
            order = boosting.of_labels(seen)
            data = catboost.pool(features_of(unseen, scores(prob), order))
            count = how.get("thread_count", -1)
            for stage in model.staged_predict(data, "RawFormulaVal", eval_period=EVERY, thread_count=count):
                losses.append(log_loss(moved(prob, stage, order), unseen.labels))
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
        return self.boosting.state(self.start, model, self.seen)


def trials(rows: Batch, params: Params, course: Course, seed: int, splits: Iterable[Split]) -> list[Trial]:
    """A trial for each split, on one thread each if there are several."""
    tried = list(splits)

    def work(split: Split) -> Trial:
        seen = telling(drawn(distinct(rows.take(split.train), seed)))
        unseen = drawn(distinct(_with(rows, seen.features).take(split.test), seed))
        boosting = Boosting.of(params, course, seen, seed)
        return Trial.of(boosting, seen, unseen, {"thread_count": 1} if len(tried) > 1 else {})

    return on_threads(work, tried)


def drawn(rows: Batch) -> Batch:
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


def telling(rows: Batch) -> Batch:
    """The rows with no more features than trees are grown on."""
    if len(rows.features) <= MOST_FEATURES:
        return rows
    prob = scaled(rows).predict(Batch(rows.score))
    return _with(rows, most_telling(rows.features, rows.labels, rows.weights, prob, MOST_FEATURES))


def _with(rows: Batch, names: Iterable[str]) -> Batch:
    """The rows with these features alone."""
    return replace(rows, features={name: rows.features[name] for name in names})


def chosen_rounds(trials: Sequence[Trial]) -> int:
    """The number of rounds of least held-out loss."""
    return EVERY * best([trial.losses for trial in trials], [trial.unseen for trial in trials])
