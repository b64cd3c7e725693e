"""How often the verdict calls a calibrated score off, and what it finds where something is wrong.

``python benchmarks/statistics/verdict.py [--quick]``

Labels are drawn from the true probabilities, sigmoid(z) with z ~ N(centre, 1.2) unless a table says otherwise; a score
is a function of z.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from calcli.diagrams.captions import FINDINGS
from calcli.diagrams.curve_builder import CurveBuilder
from calcli.metrics.base import Scored
from calcli.metrics.diagnosis import Diagnosis
from calcli.metrics.joint_test import LEVEL, GapSums, joint_test
from calcli.numeric.links import logit, sigmoid

Array = np.ndarray
CENTRES = {"0.31": -1.0, "0.05": -3.55, "0.01": -5.3}
"""By the rate of positives."""

WEIGHTS: dict[str, Callable[[np.random.Generator, int], Array | None]] = {
    "none": lambda rng, rows: None,
    "exponential": lambda rng, rows: rng.exponential(1.0, rows),
    "log-normal, sd 1.5": lambda rng, rows: np.exp(rng.normal(0.0, 1.5, rows)),
}
SCORES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "N(-1, 1.2)": lambda rng, rows: rng.normal(-1.0, 1.2, rows),
    "U-shaped, Beta(0.3, 0.3)": lambda rng, rows: logit(rng.beta(0.3, 0.3, rows).clip(1e-6, 1 - 1e-6)),
    "a tree with 12 leaves": lambda rng, rows: np.linspace(-3.5, 2.5, 12)[rng.integers(0, 12, rows)],
    "deciles": lambda rng, rows: logit(sigmoid(rng.normal(-1.0, 1.5, rows)).round(1).clip(0.05, 0.95)),
    "heavy tails, t(2)": lambda rng, rows: -1.0 + 1.2 * rng.standard_t(2, rows).clip(-12.0, 12.0),
    "rate 0.5 %": lambda rng, rows: rng.normal(-5.95, 1.2, rows),
}
"""The log-odds of calibrated scores."""

KEPT: dict[str, Callable[[Array, Array], Array]] = {
    "none": lambda z, label: np.ones(len(z)),
    "label": lambda z, label: np.where(label == 1, 1.0, 0.1),
    "score": lambda z, label: sigmoid(z - z.mean()).clip(0.05),
    "both": lambda z, label: np.where(label == 1, 1.0, sigmoid(z - z.mean()).clip(0.05)),
    "neither": lambda z, label: 1.0 / np.random.default_rng(len(z)).lognormal(3.0, 1.0, len(z)).clip(1.0),
}
"""The share of rows that a table keeps, by what it depends on; the weight of a row is 1 over it."""

WRONG: dict[str, Callable[[Array], Array]] = {
    "0.04 too high everywhere": lambda z: np.clip(sigmoid(z) + 0.04, 0.0, 1.0),
    "log-odds 0.2 too high": lambda z: sigmoid(z + 0.2),
    "log-odds 1.2 times too large": lambda z: sigmoid(1.2 * z),
    "log-odds 1.5 times too large": lambda z: sigmoid(1.5 * z),
    "log-odds 0.8 times as large": lambda z: sigmoid(0.8 * z),
    "bent: z + 0.2 ((z - centre)^2 - 1.44)": lambda z: sigmoid(z + 0.2 * ((z + 1.0) ** 2 - 1.44)),
}
CLASSES = 10


def judged(scored: Scored, classes: tuple[str, ...] = ("0", "1"), of: tuple[str, ...] = ()) -> list[Diagnosis]:
    """As `diagram` and the reports have it, for each curve."""
    builder = CurveBuilder(["raw"], classes, ("reliability", "smooth"), of)
    builder.add([scored])
    return [curve.diagnosis for curve in builder.curves() if curve.diagnosis is not None]


def simulated(
    repeats: int, rows: int, centre: float, wrong: Callable[[Array], Array] = sigmoid, weights: str = "none"
) -> Iterator[Diagnosis]:
    for repeat in range(repeats):
        rng = np.random.default_rng([repeat, rows])
        z = rng.normal(centre, 1.2, rows)
        label = (rng.random(rows) < sigmoid(z)).astype(np.int64)
        yield judged(Scored(label, wrong(z), WEIGHTS[weights](rng, rows)))[0]


def share(count: int, of: int) -> str:
    """With its standard error."""
    rate = count / of
    return f"{rate:.3f} ± {np.sqrt(max(rate * (1 - rate), 1 / of) / of):.3f}"


def sizes(repeats: int) -> None:
    print("# Calibrated scores: share rejected, nominal 0.050\n")
    print("| rate | weights | rows | all gaps together | calibration in the large |\n| --- | --- | --- | --- | --- |")
    for rate, centre in CENTRES.items():
        for weights in WEIGHTS:
            for rows in (200, 1000, 10_000) if weights == "none" else (500,):
                found = list(simulated(repeats, rows, centre, weights=weights))
                off, shifted = (sum(one) for one in ([not d.chance for d in found], [d.shift_p <= 0.05 for d in found]))
                print(f"| {rate} | {weights} | {rows:,} | {share(off, repeats)} | {share(shifted, repeats)} |")
    off = total = 0
    for repeat in range(max(1, repeats // CLASSES)):
        rng = np.random.default_rng(repeat)
        prob = rng.dirichlet(np.full(CLASSES, 0.3), 1000)
        label = (rng.random(1000)[:, None] > prob.cumsum(axis=1)).sum(axis=1)
        names = tuple(map(str, range(CLASSES)))
        found = judged(Scored(np.minimum(label, CLASSES - 1), prob), names, ("all",))[:CLASSES]
        off, total = off + sum(not one.chance for one in found), total + len(found)
    print(f"\nEach of {CLASSES} classes, 1,000 rows: {share(off, total)}.\n")


def kinds(repeats: int, rows: int = 1500) -> None:
    print(f"# Calibrated scores of other kinds, {rows:,} rows: share rejected, nominal 0.050\n")
    print(f"| log-odds | {' | '.join(f'weights by {name}' for name in KEPT)} |\n|{' --- |' * (len(KEPT) + 1)}")
    for score, drawn in SCORES.items():
        cells = []
        for kept in KEPT.values():
            off = 0
            for repeat in range(repeats):
                rng = np.random.default_rng([repeat, rows])
                z = drawn(rng, 20 * rows)
                label = (rng.random(len(z)) < sigmoid(z)).astype(np.int64)
                share_kept = kept(z, label)
                held = np.flatnonzero(rng.random(len(z)) < share_kept)[:rows]
                scored = Scored(label[held], sigmoid(z[held]), 1.0 / share_kept[held])
                off += joint_test(GapSums.of(scored.with_scaled_weights).compact()).p <= LEVEL
            cells.append(share(off, repeats))
        print(f"| {score} | {' | '.join(cells)} |", flush=True)
    print()


def powers(repeats: int) -> None:
    print("# Scores that are wrong: share rejected, and the first diagnosis\n")
    print("| wrong by, at a rate of 0.31 | rows | rejected | first diagnosis |\n| --- | --- | --- | --- |")
    for name, wrong in WRONG.items():
        for rows in (500, 2000, 10_000):
            found = [one for one in simulated(repeats, rows, -1.0, wrong) if not one.chance]
            first = Counter(FINDINGS[one.faults[0]][1].lower() for one in found).most_common(3)
            words = ", ".join(f"{word} {count / max(1, len(found)):.0%}" for word, count in first)
            print(f"| {name} | {rows:,} | {share(len(found), repeats)} | {words} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    sizes(20 if quick else 500)
    kinds(10 if quick else 200)
    powers(10 if quick else 100)


if __name__ == "__main__":
    main()
