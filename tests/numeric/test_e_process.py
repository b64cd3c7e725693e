from __future__ import annotations

import numpy as np
import pytest

from calcli.numeric.e_process import BETS, DIRECTIONS, STAKES, EProcess, directions, log_payoffs
from calcli.numeric.links import sigmoid

ALARM = np.log(20.0)


def night(rng: np.random.Generator, rows: int, shift: float = 0.0, slope: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    z = rng.normal(-1.0, 1.5, rows)
    label = rng.random(rows) < sigmoid(slope * z + shift)
    return label - sigmoid(z), directions(z, -1.0, 1.5)


def lived(
    rng: np.random.Generator, nights: int, rows: int, moved_on: int, shift: float = 0.0, slope: float = 1.0
) -> EProcess:
    wealth = EProcess.at_first(BETS)
    for index in range(1, nights + 1):
        drifted = (shift, slope) if index >= moved_on else (0.0, 1.0)
        wealth = wealth.after(log_payoffs(*night(rng, rows, *drifted), np.zeros(3), None))
        if wealth.evidence >= ALARM:
            break
    return wealth


def test_the_recursion_is_the_sum_over_all_starts() -> None:
    """Written out: every start with its stake and the payoffs from there on, and what is left for later nights."""
    payoffs = np.random.default_rng(0).normal(0, 1, (7, 4))
    wealth = EProcess.at_first(4)
    for one in payoffs:
        wealth = wealth.after(one)
    stakes = [1 / (s * (s + 1)) for s in range(1, 8)]
    starts = np.array([[stake * np.exp(payoffs[s:, bet].sum()) for s, stake in enumerate(stakes)] for bet in range(4)])
    np.testing.assert_allclose(np.exp(wealth.logs), starts.sum(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(wealth.since, starts.argmax(axis=1) + 1)
    assert np.exp(wealth.evidence) == pytest.approx(starts.sum(axis=1).mean() + 1 - sum(stakes), rel=1e-12)


def test_no_bet_can_be_expected_to_gain() -> None:
    """The mean payoff over both labels, by their probabilities, is 1 without a margin and less with one."""
    z = np.linspace(-4, 4, 9)
    p, along = sigmoid(z), directions(z, 0.3, 1.2)
    for margin, least in ((np.zeros(3), 1.0), (np.full(3, 0.01), 0.9)):
        for place in range(len(z)):
            one = slice(place, place + 1)
            if_positive = np.exp(log_payoffs(1 - p[one], along[:, one], margin, None))
            if_negative = np.exp(log_payoffs(-p[one], along[:, one], margin, None))
            mean = p[place] * if_positive + (1 - p[place]) * if_negative
            assert (mean <= 1 + 1e-12).all()
            assert (mean >= least - 1e-12).all()


def test_a_margin_forgives_as_much() -> None:
    """Residuals of exactly the margin are no evidence, however many there are."""
    residual = np.full(1000, 0.02)
    payoffs = log_payoffs(residual, np.ones((3, 1000)), np.full(3, 0.02), None)
    assert payoffs.max() <= 1e-9


def test_no_drift_is_seldom_called_one() -> None:
    """At most one run in twenty, however long it is: of 60 runs of 150 nights, 8 would be very many (p = 0.008)."""
    alarms = sum(lived(np.random.default_rng(seed), 150, 100, 10_000).evidence >= ALARM for seed in range(60))
    assert alarms < 8


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


def test_weights_count_as_shares_of_the_largest() -> None:
    rng = np.random.default_rng(2)
    residual, along = night(rng, 50)
    half = log_payoffs(residual, along, np.zeros(3), np.r_[2.0, np.ones(49)])
    rest = log_payoffs(residual[1:] / 2, along[:, 1:], np.zeros(3), None)
    first = log_payoffs(residual[:1], along[:, :1], np.zeros(3), None)
    np.testing.assert_allclose(half, first + rest, rtol=1e-12)
