"""A test that may be looked at every night: bets against calibration, whose wealth is the evidence.

Each bet is that the residuals y - p of a night point in one direction. As long as their mean in that direction is no
larger than a margin, and what the rows of a night share has mean 0 and the variance that is allowed for, no bet can be
expected to gain, and Ville's inequality holds: the probability that the wealth of all of them together ever reaches
1/alpha is at most alpha, however often one looks (Shafer 2021; Waudby-Smith & Ramdas 2024).

How much nights differ is learned before the first bet, and from then on from nights that are past. A bet that started
on the first night would have lost much of its stake by the night on which something moves. So the
stake is spread over all nights to come, c s^-1.3 of it for night s, and what starts on night s bets from there on. The
sum over all starts needs no more memory than one of them:

    W_t = (W_{t-1} + c t^-1.3) * payoff_t
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import FloatArray, IntArray, spans
from calcli.numeric.links import sigmoid

STAKES = np.array([0.6, 1.8])
"""The strengths of bets. The best one is the shift to be found, in standard deviations of a night's residuals."""

DIRECTIONS = ("level", "slope", "bend")
"""Directions of change: all predictions alike; the high ones against the low; the outer ones against the middle."""

_BY_DIRECTION = np.array([0.5, 0.25, 0.25])
"""The share of the stake that is bet in each direction: the level moves most often."""

_LATER = 1.3
"""The power by which less is staked on later nights: the nearer to 1, the less a change is missed for coming late."""

CAPPED = 3.0
"""No night counts for more than so many standard deviations, so that a single odd one is no drift."""

RUNS = (1, 2, 4, 7)
"""The lengths of the runs of nights that tell how much nights differ."""

_STRICT, _CHANCE = 1.2, 1.5
"""By how much the square of a run's largest sum has to be below what is usual, so that few nights are not taken for
equal ones; and by how much it may be above that where it is the chance of labels, whose variance is known."""

_NOTHING = -1e9
"""The logarithm of no wealth, as a number that JSON can write."""

BETS = len(DIRECTIONS) * 2 * len(STAKES)

CHANCES = np.repeat(_BY_DIRECTION / (2 * len(STAKES)), 2 * len(STAKES))
"""The share of the stake of each bet."""


def directions(z: FloatArray, centre: float, spread: float) -> FloatArray:
    """How far each residual counts in each direction, shape (3, rows), within [-1, 1].

    `centre` and `spread` are those of the log-odds z when the calibrator was fitted.
    """
    along = np.clip((z - centre) / (2.0 * spread), -1.0, 1.0)
    return np.stack([np.ones_like(along), along, 2.0 * along * along - 1.0])


@dataclass(frozen=True, slots=True)
class Night:
    """The mean residual of a night's rows in each direction, and how far it may be from 0 by chance."""

    mean: FloatArray
    """The mean of residuals times direction."""

    noise: FloatArray
    """Its variance over independent labels."""

    lean: FloatArray
    """By how much shifts of the log-odds by 1, each row's to either side, can move it."""

    @classmethod
    def of(cls, z: FloatArray, residual: FloatArray, along: FloatArray, weight: FloatArray) -> Night:
        return NightSums.of(z, residual, along, weight).night


@dataclass(frozen=True, slots=True)
class NightSums:
    """The number of rows of a night, and sums over them: of w, and of the parts of `Night`, shape (3, directions)."""

    rows: int
    weight: float
    sums: FloatArray

    def __add__(self, other: NightSums) -> NightSums:
        return NightSums(self.rows + other.rows, self.weight + other.weight, self.sums + other.sums)

    @classmethod
    def of(cls, z: FloatArray, residual: FloatArray, along: FloatArray, weight: FloatArray) -> NightSums:
        p = sigmoid(z)
        chance = p * (1.0 - p)
        sums = [(along * residual) @ weight, along**2 @ (weight**2 * chance), np.abs(along) @ (weight * chance)]
        return cls(len(z), float(weight.sum()), np.stack(sums))

    @property
    def night(self) -> Night:
        mean, noise, lean = self.sums / self.weight
        return Night(mean, noise / self.weight, lean)


