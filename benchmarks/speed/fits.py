"""The processor time of fits and of `apply`, beside what does the same in other packages.

``python benchmarks/speed/fits.py [--only TEXT] [--quick]`` writes Markdown. Every cell is a whole process on one
thread, reading included; only rows whose name contains the text are measured. A small table is fitted before, so that
no fit compiles. Peers that are not installed are left out.

LightGBM trains what `fit --method boost` trains, from the score: 150 rounds on four fifths of the rows, with the loss
of the last fifth after each, which is the report too, and then 150 rounds on all. scikit-learn fits a multinomial
regression on the log-probabilities once, which is `dirichlet` without the choice of its penalty. MCGrad is at its
defaults. `apply` has beside it polars copying the same file.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from auto import THREADS
from foundation import CALCLI, COPY, timed

from calcli.methods.catalog import installed, specs

LEVELS = (20, 100, 500, 1_000, 3_000, 5_000)

LIGHTGBM = """
import sys, lightgbm, numpy, polars
frame = polars.read_parquet(sys.argv[1])
label, score = frame["label"].to_numpy(), frame["logit"].to_numpy()
columns = numpy.column_stack([*(frame[f"c{place}"].cast(int).to_numpy() for place in range(6)), score])
settings = {"objective": "binary", "learning_rate": 0.1, "verbose": -1, "num_threads": 1}
def data(rows):
    return lightgbm.Dataset(
        columns[rows], label[rows], init_score=score[rows], categorical_feature=list(range(6)), free_raw_data=False
    )
