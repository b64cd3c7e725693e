"""Pictures in letters. The golden texts were checked by counting: 20 rows are 1.0, so 0.05 is a row."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from calcli.diagrams.canvas import Canvas, Line, cells, shortened
from calcli.diagrams.curves import Curve, Kind
from calcli.diagrams.terminal import TerminalStyle, abreast, draw
from calcli.metrics.base import Scored
from tests.support.curves import OVER, bars, line, rejection, sample, traced


def text(lines: list[Line]) -> str:
    return "\n".join("".join(piece.text for piece in one) for one in lines)


def picture(*curves: Curve, **look) -> str:
    return text(draw(curves, "clicked", TerminalStyle(**look)))


SMALL = """\
1.0 ┤                  ⡠⠊
    │                ░░░░      raw
    │              ⡠⠊░░░░      Over-confident:
    │            ░░░░████      predicted 0.90,
    │          ⡠⠊████████      observed 0.70;
0.5 ┤        ████████████      predicted 0.10,
    │    ▒▒▒▒████████████      observed 0.30 (p < 0.005).
    │▒▒▒▒████████████████
    │▒▒▒▒████████████████
    │████████████████████
0.0 ┼─────────┴─────────┴
    │████▄▄▄▄▂▂▂▂▄▄▄▄████
    └─────────┴─────────┴
   0.0       0.5       1.0

█ observed rate   ░ predicted too high   ▒ predicted too low"""

ASCII = """\
1.0 +                                      ..
    |                                    ..        raw                ECE 0.1538
    |                                ::::::::      Over-confident:
    |                                ::::::::      predicted 0.90,
0.8 +                              ..::::::::      observed 0.70;
    |                            ..  ::::::::      predicted 0.10,
    |                        ::::::::########      observed 0.30 (p < 0.005).
    |                        ::::::::########
0.6 +                      ..################
    |                    ..  ################
    |                ########################
    |                ########################
0.4 +        %%%%%%%%########################
    |        %%%%%%%%########################
    |%%%%%%%%################################
    |%%%%%%%%################################
0.2 +%%%%%%%%################################
    |%%%%%%%%################################
    |########################################
    |########################################
0.0 +-------+-------+-------+-------+-------+
 40 +########                        ########
    |########________        ________########
    |########################################
    +-------+-------+-------+-------+-------+
   0.0     0.2     0.4     0.6     0.8     1.0
     predicted probability that clicked is 1

# observed rate   : predicted too high   % predicted too low"""

TWO = """\
raw                                  ECE 0.1538    platt                                ECE 0.1538
Over-confident: predicted 0.90, observed 0.70;     No miscalibration detected: joint calibration
predicted 0.10, observed 0.30 (p < 0.005).         test at the 5 % level, p = 0.4, 130 rows.
1.0 ┤                                      ⡠⠊      1.0 ┤                                      ⡠⠊
    │                                    ⡠⠊            │                                    ⡠⠊
    │                                ░░░░░░░░          │                                ········
    │                                ░░░░░░░░          │                                ········
0.8 ┤                              ⡠⠊░░░░░░░░      0.8 ┤                              ⡠⠊········"""


def test_a_small_picture() -> None:
    assert picture(bars(*OVER), width=60, small=True) == SMALL


def test_a_picture_in_ascii() -> None:
    assert picture(bars(*OVER), unicode=False) == ASCII


def test_two_scores_side_by_side_and_gaps_of_chance_as_dots() -> None:
    by_chance = bars(*OVER, score="platt", off=False, fault=None)
    found = picture(bars(*OVER), by_chance, width=110)
    assert found.startswith(TWO)
    assert "· not significant" in found.splitlines()[-1]


def test_the_same_two_below_each_other_on_80_columns() -> None:
    lines = picture(bars(*OVER), bars(*OVER, score="platt")).splitlines()
    starts = [place for place, one in enumerate(lines) if one.startswith("1.0 ┤")]
    assert len(starts) == 2
    assert starts[1] - starts[0] > 20
    assert max(map(cells, lines)) <= 80


@pytest.mark.parametrize("kind", ["reliability", "smooth", "rejection"])
def test_nothing_is_wider_than_the_screen(kind: Kind) -> None:
    curve = traced(sample(slope=2.0), kind)
    names = ["raw", "a-name-that-is-very-long-indeed-and-says-nothing", "プラット", "d"]
    curves = [replace(curve, score=name) for name in names]
    for width, small, color, unicode in product((60, 200), *3 * [(True, False)]):
        found = draw(curves, "clicked", TerminalStyle(width, color, unicode, small))
        assert max(cells(line) for line in text(found).splitlines()) <= width
        assert unicode or text(found).replace("プラット", "").isascii()
        assert color or not any(piece.paper for one in found for piece in one)


@pytest.mark.parametrize("kind", ["corp", "smooth"])
def test_long_labels_of_axes_leave_room_for_the_number_beside_the_picture(kind: Kind) -> None:
    prob = 1 / (1 + np.exp(-np.random.default_rng(3).normal(20, 6, 400)))
    found = picture(traced(Scored(np.ones(400, np.int64), prob), kind))
    assert "0.999999" in found
    assert max(map(cells, found.splitlines())) <= 80


