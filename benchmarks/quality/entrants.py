"""What stands on the leaderboard, and how one of them is judged on one pair of files."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import peers

from calcli.batch import Batch
from calcli.engines.listener import SILENT
from calcli.fitting.model_selection import choose, criterion, cross_validate
from calcli.fitting.splits import Holdout, split_rows
from calcli.methods import catalog
from calcli.methods.catalog import candidates_for
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.metrics.paired import Z975, paired_difference
from calcli.metrics.proper import nll_rows
from calcli.numeric.links import probabilities

METRICS = ("nll", "brier", "auc", "ece", "mvce")
SEED = 0
PATIENT = 100_000.0
"""More seconds by the clock than a contest takes: the caller bounds what it may use."""


@dataclass(frozen=True)
class Entrant:
    """A method of a package.

    Attributes
    ----------
    name
        As it stands in tables; unique.
    looks_at
        ``score`` or ``features``.
    """

    name: str
    package: str
    looks_at: str
    fit: peers.Fit


@cache
def entrants() -> Mapping[str, Entrant]:
    """Every method and preset of calcli, then those of other packages that are installed."""
    found = []
    for row in catalog.specs():
        looks_at = "features" if row.needs_features else "score"
        for preset in (None, *row.presets):
            name = row.name if preset is None else f"{row.name} --preset {preset}"
            found.append(Entrant(name, "calcli", looks_at, peers.ours(row.name, preset)))
    for package, fits in peers.score_only().items():
        found += [Entrant(f"{name}, {package}", package, "score", fit) for name, fit in fits.items()]
    if peers.installed("scikit-learn"):
        name = "sigmoid of probabilities, scikit-learn"
        found.append(Entrant(name, "scikit-learn", "score", peers.sigmoid_of_probabilities))
    if "probcal" in peers.choices():
        found.append(Entrant("selector, probcal", "probcal", "score", peers.choices()["probcal"]))
    names = {"MCGrad": "MCGrad", "LightGBM": "LightGBM with offset"}
    found += [Entrant(names[package], package, "features", fit) for package, fit in peers.feature_aware().items()]
    return {entrant.name: entrant for entrant in found}


def judged(name: str, train: Batch, test: Batch) -> dict[str, float | None]:
    """Fitted on some rows, measured on others.

    ``gap`` is by how much its log-loss is above that of the raw score, ``error`` the standard error of that over the
    test rows; ``fit`` and ``apply`` are seconds of processor time, ``clock`` both by the clock.
    """
    warnings.simplefilter("ignore")
    fit = entrants()[name].fit
    clock, started = time.perf_counter(), time.process_time()
    predict = fit(train)
    fitted = time.process_time()
    prob = np.asarray(predict(test), dtype=np.float64)
    times = {"fit": fitted - started, "apply": time.process_time() - fitted, "clock": time.perf_counter() - clock}
    lost = int((~np.isfinite(prob.reshape(len(test), -1)).all(axis=1)).sum())
    if lost:
        raise ValueError(f"no finite probability for {lost:,} of {len(test):,} rows")
    scored = Scored(test.labels, np.clip(prob, 0.0, 1.0))
    found = metrics.measure([metrics.find(metric) for metric in METRICS], scored, Options())
    gap, error = gap_and_error(nll_rows(scored), nll_rows(Scored(test.labels, probabilities(test.score))))
    values = {metric: found[metric].value for metric in METRICS}
    return {**values, "floor": found["mvce"].floor, "gap": gap, "error": error, **times}


def contest(train: Batch) -> dict[str, Any]:
    """What ``auto`` finds on these rows: which method it chooses, and how each did where it was held out.

    ``held_out`` has, the simplest method first, by how much its log-loss is above the least, and the standard error of
    that: enough to apply other rules of choice without fitting anything again.
    """
    warnings.simplefilter("ignore")
    started = time.process_time()
    splits = split_rows(len(train), Holdout("cv", folds=5), SEED)
    rows = {row: row.resolve() for row in candidates_for(train.classes) if not row.lacks_columns(train)}
    outcomes = cross_validate(rows, train, splits, budget=PATIENT, seed=SEED, listener=SILENT)
    chosen = choose(outcomes, train, splits, criterion("nll")).name
    label = train.labels[splits.predicted]
    loss = {
        outcome.spec.name: nll_rows(Scored(label, outcome.predicted.prob))
        for outcome in outcomes
        if outcome.predicted is not None
    }
    best = min(loss.values(), key=np.mean)
    held_out = {name: gap_and_error(own, best) for name, own in loss.items()}
    return {"chosen": chosen, "held_out": held_out, "fit": time.process_time() - started}


def gap_and_error(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """How much higher the first loss is in the mean over rows, and the standard error of that."""
    value, lo, _, _ = paired_difference(one, other, None)
    if value is None:
        raise ValueError("there are no rows")
    return value, 0.0 if lo is None else (value - lo) / Z975
