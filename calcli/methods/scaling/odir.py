"""The fit of vector, matrix and Dirichlet scaling: softmax(W x + b), regularised off the diagonal and in the intercept.

ODIR (Kull et al. 2019) adds to the mean log-loss lambda times the mean square of the off-diagonal coefficients and mu
times the mean square of the intercepts; the diagonal is free. Strengths that are not given are chosen by
cross-validation within the fit, as one number: every regularised coefficient gets the same c / n.

Targets are mixed with 1/K as one more row would be, (1 - 1/(n + 1)) y + 1/((n + 1) K), n the sum of weights: without
that no finite map is the best one where the classes can be separated.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray
from calcli.methods.base import Params
from calcli.numeric.links import log_softmax
from calcli.numeric.multinomial import Multinomial, with_constant
from calcli.numeric.seeded import folds_by_score, splits_by_score

STRENGTHS = (1e4, 1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2)
"""The candidates for c, from the strongest: each fit starts from the one before."""

PATIENCE = 2
"""After so many weaker ones without a lower held-out loss none is tried: they are those that take longest."""

MUCH = 1.1
"""After one whose held-out loss is so many times the least, none is tried at once."""

FOLDS = 5
MANY = 15
"""With more classes only one fold is held out."""

CHOSEN_ON = 20_000
"""The strength is chosen on a sample of about this size if there are more rows."""


def fit(x: FloatArray, batch: Batch, params: Params, seed: int, *, diagonal: bool) -> tuple[FloatArray, FloatArray]:
    """W, zero off the diagonal where `diagonal`, and b."""
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
    classes = batch.classes
    free = np.ones((classes, classes + 1), dtype=np.bool_)
    if diagonal:
        free[:, :-1] = np.eye(classes, dtype=np.bool_)
    zeros = np.zeros(free.shape)
    weight = batch.weights
    return Multinomial(with_constant(x), batch.labels, weight, free, zeros, zeros, 1.0 / (weight.sum() + 1.0))


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
        some = folds_by_score(batch.score, problem.label, samples, seed, "odir sample") == 0
        problem, batch = _rows(problem, some), batch.take(some)
    most = FOLDS if len(problem.free) <= MANY else 1
    splits = splits_by_score(batch.score, problem.label, FOLDS, seed, "odir folds", units=batch.units, most=most)
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
