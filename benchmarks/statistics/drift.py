"""How often `--drift` is wrong within a year, and how soon it is right: nights whose rows share an effect, or do not.

python benchmarks/statistics/drift.py [--quick] [--years N]

Scores lie on a grid of log-odds, so that a night is a table of counts; the years of a kind are lived side by side.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray
from calcli.numeric.e_process import (
    CHANCES,
    EProcess,
    Night,
    NightSums,
    between_nights,
    directions,
    payoffs_of,
    strengths,
)
from calcli.numeric.links import logit, sigmoid
from calcli.reports.drift_baseline import DriftBaseline
from calcli.verbs.drift import ALPHA
from calcli.verbs.drift_log import LEARNED, OLDER

FITTED = 20_000
YEAR = 365
PATIENCE = 100

WIDTH = np.linspace(-3.2, 3.2, 43)
SHARE = np.exp(-0.5 * WIDTH**2) / np.exp(-0.5 * WIDTH**2).sum()


@dataclass(frozen=True)
class Kind:
    """What the nights of a year are like: their rows, one number or a range, and what the rows of a night share."""

    name: str
    rows: tuple[int, int] = (1000, 1000)
    mean: float = -1.0
    spread: float = 0.0
    memory: float = 0.0
    shape: str = "normal"

    def effects(self, rng: np.random.Generator, years: int, nights: int) -> FloatArray:
        """The effect of each night on the log-odds, by year."""
        week = (np.arange(nights) + rng.integers(0, 7, (years, 1))) % 7
        if self.shape == "sine":
            return self.spread * np.sin(2.0 * np.pi * week / 7.0)
        if self.shape == "weekend":
            return self.spread * ((week >= 5) - 2.0 / 7.0)
        if self.shape == "t3":
            return self.spread * rng.standard_t(3, (years, nights)) / math.sqrt(3.0)
        own = rng.normal(0.0, self.spread, (years, nights))
        for night in range(1, nights):
            own[:, night] = self.memory * own[:, night - 1] + math.sqrt(1.0 - self.memory**2) * own[:, night]
        return own


ALIKE = Kind("nothing")

KINDS = (
    ALIKE,
    Kind("sd 0.1", spread=0.1),
    Kind("sd 0.2", spread=0.2),
    Kind("sd 0.2", rows=(50, 5000), spread=0.2),
    Kind("sd 0.4", spread=0.4),
    Kind("sd 0.4", rows=(50, 5000), spread=0.4),
    Kind("sd 0.6", spread=0.6),
    Kind("Student's t with 3 degrees of freedom, sd 0.2", spread=0.2, shape="t3"),
    Kind("Student's t with 3 degrees of freedom, sd 0.4", spread=0.4, shape="t3"),
    Kind("a weekly wave of 0.6", spread=0.6, shape="sine"),
    Kind("weekends 0.6 higher", spread=0.6, shape="weekend"),
    Kind("AR(1) 0.5, sd 0.2", spread=0.2, memory=0.5),
    Kind("AR(1) 0.7, sd 0.1", spread=0.1, memory=0.7),
    Kind("AR(1) 0.7, sd 0.2", spread=0.2, memory=0.7),
    Kind("nothing", rows=(200, 200), mean=-5.0),
    Kind("sd 0.2", rows=(200, 200), mean=-5.0, spread=0.2),
    Kind("sd 0.2", rows=(10_000, 10_000), spread=0.2),
)


@dataclass(frozen=True)
class Fit:
    """A fit: its baseline, and by how much the log-odds of later rows differ from those that it says, a + b z."""

    baseline: DriftBaseline
    apart: FloatArray

    @classmethod
    def of(cls, rng: np.random.Generator, z: FloatArray) -> Fit:
        """Of calibrated scores of rows that are independent."""
        place = rng.choice(len(z), FITTED, p=SHARE)
        label = (rng.random(FITTED) < sigmoid(z)[place]).astype(np.int64)
        return cls(DriftBaseline.of(sigmoid(z)[place], label, None), np.zeros(2))

    @classmethod
    def of_users(cls, rng: np.random.Generator, z: FloatArray, users: int, *, by_user: bool) -> Fit:
        """Of Platt's calibration of rows of users whose log-odds differ from z by a normal effect of each, sd 1."""
        chance, size = np.polynomial.hermite_e.hermegauss(40)
        said = logit(sigmoid(z[:, None] + chance) @ (size / size.sum()))
        user, place = np.repeat(np.arange(users), FITTED // users), rng.choice(len(z), FITTED // users * users, p=SHARE)
        label = (rng.random(len(user)) < sigmoid(z[place] + rng.normal(size=users)[user])).astype(np.int64)
        both, shift = np.stack([np.ones(len(user)), said[place]]), np.zeros(2)
        for _ in range(8):
            p = sigmoid(said[place] + shift @ both)
            shift = shift + np.linalg.solve((both * p * (1.0 - p)) @ both.T, both @ (label - p))
        fitted = sigmoid(said[place] + shift @ both)
        return cls(DriftBaseline.of(fitted, label, None, user if by_user else None), -shift)


def alarms(
    seed: int, years: int, nights: int, kind: Kind = ALIKE, users: int = 0, *, by_user: bool = False, **change: float
) -> list[int | None]:
    """The night of the alarm, from 1, of each year; `begin`, `shift` and `slope` are of what moves."""
    rng, z = np.random.default_rng(seed), kind.mean + 1.2 * WIDTH
    begin, shift, slope = change.get("begin", math.inf), change.get("shift", 0.0), change.get("slope", 1.0)
    fits = [Fit.of_users(rng, z, users, by_user=by_user) if users else Fit.of(rng, z) for _ in range(years)]
    effects = kind.effects(rng, years, nights)
    along = [directions(z, float(fit.baseline.centre[0]), float(fit.baseline.spread[0])) for fit in fits]
    wealth, past, found = [EProcess.at_first(CHANCES)] * years, [], [None] * years
    for index in range(1, nights + 1):
        moved = index >= begin
        low, high = kind.rows
        tables = []
        for fit, effect in zip(fits, effects[:, index - 1], strict=True):
            p = sigmoid(effect + shift * moved + fit.apart[0] + ((slope if moved else 1.0) + fit.apart[1]) * z)
            count = round(math.exp(rng.uniform(math.log(low), math.log(high))))
            tables.append(rng.multinomial(count, np.concatenate([SHARE * (1.0 - p), SHARE * p])).reshape(2, -1))
        now = [night_of(z, one, table) for one, table in zip(along, tables, strict=True)]
        if len(past) >= LEARNED:
            older = past[: max(LEARNED, math.ceil(OLDER * len(past)))]
            mean, noise = (
                np.array([[getattr(one, name) for one in each] for each in older]) for name in ("mean", "noise")
            )
            flat = between_nights(mean.reshape(len(older), -1), noise.reshape(len(older), -1))
            for year, between in enumerate(flat.reshape(years, -1)):
                if found[year] is None:
                    gained = payoffs(z, along[year], tables[year], now[year], fits[year].baseline.margin[0], between)
                    wealth[year] = wealth[year].after(gained)
                    found[year] = index if wealth[year].evidence >= math.log(1 / ALPHA) else None
        else:
            wealth = [one.idle() for one in wealth]
        past.append(now)
    return found


def night_of(z: FloatArray, along: FloatArray, table: FloatArray) -> Night:
    """The mean residuals of a night from its counts by label and cell."""
    p, rows = sigmoid(z), table.sum(axis=0)
    chance = rows * p * (1.0 - p)
    sums = np.stack([along @ (table[1] - rows * p), along**2 @ chance, np.abs(along) @ chance])
    return NightSums(int(rows.sum()), float(rows.sum()), sums).night


def payoffs(
    z: FloatArray, along: FloatArray, table: FloatArray, night: Night, margin: FloatArray, between: FloatArray
) -> FloatArray:
    """What each bet gains on a night."""
    p, rows, theta = sigmoid(z), table.sum(axis=0), strengths(night, between)
    x = theta[:, None, :, None] * np.array([1.0, -1.0])[:, None, None] * along[:, None, None, :] / rows.sum()
    expected = (np.log1p(p * np.expm1(x)) - p * x) @ rows
    return payoffs_of(night, margin, between, theta, expected)


def share(found: Sequence[int | None]) -> str:
    wrong = sum(night is not None for night in found) / len(found)
    return f"{wrong:.1%} ± {math.sqrt(wrong * (1.0 - wrong) / len(found)):.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few years")
    parser.add_argument("--years", type=int, default=100, help="years of each kind")
    given = parser.parse_args()
    years = 4 if given.quick else given.years
    print(f"Years without drift, {years} of each kind; at most {ALPHA:.0%} of them may have an alarm.\n")
    print("| rows a night | rate | what the rows of a night share | false alarms |")
    print("| --- | --- | --- | --- |")
    for kind in KINDS:
        rate = float(SHARE @ sigmoid(kind.mean + 1.2 * WIDTH))
        low, high = kind.rows
        rows = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        print(f"| {rows} | {rate:.1%} | {kind.name} | {share(alarms(0, years, YEAR, kind))} |", flush=True)
    print("\nFitted on 20,000 rows of few users, whose log-odds differ by sd 1; 1,000 rows a night, of other users.\n")
    print("| users | with --resample-by | false alarms |")
    print("| --- | --- | --- |")
    for users, by_user in ((80, False), (80, True), (400, True)):
        print(f"| {users} | {by_user} | {share(alarms(1, years, YEAR, users=users, by_user=by_user))} |", flush=True)
    print(f"\n1,000 rows a night, rate 31 %; nothing can be found in the first {LEARNED} nights.\n")
    print("| change | shared | begins in night | found after, median | 90 % of runs within | alarms before it began |")
    print("| --- | --- | --- | --- | --- | --- |")
    for shift, slope, spread, begin in (
        (0.2, 1.0, 0.0, 1),
        (0.2, 1.0, 0.0, 31),
        (0.2, 1.0, 0.0, 51),
        (-0.2, 1.0, 0.0, 51),
        (0.2, 1.0, 0.0, 201),
        (0.1, 1.0, 0.0, 51),
        (0.5, 1.0, 0.0, 51),
        (0.0, 0.8, 0.0, 51),
        (0.5, 1.0, 0.2, 51),
    ):
        kind = Kind("", spread=spread)
        found = alarms(2, years, begin + PATIENCE, kind, begin=begin, shift=shift, slope=slope)
        early = sum(night is not None and night < begin for night in found)
        after = [
            PATIENCE + 1 if night is None else night - begin + 1 for night in found if night is None or night >= begin
        ]
        name = f"logit {shift:+.1f}" if slope == 1.0 else f"logit x {slope}"
        middle, late = np.quantile(after, 0.5), np.quantile(after, 0.9)
        within = f"{late:.0f}" if late <= PATIENCE else f"over {PATIENCE}"
        print(f"| {name} | sd {spread} | {begin} | {middle:.0f} nights | {within} | {early} of {years} |", flush=True)


if __name__ == "__main__":
    main()