rows, held_out = numpy.arange(len(label)), numpy.arange(len(label)) % 5 == 0
lightgbm.train(settings, data(rows[~held_out]), 150, valid_sets=[data(rows[held_out])])
lightgbm.train(settings, data(rows), 150)
"""

MCGRAD = """
import sys, logging, polars
from mcgrad import methods
logging.getLogger("mcgrad").setLevel(logging.ERROR)
frame = polars.read_parquet(sys.argv[1]).with_columns(prob=1 / (1 + (-polars.col("logit")).exp())).to_pandas()
categories = [name for name in frame.columns if name[0] == "c"]
methods.MCGrad().fit(
    frame, "prob", "label", categorical_feature_column_names=categories, numerical_feature_column_names=[]
)
"""

REGRESSION = """
import sys, numpy, polars
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
frame = polars.read_parquet(sys.argv[1])
LogisticRegression(max_iter=1000).fit(log_softmax(frame.drop("label").to_numpy(), axis=1), frame["label"].to_numpy())
"""


def clicks(rows: int) -> pl.DataFrame:
    """Six categories, three of them of thousands of levels, whose effects the score does not know; 5 % positives."""
    rng = np.random.default_rng(rows)
    score = rng.normal(-3.4, 0.9, rows)
    truth, columns = score.copy(), {}
    for place, many in enumerate(LEVELS):
        share = 1 / (np.arange(many) + 1 + many / 50)
        code = np.searchsorted(np.cumsum(share / share.sum()), rng.random(rows)).clip(0, many - 1)
        truth += rng.normal(0, 0.4, many)[code]
        columns[f"c{place}"] = pl.Series(code).cast(pl.String)
    label = (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.int8)
    return pl.DataFrame({**columns, "label": label, "logit": score})


def numbers(rows: int) -> pl.DataFrame:
    """Ten numbers, on two of which the error of the score depends."""
    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, 10))
    score = x[:, :3].sum(axis=1) * 0.8
    truth = 0.7 * score + np.where(x[:, 3] > 0.5, 0.8, -0.3) * x[:, 4]
    label = (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.int8)
    return pl.DataFrame({**{f"x{place}": x[:, place] for place in range(10)}, "label": label, "logit": score})


def many_classes(rows: int, classes: int = 100) -> pl.DataFrame:
    """Over-confident logits of classes in groups of five that are taken for each other."""
    rng = np.random.default_rng(rows)
    label = rng.integers(0, classes, rows)
    score = 1.5 * rng.normal(size=(rows, classes))
    score += 2.0 * (np.arange(classes) // 5 == label[:, None] // 5)
    score[np.arange(rows), label] += 3.5
    return pl.DataFrame({"label": label, **{f"logit_{name}": 2.0 * score[:, name] for name in range(classes)}})


def spent(command: Sequence[str | Path]) -> float:
    """Seconds of user and system of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    timed(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def line(what: str, ours: Sequence[str | Path], peer: str, theirs: Sequence[str | Path], goal: str) -> None:
    """A row of the table; without a peer there is no ratio."""
    seconds = spent(ours)
    beside = spent(theirs) if theirs else 0.0
    cells = f"{peer}, {beside:.1f} s | {seconds / beside:.2f} x" if theirs else " | "
    print(f"| {what} | {seconds:.1f} s | {cells} | {goal} |", flush=True)


class Tables:
    """Files of one folder, each written when it is first asked for."""

    def __init__(self, folder: Path, part: int) -> None:
        self.folder, self._part = folder, part

    def rows(self, rows: int) -> int:
        """A part of them, if quick."""
        return rows // self._part

    def of(self, make: Callable[[int], pl.DataFrame], rows: int) -> Path:
        path = self.folder / f"{make.__name__}_{self.rows(rows)}.parquet"
        if not path.exists():
            make(self.rows(rows)).write_parquet(path)
        return path


def fits(tables: Tables, only: str) -> None:
    """Each fit beside its peer."""
    python, out = sys.executable, tables.folder / "artifact"
    cases = (
        ("boost", 240_000, clicks, (), "LightGBM", LIGHTGBM, "lightgbm", "2 x"),
        ("mbct", 200_000, clicks, (), "MCGrad", MCGRAD, "mcgrad", ""),
        ("mbct", 1_000_000, clicks, (), "MCGrad", MCGRAD, "mcgrad", ""),
        ("ccl", 60_000, numbers, (), "", "", "sys", ""),
        ("sms", 50_000, many_classes, ("--holdout", "none"), "scikit-learn", REGRESSION, "sklearn", "5 s"),
        ("dirichlet", 50_000, many_classes, ("--holdout", "none"), "scikit-learn", REGRESSION, "sklearn", "15 s"),
    )
    for method, rows, make, more, peer, script, package, goal in cases:
        what = " ".join([f"`fit --method {method}", *more]) + f"`, {tables.rows(rows):,} rows"
        if only in what:
            data = tables.of(make, rows)
            theirs = [python, "-c", script, data] if script and importlib.util.find_spec(package) else []
            line(what, [CALCLI, "fit", "-q", "--method", method, *more, data, "-o", out], peer, theirs, goal)


def applies(tables: Tables, only: str) -> None:
    """`apply` of every method that two classes, ten features and no other input are enough for."""
    python, artifact, out = sys.executable, tables.folder / "artifact", tables.folder / "out.parquet"
    rows = tables.rows(1_000_000)
    known, _ = installed({spec: spec.resolve() for spec in specs() if "edges" not in spec.sides}, 10, ())
    for spec in known:
        if only in (what := f"`apply` of {spec.name}, {rows:,} rows"):
            few, data = tables.of(numbers, 60_000), tables.of(numbers, 1_000_000)
            # One calibrator for all of these rows is as good as one a cluster, which would then have nothing to do.
            more = ("--set", "tau=10") if spec.name == "ccl" else ()
            timed([CALCLI, "fit", "-q", "--method", spec.name, *more, "--holdout", "none", few, "-o", artifact])
            copy = [python, "-c", COPY, data, out]
            line(what, [CALCLI, "apply", "-q", artifact, data, "-o", out], "copy", copy, "5 s" * (spec.name == "ccl"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows")
    given = parser.parse_args()
    os.environ.update(dict.fromkeys(THREADS, "1"))
    print("| what | calcli | beside it | ratio | goal |\n| --- | --: | --- | --: | --: |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clicks(2_000).write_parquet(folder / "small.parquet")
        for method in ("mbct", "heterogeneous"):
            timed([CALCLI, "fit", "-q", "--method", method, folder / "small.parquet", "-o", folder / "artifact"])
        tables = Tables(folder, 100 if given.quick else 1)
        fits(tables, given.only)
        applies(tables, given.only)


if __name__ == "__main__":
    main()
