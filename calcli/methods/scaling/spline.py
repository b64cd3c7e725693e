"""Spline calibration: sigmoid(g(z)) with a smoothing spline g on log-odds (after Lucena 2018).

g is a natural cubic spline with few knots at quantiles of the scores, linear beyond the outermost ones. Its roughness,
the integral of g''^2, is penalised; targets are Platt's smoothed ones, so that a penalty without limit is Platt scaling.
The penalty is chosen by cross-validation, Platt scaling included, among those whose curve on all rows is monotone.

g is written by its values at the knots (Green & Silverman 1994, chapter 2). The fit needs only moments of the scores in
narrow cells. A fold of the cross-validation is every fifth of the cells that hold rows: rows with equal scores stay
together, and neither chance nor the order of the rows comes in.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calcli.batch import Batch, FloatArray, Sides
from calcli.methods.base import Params, Sums, number
from calcli.numeric import curves
from calcli.numeric.curves import Points, Sample
from calcli.numeric.links import sigmoid, softplus
from calcli.numeric.natural_spline import NaturalSpline
from calcli.numeric.solve import Expansion, newton
from calcli.state import State

FOLDS = 5
STRENGTHS = (1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2, 1e-3)
"""The c that are tried, besides infinity: the penalty is c / n times the roughness of g on a z axis of unit length."""


def fit(batch: Batch, sides: Sides, params: Params, seed: int) -> State:
    raise NotImplementedError
