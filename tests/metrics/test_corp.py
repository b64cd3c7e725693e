import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.isotonic import IsotonicRegression

from calcli.metrics.base import Options, Scored
from calcli.metrics.corp import brier_reliability, brier_resolution, brier_uncertainty
from calcli.metrics.proper import brier
from tests.support.strategies import any_rows, binary_rows

DEFAULT = Options()
PARTS = (brier_reliability, brier_resolution, brier_uncertainty)


@given(any_rows())
def test_the_parts_add_up_to_the_brier_score(rows):
    reliability, resolution, uncertainty = (part(rows, DEFAULT).value for part in PARTS)
    assert reliability - resolution + uncertainty == pytest.approx(brier(rows, DEFAULT).value, abs=1e-12)
    assert min(reliability, resolution, uncertainty) >= 0


@given(binary_rows())
@settings(max_examples=40)
def test_by_scikit_learns_isotonic_regression(rows):
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
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
