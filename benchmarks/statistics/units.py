"""Rows of units that share what no score knows: coverage of intervals, and how often calibrated scores are called off.

``python benchmarks/statistics/units.py [--quick]``

A unit's rows share an effect on the log-odds. Scores are calibrated on average over it, p = E sigmoid(z + effect), with
z ~ N(-1, 1.2), or N(-4.5, 1.2) where positives are rare. The first column counts rows as if they were independent.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from held_out import reported, share

from calcli.batch import Batch, FloatArray, IntArray, SamplingUnits
from calcli.metrics.base import Options, Scored
from calcli.metrics.diagnosis import diagnose, hosmer_lemeshow, spiegelhalter_z
from calcli.metrics.joint_test import GapSums
from calcli.metrics.multiple import adjusted, by_group
from calcli.metrics.paired import paired
from calcli.metrics.proper import nll
from calcli.metrics.regression import intercept, slope
from calcli.numeric.links import logit, sigmoid

LEVEL = 0.05

NODES, MASSES = np.polynomial.hermite_e.hermegauss(40)
"""Of the normal distribution of the effect."""


class Table(NamedTuple):
    """Units of these sizes, and the standard deviation of what each shares."""

    name: str
    sizes: IntArray
    spread: float
    centre: float = -1.0

    def draw(self, seed: int) -> tuple[FloatArray, IntArray, IntArray]:
        """The calibrated probabilities of the rows, their labels and units."""
        rng = np.random.default_rng([seed, len(self.sizes), int(10 * self.spread - self.centre)])
        unit = np.repeat(np.arange(len(self.sizes)), self.sizes)
        z = rng.normal(self.centre, 1.2, len(unit))
        effect = rng.normal(0.0, self.spread, len(self.sizes))
        return on_average(z, self.spread), (rng.random(len(z)) < sigmoid(z + effect[unit])).astype(np.int64), unit


def on_average(z: FloatArray, spread: float) -> FloatArray:
    """E sigmoid(z + effect)."""
    each: FloatArray = sigmoid(z[:, None] + spread * NODES) @ (MASSES / MASSES.sum())
    return each


def tables() -> list[Table]:
    uneven = np.maximum(1, np.random.default_rng(5).exponential(50, 40)).astype(np.int64)
    kinds = {
        "40 units of 50 rows": np.full(40, 50),
        "200 units of 10 rows": np.full(200, 10),
        "40 units of 1 to 109 rows": uneven,
        "50 units of 12 to 600 rows": np.maximum(2, 600 // (1 + np.arange(50))),
        "10 units of 200 rows": np.full(10, 200),
    }
    made = [Table(name, sizes, spread) for name, sizes in kinds.items() for spread in (0.5, 1.0)]
    rare = [name for name in kinds if name.startswith("40 units")]
    return [*made, *(Table(f"{name}, rare", kinds[name], 1.0, -4.5) for name in rare)]


def worse(prob: FloatArray) -> FloatArray:
    """Another score: log-odds that are too high and too sure."""
    return sigmoid(1.2 * logit(prob) + 0.3)


def gain(table: Table) -> float:
    """By how much its log-loss is greater on all rows."""
    p = on_average(np.random.default_rng(0).normal(table.centre, 1.2, 400_000), table.spread)
    q = worse(p)
    return float((p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).mean())


def coverage(repeats: int) -> None:
    print("# Coverage of intervals: nominal 0.950\n")
    print("| units | spread of their log-odds | `nll.diff`, rows | by unit | `slope` by unit | `intercept` by unit |")
    print("| --- | --- | --- | --- | --- | --- |")
    for table in tables():
        truth, held = gain(table), [[], [], [], []]
        for seed in range(repeats):
            prob, label, unit = table.draw(seed)
            one, other = Scored(label, worse(prob), units=unit), Scored(label, prob, units=unit)
            found = [
                paired(replace(one, units=None), replace(other, units=None), nll.rows),
                paired(one, other, nll.rows),
            ]
            ends = [(each.lo, truth, each.hi) for each in found]
            ends += [
                (metric.lo, at, metric.hi)
                for metric, at in ((slope(other, Options()), 1.0), (intercept(other, Options()), 0.0))
            ]
            for place, (lo, at, hi) in enumerate(ends):
                held[place].append(lo is not None and hi is not None and lo <= at <= hi)
        print(f"| {table.name} | {table.spread:g} | {' | '.join(map(share, held))} |", flush=True)


def alarms(repeats: int) -> None:
    print("\n# Calibrated scores: share rejected at the 5 % level\n")
    print("| units | spread | all gaps, rows | by unit | off on average | `hosmer_lemeshow` | `spiegelhalter_z` "
          "| `--by` 8 groups of units, any | `--by` 8 groups of rows, any |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for table in tables():
        off: list[list[bool]] = [[] for _ in range(7)]
        for seed in range(repeats):
            prob, label, unit = table.draw(seed)
            alone, scored = Scored(label, prob), Scored(label, prob, units=unit)
            by_row, by_unit = diagnose(GapSums.of(alone)), diagnose(GapSums.of(scored))
            rng = np.random.default_rng(seed)
            ps = [by_row.p, by_unit.p, by_unit.shift_p]
            ps += [metric(scored, Options()).p for metric in (hosmer_lemeshow, spiegelhalter_z)]
            for place in (rng.integers(0, 8, len(table.sizes))[unit], rng.integers(0, 8, len(unit))):
                tests = by_group(scored, place, 8)
                found = [p for p in adjusted([(one.p, one.least) for one in tests]) if p is not None]
                ps.append(min(found, default=1.0))
            for place, p in enumerate(ps):
                off[place].append(p is not None and p <= LEVEL)
        print(f"| {table.name} | {table.spread:g} | {' | '.join(map(share, off))} |", flush=True)


def fits(repeats: int) -> None:
    print("\n# Coverage of the interval that `fit --method platt` reports, for the gain on new units\n")
    print("The scores are over-confident: 1.4 times the true log-odds. The nominal coverage is 0.950.\n")
    print("| units | spread | rows held out | units held out, by unit |\n| --- | --- | --- | --- |")
    for table in [*tables()[:4], *tables()[6:10]]:
        held: list[list[bool]] = [[], []]
        fresh = on_average(np.random.default_rng(1).normal(table.centre, 1.2, 20_000), table.spread)
        for seed in range(repeats):
            prob, label, unit = table.draw(seed)
            batch = Batch(1.4 * logit(prob), label, units=SamplingUnits(unit))
            for place, rows in enumerate((replace(batch, units=None), batch)):
                held[place].append(reported(rows, "platt", 1.4 * logit(fresh), fresh).held)
        print(f"| {table.name} | {table.spread:g} | {' | '.join(map(share, held))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    coverage(20 if quick else 300)
    alarms(10 if quick else 300)
    fits(10 if quick else 100)


if __name__ == "__main__":
    main()
