from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, d2_log_loss_score, log_loss

from calcli.metrics import catalog
from calcli.metrics.base import Options, Scored
from calcli.metrics.bootstrap import Resampler
from calcli.metrics.proper import (
    brier,
    brier_reliability,
    brier_resolution,
    brier_sum,
    brier_uncertainty,
    d2_brier,
    d2_nll,
    nll,
    nll_reliability,
    nll_resolution,
    nll_uncertainty,
)
from tests.support.drawing import examples
from tests.support.strategies import any_rows, binary_rows, multiclass_rows

DEFAULT = Options()


def held_inside(positive: np.ndarray) -> np.ndarray:
    """A column for each of two classes, both held away from 0: 1 - (1 - 1e-12) would keep only five digits."""
    return np.clip(np.column_stack([1 - positive, positive]), 1e-12, 1 - 1e-12)


@given(binary_rows())
def test_nll_of_two_classes_is_that_of_scikit_learn(rows):
    oracle = log_loss(rows.label, held_inside(rows.prob), sample_weight=rows.weight, labels=[0, 1])
    assert nll(rows, DEFAULT).value == pytest.approx(oracle, rel=1e-9, abs=1e-15)


@given(multiclass_rows())
def test_nll_of_more_classes_is_that_of_scikit_learn(rows):
    clipped = np.clip(rows.prob, 1e-12, 1 - 1e-12)
    # scikit-learn wants rows that add up to one; the clipped ones miss it by less than its tolerance
    oracle = log_loss(rows.label, clipped, sample_weight=rows.weight, labels=range(rows.classes))
    assert nll(rows, DEFAULT).value == pytest.approx(oracle, rel=1e-9, abs=1e-15)


@given(binary_rows())
def test_brier_of_two_classes_is_that_of_scikit_learn(rows):
    oracle = brier_score_loss(rows.label, rows.prob, sample_weight=rows.weight, pos_label=1)
    assert brier(rows, DEFAULT).value == pytest.approx(oracle, rel=1e-9, abs=1e-15)


