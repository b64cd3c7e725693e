"""Whether what a policy promises is kept on new rows, and what is paid for it: calcli and other packages.

python benchmarks/decisions/promises.py [DIR ...] [--quick]

A table is drawn from a population whose rates are known: a simulated one, or all rows of a file in DIR, of predictions,
``NAME.cal.parquet`` and ``NAME.test.parquet`` together, or of amounts, ``reg_NAME.parquet``. What is promised is chosen
on the table and judged on the whole population, so that chance in the judge blurs nothing.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import peers
from populations import (
    DRAWS,
    ROWS,
    TABLES,
    Amounts,
    Classes,
    Population,
    files_of_amounts,
    files_of_classes,
    files_of_more_classes,
    files_of_two,
    four_classes,
    from_file,
    print_table,
    simulated_amounts,
    two_classes,
)

from calcli.decisions.choice import choose
from calcli.decisions.conformal import PredictionIntervals, PredictionSets, set_scores
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.measure import Rows

LEVEL = 0.9
SURE = 0.95

Outcome: TypeAlias = tuple[float, float]
"""How far beyond the promise a policy is, NaN where there is none; and how much it decides, or how large it is."""

Maker: TypeAlias = Callable[..., Iterable[Outcome]]
Makers: TypeAlias = Mapping[str, Maker]
"""By package: from a table to outcomes. A package that has nothing of the kind is not there."""

NOTHING = math.nan, 0.0

MOST_ROWS = {"judge-audit": 1_000}
"""Its tests take 5 s for 10,000 rows."""


# Two classes: thresholds for a target, and rows that are left open

TARGETS = (("precision", ">=", 0.8), ("recall", ">=", 0.9), ("fpr", "<=", 0.05))


def for_targets(population: Population) -> Iterator[tuple[str, Makers]]:
    for rate, relation, value in TARGETS:
        named = f"{rate} {relation} {value:g}"
        found = {
            "calcli": lambda prob, label, named=named: _high(DecisionGoal(target=named, confidence=SURE), prob, label),
            "MAPIE": lambda prob, label, rate=rate, value=value: peers.threshold_of_mapie(
                prob, label, rate, value, SURE
            ),
            "scikit-learn": lambda prob, label, rate=rate, value=value: peers.threshold_of_scikit_learn(
                prob, label, rate, value
            ),
        }
        if rate == "precision" and peers.JUDGE_AUDIT:
            found["judge-audit"] = lambda prob, label, value=value: peers.threshold_of_judge_audit(
                prob, label, value, SURE
            )
        sign = 1.0 if relation == ">=" else -1.0
        yield named, {name: _at(population, rate, value, sign, of) for name, of in found.items()}


def _high(ask: DecisionGoal, prob: np.ndarray, label: np.ndarray) -> float | None:
    policy = choose(ask, Rows(prob, label), 0).policy
    return None if policy is None else policy.rule.band.high


def _at(population: Population, rate: str, value: float, sign: float, of: Callable[..., float | None]) -> Maker:
    def make(prob: np.ndarray, label: np.ndarray) -> list[Outcome]:
        threshold = of(prob, label) if label.any() else None
        beyond = math.nan if threshold is None else sign * (population.rate(rate, threshold) - value)
        return [NOTHING if math.isnan(beyond) else (beyond, 1.0)]

    return make


OPEN = {
    "--cost-fp 1 --cost-fn 5 --abstain 0.3": DecisionGoal(
        cost_fp=1, cost_fn=5, abstain=0.3, confidence=SURE, bootstrap=0
    ),
    "--coverage 0.8": DecisionGoal(coverage=0.8, confidence=SURE, bootstrap=0),
}


def left_open(population: Population) -> Iterator[tuple[str, Makers]]:
    for name, ask in OPEN.items():

        def make(prob: np.ndarray, label: np.ndarray, ask: DecisionGoal = ask) -> list[Outcome]:
            if not label.any():
                return [NOTHING]
            choice = choose(ask, Rows(prob, label), 0)
            error, decided = population.error(choice.policy.rule.band.low, choice.policy.rule.band.high)
            return [(choice.bound - error, decided)]

        yield name, {"calcli": make}


# More classes

CLASS_POLICIES = {
    "precision >= 0.7": {"target": "precision >= 0.7"},
    "recall >= 0.5": {"target": "recall >= 0.5"},
    "accuracy >= 0.8": {"target": "accuracy >= 0.8"},
    "--coverage 0.8": {"coverage": 0.8},
    "--top 2": {"top": 2},
}


def of_classes(every: Classes) -> Iterator[tuple[str, Makers]]:
    names = tuple(map(str, range(every.prob.shape[1])))
    for named, asked in CLASS_POLICIES.items():
        rate, _, value = named.partition(" >= ")
        target = float(value or "nan")

        def calcli(prob, label, asked=asked, rate=rate, target=target) -> list[Outcome]:
            choice = choose(DecisionGoal(confidence=SURE, **asked), Rows(prob, label, classes=names), 0)
            if choice.policy is None:
                return [NOTHING]
            promised = 1.0 - choice.bound if math.isnan(target) else target
            return [_judged(every, rate, promised, choice.policy.rule.members(every.prob, {}))]

        def mapie(prob, label, rate=rate, target=target) -> list[Outcome]:
            threshold = peers.class_threshold_of_mapie(prob, label, rate, target, SURE)
            return [_judged(every, rate, target, _likeliest(every, threshold))]

        def judge_audit(prob, label, rate=rate, target=target) -> list[Outcome]:
            right = prob.argmax(axis=1) == label
            threshold = peers.threshold_of_judge_audit(prob.max(axis=1), right, target, SURE)
            return [_judged(every, rate, target, _likeliest(every, threshold))]

        found: dict[str, Maker] = {"calcli": calcli}
        found |= {"MAPIE": mapie} if value else {}
        found |= {"judge-audit": judge_audit} if rate == "accuracy" and peers.JUDGE_AUDIT else {}
        yield named, found


def _likeliest(every: Classes, threshold: float | None) -> np.ndarray:
    """The likeliest class of each row that reaches the threshold."""
    least = math.inf if threshold is None else threshold
    return every.likeliest & (every.prob.max(axis=1) >= least)[:, None]


def _judged(every: Classes, rate: str, promised: float, members: np.ndarray) -> Outcome:
    """How far the worst class, or the share of rows whose classes hold the true one, is beyond the promise."""
    right, given, some = (members & every.true).sum(axis=0), members.sum(axis=0), members.any(axis=1)
    if not some.any():
        return NOTHING
    if rate == "precision":
        reached = (right[given > 0] / given[given > 0]).min()
    elif rate == "recall":
        reached = (right / every.true.sum(axis=0)).min()
    else:
        reached = right.sum() / some.sum()
    return float(reached - promised), float(some.mean())


# Sets and intervals hold what has a score of at most their threshold


@dataclass(frozen=True)
class Scores:
    """Rising scores of what came true in all rows there are, and the size of what is predicted by the threshold."""

    true: np.ndarray
    size: Callable[[float], float]

    def at(self, threshold: float) -> Outcome:
        held = np.searchsorted(self.true, threshold, side="right") / len(self.true)
        return float(held) - LEVEL, self.size(threshold)


def of_sets(every: Classes) -> Iterator[tuple[str, Makers]]:
    scores = {kind: set_scores(every.prob, kind) for kind in ("lac", "aps", "aps-randomised")}
    whole = {kind: Scores(np.sort(of[every.true]), _set_size(of)) for kind, of in scores.items()}
    columns = scores["lac"].T[:, :, None]
    parts = [
        Scores(np.sort(of[true, 0]), _set_size(of)) for of, true in zip(columns, every.true.T, strict=True)
    ]  # fmt: skip

    def calcli(kind: str, sure: float | None) -> Maker:
        def make(prob: np.ndarray, label: np.ndarray) -> list[Outcome]:
            sets = PredictionSets.fit(prob, label, LEVEL, confidence=sure, score=kind)
            return [whole[kind].at(sets.thresholds.values[0][0])]

        return make

    def by_class(prob: np.ndarray, label: np.ndarray) -> list[Outcome]:
        sets = PredictionSets.fit(prob, label, LEVEL, confidence=SURE, by_class=True)
        found = [part.at(threshold) for part, threshold in zip(parts, sets.thresholds.values[0], strict=True)]
        return [(beyond, sum(size for _, size in found)) for beyond, _ in found]

    yield (
        f"{LEVEL:g}",
        {
            "calcli": calcli("lac", SURE),
            "calcli, by class": by_class,
            "calcli, APS": calcli("aps", SURE),
            "calcli, APS with a random part": calcli("aps-randomised", SURE),
            "calcli, on average": calcli("lac", None),
            "MAPIE": lambda prob, label: [whole["lac"].at(peers.sets_of_mapie(prob, label, LEVEL))],
            "crepes": lambda prob, label: [whole["lac"].at(peers.sets_of_crepes(prob, label, LEVEL))],
        },
    )


def _set_size(scores: np.ndarray) -> Callable[[float], float]:
    rising = np.sort(scores, axis=None)
    return lambda threshold: float(np.searchsorted(rising, threshold, side="right") / len(scores))


def of_intervals(every: Amounts) -> Iterator[tuple[str, Makers]]:
    for kind in ("absolute", "scaled", "quantiles", "one end"):
        low, high, spread = _predicted(every, kind)
        sides = {"one end": (every.truth - high,)}.get(kind, (low - every.truth, every.truth - high))
        between, around = float((high - low).mean()), len(sides) * float(spread.mean())
        rising = np.sort(np.maximum.reduce(sides) / spread)
        scores = Scores(rising, lambda threshold, of=(between, around): of[0] + of[1] * threshold)

        def calcli(sure: float | None, kind: str = kind, scores: Scores = scores) -> Maker:
            def make(rows: Amounts) -> list[Outcome]:
                low, high, spread = _predicted(rows, kind)
                side = "upper" if kind == "one end" else "both"
                made = PredictionIntervals.fit(rows.truth, low, high, LEVEL, confidence=sure, spread=spread, side=side)
                return [scores.at(made.thresholds.values[0][0])]

            return make

        def of(peer: Callable[..., float], kind: str = kind, scores: Scores = scores) -> Maker:
            return lambda rows: [scores.at(peer(rows, kind, LEVEL))]

        found = {"calcli": calcli(SURE), "calcli, on average": calcli(None)}
        found |= {"MAPIE": of(peers.intervals_of_mapie)} if kind in ("absolute", "quantiles") else {}
        found |= {"crepes": of(peers.intervals_of_crepes)} if kind in ("absolute", "scaled") else {}
        yield kind, found


def _predicted(rows: Amounts, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, high = (rows.low, rows.high) if kind == "quantiles" else (rows.mean, rows.mean)
    return low, high, rows.spread if kind == "scaled" else np.ones(len(rows))


# The page


@dataclass(frozen=True)
class Section:
    """A table of the page.

    Attributes
    ----------
    kinds
        From a population to what is promised, and who promises it.
    form
        Of the last number of each cell.
    """

    title: str
    about: str
    simulated: Callable[[], Iterable[tuple[str, Any]]]
    files: Callable[[Path], Iterable[tuple[str, Any]]]
    kinds: Callable[[Any], Iterator[tuple[str, Makers]]]
    columns: tuple[str, ...]
    form: str

    def rows(
        self, named: Iterable[tuple[str, Any]], sizes: tuple[int, ...] | None, tables: int
    ) -> Iterator[tuple[str, ...]]:
        for name, population in named:
            for kind, makers in self.kinds(population):
                for size in sizes or (from_file(population),):
                    found = outcomes(population, makers, size, tables)
                    cells = (cell(found[column], self.form) if column in found else "–" for column in self.columns)
                    yield name, kind, f"{size:,}", *cells


def outcomes(population: Any, makers: Makers, rows: int, tables: int) -> dict[str, list[Outcome]]:
    asked = {name: make for name, make in makers.items() if rows <= MOST_ROWS.get(name, rows)}
    found: dict[str, list[Outcome]] = {name: [] for name in asked}
    for seed in range(tables):
        table = population.draw(rows, np.random.default_rng((seed, rows)))
        for name, make in asked.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] += make(*table)
    return found


def cell(found: list[Outcome], form: str) -> str:
    beyond, last = np.array(found).T
    given, finite = beyond[~np.isnan(beyond)], last[np.isfinite(last)]
    broken = np.count_nonzero(given < -1e-12) / len(beyond)
    if not len(given):
        return "– / – / 0 %"
    return f"{100 * broken:.1f}% / {given.mean():+.3f} / {finite.mean():{form}}".replace("%", " %")


SECTIONS = (
    Section(
        "Thresholds for a target",
        "The last number is the share of tables that have a threshold. judge-audit, which is for the verdicts of "
        "language models, bounds the errors among those that are accepted: 1 - precision. With 10,000 rows it takes "
        "5 s a table, and is left out. No other package for such verdicts that was found promises a precision of what "
        "is accepted: typed-judge bounds errors as a share of all rows; cje-eval, evalproof, judgegate and ppi-python "
        "estimate rates, or how far a judge agrees with people.",
        two_classes, files_of_two, for_targets, ("calcli", "MAPIE", "judge-audit", "scikit-learn"), ".0%",
    ),
    Section(
        "Rows that are left open",
        "The promise is the bound on errors among the rows that are decided, the last number the share of these rows. "
        "None of the other packages has such a bound.",
        two_classes, files_of_two, left_open, ("calcli",), ".0%",
    ),
    Section(
        "More than two classes",
        "A promise in each class is broken where one class breaks it; accuracy is that of the rows that get a class. "
        "`--coverage` and `--top` promise the bound on errors that they print. The last number is the mean share of "
        "the rows that get a class, 0 where there is no policy. MAPIE and judge-audit have one threshold for all "
        "classes; that of accuracy is a risk defined for MAPIE here.",
        four_classes, files_of_more_classes, of_classes, ("calcli", "MAPIE", "judge-audit"), ".0%",
    ),
    Section(
        "Prediction sets",
        "The last number is the mean size. By class, every class of every table counts. What keeps its level on "
        "average, as the other packages do, says nothing of a single table.",
        four_classes, files_of_classes, of_sets,
        ("calcli", "calcli, by class", "calcli, APS", "calcli, APS with a random part", "calcli, on average", "MAPIE",
         "crepes"), ".2f",
    ),
    Section(
        "Intervals",
        "The last number is the mean width; of one end, the distance from the prediction. An infinite width does not "
        "count.",
        simulated_amounts, files_of_amounts, of_intervals, ("calcli", "calcli, on average", "MAPIE", "crepes"), ".2f",
    ),
)  # fmt: skip


def main() -> None:
    quick = "--quick" in sys.argv
    folders = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    tables, draws, sizes = (10, 5, ROWS[:2]) if quick else (TABLES, DRAWS, ROWS)
    print(f"In each cell: the share of tables whose promise is broken on the population, at most 5 % where 95 % "
          "confidence is promised; how far beyond the promise it lies on average; and what the section says. "
          f"{tables} tables are drawn from a simulated population, and {draws} with replacement from a file, which is "
          "then the population: a share of 5 % then has a standard error of 2 %.\n")  # fmt: skip
    for section in SECTIONS:
        print(f"# {section.title}\n\n{section.about}\n")
        print_table(
            ("simulated", "promise", "rows", *section.columns), section.rows(section.simulated(), sizes, tables)
        )
        named = [each for folder in folders for each in section.files(folder)]
        if named:
            print_table(("file", "promise", "rows", *section.columns), section.rows(named, None, draws))


if __name__ == "__main__":
    main()
