from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.metrics.base import Options, Scored
from calcli.metrics.binned import ece
from calcli.metrics.multi_view import ErrorSums, closed, closed_floor, default_bin_size, mvce, sampled, sampled_floor
from tests.support.strategies import any_rows, binary_rows, multiclass_rows


def views(errors, weight, bins, rounds, seed=0) -> np.ndarray:
    """The paper's definition, by a loop: shuffle, cut, mean over bins of the |weighted mean error|."""
    rng = np.random.default_rng(seed)
    begins = [part[0] for part in np.array_split(np.arange(len(errors)), bins)]
    sums = [np.add.reduceat(rng.permutation(weight * errors), begins) for _ in range(rounds)]
    return np.abs(sums).sum(axis=1) / weight.sum()


def rows_of(n, *, shift=0.0, spread=1.0, base=0.0, weighted=False, seed=0) -> Scored:
    """Labels from log-odds around `base`, predictions shifted and stretched from the truth."""
    rng = np.random.default_rng(seed)
    z = rng.normal(base, 1.0, n)
    label = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.int64)
    weight = rng.gamma(2.0, size=n) if weighted else None
    return Scored(label, 1 / (1 + np.exp(-(base + spread * (z - base) + shift))), weight)


SHAPES = {
    "calibrated": {"n": 4000},
    "calibrated, weighted": {"n": 4000, "weighted": True},
    "slightly too high": {"n": 4000, "shift": 0.1},
    "slightly too high, weighted": {"n": 4000, "shift": 0.1, "weighted": True},
    "much too low": {"n": 4000, "shift": -1.0},
    "over-confident": {"n": 4000, "spread": 3.0},
    "under-confident and rare": {"n": 6000, "spread": 0.2, "base": -2.5},
    "rare": {"n": 6000, "base": -2.5, "shift": 0.2},
    "common": {"n": 5000, "base": 2.0},
    "rows that 32 does not divide": {"n": 3333, "shift": 0.05, "weighted": True},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_closed_form_is_what_1500_shuffles_give(shape):
    rows = rows_of(**shape)
    weight = rows.weights
    brute = views(rows.prob - rows.label, weight, 32, 1500)
    for norm in (1.0, 2.0):
        measured = mvce(rows, Options(norm=norm))
        assert measured.definition.views is None
        assert measured.value == pytest.approx((brute**norm).mean() ** (1 / norm), rel=0.03)


@pytest.mark.parametrize(("mean", "bins"), [(0.0, 25), (0.05, 2), (0.2, 4), (0.2, 25)])
def test_the_closed_form_knows_the_variance_of_a_view(mean, bins):
    rng = np.random.default_rng(4)
    errors = np.clip(rng.normal(0.0, 0.3, 1000), -0.7, 0.7)
    errors += mean - errors.mean()
    sums = ErrorSums(rows=1000, negative=1000, error=errors.sum(), square=np.square(errors).sum())
    brute = views(errors, np.ones(1000), bins, 4000)
    assert closed(sums, bins, 1.0) == pytest.approx(brute.mean(), rel=0.015)
    variance = closed(sums, bins, 2.0) ** 2 - closed(sums, bins, 1.0) ** 2
    assert variance == pytest.approx(brute.var(), rel=0.1, abs=1e-7)


@pytest.mark.parametrize(("norm", "weighted"), [(1.0, False), (2.0, True), (3.5, False)])
def test_sampling_converges_to_the_mean_over_all_shuffles(norm, weighted):
    label, prob = np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.4, 0.9, 0.6, 0.3])
    weight = np.random.default_rng(2).uniform(0.5, 2, 5) if weighted else None
    w = np.ones(5) if weight is None else weight
    cuts = [slice(0, 1), slice(1, 3), slice(3, 5)]  # three bins of five rows: their sizes differ by one at most
    every = [
        sum(abs((w * (prob - label))[list(order[cut])].sum()) for cut in cuts) / w.sum()
        for order in permutations(range(5))
    ]
    exact = np.mean(np.array(every) ** norm) ** (1 / norm)
    found = sampled(Scored(label, prob, weight), 3, 20_000, norm, np.random.default_rng(0))
    assert found == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("shape", ["calibrated", "calibrated, weighted", "over-confident", "rare"])
