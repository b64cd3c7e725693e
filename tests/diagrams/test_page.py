"""The page: whole by itself, and its pictures in the right places."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from calcli.diagrams import page, svg
from calcli.diagrams.axis import UNIT
from calcli.diagrams.curves import Curve
from tests.support.curves import DRAWN, OVER, bars, classes, line, rejection, sample, traced


class Parsed(HTMLParser):
    """Every tag with its attributes; text that is no script or style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in {"meta", "circle", "path", "rect", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open) and data.strip():
            self.text.append(data.strip())

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.tags if name == tag and all(found.get(k) == v for k, v in wanted.items())]


def written(curves: list[Curve], label: str = "clicked") -> str:
    return page.document("T", "about", page.switches(curves) + page.figures(curves, label, "consistency"))


def of_all_kinds(score: str = "raw", slope: float = 2.0) -> list[Curve]:
    rows = sample(2000, slope=slope)
    return [replace(traced(rows, kind), score=score) for kind in ("reliability", "smooth", "rejection")]


def three_kinds() -> list[Curve]:
    raw, platt = of_all_kinds(), of_all_kinds("platt", 1.0)
    return [curve for pair in zip(raw, platt, strict=True) for curve in pair]


def test_nothing_comes_from_elsewhere() -> None:
    text = written(three_kinds())
    assert "://" not in text
    assert not re.search(r"\b(src|href|@import|url)\s*[=(]", text)
    found = Parsed(text)
    assert found.all("link") == found.all("img") == []
    (policy,) = [tag for tag in found.all("meta") if tag.get("http-equiv") == "Content-Security-Policy"]
    assert policy["content"].startswith("default-src 'none'; ")


def test_it_is_small_closed_and_the_same_every_time() -> None:
    text = written(three_kinds())
    assert len(text) < 100_000
    assert Parsed(text).open == []
    assert text == written(three_kinds())


def test_the_pointer_finds_the_numbers_of_the_curves() -> None:
    curves = three_kinds()
    tracks = Parsed(written(curves)).all("g", **{"class": "track"})
    assert [track["data-score"] for track in tracks] == [curve.score for curve in curves]
    for curve, track in zip(curves, tracks, strict=True):
        points = json.loads(track["data-points"] or "")
        assert len(points) == len(curve.points)
        for point, numbers in zip(curve.points, points, strict=True):
            assert numbers[:5] == pytest.approx([point.x, point.y, point.n, point.lo, point.hi], rel=1e-4)
        if curve.edges:
            assert [tuple(numbers[5:]) for numbers in points] == [pytest.approx(ends, rel=1e-4) for ends in curve.edges]


def test_bars_are_where_the_points_are() -> None:
    drawn = Parsed(svg.panel(bars(*OVER), UNIT, "clicked", "consistency"))
    unit = svg.SIDE
    found = []
    for tag in drawn.all("rect"):
        numbers = {name: float(tag[name] or 0) for name in ("x", "y", "width", "height")}
        if tag["class"] == "count":
            continue
        top = (svg.TOP + svg.SIDE - numbers["y"]) / unit
        left = (numbers["x"] - svg.LEFT) / unit
        found.append((tag["class"], left, left + numbers["width"] / unit, top - numbers["height"] / unit, top))
    assert [one[0] for one in found] == [one[0] for one in DRAWN]
    for one, other in zip(found, DRAWN, strict=True):
        assert one[1:] == pytest.approx(other[1:], abs=0.003)


def test_counts_are_as_high_as_there_are_rows() -> None:
    drawn = Parsed(svg.panel(bars(*OVER), UNIT, "clicked", "consistency"))
    heights = [float(tag["height"] or 0) for tag in drawn.all("rect", **{"class": "count"})]
    assert heights == pytest.approx([svg.COUNTS, svg.COUNTS / 2, svg.COUNTS / 4, svg.COUNTS / 2, svg.COUNTS], abs=0.1)
    assert "40" in drawn.text


def test_gaps_of_chance_are_pale() -> None:
    drawn = Parsed(svg.panel(bars(*OVER, off=False), UNIT, "clicked", "consistency"))
    kinds = {tag["class"] for tag in drawn.all("rect")}
    assert kinds == {"bar", "over chance", "under chance", "count"}


