"""The report: the results of fit, evaluate and the other verbs in a stable schema.

`Report.to_json` gives the object of the contract, ``calcli.report/1``; docs/report.schema.json describes it. Keys are
only ever added within version 1. Numbers that are not defined are null, never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from calcli.artifacts.strictjson import as_json
from calcli.diagrams.curves import Curve, by_kind
from calcli.errors import UsageError, unknown_name
from calcli.homes import ShownInNotebook
from calcli.metrics.base import Definition, Measured
from calcli.state import Json

SCHEMA = "calcli.report/1"

RAW = "raw"
"""The name of the uncalibrated score in every report."""

SourceKind = Literal["raw", "artifact", "column", "method", "ensemble"]


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A metric of a score."""

    value: float | None
    lo: float | None = None
    hi: float | None = None
    floor: float | None = None
    p: float | None = None
    reason: str | None = None
    per_class: Mapping[str, float | None] | None = None
    null_hi: float | None = None

    @classmethod
    def of(cls, measured: Measured, classes: tuple[str, ...]) -> MetricValue:
        """From a metric's result, with class names in place of indices."""
        per_class = None
        if measured.per_class is not None:
            per_class = {name: finite(value) for name, value in zip(classes, measured.per_class, strict=True)}
        numbers = {name: finite(getattr(measured, name)) for name in ("value", "lo", "hi", "null_hi", "floor", "p")}
        return cls(**numbers, reason=measured.reason, per_class=per_class)


@dataclass(frozen=True, slots=True)
class ScoreSource:
    """Where a score comes from."""

    kind: SourceKind
    path: str | None = None
    column: str | None = None
    method: str | None = None
    sha256: str | None = None
    fitted: Mapping[str, Json] | None = None
    """How an artifact was fitted: ``created``, ``rows``, ``files``, ``preset`` and ``params``."""


@dataclass(frozen=True, slots=True)
class Seconds:
    fit: float | None = None
    apply: float | None = None


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A score (the raw one, an artifact's, a method's) with its metrics."""

    name: str
    source: ScoreSource
    metrics: Mapping[str, MetricValue]
    status: Literal["ok", "failed", "skipped"] = "ok"
    reason: str | None = None
    seconds: Seconds = Seconds()
    best: float | None = None
    as_good: bool | None = None
    """`best`, `as_good`: among methods that were compared: the probability that it is the best, and whether it may be.
    """


@dataclass(frozen=True, slots=True)
class Difference:
    """`score` minus `versus` in one metric, on the same rows."""

    score: str
    versus: str
    metric: str
    value: float | None
    lo: float | None = None
    hi: float | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A metric of a score here and in the report that was given as the baseline."""

    score: str
    metric: str
    by: str | None
    group: str | None
    """`by`, `group`: of which group of rows; both None for all rows."""

    old: float | None
    new: float | None
    """`old`, `new`: the number in the baseline, and here."""

    change: float | None
    """new - old."""

    comparable: bool = True
    """Whether both are the same metric: False where their definitions differ."""

    reason: str | None = None
    """Why there is no change."""


@dataclass(frozen=True, slots=True)
class ReportWarning:
    """A warning to the reader. The code is stable, the message is not."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class DataFacts:
    """The rows that were measured.

    `rows_normalised` counts rows whose probabilities did not add up to 1 and were divided by their sum. `units` says by
    which column rows belong together, how many units there are, and whether they are moments in order.
    """

    files: tuple[Mapping[str, Json], ...]
    rows: int
    rows_bad: int
    weight_sum: float
    label_rate: float | Mapping[str, float] | None
    units: Mapping[str, Json] | None = None
    rows_normalised: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(ShownInNotebook):
    """The fields are the keys of the JSON object, in its order."""

    command: str
    version: str
    seed: int
    artifact: str | None = None
    chosen: str | None = None
    data: DataFacts
    binding: Mapping[str, Json]
    definitions: Mapping[str, Definition]
    scores: tuple[ScoreRow, ...]
    differences: tuple[Difference, ...] = ()
    groups: tuple[Mapping[str, Json], ...] = ()
    segments: tuple[Mapping[str, Json], ...] = ()
    segment_search: tuple[Mapping[str, Json], ...] = ()
    curves: tuple[Curve, ...] = ()
    rejection: tuple[Mapping[str, Json], ...] = ()
    drift: Mapping[str, Json] | None = None
    decisions: tuple[Mapping[str, Json], ...] = ()
    estimates: tuple[Mapping[str, Json], ...] = ()
    plan: Mapping[str, Json] | None = None
    refit: Mapping[str, Json] | None = None
    recalibration: Report | None = None
    """The report of a fit by the default method on the same rows, measured on rows that it was not fitted on."""

    baseline: Mapping[str, Json] | None = None
    changes: tuple[Change, ...] = ()
    gates: tuple[Mapping[str, Json], ...] = ()
    warnings: tuple[ReportWarning, ...] = ()

    def __repr__(self) -> str:
        first = next((name for one in self.scores for name in one.metrics), "")
        values = {one.name: one.metrics[first].value for one in self.scores if first in one.metrics}
        return f"Report({self.command!r}, rows={self.data.rows}{f', {first}={values}' if first else ''})"

    def to_json(self) -> dict[str, Json]:
        """The object of the contract."""
        plain = asdict(self)
        plain["recalibration"] = None if self.recalibration is None else self.recalibration.to_json()
        plain["curves"] = by_kind(curve for curve in self.curves if curve.kind != "smooth")
        found = {curve.score: curve.diagnosis for curve in self.curves if curve.kind == "reliability"}
        for score in plain["scores"]:
            diagnosis = found.get(score["name"])
            score["diagnosis"] = None if diagnosis is None else asdict(diagnosis)
        return as_json({"schema": SCHEMA} | plain)

    @property
    def base(self) -> str:
        """The kind of the raw score in words: a number that only ranks has the loss of the base rate."""
        score = self.binding["score"]
        return "the base rate" if isinstance(score, Mapping) and score["kind"] == "rank" else "no calibration"

    def score(self, name: str) -> ScoreRow:
        """The entry of one score."""
        found = {row.name: row for row in self.scores}
        if name not in found:
            raise UsageError(unknown_name("score", name, found))
        return found[name]

    def value(self, score: str, metric: str) -> float | None:
        """The value of a metric of a score."""
        measured = self.score(score).metrics
        if metric not in measured:
            raise UsageError(unknown_name("metric", metric, measured))
        return measured[metric].value


def finite(value: float | None) -> float | None:
    """The number, or None where it is not one."""
    return None if value is None or not math.isfinite(value) else float(value)
