"""A fitted CCL in numbers and tables: label rates and calibration errors of each cluster, and what sets it apart."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.methods.base import Section
from calcli.methods.clusters.partition import homogeneity
from calcli.numeric import bins
from calcli.numeric.bins import BINS, totals
from calcli.state import Json, State, unnest, unpack_texts

TELLING = 3
"""How many features are named for each cluster."""

SCORES = ("raw", "unified", "ccl")
"""No calibration, the global calibrator, and CCL."""

ERRORS = ("pud", "gap", "ece", "mce", "ada_ece")

COLUMNS = ("rows", "weight", "rate", *(f"{error}_{score}" for error in ERRORS for score in SCORES))

HELD_OUT = "unified and ccl: each row as predicted from the folds that it is not in"


def of_clusters(batch: Batch, cluster: IntArray, count: int, probs: Mapping[str, FloatArray]) -> FloatArray:
    """A row for each cluster, a value for each of `COLUMNS`; NaN where a cluster has no rows.

    `cluster` is the nearest cluster of each row, 0 .. count - 1; `probs` has predictions by the names of `SCORES`. With
    more than two classes, the probability of the predicted class is compared with how often it was right.
    """
    weight = batch.weights
    columns: dict[str, FloatArray] = {
        "rows": totals(cluster, np.ones(len(cluster)), count),
        "weight": totals(cluster, weight, count),
    }
    for score in SCORES:
        label, prob = _as_binary(batch.labels, probs[score])
        sums = _sums(cluster, count, label, prob, weight)
        if score == "raw":
            columns["rate"] = sums[1] / sums[0]
        columns[f"pud_{score}"] = np.divide(sums[2], sums[1], out=np.full(count, np.nan), where=sums[1] > 0)
        columns[f"gap_{score}"] = (sums[2] - sums[1]) / sums[0]
        errors = [_errors_of(label[rows], prob[rows], weight[rows]) for rows in _rows_of(cluster, count)]
        for place, error in enumerate(ERRORS[2:]):
            columns[f"{error}_{score}"] = np.array([of_cluster[place] for of_cluster in errors])
    return np.stack([columns[name] for name in COLUMNS], axis=1)


def _rows_of(cluster: IntArray, count: int) -> list[IntArray]:
    order = np.argsort(cluster, kind="stable")
    return np.split(order, np.searchsorted(cluster[order], np.arange(1, count)))


def _as_binary(label: IntArray, prob: FloatArray) -> tuple[IntArray, FloatArray]:
    """Label and probability of a binary problem; with more classes, whether the predicted one was right."""
    if prob.ndim == 1:
        return label, prob
    return (prob.argmax(axis=1) == label).astype(np.int64), prob.max(axis=1)


def _sums(place: IntArray, count: int, label: IntArray, prob: FloatArray, weight: FloatArray) -> FloatArray:
    """The sums of w, w y and w p for each place; NaN where there are no rows."""
    columns = (weight, weight * label, weight * prob)
    sums = np.stack([totals(place, column, count) for column in columns])
    sums[:, sums[0] == 0.0] = np.nan
    return sums


def _errors_of(label: IntArray, prob: FloatArray, weight: FloatArray) -> tuple[float, float, float]:
    """ECE and MCE over bins of equal width, and the root mean square gap over bins of equal mass (AdaECE)."""
    if not len(label):
        return math.nan, math.nan, math.nan
    share, gap = _gaps(label, prob, weight, bins.width_edges(bins.BINS))
    share_of_mass, gap_of_mass = _gaps(label, prob, weight, bins.mass_edges(prob, bins.BINS, weight))
    return float(share @ gap), float(gap.max()), math.sqrt(float(share_of_mass @ np.square(gap_of_mass)))


def _gaps(label: IntArray, prob: FloatArray, weight: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The share of the weight in each bin that has some, and |mean p - mean y| there."""
    sums = _sums(bins.assign(prob, edges), len(edges) - 1, label, prob, weight)
    mass, positive, predicted = sums[:, ~np.isnan(sums[0])]
    return mass / mass.sum(), np.abs(predicted - positive) / mass


