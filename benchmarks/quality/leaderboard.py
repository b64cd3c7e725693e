"""The leaderboard: what looks at the score alone beside what looks at features, on held-out rows of many files.

``python benchmarks/quality/leaderboard.py FOLDER [--raw FOLDER] [--seeds N] [--quick] [--out DIR]``: FOLDER holds pairs
``NAME.cal.parquet`` and ``NAME.test.parquet`` with a label and logits. Every method and preset of calcli, ``auto`` and
the packages that are installed are fitted on the first file of a pair, at their defaults, and judged on the second.
With ``--raw`` new pairs are made beside them, by other base models and on other splits (see base_models.py). Each fit
has a process of its own with one thread and a limit of processor time, so that nothing stops the run. With ``--out``
what was measured is kept as it comes, and a later run goes on from there; there also lie the new pairs, the picture
and ``leaderboard.csv``, every number of every method and file.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import base_models
import entrants
import polars as pl
import standings
from auto_rules import TODAY, rules
from board import AUTO, Board, Contest, Result
from bounded import UnfinishedError, bounded, preload
from pairs import Pair, pairs

from calcli.methods.catalog import candidates_for

GIVEN, NEW = "given files", "new base models and splits"
SHOWN = (AUTO, "temperature", "platt", "spline", "sms", "venn-abers", "mbct", "heterogeneous", "boost", "ccl", "recal",
         "MCGrad", "LightGBM with offset")  # fmt: skip
"""The methods whose gains are shown by base model."""

FEW = 1000
"""Rows to fit on; files with fewer are shown apart where it is about the choice of ``auto``."""

CONTEST = 6
"""How many times the limit of one method a whole contest of ``auto`` has."""

HEAVY = (
    "numpy", "pandas", "polars", "scipy.optimize", "sklearn.calibration", "torch", "numba", "catboost", "lightgbm",
    "netcal.binning", "netcal.scaling", "probmetrics.calibrators", "mcgrad.methods", "betacal", "venn_abers",
    "calibration.calibrators", "probcal", "entrants",
)  # fmt: skip


class Log:
    """What was measured, a line of JSON for each, written as it comes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._found: dict[tuple[str, str], dict[str, Any]] = {}
        for line in lines:
            entry = json.loads(line)
            self._found[entry["file"], entry["method"]] = entry

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._found

    def add(self, entry: dict[str, Any]) -> None:
        self._found[entry["file"], entry["method"]] = entry
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def board(self, groups: Mapping[str, str]) -> Board:
        """What is known of these files, in their order, each with its group."""
        results, contests = [], []
        place = {file: index for index, file in enumerate(groups)}
        asked = [entry for entry in self._found.values() if entry["file"] in groups]
        for entry in sorted(asked, key=lambda entry: place[entry["file"]]):
            file, method, values = entry["file"], entry["method"], entry.get("values")
            if method == AUTO and values is not None:
                contests.append(Contest(groups[file], file, **values))
            else:
                results.append(Result(groups[file], file, method, values, entry.get("reason", "")))
        return Board.of(results, contests)


def measure(pair: Pair, names: Sequence[str], log: Log, *, seconds: float) -> None:
    """Every method on one pair of files, but those that were measured before."""
    left = [name for name in (*names, AUTO) if (pair.name, name) not in log]
    if not left:
        return
    print(pair.name, file=sys.stderr, flush=True)
    train, test = pair.read(features=True)
    for name in left:
        entry: dict[str, Any] = {"file": pair.name, "method": name}
        try:
            if name == AUTO:
                entry["values"] = bounded(entrants.contest, train, seconds=CONTEST * seconds)
            else:
                entry["values"] = bounded(entrants.judged, name, train, test, seconds=seconds)
        except UnfinishedError as error:
            entry["reason"] = str(error)
            print(f"  {name}: {error}", file=sys.stderr, flush=True)
        log.add(entry)


def detail(board: Board) -> pl.DataFrame:
    """Every number; `gain_error` is the standard error of the gain over the rows of the file."""
    rows = []
    for one in board.results.values():
        numbers = {name: one.value(name) for name in (*entrants.METRICS, "floor")}
        numbers |= {"gain": one.gain, "gain_error": one.value("error") / one.raw}
        numbers |= {"fit_cpu_s": one.value("fit"), "apply_cpu_s": one.value("apply")}
        told = {"files": one.group, "file": one.file, "method": one.method}
        rows.append({**told, **numbers, "no_result_because": one.reason or None})
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.selectors.float().fill_nan(None).round_sig_figs(5)
    )


