"""What every method with trees promises, on tables that are hard for trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calcli.batch import Batch, Column
from tests.support.cases import of_no_use, ordinary, wrong_by_feature
from tests.support.methods import alone, fitted, loss_of

PARTITIONS = [("heterogeneous", {"partition": how}) for how in ("tree", "forest", "boosted")]


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("mbct", {"trees": 5, "link": "odds", "lambda": 30}),
        ("boost", {"rounds": 40}),
        ("heterogeneous", {"depth": 3, "tau": 1}),
    ],
)
def test_the_order_of_columns_and_what_else_is_there_do_not_matter(method: str, given: dict[str, int]) -> None:
    batch = wrong_by_feature(1500)
    other = replace(batch, features=dict(reversed(batch.features.items())))
    one = fitted(method, batch, **given)
    two = one if method == "mbct" else fitted(method, other, **given)  # a fit of mbct may depend on their order
    more = Batch(batch.score, features={"more": batch.features["flag"], **other.features})
    np.testing.assert_array_equal(two.predict(more), one.predict(batch))
    assert loss_of(one, batch) < 0.99 * loss_of(alone(batch), batch)


@pytest.mark.parametrize(("method", "given"), [("boost", {"rounds": 40}), *PARTITIONS])
def test_saturated_scores(method: str, given: dict[str, Any]) -> None:
    train, test = wrong_by_feature(1000), wrong_by_feature(1000, seed=1)
    train, test = (replace(rows, score=np.clip(40 * rows.score, -700, 700)) for rows in (train, test))
    given = {"trees": 4, **given} if method == "heterogeneous" else given
    assert loss_of(fitted(method, train, **given), test) < loss_of(alone(train), test)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "given", "most"),
    [
        ("boost", {}, 1.03),
        ("boost", {"rounds": 30}, 1.03),
        *((method, {"trees": 3, **given}, 1.02) for method, given in PARTITIONS),
    ],
)
@pytest.mark.parametrize("name", [*of_no_use(2), "large"])
def test_features_that_are_no_use_do_hardly_any_harm(method: str, given: dict, most: float, name: str) -> None:
    large = Column("number", np.where(np.arange(1500) % 2, 1e300, -1e300))
    column = {name: of_no_use(1500).get(name, large)}
    train, test = (replace(ordinary(1500, seed=seed), features=column) for seed in (0, 5))
    assert loss_of(fitted(method, train, **given), test) < most * loss_of(alone(train), test)
