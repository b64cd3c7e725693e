"""`CalibratedClassifier` beside scikit-learn's `CalibratedClassifierCV`, in the scenarios of its own tests.

    python benchmarks/quality/scikit_scenarios.py            # a Markdown table of log-losses on held-out rows

Each scenario has as many rows to fit on as theirs, and as many more to measure on.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_blobs, make_classification
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import calcli

PAIRS = {"sigmoid": "platt", "isotonic": "isotonic", "temperature": "temperature"}
"""Their methods and ours."""


@dataclass(frozen=True)
class Scenario:
    """Rows, the first half of which is fitted on, and a classifier."""

    name: str
    estimator: Any
    X: Any
    y: Any
    weight: Any = None
    cv: Any = 5

    def losses(self, method: str, ensemble: bool) -> tuple[float, float]:
        """Theirs and ours."""
        half = len(self.y) // 2
        fit = {} if self.weight is None else {"sample_weight": self.weight[:half]}
        shared = {"cv": self.cv, "ensemble": ensemble}
        models = (
            CalibratedClassifierCV(clone(self.estimator), method=method, **shared),
            calcli.CalibratedClassifier(clone(self.estimator), PAIRS[method], **shared),
        )
        theirs, ours = (
            log_loss(self.y[half:], model.fit(self.X[:half], self.y[:half], **fit).predict_proba(self.X[half:]),
                     labels=np.unique(self.y))
            for model in models
        )  # fmt: skip
        return float(theirs), float(ours)


def scenarios() -> Iterator[Scenario]:
    rng = np.random.RandomState(42)
    X, y = make_classification(400, 6, random_state=42)
    weight = rng.uniform(size=400)
    yield Scenario("naive Bayes", MultinomialNB(), X - X.min(), y)
    yield Scenario("weights", LinearSVC(random_state=42), X, y, weight)
    yield Scenario("a splitter", LinearSVC(random_state=42), X, y, cv=KFold(5))
    blobs, of_blob = make_blobs(1000, 100, random_state=0, centers=10, cluster_std=15.0)
    of_blob = np.minimum(of_blob, 2)
    yield Scenario("three classes, decision function", LinearSVC(random_state=7), blobs, of_blob)
    yield Scenario("three classes, random forest", RandomForestClassifier(30, random_state=42), blobs, of_blob)
    wide, of_five = make_classification(
        2000, 10, n_informative=10, n_redundant=0, n_classes=5, n_clusters_per_class=1, class_sep=2.0, random_state=42
    )
    frozen = LogisticRegression(C=np.inf, tol=1e-8, max_iter=200).fit(wide[:500], of_five[:500])
    yield Scenario("frozen, five classes", FrozenEstimator(frozen), wide[500:], of_five[500:])
    holes = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    yield Scenario(
        "missing values", make_pipeline(SimpleImputer(), RandomForestClassifier(1, random_state=0)), holes, y
    )
    ordered = np.concatenate([np.sort(y[:200]), y[200:]])
    yield Scenario("folds of one class", LinearSVC(random_state=7), X, ordered, cv=KFold(3))
    four = np.concatenate([np.repeat(np.arange(4), 50), rng.randint(0, 4, 200)])
    yield Scenario("a class absent from a fold", DecisionTreeClassifier(random_state=7), X + four[:, None], four,
                   cv=KFold(3))  # fmt: skip
    records = np.array([{"a": round(row[0]), "b": row[1]} for row in X], dtype=object)
    yield Scenario("dictionaries", make_pipeline(DictVectorizer(sparse=False), LogisticRegression()), records, y)
    vote = VotingClassifier([(f"lr{place}", LogisticRegression()) for place in range(3)], voting="soft")
    yield Scenario("votes", vote, X, y)
    large = 1e5 * y[:, None] * (rng.random(400) < 0.9)[:, None] + rng.normal(size=(400, 1))
    yield Scenario("large decisions", SGDClassifier(loss="squared_hinge", tol=1e-2, random_state=0), large, y)
    yield Scenario("float32", RandomForestClassifier(30, random_state=0), X.astype(np.float32), y)


def main() -> None:
    warnings.simplefilter("ignore")
    print("| scenario | " + " | ".join(f"{theirs}, {how}" for theirs in PAIRS for how in ("one", "ensemble")) + " |")
    print("| --- |" + " ---: |" * (2 * len(PAIRS)))
    for scenario in scenarios():
        cells = []
        for method in PAIRS:
            for ensemble in (False, True):
                try:
                    theirs, ours = scenario.losses(method, ensemble)
                    cells.append(f"{theirs:.3f} / {ours:.3f}")
                except ValueError as error:
                    cells.append(str(error)[:60])
        print(f"| {scenario.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
