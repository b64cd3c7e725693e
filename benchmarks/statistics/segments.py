"""How often `--find-segments` finds a segment in a calibrated score, and how often a planted one.

python benchmarks/statistics/segments.py [DIRECTORY] [--quick]

Simulated tables have 20 features: ten numbers, five categories, five whole numbers; in every second one the score
depends on two of them. In calibrated scores any segment is a false one: those of 5,000 simulated rows, and those of
the files ``*.test.parquet`` in DIRECTORY, whose labels are drawn from their probabilities. A planted segment counts as
found if it shares with a reported one more than half of the rows of both, and as named if that has the same features.
Beside it stands the multicalibration error of MCGrad on all rows: how often it is above the 95 % quantile of what it is
for calibrated scores. (Its own p-value, that of one segment, is below 0.01 for these too.)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import polars as pl

from calcli.batch import Column, FloatArray, IntArray
from calcli.learners.conditions import Axis, Condition, rows_of
from calcli.numeric.links import sigmoid
from calcli.reports.measuring import Candidate
from calcli.reports.schema import ScoreSource
from calcli.reports.segments import Coded, Segments, find_segments

ROWS, SHOWN = 5_000, 5

COMPARED = 8
"""The number of tables on which MCGrad's error is computed."""

Where = Mapping[str, tuple[float, float]]
"""The least and the greatest value of each feature in a segment."""

HIGH = float("inf")
PLANTED: dict[str, Where] = {
    "one feature, 20 %": {"x1": (0.8416, HIGH)},
    "one feature, 10 %": {"x1": (1.2816, HIGH)},
    "one feature, 2 %": {"x1": (2.0537, HIGH)},
    "two features, 10 %": {"x1": (0.2533, HIGH), "k1": (1, 1)},
    "two features, 5 %": {"x1": (0.8416, HIGH), "k1": (1, 1)},
    "two features, 2 %": {"x1": (0.2533, HIGH), "k1": (4, 4)},
    "two features, flat alone, 10 %": {"i0": (0, 0), "k1": (0, 0)},
}
FLAT = {"i0": (0, 1), "k1": (0, 0)}
"""In the last one the gap has the other sign in the other half of these ranges, so that neither feature shows it."""

GAPS = (0.05, 0.1, 0.2)


class Rows(NamedTuple):
    """Rows as `find_segments` takes them."""

    labels: IntArray
    weight: FloatArray | None = None
    together: IntArray | None = None


class Table(NamedTuple):
    """Features, and the probabilities of a score."""

    columns: dict[str, Column]
    prob: FloatArray

    @classmethod
    def simulated(cls, rng: np.random.Generator, rows: int, *, of_features: bool) -> Table:
        numbers = {f"x{place}": rng.normal(size=rows) for place in range(10)}
        numbers["x8"] = 0.8 * numbers["x0"] + 0.6 * numbers["x8"]
        numbers["x9"] = np.exp(numbers["x9"])
        columns = {name: Column("number", values) for name, values in numbers.items()}
        shares = [0.4, 0.2, 0.2, 0.1, 0.05, 0.05]
        for place in range(5):
            columns[f"k{place}"] = Column("category", rng.choice(6, rows, p=shares).astype(np.int32), tuple("abcdef"))
            columns[f"i{place}"] = Column("number", rng.integers(0, 4 + 10 * place, rows).astype(np.float64))
        effect = 0.7 * columns["x0"].values - 0.5 * (columns["k0"].values == 1)
        return cls(columns, sigmoid(rng.normal(-1.0, 1.0, rows) + (effect if of_features else 0.0)))

    @classmethod
    def read(cls, path: Path) -> Table:
        frame = pl.read_parquet(path)
        columns: dict[str, Column] = {}
        for column in frame.drop("label", "logit", "prob", "node_id", strict=False):
            if column.dtype == pl.String:
                levels = column.drop_nulls().unique().sort().to_list()
                codes = column.replace_strict(levels, range(len(levels)), return_dtype=pl.Int32).fill_null(-1)
                columns[column.name] = Column("category", codes.to_numpy(), tuple(levels))
            else:
                columns[column.name] = Column("number", column.cast(pl.Float64).fill_null(float("nan")).to_numpy())
        return cls(columns, frame["prob"].to_numpy())

    @property
    def coded(self) -> Coded:
        axes = tuple(Axis.of(name, column) for name, column in self.columns.items())
        codes = [axis.codes(column) for axis, column in zip(axes, self.columns.values(), strict=True)]
        return Coded(axes, np.stack(codes))

    def inside(self, where: Where) -> np.ndarray:
        parts = [
            (self.columns[name].values >= low) & (self.columns[name].values <= high)
            for name, (low, high) in where.items()
        ]
        return np.logical_and.reduce(parts)


