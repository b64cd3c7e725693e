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
from calcli.numeric.seeded import stream
from calcli.state import Json, State, unnest, unpack_texts

TELLING = 3
"""How many features are named for each cluster."""

SCORES = ("raw", "unified", "ccl")
"""No calibration, the global calibrator, and CCL."""

ERRORS = ("ece", "mce", "ada_ece")

COLUMNS = (
    "rows",
    "weight",
    "rate",
    "pud_raw",
    "pud_ccl",
    *(f"{error}_{score}" for error in ERRORS for score in SCORES),
)

FORMS = ("cece", "cece_mce", "cece_ada")

WITHIN = "within each held-out fold, as of that many fresh rows, on average over the folds"
"""Folds are not pooled: what one misses by chance the calibrators of the others make up for, so that errors cancel."""

DRAWS = 400
"""The floor of CECE is the mean of so many draws."""


def of_clusters(
    batch: Batch, cluster: IntArray, count: int, fold: IntArray, probs: Mapping[str, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Facts of clusters: a row for each, a value for each of `COLUMNS`, NaN without rows; and the CECE of all rows.

    The CECE has a row for each of `FORMS`, a value for each of `SCORES` and last the floor. `cluster` is the nearest
    cluster of each row, 0 .. count - 1, and `fold` the one in which the row was held out; `probs` has predictions by
    the names of `SCORES`. With more than two classes, the probability of the predicted class is compared with how often
    it was right.
    """
    weight, folds = batch.weights, int(fold.max(initial=0)) + 1
    cell, cells = fold * count + cluster, (folds, count)
    mass = totals(cell, weight, folds * count).reshape(cells)
    columns = {"rows": totals(cluster, np.ones(len(cluster)), count), "weight": mass.sum(axis=0)}
    forms: list[FloatArray] = []
    for score in SCORES:
        label, prob = _as_binary(batch.labels, probs[score])
        if score == "raw":
            whole = _sums(cluster, count, label, prob, weight)
            columns["rate"] = whole[1] / whole[0]
            columns["pud_raw"] = np.divide(whole[2], whole[1], out=np.full(count, np.nan), where=whole[1] > 0)
        sums = _sums(cell, folds * count, label, prob, weight).reshape(3, *cells)
        forms.append(_cece(np.abs(sums[2] - sums[1]) / sums[0], mass))
        if score == "ccl":
            known = (sums[1] > 0) & (sums[2] > 0)
            off = np.abs(np.log(np.divide(sums[2], sums[1], out=np.ones(cells), where=known)))
            columns["pud_ccl"] = np.exp(_average(off, np.where(known, mass, 0.0)))
            noise = totals(cell, np.square(weight) * prob * (1.0 - prob), folds * count).reshape(cells)
            drawn = np.abs(stream(0, "floor of cece").normal(size=(DRAWS, *cells))) * np.sqrt(noise) / sums[0]
            forms.append(_cece(drawn, mass).mean(axis=1))
        errors = [_errors_of(label[rows], prob[rows], weight[rows]) for rows in _rows_of(cell, folds * count)]
        for error, of_cells in zip(ERRORS, np.array(errors).T, strict=True):
            columns[f"{error}_{score}"] = _average(of_cells.reshape(cells), mass)
    return np.stack([columns[name] for name in COLUMNS], axis=1), np.stack(forms, axis=1)


def _average(values: FloatArray, mass: FloatArray) -> FloatArray:
    """The mean over folds of each cluster's values; NaN without any mass."""
    total = mass.sum(axis=0)
    sums = np.where(mass > 0, values * mass, 0.0).sum(axis=0)
    mean: FloatArray = np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0)
    return mean


def _cece(gap: FloatArray, mass: FloatArray) -> FloatArray:
    """The `FORMS` from the gaps of clusters in folds, shape (.., folds, clusters), on average over the folds."""
    gap = np.where(mass > 0, gap, 0.0)
    of_fold = mass.sum(axis=1)
    share = mass / of_fold[:, None]
    each = np.stack([(share * gap).sum(axis=-1), gap.max(axis=-1), np.sqrt((share * np.square(gap)).sum(axis=-1))])
    average: FloatArray = each @ (of_fold / of_fold.sum())
    return average


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
    return _summary(state, known), _cece_section(state), _clusters_section(state, known), _errors_section(known)


def seen_by(state: State) -> str:
    """The values by which rows are clustered, in words."""
    model = "the given model" if state.params["model"] else "a stand-in for the model"
    return {
        "shap": f"SHAP values of {model}",
        "leaves": f"leaves of {model}",
        "columns": "columns as they are",
        "features": "features",
        "top": f"the most important features of {model}",
    }[str(state.params["embedding"])]


def _summary(state: State, known: FloatArray) -> Section:
    tau = state.params["tau"]
    rows: list[tuple[Json, Json]] = [
        ("clusters", state.params["clusters"]),
        ("clustered by", seen_by(state)),
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


def _cece_section(state: State) -> Section:
    """CECE of the calibration rows, with these clusters as bins."""
    rows = tuple((form, *values) for form, values in zip(FORMS, state.array("cece").tolist(), strict=True))
    note = f"CECE {WITHIN}. The floor is that of ccl if it were calibrated, from noise alone."
    return Section("CECE over these clusters", ("form", *SCORES, "floor"), rows, note)


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
    note = (
        f"PUD is mean prediction over mean label; pud_ccl is the factor by which it is off, {WITHIN}. Features by "
        "which a cluster differs most from all rows."
    )
    return Section("Clusters", columns, tuple(rows), note)


def _errors_section(known: FloatArray) -> Section:
    names = [f"{error}_{score}" for error in ("ece", "mce", "ada_ece") for score in SCORES]
    rows = tuple((cluster, *_finite(row, *names)) for cluster, row in enumerate(known))
    note = f"{BINS} bins in each cluster, of equal width for ECE and MCE, of equal mass for AdaECE, {WITHIN}."
    return Section("Errors within clusters", ("cluster", *names), rows, note)


def _finite(row: FloatArray, *names: str) -> list[Json]:
    values = [float(row[COLUMNS.index(name)]) for name in names]
    return [value if math.isfinite(value) else None for value in values]
