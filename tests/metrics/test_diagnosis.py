from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from calcli.metrics.base import Scored
from calcli.metrics.diagnosis import Diagnosis, diagnose
from calcli.metrics.joint_test import GapSums


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


@cache
def drawn(wrong, seed: int, rows: int = 6000) -> tuple[np.ndarray, Diagnosis]:
    """True log-odds with the diagnosis of a score that is `wrong` of them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.2, rows)
    label = (rng.random(rows) < sigmoid(z)).astype(np.int64)
    found = diagnose(GapSums.of(Scored(label, wrong(z))))
    assert found is not None
    return label, found


KINDS = {
    "high": lambda z: sigmoid(z + 0.35),
    "low": lambda z: sigmoid(z - 0.35),
    "over": lambda z: sigmoid(1.5 * z),
    "under": lambda z: sigmoid(0.7 * z),
    "shape": lambda z: sigmoid(z + 0.25 * (z**2 - 1.44)),
}
"""Scores with one fault; the parabola is flat on average, in level and in slope."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_error_has_its_name(kind: str) -> None:
    first = [drawn(KINDS[kind], seed)[1].faults[0] for seed in range(4)]
    assert first.count(kind) == 4


@pytest.mark.parametrize("kind", ["high", "over"])
def test_what_is_right_is_not_blamed(kind: str) -> None:
    others = sum(drawn(KINDS[kind], seed)[1].faults != (kind,) for seed in range(12))
    assert others <= 3  # two tests of 5 % with Holm's correction: at most 0.6 are expected


def test_two_faults_are_both_named() -> None:
    faults = drawn(lambda z: sigmoid(1.5 * z + 0.6), 0)[1].faults
    assert set(faults[:2]) == {"high", "over"}


def test_a_calibrated_score_has_none() -> None:
    found = drawn(sigmoid, 0)[1]
    assert found.chance
    assert (found.faults, found.shape_p) == ((), None)


def test_the_numbers_beside_it() -> None:
    rng = np.random.default_rng(5)
    z = rng.normal(0.3, 1.2, 4000)
    label = (rng.random(4000) < sigmoid(z)).astype(np.int64)
    found = diagnose(GapSums.of(Scored(label, sigmoid(1.4 * z - 0.2))))
    assert found is not None
    assert found.predicted == pytest.approx(sigmoid(1.4 * z - 0.2).mean(), abs=1e-12)
    assert found.happened == pytest.approx(label.mean(), abs=1e-12)
    peer = LogisticRegression(C=np.inf, tol=1e-8).fit((1.4 * z - 0.2)[:, None], label)
    assert found.slope == pytest.approx(peer.coef_[0, 0], rel=2e-3)  # rows of a cell share their mean


def test_without_rows_or_without_a_slope() -> None:
    assert diagnose(GapSums.empty()) is None
    one_class = diagnose(GapSums.of(Scored(np.zeros(400, np.int64), np.full(400, 0.2))))
    assert one_class is not None
    assert (one_class.slope, one_class.faults) == (None, ("high",))
    few = diagnose(GapSums.of(Scored(np.array([1]), np.array([0.7]))))
    assert few is not None
    assert few.chance
