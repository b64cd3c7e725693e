"""The tables, figures and claims of MBCT (Huang et al. 2022, sections 5.4 and 5.5) on prediction files.

``python benchmarks/papers/mbct.py FOLDER [--quick]`` writes Markdown. FOLDER holds ``NAME.MODEL.cal.parquet`` and
``NAME.MODEL.test.parquet`` for adult, california and diabetes130, with the models catboost and mlp. Everything is
fitted on the first and judged on the second.

MBCT is ``--preset paper``, otherwise than in the paper with a fiftieth of the rows as beta: the files are smaller than
the paper's. As in the paper, the bins of MVCE hold beta rows. ``calcli's default`` is what `calcli fit --method mbct`
gives; the paper knows nothing of it. The simulation of section 5.3 has a benchmark of its own, `mbct_simulation.py`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

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
SEED = 0


@dataclass(frozen=True)
class Study:
    """The predictions of one model on one data set, and what calibrators make of them.

    `other` is the score of the other model for the test rows.
    """

    name: str
    cal: Batch
    test: Batch
    other: FloatArray
    beta: float
    scores: dict[str, FloatArray]

    def numbers(self, prob: FloatArray, bin_size: float | None = None) -> dict[str, float]:
        """MVCE and its floor, AUC and log-loss of the test rows."""
        chosen = [metrics.find(name) for name in ("mvce", "auc", "nll")]
        found = metrics.measure(chosen, Scored(self.test.labels, prob), Options(bin_size=bin_size or self.beta))
        values = {name: one.value for name, one in found.items()} | {"floor": found["mvce"].floor}
        return {name: float("nan") if value is None else value for name, value in values.items()}

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
    one.scores[RAW] = sigmoid(test.score)
    for said, method in BASELINES.items():
        row = catalog.find(method)
        one.scores[said] = calibrator.fit(row, cal, row.resolve({}), seed=SEED).predict(test)
    one.scores[SINGLE] = one.mbct(trees=1).predict(test)
    one.scores[FULL] = one.mbct().predict(test)
    row = catalog.find("mbct")
    one.scores[DEFAULT] = calibrator.fit(row, cal, row.resolve({}), seed=SEED).predict(test)
    return one


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print(f"| {' | '.join(header)} |\n| --- |{' --: |' * (len(header) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def claim(said: str, holds: Sequence[tuple[str, bool]]) -> None:
    """A statement of the paper, and where it does not hold."""
    wrong = [where for where, held in holds if not held]
    word = "It holds here." if not wrong else f"It fails in {len(wrong)} of {len(holds)}: {', '.join(wrong)}."
    print(f"**The paper: {said}.** {word}\n", flush=True)


def table_2(studies: Sequence[Study]) -> None:
    print("## Table 2: MVCE with bins of beta rows, AUC, and log-loss\n")
    found = {one.name: {name: one.numbers(prob) for name, prob in one.scores.items()} for one in studies}
    for one in studies:
        rows = found[one.name]
        print(f"{one.name}, {len(one.cal):,} rows to fit, beta {one.beta:.0f}\n")
        shown = ("mvce", "floor", "auc", "nll")
        table(
            ("", "MVCE", "its floor", "AUC", "NLL"),
            ([name, *(f"{row[key]:.4f}" for key in shown)] for name, row in rows.items()),
        )
    others = (RAW, *BASELINES)
    for key, sign in (("mvce", -1), ("auc", 1)):

        def better(row: dict[str, dict[str, float]], name: str, than: Iterable[str]) -> bool:
            return all(sign * (row[name][key] - row[other][key]) > 0 for other in than)  # noqa: B023

        what = key.upper()
        claim(f"MBCT has the best {what}", [(name, better(row, FULL, others)) for name, row in found.items()])
        claim(f"boosting improves {what}", [(name, better(row, FULL, [SINGLE])) for name, row in found.items()])
        if key == "auc":
            claim(
                "even without boosting MBCT has the best AUC",
                [(name, better(row, SINGLE, others)) for name, row in found.items()],
            )
    print("The MVCE of a calibrated score is its floor, not 0; differences much smaller than the floor are chance.\n")


def figure_4(studies: Sequence[Study]) -> None:
    print("## Figure 4: MVCE minus that of MBCT, by the size of the bins\n")
    holds: list[tuple[str, bool]] = []
    for one in studies:
        print(f"{one.name}\n")
        sizes = [len(one.test) / share for share in SHARES]
        own = [one.numbers(one.scores[FULL], size)["mvce"] for size in sizes]
        rows, lowest = [], []
        for name in (RAW, *BASELINES):
            gaps = [one.numbers(one.scores[name], size)["mvce"] - at for size, at in zip(sizes, own, strict=True)]
            rows.append([name, *(f"{gap:+.5f}" for gap in gaps)])
            lowest.append(min(gaps))
        table(("", *(f"{size:.0f} rows" for size in sizes)), rows)
        holds.append((one.name, min(lowest) > 0))
    claim("MBCT is below all baselines for all sizes", holds)


def figure_5(studies: Sequence[Study]) -> None:
    print("## Figure 5: the loss that a split must lower\n")
    names = [f"{column}, {said}" for column in ("MVCE", "AUC") for said in LOSSES.values()]
    rows, holds = [], []
    for one in studies:
        found = {loss: one.numbers(one.mbct(split_loss=loss, trees=2).predict(one.test)) for loss in LOSSES}
        rows.append([one.name, *(f"{found[loss][key]:.4f}" for key in ("mvce", "auc") for loss in LOSSES)])
        for form in ("mvce", "mvce-sampled"):
            for key, sign in (("mvce", 1), ("auc", -1)):
                worst = min(sign * (found[other][key] - found[form][key]) for other in ("ece", "ece-sweep"))
                holds.append((f"{one.name} {key.upper()} of {LOSSES[form]}", worst > 0))
    table(("", *names), rows)
    print("Two trees each: these losses need the rows of every split, not sums of them.\n")
    claim("splits by MVCE are better than by ECE and ECE sweep", holds)


def leaves_of(fitted: calibrator.FittedMethod, batch: Batch) -> IntArray:
    """In which leaf of its only tree each row is."""
    arrays = fitted.state.arrays

    def below(start: str) -> dict[str, Any]:
        return {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}

    forest = Forest.from_arrays(kernels.ODDS, below("tree/"))
    place = np.zeros(len(batch))
    numbered = replace(forest, pattern=np.arange(len(forest.pattern), dtype=np.float64))
    numbered.calibrate(Coder.from_arrays(below("feature/")).encode(batch), place)
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
    rows, holds = [], []
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
            far, other = (float(np.abs(np.log(pud)).mean()) for pud in (tree, histogram))
            rows.append([one.name, said, str(many), f"{far:.3f}", f"{other:.3f}", str(len(tree)), str(len(histogram))])
            if said != "by chance":
                holds.append((f"{one.name} {said}", far < other))
    table(("", "quarters", "bins", "MBCT", "histogram", "groups", "its groups"), rows)
    claim("sub-groups of MBCT's bins are closer to 1", holds)


def figure_7(studies: Sequence[Study]) -> None:
    print("## Figure 7: each split of the first tree, the local and the global loss\n")
    holds: list[tuple[str, bool]] = []
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
        holds.append((one.name, fell == len(splits.rows)))
    claim("lowering the local loss lowers the global one, split by split", holds)


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
