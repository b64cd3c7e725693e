"""Pictures as PNG, SVG and PDF, by matplotlib: without its global state, and whatever a user's settings are.

What happened is grey; colour is error, as in `terminal`. The colours are those of Okabe & Ito, which colour-blind
people can tell apart. The same curves give the same bytes.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from calcli import extras
from calcli.diagrams.axis import Axis
from calcli.diagrams.canvas import shortened
from calcli.diagrams.captions import caption
from calcli.diagrams.charts import Chart, curve_charts
from calcli.diagrams.curves import Bands, Curve, axes, axis_of, error_text, fullest, legend, runs
from calcli.diagrams.layout import NUDGE, lines, spread
from calcli.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Form = TypeVar("Form", bound=str)
Format: TypeAlias = Literal["png", "svg", "pdf"]
FORMATS: tuple[Format, ...] = get_args(Format)

PageFormat: TypeAlias = Format | Literal["html"]
PAGE_FORMATS: tuple[PageFormat, ...] = (*FORMATS, "html")
"""Formats of what can be a page too, which matplotlib does not draw."""

BAR, DARK, MIDDLE, LIGHT = "#c8ccd2", "#24292f", "#6b7280", "#e5e7eb"
ERROR = {"over": ("#d55e00", "#f0b48a"), "under": ("#0072b2", "#8cc0e0")}
"""The colours of errors beyond chance, and of errors that may be chance."""

LINES = (
    *("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    *("#882255", "#332288", "#117733", "#999933", "#661100", "#24292f"),
)
DASHES = (
    *("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5))),
    *((0, (2.5, 1)), (0, (8, 1.5, 1.5, 1.5, 1.5, 1.5))),
)

ABREAST = 4
"""The most panels side by side."""

SEVERAL = 3
"""Pictures of more classes than this are small multiples."""

SHAPE = 2.4
"""The columns of small multiples per row of them, for a picture as wide as a screen."""

SIDE = 1.6
"""The room for the names of the lines of an overlay, in inches."""

SPACE, MARK = 0.09, 0.53
"""The gap between a plot and its counts, and what an entry of the legend takes beside its text, in inches."""


@dataclass(frozen=True, slots=True)
class _Panel:
    """The sizes of a panel in inches, and of its letters in points."""

    left: float = 0.62
    plot: float = 3.0
    right: float = 0.22
    counts: float = 0.5
    foot: float = 0.58
    name: float = 0.5
    line: float = 0.17
    title: float = 11.5
    text: float = 9.0
    small: bool = False

    @property
    def wide(self) -> float:
        return self.left + self.plot + self.right

    def high(self, lines: int) -> float:
        """The height with so many lines of text above the plot."""
        return self.name + self.line * lines + self.plot + SPACE + self.counts + self.foot


_LARGE = _Panel()
_SMALL = _Panel(0.54, 1.75, 0.16, 0.3, 0.46, 0.46, 0.15, 9.5, 7.5, small=True)

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # matplotlib brings it along: the same letters everywhere
    "font.size": 9.5,
    "text.color": DARK,
    "axes.edgecolor": MIDDLE,
    "axes.labelcolor": DARK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MIDDLE,
    "ytick.color": MIDDLE,
    "xtick.labelcolor": DARK,
    "ytick.labelcolor": DARK,
    "svg.hashsalt": "calcli",
    "pdf.fonttype": 42,
    "savefig.dpi": 160,
}
NO_DATE = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "calcli"},
    "pdf": {"CreationDate": None, "Creator": "calcli", "Producer": None},
}


def image_format_of(output: str | os.PathLike[str], forms: Sequence[Form], *, hint: str | None = None) -> Form:
    """The format that the suffix names, one of `forms`; refuses one that cannot be drawn here."""
    suffix = Path(output).suffix.lower().removeprefix(".")
    for form in forms:
        if suffix == form:
            if form != "html":
                extras.require("matplotlib", f"a picture as {form}")
            return form
    known = ", ".join(f".{form}" for form in forms)
    raise UsageError(f"{str(output)!r}: unknown suffix for an image; known are {known}", hint=hint)


def render(curves: Sequence[Curve], label: str, bands: Bands, form: Format) -> bytes:
    return saved(lambda: figure(curves, label, bands), form)


def render_charts(charts: Sequence[Chart], form: Format) -> bytes:
    """The charts in one picture, as a file."""
    return saved(lambda: _charts(charts), form)


def saved(figure: Callable[[], Figure], form: Format) -> bytes:
    """A figure as a file, whatever a user's settings are."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        for name, value in _STYLE.items():
            mpl.rcParams[name] = value  # type: ignore[index,unused-ignore]
        stream = io.BytesIO()
        figure().savefig(stream, format=form, metadata=NO_DATE[form])
    return stream.getvalue()


