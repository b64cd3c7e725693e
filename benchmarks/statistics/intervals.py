"""How often p-values and intervals are wrong, where positives are few, weights differ, or rows were fitted on.

``python benchmarks/statistics/intervals.py [--quick]``

Labels are drawn from the true probabilities, sigmoid(z) with z ~ N(centre, 1.2); for targets and costs of `decide` with
the log-odds that their tables name.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from calcli.batch import Batch
from calcli.decisions.choice import choose
from calcli.decisions.costs import Costs
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.measure import Rows
from calcli.decisions.targets import RATES, Counts, Target, certify, decided, expected, grid
from calcli.methods import calibrator, catalog
from calcli.metrics.base import Options, Scored
from calcli.metrics.bootstrap import bootstrap
from calcli.metrics.catalog import find, measure
from calcli.metrics.diagnosis import hosmer_lemeshow, spiegelhalter_z
from calcli.metrics.paired import paired_sums
from calcli.metrics.proper import nll
from calcli.metrics.regression import slope
from calcli.numeric.links import logit, sigmoid

CENTRES = {"0.31": -1.0, "0.05": -3.55, "0.01": -5.3}
"""By the rate of positives."""

REPLICATES = 99

SCORES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "N(-1, 1.7)": lambda rng, rows: rng.normal(-1.0, 1.7, rows),
    "U-shaped, Beta(0.3, 0.3)": lambda rng, rows: logit(rng.beta(0.3, 0.3, rows).clip(1e-6, 1 - 1e-6)),
    "a tree with 12 leaves": lambda rng, rows: np.linspace(-3.5, 2.5, 12)[rng.integers(0, 12, rows)],
    "deciles": lambda rng, rows: logit(sigmoid(rng.normal(-1.0, 1.7, rows)).round(1).clip(0.05, 0.95)),
}
BY_SCORE = {"none": 0.0, "exp(-0.8 z)": -0.8, "exp(-0.5 z)": -0.5, "exp(0.8 z)": 0.8}
"""Weights that are exp(power z), by what they are called."""

WEIGHTS = (*BY_SCORE, "Pareto(1.5)", "label, 1:10")
TARGETS = ("precision >= 0.8", "recall >= 0.9", "fpr <= 0.05")


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


def weighted_tests(repeats: int) -> None:
    """Both tests where a tenth of the negatives is kept, with the weight 10."""
    print("\n# The same with weights by label, 1:10\n\n| test | log-odds | rows | rejects | no p-value |")
    print("| --- | --- | --- | --- | --- |")
    scores = {**SCORES, "N(-5.95, 1.2), a rate of 0.5 %": lambda rng, rows: rng.normal(-5.95, 1.2, rows)}
    for name, test in {"hosmer_lemeshow": hosmer_lemeshow, "spiegelhalter_z": spiegelhalter_z}.items():
        for score, drawn in scores.items():
            for rows in (1000, 5000):
                found = []
                for seed in range(repeats):
                    prob, label, weight = labelled(np.random.default_rng([seed, rows]), drawn, "label, 1:10", rows)
                    found.append(test(Scored(label, prob, weight), Options()).p)
                known = [p for p in found if p is not None]
                rejects = share([p <= 0.05 for p in known]) if known else "-"
                missing = f"{1.0 - len(known) / len(found):.0%}"
                print(f"| `{name}` | {score} | {rows:,} | {rejects} | {missing} |", flush=True)


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


def targets(repeats: int, rows: int = 1000) -> None:
    print(f"\n# `decide --target`, {rows:,} rows: tables that miss the target on the population, at most 0.050\n")
    print(f"In brackets the share of tables that have a threshold.\n\n| log-odds | weights | {' | '.join(TARGETS)} |")
    print("| --- | --- |" + " --- |" * len(TARGETS))
    for score, drawn in SCORES.items():
        z = np.sort(drawn(np.random.default_rng(99), 1_000_000))
        for weights in WEIGHTS:
            mass = np.exp(BY_SCORE.get(weights, 0.0) * z)
            counts = [np.append(0.0, np.cumsum(each)) for each in (mass * sigmoid(z), mass * (1.0 - sigmoid(z)))]
            cells = []
            for text in TARGETS:
                target, missed, chosen = Target.parse(text, 0.95), 0, 0
                for seed in range(repeats):
                    threshold = certified(target, *labelled(np.random.default_rng([seed, rows]), drawn, weights, rows))
                    if threshold is None:
                        continue
                    chosen += 1
                    at = np.searchsorted(sigmoid(z), threshold)
                    (fn, tp), (tn, fp) = ((each[at], each[-1] - each[at]) for each in counts)
                    hits, of = RATES[target.rate].sums(Counts(tp, fp, fn, tn))
                    missed += bool(of > 0 and (hits / of < target.value) == (target.relation == ">="))
                cells.append(f"{share([True] * missed + [False] * (repeats - missed))} ({chosen / repeats:.0%})")
            print(f"| {score} | {weights} | {' | '.join(cells)} |", flush=True)


def labelled(
    rng: np.random.Generator, drawn: Callable[[np.random.Generator, int], np.ndarray], weights: str, rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, labels and weights of a table; by label a tenth of the negatives is kept, with the weight 10."""
    z = drawn(rng, 10 * rows)
    label = (rng.random(len(z)) < sigmoid(z)).astype(np.int64)
    kept = np.where(label == 1, 1.0, 0.1) if weights == "label, 1:10" else np.ones(len(z))
    held = np.flatnonzero(rng.random(len(z)) < kept)[:rows]
    weight = np.exp(BY_SCORE.get(weights, 0.0) * z[held]) / kept[held]
    return sigmoid(z[held]), label[held], rng.pareto(1.5, rows) + 1.0 if weights == "Pareto(1.5)" else weight


