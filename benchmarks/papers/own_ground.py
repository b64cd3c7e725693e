"""RECAL, CCL and heterogeneous calibration on simulated rows of the kind that their papers are about.

``python benchmarks/papers/own_ground.py recal|ccl|heterogeneous [--seeds N] [--quick]`` writes Markdown. In each, the
strength of what the method is for rises from none (`simulated.Related`, `Clustered`, `Overlooked`). The truth is known:
``divergence`` is that of the predictions from it, in thousandths, and ECE, CECE and AUC are those that all labels
together expect. Numbers are means over populations. Everything is fitted on calibration rows, and measured on others.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from claims import claim
from simulated import Clustered, Overlooked, Related, Rows

from calcli.batch import NO_SIDE_INPUTS, FloatArray, IntArray, SideInputs
from calcli.methods import calibrator, catalog
from calcli.metrics.base import Options

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
TEST = 10_000
PAPER_ECE = Options(convention="guo")
"""RECAL's: of the predicted class."""


@dataclass(frozen=True)
class Way:
    """A way to calibrate, as the tables call it."""

    title: str
    method: str
    preset: str | None = None
    params: Mapping[str, object] = field(default_factory=dict)

    def predict(self, cal: Rows, test: Rows, sides: SideInputs = NO_SIDE_INPUTS) -> FloatArray:
        row = catalog.find(self.method)
        mine = sides if self.preset == "paper" else NO_SIDE_INPUTS
        fitted = calibrator.fit(row, cal.batch, row.resolve(self.params, self.preset), sides=mine, seed=0)
        return fitted.predict(test.batch)


RAW, TEMPERATURE, PLATT = Way("raw", "identity"), Way("temperature", "temperature"), Way("platt", "platt")

SHOWN = {"divergence": "divergence from the truth, thousandths", "cece_ada": "CECE (AdaECE)"}

Numbers = dict[str, dict[str, float]]
"""By metric and by way."""


def means(runs: Sequence[Numbers]) -> Numbers:
    return {
        name: {title: float(np.mean([run[name][title] for run in runs])) for title in ways}
        for name, ways in runs[0].items()
    }


def numbers(
    test: Rows, probs: Mapping[str, FloatArray], names: Sequence[str], options: Options, cluster: IntArray | None = None
) -> Numbers:
    found = {title: test.measured(prob, names, options, cluster) for title, prob in probs.items()}
    divergence = {title: 1000 * test.divergence(prob) for title, prob in probs.items()}
    return {"divergence": divergence} | {name: {title: each[name] for title, each in found.items()} for name in names}


def show(found: Mapping[float, Numbers]) -> None:
    """A table for each metric: strengths down, ways across."""
    first = next(iter(found.values()))
    for name, ways in first.items():
        digits = 2 if name == "divergence" else 4
        print(f"| {SHOWN.get(name, name.upper())}, by strength | {' | '.join(ways)} |\n| --- |{' --: |' * len(ways)}")
        for strength, each in found.items():
            print(f"| {strength:g} | {' | '.join(f'{value:.{digits}f}' for value in each[name].values())} |")
        print(flush=True)


def lower(found: Mapping[float, Numbers], name: str, one: str, others: Sequence[str], sign: int = 1) -> dict[str, bool]:
    """By strength, whether a metric of one way is lower (higher with the sign -1) than of others."""
    return {
        f"{strength:g}": all(sign * (each[name][one] - each[name][other]) < 0 for other in others)
        for strength, each in found.items()
    }


def begins(held: Mapping[str, bool]) -> str:
    """From which strength on something is so."""
    after = [strength for place, strength in enumerate(held) if all(list(held.values())[place:])]
    return f"from strength {after[0]} on" if after else "at no strength"


KINDS_OF_ERROR = {
    "confidence": "the base model's confidence differs by region",
    "level": "the base model misses an effect of the region",
    "noise": "related rows' scores say more than the row's own",
}


def recal(strengths: Sequence[float], seeds: int, rows: int) -> None:
    print("# RECAL where errors follow a relation\n")
    print(
        f"{rows:,} calibration rows in 64 regions, related by the region (`column:region`). Otherwise than in the\n"
        "paper the relation is given, there are two classes, and the base model is simulated. `heterogeneous` has the\n"
        "region as a feature, and learns from the labels of related rows; RECAL reads their scores only.\n"
    )
    region = {"relation": "column:region"}
    ways = (
        RAW, TEMPERATURE, PLATT, Way("RECAL-MLP", "recal", "paper", region | {"backbone": "mlp"}),
        Way("RECAL, paper", "recal", "paper", region), Way("RECAL, default", "recal", None, region),
        Way("heterogeneous", "heterogeneous"),
    )  # fmt: skip
    for errs, said in KINDS_OF_ERROR.items():
        found = {}
        for strength in strengths:
            runs = []
            for seed in range(seeds):
                population = Related(strength, errs, seed)  # type: ignore[arg-type]
                cal, test = population.rows(rows, 1), population.rows(TEST, 2)
                runs.append(
                    numbers(test, {one.title: one.predict(cal, test) for one in ways}, ("ece", "auc"), PAPER_ECE)
                )
            found[strength] = means(runs)
        print(f"## {errs.capitalize()}: {said}\n")
        show(found)
        what = f"strengths, where {said}"
        claim(
            "RECAL has a lower ECE than temperature scaling (table 2)",
            lower(found, "ece", "RECAL, paper", ["temperature"]), what,
        )  # fmt: skip
        claim(
            "RECAL has a lower ECE than with an MLP for the GCN (table 2)",
            lower(found, "ece", "RECAL, paper", ["RECAL-MLP"]), what,
        )  # fmt: skip
        for title in ("RECAL, paper", "RECAL, default"):
            nearer = lower(found, "divergence", title, ["temperature", "platt", "RECAL-MLP"])
            print(f"{title} is nearer to the truth than temperature, Platt and the MLP {begins(nearer)}.\n")


