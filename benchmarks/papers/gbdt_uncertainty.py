"""Tables 1 and 4 to 7 of "Uncertainty in Gradient Boosting via Ensembles" (Malinin et al., ICLR 2021), three rows.

``python benchmarks/papers/gbdt_uncertainty.py DATA OUT [--quick]``: DATA holds ``adult.parquet``,
``reg_concrete.parquet``, ``reg_power.parquet`` and ``california.parquet``. Markdown goes to stdout, pictures and what
was measured to OUT; a run that is stopped goes on where it was.

As in the paper: 1000 trees, ten members, learning rate and depth by grid on 20 % of the training rows, one model of the
SGLB ensemble as the virtual one; adult split 80/20 and tuned once, the others 90/10. Not as in the paper: its table for
rows out of the domain (Year MSD) is not at hand, they are made from the houses of California; splits are our own and
fewer. Random forests (appendix C) are scikit-learn's: ten of 1000 trees, at most ten deep, categories encoded by
leave-one-out; a virtual one is cut into ten parts of 100 trees.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from claims import claim
from gbdt_uncertainty_synthetic import heart, spiral

import calcli
from calcli.batch import FloatArray
from calcli.metrics.ranking import ood_auc, rejection_ratio
from calcli.models.ensemble import load_ensemble
from calcli.uncertainty.decomposition import Members, SeenFeatures, decompose, make

Numbers = dict[str, dict[str, float | None]]
"""Score to metric to value."""


@dataclass(frozen=True)
class Table:
    """One row of the paper's tables.

    Attributes
    ----------
    printed
        Metric to score to what the paper prints; scores are those of `SCORES`.
    """

    name: str
    file: str
    held_out: float
    printed: dict[str, dict[str, float]]


SCORES = ("sgb.single", "sglb.single", "sgb", "sglb", "vsglb", "rf.single", "rf", "vrf")


def printed(*values: float | None) -> dict[str, float]:
    """What the paper prints, in the order of `SCORES`."""
    return {score: value for score, value in zip(SCORES, values, strict=False) if value is not None}


_ = None
TABLES = (
    Table("adult", "adult", 0.2, {
        "nll": printed(0.276, 0.273, 0.276, 0.271, 0.274, 0.300, 0.300),
        "error %": printed(12.8, 12.7, 12.8, 12.6, 12.7, 13.9, 13.9),
        "prr_total": printed(72, 72, 72, 72, 72, _, 70, 70),
        "prr_knowledge": printed(_, _, 49, 49, 38, _, 22, 20),
        "ood_auc_total %": printed(53, 50, 52, 51, 51, _, 58, 58),
        "ood_auc_knowledge %": printed(_, _, 89, 89, 85, _, 87, 86),
    }),
    Table("concrete", "reg_concrete", 0.1, {
        "nll": printed(3.06, 3.06, 3.05, 3.05, 3.06),
        "rmse": printed(5.21, 5.11, 5.21, 5.10, 5.37, 4.96, 4.95),
        "prr_total": printed(45, 41, 44, 42, 41),
        "prr_knowledge": printed(_, _, 27, 27, 25, _, 42, 43),
        "ood_auc_total %": printed(78, 80, 79, 81, 78),
        "ood_auc_knowledge %": printed(_, _, 92, 92, 56, _, 80, 80),
    }),
    Table("power", "reg_power", 0.1, {
        "nll": printed(2.72, 2.71, 2.66, 2.66, 2.69),
        "rmse": printed(3.55, 3.56, 3.52, 3.54, 3.64, 3.53, 3.53),
        "prr_total": printed(30, 32, 31, 33, 32),
        "prr_knowledge": printed(_, _, 8, 9, 13, _, 22, 21),
        "ood_auc_total %": printed(48, 47, 51, 49, 47),
        "ood_auc_knowledge %": printed(_, _, 72, 73, 57, _, 65, 66),
    }),
)  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """How much is done."""

    members: int = 10
    trees: int = 1000
    rows: int | None = None
    tune: bool = True


def boosted(train: pl.DataFrame, test: pl.DataFrame, table: Table, folder: Path, other: Path, scale: Scale, seed: int,
            tuned: dict[str, Any]) -> Numbers:  # fmt: skip
    """SGB and SGLB ensembles, and the virtual ensemble of the first SGLB model."""
    task = "class" if table.name == "adult" else "regression"
    for kind in ("sgb", "sglb"):
        started = time.perf_counter()
        known = tuned.get(kind)
        settings = known if known is not None else {"tune": scale.tune}
        done = calcli.fit_ensemble(train, output=folder / kind, ensemble=kind, members=scale.members, trees=scale.trees,
                                   task=task, seed=seed, **settings)  # fmt: skip
        params = done.model.manifest.params
        tuned[kind] = {"learning_rate": params["learning_rate"], "depth": params["depth"]}
        say(f"{table.name} {seed} {kind}: {tuned[kind]}, {time.perf_counter() - started:.0f} s")
    first = folder / "first.cbm"
    first.write_bytes(load_ensemble(folder / "sglb").ensemble.files[0])
    calcli.fit_ensemble(train, output=folder / "vsglb", model=first, members=scale.members, task=task)
    names = ("sgb", "sglb", "vsglb")
    report = calcli.evaluate_ensembles(
        test, ensembles=tuple(str(folder / name) for name in names), make_ood=other, seed=seed
    )
    return {row.name: {name: value.value for name, value in row.metrics.items()} for row in report.scores}


def forests(train: pl.DataFrame, test: pl.DataFrame, table: Table, other: Path, scale: Scale, seed: int) -> Numbers:
    """Ten random forests, one of them as a virtual ensemble of ten parts, and one alone."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    regression = table.name != "adult"
    model = load_ensemble_features(train, table)
    strange = make(model.names, model.seen, numbers_of(other), len(test), seed=seed)
    encode = leave_one_out(train, model, seed)
    inputs = encode(train, True), encode(test, False), encode(model.frame(strange), False)
    kind = RandomForestRegressor if regression else RandomForestClassifier
    parts: list[tuple[FloatArray, FloatArray]] = []
    virtual: tuple[FloatArray, FloatArray] | None = None
    for member in range(scale.members):
        forest = kind(n_estimators=scale.trees, max_depth=10, n_jobs=-1, random_state=10 * seed + member)
        forest.fit(inputs[0], train["label"].to_numpy())
        say_each = tuple(np.stack([tree_says(tree, rows) for tree in forest.estimators_]) for rows in inputs[1:])
        if virtual is None:
            cut = [np.array_split(each, scale.members) for each in say_each]
            virtual = tuple(np.stack([part.mean(axis=0) for part in each], axis=1) for each in cut)  # type: ignore
        parts.append(tuple(each.mean(axis=0) for each in say_each))  # type: ignore[arg-type]
    whole = tuple(np.stack([part[side] for part in parts], axis=1) for side in (0, 1))
    label = test["label"].to_numpy()
    single = tuple(side[:, :1] for side in whole)
    return {
        "rf.single": judged(single, label, regression, alone=True),
        "rf": judged(whole, label, regression),
        "vrf": judged(virtual, label, regression),
    }


