"""How good the methods are that need nothing but the score, beside the same methods of other libraries.

``python benchmarks/quality/score_only.py FOLDER [--million] [--quick]`` writes Markdown. FOLDER holds pairs of
Parquet files ``NAME.cal.parquet`` and ``NAME.test.parquet`` with a column ``label`` (0, 1, ..) and ``logit``, or
``logit_0`` to ``logit_<K-1>``. Every method is fitted on the first file of a pair and measured on the second, at its
defaults. Peers that are not installed are left out. ``--million`` times fits of a million simulated rows as well.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray, IntArray
from calcli.methods import calibrator
from calcli.methods import catalog as methods
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.numeric.links import one_against_rest, probabilities, sigmoid

METRICS = ("nll", "brier", "auc", "ece")

Predict = Callable[[Batch], FloatArray]
Fit = Callable[[Batch], Predict]


@dataclass(frozen=True)
class Case:
    """A pair of files."""

    name: str
    train: Batch
    test: Batch


@dataclass(frozen=True)
class Outcome:
    """What one method did on one case."""

    values: dict[str, float]
    seconds: float


def read(path: Path) -> Batch:
    frame = pl.read_parquet(path)
    columns = ["logit"] if "logit" in frame.columns else [c for c in frame.columns if c.startswith("logit_")]
    score = frame.select(columns).to_numpy().astype(np.float64)
    label = frame["label"].to_numpy().astype(np.int64)
    return Batch(score[:, 0].copy() if len(columns) == 1 else np.ascontiguousarray(score), label)


def cases(folder: Path) -> list[Case]:
    found = sorted(folder.glob("*.cal.parquet"))
    if not found:
        raise SystemExit(f"{folder} holds no *.cal.parquet")
    end = len(".cal.parquet")
    return [Case(p.name[:-end], read(p), read(p.with_name(p.name[:-end] + ".test.parquet"))) for p in found]


def measured(case: Case, fit: Fit) -> Outcome:
    started = time.perf_counter()
    predict = fit(case.train)
    seconds = time.perf_counter() - started
    prob = np.asarray(predict(case.test), dtype=np.float64)
    if not np.isfinite(prob).all():
        return Outcome(dict.fromkeys(METRICS, float("nan")), seconds)
    scored = Scored(case.test.labels, np.clip(prob, 0.0, 1.0))
    values = {}
    for name in METRICS:
        value = metrics.find(name).load()(scored, Options()).value
        values[name] = float("nan") if value is None else value
    return Outcome(values, seconds)


def ours(name: str) -> Fit:
    row = methods.find(name)
    return lambda train: calibrator.fit(row, train, row.resolve()).predict


# Peers. Each makes, from log-odds and labels of two classes or from a table, something that predicts.


def each_against_rest(fit: Callable[[FloatArray, IntArray], Callable[[FloatArray], FloatArray]]) -> Fit:
    """A peer for two classes, one-vs-rest for more as all of these libraries do it."""

    def whole(train: Batch) -> Predict:
        if train.classes == 2:
            predict = fit(train.score, train.labels)
            return lambda test: predict(test.score)
        parts = [
            fit(one_against_rest(train.score, k), (train.labels == k).astype(np.int64)) for k in range(train.classes)
        ]

        def predict_all(test: Batch) -> FloatArray:
            prob = np.column_stack([part(one_against_rest(test.score, k)) for k, part in enumerate(parts)])
            total = prob.sum(axis=1, keepdims=True)
            return np.where(total > 0, prob / np.where(total > 0, total, 1.0), probabilities(test.score))

        return predict_all

    return whole


def table(batch: Batch) -> FloatArray:
    prob = probabilities(batch.score)
    return prob if prob.ndim == 2 else np.column_stack([1.0 - prob, prob])


def on_tables(make: Callable[[], object], fit: str = "fit", predict: str = "predict_proba") -> Fit:
    """A peer with an interface like scikit-learn's on tables of probabilities."""

    def whole(train: Batch) -> Predict:
        peer = make()
        getattr(peer, fit)(table(train), train.labels)

        def predict_all(test: Batch) -> FloatArray:
            prob = np.asarray(getattr(peer, predict)(table(test)))
            return prob[:, 1] if test.classes == 2 else prob

        return predict_all

    return whole


