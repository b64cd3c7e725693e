"""The numbers of pictures, beside scikit-learn, brute force, simulation and closed forms."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from calcli.diagrams.curve_builder import curve_sums
from calcli.diagrams.curve_sums import FEWEST, CurveSums, problem
from calcli.diagrams.curves import Bands, Binning, Curve, Kind, by_kind
from calcli.metrics.base import Options, Scored
from calcli.metrics.binned import ece
from calcli.metrics.ranking import accuracy
from calcli.numeric.bins import BINS
from tests.support import strategies
from tests.support.curves import classes, sample, traced
from tests.support.drawing import examples

KINDS: tuple[Kind, ...] = ("reliability", "corp", "smooth", "rejection")


def columns(curve: Curve) -> tuple[np.ndarray, ...]:
    return tuple(np.array([getattr(point, name) for point in curve.points]) for name in ("x", "y", "n", "lo", "hi"))


# Bars


@pytest.mark.parametrize("bins", [1, 7, BINS, 100])
@pytest.mark.parametrize(("binning", "strategy"), [("width", "uniform"), ("mass", "quantile")])
def test_bars_are_those_of_scikit_learn(bins: int, binning: Binning, strategy: str) -> None:
    rows = sample()
    x, y, n, _, _ = columns(traced(rows, bins=bins, binning=binning, diagnosed=False))
    happened, said = calibration_curve(rows.label, rows.prob, n_bins=bins, strategy=strategy)
    np.testing.assert_allclose(x, said, rtol=1e-12)
    np.testing.assert_allclose(y, happened, rtol=1e-12)
    assert n.sum() == len(rows)


def test_values_on_edges_belong_to_the_bin_below() -> None:
    rows = Scored(np.array([0, 1, 0, 1, 1]), np.array([0.0, 0.25, 0.5, 0.5, 1.0]))
    curve = traced(rows, bins=4)
    assert curve.edges == ((0.0, 0.25), (0.25, 0.5), (0.75, 1.0))
    assert [point.n for point in curve.points] == [2.0, 2.0, 1.0]
    assert [point.y for point in curve.points] == [0.5, 0.5, 1.0]


def test_bars_with_weights_are_sums_over_rows() -> None:
    rows = sample(weighted=True)
    assert rows.weight is not None
    for point, (begin, end) in zip((curve := traced(rows)).points, curve.edges, strict=True):
        inside = (rows.prob > begin) & (rows.prob <= end)
        weight = rows.weight[inside]
        assert point.n == weight.sum()
        assert point.x == pytest.approx((weight * rows.prob[inside]).sum() / weight.sum(), rel=1e-12)
        assert point.y == pytest.approx((weight * rows.label[inside]).sum() / weight.sum(), rel=1e-12)


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_number_of_the_picture_is_the_ece_of_its_bins(binning: Binning, weighted: bool) -> None:
    rows = sample(slope=2.0, weighted=weighted)
    curve = traced(rows, binning=binning)
    assert curve.error == pytest.approx(ece(rows, Options(bins=BINS, binning=binning)).value, rel=1e-12)
    gaps = math.fsum(point.n * abs(point.y - point.x) for point in curve.points)
    assert curve.error == pytest.approx(gaps / curve.total, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_in_parts_make_the_same_curve(kind: Kind, weighted: bool) -> None:
    rows = problem(sample(weighted=weighted), None if kind == "rejection" else 1)
    whole, parts = curve_sums("raw", None, kind), curve_sums("raw", None, kind)
    whole.add(rows)
    for chosen in np.array_split(np.random.default_rng(1).permutation(len(rows)), 7):
        weight = None if rows.weight is None else rows.weight[chosen]
        parts.add(Scored(rows.label[chosen].astype(np.int8), rows.prob[chosen], weight))
    for one, other in zip(whole.curve().points, parts.curve().points, strict=True):
        assert one.x == pytest.approx(other.x, rel=1e-12)
        assert one.y == pytest.approx(other.y, rel=1e-12)
        assert one.lo == pytest.approx(other.lo, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", [*KINDS, "mass"])
def test_what_was_traced_apart_is_joined(kind: Kind | Literal["mass"]) -> None:
    rows = problem(sample(weighted=True), None if kind == "rejection" else 1)

    def empty() -> CurveSums:
        return curve_sums("raw", None, binning="mass") if kind == "mass" else curve_sums("raw", None, kind)

    whole, joined = empty(), empty()
    for chosen in (slice(0, 300), slice(300, None)):
        part = empty()
        part.add(rows.take(chosen))
        joined.join(part)
        whole.add(rows.take(chosen))
    assert joined.curve() == whole.curve()


def test_rows_in_parts_make_the_same_bins_of_equal_weight() -> None:
    rows = sample(weighted=True)
    made = curve_sums("raw", "1", binning="mass")
    for part in rows.parts():
        made.add(part)
    whole = traced(rows, binning="mass")
    assert made.curve(whole.diagnosis) == whole


# Bands


@pytest.mark.parametrize("bands", ["consistency", "bootstrap"])
def test_the_band_of_a_bar_is_what_drawing_its_rows_anew_gives(bands: Bands) -> None:
    """Broecker & Smith, and the bootstrap, by drawing: the ends may differ by one row, where a quantile is close."""
    rng = np.random.default_rng(2)
    rows = sample(600, slope=1.7)
    curve = traced(rows, bins=6, bands=bands, diagnosed=False)
    for point, (begin, end) in zip(curve.points, curve.edges, strict=True):
        inside = np.flatnonzero((rows.prob > begin) & (rows.prob <= end))
        drawn = rng.choice(inside, (5000, len(inside)))
        labels = rows.label[drawn]
        if bands == "consistency":
            labels = rng.random(drawn.shape) < rows.prob[drawn]
        ends = np.quantile(labels.mean(axis=1), (0.025, 0.975))
        np.testing.assert_allclose((point.lo, point.hi), ends, atol=1.01 / len(inside))


def test_rows_of_equal_weight_have_the_band_of_rows_without() -> None:
    rows = sample(500)
    twice = Scored(rows.label, rows.prob, np.full(len(rows), 2.0))
    for one, other in zip(traced(rows).points, traced(twice).points, strict=True):
        assert (one.x, one.y, one.lo, one.hi) == pytest.approx((other.x, other.y, other.lo, other.hi), abs=1e-12)
        assert other.n == 2 * one.n


def test_the_band_of_weighted_rows_is_as_wide_as_drawing_them_gives() -> None:
    rng = np.random.default_rng(3)
    prob, weight = np.full(400, 0.3), rng.exponential(1.0, 400)
    point = traced(Scored((rng.random(400) < prob).astype(np.int64), prob, weight), bins=2).points[0]
    labels = rng.random((20_000, 400)) < prob
    ends = np.quantile((labels * weight).sum(axis=1) / weight.sum(), (0.025, 0.975))
    np.testing.assert_allclose((point.lo, point.hi), ends, atol=0.01)


def test_without_bands_there_are_none_and_the_rest_is_the_same() -> None:
    for kind in KINDS:
        with_bands, without = traced(sample(slope=2.0), kind), traced(sample(slope=2.0), kind, bands="none")
        assert {(point.lo, point.hi) for point in without.points} == {(None, None)}
        assert [(p.x, p.y, p.n, p.off) for p in without.points] == [(p.x, p.y, p.n, p.off) for p in with_bands.points]
        assert without.chance == with_bands.chance


def test_what_is_beyond_chance_is_outside_the_band_and_no_single_row() -> None:
    rows = sample(400, slope=2.0)
    for point in traced(rows).points:
        assert point.lo is not None
        assert point.hi is not None
        assert point.off == (point.n >= FEWEST and not point.lo <= point.y <= point.hi)
    sure_and_wrong = Scored(np.array([0, *rows.label]), np.array([0.99999, *rows.prob]))
    assert not traced(sure_and_wrong).points[-1].off or traced(rows).points[-1].off


def test_an_over_confident_score_is_not_put_down_to_chance() -> None:
    """Whatever is drawn: the diagnosis, which tests of its own hold against labels drawn anew, comes with the curve."""
    for kind in KINDS:
        assert not traced(sample(2000, slope=2.0), kind).chance
        assert traced(sample(2000), kind).chance


# Rejection


def brute_rejection(rows: Scored, share: float) -> tuple[float, float]:
    """The surest rows up to the share that is left; of equally sure ones an equal part of each."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    left = (1 - share) * weight.sum()
    kept = wrong = said = 0.0
    for doubt in np.unique(1 - rows.prob):
        tied = 1 - rows.prob == doubt
        part = min(1.0, (left - kept) / weight[tied].sum())
        kept += part * weight[tied].sum()
        wrong += part * (weight[tied] * (1 - rows.label[tied])).sum()
        said += part * weight[tied].sum() * doubt
        if part < 1:
            break
    return wrong / left, said / left


