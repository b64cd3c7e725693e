"""New prediction files from labelled tables: base models and splits that no method of calcli was ever tried on.

``python benchmarks/arena/base_models.py OUT [--raw DIR] [--data DIR] [--seeds N] [--quick]`` writes pairs
``NAME.MODEL-SEED.cal.parquet`` and ``.test.parquet`` into OUT: the features, ``label``, and ``prob`` and ``logit``
(for more classes ``logit_0`` ..) of a model that was trained on other rows. Rows are split 60/20/20 into those to
train on, to calibrate on and to judge on, each class in proportion. DIR of ``--raw`` holds tables with a label, of
which ``reg_*`` have an amount that is cut at its median; DIR of ``--data`` prediction files, whose rows are taken
without what was predicted for them. Of more than MOST_ROWS rows a part is drawn. The same seed gives the same files.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from catboost import CatBoostClassifier
from pairs import CAL, TEST
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from calcli.numeric.seeded import stream

RAW = ("adult", "california", "reg_concrete", "reg_power")
PREDICTED = ("diabetes130", "house_class", "county_class5", "satimage", "qsar_biodeg")
MOST_ROWS = 9_000
LEAST = 1e-7
"""Forests say 0 and 1: a probability is held so far from them before its logarithm is taken."""

Model = Any
"""What has ``fit`` and ``predict_proba``."""


@dataclass(frozen=True)
class Table:
    name: str
    features: pd.DataFrame
    label: np.ndarray

    def take(self, rows: np.ndarray) -> Table:
        return Table(self.name, self.features[rows].reset_index(drop=True), self.label[rows])


# Tables.


def raw_table(path: Path) -> Table:
    frame = pl.read_parquet(path)
    if path.stem.startswith("reg_"):
        frame = frame.with_columns(label=(pl.col("label") > pl.col("label").median()).cast(pl.Int64))
    return as_table(path.stem, frame)


def unpredicted(folder: Path, name: str) -> Table:
    """The rows of a model's files, without what it said of them and without their ids."""
    parts = [pl.read_parquet(folder / f"{name}.catboost{end}") for end in (CAL, TEST)]
    frame = pl.concat(parts)
    said = [column for column in frame.columns if column in ("prob", "node_id") or column.startswith("logit")]
    return as_table(name, frame.drop(said))


def as_table(name: str, frame: pl.DataFrame) -> Table:
    features = frame.drop("label")
    texts = pl.col(pl.String)
    numbers = features.select(pl.exclude(pl.String).cast(pl.Float64))
    table = pd.concat([numbers.to_pandas(), features.select(texts).to_pandas().astype(object)], axis=1)
    return Table(name, table[features.columns], frame["label"].cast(pl.Int64).to_numpy())


def tables(raw: Path | None, data: Path | None) -> Iterator[Table]:
    for name in RAW:
        if raw is not None and (raw / f"{name}.parquet").exists():
            yield raw_table(raw / f"{name}.parquet")
    for name in PREDICTED:
        if data is not None and (data / f"{name}.catboost{CAL}").exists():
            yield unpredicted(data, name)


