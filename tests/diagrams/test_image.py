"""Pictures by matplotlib: where things are, what is written, and that nothing else has a say in it."""

from __future__ import annotations

import io
import itertools
import sys
import xml.etree.ElementTree as ET
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from PIL import Image

from calcli.diagrams import image
from calcli.diagrams.image import figure, render
from tests.support.curves import DRAWN, OVER, bars, line, rejection, sample, traced


def rectangles(axes: Any) -> list[tuple[float, float, float, float, str]]:
    """Left, right, bottom, top and colour of what has any height."""
    found = []
    for patch in axes.patches:
        assert isinstance(patch, Rectangle)
        if patch.get_height() > 0:
            left, bottom = patch.get_xy()
            ends = (left, left + patch.get_width(), bottom, bottom + patch.get_height())
            found.append((*(round(end, 9) for end in ends), to_hex(patch.get_facecolor())))
    return found


def words(found: Any) -> list[str]:
    """All that is written, but for the numbers of ticks."""
    texts = [text.get_text() for axes in found.axes for text in (*axes.texts, axes.xaxis.label, axes.yaxis.label)]
    texts += [text.get_text() for legend in found.legends for text in legend.get_texts()]
    return [text for text in texts if text]


def plots(found: Any) -> tuple[list[Any], list[Any]]:
    """The axes of bars and those of counts."""
    return found.axes[1::2], found.axes[0::2]


def test_bars_are_where_the_points_are() -> None:
    found = figure([bars(*OVER)], "clicked", "consistency")
    (plot,), (counts,) = plots(found)
    colors = {"bar": image.BAR, **{side: image.ERROR[side][0] for side in ("over", "under")}}
    assert rectangles(plot) == [(*ends, colors[kind]) for kind, *ends in DRAWN]
    heights = [top for _, _, _, top, _ in rectangles(counts)]
    assert heights == pytest.approx([200, 100, 50, 100, 200])  # rows per unit of probability
    assert [text.get_text() for text in counts.get_yticklabels()] == ["40"]


def test_caps_bands_and_the_diagonal_are_where_they_should_be() -> None:
    (plot,), _ = plots(figure([bars(*OVER)], "clicked", "consistency"))
    lines = [tuple(map(tuple, one.get_xydata().round(9).tolist())) for one in plot.lines]
    assert ((0.8, 0.7), (1.0, 0.7)) in lines
    assert ((0.9, 0.8), (0.9, 1.0)) in lines  # around the diagonal, above the mean prediction
    assert ((0.0, 0.0), (1.0, 1.0)) in lines
    assert len(lines) == 11
    (plot,), _ = plots(figure([bars(*OVER, band=None)], "clicked", "none"))
    assert len(plot.lines) == 6


def test_gaps_of_chance_are_pale() -> None:
    (plot,), _ = plots(figure([bars(*OVER, off=False)], "clicked", "consistency"))
    assert {color for *_, color in rectangles(plot)} == {image.BAR, image.ERROR["over"][1], image.ERROR["under"][1]}


def test_what_is_written() -> None:
    found = words(figure([bars(*OVER), bars(*OVER, score="platt", fault=None)], "clicked", "consistency"))
    for text in (
        "raw",
        "platt",
        "ECE 0.1538",
        "Over-confident: predicted 0.90, observed 0.70;\npredicted 0.10, observed 0.30 (p < 0.005).",
        "No miscalibration detected: joint calibration\ntest at the 5 % level, p = 0.4, 130 rows.",
        "predicted probability that clicked is 1",
        "observed rate of clicked = 1",
        "observed rate",
        "predicted too high",
        "predicted too low",
        "95 % range of a calibrated score",
    ):
        assert text in found, text
    assert found.count("observed rate of clicked = 1") == 1


def test_a_smooth_curve_goes_through_its_points() -> None:
    curve = traced(sample(500, slope=2.0), "smooth")
    (plot,), (counts,) = plots(figure([curve], "clicked", "consistency"))
    points = [[point.x, point.y] for point in curve.points]
    assert any(one.get_xydata().tolist() == points for one in plot.lines)
    for name in ("lo", "hi"):
        ends = [[point.x, getattr(point, name)] for point in curve.points]
        assert any(one.get_xydata().tolist() == ends for one in plot.lines)
    assert sum(bar.get_width() * bar.get_height() for bar in counts.patches) == pytest.approx(
        curve.total,
        rel=0.01,  # the last bar may be drawn wider than its cell
    )


def test_rejection_curves_share_a_plot() -> None:
    first, second = rejection(0.19, 0.15, 0.1, 0.05), rejection(0.12, 0.1, 0.05, 0.01, score="platt")
    found = figure([first, second], "clicked", "consistency")
    (axes,) = found.axes
    assert [one.get_ydata().tolist() for one in axes.lines] == [[0.19, 0.15, 0.1, 0.05], [0.12, 0.1, 0.05, 0.01]]
    assert len({one.get_color() for one in axes.lines}) == len({str(one.get_linestyle()) for one in axes.lines}) == 2
    assert axes.get_ylim() == (0.0, 0.2)
    assert words(found)[-3].startswith("raw: without the least certain")


