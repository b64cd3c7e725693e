"""CatBoost: from columns to its pools, small models, and model files that depend on the fit alone.

CatBoost keeps numbers as float32 and takes a missing one as it is. Categories are texts, of which a missing one is the
text `MISSING`; booleans are numbers.
"""

from __future__ import annotations

import logging
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcli import extras
from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.errors import FitError
from calcli.learners import cbm
from calcli.learners.encoding import feature_codes, merged
from calcli.learners.screening import most_telling
from calcli.numeric.bins import totals
from calcli.numeric.links import log_softmax
from calcli.numeric.seeded import held_out, in_class_order, row_keys, score_columns, stream, sure_columns
from calcli.numeric.threads import threads

if TYPE_CHECKING:
    from catboost import CatBoost, Pool

MISSING = "nan"
"""The category of rows without one, as CatBoost's own readers write it."""

_RANKING = {"iterations": 50, "depth": 4, "border_count": 64}
"""The model that ranks features: twice as many and deeper trees with all of CatBoost's bins take nine times as long,
and the features that they choose make no better calibrators."""

_MANY, _SHALLOW = 2_000, {"depth": 2}
"""Where there are more features than this, only those are ranked that tell the most by themselves, by a shallower model
in a third of the time."""

_RANKED_ROWS, _RANKED_OF_CLASS = 50_000, 5_000
"""Features are ranked on a sample of so many rows, in which the rarest class has so many."""

FAR = 10.0
"""The surrogate's log-odds are held within this: a score that is more certain still is no more different."""

_STAND_IN: Mapping[str, object] = {
    "iterations": 100,
    "depth": 4,
    "learning_rate": 0.1,
    "boosting_type": "Plain",  # ordered boosting would depend on the order of the rows more than it gains
    "bootstrap_type": "No",
    "max_ctr_complexity": 1,
}


_BY_CHANCE = ("model_guid", "train_finish_time")
_BY_THREADS = re.compile(r'("thread_count":)\d+')


def pool(
    features: Mapping[str, Column],
    label: IntArray | FloatArray | None = None,
    weight: FloatArray | None = None,
    baseline: FloatArray | None = None,
) -> Pool:
    """Columns as CatBoost takes them, in their order and under their names."""
    import catboost

    categories = [name for name, column in features.items() if column.role == "category"]
    about: dict[str, Any] = {"weight": weight, "baseline": baseline, "cat_features": categories}
    if (
        features and not categories
    ):  # a frame of thousands of columns takes ten times as long, and four times the memory
        rows = len(next(iter(features.values())).values)
        numbers = np.empty((rows, len(features)), dtype=np.float32, order="F")
        with np.errstate(over="ignore"):
            for place, column in enumerate(features.values()):
                numbers[:, place] = column.values
        return catboost.Pool(numbers, label, feature_names=list(features), **about)
    import pandas as pd

    frame = pd.DataFrame({name: _values(column) for name, column in features.items()})
    return catboost.Pool(frame, label, **about)


def _values(column: Column) -> Any:
    if column.role != "category":
        return column.values
    import pandas as pd

    place = column.levels.index(MISSING) if MISSING in column.levels else len(column.levels)
    levels = column.levels if place < len(column.levels) else (*column.levels, MISSING)
    codes = np.where(column.values < 0, place, column.values)
    # CatBoost takes the levels one by one, which costs ten times as much of an index of strings as of one of objects.
    return pd.Categorical.from_codes(codes.astype(np.int32), pd.Index(levels, dtype=object))


FEW_ROWS = 50_000
"""Threads gain nothing within a fit of so few rows; fits beside each other are on one thread each."""