def test_the_floor_is_that_of_labels_drawn_from_the_score(shape):
    rows = rows_of(**SHAPES[shape])
    drawn = sampled_floor(rows, 32, 400, 2.0, np.random.default_rng(0))
    assert closed_floor(ErrorSums.of(rows), 32, 2.0) == pytest.approx(drawn, rel=0.03)


def test_the_floor_has_no_mean_error():
    """With two bins that is most of it: free means would make it sqrt(2) times as high."""
    rows = rows_of(400)
    drawn = sampled_floor(rows, 2, 3000, 2.0, np.random.default_rng(0))
    assert closed_floor(ErrorSums.of(rows), 2, 2.0) == pytest.approx(drawn, rel=0.05)


def test_a_calibrated_score_shows_its_floor():
    rows = rows_of(200_000)
    measured = mvce(rows, Options())
    assert measured.definition.bins == 200
    assert measured.value == pytest.approx(measured.floor, rel=0.03)


def test_symmetric_over_confidence_is_invisible_to_it():
    rows = rows_of(200_000, spread=3.0)
    errors = rows.prob - rows.label
    noise = np.sqrt(2 / np.pi * errors.var() / 1000)
    assert mvce(rows, Options()).value == pytest.approx(noise, rel=0.02)
    assert ece(rows, Options()).value > 0.1


@pytest.mark.parametrize("weighted", [False, True])
def test_neither_the_order_of_rows_nor_which_class_is_positive_matters(weighted):
    rows = rows_of(3000, shift=0.2, weighted=weighted)
    order = np.random.default_rng(0).permutation(3000)
    shuffled = Scored(rows.label[order], rows.prob[order], None if rows.weight is None else rows.weight[order])
    expected = mvce(rows, Options())
    assert expected.definition.views is None
    for other in (shuffled, rows.one_vs_rest(0)):
        found = mvce(other, Options())
        assert (found.value, found.floor) == pytest.approx((expected.value, expected.floor), rel=1e-9)


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8, unique=True), st.integers(2, 50))
def test_where_the_mean_error_is_zero_it_orders_as_the_squared_error_does(squares, bins):
    found = [closed(ErrorSums(rows=1000, negative=1000, square=1000 * square), bins, 2.0) for square in sorted(squares)]
    assert found == sorted(found)
    leading = [np.sqrt(2 / np.pi * (square * 1000 / 999) * bins / 1000 * (1 - 1 / bins)) for square in sorted(squares)]
    assert found == pytest.approx(leading, rel=0.6 / bins)


def test_with_a_rare_label_it_samples():
    rows = rows_of(40_000, base=-7.0)
    measured = mvce(rows, Options())
    assert (measured.definition.bins, measured.definition.views) == (40, 100)
    assert "rarer label" in measured.definition.approximation
    brute = views(rows.prob - rows.label, np.ones(len(rows)), 40, 200)
    assert measured.value == pytest.approx(np.sqrt(np.square(brute).mean()), rel=0.03)
    assert measured.value == pytest.approx(measured.floor, rel=0.15)


def test_sampling_in_place_of_the_closed_form_stops_when_it_is_precise_enough():
    rows = rows_of(40_000, base=-4.0)
    assert mvce(rows, Options(bin_size=20)).definition.views == 10  # 2000 bins in each
    assert mvce(rows, Options(bin_size=20, mvce="sampled")).definition.views == 100
    assert mvce(rows, Options(bin_size=20, views=3)).definition.views == 3


def test_weights_can_make_a_label_rare():
    rows = rows_of(4000)
    weight = np.ones(4000)
    weight[np.flatnonzero(rows.label)[0]] = 1e6  # now one positive row outweighs all others
    assert mvce(rows, Options()).definition.views is None
    assert mvce(Scored(rows.label, rows.prob, weight), Options()).definition.views == 100


