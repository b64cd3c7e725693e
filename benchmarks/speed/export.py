"""Exported statements on real engines: how far from `apply`, how long a million rows take, how long the text is.

``python benchmarks/speed/export.py [--quick] [--methods A,B] [--engines A,B]`` writes Markdown. Calibrators of two
classes are fitted on the sample data, those of four on simulated scores. An engine that is not installed has no
numbers; all but Spark are installed by `tests/export/engines.sh`. Seconds are those of a processor for a million rows,
drawn out from fewer (`TIMED`), which repeat the thousand that are compared; PostgreSQL does not compile (jit), and
Spark has one processor and 1 GB. A database stops a statement after two minutes (`LIMITS`).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import UsageError
from calcli.export.dialects import DIALECTS, quoted
from calcli.methods import catalog
from calcli.verbs.export import ExportRequest, export

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.engines import Engine, started  # noqa: E402
from tests.support.samples import breeds  # noqa: E402

ENGINES = ("duckdb", "postgres", "sqlite", "mysql", "clickhouse", "spark")
MILLION = 1_000_000
TIMED = {"duckdb": 100_000, "postgres": 10_000, "spark": MILLION}
TABLES = ("calibrated_nodes", "calibrated_branches", "calibrated_leaves", "calibrated_lists")
SETTINGS = {"max_parallel_workers_per_gather": 0, "jit": "off"}
MOST_SECONDS = 120
LIMITS = {
    "postgres": f"SET statement_timeout = '{MOST_SECONDS}s'",
    "mysql": f"SET max_statement_time = {MOST_SECONDS}",
    "clickhouse": f"SET max_execution_time = {MOST_SECONDS}",
}
PARAMS = {
    "boost": {"rounds": "300"},
    "ccl": {"embedding": "features"},
    "pool": {"members": "isotonic,heterogeneous,mbct", "weights": "0.3,0.3,0.4"},
}


@dataclass(frozen=True)
class Fitted:
    method: str
    classes: int
    artifact: Path
    rows: pl.DataFrame
    expected: pl.DataFrame


def fitted(folder: Path, methods: str | None, *, quick: bool) -> Iterator[Fitted]:
    sample, unseen = (pl.read_parquet(ROOT / "sample_data" / f"{name}.parquet") for name in ("train", "test"))
    sample, unseen = sample.drop("day"), unseen.drop("day", "label").head(1000)
    unseen = unseen.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    four, four_unseen = breeds(2000), breeds(1000, seed=1).drop("label")
    for spec in catalog.specs():
        if not spec.closed_form or (methods is not None and spec.name not in methods.split(",")):
            continue
        for classes, train, rows in ((2, sample, unseen), (4, four, four_unseen)):
            if spec.needs_features and classes == 4:
                continue
            artifact = folder / f"{spec.name}-{classes}"
            table = train.head(3000) if quick else train
            calcli.fit(table, method=spec.name, params=PARAMS.get(spec.name, {}), output=artifact, holdout="none")
            rows.write_parquet(folder / "rows.parquet")
            calcli.apply(artifact, folder / "rows.parquet", folder / "out.parquet", bad_rows="null")
            expected = pl.read_parquet(folder / "out.parquet").select(pl.col("^calibrated.*$").cast(pl.Float64))
            yield Fitted(spec.name, classes, artifact, rows.with_columns(place=pl.int_range(pl.len())), expected)


def statements(one: Fitted, engine: Engine, shape: str) -> list[str]:
    """The query, and before it what it needs; none where the shape has no tables of its own."""
    if shape == "expression":
        text = export(ExportRequest(one.artifact, dialect=engine.dialect))
        return [f"SELECT place, {text} FROM {engine.table}"]
    request = ExportRequest(one.artifact, dialect=engine.dialect, shape=shape, table=engine.table, keep=("place",))
    text = export(request)
    return text.split(";\n") if "CREATE TABLE" in text or shape != "tables" else []


def compared(one: Fitted, found: pl.DataFrame) -> tuple[float, int]:
    """The largest difference, and how many values are null on one side only."""
    ours, theirs = one.expected.to_numpy(), found.sort("place").select(one.expected.columns).to_numpy().astype(float)
    apart = np.abs(ours - theirs)
    return float(np.nanmax(apart)), int((np.isnan(ours) != np.isnan(theirs)).sum())


def seconds(one: Fitted, engine: Engine, text: str, rows: int) -> str:
    """Of a processor for a million rows, from the seconds for a thousand and for so many."""
    total = " + ".join(f"sum({quoted(name, DIALECTS[engine.dialect])})" for name in one.expected.columns)
    whole = f"SELECT {total} FROM ({text}) AS calibrated"
    few = _took(one, engine, whole, 1) if rows < MILLION else 0.0
    many = _took(one, engine, whole, rows // 1000)
    return f"{few + max(many - few, 0.0) * MILLION / rows:.1f}"


def _took(one: Fitted, engine: Engine, text: str, times: int) -> float:
    """Of a processor, for rows that repeat so many times."""
    if engine.dialect == "duckdb":
        engine.load(pl.concat([one.rows] * times))
        start = time.process_time()
        engine.run(text)
        return time.process_time() - start
    if engine.dialect == "spark":
        engine.load(pl.concat([one.rows] * times))
        (pid,) = engine.run("SELECT java_method('java.lang.ProcessHandle', 'current') AS pid")["pid"]
        start = of_process(pid)
        engine.run(text)
        return of_process(pid) - start
    settings = [f"set_config('{name}', '{value}', false) AS {name}" for name, value in SETTINGS.items()]
    (pid,) = engine.run(f"SELECT pg_backend_pid() AS pid, {', '.join(settings)}")["pid"]
    if times > 1:
        more = f"INSERT INTO {engine.table} SELECT a.* FROM {engine.table} AS a CROSS JOIN generate_series(2, {times})"
        engine.run(f"WITH more AS ({more} RETURNING 1) SELECT count(*) AS rows FROM more")
    start = of_process(pid)
    engine.run(text)
    return of_process(pid) - start


def of_process(pid: int | str) -> float:
    """The processor time of another process."""
    user, system = map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--methods", help="of the calibrators; by default all")
    parser.add_argument("--engines", help="by default all", default=",".join(ENGINES))
    given = parser.parse_args()
    with ExitStack() as stack:
        engines: dict[str, Engine] = {}
        for name in given.engines.split(","):
            try:
                engines[name] = stack.enter_context(started(name))
                if name in LIMITS:
                    engines[name].execute(LIMITS[name])
            except pytest.skip.Exception as skipped:
                print(f"{name} was not run: {skipped}.\n")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        timed = {name: 5_000 if given.quick else rows for name, rows in TIMED.items() if name in engines}
        drawn = " and ".join(f"{rows:,} rows in {name}" for name, rows in timed.items())
        timing = f"; processor seconds for a million, drawn out from {drawn}" if drawn else ""
        print(f"Differences on 1,000 rows{timing}.\n")
        columns = ["method", "classes", "shape", "longest statement, bytes", *engines, "null on one side"]
        head = [*columns, *(f"{name}, s" for name in timed)]
        print("| " + " | ".join(head) + " |\n" + "| --- " * len(head) + "|", flush=True)
        for one in fitted(folder, given.methods, quick=given.quick):
            for shape in ("expression", "query", "tables"):
                cells, texts, longest, alone = [], {}, 0, 0
                for name, engine in engines.items():
                    try:
                        *before, text = statements(one, engine, shape) or [""]
                    except UsageError:
                        text = ""
                    if not text or (shape != "tables" and DIALECTS[name].is_too_long(text)):
                        cells.append("over 1 MB" if text else "")
                        continue
                    engine.load(one.rows)
                    start = time.perf_counter()
                    try:
                        for of in TABLES:
                            engine.execute(f"DROP TABLE IF EXISTS {quoted(of, DIALECTS[name])}")
                        for made in before:
                            engine.execute(made)
                        most, nulls = compared(one, engine.run(text))
                    except Exception as error:  # whatever the engine's own library raises
                        print(f"{one.method}, {shape}, {name}: {str(error)[:200]}", file=sys.stderr)
                        late = time.perf_counter() - start > MOST_SECONDS
                        cells.append(f"over {MOST_SECONDS} s" if late else "fails")
                        with suppress(Exception):
                            engine.execute("ROLLBACK")
                        continue
                    if most > 1e-9 or nulls:
                        print(f"{one.method}, {shape}, {name}: off by {most}, {nulls} nulls", file=sys.stderr)
                    texts[name] = text
                    longest = max(longest, *map(len, (text, *before)))
                    cells.append(f"{most:.0e}")
                    alone += nulls
                measured = texts if shape != "expression" else {}
                if texts:
                    took = [
                        seconds(one, engines[name], texts[name], rows) if name in measured else ""
                        for name, rows in timed.items()
                    ]
                    cells = [one.method, str(one.classes), shape, f"{longest:,}", *cells, str(alone), *took]
                    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
