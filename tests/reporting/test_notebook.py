"""Reports and models as a notebook shows them."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import calcli
from calcli.reporting.webpage import webpage
from tests.support.samples import clicks


def page_in(html: str) -> str:
    """What the frame shows; the frame itself is well-formed."""
    frame = ElementTree.fromstring(html)
    assert frame.tag == "iframe"
    assert html.count("<") == 2
    return frame.attrib["srcdoc"]


def test_a_report_is_its_page(here: Path) -> None:
    for report in (calcli.fit("train.parquet", method="platt").report, calcli.evaluate("test.parquet")):
        shown = page_in(report._repr_html_())
        assert shown.split() == webpage(report).split()
        assert "prefers-color-scheme: dark" in shown


def test_a_model_says_what_it_is_and_how_good() -> None:
    model = calcli.fit(clicks(), method="platt", flags=calcli.Flags(positive="1")).model
    shown = unescape(page_in(model._repr_html_()))
    assert "<title>platt, a calibrator</title>" in shown
    for words in ("lowers the log-loss", "2,000 rows", "positive"):
        assert words in shown.replace("\N{NO-BREAK SPACE}", " ")
    unmeasured = calcli.fit(clicks(), method="identity", holdout="none").model
    assert "Numbers" not in page_in(unmeasured._repr_html_())
