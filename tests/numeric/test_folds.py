from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.numeric.folds import folds, held_out

ROWS = st.integers(5, 200)


@given(ROWS, st.integers(2, 5), st.integers(0, 99))
def test_sizes_are_even(rows: int, count: int, seed: int) -> None:
    assert np.ptp(np.bincount(folds(rows, count, np.random.default_rng(seed)), minlength=count)) <= 1


@given(ROWS, st.floats(0.05, 0.95), st.integers(0, 99))
def test_the_share_is_kept(rows: int, share: float, seed: int) -> None:
    assert held_out(rows, share, np.random.default_rng(seed)).sum() == int(rows * share)


def test_the_deal_is_random_and_seeded() -> None:
    one, same, other = (folds(100, 5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows(rows: int) -> None:
    assert sorted(folds(rows, 5, np.random.default_rng(0))) == list(range(rows))


def test_folds_do_not_tell_the_rate_of_the_others() -> None:
    """The mean of the other rows predicts a fold as badly as it would predict fresh rows: by 1/n + 1/m in the square.

    Folds that keep the classes in proportion make that 0.
    """
    label = np.arange(60) % 2
    errors = []
    for seed in range(400):
        fold = folds(60, 5, np.random.default_rng(seed))
        errors += [(label[fold == one].mean() - label[fold != one].mean()) ** 2 for one in range(5)]
    assert np.mean(errors) == pytest.approx(0.25 * 60 / 59 * (1 / 12 + 1 / 48), rel=0.1)
