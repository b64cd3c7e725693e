from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calcli.batch import SamplingUnits
from calcli.errors import FitError, UsageError
from calcli.models.held_out import CROSS_VALIDATED_ROWS, Holdout, KeyedFolds, split_rows


def test_the_default_depends_on_the_rows() -> None:
    assert str(Holdout.parse(None, CROSS_VALIDATED_ROWS)) == "cv:5"
    assert str(Holdout.parse(None, CROSS_VALIDATED_ROWS + 1)) == "0.1"


@pytest.mark.parametrize("text", ["cv:5", "cv:2", "0.1", "0.333", "none"])
def test_what_is_written_is_read_back(text: str) -> None:
    assert str(Holdout.parse(text, 10)) == text


@pytest.mark.parametrize("text", ["cv:1", "cv:", "1", "0", "-0.1", "nan", "half", "cv:5.5"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--holdout"):
        Holdout.parse(text, 10)


def test_each_row_is_predicted_once_from_the_others() -> None:
    splits = split_rows(103, Holdout.parse("cv:4", 103), 0)
    assert splits.partition
    np.testing.assert_array_equal(np.sum(splits.tests, axis=0), 1)
    for index, test in enumerate(splits.tests):
        np.testing.assert_array_equal(splits.train(index), ~test)


def test_a_share_is_one_split() -> None:
    splits = split_rows(103, Holdout.parse("0.2", 103), 0)
    assert len(splits) == 1
    assert not splits.partition
    assert abs(splits.predicted.sum() - 20.6) <= 1


@given(
    st.lists(st.integers(0, 9), min_size=20, max_size=60).filter(lambda groups: len(set(groups)) > 3), st.integers(0, 9)
)
def test_groups_are_never_on_both_sides(groups: list[int], seed: int) -> None:
    _, codes = np.unique(groups, return_inverse=True)
    splits = split_rows(len(codes), Holdout("cv", folds=3), seed, units=SamplingUnits(codes))
    np.testing.assert_array_equal(np.sum(splits.tests, axis=0), 1)
    for index, test in enumerate(splits.tests):
        assert not set(codes[test]) & set(codes[splits.train(index)])


def test_time_goes_forward() -> None:
    moment = np.random.default_rng(0).permutation(np.repeat(np.arange(30), 4))
    splits = split_rows(120, Holdout("cv", folds=4), 0, units=SamplingUnits(moment, in_order=True))
    assert len(splits) == 4
    for index, test in enumerate(splits.tests):
        assert moment[splits.train(index)].max() < moment[test].min()
    np.testing.assert_array_equal(np.sum(splits.tests, axis=0), splits.predicted)
    assert 60 <= splits.predicted.sum() <= 100
    assert not splits.partition


@pytest.mark.parametrize("rest", [[1], [1, 2, 3]])
def test_rows_after_a_first_moment_of_nearly_all_are_predicted(rest: list[int]) -> None:
    moment = np.array([0] * 40 + rest)
    splits = split_rows(len(moment), Holdout("cv", folds=5), 0, units=SamplingUnits(moment, in_order=True))
    np.testing.assert_array_equal(splits.tests, [moment > 0])


@given(st.lists(st.integers(0, 9), min_size=20, max_size=60).filter(lambda units: len(set(units)) > 3))
@example([0] * 17 + [1, 2, 3])
def test_a_share_of_units_is_held_out_whole(units: list[int]) -> None:
    rank = np.array(units)
    chosen, last = (
        split_rows(len(rank), Holdout("share", share=0.3), 0, units=SamplingUnits(rank, in_order=in_order)).predicted
        for in_order in (False, True)
    )
    assert not set(rank[chosen]) & set(rank[~chosen])
    assert abs(chosen.sum() - 0.3 * len(rank)) <= np.bincount(rank).max()
    assert rank[last].min() > rank[~last].max()


def test_what_cannot_be_split_is_said() -> None:
    with pytest.raises(FitError, match="one row"):
        split_rows(1, Holdout.parse("cv:5", 1), 0)
    with pytest.raises(FitError, match=r"one group.*leave out --resample-by"):
        split_rows(2, Holdout.parse("cv:5", 2), 0, units=SamplingUnits(np.array([0, 0])))
    with pytest.raises(FitError, match=r"one time.*leave out --order-by"):
        split_rows(5, Holdout("cv", folds=3), 0, units=SamplingUnits(np.zeros(5, dtype=np.int64), in_order=True))
    with pytest.raises(FitError, match="nothing on one side"):
        split_rows(2, Holdout.parse("0.1", 2), 0)


@given(st.integers(2, 12), st.integers(1, 40))
def test_keys_are_cut_into_folds_of_even_width(count: int, width: int) -> None:
    folds = KeyedFolds(Holdout("cv", folds=count), count * width)
    np.testing.assert_array_equal(folds.of(np.arange(count * width)), np.repeat(np.arange(count), width))
    assert list(folds.tests) == list(range(count))


def test_a_share_of_the_keys_is_held_out() -> None:
    folds = KeyedFolds(Holdout("share", share=0.25), 1000)
    np.testing.assert_array_equal(folds.of(np.arange(1000, dtype=np.int32)), np.arange(1000) >= 250)
    assert list(folds.tests) == [0]


def test_without_holdout_no_fold_is_predicted() -> None:
    folds = KeyedFolds(Holdout("none"), 1 << 30)
    assert len(np.unique(folds.of(np.array([0, 5, (1 << 30) - 1], dtype=np.int32)))) == 1
    assert not folds.tests