@pytest.mark.parametrize("bins", [1, 2, 7, 10, 15, 20, 33, 50, 400])
def test_bars_are_as_high_as_they_should_be(bins: int) -> None:
    """The filled letters of a column, an eighth for each of their levels, are the share that came true."""
    curve = traced(sample(4000), bins=bins)
    found = draw([curve], "y", TerminalStyle(color=True))
    rows = next(place for place, one in enumerate(found) if "┼" in one[0].text)
    plot, width = found[:rows], len(found[rows][0].text) - found[rows][0].text.index("┼") - 1
    middle = [(place + 0.5) / width for place in range(width)]
    grid = [[letter for piece in one[1:] for letter in [(each, piece) for each in piece.text]] for one in plot]
    for place, at in enumerate(middle):
        inside = [point for point, (begin, end) in zip(curve.points, curve.edges, strict=True) if begin < at <= end]
        if bins > width or not inside:
            continue
        low = min(inside[0].x, inside[0].y)
        filled = sum(
            " ▁▂▃▄▅▆▇█".index(letter) / 8
            for row in grid
            for letter, piece in row[place : place + 1]
            if piece.ink == "bar" and letter in " ▁▂▃▄▅▆▇█"
        )
        assert filled / len(plot) == pytest.approx(low, abs=0.5 / len(plot) + 1e-9)


def test_colours_are_errors() -> None:
    found = draw([bars(*OVER)], "clicked", TerminalStyle(color=True))
    inks = {piece.ink for one in found for piece in one}
    assert {"bar", "over", "under", "dim", "bold", "bad"} <= inks
    assert not {ink for ink in inks if ink.endswith("chance")}
    pale = draw([bars(*OVER, off=False, fault=None)], "clicked", TerminalStyle(color=True))
    assert {"over-chance", "under-chance", "good"} <= {piece.ink for one in pale for piece in one}


def test_a_letter_shows_bar_and_error_at_once() -> None:
    """Over five bins 0.9 is 18 rows; 0.875 is 17.5: half a letter of bar before the colour of the error."""
    found = draw([bars(*OVER[:4], (0.9, 0.875, 40))], "clicked", TerminalStyle(color=True))
    boundary = [piece for piece in found[2] if piece.ink == "bar"]
    assert [(piece.text[0], piece.paper) for piece in boundary] == [("▄", "over")]


def test_a_smooth_curve_is_as_high_as_it_should_be() -> None:
    found = picture(line("smooth", (0.0, 0.0, 1.0), (1.0, 0.5, 1.0)), width=80)
    for row, one in enumerate(found.splitlines()[:19]):
        low = (19 - row) / 20  # the lower end of the row
        begin = re.search("[▁▂▃▄▅▆▇█]", one)
        if low >= 0.5:
            assert begin is None
        else:
            assert begin is not None
            # Without colours a letter is a bar once half of it is: 0.025, which is two columns, further on.
            assert begin.start() - 5 == pytest.approx(80 * low + 2, abs=0.51)


def test_the_curves_of_rejection_have_names_where_there_are_no_colours() -> None:
    first, second = rejection(*(0.2 - 0.02 * step for step in range(10))), rejection(*[0.1] * 10, score="platt")
    plain = picture(first, second, width=70)
    assert re.search(r"^a = raw: without the least certain 20 %", plain, flags=re.MULTILINE)
    assert re.search(r"^b = platt: ", plain, flags=re.MULTILINE)
    plot = plain.split("least certain first")[0]
    assert plot.count("a") >= 3
    assert plot.count("b") >= 3
    colored = draw([first, second], "y", TerminalStyle(color=True))
    assert {"line-0", "line-1"} <= {piece.ink for one in colored for piece in one}


def test_a_flat_curve_is_at_its_height() -> None:
    """An error rate of 0.1 on an axis to 0.2 is half-way up 18 rows, which stand below a title."""
    lines = picture(rejection(0.2, *[0.1] * 9), color=True).splitlines()
    dots = [place for place, one in enumerate(lines) if re.search("[\u2801-\u28ff]{10}", one)]
    assert dots == [1 + 8]


def test_rare_classes_fill_the_plot() -> None:
    found = picture(line("smooth", (0.0, 0.0, 1.0), (0.04, 0.02, 1.0)))
    assert "0.05" in found
    assert "1.0" not in found


def test_a_narrow_terminal_gets_a_small_picture() -> None:
    assert max(map(len, picture(bars(*OVER), width=40).splitlines())) <= 40


def test_how_many_fit_side_by_side() -> None:
    curves = [bars(*OVER)] * 5
    assert [abreast(curves, TerminalStyle(width)) for width in (80, 100, 150, 200)] == [1, 2, 3, 4]
    assert abreast(curves, TerminalStyle(80, small=True)) == 2


def test_bins_of_equal_weight_that_share_a_column_are_shown_together() -> None:
    rows = sample(5000)
    found = picture(traced(rows, binning="mass", bins=200))
    assert found.count("█") > 100


def test_dots_do_not_overwrite_letters() -> None:
    canvas = Canvas(2, 1)
    canvas.put(0, 0, "█")
    canvas.dot(1, 0, "dim")
    canvas.dot(2, 0, "dim")
    canvas.dot(3, 3, "dim")
    assert text(canvas.lines()) == "█" + chr(0x2800 + 0x40 + 0x08)
    assert unicodedata.name(text(canvas.lines())[1]).startswith("BRAILLE PATTERN DOTS-47")


def test_long_names_are_cut() -> None:
    assert shortened("プラット", 5) == "プラ…"
    assert shortened("platt", 5) == "platt"