def test_scores_side_by_side_are_all_sampled_if_one_must_be():
    """Of three classes, one score's predicted class is never wrong: its rarer label is the one that does not occur."""
    rng = np.random.default_rng(0)
    prob = rng.dirichlet(np.ones(3), 2000)
    label = prob.argmax(axis=1)
    right, other = Scored(label, prob), Scored(label, rng.permutation(prob))
    assert mvce(other, Options()).definition.views is None
    assert mvce(right, Options()).definition.views is not None
    options = mvce.settled([right, other], Options())
    one, two = mvce(right, options), mvce(other, options)
    assert one.definition == two.definition
    assert "sampled" in two.definition.approximation
    assert two.value == pytest.approx(mvce(other, Options()).value, rel=0.03)


def test_other_norms_are_sampled():
    measured = mvce(rows_of(4000), Options(norm=4.0, views=20))
    assert measured.definition.views == 20
    assert measured.value >= mvce(rows_of(4000), Options(norm=1.0)).value * 0.97


def test_the_seed_decides_what_is_sampled():
    rows = rows_of(2000)
    first, again, other = (mvce(rows, Options(mvce="sampled", seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first.value != other.value
    assert first.value == pytest.approx(other.value, rel=0.1)
    assert first.floor == pytest.approx(other.floor, rel=0.1)


@given(multiclass_rows())
def test_more_classes_take_the_predicted_one(rows):
    measured, top = mvce(rows, Options(views=5)), mvce(rows.top, Options(views=5))
    assert (measured.value, measured.floor) == (top.value, top.floor)
    assert measured.definition.reduction == "top label"


@given(binary_rows(), st.sampled_from([1.0, 2.0, 3.0]))
def test_one_bin_is_the_absolute_mean_error(rows, norm):
    measured = mvce(rows, Options(bin_size=1e6, norm=norm))
    assert measured.value == pytest.approx(abs(np.average(rows.prob - rows.label, weights=rows.weight)), abs=1e-12)
    assert (measured.definition.bins, measured.definition.views, measured.floor) == (1, None, 0.0)


@given(binary_rows())
def test_bins_of_one_row_are_the_mean_absolute_error(rows):
    measured = mvce(rows, Options(bin_size=1, mvce="sampled", views=3))
    error = np.average(np.abs(rows.prob - rows.label), weights=rows.weight)
    assert measured.value == pytest.approx(error, abs=1e-12)


@given(any_rows())
def test_it_lies_between_the_mean_error_and_one(rows):
    measured = mvce(rows, Options(views=3))
    top = rows.top
    assert abs(np.average(top.prob - top.label, weights=top.weight)) - 1e-12 <= measured.value <= 1 + 1e-12
    assert measured.floor >= 0


def test_all_weight_on_one_row_is_that_row():
    rows = rows_of(500)
    weight = np.zeros(500)
    weight[17] = 3.0
    measured = mvce(Scored(rows.label, rows.prob, weight), Options())
    assert measured.value == pytest.approx(abs(rows.prob[17] - rows.label[17]))


@pytest.mark.parametrize("label", [0, 1])
def test_constant_errors_are_their_size(label):
    measured = mvce(Scored(np.full(5000, label), np.full(5000, 0.25)), Options())
    assert measured.value == pytest.approx(abs(0.25 - label), rel=1e-9)


@pytest.mark.parametrize(
    ("rows", "size"), [(1, 1.0), (32, 1.0), (64, 2.0), (31_999, 31_999 / 32), (32_000, 1000.0), (10**7, 1000.0)]
)
def test_the_default_size_of_a_bin(rows, size):
    assert default_bin_size(rows) == size


def test_the_definition_is_complete():
    definition = mvce(rows_of(2500), Options(bin_size=1000)).definition
    assert (definition.bins, definition.bin_size, definition.norm) == (2, 1250.0, 2.0)
    assert (definition.binning, definition.reduction) == ("shuffled", "positive class")
    assert "closed form" in definition.approximation