@pytest.mark.skipif("labels" not in inspect.signature(brier_score_loss).parameters, reason="not in scikit-learn 1.5")
@given(multiclass_rows())
def test_brier_of_more_classes_is_that_of_scikit_learn(rows):
    oracle = brier_score_loss(
        rows.label, rows.prob, sample_weight=rows.weight, labels=range(rows.classes), scale_by_half=False
    )
    assert brier(rows, DEFAULT).value == pytest.approx(oracle, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_d2_of_the_log_loss_is_that_of_scikit_learn(classes: int, weighted: bool) -> None:
    rows = drawn(classes, weighted)
    oracle = d2_log_loss_score(rows.label, rows.prob, sample_weight=rows.weight)
    assert d2_nll(rows, DEFAULT).value == pytest.approx(oracle, rel=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_d2_of_the_brier_score_is_that_of_scikit_learn(classes: int, weighted: bool) -> None:
    d2_brier_score = pytest.importorskip("sklearn.metrics", "1.8").d2_brier_score
    rows = drawn(classes, weighted)
    oracle = d2_brier_score(rows.label, rows.prob, sample_weight=rows.weight)
    assert d2_brier(rows, DEFAULT).value == pytest.approx(oracle, rel=1e-9)


@given(any_rows())
def test_d2_is_the_share_of_the_loss_of_the_rates_that_is_saved(rows):
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    rates = np.array([weight[rows.label == one].sum() for one in range(rows.classes)]) / max(weight.sum(), 1e-300)
    constant = replace(rows, prob=np.full(len(rows), rates[1]) if rows.binary else np.tile(rates, (len(rows), 1)))
    for skill, loss in ((d2_nll, nll), (d2_brier, brier)):
        found, base = skill(rows, DEFAULT), loss(constant, DEFAULT)
        if weight.sum() == 0 or rates.max() == 1.0:
            assert found.value is None
            continue
        assert found.value == pytest.approx(1 - loss(rows, DEFAULT).value / base.value, rel=1e-9, abs=1e-12)
        assert skill(constant, DEFAULT).value == pytest.approx(0.0, abs=1e-9)
        of_classes = [skill(rows.one_vs_rest(one), DEFAULT).value for one in range(rows.classes)]
        assert rows.binary or [*found.per_class] == [one and pytest.approx(one, rel=1e-9) for one in of_classes]
        half = len(rows) // 2
        parts = [skill.gather(rows.take(part), DEFAULT) for part in (slice(0, half), slice(half, None))]
        assert skill.finish([parts[0] + parts[1]], DEFAULT)[0].value == pytest.approx(found.value, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
def test_d2_of_rows_drawn_anew_is_that_of_these_rows(classes: int) -> None:
    rows, names = drawn(classes, weighted=True), ["d2_nll", "d2_brier"]
    chosen = [catalog.find(name) for name in names]
    counts = np.random.default_rng(1).integers(0, 4, len(rows))
    again = rows.take(np.repeat(np.arange(len(rows)), counts))
    found = Resampler(rows, chosen, DEFAULT).resampled(counts.astype(float), names)
    expected = catalog.measure(chosen, again, DEFAULT)
    assert {name: found[name] for name in names} == pytest.approx({name: expected[name].value for name in names})


def drawn(classes: int, weighted: bool) -> Scored:
    """Rows whose labels follow their probabilities."""
    rng = np.random.default_rng(classes)
    prob = rng.dirichlet(np.ones(classes), 500)
    label = np.array([rng.choice(classes, p=row) for row in prob])
    return Scored(label, prob if classes > 2 else prob[:, 1].copy(), rng.exponential(size=500) if weighted else None)


@given(multiclass_rows())
def test_brier_one_vs_rest_adds_up(rows):
    measured = brier(rows, DEFAULT)
    assert sum(measured.per_class) == pytest.approx(measured.value, abs=1e-12)


@given(multiclass_rows())
def test_nll_one_vs_rest_is_the_log_loss_of_each_class_probability(rows):
    oracle = [
        log_loss(rows.label == k, held_inside(rows.prob[:, k]), sample_weight=rows.weight, labels=[0, 1])
        for k in range(rows.classes)
    ]
    assert nll(rows, DEFAULT).per_class == pytest.approx(oracle, rel=1e-9, abs=1e-15)


@given(any_rows())
@pytest.mark.parametrize(("metric", "per_row"), [(nll, nll.rows), (brier, brier.rows)])
def test_the_value_is_the_mean_of_the_rows(metric, per_row, rows):
    assert metric(rows, DEFAULT).value == pytest.approx(np.average(per_row(rows), weights=rows.weight), rel=1e-12)


def test_certain_and_wrong_costs_what_the_clip_allows():
    rows = Scored(np.array([1, 0]), np.array([0.0, 1.0]))
    assert nll(rows, DEFAULT).value == pytest.approx(-np.log(1e-12), rel=1e-12)
    right = Scored(np.array([0, 1]), np.array([0.0, 1.0]))
    assert 0 < nll(right, DEFAULT).value < 1.1e-12


def test_many_rows_are_summed_in_parts_that_fit_together():
    rng = np.random.default_rng(5)
    label, prob, weight = rng.integers(0, 2, 100_003), rng.random(100_003), rng.random(100_003)
    for given_weight in (None, weight):
        rows = Scored(label, prob, given_weight)
        assert nll(rows, DEFAULT).value == pytest.approx(log_loss(label, prob, sample_weight=given_weight), rel=1e-12)


@given(any_rows())
def test_brier_sum_is_over_all_classes(rows):
    table = np.column_stack([1 - rows.prob, rows.prob]) if rows.binary else rows.prob
    oracle = np.average(np.square(table - np.eye(table.shape[1])[rows.label]).sum(axis=1), weights=rows.weight)
    assert brier_sum(rows, DEFAULT).value == pytest.approx(oracle, rel=1e-9, abs=1e-15)


PARTS = (brier_reliability, brier_resolution, brier_uncertainty)


@given(any_rows())
def test_the_parts_add_up_to_the_brier_score(rows):
    reliability, resolution, uncertainty = (part(rows, DEFAULT).value for part in PARTS)
    assert reliability - resolution + uncertainty == pytest.approx(brier(rows, DEFAULT).value, abs=1e-12)
    assert min(reliability, resolution, uncertainty) >= 0


LOG_PARTS = (nll_reliability, nll_resolution, nll_uncertainty)


@given(any_rows())
def test_the_parts_add_up_to_the_log_loss(rows):
    reliability, resolution, uncertainty = (part(rows, DEFAULT).value for part in LOG_PARTS)
    whole = nll(rows, DEFAULT)
    whole = whole.value if whole.per_class is None else sum(whole.per_class)
    assert reliability - resolution + uncertainty == pytest.approx(whole, abs=1e-9)
    assert min(reliability, resolution, uncertainty) >= 0


def test_the_parts_of_the_log_loss_by_hand():
    """Labels 0 1 0 1 at rising p: recalibrated they are 0, 1/2, 1/2 and 1, and their rate is 1/2."""
    rows = Scored(np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.6, 0.9]))
    found = [part(rows, DEFAULT).value for part in LOG_PARTS]
    recalibrated, mine = np.log(2) / 2, -(np.log(0.9) + np.log(0.4)) / 2
    assert found == pytest.approx([mine - recalibrated, np.log(2) - recalibrated, np.log(2)])


@given(binary_rows())
@examples(16)
def test_by_scikit_learns_isotonic_regression(rows):
    weight = rows.weights
    held = weight > 0
    p, y, w = rows.prob[held], rows.label[held], weight[held]
    rank = np.unique(p, return_inverse=True)[1]  # the peer takes values for equal that are merely near
    q = IsotonicRegression().fit(rank, y, w).predict(rank)

    def score(forecast):
        return np.average((forecast - y) ** 2, weights=w)

    rate = np.average(y, weights=w)
    oracle = (score(p) - score(q), score(rate) - score(q), score(rate))
    assert [part(rows, DEFAULT).value for part in PARTS] == pytest.approx(oracle, abs=1e-9)


def test_recalibrating_takes_nothing_off_twice():
    """Labels 0 1 0 1 at rising p: isotonic regression pools the middle ones."""
    rows = Scored(np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.6, 0.9]))
    assert brier_resolution(rows, DEFAULT).value == pytest.approx(0.125)
    again = Scored(rows.label, np.array([0.0, 0.5, 0.5, 1.0]))
    assert brier_reliability(again, DEFAULT).value == 0.0
