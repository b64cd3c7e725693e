"""The weights of a mixture: those under which what happened is the likeliest."""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray

PRIOR = 1.0
"""The Dirichlet prior has the density of w_1^a .. w_M^a with a = `PRIOR` / M: as if one more row had been predicted
alike by all. It keeps the weights of members that are copies of each other equal."""

_STEPS, _STILL = 100, 1e-9


def likeliest_weights(likelihood: FloatArray, weight: FloatArray, near: FloatArray) -> FloatArray:
    """The weights w of the components of a mixture that maximise sum v ln(L w) / sum v + the log of the prior.

    A concave problem, solved by Newton's method. `likelihood` L has for each row the probability that each component
    gave to what happened, up to a factor of the row; `weight` v is the rows' own; `near` is a guess, or zeros.
    """
    count, mass = likelihood.shape[1], float(weight.sum())
    prior, share = PRIOR / count / mass, weight / mass
    weights: FloatArray = near + 0.01
    weights /= weights.sum()

    def value(of: FloatArray) -> float:
        return float(share @ np.log(likelihood @ of) + prior * np.log(of).sum())

    for _ in range(_STEPS):
        ratio = share / (mean := likelihood @ weights)
        slope = ratio @ likelihood + prior / weights
        curve = likelihood.T @ (likelihood * (ratio / mean)[:, None]) + np.diag(prior / weights**2)
        # The step d that maximises slope d - d curve d / 2 with sum d = 0.
        toward, level = np.linalg.solve(curve, np.column_stack([slope, np.ones(count)])).T
        step = toward - level * (toward.sum() / level.sum())
        gain = float(slope @ step)
        if gain < _STILL:
            break
        length = min(1.0, 0.99 / max(1e-300, float((-step / weights).max())))
        before = value(weights)
        while value(weights + length * step) < before + 0.25 * length * gain and length > _STILL:
            length /= 2.0
        weights = weights + length * step
    likeliest: FloatArray = weights / weights.sum()
    return likeliest
