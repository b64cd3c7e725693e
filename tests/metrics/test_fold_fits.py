"""Held-out gains of calibrators that were fitted on each other's rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calcli.metrics.base import Folds, Scored
from calcli.metrics.fold_fits import FoldFits, missing
from calcli.metrics.paired import Paired, paired_difference, widened

FOLDS, ROWS = 5, 60
PLACE = np.arange(ROWS) % FOLDS


def square(rows: Scored) -> np.ndarray:
    return (rows.label - rows.prob) ** 2


def gain(seed: int) -> tuple[float, float, float, float]:
    """Of means of 0 .. beside 0 itself: the gain less what it is on new rows, its variances, and that of the interval.

    The label is normal, and the mean m of the other folds is m^2 worse than 0.
    """
    label = np.random.default_rng(seed).normal(size=ROWS)
    means = np.array([label[fold != PLACE].mean() for fold in range(FOLDS)])
    scored, zero = Scored(label, means[PLACE]), Scored(label, np.zeros(ROWS))
    found = paired_difference(square(scored), square(zero), None)
    fits = FoldFits(tuple(np.full(ROWS, mean) for mean in means))
    lacking = missing(fits.sums(scored, Folds(PLACE, FOLDS), square))
    wide = widened(found, lacking)
    difference = square(scored) - square(zero)
    held = wide.lo <= np.square(means).mean() <= wide.hi
    return found.value - np.square(means).mean(), difference.var(ddof=1) / ROWS, lacking, held


def test_half_the_variance_of_a_gain_of_nothing_is_missing_from_the_sum_over_rows() -> None:
    error, rows, lacking, held = np.array([gain(seed) for seed in range(1500)]).T
    assert rows.mean() / error.var() == pytest.approx(0.5, abs=0.1)
    assert (rows + lacking).mean() / error.var() == pytest.approx(1.0, abs=0.15)
    assert 0.93 <= held.mean() <= 0.99


@pytest.mark.parametrize(("folds", "groups"), [(3, 1), (5, 1), (5, 4), (10, 2)])
def test_of_means_of_normal_labels_it_is_the_covariance_of_the_folds(folds: int, groups: int) -> None:
    """The error of fold k is -2 / n times the sum over groups of Y_k, the sum of its labels, and the mean of the rest.

    So its covariance with that of fold l is 4 / n^2 times the sum over groups of (E Y_k Y_l)^2 / n_k^2 (m - 1)^2.
    """
    each = 12 // groups
    place, group = np.repeat(np.arange(folds), 12), np.tile(np.repeat(np.arange(groups), each), folds)
    rng, found = np.random.default_rng(0), []
    for _ in range(2000):
        label = rng.normal(size=len(place))
        sums = np.bincount(group * folds + place, label, groups * folds).reshape(groups, folds)
        means = (sums.sum(axis=1, keepdims=True) - sums) / (each * (folds - 1))
        fits = FoldFits(tuple(mean[group] for mean in means.T))
        found.append(missing(fits.sums(Scored(label, means[group, place]), Folds(place, folds), square)))
    assert np.mean(found) == pytest.approx(4.0 * groups * folds / ((folds - 1) * len(place) ** 2), rel=0.1)


def test_some_of_the_rows_and_all_weights_twice_as_large_say_the_same() -> None:
    label = np.tile(np.random.default_rng(0).normal(size=ROWS), 2)
    place = np.tile(PLACE, 2)
    means = np.array([label[place != fold].mean() for fold in range(FOLDS)])
    folds, all_of_them = Folds(place, FOLDS), FoldFits(tuple(np.full(2 * ROWS, mean) for mean in means))
    half = FoldFits(tuple(np.full(ROWS, mean) for mean in means), step=2)
    order = np.arange(2 * ROWS).reshape(2, ROWS).T.ravel()  # each row beside its copy
    scored = Scored(label[order], means[place][order])
    sums = all_of_them.sums(scored, folds.take(order), square)
    assert missing(sums) > 0
    np.testing.assert_allclose(half.sums(scored, folds.take(order), square), sums)
    heavy = Scored(scored.label, scored.prob, np.full(2 * ROWS, 2.0))
    np.testing.assert_allclose(all_of_them.sums(heavy, folds.take(order), square), sums)


def test_an_interval_is_wider_by_the_variance_and_its_p_value_agrees() -> None:
    z = stats.norm.ppf(0.975)
    found = widened(Paired(3.0, 3.0 - z, 3.0 + 2 * z, 0.001), 1.0)
    assert (found.lo, found.hi) == pytest.approx((3.0 - z * 2**0.5, 3.0 + z * 5**0.5))
    edge = widened(Paired(z * 2**0.5, z * 2**0.5 - z, 10.0, 0.001), 1.0)
    assert (edge.lo, edge.p) == pytest.approx((0.0, 0.05))
    assert widened(found, 0.0) == found
    assert widened(Paired(1.0, None, None, None), 2.0) == (1.0, None, None, None)
