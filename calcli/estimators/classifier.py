"""`CalibratedClassifier`: a classifier with calibrated probabilities, in the place of `CalibratedClassifierCV`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_is_fitted

from calcli.estimators.calibrator import CalibrationWarning, Calibrator, check_known, labels_and_classes
from calcli.estimators.value_errors import as_value_errors
from calcli.numeric.links import drawn_in
from calcli.numeric.seeded import importing

if TYPE_CHECKING:
    from calcli.batch import FloatArray, IntArray
    from calcli.methods.base import ParamValue
    from calcli.reports.schema import Report
    from calcli.tables.binding_types import ScaleKind
    from calcli.tables.weights import WeightKind

SETTINGS = ("params", "preset", "guard", "holdout", "exact", "categories", "numbers", "weight_kind", "random_state")
"""The parameters of a `Calibrator` that a `CalibratedClassifier` has too, beside its method."""

Responses: TypeAlias = "tuple[FloatArray, ScaleKind]"


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Calibrate the probabilities of a classifier on rows that it was not fitted on.

    The log-odds are calibrated, and methods that look at features get `X`. Where the result is worse than the
    classifier's own probabilities on held-out rows, a `CalibrationWarning` says so; ``auto`` chooses no calibration
    then.

    Parameters
    ----------
    estimator
        A classifier or a pipeline with `predict_proba`, or else `decision_function`, which is taken for log-odds.
        Where it is frozen (`sklearn.frozen.FrozenEstimator`), all rows calibrate it, as with ``cv="prefit"``.
    method, params, preset, guard, holdout, exact, categories, numbers, weight_kind, random_state
        As of `calcli.Calibrator`.
    cv
        Folds, a splitter of scikit-learn, or pairs of training and test rows; ``prefit`` for an estimator that was
        fitted on other rows.
    ensemble
        Whether each fold has an estimator and a calibrator of its own, whose probabilities are averaged. Without, one
        calibrator is fitted on the held-out predictions of all folds, and the estimator on all rows.
    n_jobs
        How many folds are fitted at once.

    Attributes
    ----------
    classes_
        The classes, in the order of the columns of `predict_proba`.
    estimators_, calibrators_
        The fitted estimators and the calibrator of each: as many as folds with `ensemble`, else one.
    report_
        Every metric before and after, on held-out rows; of an ensemble each calibrator has its own.

    Examples
    --------
    >>> import calcli
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(1000, random_state=0)
    >>> model = calcli.CalibratedClassifier(GaussianNB(), method="platt").fit(X, y)
    >>> report = model.report_
    >>> report.value("platt", "nll") < report.value("raw", "nll")
    True
    """

    classes_: NDArray[Any]
    estimators_: list[Any]
    calibrators_: list[Calibrator]

    def __init__(
        self,
        estimator: Any,
        method: str = "auto",
        *,
        cv: int | Literal["prefit"] | Iterable[Any] | object = 5,
        ensemble: bool = False,
        params: Mapping[str, ParamValue] | None = None,
        preset: str | None = None,
        guard: str | None = None,
        holdout: str | None = None,
        exact: bool = False,
        categories: Sequence[str] = (),
        numbers: Sequence[str] = (),
        weight_kind: WeightKind | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.params = params
        self.preset = preset
        self.guard = guard
        self.holdout = holdout
        self.exact = exact
        self.categories = categories
        self.numbers = numbers
        self.weight_kind = weight_kind
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the estimator, and calibrate it.

        Parameters
        ----------
        X
            Whatever the estimator takes; frames and arrays are features for the methods that look at them too.
        y
            The class of each row.
        sample_weight
            How much each row matters, to the estimator (where it takes weights) and to the calibration.
        groups
            Which rows belong together: those of a group are in one fold.
        fit_params
            Of the estimator's `fit`.
        """
        labels, self.classes_ = labels_and_classes(y)
        self._refuse_sparse(X)
        X, labels, sample_weight, groups = indexable(X, labels, sample_weight, groups)
        routed = self._routed(sample_weight, groups, fit_params)
        if self.cv == "prefit" or clone(self.estimator) is self.estimator:
            self._calibrate_fitted(X, labels, sample_weight, groups)
        else:
            self._calibrate_folds(X, labels, sample_weight, groups, routed)
        first = self.estimators_[0]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
        return self

    @property
    def _reads_features(self) -> bool:
        """Whether the method needs features; ``auto`` goes without where there are none."""
        from calcli.methods import catalog

        return self.method != catalog.AUTO and catalog.find(self.method).needs_features

    def _refuse_sparse(self, X: Any) -> None:
        """Refuse sparse features that the method reads, and say so where ``auto`` goes without them."""
        if not hasattr(X, "toarray"):
            return
        with as_value_errors():
            if self._reads_features:
                raise ValueError(f"{self.method} reads features, and X is sparse: it takes a dense X, as X.toarray()")
        if self.method == "auto":
            text = "X is sparse: auto compares the methods that read no features, and all of them with a dense X"
            warnings.warn(text, CalibrationWarning, stacklevel=3)

    def _calibrate_fitted(self, X: Any, labels: NDArray[Any], weight: Any, groups: Any) -> None:
        """One calibrator on all rows, of an estimator that was fitted on others."""
        check_is_fitted(self.estimator)
        self.classes_ = np.asarray(self.estimator.classes_)
        check_known(labels, self.classes_)
        self.estimators_ = [self.estimator]
        response = responses(self.estimator, X, self.classes_)
        self.calibrators_ = [self._calibrated(response, X, labels, weight, groups)]

    def _calibrate_folds(self, X: Any, labels: NDArray[Any], weight: Any, groups: Any, routed: Any) -> None:
        """Calibrate predictions of rows that the estimator was not fitted on, fold by fold."""
        splits = self._splits(X, labels, routed.splitter.split)
        folds = [test for _, test in splits]
        if self.ensemble and min(map(len, folds)) < 2:
            raise ValueError(
                "a fold of one row is too small for a calibrator of its own: fewer folds, or ensemble=False"
            )
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_fold)(clone(self.estimator), X, labels, train, test, routed.estimator.fit, self.classes_)
            for train, test in splits
        )

        def part(rows: IntArray, response: Responses) -> Calibrator:
            taken = (None if one is None else _safe_indexing(one, rows) for one in (weight, groups))
            return self._calibrated(response, _safe_indexing(X, rows), labels[rows], *taken)

        if self.ensemble:
            self.estimators_ = [estimator for estimator, _ in fitted]
            self.calibrators_ = [part(rows, held) for rows, (_, held) in zip(folds, fitted, strict=True)]
            return
        # In the order of the rows: the result does not depend on that of the folds.
        rows = np.concatenate(folds)
        order = np.argsort(rows, kind="stable")
        scores = np.concatenate([held for _, (held, _) in fitted])[order]
        kind = fitted[0][1][1]
        self.estimators_ = [clone(self.estimator).fit(X, labels, **routed.estimator.fit)]
        self.calibrators_ = [part(rows[order], (scores, kind))]

    def _splits(self, X: Any, labels: NDArray[Any], split_params: Mapping[str, Any]) -> list[tuple[IntArray, IntArray]]:
        """The training and test rows of each fold."""
        with importing():
            from sklearn.model_selection import StratifiedGroupKFold, check_cv

        cv: Any = self.cv
        if isinstance(cv, int) and split_params.get("groups") is not None:
            cv = StratifiedGroupKFold(cv)
        return list(check_cv(cv, labels, classifier=True).split(X, labels, **split_params))

    def _calibrated(self, response: Responses, X: Any, labels: NDArray[Any], weight: Any, groups: Any) -> Calibrator:
        """A calibrator of these predictions."""
        from calcli.estimators.arrays import Rows

        with as_value_errors():
            rows = Rows(labels, self.classes_, features_of(X), weight, groups, *response, self.weight_kind)
            settings = {name: getattr(self, name) for name in SETTINGS}
            return Calibrator(self.method, input=rows.kind, **settings)._fit_rows(rows)

    def _routed(self, weight: Any, groups: Any, fit_params: Mapping[str, Any]) -> Any:
        """The parameters of the estimator's `fit` and of the splitter's `split`."""
        from sklearn import get_config
        from sklearn.utils import Bunch

        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", sample_weight=weight, groups=groups, **fit_params)
        fit = dict(fit_params)
        if weight is not None and "sample_weight" in signature(self.estimator.fit).parameters:
            fit["sample_weight"] = weight
        elif weight is not None:
            name = type(self.estimator).__name__
            warnings.warn(f"{name} takes no sample_weight: the weights are used for calibration only", stacklevel=3)
        return Bunch(estimator=Bunch(fit=fit), splitter=Bunch(split={} if groups is None else {"groups": groups}))

    def get_metadata_routing(self) -> MetadataRouter:
        """Weights and groups are its own, and the estimator's and the splitter's where they ask for them."""
        with importing():
            from sklearn.model_selection import check_cv

        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        if self.cv != "prefit":
            splitter = check_cv(self.cv)
            router.add(splitter=splitter, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        return router

    @property
    def report_(self) -> Report | None:
        """Every metric before and after, on held-out rows."""
        check_is_fitted(self)
        if len(self.calibrators_) > 1:
            raise AttributeError("an ensemble has a report for each fold: calibrators_[0].report_")
        return self.calibrators_[0].report_

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated probabilities, with a column for each of `classes_`."""
        check_is_fitted(self)
        features = features_of(X)
        if hasattr(X, "toarray") and any(one.artifact_.needs_features for one in self.calibrators_):
            raise ValueError("the calibrator reads features, and X is sparse: it takes a dense X, as X.toarray()")
        parts = [
            calibrator.predict_proba(responses(estimator, X, self.classes_)[0], features)
            for estimator, calibrator in zip(self.estimators_, self.calibrators_, strict=True)
        ]
        mean: FloatArray = np.mean(parts, axis=0)
        return mean

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, which may not be the estimator's."""
        check_is_fitted(self)
        classes: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return classes

    def __sklearn_tags__(self) -> Any:
        """Tags, with those of the estimator where they are about the input."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.input_tags.pairwise = False
        tags.input_tags.sparse &= not self._reads_features
        return tags


def _fit_fold(
    estimator: Any,
    X: Any,
    labels: NDArray[Any],
    train: IntArray,
    test: IntArray,
    fit_params: Mapping[str, Any],
    classes: NDArray[Any],
) -> tuple[Any, Responses]:
    """The estimator, fitted on some rows, and its predictions of others."""
    taken = _check_method_params(X, fit_params, indices=train)
    estimator.fit(_safe_indexing(X, train), _safe_indexing(labels, train), **taken)
    return estimator, responses(estimator, _safe_indexing(X, test), classes)


def responses(estimator: Any, X: Any, classes: NDArray[Any]) -> Responses:
    """The estimator's probabilities, or else its decisions as log-odds, with a column for each of `classes`.

    Decisions have any unit: those beyond the log-odds of any probability are drawn in.
    """
    if not (hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")):
        raise ValueError(f"{type(estimator).__name__} has neither predict_proba nor decision_function")
    same = np.array_equal(estimator.classes_, classes)
    order = None if same else np.searchsorted(classes, estimator.classes_)  # an estimator need not sort its own
    if hasattr(estimator, "predict_proba"):
        prob = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        if order is not None:  # 0 for classes that the estimator has not seen
            known, prob = prob, np.zeros((len(prob), len(classes)))
            prob[:, order] = known
        return prob, "prob"
    decisions = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if len(estimator.classes_) < len(classes):
        raise ValueError(f"a fold has no rows of some of the classes {classes}: use fewer folds")
    if order is not None:
        decisions = -decisions if decisions.ndim == 1 else decisions[:, np.argsort(order)]
    return drawn_in(decisions), "logit"


def features_of(X: Any) -> object:
    """The features that methods can look at: a frame, or an array with columns; None for sparse matrices and texts."""
    from calcli.tables.score_arrays import unmasked

    if hasattr(X, "columns") or hasattr(X, "column_names"):
        return X
    if hasattr(X, "toarray"):
        return None
    array = np.asarray(unmasked(X))
    return array if array.ndim == 2 else None
