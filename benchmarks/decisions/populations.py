"""Populations whose rates are known, from which tables are drawn: simulated ones, and files of real predictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from calcli.numeric.links import sigmoid, softmax

TABLES, DRAWS = 500, 100
"""So many tables are drawn from a simulated population, and from a file."""

ROWS = (200, 1_000, 10_000)
FROM_FILES, SHARE = 1_000, 4
"""So many rows are drawn from a file, and at most one of so many, lest the table is the population."""


def from_file(rows: Sized) -> int:
    """How many of a file's rows a table has."""
    return min(FROM_FILES, len(rows) // SHARE)


@dataclass(frozen=True)
class Population:
    """All rows there are, by probability, with the chance that each is positive."""

    prob: np.ndarray
    positive: np.ndarray

    def __post_init__(self) -> None:
        order = np.argsort(self.prob, kind="stable")
        object.__setattr__(self, "prob", self.prob[order])
        object.__setattr__(self, "positive", self.positive[order])

    def __len__(self) -> int:
        return len(self.prob)

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        at = rng.integers(0, len(self.prob), rows)
        return self.prob[at], (rng.random(rows) < self.positive[at]).astype(np.int64)

    def rate(self, name: str, threshold: float) -> float:
        """NaN where it is the rate of no rows."""
        place = int(np.searchsorted(self.prob, threshold))
        yes, total = self.positive[place:], float(self.positive.sum())
        hits = float(yes.sum())
        false, negatives = len(yes) - hits, len(self.prob) - total
        if name == "precision":
            return hits / len(yes) if len(yes) else float("nan")
        return hits / total if name == "recall" else false / negatives

    def error(self, low: float, high: float) -> tuple[float, float]:
        """The share of errors among rows that are decided, no below `low` and yes from `high` on, and their share."""
        first, last = np.searchsorted(self.prob, (low, high))
        decided = len(self.prob) - (last - first)
        wrong = self.positive[:first].sum() + (1.0 - self.positive[last:]).sum()
        return float(wrong / decided) if decided else 0.0, float(decided / len(self.prob))


def two_classes(size: int = 1_000_000) -> Iterator[tuple[str, Population]]:
    z = np.random.default_rng(7).normal(-1.0, 1.7, size)
    yield "calibrated", Population(sigmoid(z), sigmoid(z))
    yield "over-confident", Population(sigmoid(1.8 * z + 0.5), sigmoid(z))


class Classes:
    """All rows there are, with the probabilities of the classes and the one that came true."""

    def __init__(self, prob: np.ndarray, label: np.ndarray) -> None:
        self.prob, self.label = prob, label
        self.true = np.eye(prob.shape[1], dtype=bool)[label]
        self.likeliest = np.eye(prob.shape[1], dtype=bool)[prob.argmax(axis=1)]

    def __len__(self) -> int:
        return len(self.label)

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        at = rng.integers(0, len(self.label), rows)
        return self.prob[at], self.label[at]


def four_classes(size: int = 20_000) -> Iterator[tuple[str, Classes]]:
    rng = np.random.default_rng(3)
    logit = rng.normal(0.0, 1.3, (size, 4))
    label = (logit + rng.gumbel(size=logit.shape)).argmax(axis=1)
    yield "over-confident", Classes(softmax(1.5 * logit), label)


def files_of_classes(folder: Path) -> Iterator[tuple[str, Classes]]:
    """Files of predictions, both of their parts together."""
    for path in sorted(folder.glob("*.cal.parquet")):
        both = (path, path.with_name(path.name.replace(".cal.", ".test.")))
        frame = pl.concat(map(pl.read_parquet, both))
        label = frame["label"].to_numpy().astype(np.int64)
        yield path.name.removesuffix(".cal.parquet"), Classes(_probabilities(frame), label)


def _probabilities(frame: pl.DataFrame) -> np.ndarray:
    if "logit" in frame.columns:
        prob = sigmoid(frame["logit"].to_numpy())
        return np.column_stack([1.0 - prob, prob])
    names = sorted((name for name in frame.columns if name.startswith("logit_")), key=lambda one: int(one[6:]))
    return softmax(frame.select(names).to_numpy().astype(np.float64))


def files_of_more_classes(folder: Path) -> Iterator[tuple[str, Classes]]:
    return ((name, each) for name, each in files_of_classes(folder) if each.prob.shape[1] > 2)


def files_of_two(folder: Path) -> Iterator[tuple[str, Population]]:
    """Files of two classes, and one class of the files of six."""
    for name, each in files_of_classes(folder):
        if each.prob.shape[1] == 2:
            yield name, Population(each.prob[:, 1], each.true[:, 1].astype(float))
        elif name.startswith("satimage"):
            yield f"{name}, class 0", Population(each.prob[:, 0], each.true[:, 0].astype(float))


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts that came true, and what was predicted: a mean, a standard deviation, two quantiles."""

    truth: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def __len__(self) -> int:
        return len(self.truth)

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[Amounts]:
        at = rng.integers(0, len(self.truth), rows)
        return (Amounts(*(getattr(self, name)[at] for name in self.__slots__)),)


def simulated_amounts(size: int = 200_000) -> Iterator[tuple[str, Amounts]]:
    """Noise with heavy tails that grows; the predicted spread follows it half, and the quantiles are too narrow."""
    rng = np.random.default_rng(5)
    mean, spread = rng.normal(0.0, 3.0, size), np.exp(rng.normal(0.0, 0.7, size))
    truth = mean + spread * rng.standard_t(5, size)
    yield "heavy tails", Amounts(truth, mean, np.sqrt(spread), mean - spread, mean + spread)


def files_of_amounts(folder: Path) -> Iterator[tuple[str, Amounts]]:
    """Files of amounts, predicted by models that were trained on three rows of five, which are left out."""
    from catboost import CatBoostRegressor

    for path in sorted(folder.glob("reg_*.parquet")):
        frame = pl.read_parquet(path)
        truth, features = frame["label"].to_numpy(), frame.drop("label").to_numpy()
        train = np.arange(len(truth)) % 5 < 3
        found = []
        for loss in ("RMSEWithUncertainty", "MultiQuantile:alpha=0.05,0.95"):
            model = CatBoostRegressor(
                300, loss_function=loss, random_seed=0, thread_count=1, allow_writing_files=False, verbose=False
            )
            found.append(model.fit(features[train], truth[train]).predict(features[~train]))
        (mean, variance), quantiles = found[0].T, np.sort(found[1], axis=1)
        yield path.stem, Amounts(truth[~train], mean, np.sqrt(variance), *quantiles.T)


def print_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    head = list(head)
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()
