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
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from pairs import pairs
from peers import Predict, feature_aware, ours

from calcli.batch import Batch
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.metrics.paired import Z975, paired_difference
from calcli.metrics.proper import nll_rows

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
NAMES = {"MCGrad": "MCGrad", "LightGBM": "LightGBM with offset"}


def contenders(train: Batch, *, quick: bool) -> Iterator[tuple[str, Predict]]:
    """Names, and what was fitted, one after another."""
    for name, (method, preset, given) in OURS.items():
        yield name, ours(method, preset, given)(train)
    for package, peer in feature_aware().items():
        if not quick:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield NAMES[package], peer(train)


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
    files = pairs(given.folder)
    if given.quick:
        files = sorted(files, key=lambda pair: pair.cal.stat().st_size)
    gaps: dict[str, dict[str, tuple[float, float]]] = {}
    done = 0
    for pair in files:
        train, test = pair.read(features=True)
        if train.classes > 2 or (given.quick and done == 2):
            continue
        done += 1
        print(f"\n## {pair.name}: {len(train):,} rows, {len(train.features)} features\n")
        for name, gap, noise in of_file(train, test, quick=given.quick):
            gaps.setdefault(name, {})[pair.name] = gap, noise
    verdicts(gaps)


if __name__ == "__main__":
    main()
