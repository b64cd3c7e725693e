"""Curves without bins, beside scikit-learn, lines fitted one by one, and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.isotonic import IsotonicRegression

from calcli.diagrams import distinct
from calcli.diagrams.curve_builder import curve_sums
from calcli.diagrams.curves import Bands, Curve, Kind
from calcli.diagrams.distinct import span_of
from calcli.metrics.adaptive import smooth_ece
from calcli.metrics.base import Options, Scored
from calcli.metrics.proper import brier_reliability
from tests.support.curves import sample, traced


def columns(curve: Curve) -> np.ndarray:
    return np.array([[point.x, point.y, point.lo, point.hi] for point in curve.points]).T


def tied(rows: int = 400, *, weighted: bool = False) -> Scored:
    """Rows of which many share their probability."""
    found = sample(rows, slope=1.6, weighted=weighted)
    return Scored(found.label, np.round(found.prob, 2), found.weight)


def twins(prob: np.ndarray) -> Scored:
    """Rows that are calibrated to the last digit: each probability p with weight p positive, with 1 - p negative."""
    label = np.repeat([1, 0], len(prob))
    return Scored(label, np.tile(prob, 2), np.concatenate([prob, 1.0 - prob]))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_isotonic_curve_is_that_of_scikit_learn(weighted: bool) -> None:
    rows = tied(weighted=weighted)
    curve = traced(rows, "corp")
    model = IsotonicRegression().fit(rows.prob, rows.label, rows.weight)
    x, y, _, _ = columns(curve)
    np.testing.assert_allclose(y, model.predict(x), atol=1e-9)
    assert curve.error == pytest.approx(brier_reliability(rows, Options()).value, rel=1e-9)
    assert {model.X_thresholds_[0], model.X_thresholds_[-1]} == {x[0], x[-1]}
    assert sum(point[2] for point in curve.counts) == pytest.approx(rows.total_weight)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_smooth_curve_is_a_line_through_the_nearest_rows(weighted: bool) -> None:
    rows = sample(300, slope=2.0, weighted=weighted)
    curve = traced(rows, "smooth")
    share = span_of(rows.weights.sum() ** 2 / np.square(rows.weights).sum())
    for point in curve.points:
        away = np.abs(rows.prob - point.x)
        order = np.argsort(away)
        h = away[order][(np.cumsum(rows.weights[order]) >= share * rows.total_weight * (1 - 1e-9)).argmax()]
        kernel = np.clip(1 - (away / h) ** 3, 0, None) ** 1.5 * np.sqrt(rows.weights)
        line = np.polyval(np.polyfit(rows.prob, rows.label, 1, w=kernel), point.x)
        assert point.y == pytest.approx(np.clip(line, 0, 1), abs=1e-9)
    assert curve.error == pytest.approx(smooth_ece(rows, Options()).value, abs=1e-9)


@pytest.mark.parametrize("kind", ["corp", "smooth"])
def test_a_calibrated_score_is_on_the_diagonal_up_to_both_ends(kind: Kind) -> None:
    rows = twins(np.random.default_rng(1).beta(0.5, 2.0, 400))
    x, y, lo, hi = columns(traced(rows, kind))
    assert (x[0], x[-1]) == (rows.prob.min(), rows.prob.max())
    np.testing.assert_allclose(y, x, atol=1e-9)
    assert ((lo <= x + 0.02) & (x - 0.02 <= hi)).all()


@pytest.mark.parametrize(
    ("kind", "bands"),
    [
        ("corp", "consistency"),
        pytest.param("smooth", "consistency", marks=pytest.mark.slow),
        pytest.param("smooth", "bootstrap", marks=pytest.mark.slow),
    ],
)
def test_the_band_is_what_drawing_labels_gives(kind: Kind, bands: Bands) -> None:
    rng = np.random.default_rng(5)
    rows = sample(400, slope=1.5)
    curve = traced(rows, kind, bands=bands)
    x, y, lo, hi = columns(curve)
    chance = rows.prob if bands == "consistency" else np.interp(rows.prob, x, y)
    drawn = [Scored((rng.random(400) < chance).astype(np.int64), rows.prob) for _ in range(300)]
    seen = []
    for one in drawn:
        if kind == "corp":
            seen.append(IsotonicRegression().fit(one.prob, one.label).predict(x))
        else:
            found = columns(traced(one, kind, bands="none", diagnosed=False))
            seen.append(np.interp(x, found[0].astype(float), found[1].astype(float)))
    width = np.subtract(*np.quantile(seen, [0.975, 0.025], axis=0))
    assert (hi - lo).mean() == pytest.approx(width.mean(), rel=0.08)
    inside = np.mean((np.array(seen) >= lo) & (np.array(seen) <= hi))
    assert inside == pytest.approx(0.95, abs=0.02)


def test_a_pool_of_the_isotonic_curve_has_the_exact_interval_of_its_rate() -> None:
    """It holds the curve up to its ends, and the true rate where the first labels are all 0."""
    rng, inside = np.random.default_rng(0), []
    for _ in range(10):
        prob = np.sort(rng.beta(1.0, 6.0, 300))
        rows = Scored((rng.random(300) < prob).astype(np.int64), prob)
        x, y, lo, hi = (
            column.astype(float) for column in columns(traced(rows, "corp", bands="bootstrap", diagnosed=False))
        )
        assert ((lo <= y) & (y <= hi)).all()
        inside += list((lo <= x) & (x <= hi))
        rate = IsotonicRegression().fit_transform(prob, rows.label)
        for value in np.unique(rate):
            held = rate == value
            exact = binomtest(int(rows.label[held].sum()), int(held.sum())).proportion_ci()
            for at in (x == prob[held][0]).nonzero()[0]:
                assert (lo[at], hi[at]) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert np.mean(inside) > 0.9


def test_many_distinct_scores_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sample(3000, slope=1.5)
    exact = columns(traced(rows, "corp", diagnosed=False))
    monkeypatch.setattr(distinct, "MOST", 1000)
    x, y, _, _ = columns(traced(rows, "corp", diagnosed=False))
    assert np.abs(np.interp(exact[0].astype(float), x, y) - exact[1]).mean() < 0.005
    halves = [curve_sums("raw", "1", "corp") for _ in range(2)]
    for sums, some in zip(halves, (slice(0, 400), slice(400, None)), strict=True):
        sums.add(rows.take(some))
    halves[0].join(halves[1])
    np.testing.assert_allclose([point.y for point in halves[0].curve().points], y, atol=1e-9)


def test_keys_of_the_upper_bits_rise_with_the_probability() -> None:
    tails = 10.0 ** -np.arange(1.0, 16.0)
    prob = np.sort(np.concatenate([[0.0, 0.5, 1.0], tails, 1.0 - tails, np.random.default_rng(0).random(2000)]))
    key = distinct._upper(prob.view(np.int64))
    assert (np.diff(key) >= 0).all()
    assert len(np.unique(key)) > 600
