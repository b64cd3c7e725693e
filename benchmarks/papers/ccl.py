"""The tables and the claims of CCL (Lavi, Shapira & Rappoport) on prediction files.

``python benchmarks/papers/ccl.py FOLDER [--quick]`` writes Markdown. FOLDER holds ``NAME.catboost.cal.parquet`` and
``NAME.catboost.test.parquet`` for adult and diabetes130. Everything is fitted on the first and judged on the second.

As in the paper: 40 clusters by k-means on SHAP values, a calibrator for each (``CCL``), the same calibrator on all rows
(``Unified``), CECE in its AdaECE form over the clusters of the test rows, "MSE" a root. Otherwise than in the paper:
the model is CatBoost, and its SHAP values are those of its stand-in, because the files hold predictions and no model;
clusters are learned on the calibration rows alone; nothing is tuned. ``Soft`` is calcli's default, of which the paper
knows nothing. With two classes, Dirichlet calibration is beta calibration, to the bit.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from claims import claim
from scipy.stats import kendalltau, ttest_rel

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, IntArray
from calcli.methods import catalog
from calcli.methods.clusters import explanation, partition
from calcli.methods.clusters.ccl import TAUS, TEMPERATURES, Clustered, Pair
from calcli.methods.clusters.mixture import Inner, Mixture
from calcli.methods.post_processing import PLAIN
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Clusters, Options, Scored
from calcli.metrics.ranking import by_threshold
from calcli.numeric.links import probabilities
from calcli.tables.binding import bind
from calcli.tables.load import load
from calcli.tables.source import open_source

DATA = ("adult", "diabetes130")
PARAMETRIC = ("platt", "temperature", "beta", "dirichlet")
METHODS = (*PARAMETRIC, "isotonic", "histogram")
UNIFIED_ONLY = ("histogram-platt",)
COLUMNS = ("CECE", "ECE", "AUC", "ACC", "CE", "RMSE")
NAMES = ("cece_ada", "ece", "auc", "accuracy", "nll", "brier")
CLUSTERS, SEED = 40, 0
LIKELY = 1e-5
"""The paper's p-value."""
METHODS_ON_FILES = "methods on prediction files"
BASE, RATES = "Base classifier", "Label rate of the cluster"


@dataclass(frozen=True)
class Score:
    """Predictions for the calibration rows, on which they were fitted, and for the test rows."""

    name: str
    cal: FloatArray
    test: FloatArray


@dataclass(frozen=True)
class Study:
    """One data set: its rows, their clusters, and every score."""

    name: str
    cal: Batch
    test: Batch
    cal_cluster: IntArray
    cluster: IntArray
    feature_cluster: IntArray
    clusters: int
    scores: dict[str, Score]

    def scored(self, score: str, *, by: IntArray | None = None) -> Scored:
        """The test rows, over the clusters of SHAP values or over others."""
        place = self.cluster if by is None else by
        return Scored(self.test.labels, self.scores[score].test, None, Clusters(place, int(place.max()) + 1, "test"))

    def numbers(self, score: str, *, rows: IntArray | None = None, by: IntArray | None = None) -> dict[str, float]:
        """The columns of the paper's tables."""
        scored = self.scored(score, by=by)
        scored = scored if rows is None else scored.take(rows)
        found = metrics.measure([metrics.find(name) for name in NAMES], scored, Options(binning="mass"))
        values = [found[name].value for name in NAMES]
        values[-1] = values[-1] ** 0.5
        return dict(zip(COLUMNS, values, strict=True))

    def families(self) -> Iterator[tuple[str, str, str]]:
        """A method's name, and those of its unified and its clustered score."""
        for method in METHODS:
            yield method, f"{method} Unified", f"CCL-{method}"


def rows_of(path: Path, share: float) -> Batch:
    with open_source(path) as source:
        batch = load(source, bind(source), features=True).batch
    return batch.take(slice(round(share * len(batch))))