def figure(curves: Sequence[Curve], label: str, bands: Bands) -> Figure:
    from matplotlib.figure import Figure

    if curves[0].charted:
        return _charts(curve_charts(curves, label, bands))
    size, rows = _layout(curves)
    across, down = max(map(len, rows)), len(rows)
    texts = {id(curve): lines(caption(curve).text, size.plot, partial(_wide, size=size.text)) for curve in curves}
    stacked = size.small or any(
        _wide(curve.score, size.title, bold=True) + _wide(error_text(curve), 9.5) + 0.1 > size.plot for curve in curves
    )
    most = max(map(len, texts.values())) + stacked
    wide, high = size.wide, size.high(most)
    entries = _legend(curves, bands)
    columns = _columns([str(entry.get_label()) for entry in entries], across * wide)
    below = 0.15 + 0.21 * math.ceil(len(entries) / columns)
    picture = Figure(figsize=(across * wide, down * high + below))
    names = (label, len({curve.score for curve in curves}) > 1)
    for row, panels in enumerate(rows):
        for column, curve in enumerate(panels):
            corner = (column * wide + size.left, below + (down - 1 - row) * high + size.foot)
            axis = axis_of([each for each in curves if each.of == curve.of])
            plot = _panel(picture, curve, corner, (size, axis), label, first=column == 0)
            _head(plot, curve, texts[id(curve)], 10 + 72 * size.line * most, size, names if stacked else None)
    picture.legend(handles=entries, loc="lower center", ncols=columns, frameon=False, fontsize=9, handlelength=1.3)
    return picture


