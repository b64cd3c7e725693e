import numpy as np
import pytest
from scipy.stats import rankdata

from calcli.numeric.ranks import rising, weight_below


@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000, 32_768, 32_769, 70_001])
@pytest.mark.parametrize("distinct", [1, 3, 10**9])
def test_order_of_many_rows_is_the_stable_one(n, distinct):
    rng = np.random.default_rng(n)
    prob = rng.integers(0, distinct, n) / distinct
    np.testing.assert_array_equal(rising(prob), np.argsort(prob, kind="stable"))


def test_order_tells_neighbouring_floats_apart():
    prob = np.full(5000, 0.3)
    for index in range(1, 5000, 2):
        prob[index] = np.nextafter(prob[index], index % 3)  # up or down by one bit
    np.testing.assert_array_equal(rising(prob), np.argsort(prob, kind="stable"))


def test_order_takes_negative_zero_for_zero():
    np.testing.assert_array_equal(rising(np.array([0.0, -0.0, 0.0, -0.0])), [0, 1, 2, 3])


def test_weight_below_is_the_mid_rank():
    values = np.random.default_rng(1).integers(0, 5, 40).astype(float)
    np.testing.assert_allclose(weight_below(values), rankdata(values) - 0.5)