def study(folder: Path, name: str, *, quick: bool) -> Study:
    share = 0.3 if quick else 1.0
    cal, test = (rows_of(folder / f"{name}.catboost.{part}.parquet", share) for part in ("cal", "test"))
    row = catalog.find("ccl")
    params = row.resolve({"clusters": CLUSTERS})
    clusters, near = partition.fit(cal, NO_SIDE_INPUTS, params, SEED)
    of_features, _ = partition.fit(
        cal, NO_SIDE_INPUTS, row.resolve({"embedding": "features", "clusters": CLUSTERS}), SEED
    )
    there = clusters.near(test)
    bare_cal, bare_test = (Batch(batch.score, batch.label, batch.weight) for batch in (cal, test))
    found = [Score(BASE, probabilities(cal.score), probabilities(test.score))]
    for method in (*METHODS, *UNIFIED_ONLY):
        inner = Inner(catalog.find(method), SEED, least=0.0, prior=0.0)
        unified = inner.fit(bare_cal)
        found.append(Score(f"{method} Unified", unified.predict(bare_cal), unified.predict(bare_test)))
        if method in UNIFIED_ONLY:
            continue
        hard = [partition.shares(each, 0.0, clusters.spread) for each in (near, there)]
        mixture = Mixture.fit(inner, bare_cal, hard[0], len(clusters))
        prob = [mixture.predict(*pair, 0.0) for pair in zip((bare_cal, bare_test), hard, strict=True)]
        # A cluster of one label says 0 or 1; as all of calcli's output that can, it is mixed with 1/2, by 1/(n + 1).
        found.append(Score(f"CCL-{method}", *(PLAIN.apply(each, len(cal), 2, reaches_ends=True) for each in prob)))
        if quick and method not in {"platt", "temperature"}:
            continue
        pairs = tuple(Pair(tau, temperature) for temperature in TEMPERATURES for tau in TAUS)
        rows = Clustered(cal, clusters, near, inner, pairs, "shap", own_model=False)
        chosen = rows.tried(rows.splits(SEED)).least()
        soft = [partition.shares(each, chosen.temperature, clusters.spread) for each in (near, there)]
        mixture = Mixture.fit(inner, bare_cal, soft[0], len(clusters))
        prob = [mixture.predict(*pair, chosen.tau) for pair in zip((bare_cal, bare_test), soft, strict=True)]
        found.append(Score(f"Soft-{method}", *prob))
    cal_cluster, cluster = near.place[:, 0], there.place[:, 0]
    rate = np.bincount(cal_cluster, cal.labels, CLUSTERS) / np.maximum(np.bincount(cal_cluster, minlength=CLUSTERS), 1)
    found.append(Score(RATES, rate[cal_cluster], rate[cluster]))
    feature_cluster = of_features.near(test, 1).place[:, 0]
    by_name = {score.name: score for score in found}
    return Study(name, cal, test, cal_cluster, cluster, feature_cluster, len(clusters), by_name)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"| {' | '.join(header)} |\n| --- |{' --: |' * (len(header) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def shown(values: dict[str, float]) -> list[str]:
    return [f"{value:.4f}" for value in values.values()]


def table_2(studies: Sequence[Study]) -> None:
    print("## Table 2: the best parametric calibration by CECE, the same unified, and the base classifier\n")
    rows = []
    for one in studies:
        best = min(PARAMETRIC, key=lambda method: one.numbers(f"CCL-{method}")["CECE"])
        three = sorted((f"CCL-{best}", f"{best} Unified", BASE), key=lambda name: one.numbers(name)["CECE"])
        rows += [[one.name, name, *shown(one.numbers(name))] for name in three]
    table(("data", "calibration", *COLUMNS), rows)