Section = tuple[str, str, list[str]]
"""A title, what to know, and a table."""


def sections(board: Board, rows: Mapping[str, int], *, seconds: float) -> Iterator[Section]:
    """The page; `rows` says how many rows each file has to fit on."""
    known = entrants.entrants()
    packages = {name: one.package for name, one in known.items()}
    looks_at = {name: one.looks_at for name, one in known.items()}
    groups = board.groups()
    boards = {"all files": board, **groups} if len(groups) > 1 else groups
    for title, own in boards.items():
        about = f"{len(own.files)} files of {len({file.partition('.')[0] for file in own.files})} data sets."
        yield f"Gain in log-loss: {title}", about, standings.gains(own, packages, looks_at)
    shown = [method for method in SHOWN if method in board.methods]
    yield "Median gain by base model", "Number of files in brackets.", standings.by_model(board, shown)
    about = (
        "Medians and means over the files on which the method gave a result, beside the raw score on the same files. "
        "Seconds are processor time on one thread."
    )
    yield "Other metrics, and time", about, standings.measures(board)
    few = {file for file, count in rows.items() if count < FEW}
    boards[f"fewer than {FEW:,} rows to fit on"] = board.only(few)
    boards[f"{FEW:,} rows to fit on, and more"] = board.only(rows.keys() - few)
    yield from rule_sections(boards, [name for name, package in packages.items() if package == "calcli"])
    yield "No result", f"Each method had {seconds:.0f} s of processor time.", standings.failures(board)


def rule_sections(boards: Mapping[str, Board], calcli: Sequence[str]) -> Iterator[Section]:
    """Of the choice that ``auto`` makes."""
    about = (
        f"`auto` takes the simplest method whose held-out log-loss is within {TODAY:g} standard errors of the lowest. "
        "Here other factors are applied to the same held-out losses. `the best of each file` is the best of the "
        "methods that `auto` compares, chosen on the test rows."
    )
    for title, own in boards.items():
        if own.contests:
            yield f"The rule of auto: {title}", about, rules(own, calcli)
            about = ""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--raw", type=Path, help="labelled tables to train new base models on")
    parser.add_argument("--seeds", type=int, default=1, help="how often each table is split anew")
    parser.add_argument("--budget", type=float, default=100.0, help="seconds of processor time for one method and file")
    parser.add_argument("--out", type=Path, help="where everything is kept; nowhere if left out")
    parser.add_argument("--kept", action="store_true", help="measure nothing more: the files that are kept in --out")
    parser.add_argument("--quick", action="store_true", help="two small files of each kind, a few methods")
    return parser.parse_args()


def measured(given: argparse.Namespace, out: Path) -> tuple[Board, dict[str, int]]:
    """Every method on every file; with ``--kept`` on those that are complete. And how many rows each file has."""
    files = {GIVEN: pairs(given.folder)}
    if given.raw is not None:
        base_models.make(out / "new", given.raw, given.folder, seeds=given.seeds, quick=given.quick)
        files[NEW] = pairs(out / "new")
    names = list(entrants.entrants())
    if given.quick:
        compared = {row.name for classes in (2, 3) for row in candidates_for(classes)}
        names = [name for name in names if name in compared or name == "MCGrad"]
        files = {group: sorted(own, key=Pair.size)[:2] for group, own in files.items()}
    log = Log(out / ("quick.jsonl" if given.quick else "leaderboard.jsonl"))
    groups = {pair: group for group, own in files.items() for pair in own}
    if not given.kept:
        for pair in sorted(groups, key=Pair.size):
            measure(pair, names, log, seconds=given.budget)
    complete = [pair for pair in groups if all((pair.name, name) in log for name in (*names, AUTO))]
    return log.board({pair.name: groups[pair] for pair in complete}), {pair.name: pair.rows() for pair in groups}


def main() -> None:
    given = arguments()
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    preload(HEAVY)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is being fitted ends too
    with tempfile.TemporaryDirectory() as scratch:
        out = given.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        board, rows = measured(given, out)
        detail(board).write_csv(out / "leaderboard.csv")
        standings.picture(board, out / "leaderboard.png")
    if len(board.files) < len(rows):
        print(f"Measured so far: {len(board.files)} of {len(rows)} files.")
    for title, about, lines in sections(board, rows, seconds=given.budget):
        print("\n".join((f"\n## {title}\n", *([about, ""] if about else []), *lines)))
    if given.out is not None:
        print("\n![Gains by method](leaderboard.png)")
        print("\nEvery method on every file: [leaderboard.csv](leaderboard.csv).")


if __name__ == "__main__":
    main()
