import numpy as np
import pytest
from hypothesis import given
from scipy import stats
from sklearn.linear_model import LogisticRegression

from calcli.metrics.adaptive import brownian_range, ecce
from calcli.metrics.base import Options, Scored
from calcli.metrics.diagnosis import hosmer_lemeshow, spiegelhalter_z
from tests.support.strategies import binary_rows

DEFAULT = Options()


def calibrated(n, seed, *, weighted=False) -> Scored:
    rng = np.random.default_rng(seed)
    prob = rng.uniform(0.1, 0.7, n)
    return Scored((rng.random(n) < prob).astype(np.int64), prob, rng.uniform(0.5, 2, n) if weighted else None)


def test_hosmer_lemeshow_by_hand():
    rng = np.random.default_rng(0)
    prob = rng.permutation(np.linspace(0.05, 0.9, 1200))
    rows = Scored((rng.random(1200) < prob).astype(np.int64), prob)
    order = np.argsort(prob)
    total = 0.0
    for part in np.array_split(order, 10):  # without ties the deciles are runs of 120 rows
        mean = prob[part].mean()
        total += (rows.label[part].sum() - prob[part].sum()) ** 2 / (120 * mean * (1 - mean))
    found = hosmer_lemeshow(rows, DEFAULT)
    assert found.value == pytest.approx(total, rel=1e-10)
    assert found.p == pytest.approx(stats.chi2.sf(total, 10), rel=1e-9)
    fitted = hosmer_lemeshow(rows, Options(in_sample=True))
    assert fitted.value == found.value
    assert fitted.p == pytest.approx(stats.chi2.sf(total, 8), rel=1e-9)
    assert "less 2: fitted on these rows" in fitted.definition.approximation


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", [hosmer_lemeshow, spiegelhalter_z])
def test_p_values_are_uniform_under_calibration(metric, weighted):
    p = [metric(calibrated(800, seed, weighted=weighted), DEFAULT).p for seed in range(300)]
    assert stats.kstest(p, "uniform").pvalue > 0.003


@pytest.mark.slow
@pytest.mark.parametrize("rows", [200, 1000])
def test_hosmer_lemeshow_is_right_where_few_positives_are_expected(rows: int) -> None:
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(200):
        prob = 1 / (1 + np.exp(-rng.normal(-5.3, 1.2, rows)))
        label = (rng.random(rows) < prob).astype(np.int64)
        alarms += hosmer_lemeshow(Scored(label, prob), DEFAULT).p <= 0.05
    assert alarms <= 20  # 10 are expected; by chi-squared 40 at 200 rows and 20 at 1,000


def test_hosmer_lemeshow_by_all_counts_of_two_groups() -> None:
    prob = np.repeat([0.1, 0.3], 6)
    rows = Scored(np.array([1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]), prob)
    counts = np.arange(7)
    chance = np.outer(stats.binom.pmf(counts, 6, 0.1), stats.binom.pmf(counts, 6, 0.3))
    size = np.add.outer((counts - 0.6) ** 2 / (6 * 0.09), (counts - 1.8) ** 2 / (6 * 0.21))
    found = hosmer_lemeshow(rows, DEFAULT)
    assert found.value == pytest.approx(size[2, 1], rel=1e-10)
    assert found.p == pytest.approx(chance[size >= size[2, 1] - 1e-9].sum(), abs=0.015)
    # What no draw shows has the chance of one among all draws and itself, and not none.
    assert hosmer_lemeshow(Scored(np.ones(12, dtype=np.int64), prob), DEFAULT).p == pytest.approx(1 / 10_000)
    weighted = hosmer_lemeshow(Scored(rows.label, prob, np.arange(1.0, 13.0)), DEFAULT)
    assert weighted.p is None
    assert "fewer than 5 rows of a label" in weighted.reason
    assert hosmer_lemeshow(rows, Options(in_sample=True)).p is None


def test_on_fitted_rows_spiegelhalter_allows_for_intercept_and_slope() -> None:
    rng = np.random.default_rng(4)
    p, ignoring = [], []
    for _ in range(150):
        z = rng.normal(-1, 1.2, 400)
        label = (rng.random(400) < 1 / (1 + np.exp(-z))).astype(np.int64)
        prob = LogisticRegression(C=np.inf).fit(z[:, None], label).predict_proba(z[:, None])[:, 1]
        p.append(spiegelhalter_z(Scored(label, prob), Options(in_sample=True)).p)
        ignoring.append(spiegelhalter_z(Scored(label, prob), DEFAULT).p)
    assert stats.kstest(p, "uniform").pvalue > 0.003
    assert min(ignoring) > 0.05


