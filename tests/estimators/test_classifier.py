"""`CalibratedClassifier` beside scikit-learn's `CalibratedClassifierCV`, on the rows of its own tests."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import polars as pl
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction import DictVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.metaestimators import available_if

import calcli
from tests.support.samples import visits

pytestmark = [
    pytest.mark.filterwarnings("ignore::calcli.CalibrationWarning"),  # the rows are few
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

X, Y = make_classification(n_samples=200, n_features=6, random_state=42)
POSITIVE = X - X.min()
WEIGHT = np.random.RandomState(seed=42).uniform(size=200)
FEW_TREES = {"trees": 2, "min_rows": 20}
ENSEMBLE = pytest.mark.parametrize("ensemble", [True, False])


@pytest.mark.slow
@ENSEMBLE
@pytest.mark.parametrize(
    ("method", "sparse"), [("platt", False), ("platt", True), ("isotonic", False), ("beta", False)]
)
def test_it_improves_naive_bayes(method: str, sparse: bool, ensemble: bool) -> None:
    features = csr_array(POSITIVE) if sparse else POSITIVE
    raw = MultinomialNB().fit(features[:100], Y[:100], WEIGHT[:100]).predict_proba(features[100:])[:, 1]
    model = calcli.CalibratedClassifier(MultinomialNB(), method, ensemble=ensemble)
    first = None
    for labels in (Y, Y + 1, 2 * Y - 1) if sparse else (Y,):
        model.fit(features[:100], labels[:100], sample_weight=WEIGHT[:100])
        prob = model.predict_proba(features[100:])[:, 1]
        first = prob if first is None else first
        assert np.array_equal(prob, first)
        assert brier_score_loss(Y[100:], raw) > brier_score_loss(Y[100:], prob)
    if method == "platt":
        model.fit(features[:100], 1 - Y[:100], sample_weight=WEIGHT[:100])
        np.testing.assert_allclose(first, model.predict_proba(features[100:])[:, 0], atol=1e-9)


def test_a_splitter_may_be_given() -> None:
    for ensemble, count in ((True, 4), (False, 1)):
        model = calcli.CalibratedClassifier(LinearSVC(), "platt", cv=KFold(4), ensemble=ensemble, holdout="none").fit(
            X, Y
        )
        assert len(model.estimators_) == len(model.calibrators_) == count


def test_without_ensemble_it_is_the_calibrator_of_the_held_out_predictions() -> None:
    model = calcli.CalibratedClassifier(GaussianNB(), "platt", cv=KFold(5)).fit(X, Y)
    held_out = cross_val_predict(GaussianNB(), X, Y, cv=KFold(5), method="predict_proba")
    calibrator = calcli.Calibrator("platt").fit(held_out, Y)
    assert np.array_equal(model.predict_proba(X), calibrator.predict_proba(GaussianNB().fit(X, Y).predict_proba(X)))
    assert model.report_.differences == calibrator.report_.differences


def test_with_ensemble_it_is_the_mean_of_the_folds() -> None:
    model = calcli.CalibratedClassifier(GaussianNB(), "platt", cv=KFold(3), ensemble=True).fit(X, Y)
    parts = []
    for train, test in KFold(3).split(X):
        estimator = GaussianNB().fit(X[train], Y[train])
        calibrator = calcli.Calibrator("platt").fit(estimator.predict_proba(X[test]), Y[test])
        parts.append(calibrator.predict_proba(estimator.predict_proba(X)))
    np.testing.assert_allclose(model.predict_proba(X), np.mean(parts, axis=0), rtol=1e-12)
    with pytest.raises(AttributeError, match="a report for each fold"):
        _ = model.report_


def test_parallel_folds_change_nothing() -> None:
    model = calcli.CalibratedClassifier(make_pipeline(StandardScaler(), LinearSVC()), "platt", holdout="none")
    expected = clone(model).fit(X, Y).predict_proba(X)
    assert np.array_equal(model.set_params(n_jobs=2).fit(X, Y).predict_proba(X), expected)


def test_decisions_may_be_large() -> None:
    """Those of an SGD classifier need not be near any log-odds, and still say which class it is."""
    rng = np.random.default_rng(0)
    features = 1e5 * (Y * (rng.random(200) < 0.9))[:, None] + rng.normal(size=(200, 1))
    estimator = SGDClassifier(loss="squared_hinge", tol=1e-2, random_state=0)
    model = calcli.CalibratedClassifier(estimator, "platt", cv=3, holdout="none").fit(features, Y)
    assert np.abs(model.estimators_[0].decision_function(features)).max() > 1e6
    rate = np.full(200, Y.mean())
    assert log_loss(Y, model.predict_proba(features)[:, 1]) < 0.5 * log_loss(Y, rate)


@pytest.mark.slow
@ENSEMBLE
@pytest.mark.parametrize("method", ["platt", "temperature"])
def test_more_classes(method: str, ensemble: bool) -> None:
    features, labels = make_blobs(500, 100, random_state=0, centers=10, cluster_std=15.0)
    labels[labels > 2] = 2
    for estimator in (LinearSVC(random_state=7), RandomForestClassifier(12, random_state=42)):
        model = calcli.CalibratedClassifier(estimator, method, ensemble=ensemble).fit(features[::2], labels[::2])
        prob = model.predict_proba(features[1::2])
        np.testing.assert_allclose(prob.sum(axis=1), 1.0)
        own = clone(estimator).fit(features[::2], labels[::2]).score(features[1::2], labels[1::2])
        assert model.score(features[1::2], labels[1::2]) > 0.95 * own


@pytest.mark.parametrize("by", ["prefit", "frozen"])
def test_a_fitted_estimator_stays_as_it_is(by: str) -> None:
    estimator = MultinomialNB().fit(POSITIVE[:100], Y[:100])
    given = FrozenEstimator(estimator) if by == "frozen" else estimator
    model = calcli.CalibratedClassifier(given, "platt", cv="prefit" if by == "prefit" else 5, holdout="none")
    model.fit(POSITIVE[100:], Y[100:])
    calibrator = calcli.Calibrator("platt").fit(estimator.predict_proba(POSITIVE[100:]), Y[100:])
    expected = calibrator.predict_proba(estimator.predict_proba(POSITIVE))
    assert np.array_equal(model.predict_proba(POSITIVE), expected)
    with pytest.raises(ValueError, match="has the class 2, which the estimator does not know"):
        model.fit(POSITIVE[100:], Y[100:] + 1)


def test_rows_to_calibrate_may_lack_a_class_of_a_fitted_estimator() -> None:
    features, labels = load_iris(return_X_y=True)
    estimator = LogisticRegression(max_iter=1000).fit(features, labels)
    model = calcli.CalibratedClassifier(estimator, "temperature", cv="prefit").fit(features[:100], labels[:100])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(features).shape == (150, 3)


@ENSEMBLE
def test_a_fold_may_lack_a_class(ensemble: bool) -> None:
    """Of five classes one is missing in each training fold."""
    features, labels = np.random.default_rng(0).normal(size=(50, 5)), np.repeat(np.arange(5), 10)
    for classes in (np.arange(5), np.array(list("abcde"))):
        model = calcli.CalibratedClassifier(GaussianNB(), "temperature", cv=KFold(5), ensemble=ensemble, holdout="none")
        model.fit(features, classes[labels])
        prob = model.predict_proba(features)
        np.testing.assert_allclose(prob.sum(axis=1), 1.0)


class Unsorted(LogisticRegression):
    """A classifier with its classes in another order than the sorted one."""

    def __init__(self, response: str = "predict_proba", turn: int = 1) -> None:
        super().__init__()
        self.response = response
        self.turn = turn

    def fit(self, X: Any, y: Any) -> Any:
        self.sorted_ = LogisticRegression().fit(X, y)
        self.classes_ = np.roll(self.sorted_.classes_, self.turn)
        return self

    def _rolled(self, values: Any) -> Any:
        return np.roll(values, self.turn, axis=1) if values.ndim == 2 else values * (-1) ** self.turn

    @available_if(lambda self: self.response == "predict_proba")
    def predict_proba(self, X: Any) -> Any:
        return self._rolled(self.sorted_.predict_proba(X))

    @available_if(lambda self: self.response != "predict_proba")
    def decision_function(self, X: Any) -> Any:
        return self._rolled(self.sorted_.decision_function(X))


@ENSEMBLE
@pytest.mark.parametrize("response", ["predict_proba", "decision_function"])
@pytest.mark.parametrize("classes", [2, 3])
def test_an_estimator_may_have_its_classes_in_any_order(classes: int, response: str, ensemble: bool) -> None:
    features, place = make_blobs(n_samples=300, centers=classes, cluster_std=4.0, random_state=3)
    labels = np.array(["wolf", "ant", "mole"])[place]
    of: Any = {"method": "platt", "cv": 3, "ensemble": ensemble}
    found, expected = (
        calcli.CalibratedClassifier(Unsorted(response, turn), **of).fit(features, labels) for turn in (1, 0)
    )
    assert found.classes_.tolist() == expected.classes_.tolist() == sorted(set(labels))
    np.testing.assert_array_equal(found.predict_proba(features), expected.predict_proba(features))


def test_folds_may_leave_rows_out() -> None:
    """Of time series the first rows are only fitted on."""
    model = calcli.CalibratedClassifier(GaussianNB(), "platt", cv=TimeSeriesSplit(4), holdout="none").fit(X, Y)
    held_out = [
        (test, GaussianNB().fit(X[train], Y[train]).predict_proba(X[test]))
        for train, test in TimeSeriesSplit(4).split(X)
    ]
    scores, labels = np.concatenate([prob for _, prob in held_out]), np.concatenate([Y[test] for test, _ in held_out])
    expected = calcli.Calibrator("platt", holdout="none").fit(scores, labels)
    assert model.calibrators_[0].artifact_.calibrator.state == expected.artifact_.calibrator.state


@ENSEMBLE
def test_pipelines_get_what_they_were_given(ensemble: bool) -> None:
    missing = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    model = calcli.CalibratedClassifier(
        make_pipeline(SimpleImputer(), GaussianNB()), "platt", cv=3, ensemble=ensemble, holdout="none"
    ).fit(missing, Y)
    assert model.predict(missing).shape == (200,)
    records = [{"a": float(row[0]), "b": float(row[1])} for row in X]
    to_numbers = make_pipeline(DictVectorizer(sparse=False), GaussianNB())
    of_dicts = calcli.CalibratedClassifier(to_numbers, "platt", cv=3, holdout="none")
    assert of_dicts.fit(records, Y).predict_proba(records).shape == (200, 2)


@pytest.mark.parametrize("to", [pl.DataFrame.to_pandas, lambda frame: frame])
def test_methods_see_the_columns_that_the_pipeline_gets(to: Any) -> None:
    """The pipeline codes the city; the method is given its names."""
    table = visits(600).with_columns(pl.col("city").fill_null("none"), pl.col("hours").fill_null(0.0))
    frame = to(table.select("city", "hours", "logit"))
    coded = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    model = calcli.CalibratedClassifier(make_pipeline(coded, GaussianNB()), "mbct", params=FEW_TREES, holdout="none")
    prob = model.fit(frame, table["label"].to_numpy()).predict_proba(frame)
    features = model.calibrators_[0].artifact_.fitted_binding.features
    assert [(one.name, one.role) for one in features] == [("city", "category"), ("hours", "number")]
    assert prob.shape == (600, 2)
    assert model.feature_names_in_.tolist() == ["city", "hours", "logit"]
    with pytest.raises(ValueError, match="city"):
        model.predict_proba(to(table.select("hours", "logit")))


def test_groups_are_never_on_both_sides_of_a_fold() -> None:
    groups = np.arange(200) // 10

    class Witness(GaussianNB):
        def fit(self, features: Any, labels: Any) -> Any:
            self.seen_ = set(features[:, 0])
            return super().fit(features, labels)

        def predict_proba(self, features: Any) -> Any:
            assert self.seen_.isdisjoint(features[:, 0]) or len(features) == 200
            return super().predict_proba(features)

    of_groups = np.column_stack([groups.astype(float), X])
    for cv in (4, GroupKFold(4)):
        model = calcli.CalibratedClassifier(Witness(), "platt", cv=cv, ensemble=False, holdout="none")
        model.fit(of_groups, Y, groups=groups)


def test_weights_go_to_the_estimator_if_it_takes_them() -> None:
    for estimator, takes in ((GaussianNB(), True), (KNeighborsClassifier(), False)):
        model = calcli.CalibratedClassifier(estimator, "platt", cv=KFold(4), holdout="none")
        if takes:
            model.fit(X, Y, sample_weight=WEIGHT)
        else:
            with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
                model.fit(X, Y, sample_weight=WEIGHT)
        expected = clone(estimator).fit(X, Y, **({"sample_weight": WEIGHT} if takes else {})).predict_proba(X)
        assert np.array_equal(model.estimators_[0].predict_proba(X), expected)


def test_metadata_is_routed() -> None:
    groups = np.arange(200) // 10
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = GaussianNB().set_fit_request(sample_weight=True)
        model = calcli.CalibratedClassifier(estimator, "platt", cv=GroupKFold(4).set_split_request(groups=True))
        routed = model.fit(X, Y, sample_weight=WEIGHT, groups=groups).predict_proba(X)
        unweighted = calcli.CalibratedClassifier(GaussianNB().set_fit_request(sample_weight=False), "platt", cv=4)
        assert np.array_equal(
            unweighted.fit(X, Y, sample_weight=WEIGHT).estimators_[0].predict_proba(X),
            GaussianNB().fit(X, Y).predict_proba(X),
        )
    plain = calcli.CalibratedClassifier(GaussianNB(), "platt", cv=GroupKFold(4))
    assert np.array_equal(plain.fit(X, Y, sample_weight=WEIGHT, groups=groups).predict_proba(X), routed)


@pytest.mark.parametrize("search", [GridSearchCV, HalvingGridSearchCV])
def test_a_search_over_methods(search: Any) -> None:
    model = calcli.CalibratedClassifier(GaussianNB(), cv=3, holdout="none")
    found = search(
        model, {"method": ["identity", "platt"], "estimator__var_smoothing": [1e-9]}, cv=2, scoring="neg_log_loss"
    ).fit(X, Y)
    assert found.best_params_["method"] in ("identity", "platt")
    assert pickle.loads(pickle.dumps(found)).predict_proba(X).shape == (200, 2)


@pytest.mark.parametrize("to", ["pandas", "polars"])
def test_frames_of_transformers_keep_their_names(to: str) -> None:
    """`set_output` on the way in: the estimator and the method see named columns."""
    model = calcli.CalibratedClassifier(GaussianNB(), "mbct", params=FEW_TREES, holdout="none")
    pipeline = make_pipeline(StandardScaler(), model)
    pipeline.set_output(transform=to).fit(X, Y)
    assert [one.name for one in pipeline[-1].calibrators_[0].artifact_.fitted_binding.features] == [
        f"x{place}" for place in range(6)
    ]
    assert pipeline.predict(X).shape == (200,)


@ENSEMBLE
@pytest.mark.parametrize(
    ("ours", "theirs"), [("platt", "sigmoid"), ("isotonic", "isotonic"), ("temperature", "temperature")]
)
def test_it_is_as_good_as_the_class_that_it_stands_for(ours: str, theirs: str, ensemble: bool) -> None:
    """Calibrated log-odds of a naive Bayes model that counts each feature several times."""
    features, labels = make_classification(2000, 6, random_state=0)
    features = np.repeat(features, 4, axis=1)
    one = calcli.CalibratedClassifier(GaussianNB(), ours, ensemble=ensemble, holdout="none")
    one.fit(features[::2], labels[::2])
    two = CalibratedClassifierCV(GaussianNB(), method=theirs, ensemble=ensemble, cv=5).fit(features[::2], labels[::2])
    raw = GaussianNB().fit(features[::2], labels[::2])
    loss, reference, before = (log_loss(labels[1::2], each.predict_proba(features[1::2])) for each in (one, two, raw))
    assert loss < before
    assert loss < reference + 0.01


def test_weights_and_exact_reach_the_calibrator() -> None:
    X = np.linspace(-1, 1, 80)[:, None]
    y = (X[:, 0] > 0).astype(int)
    model = calcli.CalibratedClassifier(
        GaussianNB().fit(X, y), "isotonic", cv="prefit", exact=True, weight_kind="counts"
    )
    model.fit(X, y, sample_weight=np.full(80, 2))
    assert set(model.predict_proba(X)[:, 1]) == {0.0, 1.0}
    assert model.calibrators_[0].artifact_.fitted_binding.weight_kind == "counts"
