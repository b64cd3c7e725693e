from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.batch import Batch
from calcli.numeric.links import scores, sigmoid
from calcli.numeric.seeded import class_order, folds, folds_by_score, held_out, ordered, share_by_score, stream


def draws(*key: str | int) -> list[float]:
    return list(stream(*key).random(4))  # type: ignore[arg-type]


def test_a_purpose_has_one_stream() -> None:
    assert draws(3, "folds") == draws(3, "folds")


def test_seeds_and_purposes_differ() -> None:
    seen = {tuple(draws(*key)) for key in ((3, "folds"), (4, "folds"), (3, "split"), (3, "folds", 1), (3, "folds1"))}
    assert len(seen) == 5


def test_it_is_the_same_everywhere() -> None:
    """Pinned: a seed written into a manifest years ago must mean the same folds."""
    np.testing.assert_array_equal(stream(0, "folds").integers(0, 1000, 5), PINNED)


PINNED = [923, 335, 391, 873, 591]


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


def rows(count: int = 1000, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, classes)), rng.choice(classes, count, p=[0.9, 0.08, 0.02])


def test_the_order_of_the_rows_does_not_matter() -> None:
    score, label = rows()
    fold = folds_by_score(Batch(score, label), 5, 0, "test")
    shuffled = np.random.default_rng(1).permutation(len(label))
    np.testing.assert_array_equal(folds_by_score(Batch(score[shuffled], label[shuffled]), 5, 0, "test"), fold[shuffled])


def test_folds_do_not_depend_on_whether_p_or_1_minus_p_was_written_down() -> None:
    """Sure scores among them: of z = 20, 1 - p keeps seven digits."""
    label = np.random.default_rng(1).integers(0, 2, 5000)
    prob = sigmoid(np.random.default_rng(2).normal(1, 6, 5000).clip(-20, 20))
    assert (scores(prob) != -scores(1 - prob)).sum() > 1000
    fold = folds_by_score(Batch(scores(prob), label), 5, 0, "test")
    np.testing.assert_array_equal(folds_by_score(Batch(scores(1 - prob), 1 - label), 5, 0, "test"), fold)


def test_nor_where_all_probabilities_of_two_decimals_occur() -> None:
    """The sum of their log-odds is zero but for rounding: how often each occurs decides, by weight."""
    prob, often = np.arange(1, 100) / 100, np.random.default_rng(3).integers(1, 9, 99)
    label = np.random.default_rng(4).integers(0, 2, 99)
    one, other = scores(prob), scores(np.round(1 - prob, 2))
    for weight, repeats in ((often.astype(float), 1), (None, often)):
        given = [np.repeat(each, repeats) for each in (one, other)]
        orders = [class_order(each, weight) for each in given]
        np.testing.assert_array_equal(orders[0], orders[1][::-1])
        np.testing.assert_array_equal(orders[0], class_order(one, often.astype(float)))
        signed = [ordered(each, order) for each, order in zip(given, orders, strict=True)]
        np.testing.assert_allclose(*signed, atol=1e-12)
        shares = [share_by_score(each, weight, 0.5, 0, "test") for each in given]
        np.testing.assert_array_equal(*shares)
        both = zip(given, (np.repeat(label, repeats), np.repeat(1 - label, repeats)), strict=True)
        np.testing.assert_array_equal(*(folds_by_score(Batch(*each, weight), 5, 0, "test") for each in both))


def test_classes_that_take_the_same_scores_are_ordered_by_how_often() -> None:
    """Votes of eight judges."""
    votes = np.random.default_rng(5).multinomial(3, [0.5, 0.2, 0.3], size=400)
    score = np.log((votes + 0.5) / 4.5)
    assert len({np.unique(column).tobytes() for column in score.T}) == 1
    for columns in ([0, 1, 2], [2, 0, 1], [1, 0, 2]):
        assert [columns[of] for of in class_order(score[:, columns], None)] == [1, 2, 0]


def test_folds_of_numbers_of_32_bits_do_not_depend_on_digits_beyond() -> None:
    """Of those between 1 and 2, 256 are in the middle of two numbers with eight decimals."""
    score = 1 + (2 * np.arange(256) + 1) * 2.0**-9
    assert (np.mod(score * 1e8, 1) == 0.5).all()
    label = np.arange(256) % 2
    moved = score * (1 + np.random.default_rng(0).choice([-1e-15, 0, 1e-15], 256))
    np.testing.assert_array_equal(
        folds_by_score(Batch(moved, label), 5, 0, "test"), folds_by_score(Batch(score, label), 5, 0, "test")
    )


def test_repeated_rows_share_a_fold_and_change_no_other() -> None:
    score, label = rows(200)
    twice = np.repeat(np.arange(200), 2)
    fold = folds_by_score(Batch(score, label), 5, 0, "test")
    np.testing.assert_array_equal(folds_by_score(Batch(score[twice], label[twice]), 5, 0, "test"), fold[twice])


def test_classes_are_dealt_out_evenly() -> None:
    score, label = rows()
    fold = folds_by_score(Batch(score, label), 5, 0, "test")
    for index in range(3):
        held = np.bincount(fold[label == index], minlength=5)
        assert np.ptp(held) <= 1
    assert np.ptp(np.bincount(fold)) <= 1


@pytest.mark.parametrize("change", [(1, "test"), (0, "other")])
def test_seed_and_purpose_draw_other_folds(change: tuple[int, str]) -> None:
    score, label = rows()
    fold = folds_by_score(Batch(score, label), 5, 0, "test")
    other = folds_by_score(Batch(score, label), 5, *change)
    assert 0.1 < (fold == other).mean() < 0.3


def test_minus_zero_is_zero_and_one_column_will_do() -> None:
    score = np.array([0.0, -0.0, 1.0, 2.0])
    fold = folds_by_score(Batch(score, np.zeros(4, dtype=np.int64)), 3, 0, "test")
    assert fold[0] == fold[1]
    assert sorted(set(fold)) == [0, 1, 2]
