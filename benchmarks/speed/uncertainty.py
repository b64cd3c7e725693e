"""``calcli uncertainty apply`` beside CatBoost's own calls on the same rows.

``python benchmarks/speed/uncertainty.py [--rows N] [--trees N] [--runs N] [--quick]`` writes Markdown. calcli reads
Parquet, predicts, decomposes and writes Parquet; CatBoost makes a pool of columns that are in memory already and
predicts. What the one must do beside the other is shown by itself: polars reads the same file, adds as many columns of
numbers and writes it. CatBoost's calls and that copy are the floor.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

import calcli
from calcli.learners import catboost as learner
from calcli.models.ensemble import load_ensemble
from calcli.tables.load import load
from calcli.tables.source import open_source

SAMPLE = Path(__file__).parents[2] / "sample_data" / "train.parquet"
CLICKS = ("hour", "user_id", "country", "device", "slot", "campaign", "age", "price", "recency_days", "logged_in")
NUMBERS = ("hour", "user_id", "age", "price", "recency_days")


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few rows and trees, once")
    asked = parser.parse_args()
    if asked.quick:
        asked.rows, asked.trees, asked.runs = 20_000, 50, 1
    sample = pl.read_parquet(SAMPLE)
    print("| features | ensemble | calcli apply | CatBoost's calls | ratio | polars' copy | ratio to both |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.parquet"
        pl.concat([sample] * -(-asked.rows // len(sample))).head(asked.rows).write_parquet(rows)
        for kind, names in (("numbers", NUMBERS), ("numbers and categories", CLICKS)):
            flags = calcli.Flags(features=names)
            for ensemble, members in (("virtual", 10), ("sglb", 10)):
                place = Path(folder) / f"{ensemble}-{len(names)}"
                calcli.fit_ensemble(
                    sample.head(3000), place, ensemble=ensemble, members=members, trees=asked.trees, flags=flags
                )
                ours, theirs, copy = compared(place, rows, Path(folder) / "out.parquet", asked.runs)
                print(
                    f"| {kind} | {ensemble}, {members} members of {asked.trees} trees | {ours:.2f} s | {theirs:.2f} s "
                    f"| {ours / theirs:.2f} x | {copy:.2f} s | {ours / (theirs + copy):.2f} x |",
                    flush=True,
                )


def compared(place: Path, rows: Path, out: Path, runs: int) -> tuple[float, float, float]:
    """Medians of all three, in turn."""
    model = load_ensemble(place)
    with open_source(rows) as source:
        columns = load(source, model.binding, features=True, label=False).batch.features

    def theirs() -> None:
        pool = learner.pool(columns)
        for each in model.ensemble.models:
            if model.ensemble.virtual:
                each.virtual_ensembles_predict(pool, "VirtEnsembles", virtual_ensembles_count=model.ensemble.count)
            else:
                each.predict(pool)

    added = calcli.apply_ensemble(place, rows, out).columns

    def copy() -> None:
        more = [(pl.col("logit") * (number + 0.1)).alias(name) for number, name in enumerate(added)]
        pl.scan_parquet(rows).with_columns(more).sink_parquet(out)

    runs_of_each = [
        (seconds(lambda: calcli.apply_ensemble(place, rows, out)), seconds(theirs), seconds(copy)) for _ in range(runs)
    ]
    ours, its, copied = (statistics.median(each) for each in zip(*runs_of_each, strict=True))
    return ours, its, copied


if __name__ == "__main__":
    main()
