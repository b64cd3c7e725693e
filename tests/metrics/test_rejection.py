"""Rejection and detection beside brute force: every order of tied rows, every threshold, a sort that is written out."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from calcli.metrics.base import Options, Scored
from calcli.metrics.ranking import by_rate, by_threshold, ood_auc, prr, rejection_curve, rejection_ratio
from tests.support.drawing import examples
from tests.support.strategies import any_rows

briefly = examples(24)
few = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0, 7.0]), st.sampled_from([0.0, 0.25, 1.0])), min_size=2, max_size=6
)


def area(order, loss) -> float:
    """Below E(r) by the trapezoid rule, as rows are rejected in this order."""
    left = [sum(loss)]
    for row in order:
        left.append(left[-1] - loss[row])
    return sum((a + b) / 2 for a, b in pairwise(left)) / len(loss) ** 2


def mean_area(uncertainty, loss) -> float:
    """The mean over all orders that reject falling uncertainty first."""
    orders = [
        order
        for order in permutations(range(len(loss)))
        if all(uncertainty[a] >= uncertainty[b] for a, b in pairwise(order))
    ]
    return sum(area(order, loss) for order in orders) / len(orders)


@briefly
@given(few)
def test_the_ratio_is_that_of_areas(rows):
    uncertainty, loss = np.array(rows).T
    found = rejection_ratio(uncertainty, loss)
    if len(set(loss)) == 1:
        assert found.value is None
        assert "same in every row" in found.reason
        return
    chance, ours, oracle = mean_area(np.zeros(len(loss)), loss), mean_area(uncertainty, loss), mean_area(loss, loss)
    assert found.value == pytest.approx(100 * (chance - ours) / (chance - oracle), abs=1e-9)


def test_for_errors_it_is_the_auc():
    rng = np.random.default_rng(0)
    uncertainty, wrong = rng.integers(0, 9, 500) / 7.0, rng.random(500) < 0.2
    expected = 200 * roc_auc_score(wrong, uncertainty) - 100
    assert rejection_ratio(uncertainty, wrong.astype(float)).value == pytest.approx(expected, abs=1e-10)


@briefly
@given(few, st.data())
def test_a_weight_of_two_is_two_rows(rows, data):
    uncertainty, loss = np.array(rows).T
    weight = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(loss), max_size=len(loss))), dtype=float)
    often = weight.astype(int)
    one = rejection_ratio(uncertainty, loss, weight).value
    other = rejection_ratio(np.repeat(uncertainty, often), np.repeat(loss, often)).value
    assert one == other or one == pytest.approx(other, abs=1e-9)


def test_without_weight_nothing_is_measured():
    rows = np.array([0.1, 0.2])
    assert rejection_ratio(rows, rows, np.zeros(2)).value is None
    assert ood_auc(rows, rows, np.zeros(2)).value is None
    assert ood_auc(rows, np.array([])).value is None
    assert rejection_curve(rows, rows, np.zeros(2), shares=np.array([0.0])) == ()


def test_a_score_rejects_by_the_probability_of_the_predicted_class():
    rng = np.random.default_rng(2)
    prob = rng.integers(1, 10, 300) / 10
    label = (rng.random(300) < prob).astype(int)
    wrong = (prob > 0.5) != (label == 1)
    expected = rejection_ratio(1 - np.maximum(prob, 1 - prob), wrong.astype(float)).value
    assert prr(Scored(label, prob), Options()).value == pytest.approx(expected, abs=1e-9)
    many = rng.dirichlet([1, 1, 1], 300)
    label = rng.integers(0, 3, 300)
    expected = rejection_ratio(1 - many.max(axis=1), (many.argmax(axis=1) != label).astype(float)).value
    assert prr(Scored(label, many), Options()).value == pytest.approx(expected, abs=1e-9)


def test_rows_from_elsewhere_by_pairs():
    rng = np.random.default_rng(3)
    inside, outside = rng.integers(0, 6, 70) * 1e9, rng.integers(2, 8, 40) * 1e9
    label = np.repeat([0, 1], [70, 40])
    expected = roc_auc_score(label, np.concatenate([inside, outside]))
    assert ood_auc(inside, outside).value == pytest.approx(expected, abs=1e-12)
    weight = rng.integers(0, 3, 70).astype(float)
    expected = roc_auc_score(
        label, np.concatenate([inside, outside]), sample_weight=np.concatenate([weight, np.ones(40)])
    )
    assert ood_auc(inside, outside, weight).value == pytest.approx(expected, abs=1e-12)


def test_the_curve_at_the_ends_and_between():
    uncertainty, loss = np.array([3.0, 1.0, 2.0, 2.0]), np.array([1.0, 0.0, 1.0, 0.0])
    curve = rejection_curve(uncertainty, loss, shares=np.array([0, 0.25, 0.5, 0.75, 1.0]))
    # The first to go is wrong; of the two that tie one is wrong, so half an error goes with each.
    assert [point.error for point in curve] == [0.5, pytest.approx(1 / 3), 0.25, 0.0, None]
    assert [point.n for point in curve] == [4.0, 3.0, 2.0, 1.0, 0.0]


def test_the_area_below_the_curve_is_that_of_the_ratio():
    """E(r) = y n / N: its area, against chance and the oracle, is the ratio again."""
    rng = np.random.default_rng(4)
    uncertainty, loss = rng.random(400), rng.exponential(size=400)
    shares = np.linspace(0, 1, 401)

    def below(order) -> float:
        curve = rejection_curve(order, loss, shares=shares)
        left = [0.0 if point.error is None else point.error * point.n / 400 for point in curve]
        return float(np.trapezoid(left, shares))

    chance = loss.mean() / 2
    ratio = 100 * (chance - below(uncertainty)) / (chance - below(loss))
    assert rejection_ratio(uncertainty, loss).value == pytest.approx(ratio, abs=1e-9)
    assert math.isclose(below(np.zeros(400)), chance, rel_tol=1e-12)


def wrong(rows: Scored) -> np.ndarray:
    predicted = (rows.prob > 0.5).astype(int) if rows.binary else rows.prob.argmax(axis=1)
    return (predicted != rows.label).astype(float)


def confidence(rows: Scored) -> np.ndarray:
    return np.maximum(rows.prob, 1 - rows.prob) if rows.binary else rows.prob.max(axis=1)


def test_ties_are_rejected_in_equal_parts() -> None:
    """The mean over every order in which five equally sure rows and two surer ones could be rejected."""
    rows = Scored(np.array([1, 1, 0, 0, 1, 0, 1]), np.array([0.7, 0.7, 0.7, 0.3, 0.3, 0.1, 0.9]))
    for left in range(1, 8):
        errors = []
        for order in permutations(range(5)):
            kept = [5, 6, *order][:left] if left >= 2 else [5 + order[0] % 2]
            errors.append(wrong(rows)[kept].mean())
        (found,) = by_rate(rows, [1 - left / 7])
        if left >= 2:
            assert found.error == pytest.approx(np.mean(errors))
        assert found.n == pytest.approx(left)


@given(any_rows(weighted=False))
def test_thresholds_count_the_rows_below_them(rows: Scored) -> None:
    scale = 1 - 1 / rows.classes
    for found in by_threshold(rows, [0.0, 0.15, 0.5, 0.85, 1.0]):
        doubt = (1 - confidence(rows)) / scale
        if np.any(np.abs(doubt - found.at) < 1e-9):
            continue  # on the threshold to rounding
        inside = doubt < found.at
        assert found.n == inside.sum()
        assert (found.error is None) == (not inside.any())
        if inside.any():
            assert found.error == pytest.approx(wrong(rows)[inside].mean(), abs=1e-12)


def test_a_row_on_the_threshold_is_accepted() -> None:
    rows = Scored(np.array([1, 0, 1]), np.array([0.95, 0.05, 0.8]))
    assert by_threshold(rows, [0.1])[0].n == 2
    three = Scored(np.array([0]), np.array([[0.8, 0.1, 0.1]]))
    assert by_threshold(three, [0.3, 0.299])[0].n == 1
    assert by_threshold(three, [0.299])[0].n == 0


@given(any_rows(least=2, weighted=False), st.data())
def test_a_row_of_weight_two_is_two_rows(rows: Scored, data: st.DataObject) -> None:
    times = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows))))
    weighted = Scored(rows.label, rows.prob, times.astype(float))
    repeated = rows.take(np.repeat(np.arange(len(rows)), times))
    for one, other in (
        (by_rate(weighted), by_rate(repeated)),
        (by_threshold(weighted), by_threshold(repeated)),
    ):
        for a, b in zip(one, other, strict=True):
            assert (a.error is None) == (b.error is None)
            assert a.n == pytest.approx(b.n)
            assert a.error is None or a.error == pytest.approx(b.error, abs=1e-12)


def test_rejecting_nothing_leaves_the_error_rate_with_wilsons_interval() -> None:
    rng = np.random.default_rng(0)
    rows = Scored(rng.integers(0, 2, 400), rng.random(400))
    (found,) = by_rate(rows, [0.0])
    assert found.error == pytest.approx(wrong(rows).mean())
    peer = binomtest(int(wrong(rows).sum()), 400).proportion_ci(method="wilson")
    assert (found.lo, found.hi) == pytest.approx((peer.low, peer.high))


def test_thresholds_and_rates_are_two_ways_along_one_curve() -> None:
    rng = np.random.default_rng(1)
    rows = Scored(rng.integers(0, 3, 500), rng.dirichlet(np.ones(3), 500))
    for one in by_threshold(rows):
        if one.error is not None:
            (other,) = by_rate(rows, [1 - one.n / 500])
            assert other.error == pytest.approx(one.error)
