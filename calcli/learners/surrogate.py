"""A surrogate of the model behind the scores, where it is not given: CatBoost trained to reproduce them.

It learns the score from the features and never sees a label. So what is built on what it shows, clusters for one, is as
fair to rows that are held out as to others; a model of the labels would have learned the labels of the very rows that
are calibrated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.learners import catboost
from calcli.learners.encoding import feature_codes
from calcli.numeric.links import log_softmax
from calcli.numeric.seeded import in_class_order, row_keys
from calcli.numeric.sums import totals

if TYPE_CHECKING:
    from catboost import CatBoost

FAR = 10.0
"""Log-odds are held within this: what is more certain still is no more different."""

_SETTINGS: Mapping[str, object] = {
    "iterations": 100,
    "depth": 4,
    "learning_rate": 0.1,
    "boosting_type": "Plain",  # ordered boosting would depend on the order of the rows more than it gains
    "bootstrap_type": "No",
    "max_ctr_complexity": 1,
}


def surrogate(batch: Batch, seed: int) -> CatBoost | None:
    """The stand-in; None where the scores do not differ, or the features do not.

    Rows that agree in score and features are one to it, with the sum of their weights; which comes first follows from
    what they hold.
    """
    target = _target(batch.score)
    keys = row_keys(np.column_stack([target, feature_codes(batch.features)]), seed, "surrogate")
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    weight = totals(place, batch.weights)
    rows = batch.take(first)
    varied = [name for name, column in rows.features.items() if len(np.unique(column.values, equal_nan=True)) > 1]
    if not varied or not np.ptp(target[first], axis=0).max() > 0:
        return None
    loss = "RMSE" if batch.classes == 2 else "MultiRMSE"
    data = catboost.pool(rows.features, target[first], weight)
    return catboost.train(data, {**_SETTINGS, "loss_function": loss}, seed=seed)


def _target(score: FloatArray) -> FloatArray:
    """The target of the surrogate: log-odds, or centred log-probabilities of more than two classes.

    Whichever class is the positive one, and in whatever order they come, it is the same.
    """
    if score.ndim == 1:
        return in_class_order(np.clip(score, -FAR, FAR))[0]
    log_prob = np.maximum(log_softmax(in_class_order(score)[0]), -FAR)
    centred: FloatArray = log_prob - log_prob.mean(axis=1, keepdims=True)
    return centred
