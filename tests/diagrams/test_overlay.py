"""Several scores on one axis, each with its name at its line."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calcli.diagrams import image, svg, terminal
from calcli.diagrams.charts import MOST_OVERLAID, curve_charts
from calcli.diagrams.layout import spread
from calcli.metrics.base import Scored
from tests.support.curves import sample, traced

CURVES = [
    replace(traced(sample(600, seed, slope=slope), "corp"), score=name, overlaid=True)
    for seed, (name, slope) in enumerate({"raw": 1.0, "new": 2.0, "old": 0.5}.items())
]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_labels_stand_apart_in_the_order_of_their_lines(places: list[float]) -> None:
    found = spread(places, 0.05, 1.0)
    order = np.argsort(places, kind="stable")
    assert (np.diff(np.array(found)[order]) >= 0.05 - 1e-9).all()
    assert max(found) <= 1.0
    assert spread([0.1, 0.5], 0.05, 1.0) == [0.1, 0.5]


def test_all_scores_are_in_one_chart_beside_the_diagonal() -> None:
    (chart,) = curve_charts(CURVES, "label", "consistency")
    assert [track.name for track in chart.tracks] == ["raw", "new", "old", "calibrated"]
    assert chart.x == chart.y
    assert [(one.x, one.y) for one in chart.tracks[1].points] == [(one.x, one.y) for one in CURVES[1].points]


def test_lines_have_names_and_dashes_of_their_own() -> None:
    (chart,) = curve_charts(CURVES, "label", "consistency")
    drawn = svg.chart(chart)
    assert re.findall(r'<text class="name"[^>]*>([^<]*)<', drawn) == ["raw", "new", "old"]
    assert len(set(re.findall(r"stroke-dasharray:([^\"]*)", drawn))) == 2  # and one is solid
    assert len({*svg.DASHES}) == len({*image.DASHES}) == MOST_OVERLAID
    (plot,) = image.figure(CURVES, "label", "consistency").axes
    assert {text.get_text() for text in plot.texts} == {"raw", "new", "old"}
    lines = terminal.draw(CURVES, "label", terminal.TerminalStyle(color=True))
    text = ["".join(piece.text for piece in line) for line in lines]
    assert [line[:7] for line in text if re.match("[a-d] = ", line)] == ["a = raw", "b = new", "c = old", "d = cal"]


def test_a_line_that_logarithms_cannot_show_is_at_the_end_of_the_axis_and_one_without_rows_is_not_there() -> None:
    rows = sample(2000)
    rare = [Scored(label, rows.prob / 100) for label in (rows.label, np.zeros_like(rows.label))]
    rare.append(Scored(rows.label, rows.prob, np.zeros(len(rows))))
    curves = [replace(traced(each, "corp"), score=name, overlaid=True) for each, name in zip(rare, "abc", strict=True)]
    (chart,) = curve_charts(curves, "label", "consistency")
    assert chart.y.scale == "log"
    assert re.findall(r'<text class="name"[^>]*>([^<]*)<', svg.chart(chart)) == ["a", "b"]
    (plot,) = image.figure(curves, "label", "consistency").axes
    assert {text.get_text() for text in plot.texts} == {"a", "b"}
    lines = terminal.draw(curves, "label", terminal.TerminalStyle())
    bottom = next(place for place, line in enumerate(lines) if "┼" in line[0].text) - 1
    assert "b" in "".join(piece.text for piece in lines[bottom])
