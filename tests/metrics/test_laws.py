"""What holds for every metric in the catalog."""

import json
from dataclasses import asdict, replace
from math import isfinite

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calcli.metrics import catalog
from calcli.metrics.base import Measured, Options, Scored
from tests.support.drawing import examples
from tests.support.strategies import any_rows, binary_rows, weights

UNSHUFFLED = [metric.name for metric in catalog.specs() if metric.family != "shuffled"]
FEW = Options(views=3)

COUNTED = ("nll", "brier", "d2_nll", "d2_brier", "auc", "prr", "ece", "brier_sum", "net_benefit", "accuracy", "pr_auc",
           "rmsce", "mce", "classwise_ece", "smooth_ece", "ici", "pud", "o_e", "slope", "intercept",
           "brier_reliability", "brier_resolution", "brier_uncertainty", "cece", "cece_ada", "cece_mce", "rps",
           "cumulative_ece")  # fmt: skip
"""Where a weight says how often a row was seen; others take it for how much one row stands for."""

SIDED = {"pr_auc", "pud", "o_e", "net_benefit", "accuracy", "prr", "intercept", "ada_ece", "ece_sweep", "ece_debiased",
         "hosmer_lemeshow"}  # fmt: skip
"""What looks at the positive class alone, or cuts bins of equal mass at values, on one side of them."""

UNDEFINED = {
    "d2_nll",
    "d2_brier",
    "auc",
    "prr",
    "pr_auc",
    "pud",
    "o_e",
    "slope",
    "intercept",
    "ecce",
    "hosmer_lemeshow",
    "spiegelhalter_z",
    "tv",
}
"""What may have no value where there is a single prediction or class, or the rows that are linked weigh nothing."""

EDGES = np.array([[0, 1], [0, 2], [1, 2]])

briefly = examples(6)  # rows are drawn once, and the law is tried on every metric of them


def measured(name: str, rows: Scored, options: Options = FEW) -> Measured:
    return catalog.measure([catalog.find(name)], rows, options)[name]


FLAT = {"slope": 1e-6}
"""Where predictions all but separate the classes, rounding a weight moves the slope by a hundred million times as
much."""


def same(one: Measured, other: Measured, rel: float = 1e-9) -> bool:
    """Equal numbers, up to the order in which they were added up."""

    def near(a, b):
        return a == b if a is None or b is None else a == pytest.approx(b, rel=rel, abs=1e-12)

    classes = zip(one.per_class or (), other.per_class or (), strict=True)
    return near(one.value, other.value) and near(one.floor, other.floor) and all(near(a, b) for a, b in classes)


def with_weight(rows: Scored, weight) -> Scored:
    return replace(rows, weight=weight)


@briefly
@given(any_rows(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, random):
    order = np.array(random.sample(range(len(rows)), len(rows)))
    for name in UNSHUFFLED:
        assert same(measured(name, rows), measured(name, rows.take(order))), name


SURE = Scored(np.repeat([0, 1], [11, 5]), np.repeat([0.0, 1.0], [11, 5]))
"""Predictions of exactly 0 and 1 that are all right: the loss is all but flat in the intercept."""

SURE_AND_INSIDE = Scored(np.repeat([0, 1], [11, 5]), np.repeat([0.0, 1e-9, 1 - 1e-9, 1.0], [8, 3, 2, 3]))


@briefly
@example(SURE, 0.01)
@example(SURE_AND_INSIDE, 0.01)
@given(any_rows(), st.floats(0.01, 100))
def test_the_scale_of_weights_does_not_matter(rows, scale):
    scaled = with_weight(rows, scale * (rows.weights))
    for name in catalog.names():
        assert same(measured(name, rows), measured(name, scaled), FLAT.get(name, 1e-9)), name


@briefly
@given(any_rows(weighted=True), st.integers(0, 2**32 - 1))
def test_rows_of_weight_zero_count_for_nothing(rows, seed):
    rng = np.random.default_rng(seed)
    twice = rows.take(np.tile(np.arange(len(rows)), 2))
    more = replace(
        twice,
        label=np.concatenate([rows.label, rng.permutation(rows.label)]),
        prob=np.concatenate([rows.prob, rng.permutation(rows.prob)]),
        weight=np.concatenate([rows.weight, np.zeros(len(rows))]),
    )
    for name in catalog.names():
        assert same(measured(name, rows), measured(name, more)), name


@briefly
@given(any_rows(weighted=False), st.data())
def test_a_row_of_weight_two_is_two_rows(rows, data):
    count = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows))))
    repeated = rows.take(np.repeat(np.arange(len(rows)), count))
    for name in COUNTED:
        weighted, twice = measured(name, with_weight(rows, count.astype(float))), measured(name, repeated)
        if name in {"ece", "cece", "cece_ada"}:  # their floors take a weight for how much one row stands for
            weighted, twice = replace(weighted, floor=None), replace(twice, floor=None)
        assert same(weighted, twice), name


