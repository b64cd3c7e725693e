"""Pictures for a terminal.

Bars are made of block elements, which divide a character cell into eighths; the diagonal and curves are Braille dots.
The observed rate is grey, and the error has a colour: one where less happens than is predicted, another where more
does, both pale where it may be chance. Without colours the two are shades; without Unicode they are ASCII signs, and
bars have fewer levels.

The roles of inks are ``bar``, ``over`` (less happens), ``under`` (more happens), ``over-chance``, ``under-chance``,
``line-0`` and so on, ``dim``, ``bold``, ``good`` and ``bad``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from calcli.diagrams.axis import Axis
from calcli.diagrams.canvas import Canvas, Line, Piece, beside, cells, in_letters, shortened, width_of, wrapped
from calcli.diagrams.captions import caption
from calcli.diagrams.charts import Chart, curve_charts
from calcli.diagrams.curves import SIDES, Curve, Point, axes, axis_of, error_text, fullest, rate_text, scale_text

EIGHTHS = " ▁▂▃▄▅▆▇█"
SHADES = {"over": "░", "under": "▒", "over-chance": "·", "under-chance": "·"}
"""The signs of the error where there are no colours."""

GAP = 4
"""Columns between panels."""

NOTES = 25
"""The fewest columns in which text is set beside a panel."""

NARROW = 50
"""On narrower screens everything is small."""

LINES = 6
"""Inks for curves."""

ROUNDING = 1e-9
"""Probabilities that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class TerminalStyle:
    """The capabilities of the terminal."""

    width: int = 80
    color: bool = False
    unicode: bool = True
    small: bool = False
    """Half as wide and half as high, as an addition to other output."""


def draw(curves: Sequence[Curve], label: str, style: TerminalStyle) -> list[Line]:
    """The picture: panels of one class side by side as far as there is room, classes below each other.

    `label` is the column that the axes speak of.
    """
    if style.width < NARROW:
        style = replace(style, small=True)
    if curves[0].charted:
        return charts(curve_charts(curves, label, "none"), style)
    groups = [list(group) for _, group in groupby(curves, key=lambda curve: curve.of)]
    lines = [line for group in groups for line in _panels(group, label, style)] + _legend(curves, label, style)
    return in_letters(lines, unicode=style.unicode)


