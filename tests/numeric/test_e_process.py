from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special
from scipy.stats import chi2

from calcli.numeric.e_process import (
    APART,
    BETS,
    CHANCES,
    DIRECTIONS,
    DOUBT,
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

    So for rare positives too, and for rows that share an effect: what it adds to a bet is lognormal, with mean 1.
    """
    z, weight = np.array([-7.0, -1.0, 2.0]), np.array([1.0, 3.0, 0.5])
    p, along = sigmoid(z), directions(z, 0.3, 1.2)
    for margin, between in ((NO_MARGIN, NONE), (NO_MARGIN + 0.01, NONE), (NO_MARGIN, np.full(3, 1e-3))):
        mean = np.zeros(BETS)
        for labels in itertools.product((0, 1), repeat=3):
            y = np.array(labels)
            payoffs = log_payoffs(z, y - p, along, margin, between, weight)
            mean += np.prod(np.where(y == 1, p, 1 - p)) * np.exp(payoffs)
        if not margin.any() and not between.any():
            np.testing.assert_allclose(mean, 1.0, rtol=1e-9)
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


@pytest.mark.parametrize("shared", [0.5, 2.0])
def test_how_much_nights_differ_is_seldom_underrated(shared: float) -> None:
    """Over 400 tables of 20 nights, in about the share of them that is said; a lasting change shows a few times."""
    rng, noise = np.random.default_rng(0), np.full((20, 3), 0.3)
    tables = [rng.normal(0.0, np.sqrt(shared + 0.3), (20, 3)) for _ in range(400)]
    under = float((np.array([between_nights(mean, noise) for mean in tables]) < shared).mean())
    assert under == pytest.approx(DOUBT, abs=0.06)
    after = np.where(np.arange(20) >= 10, 3.0, 0.0)[:, None]
    more = np.mean([between_nights(mean + after, noise) - between_nights(mean, noise) for mean in tables])
    freedom = 2.0 * (20 - APART) / 3.0
    upper_end = freedom / chi2.ppf(DOUBT, freedom)
    assert more == pytest.approx(upper_end * APART * 3.0**2 / (2.0 * (20 - APART)), rel=0.15)


def test_effects_that_last_into_the_next_night_are_not_taken_for_alike() -> None:
    rng, nights, memory = np.random.default_rng(1), 300, 0.5
    found = []
    for _ in range(60):
        effect = rng.normal(0.0, np.sqrt(1.0 - memory**2), (nights, 3))
        for night_before, now in itertools.pairwise(range(nights)):
            effect[now] += memory * effect[night_before]
        found.append(between_nights(effect, np.zeros((nights, 3))))
    assert float(np.mean(found)) == pytest.approx(1.0 - memory**APART, abs=0.1)