def table_3(one: Study) -> None:
    print(f"## Table 3, {one.name}: every method, by CECE\n")
    found = {name: one.numbers(name) for name in one.scores}
    others = {name: one.numbers(name, by=one.feature_cluster)["CECE"] for name in one.scores}
    order = sorted(found, key=lambda name: found[name]["CECE"])
    columns = (*COLUMNS, "CECE, clusters of features")
    table(("method", *columns), [[name, *shown(found[name]), f"{others[name]:.4f}"] for name in order])
    scored = one.scored(BASE)
    floor = metrics.measure([metrics.find("cece_ada")], scored, Options())["cece_ada"].floor
    print(f"A calibrated score would show a CECE of {floor:.4f} on these rows; differences below that are chance.\n")


def table_4(one: Study) -> None:
    print(f"## Table 4, {one.name}: the error rate of the accepted rows by rejection threshold\n")
    names = [
        BASE,
        *(name for method in PARAMETRIC[:3] for name in (f"{method} Unified", f"CCL-{method}")),
        "Soft-platt",
    ]
    curves = {name: by_threshold(one.scored(name))[:10] for name in names}
    rows = []
    for place in range(10):
        cells = [curves[name][place] for name in names]
        said = ["n/a" if cell.error is None else f"{cell.error:.4f} ({cell.n / len(one.test):.0%})" for cell in cells]
        rows.append([f"{cells[0].at:.1f}", *said])
    table(("threshold", *names), rows)
    print("In brackets: the share of rows that are accepted, which differs between scores at the same threshold.\n")


def improved(studies: Sequence[Study]) -> None:
    print("## Claim 1 (2.5, lemma 2.1): the ECE of every cluster falls; the share where it does\n")
    print("The paper: Platt 82.28 %, Dirichlet 83.23 %, beta 86.36 %, temperature 100 % of the rows of WiDS.\n")
    rows = []
    for one in studies:
        for method, unified, clustered in one.families():
            cells = [method]
            sides = ((one.cal, one.cal_cluster, "cal"), (one.test, one.cluster, "test"))
            for batch, cluster, side in sides:
                probs = {"raw": getattr(one.scores[BASE], side), "unified": getattr(one.scores[unified], side)}
                probs["ccl"] = getattr(one.scores[clustered], side)
                known, _ = explanation.of_clusters(batch, cluster, one.clusters, np.zeros_like(cluster), probs)
                lower = (
                    known[:, explanation.COLUMNS.index("ece_ccl")] <= known[:, explanation.COLUMNS.index("ece_unified")]
                )
                cells += [f"{lower.mean():.0%}", f"{explanation.improved(known, 'unified'):.2%}"]
            rows.append([one.name, *cells])
    header = ("data", "method", "clusters, fitted rows", "rows, fitted rows", "clusters, test", "rows, test")
    table(header, rows)
    held = {f"{row[1]} on {row[0]}": row[2] == "100%" for row in rows}
    claim("the ECE falls in every cluster of the rows that were fitted on (lemma 2.1)", held, METHODS_ON_FILES)


def t_tests(studies: Sequence[Study], draws: int) -> None:
    print(f"## Paired t-tests, {draws} draws of 30 % of the test rows: CCL minus unified\n")
    print("The p-values are computed as in the paper, and are too small because the draws overlap.\n")
    rows = []
    falls: dict[str, bool] = {}
    rises: dict[str, bool] = {}
    for one in studies:
        rng = np.random.default_rng(SEED)
        taken = [rng.choice(len(one.test), round(0.3 * len(one.test)), replace=False) for _ in range(draws)]
        for method, unified, clustered in one.families():
            cells = [one.name, method]
            for column in ("ECE", "AUC", "CECE"):
                here, there = (
                    np.array([one.numbers(name, rows=draw)[column] for draw in taken]) for name in (clustered, unified)
                )
                p, change = ttest_rel(here, there).pvalue, (here - there).mean()
                cells.append(f"{change:+.4f} (p {p:.0e})")
                found = falls if column == "ECE" else rises if column == "AUC" else {}
                found[f"{method} on {one.name}"] = p < LIKELY and (change < 0) == (column == "ECE")
            rows.append(cells)
    table(("data", "method", "ECE", "AUC", "CECE"), rows)
    claim(f"CCL has a lower ECE than the unified method, p < {LIKELY:.0e} (section 3.2)", falls, METHODS_ON_FILES)
    claim(f"CCL has a higher AUC than the unified method, p < {LIKELY:.0e} (section 3.2)", rises, METHODS_ON_FILES)


