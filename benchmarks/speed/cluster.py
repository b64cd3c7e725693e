"""How the verbs grow with rows and with workers, on Spark.

``python benchmarks/speed/cluster.py [--millions 2 8 32] [--workers 1 2] [--quick]`` writes Markdown. Each worker is a
process with one core and an executor with its own Python. A cell has the seconds that pass and, of all processes, those
of processor time, which `apply` also has as a multiple of what Spark needs to write as much: a copy of the table, by
day as it is, with a column of random numbers. Each verb runs once after one run on few rows that does not count. Needs
Linux, pyspark, CatBoost and Java.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from growing import METRICS, processor_seconds, versions, write_days
from pyspark.sql import functions

import calcli
from calcli.spark import sample
from calcli.spark.session import read_table, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TREES: dict[str, Any] = {"trees": 8, "depth": 3, "link": "odds", "lambda": 30}
SAMPLE = 100_000
"""Rows that `boost` is fitted on."""

MEMORY = 2048
"""Of each worker, in MiB."""

COPY = "copy and a column"

APPLIED: dict[str, dict[str, Any]] = {"platt": {}, "isotonic": {}, "mbct": TREES | {"trees": 40, "hold": False}}
"""Methods, with parameters, of the artifacts that are applied."""


def fit_few(few: Path, place: Path) -> dict[str, Path]:
    """The artifacts that are applied, fitted here on few rows."""
    applied = {method: place / method for method in APPLIED}
    for method, params in APPLIED.items():
        calcli.fit(few, method=method, params=params, holdout="none", metrics="nll", output=applied[method])
    return applied


def verbs(
    session: SparkSession, table: Path, applied: Mapping[str, Path], place: Path
) -> dict[str, Callable[[], object]]:
    for old in place.glob("made*"):
        shutil.rmtree(old)
    places = (place / f"made{number}" for number in count())
    shared = {"engine": "spark", "metrics": METRICS}

    def fit(method: str, **settings: Any) -> Callable[[], object]:
        output = next(places)
        return lambda: calcli.fit(table, method=method, output=output, holdout="0.1", **shared, **settings)

    def apply(artifact: Path) -> Callable[[], object]:
        output = next(places)
        return lambda: calcli.apply(artifact, table, output, engine="spark")

    def copy(output: Path) -> None:
        rows = read_table(session, [str(table)]).withColumn("more", functions.rand())
        rows.write.partitionBy("day").parquet(str(output))

    bare, copied = next(places), next(places)
    return {
        "Spark's copy": lambda: read_table(session, [str(table)]).write.parquet(str(bare)),
        COPY: lambda: copy(copied),
        **{f"`apply`, {method}": apply(artifact) for method, artifact in applied.items()},
        "`evaluate`": lambda: calcli.evaluate(table, artifacts=(str(applied["platt"]),), **shared),
        "`fit -m platt`": fit("platt"),
        "`fit -m mbct`": fit("mbct", params=TREES),
        f"`fit -m boost --sample {SAMPLE}`": fit("boost", sample=SAMPLE),
    }


def timed(works: Mapping[str, Callable[[], object]]) -> Iterator[str]:
    copying = 0.0
    for name, work in works.items():
        processor, wall = processor_seconds(), time.perf_counter()
        work()
        used = processor_seconds() - processor
        copying = used if name == COPY else copying
        ratio = f", {used / copying:.1f} x" if "apply" in name else ""
        yield f"{time.perf_counter() - wall:.0f} s, {used:.0f} s{ratio}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, nargs="+", default=[2, 8, 32])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--quick", action="store_true", help="60,000 rows, 1 worker")
    given = parser.parse_args()
    millions, workers = ([0.06], [1]) if given.quick else (given.millions, given.workers)
    if given.quick:
        sample.MOST_ROWS = 20_000
    grown, walked = f"{TREES['trees']} trees of depth {TREES['depth']}", APPLIED["mbct"]["trees"]
    print(f"{versions()}\n\nSeconds, and seconds of a processor; `fit -m mbct` grows {grown}, `apply` walks {walked}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_days(place / "few", 80_000)
        applied = fit_few(place / "few", place)
        tables = {size: place / f"{size:g}" for size in millions}
        for size, table in tables.items():
            write_days(table, round(size * 1e6))
        for number in workers:
            with spark_session(f"local-cluster[{number},1,{MEMORY}]") as session:
                few = verbs(session, place / "few", applied, place)
                for work in few.values():
                    work()
                print(f"\n| million rows, workers: {number} | {' | '.join(few)} |\n| --: |{' --: |' * len(few)}")
                for size, table in tables.items():
                    print(f"| {size:g} | {' | '.join(timed(verbs(session, table, applied, place)))} |", flush=True)


if __name__ == "__main__":
    main()
