"""Rows made from another table."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Column
from calcli.errors import DataError
from calcli.uncertainty.decomposition import SeenFeatures, make

NUMBERS = np.random.default_rng(0).normal([3, 10, 0, 5], [1, 4, 0, 2], size=(500, 4))
SEEN = SeenFeatures.of(
    {
        "size": Column("number", np.array([1.0, 3.0, np.nan])),
        "color": Column("category", np.array([0, 2, 0, -1], dtype=np.int32), ("b", "g", "r")),
        "flag": Column("boolean", np.array([1.0, 0.0, 1.0])),
        "count": Column("number", np.array([10.0, 10.0, 40.0])),
    }
)
NAMES = ("size", "color", "flag", "count")


def test_what_rows_looked_like():
    assert SEEN.scale == {"size": (2.0, 1.0), "count": (20.0, pytest.approx(np.sqrt(200)))}
    assert SEEN.values["color"].values.tolist() == [-1, 0, 2]
    assert SEEN.values["flag"].values.tolist() == [0.0, 1.0]
    again = SeenFeatures.from_state(SEEN.to_state())
    assert again.scale == SEEN.scale
    assert again.values["color"].levels == ("b", "g", "r")
    assert again.values["color"].values.tolist() == [-1, 0, 2]


def test_numbers_have_the_scale_of_the_rows_trained_on():
    """The first feature takes the first column, the second the next that varies: not the third, which is constant."""
    made = make(NAMES, SEEN, NUMBERS, 500, seed=1)
    assert list(made) == list(NAMES)
    assert made["size"].values.mean() == pytest.approx(2.0)
    assert made["size"].values.std() == pytest.approx(1.0)
    assert made["count"].values.std() == pytest.approx(np.sqrt(200))
    rank = np.argsort(np.argsort(made["count"].values))
    assert sorted(rank) == list(range(500))
    back = (made["count"].values - 20) / np.sqrt(200) * NUMBERS[:, 1].std() + NUMBERS[:, 1].mean()
    np.testing.assert_allclose(np.sort(back), np.sort(NUMBERS[:, 1]))


def test_rows_stay_together_and_none_comes_twice():
    made = make(NAMES, SEEN, NUMBERS, 200, seed=1)
    size = (made["size"].values - 2) * NUMBERS[:, 0].std() + NUMBERS[:, 0].mean()
    count = (made["count"].values - 20) / np.sqrt(200) * NUMBERS[:, 1].std() + NUMBERS[:, 1].mean()
    found = [int(np.argmin(np.abs(NUMBERS[:, 0] - one))) for one in size]
    assert len(set(found)) == 200
    np.testing.assert_allclose(NUMBERS[found, 1], count)


def test_categories_are_drawn_uniformly_from_those_seen():
    made = make(NAMES, SEEN, np.tile(NUMBERS, (20, 1)), 9000, seed=2)
    share = np.bincount(made["color"].values + 1, minlength=4) / 9000
    np.testing.assert_allclose(share, [1 / 3, 1 / 3, 0, 1 / 3], atol=0.02)
    assert set(made["flag"].values) == {0.0, 1.0}


def test_the_seed_decides():
    one, same, other = (make(NAMES, SEEN, NUMBERS, 50, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(one[name].values, same[name].values) for name in NAMES)
    assert not np.array_equal(one["size"].values, other["size"].values)


def test_the_authors_take_the_first_rows_at_their_own_scale():
    made = make(NAMES, SEEN, NUMBERS, 50, seed=1, first=True)
    head = NUMBERS[:50, 0]
    np.testing.assert_allclose(made["size"].values, (head - head.mean()) / head.std() + 2.0)


def test_missing_numbers_stay_missing():
    holed = NUMBERS.copy()
    holed[::2, 0] = np.nan
    made = make(NAMES, SEEN, holed, 500, seed=1)
    assert np.isnan(made["size"].values).sum() == 250


@pytest.mark.parametrize(
    ("foreign", "said"),
    [(NUMBERS[:10], "has 10 rows, and it takes 50"), (NUMBERS[:, 2:], "1 columns of numbers that vary")],
)
def test_a_table_that_is_too_small(foreign, said):
    with pytest.raises(DataError, match=said):
        make(NAMES, SEEN, foreign, 50, seed=1)
