"""Linear maps of log-odds: none (identity), one temperature for all classes, and Platt scaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calcli.batch import Batch, FloatArray, Group, SideInputs
from calcli.methods.base import Params, Sums, SumsMethod
from calcli.numeric import moments
from calcli.numeric.links import probabilities, sigmoid, softmax
from calcli.numeric.losses import log_loss
from calcli.numeric.moments import GroupMoments, ScoreMoments
from calcli.numeric.solve import Expansion, Expansions, newton, newton_each, root_between
from calcli.state import Numbers, Rules, State

if TYPE_CHECKING:  # only exports need formulas
    from calcli.expressions import Inputs, Terms

BOUND = float(np.exp(10.0))
"""1/T is held within [1/BOUND, BOUND]."""

NOTHING = 1e-7
"""A mean log-loss below it says that the score separates the classes: a single row on the wrong side costs ln 2 / n."""

_INVERSE = Numbers(low=0.99 / BOUND, high=1.01 * BOUND)

COARSE = 0.1
"""Cells within which a z + b varies by more than twice this are too coarse: the error is then above 1e-7."""


class Identity(SumsMethod):
    """No calibration: the probabilities of the model."""

    def gather(self, batch: Batch, params: Params) -> Sums:
        return Sums()

    def finish(self, sums: Sums, params: Params) -> State:
        return State()

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        return probabilities(batch.score)

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        from calcli import expressions as terms

        return (terms.sigmoid(score[0]),) if len(score) == 1 else terms.softmax(score)


class Temperature(SumsMethod):
    """Temperature scaling: softmax(V / T), one number for all classes (Guo et al. 2017).

    The log-loss is convex in 1/T, so a bracketed Newton search finds its one minimum. 1/T is held within
    [exp(-10), exp(10)], as scikit-learn does. On separable rows the best temperature is 0, which no rows support: their
    targets are then mixed with 1/K as one more row would be, (1 - 1/(n + 1)) y + 1/((n + 1) K), n the sum of weights.
    """

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        if batch.classes == 2:
            return self.finish(self.gather(batch, params), params)
        return State({"inverse_temperature": inverse_temperature(batch)})

    def gather(self, batch: Batch, params: Params) -> Sums:
        return Sums(moments.gather(batch.score, batch.labels, batch.weight))

    def finish(self, sums: Sums, params: Params) -> State:
        rows = ScoreMoments.of(sums.arrays)
        if np.hypot(rows.spread, rows.score / rows.weight) <= 1e-9:
            return State({"inverse_temperature": 1.0})  # all scores are 0: any temperature gives the same

        def best(target_score: float) -> float:
            def slope(beta: float) -> tuple[float, float]:
                _, gradient, hessian = rows.softplus(beta, 0.0)
                return float(gradient[0]) - target_score, float(hessian[0, 0])

            return root_between(slope, 1 / BOUND, BOUND, 1.0)

        beta = best(rows.score_positive)
        if _separated(beta, (rows.softplus(beta, 0.0).value - beta * rows.score_positive) / rows.weight):
            share = 1.0 / (rows.weight + 1.0)
            beta = best((1.0 - share) * rows.score_positive + share * rows.score / 2.0)
        return State({"inverse_temperature": beta})

    def holds(self, classes: int) -> Rules:
        return {"inverse_temperature": _INVERSE}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        beta = state.number("inverse_temperature")
        scaled = batch.score * beta
        return sigmoid(scaled) if scaled.ndim == 1 else softmax(scaled)

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        from calcli import expressions as terms

        scaled = [state.number("inverse_temperature") * one for one in score]
        return (terms.sigmoid(scaled[0]),) if len(scaled) == 1 else terms.softmax(scaled)


def inverse_temperature(batch: Batch) -> float:
    """1/T where the mean over rows of E_p[V] - V_y, the derivative of the log-loss, is zero."""
    V = batch.score - batch.score.max(axis=1, keepdims=True)
    if float(np.abs(V).max()) <= 1e-9:
        return 1.0  # all classes are equally likely, always: any temperature gives the same
    weight = batch.weights
    chosen = np.take_along_axis(V, batch.labels[:, None], axis=1)[:, 0]

    def best(target: FloatArray) -> float:
        def slope(beta: float) -> tuple[float, float]:
            p = softmax(beta * V)
            mean = (p * V).sum(axis=1)
            variance = (p * (V - mean[:, None]) ** 2).sum(axis=1)
            return float(weight @ (mean - target)), float(weight @ variance)

        return root_between(slope, 1 / BOUND, BOUND, 1.0)

    beta, total = best(chosen), float(weight.sum())
    if _separated(beta, float(weight @ log_loss(softmax(beta * V), batch.labels)) / total):
        share = 1.0 / (total + 1.0)
        beta = best((1.0 - share) * chosen + share * V.mean(axis=1))
    return beta


def _separated(beta: float, loss: float) -> bool:
    """Whether the search for 1/T has ended at its bound, or where nothing is left to gain."""
    return beta > 0.999 * BOUND or loss < NOTHING


class Platt(SumsMethod):
    """Platt scaling: sigmoid(a z + b) on log-odds z, with Platt's smoothed targets (Platt 1999).

    The labels 1 and 0 are replaced by (n1 + 1) / (n1 + 2) and 1 / (n0 + 2), with n1 and n0 the weights of the two
    classes, so that the fit stays finite when the classes are separable. A slope below zero is allowed: it says that
    the scores are upside down.

    The fit needs only the moments of the scores in narrow cells. Where all scores lie so close together that the cells
    are too coarse for the slope, `fit` goes back to the rows; `finish`, which has none, is then right to about 1e-4.
    """

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        rows = ScoreMoments.of(moments.gather(batch.score, batch.labels, batch.weight))
        a, b = _slope_and_intercept(rows, rows.softplus)
        if rows.coarseness(a) > COARSE:
            z, weight = np.clip(batch.score, -moments.LIMIT, moments.LIMIT), batch.weights
            a, b = _slope_and_intercept(rows, lambda a, b: moments.softplus_of_rows(z, weight, a, b))
        return State({"a": a, "b": b})

    def fit_each(self, batch: Batch, groups: Sequence[Group], params: Params) -> list[State | None]:
        rows = GroupMoments.of(batch.score, batch.labels, groups)
        found = _slopes_and_intercepts(rows)
        alone = np.isnan(found).any(axis=1) | ~(rows.coarseness(found[:, 0]) <= COARSE)
        each = zip(found.tolist(), alone.tolist(), strict=True)
        return [None if unlike else State({"a": a, "b": b}) for (a, b), unlike in each]

    def gather(self, batch: Batch, params: Params) -> Sums:
        return Sums(moments.gather(batch.score, batch.labels, batch.weight))

    def finish(self, sums: Sums, params: Params) -> State:
        rows = ScoreMoments.of(sums.arrays)
        a, b = _slope_and_intercept(rows, rows.softplus)
        return State({"a": a, "b": b})

    def holds(self, classes: int) -> Rules:
        return {"a": Numbers(), "b": Numbers()}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        u = batch.score * state.number("a")
        u += state.number("b")
        return sigmoid(u, out=u)

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        from calcli import expressions as terms

        return (terms.sigmoid(state.number("a") * score[0] + state.number("b")),)


class _Targets(NamedTuple):
    """The smoothed targets y of some rows, as numbers, or as arrays with one for each group of rows."""

    score: Any
    mass: Any
    """`score`, `mass`: the sums of w y z and of w y."""

    log_odds: Any
    """Those that fit best without the score."""

    mean: Any
    differ: Any
    """`mean`, `differ`: the mean score, and whether scores differ."""

    @classmethod
    def of(cls, rows: ScoreMoments | GroupMoments) -> _Targets:
        high = (rows.weight_positive + 1.0) / (rows.weight_positive + 2.0)
        low = 1.0 / (rows.weight - rows.weight_positive + 2.0)
        mass = low * rows.weight + (high - low) * rows.weight_positive
        score = low * rows.score + (high - low) * rows.score_positive
        mean = rows.score / rows.weight
        log_odds = np.log(mass) - np.log(rows.weight - mass)
        return cls(score, mass, log_odds, mean, rows.spread > 1e-9 * np.maximum(1.0, np.abs(mean)))


def _slope_and_intercept(rows: ScoreMoments, softplus: Callable[[float, float], Expansion]) -> tuple[float, float]:
    """The a and b of least log-loss against the smoothed targets; `softplus` sums over the rows."""
    target = _Targets.of(rows)
    if not target.differ:
        return 1.0, target.log_odds - target.mean  # one score alone says nothing about the slope
    linear = np.array([target.score, target.mass])

    def loss(x: FloatArray) -> Expansion:
        value, gradient, hessian = softplus(float(x[0]), float(x[1]))
        value -= float(x[0]) * target.score + float(x[1]) * target.mass
        return Expansion(value / rows.weight, (gradient - linear) / rows.weight, hessian / rows.weight)

    a, b = newton(loss, np.array([0.0, target.log_odds]))
    return float(a), float(b)


def _slopes_and_intercepts(rows: GroupMoments) -> FloatArray:
    """The slope and intercept of each group of rows; NaN for those that have to be found alone."""
    target = _Targets.of(rows)
    linear, weight = np.stack([target.score, target.mass], axis=1), rows.weight[:, None]

    def loss(x: FloatArray) -> Expansions:
        value, gradient, hessian = rows.softplus(x[:, 0], x[:, 1])
        value -= (x * linear).sum(axis=1)
        return Expansions(value / rows.weight, (gradient - linear) / weight, hessian / weight[:, :, None])

    found = newton_each(loss, np.stack([np.zeros(len(weight)), target.log_odds], axis=1))
    of_one_score = np.stack([np.ones(len(weight)), target.log_odds - target.mean], axis=1)
    return np.where(target.differ[:, None], found, of_one_score)
