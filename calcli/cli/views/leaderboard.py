"""What `compare` found: a method a line, the best first."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, described, wrapped
from calcli.reporting import facts
from calcli.reporting import leaderboard as ranking

if TYPE_CHECKING:
    from calcli.reports.schema import Report
    from calcli.verbs.compare import CompareResult

_LEFT = 9


def compared(result: CompareResult, screen: Screen) -> list[str]:
    """The choice in a sentence, the table, what was compared on which rows."""
    report = result.report
    lines = [*wrapped(f"{result.choice.why}.", screen.prose), ""]
    table, metrics = _table(report, result.choice.name, screen)
    lines += table
    without = [row for row in report.scores if row.status != "ok"]
    if without:
        lines += ["", *described([(row.name, f"{row.status}: {row.reason}") for row in without], screen.prose)]
    below = [*facts.data_facts(report.data, report.binding["positive"]), *facts.binding_facts(report.binding)]
    lines += ["", *described([(screen.dim(name), said) for name, said in below], screen.prose, least=_LEFT)]
    notes = facts.definitions({name: asdict(report.definitions[name]) for name in metrics})
    notes.append(ranking.GAIN)
    hidden = [name for name in report.definitions if name not in metrics]
    if hidden:
        notes.append(("more", f"{', '.join(hidden)}: on a wider screen, or with --format"))
    return [*lines, "", *(screen.dim(line) for line in described(notes, screen.prose, least=_LEFT))]


def _table(report: Report, chosen: str, screen: Screen) -> tuple[list[str], list[str]]:
    """The table, and which metrics there was room for."""
    metrics = list(report.definitions)
    while True:
        header, cells = ranking.lines(report, metrics)
        lines = aligned([header, *cells], "l" + "r" * (len(header) - 1))
        if max(map(len, lines)) <= screen.width or len(metrics) == 1:
            break
        metrics.pop()  # the other formats have them all; what tells methods apart is the gain with its interval
    painted = [screen.dim(lines[0])]
    for row, line in zip(cells, lines[1:], strict=True):
        painted.append(screen.good(line) if row[0] == chosen else line)
    return painted, metrics
