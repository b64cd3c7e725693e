"""Recalibration of the whole score by one number or two: slope and intercept (Cox 1958), and the ratio of the means.

Cox's recalibration is the logistic regression of the labels on the predicted log-odds. A calibrated score has slope 1
and intercept 0. A slope below 1 is over-confidence; the intercept, with the slope held at 1, is calibration in the
large: above 0 the predictions are too low. The ratio is the partition underestimated degree, PUD (Huang et al. 2022,
MBCT, definition 4 and equation 6), or its inverse, observed over expected, as medicine has it (Debray et al. 2017).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np

from calcli.batch import FloatArray
from calcli.errors import FitError
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.forms import ByProblem, of_ties
from calcli.metrics.paired import Z975, Paired, by_unit, paired_difference, unit_sums
from calcli.metrics.tied import TiedScores, dot
from calcli.numeric.links import logit, sigmoid, softplus
from calcli.numeric.solve import Expand, Expansion, minimum, newton, refined

FEW = 200.0
"""With fewer rows of the rarer label intervals are those of the likelihood, else of the sandwich."""

_FURTHEST = 1e6
"""Ends further than this are infinite."""

_FLAT = 1e-6
"""Where the mean log-loss bends less at its minimum, rounding decides where the search for it ends."""

_MOVED = 1e-10
"""A minimum that may be further off is looked for again."""

_KNOWN = 1e-11
"""A minimum that rounding of the weights may move further is not known."""

_OUT = 1000.0
"""No intercept is further out where both classes have weight."""

_DEFINITION = Definition("target", approximation="probabilities are held inside [1e-12, 1 - 1e-12]")
_NO_SLOPE = "the rows are all of one class, of one prediction, or the predictions separate the classes"
_NO_INTERCEPT = "the rows are all of one class"
_LEFT_TO_ROUNDING = "the predictions are so sure that rounding decides it"


def _interval(measurement: Measured, rows: Scored, theta: FloatArray, which: int) -> Measured:
    """The measurement with the 95 % interval of the slope (1), its intercept free, or of the intercept (0) alone."""
    few = _rarer(rows.ties) < FEW
    lo, hi = _profiled(rows.ties, theta, which) if few else (math.inf, -math.inf)
    basis = np.stack([np.ones(len(rows)), logit(rows.prob)])[: which + 1]
    if rows.units is None:
        if not few:
            width = Z975 * _standard_errors(rows, theta, basis)[which]
            lo, hi = theta[which] - width, theta[which] + width
        return replace(measurement, lo=lo, hi=hi)
    found = _of_units(rows, theta, basis)
    # With few positives no narrower than if rows were independent.
    return replace(
        measurement,
        lo=min(lo, -math.inf if found.lo is None else found.lo),
        hi=max(hi, math.inf if found.hi is None else found.hi),
    )


def _rarer(ties: TiedScores) -> float:
    """The number of rows of the rarer label, in rows that weigh as much as all do on average of squares."""
    least = min(float(ties.positive.sum()), ties.total - float(ties.positive.sum()))
    square = float(ties.square.sum())
    return least * ties.total / square if square > 0 else math.inf


def _profiled(ties: TiedScores, theta: FloatArray, which: int) -> tuple[float, float]:
    """Where twice the log-likelihood, the intercept fitted anew, is 1.96^2 below its maximum.

    With few positives it is not a parabola, and their residuals say too little of their variance for the sandwich. The
    likelihood of weighted rows is scaled so that it bends at its maximum as the variance of its gradient says.
    """
    from scipy.optimize import brentq

    ties = ties.with_positive_weight
    z = logit(ties.prob)
    basis = np.stack([np.ones(len(z)), z])[: which + 1]
    s = sigmoid(theta[0] + theta[1] * z)
    share, square = ties.weight / ties.total, ties.square / ties.total**2
    bread = np.linalg.pinv((basis * (share * s * (1.0 - s))) @ basis.T)
    variance = float((bread @ ((basis * (square * s * (1.0 - s))) @ basis.T) @ bread)[which, which])
    if not variance > 0:  # labels that the fit is certain of tell nothing of its limits
        return -math.inf, math.inf
    one = np.ones((1, len(z)))

    def loss(value: float) -> float:
        offset = z * (theta[1] if which == 0 else value)
        expand = _loss(ties, offset, one)
        return expand(np.array([value]) if which == 0 else newton(expand, theta[:1])).value

    least, scale = loss(float(theta[which])), float(bread[which, which]) / variance

    def above(value: float) -> float:
        return 2.0 * scale * (loss(value) - least) - Z975**2

    def end(side: float) -> float:
        inner, step = float(theta[which]), side * Z975 * math.sqrt(variance)
        try:
            while above(inner + step) < 0.0 and abs(step) < _FURTHEST:
                inner, step = inner + step, 2.0 * step
            if above(inner + step) >= 0.0:
                return float(brentq(above, inner, inner + step, xtol=1e-9, rtol=1e-8, maxiter=1000))
        except FitError:  # so far out that no other coefficient can be found
            pass
        return side * math.inf

    return end(-1.0), end(1.0)


def _slope_interval(measured: Measured, scored: Scored, options: Options) -> Measured:
    if measured.value is None:
        return measured
    return _interval(measured, scored.top, recalibration(scored.top.ties), 1)


@of_ties("top", _DEFINITION, _NO_SLOPE, complete=_slope_interval)
def slope(ties: TiedScores, options: Options) -> float | None:
    """The slope b of y ~ a + b z, with its 95 % interval; z the predicted log-odds."""
    ties = ties.with_positive_weight
    if separated(ties):
        return None
    try:
        return float(recalibration(ties)[1])
    except FitError:
        return None


def _intercept_interval(measured: Measured, scored: Scored, options: Options) -> Measured:
    if measured.value is not None:
        return _interval(measured, scored.top, np.array([measured.value, 1.0]), 0)
    positive = scored.top.with_positive_weight.label
    return measured if positive.all() or not positive.any() else replace(measured, reason=_LEFT_TO_ROUNDING)


@of_ties("top", _DEFINITION, _NO_INTERCEPT, complete=_intercept_interval)
def intercept(ties: TiedScores, options: Options) -> float | None:
    """The intercept a of y ~ a + z, the slope held at 1, with its 95 % interval."""
    ties = ties.with_positive_weight
    positive = float(ties.positive.sum())
    if positive <= 0 or positive >= ties.total:
        return None
    try:
        return float(recalibration(ties, "intercept")[0])
    except FitError:
        return None


def separated(ties: TiedScores) -> bool:
    """Whether some threshold parts the classes, either way round, or there is one prediction only."""
    positive, negative = ties.positive > 0, ties.weight - ties.positive > 1e-12 * ties.weight
    clipped = logit(ties.prob)
    if not positive.any() or not negative.any():
        return True
    high, low = clipped[positive], clipped[negative]
    return bool(high.min() >= low.max() or high.max() <= low.min())


def recalibration(ties: TiedScores, free: Literal["both", "intercept", "slope"] = "both") -> FloatArray:
    """(a, b) of y ~ a + b z; what is not free is held at 0 or 1.

    Where the loss is flat, as for sure predictions that are right, or its rounding has ended the search, Newton's steps
    go on from there by a gradient whose terms do not cancel, so that the scale of the weights does not matter. Where
    sure predictions are as often wrong on either side, so that rounding decides the balance, it is a `FitError`.
    """
    z = logit(ties.prob)
    basis, start = np.stack([np.ones(len(z)), z]), np.array([0.0, 1.0])
    moved = np.array([free != "slope", free != "intercept"])
    theta = start.copy()
    offset, basis = start[~moved] @ basis[~moved], basis[moved]
    theta[moved], around = minimum(_loss(ties, offset, basis), start[moved])
    bend = float(np.diag(around.hessian).min())
    if bend < _FLAT or float(np.abs(around.gradient).max()) > _MOVED * bend:
        exact = _small_terms(ties, offset, basis)
        if free == "intercept":
            theta[0] = _balanced(exact)
        theta[moved] = refined(exact, theta[moved])
        bend = float(np.diag(exact(theta[moved]).hessian).min())
        u = theta @ [np.ones(len(z)), z]
        wrong = (dot(ties.weight - ties.positive, sigmoid(u)) + dot(ties.positive, sigmoid(-u))) / ties.total
        if np.finfo(np.float64).eps * wrong > _KNOWN * bend:
            raise FitError(_LEFT_TO_ROUNDING)
    return theta


def _loss(ties: TiedScores, offset: FloatArray, basis: FloatArray) -> Expand:
    """The mean log-loss of sigmoid(offset + theta . basis), with its derivatives.

    Its sums are made on this thread alone. The bootstrap calls it from several, and where those of the linear algebra
    library join in, twenty thousand rows take fifteen times as long.
    """
    share = ties.weight / ties.total
    label = ties.positive / ties.total

    def expand(theta: FloatArray) -> Expansion:
        u = offset + np.einsum("i,ij->j", theta, basis)
        s = sigmoid(u)
        bend = share * s * (1.0 - s)
        gradient = np.einsum("ij,j->i", basis, share * s - label)
        return Expansion(dot(share, softplus(u)) - dot(label, u), gradient, np.einsum("ij,kj->ik", basis * bend, basis))

    return expand


def _small_terms(ties: TiedScores, offset: FloatArray, basis: FloatArray) -> Expand:
    """As `_loss`, from what each label adds by itself, which is small where the prediction is right."""
    positive, negative = ties.positive / ties.total, (ties.weight - ties.positive) / ties.total

    def expand(theta: FloatArray) -> Expansion:
        u = offset + np.einsum("i,ij->j", theta, basis)
        above, below = sigmoid(u), sigmoid(-u)
        gradient = np.einsum("ij,j->i", basis, negative * above - positive * below)
        bend = (positive + negative) * above * below
        value = dot(negative, softplus(u)) + dot(positive, softplus(-u))
        return Expansion(value, gradient, np.einsum("ij,kj->ik", basis * bend, basis))

    return expand


def _balanced(expand: Expand) -> float:
    """Where the gradient in the intercept, which only rises, changes its sign: far out Newton's steps miss it."""
    from scipy.optimize import brentq

    return float(brentq(lambda a: float(expand(np.array([a])).gradient[0]), -_OUT, _OUT, xtol=1e-6))


