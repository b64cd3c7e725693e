from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calcli.metrics.adaptive import at_width, cosines, cutoff_error, ece_sweep, smooth_ece, sweep_of
from calcli.metrics.base import Options, Scored
from calcli.metrics.binned import ada_ece, ece_debiased
from tests.support.drawing import examples
from tests.support.scored import golden
from tests.support.strategies import binary_rows

DEFAULT = Options()


def reference(label, prob, norm):
    """By the paper: more bins of equal mass until a label mean falls; rows already sorted, no ties."""
    n, bins = len(label), 1
    for count in range(2, n):
        place = np.arange(n) * count // n
        means = [label[place == one].mean() for one in range(count)]
        if any(after < before for before, after in pairwise(means)):
            break
        bins = count
    place = np.arange(n) * bins // n
    gaps = [((place == one).mean(), abs(label[place == one].mean() - prob[place == one].mean())) for one in range(bins)]
    return sum(share * gap**norm for share, gap in gaps) ** (1 / norm), bins


@given(st.lists(st.booleans(), min_size=3, max_size=40), st.integers(0, 99), st.sampled_from([1.0, 2.0]))
@examples(24)
def test_by_a_loop(labels, seed, norm):
    prob = np.sort(np.random.default_rng(seed).random(len(labels)))
    rows = Scored(np.array(labels, dtype=np.int64), prob)
    value, bins = reference(rows.label, prob, norm)
    assert sweep_of(rows.ties, DEFAULT, norm) == pytest.approx(value, abs=1e-12)
    assert ece_sweep(rows, DEFAULT).reason == f"the sweep ended at {bins} bins"


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("bins", [5, 15, 40])
@pytest.mark.parametrize("ties", [False, True])
def test_debiased_as_kumar(bins, ties):
    calibration = pytest.importorskip("calibration")
    rng = np.random.default_rng(bins)
    prob = rng.beta(1, 3, 501)
    prob = np.round(prob, 3) if ties else prob
    label = (rng.random(501) < prob**1.3).astype(np.int64)
    cut = calibration.utils.get_equal_bins(prob, bins)
    binned = calibration.utils.bin(list(zip(prob, label, strict=True)), cut)
    oracle = calibration.utils.unbiased_square_ce(binned)
    assert ece_debiased(Scored(label, prob), Options(bins=bins)).value == pytest.approx(max(oracle, 0) ** 0.5, rel=1e-9)


def test_debiased_is_nearer_the_truth_than_plain():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        prob = rng.random(300)
        label = (rng.random(300) < prob * 0.8).astype(np.int64)  # the true root mean square error is 0.2/sqrt(3)
        rows = Scored(label, prob)
        found.append((ece_debiased(rows, DEFAULT).value ** 2, ada_ece(rows, DEFAULT).value ** 2))
    debiased, plain = np.mean(found, axis=0)
    assert debiased == pytest.approx(0.04 / 3, rel=0.06)
    assert plain > 1.5 * 0.04 / 3


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.5, 1.0, 2.0, 3.5])), min_size=3, max_size=25))
@examples(24)
def test_with_weights_a_row_goes_where_its_weight_begins(drawn):
    label, weight = (np.array(column, dtype=float) for column in zip(*drawn, strict=True))
    n = len(label)
    prob = (np.arange(n) + 0.5) / n
    before = np.cumsum(weight) - weight
    bins = 1
    for count in range(2, n):
        place = np.floor(before * count / weight.sum()).astype(int)
        means = [np.average(label[place == one], weights=weight[place == one]) for one in np.unique(place)]
        if any(after < before - 1e-12 for before, after in pairwise(means)):
            break
        bins = count
    place = np.floor(before * bins / weight.sum()).astype(int)
    oracle = sum(abs((weight * (label - prob))[place == one].sum()) for one in np.unique(place)) / weight.sum()
    found = ece_sweep(Scored(label.astype(np.int64), prob, weight), DEFAULT)
    assert found.reason == f"the sweep ended at {bins} bins"
    assert found.value == pytest.approx(oracle, abs=1e-9)


