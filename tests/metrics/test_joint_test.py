from __future__ import annotations

import itertools

import numpy as np
import pytest

from calcli.metrics.base import Scored
from calcli.metrics.joint_test import LEVEL, GapSums, JointTest, joint_test


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


def joint_test_of(
    prob: np.ndarray, truth: np.ndarray, rng: np.random.Generator, weight: np.ndarray | None = None
) -> JointTest:
    """The test of labels drawn from the truth."""
    label = (rng.random(len(truth)) < truth).astype(np.int64)
    return joint_test(GapSums.of(Scored(label, prob, weight)).compact())


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_sum_up_rows_and_keep_the_digits_of_both_ends(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0, 8, 3000)
    prob, label = sigmoid(z), (rng.random(3000) < sigmoid(z / 2)).astype(np.int64)
    weight = rng.exponential(1.0, 3000) if weighted else None
    w = np.ones(3000) if weight is None else weight
    rows = Scored(label, prob, weight)
    sums = GapSums.of(rows)
    gap = np.where(label == 1, sigmoid(-z), -prob)
    expected = [np.ones(3000), w, w**2, w * prob, w * sigmoid(-z), w * gap]
    np.testing.assert_allclose(sums.sums.sum(axis=1), [each.sum() for each in expected], rtol=1e-9)
    for end in (sums.sums[3][:5], sums.sums[4][-5:]):
        assert ((end > 0) & (end < 1e-7)).all()
    parts = GapSums.of(rows.take(slice(0, 700))) + GapSums.of(rows.take(slice(700, None)))
    np.testing.assert_array_equal(parts.cell, sums.cell)
    np.testing.assert_allclose(parts.sums, sums.sums, rtol=1e-9, atol=1e-12)


def statistics(label: np.ndarray, prob: np.ndarray) -> np.ndarray:
    """Those of single rows, each a bin of equal weight of its own, by their formulas."""
    gap, noise, z = label - prob, prob * (1 - prob), np.log(prob / (1 - prob))
    sizes = []
    for direction in (np.ones(len(prob)), z - (noise @ z) / noise.sum(), 1 - 2 * prob):
        sizes.append(abs(gap @ direction) / np.sqrt(noise @ direction**2))
    wide = [np.flatnonzero(np.floor(20 * prob) == place) for place in range(20)]
    bins = [*([one] for one in range(len(prob))), *(each for each in wide if len(each))]
    deviance = 0.0
    for rows in bins:
        rate, expected = label[rows].mean(), prob[rows].mean()
        deviance = (
            max(deviance, -len(rows) * np.log([1 - expected, expected][int(rate)]))
            if rate in {0, 1}
            else max(
                deviance,
                len(rows) * (rate * np.log(rate / expected) + (1 - rate) * np.log((1 - rate) / (1 - expected))),
            )
        )
    ece = sum(abs(gap[rows].sum()) for rows in wide) / len(prob)
    return np.round([*sizes, ece, np.abs(gap).mean(), deviance], 9)


def test_p_values_are_those_of_all_tables_of_labels() -> None:
    prob = np.array([0.04, 0.07, 0.13, 0.21, 0.34, 0.36, 0.55, 0.66, 0.91])
    tables = np.array(list(itertools.product((0, 1), repeat=len(prob))))
    chance = np.where(tables == 1, prob, 1 - prob).prod(axis=1)
    values = np.array([statistics(table, prob) for table in tables])
    ps = np.array([[chance[values[:, kind] >= one[kind]].sum() for kind in range(6)] for one in values])
    least = ps.min(axis=1)
    for table in (0, 7, 100, 301, 511):
        found = joint_test(GapSums.of(Scored(tables[table], prob)))
        assert found.shift_p == pytest.approx(ps[table, 0], abs=0.04)
        assert found.p == pytest.approx(chance[least <= least[table] + 1e-12].sum(), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "centre", "weighted"), [(200, -1.0, False), (200, -5.3, False), (150, -1.0, True), (400, -3.5, True)]
)
def test_a_calibrated_score_is_called_off_one_time_in_twenty(rows: int, centre: float, weighted: bool) -> None:
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(120):
        truth = sigmoid(rng.normal(centre, 1.2, rows))
        weight = np.exp(rng.normal(0, 1.2, rows)) if weighted else None
        alarms += joint_test_of(truth, truth, rng, weight).p <= LEVEL
    assert alarms <= 15  # 6 are expected; more than 15 come one time in two thousand


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (2000, lambda z: np.clip(sigmoid(z) + 0.04, 0, 1)),
        (4000, lambda z: sigmoid(1.2 * z)),
        (4000, lambda z: sigmoid(z + 0.5 * np.cos(2.2 * z))),
    ],
    ids=["0.04 too high everywhere", "slope", "shape"],
)
def test_small_gaps_that_agree_are_found(rows: int, wrong) -> None:
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(20):
        z = rng.normal(-1, 1.2, rows)
        found += joint_test_of(wrong(z), sigmoid(z), rng).p <= LEVEL
    assert found >= 17


@pytest.mark.slow
def test_the_detectable_error_is_found_in_four_cases_of_five() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(60):
        prob = sigmoid(rng.normal(-0.5, 0.7, 1000))
        shift = joint_test_of(prob, prob, rng).detectable
        found += joint_test_of(prob, prob + shift, rng).p <= LEVEL
    assert 0.65 <= found / 60 <= 0.95


def test_what_a_score_says_cannot_happen_and_does_settles_it() -> None:
    rng = np.random.default_rng(4)
    prob = np.append(sigmoid(rng.normal(0, 1, 500)), 0.0)
    label = (rng.random(501) < prob).astype(np.int64)
    assert joint_test(GapSums.of(Scored(label, prob))).p > LEVEL
    label[-1] = 1
    assert joint_test(GapSums.of(Scored(label, prob))).p == 0.0


@pytest.mark.parametrize("label", [0, 1])
def test_certain_and_right_is_calibrated(label: int) -> None:
    found = joint_test(GapSums.of(Scored(np.full(30, label), np.full(30, float(label)))))
    assert (found.p, found.shift_p, found.detectable) == (1.0, 1.0, 0.0)
