"""What decisions cost on new rows: the threshold that follows from the costs, on raw and on calibrated probabilities,
beside thresholds that are tuned on labelled rows. In money per row, and in per cent above the best threshold there is.

python benchmarks/decisions/costs.py [DIR] [--quick]

Tables are drawn as in promises.py, and judged on the whole population. A calibrator is fitted on the rows of the
table; where `decide` chooses, on every second of them, and it chooses on the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from promises import DRAWS, OF_FILES, ROWS, TABLES, Given, Population, of_files, print_table, simulated

from calcli.batch import Batch
from calcli.decisions.choice import Ask, choose
from calcli.decisions.costs import Costs
from calcli.decisions.rows import Rows
from calcli.methods import calibrator, catalog
from calcli.numeric.links import log_odds

METHOD = "quadratic"


def fitted(prob: np.ndarray, label: np.ndarray) -> calibrator.FittedMethod:
    spec = catalog.find(METHOD)
    return calibrator.fit(spec, Batch(log_odds(prob), label), spec.resolve())


def raw_threshold(model: calibrator.FittedMethod, population: Population, threshold: float) -> float:
    """The raw probability from which the calibrated one is at least `threshold`: the calibrator is monotone."""
    calibrated = model.predict(Batch(log_odds(population.prob)))
    place = int(np.searchsorted(calibrated, threshold))
    return float(population.prob[place]) if place < len(calibrated) else 2.0


def of_scikit_learn(costs: Costs, prob: np.ndarray, label: np.ndarray) -> float:
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import TunedThresholdClassifierCV

    rates = np.column_stack([1.0 - prob, prob])
    score = make_scorer(lambda truth, yes: -costs.of_rows(truth, yes > 0).mean())
    tuned = TunedThresholdClassifierCV(
        Given().fit(rates, label), scoring=score, cv="prefit", refit=False, response_method="predict_proba"
    )
    return float(tuned.fit(rates, label).best_threshold_)


def thresholds(costs: Costs, prob: np.ndarray, label: np.ndarray, population: Population) -> dict[str, float]:
    """On the scale of the raw probabilities."""
    half = np.arange(len(prob)) % 2 == 0
    model, halved = fitted(prob, label), fitted(prob[half], label[half])
    ask = Ask(cost_fp=costs.fp, cost_fn=costs.fn, bootstrap=200)
    chosen = choose(ask, Rows(halved.predict(Batch(log_odds(prob[~half]))), label[~half]), 0)
    return {
        "0.5": 0.5,
        "raw, from the costs": costs.threshold,
        "raw, tuned": costs.best_threshold(prob, label),
        "raw, tuned by scikit-learn": of_scikit_learn(costs, prob, label),
        "calibrated, from the costs": raw_threshold(model, population, costs.threshold),
        "calcli decide": raw_threshold(halved, population, chosen.policy.rule.gap.high),
    }


def paid(costs: Costs, population: Population) -> np.ndarray:
    """By the place of the least probability that is yes, the cost per row."""
    positive = population.positive
    missed = np.append(0.0, np.cumsum(positive))
    alarms = np.append(np.cumsum((1.0 - positive)[::-1])[::-1], 0.0)
    return (costs.fn * missed + costs.fp * alarms) / len(positive)


def compared(population: Population, costs: Costs, rows: int, tables: int) -> list[str]:
    cost = paid(costs, population)
    sums: dict[str, list[float]] = {}
    for seed in range(tables):
        prob, label = population.draw(rows, np.random.default_rng((seed, rows)))
        if 2 <= label.sum() <= rows - 2:
            for name, threshold in thresholds(costs, prob, label, population).items():
                sums.setdefault(name, []).append(float(cost[np.searchsorted(population.prob, threshold)]))
    best = float(cost.min())
    means = [float(np.mean(each)) for each in sums.values()]
    return [f"{best:.4f}", *(f"{mean:.4f} ({max(0.0, 100 * (mean / best - 1)):+.1f} %)" for mean in means)]


HEAD = ["best there is", "0.5", "raw, from the costs", "raw, tuned", "raw, tuned by scikit-learn",
        "calibrated, from the costs", "calcli decide"]  # fmt: skip


def main() -> None:
    quick = "--quick" in sys.argv
    tables, draws = (5, 3) if quick else (TABLES // 5, DRAWS // 5)
    sizes = ROWS[:2] if quick else ROWS
    print(f"Calibrated by `{METHOD}`. The mean cost per row over {tables} simulated tables; in brackets, how much more "
          "than the best threshold of the population.\n")  # fmt: skip
    print_table(["score", "false alarm : miss", "rows", *HEAD], (
        [name, f"{costs.fp:g} : {costs.fn:g}", f"{rows:,}", *compared(population, costs, rows, tables)]
        for name, population in simulated(100_000) for costs in (Costs(1, 20), Costs(5, 1)) for rows in sizes
    ))  # fmt: skip
    for folder in (Path(word) for word in sys.argv[1:] if not word.startswith("--")):
        print(OF_FILES.format(draws))
        print_table(["file", "rows", "false alarm : miss", *HEAD], (
            [name, f"{population.table:,}", f"{costs.fp:g} : {costs.fn:g}",
             *compared(population, costs, population.table, draws)]
            for name, population in of_files(folder) for costs in (Costs(1, 20), Costs(5, 1))
        ))  # fmt: skip


if __name__ == "__main__":
    main()
