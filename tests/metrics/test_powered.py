"""The mean label of rows of which few have labels: peers, closed forms, enumeration, and laws."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binomtest

from calcli.metrics.powered import FEWEST, LabelShares, Powered, Sample, difference, powered
from calcli.numeric.binomial import score_interval

Y = np.array([0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1], dtype=float)
F = np.array([0.1, 0.8, 0.6, 0.4, 0.9, 0.2, 0.5, 0.7, 0.3, 0.4, 0.8, 0.1, 0.6, 0.2, 0.9])
OTHERS = np.array([1, 3, 5, 2, 9, 8, 4, 6, 7, 2, 1, 5, 3, 4, 6, 2, 8, 1, 3, 5, 7, 2, 4, 6, 1, 9, 3, 5, 2, 4]) / 10


def sample(value: np.ndarray = Y, score: np.ndarray = F, others: np.ndarray = OTHERS, **more: object) -> Sample:
    """Rows of which the first have labels."""
    every = np.concatenate([score, others])
    return Sample(labelled=np.arange(len(value)), value=value, stand_in=every, **{"rate": True, **more})


@pytest.mark.parametrize(
    ("scale", "value", "lo", "hi"),
    [
        (1.0, 0.3933333333333333, 0.204524599806408, 0.5821420668602586),
        (0.5, 0.43, 0.22249461430506776, 0.6375053856949322),
    ],
)
def test_it_is_the_estimate_of_ppi_python(scale: float, value: float, lo: float, hi: float) -> None:
    # ppi-python 0.2.3: ppi_mean_pointestimate and ppi_mean_ci of these rows, lam=scale. Its lambda is that of the
    # difference from the rows without labels, here of the difference from all rows.
    shares = LabelShares.of(sample())
    found = shares.estimate(scale * (len(Y) + len(OTHERS)) / len(OTHERS))
    assert found.value == pytest.approx(value, abs=1e-12)
    error = (hi - lo) / 2 / 1.959963984540054
    # Its variance divides by n, and by N rows without labels: the influences add up to the same, rearranged.
    assert np.sqrt(found.influence @ found.influence) == pytest.approx(error, rel=0.02)


def test_lambda_is_the_regression_of_labels_on_scores() -> None:
    slope = np.cov(Y, F)[0, 1] / np.var(F, ddof=1)
    amounts = powered(sample(rate=False, value=3.0 * Y))
    assert amounts.scale == pytest.approx(3.0 * slope, rel=1e-12)
    assert LabelShares.of(sample(score=F / 10, others=OTHERS / 10)).slope() == 1.0  # held between 0 and 1
    assert LabelShares.of(sample(score=1 - F, others=1 - OTHERS)).slope() == 0.0


def test_with_the_weight_that_inverts_a_judges_errors_it_is_the_estimate_of_rogan_and_gladen() -> None:
    verdict, others = (F > 0.45).astype(float), (OTHERS > 0.45).astype(float)
    sensitivity, specificity = verdict[Y == 1].mean(), 1 - verdict[Y == 0].mean()
    youden = sensitivity + specificity - 1
    every = np.concatenate([verdict, others])
    closed_form = (every.mean() + specificity - 1) / youden
    found = LabelShares.of(sample(score=verdict, others=others)).estimate(1 / youden)
    assert found.value == pytest.approx(closed_form, abs=1e-12)


@pytest.mark.parametrize("scale", [0.0, 0.7, 1.0])
def test_over_all_draws_of_labels_it_is_the_mean_of_all_rows(scale: float) -> None:
    label, score = Y[:9], np.array([0.9, 0.1, 0.8, 0.3, 0.2, 0.2, 0.6, 0.4, 0.5])
    values = [
        LabelShares.of(Sample(labelled=np.array(drawn), value=label[[*drawn]], stand_in=score, rate=True))
        .estimate(scale)
        .value
        for drawn in combinations(range(9), 4)
    ]
    assert np.mean(values) == pytest.approx(label.mean(), abs=1e-12)


def test_its_error_is_that_of_the_draws() -> None:
    rng = np.random.default_rng(1)
    values, errors = [], []
    for _ in range(2000):
        label = rng.random(300) < 0.3
        score = np.where(rng.random(300) < 0.8, label, ~label).astype(float)
        found = LabelShares.of(sample(label[:60].astype(float), score[:60], score[60:])).estimate(0.6)
        values.append(found.value)
        errors.append(found.influence @ found.influence)
    assert np.mean(errors) == pytest.approx(np.var(values), rel=0.1)  # three errors of a variance of 2,000 draws


@pytest.mark.parametrize(("hits", "rows"), [(0, 25), (1, 25), (7, 40), (40, 40)])
def test_wilsons_interval_is_that_of_scipy(hits: int, rows: int) -> None:
    theirs = binomtest(hits, rows).proportion_ci(method="wilson")
    assert score_interval(hits / rows, rows, 1.959963984540054) == pytest.approx(tuple(theirs), abs=1e-9)


def test_scores_that_say_nothing_leave_the_labels_alone() -> None:
    flat = sample(score=np.full(15, 0.3), others=np.full(30, 0.3))
    found, alone = powered(flat), binomtest(7, 15).proportion_ci(method="wilson")
    assert (found.value, found.scale, found.labels) == (pytest.approx(7 / 15), 0.0, 15)
    # Student's factor n / (n - 1) is the only difference from the textbook.
    assert (found.lo, found.hi) == (pytest.approx(alone.low, abs=0.01), pytest.approx(alone.high, abs=0.01))
    assert found.labels_only[:3] == (found.value, found.lo, found.hi)


def test_few_labels_have_the_exact_interval() -> None:
    few = sample(Y[:6], F[:6])
    found = powered(few)
    exact = binomtest(3, 6).proportion_ci()
    assert len(few.labelled) < FEWEST
    assert (found.lo, found.hi, found.worth) == (pytest.approx(exact.low), pytest.approx(exact.high), None)


def test_a_unit_counts_once_however_many_rows_it_has() -> None:
    every = np.arange(45)
    once = powered(sample(units=every))
    twice = powered(
        Sample(
            labelled=np.concatenate([np.arange(15), 45 + np.arange(15)]),
            value=np.tile(Y, 2),
            stand_in=np.tile(np.concatenate([F, OTHERS]), 2),
            rate=True,
            units=np.tile(every, 2),
        )
    )
    assert twice.value == pytest.approx(once.value, abs=2e-3)  # lambda is drawn less towards 0
    assert twice.hi - twice.lo == pytest.approx(once.hi - once.lo, rel=0.05)


def test_weights_and_label_probabilities_weigh_the_rows_as_their_copies_would() -> None:
    double = np.ones(45)
    double[[2, 20]] = 2.0
    weighted = LabelShares.of(sample(weight=double)).estimate(0.5)
    copies = sample(np.append(Y, Y[2]), np.append(F, F[2]), np.append(OTHERS, OTHERS[5]))
    assert weighted.value == pytest.approx(LabelShares.of(copies).estimate(0.5).value, abs=1e-12)
    halved = np.full(15, 0.5)
    halved[3] = 0.25  # stands for two labelled rows like it
    drawn = LabelShares.of(sample(label_prob=halved)).estimate(0.0)
    assert drawn.value == pytest.approx(np.mean(np.append(Y, Y[3])), abs=1e-12)


def test_strata_are_added_up_by_their_share_of_the_rows() -> None:
    strata = np.concatenate([np.arange(15) % 2, np.arange(30) % 3 // 2])
    whole = LabelShares.of(sample(strata=strata)).estimate(0.0)
    first, second = (Y[strata[:15] == code].mean() for code in (0, 1))
    share = np.mean(strata == 1)
    assert whole.value == pytest.approx((1 - share) * first + share * second, abs=1e-12)


def _alone(hits: int, rows: int, first: int = 0) -> Powered:
    value = np.repeat([1.0, 0.0], [hits, rows - hits])
    zero = np.zeros(rows)
    found = powered(Sample(labelled=np.arange(rows), value=value, stand_in=zero, rate=True))
    lo, hi = score_interval(hits / rows, rows, 1.959963984540054)
    return replace(found, lo=lo, hi=hi, items=first + np.arange(rows))


def test_the_difference_of_rates_on_other_items_is_newcombes() -> None:
    # Newcombe (1998), Statistics in Medicine 17, 873: 56 of 70 against 48 of 80, method 10: 0.0524 to 0.3339.
    one, other = _alone(56, 70), _alone(48, 80, first=70)
    found = difference(one, other)
    assert found.value == pytest.approx(0.2)
    assert (found.lo, found.hi) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))


def test_a_system_beside_itself_is_tied() -> None:
    one = _alone(20, 50)
    found = difference(one, one)
    assert found.value == 0.0
    assert found.p == 1.0
    assert found.hi - found.lo < 0.05  # the ends of one interval lie at unequal distances
