"""An ensemble of CatBoost models: its settings, the predictions of its members, and its state.

A model that the user has trained can be taken for a virtual ensemble; its file says how it was trained. `Trainer`
trains the others, and chooses learning rate and depth on held-out rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from calcli.batch import Batch, Column, FloatArray
from calcli.errors import DataError, FitError, UsageError
from calcli.learners import catboost
from calcli.numeric.links import sigmoid
from calcli.numeric.losses import log_loss, mixture_log_loss
from calcli.numeric.seeded import held_out, stream
from calcli.numeric.threads import threads
from calcli.state import State
from calcli.uncertainty.decomposition import Members, decompose

if TYPE_CHECKING:
    from catboost import CatBoost, Pool

Kind: TypeAlias = Literal["sglb", "sgb", "virtual"]
Task: TypeAlias = Literal["binary", "multiclass", "regression"]

KINDS: tuple[Kind, ...] = ("sglb", "sgb", "virtual")

LOSSES: dict[Task, str] = {"binary": "Logloss", "multiclass": "MultiClass", "regression": "RMSEWithUncertainty"}
"""The loss that CatBoost minimises for each task: the negative log-likelihood."""

GREATEST = 1e150
"""Amounts and variances beyond it are refused: the sums of their squares would not be finite."""


RATES = (0.001, 0.01, 0.1)
DEPTHS = (3, 4, 5, 6)
"""The grid of appendix A.2. The number of trees is not tuned: virtual members are cut from late ones."""

DEEPEST = 16
"""CatBoost has no deeper trees."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How an ensemble is trained."""

    kind: Kind = "sglb"
    """``sglb``: models trained by stochastic gradient Langevin boosting, which samples from the posterior. ``sgb``:
    models each tree of which sees half of the rows. ``virtual``: one SGLB model, of which every so many trees of the
    second half are a member.
    """

    members: int = 10
    """M, how many there are."""

    trees: int = 1000
    depth: int = 6
    """`trees`, `depth`: the size of each model."""

    learning_rate: float | None = None
    """None leaves the choice to CatBoost."""

    def __post_init__(self) -> None:
        if self.members < 2:
            raise UsageError(f"--members {self.members}: an ensemble needs two members or more", hint="try: 10")
        if self.learning_rate is not None and not 0.0 < self.learning_rate <= 1.0:
            raise UsageError(f"--learning-rate {self.learning_rate:g} is not above 0 and at most 1", hint="try: 0.1")
        if not 1 <= self.depth <= DEEPEST:
            raise UsageError(f"--depth {self.depth} is not between 1 and {DEEPEST}")
        if self.kind == "virtual":
            check_trees(self.trees, self.members)

    @property
    def models(self) -> int:
        """How many models are trained."""
        return 1 if self.kind == "virtual" else self.members

    def params(self, task: Task, classes: int) -> dict[str, Any]:
        """CatBoost's parameters.

        Posterior sampling sets the diffusion temperature to N and the shrinkage to 1/(2N), as in equation 14.
        """
        params: dict[str, Any] = {"loss_function": LOSSES[task], "iterations": self.trees, "depth": self.depth}
        if task == "multiclass":
            params["classes_count"] = classes
        if self.learning_rate is not None:
            params["learning_rate"] = self.learning_rate
        if self.kind == "sgb":
            return params | {"bootstrap_type": "Bernoulli", "subsample": 0.5}
        return params | {"posterior_sampling": True, "bootstrap_type": "No"}


def check_trees(trees: int, members: int) -> None:
    """Refuse a virtual ensemble of more members than half of the trees."""
    if trees < 2 * members:
        raise UsageError(
            f"{trees} trees are too few for a virtual ensemble of {members} members: "
            "its members are cut from the second half of the trees",
            hint=f"try: --members {max(trees // 2, 2)}, or {2 * members} trees or more",
        )


