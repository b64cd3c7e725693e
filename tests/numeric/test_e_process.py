from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special

from calcli.numeric.e_process import (
    BETS,
    CAPPED,
    CHANCES,
    DIRECTIONS,
    RUNS,
    STAKES,
    EProcess,
    between_nights,
    directions,
    log_payoffs,
)
from calcli.numeric.links import sigmoid

ALARM = np.log(20.0)
NONE, NO_MARGIN = np.zeros(3), np.zeros((3, 2))


def night(rng: np.random.Generator, rows: int, shift: float = 0.0, slope: float = 1.0) -> tuple[np.ndarray, ...]:
    z = rng.normal(-1.0, 1.5, rows)
    label = rng.random(rows) < sigmoid(slope * z + shift)
    return z, label - sigmoid(z), directions(z, -1.0, 1.5)


def lived(
    rng: np.random.Generator, nights: int, rows: int, moved_on: int, shift: float = 0.0, slope: float = 1.0
) -> EProcess:
    wealth = EProcess.at_first(CHANCES)
    for index in range(1, nights + 1):
        drifted = (shift, slope) if index >= moved_on else (0.0, 1.0)
        wealth = wealth.after(log_payoffs(*night(rng, rows, *drifted), NO_MARGIN, NONE, np.ones(rows)))
        if wealth.evidence >= ALARM:
            break
    return wealth


