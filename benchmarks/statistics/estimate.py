"""`calcli estimate` where few rows have labels: how often its interval holds the true rate, and how wide it is.

``python benchmarks/statistics/estimate.py [--tables N] [--kind verdict|score|units] [--rate R] [--labels N] [--quick]``

Without ``--tables`` a rate of 3 % has 1,000 tables, for a Monte-Carlo error of 0.007, and others 400, for one of 0.011.

A table has 10,000 rows, of which the first few, drawn at random like the others, have labels. A verdict is wrong
in 20 % of the positives and 15 % of the negatives. A score has an AUC of .85, and is over-confident. Units have 1 to 30
rows, whose rates differ (intraclass correlation 0.05), and whole units are labelled until there are so many rows.

`ours` is the interval of the verb, `alone` its interval of the labels alone, `ppi++` the textbook's: its estimate with
the weight of Angelopoulos, Duchi and Zrnic (2023), plus and minus 1.96 errors. Widths are ratios of means.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

import calcli
from calcli.batch import FloatArray, IntArray
from calcli.metrics.powered import Sample, powered

ROWS = 10_000
RATES = (0.03, 0.1, 0.3, 0.6)
LABELS = (25, 50, 100, 200, 400, 1000)
TABLES, TABLES_OF_RARE = 400, 1000
Z = 1.959963984540054
ICC = 0.05


class Table(NamedTuple):
    label: IntArray
    prob: FloatArray
    unit: IntArray | None
    labelled: int

    def frame(self) -> pl.DataFrame:
        """The table as the verb reads it: labels of the first rows alone."""
        label = (
            pl.Series("label", self.label)
            .to_frame()
            .with_row_index()
            .select(label=pl.when(pl.col("index") < self.labelled).then("label"))
        )
        columns = {} if self.unit is None else {"unit": self.unit}
        return pl.DataFrame({"prob": self.prob, **columns}).hstack(label)


def drawn(rng: np.random.Generator, kind: str, rate: float, labels: int) -> Table:
    """A table of this kind."""
    unit, count = None, labels
    chance: FloatArray = np.full(ROWS, rate)
    if kind == "units":
        sizes = rng.integers(1, 31, ROWS // 15 + 100)
        unit = np.repeat(np.arange(len(sizes)), sizes)[:ROWS]
        each = rng.beta(rate * (1.0 - ICC) / ICC, (1.0 - rate) * (1.0 - ICC) / ICC, len(sizes))
        chance = each[unit]
        count = int((unit <= unit[labels - 1]).sum())
    label = (rng.random(ROWS) < chance).astype(np.int64)
    if kind == "score":
        score = 1.8 * (rng.normal(size=ROWS) + 1.4657 * label) - 1.0
        return Table(label, 1.0 / (1.0 + np.exp(-score)), unit, count)
    says_yes = np.where(label == 1, rng.random(ROWS) > 0.2, rng.random(ROWS) < 0.15)
    return Table(label, says_yes.astype(np.float64), unit, count)


def textbook(table: Table) -> tuple[float, float]:
    """PPI++ of rows, and its standard error."""
    y, f, others = table.label[: table.labelled], table.prob[: table.labelled], table.prob[table.labelled :]
    n, rest = len(y), len(others)
    scale = float(np.cov(y, f)[0, 1]) / ((1.0 + n / rest) * max(float(np.var(table.prob)), 1e-12))
    scale = min(max(scale, 0.0), 1.0)
    error = math.sqrt(scale**2 * float(np.var(others)) / rest + float(np.var(y - scale * f)) / n)
    return scale * float(others.mean()) + float((y - scale * f).mean()), error


def measured(table: Table, rate: float) -> list[float]:
    """Of one table: misses below and above, and width, of each interval; the width without calibration."""
    (found,) = calcli.estimate(
        table.frame(), prob="prob", classes=("0", "1"), resample_by=None if table.unit is None else "unit"
    ).estimates
    alone = found["labels_only"]
    value, error = textbook(table)
    first = np.arange(table.labelled)
    bare = powered(
        Sample(
            labelled=first,
            value=table.label[first].astype(np.float64),
            stand_in=table.prob,
            rate=True,
            units=table.unit,
        )
    )
    ends = [(found["lo"], found["hi"]), (alone["lo"], alone["hi"]), (value - Z * error, value + Z * error)]
    numbers = [number for lo, hi in ends for number in (lo > rate, hi < rate, hi - lo)]
    return [*map(float, numbers), bare.hi - bare.lo, found["value"] - rate, alone["value"] - rate]


def lines(kind: str, given: int | None, rates: Sequence[float], labels: Sequence[int]) -> Iterator[str]:
    for rate in rates:
        tables = given or (TABLES_OF_RARE if rate < 0.1 else TABLES)
        for count in labels:
            rng = np.random.default_rng([int(1000 * rate), count, len(kind)])
            each = np.array([measured(drawn(rng, kind, rate, count), rate) for _ in range(tables)])
            low, high, width, low_a, high_a, alone, low_p, high_p, ppi, bare, _, _ = each.mean(axis=0)
            error, error_a = np.sqrt(np.square(each[:, -2:]).mean(axis=0))
            yield (
                f"| {kind} | {rate:.0%} | {count:,} | {tables:,} | {1 - low - high:.3f} | {low:.3f} / {high:.3f} | "
                f"{1 - low_a - high_a:.3f} | {1 - low_p - high_p:.3f} | {width / alone:.3f} | {width / ppi:.3f} | "
                f"{width / bare:.3f} | {error / error_a:.3f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int)
    parser.add_argument("--kind", choices=("verdict", "score", "units"), nargs="*")
    parser.add_argument("--rate", type=float, nargs="*", default=RATES)
    parser.add_argument("--labels", type=int, nargs="*")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    tables = 20 if given.quick else given.tables
    header = (
        *("table", "rate", "labels", "tables", "ours", "misses: too high / too low", "alone", "ppi++"),
        *("width / alone", "width / ppi++", "width / not calibrated", "error / alone"),
    )
    print(f"| {' | '.join(header)} |\n| --- |{' ---: |' * (len(header) - 1)}")
    for kind in given.kind or ("verdict", "score", "units"):
        for line in lines(kind, tables, given.rate, given.labels or (LABELS[2:] if kind == "units" else LABELS)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
