"""`Calibrator`: the calibration of scores that exist, as an estimator of scikit-learn.

Nothing but scikit-learn's base classes is imported before something is fitted or loaded.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d

from calcli.errors import UsageError
from calcli.estimators.value_errors import as_value_errors
from calcli.numeric.seeded import importing
from calcli.parameters import names_parameters

if TYPE_CHECKING:
    from calcli.batch import FloatArray
    from calcli.estimators.arrays import Input, Rows
    from calcli.methods.base import ParamValue
    from calcli.models.calibrator import CalibratorModel
    from calcli.models.requests import FitResult
    from calcli.reports.schema import Report
    from calcli.tables.weights import WeightKind


class CalibrationWarning(UserWarning):
    """Calibrating made held-out rows worse, or a guard refused it."""


class Calibrator(ClassifierMixin, BaseEstimator):
    """Calibrate the scores of a model.

    The same rows, method and seed give the same numbers as ``calcli fit``, to the byte.

    Parameters
    ----------
    method
        A name of the catalog (``calcli methods``), or ``auto`` for what does best on held-out rows, no calibration
        among them.
    params
        Parameters of the method that differ from the defaults or the preset.
    preset
        Parameters that were chosen together, by the name that the catalog gives them.
    guard
        A metric; where it is worse than without calibration on held-out rows, the scores stay as they are.
    holdout
        How rows are held out for the report: ``cv:5``, ``0.1``, ``none``; None is 5-fold up to a million rows and one
        90/10 split above.
    input
        Whether scores are ``logit`` or ``prob``; ``auto`` tells by their values, and refuses what is doubtful.
    exact
        Let probabilities be exactly 0 or 1 where the method says so.
    categories, numbers
        Columns of `X` whose numbers are names, as ids are, and those whose numbers are quantities; patterns too. Where
        neither names them, integers whose values say more than their order does are names.
    weight_kind
        Whether a `sample_weight` is an ``importance`` or ``counts`` equal rows, which None takes for importance: counts
        of 2 say as much as the rows written twice.
    random_state
        Of everything that draws random numbers.

    Attributes
    ----------
    classes_
        The classes, in the order of the columns of `predict_proba`.
    report_
        Every metric before and after, on held-out rows.
    artifact_
        The fitted model, as `calcli.load` gives it.
    n_features_in_
        The number of columns of the scores.

    Examples
    --------
    >>> import calcli
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> prob = rng.random(1000)
    >>> y = rng.random(1000) < prob**2
    >>> calibrator = calcli.Calibrator("beta").fit(prob, y)
    >>> calibrator.predict_proba([0.5]).round(1)
    array([[0.7, 0.3]])
    """

    # The first parameter of these methods is not called X, and would be taken for metadata.
    __metadata_request__fit: ClassVar = {"scores": UNUSED}
    __metadata_request__predict: ClassVar = {"scores": UNUSED}
    __metadata_request__predict_proba: ClassVar = {"scores": UNUSED}
    __metadata_request__score: ClassVar = {"scores": UNUSED}

    classes_: NDArray[Any]
    artifact_: CalibratorModel
    report_: Report | None
    n_features_in_: int

    def __init__(
        self,
        method: str = "auto",
        *,
        params: Mapping[str, ParamValue] | None = None,
        preset: str | None = None,
        guard: str | None = None,
        holdout: str | None = None,
        input: Input = "auto",  # noqa: A002 what it is of
        exact: bool = False,
        categories: Sequence[str] = (),
        numbers: Sequence[str] = (),
        weight_kind: WeightKind | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.method = method
        self.params = params
        self.preset = preset
        self.guard = guard
        self.holdout = holdout
        self.input = input
        self.exact = exact
        self.categories = categories
        self.numbers = numbers
        self.weight_kind = weight_kind
        self.random_state = random_state

    def fit(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        X: object = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn how wrong the scores are.

        Parameters
        ----------
        scores
            Logits or probabilities: of the second class, shape (n,), or of each class, shape (n, K), in the order of
            the sorted classes. The columns of a frame may be named by class, alone or after a stem, in any order.
        y
            The class of each row.
        X
            The features of the rows, for methods that look at them: a frame of polars, pandas or pyarrow, or an array.
        sample_weight
            How much each row matters beside the others.
        groups
            Which rows belong together: those of a group are held out together.
        """
        labels, classes = labels_and_classes(y)
        with as_value_errors():
            from calcli.estimators.arrays import Rows, in_order
            from calcli.tables.scales import kind_of

            values = in_order(scores, classes)
            kind = kind_of(values, self.input)
            rows = Rows(labels, classes, X, sample_weight, groups, values, kind, self.weight_kind)
            return self._fit_rows(rows)

    def _fit_rows(self, rows: Rows) -> Self:
        """`fit` on rows whose classes and kind of scores are known."""
        from calcli.models.calibrator import CalibratorModel

        result = self._fitted(rows)
        self.report_ = result.report
        worse = [one.message for one in result.report.warnings if one.code == "not-better"] if result.report else []
        if result.refused is not None:
            warnings.warn(f"{result.refused}: the scores stay as they are", CalibrationWarning, stacklevel=3)
            same = Calibrator("identity", holdout="none", random_state=self.random_state)
            result = same._fitted(rows)
        elif worse:
            warnings.warn(worse[0], CalibrationWarning, stacklevel=3)
        assert isinstance(result.model, CalibratorModel)  # of one label
        self._keep(result.model)
        return self

    def _fitted(self, rows: Rows) -> FitResult:
        from calcli.listener import here
        from calcli.models.recipe import Recipe
        from calcli.models.requests import FitRequest
        from calcli.verbs.fit import fit

        settings: dict[str, Any] = {"method": self.method, "params": self.params or {}, "preset": self.preset}
        settings["exact"] = self.exact
        if not Recipe(**settings).needs_features:
            rows = replace(rows, features=None)
        table, flags, group = rows.table()
        if rows.features is not None:
            named = (self.categories, self.numbers)
            categories, numbers = (one if isinstance(one, str) else tuple(one) for one in named)  # text is refused
            flags = replace(flags, categories=categories, numbers=numbers)
        settings["resample_by"] = group
        seed = seed_of(self.random_state)
        settings |= {"flags": flags, "seed": seed, "check_scale": False}  # their kind is known by now
        return fit(FitRequest(table, guard=self.guard, holdout=self.holdout, **settings), here())

    def _keep(self, model: CalibratorModel) -> None:
        from calcli.tables.arrays import index_order

        self.artifact_ = model
        self.classes_ = np.array(index_order(model.fitted_binding))
        self.n_features_in_ = len(model.binding.score.columns)

    def predict_proba(self, scores: ArrayLike, X: object = None) -> FloatArray:
        """Calibrated probabilities, with a column for each of `classes_`; scores are as in `fit`."""
        check_is_fitted(self)
        with as_value_errors():
            from calcli.decisions.conformal import of_classes
            from calcli.estimators.arrays import feature_table, in_order, with_columns
            from calcli.tables.score_arrays import columns_of

            model, rows = self.artifact_, in_order(scores, self.classes_)
            if model.needs_features and X is None:
                names = ", ".join(feature.name for feature in model.binding.features[:8])
                raise UsageError(f"{model.method} reads features too: {names}", hint="give them as X=")
            features = feature_table(X if model.needs_features else None, len(rows))
            table = with_columns(features, columns_of(rows, model.binding))
            return of_classes(model.predict(table, check_scale=False))

    def predict(self, scores: ArrayLike, X: object = None) -> NDArray[Any]:
        """The most probable class of each row."""
        check_is_fitted(self)
        classes: NDArray[Any] = self.classes_[self.predict_proba(scores, X).argmax(axis=1)]
        return classes

    def score(self, scores: ArrayLike, y: ArrayLike, X: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the mean log-loss: a search over methods must not go by accuracy, which calibration hardly changes."""
        with importing():
            from sklearn.metrics import log_loss

        prob = self.predict_proba(scores, X)
        with as_value_errors():
            from calcli.estimators.arrays import truth_of
            from calcli.tables.score_arrays import unmasked

            y, weight = truth_of(y), unmasked(sample_weight)
            weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        check_known(y, self.classes_)
        order = np.argsort(self.classes_)
        return -float(log_loss(y, prob[:, order], sample_weight=weight, labels=self.classes_[order]))

    def save(self, path: str | Path) -> None:
        """Keep it as an artifact, which every command of calcli takes: ``calcli apply PATH new.parquet``."""
        check_is_fitted(self)
        self.artifact_.save(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The calibrator that an artifact holds, whoever has fitted it."""
        from calcli.models.calibrator import load

        model = names_parameters(load)(path)
        recipe, kind = model.manifest.recipe, model.binding.score.kind
        if kind == "rank":
            raise ValueError(f"{path} reads a number that only ranks, and arrays hold log-odds or probabilities")
        given: dict[str, Any] = {name: recipe.get(name) or None for name in ("params", "preset", "guard", "holdout")}
        given |= {"exact": bool(recipe.get("exact")), "weight_kind": model.flags.weight_kind}
        given |= {"categories": model.flags.categories, "numbers": model.flags.numbers}
        loaded = cls(model.manifest.requested, **given, input=kind, random_state=model.manifest.seed)
        loaded._keep(model)
        return loaded

    def __sklearn_tags__(self) -> Any:
        """Tags of an estimator of scores, not of a table of features."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags


def labels_and_classes(y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """The class of each row, and all classes, sorted."""
    with as_value_errors():
        from calcli.estimators.arrays import truth_of
        from calcli.tables.score_arrays import unmasked

        labels = column_or_1d(unmasked(y), warn=True)
        if labels.dtype.kind == "O":
            labels = truth_of(labels)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    if not len(labels):
        raise ValueError("y has 0 sample(s): there are no rows to fit on")
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"y has one class only, {classes.tolist()[0]!r}: calibration needs rows of two or more")
    return labels, classes


def check_known(labels: NDArray[Any], classes: NDArray[Any]) -> None:
    """Refuse labels that are none of the classes."""
    unknown = np.setdiff1d(labels, classes).tolist()
    if unknown:
        raise ValueError(f"y has the class {unknown[0]!r}, which the estimator does not know: {classes}")


def seed_of(random_state: Any) -> int:
    """The seed: the number itself, or one that is drawn."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