def _standard_errors(rows: Scored, theta: FloatArray, basis: FloatArray) -> FloatArray:
    """Standard errors by the sandwich, which holds whether or not the regression is the truth (White 1982).

    It does not assume either that weights say how precise a row is: their scale does not matter.
    """
    bend, added, _ = _expanded(rows, theta, basis)
    bread = np.linalg.pinv((basis * bend) @ basis.T)
    with np.errstate(over="ignore", invalid="ignore"):  # at the ends of the scale nothing bends: the error is infinite
        errors: FloatArray = np.sqrt(np.maximum(np.diag(bread @ (added @ added.T) @ bread), 0.0))
    return errors


def _expanded(rows: Scored, theta: FloatArray, basis: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The part of each row in the second and, by variable, the first derivatives; and its share of all weight."""
    s = sigmoid(theta[0] + theta[1] * logit(rows.prob))
    w = np.full(len(rows), 1.0 / len(rows)) if rows.weight is None else rows.weight / rows.total_weight
    return w * s * (1.0 - s), basis * (w * (rows.label - s)), w


def _of_units(rows: Scored, theta: FloatArray, basis: FloatArray) -> Paired:
    """The last variable of the fit over units: Newton's step without each of them says what it does to the fit."""
    assert rows.units is not None
    bend, added, share = _expanded(rows, theta, basis)
    mass, *sums = unit_sums(rows.units, share, *added, *(bend * one * two for one in basis for two in basis))
    first = np.stack(sums[: len(basis)], axis=1)
    second = np.stack(sums[len(basis) :], axis=1).reshape(-1, len(basis), len(basis))
    held = mass > 0
    try:
        influence = np.linalg.solve((second.sum(axis=0) - second)[held], first[held, :, None])[:, -1, 0]
    except np.linalg.LinAlgError:  # without one of them the others determine nothing
        influence = np.full(np.count_nonzero(held), math.inf)
    return by_unit(float(theta[len(basis) - 1]), influence, mass[held])


def _means(scored: Scored, options: Options) -> FloatArray:
    """The sums of w y and of w p."""
    return np.array([scored.sum_of(lambda part: part.label.astype(np.float64)), scored.sum_of(lambda part: part.prob)])


def _pooled_means(ties: TiedScores) -> FloatArray:
    return np.array([ties.positive.sum(), (ties.weight * ties.prob).sum()])


def _ratio(part: float, of: float) -> float | None:
    return float(part) / float(of) if of > 0 else None


_RATIO = Definition("target")
_NO_POSITIVE, _NOTHING_EXPECTED = "no row is positive", "every prediction is 0"
_PUD = ByProblem("top", _means, lambda sums, _: _ratio(sums[1], sums[0]), lambda *_: _RATIO, _NO_POSITIVE)
_O_E = ByProblem("top", _means, lambda sums, _: _ratio(*sums), lambda *_: _RATIO, _NOTHING_EXPECTED)


@of_ties(
    "top", _RATIO, _NO_POSITIVE, of_rows=lambda rows, options: _PUD.value(_means(rows, options), options), sums=_PUD
)
def pud(ties: TiedScores, options: Options) -> float | None:
    """Mean prediction over mean label: below 1 the rows are underestimated, above 1 overestimated."""
    observed, expected = _pooled_means(ties)
    return _ratio(expected, observed)


def _o_e_interval(measured: Measured, scored: Scored, options: Options) -> Measured:
    """The interval of the mean of y - r p, r being the ratio, over the mean prediction; none without positives."""
    if not measured.value:
        return measured
    rows = scored.top
    gap = paired_difference(rows.label.astype(np.float64), measured.value * rows.prob, rows.weight, rows.units)
    if gap.lo is None or gap.hi is None:
        return measured
    mean = rows.mean_of(lambda part: part.prob)
    return replace(measured, lo=measured.value + gap.lo / mean, hi=measured.value + gap.hi / mean)


@of_ties("top", _RATIO, _NOTHING_EXPECTED, sums=_O_E, complete=_o_e_interval)
def o_e(ties: TiedScores, options: Options) -> float | None:
    """Observed over expected: mean label over mean prediction, with its interval; above 1 rows are underestimated."""
    return _ratio(*_pooled_means(ties))
