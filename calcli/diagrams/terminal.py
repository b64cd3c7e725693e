"""Pictures for a terminal.

Bars are made of eighths of a letter, the diagonal and curves of Braille dots. What happened is grey; colour is error:
one where less happens than is predicted, another where more does, both pale where it may be chance. Without colours
the two are shades; without letters beyond ASCII there are signs, and fewer levels.

The roles of inks are ``bar``, ``over`` (less happens), ``under`` (more happens), ``over-chance``, ``under-chance``,
``line-0`` and so on, ``dim``, ``bold``, ``good`` and ``bad``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from calcli.diagrams.canvas import Canvas, Line, Piece, beside, cells, in_letters, shortened, wrapped
from calcli.diagrams.captions import SIDES, axes, caption, decimals, error_name, extent, fullest, happened, ticks
from calcli.diagrams.curves import Curve

EIGHTHS = " ▁▂▃▄▅▆▇█"
SHADES = {"over": "░", "under": "▒", "over-chance": "·", "under-chance": "·"}
"""What colours are where there are none."""

GAP = 4
"""Columns between panels."""

NOTES = 24
"""So many columns it takes to set text beside a panel."""

NARROW = 50
"""On fewer columns everything is small."""

LINES = 6
"""So many inks there are for curves."""

NOWHERE = 1e-9
"""Less than this is no distance between probabilities."""


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to draw on.

    Attributes
    ----------
    small
        As an addition to something else: half as wide and half as high.
    """

    width: int = 80
    color: bool = False
    unicode: bool = True
    small: bool = False


def draw(curves: Sequence[Curve], label: str, look: Look) -> list[Line]:
    """The picture: panels of one class side by side as far as there is room, classes below each other.

    `label` is the column that the axes speak of.
    """
    if look.width < NARROW:
        look = replace(look, small=True)
    if curves[0].kind == "rejection":
        lines = _rejections(curves, label, look)
    else:
        groups = [list(group) for _, group in groupby(curves, key=lambda curve: curve.of)]
        lines = [line for group in groups for line in _panels(group, label, look)] + _legend(curves, label, look)
    return in_letters(lines, unicode=look.unicode)


