"""Tables of features for every task, and ensembles of a few trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from calcli.verbs.uncertainty import EnsembleRequest, EnsembleResult, fit

FEW: dict[str, Any] = {"members": 3, "trees": 12, "depth": 3, "learning_rate": 0.1}


def features(rows: int, seed: int = 0) -> pl.DataFrame:
    """Numbers, categories and booleans with holes, an id."""
    rng = np.random.default_rng(seed)
    whole = pl.DataFrame(
        {
            "row_id": np.arange(rows),
            "size": rng.normal(5, 2, rows),
            "count": rng.poisson(3, rows),
            "color": rng.choice(["r", "g", "b"], rows),
            "flag": rng.random(rows) < 0.5,
        }
    )
    holed = [pl.when(pl.Series(rng.random(rows) > 0.1)).then(pl.col(name)) for name in ("count", "color", "flag")]
    return whole.with_columns(holed)


def table(task: str, rows: int = 300, seed: int = 0) -> pl.DataFrame:
    """Features with a label that depends on them."""
    frame = features(rows, seed)
    rng = np.random.default_rng([seed, 1])
    signal = frame["size"].to_numpy() - 5 + 2.0 * (frame["color"] == "r").fill_null(value=False).to_numpy()
    if task == "binary":
        label: Any = (rng.random(rows) < 1 / (1 + np.exp(-signal))).astype(int)
    elif task == "multiclass":
        scores = np.column_stack([signal, -signal, np.zeros(rows)]) + rng.gumbel(size=(rows, 3))
        label = np.array(["cat", "dog", "elk"])[scores.argmax(axis=1)]
    else:
        label = 10 * signal + rng.normal(size=rows) * np.exp(frame["size"].to_numpy() / 5)
    return frame.with_columns(label=pl.Series(label))


def ensemble(task: str, output: Path | None = None, **more: Any) -> EnsembleResult:
    """Three members of a dozen trees."""
    return fit(EnsembleRequest(table(task), output, **{**FEW, **more}))
