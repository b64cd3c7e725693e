"""Pictures of what a calibrator has learned: numbers with their intervals, and the contributions of features, by shap.

Numbers with intervals are such as the effects of the values of features: names as dots, bins as a line.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calcli.batch import FloatArray
from calcli.diagrams.canvas import shortened
from calcli.diagrams.image import DARK, LIGHT, LINES, MIDDLE, NO_DATE, Format, saved
from calcli.methods.base import Intervals
from calcli.numeric.seeded import importing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, HIGH, LEFT, HEAD, FOOT, RIGHT = 3.4, 2.4, 1.65, 0.4, 0.62, 0.25
"""The sizes of a plot, and of the room around it, in inches."""

LETTERS, TICKS = 24, 6
"""The letters of a name beside a plot, and the most names below one."""

ABREAST = 6
"""The entries of the legend beside each other."""

LINED = 9
"""Ordered numbers from this many on are a line."""


def render_intervals(pictures: Sequence[Intervals], form: Format) -> bytes:
    """All pictures in one file, two beside each other."""
    return saved(lambda: _figure(pictures), form)


def _figure(pictures: Sequence[Intervals]) -> Figure:
    from matplotlib.figure import Figure

    across, down = min(len(pictures), 2), math.ceil(len(pictures) / 2)
    width, height = LEFT + WIDE + RIGHT, HEAD + HIGH + FOOT
    entries = max(len(shown.series) for shown in pictures)
    sizes = (across * width, down * height + (0.1 + 0.2 * math.ceil(entries / ABREAST)) * (entries > 1))
    whole = Figure(figsize=sizes)
    for place, shown in enumerate(pictures):
        left, bottom = (place % 2) * width + LEFT, (down - 1 - place // 2) * height + FOOT
        plot = whole.add_axes((left / sizes[0], bottom / sizes[1], WIDE / sizes[0], HIGH / sizes[1]))
        (_line if shown.ordered and len(shown.names) >= LINED else _dots)(plot, shown)
        plot.set_title(shown.title, loc="left", fontsize=11, fontweight="bold", parse_math=False)
        plot.set_axisbelow(True)
        if len(shown.series) > 1 and place == 0:  # a colour has one meaning in all
            whole.legend(*plot.get_legend_handles_labels(), loc="upper left", ncols=ABREAST, frameon=False, fontsize=8)
    return whole


def _dots(plot: Axes, shown: Intervals) -> None:
    """A line for each name, from the top down; series lie below each other within it."""
    count, names = len(shown.series), shown.names
    for place, (series, points) in enumerate(shown.series.items()):
        at = [-index - 0.6 * ((place + 0.5) / count - 0.5) for index in range(len(names))]
        color = DARK if count == 1 else LINES[place % len(LINES)]
        value, low, high = zip(*points, strict=True)
        plot.hlines(at, low, high, color=color, linewidth=1.6)
        plot.plot(value, at, "o", color=color, markersize=4.5, label=series)
    plot.axvline(0.0, color=MIDDLE, linewidth=0.9)
    plot.set_yticks([-index for index in range(len(names))], [shortened(name, LETTERS) for name in names])
    for label in plot.get_yticklabels():
        label.set_parse_math(False)
    plot.set_ylim(-len(names) + 0.4, 0.6)
    plot.locator_params(axis="x", nbins=5)
    plot.grid(axis="x", color=LIGHT, linewidth=0.8)
    plot.set_xlabel(shown.unit, parse_math=False)


def _line(plot: Axes, shown: Intervals) -> None:
    """A line of steps over the names in order, with its band."""
    count, names = len(shown.series), shown.names
    edges = [index - 0.5 for index in range(len(names) + 1)]
    for place, (series, points) in enumerate(shown.series.items()):
        color = DARK if count == 1 else LINES[place % len(LINES)]
        value, low, high = ([*each, each[-1]] for each in zip(*points, strict=True))
        plot.fill_between(edges, low, high, step="post", color=color, alpha=0.15, linewidth=0)
        plot.step(edges, value, where="post", color=color, linewidth=1.8, label=series)
    plot.axhline(0.0, color=MIDDLE, linewidth=0.9)
    chosen = range(0, len(names), math.ceil(len(names) / TICKS))
    plot.set_xticks(list(chosen), [shortened(names[index], 11) for index in chosen], fontsize=8)
    plot.set_xlim(edges[0], edges[-1])
    plot.grid(axis="y", color=LIGHT, linewidth=0.8)
    plot.set_ylabel(shown.unit, parse_math=False)


MOST_COLUMNS = 15
"""The most columns that have a line of their own in a picture of contributions."""


def render_contributions(
    names: Sequence[str], data: Sequence[Sequence[object]], base: float, values: FloatArray, title: str, form: Format
) -> bytes:
    """Contributions by shap, as a file: a waterfall of one row, or a swarm of many rows for each column."""
    import matplotlib as mpl
    from matplotlib import pyplot

    with importing():
        import shap

    shown: Any = np.array([list(row) for row in data], dtype=object)
    before, state = mpl.get_backend(), np.random.get_state()
    pyplot.switch_backend("agg")
    np.random.seed(0)  # shap draws by this one where the points of a swarm lie
    try:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rc("svg", hashsalt="calcli")
            found = shap.Explanation(values, np.full(len(values), base), shown, feature_names=list(names))
            if len(values) == 1:
                shap.plots.waterfall(found[0], max_display=MOST_COLUMNS, show=False)
            else:
                shap.plots.beeswarm(
                    found, max_display=MOST_COLUMNS, show=False, plot_size=(9, 0.45 * min(len(names), MOST_COLUMNS) + 2)
                )
                pyplot.xlabel("what the column adds to the log-odds")
            pyplot.title(title, loc="left", fontsize=11, pad=24 if len(values) == 1 else 6)
            stream = io.BytesIO()
            pyplot.gcf().savefig(stream, format=form, metadata=NO_DATE[form], bbox_inches="tight", dpi=160)
            pyplot.close()
    finally:
        pyplot.switch_backend(before)
        np.random.set_state(state)
    return stream.getvalue()