def held_out(label: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """A mask of about `share` of the rows of each class, and of all."""
    order, mask = np.argsort(label.astype(np.min_scalar_type(int(label.max()))), kind="stable"), label < 0
    for start, end in pairwise([0, *np.cumsum(np.bincount(label)).tolist()]):
        count = math.floor(end * share) - math.floor(start * share)
        mask[order[start + rng.choice(end - start, count, replace=False, shuffle=False)]] = True
    return mask


def split(table: Table, seed: int) -> tuple[Table, Table, Table]:
    """60 % to train on, 20 % to calibrate on, 20 % to judge on."""
    if len(table.label) > MOST_ROWS:
        table = table.take(held_out(table.label, MOST_ROWS / len(table.label), stream(seed, table.name, "rows")))
    away = held_out(table.label, 0.4, stream(seed, table.name, "split"))
    rest = table.take(away)
    half = held_out(rest.label, 0.5, stream(seed, table.name, "halves"))
    return table.take(~away), rest.take(half), rest.take(~half)


# Models, of families and settings beside those of the given files.

TEXTS, NUMBERS = make_column_selector(dtype_include=object), make_column_selector(dtype_exclude=object)


def on_points(model: Model) -> Model:
    """Categories one-hot, numbers standardised."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=20, sparse_output=False)
    return make_pipeline(ColumnTransformer([("numbers", numbers, NUMBERS), ("texts", texts, TEXTS)]), model)


def on_codes(model: Model) -> Model:
    """Categories as numbers."""
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    numbers = SimpleImputer(strategy="median")
    return make_pipeline(ColumnTransformer([("numbers", numbers, NUMBERS), ("texts", codes, TEXTS)]), model)


def logistic(seed: int) -> Model:
    return on_points(LogisticRegression(max_iter=1000))


def forest(seed: int) -> Model:
    return on_codes(RandomForestClassifier(200, min_samples_leaf=2, random_state=seed, n_jobs=1))


def histogram(seed: int) -> Model:
    return on_codes(HistGradientBoostingClassifier(random_state=seed))


def mlp_stopped(seed: int) -> Model:
    return on_points(MLPClassifier((64,), early_stopping=True, random_state=seed))


def mlp_long(seed: int) -> Model:
    """Trained for too long on purpose."""
    return on_points(MLPClassifier((128, 64), alpha=0.0, max_iter=60, n_iter_no_change=60, random_state=seed))


class StoppedCatBoost:
    """CatBoost that stops where a sixth of its training rows say so."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(self, features: pd.DataFrame, label: np.ndarray) -> StoppedCatBoost:
        kept = held_out(label, 1 / 6, stream(self._seed, "catboost"))
        self._texts = list(TEXTS(features))
        self._model = CatBoostClassifier(
            iterations=1000,
            random_seed=self._seed,
            thread_count=1,
            cat_features=self._texts,
            early_stopping_rounds=50,
            allow_writing_files=False,
            verbose=False,
        )
        rows = self._prepared(features)
        self._model.fit(rows[~kept], label[~kept], eval_set=(rows[kept], label[kept]))
        return self

    def predict_proba(self, features: pd.DataFrame) -> np.ndarray:
        return np.asarray(self._model.predict_proba(self._prepared(features)))

    def _prepared(self, features: pd.DataFrame) -> pd.DataFrame:
        return features.assign(**{name: features[name].fillna("missing") for name in self._texts})


MODELS: dict[str, Callable[[int], Model]] = {
    "logistic": logistic,
    "forest": forest,
    "histgb": histogram,
    "catboost_stopped": StoppedCatBoost,
    "mlp_stopped": mlp_stopped,
    "mlp_long": mlp_long,
}


def predicted(table: Table, prob: np.ndarray) -> pl.DataFrame:
    """The columns of a prediction file."""
    held = np.log(np.clip(prob, LEAST, 1.0 - LEAST))
    if prob.shape[1] == 2:
        said = {"logit": held[:, 1] - held[:, 0], "prob": prob[:, 1]}
    else:
        said = {f"logit_{k}": held[:, k] for k in range(prob.shape[1])}
    return pl.concat([pl.from_pandas(table.features), pl.DataFrame({"label": table.label, **said})], how="horizontal")


def write(table: Table, name: str, seed: int, out: Path) -> None:
    """One pair of files, unless it is there already; the second one last, and whole or not at all."""
    stem = f"{table.name}.{name}-{seed}"
    if (out / f"{stem}{TEST}").exists():
        return
    started = time.process_time()
    train, *others = split(table, seed)
    with threadpool_limits(1), warnings.catch_warnings():  # sums depend on the number of threads
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MODELS[name](seed).fit(train.features, train.label)
        frames = [predicted(rows, model.predict_proba(rows.features)) for rows in others]
    for frame, end in zip(frames, (CAL, TEST), strict=True):
        partial = out / f"{stem}.unfinished"
        frame.write_parquet(partial)
        partial.rename(out / f"{stem}{end}")
    print(f"{stem}: {len(train.label):,} rows, {time.process_time() - started:.1f} s", file=sys.stderr, flush=True)


def make(out: Path, raw: Path | None, data: Path | None, *, seeds: int, quick: bool = False) -> None:
    """Every model on every table under every seed; for a quick look the fast models on the small tables."""
    out.mkdir(parents=True, exist_ok=True)
    names = ("logistic", "histgb") if quick else tuple(MODELS)
    for table in tables(raw, data):
        if not quick or len(table.label) <= 1500:
            for seed in range(1 if quick else seeds):
                for name in names:
                    write(table, name, seed, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="two fast models on the small tables")
    given = parser.parse_args()
    make(given.out, given.raw, given.data, seeds=given.seeds, quick=given.quick)


if __name__ == "__main__":
    main()
