"""Rows pooled by score and cut into bins of equal weight."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from calcli.numeric.pooled import FINEST, Pooled, Running, by_score, isotonic_blocks


def test_equal_scores_are_one() -> None:
    score, label = np.array([2.0, 1.0, 2.0, 3.0, 1.0]), np.array([1, 0, 0, 1, 1])
    pooled = by_score(score, label, np.array([1.0, 2.0, 3.0, 0.0, 4.0]))
    np.testing.assert_array_equal(pooled.score, [1.0, 2.0])
    np.testing.assert_array_equal(pooled.weight, [6.0, 4.0])
    np.testing.assert_array_equal(pooled.positive, [4.0, 1.0])
    for whole in (by_score(score, label, None), by_score(score, label, np.ones(5))):
        np.testing.assert_array_equal(whole.score, [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(whole.weight, [2.0, 2.0, 1.0])
        np.testing.assert_array_equal(whole.positive, [1.0, 1.0, 1.0])


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=80))
def test_blocks_are_those_of_pooling_adjacent_violators(rows: list[tuple[int, int, int]]) -> None:
    score, label, weight = np.array(rows, dtype=float).T
    pooled = by_score(score, label.astype(np.int64), weight)
    first, last, level = isotonic_blocks(pooled)
    expected = isotonic_regression(pooled.positive / pooled.weight, weights=pooled.weight).x
    np.testing.assert_allclose(np.repeat(level, last - first + 1), expected, atol=1e-12)
    assert (np.diff(level) > 0).all()


@given(st.integers(1, 200), st.integers(1, 40))
def test_bins_of_single_rows_differ_by_no_more_than_one(rows: int, count: int) -> None:
    score = np.arange(float(rows))
    cuts = Running.of(by_score(score, np.zeros(rows, dtype=np.int64), np.ones(rows))).mass_cuts(count)
    held = np.bincount(np.searchsorted(cuts, score, side="left"), minlength=len(cuts) + 1)
    assert len(held) == min(rows, count)
    assert np.ptp(held) <= 1


@given(st.floats(0.01, 1.0), st.integers(1, 2))
def test_a_cut_lies_between_two_neighbouring_numbers_though_nothing_does(score: float, steps: int) -> None:
    values, ones = np.array([score, score + steps * np.spacing(score)]), np.ones(2)
    for each in (values, -values[::-1]):
        cuts = Running.of(Pooled(each, ones, np.zeros(2), ones)).mass_cuts(2)
        np.testing.assert_array_equal(np.searchsorted(cuts, each, side="left"), [0, 1])


@given(st.floats(0.001, 30.0), st.floats(1e-300, 1e-5))
def test_scores_are_equal_that_differ_by_rounding(score: float, prob: float) -> None:
    label, signs = np.arange(4) % 2, np.array([0, 1, -1, 1])
    pooled = by_score(np.append(score + signs[:3] * 2 * np.spacing(score), score + 1e-9), label, None)
    assert pooled.rows.tolist() == [3, 1]
    assert by_score(prob * np.array([1, 1 + 1e-15, 1 + 1e-12, 1 + 1e-12]), label, None, size=0.0).rows.tolist() == [
        2,
        2,
    ]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), min_size=1, max_size=60), st.integers(1, 12))
def test_a_weight_is_as_many_rows(rows: list[tuple[int, int]], count: int) -> None:
    score, weight = np.array(rows, dtype=float).T
    if weight.sum() == 0:
        return
    label = np.zeros(len(rows), dtype=np.int64)
    repeated = np.repeat(score, weight.astype(int))
    plain = by_score(repeated, np.zeros(len(repeated), dtype=np.int64), np.ones(len(repeated)))
    np.testing.assert_array_equal(
        Running.of(by_score(score, label, weight)).mass_cuts(count), Running.of(plain).mass_cuts(count)
    )


@given(st.lists(st.integers(0, 12), min_size=2, max_size=80), st.integers(2, 10))
def test_no_other_cut_is_nearer_to_its_share(rows: list[int], count: int) -> None:
    score = np.array(rows, dtype=float)
    cuts = Running.of(by_score(score, np.zeros(len(rows), dtype=np.int64), np.ones(len(rows)))).mass_cuts(count)
    distinct = np.unique(score)
    if len(distinct) < 2:
        assert len(cuts) == 0
        return
    below = np.array([(score <= value).sum() for value in distinct[:-1]])
    taken = np.array([(score < cut).sum() for cut in cuts])
    for share in len(rows) * np.arange(1, count) / count:
        assert np.abs(taken - share).min() <= np.abs(below - share).min() + 1e-9


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1), st.floats(0, 1e9)), min_size=1, max_size=60),
    st.sets(st.integers(0, 9), max_size=5),
)
def test_what_a_bin_holds_is_what_its_rows_weigh(rows: list[tuple[int, int, float]], edges: set[int]) -> None:
    score, label, weight = np.array(rows, dtype=float).T
    assume(weight.any())
    cuts = np.array(sorted(edges), dtype=float)
    negative, positive = Running.of(by_score(score, label.astype(np.int64), weight)).binned(cuts)
    bounds = [-np.inf, *cuts, np.inf]
    for place, (low, high) in enumerate(itertools.pairwise(bounds)):
        inside = (score > low) & (score <= high)
        for held, kind in ((negative, 0), (positive, 1)):
            expected = weight[inside & (label == kind)].sum()
            assert held[place] >= 0
            np.testing.assert_allclose(held[place], expected, rtol=1e-9, atol=1e-12 * weight.sum())
            if expected == 0:
                assert held[place] == 0


@given(
    st.lists(st.tuples(st.integers(-3000, 3000), st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=80),
    st.integers(2, 40),
    st.integers(0, 79),
)
def test_scores_are_made_one_in_cells_however_rows_are_parted(
    rows: list[tuple[int, int, int]], most: int, cut: int
) -> None:
    """Cells of the narrowest width that leaves so few; each score lies in the cell that stands for it."""
    place, label, weight = np.array(rows, dtype=float).T
    score, label = place * 2.0**-22 * 1.25, label.astype(np.int64)
    whole = by_score(score, label, weight)
    pooled = whole.within(most)
    cut = cut % len(rows)
    one, two = (by_score(score[part], label[part], weight[part]).within(most) for part in (np.s_[:cut], np.s_[cut:]))
    parted = (one + two).within(most)
    for name in ("score", "weight", "positive", "rows", "step"):
        np.testing.assert_array_equal(getattr(parted, name), getattr(pooled, name))
    if len(whole.score) <= most:
        assert pooled.step == 0.0
        return
    assert len(pooled.score) <= most
    assert pooled.step == FINEST or len(np.unique(np.floor(score / (pooled.step / 2)))) > most
    near = np.abs(score[:, None] - pooled.score).min(axis=1)
    assert near.max() <= pooled.step / 2
    cell = np.floor(score / pooled.step)
    expected = [weight[cell == each].sum() for each in np.unique(cell)]
    np.testing.assert_array_equal(pooled.weight, expected)
    assert pooled.rows.sum() == len(rows)
