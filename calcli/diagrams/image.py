"""Pictures as PNG, SVG and PDF, by matplotlib: without its global state, and whatever a user's settings are.

What happened is grey; colour is error, as in `terminal`. The colours are those of Okabe & Ito, which colour-blind
people can tell apart. The same curves give the same bytes.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from calcli.diagrams.captions import axes, axis_end, band_text, caption, error_name, fullest, legend, ticks
from calcli.diagrams.curves import Bands, Curve, Point

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format: TypeAlias = Literal["png", "svg", "pdf"]

BAR, DARK, MIDDLE, LIGHT = "#c8ccd2", "#24292f", "#6b7280", "#e5e7eb"
ERROR = {"over": ("#d55e00", "#f0b48a"), "under": ("#0072b2", "#8cc0e0")}
"""Beyond chance, and perhaps by chance."""

LINES = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))

ABREAST = 4
"""Panels side by side, at most."""

# All in inches.
LEFT, PLOT, RIGHT = 0.62, 3.0, 0.22
SPACE, COUNTS, FOOT = 0.09, 0.5, 0.58
NAME, LINE = 0.5, 0.17
ENTRY = 2.3
"""Of the legend."""

LETTERS = 46
"""As many as a line above a plot has room for."""

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
_NO_DATE = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "calcli"},
    "pdf": {"CreationDate": None, "Creator": "calcli", "Producer": None},
}


def render(curves: Sequence[Curve], label: str, bands: Bands, form: Format) -> bytes:
    """The picture as a file."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        for name, value in _STYLE.items():
            mpl.rcParams[name] = value  # type: ignore[index,unused-ignore]
        stream = io.BytesIO()
        figure(curves, label, bands).savefig(stream, format=form, metadata=_NO_DATE[form])
    return stream.getvalue()


def figure(curves: Sequence[Curve], label: str, bands: Bands) -> Figure:
    """The picture as a figure of matplotlib."""
    from matplotlib.figure import Figure

    if curves[0].kind == "rejection":
        return _rejections(curves, label, bands)
    rows = list(_rows(curves))
    across, down = max(map(len, rows)), len(rows)
    texts = {id(curve): textwrap.wrap(caption(curve).text, LETTERS) for curve in curves}
    most = max(map(len, texts.values()))
    head = NAME + LINE * most
    wide, high = LEFT + PLOT + RIGHT, head + PLOT + SPACE + COUNTS + FOOT
    entries, columns = _legend(curves, bands), max(1, int(across * wide / ENTRY))
    below = 0.15 + 0.21 * math.ceil(len(entries) / columns)
    picture = Figure(figsize=(across * wide, down * high + below))
    for row, panels in enumerate(rows):
        top = axis_end([curve for curve in curves if curve.of == panels[0].of])
        for column, curve in enumerate(panels):
            corner = (column * wide + LEFT, below + (down - 1 - row) * high + FOOT)
            plot = _panel(picture, curve, corner, top, label, first=column == 0)
            _head(plot, curve, texts[id(curve)], 10 + 72 * LINE * most)
    picture.legend(handles=entries, loc="lower center", ncols=columns, frameon=False, fontsize=9, handlelength=1.3)
    return picture


def _rows(curves: Sequence[Curve]) -> Iterator[list[Curve]]:
    """The panels of a row: scores of one class, at most `ABREAST`."""
    for _, group in groupby(curves, key=lambda curve: curve.of):
        panels = list(group)
        yield from (panels[start : start + ABREAST] for start in range(0, len(panels), ABREAST))


