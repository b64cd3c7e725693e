"""How good the methods are that need nothing but the score, beside the same methods of other libraries.

``python benchmarks/quality/score_only.py FOLDER [--million] [--quick]`` writes Markdown. FOLDER holds pairs of
Parquet files ``NAME.cal.parquet`` and ``NAME.test.parquet`` with a column ``label`` (0, 1, ..) and ``logit``, or
``logit_0`` to ``logit_<K-1>``. Every method is fitted on the first file of a pair and measured on the second, at its
defaults. Peers that are not installed are left out. ``--million`` times fits of a million simulated rows as well.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pairs import pairs
from peers import Fit, ours, score_only

from calcli.batch import Batch
from calcli.methods import catalog as methods
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.numeric.links import sigmoid

METRICS = ("nll", "brier", "auc", "ece")


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


def cases(folder: Path) -> list[Case]:
    return [Case(pair.name, *pair.read(features=False)) for pair in pairs(folder)]


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
    names = [row.name for row in methods.specs() if row.family in {"scaling", "binning"}]
    results = {name: [measured(case, ours(name)) for case in given] for name in names}
    peers = score_only()
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