def abreast(curves: Sequence[Curve], look: Look) -> int:
    """How many scores there is room for side by side."""
    return max(1, (look.width + GAP) // (_frame(curves, "", look).outer + GAP))


def _panels(curves: Sequence[Curve], label: str, look: Look) -> list[Line]:
    """The scores of one class: where one fills the screen, what to see in it stands beside it, else above."""
    frame = _frame(curves, label, look)
    plots = [_plot(curve, frame, look) for curve in curves]
    most = abreast(curves, look)
    room = look.width - frame.outer - GAP
    if min(most, len(curves)) == 1 and room >= NOTES:
        blocks = [[plot, [[], *_notes(curve, room, look)]] for curve, plot in zip(curves, plots, strict=True)]
        return [line for block in blocks for line in [*beside(block, GAP), []]]
    lines: list[Line] = []
    for start in range(0, len(curves), most):
        some = slice(start, start + most)
        notes = [_notes(curve, frame.outer, look) for curve in curves[some]]
        high = max(map(len, notes))
        padded = [[*note, *([[]] * (high - len(note)))] for note in notes]
        lines += [*beside([[*note, *plot] for note, plot in zip(padded, plots[some], strict=True)], GAP), []]
    return lines


def _notes(curve: Curve, width: int, look: Look) -> list[Line]:
    """The name of a score, and what to see in its picture."""
    number = "" if look.small else f"{error_name(curve)} {curve.error:.4f}"
    name = shortened(curve.score, max(8, width - len(number) - 2))
    found = caption(curve)
    because = wrapped(f"{found.because}.", width, found.answer, "good" if found.good else "bad")
    return [[Piece(name, "bold"), Piece(" " * (width - cells(name) - len(number))), Piece(number, "dim")], *because]


# The frame


@dataclass(frozen=True, slots=True)
class _Frame:
    """What panels that stand together share.

    Attributes
    ----------
    width, height
        Of the plot, in letters.
    right, top
        Where the axes end; they begin at 0.
    margin
        Columns to the left of the plot.
    below
        What the x axis is, in words.
    """

    width: int
    height: int
    right: float
    top: float
    margin: int
    below: str

    @property
    def outer(self) -> int:
        """All columns; the last label of the x axis goes beyond the plot."""
        return self.margin + self.width + 2

    @property
    def zero(self) -> str:
        """Where the y axis begins, written as its other numbers are."""
        return next(iter(_labels(self.top, self.height // 3).values()))

    def framed(self, canvas: Canvas) -> list[Line]:
        """A plot with its y axis."""
        labels = {
            round(value / self.top * self.height): text for value, text in _labels(self.top, self.height // 3).items()
        }
        lines = []
        for row, line in enumerate(canvas.lines()):
            text = labels.get(self.height - row, "")
            lines.append([Piece(f"{text:>{self.margin - 2}} {'┤' if text else '│'}", "dim"), *line])
        return lines

    def floor(self, text: str = "") -> Line:
        """The x axis, with its ticks."""
        places = {round(value / self.right * self.width) for value in _labels(self.right, self.width // 6)}
        line = "".join("┴" if place in places else "─" for place in range(1, self.width + 1))
        return [Piece(f"{text:>{self.margin - 2}} {'┼' if text else '└'}{line}", "dim")]

    def numbers(self) -> Line:
        """What the ticks of the x axis stand for."""
        line = [" "] * self.outer
        for value, text in _labels(self.right, self.width // 6).items():
            begin = self.margin - 1 + round(value / self.right * self.width) - len(text) // 2
            line[begin : begin + len(text)] = text
        return [Piece("".join(line), "dim")]

    def name(self) -> list[Line]:
        text = shortened(self.below, self.outer)
        return [[Piece(" " * max(0, self.margin + (self.width - cells(text)) // 2) + text, "dim")]] if text else []


def _labels(top: float, most: int) -> dict[float, str]:
    """Ticks from 0 to `top`, with their texts."""
    values = ticks(0.0, top, max(2, most))
    digits = decimals(values)
    return {value: f"{value:.{digits}f}" for value in values}


def _frame(curves: Sequence[Curve], label: str, look: Look) -> _Frame:
    """A square, with as many columns for each bin as for any other."""
    top = extent(curves)
    width = 20 if look.small else 40
    spans = [end - begin for curve in curves for begin, end in curve.edges]
    if spans and min(spans) > max(spans) - NOWHERE > 0.0:
        bins = round(top / spans[0])
        if bins <= width:
            width = bins * max(1, round(width / bins))
    height = min(width // 2, 20)
    most = [] if look.small else [fullest(curve) for curve in curves]
    margin = max(map(len, [*_labels(top, height // 3).values(), *most])) + 2
    return _Frame(width, height, top, top, margin, "" if look.small else axes(curves[0], label)[0])


# Bars


@dataclass(frozen=True, slots=True)
class _Column:
    """What stands over one column of letters.

    Attributes
    ----------
    x, y, off
        As those of a point.
    density
        Rows per unit of probability.
    """

    x: float
    y: float
    off: bool
    density: float


def _plot(curve: Curve, frame: _Frame, look: Look) -> list[Line]:
    """The bars, and how many rows they stand for."""
    canvas = Canvas(frame.width, frame.height)
    columns = _columns(curve, frame)
    for place, column in enumerate(columns):
        if column is not None:
            _stack(canvas, place, column, frame, look)
    for x in range(2 * frame.width):
        canvas.dot(x, int((x + 0.5) / (2 * frame.width) * 4 * frame.height), "dim")
    counts = _histogram(columns, 1 if look.small else 3)
    labels = ["" if look.small else fullest(curve), "", ""]
    below = [
        [Piece(f"{label:>{frame.margin - 2}} {'┤' if label else '│'}", "dim"), *line]
        for label, line in zip(labels, counts.lines(), strict=False)
    ]
    return [*frame.framed(canvas), frame.floor(frame.zero), *below, frame.floor(), frame.numbers(), *frame.name()]


def _columns(curve: Curve, frame: _Frame) -> list[_Column | None]:
    """What is over each column: the bin around its middle with those inside it; of a curve, its value there."""
    found: list[_Column | None] = []
    for place in range(frame.width):
        left, right = (frame.right * (place + side) / frame.width for side in (0, 1))
        found.append(_from_bins(curve, left, right) if curve.edges else _from_line(curve, (left + right) / 2))
    return found


def _from_bins(curve: Curve, left: float, right: float) -> _Column | None:
    middle = (left + right) / 2
    chosen = [
        (point, density)
        for point, (begin, end), density in zip(curve.points, curve.edges, curve.densities, strict=True)
        if begin < middle <= end or left < max((begin + end) / 2, NOWHERE) <= right
    ]
    if not chosen:
        return None
    n = math.fsum(point.n for point, _ in chosen)
    x = math.fsum(point.n * point.x for point, _ in chosen) / n
    y = math.fsum(point.n * point.y for point, _ in chosen) / n
    return _Column(x, y, any(point.off for point, _ in chosen), max(density for _, density in chosen))


def _from_line(curve: Curve, middle: float) -> _Column | None:
    for before, after in pairwise(curve.points):
        if before.x <= middle <= after.x:
            part = (middle - before.x) / (after.x - before.x) if after.x > before.x else 0.0
            y, n = (one + part * (other - one) for one, other in ((before.y, after.y), (before.n, after.n)))
            return _Column(middle, y, before.off and after.off, n)
    return None


def _stack(canvas: Canvas, place: int, column: _Column, frame: _Frame, look: Look) -> None:
    """Grey up to the lower one of what was predicted and what happened, and the colour of the error up to the other."""
    side = "over" if column.y < column.x else "under"
    ink = side if column.off else f"{side}-chance"
    levels = 8 * frame.height
    low, high = sorted(min(levels, max(0, round(value / frame.top * levels))) for value in (column.x, column.y))
    for row in range(frame.height):
        bar, error = (min(8, max(0, level - 8 * row)) for level in (low, high))
        if error:
            canvas.put(place, row, *(_colored(bar, error, ink) if look.color else _shaded(bar, error, SHADES[ink])))


def _colored(bar: int, error: int, ink: str) -> tuple[str, str, str]:
    """A letter with `bar` eighths of bar, and error above it up to `error` eighths.

    It can show two of the three: those that leave out the least.
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
    """The same without colours: a letter is either, whichever there is more of."""
    if bar >= error - bar:
        return EIGHTHS[bar], "bar"
    return (shade if error >= 4 else " "), "bar"


def _histogram(columns: Sequence[_Column | None], height: int) -> Canvas:
    """Rows by the prediction; where there are any, there is something to see."""
    canvas = Canvas(len(columns), height)
    most = max((column.density for column in columns if column is not None), default=1.0)
    for place, column in enumerate(columns):
        if column is not None:
            level = max(1, round(column.density / most * 8 * height))
            for row in range(height):
                canvas.put(place, row, EIGHTHS[min(8, max(0, level - 8 * row))], "dim")
    return canvas


def _legend(curves: Sequence[Curve], label: str, look: Look) -> list[Line]:
    """What the bars and colours are."""
    points = [point for curve in curves for point in curve.points if point.x != point.y]
    entries: list[Line] = [[Piece("█", "bar"), Piece(f" {happened(curves)}")]]
    for side, text in SIDES.items():
        if any((point.y < point.x) == (side == "over") for point in points if point.off or look.color):
            entries.append([_sign(side, look), Piece(f" {text}")])
    if not all(point.off for point in points):
        signs = [_sign(f"{side}-chance", look) for side in SIDES]
        entries.append([*(signs if look.color else signs[:1]), Piece(" perhaps by chance")])
    return _in_rows(entries, look.width)


def _sign(ink: str, look: Look) -> Piece:
    return Piece("█", ink) if look.color else Piece(SHADES[ink], "bar")


def _in_rows(entries: Sequence[Line], width: int) -> list[Line]:
    """Entries beside each other, as many as there is room for."""
    rows: list[Line] = [[]]
    for entry in entries:
        taken = sum(cells(piece.text) for piece in rows[-1])
        if rows[-1] and taken + 3 + sum(cells(piece.text) for piece in entry) > width:
            rows.append([])
        rows[-1] += [*([Piece("   ")] if rows[-1] else []), *entry]
    return rows


# Rejection


def _rejections(curves: Sequence[Curve], label: str, look: Look) -> list[Line]:
    """The error rates of all scores in one plot."""
    width, height = (30, 10) if look.small else (min(60, look.width - 12), 18)
    top = extent(curves)
    margin = max(map(len, _labels(top, height // 3).values())) + 2
    frame = _Frame(width, height, 1.0, top, margin, axes(curves[0], label)[0])
    canvas = Canvas(width, height)
    for place, curve in enumerate(curves):
        if not look.unicode or not look.color:
            _letters(canvas, curve, place, frame)
    for place, curve in enumerate(curves):
        for x, y in _track(curve, frame):
            canvas.dot(x, y, f"line-{place % LINES}")
    plot = [[Piece(" " * frame.margin + axes(curves[0], label)[1], "dim")], *frame.framed(canvas)]
    plot += [frame.floor(frame.zero), frame.numbers(), *frame.name()]
    lines = [*plot, []]
    for place, curve in enumerate(curves):
        found = caption(curve)
        sign = "● " if look.color and look.unicode else f"{chr(ord('a') + place % 26)} = "
        room = look.width - len(sign)
        first, *others = wrapped(f"{found.because}.", room, shortened(curve.score, look.width // 2), "bold")
        lines.append([Piece(sign, f"line-{place % LINES}"), *first])
        lines += ([Piece(" " * len(sign)), *other] for other in others)
    return lines


def _track(curve: Curve, frame: _Frame) -> list[tuple[int, int]]:
    """The dots of a curve, without gaps."""
    across, up = 2 * frame.width, 4 * frame.height
    dots: list[tuple[int, int]] = []
    for before, after in pairwise(curve.points):
        first, last = (int(point.x / frame.right * across) for point in (before, after))
        for x in range(first, max(last, first + 1)):
            part = (x - first) / max(1, last - first)
            y = min(up - 1, int((before.y + part * (after.y - before.y)) / frame.top * up))
            start = dots[-1][1] if dots else y
            dots += [(x, between) for between in range(min(start, y) + 1, max(start, y))]
            dots.append((min(x, across - 1), y))
    return dots


def _letters(canvas: Canvas, curve: Curve, place: int, frame: _Frame) -> None:
    """A letter here and there, to tell curves apart without colours."""
    dots = _track(curve, frame)
    for share in (0.15, 0.45, 0.75):
        x, y = dots[min(len(dots) - 1, int((share + 0.04 * place) * len(dots)))]
        canvas.put(x // 2, y // 4, chr(ord("a") + place % 26), f"line-{place % LINES}")
