"""A fitted CCL in words and tables."""

from __future__ import annotations

import math

from calcli.batch import FloatArray
from calcli.methods.base import Section
from calcli.methods.clusters import facts
from calcli.numeric.bins import BINS
from calcli.state import Json, State, unnest, unpack_texts

HELD_OUT = "unified and ccl: each row as predicted from the folds that it is not in"


def sections(state: State) -> tuple[Section, ...]:
    """The choices, the contents of each cluster, and the calibration errors there."""
    known = state.array("facts")
    return _summary(state, known), _errors_of_all(known), _clusters(state, known), _errors(known)


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
        rows.append((f"share of rows in clusters with a lower ECE than {versus}", facts.improved(known, versus)))
    note = "tau = inf: one calibrator for all rows was best on held-out rows." if tau is None else ""
    return Section("CCL", ("what", "value"), tuple(rows), note)


def _errors_of_all(known: FloatArray) -> Section:
    """CECE of the calibration rows, with these clusters as bins."""
    cece = {score: facts.cece(known, score) for score in facts.SCORES}
    rows: list[tuple[Json, ...]] = [(form, *(cece[score][form] for score in facts.SCORES)) for form in cece["raw"]]
    return Section("CECE over these clusters", ("form", *facts.SCORES), tuple(rows), f"{HELD_OUT}.")


def _clusters(state: State, known: FloatArray) -> Section:
    rate = "label_rate" if state.params["classes"] == 2 else "accuracy"
    fitted = unnest(state, ["mixture"])["mixture"].params
    apart = unpack_texts(state.arrays, "apart")
    rows: list[tuple[Json, ...]] = []
    for cluster, row in enumerate(known):
        facts_of_it = _finite(row, "rows", "rate", "pud_raw", "pud_ccl")
        calibrator = str(state.params["inner"]) if str(cluster) in fitted else "its rate" if row[0] else "none"
        rows.append((cluster, int(row[0]), *facts_of_it[1:], calibrator, apart[cluster]))
    columns = ("cluster", "rows", rate, "pud_raw", "pud_ccl", "calibrator", "set_apart_by")
    note = "PUD is mean prediction over mean label. Features by which a cluster differs most from all rows."
    return Section("Clusters", columns, tuple(rows), note)


def _errors(known: FloatArray) -> Section:
    names = [f"{error}_{score}" for error in ("ece", "mce", "ada_ece") for score in facts.SCORES]
    rows = tuple((cluster, *_finite(row, *names)) for cluster, row in enumerate(known))
    note = f"{BINS} bins in each cluster, of equal width for ECE and MCE, of equal mass for AdaECE; {HELD_OUT}."
    return Section("Errors within clusters", ("cluster", *names), rows, note)


def _finite(row: FloatArray, *names: str) -> list[Json]:
    values = [float(row[facts.COLUMNS.index(name)]) for name in names]
    return [value if math.isfinite(value) else None for value in values]
