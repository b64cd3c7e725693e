"""Counts and rates beside scikit-learn's, and what units take away from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, confusion_matrix, precision_score, recall_score

from calcli.decisions.measure import Rows, rates_of
from calcli.decisions.targets import NEVER, RATES, Decided, decided, expected, grid


def rows(seed: int = 0, count: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities with ties, labels, and whole weights."""
    rng = np.random.default_rng(seed)
    prob = rng.integers(0, 41, count) / 40
    return prob, (rng.random(count) < prob).astype(np.int64), rng.integers(1, 5, count).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_and_rates_are_those_of_scikit_learn(weighted: bool) -> None:
    prob, label, weight = rows()
    weight = weight if weighted else None
    thresholds = np.array([0.0, 0.2, 0.4, 0.725, 1.0])
    found = decided(prob, label, thresholds, weight)
    for place, threshold in enumerate(thresholds):
        yes = (prob >= threshold).astype(int)
        (tn, fp), (fn, tp) = confusion_matrix(label, yes, sample_weight=weight)
        assert [each[place] for each in found.counts] == [tp, fp, fn, tn]
        rates = {name: value for name, (value, _, _) in found.at(place).items()}
        assert rates["precision"] == pytest.approx(precision_score(label, yes, sample_weight=weight))
        assert rates["recall"] == pytest.approx(recall_score(label, yes, sample_weight=weight))
        assert rates["accuracy"] == pytest.approx(accuracy_score(label, yes, sample_weight=weight))
        assert rates["fpr"] == pytest.approx(fp / (fp + tn))
        assert rates["positive-rate"] == pytest.approx(np.average(yes, weights=weight))


@pytest.mark.parametrize("threshold", [0.0, 0.6, NEVER])
def test_intervals_are_the_exact_ones_of_scipy(threshold: float) -> None:
    """A rate of no rows is none."""
    prob, label, _ = rows(1)
    given = Rows(prob, label, np.full(len(prob), 2.5))
    found, yes = rates_of(given, prob >= threshold), prob >= threshold
    for name, hits, of in (("precision", label[yes].sum(), yes.sum()), ("positive-rate", yes.sum(), len(yes))):
        exact = stats.binomtest(int(hits), int(of)).proportion_ci(0.95) if of else None
        expected = (None, 0.0, 1.0) if exact is None else (hits / of, exact.low, exact.high)
        assert (found[name].value, found[name].lo, found[name].hi) == pytest.approx(expected, abs=1e-9)


PROB, LABEL, WEIGHT = rows()
STEPS = np.array([0.3, 0.7, NEVER])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (decided(PROB, LABEL, STEPS), decided(PROB, LABEL, STEPS, np.full(len(PROB), 3.0))),
        (
            decided(PROB, LABEL, STEPS),
            decided(np.repeat(PROB, 5), np.repeat(LABEL, 5), STEPS, unit=np.repeat(np.arange(len(PROB)), 5)),
        ),
        (decided(PROB, LABEL, STEPS, WEIGHT), decided(PROB, LABEL, STEPS, WEIGHT, np.arange(len(PROB)))),
    ],
    ids=["equal weights", "units of equal rows", "units of one row"],
)
def test_rows_that_say_as_much_are_worth_as_much(one: Decided, other: Decided) -> None:
    """Equal weights, units of five copies of a row, and units of one row neither add nor take away evidence."""
    for name in RATES:
        np.testing.assert_allclose(other.worth(name), one.worth(name))


@pytest.mark.parametrize("name", RATES)
def test_weighted_rows_are_worth_what_the_variance_of_their_rate_says(name: str) -> None:
    """r (1 - r) / var(r), where var(r) is that of a ratio of two sums over rows; never more than Kish's number."""
    found = decided(PROB, LABEL, STEPS[:2], 1.0 / (0.1 + PROB))
    for place, threshold in enumerate(STEPS[:2]):
        hit, of = RATES[name].rows(threshold <= PROB, LABEL > 0)
        mass = (1.0 / (0.1 + PROB))[of]
        rate = np.average(hit[of], weights=mass)
        variance = np.square(mass * (hit[of] - rate)).sum() / mass.sum() ** 2
        rows = min(rate * (1.0 - rate) / variance, mass.sum() ** 2 / np.square(mass).sum())
        hits, worth = (each[place] for each in found.worth(name))
        assert (hits, worth) == pytest.approx((rate * rows, rows))


@pytest.mark.parametrize("heavy", [False, True])
def test_a_test_of_a_rate_counts_on_errors_as_heavy_as_are_expected(heavy: bool) -> None:
    """No false alarm is among the rows; those to come weigh 1, or half of them 5, as the rows that get a yes do."""
    prob, label = np.full(100, 0.5), np.ones(100, dtype=np.int64)
    mass = np.where(np.arange(100) % 2 == 0, 5.0, 1.0) if heavy else np.ones(100)
    steps = np.array([0.4])
    hits, rows = decided(prob, label, steps, mass).worth("precision", expected(prob, steps, mass), 0.9)
    assert hits == pytest.approx(rows)
    assert rows[0] == pytest.approx(mass.sum() / (np.square(mass).sum() / mass.sum()))


def test_expected_counts_are_sums_of_probabilities() -> None:
    prob, _, weight = rows()
    counts = expected(prob, np.array([0.5]), weight).counts
    yes = prob >= 0.5
    wanted = [(weight * part)[side].sum() for side in (yes, ~yes) for part in (prob, 1 - prob)]
    np.testing.assert_allclose([counts.tp[0], counts.fp[0], counts.fn[0], counts.tn[0]], wanted)


@pytest.mark.parametrize("count", [3, 5000])
def test_a_grid_rises_between_probabilities_that_occur(count: int) -> None:
    prob = np.random.default_rng(2).beta(0.2, 3.0, count)
    found = grid(prob)
    assert not set(found) & set(prob)
    assert (np.diff(found) > 0).all()
    assert found[0] < prob.min()
    assert np.diff((prob >= found[:, None]).sum(axis=1)).max() < 0  # each decides other rows
    if count > 1000:  # neither rows nor expected positives have a hole
        order = np.sort(prob)
        for mass in (np.ones(count), order):
            share = np.cumsum(mass) / mass.sum()
            assert np.diff(share[np.searchsorted(order, found)]).max() < 3 / 500
