"""scikit-learn's own checks of estimators."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import calcli
from tests.support.estimators import ClassScores

pytestmark = [
    pytest.mark.filterwarnings("ignore::calcli.CalibrationWarning"),  # the checks' rows are few, or pure noise
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*least populated class.*:UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]

FOLDS = "a row left out and a row of weight 0 give other folds, as of CalibratedClassifierCV"
OF_PIPELINES = {
    "check_estimators_overwrite_params": "a Pipeline fits its steps in place",
    "check_dont_overwrite_parameters": "a Pipeline fits its steps in place",
    "check_estimator_sparse_tag": "a Pipeline takes no sparse features, by its tag, where its last step takes none",
}

CLASSIFIER = calcli.CalibratedClassifier(LogisticRegression(), method="platt", cv=2, holdout="none")
PIPELINE = make_pipeline(ClassScores(), calcli.Calibrator("platt", input="prob", holdout="none"))


def expected_to_fail(estimator: Any) -> dict[str, str]:
    if hasattr(estimator, "steps"):
        return OF_PIPELINES
    return {f"check_sample_weight_equivalence_on_{kind}_data": FOLDS for kind in ("dense", "sparse")}


@parametrize_with_checks([CLASSIFIER], expected_failed_checks=expected_to_fail)
def test_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([PIPELINE], expected_failed_checks=expected_to_fail)
def test_of_scikit_learn_in_a_pipeline(estimator: Any, check: Any) -> None:
    """Most of them look at the pipeline; `test_calibrator` has what a search, a clone and a pickle ask for."""
    check(estimator)
