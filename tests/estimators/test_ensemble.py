"""`Ensemble`: the uncertainty of the verbs, for arrays."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import calcli
from tests.support.samples import visits

ROWS = visits(300)
FEATURES = ROWS.drop("label", "logit")


def test_it_is_the_ensemble_of_the_verb() -> None:
    ours = calcli.uncertainty.Ensemble(members=3, trees=20).fit(FEATURES, ROWS["label"])
    theirs = calcli.fit_ensemble(ROWS.drop("logit"), ensemble="sglb", members=3, trees=20).model
    one, two = ours.uncertainty(FEATURES), theirs.predict(FEATURES)
    for name in ("mean", "data", "knowledge", "total"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12)
    prob = ours.predict_proba(FEATURES)
    np.testing.assert_allclose(prob[:, 1], two.mean)
    entropy = -(prob * np.log(prob)).sum(axis=1)
    np.testing.assert_allclose(one.total, entropy, rtol=1e-6)
    assert ours.classes_.tolist() == [0, 1]
    assert np.array_equal(ours.predict(FEATURES), (prob[:, 1] > 0.5).astype(int))
    again = pickle.loads(pickle.dumps(ours))
    assert np.array_equal(again.predict_proba(FEATURES), prob)
    assert clone(ours).get_params() == ours.get_params()


def test_of_amounts_and_of_classes_with_names() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    amount = X[:, 0] + 0.1
    regression = calcli.uncertainty.Ensemble("virtual", members=3, trees=40).fit(X, amount)
    assert np.corrcoef(regression.predict(X), amount)[0, 1] > 0.8
    assert (regression.uncertainty(X).data >= 0).all()
    with pytest.raises(AttributeError, match="no probabilities"):
        regression.predict_proba(X)
    names = np.array(["a", "b", "c"])[np.digitize(amount, [-0.5, 0.5])]
    several = regression.fit(X, names, sample_weight=np.ones(200))
    assert several.predict_proba(X).shape == (200, 3)
    assert (several.predict(X) == names).mean() > 0.8


def test_what_cannot_be_is_refused() -> None:
    ensemble = calcli.uncertainty.Ensemble(members=2, trees=10)
    with pytest.raises(ValueError, match="one class only"):
        ensemble.fit(FEATURES, np.zeros(300, int))
    with pytest.raises(ValueError, match="299"):
        ensemble.fit(FEATURES, ROWS["label"][:-1])
    ensemble.fit(FEATURES, ROWS["label"])
    with pytest.raises(ValueError, match="no column 'city'"):
        ensemble.predict(FEATURES.drop("city"))
