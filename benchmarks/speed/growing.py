"""How many rows a core does in a second: on one machine, in a warehouse's SQL (DuckDB), and on Spark.

``python benchmarks/speed/growing.py [--rows N] [--runs N] [--quick]`` writes Markdown. What is counted is processor
time, of all threads and processes together, once everything has started and warmed up: so the numbers add up over
cores, and do not depend on what else the machine does. Spark runs with one core, in local mode. Needs Linux, and for
Spark pyspark and Java; without them its column stays empty.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import calcli
from calcli.errors import MissingExtraError
from calcli.spark.session import spark_session
from calcli.verbs.export import ExportRequest, export

FILES = 8
METRICS = "nll,brier,auc,ece,mvce"
TICKS = os.sysconf("SC_CLK_TCK")


def write_days(folder: Path, rows: int) -> None:
    """Clicks with their log-odds, a weight, and three columns that only pass by."""
    for place in range(FILES):
        rng = np.random.default_rng(place)
        z = rng.normal(-2, 1.5, rows // FILES)
        day = folder / f"day=2026-01-{place + 1:02d}"
        day.mkdir(parents=True)
        pl.DataFrame(
            {
                "logit": z,
                "label": (rng.random(len(z)) < 1 / (1 + np.exp(-(0.7 * z - 0.3)))).astype(np.int8),
                "user": rng.integers(0, 1_000_000, len(z)),
                "item": rng.integers(0, 5_000, len(z), dtype=np.int32),
                "slot": rng.integers(0, 7, len(z), dtype=np.int8),
            }
        ).write_parquet(day / "0.parquet")


_SEEN: dict[tuple[int, int], int] = {}
"""Of each process of ours, by its number and start, what it had used when it was seen last: what it uses afterwards is
lost where it ends in between. (Spark's daemons of Python ignore children that end, and so does the system's own sum.)
"""


def processor_seconds() -> float:
    """What this process and all that it has started have used so far."""
    used, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        one = int(stat.parent.name), int(fields[19])
        parents[one], used[one] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = {one for one in used if one[0] == os.getpid() or one in _SEEN}
    while more := {one for one, parent in parents.items() if parent in {pid for pid, _ in ours}} - ours:
        ours |= more
    _SEEN.update({one: used[one] for one in ours})
    return sum(_SEEN.values()) / TICKS


def rows_each_second(work: Callable[[], object], rows: int, runs: int) -> float:
    """Of processor time; the median of some runs after one that does not count."""
    work()
    found = []
    for _ in range(runs):
        before = processor_seconds()
        work()
        found.append(rows / (processor_seconds() - before))
    return statistics.median(found)


def verbs(table: Path, kept: Path, place: Path, engine: str) -> dict[str, Callable[[], object]]:
    output = place / f"{engine}.parquet"

    def apply() -> None:
        shutil.rmtree(output, ignore_errors=True)
        calcli.apply(kept, table, output, engine=engine)

    return {
        "apply": apply,
        "fit": lambda: calcli.fit(
            table, method="platt", output=place / f"{engine}.platt", metrics=METRICS, holdout="0.1", engine=engine
        ),
        "evaluate": lambda: calcli.evaluate(table, artifacts=(str(kept),), metrics=METRICS, engine=engine),
    }


def warehouse(table: Path, kept: Path, place: Path) -> dict[str, Callable[[], object]]:
    expression = export(ExportRequest(kept))
    query = f"SELECT *, {expression} FROM read_parquet('{table}/*/*.parquet', hive_partitioning = true)"
    connection = duckdb.connect()
    connection.execute(f"SET threads = 1; SET temp_directory = '{place}'")
    return {"apply": lambda: connection.execute(f"COPY ({query}) TO '{place / 'sql.parquet'}'")}


def rates(works: dict[str, Callable[[], object]], rows: int, runs: int) -> dict[str, float]:
    return {verb: rows_each_second(work, rows, runs) for verb, work in works.items()}


def on_spark(works: dict[str, Callable[[], object]], rows: int, runs: int) -> dict[str, float]:
    try:
        with spark_session("local[1]"):
            return rates(works, rows, runs)
    except MissingExtraError as error:
        print(f"no Spark: {error}\n")
        return {}


def versions() -> str:
    found = []
    for name in ("polars", "pyarrow", "numpy", "duckdb", "pyspark"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {', '.join(found)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="80,000 rows, 1 run")
    given = parser.parse_args()
    rows, runs = (80_000, 1) if given.quick else (given.rows, given.runs)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        table, kept = place / "days", place / "kept"
        write_days(table, rows)
        calcli.fit(table, method="platt", output=kept, holdout="none", metrics="nll")
        print(f"{versions()}; {rows:,} rows in {FILES} files\n")
        found = {
            "one machine": rates(verbs(table, kept, place, "local"), rows, runs),
            "DuckDB": rates(warehouse(table, kept, place), rows, runs),
            "Spark": on_spark(verbs(table, kept, place, "spark"), rows, runs),
        }
    print(f"| million rows a second, per core | {' | '.join(found)} |\n| --- |{' --- |' * len(found)}")
    for verb in ("apply", "fit", "evaluate"):
        cells = (f"{done[verb] / 1e6:.2f}" if verb in done else "" for done in found.values())
        print(f"| `{verb}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