def abreast(curves: Sequence[Curve], style: TerminalStyle) -> int:
    """How many scores there is room for side by side."""
    return max(1, (style.width + GAP) // (_plot_area(curves, "", style).outer + GAP))


def _panels(curves: Sequence[Curve], label: str, style: TerminalStyle) -> list[Line]:
    """The scores of one class: where a panel fills the screen, its caption stands beside it, else above."""
    frame = _plot_area(curves, label, style)
    plots = [_plot(curve, frame, style) for curve in curves]
    most = abreast(curves, style)
    room = style.width - frame.outer - GAP
    if min(most, len(curves)) == 1 and room >= NOTES:
        blocks = [[plot, [[], *_notes(curve, room, style)]] for curve, plot in zip(curves, plots, strict=True)]
        return [line for block in blocks for line in [*beside(block, GAP), []]]
    lines: list[Line] = []
    for start in range(0, len(curves), most):
        some = slice(start, start + most)
        notes = [_notes(curve, frame.outer, style) for curve in curves[some]]
        high = max(map(len, notes))
        padded = [[*note, *([[]] * (high - len(note)))] for note in notes]
        lines += [*beside([[*note, *plot] for note, plot in zip(padded, plots[some], strict=True)], GAP), []]
    return lines


def _notes(curve: Curve, width: int, style: TerminalStyle) -> list[Line]:
    """The name of a score, its error, and the caption of its picture."""
    number = "" if style.small else error_text(curve)
    verdict = caption(curve)
    because = wrapped(f"{verdict.because}.", width, verdict.answer, "good" if verdict.good else "bad")
    if number and cells(curve.score) > width - len(number) - 2:
        return [[Piece(shortened(curve.score, width), "bold")], [Piece(number, "dim")], *because]
    name = shortened(curve.score, width)
    return [[Piece(name, "bold"), Piece(" " * (width - cells(name) - len(number))), Piece(number, "dim")], *because]


# The frame


@dataclass(frozen=True, slots=True)
class _PlotArea:
    """The axes that panels of one group share."""

    width: int
    height: int
    """`width`, `height`: of the plot, in character cells."""

    x: Axis
    y: Axis

    margin: int
    """Columns to the left of the plot."""

    below: str
    """The name of the x axis."""

    @property
    def outer(self) -> int:
        """All columns; the last label of the x axis goes beyond the plot."""
        return self.margin + self.width + 2

    @property
    def x_labels(self) -> dict[float, str]:
        return self.x.labels(self.width // 6)

    def framed(self, canvas: Canvas) -> list[Line]:
        named = self.y.labels(self.height // 3)
        labels = {round(self.y.share(value) * self.height): text for value, text in named.items()}
        lines = [self.row(labels.get(self.height - row, ""), line) for row, line in enumerate(canvas.lines())]
        return [*lines, self.floor(labels.get(0, ""))]

    def row(self, label: str, line: Line) -> Line:
        """A line of a plot behind the y axis."""
        return [Piece(f"{label:>{self.margin - 2}} {'┤' if label else '│'}", "dim"), *line]

    def floor(self, text: str = "") -> Line:
        """The x axis, with its ticks."""
        places = {round(self.x.share(value) * self.width) for value in self.x_labels}
        line = "".join("┴" if place in places else "─" for place in range(1, self.width + 1))
        return [Piece(f"{text:>{self.margin - 2}} {'┼' if text else '└'}{line}", "dim")]

    def numbers(self) -> Line:
        """The labels of the x axis."""
        line = [" "] * self.outer
        for value, text in self.x_labels.items():
            middle = self.margin - 1 + round(self.x.share(value) * self.width)
            begin = min(middle - len(text) // 2, self.outer - len(text))
            line[begin : begin + len(text)] = text
        return [Piece("".join(line), "dim")]

    def name(self) -> list[Line]:
        text = shortened(self.below, self.outer)
        middle = self.margin + (self.width - cells(text)) // 2
        return [[Piece(" " * max(0, min(middle, self.outer - cells(text))) + text, "dim")]] if text else []


def _plot_area(curves: Sequence[Curve], label: str, style: TerminalStyle) -> _PlotArea:
    """A square, wide enough for every bin of equal width to have the same number of columns."""
    axis = axis_of(curves)
    width = 20 if style.small else 40
    spans = [end - begin for curve in curves for begin, end in curve.edges]
    if axis.scale == "prob" and spans and min(spans) > max(spans) - ROUNDING > 0.0:
        width = _even_width(axis.end / spans[0], width)
    height = min(width // 2, 20)
    most = [] if style.small else [fullest(curve) for curve in curves]
    margin = max(map(len, [*axis.labels(height // 3).values(), *most])) + 2
    return _PlotArea(width, height, axis, axis, margin, "" if style.small else axes(curves[0], label)[0])


def _even_width(bins: float, width: int) -> int:
    """The most columns up to `width` that give as many to each bin; the last may be cut by the axis."""
    even = (bins * each for each in range(1, width + 1) if abs(bins * each - round(bins * each)) < ROUNDING * width)
    return max((round(each) for each in even if each < width + 0.5), default=width)


# Bars


@dataclass(frozen=True, slots=True)
class _Column:
    """The values that are drawn in one column of characters."""

    x: float
    y: float
    off: bool
    """`x`, `y`, `off`: the fields of a point."""

    density: float
    """Rows per unit of probability."""


def _plot(curve: Curve, frame: _PlotArea, style: TerminalStyle) -> list[Line]:
    """The bars, and how many rows they stand for."""
    canvas = Canvas(frame.width, frame.height)
    columns = _columns(curve, frame)
    for place, column in enumerate(columns):
        if column is not None:
            _stack(canvas, place, column, frame, style)
    for x in range(2 * frame.width):
        canvas.dot(x, int((x + 0.5) / (2 * frame.width) * 4 * frame.height), "dim")
    counts = _histogram(columns, 1 if style.small else 3)
    labels = ["" if style.small else fullest(curve), "", ""]
    below = map(frame.row, labels, counts.lines())
    return [*frame.framed(canvas), *below, frame.floor(), frame.numbers(), *frame.name()]


def _columns(curve: Curve, frame: _PlotArea) -> list[_Column | None]:
    """The values of each column: of bars the bin around its middle and those inside it, of a curve its value there."""
    ends = [frame.x.value(place / frame.width) for place in range(frame.width + 1)]
    heights = curve.heights(frame.x)
    return [(_from_bins if curve.edges else _from_line)(curve, heights, left, right) for left, right in pairwise(ends)]


def _from_bins(
    curve: Curve, heights: Sequence[tuple[float, float, float]], left: float, right: float
) -> _Column | None:
    middle = (left + right) / 2
    chosen = [
        (point, density)
        for point, (begin, end, density) in zip(curve.points, heights, strict=True)
        if begin < middle <= end or left < max((begin + end) / 2, ROUNDING) <= right
    ]
    if not chosen:
        return None
    n = math.fsum(point.n for point, _ in chosen)
    x = math.fsum(point.n * point.x for point, _ in chosen) / n
    y = math.fsum(point.n * point.y for point, _ in chosen) / n
    return _Column(x, y, any(point.off for point, _ in chosen), max(density for _, density in chosen))


def _from_line(
    curve: Curve, heights: Sequence[tuple[float, float, float]], left: float, right: float
) -> _Column | None:
    middle = (left + right) / 2
    for before, after in pairwise(curve.points):
        if before.x <= middle <= after.x:
            part = (middle - before.x) / (after.x - before.x) if after.x > before.x else 0.0
            density = max((height for begin, end, height in heights if begin < right and end > left), default=0.0)
            return _Column(middle, before.y + part * (after.y - before.y), before.off and after.off, density)
    return None


def _stack(canvas: Canvas, place: int, column: _Column, frame: _PlotArea, style: TerminalStyle) -> None:
    """Grey up to the lower of prediction and observed rate, then the colour of the error up to the higher."""
    side = "over" if column.y < column.x else "under"
    ink = side if column.off else f"{side}-chance"
    levels = 8 * frame.height
    low, high = sorted(round(frame.y.share(value) * levels) for value in (column.x, column.y))
    for row in range(frame.height):
        bar, error = (min(8, max(0, level - 8 * row)) for level in (low, high))
        if error:
            canvas.put(place, row, *(_colored(bar, error, ink) if style.color else _shaded(bar, error, SHADES[ink])))


def _colored(bar: int, error: int, ink: str) -> tuple[str, str, str]:
    """A character with the bar up to `bar` eighths, and the error above it up to `error` eighths.

    A cell has one ink and one paper, but may hold three regions (bar, error, empty). The way is chosen that draws the
    fewest eighths wrong: without the error, without the empty rest (error as paper), or without the bar.
    """
    if bar == error:
        return EIGHTHS[bar], "bar", ""
    wrong = {"bar": error - bar, "both": 8 - error, "error": bar}
    least = min(wrong, key=lambda way: wrong[way])
    if least == "both" and bar > 0:
        return EIGHTHS[bar], "bar", ink
    if least == "bar":
        return EIGHTHS[bar], "bar", ""
    return EIGHTHS[error], ink, ""


def _shaded(bar: int, error: int, shade: str) -> tuple[str, str]:
    """A character without colours: bar or error, whichever fills more of it."""
    if bar >= error - bar:
        return EIGHTHS[bar], "bar"
    return (shade if error >= 4 else " "), "bar"


def _histogram(columns: Sequence[_Column | None], height: int) -> Canvas:
    """Density by prediction; a column with any rows shows at least one eighth."""
    canvas = Canvas(len(columns), height)
    most = max((column.density for column in columns if column is not None), default=1.0)
    for place, column in enumerate(columns):
        if column is not None and column.density > 0:
            level = max(1, round(column.density / most * 8 * height))
            for row in range(height):
                canvas.put(place, row, EIGHTHS[min(8, max(0, level - 8 * row))], "dim")
    return canvas


def _legend(curves: Sequence[Curve], label: str, style: TerminalStyle) -> list[Line]:
    """The legend of bars and colours. Without colours, errors that may be chance have one sign for both sides."""
    points = [point for curve in curves for point in curve.points if point.x != point.y]
    entries: list[Line] = [[Piece("█", "bar"), Piece(f" {rate_text(curves)}")]]
    for side, text in SIDES.items():
        if any(point.side == side for point in points if point.off or style.color):
            entries.append([_legend_mark(side, style), Piece(f" {text}")])
    if not all(point.off for point in points):
        signs = [_legend_mark(f"{side}-chance", style) for side in SIDES]
        entries.append([*(signs if style.color else signs[:1]), Piece(" not significant")])
    if points and (text := scale_text(curves)):
        entries.append([Piece(text)])
    return _in_rows(entries, style.width)


def _legend_mark(ink: str, style: TerminalStyle) -> Piece:
    return Piece("█", ink) if style.color else Piece(SHADES[ink], "bar")


def _in_rows(entries: Sequence[Line], width: int) -> list[Line]:
    """Entries side by side, as many as a line has room for."""
    rows: list[Line] = [[]]
    for entry in entries:
        if rows[-1] and width_of(rows[-1]) + 3 + width_of(entry) > width:
            rows.append([])
        rows[-1] += [*([Piece("   ")] if rows[-1] else []), *entry]
    return rows


# Charts


def charts(shown: Sequence[Chart], style: TerminalStyle) -> list[Line]:
    blocks = [[*_chart(chart.within(), style), []] for chart in shown]
    return in_letters([line for block in blocks for line in block][:-1], unicode=style.unicode)


def _chart(chart: Chart, style: TerminalStyle) -> list[Line]:
    """Several lines in one plot, and what they are."""
    width, height = (30, 10) if style.small else (min(60, style.width - 12), 18)
    margin = max(map(len, chart.y.labels(height // 3).values())) + 2
    frame = _PlotArea(width, height, chart.x, chart.y, margin, chart.x_name)
    canvas = Canvas(width, height)
    dots = [_curve_dots(track.points, frame) for track in chart.tracks]
    inks = ["dim" if place is None else f"line-{place % LINES}" for place in chart.colors]
    for at, _ in chart.marks:
        for y in range(0, 4 * height, 2):
            canvas.dot(min(int(chart.x.share(at) * 2 * width), 2 * width - 1), y, "dim")
    if not style.unicode or not style.color or chart.square:
        for place, ink in enumerate(inks):
            _letters(canvas, dots[place], place, ink)
    for ink, curve in zip(inks, dots, strict=True):
        for x, y in curve:
            canvas.dot(x, y, ink)
    lines: list[Line] = [[Piece(chart.title, "bold")]] if chart.title else []
    lines += [[Piece(" " * frame.margin + chart.y_name, "dim")], *frame.framed(canvas)]
    lines += [frame.numbers(), *frame.name(), []]
    for place, (track, ink) in enumerate(zip(chart.tracks, inks, strict=True)):
        sign = "● " if style.color and style.unicode and not chart.square else f"{chr(ord('a') + place % 26)} = "
        room = style.width - len(sign)
        note = f"{track.note}." if track.note else ""
        first, *others = wrapped(note, room, shortened(track.name, style.width // 2), "bold")
        lines.append([Piece(sign, ink), *first])
        lines += ([Piece(" " * len(sign)), *other] for other in others)
    return [*lines, *([Piece("│ ", "dim"), Piece(f"{at:.3g}: {name}")] for at, name in chart.marks)]


def _curve_dots(points: Sequence[Point], frame: _PlotArea) -> list[tuple[int, int]]:
    """The Braille dots of a curve, without gaps: steep parts are filled with vertical runs of dots."""
    across, up = 2 * frame.width, 4 * frame.height
    dots: list[tuple[int, int]] = []
    for before, after in pairwise(points):
        first, last = (int(frame.x.share(point.x) * across) for point in (before, after))
        for x in range(first, max(last, first + 1)):
            part = (x - first) / max(1, last - first)
            y = min(up - 1, int(frame.y.share(before.y + part * (after.y - before.y)) * up))
            start = dots[-1][1] if dots else y
            dots += [(x, between) for between in range(min(start, y) + 1, max(start, y))]
            dots.append((min(x, across - 1), y))
    return dots


def _letters(canvas: Canvas, dots: Sequence[tuple[int, int]], place: int, ink: str) -> None:
    """A letter at three places of the curve, shifted from curve to curve, to tell curves apart without colours."""
    for share in (0.15, 0.45, 0.75) if dots else ():
        x, y = dots[min(len(dots) - 1, int((share + 0.04 * place) * len(dots)))]
        canvas.put(x // 2, y // 4, chr(ord("a") + place % 26), ink)
