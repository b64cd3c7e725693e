"""Estimators of scikit-learn whose features are scores, or become some."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted


class ClassScores(TransformerMixin, BaseEstimator):
    """The probabilities of a logistic regression: scikit-learn's checks can then be run on an estimator of scores."""

    def fit(self, X: Any, y: Any) -> Self:
        self.model_ = LogisticRegression().fit(X, y)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.model_, name):
                setattr(self, name, getattr(self.model_, name))
        return self

    def transform(self, X: Any) -> Any:
        check_is_fitted(self)
        return self.model_.predict_proba(X)


class GivenProbabilities(ClassifierMixin, BaseEstimator):
    """A model whose features are the probabilities of the classes."""

    def fit(self, X: Any, y: Any) -> Self:
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return X.argmax(axis=1)


class GivenColumn(RegressorMixin, BaseEstimator):
    """A model whose prediction is a column of its features."""

    def __init__(self, place: int = 0) -> None:
        self.place = place

    def fit(self, X: Any, y: Any) -> Self:
        self.fitted_ = True
        return self

    def predict(self, X: Any) -> Any:
        return X[:, self.place]