@pytest.mark.parametrize("weighted", [False, True])
def test_rejection_with_ties(weighted: bool) -> None:
    rows = sample(500, slope=2.0, weighted=weighted)
    rows = Scored(rows.label, np.round(rows.prob * 32) / 32, rows.weight)
    curve, rows = traced(rows, "rejection", diagnosed=False), problem(rows, None)
    assert [point.x for point in curve.points] == pytest.approx(np.arange(100) / 100)
    for point in curve.points:
        rate, said = brute_rejection(rows, point.x)
        assert point.y == pytest.approx(rate, abs=1e-12)
        assert point.lo is not None
        assert point.hi is not None
        assert point.lo - 1e-12 <= said <= point.hi + 1e-12


@pytest.mark.slow
def test_rejection_without_ties_to_a_thousandth_of_the_doubt() -> None:
    rows = sample(3000, slope=2.0)
    for point in traced(rows, "rejection").points:
        rate, _ = brute_rejection(problem(rows, None), point.x)
        assert point.y == pytest.approx(rate, abs=0.003 / (1 - point.x))


def test_before_anything_is_rejected_the_error_rate_is_one_minus_the_accuracy() -> None:
    for rows in (sample(slope=2.0, weighted=True), classes()):
        assert traced(rows, "rejection").error == pytest.approx(1 - accuracy(rows, Options()).value, rel=1e-12)


