"""The leaderboard of `compare`: a method a line, the best first."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, described, wrapped
from calcli.cli.views import blocks
from calcli.reporting import facts, leaderboard

if TYPE_CHECKING:
    from calcli.reports.schema import Report
    from calcli.verbs.compare import CompareResult


def compared(result: CompareResult, screen: Screen) -> list[str]:
    """The choice in a sentence, the table of methods, the rows and folds of the comparison."""
    report = result.report
    lines = [*wrapped(f"{result.choice.why}.", screen.prose), ""]
    table, metrics = _table(report, result.choice.name, screen)
    lines += table
    without = [(score.name, f"{score.status}: {score.reason}") for score in report.scores if score.status != "ok"]
    if without:
        lines += ["", *described(without, screen.prose)]
    lines += ["", *blocks.fact_list(blocks.measured_facts(report), screen), ""]
    notes = facts.definitions({name: asdict(report.definitions[name]) for name in metrics})
    notes.append(leaderboard.GAIN)
    hidden = [name for name in report.definitions if name not in metrics]
    if hidden:
        notes.append(("more", f"{', '.join(hidden)}: on a wider screen, or with --format"))
    return [*lines, *blocks.notes(notes, screen)]


def _table(report: Report, chosen: str, screen: Screen) -> tuple[list[str], list[str]]:
    """The table, and the metrics that there was room for."""
    metrics = list(report.definitions)
    while True:
        header, cells = leaderboard.lines(report, metrics)
        lines = aligned([header, *cells], "l" + "r" * (len(header) - 1))
        if max(map(len, lines)) <= screen.width or len(metrics) == 1:
            break
        metrics.pop()  # other forms have them all; the gain and its interval tell methods apart
    colored = [screen.good(line) if row[0] == chosen else line for row, line in zip(cells, lines[1:], strict=True)]
    return [screen.dim(lines[0]), *colored], metrics
