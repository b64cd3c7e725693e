"""An ensemble of CatBoost models: the predictions of its members, and its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from calcli.batch import Column, FloatArray
from calcli.errors import FitError
from calcli.learners import catboost
from calcli.numeric.links import sigmoid
from calcli.numeric.threads import threads
from calcli.state import State
from calcli.uncertainty.decomposition import Members
from calcli.uncertainty.settings import LOSSES, Kind, Task

if TYPE_CHECKING:
    from catboost import CatBoost, Pool


GREATEST = 1e150
"""Amounts and variances beyond it are refused: the sums of their squares would not be finite."""


@dataclass(frozen=True)
class Ensemble:
    """Models that were trained on the same rows.

    Attributes
    ----------
    kind
        ``sglb``, ``sgb`` or ``virtual``.
    task
        ``binary``, ``multiclass`` or ``regression``.
    count
        M, how many members; of a virtual ensemble more than there are models.
    files
        The models, as CatBoost writes them.
    names
        The names of the features in the models, where the table has other ones.
    """

    kind: Kind
    task: Task
    count: int
    files: tuple[bytes, ...]
    names: tuple[str, ...] | None = None

    @property
    def virtual(self) -> bool:
        return self.kind == "virtual"

    @property
    def single(self) -> int:
        """The member to compare an ensemble with: the last of virtual ones is the whole model."""
        return -1 if self.virtual else 0

    @cached_property
    def models(self) -> tuple[CatBoost, ...]:
        """The models, read."""
        return tuple(catboost.read(file) for file in self.files)

    def members(self, features: Mapping[str, Column]) -> Members:
        """The predictions of each member for these rows, all finite; a `FitError` where they are not."""
        if self.names is not None:
            features = dict(zip(self.names, features.values(), strict=True))
        with catboost.refusals("predict"):
            pool = catboost.pool(features)
            members = self._virtual(pool) if self.virtual else self._true(pool)
        _refuse_not_finite(members)
        return members

    def _virtual(self, pool: Pool) -> Members:
        """Every so many trees of the second half, the shrinkage undone for each member (equation 15)."""
        raw: FloatArray = self.models[0].virtual_ensembles_predict(
            pool,
            prediction_type="VirtEnsembles",
            virtual_ensembles_count=self.count,
            thread_count=threads(),
        )
        if self.task == "regression":  # CatBoost gives variances here, not logarithms of standard deviations
            return Members(np.ascontiguousarray(raw[..., 0]), np.ascontiguousarray(raw[..., 1]))
        return Members(_probabilities(raw))

    def _true(self, pool: Pool) -> Members:
        """Each model is a member."""
        raw: FloatArray = np.stack(
            [model.predict(pool, prediction_type="RawFormulaVal", thread_count=threads()) for model in self.models],
            axis=1,
        )
        if self.task == "regression":  # a model gives a mean and the logarithm of a standard deviation
            with np.errstate(over="ignore"):  # what overflows is refused below
                return Members(np.ascontiguousarray(raw[..., 0]), np.exp(2.0 * raw[..., 1]))
        return Members(_probabilities(raw if self.task == "multiclass" else raw[..., None]))

    def to_state(self) -> State:
        """The models, and the metadata needed to predict with them."""
        params: dict[str, Any] = {"kind": self.kind, "task": self.task, "count": self.count, "models": len(self.files)}
        if self.names is not None:
            params["names"] = list(self.names)
        return State(params=params, blobs={_file(place): file for place, file in enumerate(self.files)})

    @classmethod
    def from_state(cls, state: State) -> Ensemble:
        """From `to_state`; a `ValueError` or `KeyError` where it is not an ensemble."""
        kind, task = str(state.params["kind"]), str(state.params["task"])
        names = state.params.get("names")
        files = tuple(state.blobs[_file(place)] for place in range(int(state.number("models"))))
        if not files or task not in LOSSES:
            raise ValueError("it names no models, or an unknown task")
        feature_names = tuple(map(str, names)) if isinstance(names, list) else None
        ensemble = cls(cast("Kind", kind), task, int(state.number("count")), files, feature_names)
        with catboost.refusals("say what it predicts"):
            check_alike(ensemble.models)
        most = ensemble.models[0].tree_count_ // 2 if ensemble.virtual else len(files)
        if not (1 if ensemble.virtual else most) <= ensemble.count <= most:
            raise ValueError(f"it has {ensemble.count} members, and models for {most}")
        return ensemble


def _file(place: int) -> str:
    return f"member-{place}.cbm"


def check_alike(models: Sequence[CatBoost]) -> None:
    """Refuse models of different classes or features: their predictions cannot be averaged."""
    first = models[0]
    for place, model in enumerate(models):
        if list(model.classes_) != list(first.classes_):
            raise ValueError(
                f"member {place} predicts the classes {_listed(model.classes_)}, and member 0 {_listed(first.classes_)}"
            )
        if model.feature_names_ != first.feature_names_:
            raise ValueError(f"member {place} and member 0 read different features")


def _listed(classes: Sequence[object]) -> str:
    return ", ".join(map(str, classes)) or "none"


def _probabilities(raw: FloatArray) -> FloatArray:
    """Of the positive class from its log-odds, shape (n, M, 1), or of each class from logits, shape (n, M, K)."""
    if raw.shape[2] == 1:
        return sigmoid(np.ascontiguousarray(raw[..., 0]))
    powers: FloatArray = np.exp(raw - raw.max(axis=2, keepdims=True))
    powers /= powers.sum(axis=2, keepdims=True)
    return powers


def _refuse_not_finite(members: Members) -> None:
    """A learning rate that is too high can drive a variance to 0 or infinity."""
    wrong = ~np.isfinite(members.mean)
    if members.variance is not None:
        wrong |= ~(np.isfinite(members.variance) & (members.variance > 0.0))
        wrong |= (np.abs(members.mean) > GREATEST) | (members.variance > GREATEST)
    if wrong.any():
        row, member = np.argwhere(wrong.any(axis=tuple(range(2, wrong.ndim))))[0]
        raise FitError(
            f"member {member} of the ensemble predicts no finite number for row {row + 1} of these",
            hint="fit it again with a lower --learning-rate",
        )