def claims(studies: Sequence[Study]) -> None:
    print("## Claim 2 (2.6, lemmas 2.3 and 2.4): a lower CECE, and therefore a higher AUC\n")
    rows = []
    for one in studies:
        for method, unified, clustered in one.families():
            before, after = one.numbers(unified), one.numbers(clustered)
            lower, higher = after["CECE"] < before["CECE"], after["AUC"] > before["AUC"]
            within = np.mean([_within(one, clustered, unified, cluster) for cluster in _mixed(one)])
            verdict = ("holds" if higher else "fails") if lower else "says nothing"
            rows.append([one.name, method, f"{after['CECE'] - before['CECE']:+.4f}",
                         f"{after['AUC'] - before['AUC']:+.4f}", verdict, f"{within:+.5f}"])  # fmt: skip
    table(("data", "method", "CECE, CCL minus unified", "AUC", "lemma 2.4", "mean AUC within clusters"), rows)
    falls = {f"{row[1]} on {row[0]}": float(row[2]) < 0 for row in rows}
    claim("a calibrator for each cluster lowers the CECE (lemma 2.3)", falls, METHODS_ON_FILES)
    rises = {f"{row[1]} on {row[0]}": row[4] == "holds" for row in rows if row[4] != "says nothing"}
    claim("where the CECE falls, the AUC rises (lemma 2.4)", rises, METHODS_ON_FILES)
    print(
        "The proof of lemma 2.4 needs the AUC inside a cluster to rise, but an increasing calibration map does not\n"
        "change it. CCL raises the AUC between clusters, and lowers it where a map decreases or has steps.\n"
    )
    print("## Claim 3 (2.7, theorem 2.5): a lower CECE means a higher AUC\n")
    rows = []
    for one in studies:
        names = [name for name in one.scores if not name.startswith("Soft") and name != RATES]
        found = {name: one.numbers(name) for name in names}
        by_features = {name: one.numbers(name, by=one.feature_cluster)["CECE"] for name in names}
        auc = {name: found[name]["AUC"] for name in names}
        for what, error in (
            ("CECE", {name: found[name]["CECE"] for name in names}),
            ("CECE, clusters of features", by_features),
            ("ECE", {name: found[name]["ECE"] for name in names}),
            ("CE", {name: found[name]["CE"] for name in names}),
        ):
            rows.append([one.name, what, *_agreement(error, auc)])
    table(("data", "lower", "pairs with a higher AUC", "Kendall's tau with AUC"), rows)
    orders = {row[0]: "100%" in row[2] for row in rows if row[1] == "CECE"}
    claim("of two methods, that of lower CECE has the higher AUC (theorem 2.5)", orders, "prediction files")
    for one in studies:
        (error, area), (base_error, base_area) = (
            (found["CECE"], found["AUC"]) for found in (one.numbers(RATES), one.numbers(BASE))
        )
        print(
            f"**A counterexample, {one.name}:** the label rate of the cluster has a CECE of {error:.4f} and an AUC of "
            f"{area:.4f}, the base classifier {base_error:.4f} and {base_area:.4f}. On the rows of its fit "
            "the label rate has a CECE of 0, the lowest possible, whatever its AUC.\n"
        )


def _mixed(one: Study) -> list[int]:
    """The clusters with test rows of both labels."""
    rates = [one.test.labels[one.cluster == cluster] for cluster in range(one.clusters)]
    return [cluster for cluster, label in enumerate(rates) if len(set(label.tolist())) == 2]


def _within(one: Study, score: str, versus: str, cluster: int) -> float:
    """How much higher one score's AUC is than another's, among the rows of a cluster."""
    rows = np.flatnonzero(one.cluster == cluster)
    return one.numbers(score, rows=rows)["AUC"] - one.numbers(versus, rows=rows)["AUC"]


