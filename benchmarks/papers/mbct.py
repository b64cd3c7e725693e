"""The tables, figures and claims of MBCT (Huang et al. 2022, sections 5.4 and 5.5) on prediction files.

``python benchmarks/papers/mbct.py FOLDER [--quick]`` writes Markdown. FOLDER holds ``NAME.MODEL.cal.parquet`` and
``NAME.MODEL.test.parquet`` for adult, california and diabetes130, with the models catboost and mlp. Everything is
fitted on the first and judged on the second.

These tables are not what the paper is about: they have a hundredth of its rows or less, and more positives. MBCT is
``--preset paper``, otherwise than in the paper with a fiftieth of the rows as beta. As in the paper, the bins of MVCE
hold beta rows. ``calcli's default`` is what `calcli fit --method mbct` gives; the paper knows nothing of it. Clicks, as
in the paper, are in `mbct_clicks.py`, and the simulation of section 5.3 in `mbct_simulation.py`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from claims import claim
from simulated import Rows

from calcli.batch import Batch, FloatArray, IntArray
from calcli.methods import calibrator, catalog
from calcli.methods.mbct import kernels
from calcli.methods.mbct.coding import Coder
from calcli.methods.mbct.forest import Forest
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.numeric.links import sigmoid
from calcli.tables.binding import bind
from calcli.tables.load import load
from calcli.tables.source import open_source

DATA = ("adult", "california", "diabetes130")
MODELS = ("catboost", "mlp")
BASELINES = {
    "Platt Scaling": "platt",
    "Beta Calibration": "beta",
    "Histogram Binning": "histogram",
    "Isotonic Regression": "isotonic",
    "Scaling-Binning": "scaling-binning",
}
RAW, FULL, SINGLE, DEFAULT = "Original Predictions", "MBCT", "MBCT without boosting", "calcli's default"
LOSSES = {"mvce": "MVCE in closed form", "mvce-sampled": "MVCE, 100 views", "ece": "ECE", "ece-sweep": "ECE sweep"}
SHARES = (10, 20, 50, 100, 200)
"""Bins of MVCE for Figure 4: what share of the rows one holds."""
FINER = 4
COLUMNS = {"mvce": "MVCE", "floor": "its floor", "auc": "AUC", "nll": "NLL", "ece": "ECE"}
TRUE_COLUMNS = {"error": "true error", "divergence": "divergence from the truth"}
DIGITS = {"mvce": 6, "floor": 6, "nll": 5, "divergence": 5}
SEED = 0


@dataclass(frozen=True)
class Study:
    """The predictions of one model on one data set, and what calibrators make of them.

    `other` is the score of the other model for the test rows; `truth`, of rows that are simulated, the test rows with
    their true probabilities.
    """

    name: str
    cal: Batch
    test: Batch
    other: FloatArray
    beta: float
    scores: dict[str, FloatArray]
    truth: Rows | None = None

    def numbers(
        self, prob: FloatArray, bin_size: float | None = None, names: Sequence[str] = ("mvce", "auc", "nll", "ece")
    ) -> dict[str, float]:
        """MVCE and its floor, AUC, log-loss and ECE of the test rows, and the distance from a known truth."""
        options = Options(bin_size=bin_size or self.beta)
        found = metrics.measure([metrics.find(name) for name in names], Scored(self.test.labels, prob), options)
        values = {name: one.value for name, one in found.items()} | {"floor": found["mvce"].floor}
        if self.truth is not None:
            values |= self.truth.measured(prob, names, options)
            values |= {"divergence": self.truth.divergence(prob), "error": self.truth.error(prob)}
        return {name: float("nan") if value is None else value for name, value in values.items()}

    def fitted(self, method: str, **params: Any) -> calibrator.FittedMethod:
        row = catalog.find(method)
        return calibrator.fit(row, self.cal, row.resolve(params), seed=SEED)

    def add_scores(self) -> None:
        """Those of the paper's table 2, and calcli's default."""
        self.scores[RAW] = sigmoid(self.test.score)
        for said, method in BASELINES.items():
            self.scores[said] = self.fitted(method).predict(self.test)
        self.scores[SINGLE] = self.mbct(trees=1).predict(self.test)
        self.scores[FULL] = self.mbct().predict(self.test)
        self.scores[DEFAULT] = self.fitted("mbct").predict(self.test)

    def mbct(self, **params: Any) -> calibrator.FittedMethod:
        """The paper's MBCT, or one that differs in some parameters."""
        row = catalog.find("mbct")
        return calibrator.fit(row, self.cal, row.resolve({"min_rows": self.beta, **params}, preset="paper"), seed=SEED)


