"""Folds that follow from what rows hold."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.numeric.score_folds import folds_by_score


def rows(count: int = 1000, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, classes)), rng.choice(classes, count, p=[0.9, 0.08, 0.02])


def test_the_order_of_the_rows_does_not_matter() -> None:
    score, label = rows()
    fold = folds_by_score(score, label, 5, 0, "test")
    shuffled = np.random.default_rng(1).permutation(len(label))
    np.testing.assert_array_equal(folds_by_score(score[shuffled], label[shuffled], 5, 0, "test"), fold[shuffled])


def test_repeated_rows_share_a_fold_and_change_no_other() -> None:
    score, label = rows(200)
    twice = np.repeat(np.arange(200), 2)
    fold = folds_by_score(score, label, 5, 0, "test")
    np.testing.assert_array_equal(folds_by_score(score[twice], label[twice], 5, 0, "test"), fold[twice])


def test_classes_are_dealt_out_evenly() -> None:
    score, label = rows()
    fold = folds_by_score(score, label, 5, 0, "test")
    for index in range(3):
        held = np.bincount(fold[label == index], minlength=5)
        assert np.ptp(held) <= 1
    assert np.ptp(np.bincount(fold)) <= 1


@pytest.mark.parametrize("change", [(1, "test"), (0, "other")])
def test_seed_and_purpose_draw_other_folds(change: tuple[int, str]) -> None:
    score, label = rows()
    fold = folds_by_score(score, label, 5, 0, "test")
    other = folds_by_score(score, label, 5, *change)
    assert 0.1 < (fold == other).mean() < 0.3


def test_minus_zero_is_zero_and_one_column_will_do() -> None:
    score = np.array([0.0, -0.0, 1.0, 2.0])
    fold = folds_by_score(score, np.zeros(4, dtype=np.int64), 3, 0, "test")
    assert fold[0] == fold[1]
    assert sorted(set(fold)) == [0, 1, 2]
