"""What other packages choose on the same rows, as thresholds that are judged like those of calcli."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path

import numpy as np
from populations import Amounts

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.estimators import GivenColumn, GivenProbabilities

JUDGE_AUDIT = importlib.util.find_spec("judge_audit") is not None
"""Whether the package kunko-judge-audit is installed."""


# Thresholds, None where there is none


def threshold_of_mapie(prob, label, rate: str, value: float, sure: float) -> float | None:
    from mapie.risk_control import BinaryClassificationController

    rates = np.column_stack([1.0 - prob, prob])
    control = BinaryClassificationController(lambda X: X, rate, target_level=value, confidence_level=sure)
    control.calibrate(rates, label)
    return control.best_predict_param


def threshold_of_judge_audit(prob, right, value: float, sure: float) -> float | None:
    """Of those that are accepted a share `value` is right."""
    from judge_audit.certificate import START_ERRORS
    from judge_audit.metrics import selective

    if not hasattr(selective.risk_upper_bound, "cache_info"):  # most of its time
        selective.risk_upper_bound = cache(selective.risk_upper_bound)
    found = selective.certify_threshold(prob.tolist(), (right > 0).tolist(), 1.0 - value, 1.0 - sure, START_ERRORS)
    return found["threshold"]


def threshold_of_scikit_learn(prob, label, rate: str, value: float) -> float | None:
    """Of thresholds that meet the target on the table, the one that TunedThresholdClassifierCV finds the best."""
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import TunedThresholdClassifierCV

    def score(truth, yes):
        hits, said, positive = int((yes & truth).sum()), int(yes.sum()), int(truth.sum())
        if rate == "precision":
            return hits / positive if said and hits >= value * said else -1.0
        if rate == "recall":
            return -said / len(yes) if hits >= value * positive else -2.0
        return hits / positive if said - hits <= value * (len(yes) - positive) else -1.0

    rates = np.column_stack([1.0 - prob, prob])
    tuned = TunedThresholdClassifierCV(
        GivenProbabilities().fit(rates, label),
        scoring=make_scorer(score),
        cv="prefit",
        refit=False,
        response_method="predict_proba",
    ).fit(rates, label)
    return float(tuned.best_threshold_) if tuned.best_score_ >= -1.0 + 1e-9 or rate == "recall" else None


def class_threshold_of_mapie(prob, label, rate: str, value: float, sure: float) -> float | None:
    """Of the probability of the likeliest class."""
    from mapie.risk_control import BinaryRisk, MultiClassificationLTTController
    from mapie.risk_control.risks import build_precision_ovr, build_recall_ovr

    classes = list(range(prob.shape[1]))
    if rate == "accuracy":  # of the rows that get a class
        risks = [BinaryRisk(lambda truth, given: given == truth, lambda truth, given: ~np.isnan(given), True)]
    else:
        risks = build_precision_ovr(classes) if rate == "precision" else build_recall_ovr(classes)
    control = MultiClassificationLTTController(
        lambda X: X, risks, target_level=[value] * len(risks), confidence_level=sure, classes=classes
    )
    return control.calibrate(prob, label).best_predict_param


# Sets and intervals


def sets_of_mapie(prob, label, level: float) -> float:
    from mapie.classification import SplitConformalClassifier

    sets = SplitConformalClassifier(GivenProbabilities().fit(prob, label), level, conformity_score="lac", prefit=True)
    sets.conformalize(prob, label).predict_set(prob[:1])
    return float(sets._mapie_classifier.conformity_score_function_.quantiles_[0])


def sets_of_crepes(prob, label, level: float) -> float:
    """The largest score that it takes: it has p-values in place of a threshold."""
    from crepes import ConformalClassifier

    scores = 1.0 - prob[np.arange(len(label)), label]
    upper = np.sort(scores)[int(len(scores) * (level - 0.02)) :, None]  # it compares each with all
    taken = ConformalClassifier().fit(scores).predict_set(upper, confidence=level, smoothing=False)
    return float(upper[np.flatnonzero(taken[:, 0])[-1], 0])


def intervals_of_mapie(rows: Amounts, kind: str, level: float) -> float:
    from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor

    columns = np.column_stack([rows.low, rows.high, rows.mean])
    low, high, mean = (GivenColumn(place).fit(columns, rows.truth) for place in range(3))
    if kind == "absolute":
        made = SplitConformalRegressor(mean, level, prefit=True).conformalize(columns, rows.truth)
        return float(made.predict_interval(columns[:1])[1][0, 1, 0] - rows.mean[0])
    made = ConformalizedQuantileRegressor([low, high, mean], level, prefit=True).conformalize(columns, rows.truth)
    ends = made.predict_interval(columns[:1], symmetric_correction=True)[1]
    return float(ends[0, 1, 0] - rows.high[0])


def intervals_of_crepes(rows: Amounts, kind: str, level: float) -> float:
    from crepes import ConformalRegressor

    spread = rows.spread if kind == "scaled" else np.ones(len(rows))
    made = ConformalRegressor().fit(rows.truth - rows.mean, sigmas=spread)
    ends = made.predict_int(rows.mean[:1], sigmas=spread[:1], confidence=level)
    return float((ends[0, 1] - rows.mean[0]) / spread[0])
