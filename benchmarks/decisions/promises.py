"""Whether what a policy promises is kept on new rows, and what is paid for it: calcli, MAPIE, scikit-learn and crepes.

python benchmarks/decisions/promises.py [DIR] [--quick]

A table is drawn from a population whose rates are known: simulated scores, or with DIR all rows of a file of real
predictions, ``NAME.cal.parquet`` and ``NAME.test.parquet`` together. The threshold, or the sets, are chosen on the
table and judged on the whole population, so that chance in the judge blurs nothing.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin

from calcli.decisions.choice import Ask, choose
from calcli.decisions.conformal import PredictionSets, set_scores
from calcli.decisions.rows import Rows
from calcli.numeric.links import sigmoid, softmax

TABLES = 500
DRAWS = 100
ROWS = (200, 1_000, 10_000)
FROM_FILES, SHARE = 1_000, 4
"""So many rows are drawn from a file, and at most one of so many, lest the table is the population."""

LEVEL = 0.9
SURE = 0.95


class Given(ClassifierMixin, BaseEstimator):
    """A model whose features are the probabilities of the classes."""

    def fit(self, X, y):
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1)


@dataclass(frozen=True)
class Population:
    """All rows there are, with the chance that each is positive."""

    prob: np.ndarray
    positive: np.ndarray

    def __post_init__(self) -> None:
        order = np.argsort(self.prob, kind="stable")
        object.__setattr__(self, "prob", self.prob[order])
        object.__setattr__(self, "positive", self.positive[order])

    @property
    def table(self) -> int:
        """The rows of a table."""
        return min(FROM_FILES, len(self.prob) // SHARE)

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        at = rng.integers(0, len(self.prob), rows)
        return self.prob[at], (rng.random(rows) < self.positive[at]).astype(np.int64)

    def rate(self, name: str, threshold: float) -> float:
        """NaN where it is the rate of no rows."""
        place = int(np.searchsorted(self.prob, threshold))
        yes, total = self.positive[place:], float(self.positive.sum())
        hits = float(yes.sum())
        false, negatives = len(yes) - hits, len(self.prob) - total
        if name == "precision":
            return hits / len(yes) if len(yes) else float("nan")
        if name == "accuracy":
            return (hits + negatives - false) / len(self.prob)
        return hits / total if name == "recall" else false / negatives


Chooser = Callable[[np.ndarray, np.ndarray, str, str, float], float | None]


def of_calcli(prob, label, rate, relation, value):
    """With 95 % confidence."""
    choice = choose(Ask(target=f"{rate} {relation} {value}", confidence=SURE), Rows(prob, label), 0)
    return choice.policy.rule.gap.high if choice.policy else None


def of_mapie(prob, label, rate, relation, value):
    from mapie.risk_control import BinaryClassificationController

    rates = np.column_stack([1.0 - prob, prob])
    control = BinaryClassificationController(lambda X: X, rate, target_level=value, confidence_level=SURE)
    control.calibrate(rates, label)
    return control.best_predict_param


def of_scikit_learn(prob, label, rate, relation, value):
    """Of thresholds that meet the target on the table, the one that TunedThresholdClassifierCV finds the best."""
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import TunedThresholdClassifierCV

    def score(truth, yes):
        hits, said, positive = int((yes & truth).sum()), int(yes.sum()), int(truth.sum())
        if rate == "precision":
            return hits / positive if said and hits >= value * said else -1.0
        if rate == "recall":
            return -said / len(yes) if hits >= value * positive else -2.0
        return hits / positive if said - hits <= value * (len(yes) - positive) else -1.0

    rates = np.column_stack([1.0 - prob, prob])
    tuned = TunedThresholdClassifierCV(
        Given().fit(rates, label), scoring=make_scorer(score), cv="prefit", refit=False, response_method="predict_proba"
    ).fit(rates, label)
    return float(tuned.best_threshold_) if tuned.best_score_ >= -1.0 + 1e-9 or rate == "recall" else None


CHOOSERS: dict[str, Chooser] = {
    "calcli": of_calcli,
    "MAPIE": of_mapie,
    "scikit-learn": of_scikit_learn,
}


def thresholds(
    population: Population, target: tuple[str, str, float], rows: int, tables: int
) -> dict[str, list[float]]:
    """By chooser: the share of tables with a threshold, that of broken promises, and how far beyond the target."""
    rate, relation, value = target
    sign = 1.0 if relation == ">=" else -1.0
    found: dict[str, list[float]] = {name: [] for name in CHOOSERS}
    for seed in range(tables):
        prob, label = population.draw(rows, np.random.default_rng((seed, rows)))
        if label.sum() == 0:
            continue
        for name, chooser in CHOOSERS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                threshold = chooser(prob, label, rate, relation, value)
            reached = float("nan") if threshold is None else population.rate(rate, threshold)
            found[name].append(sign * (reached - value))
    return {name: summary(np.array(beyond)) for name, beyond in found.items()}


def summary(beyond: np.ndarray) -> list[float]:
    given = beyond[~np.isnan(beyond)]
    broken = np.count_nonzero(given < -1e-12) / max(1, len(beyond))
    return [len(given) / max(1, len(beyond)), broken, float(given.mean()) if len(given) else float("nan")]


def cell(numbers: list[float]) -> str:
    given, broken, beyond = numbers
    return f"{100 * broken:.1f} % / {beyond:+.3f} / {100 * given:.0f} %" if given else "– / – / 0 %"


OF_FILES = "Rows drawn {} times from each file with replacement; the file is the population.\n"

TARGETS = (("precision", ">=", 0.8), ("recall", ">=", 0.9), ("fpr", "<=", 0.05))


def simulated(size: int = 1_000_000) -> Iterator[tuple[str, Population]]:
    z = np.random.default_rng(7).normal(-1.0, 1.7, size)
    yield "calibrated", Population(sigmoid(z), sigmoid(z))
    yield "over-confident", Population(sigmoid(1.8 * z + 0.5), sigmoid(z))


def of_files(folder: Path) -> Iterator[tuple[str, Population]]:
    for name, frame in tables_of(folder):
        if "logit" in frame.columns:
            yield name, Population(sigmoid(frame["logit"].to_numpy()), frame["label"].to_numpy().astype(float))
        elif name.startswith("satimage"):
            prob = softmax(logits_of(frame))
            yield f"{name}, class 0", Population(prob[:, 0], (frame["label"].to_numpy() == 0).astype(float))


def tables_of(folder: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    for path in sorted(folder.glob("*.cal.parquet")):
        both = (path, path.with_name(path.name.replace(".cal.", ".test.")))
        yield path.name.removesuffix(".cal.parquet"), pl.concat(map(pl.read_parquet, both))


def logits_of(frame: pl.DataFrame) -> np.ndarray:
    names = sorted((name for name in frame.columns if name.startswith("logit_")), key=lambda one: int(one[6:]))
    return frame.select(names).to_numpy().astype(np.float64)


# Sets


def sets_of_calcli(prob, label, sure=None, score="lac"):
    return PredictionSets.fit(prob, label, LEVEL, confidence=sure, score=score).thresholds.values[0][0]


def sets_of_mapie(prob, label):
    from mapie.classification import SplitConformalClassifier

    sets = SplitConformalClassifier(Given().fit(prob, label), LEVEL, conformity_score="lac", prefit=True)
    sets.conformalize(prob, label).predict_set(prob[:1])
    return float(sets._mapie_classifier.conformity_score_function_.quantiles_[0])


def sets_of_crepes(prob, label):
    """The largest score that it takes: it has p-values in place of a threshold."""
    from crepes import ConformalClassifier

    scores = 1.0 - prob[np.arange(len(label)), label]
    upper = np.sort(scores)[int(len(scores) * (LEVEL - 0.02)) :, None]  # it compares each with all
    taken = ConformalClassifier().fit(scores).predict_set(upper, confidence=LEVEL, smoothing=False)
    return float(upper[np.flatnonzero(taken[:, 0])[-1], 0])


SETS = {
    "calcli": ("lac", sets_of_calcli),
    "calcli, with 95 % confidence": ("lac", lambda prob, label: sets_of_calcli(prob, label, SURE)),
    "calcli, APS": ("aps", lambda prob, label: sets_of_calcli(prob, label, None, "aps")),
    "calcli, APS with a random part": (
        "aps-randomised", lambda prob, label: sets_of_calcli(prob, label, None, "aps-randomised"),
    ),
    "MAPIE": ("lac", sets_of_mapie),
    "crepes": ("lac", sets_of_crepes),
}  # fmt: skip


def sets(prob: np.ndarray, label: np.ndarray, rows: int, tables: int) -> dict[str, list[float]]:
    """By maker: the mean coverage, the share of tables below the level, the mean size of sets."""
    scores = {kind: set_scores(prob, kind) for kind in ("lac", "aps", "aps-randomised")}
    true = {kind: np.sort(of[np.arange(len(label)), label]) for kind, of in scores.items()}
    every = {kind: np.sort(of.ravel()) for kind, of in scores.items()}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SETS}
    for seed in range(tables):
        at = np.random.default_rng((seed, rows)).integers(0, len(label), rows)
        for name, (kind, make) in SETS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                q = make(prob[at], label[at])
            if not np.isnan(q):
                held, size = (np.searchsorted(of[kind], q, side="right") / len(label) for of in (true, every))
                found[name].append((float(held), float(size)))
    return {
        name: [*np.mean(pairs, axis=0), np.mean([held < LEVEL for held, _ in pairs])]
        for name, pairs in found.items()
        if pairs
    }


def four_classes(size: int = 200_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    logit = rng.normal(0.0, 1.3, (size, 4))
    return softmax(1.5 * logit), (logit + rng.gumbel(size=logit.shape)).argmax(axis=1)


def set_rows(cells: dict[str, list[float]]) -> dict[str, str]:
    return {name: f"{held:.3f} / {100 * below:.0f} % / {size:.2f}" for name, (held, size, below) in cells.items()}


def print_table(head: list[str], rows: Iterator[list[str]]) -> None:
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


def main() -> None:
    quick = "--quick" in sys.argv
    folders = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    tables, draws = (10, 5) if quick else (TABLES, DRAWS)
    sizes = ROWS[:2] if quick else ROWS
    print("# Thresholds\n\nIn each cell: the share of tables whose threshold breaks the target on the population (at "
          "most 5 % where 95 % confidence is promised), how far beyond the target the rate lies on average, and the "
          f"share of tables that have a threshold. {tables} simulated tables.\n")  # fmt: skip
    print_table(["score", "target", "rows", *CHOOSERS], (
        [name, " ".join(map(str, target)), f"{rows:,}", *map(cell, thresholds(all_rows, target, rows, tables).values())]
        for name, all_rows in simulated() for target in TARGETS for rows in sizes
    ))  # fmt: skip
    for folder in folders:
        print(OF_FILES.format(draws))
        print_table(["file", "rows", "target", *CHOOSERS], (
            [name, f"{all_rows.table:,}", " ".join(map(str, target)),
             *map(cell, thresholds(all_rows, target, all_rows.table, draws).values())]
            for name, all_rows in of_files(folder) for target in TARGETS
        ))  # fmt: skip
    print(f"# Prediction sets at {LEVEL:g}\n\nIn each cell: the mean coverage, the share of tables whose coverage is "
          "below the level, and the mean size of the sets. Without a confidence the level is kept on average over "
          f"tables, as by the other packages. {tables} simulated tables of 4 classes.\n")  # fmt: skip
    prob, label = four_classes()
    found = {f"{rows:,} rows": set_rows(sets(prob, label, rows, tables)) for rows in sizes}
    print_table(["sets", *found], ([name, *(cells.get(name, "–") for cells in found.values())] for name in SETS))
    for folder in folders:
        print(OF_FILES.format(draws))
        made = {}
        for name, frame in tables_of(folder):
            logits = frame["logit"].to_numpy() if "logit" in frame.columns else logits_of(frame)
            prob = np.column_stack([1 - sigmoid(logits), sigmoid(logits)]) if logits.ndim == 1 else softmax(logits)
            rows = min(FROM_FILES, len(prob) // SHARE)
            made[name] = set_rows(sets(prob, frame["label"].to_numpy().astype(np.int64), rows, draws))
        print_table(["file", *SETS], ([name, *(cells.get(one, "–") for one in SETS)] for name, cells in made.items()))


if __name__ == "__main__":
    main()
