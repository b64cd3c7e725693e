import numpy as np
import pytest
from hypothesis import given

from calcli.metrics.base import Options, Scored
from calcli.metrics.mean_ratio import pud
from tests.support.strategies import binary_rows


@given(binary_rows())
def test_it_is_the_ratio_of_the_means(rows):
    label = np.average(rows.label, weights=rows.weight)
    found = pud(rows, Options())
    if label == 0:
        assert (found.value, found.reason) == (None, "no row is positive")
    else:
        assert found.value == pytest.approx(np.average(rows.prob, weights=rows.weight) / label, rel=1e-9)


def test_below_one_the_rows_are_underestimated():
    assert pud(Scored(np.array([0, 1]), np.array([0.1, 0.3])), Options()).value == pytest.approx(0.4)
