import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calcli.numeric.bins import MOST_BINS, assign, bins_of_rows, mass_edges, width_edges
from tests.support.strategies import probabilities, weights

many = st.integers(1, 25).flatmap(probabilities)


@given(many, st.integers(1, 60))
def test_a_value_is_in_the_bin_whose_right_edge_is_the_first_that_holds_it(prob, count):
    edges = width_edges(count)
    expected = [next(j for j in range(count) if p <= edges[j + 1]) for p in prob]
    np.testing.assert_array_equal(assign(prob, edges), expected)


@example(np.array([0.0, 0.25, 0.26, 0.5, 0.51, 1.0]), np.array([0.0, 0.25, 0.5, 1.0]))
@example(np.array([0.0, 0.1, 0.9, 1.0]), np.array([0.2, 0.5, 0.8]))
@given(many, st.lists(st.floats(0, 1), min_size=2, max_size=50).map(sorted).map(np.array))
def test_any_edges_are_searched_alike(prob, edges):
    np.testing.assert_array_equal(assign(prob, edges), np.searchsorted(edges[1:-1], prob, side="left"))


def test_many_values_are_assigned_as_few_are():
    prob = np.random.default_rng(0).random(100_001)
    for count in (15, 33, 200):
        inner = width_edges(count)[1:-1]
        np.testing.assert_array_equal(assign(prob, width_edges(count)), np.searchsorted(inner, prob))


@given(st.integers(1, 10**15) | st.integers(1, 10**5).flatmap(lambda root: st.integers(root**3 - 1, root**3 + 1)))
def test_the_bins_of_so_many_rows_are_the_least_whose_cube_is_no_smaller(rows):
    count = bins_of_rows(rows)
    assert (count - 1) ** 3 < rows or count == 1
    assert count**3 >= rows or count == MOST_BINS


def test_the_bins_of_rows_have_bounds():
    assert [bins_of_rows(rows) for rows in (0, 1, 2, 8, 9, 64, 10**18)] == [1, 1, 2, 2, 3, 4, MOST_BINS]


@given(many, st.integers(1, 20))
def test_mass_edges_without_weights_are_numpys_percentiles(prob, count):
    np.testing.assert_array_equal(mass_edges(prob, count), np.percentile(prob, np.linspace(0, 1, count + 1) * 100))


@given(many, st.integers(1, 20), st.sampled_from([1.0, 0.3, 1e-8]))
def test_equal_weights_are_no_weights(prob, count, weight):
    np.testing.assert_array_equal(mass_edges(prob, count, np.full(len(prob), weight)), mass_edges(prob, count))


@st.composite
def weighted(draw):
    prob = draw(many)
    return prob, draw(weights(len(prob)))


@given(weighted(), st.integers(1, 20))
def test_weights_that_hardly_differ_are_hardly_weights(rows, count):
    prob, weight = rows
    nearly = 1.0 + 1e-9 * (weight > 0)
    np.testing.assert_allclose(mass_edges(prob, count, nearly), mass_edges(prob, count), atol=1e-6)


@given(weighted(), st.integers(1, 20), st.floats(0.01, 100), st.randoms(use_true_random=False))
def test_neither_scale_nor_order_nor_rows_of_weight_zero_matter(rows, count, scale, random):
    prob, weight = rows
    order = np.array(random.sample(range(len(prob)), len(prob)))
    prob_more, weight_more = np.append(prob[order], 0.123), np.append(scale * weight[order], 0.0)
    np.testing.assert_allclose(mass_edges(prob_more, count, weight_more), mass_edges(prob, count, weight), atol=1e-9)


@given(weighted(), st.integers(1, 20))
def test_weighted_edges_rise_between_the_least_and_the_greatest_value(rows, count):
    prob, weight = rows
    edges = mass_edges(prob, count, weight)
    held = prob[weight > 0]
    assert len(edges) == count + 1
    assert (np.diff(edges) >= 0).all()
    assert (edges[0], edges[-1]) == (held.min(), held.max())


def test_bins_hold_equal_shares_of_the_weight():
    rng = np.random.default_rng(1)
    prob, weight = rng.random(20_000), rng.exponential(size=20_000)
    place = assign(prob, mass_edges(prob, 15, weight))
    share = np.bincount(place, weight) / weight.sum()
    assert share == pytest.approx(np.full(15, 1 / 15), abs=5e-4)


def test_weights_move_the_edges():
    prob, weight = np.linspace(0, 1, 1001), np.ones(1001)
    weight[prob > 0.5] = 3.0
    assert mass_edges(prob, 2, weight)[1] == pytest.approx(2 / 3, abs=2e-3)
