"""MBCT on what its paper is about: clicks, of which few are positive, with categories, and a model that errs by them.

``python benchmarks/papers/mbct_clicks.py [--sizes N,..] [--quick]`` writes Markdown. The rows are simulated
(`simulated.Clicks`), so that the true probability of each is known; metrics are those that all labels together expect,
so that no difference is chance of the labels. The tables, figures and claims are those of `mbct.py`.

Otherwise than in the paper: the base model is additive and knows no pairs of categories (the paper's are a deep network
and boosted trees), there are six categories of 5 to 5,000 values (the paper has seven and the score), the paper's data
have 208,000 to 12 million rows to calibrate on, and there is no online test. As in the paper: depth 5, at most 8 trees,
100 bins of the score, beta 1000, which is the size of the bins of MVCE too.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from claims import claim
from mbct import DEFAULT, FULL, SINGLE, Study, figure_4, figure_5, figure_6, figure_7, table_2
from simulated import Clicks

from calcli.numeric.links import logit

RATES = (0.005, 0.02, 0.1)
FEATURE_AWARE = ("heterogeneous", "boost")
MANY = 500_000
"""To so many rows at most the other methods over features are fitted."""
FEW = 100_000
"""To so many of them ccl, which is the slowest, and the trees of figure 5, at the middle rate."""
LARGER = 2_000_000
"""From so many rows on there are tables of the middle rate only."""
TEST = 100_000
BETA = 1000.0


def drawn(rate: float, rows: int) -> Study:
    clicks = Clicks(rate)
    cal, test = clicks.rows(rows, 1), clicks.rows(TEST, 2)
    # Figure 6 divides bins by another model: one that knows the pairs too, but not well.
    other = logit(test.truth) + np.random.default_rng(3).normal(0, 1, TEST)
    return Study(f"{rows:,} rows with {rate:.1%} clicks", cal.batch, test.batch, other, BETA, {}, test)


def first_rows(one: Study) -> Study:
    """The same, fitted to few of the rows."""
    return replace(one, name=f"{one.name}, the first {FEW:,}", cal=one.cal.take(slice(FEW)))


def study(rate: float, rows: int, others: Sequence[str]) -> Study:
    one = drawn(rate, rows)
    one.add_scores()
    for method in others:
        one.scores[method] = one.fitted(method).predict(one.test)
    if rows == MANY and rate == RATES[1]:
        one.scores[f"ccl, fitted to {FEW:,}"] = first_rows(one).fitted("ccl").predict(one.test)
    print(f"{one.name}: done", file=sys.stderr, flush=True)
    return one


def nearest(studies: Sequence[Study]) -> None:
    best = {one.name: min(one.scores, key=lambda name: one.truth.divergence(one.scores[name])) for one in studies}
    ours = [name for name, method in best.items() if method == DEFAULT]
    print(
        f"Nearest to the truth of all, baselines and the other methods over features: {DEFAULT} on {len(ours)} of "
        f"{len(best)}.\n"
    )


def by_rows(studies: Sequence[Study]) -> None:
    """Where a rate has tables of several sizes: what boosting adds to the AUC of one tree."""
    gains: dict[str, list[float]] = {}
    for one in studies:
        single, full = (one.numbers(one.scores[name])["auc"] for name in (SINGLE, FULL))
        gains.setdefault(one.name.partition(" with ")[2], []).append(full - single)
    held = {rate: found == sorted(found) for rate, found in gains.items() if len(found) > 1}
    if held:
        claim("boosting adds more AUC where there are more rows (section 5.4)", held, "rates of clicks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="500000,2000000,10000000", help="numbers of rows to calibrate on")
    parser.add_argument("--quick", action="store_true", help="one rate, fewer rows and methods")
    given = parser.parse_args()
    warnings.simplefilter("error")
    print("# MBCT on clicks\n")
    if given.quick:
        studies = [study(0.02, 100_000, FEATURE_AWARE[:1])]
    else:
        studies = [
            study(rate, rows, FEATURE_AWARE if rows <= MANY else ())
            for rows in map(int, given.sizes.split(","))
            for rate in (RATES if rows < LARGER else RATES[1:2])
        ]
    print(
        f"{TEST:,} test rows. {' and '.join(FEATURE_AWARE)} are slower, and fitted to at most {MANY:,} rows; ccl, the\n"
        f"slowest, to {FEW:,}.\n"
    )
    table_2(studies)
    by_rows(studies)
    nearest(studies)
    shown = [one for one in studies if len(one.cal) == MANY] or studies
    figure_4(shown)
    figure_5([first_rows(one) for one in shown[1:2] or shown])
    figure_6(shown)
    figure_7(shown)


if __name__ == "__main__":
    main()
