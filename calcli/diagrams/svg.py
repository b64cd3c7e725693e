"""Pictures as SVG inside a page, which has the colours (`page.css`) and answers to the pointer (`page.js`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from calcli.diagrams.axis import Axis, tick_labels, ticks
from calcli.diagrams.canvas import shortened
from calcli.diagrams.captions import caption, names
from calcli.diagrams.charts import Chart, Track
from calcli.diagrams.curves import Bands, Curve, Point, axes, fullest, runs
from calcli.diagrams.layout import NUDGE, spread

# In units of the picture.
LEFT, TOP, SIDE = 48.0, 12.0, 300.0
SPACE, COUNTS = 10.0, 46.0
WIDE, HIGH = 600.0, 340.0
RIGHT, BELOW = 18.0, 46.0
SQUARE, LABELS, LETTERS = 440.0, 150.0, 18
"""The side of an overlay, the room for the names of its lines, and how long they may be, in letters."""

DASHES = ("", "9 3", "2.5 2.5", "10 3 2.5 3", "5 2", "14 3 2.5 3 2.5 3")
"""The dashes of the lines of an overlay, which tell them apart without colours."""

BANDS: dict[Bands, str] = {
    "consistency": "95 % range if calibrated",
    "bootstrap": "95 % interval",
    "none": "",
}

LINES = 6
"""The number of colours for curves."""


@dataclass(frozen=True, slots=True)
class PlotArea:
    """The place of a plot in a picture, and its axes."""

    left: float
    top: float
    width: float
    height: float
    x_axis: Axis
    y_axis: Axis

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def x(self, value: float) -> float:
        return self.left + self.x_axis.share(value) * self.width

    def y(self, value: float) -> float:
        return self.bottom - self.y_axis.share(value) * self.height

    def path(self, points: Iterable[tuple[float, float]]) -> str:
        """A line through points."""
        return "M" + "L".join(f"{_number(self.x(x))} {_number(self.y(y))}" for x, y in points)

    def box(self, kind: str, left: float, right: float, low: float, high: float) -> str:
        """A rectangle; empty where it has no height."""
        if high <= low:
            return ""
        x, y = self.x(left), self.y(high)
        size = f'width="{_number(self.x(right) - x - 0.6)}" height="{_number(self.y(low) - y)}"'
        return f'<rect class="{kind}" x="{_number(x + 0.3)}" y="{_number(y)}" {size}/>'


def panel(curve: Curve, axis: Axis, label: str, bands: Bands) -> str:
    """One score: the bars or the curve, and below them how many rows they stand for."""
    frame = PlotArea(LEFT, TOP, SIDE, SIDE, axis, axis)
    heights = curve.heights(axis)
    most = max((height for _, _, height in heights), default=1.0)
    counts = PlotArea(LEFT, TOP + SIDE + SPACE, SIDE, COUNTS, axis, Axis(most))
    x_name, y_name = axes(curve, label)
    drawn = _bars(curve, frame) if curve.edges else _smooth(curve, frame)
    drawn += "".join(counts.box("count", begin, end, 0.0, height) for begin, end, height in heights)
    scale = _text(LEFT - 6, counts.top + 10, fullest(curve), "end soft")
    predicted, observed = names(curve.of)
    return _picture(
        (LEFT + SIDE + RIGHT, counts.bottom + BELOW),
        frame,
        f"{curve.score}: {caption(curve).text} x: {x_name}; y: {y_name}",
        f'data-drawn="{curve.kind}" data-band="{BANDS[bands]}" data-predicted="{predicted}" data-observed="{observed}"',
        _track(curve.score, curve.points, drawn, curve.edges),
        _stroke("diagonal", frame.path([(axis.begin, axis.begin), (axis.end, axis.end)])),
        scale,
        _axes(frame, counts.bottom, x_name, y_name),
    )


def _bars(curve: Curve, frame: PlotArea) -> str:
    parts = []
    for point, (begin, end) in zip(curve.points, curve.edges, strict=True):
        low, high = sorted((point.x, point.y))
        parts += [
            frame.box("bar", begin, end, 0.0, low),
            frame.box(_side(point), begin, end, low, high),
            _stroke("cap", frame.path([(begin, point.y), (end, point.y)])),
        ]
        if point.lo is not None and point.hi is not None:
            parts.append(_stroke("band", frame.path([(point.x, point.lo), (point.x, point.hi)])))
    return "".join(parts)


def _smooth(curve: Curve, frame: PlotArea) -> str:
    points = curve.points
    if not points:
        return ""
    ends = (points[-1].x, points[0].x)
    below = [(one.x, min(one.x, one.y)) for one in points]
    parts = [_area("bar", frame, below, [(x, 0.0) for x in ends])]
    for run in runs(points):
        parts.append(
            _area(_side(run[0]), frame, [(one.x, one.y) for one in run], [(one.x, one.x) for one in reversed(run)])
        )
    for edge in ("lo", "hi"):
        if points[0].lo is not None:
            parts.append(_stroke("edge", frame.path((one.x, getattr(one, edge)) for one in points)))
    parts.append(_stroke("cap", frame.path((one.x, one.y) for one in points)))
    return "".join(parts)


def _side(point: Point) -> str:
    return point.side + ("" if point.off else " chance")


def chart(shown: Chart) -> str:
    """Several lines in one picture."""
    shown = shown.within()
    wide, high = (SQUARE, SQUARE) if shown.square else (WIDE, HIGH)
    frame = PlotArea(LEFT + 24, TOP, wide, high, shown.x, shown.y)
    x, y = shown.x, shown.y
    grid = "".join(_stroke("grid", frame.path([(x.begin, at), (x.end, at)])) for at in y.labels() if at != y.begin)
    marks = "".join(_stroke("dotted", frame.path([(at, y.begin), (at, y.end)])) for at, _ in shown.marks)
    tracks = "".join(
        _track(track.name, track.points, _drawn(track, ink(place), frame, DASHES[place or 0] if shown.square else ""))
        for track, place in zip(shown.tracks, shown.colors, strict=True)
    )
    named = "; ".join(f"{track.name}{track.note}" for track in shown.tracks)
    right = LABELS if shown.square else RIGHT
    labels = _labels(shown, frame) if shown.square else ""
    size = (frame.left + wide + right, frame.bottom + BELOW)
    drawn = f'data-drawn="{shown.drawn}" data-x="{escape(shown.x_name)}"'
    floor = _axes(frame, frame.bottom, shown.x_name, shown.y_name)
    line = '<path class="at" hidden=""/>'  # of the slider
    return _picture(size, frame, named, drawn, grid, marks, tracks, labels, floor, line)


class IntervalRow(NamedTuple):
    """A line of a picture of estimates: each a value with the ends of its interval, of which some may be unknown."""

    name: str
    estimate: tuple[float, float | None, float | None]
    labels: tuple[float, float | None, float | None] | None
    mean: float | None
    """The mean of the scores."""

    others: tuple[float, ...] = ()
    """The means of other scores."""


ESTIMATE = "var(--ink)"
"""The colour of an estimate; scores have those of lines."""

LEFT_OF_ROWS, SPAN, LINE = 16.0, 764.0, 52.0
"""The margin, the width and the height of a line below its name, which may be long."""


def intervals(rows: Sequence[IntervalRow], x_name: str) -> str:
    """Estimates below their names, and the means of the labels alone, each with its interval; the means of scores."""
    known = [
        end for row in rows for end in (*row.estimate, *(row.labels or ()), row.mean, *row.others) if end is not None
    ]
    right = max([1e-9, *known]) * 1.04
    frame = PlotArea(LEFT_OF_ROWS, TOP, SPAN, LINE * len(rows), Axis(right), Axis(1.0))
    parts = [_stroke("grid", f"M{_number(frame.x(x))} {_number(TOP)}V{_number(frame.bottom)}") for x in ticks(right)]
    for place, row in enumerate(rows):
        y = TOP + LINE * (place + 0.7)
        parts.append(_text(LEFT_OF_ROWS, y - 20, row.name, ""))
        parts.append(_spanned(frame, row.estimate, y - 5 * (row.labels is not None), ESTIMATE, 3.0))
        if row.labels is not None:
            parts.append(_spanned(frame, row.labels, y + 6, ink(None), 1.5))
        for series, mean in enumerate((row.mean, *row.others)):
            if mean is not None:
                x, color = _number(frame.x(mean)), ink(series)
                parts.append(f'<path d="M{x} {_number(y - 12)}v24" style="stroke:{color};stroke-width:2;fill:none"/>')
    for value, text in tick_labels(right).items():
        parts.append(_text(frame.x(value), frame.bottom + 17, text, "middle"))
    parts.append(_text(LEFT_OF_ROWS + frame.width / 2, frame.bottom + 38, x_name, "middle soft"))
    size = f"0 0 {_number(LEFT_OF_ROWS + SPAN + RIGHT)} {_number(frame.bottom + BELOW)}"
    said = "; ".join(f"{row.name}: {row.estimate[0]:.4g}" for row in rows)
    return f'<svg viewBox="{size}" role="img" aria-label="{escape(f"{x_name}. {said}")}">{"".join(parts)}</svg>\n'


def _spanned(
    frame: PlotArea, ends: tuple[float, float | None, float | None], y: float, color: str, width: float
) -> str:
    value, lo, hi = ends
    dot = f'<circle cx="{_number(frame.x(value))}" cy="{_number(y)}" r="{width + 1:g}" style="fill:{color}"/>'
    if lo is None or hi is None:
        return dot
    path = f"M{_number(frame.x(max(lo, 0.0)))} {_number(y)}H{_number(frame.x(hi))}"
    return f'<path d="{path}" style="stroke:{color};stroke-width:{width:g};fill:none"/>{dot}'


def ink(place: int | None) -> str:
    """The colour of a line; None is that of plain ones."""
    return "var(--soft)" if place is None else f"var(--line-{place % LINES})"


def _labels(shown: Chart, frame: PlotArea) -> str:
    """The name of each line at its end, apart from the others, with a stroke that leads to it."""
    ends = [frame.bottom - frame.y(track.points[-1].y) + NUDGE * track.points[-1].x for track, _ in shown.named]
    parts = []
    for (track, place), at in zip(shown.named, spread(ends, 22.0, frame.height), strict=True):
        x, y = frame.x(track.points[-1].x), frame.y(track.points[-1].y)
        side, height = frame.left + frame.width + 12.0, frame.bottom - at
        path = f"M{_number(x)} {_number(y)}L{_number(side)} {_number(height)}"
        stroke = f'<path d="{path}" style="stroke:{ink(place)};stroke-width:.8;fill:none"/>'
        name = _text(side + 4.0, height + 4.0, shortened(track.name, LETTERS), "name", f'style="fill:{ink(place)}"')
        parts.append(f'<g data-score="{escape(track.name)}">{stroke}{name}</g>')
    return "".join(parts)


def _drawn(track: Track, color: str, frame: PlotArea, dash: str = "") -> str:
    """A line and its band."""
    parts = []
    if track.banded:
        path = _path(
            frame,
            [(one.x, one.hi or 0.0) for one in track.points],
            [(one.x, one.lo or 0.0) for one in reversed(track.points)],
        )
        parts.append(f'<path class="shade" style="fill:{color}" d="{path}"/>')
    path = frame.path((one.x, one.y) for one in track.points) if track.points else ""
    kind = "curve plain" if track.plain else "curve"
    style = f"stroke:{color};stroke-dasharray:{dash}" if dash and not track.plain else f"stroke:{color}"
    return "".join([*parts, f'<path class="{kind}" style="{style}" d="{path}"/>'])


# Pieces


def _picture(size: tuple[float, float], frame: PlotArea, description: str, drawn: str, *parts: str) -> str:
    """`drawn` are the attributes that word the pointer's text."""
    ends = (f"{axis.begin:g} {axis.end:g} {axis.scale}" for axis in (frame.x_axis, frame.y_axis))
    shape = f"{frame.left:g} {frame.top:g} {frame.width:g} {frame.height:g} {' '.join(ends)}"
    size_text = f"0 0 {_number(size[0])} {_number(size[1])}"
    box = f'viewBox="{size_text}" role="img" tabindex="0" aria-label="{escape(description)}"'
    return f'<svg {box} data-shape="{shape}" {drawn}>{"".join(parts)}</svg>\n'