def cece(facts: FloatArray, score: str) -> dict[str, float]:
    """The three forms of CECE of one of `SCORES`, from the facts of `of_clusters`."""
    filled = facts[facts[:, COLUMNS.index("weight")] > 0]
    mass = filled[:, COLUMNS.index("weight")]
    gap = np.abs(filled[:, COLUMNS.index(f"gap_{score}")])
    share = mass / mass.sum()
    return {
        "cece": float(share @ gap),
        "cece_mce": float(gap.max()),
        "cece_ada": math.sqrt(float(share @ np.square(gap))),
    }


def improved(facts: FloatArray, versus: str) -> float:
    """The share of rows in clusters whose ECE is lower with CCL than with another score."""
    weight = facts[:, COLUMNS.index("weight")]
    better = facts[:, COLUMNS.index("ece_ccl")] < facts[:, COLUMNS.index(f"ece_{versus}")]
    return float(weight[better].sum() / weight.sum())


def of_clustering(batch: Batch, cluster: IntArray, facts: FloatArray) -> FloatArray:
    """The variances of sizes and of label rates, and the homogeneity, as in the paper's section 3.2.1."""
    sizes, rates = facts[:, COLUMNS.index("rows")], facts[:, COLUMNS.index("rate")]
    values = (np.var(sizes), np.nanvar(rates), homogeneity(batch.labels, cluster, batch.weights))
    return np.array(values, dtype=np.float64)


def set_apart(batch: Batch, cluster: IntArray, count: int) -> list[str]:
    """The features by which each cluster differs most from all rows, as text.

    A number differs by its mean, in standard deviations; a category by the share of one level, in standard deviations
    of having that level where the share lies halfway between.
    """
    differences: list[list[tuple[float, str]]] = [[] for _ in range(count)]
    for name, column in batch.features.items():
        of_feature = _levels if column.role == "category" else _means
        for place, difference in enumerate(of_feature(name, column, cluster, count, batch.weights)):
            if difference is not None:
                differences[place].append(difference)
    return ["; ".join(text for _, text in sorted(known, reverse=True)[:TELLING]) for known in differences]


def _means(
    name: str, column: Column, cluster: IntArray, count: int, weight: FloatArray
) -> list[tuple[float, str] | None]:
    """The distance of each cluster's mean of a number from that of all rows, and its description; None if unknown."""
    known = np.isfinite(column.values)
    values, mass = column.values[known].astype(np.float64), weight[known]
    if not mass.sum() > 0:
        return [None] * count
    unit = float(np.abs(values).max()) or 1.0  # large numbers would overflow when squared
    values = values / unit
    mean = float(np.average(values, weights=mass))
    spread = math.sqrt(float(np.average(np.square(values - mean), weights=mass)))
    inside = totals(cluster[known], mass, count)
    sums = totals(cluster[known], mass * values, count)
    if not spread > 0:
        return [None] * count
    means = np.divide(sums, inside, out=np.full(count, mean), where=inside > 0)
    show = _percent if column.role == "boolean" else "{:.4g}".format
    return [
        (abs(float(inner) - mean) / spread, f"{name} {show(unit * float(inner))} (all {show(unit * mean)})")
        if total > 0
        else None
        for inner, total in zip(means, inside, strict=True)
    ]