def train(
    data: Pool,
    params: Mapping[str, Any],
    *,
    seed: int,
    evaluated: Pool | None = None,
    each: Callable[[], None] | None = None,
) -> CatBoost:
    """A model; the same arguments give the same one. Nothing is written or printed.

    Of more than `FEW_ROWS` it is trained on several threads, and its last digits depend on their number. `each` is
    called after each tree.
    """
    import catboost

    settings: dict[str, Any] = {
        "random_seed": seed,
        "thread_count": 1 if data.num_row() <= FEW_ROWS else threads(),
        "verbose": False,
        "allow_writing_files": False,
        **params,
    }
    model = catboost.CatBoost(settings)
    try:
        callbacks = None if each is None else [_AfterEachTree(each)]
        with _MESSAGES.taken():
            model.fit(data, eval_set=evaluated, callbacks=callbacks)
    except catboost.CatBoostError as error:
        raise FitError(f"CatBoost could not be trained: {first_line(error)}") from None
    return model


class _Log:
    """CatBoost's messages, as a stream; ``calcli --debug`` shows them."""

    def write(self, text: str) -> None:
        if text.strip():
            logging.getLogger("calcli.catboost").debug(text.rstrip())

    def flush(self) -> None:
        """Do nothing: no text waits to be written."""


class _Messages:
    """CatBoost's messages, which go to our log while any thread trains: it lets a single thread say where they go."""

    def __init__(self) -> None:
        self._lock, self._training = threading.Lock(), 0
        self._over, self._taker = threading.Event(), threading.Thread()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take them; a thread of its own does it, since whichever trains first may be over before others."""
        with self._lock:
            if self._training == 0:
                begun, self._over = threading.Event(), threading.Event()
                self._taker = threading.Thread(target=self._take, args=(begun, self._over), daemon=True)
                self._taker.start()
                begun.wait()
            self._training += 1
        try:
            yield
        finally:
            with self._lock:
                self._training -= 1
                if self._training == 0:
                    self._over.set()
                    self._taker.join()  # the next could not take them from one that has not yet let them go

    @staticmethod
    def _take(begun: threading.Event, over: threading.Event) -> None:
        from catboost import CatBoostError
        from catboost.core import log_fixup

        try:
            with log_fixup(_Log(), _Log()):
                begun.set()
                over.wait()
        except CatBoostError:  # the program that called calcli takes them
            begun.set()


_MESSAGES = _Messages()


class _AfterEachTree:
    """A callback for CatBoost."""

    def __init__(self, each: Callable[[], None]) -> None:
        self._each = each

    def after_iteration(self, info: object) -> bool:
        """Go on."""
        self._each()
        return True


def first_line(error: Exception) -> str:
    """CatBoost's message without the source location at its start."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return text.rpartition(": ")[2] if ".cpp:" in text else text


def read(model: bytes) -> CatBoost:
    """A model from the bytes of its ``.cbm`` file; a `ValueError` if they are not a model."""
    cbm.check(model)
    with refusals("read the model"):
        import catboost

        return catboost.CatBoost().load_model(blob=model)


@contextmanager
def refusals(action: str) -> Iterator[None]:
    """Turn CatBoost's errors into a `ValueError`: “CatBoost cannot ACTION: why”; without CatBoost a named error."""
    extras.require("catboost", "a model of CatBoost")
    import catboost

    try:
        yield
    except catboost.CatBoostError as error:
        raise ValueError(f"CatBoost cannot {action}: {first_line(error)}") from None


def to_bytes(model: CatBoost) -> bytes:
    """A model as a ``.cbm`` file, without its random id, its time and its machine: the same fit has the same bytes."""
    metadata = model.get_metadata()
    for key in _BY_CHANCE:
        metadata[key] = ""
    if params := metadata.get("params"):
        metadata["params"] = _BY_THREADS.sub(r"\g<1>1", params)
    with tempfile.TemporaryDirectory() as directory:  # CatBoost saves to a path and to nothing else
        path = Path(directory) / "model.cbm"
        model.save_model(str(path))
        return path.read_bytes()


def normalise_cbm(model: bytes) -> bytes:
    """A model without the random name and the time that CatBoost stamps on each one it trains.

    Two fits with the same data, parameters and seed give the same bytes; predictions are untouched, and so is all
    other metadata. Doing it twice changes nothing more.
    """
    return to_bytes(read(model))


