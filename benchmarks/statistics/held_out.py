"""The gain that `fit` reports on held-out rows, beside that of the same fits on fresh rows: simulated.

``python benchmarks/statistics/held_out.py [--quick] [--only TEXT]``

Labels are drawn from sigmoid(z) with z ~ N(-1, 1.2); scores are z, or 1.4 z. What is right is the mean over 20,000
fresh rows of the expected difference to no calibration, and over the five fits. Methods that read features have six of
noise, or one of these moves the log-odds by 0.8 where it is positive. Those that choose their settings by the rows that
are held out do it as in `fit`: for each fold by the others.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from calcli.batch import Batch, Column, FloatArray
from calcli.methods import calibrator, catalog
from calcli.metrics.base import Scored
from calcli.metrics.paired import missing, paired, widened
from calcli.metrics.proper import nll
from calcli.models.held_out import Holdout, predict_held_out, split_rows
from calcli.numeric.links import sigmoid

FRESH = np.random.default_rng(1).normal(-1.0, 1.2, 20_000)

RIGHT, OVER, FEATURE = "right", "over-confident, 1.4 z", "wrong by a feature"

CASES = (
    *((method, rows, kind, 400) for method in ("platt",) for rows in (200, 1000) for kind in (RIGHT, OVER)),
    *(("isotonic", 1000, kind, 400) for kind in (RIGHT, OVER)),
    *(
        (method, 1000, kind, 80)
        for method in ("boost", "forest", "mbct", "heterogeneous", "ccl")
        for kind in (RIGHT, FEATURE)
    ),
)
"""Methods, rows, what the scores are, and how many tables."""


class Reported(NamedTuple):
    """The difference of the log-loss to no calibration, its interval, and what it is on fresh rows."""

    value: float
    lo: float
    hi: float
    true: float

    @property
    def held(self) -> bool:
        return self.lo <= self.true <= self.hi


def features(x: FloatArray) -> dict[str, Column]:
    return {f"x{place}": Column("number", column) for place, column in enumerate(x.T)}


def reported(batch: Batch, method: str, fresh: Batch, prob: FloatArray) -> Reported:
    """What `fit` says of these rows; `prob` is the true probability of fresh ones."""
    spec = catalog.find(method)
    splits = split_rows(len(batch), Holdout("cv", folds=5), 0, batch.units)
    settled = calibrator.settle(spec, batch, spec.resolve(), list(splits))
    known, params = (settled.of_splits, settled.params) if settled.by_splits else ({}, spec.resolve())
    predicted, _ = predict_held_out(spec, batch, params, splits, seed=0, done=lambda: None, known=known)
    one, none = (Scored(batch.labels, each, units=batch.together) for each in (predicted.prob, sigmoid(batch.score)))
    found = widened(paired(one, none, nll.rows), missing(predicted.fits.sums(one, splits.folds, nll.rows)))
    before, true = sigmoid(fresh.score), []
    for fold in range(len(splits)):
        fitted = known.get(fold) or calibrator.fit(spec, batch.take(splits.train(fold)), params)
        after = fitted.predict(fresh)
        true.append(np.mean(prob * np.log(before / after) + (1 - prob) * np.log((1 - before) / (1 - after))))
    return Reported(found.value, found.lo, found.hi, float(np.mean(true)))


def share(hits: list[bool]) -> str:
    rate = float(np.mean(hits))
    return f"{rate:.3f} ± {np.sqrt(max(rate * (1 - rate), 1 / len(hits)) / len(hits)):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the tables")
    parser.add_argument("--only", default="", metavar="TEXT", help="methods whose names contain it")
    given = parser.parse_args()
    print("| method | rows | score | reported | on fresh rows | too low | the interval holds it (0.950 is right) |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for method, rows, kind, repeats in CASES:
        if given.only not in method:
            continue
        found = []
        for seed in range(repeats // 20 if given.quick else repeats):
            rng = np.random.default_rng([seed, rows])
            z = rng.normal(-1.0, 1.2, rows)
            x = rng.normal(size=(rows + len(FRESH), 6)) if catalog.find(method).needs_features else None
            scale = 1.4 if kind == OVER else 1.0
            seen, fresh = ({}, {}) if x is None else (features(x[:rows]), features(x[rows:]))
            moved = np.zeros(rows + len(FRESH)) if x is None or kind != FEATURE else 0.8 * (x[:, 0] > 0.0)
            label = (rng.random(rows) < sigmoid(z + moved[:rows])).astype(np.int64)
            batch, others = Batch(scale * z, label, features=seen), Batch(scale * FRESH, features=fresh)
            found.append(reported(batch, method, others, sigmoid(FRESH + moved[rows:])))
        error = np.array([one.true - one.value for one in found])
        means = " | ".join(f"{np.mean(column):+.4f}" for column in ([r.value for r in found], [r.true for r in found]))
        bias = f"{error.mean():+.4f} ± {error.std() / np.sqrt(len(found)):.4f}"
        print(f"| {method} | {rows:,} | {kind} | {means} | {bias} | {share([r.held for r in found])} |", flush=True)


if __name__ == "__main__":
    main()