def certified(target: Target, prob: np.ndarray, label: np.ndarray, weight: np.ndarray) -> float | None:
    thresholds = grid(prob)
    rows = decided(prob, label, thresholds, weight, rates=(target.rate,))
    place = certify(target, rows, expected(prob, thresholds, weight)).place
    return None if place is None else float(thresholds[place])


def saved(repeats: int) -> None:
    """What Bayes' threshold for costs of 1 and 20 saves beside today's."""
    print("\n# What `decide` saves: coverage of the interval, nominal 0.950\n")
    print("| log-odds | rows | coverage | wholly below the truth | wholly above |\n| --- | --- | --- | --- | --- |")
    costs = Costs(1.0, 20.0)
    for centre, rows in ((-1.0, 200), (-1.0, 1000), (-3.0, 200), (-3.0, 1000)):
        p = sigmoid(np.random.default_rng(1).normal(centre, 1.5, 1_000_000))
        paid = [(np.where(p >= at, (1.0 - p) * costs.fp, p * costs.fn)).mean() for at in (0.5, costs.threshold)]
        truth, below, above = paid[0] - paid[1], [], []
        for seed in range(repeats):
            rng = np.random.default_rng([seed, rows])
            prob = sigmoid(rng.normal(centre, 1.5, rows))
            label = (rng.random(rows) < prob).astype(np.int64)
            if not label.any():
                continue
            choice = choose(DecisionGoal(cost_fp=1, cost_fn=20), Rows(prob, label), 0)
            (found,) = (one.numbers["saves"] for one in choice.options if one.name == "bayes")
            below, above = [*below, found.hi < truth], [*above, found.lo > truth]
        held = [not (one or other) for one, other in zip(below, above, strict=True)]
        sides = f"{np.mean(below):.3f} | {np.mean(above):.3f}"
        print(f"| N({centre:g}, 1.5) | {rows:,} | {share(held)} | {sides} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    tests(30 if quick else 400)
    smooth(30 if quick else 150)
    weighted_tests(30 if quick else 200)
    intervals(30 if quick else 1000)
    targets(10 if quick else 300)
    saved(10 if quick else 500)


if __name__ == "__main__":
    main()