def between_nights(mean: FloatArray, noise: FloatArray) -> FloatArray:
    """The variance of what the rows of a night share, shape (directions,), from nights so far, shape (nights, ..).

    It is the smallest with which no run of these nights stands out: of n normal variables, the largest sum over runs of
    h is about sqrt(2 h log(n / h)) standard deviations from its mean. So it is wide enough for the oddest night, for
    weeks that repeat themselves and for effects that last; the latter are to come again in longer runs, by the factor
    (1 + r) / (1 - r) for the part of the correlation r of successive nights that is beyond its standard error.
    """
    count = len(mean)
    lengths = [length for length in RUNS if 2 * length <= count]

    def standardised(between: FloatArray) -> FloatArray:
        worth = 1.0 / np.maximum(noise + between, 1e-300)
        return np.asarray((mean - (worth * mean).sum(axis=0) / worth.sum(axis=0)) * np.sqrt(worth))

    def over_runs(values: FloatArray, length: int) -> FloatArray:
        sums = np.cumsum(np.concatenate([np.zeros((1, *mean.shape[1:])), values]), axis=0)
        return np.asarray(sums[length:] - sums[:-length])

    def stands_out(between: FloatArray) -> FloatArray:
        size, by_chance = standardised(between), noise / np.maximum(noise + between, 1e-300)
        odd = np.zeros(mean.shape[1:], dtype=np.bool_)
        for length in lengths:
            usual = 2.0 * length * math.log(count / length) - _STRICT * length + _CHANCE * over_runs(by_chance, length)
            odd |= (np.square(over_runs(size, length)) > usual).any(axis=0)
        return np.asarray(odd)

    low = np.zeros(mean.shape[1:])
    high = 20.0 * max(RUNS) * np.square(mean - mean.mean(axis=0)).max(axis=0)  # no run stands out
    for _ in range(30):
        middle = (low + high) / 2.0
        odd = stands_out(middle)
        low, high = np.where(odd, middle, low), np.where(odd, high, middle)
    size = standardised(high)
    alike = np.divide((size[1:] * size[:-1]).sum(axis=0), (size**2).sum(axis=0), out=0.0 * high, where=high > 0.0)
    lasting = np.clip(alike - count**-0.5, 0.0, 0.8)
    return np.asarray(high * (1.0 + lasting) / (1.0 - lasting))


def log_payoffs(
    z: FloatArray,
    residual: FloatArray,
    along: FloatArray,
    margin: FloatArray,
    between: FloatArray,
    weight: FloatArray,
) -> FloatArray:
    """The logarithm of what each bet multiplies its wealth with on these rows, shape (BETS,); see `payoffs_of`."""
    night = Night.of(z, residual, along, weight)
    theta = strengths(night, between)
    return payoffs_of(night, margin, between, theta, log_expected(z, along, weight / weight.sum(), theta))


def strengths(night: Night, between: FloatArray) -> FloatArray:
    """The strength of the bets in each direction, shape (directions, STAKES)."""
    spread = np.sqrt(night.noise + between)[:, None]
    theta: FloatArray = np.divide(STAKES, spread, out=np.zeros((len(spread), len(STAKES))), where=spread > 0.0)
    return theta


def payoffs_of(
    night: Night, margin: FloatArray, between: FloatArray, theta: FloatArray, expected: FloatArray
) -> FloatArray:
    """The logarithm of what each bet multiplies its wealth with.

    Direction by direction, upward before downward, the smallest stake first. A bet of strength theta pays exp(theta S)
    over its expectation, for the mean S of the residuals in its direction beyond the margin: of independent labels with
    the predicted probabilities that is exact, of rare positives too, and a normal effect with the variance `between`,
    which the rows of a night share, is allowed for. What is beyond `CAPPED` is not paid. `expected` are the logarithms
    of these expectations.
    """
    most = CAPPED * np.sqrt(night.noise + between)[:, None]
    gain = np.minimum(np.stack([night.mean, -night.mean], axis=1) - margin, most)
    shared = theta**2 * between[:, None] / 2.0
    payoffs: FloatArray = theta[:, None, :] * gain[:, :, None] - expected - shared[:, None, :]
    return payoffs.ravel()


