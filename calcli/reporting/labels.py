"""Several labels in words and as a table: whether calibration lowers the loss of each, corrected for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from calcli.reporting.tables import beyond_chance, difference_cells
from calcli.reporting.typesetting import Table, decimals, number, p_value
from calcli.reporting.verdict import DECISIVE
from calcli.reports.schema import RAW, Difference, Report


def _changes(report: Report) -> tuple[str | None, Sequence[Any]]:
    """The metric that decides, and the entries of labels and calibrated scores that have a change of it."""
    entries: Sequence[Any] = report.groups
    for metric in DECISIVE:
        if found := [entry for entry in entries if metric in entry.get("differences", ())]:
            return metric, found
    return None, ()


def headline(report: Report) -> list[str]:
    """For each score a sentence on how many labels have a lower loss with it, and on those that have a higher one."""
    metric, entries = _changes(report)
    sentences = []
    for score in dict.fromkeys(entry["score"] for entry in entries):
        found = {entry["group"]: entry["differences"][metric] for entry in entries if entry["score"] == score}
        sure = {name: one for name, one in found.items() if beyond_chance(one)}
        better = sum(one["value"] < 0 for one in sure.values())
        worse = [name for name, one in sure.items() if one["value"] > 0]
        said = f"{score} lowers the {DECISIVE[str(metric)]} of {better} of {len(found)} labels"
        said += f", and is WORSE than {report.base} for {', '.join(worse)}" if worse else ""
        if unclear := len(found) - better - len(worse):
            said += f"; {unclear} {'is' if unclear == 1 else 'are'} not shown to change"
        sentences.append(f"{said}.")
    return sentences or list(_alone(report))


def _alone(report: Report) -> Iterator[str]:
    """For how many labels the mean of the raw score is off, where nothing is compared with it."""
    entries: Sequence[Any] = [entry for entry in report.groups if "differences" in entry and entry["score"] == RAW]
    off = [entry["group"] for entry in entries if beyond_chance(entry)]
    if entries:
        which = f": {', '.join(off)}" if off else ""
        yield f"The mean of the raw score is off beyond chance for {len(off)} of {len(entries)} labels{which}."


def table(report: Report) -> Table | None:
    """The loss of each label before and after, with the change; None where nothing was compared."""
    metric, entries = _changes(report)
    if metric is None:
        return None
    groups: Sequence[Any] = report.groups
    raw = {entry["group"]: entry["metrics"][metric]["value"] for entry in groups if entry["score"] == RAW}
    values = [value for entry in entries for value in (raw[entry["group"]], entry["metrics"][metric]["value"])]
    digits = decimals(values)
    names = dict.fromkeys(entry["score"] for entry in entries)
    methods = {entry["method"] for entry in entries}
    words = [word for word, shown in (("score", len(names) > 1), ("method", len(methods) > 1)) if shown]
    rows: list[list[str]] = []
    for entry in entries:
        change = entry["differences"][metric]
        rows.append(
            [
                str(entry["group"]),
                *(str(entry[word]) for word in words),
                f"{entry['rows']:,}",
                number(raw[entry["group"]], digits),
                number(entry["metrics"][metric]["value"], digits),
                *difference_cells(Difference("", RAW, metric, change["value"], change["lo"], change["hi"]), digits),
                p_value(change["p_adjusted"]),
            ]
        )
    after = next(iter(names)) if len(names) == 1 else "calibrated"
    header = ["", *words, "rows", RAW, after, "change", "95 % interval", "p-value"]
    title = f"{DECISIVE[metric]} by {entries[0]['by']}, p-values corrected for all"
    return Table(title, header, rows, 1 + len(words))
