from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special

from calcli.numeric import links

LOGITS = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e4, 1e4))
ROWS = hnp.arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(2, 6)), elements=st.floats(-800, 800))


@given(LOGITS)
def test_sigmoid_is_scipys(z: np.ndarray) -> None:
    # Below -709 the true value is denormal or 0; ours is 0 there.
    np.testing.assert_allclose(links.sigmoid(z), special.expit(z), rtol=4e-16 * 8, atol=1e-307)


def test_sigmoid_leaves_its_argument_alone() -> None:
    z = np.array([-1.0, 2.0])
    links.sigmoid(z)
    np.testing.assert_array_equal(z, [-1.0, 2.0])


@given(hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(1e-11, 1 - 1e-11)))
def test_logit_undoes_sigmoid(p: np.ndarray) -> None:
    np.testing.assert_allclose(links.sigmoid(links.logit(p)), p, rtol=1e-12)


def test_logit_of_the_ends_is_that_of_the_clip() -> None:
    np.testing.assert_allclose(links.logit(np.array([0.0, 1.0])), [-27.631021, 27.631021], atol=1e-4)


@given(hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(1e-307, 1 - 2.0**-53)))
def test_log_odds_are_scipys_logit(p: np.ndarray) -> None:
    np.testing.assert_allclose(links.log_odds(p), special.logit(p), rtol=1e-12, atol=1e-15)


@given(hnp.arrays(np.float64, st.integers(2, 30), elements=st.floats(0, 1), unique=True))
def test_scores_rise_with_probabilities(p: np.ndarray) -> None:
    p = np.sort(p)
    score = links.scores(p)
    assert (np.diff(score) >= 0).all()
    apart = (p[1:] > 2.3e-308) & (np.diff(p) > 1e-9 * p[1:] * (1 - p[1:]))
    assert (np.diff(score)[apart] > 0).all()
    assert np.isfinite(score).all()


@given(hnp.arrays(np.float64, st.integers(2, 30), elements=st.floats(-700, 700), unique=True))
def test_drawn_in_is_smooth_and_rises_more_slowly(z: np.ndarray) -> None:
    z = np.sort(z)
    held = links.drawn_in(z)
    assert (np.diff(held) >= 0).all()
    assert (np.diff(held) <= np.diff(z) * (1 + 1e-12) + 1e-12).all()
    near = np.abs(z) <= links.FAR
    np.testing.assert_array_equal(held[near], z[near])
    np.testing.assert_array_equal(links.drawn_in(-z), -held)


@given(LOGITS)
def test_odds_are_exp_of_log_odds_where_float64_has_them(z: np.ndarray) -> None:
    near = np.abs(z) < 600
    np.testing.assert_allclose(links.odds(z)[near], np.exp(z[near]), rtol=1e-12)
    order = np.argsort(z)
    assert (np.diff(links.odds(z)[order]) >= 0).all()


@given(ROWS)
def test_softmax_is_scipys(v: np.ndarray) -> None:
    np.testing.assert_allclose(links.softmax(v), special.softmax(v, axis=1), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(links.log_softmax(v), special.log_softmax(v, axis=1), rtol=1e-12, atol=1e-12)


@given(LOGITS)
def test_softplus_is_the_logarithm_of_one_plus_exp(z: np.ndarray) -> None:
    np.testing.assert_allclose(links.softplus(z), np.logaddexp(0, z), rtol=1e-15)


@given(ROWS)
def test_against_rest_is_the_log_odds_of_the_softmax(v: np.ndarray) -> None:
    z = links.against_rest(v)
    others = [np.delete(v, index, axis=1) for index in range(v.shape[1])]
    by_definition = v - np.column_stack([special.logsumexp(rest, axis=1) for rest in others])
    np.testing.assert_allclose(z, by_definition, rtol=1e-13, atol=1e-13)
    near = np.abs(z) < 600
    np.testing.assert_allclose(links.odds(v)[near], np.exp(by_definition[near]), rtol=1e-10)


def test_against_rest_of_two_columns_is_their_difference() -> None:
    v = np.array([[0.0, 3.0], [2.0, -1.0]])
    np.testing.assert_allclose(links.against_rest(v), [[-3.0, 3.0], [3.0, -3.0]])
    np.testing.assert_allclose(links.against_rest(np.array([3.0, -3.0])), [[-3.0, 3.0], [3.0, -3.0]])


def test_the_open_interval_excludes_both_ends_and_keeps_the_rest() -> None:
    held = links.open_interval(np.array([0.0, 1e-300, 0.5, 1.0]))
    assert held[0] > 0
    assert held[-1] < 1
    np.testing.assert_array_equal(held[1:3], [1e-300, 0.5])


@given(ROWS)
def test_scores_of_probabilities_say_the_same(v: np.ndarray) -> None:
    p = links.softmax(np.clip(v, -10, 10))
    np.testing.assert_allclose(links.probabilities(links.scores(p)), p, rtol=1e-9)
