"""How often the method that `compare` calls the best is the best, and whether the interval of its gain holds.

``python benchmarks/statistics/compare.py [--repeats N] [--first SEED] [--quick]``

The probabilities of the labels are known, so that the loss of each method on all rows is: the mean divergence of its
probabilities from the true ones, over 5,000 fresh rows, fitted on all rows of the table.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

import calcli
from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.numeric.links import logit, sigmoid
from calcli.numeric.losses import divergence
from calcli.tables.binding_types import Flags

FRESH = 5_000

SCORES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "N(-1, 1.2)": lambda rng, rows: rng.normal(-1.0, 1.2, rows),
    "U-shaped, Beta(0.3, 0.4)": lambda rng, rows: logit(rng.beta(0.3, 0.4, rows).clip(1e-4, 1 - 1e-4)),
    "N(0, 3)": lambda rng, rows: rng.normal(0.0, 3.0, rows),
}

TRUTHS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "z": lambda z: z,
    "0.9 z": lambda z: 0.9 * z,
    "0.7 z": lambda z: 0.7 * z,
    "1.3 z": lambda z: 1.3 * z,
    "0.85 z - 0.1": lambda z: 0.85 * z - 0.1,
    "z + 0.3": lambda z: z + 0.3,
    "z + 0.2 sin 2z": lambda z: z + 0.2 * np.sin(2.0 * z),
    "z + 0.4 sin 2z": lambda z: z + 0.4 * np.sin(2.0 * z),
    "0.6 z above 0, else z": lambda z: np.where(z > 0, 0.6 * z, z),
    "z rounded": np.round,
}
"""The true log-odds."""

METHODS = "temperature,platt,quadratic,beta,spline,isotonic,histogram,isotonic-centered,venn-abers,scaling-binning"

EDGES = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 1.0 + 1e-9)


class Found(NamedTuple):
    """What `compare` said of one table, and what is so."""

    said: np.ndarray
    """By method: the probability that it is the best."""

    best: np.ndarray
    """By method: 1 for the best, equal shares where several are."""

    leader: int
    """The method with the greatest probability."""

    winner: tuple[float, float, float, float] | None
    """Of the gain of the chosen method: as reported, its interval, and the true one; None for no calibration."""


def one(score: str, truth: str, rows: int, seed: int) -> Found:
    """One table."""
    rng = np.random.default_rng([seed, rows, list(SCORES).index(score), list(TRUTHS).index(truth)])
    z, fresh = SCORES[score](rng, rows), SCORES[score](rng, FRESH)
    label = (rng.random(rows) < sigmoid(TRUTHS[truth](z))).astype(np.int64)
    frame = pl.DataFrame({"logit": z, "label": label})
    flags = Flags(label="label", logit="logit")
    report = calcli.compare(frame, methods=METHODS, metrics="nll", flags=flags, seed=seed).report
    shown = [row for row in report.scores if row.status == "ok"]
    batch, prob = Batch(z, label), sigmoid(TRUTHS[truth](fresh))
    loss = {}
    for row in shown:
        spec = catalog.find(row.name)
        fitted = calibrator.fit(spec, batch, spec.resolve(), seed=seed)
        loss[row.name] = float(divergence(prob, fitted.predict(Batch(fresh))).mean())
    least = np.array(list(loss.values())) < min(loss.values()) + 1e-9
    said = np.array([row.best for row in shown])
    winner = None
    for each in report.differences:
        if (each.score, each.versus) == (report.chosen, "identity"):
            gain, lo, hi = (-float(end or 0.0) for end in (each.value, each.hi, each.lo))
            winner = gain, lo, hi, loss["identity"] - loss[each.score]
    return Found(said, least / least.sum(), int(said.argmax()), winner)


def tables(found: list[Found]) -> Iterator[str]:
    """The lines of the tables."""
    said, best = (np.concatenate([getattr(each, name) for each in found]) for name in ("said", "best"))
    leaders = np.array([[each.said[each.leader], each.best[each.leader]] for each in found])
    yield "| said | all methods: said | are the best | how many | the likeliest: said | is the best | tables |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for low, high in itertools.pairwise(EDGES):
        of_all, of_leaders = (said >= low) & (said < high), (leaders[:, 0] >= low) & (leaders[:, 0] < high)
        cells = [rate(said[of_all], best[of_all]), rate(*leaders[of_leaders].T)]
        yield f"| {low:.2f} to {min(1.0, high):.2f} | {' | '.join(cells)} |"
    yield f"| all | {rate(said, best)} | {rate(*leaders.T)} |"


def rate(said: np.ndarray, best: np.ndarray) -> str:
    if not len(said):
        return "- | - | 0"
    return f"{said.mean():.3f} | {best.mean():.3f} ± {best.std() / np.sqrt(len(best)):.3f} | {len(said)}"


def covered(name: str, found: list[Found]) -> str:
    """A line of the table of winners."""
    gain, lo, hi, truth = np.array([each.winner for each in found if each.winner is not None]).reshape(-1, 4).T
    if not len(gain):
        return f"| {name} | {len(found)} | 0 | - | - | - |"
    held = (lo <= truth) & (truth <= hi)
    share = f"{held.mean():.3f} ± {max(held.std(), 1 / len(held)) / np.sqrt(len(held)):.3f}"
    return f"| {name} | {len(found)} | {len(gain)} | {gain.mean():+.5f} | {truth.mean():+.5f} | {share} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=8, help="tables of each kind and size")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--quick", action="store_true", help="few tables")
    given = parser.parse_args()
    repeats = 1 if given.quick else given.repeats
    found = {truth: list[Found]() for truth in TRUTHS}
    for seed in range(given.first, given.first + repeats):
        for rows in (300, 1000):
            for truth, of_truth in found.items():
                of_truth += [one(score, truth, rows, seed) for score in SCORES]
    every = [each for of_truth in found.values() for each in of_truth]
    print("# The probability of being the best\n")
    print("\n".join(tables(every)))
    print("\n# The gain of the chosen method: its interval covers the true one, nominal 0.950\n")
    print("| true log-odds | tables | with a winner | gain reported | true | covered |")
    print("| --- | --- | --- | --- | --- | --- |")
    for truth, of_truth in found.items():
        print(covered(truth, of_truth))
    print(covered("all", every))
    print(f"\n{len(every)} tables of 300 and 1,000 rows; scores {', '.join(SCORES)}.")


if __name__ == "__main__":
    main()
