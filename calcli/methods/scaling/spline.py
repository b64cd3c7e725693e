"""Spline calibration: a smoothing spline of the log-odds, whose penalty is cross-validated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SamplingUnits, SideInputs
from calcli.expressions import Inputs, Term, Terms
from calcli.methods.base import SETTINGS, Params, Sums, SumsMethod, candidates, number
from calcli.numeric import curves
from calcli.numeric.curves import Points, Sample
from calcli.numeric.links import sigmoid
from calcli.numeric.seeded import splits_of_units, stream
from calcli.numeric.solve import Expansion, NaturalSpline, locate, newton
from calcli.state import SCORES, Numbers, Rules, State

OUTER = 0.02
"""The share of the rows beyond each of the outermost knots."""

FOLDS = 5
STRENGTHS = (np.inf, 1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2, 1e-3)
"""The candidates for c: the penalty is c/n times the roughness on an axis on which the knots span a length of 1."""


class Spline(SumsMethod):
    """Spline calibration: sigmoid(g(z)) with a smoothing spline g on log-odds (after Lucena 2018).

    g is a natural cubic spline with few knots at quantiles of the scores, straight beyond the outermost. Its roughness,
    the integral of g''^2, is penalised, and the targets are Platt's smoothed ones, so that a penalty without limit is
    Platt scaling. The penalty is chosen by cross-validation, Platt scaling among the candidates, from those whose curve
    on all rows is monotone.

    The fit needs only moments of the scores in narrow cells. A fold of the cross-validation is every fifth of the cells
    that hold rows: rows with equal scores stay together, and neither chance nor the order of the rows matters. Where
    rows belong to units, folds are of units.
    """

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        sums = self.gather(batch, params)
        sample = Sample.of_cells(sums.arrays)
        curve = _Curve.of(sample.everyone, params)
        folds = _of_cells(sums) if batch.units is None else _of_units(batch, batch.units, seed)
        strength = _chosen(curve, sample, folds, params)
        coefficients = curve.fitted(sample, strength)
        if sample.coarseness(curve.basis, coefficients) > curves.COARSE:
            coefficients = curve.fitted(sample.by_rows(batch.score, batch.labels, batch.weights), strength)
        return curve.state(coefficients, strength)

    def gather(self, batch: Batch, params: Params) -> Sums:
        return _gathered(batch)

    def finish(self, sums: Sums, params: Params) -> State:
        sample = Sample.of_cells(sums.arrays)
        curve = _Curve.of(sample.everyone, params)
        strength = _chosen(curve, sample, _of_cells(sums), params)
        return curve.state(curve.fitted(sample, strength), strength)

    def holds(self, classes: int) -> Rules:
        return {"knots": SCORES, "pieces": Numbers(("n+1", "4"))}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        return sigmoid(curve(state, batch.score))

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        return (terms.sigmoid(curve_terms(state, score[0])),)


def curve(state: State, score: FloatArray) -> FloatArray:
    """The log-odds g(z)."""
    piece, d = locate(state.array("knots"), score)
    one, first, second, third = state.array("pieces").T
    log_odds: FloatArray = one[piece] + d * (first[piece] + d * (second[piece] + d * third[piece]))
    return log_odds


def curve_terms(state: State, z: Term) -> Term:
    """The log-odds g(z) as a term."""
    knots, pieces = state.array("knots"), []
    for origin, (one, first, second, third) in zip(np.append(knots[0], knots), state.array("pieces"), strict=True):
        d = z - float(origin)
        pieces.append(float(one) + d * (float(first) + d * (float(second) + float(third) * d)))
    return terms.steps(z, knots, pieces, "right")


@dataclass(frozen=True)
class _Curve:
    """A family of splines: linear combinations of a few."""

    spline: NaturalSpline
    combined: FloatArray
    """The values at the knots of each: a constant, a line, then curves of rising roughness. Written so, the penalty is
    a sum of squares; on the values themselves it would be a small difference of large numbers.
    """

    rough: FloatArray
    """The roughness of each, on an axis on which the knots span a length of 1."""

    flexible: bool

    @classmethod
    def of(cls, rows: Points, params: Params) -> _Curve:
        """Knots at quantiles of the scores; with too few distinct scores the curve is a line."""
        count = int(number(params, "knots"))
        order = np.argsort(rows.z)
        z, weight = rows.z[order], rows.moments[0][order]
        share = (np.cumsum(weight) - weight / 2) / weight.sum()
        low, high = float(z[0]), float(z[-1])
        knots = np.interp(np.linspace(OUTER, 1 - OUTER, count), share, z)
        flexible = len(z) > count and bool((np.diff(knots) > 1e-6 * max(1.0, abs(low), abs(high))).all())
        if not flexible:
            knots = (low + high) / 2 + np.array([-0.5, 0.0, 0.5]) * max(high - low, 1.0)
        length = float(np.ptp(knots))
        rough, combined = np.linalg.eigh(NaturalSpline.at(knots / length).roughness)
        rough[:2] = 0.0
        combined[:, 0], combined[:, 1] = 1.0, (knots - knots.mean()) / length
        return cls(NaturalSpline.at(knots), combined, rough, flexible)

    def basis(self, z: FloatArray, order: int) -> FloatArray:
        return np.tensordot(self.combined.T, self.spline.jets(z, order), axes=1)

    def line(self, z: FloatArray, order: int) -> FloatArray:
        return self.basis(z, order)[:2]

    def fitted(self, sample: Sample, strength: float) -> FloatArray:
        """The coefficients for one strength of the penalty."""
        return next(self._fits(sample, (strength,)))

    def path(self, sample: Sample, strengths: Sequence[float]) -> list[FloatArray]:
        """The fits for falling strengths, each started from the one before.

        They are only compared with each other, for which half as many digits are enough.
        """
        return list(self._fits(sample, strengths, tolerance=1e-7))

    def _fits(self, sample: Sample, strengths: Sequence[float], *, tolerance: float = 1e-12) -> Iterator[FloatArray]:
        low, high = sample.ends
        log_odds = sample.log_odds(smooth=True)
        coefficients = np.zeros(len(self.rough))
        one_score = high - low <= 1e-9 * max(1.0, abs(low))
        loss = None
        for strength in strengths:
            if one_score:
                knots = self.spline.knots  # one score alone says nothing about the slope
                coefficients[:2] = knots.mean() - low + log_odds, np.ptp(knots)
            elif strength == np.inf:
                line = sample.log_loss(self.line, smooth=True)
                coefficients[:2] = newton(line, np.array([log_odds, 0.0]), tolerance=tolerance)
            else:
                loss = loss or sample.log_loss(self.basis, smooth=True)
                penalty = strength / sample.everyone.weight * self.rough
                coefficients = newton(_penalised(loss, penalty), coefficients, tolerance=tolerance)
            yield coefficients.copy()

    def state(self, coefficients: FloatArray, strength: float) -> State:
        arrays = {"knots": self.spline.knots, "pieces": self.spline.pieces @ self.combined @ coefficients}
        return State({SETTINGS: {"penalty": "inf" if math.isinf(strength) else strength}}, arrays)


def _penalised(loss: Callable[[FloatArray], Expansion], penalty: FloatArray) -> Callable[[FloatArray], Expansion]:
    """The loss plus a weighted sum of squares."""

    def penalised(x: FloatArray) -> Expansion:
        value, gradient, hessian = loss(x)
        return Expansion(value + float(penalty @ x**2), gradient + 2 * penalty * x, hessian + np.diag(2 * penalty))

    return penalised


def _gathered(batch: Batch) -> Sums:
    return Sums(curves.gather(batch.score, batch.labels, batch.weight))


def _of_cells(sums: Sums) -> Iterator[tuple[Sample, Sample]]:
    """Each fold of the cells: what is seen, and what is held out."""
    filled = sums.arrays["all"][0] > 0
    fold = np.where(filled, np.cumsum(filled) % FOLDS, -1)
    for index in range(FOLDS):
        seen, unseen = (
            {name: array * side for name, array in sums.arrays.items()} for side in (fold != index, fold == index)
        )
        yield Sample.of_cells(seen), Sample.of_cells(unseen)


def _of_units(batch: Batch, units: SamplingUnits, seed: int) -> Iterator[tuple[Sample, Sample]]:
    """Each fold of the units: what is seen, and what is held out."""
    for split in splits_of_units(units, FOLDS, stream(seed, "spline")):
        seen, unseen = (_gathered(batch.take(side)).arrays for side in split)
        if seen["all"][0].any() and unseen["all"][0].any():  # rows of weight 0 are none
            yield Sample.of_cells(seen), Sample.of_cells(unseen)


def _chosen(curve: _Curve, sample: Sample, folds: Iterable[tuple[Sample, Sample]], params: Params) -> float:
    """The strength of least log-loss on held-out folds among those whose curve is monotone, or the given strength.

    If the curve of the given strength is not monotone, it is the weakest stronger one whose curve is.
    """
    if not curve.flexible:
        return np.inf
    asked = candidates(params, "penalty", STRENGTHS)
    given = len(asked) == 1
    strengths = (*(one for one in STRENGTHS if one > asked[0]), *asked) if given else STRENGTHS
    loss = -np.arange(len(strengths)) if given else _held_out(curve, folds)
    path = curve.path(sample, strengths)
    monotone = [curve.spline.is_monotone(curve.combined @ coefficients) for coefficients in path]
    monotone[0] = True  # Platt scaling
    return strengths[int(np.argmin(np.where(monotone, loss, np.inf)))]


def _held_out(curve: _Curve, folds: Iterable[tuple[Sample, Sample]]) -> FloatArray:
    """The log-loss of held-out rows with each strength."""
    loss = np.zeros(len(STRENGTHS))
    for seen, unseen in folds:
        loss_of = unseen.log_loss(curve.basis, smooth=False)
        path = curve.path(seen, STRENGTHS)
        loss += [unseen.everyone.weight * loss_of(coefficients).value for coefficients in path]
    return loss
