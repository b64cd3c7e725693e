from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.calibration import calibration_curve

from calcli.errors import UsageError
from calcli.metrics import catalog
from calcli.metrics.base import CONVENTIONS, Options, Scored
from calcli.metrics.binned import (
    EqualMassSums,
    ada_ece,
    binned_sums,
    classwise_ece,
    ece,
    mce,
    rmsce,
    tied_sums,
)
from calcli.metrics.conventions import convention
from calcli.numeric.bins import mass_edges, width_edges
from calcli.numeric.links import sigmoid
from tests.support.scored import gathered, rows_of
from tests.support.strategies import any_rows, binary_rows, multiclass_rows


def plain(label, prob, weight, bins) -> float:
    """Equal width, by a loop over rows and the definition of a right-closed bin."""
    edges = np.linspace(0, 1, bins + 1)
    weight = np.ones(len(label)) if weight is None else weight
    gaps = np.zeros(bins)
    for y, p, w in zip(label, prob, weight, strict=True):
        (bin_,) = [j for j in range(bins) if edges[j] < p <= edges[j + 1]] or [0]
        gaps[bin_] += w * (p - y)
    return float(np.abs(gaps).sum() / weight.sum())


@given(binary_rows(weighted=False), st.sampled_from(["width", "mass"]), st.integers(1, 40))
def test_as_scikit_learn_bins(rows, binning, bins):
    strategy = {"width": "uniform", "mass": "quantile"}[binning]
    label = rows.label
    true, predicted = calibration_curve(label, rows.prob, n_bins=bins, strategy=strategy, pos_label=1)
    share = np.linspace(0, 1, bins + 1)
    edges = share if binning == "width" else np.percentile(rows.prob, share * 100)
    count = np.bincount(np.searchsorted(edges[1:-1], rows.prob), minlength=bins)
    oracle = np.average(np.abs(true - predicted), weights=count[count > 0])
    assert ece(rows, Options(bins=bins, binning=binning)).value == pytest.approx(oracle, rel=1e-9, abs=1e-14)


@given(binary_rows(), st.sampled_from([1, 2, 10, 15, 40]))
def test_equal_width_by_definition(rows, bins):
    oracle = plain(rows.label, rows.prob, rows.weight, bins)
    assert ece(rows, Options(bins=bins)).value == pytest.approx(oracle, rel=1e-9, abs=1e-14)


@given(multiclass_rows())
def test_more_classes_take_the_predicted_one(rows):
    measured = ece(rows, Options())
    top = rows.prob.argmax(axis=1)
    right = (top == rows.label).astype(int)
    assert measured.value == pytest.approx(plain(right, rows.prob.max(axis=1), rows.weight, 15), abs=1e-14)
    one_vs_rest = [plain(rows.label == k, rows.prob[:, k], rows.weight, 15) for k in range(rows.classes)]
    assert measured.per_class == pytest.approx(one_vs_rest, abs=1e-14)
    assert measured.definition.reduction == "top label"


@pytest.mark.parametrize("size", [1, 2, 5, 9])
@pytest.mark.parametrize("p", [1e-6, 0.05, 0.5, 0.93, 1 - 1e-9])
def test_the_floor_of_one_bin_by_all_labels(size: int, p: float):
    """The mean over all labels that a calibrated score can have, each as probable as it is."""
    oracle = sum(stats.binom.pmf(ones, size, p) * abs(ones / size - p) for ones in range(size + 1))
    for binning in ("width", "mass"):
        rows = Scored(np.arange(size) % 2, np.full(size, p), np.full(size, 3.0))
        assert ece(rows, Options(binning=binning)).floor == pytest.approx(oracle, rel=1e-6)


@pytest.mark.parametrize(("rows", "weighted"), [(40, False), (400, True), (4000, False)])
def test_the_floor_is_the_mean_of_a_calibrated_score(rows: int, weighted: bool):
    rng = np.random.default_rng(rows)
    prob = 1 / (1 + np.exp(-rng.normal(-2, 1.5, rows)))
    weight = rng.uniform(0.2, 2, rows) if weighted else None
    drawn = [ece(Scored((rng.random(rows) < prob).astype(np.int64), prob, weight), Options()) for _ in range(400)]
    values = [one.value for one in drawn]
    assert [one.floor for one in drawn] == pytest.approx([drawn[0].floor] * 400)  # it does not look at labels
    assert drawn[0].floor == pytest.approx(np.mean(values), rel=0.03, abs=3 * np.std(values) / 20)


