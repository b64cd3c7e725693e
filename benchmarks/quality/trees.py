"""The methods that look at features, beside those that do not and beside peers, on held-out rows.

``python benchmarks/quality/trees.py FOLDER [--quick]``: FOLDER holds pairs ``NAME.cal.parquet`` and
``NAME.test.parquet`` with a label, logits and features; those with two classes are taken. Every method is fitted on
the first and judged on the second. For each file: log-loss, its difference to Platt scaling with two paired standard
errors, AUC, ECE, MVCE with its floor, seconds. Below it stands whether calcli's promises held: no default worse than
Platt scaling by more than 0.5 % or two paired standard errors on any file; mbct at least 1 % better in the mean, and
boost 2 % and better than MCGrad in the mean and in the worst case. Peers that are not installed are left out. Seconds
are those of a fit and a prediction; where mbct was never run before, its first fit compiles it.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from calcli.batch import Batch, Column
from calcli.methods import calibrator, catalog
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.metrics.paired import Z975, paired_difference
from calcli.metrics.proper import nll_rows
from calcli.numeric.links import probabilities, sigmoid
from calcli.tables.binding import bind
from calcli.tables.checks import load
from calcli.tables.source import open_source

OURS: dict[str, tuple[str, str | None, Mapping[str, int]]] = {
    "platt": ("platt", None, {}),
    "identity": ("identity", None, {}),
    "isotonic": ("isotonic", None, {}),
    "mbct": ("mbct", None, {}),
    "mbct paper": ("mbct", "paper", {}),
    "mbct paper, one tree": ("mbct", "paper", {"trees": 1}),
    "heterogeneous": ("heterogeneous", None, {}),
    "heterogeneous paper": ("heterogeneous", "paper", {}),
    "boost": ("boost", None, {}),
}
DEFAULTS = ("mbct", "heterogeneous", "boost")
BASE = "platt"

Fitted = Callable[[Batch], np.ndarray]


def mcgrad(train: Batch) -> Fitted:
    """MCGrad at its defaults."""
    from mcgrad import methods

    logging.getLogger("mcgrad").setLevel(logging.ERROR)
    columns: dict[str, list[str]] = {
        f"{what}_feature_column_names": [
            name for name, column in train.features.items() if (column.role == "category") == (what == "categorical")
        ]
        for what in ("categorical", "numerical")
    }

    def frame(rows: Batch) -> pd.DataFrame:
        found = pd.DataFrame({name: told(column) for name, column in rows.features.items()})
        return found.assign(calcli_prediction=probabilities(rows.score))

    model = methods.MCGrad()
    table = frame(train).assign(calcli_label=train.labels)
    model.fit(table, "calcli_prediction", "calcli_label", **columns)
    return lambda rows: np.asarray(model.predict(frame(rows), "calcli_prediction", **columns))


def told(column: Column) -> np.ndarray:
    """Values as pandas has them."""
    if column.role != "category":
        return column.values
    return np.array([*column.levels, None], dtype=object)[column.values]


def lightgbm(train: Batch) -> Fitted:
    """LightGBM with Platt's log-odds as offset: 40 rounds of 8 leaves."""
    import lightgbm

    row = catalog.find(BASE)
    platt = calibrator.fit(row, Batch(train.score, train.label), row.resolve()).state
    levels = {name: column.levels for name, column in train.features.items()}

    def frame(rows: Batch) -> pd.DataFrame:
        found = {
            name: pd.Categorical(told(column), categories=levels[name]) if column.role == "category" else column.values
            for name, column in rows.features.items()
        }
        return pd.DataFrame(found).set_axis([f"f{place}" for place in range(len(found))], axis=1)

    def start(rows: Batch) -> np.ndarray:
        return platt.number("a") * rows.score + platt.number("b")

    settings = {"objective": "binary", "num_leaves": 8, "verbose": -1, "deterministic": True, "seed": 0}
    data = lightgbm.Dataset(frame(train), train.labels, init_score=start(train))
    model = lightgbm.train(settings, data, num_boost_round=40)
    return lambda rows: sigmoid(start(rows) + np.asarray(model.predict(frame(rows), raw_score=True)))


PEERS: dict[str, Callable[[Batch], Fitted]] = {"MCGrad": mcgrad, "LightGBM with offset": lightgbm}


def rows_of(path: Path) -> Batch:
    with open_source(path) as source:
        return load(source, bind(source, features=True), features=True).batch