@briefly
@given(binary_rows(), st.data())
def test_a_soft_label_is_the_rows_that_its_share_is_of(rows, data):
    """Of each row two halves that are a unit: those of labels 0 and 1 are the row, of quarters they are four rows."""
    place = np.arange(len(rows))
    halves = replace(rows.take(np.repeat(place, 2)), label=np.tile([1, 0], len(rows)), units=np.repeat(place, 2))
    own = with_weight(halves, np.column_stack([rows.label, 1 - rows.label]).ravel() * np.repeat(rows.weights, 2))
    for name in catalog.names():
        assert same(measured(name, replace(rows, units=place)), measured(name, own)), name
    share = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows))))
    soft = with_weight(halves, np.column_stack([share, 4 - share]).ravel().astype(float))
    four = replace(rows.take(np.repeat(place, 4)), label=(np.arange(4) < share[:, None]).astype(int).ravel())
    four = replace(four, weight=None, units=np.repeat(place, 4))
    for name in COUNTED:
        one, other = (replace(measured(name, each), floor=None) for each in (soft, four))
        assert same(one, other, FLAT.get(name, 1e-9)), name


@briefly
@given(binary_rows(), st.data())
def test_swapping_the_classes(rows, data):
    """P(negative) scores the negative class as P(positive) does the positive: off the edges, where bins differ."""
    prob = np.array(data.draw(st.lists(st.integers(1, 97), min_size=len(rows), max_size=len(rows)))) / 98
    rows = replace(rows, prob=prob)
    options = Options(bins=5)
    for name in sorted({*catalog.names()} - SIDED - {"mvce"}):
        assert same(measured(name, rows, options), measured(name, rows.one_vs_rest(0), options)), name


@briefly
@given(any_rows(), st.sampled_from(["width", "mass"]), st.data())
def test_never_nan_whatever_the_weights(rows, binning, data):
    scale = data.draw(st.sampled_from([1.0, 1e300, 1e-320]))
    weight = scale * data.draw(weights(len(rows)))
    for name in catalog.names():
        found = measured(name, with_weight(rows, weight), Options(binning=binning, views=3))
        assert found.value is not None or found.reason, name
        numbers = (found.value, found.floor, found.p, found.lo, found.hi, *(found.per_class or ()))
        assert all(value is None or isfinite(value) for value in numbers), name


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("rows", "weight"), [(0, None), (2, np.zeros(2))])
def test_without_rows_or_weight_there_is_a_reason_and_no_number(classes, rows, weight):
    prob = np.full(rows, 0.5) if classes == 2 else np.full((rows, classes), 1 / classes)
    for name in catalog.names():
        found = measured(name, Scored(np.zeros(rows, dtype=np.int64), prob, weight))
        assert found.value is None, name
        assert found.reason == ("there are no rows" if weight is None else "the weights add up to zero"), name


@briefly
@given(any_rows(least=3))
def test_a_single_value_is_measured_too(rows):
    constant = replace(rows, prob=np.broadcast_to(rows.prob[:1], rows.prob.shape).copy(), edges=EDGES)
    for name in catalog.names():
        found = measured(name, constant)
        assert found.value is not None or (name in UNDEFINED and found.reason), name
        if name == "auc" and found.value is not None:
            assert found.value == pytest.approx(0.5, abs=1e-12)


@briefly
@given(any_rows())
def test_a_definition_can_be_written_down(rows):
    for name in catalog.names():
        definition = asdict(measured(name, rows).definition)
        assert json.loads(json.dumps(definition, allow_nan=False)) == definition
        assert definition["direction"] == catalog.find(name).direction


@briefly
@given(any_rows(), st.sampled_from(["width", "mass"]))
def test_labels_of_one_byte_are_labels(rows, binning):
    """Sums over many bins do not fit into the byte."""
    narrow = replace(rows, label=rows.label.astype(np.int8))
    options = Options(bins=300, binning=binning, views=3)
    for name in catalog.names():
        assert same(measured(name, narrow, options), measured(name, rows, options)), name


@briefly
@given(any_rows(least=2), st.integers(0, 2**32 - 1))
def test_a_definition_holds_for_every_score_of_the_same_rows(rows, seed):
    rng = np.random.default_rng(seed)
    scores = [rows] + [replace(rows, prob=rng.permutation(rows.prob)) for _ in range(2)]
    for name in catalog.names():
        chosen = [catalog.find(name)]
        options = catalog.settled(chosen, scores, Options(views=2, bin_size=2))
        first, *others = (catalog.measure(chosen, one, options)[name].definition for one in scores)
        assert all(other == first for other in others), name


@briefly
@given(any_rows())
def test_metrics_leave_the_rows_as_they_are(rows):
    before = rows.label.copy(), rows.prob.copy(), None if rows.weight is None else rows.weight.copy()
    for name in catalog.names():
        measured(name, rows, Options(mvce="sampled", views=2))
    np.testing.assert_array_equal(rows.label, before[0])
    np.testing.assert_array_equal(rows.prob, before[1])
    if rows.weight is not None:
        np.testing.assert_array_equal(rows.weight, before[2])