def tree_says(tree: Any, rows: FloatArray) -> FloatArray:
    """A tree's mean, or its probability of the second class."""
    rows = rows.astype(np.float32)
    return tree.predict_proba(rows)[:, 1] if hasattr(tree, "predict_proba") else tree.predict(rows)


def judged(sides: Any, label: FloatArray, regression: bool, alone: bool = False) -> dict[str, float | None]:
    """The metrics of members inside and outside the domain. A forest has no variance, so no total uncertainty."""
    inside, outside = (Members(side, np.ones_like(side) if regression else None) for side in sides)
    parts, strange = decompose(inside), decompose(outside)
    loss = np.square(parts.mean - label) if regression else ((parts.mean > 0.5) != label).astype(float)
    found: dict[str, float | None] = {"rmse" if regression else "error": loss.mean() ** (0.5 if regression else 1)}
    if not regression:
        prob = np.clip(np.where(label == 1, parts.mean, 1 - parts.mean), 1e-12, 1)
        found["nll"] = float(-np.log(prob).mean())
        found["prr_total"] = rejection_ratio(parts.total, loss).value
        found["ood_auc_total"] = ood_auc(parts.total, strange.total).value
    if not alone:
        found["prr_knowledge"] = rejection_ratio(parts.knowledge, loss).value
        found["ood_auc_knowledge"] = ood_auc(parts.knowledge, strange.knowledge).value
    return found


ENSEMBLES = "ensembles on three tables"


@dataclass(frozen=True)
class Features:
    """The features of a table, and what they look like."""

    names: tuple[str, ...]
    categories: tuple[str, ...]
    seen: SeenFeatures

    def frame(self, columns: Any) -> pl.DataFrame:
        """Made rows as a frame."""
        return pl.DataFrame({
            name: np.array([*column.levels, None], dtype=object)[column.values] if name in self.categories
            else column.values for name, column in columns.items()
        }, schema_overrides=dict.fromkeys(self.categories, pl.String))  # fmt: skip


def load_ensemble_features(train: pl.DataFrame, table: Table) -> Features:
    from calcli.tables.binding import bind_unscored
    from calcli.tables.load import load
    from calcli.tables.source import open_source

    with open_source(train) as source:
        binding = bind_unscored(source, task="class" if table.name == "adult" else "regression")
        columns = load(source, binding, features=True).batch.features
    categories = tuple(name for name, column in columns.items() if column.role == "category")
    return Features(tuple(columns), categories, SeenFeatures.of(columns))


def numbers_of(path: Path) -> FloatArray:
    from calcli.tables.side_tables import load_numbers
    from calcli.tables.source import open_source

    with open_source(path) as source:
        return load_numbers(source)


