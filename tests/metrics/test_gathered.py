"""Metrics and means by unit from sums over parts of the rows, beside those of all rows at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from calcli.metrics import catalog
from calcli.metrics.base import Options, Scored
from calcli.metrics.bootstrap import bootstrap
from calcli.metrics.clustered import NO_CLUSTERS
from calcli.metrics.gathered import MANY, UNITS, UnitMeans
from calcli.metrics.paired import paired, paired_sums
from calcli.metrics.ranking import Cells
from tests.support.drawing import examples
from tests.support.scored import gathered, rows_of
from tests.support.strategies import any_rows, binary_rows

SUMMED = [metric for metric in catalog.specs() if metric.load_sums(Options()) is not None]
PLAIN = Options(bin_size=1)  # the closed form holds for few rows in one bin only


def test_the_default_metrics_can_be_summed():
    assert {metric.name for metric in SUMMED} >= {metric.name for metric in catalog.choose("default", clusters=True)}


def test_without_clusters_sums_say_why_there_is_no_number():
    rows = replace(rows_of(50), clusters=None)
    (found,) = gathered([rows], [catalog.find("cece")], Options(), [20]).measured()
    assert (found["cece"].value, found["cece"].reason) == (None, NO_CLUSTERS)


@pytest.mark.parametrize("classes", [2, 4])
def test_what_was_gathered_apart_adds_up(classes):
    scores = [rows_of(3000, classes=classes, sharpness=sharp, weighted=True) for sharp in (1.5, 1.0)]
    whole = gathered(scores, SUMMED, Options(), [1000, 2000])
    parts = [
        gathered([one.take(rows) for one in scores], SUMMED, Options(), [])
        for rows in (slice(0, 1000), slice(1000, 2000), slice(2000, 3000))
    ]
    apart = gathered([one.take(slice(0, 0)) for one in scores], SUMMED, Options(), [])
    for part in parts:
        apart += part
    for one, other in zip(apart.measured(), whole.measured(), strict=True):
        assert {name: value.value for name, value in one.items()} == pytest.approx(
            {name: value.value for name, value in other.items()}, rel=1e-12
        )
        assert {name: value.definition for name, value in one.items()} == {
            name: value.definition for name, value in other.items()
        }
    assert apart.difference((1, 0), "nll") == pytest.approx(whole.difference((1, 0), "nll"), rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
def test_sums_give_what_all_rows_give(classes, weighted):
    scores = [rows_of(5000, classes=classes, sharpness=sharp, weighted=weighted) for sharp in (1.5, 1.0)]
    found = gathered(scores, SUMMED, Options(), [1, 1000, 1001, 4000]).measured()
    for one, rows in zip(found, scores, strict=True):
        whole = catalog.measure(SUMMED, rows, Options())
        for name, value in whole.items():
            near = {"rel": 1e-10} if name != "auc" else {"abs": float(one[name].definition.approximation.split()[-1])}
            assert one[name].value == pytest.approx(value.value, **near)
            assert one[name].floor == (None if value.floor is None else pytest.approx(value.floor, rel=1e-10))
            if value.per_class is not None:
                pairs = zip(one[name].per_class, value.per_class, strict=True)
                assert all(own is whole is None or own == pytest.approx(whole, **near) for own, whole in pairs)
            if name != "auc":
                assert one[name].definition == value.definition


@given(binary_rows(least=2))
@examples(24)
def test_the_area_is_as_near_as_its_bound_says(rows):
    """Ties, zeros and ones, weights: the rows of one cell may stand in any order."""
    exact = catalog.measure([catalog.find("auc")], rows, Options())["auc"].value
    cells = Cells.of(rows)
    if exact is None:
        assert cells.area is None
    else:
        assert abs(cells.area - exact) <= cells.bound + 1e-12


@pytest.mark.parametrize("spread", [1e-4, 1e-3, 0.1, 3.0])
def test_where_all_order_is_lost_the_error_is_the_bound(spread):
    """All positive rows above all negative ones: every pair in one cell counts half, and should have counted 1."""
    rng = np.random.default_rng(0)
    z = np.sort(rng.normal(0.1, spread, 4000))
    label = np.arange(4000) >= 2000
    cells = Cells.of(Scored(label.astype(np.int64), 1 / (1 + np.exp(-z))))
    assert roc_auc_score(label, z) == 1.0
    assert cells.bound == pytest.approx(1.0 - cells.area, abs=1e-12)
    assert (cells.bound > 0.1) == (spread == 1e-4)


@given(any_rows(least=3), st.data())
@examples(8)
def test_it_does_not_matter_where_parts_end(rows, data):
    cut = data.draw(st.integers(0, len(rows)))
    one = gathered([rows], SUMMED, PLAIN, [cut]).measured()[0]
    other = gathered([rows], SUMMED, PLAIN, []).measured()[0]
    for name, value in one.items():
        for found, expected in ((value.value, other[name].value), (value.floor, other[name].floor)):
            assert found == (None if expected is None else pytest.approx(expected, abs=1e-9))
        assert value.definition == other[name].definition


def test_ties_are_exact_and_near_ties_are_not_also_across_parts():
    label, near = np.array([0, 1, 1, 0]), np.nextafter(0.3, 1)
    chosen = [catalog.find("auc")]
    for prob, bound in (([0.3, 0.3, 0.3, 0.3], "0"), ([0.3, 0.3, near, near], "0.5"), ([0.3, 0.3, 0.8, 0.8], "0")):
        for cuts in ([], [2]):
            found = gathered([Scored(label, np.array(prob))], chosen, Options(), cuts).measured()[0]["auc"]
            assert found.value == 0.5
            assert found.definition.approximation.endswith(f"right to {bound}")


@pytest.mark.parametrize("weighted", [False, True])
def test_differences_are_those_of_all_rows(weighted):
    scores = [rows_of(3000, sharpness=sharp, weighted=weighted) for sharp in (1.5, 1.0)]
    found = gathered(scores, SUMMED, Options(), [500, 501])
    for name in ("nll", "brier"):
        whole = paired_sums(scores[1], scores[0], catalog.find(name).load_rows()).difference()
        assert found.difference((1, 0), name) == pytest.approx(whole, rel=1e-9)
    assert found.difference((1, 0), "auc") is None


def test_what_needs_all_rows_is_null_with_its_reason():
    rows = [catalog.find(name) for name in ("ece_sweep", "slope", "nll")]
    found = gathered([rows_of(100)], rows, Options(), []).measured()[0]
    assert found["nll"].value is not None
    for name in ("ece_sweep", "slope"):
        assert (found[name].value, found[name].reason) == (None, MANY)
    for name, convention in (("rmsce", "sklearn"), ("ece", "guo")):
        options = Options(binning="mass", convention=convention)
        found = gathered([rows_of(100)], [catalog.find(name)], options, []).measured()[0][name]
        assert (found.value, found.reason, found.definition.binning) == (None, MANY, "mass")


def test_mvce_that_must_be_sampled_is_null_for_every_score():
    sure, unsure = rows_of(4000, classes=3, sharpness=30.0), rows_of(4000, classes=3, sharpness=0.3)
    right = Scored(sure.prob.argmax(axis=1), sure.prob)  # its predicted class is never wrong
    for one in gathered([unsure, right], [catalog.find("mvce")], Options(), []).measured():
        assert one["mvce"].value is None
        assert "sampled" in one["mvce"].reason


def test_no_weight_is_no_number():
    rows = Scored(np.array([0, 1]), np.array([0.2, 0.7]), np.zeros(2))
    for value in gathered([rows], SUMMED, Options(), []).measured()[0].values():
        assert (value.value, value.reason) == (None, "the weights add up to zero")


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
    total = UnitMeans.empty(CHOSEN, len(scored))
    for part in np.array_split(np.arange(len(units)), 3):
        one = UnitMeans.empty(CHOSEN, len(scored))
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
    ours = added(scored, units).bootstrap(800, 0)
    theirs = bootstrap(scored, CHOSEN, Options(), 800, groups=None if alone else units)
    for name in ("nll", "brier"):
        for place in range(2):
            one, other = ours.resampled[name][place], theirs.resampled[name][place]
            assert one.mean() == pytest.approx(other.mean(), abs=other.std() / 5)
            assert one.std() == pytest.approx(other.std(), rel=0.12)  # the spread of two spreads is 3.5 %
        assert ours.difference(1, 0, name)[0] == pytest.approx(theirs.difference(1, 0, name)[0], rel=0.2)
    assert "auc" not in ours.resampled
