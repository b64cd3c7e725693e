"""Whether `auto` leaves calibrated scores alone, and whether the gain that it reports is that on fresh rows: simulated.

python benchmarks/statistics/auto.py [--repeats N] [--quick]

The probabilities of the labels are known, so that the gain on fresh rows is: the mean over 20,000 of them of the
expected log-loss without calibration less that with it.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import polars as pl

import calcli
from calcli.batch import FloatArray
from calcli.numeric.links import sigmoid
from calcli.tables.binding_types import Flags

FRESH = 20_000

TRUTHS = {
    "calibrated": lambda z: z,
    "log-odds 1/0.7 times too large": lambda z: 0.7 * z,
    "log-odds 1/0.85 times too large, and 0.1 too high": lambda z: 0.85 * z - 0.1,
    "bent: z + 0.4 sin 2z": lambda z: z + 0.4 * np.sin(2.0 * z),
}


class Run(NamedTuple):
    """What one fit did: gains are in nats a row, positive where it helped; the interval is that of the report."""

    changed: bool
    true: float
    share: float
    reported: float
    lo: float
    hi: float


def table(rng: np.random.Generator, rows: int, truth: str, noise: int) -> tuple[pl.DataFrame, FloatArray]:
    """Scores with labels, noise beside them, and the probabilities of the labels."""
    z = rng.normal(-1.0, 1.2, rows)
    prob = sigmoid(TRUTHS[truth](z))
    features = {f"x{index}": rng.normal(size=rows) for index in range(noise)}
    return pl.DataFrame({"logit": z, "label": (rng.random(rows) < prob).astype(int), **features}), prob


def run(seed: int, rows: int, truth: str, noise: int) -> Run:
    """One table, fitted by default."""
    rng = np.random.default_rng((seed, rows, noise))
    frame, _ = table(rng, rows, truth, noise)
    fitted = calcli.fit(frame, metrics="nll", flags=Flags(label="label", logit="logit"), seed=seed)
    fresh, prob = table(rng, FRESH, truth, noise)
    raw, ours = (
        -float(np.mean(prob * np.log(said) + (1.0 - prob) * np.log1p(-said)))
        for said in (sigmoid(fresh["logit"].to_numpy()), fitted.model.predict(fresh))
    )
    (difference,) = (one for one in fitted.report.differences if one.metric == "nll")
    value, lo, hi = (-(number or 0.0) for number in (difference.value, difference.hi, difference.lo))
    return Run(fitted.report.chosen != "identity", raw - ours, (raw - ours) / raw, value, lo, hi)


def changed(seed: int, rows: int, classes: int) -> bool:
    """Whether calibrated probabilities of several classes, Dirichlet(1, .., 1), are changed."""
    rng = np.random.default_rng((seed, rows, classes))
    prob = rng.dirichlet(np.ones(classes), rows)
    label = (rng.random(rows)[:, None] > np.cumsum(prob, axis=1)[:, :-1]).sum(axis=1)
    label[:classes] = np.arange(classes)  # each occurs
    frame = pl.DataFrame({f"logit_{index}": np.log(prob[:, index] + 1e-12) for index in range(classes)})
    flags = Flags(label="label", logit="logit")
    return (
        calcli.fit(frame.with_columns(label=label), metrics="nll", flags=flags, seed=seed).report.chosen != "identity"
    )


def line(runs: list[Run]) -> str:
    """The cells of a row."""
    changed = [one for one in runs if one.changed]
    covered = sum(one.lo - 1e-12 <= one.true <= one.hi + 1e-12 for one in changed)
    reported, true = (float(np.mean([getattr(one, name) for one in runs])) for name in ("reported", "true"))
    harmed = sum(one.share < -0.001 for one in runs) / len(runs)
    return (
        f"{len(changed) / len(runs):.3f} | {harmed:.3f} | {min(one.share for one in runs):+.1%} | "
        f"{reported:+.5f} | {true:+.5f} | {f'{covered} of {len(changed)}' if changed else '-'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100, help="tables of each kind")
    parser.add_argument("--quick", action="store_true", help="few tables")
    given = parser.parse_args()
    repeats = 10 if given.quick else given.repeats
    print("| scores | rows | noise features | changed | worse by over 0.1 % | worst | gain reported | true | covered |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    cases = [("calibrated", rows, 0) for rows in (200, 500, 1000, 5000)] + [("calibrated", 500, 10)]
    cases += [(truth, rows, 0) for truth in list(TRUTHS)[1:] for rows in (500, 2000)]
    for truth, rows, noise in cases:
        runs = [run(seed, rows, truth, noise) for seed in range(repeats)]
        print(f"| {truth} | {rows:,} | {noise} | {line(runs)} |", flush=True)
    print(f"\n{repeats} tables of each kind.")
    print("\nCalibrated scores of several classes, 200 rows:\n\n| classes | changed | tables |\n| --- | --- | --- |")
    for classes in (3, 10):
        share = float(np.mean([changed(seed, 200, classes) for seed in range(5 * repeats)]))
        print(f"| {classes} | {share:.3f} | {5 * repeats} |", flush=True)


if __name__ == "__main__":
    main()