def rows_of(n, *, seed=0, weighted=True, classes=2) -> Scored:
    rng = np.random.default_rng(seed)
    prob = np.round(rng.beta(0.5, 0.5, n), 2) if classes == 2 else rng.dirichlet(np.ones(classes), n)
    return Scored(rng.integers(0, classes, n), prob, rng.random(n) if weighted else None)


def integral(rows: Scored, width: float, points: int = 10_001) -> float:
    """By the definition: the kernel with its images, summed over rows at many points."""
    w = rows.weights
    t = np.linspace(0, 1, points)
    value = np.zeros(points)
    for y, p, weight in zip(rows.label, rows.prob, w, strict=True):
        images = [sign * p + 2 * k for k in range(-4, 5) for sign in (1, -1)]
        value += weight * (y - p) * sum(stats.norm.pdf(t, image, width) for image in images)
    return float(np.trapezoid(np.abs(value), t) / w.sum())


@pytest.mark.parametrize("width", [0.01, 0.05, 0.3, 0.9])
def test_at_a_width_it_is_the_integral(width):
    rows = rows_of(30)
    assert at_width(cosines(rows.ties), width) == pytest.approx(integral(rows, width), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_width_equals_the_value(seed):
    rows = rows_of(25, seed=seed)
    value = smooth_ece(rows, Options()).value
    assert integral(rows, value) == pytest.approx(value, abs=5e-6)


def test_near_the_reference_on_its_coarse_grid():
    """Relplot 1.0.3 has 200 points, halves the width ten times, and divides by the density."""
    assert at_width(cosines(golden("data").ties), 0.05) == pytest.approx(0.10067326002484189, rel=2e-3)
    for name, value in (("data", 0.09803257666055734), ("multi", 0.20929979171448168)):
        assert smooth_ece(golden(name), Options()).value == pytest.approx(value, rel=5e-3)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("seed", range(2))
def test_near_the_reference_on_random_rows(seed):
    relplot = pytest.importorskip("relplot")
    rng = np.random.default_rng(seed)
    prob = rng.uniform(0.1, 0.9, 2000)  # it loses half of what stands at 0 and at 1
    rows = Scored((rng.random(2000) < prob**2).astype(np.int64), prob)
    assert smooth_ece(rows, Options()).value == pytest.approx(relplot.smECE(rows.prob, rows.label), rel=1e-2)


def test_no_error_at_all():
    rows = Scored(np.array([0, 1, 0, 1]), np.array([0.0, 1.0, 0.5, 0.5]))
    assert smooth_ece(rows, Options()).value == 0.0


def test_one_prediction_shows_at_most_its_error():
    rows = Scored(np.array([0, 0, 0, 1]), np.full(4, 0.5))
    assert smooth_ece(rows, Options()).value == pytest.approx(0.25, abs=1e-6)


def test_it_falls_as_the_width_grows():
    waves = cosines(rows_of(200).ties)
    values = [at_width(waves, width) for width in np.linspace(0.005, 1, 40)]
    assert np.all(np.diff(values) <= 1e-6)


@examples(16)
@given(binary_rows())
def test_the_cutoff_error_is_the_largest_of_any_interval(rows):
    found = cutoff_error(rows, DEFAULT)
    p, gap = rows.prob, rows.weights * (rows.label - rows.prob) / rows.total_weight
    ends = np.unique(p[rows.weights > 0])
    sums = {(a, b): gap[(p >= a) & (p <= b)].sum() for a in ends for b in ends if a <= b}
    assert found.value == pytest.approx(max(map(abs, sums.values())), abs=1e-12)


def test_the_cutoff_error_says_where_it_is():
    rows = Scored(np.array([0, 1, 0, 0, 0, 1]), np.array([0.1, 0.2, 0.7, 0.75, 0.8, 1.0]))
    found = cutoff_error(rows, DEFAULT)
    assert found.value == pytest.approx(2.25 / 6)
    assert found.reason == "predictions from 0.7 to 0.8 are too high"
