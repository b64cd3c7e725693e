"""The arena: methods that look at the score alone and methods that look at features, on held-out rows of many files.

``python benchmarks/arena/arena.py DATA [--raw RAW] [--out OUT] [--method FILE.py] [--only 'A;B'] [--from TABLE]
[--kept] [--quick]``: README.md says what DATA is, what is measured, and how a method is added. Every method is fitted
on the first file of a pair, at its defaults, and judged on the second. Each fit has a process of its own with one
thread and a limit of processor time, so that nothing stops the run. With ``--out`` what was measured is kept as it
comes, and a later run goes on from there.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import base_models
import clicks
import entrants
import standings
import views
from board import Board
from bounded import UnfinishedError, bounded, preload
from log import Log
from pairs import Pair, pairs
from segments import Segments

from calcli.methods.catalog import candidates_for

GIVEN, NEW, CLICKS = "given files", "new base models and splits", "simulated clicks"

COMPARED = tuple(dict.fromkeys(row.name for classes in (2, 3) for row in candidates_for(classes)))
"""What ``auto`` chooses from."""

HEAVY = (
    "numpy", "pandas", "polars", "scipy.optimize", "sklearn.calibration", "torch", "numba", "catboost", "lightgbm",
    "netcal.binning", "netcal.scaling", "probmetrics.calibrators", "mcgrad.methods", "betacal", "venn_abers",
    "calibration.calibrators", "probcal", "entrants",
)  # fmt: skip


def measure(
    pair: Pair, known: Mapping[str, entrants.Entrant], names: Sequence[str], log: Log, *, seconds: float,
    added: Sequence[Path],
) -> None:  # fmt: skip
    """These methods on one pair of files, but those that were measured before.

    What looks at the score alone takes no time and shares a process; if that does not end well, each has its own.
    """
    left = [name for name in names if (pair.name, name) not in log]
    if not left:
        return
    print(pair.name, file=sys.stderr, flush=True)
    by_chance = by_chance_of(pair, log)
    fast = [name for name in left if known[name].looks_at == "score" and not known[name].added]
    lots = [fast] * bool(fast) + [[name] for name in left if name not in fast]
    for lot in lots:
        try:
            found = bounded(entrants.judged, lot, pair, added, seconds=seconds)
        except UnfinishedError as error:
            if len(lot) > 1:
                lots += [[name] for name in lot]
                continue
            found = {lot[0]: {"reason": str(error)}}
        for name, entry in found.items():
            if "reason" in entry:
                print(f"  {name}: {entry['reason']}", file=sys.stderr, flush=True)
            log.add({"file": pair.name, "method": name, "by_chance": by_chance, **entry})


def by_chance_of(pair: Pair, log: Log) -> float:
    """The error of the worst segment where probabilities are right."""
    return log.by_chance(pair.name) or Segments(*pair.read()).by_chance()


def take(pair: Pair, earlier: Mapping[tuple[str, str], dict[str, Any]], names: Collection[str], log: Log) -> None:
    """Take the results of these methods from an earlier run, but those that were measured since."""
    for name in names:
        if (pair.name, name) in earlier and (pair.name, name) not in log:
            by_chance = by_chance_of(pair, log)
            entry = views.entry(earlier[pair.name, name], by_chance)
            log.add({"file": pair.name, "method": name, "by_chance": by_chance, "earlier": True, **entry})


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="pairs of prediction files")
    parser.add_argument("--raw", type=Path, help="labelled tables to train new base models on")
    parser.add_argument("--seeds", type=int, default=2, help="how often each table is split anew")
    parser.add_argument("--method", type=Path, action="append", default=[], help="a method of your own, FILE.py")
    parser.add_argument("--only", help="measure nothing but these methods, names separated by semicolons")
    parser.add_argument("--from", dest="table", type=Path, help="an arena.parquet, for methods not in --only")
    parser.add_argument("--budget", type=float, default=200.0, help="seconds of processor time for one method and file")
    parser.add_argument("--out", type=Path, help="where everything is kept; nowhere if left out")
    parser.add_argument("--kept", action="store_true", help="measure nothing more: what is kept in --out")
    parser.add_argument("--quick", action="store_true", help="small files, the methods of auto and MCGrad")
    return parser.parse_args()


def files_of(given: argparse.Namespace, out: Path) -> dict[str, list[Pair]]:
    """Of each group; what is not there yet is made."""
    files = {GIVEN: pairs(given.data)}
    if given.raw is not None:
        base_models.make(out / "new", given.raw, given.data, seeds=given.seeds, quick=given.quick)
        files[NEW] = pairs(out / "new")
    if not given.quick:
        clicks.make(out / "clicks")
        return files | {CLICKS: pairs(out / "clicks")}
    return {group: sorted(own, key=Pair.size)[:2] for group, own in files.items()}


def show(
    board: Board, known: Mapping[str, entrants.Entrant], rows: Mapping[str, int], out: Path, *, seconds: float
) -> None:
    """The tables, and in `out` every number, a picture and a page."""
    table = views.frame(board, known, rows)
    table.write_parquet(out / "arena.parquet", compression_level=22)
    (out / "arena.html").write_text(views.page(table), encoding="utf-8")
    views.picture(board, out / "arena.png")
    groups = board.groups()
    models = board.only([file for name, own in groups.items() if name != CLICKS for file in own.files])
    simulated = groups.get(CLICKS, Board(()))
    asked = len(rows) * len(known)
    if len(board.results) < asked:
        print(f"Measured so far: {len(board.results):,} of {asked:,} results; the same command goes on.")
    for title, about, lines in standings.sections(models, simulated, known, COMPARED, rows, seconds=seconds):
        print("\n".join((f"\n## {title}\n", *([about, ""] if about else []), *lines)))
    print("\n![Gains by method](arena.png)")
    print("\nEvery method on every file: [arena.parquet](arena.parquet), and [a page with filters](arena.html).")


def main() -> None:
    given = arguments()
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    preload(HEAVY)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is being fitted ends too
    with tempfile.TemporaryDirectory() as scratch:
        out = given.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        groups = {pair: group for group, own in files_of(given, out).items() for pair in own}
        known = entrants.entrants(given.method)
        names = given.only.split(";") if given.only else list(known)
        if given.quick and not given.only:
            names = [name for name in names if name in (*COMPARED, "auto", "MCGrad") or known[name].added]
        if unknown := set(names) - known.keys():
            raise SystemExit(f"no method {', '.join(sorted(unknown))}; there are {'; '.join(known)}")
        log = Log(out / ("quick.jsonl" if given.quick else "arena.jsonl"))
        measured = [] if given.kept else names
        for pair in sorted(groups, key=Pair.size):
            measure(pair, known, measured, log, seconds=given.budget, added=given.method)
        earlier = {} if given.table is None else views.earlier(given.table)
        for pair in groups:
            take(pair, earlier, known.keys() - set(measured), log)
        board = log.board({pair.name: group for pair, group in groups.items()}, known)
        show(board, known, {pair.name: pair.rows() for pair in groups}, out, seconds=given.budget)
        if kept := sorted(log.earlier() & known.keys()):
            print(f"\nFrom an earlier run: {'; '.join(kept)}.")


if __name__ == "__main__":
    main()
