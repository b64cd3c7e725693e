"""Small tables of scores whose errors are known."""

from __future__ import annotations

import numpy as np
import polars as pl


def clicks(rows: int = 2000, seed: int = 0) -> pl.DataFrame:
    """Over-confident scores of informative labels, with a weight, a feature and an id."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(-1, 1.2, rows)
    return pl.DataFrame(
        {
            "row_id": np.arange(rows),
            "label": (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.int8),
            "logit": 2 * truth + 0.5,
            "age": rng.integers(18, 80, rows),
            "w": rng.uniform(0.5, 2, rows),
        }
    )


def breeds(rows: int = 1500, seed: int = 0) -> pl.DataFrame:
    """Four string classes, with columns that are not in the order of the classes."""
    rng = np.random.default_rng(seed)
    names = np.array(["c", "a", "d", "b"])
    truth = rng.normal(0, 1.2, (rows, 4))
    chosen = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return pl.DataFrame(
        {"label": names[chosen]} | {f"logit_{name}": 2.5 * truth[:, place] for place, name in enumerate(names)}
    )
