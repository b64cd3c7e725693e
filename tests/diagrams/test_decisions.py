"""Charts of decisions: their numbers by definition, and what the terminal, images and pages make of them."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_score, recall_score

from calcli.diagrams import image, page, svg, terminal
from calcli.diagrams.axis import Axis
from calcli.diagrams.charts import Chart, Track, decision_charts, rounded_up, thresholds_of
from calcli.diagrams.curves import Point
from calcli.diagrams.terminal import TerminalStyle
from tests.support.decisions import CHOSEN, FALSE_ALARM, MISS, counted, rows

RISKS = ((1.0, 0.09, 0.094), (0.8, 0.03, 0.033), (0.5, 0.01, 0.013))


def charts() -> dict[str, Chart]:
    return {chart.title.partition(":")[0]: chart for chart in decision_charts(counted(), CHOSEN, RISKS)}


def line(chart: Chart, name: str) -> dict[float, float]:
    (track,) = [track for track in chart.tracks if track.name == name]
    return {point.x: point.y for point in track.points}


def test_the_thresholds_go_from_all_yes_to_all_no_through_those_that_were_chosen() -> None:
    _, probs = rows()
    found = thresholds_of(probs.values(), [0.123456, 1.5])
    assert (np.diff(found) > 0).all()
    assert found[0] == 0.0
    assert 0.123456 in found
    assert found[-1] == np.nextafter(1.0, 2.0)
    rare = thresholds_of([probs["platt"] / 50], [])
    assert np.quantile(probs["platt"] / 50, 0.999) <= rare[-2] <= 0.05


@given(st.floats(1e-6, 1e9))
def test_a_round_number_is_above_and_not_far_above(value: float) -> None:
    assert value * (1 - 1e-8) <= rounded_up(value) <= 2.0 * value
    assert len(f"{rounded_up(value):e}".partition("e")[0].rstrip("0")) <= 3


@pytest.mark.parametrize("name", ["platt", "raw"])
def test_costs_and_benefits_by_their_definitions(name: str) -> None:
    """Net benefit: the mean over rows of y - (1 - y) t / (1 - t) where the decision is yes, else of 0."""
    label, probs = rows()
    cost, benefit = (line(charts()[title], name) for title in ("Expected cost", "Net benefit"))
    for threshold in (0.0, 1 / 21, 0.25, 0.5, 0.95):
        at = min(benefit, key=lambda x: abs(x - threshold))
        yes = probs[name] >= at
        wrong = np.where(yes, FALSE_ALARM * (label == 0), MISS * (label == 1))
        assert cost[at] == pytest.approx(wrong.mean())
        assert benefit[at] == pytest.approx((yes * (label - (1 - label) * at / (1 - at))).mean())


def test_all_and_none_are_what_the_scores_come_to_at_the_ends() -> None:
    label, _ = rows()
    cost, benefit = charts()["Expected cost"], charts()["Net benefit"]
    for name, expected in (("all yes", FALSE_ALARM * (label == 0).mean()), ("all no", MISS * (label == 1).mean())):
        assert list(line(cost, name).values()) == pytest.approx([expected] * len(line(cost, name)))
    everyone = line(benefit, "all yes")
    assert everyone[0.0] == pytest.approx(label.mean()) == line(benefit, "platt")[0.0]
    crossing = next(x for x in sorted(everyone) if everyone[x] < 0.0)
    assert crossing == pytest.approx(label.mean(), abs=0.006)  # a step: nothing is gained beyond the base rate
    assert set(line(benefit, "all no").values()) == {0.0}


def test_rates_are_those_of_scikit_learn() -> None:
    label, probs = rows()
    chart = charts()["Precision, recall and alerts"]
    for threshold in (1 / 21, 0.5):
        yes = (probs["platt"] >= threshold).astype(int)
        assert line(chart, "precision")[threshold] == pytest.approx(precision_score(label, yes))
        assert line(chart, "recall")[threshold] == pytest.approx(recall_score(label, yes))
        assert line(chart, "alerts")[threshold] == pytest.approx(yes.mean())
    assert max(line(chart, "precision")) < 1.0  # nothing is yes there


def test_a_chart_that_has_no_numbers_is_left_out() -> None:
    found = decision_charts(counted(priced=False), {})
    assert [chart.title for chart in found] == ["Net benefit", "Precision, recall and alerts: platt"]
    assert found[0].marks == ()


def test_lines_end_where_they_leave_the_plot() -> None:
    ys = [3.0, -1.0, 0.5, -0.2, 3.0, 1.0, 2.0, -4.0]
    points = tuple(Point(float(x), y, 0.0) for x, y in enumerate(ys))
    (track,) = Chart((Track("a", points),), "x", "y", Axis(8.0), Axis(1.0)).within().tracks
    assert [point.x for point in track.points] == [2.0, 3.0, 4.0, 5.0]
    (drawn,) = re.findall(r'class="curve"[^>]* d="([^"]*)"', svg.chart(Chart((track,), "x", "y", Axis(8.0), Axis(1.0))))
    heights = [float(pair.split()[1]) for pair in re.split("[ML]", drawn)[1:]]
    assert min(heights) >= svg.TOP
    assert max(heights) <= svg.TOP + svg.HIGH


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("width", [40, 90])
def test_the_terminal_has_every_line_and_mark(color: bool, width: int) -> None:
    lines = terminal.charts(list(charts().values()), TerminalStyle(width=width, color=color))
    text = "\n".join("".join(piece.text for piece in one) for one in lines)
    assert max(len(one) for one in text.splitlines()) <= width
    for title in ("Expected cost", "Net benefit", "Precision, recall and alerts: platt", "Risk and coverage"):
        assert title in text
    assert text.count("0.0476: from the costs") == text.count("0.5: today's") == 3
    inks = {piece.ink for one in lines for piece in one}
    assert {"line-0", "line-1", "line-2"} <= inks
    assert "line-3" not in inks  # all yes and all no have no colour


def test_an_image_has_the_numbers_as_lines() -> None:
    found = image._charts(list(charts().values()))
    for plot, chart in zip(found.axes, charts().values(), strict=True):
        drawn = {one.get_label(): one.get_xydata().tolist() for one in plot.lines}
        for track in chart.within().tracks:
            assert drawn[f"{track.name}{track.note}"] == [[point.x, point.y] for point in track.points]
        assert (plot.get_xlim(), plot.get_ylim()) == ((0.0, chart.x.end), (0.0, chart.y.end))
    first = list(charts().values())[:1]
    assert image.render_charts(first, "png") == image.render_charts(first, "png")


def cells(text: str) -> dict[str, str]:
    return dict(re.findall(r'data-cell="([^"]+)">([^<]*)<', text))


def test_the_table_of_a_page_before_anything_is_moved() -> None:
    label, probs = rows()
    found = cells(page.slider(counted()[0], 0.5, ("clicked = 1", "clicked = 0")))
    yes = probs["platt"] >= 0.5
    assert found["tp"] == f"{(yes & (label == 1)).sum():,}"
    assert found["fn"] == f"{(~yes & (label == 1)).sum():,}"
    assert found["precision"] == f"{100 * precision_score(label, yes):.1f} %"
    assert found["false-positive rate"] == f"{100 * yes[label == 0].mean():.1f} %"
    assert found["cost per row"] == f"{np.where(yes, FALSE_ALARM * (label == 0), MISS * (label == 1)).mean():.4g}"
    never = cells(page.slider(counted()[0], 2.0, ("a", "b")))
    assert (never["tp"], never["fp"], never["precision"]) == ("0", "0", "none")


def test_without_costs_a_page_says_nothing_of_them() -> None:
    text = page.slider(counted(priced=False)[0], 0.5, ("a", "b"))
    assert "cost" not in text


def test_names_are_no_markup() -> None:
    evil = "<script>alert('&\")</script>"
    chart = Chart(
        (Track(evil, (Point(0.0, 1.0, 1.0),), evil),), evil, evil, Axis(1.0), Axis(1.0), evil, marks=((0.5, evil),)
    )
    text = page.charts([chart]) + page.slider(counted()[0], 0.5, (evil, evil))
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > 5
    (data,) = re.findall(r'data-slider="([^"]*)"', text)
    assert len(json.loads(unescape(data))["threshold"]) == len(counted()[0].thresholds)
