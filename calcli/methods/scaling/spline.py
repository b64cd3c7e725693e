"""Spline calibration: sigmoid(g(z)) with a smoothing spline g on log-odds (after Lucena 2018).

g is a natural cubic spline with few knots at quantiles of the scores, straight beyond the outermost. Its roughness, the
integral of g''^2, is penalised, and the targets are Platt's smoothed ones, so that a penalty without limit is Platt
scaling. The penalty is chosen by cross-validation, Platt scaling among the candidates, from those whose curve on all
rows is monotone.

The fit needs only moments of the scores in narrow cells. A fold of the cross-validation is every fifth of the cells
that hold rows: rows with equal scores stay together, and neither chance nor the order of the rows comes in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import Batch, FloatArray, Sides
from calcli.methods.base import Params, Sums, number
from calcli.numeric import curves
from calcli.numeric.curves import Points, Sample
from calcli.numeric.links import sigmoid
from calcli.numeric.natural_spline import NaturalSpline, locate
from calcli.numeric.solve import Expansion, newton
from calcli.state import State

FOLDS = 5
STRENGTHS = (np.inf, 1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2, 1e-3)
"""The c that are tried: the penalty is c/n times the roughness on an axis on which the knots span a length of 1."""


def fit(batch: Batch, sides: Sides, params: Params, seed: int) -> State:
    sums = gather(batch, params)
    sample = Sample.of_cells(sums.arrays)
    curve = _Curve.of(sample.everyone, params)
    strength = _chosen(curve, sums)
    values = curve.fitted(sample, strength)
    if sample.coarseness(curve.spline.jets, values) > curves.COARSE:
        values = curve.fitted(sample.by_rows(batch.score, batch.labels, batch.weights), strength)
    return curve.state(values)


def gather(batch: Batch, params: Params) -> Sums:
    return Sums(curves.gather(batch.score, batch.labels, batch.weight))


def finish(sums: Sums, params: Params) -> State:
    sample = Sample.of_cells(sums.arrays)
    curve = _Curve.of(sample.everyone, params)
    return curve.state(curve.fitted(sample, _chosen(curve, sums)))


def predict(state: State, batch: Batch, sides: Sides) -> FloatArray:
    pieces = state.array("pieces")
    piece, d = locate(state.array("knots"), batch.score)
    one, first, second, third = pieces.T
    return sigmoid(one[piece] + d * (first[piece] + d * (second[piece] + d * third[piece])))


@dataclass(frozen=True)
class _Curve:
    """The splines that are tried."""

    spline: NaturalSpline
    flexible: bool

    @classmethod
    def of(cls, rows: Points, params: Params) -> _Curve:
        """Knots at quantiles of the scores; with too few different scores there is nothing to bend at."""
        count = int(number(params, "knots"))
        order = np.argsort(rows.z)
        z, weight = rows.z[order], rows.moments[0][order]
        share = (np.cumsum(weight) - weight / 2) / weight.sum()
        low, high = float(z[0]), float(z[-1])
        knots = np.interp(np.linspace(0.02, 0.98, count), share, z)
        flexible = len(z) > count and bool((np.diff(knots) > 1e-6 * max(1.0, abs(low), abs(high))).all())
        if not flexible:
            knots = (low + high) / 2 + np.array([-0.5, 0.0, 0.5]) * max(high - low, 1.0)
        return cls(NaturalSpline.at(knots), flexible)

    def fitted(self, sample: Sample, strength: float, start: FloatArray | None = None) -> FloatArray:
        """The values at the knots for one strength of the penalty."""
        low, high = sample.ends
        log_odds = sample.log_odds(smooth=True)
        if high - low <= 1e-9 * max(1.0, abs(low)):
            return self.spline.knots - low + log_odds  # one score alone says nothing about the slope
        loss = sample.log_loss(self.spline.jets, smooth=True)
        if start is None:
            start = np.full(len(self.spline.knots), log_odds)
        if strength == np.inf:
            knots = self.spline.knots
            line = np.column_stack([np.ones_like(knots), (knots - knots.mean()) / np.ptp(knots)])

            def on_line(x: FloatArray) -> Expansion:
                value, gradient, hessian = loss(line @ x)
                return Expansion(value, line.T @ gradient, line.T @ hessian @ line)

            return line @ newton(on_line, np.array([log_odds, 0.0]))
        rough = strength / sample.everyone.weight * float(np.ptp(self.spline.knots)) ** 3 * self.spline.roughness

        def penalised(x: FloatArray) -> Expansion:
            value, gradient, hessian = loss(x)
            pull = rough @ x
            return Expansion(value + float(x @ pull), gradient + 2 * pull, hessian + 2 * rough)

        return newton(penalised, start)

    def path(self, sample: Sample) -> list[FloatArray]:
        """The fits for falling strengths, each started where the one before it ended."""
        fits: list[FloatArray] = []
        for strength in STRENGTHS:
            fits.append(self.fitted(sample, strength, fits[-1] if fits else None))
        return fits

    def state(self, values: FloatArray) -> State:
        return State(arrays={"knots": self.spline.knots, "pieces": self.spline.pieces @ values})


def _chosen(curve: _Curve, sums: Sums) -> float:
    """The strength of least log-loss on cells that the fit has not seen."""
    if not curve.flexible:
        return np.inf
    sample = Sample.of_cells(sums.arrays)
    held = sums.arrays["all"][0] > 0
    fold = np.where(held, np.cumsum(held) % FOLDS, -1)
    loss = np.zeros(len(STRENGTHS))
    for index in range(FOLDS):
        seen = Sample.of_cells({name: array * (fold != index) for name, array in sums.arrays.items()})
        unseen = Sample.of_cells({name: array * (fold == index) for name, array in sums.arrays.items()})
        judge = unseen.log_loss(curve.spline.jets, smooth=False)
        loss += [unseen.everyone.weight * judge(values).value for values in curve.path(seen)]
    monotone = [curve.spline.is_monotone(values) for values in curve.path(sample)]
    monotone[0] = True  # Platt scaling
    return STRENGTHS[int(np.argmin(np.where(monotone, loss, np.inf)))]
