from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from calcli.metrics.base import Scored
from calcli.metrics.joint_test import LEVEL, GapSums, JointTest, drawn_rows, joint_test, label_ratio


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
    expected = [np.ones(3000), w, w**2, w * prob, w * sigmoid(-z), w * gap, label, w * label, w**2 * label]
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
    both = sizes[0] ** 2 + sizes[1] ** 2
    ece = sum(abs(gap[rows].sum()) for rows in wide) / len(prob)
    return np.round([*sizes, both, ece, np.abs(gap).mean(), deviance], 9)


def test_p_values_are_those_of_all_tables_of_labels() -> None:
    prob = np.array([0.04, 0.07, 0.13, 0.21, 0.34, 0.36, 0.55, 0.66, 0.91])
    tables = np.array(list(itertools.product((0, 1), repeat=len(prob))))
    chance = np.where(tables == 1, prob, 1 - prob).prod(axis=1)
    values = np.array([statistics(table, prob) for table in tables])
    ps = np.array([[chance[values[:, kind] >= one[kind]].sum() for kind in range(7)] for one in values])
    together = (np.array([1, 1, 1, 3, 1, 1, 1]) / ps).sum(axis=1)
    for table in (0, 1, 7, 69, 100, 301, 511):  # of 1 and 69 other shares would say something else
        found = joint_test(GapSums.of(Scored(tables[table], prob)))
        assert found.shift_p == pytest.approx(ps[table, 0], abs=0.04)
        # 1,999 draws know a mean of p-values to two per cent, within which tables may change places.
        least, most = (chance[together >= share * together[table]].sum() for share in (1.02, 0.98))
        assert least - 0.02 <= found.p <= most + 0.02


LEAVES = np.array([0.02, 0.05, 0.1, 0.3, 0.6, 0.9])


def sampled(rng: np.random.Generator, prob: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Calibrated scores of which a tenth of the negatives is kept, with the weight 10, and their labels and weights."""
    label = (rng.random(len(prob)) < prob).astype(np.int64)
    kept = rng.random(len(prob)) < np.where(label == 1, 1.0, 0.1)
    return label[kept], prob[kept], np.where(label[kept] == 1, 1.0, 10.0)


def test_an_edge_of_a_bin_never_parts_the_rows_of_one_score() -> None:
    rng = np.random.default_rng(0)
    sums = GapSums.of(Scored(*sampled(rng, rng.choice(LEAVES, 3000))))
    for place in (sums.widths, sums.masses):
        by_score = {}
        for prob, of in zip(np.round(sums.prob, 9), place, strict=True):
            by_score.setdefault(prob, set()).add(int(of))
        assert len(by_score) == len(LEAVES) < len(sums.cell)
        assert all(len(of) == 1 for of in by_score.values())


def test_a_drawn_positive_has_the_weight_of_a_positive() -> None:
    """Of 40 rows of one score k are drawn positive, k binomial by Bayes' theorem, and weigh 1, the others 10."""
    label, p = np.repeat([1, 0], [25, 15]), 0.2
    sums = GapSums.of(Scored(label, np.full(40, p), np.where(label == 1, 1.0, 10.0)))
    drawn = sums.draw(sums.prob, 20_000, np.random.default_rng(0)).sum(axis=1)
    share = p / (p + (1.0 - p) * 0.1)
    count = np.arange(41)
    gaps = count * (1.0 - p) - (40 - count) * 10.0 * p
    law = stats.binom.pmf(count, 40, share)
    assert law @ gaps == pytest.approx(0.0, abs=1e-9)
    found = np.searchsorted(gaps, drawn - 1e-6)
    np.testing.assert_allclose(gaps[found], drawn, atol=1e-9)
    np.testing.assert_allclose(np.bincount(found, minlength=41) / 20_000, law, atol=0.015)
    assert sums.square * p * (1.0 - p) @ np.ones(len(sums.cell)) == pytest.approx(law @ gaps**2)
    assert sums.mass.sum() == pytest.approx(law @ (count + 10.0 * (40 - count)))


@pytest.mark.parametrize("kept", [(1.0, 0.1), (0.2, 1.0), (0.5, 0.5)])
def test_rows_as_drawn_have_the_gaps_of_the_rows_and_the_chance_of_bayes(kept: tuple[float, float]) -> None:
    rng = np.random.default_rng(1)
    prob = rng.choice(LEAVES, 400)
    label = (rng.random(400) < 0.5).astype(np.int64)
    share = np.where(label == 1, *kept) * (0.2 + 0.6 * prob)  # of the label and of the score
    chance, weight = drawn_rows(rows := Scored(label, prob, 1.0 / share))
    np.testing.assert_allclose(chance, prob * kept[0] / (prob * kept[0] + (1.0 - prob) * kept[1]))
    np.testing.assert_allclose(weight * (label - chance), rows.weight * (label - prob))


def test_weights_that_say_nothing_of_the_label_mostly_leave_rows_as_they_are() -> None:
    """The square of a ratio's logarithm over its error is below 2 in 84 % of cases, and is then taken for chance."""
    rng, same = np.random.default_rng(2), 0
    for _ in range(100):
        prob = sigmoid(rng.normal(-1, 1.2, 400))
        rows = Scored((rng.random(400) < prob).astype(np.int64), prob, rng.exponential(1.0, 400))
        chance, weight = drawn_rows(rows)
        same += bool(np.allclose(chance, prob) and np.allclose(weight, rows.weight))
    assert stats.binomtest(same, 100, 0.84).pvalue > 0.01


def test_the_ratio_of_weights_is_that_of_mantel_and_haenszel() -> None:
    """Weights that vary within scores: one ratio for all of them, far from 1 beside its error."""
    rng = np.random.default_rng(3)
    rows = rng.integers(5, 20, (2, 8)).astype(float)
    weight = rows * np.array([[7.0], [1.0]]) * rng.uniform(0.9, 1.1, 8)
    square = 2.0 * weight**2 / rows  # a standard deviation as large as the mean
    total = rows.sum(axis=0)
    pooled = (rows[1] * weight[0] / total).sum() / (rows[0] * weight[1] / total).sum()
    error = total.sum() / (total.sum() - 16) / (rows[0] * rows[1] / total).sum()
    shrunk = pooled ** (1.0 - 2.0 * error / np.log(pooled) ** 2)
    np.testing.assert_allclose(label_ratio(rows, weight, square), shrunk)


def test_weights_that_reach_far_are_no_reason_to_fail() -> None:
    """The least are lost in the sums of the others."""
    rng = np.random.default_rng(4)
    prob = sigmoid(rng.normal(0, 2, 500))
    rows = Scored((rng.random(500) < prob).astype(np.int64), prob, 10.0 ** (30 * prob))
    chance, weight = drawn_rows(rows)
    assert ((chance >= 0) & (chance <= 1) & (weight > 0)).all()
    assert 0.0 <= joint_test(GapSums.of(rows).compact()).p <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [False, True])
def test_a_calibrated_score_is_called_off_as_rarely_where_weights_depend_on_labels(leaves: bool) -> None:
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(120):
        prob = rng.choice(LEAVES, 2000) if leaves else sigmoid(rng.normal(-1, 1.2, 2000))
        alarms += joint_test(GapSums.of(Scored(*sampled(rng, prob))).compact()).p <= LEVEL
    assert alarms <= 15


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
    for _ in range(10):
        z = rng.normal(-1, 1.2, rows)
        found += joint_test_of(wrong(z), sigmoid(z), rng).p <= LEVEL
    assert found >= 9


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
