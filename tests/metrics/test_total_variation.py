"""Total variation, beside loops over edges."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.metrics.base import Options, Scored
from calcli.metrics.total_variation import tv

EDGES = np.array([[0, 1], [1, 2], [4, 0]])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_differences_of_confidence_are_added_up(classes: int) -> None:
    rng = np.random.default_rng(classes)
    prob = rng.random(5) if classes == 2 else rng.dirichlet(np.ones(3), 5)
    top = [max(p, 1 - p) for p in prob] if classes == 2 else [max(row) for row in prob]
    expected = sum(abs(top[one] - top[other]) for one, other in EDGES)
    rows = Scored(np.zeros(5, np.int64), prob, np.full(5, 1e200), edges=EDGES)
    assert tv(rows, Options()).value == pytest.approx(expected, rel=1e-12)


def test_rows_of_weight_zero_have_no_edges() -> None:
    prob = np.array([0.5, 0.6, 0.8, 0.9])
    weight = np.array([1.0, 2.0, 0.0, 1.0])
    rows = Scored(np.zeros(4, np.int64), prob, weight, edges=np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))
    assert tv(rows, Options()).value == pytest.approx(0.1 + 0.4)


def test_a_score_and_its_opposite_are_equally_confident() -> None:
    rows = Scored(np.zeros(2, np.int64), np.array([0.9, 0.1]), edges=np.array([[0, 1]]))
    assert tv(rows, Options()).value == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(
    ("edges", "reason"), [(None, "no edges are given"), (np.empty((0, 2), np.int64), "no edge links")]
)
def test_without_edges_there_is_no_number(edges: np.ndarray | None, reason: str) -> None:
    found = tv(Scored(np.zeros(2, np.int64), np.array([0.9, 0.1]), edges=edges), Options())
    assert found.value is None
    assert reason in str(found.reason)
