"""What decisions cost on new rows: the threshold that follows from the costs, on raw and on calibrated probabilities,
beside thresholds that are tuned on labelled rows. In money per row, and in per cent above the best threshold there is.

python benchmarks/decisions/costs.py [DIR] [--quick]

Tables are drawn as in promises.py, and judged on the whole population. A calibrator is fitted on the rows of the
table; where `decide` chooses, on every second of them, and it chooses on the others.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from peers import GivenProbabilities
from populations import DRAWS, ROWS, TABLES, Population, files_of_two, from_file, print_table, two_classes

from calcli.batch import Batch
from calcli.decisions.choice import choose
from calcli.decisions.costs import Costs
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.measure import Rows
from calcli.methods import calibrator, catalog
from calcli.numeric.links import log_odds

METHOD = "quadratic"


def fitted(prob: np.ndarray, label: np.ndarray) -> calibrator.FittedMethod:
    spec = catalog.find(METHOD)
    return calibrator.fit(spec, Batch(log_odds(prob), label), spec.resolve())


def raw_threshold(model: calibrator.FittedMethod, population: Population, threshold: float) -> float:
    """The raw probability from which the calibrated one is at least `threshold`: the calibrator is monotone."""

    def calibrated(place: int) -> float:
        return float(model.predict(Batch(log_odds(population.prob[[place]])))[0])

    place = bisect_left(range(len(population)), threshold, key=calibrated)
    return float(population.prob[place]) if place < len(population) else 2.0


def of_scikit_learn(costs: Costs, prob: np.ndarray, label: np.ndarray) -> float:
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import TunedThresholdClassifierCV

    def saved(truth: np.ndarray, yes: np.ndarray) -> float:
        return -float(costs.fp * np.count_nonzero(yes > truth) + costs.fn * np.count_nonzero(yes < truth))

    rates = np.column_stack([1.0 - prob, prob])
    tuned = TunedThresholdClassifierCV(
        GivenProbabilities().fit(rates, label),
        scoring=make_scorer(saved),
        cv="prefit",
        refit=False,
        response_method="predict_proba",
    )
    return float(tuned.fit(rates, label).best_threshold_)


@dataclass(frozen=True)
class Table:
    """Drawn rows with the calibrators that are fitted on them: on all, and on those that choose no threshold."""

    prob: np.ndarray
    label: np.ndarray
    chooses: np.ndarray
    model: calibrator.FittedMethod
    halved: calibrator.FittedMethod

    @classmethod
    def draw(cls, population: Population, rows: int, seed: int) -> Table | None:
        """None where there is hardly a row of one class."""
        prob, label = population.draw(rows, np.random.default_rng((seed, rows)))
        if not 2 <= label.sum() <= rows - 2:
            return None
        chooses = np.arange(rows) % 2 == 1
        return cls(prob, label, chooses, fitted(prob, label), fitted(prob[~chooses], label[~chooses]))

    def thresholds(self, costs: Costs, population: Population) -> dict[str, float]:
        """On the scale of the raw probabilities."""
        own = self.halved.predict(Batch(log_odds(self.prob[self.chooses])))
        ask = DecisionGoal(cost_fp=costs.fp, cost_fn=costs.fn, bootstrap=200)
        chosen = choose(ask, Rows(own, self.label[self.chooses]), 0)
        return {
            "0.5": 0.5,
            "raw, from the costs": costs.threshold,
            "raw, tuned": costs.best_threshold(self.prob, self.label),
            "raw, tuned by scikit-learn": of_scikit_learn(costs, self.prob, self.label),
            "calibrated, from the costs": raw_threshold(self.model, population, costs.threshold),
            "calcli decide": raw_threshold(self.halved, population, chosen.policy.rule.band.high),
        }


def paid(costs: Costs, population: Population) -> np.ndarray:
    """By the place of the least probability that is yes, the cost per row."""
    positive = population.positive
    missed = np.append(0.0, np.cumsum(positive))
    alarms = np.append(np.cumsum((1.0 - positive)[::-1])[::-1], 0.0)
    return (costs.fn * missed + costs.fp * alarms) / len(positive)


def compared(population: Population, rows: int, tables: int) -> Iterator[list[str]]:
    """For each pair of costs, the cost of the best threshold, and the mean cost of the others."""
    curves = {costs: paid(costs, population) for costs in COSTS}
    sums: dict[Costs, dict[str, list[float]]] = {costs: defaultdict(list) for costs in COSTS}
    for seed in range(tables):
        table = Table.draw(population, rows, seed)
        for costs in COSTS if table is not None else ():
            for name, threshold in table.thresholds(costs, population).items():
                sums[costs][name].append(float(curves[costs][np.searchsorted(population.prob, threshold)]))
    for costs, of in sums.items():
        best = float(curves[costs].min())
        means = [float(np.mean(each)) for each in of.values()]
        more = (f"{mean:.4f} ({max(0.0, 100 * (mean / best - 1)):+.1f} %)" for mean in means)
        yield [f"{costs.fp:g} : {costs.fn:g}", f"{rows:,}", f"{best:.4f}", *more]


COSTS = Costs(1, 20), Costs(5, 1)
HEAD = ["false alarm : miss", "rows", "best there is", "0.5", "raw, from the costs", "raw, tuned",
        "raw, tuned by scikit-learn", "calibrated, from the costs", "calcli decide"]  # fmt: skip


def main() -> None:
    quick = "--quick" in sys.argv
    tables, draws, sizes = (5, 3, ROWS[:2]) if quick else (TABLES, DRAWS, ROWS)
    print(f"Calibrated by `{METHOD}`. The mean cost per row over {tables} simulated tables; in brackets, how much more "
          "than the best threshold of the population.\n")  # fmt: skip
    print_table(["score", *HEAD], (
        [name, *row] for name, population in two_classes(100_000) for rows in sizes
        for row in compared(population, rows, tables)
    ))  # fmt: skip
    for folder in (Path(word) for word in sys.argv[1:] if not word.startswith("--")):
        print(f"Rows drawn {draws} times from each file with replacement; the file is the population.\n")
        print_table(["file", *HEAD], (
            [name, *row] for name, population in files_of_two(folder)
            for row in compared(population, from_file(population), draws)
        ))  # fmt: skip


if __name__ == "__main__":
    main()
