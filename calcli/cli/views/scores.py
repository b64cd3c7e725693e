"""The table of numbers: a metric a line, a score a column; the other way round where scores are many."""

from __future__ import annotations

from collections.abc import Sequence

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, shown_width
from calcli.reporting.findings import Findings, Numbers
from calcli.reporting.tables import difference_cells
from calcli.reporting.typesetting import number


def table(found: Findings, screen: Screen) -> list[str]:
    """All numbers, with a header."""
    lines = _by_metric(found, screen)
    if len(found.scores) > 2 and max(map(shown_width, lines)) > screen.width:
        return _by_score(found, screen)
    return lines


def _by_metric(found: Findings, screen: Screen) -> list[str]:
    """With one calibrated score there is room for how much it changed, on a wide screen also for the interval."""
    alone = found.calibrated[0] if len(found.calibrated) == 1 else None
    for extra in (2, 1, 0) if alone is not None else (0,):
        lines = _metric_lines(found, screen, alone, extra)
        if max(map(shown_width, lines)) <= screen.width:
            break
    return lines


def _metric_lines(found: Findings, screen: Screen, alone: Numbers | None, extra: int) -> list[str]:
    digits = found.digits
    header = ["", "better", *(score.name for score in found.scores), *("change", "95 % interval")[:extra]]
    rows = [header]
    dim = {0}
    for metric in found.metrics:
        values = [number(score.values.get(metric), digits) for score in found.scores]
        change = difference_cells(found.differences.get((alone.name, metric)), digits) if alone is not None else []
        rows.append([metric, found.directions[metric], *values, *change[:extra]])
        for label, known in found.floors_and_ps(metric):
            dim.add(len(rows))
            rows.append([f"  {label}", "", *(number(value, digits) for value in known), *[""] * extra])
    lines = aligned(rows, "ll" + "r" * (len(header) - 2))
    return [screen.dim(line) if place in dim else line for place, line in enumerate(lines)]


def _by_score(found: Findings, screen: Screen) -> list[str]:
    """A line for each score; metrics that do not fit side by side go into another block."""
    digits = found.digits
    columns: list[list[str]] = []
    for metric in found.metrics:
        values = [number(score.values.get(metric), digits) for score in found.scores]
        columns.append([metric, found.directions[metric], *values])
        if any(metric in score.floors for score in found.scores):
            floors = [number(score.floors.get(metric), digits) for score in found.scores]
            columns.append([metric, "floor", *floors])
    names = ["", "better", *(score.name for score in found.scores)]
    lines: list[str] = []
    for block in _blocks(names, columns, screen.width):
        laid = aligned(list(zip(names, *block, strict=True)), "l" + "r" * len(block))
        lines += ["", *map(screen.dim, laid[:2]), *laid[2:]]
    return lines[1:]


def _blocks(names: Sequence[str], columns: Sequence[list[str]], width: int) -> list[list[list[str]]]:
    """The columns in as many groups as it takes for each to fit beside the names."""
    room = width - 2 - max(map(shown_width, names))
    blocks: list[list[list[str]]] = [[]]
    left = room
    for column in columns:
        taken = 2 + max(map(shown_width, column))
        if taken > left and blocks[-1]:
            blocks.append([])
            left = room
        blocks[-1].append(column)
        left -= taken
    return blocks
