"""What `compare` found: a method a line, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, described, wrapped
from calcli.cli.views import facts
from calcli.cli.views.verdict import decimals

if TYPE_CHECKING:
    from calcli.verbs.compare import CompareResult
    from calcli.verbs.report import Difference, Report, ScoreRow

IDENTITY = "identity"
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
    notes.append(("gain", "how much the log-loss is below that of no calibration, with a 95 % interval"))
    hidden = [name for name in report.definitions if name not in metrics]
    if hidden:
        notes.append(("more", f"{', '.join(hidden)}: on a wider screen, or with --format"))
    return [*lines, "", *(screen.dim(line) for line in described(notes, screen.prose, least=_LEFT))]


def _table(report: Report, chosen: str, screen: Screen) -> tuple[list[str], list[str]]:
    """The table, and which metrics there was room for."""
    metrics = list(report.definitions)
    measured = [row for row in report.scores if row.status == "ok"]
    ranked = sorted(measured, key=lambda row: _rank(row, metrics[0], report.definitions[metrics[0]].direction))
    values = [value.value for row in measured for value in row.metrics.values() if value.value is not None]
    digits = decimals(values)
    gains = {each.score: each for each in report.differences if (each.versus, each.metric) == (IDENTITY, "nll")}
    while True:
        header = ["", *metrics, "gain", "95 % interval", "fit"]
        rows = [
            [row.name, *_cells(row, metrics, digits), *_gain(gains.get(row.name), digits), _time(row)] for row in ranked
        ]
        lines = aligned([header, *rows], "l" + "r" * (len(header) - 1))
        if max(map(len, lines)) <= screen.width or len(metrics) == 1:
            break
        metrics.pop()  # the other formats have them all; what tells methods apart is the gain with its interval
    painted = [screen.dim(lines[0])]
    for row, line in zip(ranked, lines[1:], strict=True):
        painted.append(screen.good(line) if row.name == chosen else line)
    return painted, metrics


def _rank(row: ScoreRow, metric: str, direction: str) -> float:
    value = row.metrics[metric].value
    if value is None:
        return float("inf")
    return -value if direction == "higher" else value


def _cells(row: ScoreRow, metrics: Sequence[str], digits: int) -> list[str]:
    values = [row.metrics[name].value for name in metrics]
    return ["n/a" if value is None else f"{value:.{digits}f}" for value in values]


def _gain(difference: Difference | None, digits: int) -> list[str]:
    if difference is None or difference.value is None:
        return ["", ""]
    gain = f"{-difference.value:+.{digits}f}"
    if difference.lo is None or difference.hi is None:
        return [gain, ""]
    return [gain, f"{-difference.hi:+.{digits}f} to {-difference.lo:+.{digits}f}"]


def _time(row: ScoreRow) -> str:
    return "" if row.seconds.fit is None else f"{row.seconds.fit:.2f} s"
