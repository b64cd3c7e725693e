import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from calcli.numeric.losses import (
    divergence,
    log_loss,
    prob_of_label,
    shuffled_bins,
    shuffled_gap,
    shuffled_moments,
    squared_error,
)
from tests.support.strategies import any_rows


@given(any_rows())
def test_losses_by_a_loop_over_rows(rows):
    for index in range(len(rows)):
        label, prob = rows.label[index], rows.prob[index]
        by_class = [1 - prob, prob] if rows.binary else list(prob)
        happened = min(max(by_class[label], 1e-12), 1 - 1e-12)
        one = slice(index, index + 1)
        assert prob_of_label(rows.prob[one], rows.label[one])[0] == by_class[label]
        assert log_loss(rows.prob[one], rows.label[one])[0] == pytest.approx(-math.log(happened), rel=1e-12)
        square = sum((p - (k == label)) ** 2 for k, p in enumerate(by_class))
        expected = square / 2 if rows.binary else square
        assert squared_error(rows.prob[one], rows.label[one])[0] == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    ("rows", "size", "bins"), [(1000, 1000, 1), (1999, 1000, 1), (2000, 1000, 2), (10, 1000, 1), (64, 2, 32), (7, 1, 7)]
)
def test_bins_of_shuffled_rows(rows, size, bins):
    assert shuffled_bins(rows, size) == bins


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0.1, 5)), min_size=2, max_size=20))
def test_moments_are_those_of_the_weighted_errors(pairs):
    e, w = np.array(pairs).T
    u = len(e) * w * e / w.sum()
    mean, variance = shuffled_moments(len(e), w.sum(), (w * e).sum(), (w**2 * e**2).sum())
    assert mean == pytest.approx(u.mean(), abs=1e-12)
    assert variance == pytest.approx(u.var(ddof=1), rel=1e-9, abs=1e-12)


def test_one_row_has_no_variance():
    assert shuffled_moments(1, 2.0, 0.6, 0.36) == (0.3, 0.0)


@given(st.floats(-1, 1), st.floats(1e-6, 1.0), st.integers(2, 1000), st.integers(2, 50))
def test_the_mean_of_a_view_is_that_of_a_folded_normal(mean, variance, size, bins):
    v = variance / size * (1 - 1 / bins)
    oracle = stats.foldnorm.mean(abs(mean) / math.sqrt(v), scale=math.sqrt(v))
    assert float(shuffled_gap(mean, variance, size * bins, bins, 1.0)) == pytest.approx(oracle, rel=1e-9)


@pytest.mark.parametrize("bins", [2, 3, 8, 40])
def test_at_mean_zero_the_variance_of_a_view_is_that_of_correlated_folded_normals(bins):
    """cov(|X|, |Y|) of standard normals with correlation r is 2/pi (sqrt(1 - r^2) + r asin r - 1)."""
    rows, variance = 1000 * bins, 0.2
    v = variance / 1000 * (1 - 1 / bins)
    r = -1 / (bins - 1)
    covariance = 2 / math.pi * (math.sqrt(1 - r * r) + r * math.asin(r) - 1)
    exact = v * ((1 - 2 / math.pi) + (bins - 1) * covariance) / bins
    found = shuffled_gap(0.0, variance, rows, bins, 2.0) ** 2 - shuffled_gap(0.0, variance, rows, bins, 1.0) ** 2
    # the closed form keeps the leading term of the covariance, r^2/pi: 12 % of the variance at 2 bins, 1 % at 3
    assert float(found) == pytest.approx(exact, rel={2: 0.13, 3: 0.02}.get(bins, 0.002))


def test_a_folded_normal_by_quadrature():
    v = 0.2 / 100 * (1 - 1 / 10)
    density = stats.norm(0.03, math.sqrt(v)).pdf
    mean, _ = integrate.quad(lambda x: abs(x) * density(x), -1, 1, points=[0.0, 0.03], epsabs=1e-12)
    assert float(shuffled_gap(0.03, 0.2, 1000, 10, 1.0)) == pytest.approx(mean, rel=1e-9)


@given(st.floats(-1, 1), st.floats(0, 1), st.sampled_from([1.0, 2.0]))
def test_it_is_the_absolute_mean_where_nothing_varies(mean, variance, norm):
    size = pytest.approx(abs(mean), rel=1e-12, abs=1e-150)  # squares of less than that vanish
    assert float(shuffled_gap(mean, variance, 500, 1, norm)) == size
    assert float(shuffled_gap(mean, 0.0, 500, 10, norm)) == size
    assert float(shuffled_gap(mean, 1e-320, 500, 10, norm)) == size


@given(st.floats(-1, 1), st.floats(0, 1), st.integers(1, 40), st.sampled_from([1.0, 2.0]))
def test_it_does_not_depend_on_the_sign_and_is_at_least_the_absolute_mean(mean, variance, bins, norm):
    found = float(shuffled_gap(mean, variance, 4000, bins, norm))
    assert found == float(shuffled_gap(-mean, variance, 4000, bins, norm))
    assert found >= abs(mean) * (1 - 1e-12) - 1e-150


def test_arrays_of_candidates_are_judged_as_single_ones_are():
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(0, 0.05, (4, 5)), rng.random((4, 5))
    rows, bins = rng.integers(200, 9000, 5).astype(float), rng.integers(1, 20, 5).astype(float)
    for norm in (1.0, 2.0):
        together = shuffled_gap(mean, variance, rows, bins, norm)
        alone = [
            [float(shuffled_gap(mean[i, j], variance[i, j], rows[j], bins[j], norm)) for j in range(5)]
            for i in range(4)
        ]
        np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_other_norms_have_no_closed_form():
    with pytest.raises(ValueError, match=r"norm 3\.0"):
        shuffled_gap(0.0, 0.1, 100, 10, 3.0)


def test_divergence_is_that_of_scipy() -> None:
    prob, other = (np.random.default_rng(seed).dirichlet(np.ones(4), 50) for seed in range(2))
    prob[0], other[0] = [1.0, 0.0, 0.0, 0.0], [0.25] * 4
    np.testing.assert_allclose(divergence(prob, other), stats.entropy(prob.T, other.T), rtol=1e-9)
    two = [np.stack([1.0 - each, each]) for each in (prob[:, 0], other[:, 0])]
    np.testing.assert_allclose(divergence(prob[:, 0], other[:, 0]), stats.entropy(*two), rtol=1e-9)
