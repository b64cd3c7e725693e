"""What stands in the arena, and how one of them is judged on one pair of files."""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import peers
import polars as pl
from pairs import Pair
from segments import Segments

import calcli
from calcli.batch import Batch, FloatArray
from calcli.methods import catalog, pool
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.metrics.paired import Z975, paired_difference
from calcli.metrics.proper import nll
from calcli.numeric.links import probabilities

METRICS = ("nll", "brier", "auc", "ece", "mvce")
SEED = 0


@dataclass(frozen=True)
class Entrant:
    """A method of a package.

    Attributes
    ----------
    name
        As it stands in tables; unique.
    looks_at
        ``score`` or ``features``.
    fit
        From rows to what predicts others.
    on_frames
        Whether it takes rows as a data frame; else as a `Batch`.
    added
        Whether it comes from a file of the user.
    """

    name: str
    package: str
    looks_at: str
    fit: Callable[[Any], Callable[[Any], FloatArray]]
    on_frames: bool = False
    added: bool = False


class Auto:
    """``calcli.fit`` as anybody calls it; `chosen` is what it came to."""

    def __init__(self, train: pl.DataFrame) -> None:
        self._model = calcli.fit(train, method="auto", seed=SEED).model
        params = self._model.fitted["params"]
        self.chosen = self._model.method
        if self.chosen == pool.POOL:
            weights = [f"{float(weight):.2f}" for weight in params["weights"].split(",")]
            self.chosen = " + ".join(map(" ".join, zip(weights, params["members"].split(","), strict=True)))

    def __call__(self, rows: pl.DataFrame) -> FloatArray:
        return self._model.predict(rows)


def entrants(added: Sequence[Path] = ()) -> Mapping[str, Entrant]:
    """Those of the files that are given, every method and preset of calcli, then the packages that are installed."""
    found = [of_file(path) for path in added]
    for row in catalog.specs():
        looks_at = "features" if row.needs_features else "score"
        for preset in (None, *row.presets):
            name = row.name if preset is None else f"{row.name} --preset {preset}"
            found.append(Entrant(name, "calcli", looks_at, peers.ours(row.name, preset)))
    found.append(Entrant("auto", "calcli", "features", Auto, on_frames=True))
    for package, fits in peers.score_only().items():
        found += [Entrant(f"{name}, {package}", package, "score", fit) for name, fit in fits.items()]
    if peers.installed("scikit-learn"):
        name = "sigmoid of probabilities, scikit-learn"
        found.append(Entrant(name, "scikit-learn", "score", peers.sigmoid_of_probabilities))
    if peers.installed("probcal"):
        found.append(Entrant("selector, probcal", "probcal", "score", peers.probcal_choice))
    names = {"MCGrad": "MCGrad", "LightGBM": "LightGBM with offset"}
    found += [Entrant(names[package], package, "features", fit) for package, fit in peers.feature_aware().items()]
    return {entrant.name: entrant for entrant in found}


def of_file(path: Path) -> Entrant:
    """A method of somebody's own: see README.md."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def fit(train: pl.DataFrame) -> Callable[[pl.DataFrame], FloatArray]:
        model = module.fit(train)
        return lambda rows: module.predict(model, rows)

    looks_at = getattr(module, "LOOKS_AT", "features")
    return Entrant(getattr(module, "NAME", path.stem), path.name, looks_at, fit, on_frames=True, added=True)


def judged(names: Sequence[str], pair: Pair, added: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Each fitted on some rows and measured on others: values, or a reason why there are none."""
    warnings.simplefilter("ignore")
    known = entrants(added)
    train, test = pair.read()
    frames = pair.frames() if any(known[name].on_frames for name in names) else (None, None)
    segments = Segments(train, test)
    found = {}
    for name in names:
        rows = frames if known[name].on_frames else (train, test)
        try:
            prob, told = probabilities_of(known[name], *rows)
            found[name] = {"values": measured(prob, test, segments) | told}
        except Exception as raised:
            said = str(raised).strip() or "no reason given"
            found[name] = {"reason": f"{type(raised).__name__}: {said}".splitlines()[0]}
    return found


def probabilities_of(entrant: Entrant, known: Any, asked: Any) -> tuple[FloatArray, dict[str, Any]]:
    """Of the rows that are asked for, and what it took: seconds of processor time."""
    started = time.process_time()
    predict = entrant.fit(known)
    fitted = time.process_time()
    prob = np.asarray(predict(asked), dtype=np.float64)
    told = {"fit": fitted - started, "apply": time.process_time() - fitted}
    return prob, {**told, "chosen": getattr(predict, "chosen", None)}


def measured(prob: FloatArray, test: Batch, segments: Segments) -> dict[str, Any]:
    """What is made of the probabilities of the rows to judge on.

    ``gap`` is by how much their log-loss is above that of the raw score, ``error`` the standard error of that.
    """
    if prob.shape != test.score.shape:
        raise ValueError(f"probabilities of shape {prob.shape}, not {test.score.shape}")
    lost = int((~np.isfinite(prob.reshape(len(test), -1)).all(axis=1)).sum())
    if lost:
        raise ValueError(f"no finite probability for {lost:,} of {len(test):,} rows")
    scored = Scored(test.labels, np.clip(prob, 0.0, 1.0))
    found = metrics.measure([metrics.find(metric) for metric in METRICS], scored, Options())
    gap, error = gap_and_error(nll.rows(scored), nll.rows(Scored(test.labels, probabilities(test.score))))
    segment, where = segments.worst(scored.prob)
    values = {metric: found[metric].value for metric in METRICS}
    return {**values, "floor": found["mvce"].floor, "gap": gap, "error": error, "segment": segment, "segment_is": where}


def gap_and_error(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """How much higher the first loss is in the mean over rows, and the standard error of that."""
    value, lo, _, _ = paired_difference(one, other, None)
    if value is None:
        raise ValueError("there are no rows")
    return value, 0.0 if lo is None else (value - lo) / Z975
