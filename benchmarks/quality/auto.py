"""``--method auto`` beside each single method, and beside what other packages would choose, on held-out rows.

``python benchmarks/quality/auto.py FOLDER [--methods A,B] [--quick]``: FOLDER holds pairs ``NAME.cal.parquet`` and
``NAME.test.parquet`` with a label and logits. Every method is fitted on the first and judged on the second. The table
shows the log-loss relative to no calibration; below it stands whether calcli's promise held: no file worse than no
calibration by more than 0.2 % or two paired standard errors, and in the mean within 0.3 % of the best single method
chosen with hindsight. Packages that are not installed are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from pairs import Pair, pairs
from peers import choices

import calcli
from calcli.batch import Batch
from calcli.methods import catalog
from calcli.metrics.base import Scored
from calcli.metrics.paired import paired_difference
from calcli.metrics.proper import nll_rows
from calcli.numeric.links import probabilities


def losses(label: np.ndarray, prob: np.ndarray) -> np.ndarray:
    return nll_rows(Scored(label, np.asarray(prob, dtype=np.float64)))


def candidates(pair: Pair, names: list[str], train: Batch, test: Batch) -> Iterator[tuple[str, np.ndarray, float, str]]:
    """Name, probabilities, seconds, and which method it came to, for calcli's methods and the peers."""
    frame = pl.read_parquet(pair.cal)
    for name in ["auto", *names]:
        started = time.perf_counter()
        model = calcli.fit(frame, method=name, holdout="none" if name != "auto" else None).model
        prob = model.predict(pl.read_parquet(pair.test))
        yield name, prob, time.perf_counter() - started, model.method
    for name, fit in choices().items():
        started = time.perf_counter()
        with contextlib.suppress(NotImplementedError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield name, fit(train)(test), time.perf_counter() - started, name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--methods", help="what stands beside auto, names separated by commas; all if left out")
    parser.add_argument("--quick", action="store_true", help="two files, a few methods")
    given = parser.parse_args()
    files = pairs(given.folder)
    names = [row.name for row in catalog.specs() if row.name != "identity"]
    if given.methods:
        names = given.methods.split(",")
    if given.quick:
        files, names = files[:2], ["platt", "temperature", "isotonic"]
    ratios: dict[str, dict[str, float]] = {}
    broken = []
    print("| file | auto chose | auto | seconds | worst allowed |\n| --- | --- | --- | --- | --- |")
    for pair in files:
        train, test = pair.read(features=False)
        stem, base = pair.name, losses(test.labels, probabilities(test.score))
        for name, prob, seconds, method in candidates(pair, names, train, test):
            loss = losses(test.labels, prob)
            ratios.setdefault(name, {})[stem] = float(loss.mean() / base.mean() - 1)
            if name == "auto":
                value, _, hi, _ = paired_difference(loss, base, None)
                error = (hi - value) / 1.96
                allowed = max(0.002, 2 * error / float(base.mean()))
                if ratios[name][stem] > allowed:
                    broken.append(stem)
                print(f"| {stem} | {method} | {ratios[name][stem]:+.2%} | {seconds:.1f} | {allowed:+.2%} |", flush=True)
    single = {name: found for name, found in ratios.items() if name in names}
    hindsight = {stem: min(0.0, *(found[stem] for found in single.values())) for stem in ratios["auto"]}
    print("\n| | files | mean | median | worst | made worse |\n| --- | --- | --- | --- | --- | --- |")
    for name, found in sorted(ratios.items(), key=lambda item: np.mean(list(item[1].values()))):
        values = np.array(list(found.values()))
        print(
            f"| {name} | {len(values)} | {values.mean():+.2%} | {np.median(values):+.2%} | {values.max():+.2%} "
            f"| {int((values > 0).sum())} |"
        )
    best_one = min(single, key=lambda name: np.mean(list(single[name].values())))
    mean = float(np.mean(list(ratios["auto"].values())))
    best = float(np.mean(list(single[best_one].values())))
    print(f"\nFiles on which auto is worse than no calibration by more than allowed: {broken or 'none'}.")
    print(f"Mean of auto {mean:+.3%}; of the best single method with hindsight, {best_one}, {best:+.3%}.")
    print(f"Mean of the best method of each file with hindsight: {np.mean(list(hindsight.values())):+.2%}.")


if __name__ == "__main__":
    main()
