"""The table of numbers: a metric a line, a score a column, or transposed where there are many scores."""

from __future__ import annotations

from collections.abc import Sequence

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, shown_width
from calcli.cli.views import blocks
from calcli.reporting.findings import Change, Findings, Numbers
from calcli.reporting.typesetting import decimals, interval, number, signed


def table(numbers: Findings, screen: Screen) -> list[str]:
    """All numbers, with a header."""
    lines = _by_metric(numbers, screen)
    if len(numbers.scores) > 2 and max(map(shown_width, lines)) > screen.width:
        return _by_score(numbers, screen)
    return lines


def _by_metric(numbers: Findings, screen: Screen) -> list[str]:
    """One calibrated score also gets its change and the interval, as far as the screen is wide enough."""
    single = numbers.calibrated[0] if len(numbers.calibrated) == 1 else None
    for extra in (2, 1, 0) if single is not None else (0,):
        lines = _metric_lines(numbers, screen, single, extra)
        if max(map(shown_width, lines)) <= screen.width:
            break
    return lines


def _metric_lines(numbers: Findings, screen: Screen, single: Numbers | None, extra: int) -> list[str]:
    """The table with `extra` columns on the change of the single calibrated score; floors and p-values are dim."""
    digits = _digits(numbers)
    floors, ps = [score.floors for score in numbers.scores], [score.ps for score in numbers.scores]
    header = ["", "better", *(score.name for score in numbers.scores), *("change", "95 % interval")[:extra]]
    rows = [header]
    dim = {0}
    for metric in numbers.metrics:
        values = [number(score.values.get(metric), digits) for score in numbers.scores]
        change = _change(numbers.changes.get((single.name, metric)), digits) if single is not None else []
        rows.append([metric, numbers.directions[metric], *values, *change[:extra]])
        for label, columns in (("floor", floors), ("p", ps)):
            if any(metric in values for values in columns):
                dim.add(len(rows))
                cells = [number(column.get(metric), digits) for column in columns]
                rows.append([f"  {label}", "", *cells, *[""] * extra])
    lines = aligned(rows, "ll" + "r" * (len(header) - 2))
    return [screen.dim(line) if place in dim else line for place, line in enumerate(lines)]


def _by_score(numbers: Findings, screen: Screen) -> list[str]:
    """A line for each score; metrics that do not fit into the width continue in another block."""
    digits = _digits(numbers)
    columns: list[list[str]] = []
    for metric in numbers.metrics:
        values = [number(score.values.get(metric), digits) for score in numbers.scores]
        columns.append([metric, numbers.directions[metric], *values])
        if any(metric in score.floors for score in numbers.scores):
            floors = [number(score.floors.get(metric), digits) for score in numbers.scores]
            columns.append([metric, "floor", *floors])
    names = ["", "better", *(score.name for score in numbers.scores)]
    lines: list[str] = []
    for block in _split(names, columns, screen.width):
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


def _digits(numbers: Findings) -> int:
    """Decimals of the whole table, so that the points line up."""
    return decimals([value for score in numbers.scores for value in score.values.values() if value is not None])


def _change(change: Change | None, digits: int) -> list[str]:
    if change is None or change.value is None:
        return ["", ""]
    return [signed(change.value, digits), interval(change.lo, change.hi, digits)]
