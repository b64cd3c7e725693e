"""The table of numbers: a metric a line, a score a column, or transposed where there are many scores."""

from __future__ import annotations

from collections.abc import Sequence

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, shown_width
from calcli.cli.views import blocks
from calcli.reporting.findings import Findings
from calcli.reporting.tables import by_metric, by_score


def table(numbers: Findings, screen: Screen) -> list[str]:
    """All numbers, with a header."""
    lines = _by_metric(numbers, screen)
    if len(numbers.scores) > 2 and max(map(shown_width, lines)) > screen.width:
        return _by_score(numbers, screen)
    return lines


def _by_metric(numbers: Findings, screen: Screen) -> list[str]:
    """One calibrated score also gets its change and the interval, as far as the screen is wide enough."""
    for extra in (2, 1, 0):
        table = by_metric(numbers, extra)
        rows = [[f"  {row[0]}", *row[1:]] if place in table.under else row for place, row in enumerate(table.rows)]
        header, *lines = aligned([table.header, *rows], "ll" + "r" * (len(table.header) - 2))
        if max(map(shown_width, [header, *lines])) <= screen.width:
            break
    dim = table.under | table.empty
    return [screen.dim(header), *(screen.dim(line) if place in dim else line for place, line in enumerate(lines))]


def _by_score(numbers: Findings, screen: Screen) -> list[str]:
    """A line for each score; metrics that do not fit into the width continue in another block."""
    names = ["", "better", *(score.name for score in numbers.scores)]
    lines: list[str] = []
    for block in _split(names, by_score(numbers), screen.width):
        rows = list(zip(names, *block, strict=True))
        lines += ["", *blocks.table(rows, "l" + "r" * len(block), screen, headers=2)]
    return lines[1:]


def _split(names: Sequence[str], columns: Sequence[list[str]], width: int) -> list[list[list[str]]]:
    """The columns in as many groups as it takes for each to fit beside the names."""
    room = width - 2 - max(map(shown_width, names))
    groups: list[list[list[str]]] = [[]]
    left = room
    for column in columns:
        taken = 2 + max(map(shown_width, column))
        if taken > left and groups[-1]:
            groups.append([])
            left = room
        groups[-1].append(column)
        left -= taken
    return groups