@given(binary_rows())
def test_one_bin_is_the_mean_error(rows):
    error = abs(np.average(rows.prob - rows.label, weights=rows.weight))
    assert ece(rows, Options(bins=1)).value == pytest.approx(error, abs=1e-14)


def test_many_rows_are_binned_in_parts_that_fit_together():
    rng = np.random.default_rng(8)
    label, prob = rng.integers(0, 2, 100_003), rng.random(100_003)
    true, predicted = calibration_curve(label, prob, n_bins=15)
    count = np.bincount(np.searchsorted(np.linspace(0, 1, 16)[1:-1], prob))
    oracle = np.average(np.abs(true - predicted), weights=count)
    assert ece(Scored(label, prob), Options()).value == pytest.approx(oracle, rel=1e-12)


def test_the_definition_is_complete():
    definition = ece(Scored(np.array([0, 1]), np.array([0.2, 0.7])), Options(bins=7, binning="mass")).definition
    assert (definition.bins, definition.binning, definition.norm) == (7, "mass", 1.0)
    assert definition.edge == "right-closed, 0 in the first bin"
    assert definition.reduction == "positive class"


@given(any_rows(), st.sampled_from(["width", "mass"]), st.integers(1, 20))
def test_the_family_is_ordered(rows, binning, bins):
    options = Options(bins=bins, binning=binning)
    values = [metric(rows, options).value for metric in (ece, rmsce, mce)]
    assert np.all(np.diff([0.0, *values, 1.0]) > -1e-12)
    if binning == "mass":
        assert ada_ece(rows, Options(bins=bins)).value == rmsce(rows, options).value


@given(multiclass_rows(), st.integers(1, 20))
def test_classwise_is_the_mean_over_classes(rows, bins):
    oracle = [plain(rows.label == k, rows.prob[:, k], rows.weight, bins) for k in range(rows.classes)]
    assert classwise_ece(rows, Options(bins=bins)).value == pytest.approx(np.mean(oracle), abs=1e-12)


@given(binary_rows(), st.sampled_from(CONVENTIONS), st.sampled_from(["width", "mass"]), st.integers(1, 20))
def test_blocks_are_binned_as_rows_are(rows, name, binning, bins):
    options = Options(bins=bins, binning=binning, convention=name)
    if (name, binning) == ("relplot", "mass"):
        with pytest.raises(UsageError, match="relplot has no bins of equal mass"):
            ece(rows, options)
        return
    rule, ties = convention(name), rows.ties
    count = rule.count(bins)
    edges = width_edges(count) if binning == "width" else rule.mass_edges(ties.with_positive_weight, count)
    by_rows, by_blocks = binned_sums(rows, edges, name), tied_sums(ties, options)
    for part in ("weight", "prob", "label"):
        np.testing.assert_allclose(getattr(by_blocks, part), getattr(by_rows, part), rtol=1e-9, atol=1e-9)


@given(binary_rows(), st.integers(1, 20))
def test_quantiles_of_blocks_are_those_of_rows(rows, count):
    edges = mass_edges(rows.prob, count, rows.weight)
    np.testing.assert_allclose(rows.ties.quantiles(count), edges, rtol=1e-9, atol=1e-11)


def test_guo_bins_nothing_at_zero_but_counts_it():
    rows = Scored(np.array([1, 0, 1]), np.array([0.0, 0.0, 0.4]))
    sums = binned_sums(rows, width_edges(5), "guo")
    assert sums.norm(1.0) == pytest.approx(0.6 / 3)
    assert binned_sums(rows, width_edges(5), "calzone").norm(1.0) == pytest.approx(0.6)


def test_a_convention_may_leave_no_row():
    found = ece(Scored(np.array([0, 1]), np.zeros(2)), Options(convention="calzone"))
    assert found.value is None
    assert "leaves out" in found.reason


def test_an_unknown_convention_gets_the_nearest_one():
    with pytest.raises(UsageError, match="did you mean 'sklearn'"):
        Options(convention="sklern")


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


@pytest.mark.parametrize(("classes", "weighted"), [(2, True), (3, False)])
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
    masses = EqualMassSums.of(rows)
    exact = catalog.measure(FAMILY[:1], rows, options)["ece"].value
    assert exact == pytest.approx(0.5, abs=1e-3)
    (found,) = ece.sums(options).finish([ece.sums(options).gather(rows, options)], options)
    assert found.value < 1e-3
    assert exact - found.value <= masses.bound(options)
