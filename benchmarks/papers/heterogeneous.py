"""Tables 1 and 2 of heterogeneous calibration (Durfee et al. 2022), in their form, on other tables and networks.

``python benchmarks/papers/heterogeneous.py FOLDER [--quick]`` writes Markdown. FOLDER holds prediction files, of which
the features and the label count: adult (the paper's census data) and diabetes130, as ``NAME.MODEL.cal.parquet`` and
``NAME.MODEL.test.parquet`` of whatever model. All rows are split in four: training, validation, calibration, test.
Networks of three layers and of three sizes are trained with Adam at several rates, with
batch normalisation and dropout and without. Those best on validation rows, before any calibration, are shown: ``DNN``
their AUC on test rows, ``HC`` that after ``heterogeneous --preset paper``, whose tree is grown on the training rows and
calibrated on the calibration rows; ``forest`` is calcli's default, of which the paper knows nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
from claims import claim
from sklearn.metrics import roc_auc_score
from torch import nn

from calcli.batch import Batch, Column, SideInputs
from calcli.learners.encoding import Encoding
from calcli.methods import calibrator, catalog

TABLES = ("adult", "diabetes130")
SIZES = {"S": (32, 16, 8), "M": (128, 64, 32), "L": (512, 256, 128)}
RATES = (3e-4, 1e-3, 3e-3)
RUNS = 3
EPOCHS = 20
SHARES = (0.5, 0.1, 0.2, 0.2)


@dataclass(frozen=True)
class Variant:
    """A network that was tuned: the means of its runs."""

    size: str
    regularised: bool
    validation: float
    dnn: float
    hc: float
    forest: float


def rows_of(folder: Path, table: str) -> Batch:
    """All rows that there are, without the scores."""
    paths = sorted(folder.glob(f"{table}.*.cal.parquet"))[0], sorted(folder.glob(f"{table}.*.test.parquet"))[0]
    frame = pl.concat([pl.read_parquet(path) for path in paths]).drop("logit", "prob")
    columns = {}
    for name in frame.columns:
        if name != "label" and frame[name].dtype == pl.String:
            levels = tuple(frame[name].drop_nulls().unique().sort())
            place = {level: code for code, level in enumerate(levels)}
            codes = np.array([-1 if value is None else place[value] for value in frame[name]], dtype=np.int32)
            columns[name] = Column("category", codes, levels)
        elif name != "label":
            columns[name] = Column("number", frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy())
    return Batch(np.zeros(len(frame)), frame["label"].cast(pl.Int64).to_numpy(), None, columns)


def split(rows: Batch, seed: int) -> list[Batch]:
    order = np.random.default_rng(seed).permutation(len(rows))
    ends = (np.cumsum(SHARES[:-1]) * len(rows)).astype(int)
    return [rows.take(part) for part in np.split(order, ends)]


def network(inputs: int, widths: Sequence[int], *, regularised: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in widths:
        layers.append(nn.Linear(inputs, width))
        layers += [nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2)] if regularised else [nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


def trained(
    points: Sequence[np.ndarray], label: np.ndarray, widths: Sequence[int], *, rate: float, regularised: bool, seed: int
) -> list[np.ndarray]:
    """The scores of all four parts, by a network trained on the first."""
    torch.manual_seed(seed)
    model = network(points[0].shape[1], widths, regularised=regularised)
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    x, y = torch.tensor(points[0], dtype=torch.float32), torch.tensor(label, dtype=torch.float32)
    for _ in range(EPOCHS):
        for part in torch.randperm(len(x)).split(256):
            if len(part) > 1:
                adam.zero_grad()
                nn.functional.binary_cross_entropy_with_logits(model(x[part])[:, 0], y[part]).backward()
                adam.step()
    model.eval()
    with torch.no_grad():
        return [model(torch.tensor(one, dtype=torch.float32))[:, 0].double().numpy() for one in points]


def variants(rows: Batch, sizes: Iterable[str], rates: Sequence[float], runs: int) -> Iterator[Variant]:
    row = catalog.find("heterogeneous")
    for size in sizes:
        for regularised in (True, False):
            for rate in rates:
                found = []
                for run in range(runs):
                    parts = split(rows, run)
                    encoding = Encoding.of(parts[0].features, parts[0].weights)
                    points = [encoding.coordinates(part.features) for part in parts]
                    scores = trained(points, parts[0].labels, SIZES[size], rate=rate, regularised=regularised, seed=run)
                    cal, test = (
                        Batch(np.clip(score, -500, 500), part.label, None, part.features)
                        for score, part in zip(scores[2:], parts[2:], strict=True)
                    )
                    paper = calibrator.fit(
                        row, cal, row.resolve(preset="paper"), sides=SideInputs({"partition-data": parts[0]})
                    )
                    forest = calibrator.fit(row, cal, row.resolve())
                    shown = (test.score, paper.predict(test), forest.predict(test))
                    validation = roc_auc_score(parts[1].labels, scores[1])
                    found.append((validation, *(roc_auc_score(test.labels, one) for one in shown)))
                yield Variant(size, regularised, *np.mean(found, axis=0))


def lift(found: Sequence[Variant]) -> float:
    """By how much the AUC rises, relative to that of the network."""
    return float(np.mean([each.hc for each in found]) / np.mean([each.dnn for each in found]) - 1)


def line(name: str, found: Sequence[Sequence[Variant]]) -> str:
    """The mean over variants, for each table."""
    cells = []
    for own in found:
        dnn, hc, forest = (np.mean([getattr(each, what) for each in own]) for what in ("dnn", "hc", "forest"))
        cells.append(f"{dnn:.4f} | {hc:.4f} ({hc / dnn - 1:+.2%}) | {forest:.4f} ({forest / dnn - 1:+.2%})")
    return f"| {name} | " + " | ".join(cells) + " |"


def head(tables: Sequence[str]) -> str:
    columns = " | ".join(f"{table} DNN | HC | forest" for table in tables)
    return f"| | {columns} |\n|{' --- |' * (1 + 3 * len(tables))}"


def best(found: Iterable[Variant]) -> list[Variant]:
    return sorted(found, key=lambda each: -each.validation)[:3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="one table, one size, one run")
    given = parser.parse_args()
    torch.set_num_threads(1)
    tables = [name for name in TABLES if any(given.folder.glob(f"{name}.*.cal.parquet"))]
    sizes, rates, runs = list(SIZES), RATES, RUNS
    if given.quick:
        tables, sizes, rates, runs = tables[:1], ["S"], RATES[1:2], 1
    made = {name: list(variants(rows_of(given.folder, name), sizes, rates, runs)) for name in tables}
    print(f"Test AUC, mean of {runs} runs.\n\n## Table 1: size\n\n{head(tables)}")
    lifts: dict[str, dict[str, float]] = {table: {} for table in tables}
    for size in sizes:  # of six that are tuned the best three are the better half too
        own = [best(each for each in made[table] if each.size == size) for table in tables]
        print(line(f"{size}, top 3 and top 50 %", own))
        for table, variants_of in zip(tables, own, strict=True):
            lifts[table][size] = lift(variants_of)
    print(f"\n## Table 2: regularisation, {sizes[0]}\n\n{head(tables)}")
    for name, regularised in (("top 3 regularised", True), ("top 3 unregularised", False)):
        own = [
            best(each for each in made[table] if each.size == sizes[0] and each.regularised == regularised)
            for table in tables
        ]
        print(line(name, own))
        for table, variants_of in zip(tables, own, strict=True):
            lifts[table][name] = lift(variants_of)
    print()
    rises = {f"{name} on {table}": value > 0 for table in tables for name, value in lifts[table].items()}
    claim("calibrating the leaves of a tree raises the AUC (tables 1 and 2)", rises, "cells of tables 1 and 2")
    larger = {
        table: [own[size] for size in sizes] == sorted(own[size] for size in sizes) for table, own in lifts.items()
    }
    claim("the larger the network, the more it gains (table 1)", larger, "tables of people")
    freer = {table: own["top 3 unregularised"] > own["top 3 regularised"] for table, own in lifts.items()}
    claim("a network without regularisation gains more (table 2)", freer, "tables of people")


if __name__ == "__main__":
    main()