def _wide(text: str, size: float, *, bold: bool = False) -> float:
    """The width of a text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    wide, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(wide) / 72.0


def _columns(texts: Sequence[str], width: float) -> int:
    """The columns of a legend that leave its rows as full as they can be, and no wider than the picture."""
    wide = [_wide(text, 9.0) + MARK for text in texts]
    for columns in range(len(texts), 1, -1):
        down = math.ceil(len(texts) / columns)
        needed = sum(max(wide[start : start + down]) for start in range(0, len(texts), down))
        if math.ceil(len(texts) / down) == columns and needed <= width:
            return columns
    return 1


def _layout(curves: Sequence[Curve]) -> tuple[_Panel, list[list[Curve]]]:
    """The size and the rows of panels: a row for each class, its scores side by side; of many classes several a row."""
    classes = [list(group) for _, group in groupby(curves, key=lambda curve: curve.of)]
    if len(classes) <= SEVERAL:
        rows = [each[start : start + ABREAST] for each in classes for start in range(0, len(each), ABREAST)]
        return _LARGE, rows
    scores = max(map(len, classes))
    abreast = max(1, round(math.sqrt(SHAPE * len(classes) * scores) / scores))
    in_rows = [classes[start : start + abreast] for start in range(0, len(classes), abreast)]
    return _SMALL, [[curve for each in row for curve in each] for row in in_rows]


def _place(picture: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    across, down = picture.get_size_inches()
    return picture.add_axes((left / across, bottom / down, width / across, height / down))


def _panel(
    picture: Figure, curve: Curve, corner: tuple[float, float], scale: tuple[_Panel, Axis], label: str, *, first: bool
) -> Axes:
    """One score: the bars, and below them how many rows they stand for; `scale` is the size and both axes."""
    size, axis = scale
    counts = _place(picture, *corner, size.plot, size.counts)
    plot = _place(picture, corner[0], corner[1] + size.counts + SPACE, size.plot, size.plot)
    (_gaps if curve.edges else _line)(plot, curve)
    _histogram(counts, curve, axis)
    _diagonal(plot, axis)
    x_name, y_name = ("predicted", "happened") if size.small else axes(curve, label)
    most = 4 if size.small else 6
    for each in (plot, counts):
        _set_axis(each, "x", axis, most)
        each.tick_params(length=3, labelsize=size.text)
    _set_axis(plot, "y", axis, most)
    plot.tick_params(labelbottom=False)
    counts.set_xlabel(x_name, parse_math=False, fontsize=size.text + 0.5)
    if first:
        plot.set_ylabel(y_name, parse_math=False, fontsize=size.text + 0.5)
        plot.yaxis.set_label_coords(-0.63 * size.left / size.plot, 0.5)
        counts.set_ylabel("rows" if fullest(curve) else "density", rotation=0, ha="right", va="center")
        counts.yaxis.set_label_coords(-0.09 / size.plot, 0.3)
        counts.yaxis.label.set_fontsize(size.text + 0.5)
    return plot


def _head(
    plot: Axes, curve: Curve, text: Sequence[str], height: float, size: _Panel, names: tuple[str, bool] | None
) -> None:
    """The title of a panel: the name of the score, its error, and its caption.

    The error has a line of its own where there are `names`, the label and whether there are several scores: the title
    of a small panel then begins with the class.
    """
    above: dict[str, Any] = {
        "xycoords": "axes fraction",
        "textcoords": "offset points",
        "annotation_clip": False,
        "parse_math": False,  # a name is no formula
    }
    number, title = error_text(curve), curve.score
    if names is None:
        plot.annotate(number, (1, 1), (0, height), ha="right", color=MIDDLE, **above)
    else:
        text = [number, *text]
    if size.small and names is not None:
        label, several = names
        title = "the predicted class" if curve.of is None else f"{label} = {curve.of}"
        title = f"{title}, {curve.score}" if several else title
    plot.annotate(title, (0, 1), (0, height), fontsize=size.title, fontweight="bold", **above)
    plot.annotate("\n".join(text), (0, 1), (0, height - 6), va="top", fontsize=size.text, linespacing=1.3, **above)


def _histogram(counts: Axes, curve: Curve, axis: Axis) -> None:
    heights = curve.heights(axis)
    for begin, end, height in heights:
        counts.bar(begin, height, color=MIDDLE, **_bar(begin, end))
    highest = max((height for _, _, height in heights), default=1.0)
    counts.set_ylim(0, 1.08 * highest)
    counts.set_yticks([highest] if fullest(curve) else [], [fullest(curve)] if fullest(curve) else [])


def _gaps(plot: Axes, curve: Curve) -> None:
    """A bar for each bin: the observed rate, and its distance from the prediction."""
    for point, (begin, end) in zip(curve.points, curve.edges, strict=True):
        low, high = sorted((point.x, point.y))
        strong, pale = ERROR[point.side]
        edge = _bar(begin, end)
        plot.bar(begin, low, color=BAR, **edge)
        plot.bar(begin, high - low, bottom=low, color=strong if point.off else pale, **edge)
        plot.plot([begin, end], [point.y, point.y], color=DARK, linewidth=1.3, solid_capstyle="butt", zorder=5)
        if point.lo is not None and point.hi is not None:
            plot.plot([point.x, point.x], [point.lo, point.hi], color=DARK, linewidth=1.1, alpha=0.75, zorder=6)


def _bar(begin: float, end: float) -> dict[str, Any]:
    return {"width": end - begin, "align": "edge", "linewidth": 0.6, "edgecolor": "white"}


def _diagonal(plot: Axes, axis: Axis) -> None:
    """The line of perfect calibration."""
    ends = [axis.begin, axis.end]
    plot.plot(ends, ends, color=DARK, linewidth=0.9, dashes=(4, 3), zorder=4)
    plot.set_xlim(*ends)
    plot.set_ylim(*ends)


def _set_axis(plot: Axes, which: Literal["x", "y"], axis: Axis, most: int = 6) -> None:
    """The ends, the scale and the ticks of an axis."""
    if axis.scale != "prob":
        functions = (np.vectorize(axis.share, otypes=[float]), np.vectorize(axis.value, otypes=[float]))
        getattr(plot, f"set_{which}scale")("function", functions=functions)
    getattr(plot, f"set_{which}lim")(axis.begin, axis.end)
    labels = axis.labels(most)
    getattr(plot, f"set_{which}ticks")(list(labels), labels=list(labels.values()))


def draw(curve: Curve, label: str, bands: Bands, plot: Axes | None = None) -> Axes:
    """A reliability curve on axes of the user's, or on new ones of `pyplot`."""
    if plot is None:
        from matplotlib import pyplot

        plot = pyplot.subplots()[1]
    _gaps(plot, curve)
    _diagonal(plot, axis_of([curve]))
    plot.set_aspect("equal")
    x_name, y_name = axes(curve, label)
    plot.set_xlabel(x_name, parse_math=False)
    plot.set_ylabel(y_name, parse_math=False)
    plot.set_title(f"{curve.score}: {error_text(curve)}", parse_math=False)
    plot.legend(handles=_legend([curve], bands), loc="upper left", frameon=False, fontsize="small")
    return plot


