"""What weights and the names of classes may change: the outputs of every method, and all numbers of a report.

``python benchmarks/statistics/laws.py [--quick]``

Nothing is drawn but the table: 600 rows, two features, weights of 1 to 3.
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl

import calcli
from calcli.methods import catalog

ROWS = 600
METRICS = ("nll", "brier", "accuracy", "auc", "pr_auc", "ece", "ada_ece", "mce", "rmsce", "ece_debiased", "ece_sweep",
           "smooth_ece", "ecce", "mvce", "slope", "intercept", "hosmer_lemeshow", "spiegelhalter_z")  # fmt: skip
ENDS = ("value", "lo", "hi", "p", "floor", "null_hi")
SLOW = ("mbct", "ccl", "heterogeneous", "boost", "recal", "pool")


def table(seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, ROWS))
    z = rng.normal(-1.0, 1.2, ROWS) + 0.5 * a
    label = (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-z - 0.3 * b))).astype(np.int64)
    return pl.DataFrame({"label": label, "logit": 1.3 * z, "a": a, "b": b, "w": rng.integers(1, 4, ROWS)})


def outputs(rows: pl.DataFrame, method: str, test: pl.DataFrame, kind: str | None = None) -> np.ndarray:
    of_weight = {"weight": "w", "weight_kind": kind} if kind else {"ignore": ("w",)}
    flags = calcli.Flags(label="label", logit="logit", **of_weight)
    fitted = calcli.fit(rows, method=method, holdout="none", flags=flags)
    return np.asarray(fitted.model.predict(test))


def methods(quick: bool) -> None:
    print("Importance weights: divided by their sum. Counts: beside each row as often as it counts. Classes: swapped, "
          "the log-odds with the other sign.\n")  # fmt: skip
    print("| method | importance weights | counts | classes |\n| --- | --- | --- | --- |")
    rows, test = table(0), table(1)
    scaled = rows.with_columns(w=pl.col("w") / pl.col("w").sum())
    repeated = rows.select(pl.all().repeat_by("w").explode())
    swapped, other = (one.with_columns(label=1 - pl.col("label"), logit=-pl.col("logit")) for one in (rows, test))
    for spec in catalog.specs():
        if quick and spec.name in SLOW:
            continue
        name = spec.name
        changes = (
            outputs(rows, name, test, "importance") - outputs(scaled, name, test, "importance"),
            outputs(rows, name, test, "counts") - outputs(repeated, name, test),
            outputs(rows, name, test) - (1.0 - outputs(swapped, name, other)),
        )
        print(f"| {name} | {' | '.join(f'{np.abs(one).max():.0e}' for one in changes)} |", flush=True)


def reports() -> None:
    """Every number of every metric, as a share of itself."""
    print("\n| numbers of all metrics, `--bootstrap 99` | compared | largest change |\n| --- | --- | --- |")
    rows = table(0)
    scaled = rows.with_columns(w=pl.col("w") / pl.col("w").sum())
    repeated = rows.select(pl.all().repeat_by("w").explode())
    pairs = {"importance weights, divided by their sum": (rows, scaled, "importance", "importance"),
             "counts, and each row as often": (rows, repeated, "counts", None)}  # fmt: skip
    for name, (one, other, kind, other_kind) in pairs.items():
        found = [numbers(one, kind), numbers(other, other_kind)]
        changes = [abs(a - b) / max(abs(a), 1e-12) for a, b in zip(*found, strict=True)]
        print(f"| {name} | {len(changes)} | {max(changes):.0e} |", flush=True)


def numbers(rows: pl.DataFrame, kind: str | None) -> list[float]:
    of_weight = {"weight": "w", "weight_kind": kind} if kind else {"ignore": ("w",)}
    flags = calcli.Flags(label="label", logit="logit", **of_weight)
    report = calcli.evaluate(rows, metrics=",".join(METRICS), bootstrap=99, flags=flags)
    every = [getattr(report.score("raw").metrics[name], end) for name in METRICS for end in ENDS]
    return [value for value in every if value is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    methods(quick)
    reports()


if __name__ == "__main__":
    main()