def scikit_learn() -> dict[str, Fit]:
    from sklearn import calibration
    from sklearn.isotonic import IsotonicRegression

    def sigmoids(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        return calibration._SigmoidCalibration().fit(z, label).predict

    def isotonic(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        peer = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(sigmoid(z), label)
        return lambda at: peer.predict(sigmoid(at))

    found = {"platt": each_against_rest(sigmoids), "isotonic": each_against_rest(isotonic)}
    if hasattr(calibration, "_TemperatureScaling"):

        def temperature(train: Batch) -> Predict:
            peer = calibration._TemperatureScaling().fit(table(train), train.labels)
            return lambda test: peer.predict(table(test))[:, 1] if test.classes == 2 else peer.predict(table(test))

        found["temperature"] = temperature
    return found


def netcal() -> dict[str, Fit]:
    from netcal.binning import BBQ, HistogramBinning, IsotonicRegression
    from netcal.scaling import BetaCalibration, LogisticCalibration, TemperatureScaling

    def binary(make: Callable[[], object]) -> Fit:
        def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
            peer = make().fit(sigmoid(z), label)  # type: ignore[attr-defined]
            return lambda at: np.asarray(peer.transform(sigmoid(at))).reshape(len(at))

        return each_against_rest(fit)

    return {
        "platt": binary(LogisticCalibration),
        "temperature": binary(TemperatureScaling),
        "beta": binary(BetaCalibration),
        "isotonic": binary(IsotonicRegression),
        "histogram": binary(lambda: HistogramBinning(bins=15)),  # of equal width: all that it offers
        "bbq": binary(BBQ),
    }


def probmetrics() -> dict[str, Fit]:
    from probmetrics.calibrators import get_calibrator
    from probmetrics.calibrators.logistic import MatrixScalingCalibrator, VectorScalingCalibrator

    def binary(name: str) -> Fit:
        def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
            def pair(at: FloatArray) -> FloatArray:
                return np.column_stack([sigmoid(-at), sigmoid(at)])

            peer = get_calibrator(name).fit(pair(z), label)
            return lambda at: np.asarray(peer.predict_proba(pair(at)))[:, 1]

        return each_against_rest(fit)

    return {
        "platt": binary("affine-scaling"),
        "temperature": on_tables(lambda: get_calibrator("temp-scaling")),
        "quadratic": binary("quadratic-scaling"),
        "sms": on_tables(lambda: get_calibrator("sms")),
        "vector": on_tables(VectorScalingCalibrator),
        "matrix": on_tables(MatrixScalingCalibrator),
    }


def betacal() -> dict[str, Fit]:
    from betacal import BetaCalibration

    def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        peer = BetaCalibration().fit(sigmoid(z), label)
        return lambda at: peer.predict(sigmoid(at))

    return {"beta": each_against_rest(fit)}


def venn_abers() -> dict[str, Fit]:
    from venn_abers import VennAbers

    def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        def pair(at: FloatArray) -> FloatArray:
            return np.column_stack([sigmoid(-at), sigmoid(at)])

        peer = VennAbers()
        peer.fit(pair(z), label)
        return lambda at: np.asarray(peer.predict_proba(pair(at))[0])[:, 1]

    return {"venn-abers": each_against_rest(fit)}


def kumar() -> dict[str, Fit]:
    from calibration.calibrators import PlattBinnerCalibrator

    def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        peer = PlattBinnerCalibrator(num_calibration=len(z), num_bins=30)
        peer.train_calibration(sigmoid(z), label)
        return lambda at: np.asarray(peer.calibrate(sigmoid(at)))

    return {"scaling-binning": each_against_rest(fit)}


PEERS: dict[str, tuple[str, Callable[[], dict[str, Fit]]]] = {
    "scikit-learn": ("sklearn", scikit_learn),
    "netcal": ("netcal", netcal),
    "probmetrics": ("probmetrics", probmetrics),
    "betacal": ("betacal", betacal),
    "venn-abers": ("venn_abers", venn_abers),
    "uncertainty-calibration": ("calibration", kumar),
}


def installed() -> dict[str, dict[str, Fit]]:
    return {name: make() for name, (module, make) in PEERS.items() if importlib.util.find_spec(module)}


# Tables.


def mean(outcomes: list[Outcome], metric: str) -> float:
    return float(np.mean([outcome.values[metric] for outcome in outcomes]))


def summary(results: dict[str, list[Outcome]]) -> list[str]:
    lines = ["| method | NLL | Brier | AUC | ECE (15) | worse than raw | fit, s | longest |", "| --- " * 8 + "|"]
    raw = [outcome.values["nll"] for outcome in results["identity"]]
    for name, outcomes in results.items():
        numbers = " | ".join(f"{mean(outcomes, metric):.5f}" for metric in METRICS)
        worse = sum(outcome.values["nll"] > base for outcome, base in zip(outcomes, raw, strict=True))
        seconds = [outcome.seconds for outcome in outcomes]
        lines.append(f"| {name} | {numbers} | {worse} of {len(raw)} | {sum(seconds):.2f} | {max(seconds):.2f} |")
    return lines


def by_file(results: dict[str, list[Outcome]], given: list[Case]) -> list[str]:
    lines = ["| NLL | " + " | ".join(case.name for case in given) + " |", "| --- " * (len(given) + 1) + "|"]
    for name, outcomes in results.items():
        lines.append(f"| {name} | " + " | ".join(f"{outcome.values['nll']:.4f}" for outcome in outcomes) + " |")
    return lines


def beside(results: dict[str, list[Outcome]], peers: dict[str, dict[str, Fit]], given: list[Case]) -> list[str]:
    """Each peer's version of a method beside ours, on the same files."""
    lines = [
        "| method | peer | NLL ours | peer | ECE ours | peer | better / worse by 0.001 | worst | fit, s ours | peer |",
        "| --- " * 10 + "|",
    ]
    for peer, fits in peers.items():
        for name, fit in fits.items():
            theirs = [measured(case, fit) for case in given]
            own = results[name]
            gaps = [a.values["nll"] - b.values["nll"] for a, b in zip(own, theirs, strict=True)]
            at = int(np.nanargmax(gaps))
            lines.append(
                f"| {name} | {peer} | {mean(own, 'nll'):.5f} | {mean(theirs, 'nll'):.5f} "
                f"| {mean(own, 'ece'):.4f} | {mean(theirs, 'ece'):.4f} "
                f"| {sum(gap < -1e-3 for gap in gaps)} / {sum(gap > 1e-3 for gap in gaps)} "
                f"| {gaps[at]:+.4f} {given[at].name} "
                f"| {sum(o.seconds for o in own):.2f} | {sum(o.seconds for o in theirs):.2f} |"
            )
    return lines


def million(peers: dict[str, dict[str, Fit]], rows: int = 1_000_000, runs: int = 3) -> list[str]:
    """Fits of many rows of two classes, in turn; medians."""
    rng = np.random.default_rng(0)
    truth = rng.normal(-0.4, 1.2, rows)
    batch = Batch(2.2 * truth + 0.7, (rng.random(rows) < sigmoid(truth)).astype(np.int64))
    lines = [f"| fit of {rows:,} rows | calcli, s | peer | peer, s | ratio |", "| --- " * 5 + "|"]
    for name in ("platt", "temperature", "beta", "isotonic", "quadratic", "spline", "venn-abers"):
        fits = {"calcli": ours(name)} | {peer: found[name] for peer, found in peers.items() if name in found}
        seconds: dict[str, list[float]] = {who: [] for who in fits}
        for _ in range(runs):
            for who, fit in fits.items():
                if seconds[who] and seconds[who][0] > 20:
                    continue
                started = time.perf_counter()
                fit(batch)
                seconds[who].append(time.perf_counter() - started)
        medians = {who: statistics.median(found) for who, found in seconds.items()}
        own = medians.pop("calcli")
        lines.extend(
            f"| {name} | {own:.3f} | {who} | {median:.3f} | {own / median:.2f} |"
            for who, median in sorted(medians.items(), key=lambda pair: pair[1])
        )
        if not medians:
            lines.append(f"| {name} | {own:.3f} | | | |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--million", action="store_true", help="time fits of a million simulated rows as well")
    parser.add_argument("--quick", action="store_true", help="two files, and thirty thousand rows for a million")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the peers' own
    given = cases(options.folder)[: 2 if options.quick else None]
    names = [row.name for row in methods.rows() if row.family in {"scaling", "binning"}]
    results = {name: [measured(case, ours(name)) for case in given] for name in names}
    peers = installed()
    parts = [
        (f"Means over {len(given)} files", summary(results)),
        ("Log-loss by file", by_file(results, given)),
        ("Beside the same method of others", beside(results, peers, given)),
    ]
    if options.million:
        parts.append(("Many rows", million(peers, 30_000 if options.quick else 1_000_000)))
    for title, lines in parts:
        print(f"\n## {title}\n")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
