"""How often `--drift` is wrong, and how soon it is right: simulated nights.

python benchmarks/quality/drift.py [--quick]
"""

from __future__ import annotations

import sys

import numpy as np

from calcli.batch import Batch
from calcli.evaluation.drift import ALPHA, DriftBaseline
from calcli.methods import calibrator, catalog
from calcli.numeric.e_process import BETS, EProcess, directions, log_payoffs
from calcli.numeric.links import logit, sigmoid

ROWS = 1000
FITTED = 20_000
QUIET = 50


def rows(rng: np.random.Generator, count: int, shift: float = 0.0, slope: float = 1.0) -> Batch:
    z = rng.normal(-1.0, 1.2, count)
    label = (rng.random(count) < sigmoid(slope * z + shift)).astype(np.int64)
    return Batch(2.0 * z + 0.5, label)


def nights_until_alarm(seed: int, nights: int, moved_on: int, shift: float, slope: float) -> int | None:
    """The night of the alarm, if there is one."""
    rng = np.random.default_rng(seed)
    train, held_out = rows(rng, FITTED), rows(rng, FITTED)
    platt = calibrator.fit(catalog.find("platt"), train, {})
    before = DriftBaseline.of(platt.predict(held_out), held_out.labels, None)
    wealth = EProcess.at_first(BETS)
    for index in range(1, nights + 1):
        night = rows(rng, ROWS, shift, slope) if index >= moved_on else rows(rng, ROWS)
        prob = platt.predict(night)
        along = directions(logit(prob), float(before.centre[0]), float(before.spread[0]))
        wealth = wealth.after(log_payoffs(night.labels - prob, along, before.margin[0], None))
        if wealth.evidence >= np.log(1 / ALPHA):
            return index
    return None


def main() -> None:
    runs, nights = (10, 100) if "--quick" in sys.argv else (200, 1000)
    alarms = [nights_until_alarm(seed, nights, nights + 1, 0.0, 1.0) for seed in range(runs)]
    wrong = sum(alarm is not None for alarm in alarms)
    print(
        f"No drift, {nights:,} nights, {runs} runs: {wrong} false alarms ({wrong / runs:.1%}; promised: {ALPHA:.0%})\n"
    )
    print("| from night 51 on | found after, median | 9 in 10 | before it began |")
    print("| --- | --- | --- | --- |")
    runs = min(runs, 100)
    for name, shift, slope in (
        ("logit + 0.1", 0.1, 1.0),
        ("logit + 0.2", 0.2, 1.0),
        ("logit - 0.2", -0.2, 1.0),
        ("logit + 0.5", 0.5, 1.0),
        ("logit x 0.8", 0.0, 0.8),
    ):
        found = [nights_until_alarm(seed, QUIET + 200, QUIET + 1, shift, slope) for seed in range(runs)]
        early = sum(night is not None and night <= QUIET for night in found)
        after = [night - QUIET if night is not None else 200 for night in found if night is None or night > QUIET]
        middle, late = np.quantile(after, 0.5), np.quantile(after, 0.9)
        print(f"| {name} | {middle:.0f} nights | {late:.0f} nights | {early} of {runs} |")


if __name__ == "__main__":
    main()
