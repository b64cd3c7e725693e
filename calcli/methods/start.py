"""The start of a score that only ranks: a monotone curve from its numbers to log-odds, which is fitted before a method.

Grades, distances and percentiles are on no scale on which a method could begin. The curve is that of the method
`spline` on (x - centre) / spread, and is fitted on the rows that the method is fitted on, so that held-out rows have no
part in it. All else works on log-odds, and does not know that there was a start.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch
from calcli.errors import FitError
from calcli.methods import catalog
from calcli.numeric.links import GREATEST, LEAST, log_odds
from calcli.state import State, check_numbers, nest, unnest

if TYPE_CHECKING:  # only exports need formulas
    from calcli.expressions import Term

CURVE = "curve"
FURTHEST = 1e150
"""Numbers beyond this are as far away as it, so that none overflows."""

_LEAST, _MOST = (float(end) for end in log_odds(np.array([LEAST, GREATEST])))


def fit(batch: Batch, *, flat: bool = False) -> State:
    """The curve of these rows; a `flat` one has the base rate everywhere, which is what there is without a method."""
    from calcli.methods.scaling import spline

    numbers = batch.score[batch.weights > 0]
    if np.abs(numbers).max() > FURTHEST:
        raise FitError("the numbers of --rank lie too far apart", hint="rank by their logarithms, or by their ranks")
    low, centre, high = np.quantile(numbers, (0.25, 0.5, 0.75))
    spread = float(high - low) or float(np.ptp(numbers)) or 1.0
    moved = replace(batch.bare, score=(batch.score - centre) / spread, ranks=False)
    own = spline.Spline().fit(moved, NO_SIDE_INPUTS, catalog.find("spline").resolve(), 0)
    if flat:
        rate = np.average(batch.labels, weights=batch.weight)
        pieces = np.zeros_like(own.array("pieces"))
        pieces[:, 0] = np.clip(log_odds(np.array([rate])), _LEAST, _MOST)
        own = replace(own, arrays={**own.arrays, "pieces": pieces})
    whole = nest({CURVE: own})
    return State({**whole.params, "centre": float(centre), "spread": spread}, whole.arrays)


def apply(state: State, batch: Batch) -> Batch:
    """The rows with log-odds in place of the numbers that rank them."""
    from calcli.methods.scaling import spline

    with np.errstate(over="ignore"):
        score = np.clip((batch.score - state.number("centre")) / state.number("spread"), -FURTHEST, FURTHEST)
    score = np.clip(spline.curve(unnest(state, [CURVE])[CURVE], score), _LEAST, _MOST)
    return replace(batch, score=score, prob=None, ranks=False)


def formula(state: State, score: Term) -> Term:
    """The log-odds as a term of the number."""
    from calcli import expressions as terms
    from calcli.methods.scaling import spline

    moved = (score - state.number("centre")) / state.number("spread")
    return terms.clip(spline.curve_terms(unnest(state, [CURVE])[CURVE], moved), _LEAST, _MOST)


def check(state: State) -> None:
    """Raise a `ValueError` if these are not the numbers of a curve."""
    from calcli.methods.scaling import spline

    check_numbers(unnest(state, [CURVE])[CURVE], spline.Spline().holds(2), 2)
    if not (np.isfinite(state.number("centre")) and 0.0 < state.number("spread") < np.inf):
        raise ValueError(f"its numbers are moved by {state.number('centre')} and {state.number('spread')}")
