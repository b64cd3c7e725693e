"""A user's own CatBoost model as a virtual ensemble: its features, its classes and its training."""

from __future__ import annotations

import json
from dataclasses import dataclass

from calcli.errors import DataError
from calcli.learners import catboost
from calcli.uncertainty.settings import LOSSES, Task, check_trees


@dataclass(frozen=True, slots=True)
class UserModel:
    """The facts in a model file.

    Attributes
    ----------
    names
        Its features, in order; numbers where it was trained without names.
    categories
        The indices of those that are categories.
    classes
        As the file writes them, in its order; none for a regression.
    posterior
        Whether it was trained with posterior sampling.
    trees, depth, learning_rate
        As it was trained; None where the file does not say.
    """

    file: bytes
    task: Task
    names: tuple[str, ...]
    categories: tuple[int, ...]
    classes: tuple[str, ...]
    posterior: bool
    trees: int
    depth: int | None
    learning_rate: float | None


def read_user_model(file: bytes, name: str, members: int) -> UserModel:
    """Read the bytes of a ``.cbm`` file; `name` is for messages, and there must be trees for so many `members`."""
    try:
        model = catboost.read(file)
    except Exception as error:  # CatBoost raises errors of many kinds
        raise DataError(
            f"{name} is not a CatBoost model: {catboost.first_line(error)}", hint="save it with save_model('x.cbm')"
        ) from None
    # What it was trained for: the task follows from the loss.
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
