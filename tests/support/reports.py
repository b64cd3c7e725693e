"""Reports with known numbers, and the JSON schemas of reports and answers."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from calcli.metrics.base import Definition
from calcli.reports.schema import RAW, DataFacts, Difference, MetricValue, Report, ReportWarning, ScoreRow, ScoreSource
from tests.support.shell import ROOT

REPORT_SCHEMA, ANSWERS_SCHEMA = (
    Draft202012Validator(json.loads((ROOT / "docs" / f"{name}.schema.json").read_text()))
    for name in ("report", "answers")
)

DEFINITIONS = {
    "nll": Definition("lower"),
    "auc": Definition("higher", reduction="positive class"),
    "ece": Definition("lower", bins=15, binning="width", reduction="positive class", norm=1.0),
    "mvce": Definition("lower", bins=32, binning="shuffled", bin_size=312.5, reduction="positive class"),
}
RAW_VALUES = {"nll": 0.4321, "auc": 0.75, "ece": 0.0776, "mvce": 0.0713}
BINDING = {
    "label": "clicked",
    "label_type": "int",
    "positive": 1,
    "classes": [0, 1],
    "score": {"kind": "logit", "columns": ["z"]},
    "weight": None,
    "features": [],
    "feature_types": [],
    "dropped": [{"column": "row_id", "reason": "named like an id"}],
    "notes": [],
}


def score(name: str, floor: float | None = 0.0156, **values: float | None) -> ScoreRow:
    kind = "raw" if name == RAW else "artifact"
    metrics = {
        metric: MetricValue(value, floor=floor if metric == "mvce" else None)
        for metric, value in {**RAW_VALUES, **values}.items()
    }
    return ScoreRow(name, ScoreSource(kind), metrics)  # type: ignore[arg-type]


def nll_change(name: str, value: float, lo: float | None = None, hi: float | None = None) -> Difference:
    return Difference(name, RAW, "nll", value, lo, hi, None)


def report(*scores: ScoreRow, differences: tuple[Difference, ...] = (), **more: Any) -> Report:
    data = DataFacts(({"path": "test.parquet", "bytes": 1, "sha256": "0"},), 10_000, 0, 10_000.0, 0.1498)
    given: dict[str, Any] = {
        "command": "evaluate",
        "version": "0",
        "seed": 0,
        "data": data,
        "binding": BINDING,
        "definitions": DEFINITIONS,
        "scores": (score(RAW), *scores),
        "differences": differences,
        **more,
    }
    return Report(**given)


def better(name: str = "platt") -> Report:
    """The report of the sentence in the design: from 0.4321 to 0.3987."""
    change = nll_change(name, -0.0334, -0.0350, -0.0311)
    return report(score(name, nll=0.3987, ece=0.0125, mvce=0.0151), differences=(change,), command="fit")


def warned() -> Report:
    return report(score("x"), warnings=(ReportWarning("scale", "these look like probabilities"),))