def test_on_fitted_rows_there_is_no_p_value_of_the_range() -> None:
    found = ecce(calibrated(200, 0), Options(in_sample=True))
    assert found.value is not None
    assert found.p is None
    assert "fitted rows" in found.reason


def test_certain_and_wrong_is_no_chi_squared():
    rows = Scored(np.array([0, 1]), np.array([0.0, 0.0]))
    found = hosmer_lemeshow(rows, DEFAULT)
    assert (found.value, found.p) == (None, 0.0)
    assert "exactly 0 or 1" in found.reason
    assert hosmer_lemeshow(Scored(rows.label, np.full(2, 1e-310)), DEFAULT).value is None
    assert hosmer_lemeshow(Scored(np.array([0, 0]), np.array([0.0, 0.0])), DEFAULT).value == 0.0


@given(binary_rows(weighted=False))
def test_spiegelhalter_by_its_formula(rows):
    p, y = rows.prob, rows.label
    variance = ((1 - 2 * p) ** 2 * p * (1 - p)).sum()
    found = spiegelhalter_z(rows, DEFAULT)
    if variance > 1e-20:
        z = ((y - p) * (1 - 2 * p)).sum() / np.sqrt(variance)
        assert found.value == pytest.approx(z, rel=1e-9, abs=1e-9)
        assert found.p == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-6, abs=1e-300)


@pytest.mark.parametrize("positive", [1.0, 0.1, 20.0])
def test_a_gap_varies_by_the_product_of_the_weights_of_both_labels(positive: float) -> None:
    """Drawn anew, a row weighs as its label does: its gap is then positive (1 - p) or -p, on average 0."""
    rng = np.random.default_rng(0)
    p = rng.choice(np.linspace(0.05, 0.45, 5), 1000)
    label = (rng.random(1000) < p / (p + positive * (1 - p))).astype(np.int64)
    w = np.where(label == 1, positive, 1.0)
    gap, variance = w * (label - p), positive * p * (1 - p)
    rows = Scored(label, p, w)
    z = (gap * (1 - 2 * p)).sum() / np.sqrt((variance * (1 - 2 * p) ** 2).sum())
    assert spiegelhalter_z(rows, DEFAULT).value == pytest.approx(z, rel=1e-9)
    # The score has five values, and so each of Hosmer and Lemeshow's groups that are not empty.
    groups = [gap[p == one].sum() ** 2 / variance[p == one].sum() for one in np.unique(p)]
    assert hosmer_lemeshow(rows, DEFAULT).value == pytest.approx(sum(groups), rel=1e-9)


def test_over_confidence_has_a_positive_z():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.3, 0.7, 3000)
    label = (rng.random(3000) < p).astype(np.int64)
    extreme = 1 / (1 + ((1 - p) / p) ** 3)
    assert spiegelhalter_z(Scored(label, extreme), DEFAULT).value > 4


@given(binary_rows(weighted=True))
def test_ecce_by_a_loop_over_values(rows):
    total, path = rows.weight.sum(), [0.0]
    for value in np.unique(rows.prob[rows.weight > 0]):
        tied = rows.prob == value
        path.append(path[-1] + (rows.weight * (rows.label - rows.prob))[tied].sum())
    deviation = np.sqrt((rows.weight**2 * rows.prob * (1 - rows.prob)).sum())
    found = ecce(rows, DEFAULT).value
    if deviation / total > 1e-6:
        assert found == pytest.approx((max(path) - min(path)) / deviation, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("x", [0.5, 0.9, 0.999999, 1.0, 1.3, 2.0, 3.5])
def test_both_series_of_the_range_agree(x):
    k = np.arange(1, 500)
    tail = 8 * np.sum((-1.0) ** (k - 1) * k * stats.norm.sf(k * x))
    j = np.arange(100) + 0.5
    below = np.sum((8 / x**2 + 2 / (j * np.pi) ** 2) * np.exp(-2 * (j * np.pi / x) ** 2))
    assert brownian_range(x) == pytest.approx(1 - below, abs=1e-12)
    assert brownian_range(x) == pytest.approx(tail, abs=1e-12)


def test_the_tail_of_the_range_keeps_its_digits():
    assert brownian_range(8.0) == pytest.approx(8 * stats.norm.sf(8.0), rel=1e-12)
    assert brownian_range(0.0) == 1.0


def test_the_p_value_of_the_range_is_right_under_calibration():
    p = np.array([ecce(calibrated(3000, seed), DEFAULT).p for seed in range(400)])
    assert np.mean(p) == pytest.approx(0.5, abs=0.07)  # discrete steps make the range a little short
    assert np.mean(p <= 0.1) == pytest.approx(0.1, abs=0.045)
