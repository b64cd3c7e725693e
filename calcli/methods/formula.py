"""A calibrator as a formula: `FittedMethod.predict` written as terms."""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.errors import UsageError
from calcli.expressions import Inputs, Term, Terms
from calcli.methods import catalog
from calcli.methods.calibrator import FittedMethod, PostProcessing
from calcli.numeric import link_terms
from calcli.numeric.links import GREATEST, LEAST, log_odds
from calcli.state import unnest

_LEAST, _MOST = (float(end) for end in log_odds(np.array([LEAST, GREATEST])))
"""The log-odds of the least and the greatest probability."""


def formula_of(calibrator: FittedMethod, score: Terms, features: Inputs) -> Terms:
    """The calibrated probability of the positive class, or of each class, if the method has a closed form.

    `score` is the log-odds, or a logit for each class; `features` are the columns of the fit by name.
    """
    spec = calibrator.spec
    if not spec.closed_form:
        known = ", ".join(each.name for each in catalog.specs() if each.closed_form)
        raise UsageError(f"{spec.name} has no closed form", hint=f"methods that have one: {known}")
    with calibrator.as_artifact_error():
        prob = _formula(calibrator, score, features)
        if len(prob) != len(score):
            raise ValueError(f"it has formulas of {len(prob)} numbers for {len(score)} scores")
        return prob


def score_formula_of(calibrator: FittedMethod, score: Terms) -> Terms:
    """The score that a calibrator of scores gives; for Platt scaling a z + b, with no detour through probabilities."""
    if calibrator.spec.name == "platt" and len(score) == 1:
        state = calibrator.state
        moved = state.number("a") * score[0] + state.number("b")
        return (link_terms.drawn_in(terms.clip(moved, _LEAST, _MOST)),)
    return link_terms.scores(formula_of(calibrator, score, {}))


def _formula(calibrator: FittedMethod, score: Terms, features: Inputs) -> Terms:
    spec, classes = calibrator.spec, calibrator.classes
    method = spec.load_extended()
    if classes == 2 or spec.multiclass == "native":
        prob = method.formula(calibrator.predicting, score, features)
    else:
        parts = unnest(calibrator.predicting, [str(index) for index in range(classes)]).values()
        each = [
            method.formula(part, (terms.one_against_rest(score, index),), features)[0]
            for index, part in enumerate(parts)
        ]
        prob = _renormalised(each, score)
    return _post_processed(
        calibrator.post_processing, prob, calibrator.rows, classes, reaches_ends=calibrator.reaches_ends
    )


def _renormalised(prob: list[Term], score: Terms) -> Terms:
    """The probabilities divided by their sum; where all are 0, those of the score."""
    whole = terms.total(prob)
    raw = terms.softmax(score)
    return tuple(terms.choose(whole > 0, one / whole, other) for one, other in zip(prob, raw, strict=True))


def _post_processed(
    post_processing: PostProcessing, prob: Terms, rows: int, classes: int, *, reaches_ends: bool
) -> Terms:
    """`PostProcessing.apply` as terms."""
    if reaches_ends and not post_processing.exact:
        share = 1.0 / (rows + 1)
        prob = tuple((1.0 - share) * one + share / classes for one in prob)
    if post_processing.prior_ratio is not None:
        prob = _prior_shifted(prob, post_processing.prior_ratio)
    return prob if post_processing.exact else tuple(terms.clip(one, LEAST, GREATEST) for one in prob)


def _prior_shifted(prob: Terms, prior_ratio: tuple[float, ...]) -> Terms:
    if len(prob) == 1:
        positive = prior_ratio[1] * prob[0]
        return (positive / (positive + prior_ratio[0] * (1.0 - prob[0])),)
    shifted = [ratio * one for ratio, one in zip(prior_ratio, prob, strict=True)]
    whole = terms.total(shifted)
    return tuple(one / whole for one in shifted)
