"""Which of given splits settings are chosen by."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Batch, SamplingUnits
from calcli.methods.trees import held_out_choice
from calcli.methods.trees.held_out_choice import enough
from calcli.models.held_out import Holdout, split_rows
from calcli.numeric.seeded import Split

ROWS = 300


def batch(weight: np.ndarray | None = None, units: SamplingUnits | None = None) -> Batch:
    rng = np.random.default_rng(0)
    return Batch(rng.normal(size=ROWS), rng.integers(0, 2, ROWS), weight, units=units)


def given(holdout: str, units: SamplingUnits | None = None) -> list[Split]:
    return [*split_rows(ROWS, Holdout.parse(holdout, ROWS), 0, units)]


@pytest.mark.parametrize(("holdout", "many"), [("cv:5", True), ("cv:3", True), ("0.2", True), ("0.1", False)])
def test_one_split_is_enough_if_it_holds_out_as_much_as_the_methods_own(
    holdout: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = given(holdout)
    assert enough(batch(), splits) is None
    monkeypatch.setattr(held_out_choice, "CROSS_VALIDATED_ROWS", ROWS - 1)
    assert (enough(batch(), splits) is splits[-1]) == many
    (own,) = held_out_choice.held_out_splits(batch())
    assert (splits[-1].test.sum() >= own.test.sum()) == many


def test_of_moments_the_latest_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out_choice, "CROSS_VALIDATED_ROWS", 200)
    units = SamplingUnits(np.arange(ROWS), in_order=True)
    split = enough(batch(units=units), given("cv:5", units))
    assert split is not None
    assert split.test[-1]
    assert split.train.sum() == ROWS - split.test.sum()


def test_rows_without_weight_judge_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out_choice, "CROSS_VALIDATED_ROWS", 200)
    splits = given("cv:5")
    assert enough(batch(weight=1.0 - splits[4].test), splits) is None
    assert enough(batch(weight=1.0 - splits[3].test), splits) is splits[4]