@dataclass(frozen=True)
class Ensemble:
    """Models that were trained on the same rows."""

    kind: Kind
    """``sglb``, ``sgb`` or ``virtual``."""

    task: Task
    """``binary``, ``multiclass`` or ``regression``."""

    count: int
    """M, how many members; of a virtual ensemble more than there are models."""

    files: tuple[bytes, ...]
    """The models, as CatBoost writes them."""

    names: tuple[str, ...] | None = None
    """The names of the features in the models, where the table has other ones."""

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
            raw = self._raw(catboost.pool(features))
        if self.task == "regression":
            # A model gives the logarithm of a standard deviation, a virtual ensemble variances.
            with np.errstate(over="ignore"):  # what overflows is refused below
                variance = np.ascontiguousarray(raw[..., 1]) if self.virtual else np.exp(2.0 * raw[..., 1])
            members = Members(np.ascontiguousarray(raw[..., 0]), variance)
        else:
            members = Members(_probabilities(raw if raw.ndim == 3 else raw[..., None]))
        _refuse_not_finite(members)
        return members

    def _raw(self, pool: Pool) -> FloatArray:
        """The raw output of each member.

        Virtual members are at even steps through the second half of the trees, each with its shrinkage undone
        (equation 15).
        """
        if self.virtual:
            raw: FloatArray = self.models[0].virtual_ensembles_predict(
                pool, prediction_type="VirtEnsembles", virtual_ensembles_count=self.count, thread_count=threads()
            )
            return raw
        each = (model.predict(pool, prediction_type="RawFormulaVal", thread_count=threads()) for model in self.models)
        return np.stack([*each], axis=1)

    def to_state(self) -> State:
        """The models, and the metadata needed to predict with them."""
        params: dict[str, Any] = {"kind": self.kind, "task": self.task, "count": self.count, "models": len(self.files)}
        if self.names is not None:
            params["names"] = list(self.names)
        return State(params=params, blobs={_file(place): file for place, file in enumerate(self.files)})

    @classmethod
    def from_state(cls, state: State) -> Ensemble:
        """The inverse of `to_state`; a `ValueError` or `KeyError` if the state is not an ensemble's."""
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
    """Probabilities of the positive class from log-odds, shape (n, M, 1), or of each class from logits, (n, M, K)."""
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


@dataclass(frozen=True, slots=True)
class UserModel:
    """The facts in a model file."""

    file: bytes
    task: Task
    names: tuple[str, ...]
    """Its features, in order; numbers where it was trained without names."""

    categories: tuple[int, ...]
    """The indices of those that are categories."""

    classes: tuple[str, ...]
    """The classes as the file writes them, in its order; none for a regression."""

    posterior: bool
    """Whether it was trained with posterior sampling."""

    trees: int
    depth: int | None
    learning_rate: float | None
    """`trees`, `depth`, `learning_rate`: the settings of its training; None where the file does not say."""


def read_user_model(file: bytes, name: str, members: int) -> UserModel:
    """Read the bytes of a ``.cbm`` file; `name` is for messages, and there must be trees for so many `members`."""
    try:
        model = catboost.read(file)
    except Exception as error:  # CatBoost raises errors of many kinds
        raise DataError(
            f"{name} is not a CatBoost model: {catboost.first_line(error)}", hint="save it with save_model('x.cbm')"
        ) from None
    # The task follows from the loss that the model was trained with.
    options = json.loads(dict(model.get_metadata().items()).get("params", "{}"))
    loss = str(options.get("loss_function", {}).get("type", "unknown"))
    task = next((task for task, known in LOSSES.items() if known == loss), None)
    if task is None:
        raise DataError(
            f"{name} was trained with the loss {loss}, which predicts no distribution",
            hint=f"train it with one of {', '.join(LOSSES.values())}",
        )
    if model.get_text_feature_indices() or model.get_embedding_feature_indices():
        raise DataError(f"{name} reads texts or embeddings", hint="calcli takes numbers, booleans and categories")
    check_trees(int(model.tree_count_), members)
    # How it was trained, and what it reads and predicts.
    trained = model.get_all_params()
    classes = () if task == "regression" else tuple(_text(label) for label in model.classes_)
    return UserModel(
        file=file,
        task=task,
        names=tuple(model.feature_names_),
        categories=tuple(model.get_cat_feature_indices()),
        classes=classes,
        posterior=bool(options.get("boosting_options", {}).get("posterior_sampling", False)),
        trees=int(model.tree_count_),
        depth=trained.get("depth"),
        learning_rate=trained.get("learning_rate"),
    )