def _line(plot: Axes, curve: Curve) -> None:
    x, y = ([getattr(point, name) for point in curve.points] for name in ("x", "y"))
    plot.fill_between(x, 0, list(map(min, x, y)), color=BAR, linewidth=0)
    for run in runs(curve.points):
        strong, pale = ERROR[run[0].side]
        x_run, y_run = [one.x for one in run], [one.y for one in run]
        plot.fill_between(x_run, x_run, y_run, color=strong if run[0].off else pale, linewidth=0)
    plot.plot(x, y, color=DARK, linewidth=1.8, zorder=5)
    if curve.points and curve.points[0].lo is not None:
        for name in ("lo", "hi"):
            ends = [getattr(point, name) for point in curve.points]
            plot.plot(x, ends, color=DARK, linewidth=0.9, alpha=0.75, linestyle=(0, (1, 1.4)), zorder=4)


def _legend(curves: Sequence[Curve], bands: Bands) -> list[Artist]:
    """The marks of the legend, each with its text."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    dash: Any = "-" if curves[0].edges else (0, (1, 1.4))
    marks: dict[str, Artist] = {
        "rate": Line2D([], [], color=DARK, linewidth=1.8),
        "bar": Patch(facecolor=BAR),
        **{side: Patch(facecolor=strong) for side, (strong, _) in ERROR.items()},
        "chance": Patch(facecolor=ERROR["over"][1], edgecolor=ERROR["under"][1], linewidth=2),
        "scale": Line2D([], [], linestyle="none"),
        "band": Line2D([], [], color=DARK, linewidth=0.9, alpha=0.75, linestyle=dash),
    }
    entries = legend(curves, bands)
    for mark, text in entries:
        marks[mark].set_label(text)
    return [marks[mark] for mark, _ in entries]


def _charts(charts: Sequence[Chart]) -> Figure:
    """Charts of several lines, two beside each other, each with its legend below it."""
    from matplotlib.figure import Figure

    square = charts[0].square
    wide, high, left = (4.4, 4.4, _LARGE.left + 0.12) if square else (5.6, 3.6, _LARGE.left + 0.12)
    head = 0.35 if any(chart.title for chart in charts) else 0.2
    room = left + wide - 0.5
    texts = [[*(f"{one.name}{one.note}" for one in chart.tracks), *_marked(chart).values()] for chart in charts]
    counts = [sum(len(lines(text, room, partial(_wide, size=9.0))) for text in each) for each in texts]
    entries = [0.21 * (count + bool(chart.band)) for count, chart in zip(counts, charts, strict=True)]
    below = _LARGE.foot + max(entries) + 0.1
    across, down = min(len(charts), 2), math.ceil(len(charts) / 2)
    if square:
        below = _LARGE.foot
    width, height = left + wide + (SIDE if square else _LARGE.right), head + high + below
    picture = Figure(figsize=(across * width, down * height))
    for place, chart in enumerate(charts):
        x, y = place % 2 * width, (down - 1 - place // 2) * height
        plot = _place(picture, x + left, y + below, wide, high)
        handles = _tracks(plot, chart)
        if square:
            _labels(plot, chart)
            continue
        corner = (place % 2 / across, (y + max(entries) - entries[place]) / (down * height))
        drawn = picture.legend(handles=handles, loc="lower left", bbox_to_anchor=corner, frameon=False, fontsize=9)
        for entry in drawn.get_texts():
            entry.set_parse_math(False)  # a name is no formula
            entry.set_text("\n".join(lines(entry.get_text(), room, partial(_wide, size=9.0))))
    return picture


def _labels(plot: Axes, chart: Chart) -> None:
    """The name of each line at its end, apart from the others, with a stroke that leads to it."""
    ends = [chart.y.share(track.points[-1].y) + NUDGE * track.points[-1].x for track, _ in chart.named]
    for (track, place), at in zip(chart.named, spread(ends, 0.05, 1.0), strict=True):
        color, end = MIDDLE if place is None else LINES[place % len(LINES)], track.points[-1]
        plot.annotate(
            shortened(track.name, 18), (end.x, end.y), (1.04, at), textcoords="axes fraction", va="center", color=color,
            annotation_clip=False, parse_math=False, arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.7},
        )  # fmt: skip


def _marked(chart: Chart) -> dict[float, str]:
    """The places that are named on the x axis, in words."""
    return {at: f"{at:.3g}: {name}" for at, name in chart.marks}


def _tracks(plot: Axes, chart: Chart) -> list[Artist]:
    """Draw the lines of a chart, and return the marks of its legend."""
    from matplotlib.patches import Patch

    handles: list[Artist] = []
    for track, place in zip(chart.within().tracks, chart.colors, strict=True):
        x, y, lo, hi = ([getattr(point, name) for point in track.points] for name in ("x", "y", "lo", "hi"))
        color = MIDDLE if place is None else LINES[place % len(LINES)]
        dash = DASHES[(len(handles) if place is None else place) % len(DASHES)]
        handles += plot.plot(
            x, y, color=color, linestyle=dash, linewidth=1.3 if track.plain else 2,
            label=f"{track.name}{track.note}", zorder=4,
        )  # fmt: skip
        if track.banded:
            plot.fill_between(x, lo, hi, color=color, alpha=0.15, linewidth=0)
    for at, text in _marked(chart).items():
        handles.append(plot.axvline(at, color=DARK, linewidth=0.9, dashes=(1, 2), label=text))
    if chart.band:
        handles.append(Patch(facecolor=MIDDLE, alpha=0.25, label=chart.band))
    _set_axis(plot, "x", chart.x)
    _set_axis(plot, "y", chart.y)
    plot.grid(color=LIGHT, linewidth=0.8)
    plot.set_axisbelow(True)
    plot.set_xlabel(chart.x_name, parse_math=False)
    plot.set_ylabel(chart.y_name, parse_math=False)
    if chart.title:
        plot.set_title(chart.title, loc="left", fontsize=_LARGE.title, fontweight="bold", parse_math=False)
    return handles