def test_nothing_is_gained_by_rejecting_in_any_order() -> None:
    rng = np.random.default_rng(6)
    made = curve_sums("raw", None, "rejection")
    made.add(Scored(np.tile([1, 0], 500), np.repeat(rng.random(500), 2)))
    assert [point.y for point in made.curve().points] == pytest.approx([0.5] * 100, abs=1e-12)


# Problems


def test_the_predicted_class_of_two() -> None:
    rows = Scored(np.array([1, 0, 1, 0]), np.array([0.9, 0.8, 0.5, 0.2]))
    top = problem(rows, None)
    assert top.prob.tolist() == [0.9, 0.8, 0.5, 0.8]
    assert top.label.tolist() == [1, 0, 0, 1]  # at 0.5 the first class is predicted


def test_the_predicted_class_of_more() -> None:
    rows = classes()
    top = problem(rows, None)
    np.testing.assert_array_equal(top.prob, rows.prob.max(axis=1))
    np.testing.assert_array_equal(top.label, rows.prob.argmax(axis=1) == rows.label)


def test_each_class_against_the_rest() -> None:
    rows = classes()
    for index in range(3):
        one = problem(rows, index)
        np.testing.assert_array_equal(one.label, rows.label == index)
        np.testing.assert_array_equal(one.prob, rows.prob[:, index])
    two = sample()
    np.testing.assert_array_equal(problem(two, 0).prob, 1 - two.prob)
    np.testing.assert_array_equal(problem(two, 0).label, 1 - two.label)


# What is not as usual


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("binning", ["width", "mass"])
def test_without_rows_there_is_no_curve(kind: Kind, binning: Binning) -> None:
    nothing = Scored(np.zeros(0, np.int64), np.zeros(0))
    weightless = Scored(np.array([0, 1]), np.array([0.2, 0.3]), np.zeros(2))
    for rows in (nothing, weightless):
        assert traced(rows, kind, binning=binning).points == ()
    assert curve_sums("raw", None, kind, binning=binning).curve().points == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("binning", ["width", "mass"])
def test_a_constant_score_is_one_point(kind: Kind, value: float, binning: Binning) -> None:
    rows = Scored(np.array([0, 1, 1, 0]), np.full(4, value))
    curve = traced(rows, kind, binning=binning)
    if kind == "rejection":
        assert {round(point.y, 12) for point in curve.points} == {0.5}
        return
    assert {round(point.x, 9) for point in curve.points} == {value}
    assert {round(point.y, 9) for point in curve.points} == {0.5}


@examples(24)
@given(
    st.data(), st.sampled_from(KINDS), st.sampled_from(["width", "mass"]), st.sampled_from(["consistency", "bootstrap"])
)
def test_every_number_is_one(data: st.DataObject, kind: Kind, binning: Binning, bands: Bands) -> None:
    rows = data.draw(strategies.binary_rows())
    curve = traced(rows, kind, binning=binning, bands=bands, diagnosed=False)
    assert all(after.x >= before.x - 1e-12 for before, after in pairwise(curve.points))
    assert 0.0 <= curve.error <= 1.0
    for point in curve.points:
        assert point.lo is not None
        assert point.hi is not None
        assert -1e-12 <= point.lo <= point.hi <= 1.0 + 1e-12
        assert -1e-12 <= point.x <= 1.0 + 1e-12
        assert -1e-12 <= point.y <= 1.0 + 1e-12
        assert point.n > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_weighs_next_to_nothing(kind: Kind) -> None:
    rows = Scored(np.array([1, 0, 1]), np.array([0.2, 0.5, 0.9]), np.array([1.0, 1.0, 1e-180]))
    for point in traced(rows, kind).points:
        assert math.isfinite(point.y)
        assert point.lo is not None
        assert math.isfinite(point.lo)


def test_the_report_has_the_points_by_what_they_are() -> None:
    bars, rejection = traced(sample()), traced(sample(), "rejection")
    found = by_kind([bars, rejection])
    assert len(found["reliability"]) == len(bars.points)
    assert len(found["rejection"]) == 100
    point = bars.points[3]
    numbers = {name: getattr(point, name) for name in ("x", "y", "n", "lo", "hi")}
    assert found["reliability"][3] == {"score": "raw", "class": "1", **numbers}
