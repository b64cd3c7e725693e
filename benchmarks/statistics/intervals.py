"""How often p-values and intervals are wrong, where positives are few, weights differ, or rows were fitted on.

``python benchmarks/statistics/intervals.py [--quick]``

Labels are drawn from the true probabilities, sigmoid(z) with z ~ N(centre, 1.2).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.metrics.base import Options, Scored
from calcli.metrics.bootstrap import bootstrap
from calcli.metrics.catalog import find, measure
from calcli.metrics.diagnosis import hosmer_lemeshow, spiegelhalter_z
from calcli.metrics.paired import paired_sums
from calcli.metrics.proper import nll
from calcli.metrics.regression import slope
from calcli.numeric.links import sigmoid

CENTRES = {"0.31": -1.0, "0.05": -3.55, "0.01": -5.3}
"""By the rate of positives."""

REPLICATES = 99


def rows_of(seed: int, rows: int, centre: float, *, weighted: bool = False) -> tuple[np.ndarray, Scored]:
    """True log-odds, and the true probabilities with labels drawn from them."""
    rng = np.random.default_rng([seed, rows])
    z = rng.normal(centre, 1.2, rows)
    label = (rng.random(rows) < sigmoid(z)).astype(np.int64)
    return z, Scored(label, sigmoid(z), rng.exponential(1.0, rows) if weighted else None)


def share(hits: list[bool]) -> str:
    rate = float(np.mean(hits))
    return f"{rate:.3f} ± {np.sqrt(max(rate * (1 - rate), 1 / len(hits)) / len(hits)):.3f}"


def tests(repeats: int) -> None:
    print("# Tests of calibrated scores at the 5 % level: nominal 0.050\n")
    print("| test | rate | rows | rejects |\n| --- | --- | --- | --- |")
    for rate, centre in CENTRES.items():
        for rows in (200, 1000, 10_000):
            found = [hosmer_lemeshow(rows_of(seed, rows, centre)[1], Options()).p for seed in range(repeats)]
            print(f"| `hosmer_lemeshow` | {rate} | {rows:,} | {share([p is not None and p <= 0.05 for p in found])} |")
    for options, name in ((Options(in_sample=True), "`spiegelhalter_z --in-sample`"), (Options(), "`spiegelhalter_z`")):
        found = []
        for seed in range(repeats):
            z, scored = rows_of(seed, 500, -1.0)
            fitted = calibrator.fit(catalog.find("platt"), Batch(z, scored.label), {})
            found.append(spiegelhalter_z(Scored(scored.label, fitted.predict(Batch(z, scored.label))), options).p)
        print(f"| {name}, after platt on the same rows | 0.31 | 500 | {share([p <= 0.05 for p in found])} |")


def smooth(repeats: int) -> None:
    """`smooth_ece` beside labels drawn from the score."""
    chosen = (find("smooth_ece"),)
    for weighted in (False, True):
        found = []
        for seed in range(repeats):
            scored = rows_of(seed, 300, -1.0, weighted=weighted)[1]
            value = measure(chosen, scored, Options())["smooth_ece"]
            replicates = bootstrap([scored], chosen, Options(), REPLICATES, seed=seed)
            found.append(replicates.complete(0, "smooth_ece", value).p)
        weights = ", exponential weights" if weighted else ""
        print(f"| `smooth_ece --bootstrap {REPLICATES}`{weights} | 0.31 | 300 | {share([p <= 0.05 for p in found])} |")


def intervals(repeats: int) -> None:
    print("\n# Coverage of intervals: nominal 0.950\n")
    print("| interval | rate | rows | weights | coverage | wholly below the truth | wholly above |")
    print("| --- | --- | --- | --- | --- | --- | --- |")

    def line(name: str, rate: str, rows: int, ends: list[tuple[float, float, float]], *, weighted: bool) -> None:
        below, above = [truth > hi for _, truth, hi in ends], [truth < lo for lo, truth, _ in ends]
        held = [not (low or high) for low, high in zip(below, above, strict=True)]
        weights = "exponential" if weighted else "none"
        sides = " | ".join(f"{np.mean(one):.3f}" for one in (below, above))
        print(f"| {name} | {rate} | {rows:,} | {weights} | {share(held)} | {sides} |")

    for name, wrong in (("log-odds + 0.5", lambda z: z + 0.5), ("log-odds x 1.3", lambda z: 1.3 * z)):
        for rate, rows, weighted in (("0.31", 200, False), ("0.31", 200, True), ("0.05", 1000, False),
                                     ("0.01", 1000, False), ("0.01", 10_000, False)):  # fmt: skip
            truth = divergence(CENTRES[rate], wrong)
            found = [paired(seed, rows, CENTRES[rate], wrong, weighted=weighted) for seed in range(repeats)]
            ends = [(lo, truth, hi) for lo, hi in found]
            line(f"`nll.diff`, {name} beside the truth", rate, rows, ends, weighted=weighted)
    for rate, rows, weighted in (("0.31", 200, False), ("0.31", 1000, True), ("0.05", 200, False),
                                 ("0.01", 200, False), ("0.01", 1000, False)):  # fmt: skip
        slopes = [slope(rows_of(seed, rows, CENTRES[rate], weighted=weighted)[1], Options()) for seed in range(repeats)]
        ends = [(one.lo, 1.0, one.hi) for one in slopes if one.lo is not None and one.hi is not None]
        line("`slope`", rate, rows, ends, weighted=weighted)


def paired(
    seed: int, rows: int, centre: float, wrong: Callable[[np.ndarray], np.ndarray], *, weighted: bool
) -> tuple[float, float]:
    """The interval of the difference in log-loss."""
    z, scored = rows_of(seed, rows, centre, weighted=weighted)
    found = paired_sums(Scored(scored.label, sigmoid(wrong(z)), scored.weight), scored, nll.rows).difference()
    return found.lo or 0.0, found.hi or 0.0


def divergence(centre: float, wrong: Callable[[np.ndarray], np.ndarray]) -> float:
    """By how much the log-loss of all rows is greater."""
    z = np.random.default_rng(0).normal(centre, 1.2, 2_000_000)
    p, q = sigmoid(z), sigmoid(wrong(z))
    return float((p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    tests(30 if quick else 400)
    smooth(30 if quick else 150)
    intervals(30 if quick else 1000)


if __name__ == "__main__":
    main()
