"""Clicks by simulation: six categorical columns, few positives, and a base model that knows no interactions.

The log-odds of a click are a sum of effects of each column and of some pairs of columns. A logistic regression on the
columns one by one was trained on other rows, of which half of those without a click were left out, as it is done to
save time: it says too much everywhere, and is wrong where two columns meet.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from pairs import CAL, TEST
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from calcli.numeric.links import sigmoid
from calcli.numeric.seeded import stream

COLUMNS = {"hour": 8, "device": 3, "position": 6, "site": 20, "advertiser": 15, "region": 10}
"""How many values each has; the first ones are the most frequent."""

RATES = (0.02, 0.035, 0.05)
TRAINED, CALIBRATED, JUDGED = 60_000, 20_000, 40_000
MEET = (("device", "position"), ("site", "advertiser"), ("hour", "device"))
ALONE, TOGETHER = 0.4, 0.8
"""The standard deviation of the effects of a column, and of a pair that meets."""


def shifted(effects: np.ndarray, rate: float) -> np.ndarray:
    """Log-odds with this mean probability, by bisection."""
    lo, hi = -20.0, 20.0
    for _ in range(60):
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if sigmoid(effects + middle).mean() < rate else (lo, middle)
    return effects + lo


def pair_of(rate: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows to fit on and those to judge on."""
    rng = stream(0, "clicks", str(rate))
    rows = TRAINED + CALIBRATED + JUDGED
    codes = {}
    for name, size in COLUMNS.items():
        frequency = 1.0 / (3 + np.arange(size))
        codes[name] = rng.choice(size, rows, p=frequency / frequency.sum())
    effects = sum(rng.normal(0, ALONE, size)[codes[name]] for name, size in COLUMNS.items())
    for one, other in MEET:
        effects = effects + rng.normal(0, TOGETHER, (COLUMNS[one], COLUMNS[other]))[codes[one], codes[other]]
    label = (rng.random(rows) < sigmoid(shifted(effects, rate))).astype(np.int64)
    table = np.column_stack(list(codes.values()))
    points = OneHotEncoder().fit_transform(table)
    seen = np.flatnonzero((np.arange(rows) < TRAINED) & ((label == 1) | (rng.random(rows) < 0.5)))
    model = LogisticRegression(max_iter=300).fit(points[seen], label[seen])
    texts = {name: [f"{name}_{code}" for code in own] for name, own in codes.items()}
    frame = pl.DataFrame({**texts, "label": label, "logit": model.decision_function(points)})
    return frame[TRAINED : TRAINED + CALIBRATED], frame[TRAINED + CALIBRATED :]


def make(out: Path, *, quick: bool = False) -> None:
    """A pair of files for each rate; for a quick look the first."""
    out.mkdir(parents=True, exist_ok=True)
    for rate in RATES[: 1 if quick else None]:
        paths = [out / f"clicks_{1000 * rate:.0f}.logistic-0{end}" for end in (CAL, TEST)]
        if not all(path.exists() for path in paths):
            for frame, path in zip(pair_of(rate), paths, strict=True):
                frame.write_parquet(path)
