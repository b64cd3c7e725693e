"""Errors of array functions: rows count from 0, hints are Python, and what is missing is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import get_tags

import calcli
from calcli.cli import decision_options, options
from calcli.estimators.arrays import feature_table
from calcli.estimators.value_errors import of_arrays

RNG = np.random.default_rng(0)
PROB = RNG.random(200)
Y = (RNG.random(200) < PROB).astype(int)
X = np.column_stack([PROB, RNG.normal(size=200)])


def changed(values: Any, value: object, kind: type = float) -> Any:
    """The values with another one in row 3, counted from 0."""
    other = np.array(values, dtype=kind)
    other[3] = value
    return other


FITTED = calcli.Calibrator("platt", holdout="none").fit(PROB, Y)
PAIRS = np.column_stack([1 - PROB, PROB])
WRONG: dict[str, Callable[[], object]] = {
    "NaN": lambda: calcli.metrics.nll(Y, changed(PROB, np.nan)),
    "outside": lambda: calcli.metrics.nll(Y, changed(PROB, 1.5)),
    "sum": lambda: calcli.metrics.nll(Y, changed(PAIRS, [0.5, 0.7])),
    "weight": lambda: calcli.metrics.nll(Y, PROB, sample_weight=changed(np.ones(200), -1)),
    "weight of a fit": lambda: calcli.Calibrator("platt").fit(PROB, Y, sample_weight=changed(np.ones(200), np.nan)),
    "label": lambda: calcli.metrics.nll(changed(Y, None, object), PROB),
    "label of a fit": lambda: calcli.Calibrator("platt").fit(PROB, changed(Y, None, object)),
    "label of a score": lambda: FITTED.score(PROB, changed(Y, None, object)),
    "label of a diagram": lambda: calcli.reliability_diagram(changed(Y, np.nan), PROB),
}


@pytest.mark.parametrize("name", WRONG)
def test_rows_count_from_0(name: str) -> None:
    with pytest.raises(ValueError, match=r"first in row 3\b"):
        WRONG[name]()


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_a_missing_label_is_named(missing: object) -> None:
    with pytest.raises(ValueError, match="1 of 200 labels are missing, first in row 3"):
        calcli.metrics.ece(changed(Y, missing, object), PROB)


HIDDEN = np.arange(200) == 3
MASKED: dict[str, Callable[[], object]] = {
    "scores": lambda: FITTED.predict_proba(np.ma.array(PROB, mask=HIDDEN)),
    "scores of a metric": lambda: calcli.metrics.nll(Y, np.ma.array(PROB, mask=HIDDEN)),
    "label": lambda: calcli.Calibrator("platt").fit(PROB, np.ma.array(Y, mask=HIDDEN)),
    "label of a metric": lambda: calcli.metrics.nll(np.ma.array(Y, mask=HIDDEN), PROB),
    "label of a score": lambda: FITTED.score(PROB, np.ma.array(Y, mask=HIDDEN)),
    "weight": lambda: calcli.metrics.nll(Y, PROB, sample_weight=np.ma.array(np.ones(200), mask=HIDDEN)),
}


@pytest.mark.parametrize("name", MASKED)
def test_what_a_mask_hides_is_missing(name: str) -> None:
    with pytest.raises(ValueError, match=r"first in row 3\b"):
        MASKED[name]()


def test_a_weight_of_a_score_is_never_missing() -> None:
    for weight in (changed(np.ones(200), None, object).tolist(), np.ma.array(np.ones(200), mask=HIDDEN)):
        with pytest.raises(ValueError, match="sample_weight contains NaN"):
            FITTED.score(PROB, Y, sample_weight=weight)


def test_features_that_a_mask_hides_are_missing() -> None:
    hidden = np.ma.array(X, mask=np.column_stack([HIDDEN, HIDDEN]))
    assert feature_table(hidden).null_count().row(0) == (1, 1)


def test_labels_of_one_column_are_taken() -> None:
    for column in (Y[:, None], pd.DataFrame({"y": Y}), pl.DataFrame({"y": Y})):
        assert calcli.metrics.nll(column, PROB) == calcli.metrics.nll(Y, PROB)
    with pytest.raises(ValueError, match="y has 2 dimensions"):
        calcli.metrics.nll(PAIRS, PROB)


def test_what_has_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 200 rows, and clusters has 3"):
        calcli.metrics.cece(Y, PROB, clusters=[0, 0, 1])
    with pytest.raises(ValueError, match="there are 200 rows, and groups has 3"):
        calcli.metrics.summary(Y, PROB, groups=[0, 0, 1])
    with pytest.raises(ValueError, match="there are 200 rows, and sample_weight has 3"):
        calcli.metrics.nll(Y, PROB, sample_weight=[0, 0, 1])
    for edges, error in (([[0, 200]], "link 200, and there are 200 rows"), ([0, 1], "pairs of rows")):
        with pytest.raises(ValueError, match=error):
            calcli.metrics.tv(Y, PROB, edges=edges)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"holdout": "foo"}, "holdout='foo': give cv:5"),
        ({"random_state": -1}, "random_state is -1; it takes a whole number"),
        ({"method": "mbct", "X": X, "categories": "x0"}, "categories is 'x0'; it takes a list or a tuple"),
        ({"method": "mbct"}, "name some with X=, or try: method='auto'"),
        ({"method": "auto", "params": {"bins": 4}}, r"try: params={'METHOD.bins': 4}"),
    ],
)
def test_a_hint_is_python(given: dict[str, Any], hint: str) -> None:
    features = given.pop("X", None)
    with pytest.raises(ValueError, match=hint) as caught:
        calcli.Calibrator(**{"method": "platt"} | given).fit(PROB, Y, X=features)
    assert "--" not in str(caught.value)


def test_a_misspelt_option_is_an_error_of_the_metric() -> None:
    with pytest.raises(TypeError, match=r"calcli.metrics.ece: got an unexpected keyword argument 'bin'; see help"):
        calcli.metrics.ece(Y, PROB, bin=3)


@pytest.mark.parametrize("given", [{"task": "multiclass"}, {"kind": "sgd"}])
def test_an_ensemble_refuses_what_is_no_choice(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="available: "):
        calcli.uncertainty.Ensemble(**given).fit(X, Y)


def test_no_flag_is_left_in_a_message() -> None:
    declared = [Path(str(module.__file__)).read_text() for module in (options, decision_options)]
    flags = set(re.findall(r"--[a-z][a-z-]*", "".join(declared)))
    assert {"--holdout", "--bad-rows", "--weight-kind", "--set"} <= flags
    for text in (f"try {flag} none, {flag} a.b=1 or {flag}" for flag in flags):
        assert "--" not in of_arrays(text)
    assert of_arrays("--class: no class '3'; name some with --features") == "of: no class '3'; name some with X="
    assert of_arrays("row 1 of 3 rows, and row 1,001") == "row 0 of 3 rows, and row 1,000"


def test_groups_and_labels_that_cannot_be_are_named() -> None:
    with pytest.raises(ValueError, match="groups has values that cannot be ordered"):
        calcli.metrics.summary(Y, PROB, groups=[None, *range(199)])
    with pytest.raises(ValueError, match=r"a row has the class 0, which labels= lacks; they are \[1, 2\]"):
        calcli.metrics.nll(Y, PROB, labels=[1, 2])


SPARSE = csr_array(np.abs(X))


@pytest.mark.parametrize("method", ["mbct", "boost"])
def test_a_method_of_features_refuses_sparse_ones(method: str) -> None:
    model = calcli.CalibratedClassifier(LogisticRegression(), method, cv=2)
    assert get_tags(LogisticRegression()).input_tags.sparse
    assert not get_tags(model).input_tags.sparse
    with pytest.raises(ValueError, match=f"{method} reads features, and X is sparse: it takes a dense X"):
        model.fit(SPARSE, Y)
    with pytest.raises(ValueError, match="X is sparse, and methods read dense features"):
        calcli.Calibrator(method).fit(PROB, Y, X=SPARSE)


def test_a_method_of_scores_takes_sparse_features() -> None:
    model = calcli.CalibratedClassifier(LogisticRegression(), "platt", cv=2)
    assert get_tags(model).input_tags.sparse
    assert not get_tags(calcli.CalibratedClassifier(GaussianNB(), "platt")).input_tags.sparse
    dense = calcli.CalibratedClassifier(LogisticRegression(), "platt", cv=2).fit(SPARSE.toarray(), Y)
    np.testing.assert_allclose(model.fit(SPARSE, Y).predict_proba(SPARSE), dense.predict_proba(SPARSE), rtol=1e-6)


def test_auto_says_that_sparse_features_are_left_out() -> None:
    model = calcli.CalibratedClassifier(LogisticRegression(), cv=2)
    with pytest.warns(calcli.CalibrationWarning, match="X is sparse: auto compares the methods that read no features"):
        model.fit(SPARSE, Y)


def test_a_sparse_row_is_refused_where_the_calibrator_reads_dense_ones() -> None:
    model = calcli.CalibratedClassifier(LogisticRegression(), "mbct", cv=2).fit(X, Y)
    with pytest.raises(ValueError, match="X is sparse: it takes a dense X"):
        model.predict_proba(csr_array(X))