def differs(column: Column) -> bool:
    """Whether CatBoost, which keeps numbers as float32, sees more than one value."""
    with np.errstate(over="ignore"):
        values = column.values if column.role == "category" else column.values.astype(np.float32)
    return not np.array_equal(values, np.full_like(values, values[0]), equal_nan=column.role != "category")


def importances(model: CatBoost, data: Pool) -> FloatArray:
    """How much the predictions depend on each feature, in the order of the features; they sum to 100."""
    return np.asarray(model.get_feature_importance(data), dtype=np.float64)


def most_important(
    features: Mapping[str, Column], label: IntArray, weight: FloatArray | None, *, count: int, seed: int
) -> tuple[str, ...]:
    """The names of the `count` features that tell most about the label, the most telling first.

    Where there are no more, or no feature can tell anything, if all rows are of one class for example, they are the
    first by name: a table's columns may come in any order.
    """
    features = dict(sorted(features.items()))
    names: Sequence[str] = list(features)
    if len(names) <= count:
        return tuple(names)
    if weight is not None:
        weighted = np.flatnonzero(weight > 0)
        features = {name: column.take(weighted) for name, column in features.items()}
        label, weight = label[weighted], weight[weighted]
    classes, rows_of_class = np.unique(label, return_counts=True)
    share = max(_RANKED_ROWS / max(1, len(label)), _RANKED_OF_CLASS / min(rows_of_class, default=1))
    if share < 1.0:
        drawn = np.flatnonzero(held_out(len(label), share, stream(seed, "ranking")))
        features = {name: column.take(drawn) for name, column in features.items()}
        label, weight = label[drawn], None if weight is None else weight[drawn]
    if len(classes) < 2 or not any(differs(column) for column in features.values()):
        return tuple(names[:count])
    settings = _RANKING if len(names) <= _MANY else {**_RANKING, **_SHALLOW}
    weights = np.ones(len(label)) if weight is None else weight
    rates = np.tile(totals(label, weights) / weights.sum(), (len(label), 1))
    ranked = most_telling(features, label, weights, rates, _MANY)
    data = pool({name: features[name] for name in ranked}, label, weight)
    loss = "Logloss" if len(classes) == 2 else "MultiClass"
    found = importances(train(data, {**settings, "loss_function": loss}, seed=seed), data)
    importance = dict(zip(ranked, found.tolist(), strict=True))
    return tuple(sorted(names, key=lambda name: -importance.get(name, 0.0))[:count])


def surrogate(batch: Batch, seed: int) -> CatBoost | None:
    """A surrogate of the model behind the scores, trained to reproduce them; None if scores or features do not differ.

    It learns the score from the features and never sees a label. So clusters that are built on it are as fair to rows
    that are held out as to others; a model of the labels would have learned the labels of the very rows that are
    calibrated.

    Rows that agree in score and features count as one, with the sum of their weights; the order of the rows follows
    from their values.
    """
    target = _target(batch.score, batch.weight)
    codes = feature_codes(batch.features)
    keys, order = (
        row_keys(np.column_stack([*columns, codes]), seed, "surrogate")
        for columns in (score_columns(target), sure_columns(target))
    )
    first, weight = merged(keys, batch.weights, order)
    rows = batch.take(first)
    varied = [name for name, column in rows.features.items() if len(np.unique(column.values, equal_nan=True)) > 1]
    if not varied or not np.ptp(target[first], axis=0).max() > 0:
        return None
    loss = "RMSE" if batch.classes == 2 else "MultiRMSE"
    data = pool(rows.features, target[first], weight)
    return train(data, {**_STAND_IN, "loss_function": loss}, seed=seed)


def _target(score: FloatArray, weight: FloatArray | None) -> FloatArray:
    """The target of the surrogate: log-odds, or centred log-probabilities of more than two classes.

    It does not depend on which class is the positive one, nor on the order of the classes.
    """
    if score.ndim == 1:
        return in_class_order(np.clip(score, -FAR, FAR), weight)[0]
    log_prob = np.maximum(log_softmax(in_class_order(score, weight)[0]), -FAR)
    centred: FloatArray = log_prob - log_prob.mean(axis=1, keepdims=True)
    return centred
