"""The claims of docs/statistics.md on scores of other kinds: U-shaped, of a tree, deciles, heavy tails, wide, rare.

``python benchmarks/statistics/kinds.py [--only CLAIM ...] [--quick]``

Scores are log-odds of each kind, labels are drawn from them: these scores are calibrated. Where a claim needs a score
that is wrong, it has 1.3 times the log-odds. What is true of all rows is computed from two million of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache

import numpy as np
import polars as pl
from held_out import reported, share
from intervals import certified
from units import on_average
from verdict import SCORES

import calcli
from calcli.batch import Batch, FloatArray, IntArray
from calcli.decisions.choice import choose
from calcli.decisions.costs import Costs
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.measure import Rows
from calcli.decisions.targets import Target
from calcli.metrics.base import Options, Scored
from calcli.metrics.bootstrap import bootstrap
from calcli.metrics.catalog import find, measure
from calcli.metrics.diagnosis import diagnose, hosmer_lemeshow, spiegelhalter_z
from calcli.metrics.joint_test import LEVEL, GapSums, joint_test
from calcli.metrics.multiple import adjusted, by_group
from calcli.metrics.paired import paired
from calcli.metrics.proper import nll
from calcli.metrics.regression import intercept, slope
from calcli.numeric.links import sigmoid
from calcli.tables.binding_types import Flags

KINDS = {**SCORES, "N(0, 4)": lambda rng, rows: rng.normal(0.0, 4.0, rows)}
ROWS = 1500
COSTS = Costs(1.0, 20.0)
UNITS, SPREAD = np.full(40, 50), 1.0
"""The rows of each unit, and the standard deviation of what they share."""


@cache
def population(kind: str) -> FloatArray:
    return KINDS[kind](np.random.default_rng(99), 2_000_000)


def drawn(kind: str, seed: int, rows: int = ROWS) -> tuple[np.random.Generator, FloatArray, IntArray]:
    """A stream for further draws, log-odds, and labels drawn from them."""
    rng = np.random.default_rng([seed, rows])
    z = KINDS[kind](rng, rows)
    return rng, z, (rng.random(rows) < sigmoid(z)).astype(np.int64)


def scored(kind: str, seed: int) -> tuple[IntArray, FloatArray]:
    _, z, label = drawn(kind, seed)
    return label, sigmoid(z)


def in_units(kind: str, seed: int) -> Scored:
    """Scores that are calibrated on average over units whose rows share an effect."""
    rng = np.random.default_rng([seed, len(UNITS)])
    unit = np.repeat(np.arange(len(UNITS)), UNITS)
    z = KINDS[kind](rng, len(unit))
    label = rng.random(len(z)) < sigmoid(z + rng.normal(0.0, SPREAD, len(UNITS))[unit])
    return Scored(label.astype(np.int64), on_average(z, SPREAD), units=unit)


def holds(lo: float | None, truth: float, hi: float | None) -> bool | None:
    """None where there is no interval."""
    return None if lo is None or hi is None else lo <= truth <= hi


def rejects(p: float | None) -> bool | None:
    """None where a test has no p-value."""
    return None if p is None else p <= LEVEL


def all_gaps(kind: str, seed: int) -> bool:
    _, z, label = drawn(kind, seed)
    return joint_test(GapSums.of(Scored(label, sigmoid(z))).compact()).p <= LEVEL


def groups(kind: str, seed: int) -> bool:
    rng, z, label = drawn(kind, seed, 2000)
    tests = by_group(Scored(label, sigmoid(z)), rng.integers(0, 50, len(z)), 50)
    return any(p is not None and p <= LEVEL for p in adjusted([(one.p, one.least) for one in tests], LEVEL))


def unit_gaps(kind: str, seed: int) -> bool:
    return diagnose(GapSums.of(in_units(kind, seed))).p <= LEVEL


def unit_intercept(kind: str, seed: int) -> bool | None:
    found = intercept(in_units(kind, seed), Options())
    return holds(found.lo, 0.0, found.hi)


def smooth(kind: str, seed: int) -> bool:
    _, z, label = drawn(kind, seed, 300)
    scored, chosen = Scored(label, sigmoid(z)), (find("smooth_ece"),)
    value = measure(chosen, scored, Options())["smooth_ece"]
    p = bootstrap([scored], chosen, Options(), 99, seed=seed).complete(0, "smooth_ece", value).p
    return p is not None and p <= LEVEL


def gained(kind: str, seed: int, method: str) -> bool:
    """Whether the interval of the gain that a fit of over-confident scores reports holds that on fresh rows."""
    _, z, label = drawn(kind, seed, 1000)
    fresh = population(kind)[:20_000]
    return reported(Batch(1.3 * z, label), method, 1.3 * fresh, sigmoid(fresh)).held


@cache
def excess(kind: str) -> float:
    z = population(kind)
    p = sigmoid(z)
    return float((0.3 * z * -p + np.logaddexp(0.0, 1.3 * z) - np.logaddexp(0.0, z)).mean())


def difference(kind: str, seed: int) -> bool | None:
    _, z, label = drawn(kind, seed, 1000)
    found = paired(Scored(label, sigmoid(1.3 * z)), Scored(label, sigmoid(z)), nll.rows)
    return holds(found.lo, excess(kind), found.hi)


def slopes(kind: str, seed: int) -> bool | None:
    _, z, label = drawn(kind, seed, 1000)
    found = slope(Scored(label, sigmoid(z)), Options())
    return holds(found.lo, 1.0, found.hi)


def misses(kind: str, seed: int) -> bool:
    """Whether the threshold that is chosen for a recall of 0.9 has less; none is no miss."""
    _, z, label = drawn(kind, seed)
    at = certified(Target.parse("recall >= 0.9", 0.95), sigmoid(z), label, np.ones(len(z)))
    prob = sigmoid(population(kind))
    return at is not None and float(prob[prob >= at].sum() / prob.sum()) < 0.9


@cache
def worth(kind: str) -> float:
    p = sigmoid(population(kind))
    paid = [(np.where(p >= at, (1.0 - p) * COSTS.fp, p * COSTS.fn)).mean() for at in (0.5, COSTS.threshold)]
    return float(paid[0] - paid[1])


def saves(kind: str, seed: int) -> bool | None:
    _, z, label = drawn(kind, seed)
    if not label.any():
        return None
    choice = choose(DecisionGoal(cost_fp=COSTS.fp, cost_fn=COSTS.fn), Rows(sigmoid(z), label), 0)
    (found,) = (one.numbers["saves"] for one in choice.options if one.name == "bayes")
    return holds(found.lo, worth(kind), found.hi)


def estimated(kind: str, seed: int) -> bool | None:
    """Whether the interval of the rate from 100 labels and the scores of 10,000 rows, over-confident ones, holds it."""
    _, z, label = drawn(kind, seed, 10_000)
    labels = pl.Series(label).to_list()[:100] + [None] * (len(z) - 100)
    frame = pl.DataFrame({"prob": sigmoid(1.3 * z), "label": labels}, schema_overrides={"label": pl.Int64})
    (found,) = calcli.estimate(frame, prob="prob", classes=("0", "1")).estimates
    return holds(found["lo"], float(sigmoid(population(kind)).mean()), found["hi"])


def changed(kind: str, seed: int) -> bool | None:
    _, z, label = drawn(kind, seed, 500)
    if label.min() == label.max():
        return None
    flags = Flags(label="label", logit="logit")
    fitted = calcli.fit(pl.DataFrame({"logit": z, "label": label}), metrics="nll", flags=flags, seed=seed)
    return fitted.report.chosen != "identity"


CLAIMS: dict[str, tuple[str, int, Callable[[str, int], bool | None]]] = {
    "all gaps": ("rejects, 0.05", 400, all_gaps),
    "`--by` 50 groups": ("any false, 0.05", 400, groups),
    "all gaps by unit": ("rejects, 0.05", 200, unit_gaps),
    "intercept by unit": ("holds, 0.95", 200, unit_intercept),
    "`hosmer_lemeshow`": (
        "rejects, 0.05",
        400,
        lambda kind, seed: rejects(hosmer_lemeshow(Scored(*scored(kind, seed)), Options()).p),
    ),
    "`spiegelhalter_z`": (
        "rejects, 0.05",
        400,
        lambda kind, seed: rejects(spiegelhalter_z(Scored(*scored(kind, seed)), Options()).p),
    ),
    "`smooth_ece`": ("rejects, 0.05", 150, smooth),
    "gain of platt": ("holds, 0.95", 300, lambda kind, seed: gained(kind, seed, "platt")),
    "gain of isotonic": ("holds, 0.95", 200, lambda kind, seed: gained(kind, seed, "isotonic")),
    "`nll.diff`": ("holds, 0.95", 400, difference),
    "`slope`": ("holds, 0.95", 400, slopes),
    "`--target` recall 0.9": ("misses, 0.05 at most", 300, misses),
    "what `decide` saves": ("holds, 0.95", 300, saves),
    "`estimate`, 100 labels": ("holds, 0.95", 200, estimated),
    "`auto`, 500 rows": ("changes, 0.01", 60, changed),
}
"""By the claim: what is counted and its nominal share, how many tables, and whether it is so in one of them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(CLAIMS))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    print(f"| claim | counted, nominal | {' | '.join(KINDS)} |\n|{' --- |' * (len(KINDS) + 2)}")
    for claim in given.only:
        counted, tables, holds_in = CLAIMS[claim]
        cells = []
        for kind in KINDS:
            found = [holds_in(kind, seed) for seed in range(10 if given.quick else tables)]
            known = [one for one in found if one is not None]
            cells.append(share(known) if known else "-")
        print(f"| {claim} | {counted} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
