"""Matrix scaling and its kin: softmax(W x + b) on the logits or log-probabilities x of K classes.

Vector, matrix and Dirichlet scaling are fitted with ODIR (Kull et al. 2019), which adds to the mean log-loss lambda
times the mean square of the off-diagonal coefficients and mu times the mean square of the intercepts; the diagonal is
free. Strengths that are not given are chosen by cross-validation within the fit, as one number: every regularised
coefficient gets the same c / n. Targets are mixed with 1/K as one more row would be,
(1 - 1/(n + 1)) y + 1/((n + 1) K), n the sum of weights: without that no finite map is the best one where the classes
can be separated. Structured matrix scaling has a penalty of its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Method, Params
from calcli.methods.scaling.curved import Beta
from calcli.methods.scaling.linear import Platt, Temperature
from calcli.numeric.links import drawn_in, log_softmax, softmax
from calcli.numeric.multinomial import Multinomial, linear, with_constant
from calcli.numeric.seeded import folds_by_score, splits_by_score
from calcli.state import Numbers, Rules, State

STRENGTHS = (1e4, 1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2)
"""The candidates for c, from the strongest: each fit starts from the one before."""

PATIENCE = 2
"""After so many weaker ones without a lower held-out loss none is tried: they are those that take longest."""

MUCH = 1.1
"""After one whose held-out loss is so many times the least, none is tried at once."""

FOLDS = 5
MANY = 15
"""With more classes only one fold is held out."""

_COEFFICIENTS: Rules = {"coefficients": Numbers(("K", "K+1"))}

CHOSEN_ON = 20_000
"""The strength is chosen on a sample of about this size if there are more rows."""


class Matrix(Method):
    """Matrix scaling: softmax(W V + b) on logits V (Guo et al. 2017). With two classes it is Platt scaling.

    Logits are centred row by row: a constant added to all of them changes no probability and may change no calibration.
    For the fit they are divided by their root mean square, so that the regularisation means the same for logits of any
    size.
    """

    diagonal = False
    """Whether W is held at zero off the diagonal."""

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        if batch.classes == 2:
            return Platt().fit(batch, sides, {}, seed)
        x = _centred(batch.score)
        size = float(np.sqrt(batch.weights @ (x * x).mean(axis=1) / batch.weights.sum()))
        size = size if size > 1e-9 else 1.0
        W, b = _fit_odir(x / size, batch, params, seed, diagonal=self.diagonal)
        return State(arrays={"coefficients": np.column_stack([W / size, b])})

    def holds(self, classes: int) -> Rules:
        return Platt().holds(2) if classes == 2 else _COEFFICIENTS

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        if batch.classes == 2:
            return Platt().predict(state, batch, sides)
        return softmax(linear(_centred(batch.score), state.array("coefficients")))

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        if len(score) == 1:
            return Platt().formula(state, score, features)
        mean = terms.total(score) / len(score)
        return terms.softmax(terms.affine(state.array("coefficients"), [one - mean for one in score]))


class Vector(Matrix):
    """Vector scaling: softmax(w * V + b), a slope and an intercept for each class (Guo et al. 2017).

    Only the intercepts are regularised.
    """

    diagonal = True


def _centred(score: FloatArray) -> FloatArray:
    """Logits whose mean over the classes is 0."""
    result: FloatArray = score - score.mean(axis=1, keepdims=True)
    return result


class Dirichlet(Method):
    """Dirichlet calibration: softmax(W ln P + b) (Kull et al. 2019). With two classes it is beta calibration.

    It is right where the probabilities of each class's rows are Dirichlet distributed. Log-probabilities are drawn in
    below 1e-12, as all scores are.
    """

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        if batch.classes == 2:
            return Beta().fit(batch, sides, {}, seed)
        W, b = _fit_odir(drawn_in(log_softmax(batch.score)), batch, params, seed, diagonal=False)
        return State(arrays={"coefficients": np.column_stack([W, b])})

    def holds(self, classes: int) -> Rules:
        return Beta().holds(2) if classes == 2 else _COEFFICIENTS

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        if batch.classes == 2:
            return Beta().predict(state, batch, sides)
        return softmax(linear(drawn_in(log_softmax(batch.score)), state.array("coefficients")))

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        if len(score) == 1:
            return Beta().formula(state, score, features)
        logs = [terms.drawn_in(one) for one in terms.log_softmax(score)]
        return terms.softmax(terms.affine(state.array("coefficients"), logs))


class Sms(Method):
    """Structured matrix scaling (Berta, Holzmueller, Jordan & Bach 2026).

    Temperature scaling first; its probabilities are mixed with the uniform distribution as one more row would be,
    p_T = (1 - 1/(n + 1)) softmax(V / T) + 1/((n + 1) K). On L = ln p_T follows softmax(L + M L + b), with M and b held
    near 0 by a penalty that weakens as rows come in: K/n on intercepts and diagonal, K (K - 1)/n on the rest. n is the
    sum of weights. With two classes L is (ln(1 - p_T), ln p_T).
    """

    diagonal = False
    """Whether M is held at zero off the diagonal."""

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        beta = Temperature().fit(batch, sides, {}, seed).number("inverse_temperature")
        counted = batch.weights > 0
        batch = batch.take(counted)
        rows, classes = float(batch.weights.sum()), batch.classes
        x = _tempered(batch, beta, rows)
        unchanged = np.eye(classes, classes + 1)
        penalty = np.full(unchanged.shape, classes * (classes - 1) / rows)
        penalty[unchanged > 0] = classes / rows
        penalty[:, -1] = classes / rows
        free = _free(classes, diagonal=self.diagonal)
        problem = Multinomial(with_constant(x), batch.labels, batch.weights, free, penalty, unchanged)
        return State({"inverse_temperature": beta, "rows": rows}, {"coefficients": problem.minimise(unchanged)})

    def holds(self, classes: int) -> Rules:
        return {**_COEFFICIENTS, **Temperature().holds(classes), "rows": Numbers(low=0.0)}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        x = _tempered(batch, state.number("inverse_temperature"), state.number("rows"))
        prob = softmax(linear(x, state.array("coefficients")))
        return prob[:, 1] if batch.classes == 2 else prob

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        beta = state.number("inverse_temperature")
        scaled = [terms.Number(0.0), beta * score[0]] if len(score) == 1 else [beta * one for one in score]
        share = 1.0 / (state.number("rows") + 1.0)
        logs = [terms.ln((1.0 - share) * p + share / len(scaled)) for p in terms.softmax(scaled)]
        prob = terms.softmax(terms.affine(state.array("coefficients"), logs))
        return prob[1:] if len(score) == 1 else prob


class Svs(Sms):
    """Structured vector scaling (Berta, Holzmueller, Jordan & Bach 2026): `Sms` with a diagonal M."""

    diagonal = True


def _tempered(batch: Batch, beta: float, rows: float) -> FloatArray:
    """The logarithms of p_T, a column for each class."""
    z = batch.score * beta
    if z.ndim == 1:
        z = np.column_stack([np.zeros(len(z)), z])
    share = 1.0 / (rows + 1.0)
    result: FloatArray = np.log((1.0 - share) * softmax(z) + share / z.shape[1])
    return result


def _fit_odir(
    x: FloatArray, batch: Batch, params: Params, seed: int, *, diagonal: bool
) -> tuple[FloatArray, FloatArray]:
    """W, zero off the diagonal if `diagonal`, and b."""
    counted = batch.weights > 0
    x, batch = x[counted], batch.take(counted)
    problem = _problem(x, batch, diagonal=diagonal)
    regularised = ("bias",) if diagonal else ("off_diagonal", "bias")
    strength, near = 0.0, np.zeros(problem.free.shape)
    if any(params[name] is None for name in regularised):
        strength, near = _chosen(problem, batch.bare, params, seed)
    coefficients = replace(problem, penalty=_penalty(problem, params, strength)).minimise(near)
    return coefficients[:, :-1], coefficients[:, -1]


def _problem(x: FloatArray, batch: Batch, *, diagonal: bool) -> Multinomial:
    free = _free(batch.classes, diagonal=diagonal)
    zeros = np.zeros(free.shape)
    weight = batch.weights
    return Multinomial(with_constant(x), batch.labels, weight, free, zeros, zeros, 1.0 / (weight.sum() + 1.0))


def _free(classes: int, *, diagonal: bool) -> NDArray[np.bool_]:
    """Which coefficients of W and b are fitted."""
    free = np.ones((classes, classes + 1), dtype=np.bool_)
    if diagonal:
        free[:, :-1] = np.eye(classes, dtype=np.bool_)
    return free


def _penalty(problem: Multinomial, params: Params, strength: float) -> FloatArray:
    """The penalty on each coefficient: as given by the parameters, else c / n."""
    classes = len(problem.free)
    off_diagonal, bias = params.get("off_diagonal"), params["bias"]
    relative = strength / float(problem.weight.sum())
    of_pair = relative if off_diagonal is None else float(off_diagonal) / (classes * (classes - 1))
    penalty = np.full(problem.free.shape, of_pair)
    penalty[:, :-1][np.eye(classes, dtype=np.bool_)] = 0.0
    penalty[:, -1] = relative if bias is None else float(bias) / classes
    return penalty


def _chosen(problem: Multinomial, batch: Batch, params: Params, seed: int) -> tuple[float, FloatArray]:
    """The strength of least held-out log-loss, and coefficients to start from.

    If all rows have the same score, none can be held out, and the strongest is chosen.
    """
    if len(batch) > CHOSEN_ON:
        samples = -(-len(batch) // CHOSEN_ON)
        some = folds_by_score(batch, samples, seed, "odir sample") == 0
        problem, batch = _rows(problem, some), batch.take(some)
    most = FOLDS if len(problem.free) <= MANY else 1
    splits = splits_by_score(batch, FOLDS, seed, "odir folds", most=most)
    parts = [(_rows(problem, train), _rows(problem, test)) for train, test in splits]
    fits = [np.zeros(problem.free.shape) for _ in parts]
    best, near, least, behind = STRENGTHS[0], np.zeros(problem.free.shape), np.inf, 0
    for strength in STRENGTHS if parts else ():
        loss = 0.0
        for place, (seen, unseen) in enumerate(parts):
            penalised = replace(seen, penalty=_penalty(seen, params, strength))
            fits[place] = penalised.near_minimum(fits[place])
            loss += _log_loss(unseen, fits[place])
        behind += 1
        if loss < least:
            best, near, least, behind = strength, fits[-1], loss, 0
        if behind == PATIENCE or loss > MUCH * least:
            break
    return best, near


def _rows(problem: Multinomial, rows: NDArray[np.bool_]) -> Multinomial:
    weight = problem.weight[rows]
    smoothing = 1.0 / (weight.sum() + 1.0)
    return replace(problem, x=problem.x[rows], label=problem.label[rows], weight=weight, smoothing=smoothing)


def _log_loss(problem: Multinomial, coefficients: FloatArray) -> float:
    log_p = log_softmax(problem.x @ coefficients.T)
    return -float(problem.weight @ log_p[np.arange(len(log_p)), problem.label])
