"""Conditions on a report: gates that make a run fail, and the guard.

A gate is true for some numbers of the report. The guard says whether a score is worse than a reference in a metric, on
rows that neither was fitted on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import cast

from calcli.artifacts.strictjson import as_json
from calcli.errors import UsageError, unknown_name
from calcli.metrics import catalog as metrics
from calcli.reports.gates import Comparison, Gate, Op, Term
from calcli.reports.schema import RAW, Difference, Report
from calcli.state import Json

_COMPARE: Mapping[Op, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Failed:
    """A number that made a gate fail."""

    score: str
    group: str | None
    metric: str
    value: float
    limit: float


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of one gate; a gate that is true has not been passed."""

    expr: str
    passed: bool
    failed: tuple[Failed, ...]

    def to_json(self) -> dict[str, Json]:
        """An entry of the report's `gates`."""
        return as_json(asdict(self))


def check_gates(gates: Sequence[Gate], report: Report, *, allow_null: bool = False) -> tuple[GateResult, ...]:
    """The result of each gate; an undefined number is a `UsageError` unless nulls are allowed."""
    return tuple(_check(gate, report, allow_null=allow_null) for gate in gates)


def _check(gate: Gate, report: Report, *, allow_null: bool) -> GateResult:
    failed: dict[Failed, None] = {}
    for comparisons in gate.alternatives:
        failures = [_failures(comparison, report, allow_null=allow_null) for comparison in comparisons]
        if all(failures):
            failed |= dict.fromkeys(chain.from_iterable(failures))
    return GateResult(gate.expr or str(gate), not failed, tuple(failed))


def _failures(comparison: Comparison, report: Report, *, allow_null: bool) -> list[Failed]:
    """The numbers for which a comparison is true."""
    term = comparison.term
    label = term.metric if term.field == "value" else f"{term.metric}.{term.field}"
    failures = []
    for score in _scores(term, report):
        for group, value, why in _numbers(term, score, report):
            if value is None:
                if allow_null:
                    continue
                place = "" if group is None else f" in group {group!r}"
                because = f": {why}" if why else ""
                raise UsageError(
                    f"--fail-if {comparison}: {label} of {score}{place} has no value{because}",
                    hint="try: --allow-null",
                )
            if _COMPARE[comparison.op](value, comparison.limit):
                failures.append(Failed(score, group, label, value, comparison.limit))
    return failures


def _scores(term: Term, report: Report) -> list[str]:
    names = [row.name for row in report.scores]
    if term.score is not None:
        if term.score not in names:
            raise UsageError(f"--fail-if {term}: {unknown_name('score', term.score, names)}")
        return [term.score]
    if term.field == "change" and report.baseline is None:
        raise UsageError(
            f"--fail-if {term}: .change needs a baseline",
            hint=f"try: --baseline OLD.json; for the difference from the {RAW} score, {term.metric}.diff",
        )
    if term.field.startswith("diff") and names == [RAW]:
        raise UsageError(f"--fail-if {term}: .diff needs a score to compare with {RAW}", hint="try: --with DIR")
    return [name for name in names if name != RAW] or names


def _numbers(term: Term, score: str, report: Report) -> list[tuple[str | None, float | None, str | None]]:
    """For all rows or for each group that a term names: the group, the number, and why that is undefined."""
    if term.metric not in report.definitions:
        raise UsageError(
            f"--fail-if {term}: {unknown_name('measured metric', term.metric, list(report.definitions))}",
            hint=f"add it: --metrics default,{term.metric}",
        )
    if term.field.startswith("diff") and score == RAW:
        raise UsageError(f"--fail-if {term}: .diff is the difference from {RAW}, which has none from itself")
    if term.column is None:
        return [(None, *_number(term, score, None, None, report))]
    columns = dict.fromkeys(str(entry["by"]) for entry in report.groups)
    if term.column not in columns:
        raise UsageError(f"--fail-if {term}: {unknown_name('group column', term.column, columns)}", hint="try: --by")
    groups = [entry["group"] for entry in report.groups if (entry["by"], entry["score"]) == (term.column, score)]
    if term.group is not None:
        names = [str(group) for group in groups]
        if term.group not in names:
            raise UsageError(f"--fail-if {term}: {unknown_name('group', term.group, names)}")
        groups = [group for group in groups if str(group) == term.group]
    return [(str(group), *_number(term, score, term.column, group, report)) for group in groups]


def _number(term: Term, score: str, by: str | None, group: Json, report: Report) -> tuple[float | None, str | None]:
    """A number of all rows or of one group, and why it is undefined."""
    if term.field == "change":
        return _change(term, score, by, group, report)
    metric = report.score(score).metrics.get(term.metric)
    why = report.score(score).reason if metric is None else metric.reason
    if not term.field.startswith("diff"):
        return _value(report, score, by, group, term.metric, term.field), why
    if by is None:
        for each in report.differences:
            if (each.score, each.versus, each.metric) == (score, RAW, term.metric):
                return {"diff": each.value, "diff.lo": each.lo, "diff.hi": each.hi}[term.field], why
        return None, why
    # Within a group it is the difference of the two values, and has no interval.
    value, base = (_value(report, name, by, group, term.metric, "value") for name in (score, RAW))
    return None if term.field != "diff" or value is None or base is None else value - base, why


def _value(report: Report, score: str, by: str | None, group: Json, metric: str, field: str) -> float | None:
    if by is None:
        value = report.score(score).metrics.get(metric)
        return None if value is None else cast("float | None", getattr(value, field))
    for entry in report.groups:
        if (entry["score"], entry["by"], entry["group"]) == (score, by, group):
            return cast("Mapping[str, Mapping[str, float | None]]", entry["metrics"]).get(metric, {}).get(field)
    return None


def _change(term: Term, score: str, by: str | None, group: Json, report: Report) -> tuple[float | None, str | None]:
    """The change since the baseline; one between different metrics is refused."""
    for change in report.changes:
        if (change.score, change.metric, change.by, change.group) == (score, term.metric, by, group):
            if not change.comparable:
                raise UsageError(
                    f"--fail-if {term}: {change.reason}", hint="write the baseline again with these options"
                )
            return change.change, change.reason
    raise ValueError(f"the report has no change of {term.metric} of {score}")


EVEN = 1e-12
"""Differences below this are rounding: the identity is not worse than no calibration."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The metric that must not get worse, and the tolerance.

    Attributes
    ----------
    metric
        Its specification in the catalog.
    margin
        The tolerance: a difference up to it is not worse.
    """

    metric: metrics.MetricSpec
    margin: float = EVEN

    @classmethod
    def of(cls, name: str, measured: Sequence[metrics.MetricSpec]) -> Guard:
        """The guard of a metric that must be among the measured ones."""
        metric = metrics.find(name)
        if metric.direction == "target":
            raise UsageError(f"--guard {name}: neither a higher nor a lower value is better", hint="try: --guard nll")
        if metric not in measured:
            raise UsageError(f"--guard {name}: it is not measured", hint="add it to --metrics")
        return cls(metric)

    def worse(self, difference: Difference) -> bool:
        """Whether a difference, score minus reference, exceeds the margin; an undefined one does not."""
        value = difference.value
        return value is not None and (value if self.metric.direction == "lower" else -value) > self.margin

    def violation(self, report: Report, score: str) -> Difference | None:
        """The first difference of a report in which the score is worse than a reference."""
        differences = (each for each in report.differences if (each.score, each.metric) == (score, self.metric.name))
        return next(filter(self.worse, differences), None)
