"""The features of a wide table that tell the most, each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Column, FloatArray, IntArray
from calcli.learners import screening
from calcli.learners.screening import most_telling

ROWS = 300


def columns(rng: np.random.Generator) -> dict[str, Column]:
    found = {f"n{place}": Column("number", rng.normal(size=ROWS).round(place)) for place in range(6)}
    found["gaps"] = Column("number", np.where(rng.random(ROWS) < 0.4, np.nan, rng.normal(size=ROWS)))
    found["empty"] = Column("number", np.full(ROWS, np.nan))
    found["flag"] = Column("boolean", rng.integers(0, 2, ROWS).astype(float))
    levels = tuple("abcdefghij")
    for count in (2, 9):
        found[f"c{count}"] = Column("category", rng.integers(-1, count, ROWS).astype(np.int32), levels)
    return found


def told(column: Column, label: IntArray, weight: FloatArray, prob: FloatArray) -> float:
    """By the definition, group after group."""
    if column.role == "category":
        groups = column.values.tolist()
    else:
        known = sorted(value for value in column.values.tolist() if value == value)
        cuts = [known[len(known) * place // 8] for place in range(1, 8)] if known else []
        groups = [sum(value > cut for cut in cuts) if value == value else -1 for value in column.values.tolist()]
    total = variance = 0.0
    for group in set(groups):
        some = np.array(groups) == group
        for label_class in range(prob.shape[1]):
            p = prob[some, label_class]
            g = float((weight[some] * ((label[some] == label_class) - p)).sum())
            h = float((weight[some] * p * (1.0 - p)).sum())
            total += (g * g - h) / (h + 1.0)
            variance += 2.0 * (h / (h + 1.0)) ** 2
    return total / variance**0.5


@pytest.mark.parametrize("classes", [2, 3])
def test_features_are_in_the_order_of_what_their_groups_tell(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(classes)
    features = columns(rng)
    label, weight = rng.integers(0, classes, ROWS), rng.integers(1, 4, ROWS).astype(float)
    prob = rng.dirichlet(np.ones(classes), ROWS)
    expected = sorted(features, key=lambda name: -told(features[name], label, weight, prob))[:9]
    monkeypatch.setattr(screening, "MOST_CELLS", 2 * ROWS)
    given = prob[:, 1] if classes == 2 else prob
    assert most_telling(features, label, weight, given, 9) == tuple(expected)


def test_what_the_score_knows_tells_nothing_more_and_a_bend_tells_much() -> None:
    rng = np.random.default_rng(0)
    x, bend = 2.0 * rng.normal(size=4_000), rng.normal(size=4_000)
    prob = 1.0 / (1.0 + np.exp(-x))
    label = (rng.random(4_000) < 1.0 / (1.0 + np.exp(-x - np.square(bend) + 1.0))).astype(np.int64)
    features = {"known": Column("number", x), "bend": Column("number", bend)}
    ones = np.ones(4_000)
    assert most_telling(features, label, ones, prob, 1) == ("bend",)
    assert most_telling(features, label, ones, np.full(4_000, label.mean()), 1) == ("known",)


def test_where_features_are_no_more_than_asked_for_they_are_as_they_came() -> None:
    features = columns(np.random.default_rng(0))
    label = np.arange(ROWS) % 2
    assert most_telling(features, label, np.ones(ROWS), np.full(ROWS, 0.5), len(features)) == tuple(features)
