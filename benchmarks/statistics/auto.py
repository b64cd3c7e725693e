"""Whether `auto` leaves calibrated scores alone, and whether the gain that it reports is that on fresh rows: simulated.

python benchmarks/statistics/auto.py [--quick] [--only TEXT]

The probabilities of the labels are known, so that the gain on fresh rows is: the mean over 4,000 quantiles of the score
of the expected log-loss without calibration less that with it, or over 20,000 rows where there are features.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.stats import norm

import calcli
from calcli.batch import Batch, Column, FloatArray
from calcli.listener import SILENT
from calcli.metrics.base import Scored
from calcli.metrics.paired import paired
from calcli.metrics.proper import nll
from calcli.models.learn import learn
from calcli.models.recipe import Recipe
from calcli.numeric.links import sigmoid
from calcli.reports.schema import Difference
from calcli.tables.binding_types import Flags

FRESH = 20_000
GRID = -1.0 + 1.2 * norm.ppf((np.arange(4000) + 0.5) / 4000)
FEATURES = 6


class Kind(NamedTuple):
    """Scores z ~ N(-1, 1.2), and what the true log-odds are."""

    name: str
    truth: Callable[[FloatArray], FloatArray] = lambda z: z
    effect: float | None = None
    """By how much log-odds are higher where the first of six features is positive; None without features."""


KINDS = {
    "cal": Kind("calibrated"),
    "fcal": Kind("calibrated", effect=0.0),
    "mild": Kind("log-odds 1/0.85 times too large, and 0.1 too high", lambda z: 0.85 * z - 0.1),
    "strong": Kind("log-odds 1/0.7 times too large", lambda z: 0.7 * z),
    "bent": Kind("bent: z + 0.4 sin 2z", lambda z: z + 0.4 * np.sin(2.0 * z)),
    "fmild": Kind("0.45 too low where a feature is positive", effect=0.45),
    "fstrong": Kind("0.8 too low where a feature is positive", effect=0.8),
}
CASES = (
    *(("cal", rows, 200) for rows in (200, 500, 1000)),
    *(("cal", rows, 100) for rows in (2000, 5000)),
    ("fcal", 500, 100),
    *(("mild", rows, 200) for rows in (500, 1000, 2000)),
    *(("strong", rows, 200) for rows in (200, 500)),
    *(("bent", rows, 200) for rows in (500, 1000, 2000)),
    *(("fmild", rows, 100) for rows in (1000, 2000)),
    *(("fstrong", rows, 100) for rows in (200, 500)),
)
"""Kinds, rows, and how many tables."""


class Run(NamedTuple):
    """What one fit did: gains are in nats a row, positive where it helped; the interval is that of the report."""

    changed: bool
    twice: bool
    reported: float = 0.0
    lo: float = 0.0
    hi: float = 0.0
    true: float = 0.0
    share: float = 0.0

    @property
    def held(self) -> bool:
        return self.lo <= self.true <= self.hi


def draw(rng: np.random.Generator, rows: int, kind: Kind, z: FloatArray | None = None) -> tuple[Batch, FloatArray]:
    """Scores with their features, and the probabilities of the labels."""
    z = rng.normal(-1.0, 1.2, rows) if z is None else z
    if kind.effect is None:
        return Batch(z), sigmoid(kind.truth(z))
    x = rng.normal(size=(rows, FEATURES))
    features = {f"x{place}": Column("number", column) for place, column in enumerate(x.T)}
    return Batch(z, features=features), sigmoid(z + kind.effect * (x[:, 0] > 0))


def run(seed: int, rows: int, key: str) -> Run:
    """One table, fitted by default."""
    kind = KINDS[key]
    rng = np.random.default_rng([seed, rows, *map(ord, key)])
    drawn, prob = draw(rng, rows, kind)
    batch = Batch(drawn.score, (rng.random(rows) < prob).astype(np.int64), features=drawn.features)
    learned = learn(Recipe(method="auto"), batch, ("0", "1"), seed=seed, listener=SILENT)
    if learned.spec.name == "identity":
        return Run(changed=False, twice=learned.deals is not None)
    held = learned.held_out(batch)
    found = paired(Scored(held.labels, learned.predicted), Scored(held.labels, sigmoid(held.score)), nll.rows)
    (one,) = learned.allowing_for_choice([Difference(learned.spec.name, "raw", "nll", *found)])
    fresh, prob = draw(np.random.default_rng([77, seed]), FRESH, kind, GRID if kind.effect is None else None)
    raw, ours = (
        -float(np.mean(prob * np.log(said) + (1.0 - prob) * np.log1p(-said)))
        for said in (sigmoid(fresh.score), learned.calibrator.predict(fresh))
    )
    reported, lo, hi = (-(number or 0.0) for number in (one.value, one.hi, one.lo))
    return Run(True, learned.deals is not None, reported, lo, hi, raw - ours, (raw - ours) / raw)


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
    twice = [one for one in changed if one.twice]
    reported, true = (float(np.mean([getattr(one, name) for one in runs])) for name in ("reported", "true"))
    harmed = sum(one.share < -0.001 for one in runs) / len(runs)
    held = [f"{sum(one.held for one in some)} of {len(some)}" if some else "-" for some in (changed, twice)]
    return (
        f"{len(runs)} | {sum(one.twice for one in runs)} | {len(changed) / len(runs):.3f} | {harmed:.3f} | "
        f"{min(one.share for one in runs):+.1%} | {reported:+.5f} | {true:+.5f} | {held[0]} | {held[1]}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the tables")
    parser.add_argument("--only", default="", metavar="TEXT", help="scores whose names contain it, or 'classes'")
    given = parser.parse_args()
    part = 20 if given.quick else 1
    columns = (
        "dealt again | changed | worse by over 0.1 % | worst | gain reported | true | covered | of those dealt again"
    )
    print(f"| scores | rows | features | tables | {columns} |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for key, rows, tables in CASES:
        kind = KINDS[key]
        if given.only in kind.name:
            runs = [run(seed, rows, key) for seed in range(tables // part)]
            print(f"| {kind.name} | {rows:,} | {0 if kind.effect is None else FEATURES} | {line(runs)} |", flush=True)
    if given.only not in "classes":
        return
    print("\nCalibrated scores of several classes, 200 rows:\n\n| classes | changed | tables |\n| --- | --- | --- |")
    for classes in (3, 10):
        share = float(np.mean([changed(seed, 200, classes) for seed in range(500 // part)]))
        print(f"| {classes} | {share:.3f} | {500 // part} |", flush=True)


if __name__ == "__main__":
    main()
