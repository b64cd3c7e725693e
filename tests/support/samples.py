"""Small tables of miscalibrated scores."""

from __future__ import annotations

import io
from functools import cache

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


@cache
def parquet_of_clicks(seed: int) -> bytes:
    """A file of them, written once: many tests start from it."""
    written = io.BytesIO()
    clicks(seed=seed).write_parquet(written)
    return written.getvalue()


def tablets(rows: int = 12_000, seed: int = 0) -> pl.DataFrame:
    """A score that is 0.2 too low on tablets of people above 60, and a column in which it is mended."""
    rng = np.random.default_rng(seed)
    device, age = rng.choice(["phone", "tablet", "tv"], rows), rng.integers(18, 80, rows)
    prob = 1 / (1 + np.exp(-rng.normal(-1.0, 0.7, rows)))
    rate = np.where((device == "tablet") & (age > 60), np.minimum(prob + 0.2, 1.0), prob)
    columns = {
        "label": (rng.random(rows) < rate).astype(int),
        "prob": prob,
        "mended": rate,
        "device": device,
        "age": age,
    }
    return pl.DataFrame({**columns, "noise": rng.normal(size=rows), "user_id": np.arange(rows) // 2})


def breeds(rows: int = 1500, seed: int = 0) -> pl.DataFrame:
    """Four string classes, with columns that are not in the order of the classes."""
    rng = np.random.default_rng(seed)
    names = np.array(["c", "a", "d", "b"])
    truth = rng.normal(0, 1.2, (rows, 4))
    chosen = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return pl.DataFrame(
        {"label": names[chosen]} | {f"logit_{name}": 2.5 * truth[:, place] for place, name in enumerate(names)}
    )


def unseen(names: list[str], rows: int = 400, seed: int = 7) -> pl.DataFrame:
    """Scores wider than those of the fit, and rows that cannot be calibrated."""
    rng = np.random.default_rng(seed)
    hard = np.array([np.nan, np.inf, -np.inf, 0.0, 600.0, -600.0])
    values = {name: np.concatenate([rng.normal(0, 5, rows), hard]) for name in names}
    frame = pl.DataFrame(values).with_columns(pl.when(pl.int_range(pl.len()) % 50 > 0).then(pl.all()))
    return frame.with_columns(place=pl.int_range(pl.len()))


def odd_visits(rows: int, classes: int = 2) -> pl.DataFrame:
    """Unlabelled visits with cities that were never seen, and hours that are no numbers or beyond all others."""
    place = pl.int_range(pl.len())
    hours = pl.col("hours")
    for index, value in enumerate((float("nan"), float("inf"), float("-inf")), start=1):
        hours = pl.when(place % 11 == index).then(value).otherwise(hours)
    city = pl.when(place % 11 == 0).then(pl.lit("Nowhere")).otherwise("city")
    return visits(rows, classes, seed=1).drop("label").with_columns(place=place, city=city, hours=hours)


def visits(rows: int, classes: int = 2, seed: int = 0) -> pl.DataFrame:
    """Scores that are wrong by features of every kind, with missing values."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Oslo", "Riga", "Bern", "O'Hare"], rows, p=[0.3, 0.3, 0.3, 0.1])
    hours, age, member = rng.exponential(5, rows), rng.integers(18, 80, rows), rng.random(rows) < 0.5
    wrong = 1.5 * (city == "Riga") - 1.0 * (hours > 4) + 0.03 * age * member
    z = rng.normal(-0.5, 1.5, (rows, classes if classes > 2 else 1))
    if classes == 2:
        scores = {"label": (rng.random(rows) < 1 / (1 + np.exp(-z[:, 0] - wrong))).astype(int), "logit": 2 * z[:, 0]}
    else:
        label = (z + np.outer(wrong, np.arange(classes)) / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
        scores = {"label": label, **{f"logit_{index}": 2 * z[:, index] for index in range(classes)}}
    frame = pl.DataFrame({**scores, "city": city, "hours": hours, "age": age, "member": member})
    some = pl.int_range(pl.len()) % 9
    return frame.with_columns(
        pl.when(some != 1).then("city"), pl.when(some != 2).then("hours"), pl.when(some != 3).then("member")
    )
