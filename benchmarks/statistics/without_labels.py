"""`calcli estimate` without labels, and with labels of rows that it chose, beside the truth of files with labels.

``python benchmarks/statistics/without_labels.py [DIR] [--draws N] [--quick]``

DIR holds pairs ``NAME.cal.parquet`` and ``NAME.test.parquet`` of two classes; without it only the simulation runs. A
beta calibrator is fitted on each ``cal``. **Promised**: parts of ``test`` of 500 rows, drawn at random, or from those
with the largest values of a feature. **Moved rates**: rows of ``test`` drawn so that the class rate is a tenth to ten
times that of the fit, where rows suffice. **Chosen**: 200 labels of rows drawn at random, or by ``--choose``; labels
saved is by how much the mean square error is smaller.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

import calcli
from calcli.batch import FloatArray
from calcli.errors import DataError
from calcli.models.calibrator import CalibratorModel
from calcli.verbs.label_plan import COLUMN, draw, inclusion, sizes

PART, LABELS = 500, 200
METRICS = ("rate", "accuracy", "auc", "nll")


def row(*cells: object) -> str:
    return "| " + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"


def header(*cells: str) -> str:
    return f"{row(*cells)}\n| --- |{' ---: |' * (len(cells) - 1)}"


def files(directory: Path) -> Iterator[tuple[str, pl.DataFrame, pl.DataFrame]]:
    """The pairs of two classes."""
    for path in sorted(directory.glob("*.cal.parquet")):
        fit, test = (pl.read_parquet(directory / path.name.replace(".cal.", f".{part}.")) for part in ("cal", "test"))
        if "logit" in fit.columns:
            yield path.name.removesuffix(".cal.parquet"), fit, test.drop("prob")


def fitted(frame: pl.DataFrame, folder: Path) -> CalibratorModel:
    calcli.fit(frame.select("logit", "label"), method="beta", output=folder)
    return calcli.load(folder)


def feature_of(frame: pl.DataFrame) -> str:
    """A column by which rows are shifted: the number with the most values."""
    names = [name for name, dtype in frame.schema.items() if dtype.is_numeric() and name not in ("label", "logit")]
    return max(names, key=lambda name: frame[name].n_unique())


def promised(model: CalibratorModel, test: pl.DataFrame, draws: int, rng: np.random.Generator) -> list[str]:
    """For parts drawn at random, and for those that a feature selects: mean errors, and how often intervals hold."""
    cells = []
    upper = test.filter(pl.col(name := feature_of(test)) >= test[name].quantile(0.7))
    for source in (test, upper):
        error, held = np.zeros((draws, len(METRICS))), np.zeros((draws, len(METRICS)))
        for place in range(draws):
            part = source[rng.permutation(len(source))[: min(PART, len(source))].tolist()]
            (found,) = calcli.estimate(part.select("logit"), artifact=model, seed=place).scores
            shown = calcli.evaluate(part.select("logit", "label"), artifacts=(model,), metrics="accuracy,auc,nll")
            truth = {name: one.value for name, one in shown.scores[1].metrics.items()} | {"rate": part["label"].mean()}
            for column, name in enumerate(METRICS):
                number = found.metrics[name]
                error[place, column] = abs(number.value - truth[name])
                held[place, column] = number.lo <= truth[name] <= number.hi
        cells += [f"{e:.3f}, {h:.2f}" for e, h in zip(error.mean(axis=0), held.mean(axis=0), strict=True)]
    return cells


def moved(model: CalibratorModel, test: pl.DataFrame, before: float, draws: int, rng: np.random.Generator) -> list[str]:
    """By factor: the mean error of the rate, how often the interval holds, how often the test objects."""
    cells = []
    label = test["label"].to_numpy()
    for factor in (0.1, 0.3, 1.0, 3.0, 10.0):
        rate = min(max(before * factor, 0.01), 0.95)
        count = int(min(2000, (label == 1).sum() / rate / 1.5, (label == 0).sum() / (1 - rate) / 1.5))
        found = []
        for _ in range(draws):
            ones = rng.binomial(count, rate)
            place = np.concatenate(
                [
                    rng.choice(np.flatnonzero(label == 1), ones, replace=False),
                    rng.choice(np.flatnonzero(label == 0), count - ones, replace=False),
                ]
            )
            try:
                (one,) = calcli.estimate(
                    test[place.tolist()].select("logit"), artifact=model, prior_shift="estimate"
                ).estimates
            except DataError:  # not identified
                continue
            found.append((abs(one["value"] - rate), one["lo"] <= rate <= one["hi"], one["p"] < 0.01))
        mean = np.mean(found, axis=0) if found else [np.nan] * 3
        cells.append(f"{rate:.2f}: {mean[0]:.3f}, {mean[1]:.2f}, {mean[2]:.2f}")
    upper = test.filter(pl.col(name := feature_of(test)) >= test[name].quantile(0.7)).select("logit")
    (one,) = calcli.estimate(upper, artifact=model, prior_shift="estimate").estimates
    return [*cells, f"{one['p']:.2g}"]


def errors(prob: FloatArray, label: FloatArray, drawn: FloatArray, draws: int, rng: np.random.Generator) -> FloatArray:
    """Estimate minus truth, where rows are labelled with these probabilities."""
    found = np.empty(draws)
    for place in range(draws):
        chosen = draw(drawn, rng)
        known = pl.Series(np.isin(np.arange(len(prob)), chosen))
        frame = pl.DataFrame({"prob": prob, "truth": label, COLUMN: drawn}).select(
            "prob", COLUMN, label=pl.when(known).then("truth").cast(pl.Int64)
        )
        (one,) = calcli.estimate(frame, label_prob=COLUMN, classes=("0", "1"), ignore=()).estimates
        found[place] = one["value"] - label.mean()
    return found


def chosen(prob: FloatArray, label: FloatArray, draws: int, rng: np.random.Generator) -> list[object]:
    """The bias of chosen labels in standard errors, and the mean square errors at random and chosen."""
    every = np.ones(len(prob), dtype=np.bool_)
    plan = inclusion(sizes(prob * (1.0 - prob), None, every), LABELS)
    alike = np.full(len(prob), LABELS / len(prob))
    at_random, by_plan = (errors(prob, label, drawn, draws, rng) for drawn in (alike, plan))
    bias = by_plan.mean() / (by_plan.std() / np.sqrt(draws))
    ratio = np.square(at_random).mean() / np.square(by_plan).mean()
    return [
        float(bias),
        float(np.sqrt(np.square(at_random).mean())),
        float(np.sqrt(np.square(by_plan).mean())),
        f"{100 * (1 - 1 / ratio):.0f} %",
    ]


def simulated(draws: int) -> list[object]:
    """Over-confident scores of new tables at each draw: the bias of chosen labels."""
    rng = np.random.default_rng(5)
    found = np.empty(draws)
    for place in range(draws):
        label = (rng.random(2000) < 0.1).astype(np.float64)
        prob = 1.0 / (1.0 + np.exp(-(1.8 * (rng.normal(size=2000) + 1.4657 * label) - 3.0)))
        every = np.ones(2000, dtype=np.bool_)
        drawn = inclusion(sizes(prob * (1.0 - prob), None, every), LABELS)
        found[place] = errors(prob, label, drawn, 1, rng)[0]
    error = found.std() / np.sqrt(draws)
    return [draws, f"{found.mean():+.5f}", f"{error:.5f}", float(found.mean() / error)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    logging.disable()
    draws = 3 if given.quick else given.draws
    print("## Chosen labels of simulated tables\n")
    print(header("tables", "mean error", "its standard error", "ratio"))
    print(row(*simulated(25 * draws)), flush=True)
    if given.directory is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        models = {name: (fitted(fit, Path(folder) / name), fit, test) for name, fit, test in files(given.directory)}
        rng = np.random.default_rng(0)
        print("\n## Promised: mean absolute error, and how often the interval holds\n")
        print(header("file", *METRICS, *(f"{name}, shifted" for name in METRICS)))
        for name, (model, _, test) in models.items():
            print(row(name, *promised(model, test, draws, rng)), flush=True)
        print("\n## Moved rates: the rate, mean absolute error, intervals that hold, tests that object\n")
        print(header("file", "a tenth", "0.3", "1", "3", "10 times", "p of rows that a feature selects"))
        for name, (model, fit, test) in models.items():
            print(row(name, *moved(model, test, float(fit["label"].mean()), draws, rng)), flush=True)
        print(f"\n## {LABELS} labels of rows at random, and chosen\n")
        print(header("file", "bias / its error", "error at random", "error chosen", "labels saved"))
        for name, (model, _, test) in models.items():
            some = test.head(5000)
            cells = chosen(model.predict(some), some["label"].to_numpy().astype(np.float64), draws, rng)
            print(row(name, *cells), flush=True)


if __name__ == "__main__":
    main()