def test_the_recursion_is_the_sum_over_all_starts() -> None:
    """Written out: every start with its stake and the payoffs from there on, and what is left for later nights."""
    payoffs = np.random.default_rng(0).normal(0, 1, (7, 4))
    chances = np.array([0.4, 0.3, 0.2, 0.1])
    wealth = EProcess.at_first(chances)
    for one in payoffs:
        wealth = wealth.after(one)
    stakes = np.arange(1, 8) ** -1.3 / special.zeta(1.3)
    starts = np.array(
        [
            [chance * stake * np.exp(payoffs[s:, bet].sum()) for s, stake in enumerate(stakes)]
            for bet, chance in enumerate(chances)
        ]
    )
    np.testing.assert_allclose(np.exp(wealth.logs), starts.sum(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(wealth.since, starts.argmax(axis=1) + 1)
    assert np.exp(wealth.evidence) == pytest.approx(starts.sum() + 1 - sum(stakes), rel=1e-12)


def test_the_stakes_of_all_bets_are_what_there_is() -> None:
    assert CHANCES.shape == (BETS,)
    assert CHANCES.sum() == pytest.approx(1.0, rel=1e-15)
    assert EProcess.at_first(CHANCES).evidence == pytest.approx(0.0, abs=1e-15)


def test_no_bet_can_be_expected_to_gain() -> None:
    """The mean payoff over all labels of three rows, by their probabilities: 1, and less with a margin.

    So for rows that share an effect: what it adds to a bet is lognormal, with mean 1. Of rare positives bets lose, as
    the one in a thousand is not paid in full.
    """
    for rare in (-7.0, -2.0):
        no_gain(np.array([rare, -1.0, 2.0]))


def no_gain(z: np.ndarray) -> None:
    weight = np.array([1.0, 3.0, 0.5])
    p, along = sigmoid(z), directions(z, 0.3, 1.2)
    for margin, between in ((NO_MARGIN, NONE), (NO_MARGIN + 0.01, NONE), (NO_MARGIN, np.full(3, 1e-3))):
        mean = np.zeros(BETS)
        for labels in itertools.product((0, 1), repeat=3):
            y = np.array(labels)
            payoffs = log_payoffs(z, y - p, along, margin, between, weight)
            mean += np.prod(np.where(y == 1, p, 1 - p)) * np.exp(payoffs)
        if not margin.any() and not between.any() and z.min() > -7.0:
            np.testing.assert_allclose(mean, 1.0, rtol=1e-9)
        assert (mean <= 1.0 + 1e-9).all()
        assert (mean < 1.0).all() or not (margin.any() or between.any())


def test_a_margin_forgives_as_much() -> None:
    """Residuals of exactly the margin are no evidence, however many there are."""
    residual = np.full(1000, 0.02)
    payoffs = log_payoffs(np.zeros(1000), residual, np.ones((3, 1000)), NO_MARGIN + 0.02, NONE, np.ones(1000))
    assert payoffs.max() <= 1e-9


@pytest.mark.slow
def test_no_drift_is_seldom_called_one() -> None:
    """At most one run in twenty, however long it is: of 40 runs of 100 nights, 7 would be very many (p = 0.003)."""
    alarms = sum(lived(np.random.default_rng(seed), 100, 100, 10_000).evidence >= ALARM for seed in range(40))
    assert alarms < 7


@pytest.mark.parametrize(
    ("change", "direction", "up"),
    [({"shift": 0.2}, "level", True), ({"shift": -0.2}, "level", False), ({"slope": 0.7}, "slope", False)],
)
def test_what_moved_and_when(change: dict[str, float], direction: str, up: bool) -> None:
    wealth = lived(np.random.default_rng(5), 200, 1000, 41, **change)
    assert wealth.evidence >= ALARM
    assert 41 <= wealth.nights <= 60
    leader = wealth.leader
    assert DIRECTIONS[leader // (2 * len(STAKES))] == direction
    assert (leader // len(STAKES) % 2 == 0) is up
    assert abs(int(wealth.since[leader]) - 41) <= 5


def test_weights_have_no_unit_and_a_row_without_weight_is_not_there() -> None:
    rng = np.random.default_rng(2)
    z, residual, along = night(rng, 50)
    weight = np.r_[0.0, rng.random(49)]
    found = log_payoffs(z, residual, along, NO_MARGIN, NONE, weight)
    np.testing.assert_allclose(log_payoffs(z, residual, along, NO_MARGIN, NONE, 1e6 * weight), found, rtol=1e-9)
    without = log_payoffs(z[1:], residual[1:], along[:, 1:], NO_MARGIN, NONE, weight[1:])
    np.testing.assert_allclose(without, found, rtol=1e-9)


def odd_runs(mean: np.ndarray, noise: np.ndarray, between: float) -> float:
    """Written out: by how much the sum of any run is beyond what is usual of so many runs, as a ratio of squares."""
    worth = 1 / (noise + between)
    size = (mean - (worth * mean).sum() / worth.sum()) * np.sqrt(worth)
    return max(
        size[start : start + length].sum() ** 2
        / (length * (2 * np.log(len(mean) / length) - 1.2) + 1.5 * (worth * noise)[start : start + length].sum())
        for length in RUNS
        for start in range(len(mean) - length + 1)
    )


def without_memory(size: np.ndarray) -> float:
    """By what factor effects that last are wider."""
    alike = (size[1:] * size[:-1]).sum() / (size**2).sum()
    lasting = min(max(alike - 1 / np.sqrt(len(size)), 0), 0.8)
    return float((1 + lasting) / (1 - lasting))


@pytest.mark.parametrize("spread", [0.3, 1.0, 5.0])
def test_no_run_of_past_nights_stands_out_and_with_less_one_would(spread: float) -> None:
    rng = np.random.default_rng(4)
    noise = rng.uniform(0.01, 3.0, (28, 3))
    mean = rng.normal(0.0, np.sqrt(spread + noise))
    for direction, found in enumerate(between_nights(mean, noise)):
        one, its_noise = mean[:, direction], noise[:, direction]
        low, high = 0.0, 100.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if odd_runs(one, its_noise, middle) > 1 else (low, middle)
        worth = 1 / (its_noise + high)
        size = (one - (worth * one).sum() / worth.sum()) * np.sqrt(worth)
        assert found == pytest.approx(high * without_memory(size), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("shared", [0.5, 2.0])
def test_how_much_nights_differ_is_seldom_underrated(shared: float, uneven: bool) -> None:
    """Over 400 tables of 28 nights: a night of few rows is not to hide what the ones of many rows show."""
    rng = np.random.default_rng(0)
    noise = np.where(np.arange(28) % 2 == 0, 0.1, 20.0 if uneven else 0.1)[:, None] * np.ones((28, 400))
    found = between_nights(rng.normal(0.0, np.sqrt(shared + noise)), noise)
    assert float((found < shared / 4).mean()) <= 0.06


def test_equal_nights_are_not_taken_for_different_ones() -> None:
    found = between_nights(np.random.default_rng(0).normal(size=(40, 400)), np.ones((40, 400)))
    assert float(np.median(found)) < 0.5
    np.testing.assert_array_equal(between_nights(np.zeros((30, 2)), np.zeros((30, 2))), 0.0)


@pytest.mark.parametrize("memory", [0.5, 0.7])
def test_effects_that_last_are_as_wide_as_their_long_runs(memory: float) -> None:
    """The variance of a sum over many nights is (1 + r) / (1 - r) times that of as many independent ones."""
    rng = np.random.default_rng(1)
    effect = rng.normal(0.0, np.sqrt(1.0 - memory**2), (300, 60))
    for night_before, now in itertools.pairwise(range(300)):
        effect[now] += memory * effect[night_before]
    found = between_nights(effect, np.full(effect.shape, 1e-3))
    assert float((found > (1 + memory) / (1 - memory)).mean()) > 0.9


def test_no_single_night_counts_for_more_than_it_may() -> None:
    """Its labels may be all wrong: three standard deviations of the strongest bet are what it can add."""
    z, weight = np.zeros(5000), np.ones(5000)
    payoffs = log_payoffs(z, np.full(5000, 0.5), np.ones((3, 5000)), NO_MARGIN, NONE + 1e-3, weight)
    assert payoffs.max() <= CAPPED * STAKES.max() - STAKES.max() ** 2 / 2 + 0.01
    assert payoffs.max() == pytest.approx(CAPPED * STAKES.max() - STAKES.max() ** 2 / 2, abs=0.02)


def test_nights_without_bets_cost_nothing() -> None:
    payoffs = np.full(BETS, 0.7)
    later = EProcess.at_first(CHANCES)
    for _ in range(28):
        later = later.idle()
    assert (later.nights, later.evidence) == (28, pytest.approx(0.0, abs=1e-12))
    later, first = later.after(payoffs), EProcess.at_first(CHANCES).after(payoffs)
    assert later.evidence == pytest.approx(first.evidence, rel=1e-12)
    assert set(later.since) == {29}