def leave_one_out(train: pl.DataFrame, features: Features, seed: int) -> Callable[[pl.DataFrame, bool], FloatArray]:
    """Categories as the mean label of the other rows that have them, with noise on the training rows (sigma 0.3)."""
    noise = np.random.default_rng(seed)
    mean = float(train["label"].mean())

    def encode(rows: pl.DataFrame, training: bool) -> FloatArray:
        found = []
        for name in features.names:
            if name not in features.categories:
                found.append(rows[name].cast(pl.Float64).fill_null(0.0).to_numpy())
                continue
            sums = train.group_by(pl.col(name).fill_null("")).agg(pl.col("label").sum().alias("s"), pl.len().alias("n"))
            joined = rows.select(pl.col(name).fill_null("")).join(sums, on=name, how="left", maintain_order="left")
            s, n = (joined[part].fill_null(0).to_numpy().astype(float) for part in ("s", "n"))
            if training:
                s, n = s - rows["label"].to_numpy(), n - 1
            value = np.where(n > 0, s / np.maximum(n, 1), mean)
            found.append(value * noise.normal(1, 0.3, len(value)) if training else value)
        return np.column_stack(found)

    return encode


def measured(table: Table, data: Path, out: Path, scale: Scale, seeds: int) -> Iterator[Numbers]:
    """Every seed's numbers, from the file that keeps them where they are known."""
    rows = pl.read_parquet(data / f"{table.file}.parquet")
    if scale.rows is not None:
        rows = rows.sample(min(scale.rows, len(rows)), seed=0)
    other, tuned = data / "california.parquet", dict[str, Any]()
    for seed in range(seeds):
        kept = out / f"{table.name}-{seed}.json"
        known: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
        shuffled = rows.sample(fraction=1.0, shuffle=True, seed=seed)
        held = round(table.held_out * len(rows))
        test, train = shuffled.head(held), shuffled.tail(-held)
        if "boosted" not in known:
            settings = tuned if table.name == "adult" else {}
            known["boosted"] = boosted(train, test, table, out / f"{table.name}-{seed}", other, scale, seed, settings)
            known["tuned"] = settings
            kept.write_text(json.dumps(known))
        tuned.update(known["tuned"])
        if "forests" not in known:
            known["forests"] = forests(train, test, table, other, scale, seed)
            kept.write_text(json.dumps(known))
        yield known["boosted"] | known["forests"]


def show(table: Table, runs: list[Numbers]) -> None:
    """The paper's value beside the mean of ours, with its standard deviation over the splits."""
    scores = [score for score in SCORES if score in runs[0]]
    print(f"## {table.name}: {len(runs)} split{'s' * (len(runs) > 1)}; printed in the paper / measured (sd)\n")
    print(f"| | {' | '.join(scores)} |\n| --- |{' --- |' * len(scores)}")
    for metric, theirs in table.printed.items():
        name, times = metric.removesuffix(" %"), 100 if metric.endswith("%") else 1
        cells = [cell([run[score].get(name) for run in runs], times, theirs.get(score)) for score in scores]
        print(f"| {metric} | {' | '.join(cells)} |")
    print(flush=True)


def claims(found: dict[str, list[Numbers]]) -> None:
    """Table 1: what each kind of uncertainty is for."""
    finds: dict[str, dict[str, bool]] = {"prr": {}, "ood_auc": {}}
    for table, runs in found.items():
        for ensemble in ("sgb", "sglb", "vsglb"):
            for metric, held in finds.items():
                total, knowledge = (
                    np.mean([run[ensemble][f"{metric}_{kind}"] or np.nan for run in runs])
                    for kind in ("total", "knowledge")
                )
                held[f"{ensemble} on {table}"] = bool(total > knowledge if metric == "prr" else knowledge > total)
    claim("total uncertainty finds errors better than knowledge uncertainty (table 1)", finds["prr"], ENSEMBLES)
    claim("knowledge uncertainty finds foreign rows better than total (table 1)", finds["ood_auc"], ENSEMBLES)


def cell(values: list[float | None], times: float, theirs: float | None) -> str:
    found = np.array([times * value for value in values if value is not None])
    ours = f"{found.mean():.3g} ({found.std():.2g})" if len(found) else "–"
    return f"{'–' if theirs is None else f'{theirs:g}'} / {ours}"


def say(text: str) -> None:
    os.write(2, f"{text}\n".encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--quick", action="store_true", help="few rows, models and trees, one split")
    parser.add_argument("--seeds", type=int, default=5, help="how many splits of concrete and power; adult has one")
    parser.add_argument("--only", default="heart,spiral,concrete,power,adult")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    scale = Scale(3, 60, 1500, tune=False) if asked.quick else Scale()
    only = asked.only.split(",")
    for name, picture in (("heart", heart), ("spiral", spiral)):
        if name in only:
            picture(asked.out, asked.quick)
    found = {}
    for table in TABLES:
        if table.name in only:
            seeds = 1 if asked.quick or table.name == "adult" else asked.seeds
            found[table.name] = list(measured(table, asked.data, asked.out, scale, seeds))
            show(table, found[table.name])
    if found:
        claims(found)


if __name__ == "__main__":
    main()
