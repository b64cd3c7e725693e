"""Tables with edges between their rows, and reference implementations of graph operations."""

from __future__ import annotations

import numpy as np
import polars as pl

import calcli
from calcli.methods.graphs.mixing import GCN, Scheme

HOUSE = calcli.Flags(node_id="house")


def villages(rows: int, seed: int, first: int = 0) -> pl.DataFrame:
    """Rows whose scores shout in the villages of odd number, with an id, a village and a place."""
    rng = np.random.default_rng(seed)
    village = rng.integers(0, 8, rows)
    truth = np.abs(rng.normal(1, 0.7, rows)) * np.where(village % 2, 1, -1)
    return pl.DataFrame(
        {
            "house": first + np.arange(rows),
            "village": pl.Series(village).cast(pl.String) + "th",
            "east": village + rng.normal(0, 0.1, rows),
            "north": rng.normal(size=rows),
            "label": (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(int),
            "logit": np.where(village % 2, 6, 1) * truth,
        }
    )


def streets(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Edges among houses of one village, and some to houses that nobody knows."""
    rng = np.random.default_rng(seed)
    pairs = frame.select("house", "village").join(frame.select(dst="house", village="village"), on="village")
    pairs = pairs.filter(pl.col("house") < pl.col("dst")).sample(fraction=0.02, seed=seed)
    unknown = pl.DataFrame({"src": rng.choice(frame["house"].to_numpy(), 50), "dst": 10_000_000 + np.arange(50)})
    return pl.concat([pairs.select(src="house", dst="dst"), unknown])


def mixing(adjacency: np.ndarray, scheme: Scheme) -> np.ndarray:
    """The matrix of one layer: D^-1/2 (A + I) D^-1/2, or I - D^-1/2 A D^-1/2."""
    loops = adjacency + np.eye(len(adjacency)) if scheme is GCN else adjacency
    degree = loops.sum(axis=1)
    root = np.diag([1 / np.sqrt(d) if d else 0.0 for d in degree])
    normalised = root @ loops @ root
    return normalised if scheme is GCN else np.eye(len(adjacency)) - normalised


def nearest(there: np.ndarray, point: np.ndarray, count: int, radius: float | None, itself: int | None) -> list[int]:
    """The rows in order of distance, then of number, cut off."""
    if not np.isfinite(point).all():
        return []
    far = [(sum((a - b) ** 2 for a, b in zip(point, other, strict=True)), row) for row, other in enumerate(there)]
    near = sorted((d, row) for d, row in far if np.isfinite(d) and row != itself)[:count]
    return [row for d, row in near if radius is None or d <= radius**2]