def _levels(
    name: str, column: Column, cluster: IntArray, count: int, weight: FloatArray
) -> list[tuple[float, str] | None]:
    """The distance of each cluster's share of the level that differs most, and its description; None without rows."""
    levels = len(column.levels) + 1  # the first stands for missing values
    code = cluster * levels + column.values.astype(np.int64) + 1
    table = totals(code, weight, count * levels).reshape(count, levels)
    mass = table.sum(axis=1)
    share = table.sum(axis=0) / mass.sum()
    inside = np.divide(table, mass[:, None], out=np.zeros_like(table), where=mass[:, None] > 0)
    halfway = (inside + share) / 2.0
    spread = np.sqrt(halfway * (1.0 - halfway))
    effect = np.divide(np.abs(inside - share), spread, out=np.zeros_like(table), where=spread > 0)
    best = effect.argmax(axis=1)
    names = ("missing", *column.levels)
    return [
        (
            float(effect[place, level]),
            f"{name}={names[level]} {_percent(inside[place, level])} (all {_percent(share[level])})",
        )
        if mass[place] > 0
        else None
        for place, level in enumerate(best)
    ]


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %" if share >= 0.01 or share == 0.0 else f"{100.0 * share:.1g} %"


def sections(state: State) -> tuple[Section, ...]:
    """The choices, the contents of each cluster, and the calibration errors there."""
    known = state.array("facts")
    return _summary(state, known), _cece_section(known), _clusters_section(state, known), _errors_section(known)


def _summary(state: State, known: FloatArray) -> Section:
    model = "the given model" if state.params["model"] else "a stand-in for the model"
    embedding = {
        "shap": f"SHAP values of {model}",
        "leaves": f"leaves of {model}",
        "columns": "columns as they are",
        "features": "features",
        "top": f"the most important features of {model}",
    }[str(state.params["embedding"])]
    tau = state.params["tau"]
    rows: list[tuple[Json, Json]] = [
        ("clusters", state.params["clusters"]),
        ("clustered by", embedding),
        ("calibrated by", state.params["inner"]),
        ("temperature", state.params["temperature"]),
        ("tau", "inf" if tau is None else tau),
    ]
    values = state.array("clustering").tolist()
    rows += zip(("variance of sizes", "variance of label rates", "homogeneity"), values, strict=True)
    for versus in ("raw", "unified"):
        rows.append((f"share of rows in clusters with a lower ECE than {versus}", improved(known, versus)))
    note = "tau = inf: one calibrator for all rows was best on held-out rows." if tau is None else ""
    return Section("CCL", ("what", "value"), tuple(rows), note)


def _cece_section(known: FloatArray) -> Section:
    """CECE of the calibration rows, with these clusters as bins."""
    of_scores = [cece(known, score) for score in SCORES]
    rows: list[tuple[Json, ...]] = [(form, *(forms[form] for forms in of_scores)) for form in of_scores[0]]
    return Section("CECE over these clusters", ("form", *SCORES), tuple(rows), f"{HELD_OUT}.")


def _clusters_section(state: State, known: FloatArray) -> Section:
    rate = "label_rate" if state.params["classes"] == 2 else "accuracy"
    fitted = unnest(state, ["mixture"])["mixture"].params
    apart = unpack_texts(state.arrays, "apart")
    rows: list[tuple[Json, ...]] = []
    for cluster, row in enumerate(known):
        values = _finite(row, "rows", "rate", "pud_raw", "pud_ccl")
        calibrator = str(state.params["inner"]) if str(cluster) in fitted else "its rate" if row[0] else "none"
        rows.append((cluster, int(row[0]), *values[1:], calibrator, apart[cluster]))
    columns = ("cluster", "rows", rate, "pud_raw", "pud_ccl", "calibrator", "set_apart_by")
    note = "PUD is mean prediction over mean label. Features by which a cluster differs most from all rows."
    return Section("Clusters", columns, tuple(rows), note)


def _errors_section(known: FloatArray) -> Section:
    names = [f"{error}_{score}" for error in ("ece", "mce", "ada_ece") for score in SCORES]
    rows = tuple((cluster, *_finite(row, *names)) for cluster, row in enumerate(known))
    note = f"{BINS} bins in each cluster, of equal width for ECE and MCE, of equal mass for AdaECE; {HELD_OUT}."
    return Section("Errors within clusters", ("cluster", *names), rows, note)


def _finite(row: FloatArray, *names: str) -> list[Json]:
    values = [float(row[COLUMNS.index(name)]) for name in names]
    return [value if math.isfinite(value) else None for value in values]
