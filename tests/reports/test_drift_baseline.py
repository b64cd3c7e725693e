"""The residuals of calibrated scores, beside their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calcli.numeric.e_process import directions
from calcli.reports.drift_baseline import DriftBaseline, LogOdds, Products


def rows(n: int = 900) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    z = rng.normal(-0.5, 1.3, n)
    prob = 1 / (1 + np.exp(-z))
    return prob, (rng.random(n) < prob**1.2).astype(np.int64), rng.gamma(2.0, size=n)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_means_and_errors_are_those_of_the_definition(weighted: bool) -> None:
    prob, label, weight = rows()
    found = DriftBaseline.of(prob, label, weight if weighted else None)
    share = weight / weight.sum() if weighted else np.full(len(prob), 1 / len(prob))
    z = np.log(prob / (1 - prob))
    centre = (share * z).sum()
    spread = np.sqrt((share * (z - centre) ** 2).sum())
    products = directions(z, centre, spread) * (label - prob)
    mean = (products * share).sum(axis=1)
    error = np.sqrt((share**2 * (products - mean[:, None]) ** 2).sum(axis=1))
    np.testing.assert_allclose([found.centre[0], found.spread[0]], [centre, spread], rtol=1e-12)
    np.testing.assert_allclose(found.mean[0], mean, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(found.error[0], error, rtol=1e-10)


def test_parts_add_up_and_so_do_classes() -> None:
    prob, label, weight = rows()
    both = np.column_stack([1 - prob, prob])
    cut = slice(0, 400), slice(400, None)
    scale = LogOdds.of(both[cut[0]], label[cut[0]], weight[cut[0]]) + LogOdds.of(
        both[cut[1]], label[cut[1]], weight[cut[1]]
    )
    products = Products.empty(2)
    for part in cut:
        products += Products.of(both[part], label[part], weight[part], scale)
    found, whole = DriftBaseline.of_sums(scale, products), DriftBaseline.of(prob, label, weight)
    np.testing.assert_allclose(found.mean[1], whole.mean[0], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found.error[1], whole.error[0], rtol=1e-9)
    np.testing.assert_allclose(found.mean[0, 0], -whole.mean[0, 0], rtol=1e-9)


def test_the_margin_is_two_standard_errors_beyond_what_was_found() -> None:
    """Scores that were too high may be as much too high again, but only a little too low."""
    one = np.ones(1)
    found = DriftBaseline(one, one, np.array([[-0.05, 0.0, 0.01]]), np.array([[0.01, 0.01, 0.01]]))
    np.testing.assert_allclose(found.margin, [[[0.0, 0.07], [0.02, 0.02], [0.03, 0.01]]], atol=1e-15)


def test_rows_that_belong_together_are_one_each() -> None:
    """The error over units is that of their sums, with Student's t for their number; parts of a unit add up."""
    prob, label, weight = rows()
    units = np.random.default_rng(1).integers(0, 30, len(prob))
    found = DriftBaseline.of(prob, label, weight, units)
    share = weight / weight.sum()
    products = directions(np.log(prob / (1 - prob)), found.centre[0], found.spread[0]) * (label - prob)
    members = units == np.arange(30)[:, None]
    sums, mass = members @ (share * products).T, members @ share
    mean = sums.sum(axis=0)
    freedom = 1 / (mass**2).sum() - 1
    factor = np.sqrt(1 + 1 / freedom) * stats.t.ppf(stats.norm.cdf(2), freedom) / 2
    error = np.sqrt(((sums - mass[:, None] * mean) ** 2).sum(axis=0)) * factor
    np.testing.assert_allclose(found.mean[0], mean, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(found.error[0], error, rtol=1e-10)
    scale, cut = LogOdds.of(prob, label, share), (slice(0, 400), slice(400, None))
    products_of = [Products.of(prob[one], label[one], share[one], scale, units[one], 30) for one in cut]
    apart = DriftBaseline.of_sums(scale, Products.empty(1) + products_of[0] + products_of[1])
    np.testing.assert_allclose(apart.error, found.error, rtol=1e-10)


def test_users_of_the_fit_are_not_all_users() -> None:
    """Of the mean residuals of 80 users that share effects, the margin holds the expected one: 0, in 95 % and more."""
    rng, within = np.random.default_rng(0), 0
    unit = np.repeat(np.arange(80), 50)
    chance, size = np.polynomial.hermite_e.hermegauss(40)
    for _ in range(200):
        z = rng.normal(-1.0, 1.2, len(unit))
        prob = (1 / (1 + np.exp(-z[:, None] - chance))) @ size / size.sum()
        label = (rng.random(len(unit)) < 1 / (1 + np.exp(-z - rng.normal(size=80)[unit]))).astype(np.int64)
        found = DriftBaseline.of(prob, label, None, unit)
        within += abs(found.mean[0, 0]) <= 2 * found.error[0, 0]
    assert within >= 183
