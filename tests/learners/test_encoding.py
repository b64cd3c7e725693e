"""Plain features as coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Column
from calcli.learners.encoding import Encoding, weighted_median
from calcli.state import nest, unnest


def columns(rows: int = 500) -> dict[str, Column]:
    rng = np.random.default_rng(0)
    number = rng.normal(40, 12, rows)
    number[::9] = np.nan
    codes = rng.choice(4, rows, p=[0.6, 0.3, 0.095, 0.005]).astype(np.int32) - 1
    return {
        "age": Column("number", number),
        "flag": Column("boolean", rng.integers(0, 2, rows).astype(float)),
        "place": Column("category", codes, ("north", "west", "rare")),
        "same": Column("number", np.full(rows, 7.0)),
        "empty": Column("number", np.full(rows, np.nan)),
    }


def test_numbers_are_filled_with_the_median_and_standardised() -> None:
    features = columns()
    found = Encoding.of(features, np.ones(500)).coordinates(features)
    age = features["age"].values
    filled = np.where(np.isnan(age), np.sort(age[~np.isnan(age)])[(np.sum(~np.isnan(age)) - 1) // 2], age)
    np.testing.assert_allclose(found[:, 0], (filled - filled.mean()) / filled.std())
    assert found[:, :2].std(axis=0) == pytest.approx(1)
    assert not found[:, 2:4].any(), "a feature without spread says nothing"


def test_two_categories_are_as_far_apart_as_two_numbers_are_on_average() -> None:
    features = columns()
    found = Encoding.of(features, np.ones(500)).coordinates(features)
    place, codes = found[:, 4:], features["place"].values
    assert place.shape[1] == 2, "missing and rare levels have no coordinate"
    apart = ((place[codes == 0][0] - place[codes == 1][0]) ** 2).sum()
    assert apart == 2 == pytest.approx(2 * found[:, 0].var())
    assert not place[codes == -1].any()


def test_levels_that_were_never_seen_stand_with_the_rare_ones() -> None:
    features = columns()
    encoding = Encoding.of(features, np.ones(500))
    other = {name: column.take(slice(0, 2)) for name, column in features.items()}
    other["place"] = Column("category", np.array([0, 1], dtype=np.int32), ("east", "west"))
    found = encoding.coordinates(other)[:, 4:]
    assert found.tolist() == [[0, 0], [0, 1]]


def test_weights_are_rows() -> None:
    features, times = columns(), np.random.default_rng(1).integers(0, 4, 500)
    copied = {name: column.take(np.repeat(np.arange(500), times)) for name, column in features.items()}
    one, other = Encoding.of(features, times.astype(float)), Encoding.of(copied, np.ones(times.sum()))
    np.testing.assert_allclose(one.coordinates(features), other.coordinates(features), rtol=1e-9)


def test_the_median_has_half_of_the_weight_on_either_side() -> None:
    assert weighted_median(np.array([3.0, 1.0, 2.0]), np.ones(3)) == 2.0
    assert weighted_median(np.array([3.0, 1.0, 2.0]), np.array([5.0, 1.0, 1.0])) == 3.0


def test_it_survives_as_a_state() -> None:
    features = columns()
    encoding = Encoding.of(features, np.ones(500))
    back = Encoding.of_state(unnest(nest({"it": encoding.to_state()}), ["it"])["it"])
    np.testing.assert_array_equal(back.coordinates(features), encoding.coordinates(features))
    assert (back.numbers, back.categories) == (encoding.numbers, encoding.categories)


def test_columns_as_they_are() -> None:
    features = {"a": Column("number", np.array([1.0, np.nan, 9.0]))}
    assert Encoding.of(features, np.ones(3), standardise=False).coordinates(features).ravel().tolist() == [1, 1, 9]
