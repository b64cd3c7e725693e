"""Answers for programs as JSON and CSV, in full precision and null where there is no number; tables as Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from calcli.cli.screen import CONTROL, escaped
from calcli.reporting.typesetting import GLUE

if TYPE_CHECKING:
    from calcli.decisions.goal import Choice
    from calcli.diagrams.curves import Curve
    from calcli.reporting.typesetting import Table
    from calcli.reports.schema import Difference, MetricValue, Report

Flat: TypeAlias = Literal["csv", "markdown"]
Cell: TypeAlias = str | int | float | bool | None

_MARKUP = re.compile(r"[\\|`*~\[\]$]|(?<![^\W_])_|_(?![^\W_])|^[#>]")
_HTML = re.compile("<(?=[A-Za-z/!?])|&(?=[A-Za-z#])")
"""The signs of markup in Markdown, where a ``_`` between two letters is none, and of tags and entities."""

_VALUE = ("value", "lo", "hi", "floor", "null_hi", "p", "reason")
_DIFFERENCE = ("value", "lo", "hi", "p")

LONG = (
    *("score", "group", "metric", *_VALUE),
    *("diff", "diff_lo", "diff_hi", "diff_p", "fit_seconds", "apply_seconds", "chosen"),
)
"""The columns of a report as CSV. Scripts rely on them: new ones go to the end.

`diff` is how much the value lies above that of no calibration, as in the expressions of ``--fail-if``.
"""


def to_json(document: object, *, unicode: bool = True) -> str:
    """One object on one line. A number that JSON does not have is a bug, not a NaN."""
    text = json.dumps(document, allow_nan=False, ensure_ascii=not unicode)
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def flat(header: Sequence[str], rows: Iterable[Sequence[Cell]], form: Flat) -> str:
    lines = [header, *([_text(cell) for cell in row] for row in rows)]
    if form == "markdown":
        return _markdown(lines, ["---"] * len(header))
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(lines)
    return stream.getvalue()


def _markdown(lines: Iterable[Sequence[str]], rule: Sequence[str]) -> str:
    """A header and rows, with a rule below the header; whatever is in a cell stays there."""
    header, *rows = ([_in_markdown(cell) for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, rule, *rows))


def _table(table: Table) -> str:
    """A table under its title, with the digits that a screen shows."""
    rule = ["---"] * table.words + ["---:"] * (len(table.header) - table.words)
    title = f"{_in_markdown(table.title)}\n\n" if table.title else ""
    return title + _markdown([table.header, *table.rows], rule)


def _text(cell: Cell) -> str:
    """A number with the digits that read back as the same number."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(cell) if isinstance(cell, float) else str(cell)


def _in_markdown(text: str) -> str:
    """A text as one line that Markdown shows as it is: no part of it becomes markup, a link or a control code."""
    return escaped(_HTML.sub(lambda sign: escape(sign[0]), _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))))


def long_rows(report: Report) -> list[list[Cell]]:
    """A report in long form, a row for each number; a score that failed has one row with the reason."""
    base = report.scores[0].name if report.scores else None
    differences = {(gap.score, gap.metric): gap for gap in report.differences if gap.versus == base}
    rows: list[list[Cell]] = []
    # Numbers over all rows, with the difference from the first score.
    for score in report.scores:
        chosen = None if report.chosen is None else score.name == report.chosen
        times = (score.seconds.fit, score.seconds.apply)
        tail = [*(None if time is None else round(time, 6) for time in times), chosen]
        if score.status != "ok":
            rows.append([score.name, *[None] * (1 + len(_VALUE)), score.reason, *_values(None, _DIFFERENCE), *tail])
        for metric, value in score.metrics.items():
            difference = _values(differences.get((score.name, metric)), _DIFFERENCE)
            rows.append([score.name, None, metric, *_values(value, _VALUE), *difference, *tail])
    # Numbers within groups, which have differences where each is a label.
    for group in cast("tuple[dict[str, Any], ...]", report.groups):
        place = f"{group['by']}={group['group']}"
        for metric, value in group["metrics"].items():
            numbers = [value[key] for key in _VALUE]
            change = group.get("differences", {}).get(metric, {})
            numbers += [change.get(key) for key in _DIFFERENCE]
            rows.append([group["score"], place, metric, *numbers, *[None] * (len(LONG) - len(numbers) - 3)])
    return rows


def _values(record: MetricValue | Difference | None, keys: Sequence[str]) -> list[Cell]:
    return [None if record is None else getattr(record, key) for key in keys]


def report(report: Report, form: Flat) -> str:
    """A report: in long form as CSV, or its tables as Markdown."""
    from calcli.reporting import estimates, segments

    if form == "csv" and report.command == "estimate":
        return flat((*estimates.LONG, *estimates.LONG_COUNTS), estimates.long_rows(report), form)
    if form == "csv":
        return flat(LONG, long_rows(report), form)
    searched = (f"{_in_markdown(sentence.replace(GLUE, ' '))}\n" for sentence in segments.sentences(report))
    return "\n".join([*map(_table, _tables(report)), *searched])


def _tables(report: Report) -> Iterator[Table]:
    """All tables of a report: its numbers (of `compare`, a method a line), the groups, the segments, the changes."""
    from calcli.reporting import estimates, segments, tables

    if report.command == "estimate":
        yield from estimates.tables(report)
        return
    if report.command == "compare":
        yield tables.leaderboard(report, list(report.definitions))
    else:
        yield tables.by_metric(tables.Findings.of_report(report))
        yield from tables.versus(report)
    yield from tables.by_group(report)
    yield from (shown for _, shown in segments.tables(report))
    if (changes := tables.since(report)) is not None:
        yield changes[0]


def options(choice: Choice, form: Flat) -> str:
    """The options of a policy, a row for each of their numbers."""
    rows = (
        [option.name, option.threshold, name, found.value, found.lo, found.hi]
        for option in choice.options
        for name, found in option.numbers.items()
    )
    return flat(("option", "threshold", "number", "value", "lo", "hi"), rows, form)


def points(curves: Sequence[Curve], form: Flat) -> str:
    """The points of curves, a row for each."""
    rows = [[curve.score, curve.of, p.x, p.y, p.n, p.lo, p.hi] for curve in curves for p in curve.points]
    return flat(("score", "class", "x", "y", "n", "lo", "hi"), rows, form)


def binding(binding: dict[str, Any], form: Flat) -> str:
    """The roles of the columns, a row for each."""
    parts = [("label", binding["label"]), ("weight", binding["weight"])]
    rows: list[list[Cell]] = [[part, column, None] for part, column in parts if column is not None]
    rows += [["score", column, binding["score"]["kind"]] for column in binding["score"]["columns"]]
    rows += [["feature", column, None] for column in binding["features"]]
    rows += [["dropped", column["column"], column["reason"]] for column in binding["dropped"]]
    return flat(("part", "column", "reason"), rows, form)