def found(table: Table, label: IntArray) -> Segments:
    return find_segments([Candidate("raw", ScoreSource("raw"), table.prob)], Rows(label), table.coded, SHOWN, 0)


def drawn(rng: np.random.Generator, rate: FloatArray) -> IntArray:
    return (rng.random(len(rate)) < rate).astype(np.int64)


def false_segments(tables: Iterator[Table], runs: int) -> tuple[int, int]:
    """The number of tables with a segment although the score is calibrated, and of all tables."""
    false = count = 0
    for count, table in zip(range(1, runs + 1), tables, strict=False):
        false += bool(found(table, drawn(np.random.default_rng(count), table.prob)).found)
    return false, count


def simulated() -> Iterator[Table]:
    run = 0
    while True:
        yield Table.simulated(np.random.default_rng(100_000 + run), ROWS, of_features=run % 2 == 0)
        run += 1


def real(directory: Path) -> Iterator[Table]:
    paths = [path for path in sorted(directory.glob("*.test.parquet")) if "prob" in pl.read_parquet_schema(path)]
    tables = [Table.read(path) for path in paths]
    while tables:
        yield from tables


class Outcome(NamedTuple):
    """The shares of tables in which the planted segment is found and named, and what else is."""

    found: float
    named: float
    other: float
    """The share of tables with a segment that has less than a tenth of its rows in the planted one."""

    detectable: float
    multicalibration: float | None


def above(table: Table, gap: float) -> FloatArray:
    """The rate of rows that are wrong by the gap."""
    return np.minimum(table.prob + gap, 1.0)


def flat(table: Table, gap: float) -> FloatArray:
    """The rate of rows that are wrong in either part of a feature, each way in a part of another one."""
    first, second = (table.inside({name: ends}) for name, ends in FLAT.items())
    one = np.where(table.columns["i0"].values == 0, 1.0, -1.0) * first
    share = float(second[first].mean())
    gap_of_row = np.minimum(gap, np.minimum(table.prob, 1.0 - table.prob))
    return np.clip(table.prob + one * np.where(second, 1.0, -share / (1.0 - share)) * gap_of_row, 0.0, 1.0)


def planted(where: Where, gap: float, rows: int, runs: int, limit: float | None) -> Outcome:
    outcomes = []
    errors = []
    for run in range(runs):
        rng = np.random.default_rng(1000 + run)
        table = Table.simulated(rng, rows, of_features=run % 2 == 0)
        inside = table.inside(where)
        label = drawn(
            rng, flat(table, gap) if set(where) == set(FLAT) else np.where(inside, above(table, gap), table.prob)
        )
        segments = found(table, label)
        shared, named, other = 0.0, False, False
        for entry in segments.found:
            conditions = cast("list[dict[str, str]]", entry["conditions"])
            held = rows_in(table.coded, conditions)
            other |= bool((held & inside).sum() < 0.1 * held.sum())
            jaccard = float((held & inside).sum() / (held | inside).sum())
            if jaccard > shared:
                shared, named = jaccard, {one["feature"] for one in conditions} == set(where)
        detectable = cast("float", segments.searches[0]["detectable"])
        outcomes.append((shared > 0.5, shared > 0.5 and named, other, detectable))
        if limit is not None and run < COMPARED:
            errors.append(multicalibration(table, label) > limit)
    return Outcome(*np.mean(outcomes, axis=0).tolist(), float(np.mean(errors)) if errors else None)


