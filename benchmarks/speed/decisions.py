"""The processor time of decisions on many rows, in memory: choosing a policy, and applying it.

python benchmarks/speed/decisions.py [--quick]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from calcli.decisions.choice import choose
from calcli.decisions.conformal import PredictionIntervals, PredictionSets
from calcli.decisions.costs import Costs
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.measure import Rows
from calcli.numeric.links import sigmoid, softmax

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.estimators import GivenProbabilities


def seconds(run: Callable[[], object]) -> str:
    begin = time.process_time()
    run()
    return f"{time.process_time() - begin:.2f} s"


def main() -> None:
    count = 20_000 if "--quick" in sys.argv else 1_000_000
    rng = np.random.default_rng(0)
    z = rng.normal(-1.0, 1.7, count)
    rows = Rows(sigmoid(z), (rng.random(count) < sigmoid(z)).astype(np.int64))
    of_each = replace(rows, costs=Costs(5.0, rng.exponential(10.0, count)))
    logit = rng.normal(0.0, 1.3, (count, 4))
    prob, label = softmax(logit), (logit + rng.gumbel(size=logit.shape)).argmax(axis=1)
    truth = z + rng.normal(size=count)
    group = rng.integers(0, 20, count)
    runs: dict[str, Callable[[], object]] = {
        "costs, 1,000 replicates": lambda: choose(DecisionGoal(cost_fp=1, cost_fn=20), rows, 0),
        "costs, no replicates": lambda: choose(DecisionGoal(cost_fp=1, cost_fn=20, bootstrap=0), rows, 0),
        "costs of each row, 1,000 replicates": lambda: choose(DecisionGoal(cost_fp=5, cost="amount"), of_each, 0),
        "precision >= 0.8": lambda: choose(DecisionGoal(target="precision >= 0.8"), rows, 0),
        "budget": lambda: choose(DecisionGoal(budget=count // 100), rows, 0),
        "sets, LAC": lambda: PredictionSets.fit(prob, label, 0.9).predict(prob),
        "sets, LAC, by class and group": lambda: PredictionSets.fit(
            prob, label, 0.9, by_class=True, group=group
        ).predict(prob, group),
        "sets, APS": lambda: PredictionSets.fit(prob, label, 0.9, score="aps").predict(prob),
        "intervals": lambda: PredictionIntervals.fit(truth, z, z, 0.9).predict(z, z),
        "sets by MAPIE, LAC": lambda: by_mapie(prob, label),
    }
    print(f"| {count:,} rows, fitted and applied | processor time |\n| --- | --- |")
    for name, run in runs.items():
        print(f"| {name} | {seconds(run)} |", flush=True)


def by_mapie(prob: np.ndarray, label: np.ndarray) -> None:
    from mapie.classification import SplitConformalClassifier

    model = GivenProbabilities().fit(prob, label)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sets = SplitConformalClassifier(model, 0.9, conformity_score="lac", prefit=True)
        sets.conformalize(prob, label).predict_set(prob)


if __name__ == "__main__":
    main()