def _place(picture: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    across, down = picture.get_size_inches()
    return picture.add_axes((left / across, bottom / down, width / across, height / down))


def _panel(picture: Figure, curve: Curve, corner: tuple[float, float], top: float, label: str, *, first: bool) -> Axes:
    """One score: the bars, and below them how many rows they stand for."""
    counts = _place(picture, *corner, PLOT, COUNTS)
    plot = _place(picture, corner[0], corner[1] + COUNTS + SPACE, PLOT, PLOT)
    (_bars if curve.edges else _line)(plot, counts, curve)
    plot.plot([0, top], [0, top], color=DARK, linewidth=0.9, dashes=(4, 3), zorder=4)
    x_name, y_name = axes(curve, label)
    for each in (plot, counts):
        each.set_xlim(0, top)
        each.set_xticks(ticks(0, top))
        each.tick_params(length=3)
    plot.set_ylim(0, top)
    plot.set_yticks(ticks(0, top))
    plot.tick_params(labelbottom=False)
    counts.set_xlabel(x_name, parse_math=False)
    if first:
        plot.set_ylabel(y_name, parse_math=False)
        plot.yaxis.set_label_coords(-0.13, 0.5)
        counts.set_ylabel("rows" if fullest(curve) else "density", rotation=0, ha="right", va="center")
        counts.yaxis.set_label_coords(-0.03, 0.3)
    return plot


def _head(plot: Axes, curve: Curve, text: Sequence[str], height: float) -> None:
    """The title of a panel: the name of the score, and its caption."""
    above: dict[str, Any] = {
        "xycoords": "axes fraction",
        "textcoords": "offset points",
        "annotation_clip": False,
        "parse_math": False,  # a name is no formula
    }
    plot.annotate(curve.score, (0, 1), (0, height), fontsize=11.5, fontweight="bold", **above)
    number = f"{error_name(curve)} {curve.error:.4f}"
    plot.annotate(number, (1, 1), (0, height), ha="right", color=MIDDLE, **above)
    plot.annotate("\n".join(text), (0, 1), (0, height - 6), va="top", fontsize=9, linespacing=1.3, **above)


def _error_color(point: Point) -> str:
    strong, pale = ERROR[point.side]
    return strong if point.off else pale


def _bars(plot: Axes, counts: Axes, curve: Curve) -> None:
    for point, (begin, end), density in zip(curve.points, curve.edges, curve.densities, strict=True):
        width = end - begin
        low, high = sorted((point.x, point.y))
        edge: dict[str, Any] = {"width": width, "align": "edge", "linewidth": 0.6, "edgecolor": "white"}
        plot.bar(begin, low, color=BAR, **edge)
        plot.bar(begin, high - low, bottom=low, color=_error_color(point), **edge)
        plot.plot([begin, end], [point.y, point.y], color=DARK, linewidth=1.3, solid_capstyle="butt", zorder=5)
        if point.lo is not None and point.hi is not None:
            plot.plot([point.x, point.x], [point.lo, point.hi], color=DARK, linewidth=1.1, alpha=0.75, zorder=6)
        counts.bar(begin, density, color=MIDDLE, **edge)
    highest = max(curve.densities, default=1.0)
    counts.set_ylim(0, 1.08 * highest)
    counts.set_yticks([highest] if fullest(curve) else [], [fullest(curve)] if fullest(curve) else [])


def _line(plot: Axes, counts: Axes, curve: Curve) -> None:
    x, y, n = ([getattr(point, name) for point in curve.points] for name in ("x", "y", "n"))
    plot.fill_between(x, 0, list(map(min, x, y)), color=BAR, linewidth=0)
    for side, inks in ERROR.items():
        for off, ink in zip((True, False), inks, strict=True):
            chosen = [one.side == side and one.off == off for one in curve.points]
            plot.fill_between(x, x, y, where=chosen, color=ink, linewidth=0)
    plot.plot(x, y, color=DARK, linewidth=1.8, zorder=5)
    if curve.points and curve.points[0].lo is not None:
        for name in ("lo", "hi"):
            ends = [getattr(point, name) for point in curve.points]
            plot.plot(x, ends, color=DARK, linewidth=0.9, alpha=0.75, linestyle=(0, (1, 1.4)), zorder=4)
    counts.fill_between(x, 0, n, color=MIDDLE, linewidth=0)
    counts.set_ylim(0, 1.08 * max(n, default=1.0))
    counts.set_yticks([])


def _legend(curves: Sequence[Curve], bands: Bands) -> list[Artist]:
    """The marks of the legend, each with its text."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    dash: Any = (0, (1, 1.4)) if curves[0].kind == "smooth" else "-"
    marks: dict[str, Artist] = {
        "rate": Line2D([], [], color=DARK, linewidth=1.8),
        "bar": Patch(facecolor=BAR),
        **{side: Patch(facecolor=strong) for side, (strong, _) in ERROR.items()},
        "chance": Patch(facecolor=ERROR["over"][1], edgecolor=ERROR["under"][1], linewidth=2),
        "band": Line2D([], [], color=DARK, linewidth=0.9, alpha=0.75, linestyle=dash),
    }
    entries = legend(curves, bands)
    for mark, text in entries:
        marks[mark].set_label(text)
    return [marks[mark] for mark, _ in entries]


def _rejections(curves: Sequence[Curve], label: str, bands: Bands) -> Figure:
    """The error rates of all scores in one plot."""
    from matplotlib.figure import Figure

    wide, high = 5.6, 3.6
    below = FOOT + 0.21 * (len(curves) + (bands != "none")) + 0.1
    left, top = LEFT + 0.12, axis_end(curves)
    picture = Figure(figsize=(left + wide + RIGHT, 0.2 + high + below))
    plot = _place(picture, left, below, wide, high)
    for place, curve in enumerate(curves):
        x, y, lo, hi = ([getattr(point, name) for point in curve.points] for name in ("x", "y", "lo", "hi"))
        color, dash = LINES[place % len(LINES)], DASHES[place % len(DASHES)]
        text = f"{curve.score}{caption(curve).because}"
        plot.plot(x, y, color=color, linestyle=dash, linewidth=2, label=text, zorder=4)
        if lo and lo[0] is not None:
            plot.fill_between(x, lo, hi, color=color, alpha=0.15, linewidth=0)
    plot.set_xlim(0, 1)
    plot.set_ylim(0, top)
    plot.set_yticks(ticks(0, top))
    plot.grid(color=LIGHT, linewidth=0.8)
    plot.set_axisbelow(True)
    x_name, y_name = axes(curves[0], label)
    plot.set_xlabel(x_name, parse_math=False)
    plot.set_ylabel(y_name, parse_math=False)
    handles, _ = plot.get_legend_handles_labels()
    if bands != "none":
        handles.append(_shade(bands))
    for entry in picture.legend(handles=handles, loc="lower left", frameon=False, fontsize=9).get_texts():
        entry.set_parse_math(False)  # a name is no formula
    return picture


def _shade(bands: Bands) -> Artist:
    from matplotlib.patches import Patch

    return Patch(facecolor=MIDDLE, alpha=0.25, label=band_text(bands))