def _agreement(error: dict[str, float], auc: dict[str, float]) -> tuple[str, str]:
    """How many pairs of scores are in the order that the theorem says, of those that differ in both."""
    pairs = [(a, b) for a, b in combinations(error, 2) if abs(auc[a] - auc[b]) > 1e-9 and error[a] != error[b]]
    right = sum((error[a] < error[b]) == (auc[a] > auc[b]) for a, b in pairs)
    tau = kendalltau([-error[name] for name in error], [auc[name] for name in error]).statistic
    return f"{right} of {len(pairs)} ({right / len(pairs):.0%})", f"{tau:+.2f}"


def clustering(folder: Path, *, quick: bool) -> None:
    print("## Section 3.2.1: clusters by embedding\n")
    print(
        "The paper, on WiDS: SHAP values give more even sizes than features, more different label rates (variance\n"
        "0.0252 beside 0.0014) and the highest homogeneity (0.282; leaves 0.203, top features 0.129, features 0.045).\n"
    )
    rows = []
    for name in DATA:
        cal = rows_of(folder / f"{name}.catboost.cal.parquet", 0.3 if quick else 1.0)
        for embedding in ("shap", "leaves", "top", "features"):
            for method in ("kmeans",) if quick else ("kmeans", "ward"):
                params = {"embedding": embedding, "clusters": CLUSTERS, "clustering": method}
                clusters, near = partition.fit(cal, NO_SIDE_INPUTS, catalog.find("ccl").resolve(params), SEED)
                cluster, prob = near.place[:, 0], probabilities(cal.score)
                probs = dict.fromkeys(explanation.SCORES, prob)
                known, _ = explanation.of_clusters(cal, cluster, len(clusters), np.zeros_like(cluster), probs)
                size, rate, homogeneity = explanation.of_clustering(cal, cluster, known)
                rows.append([name, embedding, method, f"{size:.3g}", f"{rate:.4f}", f"{homogeneity:.3f}"])
    table(("data", "embedding", "clustering", "variance of sizes", "variance of label rates", "homogeneity"), rows)
    of_name = {(row[0], row[1]): [float(value) for value in row[3:]] for row in rows if row[2] == "kmeans"}
    for said, place, sign in (
        ("more even sizes", 0, -1), ("more different label rates", 1, 1), ("a higher homogeneity", 2, 1)
    ):  # fmt: skip
        held = {name: sign * (of_name[name, "shap"][place] - of_name[name, "features"][place]) > 0 for name in DATA}
        claim(f"clusters of SHAP values have {said} than those of features (section 3.2.1)", held, "prediction files")


def against_platt(studies: Sequence[Study]) -> None:
    print("## Not in the paper: log-loss on the test rows, of the paper's CCL and of calcli's soft default\n")
    rows = []
    for one in studies:
        for method, unified, clustered in one.families():
            values = [one.numbers(name)["CE"] for name in (unified, clustered)]
            soft = f"Soft-{method}"
            values += [one.numbers(soft)["CE"]] if soft in one.scores else []
            changes = [f"{100 * (value / values[0] - 1):+.2f} %" for value in values[1:]]
            rows.append([one.name, method, f"{values[0]:.4f}", *changes, *[""] * (2 - len(changes))])
    table(("data", "method", "unified", "CCL", "soft"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer rows and draws")
    given = parser.parse_args()
    warnings.simplefilter("error")
    print("# CCL and CECE\n")
    print(
        f"{CLUSTERS} clusters, CatBoost as the base classifier; fitted on calibration files, evaluated on test files.\n"
    )
    studies = [study(given.folder, name, quick=given.quick) for name in DATA]
    table_2(studies)
    parts: tuple[Callable[[Study], None], ...] = (table_3, table_4)
    for part in parts:
        for one in studies:
            part(one)
    improved(studies)
    t_tests(studies, 5 if given.quick else 30)
    claims(studies)
    clustering(given.folder, quick=given.quick)
    against_platt(studies)


if __name__ == "__main__":
    main()
