"""How often `--drift` is wrong within a year, and how soon it is right: nights whose rows share an effect, or do not.

python benchmarks/statistics/drift.py [--quick]
"""

from __future__ import annotations

import sys

import numpy as np

from calcli.numeric.e_process import CHANCES, EProcess, Night, between_nights, directions, log_payoffs
from calcli.numeric.links import sigmoid
from calcli.reports.drift_baseline import DriftBaseline
from calcli.verbs.drift import ALPHA
from calcli.verbs.drift_log import ASSUMED, EARLY, LEARNED

FITTED = 20_000
YEAR = 365
QUIET = 50
PATIENCE = 200


def labels(rng: np.random.Generator, z: np.ndarray, moved: float = 0.0, slope: float = 1.0) -> np.ndarray:
    return (rng.random(len(z)) < sigmoid(slope * z + moved)).astype(np.int64)


def scores(rng: np.random.Generator, rows: int, mean: float) -> np.ndarray:
    return rng.normal(mean, 1.2, rows)


def effects(rng: np.random.Generator, nights: int, spread: float, memory: float) -> np.ndarray:
    """What the rows of a night share, on the log-odds: AR(1) with this memory."""
    own = np.empty(nights)
    own[0] = rng.normal(0.0, spread)
    for night in range(1, nights):
        own[night] = memory * own[night - 1] + rng.normal(0.0, spread * np.sqrt(1.0 - memory**2))
    return own


def alarm(
    seed: int,
    nights: int,
    *,
    rows: int = 1000,
    mean: float = -1.0,
    spread: float = 0.0,
    memory: float = 0.0,
    begin: int = 10**9,
    shift: float = 0.0,
    slope: float = 1.0,
) -> int | None:
    """The night of the alarm, from 1, if there is one; what moves has moved from night `begin` on."""
    rng = np.random.default_rng(seed)
    z = scores(rng, FITTED, mean)
    baseline = DriftBaseline.of(sigmoid(z), labels(rng, z), None)
    wealth, seen, shared = EProcess.at_first(CHANCES), [], effects(rng, nights, spread, memory)
    for index in range(1, nights + 1):
        z, moved = scores(rng, rows, mean), index >= begin
        label = labels(rng, z, shared[index - 1] + shift * moved, slope if moved else 1.0)
        residual, weight = label - sigmoid(z), np.ones(rows)
        along = directions(z, float(baseline.centre[0]), float(baseline.spread[0]))
        night = Night.of(z, residual, along, weight)
        between = (ASSUMED * night.lean) ** 2
        if len(seen) >= EARLY:
            learned = between_nights(np.array([one.mean for one in seen]), np.array([one.noise for one in seen]))
            between = learned if len(seen) >= LEARNED else np.minimum(between, learned)
        wealth = wealth.after(log_payoffs(z, residual, along, baseline.margin[0], between, weight))
        seen.append(night)
        if wealth.evidence >= np.log(1 / ALPHA):
            return index
    return None


def main() -> None:
    runs = 5 if "--quick" in sys.argv else 100
    print(f"Years without drift, {runs} of each kind; at most {ALPHA:.0%} of them may have an alarm.\n")
    print("| rows a night | rate | what the rows of a night share | false alarms |")
    print("| --- | --- | --- | --- |")
    for rows, mean, spread, memory, name in (
        (1000, -1.0, 0.0, 0.0, "nothing"),
        (1000, -1.0, 0.1, 0.0, "sd 0.1 on the log-odds"),
        (1000, -1.0, 0.2, 0.0, "sd 0.2"),
        (1000, -1.0, 0.1, 0.5, "sd 0.1, half of it from the night before: outside of what is assumed"),
        (200, -5.0, 0.0, 0.0, "nothing"),
        (200, -5.0, 0.2, 0.0, "sd 0.2"),
        (10_000, -1.0, 0.2, 0.0, "sd 0.2"),
    ):
        found = [alarm(seed, YEAR, rows=rows, mean=mean, spread=spread, memory=memory) for seed in range(runs)]
        wrong = sum(night is not None for night in found)
        rate = float(sigmoid(np.random.default_rng(0).normal(mean, 1.2, 10**5)).mean())
        print(f"| {rows:,} | {rate:.1%} | {name} | {wrong} of {runs} |", flush=True)
    print("\n1,000 rows a night, rate 31 %; the change begins in night 1 or in night 51.\n")
    print("| change | shared | begins in night | found after, median | 90 % of runs within | alarms before it began |")
    print("| --- | --- | --- | --- | --- | --- |")
    for shift, slope, spread, begin in (
        (0.2, 1.0, 0.0, 1),
        (0.1, 1.0, 0.0, 51),
        (0.2, 1.0, 0.0, 51),
        (-0.2, 1.0, 0.0, 51),
        (0.5, 1.0, 0.0, 51),
        (0.0, 0.8, 0.0, 51),
        (0.5, 1.0, 0.2, 51),
    ):
        found = [
            alarm(1000 + seed, begin + PATIENCE, spread=spread, begin=begin, shift=shift, slope=slope)
            for seed in range(runs)
        ]
        early = sum(night is not None and night < begin for night in found)
        after = [PATIENCE if night is None else night - begin + 1 for night in found if night is None or night >= begin]
        name = f"logit {shift:+.1f}" if slope == 1.0 else f"logit x {slope}"
        middle, late = np.quantile(after, 0.5), np.quantile(after, 0.9)
        print(f"| {name} | sd {spread} | {begin} | {middle:.0f} nights | {late:.0f} | {early} of {runs} |", flush=True)


if __name__ == "__main__":
    main()
