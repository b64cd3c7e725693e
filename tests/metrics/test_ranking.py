from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from sklearn.metrics import accuracy_score, average_precision_score, roc_auc_score

from calcli.metrics import catalog
from calcli.metrics.base import Folds, Options, Scored
from calcli.metrics.ranking import accuracy, auc, pr_auc, prr
from tests.support.scored import gathered, rows_of
from tests.support.strategies import any_rows, binary_rows, multiclass_rows

DEFAULT = Options()


def pairs(rows: Scored) -> Fraction | None:
    """By the definition: over all pairs of a positive and a negative row, in rational numbers."""
    weight = [Fraction(float(w)) for w in rows.weights]
    above = total = Fraction(0)
    for i in np.flatnonzero(rows.label == 1):
        for j in np.flatnonzero(rows.label == 0):
            mass = weight[i] * weight[j]
            total += mass
            above += mass * Fraction(int(np.sign(rows.prob[i] - rows.prob[j])) + 1, 2)
    return above / total if total else None


@given(binary_rows(weighted=False))
def test_without_weights_it_is_exact(rows):
    exact = pairs(rows)
    assert auc(rows, DEFAULT).value == (None if exact is None else float(exact))


@given(binary_rows(weighted=True))
def test_with_weights_it_is_right_to_rounding(rows):
    exact = pairs(rows)
    assert auc(rows, DEFAULT).value == (None if exact is None else pytest.approx(float(exact), rel=1e-12, abs=1e-14))


@given(binary_rows())
def test_two_classes_as_in_scikit_learn(rows):
    assume(pairs(rows) is not None)
    oracle = roc_auc_score(rows.label, rows.prob, sample_weight=rows.weight)
    assert auc(rows, DEFAULT).value == pytest.approx(oracle, rel=1e-9, abs=1e-12)


@given(multiclass_rows(least=5))
def test_more_classes_as_in_scikit_learn(rows):
    held = np.unique(rows.label[rows.weight > 0] if rows.weight is not None else rows.label)
    assume(len(held) == rows.classes)
    oracle = roc_auc_score(
        rows.label, rows.prob, sample_weight=rows.weight, multi_class="ovr", average="macro", labels=range(rows.classes)
    )
    measured = auc(rows, DEFAULT)
    assert measured.value == pytest.approx(oracle, rel=1e-9, abs=1e-12)
    assert measured.reason is None


def test_negative_zero_ties_with_zero():
    rows = Scored(np.array([0, 1]), np.array([0.0, -0.0]))
    assert auc(rows, DEFAULT).value == 0.5
    weighted = Scored(rows.label, rows.prob, np.ones(2))
    assert auc(weighted, DEFAULT).value == 0.5


def test_neighbouring_floats_do_not_tie():
    low = 0.3
    rows = Scored(np.array([0, 1, 0, 1]), np.array([low, np.nextafter(low, 1), np.nextafter(low, 0), low]))
    assert auc(rows, DEFAULT).value == float(pairs(rows))


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_alone_has_no_area(label):
    measured = auc(Scored(np.full(4, label), np.linspace(0, 1, 4)), DEFAULT)
    assert measured.value is None
    assert measured.reason == "the rows are all of one class"


def test_a_class_with_weight_zero_is_absent():
    measured = auc(Scored(np.array([0, 1, 1]), np.array([0.1, 0.2, 0.3]), np.array([0.0, 1.0, 2.0])), DEFAULT)
    assert measured.value is None


def test_a_class_that_does_not_occur_is_left_out_of_the_mean_and_named():
    prob = np.array([[0.7, 0.2, 0.1, 0.0], [0.1, 0.8, 0.1, 0.0], [0.5, 0.3, 0.1, 0.1]])
    measured = auc(Scored(np.array([0, 1, 1]), prob), DEFAULT)
    assert measured.per_class == (1.0, 1.0, None, None)
    assert measured.value == 1.0
    assert measured.reason == "mean over 2 classes; not defined for class 2, 3"