def contenders(train: Batch, *, quick: bool) -> Iterator[tuple[str, Fitted]]:
    """Names, and what was fitted, one after another."""
    for name, (method, preset, given) in OURS.items():
        row = catalog.find(method)
        yield name, calibrator.fit(row, train, row.resolve(given, preset)).predict
    for name, peer in PEERS.items():
        if not quick:
            with contextlib.suppress(ImportError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield name, peer(train)


def of_file(train: Batch, test: Batch, *, quick: bool) -> Iterator[tuple[str, float, float]]:
    """Prints a line for each method; gives its log-loss relative to Platt scaling, and how much of that is noise."""
    chosen = metrics.choose("nll,auc,ece,mvce")
    losses: dict[str, np.ndarray] = {}
    print("| method | NLL | beside platt | +- | AUC | ECE | MVCE | floor | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    started = time.perf_counter()
    for name, predict in contenders(train, quick=quick):
        prob = np.clip(np.asarray(predict(test), dtype=np.float64), 0.0, 1.0)
        seconds = time.perf_counter() - started
        scored = Scored(test.labels, prob)
        found = metrics.measure(chosen, scored, Options())
        losses[name] = nll_rows(scored)
        base = losses[BASE]
        value, lo, _, _ = paired_difference(losses[name], base, None)
        gap = (value or 0.0) / base.mean()
        noise = 0.0 if value is None or lo is None else 2 * (value - lo) / Z975 / base.mean()
        values = [float("nan") if found[key].value is None else found[key].value for key in ("auc", "ece", "mvce")]
        floor = found["mvce"].floor
        print(
            f"| {name} | {losses[name].mean():.4f} | {gap:+.2%} | {noise:.2%} | "
            + " | ".join(f"{value:.4f}" for value in values)
            + f" | {'' if floor is None else f'{floor:.4f}'} | {seconds:.1f} |",
            flush=True,
        )
        yield name, gap, noise
        started = time.perf_counter()


def verdicts(gaps: Mapping[str, Mapping[str, tuple[float, float]]]) -> None:
    """Whether the promises held."""
    print("\n## All files\n\n| method | files | mean | median | worst | worse than allowed on |")
    print("| --- | --- | --- | --- | --- | --- |")
    harmed: dict[str, list[str]] = {}
    for name, found in gaps.items():
        values = np.array([gap for gap, _ in found.values()])
        harmed[name] = [stem for stem, (gap, noise) in found.items() if gap > max(0.005, noise)]
        print(
            f"| {name} | {len(values)} | {values.mean():+.2%} | {np.median(values):+.2%} | {values.max():+.2%} | "
            f"{', '.join(harmed[name]) or 'none'} |"
        )
    mean = {name: float(np.mean([gap for gap, _ in found.values()])) for name, found in gaps.items()}
    worst = {name: max(gap for gap, _ in found.values()) for name, found in gaps.items()}
    print()
    for name in DEFAULTS:
        print(f"- {name} worse than platt by more than max(0.5 %, two standard errors): {harmed[name] or 'nowhere'}.")
    for name, goal in (("mbct", -0.01), ("boost", -0.02)):
        said = "met" if mean[name] <= goal else "missed"
        print(f"- {name} beside platt in the mean: {mean[name]:+.2%}; goal {goal:+.0%}: {said}.")
    if "MCGrad" in mean:
        ahead = "met" if mean["boost"] < mean["MCGrad"] and worst["boost"] < worst["MCGrad"] else "missed"
        print(
            f"- boost beside MCGrad: mean {mean['boost']:+.2%} and {mean['MCGrad']:+.2%}, "
            f"worst {worst['boost']:+.2%} and {worst['MCGrad']:+.2%}: {ahead}."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="the two smallest files, no peers")
    given = parser.parse_args()
    files = sorted(given.folder.glob("*.cal.parquet"))
    if given.quick:
        files = sorted(files, key=lambda path: path.stat().st_size)
    gaps: dict[str, dict[str, tuple[float, float]]] = {}
    done = 0
    for path in files:
        train = rows_of(path)
        if train.classes > 2 or (given.quick and done == 2):
            continue
        done += 1
        stem = path.name.removesuffix(".cal.parquet")
        print(f"\n## {stem}: {len(train):,} rows, {len(train.features)} features\n")
        test = rows_of(path.with_name(f"{stem}.test.parquet"))
        for name, gap, noise in of_file(train, test, quick=given.quick):
            gaps.setdefault(name, {})[stem] = gap, noise
    verdicts(gaps)


if __name__ == "__main__":
    main()
