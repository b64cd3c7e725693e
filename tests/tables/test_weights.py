"""The scale of weights: beside Kish's formula written out, and in whatever units and chunks they come."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from calcli.errors import DataError
from calcli.tables.binding import bind
from calcli.tables.binding_types import Flags
from calcli.tables.load import load
from calcli.tables.source import open_source
from calcli.tables.weights import WeightSums

WEIGHTS = np.random.default_rng(0).gamma(0.7, size=500)


def scaled(weight: np.ndarray, chunk: int = 500) -> np.ndarray:
    sums = WeightSums()
    for start in range(0, len(weight), chunk):
        sums.add(weight[start : start + chunk])
    return sums.scale("w").apply(weight)


def test_they_add_up_to_the_effective_number_of_rows_and_so_do_their_squares() -> None:
    kish = WEIGHTS.sum() ** 2 / (WEIGHTS**2).sum()
    found = scaled(WEIGHTS)
    assert found.sum() == pytest.approx(kish, rel=1e-7)
    assert (found**2).sum() == pytest.approx(kish, rel=2e-7)
    np.testing.assert_allclose(found / found[0], WEIGHTS / WEIGHTS[0], rtol=1e-13)


@pytest.mark.parametrize("unit", [3.0, 1e-3, 1e300, 1e-290])
@pytest.mark.parametrize("chunk", [500, 1, 7])
def test_their_unit_and_their_chunks_change_nothing(unit: float, chunk: int) -> None:
    np.testing.assert_allclose(scaled(WEIGHTS * unit, chunk), scaled(WEIGHTS), rtol=1e-7)


@pytest.mark.parametrize("power", [-1000, -1, 3, 900])
def test_a_power_of_two_is_exact(power: int) -> None:
    """So that no choice of a method turns round."""
    np.testing.assert_array_equal(scaled(np.ldexp(WEIGHTS, power)), scaled(WEIGHTS))


@pytest.mark.parametrize("weight", [1.0, 2.0, 3.0, 0.1, 1e308, 5e-324, 1.7e308, 1.3e-308])
def test_equal_weights_are_ones(weight: float) -> None:
    np.testing.assert_allclose(scaled(np.full(1000, weight)), 1.0, rtol=1e-15)


def test_none_of_weight_0_nor_what_is_no_number_counts() -> None:
    mixed = np.concatenate([WEIGHTS, [0.0, np.nan, np.inf, -3.0]])
    np.testing.assert_array_equal(scaled(mixed)[:500], scaled(WEIGHTS))


def loaded(weight: list[float]) -> np.ndarray:
    frame = pl.DataFrame({"prob": [0.2, 0.9, 0.4], "label": [0, 1, 1], "w": weight})
    with open_source(frame) as source:
        return load(source, bind(source, Flags(weight="w")), features=False).batch.weights


def test_the_weights_of_a_table_are_on_that_scale() -> None:
    assert loaded([1e308, 5e307, 1e307]) == pytest.approx(np.array([1, 0.5, 0.1]) * 1.6 / 1.26, rel=1e-7)
    assert loaded([5e-324, 5e-324, 0.0]) == pytest.approx([1, 1, 0])
    assert loaded([0.0, 0.0, 0.0]) == pytest.approx([0, 0, 0])


@pytest.mark.parametrize("weight", [[1.0, 1e308, 1.0], [1e-320, 1.0, 1.0]])
def test_weights_that_are_lost_to_rounding_are_refused(weight: list[float]) -> None:
    with pytest.raises(DataError, match=r"'w' reach from .* are lost in rounding; correct the greatest"):
        loaded(weight)
