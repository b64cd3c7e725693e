from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.numeric.folds import folds, held_out

LABELS = st.lists(st.integers(0, 4), min_size=5, max_size=200).map(np.array)


@given(LABELS, st.integers(2, 5), st.integers(0, 99))
def test_classes_and_sizes_are_even(label: np.ndarray, count: int, seed: int) -> None:
    fold = folds(label, count, np.random.default_rng(seed))
    assert np.ptp(np.bincount(fold, minlength=count)) <= 1
    for value in np.unique(label):
        assert np.ptp(np.bincount(fold[label == value], minlength=count)) <= 1


@given(LABELS, st.floats(0.05, 0.95), st.integers(0, 99))
def test_the_share_is_kept_in_all_and_in_each_class(label: np.ndarray, share: float, seed: int) -> None:
    mask = held_out(label, share, np.random.default_rng(seed))
    assert abs(mask.sum() - share * len(label)) <= 1
    for value in np.unique(label):
        inside = label == value
        assert abs(mask[inside].sum() - share * inside.sum()) <= 1


def test_the_deal_is_random_and_seeded() -> None:
    label = np.repeat([0, 1], 50)
    one, same, other = (folds(label, 5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows(rows: int) -> None:
    fold = folds(np.zeros(rows, dtype=np.int64), 5, np.random.default_rng(0))
    assert sorted(fold) == list(range(rows))
