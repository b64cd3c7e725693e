"""Bins of equal mass that are cut between cells, beside those that are cut between rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calcli.metrics import catalog
from calcli.metrics.base import Options, Scored
from calcli.metrics.binned import Masses, ece
from calcli.numeric.links import sigmoid
from tests.support.scored import gathered, rows_of

FAMILY = [catalog.find(name) for name in ("ece", "classwise_ece")]
CELL = 1 / 4096


def bound_of(found) -> float:
    assert found.definition.approximation.startswith("histogram")
    return float(found.definition.approximation.split()[-1])


@st.composite
def crowded(draw) -> Scored:
    """Rows that crowd into few cells: some with ties, some that only seem to tie."""
    rows = draw(st.integers(2, 60))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    z = rng.integers(-3, 4, rows) + CELL * rng.choice([0.1, 0.2, 0.5, 0.9, 1.1], rows)
    if draw(st.booleans()):
        z = np.where(rng.random(rows) < 0.3, rng.normal(0, 2, rows), z)
    weight = draw(st.sampled_from([None, rng.gamma(0.5, size=rows), rng.integers(0, 3, rows).astype(float) + 1e-3]))
    return Scored((rng.random(rows) < sigmoid(z)).astype(np.int64), sigmoid(z), weight)


@given(crowded(), st.integers(1, 8), st.sampled_from(["sklearn", "kumar", "pycalib", "netcal", "mcgrad", "probcal"]))
@settings(max_examples=400)
@pytest.mark.slow
def test_the_error_is_as_near_as_its_bound_says(rows, bins, convention):
    options = Options(bins=bins, binning="mass", convention=convention)
    (found,) = ece.sums(options).finish([ece.sums(options).gather(rows, options)], options)
    exact = catalog.measure(FAMILY[:1], rows, options)["ece"]
    assert abs(found.value - exact.value) <= bound_of(found) + 1e-12
    assert replace(found.definition, approximation=None) == exact.definition


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_of_many_rows_it_is_near(classes, weighted):
    scores = [rows_of(40_000, classes=classes, sharpness=sharp, weighted=weighted) for sharp in (1.5, 1.0)]
    options = Options(binning="mass")
    found = gathered(scores, FAMILY, options, [1, 1000, 25_000]).measured()
    for one, rows in zip(found, scores, strict=True):
        for name, exact in catalog.measure(FAMILY, rows, options).items():
            assert bound_of(one[name]) < 0.01
            assert one[name].value == pytest.approx(exact.value, abs=bound_of(one[name]))


@pytest.mark.parametrize("weighted", [False, True])
def test_where_rows_of_a_cell_tie_it_is_exact(weighted):
    rng = np.random.default_rng(3)
    prob = rng.choice(np.linspace(0.05, 0.95, 37), 2000)
    weight = rng.gamma(2.0, size=2000) if weighted else None
    rows = Scored((rng.random(2000) < prob).astype(np.int64), prob, weight)
    options = Options(binning="mass", bins=10)
    (found,) = ece.sums(options).finish([in_parts(rows, options)], options)
    assert bound_of(found) == 0.0
    assert found.value == pytest.approx(catalog.measure(FAMILY[:1], rows, options)["ece"].value, abs=1e-12)


def in_parts(rows: Scored, options: Options):
    """From parts of them."""
    return ece.sums(options).gather(rows.take(slice(0, 700)), options) + ece.sums(options).gather(
        rows.take(slice(700, None)), options
    )


def test_the_worst_of_a_cell_is_within_the_bound():
    """Half the rows of one cell are positive and stand above the others; an edge through the middle is not seen."""
    prob = sigmoid(0.1 * CELL + np.linspace(0, 0.5, 1000) * CELL)
    rows = Scored((np.arange(1000) >= 500).astype(np.int64), prob)
    options = Options(binning="mass", bins=2)
    masses = Masses.of(rows)
    exact = catalog.measure(FAMILY[:1], rows, options)["ece"].value
    assert exact == pytest.approx(0.5, abs=1e-3)
    (found,) = ece.sums(options).finish([ece.sums(options).gather(rows, options)], options)
    assert found.value < 1e-3
    assert exact - found.value <= masses.bound(options)