def ccl(strengths: Sequence[float], seeds: int, rows: int) -> None:
    print("# CCL where clusters differ in calibration\n")
    print(
        f"{rows:,} calibration rows of 12 sub-populations, found as 12 clusters of the features. CECE is over the\n"
        "true sub-populations. Otherwise than in the paper: no SHAP values, because the base model is simulated.\n"
    )
    inner = ("platt", "beta", "temperature", "isotonic")
    plain = {"embedding": "features", "clusters": 12}
    ways = [RAW]
    for method in inner:
        ways += [Way(method, method), Way(f"CCL-{method}", "ccl", "paper", plain | {"inner": method})]
    ways.append(Way("ccl, default", "ccl", None, plain))
    found: dict[float, Numbers] = {}
    for strength in strengths:
        runs = []
        for seed in range(seeds):
            population = Clustered(strength, seed)
            (cal, _), (test, kind) = population.rows(rows, 1), population.rows(TEST, 2)
            probs = {one.title: one.predict(cal, test) for one in ways}
            runs.append(numbers(test, probs, ("cece_ada", "ece", "auc"), Options(binning="mass"), kind))
        found[strength] = means(runs)
    show(found)
    what = "strengths and methods, where sub-populations differ in calibration"

    def held(name: str, sign: int = 1) -> dict[str, bool]:
        return {
            f"{method} at {strength}": better
            for method in inner
            for strength, better in lower(found, name, f"CCL-{method}", [method], sign).items()
            if strength != "0"
        }

    falls, rises = held("cece_ada"), held("auc", -1)
    claim("a calibrator for each cluster lowers the CECE (lemma 2.3)", falls, what)
    claim(
        "where the CECE falls, the AUC rises (lemma 2.4)",
        {where: rises[where] for where in falls if falls[where]},
        what,
    )
    claim("CCL has a lower ECE than the unified method (section 3.2)", held("ece"), what)
    alike = {
        method: lower(found, "cece_ada", f"CCL-{method}", [method])["0"]
        for method in inner if 0.0 in found
    }  # fmt: skip
    claim("a calibrator for each cluster lowers the CECE (lemma 2.3)", alike, "methods, where clusters are alike")
    for title in ("CCL-platt", "ccl, default"):
        nearer = lower(found, "divergence", title, ["platt", "beta", "isotonic"])
        print(f"{title} is nearer to the truth than all unified methods {begins(nearer)}.\n")


def heterogeneous(strengths: Sequence[float], seeds: int, rows: int) -> None:
    print("# Heterogeneous calibration where a network overlooks a category\n")
    print(
        f"{rows:,} calibration rows, and as many training rows, on which the paper's tree is grown. Otherwise than in\n"
        "the paper the network is simulated: what it has learned of the category, and its over-confidence, are known.\n"
    )
    ways = (
        RAW, PLATT, Way("isotonic", "isotonic"), Way("HC, paper", "heterogeneous", "paper"),
        Way("forest, default", "heterogeneous"),
    )  # fmt: skip
    rises: dict[str, bool] = {}
    gains: list[list[float]] = []
    for steep in (1.0, 2.0):
        found = {}
        for strength in strengths:
            runs = []
            for seed in range(seeds):
                population = Overlooked(strength, steep, seed=seed)
                train, cal, test = (population.rows(count, at) for at, count in enumerate((rows, rows, TEST)))
                sides = SideInputs({"partition-data": train.batch})
                probs = {one.title: one.predict(cal, test, sides) for one in ways}
                runs.append(numbers(test, probs, ("auc", "ece"), Options()))
            found[strength] = means(runs)
        print(f"## The network's log-odds are {steep:g} times what they should be\n")
        show(found)
        higher = lower(found, "auc", "HC, paper", ["raw"], -1)
        rises |= {f"{strength} at {steep:g} times": better for strength, better in higher.items()}
        gains.append([each["auc"]["HC, paper"] - each["auc"]["raw"] for each in found.values()])
        for title in ("HC, paper", "forest, default"):
            nearer = lower(found, "divergence", title, ["platt", "isotonic"])
            print(f"{title} is nearer to the truth than all global methods {begins(nearer)}.\n")
    what = "strengths and steepnesses of a network that overlooks a category"
    claim("calibrating the leaves of a tree raises the AUC (tables 1 and 2)", rises, what)
    apart = max(abs(one - other) for one, other in zip(*gains, strict=True))
    print(f"The gains in AUC differ by at most {apart:.4f} between the two steepnesses.\n")


PARTS: dict[str, tuple[Callable[[Sequence[float], int, int], None], int]] = {
    "recal": (recal, 3000),
    "ccl": (ccl, 10_000),
    "heterogeneous": (heterogeneous, 10_000),
}
"""Each with its calibration rows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one population, two strengths, fewer rows")
    given = parser.parse_args()
    warnings.simplefilter("error")
    part, rows = PARTS[given.part]
    if given.quick:
        part((0.0, 1.0), 1, rows // 4)
    else:
        part(STRENGTHS, given.seeds, rows)


if __name__ == "__main__":
    main()
