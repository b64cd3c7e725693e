"""The report of several labels: a row for each label and score, as for groups, corrected for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from calcli.artifacts.strictjson import as_json
from calcli.metrics.multiple import holm
from calcli.reports.measuring import Measurements, report_on, with_adjusted
from calcli.reports.schema import RAW, Report
from calcli.state import Json
from calcli.tables.binding_types import Binding

UNTESTED: dict[str, Json] = {"detectable": None, "p": None, "p_least": None}


def of_labels(by: str, reports: Mapping[str, Report], binding: Binding, rows: int, score: str | None = None) -> Report:
    """One report of the reports of several labels, whose `groups` are by their pattern, `by`.

    Each entry has also the differences from the raw score, whose p-values are corrected for all labels and scores. The
    tests of calibration are those of groups by this name, where the reports have any. `score` is the name of all
    calibrated scores, where methods differ between labels.
    """
    first = next(iter(reports.values()))
    entries = [entry for name, report in reports.items() for entry in _entries(by, name, report, score)]
    for metric in first.definitions:
        found = [differences[metric] for entry in entries if metric in (differences := entry["differences"])]
        for one, p in zip(found, holm([one["p"] for one in found]), strict=True):
            one["p_adjusted"] = p
    warnings = [
        replace(one, message=f"{name}: {one.message}") for name, report in reports.items() for one in report.warnings
    ]
    measured = Measurements(first.definitions, groups=with_adjusted([as_json(entry) for entry in entries]))
    data = [report.data for report in reports.values()]
    facts = replace(
        data[0],
        rows=rows,
        rows_bad=max(one.rows_bad for one in data),
        weight_sum=max(one.weight_sum for one in data),
        label_rate={
            name: one.label_rate for name, one in zip(reports, data, strict=True) if isinstance(one.label_rate, float)
        },
    )
    whole = report_on(first.command, first.seed, facts, binding, measured, warnings=warnings)
    return replace(whole, gates=tuple(_gates(reports)))


def _entries(by: str, name: str, report: Report, score: str | None) -> Iterator[dict[str, Any]]:
    """The entries of one label: its scores, and the groups of rows within it."""
    tests = {str(entry["score"]): entry for entry in report.groups if entry["by"] == by}
    for row in report.scores:
        differences = {
            one.metric: {"value": one.value, "lo": one.lo, "hi": one.hi, "p": one.p}
            for one in report.differences
            if (one.score, one.versus) == (row.name, RAW)
        }
        yield {
            "by": by,
            "group": name,
            "rows": report.data.rows - report.data.rows_bad,
            "score": row.name if row.name == RAW or score is None else score,
            "method": row.source.method,
            "label_rate": report.data.label_rate,
            "metrics": {metric: asdict(value) for metric, value in row.metrics.items()},
            "differences": differences,
            **{key: tests.get(row.name, UNTESTED)[key] for key in UNTESTED},
        }
    for entry in report.groups:
        if entry["by"] != by:
            yield {**entry, "by": f"{entry['by']} ({name})", "differences": {}}


def _gates(reports: Mapping[str, Report]) -> Iterator[dict[str, Json]]:
    """Each gate, which has failed where it is true of a number of any label."""
    for gates in zip(*(report.gates for report in reports.values()), strict=True):
        failed: list[Any] = [
            {**one, "group": name if one["group"] is None else f"{name}, {one['group']}"}
            for name, gate in zip(reports, gates, strict=True)
            for one in (gate["failed"] if isinstance(gate["failed"], list) else ())
        ]
        yield {"expr": gates[0]["expr"], "passed": not failed, "failed": failed}