def rows_of(path: Path) -> Batch:
    with open_source(path) as source:
        return load(source, bind(source), features=True).batch


def study(folder: Path, name: str, model: str) -> Study:
    cal, test = (rows_of(folder / f"{name}.{model}.{part}.parquet") for part in ("cal", "test"))
    (second,) = set(MODELS) - {model}
    other = rows_of(folder / f"{name}.{second}.test.parquet").score
    one = Study(f"{name}.{model}", cal, test, other, float(round(len(cal) / 50)), {})
    one.add_scores()
    return one


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print(f"| {' | '.join(header)} |\n| --- |{' --: |' * (len(header) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def places(studies: Sequence[Study]) -> str:
    sizes = [len(one.cal) for one in studies]
    kind = "prediction files" if studies[0].truth is None else "tables of simulated clicks"
    return f"{kind} of {' to '.join(f'{size:,}' for size in sorted({min(sizes), max(sizes)}))} rows"


def table_2(studies: Sequence[Study]) -> None:
    print("## Table 2: MVCE with bins of beta rows, AUC, and log-loss\n")
    found = {one.name: {name: one.numbers(prob) for name, prob in one.scores.items()} for one in studies}
    for one in studies:
        rows = found[one.name]
        print(f"{one.name}, {len(one.cal):,} rows to fit, beta {one.beta:.0f}\n")
        shown = COLUMNS if one.truth is None else COLUMNS | TRUE_COLUMNS
        table(
            ("", *shown.values()),
            ([name, *(f"{row[key]:.{DIGITS.get(key, 4)}f}" for key in shown)] for name, row in rows.items()),
        )
    others = (RAW, *BASELINES)
    for key, sign, best in (("mvce", -1, "lowest MVCE"), ("auc", 1, "highest AUC")):

        def better(name: str, than: Iterable[str]) -> dict[str, bool]:
            return {
                where: all(sign * (row[name][key] - row[other][key]) > 0 for other in than)  # noqa: B023
                for where, row in found.items()
            }

        claim(f"MBCT has the {best} (table 2)", better(FULL, others), places(studies))
        claim(f"without boosting too MBCT has the {best} (table 2)", better(SINGLE, others), places(studies))
        claim(f"boosting improves {key.upper()} (table 2)", better(FULL, [SINGLE]), places(studies))
    print("The MVCE of a calibrated score is its floor, not 0.", end=" ")
    if studies[0].truth is None:
        print("Differences much smaller than the floor are chance.\n")
    else:
        print("All numbers but the floor are those that all labels together expect.\n")


def figure_4(studies: Sequence[Study]) -> None:
    print("## Figure 4: MVCE minus that of MBCT, by the size of the bins\n")
    holds: dict[str, bool] = {}
    for one in studies:
        print(f"{one.name}\n")
        sizes = [len(one.test) / share for share in SHARES]

        def at(name: str, size: float) -> float:
            return one.numbers(one.scores[name], size, ["mvce"])["mvce"]  # noqa: B023

        rows, lowest = [], []
        for name in (RAW, *BASELINES):
            gaps = [at(name, size) - at(FULL, size) for size in sizes]
            rows.append([name, *(f"{gap:+.6f}" for gap in gaps)])
            lowest.append(min(gaps))
        table(("", *(f"{size:.0f} rows" for size in sizes)), rows)
        holds[one.name] = min(lowest) > 0
    claim("MBCT has the lowest MVCE at every size of bins (figure 4)", holds, places(studies))


def figure_5(studies: Sequence[Study]) -> None:
    print("## Figure 5: the loss that a split must lower\n")
    names = [f"{column}, {said}" for column in ("MVCE", "AUC") for said in LOSSES.values()]
    rows: list[list[str]] = []
    holds: dict[str, bool] = {}
    for one in studies:
        found = {loss: one.numbers(one.mbct(split_loss=loss, trees=2).predict(one.test)) for loss in LOSSES}
        rows.append(
            [one.name, *(f"{found[loss][key]:.{DIGITS.get(key, 4)}f}" for key in ("mvce", "auc") for loss in LOSSES)]
        )
        for form in ("mvce", "mvce-sampled"):
            for key, sign in (("mvce", 1), ("auc", -1)):
                worst = min(sign * (found[other][key] - found[form][key]) for other in ("ece", "ece-sweep"))
                holds[f"{one.name}, {key.upper()} of {LOSSES[form]}"] = worst > 0
    table(("", *names), rows)
    print("Two trees each: these losses need the rows of every split, not sums of them.\n")
    what = f"comparisons on {places(studies)}"
    claim("splits by MVCE are better than by ECE and ECE sweep (figure 5)", holds, what)


def leaves_of(fitted: calibrator.FittedMethod, batch: Batch) -> IntArray:
    """In which leaf of its only tree each row is."""
    arrays = fitted.state.arrays

    def below(start: str) -> dict[str, Any]:
        return {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}

    coder = Coder.from_arrays(below("feature/"))
    forest = Forest.from_arrays(kernels.ODDS, below("tree/"), coder.codes)
    place = np.zeros(len(batch))
    numbered = replace(forest, pattern=np.arange(len(forest.pattern), dtype=np.float64))
    numbered.calibrate(coder.encode(batch), place)
    return place.astype(np.int64)


def finer(label: IntArray, prob: FloatArray, bins: IntArray, by: FloatArray) -> FloatArray:
    """The PUD, mean probability over label rate, of each quarter of each bin in the order of `by`.

    Quarters in which less than 5 positives are expected, or none is, say nothing and are left out.
    """
    found = []
    for place in np.unique(bins):
        rows = np.flatnonzero(bins == place)
        for part in np.array_split(rows[np.argsort(by[rows], kind="stable")], FINER):
            if prob[part].sum() >= 5 and label[part].any():
                found.append(prob[part].sum() / label[part].sum())
    return np.array(found)


def figure_6(studies: Sequence[Study]) -> None:
    print("## Figure 6: the PUD of four sub-groups of each bin\n")
    print(
        "Each leaf of a tree without boosting, and each of as many bins of a histogram (at least 10), is divided into\n"
        "four sub-groups of test rows: at random, by the score, or by the score of the other model. The table shows\n"
        "the mean of |ln PUD|, which is 0 if PUD is 1.\n"
    )
    rows: list[list[str]] = []
    holds: dict[str, bool] = {}
    for one in studies:
        fitted = one.mbct(trees=1)
        own = fitted.predict(one.test)
        leaf = leaves_of(fitted, one.test)
        row = catalog.find("histogram")
        many = int(np.clip(len(np.unique(leaf)), 10, 100))
        bins = calibrator.fit(row, one.cal, row.resolve({"bins": many, "binning": "mass"}), seed=SEED)
        level = bins.predict(one.test)
        by_level = np.unique(level, return_inverse=True)[1]
        ways = {
            "by chance": np.random.default_rng(SEED).random(len(one.test)),
            "by score": one.test.score,
            "by the other model": one.other,
        }
        for said, by in ways.items():
            tree, histogram = (
                finer(one.test.labels, prob, place, by) for prob, place in ((own, leaf), (level, by_level))
            )
            if min(len(tree), len(histogram)) < FINER:
                continue  # too few positives in nearly every quarter
            far, other = (float(np.abs(np.log(pud)).mean()) for pud in (tree, histogram))
            rows.append([one.name, said, str(many), f"{far:.3f}", f"{other:.3f}", str(len(tree)), str(len(histogram))])
            if said != "by chance":
                holds[f"{one.name} {said}"] = far < other
    table(("", "quarters", "bins", "MBCT", "histogram", "groups", "its groups"), rows)
    what = f"comparisons on {places(studies)}"
    claim("the PUD of sub-groups of MBCT's bins is closer to 1 than of a histogram's (figure 6)", holds, what)


def figure_7(studies: Sequence[Study]) -> None:
    print("## Figure 7: each split of the first tree, the local and the global loss\n")
    holds: dict[str, bool] = {}
    for one in studies:
        (splits,) = (each for each in one.mbct(trees=1).explain(["0", "1"]) if each.title == "splits")
        before = after = None
        fell = 0
        for split in splits.rows:
            after = float(str(split[6]))
            fell += before is None or after < before
            before = after
        top = [row for row in splits.rows if str(row[1]).count(" and ") < 2][:6]
        print(f"{one.name}: {len(splits.rows)} splits, the first of them\n")
        table(
            ("at", "by", "branches", "local before", "after", "all rows"),
            ([str(row[1]), str(row[2]), str(row[3]), *(f"{row[at]:.5f}" for at in (4, 5, 6))] for row in top),
        )
        print(f"The loss of all rows falls at {fell} of {len(splits.rows)} splits, to {after}.\n")
        holds[one.name] = fell == len(splits.rows)
    claim("lowering the local loss lowers the global one, split by split (figure 7)", holds, places(studies))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="california alone")
    given = parser.parse_args()
    warnings.simplefilter("error")
    print("# MBCT\n")
    names = ("california",) if given.quick else DATA
    studies = [study(given.folder, name, model) for name in names for model in MODELS]
    table_2(studies)
    figure_4(studies)
    figure_5(studies if given.quick else studies[:4])
    figure_6(studies)
    figure_7([one for one in studies if one.name.endswith("catboost")])


if __name__ == "__main__":
    main()