@pytest.mark.parametrize("distinct", [1, 2, 500, 10**7])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_rows_with_many_ties(weighted, distinct):
    """Ties that go on over several of the spans in which rows are looked at."""
    rng = np.random.default_rng(3)
    label, prob = rng.integers(0, 2, 100_000), rng.integers(0, distinct, 100_000) / distinct
    weight = rng.uniform(0.1, 2, 100_000) if weighted else None
    oracle = roc_auc_score(label, prob, sample_weight=weight)
    assert auc(Scored(label, prob, weight), DEFAULT).value == pytest.approx(oracle, rel=1e-11)


@given(binary_rows())
def test_average_precision_as_in_scikit_learn(rows):
    measured = pr_auc(rows, DEFAULT)
    positive = (rows.label if rows.weight is None else rows.label * rows.weight).sum()
    if positive == 0:
        assert (measured.value, measured.reason) == (None, "no row is positive")
        return
    oracle = average_precision_score(rows.label, rows.prob, sample_weight=rows.weight)
    assert measured.value == pytest.approx(oracle, rel=1e-9, abs=1e-12)


@given(multiclass_rows())
def test_average_precision_of_more_classes_is_the_mean(rows):
    held = np.unique(rows.label if rows.weight is None else rows.label[rows.weight > 0])
    oracle = [average_precision_score(rows.label == k, rows.prob[:, k], sample_weight=rows.weight) for k in held]
    assert pr_auc(rows, DEFAULT).value == pytest.approx(np.mean(oracle), rel=1e-9)


@given(any_rows())
def test_accuracy_as_in_scikit_learn(rows):
    predicted = (rows.prob > 0.5).astype(int) if rows.binary else rows.prob.argmax(axis=1)
    oracle = accuracy_score(rows.label, predicted, sample_weight=rows.weight)
    assert accuracy(rows, DEFAULT).value == pytest.approx(oracle, rel=1e-12)


def test_a_tie_between_two_classes_goes_to_the_first():
    assert accuracy(Scored(np.array([0, 1]), np.array([0.5, 0.5])), DEFAULT).value == 0.5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_folds_are_ranked_apart(classes, weighted):
    """What a monotone map of each fold does to the scores changes nothing, and sums say the same."""
    rows = rows_of(900, classes=classes, weighted=weighted)
    folds = Folds(np.random.default_rng(0).integers(0, 4, 900), 4)
    power = np.array([0.3, 1.0, 2.0, 5.0])[folds.fold_of]
    mapped = rows.prob**power if classes == 2 else rows.prob ** power[:, None]
    for metric in (auc, pr_auc):
        one = metric(replace(rows, folds=folds), DEFAULT).value
        assert metric(replace(rows, prob=mapped, folds=folds), DEFAULT).value == pytest.approx(one, rel=1e-12)
        assert metric(replace(rows, prob=mapped), DEFAULT).value != pytest.approx(one, rel=1e-3)
    (found,) = gathered([replace(rows, folds=folds)], [catalog.find("auc")], DEFAULT, [400]).measured()
    bound = float(found["auc"].definition.approximation.rpartition(" ")[2])
    assert found["auc"].value == pytest.approx(auc(replace(rows, folds=folds), DEFAULT).value, abs=bound)


def test_prr_of_folds_is_their_mean_weighted_by_pairs():
    rows = rows_of(500)
    place = np.random.default_rng(1).integers(0, 3, 500)
    known = []
    for index in range(3):
        part = rows.take(place == index)
        right = ((part.prob > 0.5) == (part.label == 1)).sum()
        known.append((prr(part, DEFAULT).value, right * (len(part) - right)))
    expected = np.average([one for one, _ in known], weights=[pairs for _, pairs in known])
    assert prr(replace(rows, folds=Folds(place, 3)), DEFAULT).value == pytest.approx(expected, rel=1e-12)
