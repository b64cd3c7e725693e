import numpy as np
import pytest
from scipy import stats

from calcli.metrics.base import Options, Scored
from calcli.metrics.smooth import at_width, cosines, smooth_ece
from tests.support.scored import golden


def rows_of(n, *, seed=0, weighted=True, classes=2) -> Scored:
    rng = np.random.default_rng(seed)
    prob = np.round(rng.beta(0.5, 0.5, n), 2) if classes == 2 else rng.dirichlet(np.ones(classes), n)
    return Scored(rng.integers(0, classes, n), prob, rng.random(n) if weighted else None)


def integral(rows: Scored, width: float, points: int = 10_001) -> float:
    """By the definition: the kernel with its images, summed over rows at many points."""
    w = np.ones(len(rows)) if rows.weight is None else rows.weight
    t = np.linspace(0, 1, points)
    value = np.zeros(points)
    for y, p, weight in zip(rows.label, rows.prob, w, strict=True):
        images = [sign * p + 2 * k for k in range(-4, 5) for sign in (1, -1)]
        value += weight * (y - p) * sum(stats.norm.pdf(t, image, width) for image in images)
    return float(np.trapezoid(np.abs(value), t) / w.sum())


@pytest.mark.parametrize("width", [0.01, 0.05, 0.3, 0.9])
def test_at_a_width_it_is_the_integral(width):
    rows = rows_of(30)
    assert at_width(cosines(rows.blocks), width) == pytest.approx(integral(rows, width), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_width_equals_the_value(seed):
    rows = rows_of(25, seed=seed)
    value = smooth_ece(rows, Options()).value
    assert integral(rows, value) == pytest.approx(value, abs=5e-6)


def test_near_the_reference_on_its_coarse_grid():
    """Relplot 1.0.3 has 200 points, halves the width ten times, and divides by the density."""
    assert at_width(cosines(golden("data").blocks), 0.05) == pytest.approx(0.10067326002484189, rel=2e-3)
    for name, value in (("data", 0.09803257666055734), ("multi", 0.20929979171448168)):
        assert smooth_ece(golden(name), Options()).value == pytest.approx(value, rel=5e-3)


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
    waves = cosines(rows_of(200).blocks)
    values = [at_width(waves, width) for width in np.linspace(0.005, 1, 40)]
    assert np.all(np.diff(values) <= 1e-6)


def test_classes_swapped_is_the_same():
    rows = rows_of(300)
    swapped = smooth_ece(rows.one_vs_rest(0), Options()).value
    assert swapped == pytest.approx(smooth_ece(rows, Options()).value, abs=1e-8)