def test_ten_rejection_curves_have_ten_colours() -> None:
    (axes,) = figure([rejection(0.2, 0.1, score=f"{place}") for place in range(10)], "clicked", "none").axes
    assert len({one.get_color() for one in axes.lines}) == len(axes.lines) == 10


def test_panels_are_in_rows_of_four_and_classes_below_each_other() -> None:
    five = figure([bars(*OVER, score=str(place)) for place in range(5)], "clicked", "none")
    tops = [round(axes.get_position().y0, 6) for axes in plots(five)[0]]
    assert len(set(tops)) == 2
    assert tops[:4] == [tops[0]] * 4
    two = figure([bars(*OVER, of="a"), bars(*OVER, of="b")], "clicked", "none")
    lefts = {round(axes.get_position().x0, 6) for axes in plots(two)[0]}
    assert len(lefts) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "scores"), [(4, 1), (10, 2), (12, 3), (36, 1)])
def test_many_classes_are_small_multiples(classes: int, scores: int) -> None:
    """In columns, the scores of a class beside each other in a row, and the picture about as wide as a screen is."""
    curves = [bars(*OVER, of=f"{of:03}", score=str(score)) for of in range(classes) for score in range(scores)]
    found = figure(curves, "kind", "consistency")
    across, down = found.get_size_inches()
    assert 0.9 < across / down < 2.6
    panels, _ = plots(found)
    assert len(panels) == classes * scores
    boxes = [axes.get_position() for axes in panels]
    for start in range(0, len(boxes), scores):
        assert len({round(box.y0, 6) for box in boxes[start : start + scores]}) == 1
    assert len({(round(box.x0, 6), round(box.y0, 6)) for box in boxes}) == len(boxes)
    titles = [text.get_text() for axes in panels for text in axes.texts]
    assert [title for title in titles if title.startswith("kind = ")] == [
        f"kind = {curve.of}" + (f", {curve.score}" if scores > 1 else "") for curve in curves
    ]


def test_every_panel_is_square_and_inside_the_picture() -> None:
    found = figure([bars(*OVER, score=name) for name in "abc"], "clicked", "consistency")
    across, down = found.get_size_inches()
    for axes in plots(found)[0]:
        box = axes.get_position()
        assert box.width * across == pytest.approx(box.height * down)
        assert 0 < box.x0 < box.x1 < 1
        assert 0 < box.y0 < box.y1 < 1


@pytest.mark.slow
def test_nothing_that_is_written_leaves_the_picture_or_covers_another() -> None:
    long = bars(*OVER, score="a-name-of-thirty-letters-or-so")
    for curves in (
        [long],
        [long, bars(*OVER, of="a")],
        [bars(*OVER, of=str(of)) for of in range(10)],
        [line("smooth", (0.1, 0.2, 1), (0.9, 0.7, 1))],
        [rejection(0.1, 0.05)],
        [rejection(0.0181, 0.0177)],
    ):
        found = figure(curves, "clicked", "consistency")
        FigureCanvasAgg(found).draw()
        window = found.bbox
        for axes in found.axes:
            boxes = [
                text.get_window_extent()
                for text in (*axes.texts, axes.xaxis.label, axes.yaxis.label)
                if text.get_text()
            ]
            assert all(window.x0 <= box.x0 and box.x1 <= window.x1 + 1 for box in boxes)
            assert all(window.y0 <= box.y0 and box.y1 <= window.y1 for box in boxes)
            above = [text.get_window_extent() for text in axes.texts]
            assert not any(one.overlaps(other) for one, other in itertools.combinations(above, 2))
        legend = found.legends[0].get_window_extent()
        assert window.x0 - 1 <= legend.x0
        assert legend.x1 <= window.x1 + 1


@pytest.mark.slow
@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_the_same_curves_have_the_same_bytes_whatever_the_settings_are(form: image.Format) -> None:
    curves = [traced(sample(300, slope=2.0)), traced(sample(300), "reliability")]
    before = render(curves, "clicked", "consistency", form)
    mpl.rcParams.update({"font.size": 30, "axes.facecolor": "red", "savefig.dpi": 30, "lines.linewidth": 9})
    try:
        assert render(curves, "clicked", "consistency", form) == before
        assert mpl.rcParams["font.size"] == 30
    finally:
        mpl.rcdefaults()


def test_what_files_are() -> None:
    curves = [bars(*OVER)]
    with Image.open(io.BytesIO(render(curves, "clicked", "consistency", "png"))) as png:
        assert png.format == "PNG"
        assert png.width > 550
        assert "Software" not in png.info
    svg = render(curves, "clicked", "consistency", "svg")
    root = ET.fromstring(svg)
    assert root.tag.endswith("svg")
    assert b"<dc:date>" not in svg
    pdf = render(curves, "clicked", "consistency", "pdf")
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf


def test_a_name_is_no_formula() -> None:
    for curves in ([bars(*OVER, score="a$b$^{", of="x$_2$")], [rejection(0.1, 0.05, score="$a")]):
        assert render(curves, "la$bel$", "consistency", "png")


def test_pyplot_stays_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # whoever imports it gets an error
    monkeypatch.delattr(mpl, "pyplot", raising=False)
    assert render([bars(*OVER)], "y", "none", "png")
    with pytest.raises(ImportError):
        from matplotlib import pyplot  # noqa: F401
