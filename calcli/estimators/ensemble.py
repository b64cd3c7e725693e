"""`Ensemble`: predictions with what is uncertain about them, as an estimator of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from calcli.errors import check_choice
from calcli.estimators.calibrator import labels_and_classes, seed_of
from calcli.estimators.value_errors import as_value_errors

if TYPE_CHECKING:
    from calcli.batch import FloatArray
    from calcli.models.ensemble import EnsembleModel
    from calcli.tables.binding import Task
    from calcli.uncertainty.decomposition import Decomposed
    from calcli.uncertainty.ensemble import Kind


class Ensemble(BaseEstimator):
    """CatBoost models that disagree where they do not know.

    Parameters
    ----------
    kind
        ``sglb`` samples models from their posterior, ``sgb`` trains them on other orders of the rows, ``virtual`` takes
        the stages of one.
    members
        How many models, or stages.
    trees, depth, learning_rate
        Of each model; None is the default of ``calcli uncertainty fit``.
    task
        ``class`` or ``regression``; None goes by the type of `y`: floats with fractions are amounts.
    random_state
        Of everything that draws random numbers.

    Attributes
    ----------
    classes_
        The classes, in the order of the columns of `predict_proba`; not there for a regression.
    model_
        The ensemble, as `calcli.load_ensemble` gives it.
    """

    model_: EnsembleModel
    classes_: NDArray[Any]

    def __init__(
        self,
        kind: Kind = "sglb",
        *,
        members: int = 10,
        trees: int | None = None,
        depth: int | None = None,
        learning_rate: float | None = None,
        task: Task | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.kind = kind
        self.members = members
        self.trees = trees
        self.depth = depth
        self.learning_rate = learning_rate
        self.task = task
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the members.

        Parameters
        ----------
        X
            The features: a frame of polars, pandas or pyarrow, or an array with a column for each.
        y
            A class or an amount for each row.
        sample_weight
            How much each row matters beside the others.
        """
        with as_value_errors():
            check_choice("task", self.task or "class", ("class", "regression"))
        amounts = self.task == "regression" or (self.task is None and type_of_target(y) == "continuous")
        labels, classes = (column_or_1d(y, warn=True), None) if amounts else labels_and_classes(y)
        with as_value_errors():
            from calcli.estimators.arrays import Rows, feature_table
            from calcli.listener import here
            from calcli.verbs.uncertainty import EnsembleRequest, fit

            table, flags, _ = Rows(labels, classes, feature_table(X), sample_weight).table()
            settings: dict[str, Any] = {name: getattr(self, name) for name in ("trees", "depth", "learning_rate")}
            request = EnsembleRequest(
                table,
                ensemble=self.kind,
                members=self.members,
                task="regression" if amounts else "class",
                flags=flags,
                seed=seed_of(self.random_state),
                **settings,
            )
            model = fit(request, here()).model
        assert model is not None
        self.model_ = model
        if classes is not None:
            self.classes_ = classes
        elif hasattr(self, "classes_"):
            del self.classes_
        return self

    def uncertainty(self, X: Any) -> Decomposed:
        """For each row the mean of the members, and how uncertain it is: ``total``, ``data`` and ``knowledge``.

        In nats for classes, and in the square of the unit of `y` for amounts.
        """
        check_is_fitted(self)
        with as_value_errors():
            from calcli.estimators.arrays import feature_table

            return self.model_.predict(feature_table(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """The mean of the members' probabilities, with a column for each of `classes_`."""
        from calcli.decisions.conformal import of_classes

        mean = self.uncertainty(X).mean
        if not hasattr(self, "classes_"):
            raise AttributeError("an ensemble of amounts has no probabilities: see predict and uncertainty")
        return of_classes(mean)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, or the mean amount."""
        check_is_fitted(self)
        if not hasattr(self, "classes_"):
            return self.uncertainty(X).mean
        classes: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return classes
