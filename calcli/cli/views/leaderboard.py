"""The leaderboard of `compare`: a method a line, the best first."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, described, wrapped
from calcli.cli.views import blocks
from calcli.cli.views.report import scarce
from calcli.reporting import facts, leaderboard

if TYPE_CHECKING:
    from calcli.reports.schema import Report
    from calcli.verbs.compare import CompareResult


def compared(result: CompareResult, screen: Screen) -> list[str]:
    """The choice in a sentence, the table of methods, the rows and folds of the comparison."""
    report = result.report
    said = ". ".join(part for part in (result.choice.why, leaderboard.certainty(report)) if part)
    lines = [*scarce(report, screen), *wrapped(f"{said}.", screen.prose), ""]
    table, metrics, terms = _table(report, result.choice.name, screen)
    lines += table
    without = [(score.name, f"{score.status}: {score.reason}") for score in report.scores if score.status != "ok"]
    if without:
        lines += ["", *described(without, screen.prose)]
    lines += ["", *blocks.fact_list(blocks.measured_facts(report), screen), ""]
    notes = facts.definitions({name: asdict(report.definitions[name]) for name in metrics})
    notes += leaderboard.floors(report, metrics)
    notes += [term for term in (leaderboard.GAIN, leaderboard.BEHIND, leaderboard.BEST) if term[0] in terms]
    hidden = [name for name in report.definitions if name not in metrics]
    if hidden:
        notes.append(("more", f"{', '.join(hidden)} are hidden: use a wider screen, or --format csv"))
    return [*lines, *blocks.notes(notes, screen)]


def _table(report: Report, chosen: str, screen: Screen) -> tuple[list[str], list[str], list[str]]:
    """The table, the metrics that there was room for, and the header; the intervals tell methods apart, so that other
    metrics give way to them first.
    """
    every = list(report.definitions)
    for behind, count in [(behind, count) for behind in (True, False) for count in range(len(every), 0, -1)]:
        metrics = every[:count]  # other forms have them all
        header, cells = leaderboard.lines(report, metrics, behind=behind)
        lines = aligned([header, *cells], "l" + "r" * (len(header) - 1))
        if max(map(len, lines)) <= screen.width:
            break
    colored = [
        screen.good(line) if row[0].removesuffix(" *") == chosen else line
        for row, line in zip(cells, lines[1:], strict=True)
    ]
    return [screen.dim(lines[0]), *colored], metrics, header