def log_expected(z: FloatArray, along: FloatArray, share: FloatArray, theta: FloatArray) -> FloatArray:
    """The sums over rows in `payoffs_of`, shape (directions, 2, STAKES); those over parts of the rows add up."""
    p = sigmoid(z)
    sums = [
        [[_log_expected(p, strength * sign * one * share) for strength in of_direction] for sign in (1.0, -1.0)]
        for one, of_direction in zip(along, theta.tolist(), strict=True)
    ]
    return np.array(sums)


def rate_night(hit: FloatArray, weight: FloatArray, bound: float) -> Night:
    """A night of rows that are hits or not, against the rate that they should have."""
    ones = np.ones(len(hit))
    return Night.of(_log_odds(bound) * ones, hit - bound, ones[None], weight)


def log_rate_payoffs(
    hit: FloatArray, weight: FloatArray, bound: float, between: float, *, at_least: bool
) -> FloatArray:
    """The logarithm of what bets against a rate of at least (or at most) `bound` multiply their wealth with.

    One for each stake, as of `log_payoffs`: none can be expected to gain if the rate is as it should be.
    """
    ones = np.ones(len(hit))
    margin, shared = np.zeros((1, 2)), np.array([between])
    upward, downward = np.split(
        log_payoffs(_log_odds(bound) * ones, hit - bound, ones[None], margin, shared, weight), 2
    )
    return downward if at_least else upward


def _log_odds(rate: float) -> float:
    return math.log(rate) - math.log1p(-rate)


def _log_expected(p: FloatArray, x: FloatArray) -> float:
    """The logarithm of the expectation of exp(sum of x (y - p)) over independent labels; infinite if too large."""
    total = 0.0
    with np.errstate(over="ignore"):
        for rows in spans(len(p)):
            total += float((np.log1p(p[rows] * np.expm1(x[rows])) - p[rows] * x[rows]).sum())
    return total


@dataclass(frozen=True, slots=True)
class EProcess:
    """The wealth of the bets after some nights."""

    nights: int
    """How many."""

    chances: FloatArray
    """The share of the stake of each bet; they add up to 1."""

    logs: FloatArray
    """The logarithm of the wealth of each bet, over all nights on which it may have started."""

    best: FloatArray
    since: IntArray
    """`best`, `since`: the same for the start that did best, and which night that was, from 1."""

    waited: int = 0
    """On how many of the nights nothing was bet."""

    @classmethod
    def at_first(cls, chances: FloatArray, nights: int = 0) -> EProcess:
        """Before the first night, or after some on which nothing was bet yet."""
        nothing = np.full(len(chances), _NOTHING)
        return cls(nights, chances, nothing, nothing.copy(), np.zeros(len(chances), dtype=np.int64), nights)

    def idle(self) -> EProcess:
        """After one more night, on which nothing is bet."""
        return replace(self, nights=self.nights + 1, waited=self.waited + 1)

    def after(self, payoffs: FloatArray) -> EProcess:
        """After one more night."""
        night, bets = self.nights + 1, self.nights + 1 - self.waited
        stake = np.log(self.chances) + math.log(_unstaked(bets - 1) - _unstaked(bets))
        fresh = self.best < stake
        return EProcess(
            night,
            self.chances,
            np.logaddexp(self.logs, stake) + payoffs,
            np.where(fresh, stake, self.best) + payoffs,
            np.where(fresh, night, self.since),
            self.waited,
        )

    @property
    def evidence(self) -> float:
        """The logarithm of the wealth, with what is still to be staked."""
        return float(np.logaddexp(np.logaddexp.reduce(self.logs), math.log(_unstaked(self.nights - self.waited))))

    @property
    def leader(self) -> int:
        """The bet that holds most."""
        return int(np.argmax(self.logs))


def _unstaked(nights: int) -> float:
    """The share of the stake that is left after so many nights of bets."""
    from scipy.special import zeta

    return float(zeta(_LATER, nights + 1) / zeta(_LATER, 1))