def _text(label: object) -> str:
    """A class as flags write it: 0.0 is 0, True is true."""
    plain = label.item() if hasattr(label, "item") else label
    if isinstance(plain, float) and plain.is_integer():
        return str(int(plain))
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


HELD_OUT = 0.2
"""The share of the rows on which learning rate and depth are chosen."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell of the grid, with the log-loss of a single model on held-out rows."""

    settings: Settings
    loss: float


@dataclass(frozen=True)
class Trainer:
    """Training rows and the target."""

    rows: Batch
    task: Task
    classes: int
    """K; 0 for a regression."""

    seed: int

    def pool(self) -> Pool:
        """The rows as CatBoost takes them; made once for all models."""
        rows = self.rows
        return catboost.pool(rows.features, rows.targets if self.task == "regression" else rows.labels, rows.weight)

    def train(self, pool: Pool, settings: Settings, *key: str | int, each: Callable[[], None] | None = None) -> bytes:
        """A model, as a file. Its seed depends on the ensemble's and on the `key` alone, such as the member's number.

        `each` is called after each tree.
        """
        params, rng = settings.params(self.task, self.classes), stream(self.seed, "uncertainty", *key)
        if settings.models > 1 or key[0] == "trial":  # one thread for each of those that are trained side by side
            params["thread_count"] = 1
        return catboost.to_bytes(catboost.train(pool, params, seed=int(rng.integers(2**31 - 1)), each=each))

    def trials(self, settings: Settings) -> Iterator[tuple[str, Settings, Callable[[], float]]]:
        """The name and settings of each cell of the grid, and the function that computes its `GridCell.loss`."""
        rows = self.rows
        apart = held_out(len(rows), HELD_OUT, stream(self.seed, "uncertainty", "tune"))
        if self.task != "regression":  # models are trained on all classes: none is held out whole
            apart &= np.bincount(rows.labels[~apart], minlength=self.classes)[rows.labels] > 0
        if not apart.any() or apart.all():
            raise FitError(f"{len(rows):,} rows are too few to hold out some", hint="leave out --tune")
        inside, outside = replace(self, rows=rows.take(~apart)), rows.take(apart)
        pool = inside.pool()
        for rate, depth in product(RATES, DEPTHS):
            name, cell = f"{rate}-{depth}", replace(settings, learning_rate=rate, depth=depth)
            yield name, cell, partial(inside._loss, pool, name, cell, outside)

    def _loss(self, pool: Pool, name: str, settings: Settings, outside: Batch) -> float:
        """The log-loss of one model on the rows outside; infinite where it predicts no finite number."""
        model = Ensemble("sgb", self.task, 1, (self.train(pool, settings, "trial", name),))
        try:
            loss = log_loss_rows(model.members(outside.features), outside)
        except FitError:
            return math.inf
        return float(np.average(loss, weights=outside.weights)) if outside.weights.sum() > 0 else math.inf


def log_loss_rows(members: Members, rows: Batch) -> FloatArray:
    """The log-loss of each row for the members' mean probability, or for the mixture of their distributions."""
    if members.variance is not None:
        return mixture_log_loss(members.mean, members.variance, rows.targets)
    return log_loss(decompose(members).mean, rows.labels)
