"""Where gains come from: files on which methods that look at features gain, and files on which they lose.

``python benchmarks/arena/why.py DATA --out OUT``: OUT is that of arena.py, with the files that it made. For each gain
a picture: how much each column moves the score (the mean of the absolute Shapley values of `calcli inspect --explain`),
and by how much the rate of labels is above the mean probability in the cells of the two columns that move it most, for
Platt scaling and for the method. For each loss: the log-loss of methods on held-out rows of the file to fit on, where
a choice can see it, and on the rows to judge on.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from board import table
from pairs import Pair, pairs
from segments import LEAST, Segments, cells, names_of

import calcli
from calcli.batch import Batch, FloatArray
from calcli.metrics.base import Scored
from calcli.metrics.proper import nll
from calcli.numeric.links import probabilities

PLAIN, RAW = "platt", "identity"
SHOWN = 6


@dataclass(frozen=True)
class Gain:
    method: str
    file: str
    why: str


@dataclass(frozen=True)
class Loss:
    """`beside`: the methods whose losses are shown."""

    method: str
    file: str
    beside: tuple[str, ...]
    why: str


GAINS = (
    Gain(
        "mbct", "clicks_50.logistic-0",
        "The model knows the effect of each column and of no pair. Platt scaling takes away what it says too much "
        "everywhere, and leaves cells of device and position whose rates are off by 5 points, the base rate itself. A "
        "branch of `mbct` asks for two columns, and each leaf moves the log-odds of its rows: the cells are right.",
    ),
    Gain(
        "boost", "california.logistic-0",
        "The prices of houses depend on where they are, and a logistic model knows longitude and latitude one by one. "
        "It is 27 points too high in one cell of the map and 14 too low in another. A function of the score cannot "
        "tell these rows apart; trees that split on both can.",
    ),
    Gain(
        "heterogeneous", "reg_concrete.logistic-1",
        "`x7` is the age of the concrete: it hardens in the first weeks and then no more, where a logistic model has a "
        "straight line. The model is 21 points too high for ages of 7 to 28 days and 10 too low after. Regions of the "
        "age, each with a line of its own for the score, need no more than 206 rows to mend that.",
    ),
    Gain(
        "ccl", "reg_power.mlp_stopped-0",
        "At 17 to 23 degrees (`x0`) the network, which was stopped early, is 10 points too high after Platt scaling "
        "where the vacuum (`x1`) is low, and 7 too low where it is high. Clusters by what moves the score keep such "
        "rows together, and the line of each takes away a part of the error. Lines are drawn to that of all rows and "
        "mixed by nearness, so that another part stays.",
    ),
    Gain(
        "auto", "reg_concrete.logistic-1",
        "The file of `heterogeneous` above. Of 206 rows no method alone is the one to trust: the pool is 0.50 effects, "
        "0.32 boost and 0.18 forest. It gains 21.5 %, where these alone gain 20.0, 18.0 and 20.1 %: more than each, "
        "without having to know which.",
    ),
)  # fmt: skip

LOSSES = (
    Loss(
        "boost", "clicks_35.logistic-0", ("platt", "boost", "heterogeneous", "mbct"),
        "What the model does not know lies in pairs of columns. `boost` encodes each category by its rate of labels, "
        "one column at a time: levels of one rate are the same to it, also where their pairs differ. The branches of "
        "`mbct` are the levels themselves, and gain half as much again; LightGBM and MCGrad, which split by sets of "
        "levels, gain 9.6 and 9.5 %.",
    ),
    Loss(
        "auto", "reg_power.forest-0", ("isotonic-centered", "effects", "forest", "boost"),
        "Of the 1,800 rows to fit on there are five of which the forest is certain, and wrong: each costs 16 nats, "
        "together 0.045 of a log-loss of 0.118. Every method takes that away. Of the 1,800 rows to judge on none is "
        "like these, and what it costs to be less certain is all that is left.",
    ),
    Loss(
        "auto", "qsar_biodeg.mlp_long-0", ("temperature", "effects", "forest", "boost"),
        "There are 84 rows to fit on. The pool makes the held-out labels likelier by e^0.4, and the joint test finds "
        "nothing wrong with the scores: of calibrated ones as much is seen in one table of ten. Here features say much "
        "that 84 rows do not show: the price of leaving calibrated scores alone.",
    ),
)  # fmt: skip


def log_loss(prob: FloatArray, rows: Batch) -> float:
    return float(nll.rows(Scored(rows.labels, np.clip(prob, 0.0, 1.0))).mean())


def fitted(method: str, frame: pl.DataFrame) -> calcli.Model:
    holdout = None if method == "auto" else "none"
    return calcli.fit(frame, method=method, holdout=holdout, seed=0).model


def gain(case: Gain, pair: Pair, out: Path) -> list[str]:
    """The lines of a case, and its picture."""
    train, test = pair.read()
    known, asked = pair.frames()
    model = fitted(case.method, known)
    prob = {
        RAW: probabilities(test.score),
        PLAIN: fitted(PLAIN, known).predict(asked),
        case.method: model.predict(asked),
    }
    with tempfile.TemporaryDirectory() as scratch:
        model.save(Path(scratch) / "model")
        told = calcli.explain(Path(scratch) / "model", asked)
    moved = dict(zip(told.columns, np.abs(told.values).mean(axis=0).tolist(), strict=True))
    raw, segments = log_loss(prob[RAW], test), Segments(train, test)
    chance = segments.by_chance()
    rows = [
        (name, f"{log_loss(own, test):.4f}", f"{1 - log_loss(own, test) / raw:+z.1%}", f"{worst / chance:.2f}", where)
        for name, own in prob.items()
        for worst, where in [segments.worst(own)]
    ]
    picture(case, moved, train, test, prob, out / f"why-{case.method}.png")
    head = ("", "log-loss", "gain", "worst segment", "which is of")
    return [case.why, "", *table(head, rows), "", f"![{case.method}](why-{case.method}.png)"]


def picture(
    case: Gain, moved: dict[str, float], train: Batch, test: Batch, prob: dict[str, FloatArray], path: Path
) -> None:
    from matplotlib.figure import Figure

    one, other = [name for name in moved if name in train.features][:2]
    places = [cells(train.features[name], test.features[name]) for name in (one, other)]
    names = [names_of(train.features[name]) for name in (one, other)]
    grids = {name: off(test.labels - own, places, [len(own) for own in names]) for name, own in prob.items()}
    left = [np.flatnonzero(np.isfinite(grids[RAW]).any(axis=axis)) for axis in (1, 0)]
    figure = Figure(figsize=(12, 3.4), layout="constrained")
    bars, *maps = figure.subplots(1, 3, width_ratios=(1, 1.3, 1.3))
    top = list(moved)[:SHOWN][::-1]
    bars.barh(top, [moved[name] for name in top], color="#1b6ca8")
    bars.set_xlabel("mean absolute change of the log-odds")
    most = max(float(np.nanmax(np.abs(grids[name]))) for name in (PLAIN, case.method))
    for axes, name in zip(maps, (PLAIN, case.method), strict=True):
        shown = axes.imshow(grids[name][np.ix_(*left)], cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel(other)
        axes.set_xticks(range(len(left[1])), [names[1][k] for k in left[1]], rotation=30, ha="right", fontsize=7)
        axes.set_yticks(range(len(left[0])), [names[0][k] for k in left[0]], fontsize=7)
    maps[0].set_ylabel(one)
    figure.colorbar(shown, ax=maps, label="rate of labels minus mean probability")
    figure.savefig(path, dpi=90, metadata={"Software": None})


def off(residual: FloatArray, places: list[np.ndarray], sizes: list[int]) -> FloatArray:
    """The mean residual of each cell; NaN where it has few rows."""
    codes = places[0] * sizes[1] + places[1]
    rows = np.bincount(codes, minlength=sizes[0] * sizes[1])
    sums = np.bincount(codes, residual, minlength=sizes[0] * sizes[1])
    return np.where(rows >= LEAST, sums / np.maximum(rows, 1), np.nan).reshape(sizes)


def loss(case: Loss, pair: Pair) -> list[str]:
    _, test = pair.read()
    known, asked = pair.frames()
    report = calcli.compare(known, methods=",".join(case.beside), seed=0).report
    seen = {one.name: one.metrics["nll"].value for one in report.scores}
    prob = {RAW: probabilities(test.score)} | {name: fitted(name, known).predict(asked) for name in case.beside}
    if case.method == "auto":
        prob["auto"] = fitted("auto", known).predict(asked)
    raw = log_loss(prob[RAW], test)
    rows = []
    for name, own in prob.items():
        held_out = seen.get(name)
        rows.append(
            (
                name,
                "" if held_out is None else f"{held_out:.4f}",
                "" if held_out is None else f"{1 - held_out / seen[RAW]:+z.1%}",
                f"{log_loss(own, test):.4f}",
                f"{1 - log_loss(own, test) / raw:+z.1%}",
            )
        )
    head = ("", "held-out log-loss", "gain", "log-loss on the rows to judge on", "gain")
    return [case.why, "", *table(head, rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="that of arena.py")
    parser.add_argument("--quick", action="store_true", help="one gain and one loss")
    given = parser.parse_args()
    files = {pair.name: pair for folder in ("new", "clicks") for pair in pairs(given.out / folder)}
    for case in GAINS[: 1 if given.quick else None]:
        print("\n".join((f"\n## {case.method} gains: {case.file}\n", *gain(case, files[case.file], given.out))))
    for fall in LOSSES[: 1 if given.quick else None]:
        print("\n".join((f"\n## {fall.method} loses: {fall.file}\n", *loss(fall, files[fall.file]))))


if __name__ == "__main__":
    main()
