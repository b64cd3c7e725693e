"""A test that may be looked at every night: bets against calibration, whose wealth is the evidence.

Each bet stakes a share of its wealth on the residuals y - p of a night pointing in one direction. As long as their
mean in that direction is no larger than a margin, no bet can be expected to gain, and Ville's inequality holds: the
probability that the wealth of all of them together ever reaches 1/alpha is at most alpha, however often one looks
(Shafer 2021; Waudby-Smith & Ramdas 2024).

A bet that started on the first night would have lost much of its stake by the night on which something moves. So the
stake is spread over all nights to come, 1/(s (s + 1)) of it for night s, and what starts on night s bets from there on.
The sum over all starts needs no more memory than one of them:

    W_t = (W_{t-1} + 1/(t (t + 1))) * payoff_t
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, IntArray

STAKES = np.array([0.05, 0.1, 0.2, 0.4, 0.8])
"""The shares that are staked. The best one is about the shift in log-odds that is to be found."""

DIRECTIONS = ("level", "slope", "bend")
"""What can move: all predictions alike; the high ones against the low ones; the outer ones against the middle."""

BETS = len(DIRECTIONS) * 2 * len(STAKES)


def directions(z: FloatArray, centre: float, spread: float) -> FloatArray:
    """How far each residual counts in each direction, shape (3, rows), within [-1, 1].

    `centre` and `spread` are those of the log-odds z when the calibrator was fitted.
    """
    along = np.clip((z - centre) / (2.0 * spread), -1.0, 1.0)
    return np.stack([np.ones_like(along), along, 2.0 * along * along - 1.0])


def log_payoffs(residual: FloatArray, along: FloatArray, margin: FloatArray, weight: FloatArray | None) -> FloatArray:
    """The logarithm of what each bet multiplies its wealth with on these rows, shape (BETS,).

    Direction by direction, upward before downward, the smallest stake first. Weights count as shares of the largest.
    """
    share = 1.0 if weight is None else weight / weight.max()
    payoffs = [
        np.log1p(stake * share * (sign * residual * one - float(edge))).sum()
        for one, edge in zip(along, margin, strict=True)
        for sign in (1.0, -1.0)
        for stake in STAKES
    ]
    return np.array(payoffs)


@dataclass(frozen=True, slots=True)
class EProcess:
    """The wealth of the bets after some nights.

    Attributes
    ----------
    nights
        How many.
    logs
        The logarithm of the wealth of each bet, over all nights on which it may have started.
    best, since
        The same for the start that did best, and which night that was, from 1.
    """

    nights: int
    logs: FloatArray
    best: FloatArray
    since: IntArray

    @classmethod
    def at_first(cls, bets: int) -> EProcess:
        nothing = np.full(bets, -np.inf)
        return cls(0, nothing, nothing.copy(), np.zeros(bets, dtype=np.int64))

    def after(self, payoffs: FloatArray) -> EProcess:
        """After one more night."""
        night = self.nights + 1
        stake = -np.log(night * (night + 1.0))
        fresh = self.best < stake
        return EProcess(
            night,
            np.logaddexp(self.logs, stake) + payoffs,
            np.where(fresh, stake, self.best) + payoffs,
            np.where(fresh, night, self.since),
        )

    @property
    def evidence(self) -> float:
        """The logarithm of the mean wealth, with what is still to be staked."""
        unstaked = -np.log(self.nights + 1.0)
        return float(np.logaddexp(np.logaddexp.reduce(self.logs) - np.log(len(self.logs)), unstaked))

    @property
    def leader(self) -> int:
        """The bet that holds most."""
        return int(np.argmax(self.logs))
