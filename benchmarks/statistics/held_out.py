"""The gain that `fit` reports on held-out rows, beside that of the same fits on fresh rows: simulated.

``python benchmarks/statistics/held_out.py [--quick]``

Labels are drawn from sigmoid(z) with z ~ N(-1, 1.2); scores are z, or 1.4 z. What is right is the mean over 20,000
fresh rows of the expected difference to no calibration, and over the five fits.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.methods import calibrator, catalog
from calcli.metrics.base import Scored
from calcli.metrics.paired import missing, paired, widened
from calcli.metrics.proper import nll
from calcli.models.held_out import Holdout, predict_held_out, split_rows
from calcli.numeric.links import sigmoid

FRESH = np.random.default_rng(1).normal(-1.0, 1.2, 20_000)


class Reported(NamedTuple):
    """The difference of the log-loss to no calibration, its interval, and what it is on fresh rows."""

    value: float
    lo: float
    hi: float
    true: float

    @property
    def held(self) -> bool:
        return self.lo <= self.true <= self.hi


def reported(batch: Batch, method: str, score: FloatArray, prob: FloatArray) -> Reported:
    """What `fit` says of these rows; score and true probability are those of fresh rows."""
    spec = catalog.find(method)
    splits = split_rows(len(batch), Holdout("cv", folds=5), 0, batch.units)
    predicted, _ = predict_held_out(spec, batch, spec.resolve(), splits, seed=0, done=lambda: None)
    one, none = (Scored(batch.labels, each, units=batch.together) for each in (predicted.prob, sigmoid(batch.score)))
    found = widened(paired(one, none, nll.rows), missing(predicted.fits.sums(one, splits.folds, nll.rows)))
    before, true = sigmoid(score), []
    for fold in range(len(splits)):
        after = calibrator.fit(spec, batch.take(splits.train(fold)), spec.resolve()).predict(Batch(score))
        true.append(np.mean(prob * np.log(before / after) + (1 - prob) * np.log((1 - before) / (1 - after))))
    return Reported(found.value, found.lo, found.hi, float(np.mean(true)))


def share(hits: list[bool]) -> str:
    rate = float(np.mean(hits))
    return f"{rate:.3f} ± {np.sqrt(max(rate * (1 - rate), 1 / len(hits)) / len(hits)):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    repeats = 20 if parser.parse_args().quick else 400
    print("| method | rows | score | reported | on fresh rows | too low | the interval holds it (0.950 is right) |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for method, rows, scale in (("platt", 200, 1.0), ("platt", 1000, 1.0), ("platt", 200, 1.4), ("platt", 1000, 1.4),
                                ("isotonic", 1000, 1.0), ("isotonic", 1000, 1.4)):  # fmt: skip
        found = []
        for seed in range(repeats):
            rng = np.random.default_rng([seed, rows])
            z = rng.normal(-1.0, 1.2, rows)
            batch = Batch(scale * z, (rng.random(rows) < sigmoid(z)).astype(np.int64))
            found.append(reported(batch, method, scale * FRESH, sigmoid(FRESH)))
        error = np.array([one.true - one.value for one in found])
        means = " | ".join(f"{np.mean(column):+.4f}" for column in ([r.value for r in found], [r.true for r in found]))
        bias = f"{error.mean():+.4f} ± {error.std() / np.sqrt(repeats):.4f}"
        name = "right" if scale == 1.0 else "over-confident, 1.4 z"
        print(f"| {method} | {rows:,} | {name} | {means} | {bias} | {share([r.held for r in found])} |", flush=True)


if __name__ == "__main__":
    main()