def test_a_smooth_curve_goes_through_its_points() -> None:
    curve = line("smooth", (0.0, 0.1, 1.0), (0.5, 0.4, 2.0), (1.0, 1.0, 1.0))
    drawn = Parsed(svg.panel(curve, UNIT, "clicked", "consistency"))
    (cap,) = drawn.all("path", **{"class": "cap"})
    pairs = [tuple(map(float, pair.split())) for pair in (cap["d"] or "").removeprefix("M").split("L")]
    unit, bottom = svg.SIDE, svg.TOP + svg.SIDE
    assert [((x - svg.LEFT) / unit, (bottom - y) / unit) for x, y in pairs] == [
        pytest.approx((point.x, point.y), abs=1e-3) for point in curve.points
    ]
    assert {tag["class"] for tag in drawn.all("path")} >= {"bar", "over", "under", "edge", "diagonal", "axis"}
    assert len(drawn.all("rect", **{"class": "count"})) == 3


def test_what_is_written() -> None:
    text = Parsed(written(three_kinds())).text
    for words in ("raw", "platt", "Over-confident", "No miscalibration detected", "predicted too high", "numbers"):
        assert words in text
    assert "predicted probability that clicked is 1" in text
    assert any("without the least certain 20 %" in words for words in text)


def test_each_choice_has_its_buttons() -> None:
    several = three_kinds()
    buttons = Parsed(page.switches(several)).all("button")
    assert [(one["data-key"], one["value"], one["aria-pressed"]) for one in buttons] == [
        ("kind", "reliability", "true"),
        ("kind", "smooth", "false"),
        ("kind", "rejection", "false"),
        ("score", "raw", "true"),
        ("score", "platt", "true"),
    ]
    assert Parsed(page.switches([bars(*OVER)])).all("button") == []
    by_class = Parsed(page.switches([bars(*OVER, of="a"), bars(*OVER, of=None)])).all("button")
    assert [(one["data-key"], one["value"]) for one in by_class] == [("of", "a"), ("of", "")]


def test_what_buttons_switch_is_there() -> None:
    """For each value of a button there is something that has it."""
    curves = [*three_kinds()[:4], *(bars(*OVER, of=name, score=score) for name in "ab" for score in ("raw", "platt"))]
    found = Parsed(written(curves))
    for button in found.all("button"):
        key = f"data-{button['data-key']}"
        assert any(tag != "button" and attributes.get(key) == button["value"] for tag, attributes in found.tags)


def test_names_are_text_and_nothing_else() -> None:
    evil = '"><script>alert(1)</script>'
    curves = [bars(*OVER, score=evil, of=evil), rejection(0.1, 0.05, score=evil)]
    text = page.document(evil, evil, page.switches(curves) + page.figures(curves, evil, "consistency"))
    assert len(Parsed(text).all("script")) == 1
    assert "alert(1)" not in "".join(re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL))


def test_curves_without_points() -> None:
    empty = [Curve("raw", "1", "reliability"), Curve("raw", "1", "smooth"), Curve("raw", None, "rejection")]
    assert "No data" in Parsed(written(empty)).text


def test_classes_have_titles() -> None:
    names = ("bengal", "birman")
    curves = [replace(traced(classes().one_vs_rest(place)), of=name) for place, name in enumerate(names)]
    found = Parsed(written(curves, "breed"))
    assert "breed = bengal" in found.text
    assert [tag["data-of"] for tag in found.all("div") if "data-of" in tag] == ["bengal", "birman"]


def test_names_of_estimates_have_all_the_width_and_none_begins_outside() -> None:
    names = ["task = geography", "x" * 80]
    drawn = svg.intervals([svg.IntervalRow(name, (0.2, 0.1, 0.3), (0.2, 0.0, 0.4), 0.3) for name in names], "rate")
    for name in names:
        kind, x = re.search(rf'<text class="([^"]*)" x="([^"]*)"[^>]*>{name}<', drawn).groups()  # type: ignore[union-attr]
        assert "end" not in kind
        assert "middle" not in kind
        assert 0.0 <= float(x) < 0.05 * float(re.search(r'viewBox="0 0 (\d+)', drawn)[1])  # type: ignore[index]
