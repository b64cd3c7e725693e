"""Conditions on a report: gates that make a run fail, and the guard.

A gate is true for some numbers of the report. The guard says whether a score is worse than a reference in a metric, on
rows that neither was fitted on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, cast

from calcli.errors import UsageError, unknown_name
from calcli.metrics import catalog as metrics
from calcli.reports.gates import SEGMENT_GAP, Comparison, Gate, Op, Term
from calcli.reports.schema import RAW, Difference, Report
from calcli.state import Json

_COMPARE: Mapping[Op, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

EVEN = 1e-12
"""Differences below this are rounding: the identity is not worse than no calibration."""


class _Failed(NamedTuple):
    """A number that made a gate fail."""

    score: str
    group: str | None
    metric: str
    value: float
    limit: float


def check_gates(gates: Sequence[Gate], report: Report, *, allow_null: bool = False) -> tuple[dict[str, Json], ...]:
    """The report's `gates`: a gate that is true of any number has not been passed.

    An undefined number is a `UsageError` unless nulls are allowed.
    """
    results: list[dict[str, Json]] = []
    for gate in gates:
        failed: dict[_Failed, None] = {}
        for comparisons in gate.alternatives:
            failures = [_failures(comparison, report, allow_null=allow_null) for comparison in comparisons]
            if all(failures):
                failed |= dict.fromkeys(chain.from_iterable(failures))
        numbers: list[Json] = [one._asdict() for one in failed]
        results.append({"expr": gate.expr or str(gate), "passed": not failed, "failed": numbers})
    return tuple(results)


def _failures(comparison: Comparison, report: Report, *, allow_null: bool) -> list[_Failed]:
    """The numbers for which a comparison is true."""
    term = comparison.term
    label = term.metric if term.field == "value" else f"{term.metric}.{term.field}"
    numbers = _TermNumbers(term, report)
    failures = []
    for score in numbers.scores():
        for by, group in numbers.places(score):
            value, why = numbers.number(score, by, group)
            name = None if by is None else str(group)
            if value is None:
                if allow_null:
                    continue
                place = "" if name is None else f" in group {name!r}"
                because = f": {why}" if why else ""
                raise UsageError(
                    f"--fail-if {comparison}: {label} of {score}{place} has no value{because}",
                    hint="try: --allow-null",
                )
            if _COMPARE[comparison.op](value, comparison.limit):
                failures.append(_Failed(score, name, label, value, comparison.limit))
    return failures


@dataclass(frozen=True, slots=True)
class _TermNumbers:
    """The numbers of a report that a term is about."""

    term: Term
    report: Report

    def scores(self) -> list[str]:
        names = [row.name for row in self.report.scores]
        if self.term.score is not None:
            if self.term.score not in names:
                raise self._error(unknown_name("score", self.term.score, names))
            return [self.term.score]
        if self.term.field == "change" and self.report.baseline is None:
            hint = f"try: --baseline OLD.json; for the difference from the {RAW} score, {self.term.metric}.diff"
            raise self._error(".change needs a baseline", hint)
        if self.term.field.startswith("diff") and names == [RAW]:
            raise self._error(f".diff needs a score to compare with {RAW}", "try: --with DIR")
        return [name for name in names if name != RAW] or names

    def places(self, score: str) -> list[tuple[str | None, Json]]:
        """The column and the value of each group that the term names; None twice for all rows."""
        term, report = self.term, self.report
        if term.metric == SEGMENT_GAP:
            if not report.segment_search:
                raise self._error("no segments were looked for", "add --find-segments")
            return [(SEGMENT_GAP, one["text"]) for one in report.segments if one["score"] == score]
        if term.metric not in report.definitions:
            unknown = unknown_name("measured metric", term.metric, list(report.definitions))
            known = term.metric.partition(":")[0] in metrics.names()  # the rate and the mean are those of estimate
            raise self._error(unknown, f"add it: --metrics default,{term.metric}" if known else None)
        if term.field.startswith("diff") and score == RAW:
            raise self._error(f".diff is the difference from {RAW}, which has none from itself")
        if term.column is None:
            return [(None, None)]
        columns = dict.fromkeys(str(entry["by"]) for entry in report.groups)
        if term.column not in columns:
            raise self._error(unknown_name("group column", term.column, columns), "try: --by")
        groups = [entry["group"] for entry in report.groups if (entry["by"], entry["score"]) == (term.column, score)]
        if term.group is not None:
            names = [str(group) for group in groups]
            if term.group not in names:
                raise self._error(unknown_name("group", term.group, names))
            groups = [group for group in groups if str(group) == term.group]
        return [(term.column, group) for group in groups]

    def number(self, score: str, by: str | None, group: Json) -> tuple[float | None, str | None]:
        """The number of all rows or of one group, and why it is undefined."""
        field, metric = self.term.field, self.term.metric
        if metric == SEGMENT_GAP:
            found = next(one for one in self.report.segments if (one["score"], one["text"]) == (score, group))
            return abs(cast("float", found["gap"])), None
        if field == "change":
            place = score, metric, by, group
            change = next(one for one in self.report.changes if (one.score, one.metric, one.by, one.group) == place)
            if not change.comparable:
                raise self._error(str(change.reason), "write the baseline again with these options")
            return change.change, change.reason
        row = self.report.score(score)
        why = row.metrics[metric].reason if metric in row.metrics else row.reason
        if not field.startswith("diff"):
            return self._value(score, by, group, field), why
        if by is None:
            for each in self.report.differences:
                if (each.score, each.versus, each.metric) == (score, RAW, metric):
                    return {"diff": each.value, "diff.lo": each.lo, "diff.hi": each.hi}[field], why
            return None, why
        # Within a group it is the difference of the two values, and has no interval.
        value, base = (self._value(name, by, group, "value") for name in (score, RAW))
        return None if field != "diff" or value is None or base is None else value - base, why

    def _value(self, score: str, by: str | None, group: Json, field: str) -> float | None:
        metric = self.term.metric
        if by is None:
            value = self.report.score(score).metrics.get(metric)
            return None if value is None else cast("float | None", getattr(value, field))
        for entry in self.report.groups:
            if (entry["score"], entry["by"], entry["group"]) == (score, by, group):
                return cast("Mapping[str, Mapping[str, float | None]]", entry["metrics"]).get(metric, {}).get(field)
        return None

    def _error(self, problem: str, hint: str | None = None) -> UsageError:
        return UsageError(f"--fail-if {self.term}: {problem}", hint=hint)


@dataclass(frozen=True, slots=True)
class Guard:
    """The metric that must not get worse, and the tolerance."""

    metric: metrics.MetricSpec
    """Its specification in the catalog."""

    margin: float = EVEN
    """The tolerance: a difference up to it is not worse."""

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
