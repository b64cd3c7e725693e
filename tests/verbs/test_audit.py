"""An audit: all that `evaluate` can say of a score, in one report and on one page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.cli.main import main
from calcli.reporting.webpage import webpage
from tests.support.reports import REPORT_SCHEMA
from tests.support.samples import tablets

QUESTIONS = (
    "Is it calibrated?",
    "Where is it wrong?",
    "Does it matter?",
    "What would recalibration gain?",
    "How small an error could be seen?",
    "Numbers",
)


@pytest.mark.slow
def test_an_audit_is_all_of_its_parts(here: Path) -> None:
    frame, before_fit = tablets(2_000), set(here.iterdir())
    report = calcli.evaluate(frame, audit=True, resample_by="user_id")
    apart = calcli.evaluate(frame, find_segments=5, every_curve=True, resample_by="user_id")
    assert replace(report, recalibration=None) == apart
    # The gain is that of `fit`, and nothing is kept.
    found, fitted = report.recalibration, calcli.fit(frame, resample_by="user_id").report
    assert found is not None
    assert fitted is not None
    assert (found.chosen, found.data, found.differences) == (fitted.chosen, fitted.data, fitted.differences)
    assert [score.metrics for score in found.scores] == [score.metrics for score in fitted.scores]
    assert set(here.iterdir()) == before_fit
    # Every figure is in the JSON, and the page has the same ones, in the order of the questions.
    document = json.loads(json.dumps(report.to_json(), allow_nan=False))
    REPORT_SCHEMA.validate(document)
    page = webpage(report)
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert [title for title in titles if title in QUESTIONS] == list(QUESTIONS)
    parts = dict(zip(titles, re.split("<h2>.*?</h2>", page)[1:], strict=True))
    (segment,) = document["segments"]
    for name in ("predicted", "observed"):
        assert f"<td>{segment[name]:.3f}</td>" in parts["Where is it wrong?"]
    before, after = (one["metrics"]["nll"]["value"] for one in document["recalibration"]["scores"])
    assert f"from {before:.4f} to {after:.4f}" in parts["What would recalibration gain?"].replace("&nbsp;", " ")
    whole, part = document["scores"][0]["diagnosis"]["detectable"], document["segment_search"][0]["detectable"]
    assert f"<td>{whole:.2g}</td><td>{part:.2g}</td>" in parts["How small an error could be seen?"]
    drawn = [[one["x"], one["y"]] for one in document["curves"]["benefit"] if one["score"] == "raw"]
    (points,) = re.findall(r'data-score="raw"[^>]*data-points="([^"]*)"', parts["Does it matter?"])
    shown = [point[:2] for point in json.loads(points)]
    assert np.array(shown) == pytest.approx(np.array(drawn)[: len(shown)], rel=1e-4, abs=1e-9)


def test_an_audit_goes_on_without_features(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pl.DataFrame({"label": [0, 1, 1, 0] * 3, "prob": [0.2, 0.6, 0.4, 0.7] * 3}).write_csv("few.csv")
    assert main(["evaluate", "few.csv", "--audit", "--html", "page.html"]) == 0
    said = " ".join(capfd.readouterr().err.split())
    assert "no segments are looked for: the table has no features" in said
    page = Path("page.html").read_text()
    assert "as far as these rows show" in page
    titles = [title for title in re.findall("<h2>(.*?)</h2>", page) if title in QUESTIONS]
    assert titles == [title for title in QUESTIONS if title != "Where is it wrong?"]
    assert main(["evaluate", "few.csv", "--audit", "--engine", "spark"]) == 2
    assert "--audit needs all rows at once" in " ".join(capfd.readouterr().err.split())
