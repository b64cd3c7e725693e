"""A transformer that makes scores of features, so that scikit-learn's checks can be run on an estimator of scores."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted


class ClassScores(TransformerMixin, BaseEstimator):
    """The probabilities of a logistic regression."""

    def fit(self, X: Any, y: Any) -> Self:
        self.model_ = LogisticRegression().fit(X, y)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.model_, name):
                setattr(self, name, getattr(self.model_, name))
        return self

    def transform(self, X: Any) -> Any:
        check_is_fitted(self)
        return self.model_.predict_proba(X)
