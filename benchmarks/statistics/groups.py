"""How often `--by` calls a calibrated group off, and how often it finds one that is: simulated tables.

python benchmarks/statistics/groups.py [--quick]

The scores are calibrated by construction, so that any group with an adjusted p-value of at most 0.05 is a false alarm.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Scored
from calcli.metrics.multiple import adjusted, by_group
from calcli.numeric.links import sigmoid

LEVEL = 0.05


class Table(NamedTuple):
    """The probabilities of a table, and the groups of its rows by each column."""

    prob: FloatArray
    columns: list[tuple[IntArray, int]]


def scores(rng: np.random.Generator, rows: int, rate: float) -> FloatArray:
    """Probabilities with about this mean, as spread as those of a usual model."""
    z = rng.normal(0.0, 1.2 if rate > 0.1 else 0.7, rows)
    centre = np.log(rate / (1.0 - rate))
    for _ in range(30):
        centre += np.log(rate / (1.0 - rate)) - np.log((m := sigmoid(z + centre).mean()) / (1.0 - m))
    return sigmoid(z + centre)


def equal(rows: int, rate: float, columns: int = 1) -> Callable[[np.random.Generator], Table]:
    """Fifty groups of so many rows by each column; the columns cut the same rows in other ways."""

    def made(rng: np.random.Generator) -> Table:
        place = np.repeat(np.arange(50), rows)
        return Table(scores(rng, len(place), rate), [(rng.permutation(place), 50) for _ in range(columns)])

    return made


def skewed(rate: float) -> Callable[[np.random.Generator], Table]:
    """Fifty groups whose sizes fall like 1 / rank, from 600 rows to a dozen."""

    def made(rng: np.random.Generator) -> Table:
        place = np.repeat(np.arange(50), [max(2, 600 // (1 + rank)) for rank in range(50)])
        return Table(scores(rng, len(place), rate), [(place, 50)])

    return made


TABLES = {
    "50 groups of 40 rows": equal(40, 0.31),
    "50 groups of 10 rows, rate 2 %": equal(10, 0.02),
    "skewed sizes": skewed(0.31),
    "skewed sizes, rate 2 %": skewed(0.02),
    "six columns of 50 groups of 40 rows": equal(40, 0.31, 6),
}


def alarms(table: Table, label: IntArray) -> tuple[int, int]:
    """How many groups are called off, and how many are in the family."""
    tests = [one for place, count in table.columns for one in by_group(Scored(label, table.prob), place, count)]
    found = adjusted([(one.p, one.least) for one in tests], LEVEL)
    return sum(p is not None and p <= LEVEL for p in found), sum(p is not None for p in found)


def main() -> None:
    runs = 100 if "--quick" in sys.argv else 1000
    print("| calibrated scores | any group rejected | standard error | groups compared |")
    print("| --- | --- | --- | --- |")
    for name, made in TABLES.items():
        false, family = 0, 0.0
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            table = made(rng)
            off, members = alarms(table, (rng.random(len(table.prob)) < table.prob).astype(np.int64))
            false, family = false + (off > 0), family + members / runs
        rate = false / runs
        print(f"| {name} | {rate:.3f} | {np.sqrt(rate * (1 - rate) / runs):.3f} | {family:.1f} |")
    print("\n| one group of 50 off by so much on the log-odds | found, 40 rows | 200 rows | 1,000 rows |")
    print("| --- | --- | --- | --- |")
    for shift in (0.5, 1.0, 2.0):
        found = [sum(finds(seed, rows, shift) for seed in range(runs // 10)) / (runs // 10) for rows in (40, 200, 1000)]
        print(f"| {shift:g} | {' | '.join(f'{share:.2f}' for share in found)} |")


def finds(seed: int, rows: int, shift: float) -> bool:
    """Whether the group that is off is called off."""
    rng = np.random.default_rng(seed)
    table = equal(rows, 0.31)(rng)
    place, _ = table.columns[0]
    truth = sigmoid(np.log(table.prob / (1.0 - table.prob)) + shift * (place == 0))
    label = (rng.random(len(truth)) < truth).astype(np.int64)
    tests = by_group(Scored(label, table.prob), place, 50)
    p = adjusted([(one.p, one.least) for one in tests], LEVEL)[0]
    return p is not None and p <= LEVEL


if __name__ == "__main__":
    main()
