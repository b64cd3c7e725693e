"""The stand-in repeats the score, and has never seen a label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calcli.batch import Batch, Column
from calcli.learners.catboost import pool, to_bytes
from calcli.learners.surrogate import surrogate
from calcli.numeric.links import log_softmax
from calcli.numeric.seeded import class_order, ordered
from tests.support.cases import features, ordinary


def scored(rows: int = 2000, classes: int = 2, seed: int = 0) -> Batch:
    """Scores that follow from the features."""
    rng = np.random.default_rng(seed)
    columns = features(rows, rng)
    number = np.nan_to_num(columns["number"].values, nan=-1.0)
    z = 2 * number + columns["flag"].values - (columns["place"].values == 1)
    score = z if classes == 2 else np.column_stack([z, -z, np.zeros(rows)])
    return Batch(score, rng.integers(0, classes, rows), None, columns)


@pytest.mark.parametrize("classes", [2, 3])
def test_it_repeats_the_score(classes: int) -> None:
    train, test = scored(classes=classes), scored(500, classes, seed=1)
    said = surrogate(train, 0).predict(pool(test.features))
    expected = test.score
    if classes > 2:
        log_prob = np.maximum(log_softmax(test.score), -10)
        expected = log_prob - log_prob.mean(axis=1, keepdims=True)
    expected = ordered(expected, class_order(train.score))
    assert np.square(said - expected).mean() < 0.05 * expected.var()


def test_it_has_not_seen_the_labels() -> None:
    batch = scored()
    other = replace(batch, label=1 - batch.labels)
    assert to_bytes(surrogate(batch, 0)) == to_bytes(surrogate(other, 0))


def test_neither_order_nor_copies_matter() -> None:
    batch = ordinary(300, weighted=True)
    rng = np.random.default_rng(0)
    copied = batch.take(np.repeat(np.arange(300), batch.weight.astype(int)))
    copied = replace(copied, weight=None).take(rng.permutation(len(copied)))
    held = batch.take(batch.weight > 0)
    assert to_bytes(surrogate(held, 0)) == to_bytes(surrogate(copied, 0))


def test_where_nothing_differs_there_is_none() -> None:
    batch = scored()
    assert surrogate(replace(batch, score=np.ones(len(batch))), 0) is None
    same = {
        "x": Column("number", np.full(len(batch), np.nan)),
        "c": Column("category", np.zeros(2000, np.int32), ("a",)),
    }
    assert surrogate(replace(batch, features=same), 0) is None