def rows_in(coded: Coded, conditions: list[dict[str, str]]) -> np.ndarray:
    """The rows of conditions that are given as text."""
    chosen = []
    for one in conditions:
        place = next(place for place, axis in enumerate(coded.axes) if axis.name == one["feature"])
        lo, hi, _ = coded.axes[place].choices()
        every = (Condition(place, *pair) for pair in zip(lo.tolist(), hi.tolist(), strict=True))
        chosen.append(next(each for each in every if coded.axes[place].text(each) == one["text"]))
    return rows_of(coded.codes, tuple(chosen))


def multicalibration(table: Table, label: IntArray) -> float:
    """MCGrad's multicalibration error, in its standard deviations."""
    from mcgrad.metrics import MulticalibrationError
    from pandas import DataFrame

    words = [name for name, column in table.columns.items() if column.role == "category"]
    numbers = [name for name in table.columns if name not in words]
    frame = DataFrame({name: column.values for name, column in table.columns.items()} | {"y": label, "p": table.prob})
    frame[words] = frame[words].astype(str)
    error = MulticalibrationError(
        frame, "y", "p", categorical_segment_columns=words, numerical_segment_columns=numbers, max_depth=2
    )
    return float(error.mce_sigma)


def of_calibrated(run: int) -> float:
    rng = np.random.default_rng(200_000 + run)
    table = Table.simulated(rng, ROWS, of_features=run % 2 == 0)
    return multicalibration(table, drawn(rng, table.prob))


NOTE = """
A table has 20 features. A planted segment counts as found if it shares with a reported one more than half of the rows
of both, and as named if that has the same features. MCGrad's multicalibration error is "larger" if it is above the 95 %
quantile of 24 tables with calibrated scores (8 tables a row); its own p-value is below 0.01 for these too. It uses all
rows at once and names none: it can see more than can be named. "Flat alone" is wrong the other way where one of the
features is another one, so that neither shows anything alone; "another segment" is then one of these.
"""


def main() -> None:
    quick = "--quick" in sys.argv
    folders = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    runs = 40 if quick else 200
    print("| calibrated scores | tables with a segment | tables | share | standard error |")
    print("| --- | --- | --- | --- | --- |")
    kinds = {f"simulated, {ROWS:,} rows, 20 features": simulated()}
    for folder in folders:
        kinds["real features and scores"] = real(folder)
    for name, tables in kinds.items():
        false, count = false_segments(tables, runs)
        if count:
            share = false / count
            error = (max(share, 1.0 / count) * (1.0 - share) / count) ** 0.5
            print(f"| {name} | {false} | {count} | {share:.3f} | {error:.3f} |", flush=True)
    limit = float(np.quantile([of_calibrated(run) for run in range(3 * COMPARED)], 0.95))
    for rows, tries in ((ROWS, 30), (50_000, 10)):
        print(f"\n{rows:,} rows, {tries // (3 if quick else 1)} tables each.\n")
        print("| planted | gap | found | named | another segment | detectable in 10 % | MCGrad's error is larger |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name, where in PLANTED.items():
            for gap in GAPS:
                one = planted(where, gap, rows, tries // (3 if quick else 1), limit if rows == ROWS else None)
                error = "" if one.multicalibration is None else f"{one.multicalibration:.2f}"
                cells = f"{one.found:.2f} | {one.named:.2f} | {one.other:.2f} | {one.detectable:.3f}"
                print(f"| {name} | {gap} | {cells} | {error} |", flush=True)
    print(NOTE)


if __name__ == "__main__":
    main()
