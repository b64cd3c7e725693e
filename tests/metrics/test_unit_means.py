"""Means by unit, from sums: their intervals are those of the units themselves."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.metrics import catalog
from calcli.metrics.base import Options, Scored
from calcli.metrics.bootstrap import bootstrap
from calcli.metrics.paired import paired
from calcli.metrics.unit_means import UNITS, UnitMeans

CHOSEN = [catalog.find(name) for name in ("nll", "brier", "auc")]


def scores(rows: int, units: np.ndarray) -> tuple[Scored, Scored]:
    """Two scores of the same rows, whose labels agree within a unit more often than chance."""
    rng = np.random.default_rng(0)
    z = rng.normal(-1, 1, rows)
    shared = rng.normal(0, 1, units.max() + 1)[units]
    label = (rng.random(rows) < 1 / (1 + np.exp(-z - shared))).astype(np.int64)
    weight = rng.uniform(0.5, 2, rows)
    return tuple(Scored(label, 1 / (1 + np.exp(-slope * z)), weight, units=units) for slope in (1.5, 0.8))


def added(scored: tuple[Scored, ...], units: np.ndarray) -> UnitMeans:
    total = UnitMeans.nothing(CHOSEN, len(scored))
    for part in np.array_split(np.arange(len(units)), 3):
        one = UnitMeans.nothing(CHOSEN, len(scored))
        one.add([score.take(part) for score in scored], CHOSEN, units[part])
        total += one
    return total


def test_a_difference_is_that_of_the_units() -> None:
    units = np.random.default_rng(1).integers(0, 300, 2000)
    scored = scores(2000, units)
    total = added(scored, units * 7 % UNITS)  # where the sums of a unit stand changes nothing
    for metric in CHOSEN[:2]:
        assert total.difference((1, 0), metric.name) == pytest.approx(paired(scored[1], scored[0], metric.load_rows()))
    assert total.difference((1, 0), "auc") is None


@pytest.mark.parametrize("alone", [True, False])
def test_the_bootstrap_spreads_as_that_of_all_rows(alone: bool) -> None:
    units = np.arange(3000) if alone else np.random.default_rng(1).integers(0, 150, 3000)
    scored = scores(3000, units)
    ours = added(scored, units).bootstrap(2000, 0)
    theirs = bootstrap(scored, CHOSEN, Options(), 2000, groups=None if alone else units)
    for name in ("nll", "brier"):
        for place in range(2):
            one, other = ours.resampled[name][place], theirs.resampled[name][place]
            assert one.mean() == pytest.approx(other.mean(), abs=other.std() / 5)
            assert one.std() == pytest.approx(other.std(), rel=0.12)  # the spread of two spreads is 2.2 %
        assert ours.difference(1, 0, name)[0] == pytest.approx(theirs.difference(1, 0, name)[0], rel=0.2)
    assert "auc" not in ours.resampled
