"""Rows that belong together: no method parts them where it chooses its settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calcli.batch import Batch, Column, SamplingUnits
from calcli.methods import calibrator, pool
from calcli.methods.graphs import training
from calcli.methods.mbct import boosting
from calcli.methods.spec import MethodSpec
from calcli.methods.trees.held_out_choice import distinct, held_out_splits
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import Split, splits_by_score
from tests.support.cases import every_method
from tests.support.mbct_oracle import mbct_rows

EACH = 12


def alike(units: int = 60, classes: int = 2, seed: int = 0) -> Batch:
    """Rows of a unit that nearly agree in all there is; what they are is one draw, which nothing else tells."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), EACH)
    score = rng.normal(size=(units, classes) if classes > 2 else units)[unit]
    score = score + rng.normal(0.0, 1e-3, score.shape)
    number = rng.normal(size=units)[unit] + rng.normal(0.0, 1e-3, len(unit))
    label = rng.integers(0, classes, units)[unit]
    shuffled = rng.permutation(len(unit))
    return Batch(score, label, None, {"number": Column("number", number)}, units=SamplingUnits(unit)).take(shuffled)


def mbct_splits(batch: Batch) -> list[Split]:
    codes = np.zeros((len(batch), 2), dtype=np.uint16)
    rows = mbct_rows(codes, np.full(len(batch), 0.5), batch.labels)
    return boosting._splits(batch.score, rows, 0, batch.units)


MAKERS = {
    "by score": lambda batch: splits_by_score(batch, 5, 0, "test"),
    "one by score": lambda batch: splits_by_score(batch, 5, 0, "test", most=1),
    "trees": held_out_splits,
    "pool": lambda batch: pool._splits(batch, 0),
    "recal": lambda batch: training._splits(batch, 0, 5),
    "mbct": mbct_splits,
}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_no_unit_is_on_both_sides_of_a_split(maker, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if many:  # as where there are so many rows that one fold is enough
        monkeypatch.setattr(boosting, "CROSS_VALIDATED_ROWS", 100)
        monkeypatch.setattr("calcli.methods.trees.held_out_choice.CROSS_VALIDATED_ROWS", 100)
    batch = alike()
    unit = batch.units.rank
    for train, test in maker(batch):
        assert test.any()
        assert not set(unit[train]) & set(unit[test])
        assert train.sum() + test.sum() == len(batch)
    in_order = replace(batch, units=SamplingUnits(unit, in_order=True))
    splits = maker(in_order)
    for train, test in splits:
        assert unit[train].max() < unit[test].min()
    assert splits[-1].test[unit == unit.max()].all()


def test_rows_of_other_units_are_not_one() -> None:
    batch = Batch(np.zeros(4), np.zeros(4, dtype=np.int64), units=SamplingUnits(np.array([0, 1, 0, 1])))
    rows = distinct(batch, 0)
    np.testing.assert_array_equal(np.sort(rows.units.rank), [0, 1])
    np.testing.assert_array_equal(rows.weights, [2.0, 2.0])


CHOOSING = {
    "spline": 2,
    "recal": 2,
    "mbct": 2,
    "heterogeneous": 2,
    "boost": 2,
    "forest": 2,
    "ccl": 2,
    "pool": 2,
} | dict.fromkeys(("vector", "matrix", "dirichlet"), 4)
"""The methods that choose settings by rows that are held out inside, and a number of classes for which they do."""


def fresh_loss(spec: MethodSpec, batch: Batch, fresh: Batch) -> float:
    fitted = calibrator.fit(spec, batch, spec.resolve({"members": "platt,mbct"} if spec.name == "pool" else {}))
    return float(log_loss(fitted.predict(fresh), fresh.labels).mean())


@pytest.mark.parametrize("spec", every_method())
def test_units_keep_what_is_learned_from_being_learned_by_heart(spec: MethodSpec) -> None:
    """Held-out rows whose unit was seen flatter whatever learns a unit's label; on fresh units that costs."""
    classes = CHOOSING.get(spec.name, 2)
    batch, fresh = alike(classes=classes), alike(200, classes, seed=1)
    by_unit, by_row = (fresh_loss(spec, one, fresh) for one in (batch, replace(batch, units=None)))
    if spec.name in CHOOSING:
        assert by_unit < by_row - 0.005
    else:
        assert by_unit == by_row