def _track(name: str, points: Sequence[Point], drawn: str, edges: Sequence[tuple[float, float]] = ()) -> str:
    """The group of one curve, with its numbers for the pointer, in as many digits as are ever shown."""
    spans: Iterable[Sequence[float]] = edges or [()] * len(points)
    rows = [
        [None if one is None else float(f"{one:.5g}") for one in (point.x, point.y, point.n, point.lo, point.hi, *span)]
        for point, span in zip(points, spans, strict=True)
    ]
    numbers = json.dumps(rows, separators=(",", ":"))
    return (
        f'<g class="track" data-score="{escape(name)}" data-points="{numbers}">{drawn}'
        '<circle class="cursor" r="4.5" hidden=""/></g>'
    )


def _axes(frame: PlotArea, floor: float, x_name: str, y_name: str) -> str:
    """Both axes with ticks, numbers and names; numbers of x stand below `floor`."""
    left, right, below = _number(frame.left), _number(frame.left + frame.width), _number(floor)
    parts = [_stroke("axis", f"M{left} {_number(frame.top)}V{_number(frame.bottom)}H{right}")]
    if floor > frame.bottom:
        parts.append(_stroke("axis", f"M{left} {below}H{right}"))
    for value, text in frame.x_axis.labels().items():
        parts.append(_text(frame.x(value), floor + 17, text, "middle"))
        parts.append(_stroke("axis", f"M{_number(frame.x(value))} {below}v4"))
    for value, text in frame.y_axis.labels().items():
        parts.append(_text(frame.left - 8, frame.y(value) + 4, text, "end"))
        parts.append(_stroke("axis", f"M{left} {_number(frame.y(value))}h-4"))
    parts.append(_text(frame.left + frame.width / 2, floor + 38, x_name, "middle soft"))
    middle = frame.top + frame.height / 2
    turned = f'transform="rotate(-90 13 {_number(middle)})"'
    parts.append(_text(13, middle, y_name, "middle soft", turned))
    return "".join(parts)


def _text(x: float, y: float, text: str, kind: str, more: str = "") -> str:
    return f'<text class="{kind}" x="{_number(x)}" y="{_number(y)}" {more}>{escape(text)}</text>'


def _stroke(kind: str, path: str) -> str:
    return f'<path class="{kind}" d="{path}"/>'


def _area(kind: str, frame: PlotArea, there: Sequence[tuple[float, float]], back: Sequence[tuple[float, float]]) -> str:
    return f'<path class="{kind}" d="{_path(frame, there, back)}"/>'


def _path(frame: PlotArea, there: Sequence[tuple[float, float]], back: Sequence[tuple[float, float]]) -> str:
    return f"{frame.path([*there, *back])}Z"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
