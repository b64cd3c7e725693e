"""The report as a page, from reports made by hand, and as a notebook shows it."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import calcli
from calcli.cli import results
from calcli.cli.screen import Screen
from calcli.diagrams.curves import Curve, Point
from calcli.metrics.diagnosis import Diagnosis
from calcli.reporting import verdict
from calcli.reporting.webpage import webpage
from calcli.reports.schema import (
    Change,
    DataFacts,
    Difference,
    MetricValue,
    Report,
    ReportWarning,
    ScoreRow,
    ScoreSource,
)
from tests.support.reports import better, nll_change, report, score
from tests.support.samples import clicks

VOID = {"meta", "br", "link"}


class Reader(HTMLParser):
    """The text of a page, its tables, and whether its tags are balanced."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"script", "style"} & set(self.open):
            return
        self.text += data
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


def read(made: Report) -> Reader:
    return Reader(webpage(made))


def words(made: Report) -> str:
    return " ".join(read(made).text.split())


def test_the_verdict_comes_first_and_its_answer_stands_out() -> None:
    said = "platt lowers the log-loss on held-out rows from 0.4321 to 0.3987 (-7.7 %, 95 % interval -8.1 to -7.2 %)."
    assert said in words(better())
    assert re.search(r'<strong class="better">lowers the log-loss</strong>', webpage(better()))
    worse = report(score("x", nll=0.44), differences=(nll_change("x", 0.0079, 0.0021, 0.0137),))
    assert '<strong class="worse">WORSE than no calibration</strong>' in webpage(worse)


def test_the_numbers_of_one_score_have_their_change() -> None:
    header, *rows = read(better()).tables[0]
    assert header == ["", "better", "raw", "platt", "change", "95 % interval"]
    found = {row[0]: row[1:] for row in rows}
    assert found["nll"] == ["lower", "0.4321", "0.3987", "-0.0334", "-0.0350 to -0.0311"]
    assert found["auc"] == ["higher", "0.7500", "0.7500", "", ""]
    assert found["floor"] == ["", "0.0156", "0.0156", "", ""]


def test_many_scores_are_lines() -> None:
    header, *rows = read(report(*(score(f"s{place}") for place in range(5)))).tables[0]
    assert header == ["", "nll (lower)", "auc (higher)", "ece (lower)", "mvce (lower)", "mvce (floor)"]
    assert [row[0] for row in rows] == ["raw", "s0", "s1", "s2", "s3", "s4"]
    assert rows[0][1:] == ["0.4321", "0.7500", "0.0776", "0.0713", "0.0156"]


def test_why_there_is_no_number() -> None:
    missing = ScoreRow("raw", ScoreSource("raw"), {"nll": MetricValue(None, reason="one class only")})
    made = replace(report(), scores=(missing,), definitions={"nll": report().definitions["nll"]})
    assert read(made).tables[0][1] == ["nll", "lower", "n/a"]
    assert "nll of raw: one class only" in words(made)


def test_what_was_fitted_on_what() -> None:
    fitted = {
        "created": "2026-01-31T12:00:00+00:00",
        "rows": 30_000,
        "files": [{"path": "train.parquet", "bytes": 1, "sha256": "0"}],
        "preset": "paper",
        "params": {"trees": 8, "link": "linear"},
    }
    made = report(replace(score("x"), source=ScoreSource("artifact", "old.mbct", None, "mbct", "0", fitted)))
    said = "old.mbct, mbct (preset paper, trees=8, link=linear), fitted 2026-01-31 on 30,000 rows from train.parquet"
    assert said in words(made)


def test_groups_stand_under_each_other_and_those_that_are_off_stand_out() -> None:
    def group(name: str | None, p: float | None) -> dict[str, object]:
        metrics = {"nll": {"value": 0.25}}
        common = {"by": "country", "score": "raw", "rows": 1200, "metrics": metrics, "detectable": 0.0312, "p": 0.5}
        return {**common, "group": name, "p_adjusted": p}

    made = report(groups=(group("de", 0.5), group(None, 0.001)))
    assert read(made).tables[0] == [
        ["", "rows", "nll", "detectable", "p-value"],
        ["de", "1,200", "0.2500", "0.0312", "0.5000"],
        ["null", "1,200", "0.2500", "0.0312", "0.0010"],
    ]
    assert webpage(made).count('<tr class="off">') == 1
    small = report(groups=(group("de", None),))
    assert read(small).tables[0][1] == ["de", "1,200", "0.2500", "0.0312", "too few"]
    for p, off in ((0.0, 1), (0.06, 0), (None, 0)):
        made = report(groups=(group("de", p),))
        assert webpage(made).count('<tr class="off">') == off
        screen = Screen(color=True)
        assert screen.fit(results.groups(made, screen)).count("\x1b[1;31m") == off


def test_the_advice_names_the_score_to_use_and_where_not_to_trust_it() -> None:
    searched = tuple({"score": name} for name in ("raw", "platt"))
    segments = tuple(
        {"score": "platt", "text": text, "predicted": 0.2, "observed": 0.2 - gap, "gap": gap}
        for text, gap in (("age > 54", 0.05), ("device = tablet", -0.1), ("price < 2", 0.03), ("price > 9", 0.01))
    )
    assert verdict.advice(better()) == ""  # nothing was looked for
    none = replace(better(), segment_search=searched)
    nowhere = "No part of the rows was found in which {} is more wrong than elsewhere."
    assert verdict.advice(none) == f"Use platt. {nowhere.format('platt')}"
    some = replace(none, segments=segments)
    where = (
        "Do not trust platt where device = tablet (it says 20 %, and 30 % come true), where age > 54 (it says 20 %, "
        "and 15 % come true), or where price < 2 (it says 20 %, and 17 % come true). It is off by less in 1 more part "
        "of the rows, listed below."
    )
    assert verdict.advice(some).replace("\0", " ") == f"Use platt. {where}"
    first = where.partition(", where age")[0].removeprefix("Do not trust platt where ")
    alone = verdict.advice(replace(some, segments=segments[1:2])).replace("\0", " ")
    assert alone == f"Use platt. Do not trust platt where {first}."
    for faults, words in ((("high",), "too high"), (("shape",), "too high in places, too low in others")):
        wrong = Diagnosis(0.001, 0.05, 0.2, 0.1, 0.001, 0.01, 1.0, 0.5, 0.001, faults)
        curve = Curve("platt", "1", "reliability", (Point(0.2, 0.1, 100.0),), diagnosis=wrong)
        said = f"Use platt. Its probabilities are still {words}. {where}"
        assert verdict.advice(replace(some, curves=(curve,))).replace("\0", " ") == said
    # A fit that would lose less on held-out rows is named.
    for loss, words_of_fit in ((0.35, "A new fit by effects may be better still"), (0.45, "Use platt. No part")):
        fit = report(score("effects", nll=loss), chosen="effects")
        assert words_of_fit in verdict.advice(replace(none, recalibration=fit))
    # A score that is not shown to be better is not advised; recalibration is where that is shown to gain.
    alone = report(segment_search=searched[:1])
    assert verdict.advice(alone) == nowhere.format("raw")
    gain = replace(alone, recalibration=better())
    assert verdict.advice(gain).startswith("Recalibrate the raw score before you use its probabilities. ")


def test_a_gain_stands_beside_the_losses_of_the_other_scores() -> None:
    said = words(replace(better(), recalibration=replace(better(), chosen="platt")))
    assert "The log-loss of the other scores, on all rows: platt 0.3987." in said
    none = words(replace(better(), recalibration=replace(report(), chosen="identity")))
    assert "Nothing, as far as these rows show: no method is better than the score as it is." in none


def test_gates_drift_baseline_and_warnings() -> None:
    failed = {"score": "x", "group": "de", "metric": "ece", "value": 0.0776, "limit": 0.05}
    drift = {"drifted": True, "what": "too high", "since": 3, "since_at": "2026-11-01T02:00", "evidence": 44.0}
    made = report(
        gates=(
            {"expr": "ece > 0.05", "passed": False, "failed": [failed]},
            {"expr": "nll > 1", "passed": True, "failed": []},
        ),
        drift={**drift, "nights": 5, "threshold": 20.0},
        baseline={"path": "old.json"},
        changes=(Change("raw", "nll", None, None, 0.43, 0.4321, 0.0021),),
        warnings=(ReportWarning("scale", "these look like probabilities"),),
    )
    found = words(made)
    assert "FAILED: ece > 0.05 is true (ece of x, de is 0.0776)" in found
    assert "passed: nll > 1 is false" in found
    assert "Drift: too high, most likely since night 3, 2026-11-01 (e-value 44 after 5 nights; drift is " in found
    assert "drift is reported from 20 on)" in found
    assert "Changes since old.json" in found
    assert ["raw", "nll", "0.4300", "0.4321", "+0.0021"] in read(made).tables[-1]
    assert "these look like probabilities" in found


def test_compared() -> None:
    def row(name: str, nll: float) -> ScoreRow:
        return ScoreRow(name, ScoreSource("method", method=name), {"nll": MetricValue(nll)})

    made = report(
        command="compare",
        chosen="platt",
        definitions={"nll": report().definitions["nll"]},
        scores=(
            row("identity", 0.43),
            row("platt", 0.40),
            row("beta", 0.39),
            ScoreRow("mbct", ScoreSource("method", method="mbct"), {}, status="failed", reason="no features"),
        ),
        differences=(Difference("platt", "identity", "nll", -0.03, -0.04, -0.02, None),),
        warnings=(ReportWarning("choice", "platt: the simplest within half a standard error of beta"),),
    )
    header, *rows = read(made).tables[0]
    assert header == ["", "nll", "gain", "95 % interval", "fit"]
    assert "is the best with" not in words(made)
    shares = {"platt": (0.4, True), "beta": (0.597, True), "identity": (0.003, False)}
    sure = replace(
        made,
        scores=tuple(
            replace(one, best=shares[one.name][0], as_good=shares[one.name][1]) if one.name in shares else one
            for one in made.scores
        ),
        differences=(*made.differences, Difference("beta", "platt", "nll", -0.01, -0.02, 0.005, None)),
    )
    assert "platt is the best with a probability of 40 %; not significantly worse: beta" in (words(sure))
    assert read(sure).tables[0] == [
        ["", "nll", "gain", "95 % interval", "behind", "95 % interval", "best", "fit"],
        ["beta *", "0.3900", "", "", "-0.0100", "-0.0200 to +0.0050", "60 %", ""],
        ["platt *", "0.4000", "+0.0300", "+0.0200 to +0.0400", "", "", "40 %", ""],
        ["identity", "0.4300", "", "", "", "", "<1 %", ""],
    ]
    assert webpage(sure).count('<tr class="chosen">') == 1
    assert [line[0] for line in rows] == ["beta", "platt", "identity"]
    assert rows[1] == ["platt", "0.4000", "+0.0300", "+0.0200 to +0.0400", ""]
    assert 'class="chosen"><th class="word">platt' in webpage(made)
    assert "platt: the simplest within half a standard error of beta." in words(made)
    assert "mbct failed: no features" in words(made)


def test_compared_methods_share_few_pictures() -> None:
    names = ["identity", "platt", "beta", "spline", "sms", "bbq"]
    curves = tuple(Curve(name, "1", "reliability", (Point(0.5, 0.5, 9.0),), 0.1, 9.0) for name in names)
    scores = tuple(ScoreRow(name, ScoreSource("method", method=name), {"nll": MetricValue(0.1)}) for name in names)
    made = report(
        command="compare", chosen="bbq", scores=scores, curves=curves, definitions={"nll": report().definitions["nll"]}
    )
    assert re.findall(r'<figure data-score="(\w+)"', webpage(made)) == ["identity", "platt", "beta", "bbq"]


EVIL = '<script>alert("x")</script><img src="https://example.org/x.png">&'


def test_names_from_tables_are_text() -> None:
    data = DataFacts(({"path": EVIL, "bytes": 1, "sha256": "0"},), 10, 0, 10.0, {EVIL: 1.0})
    made = report(score(EVIL), data=data, warnings=(ReportWarning("w", EVIL),), baseline={"path": EVIL})
    made = replace(made, binding={**made.binding, "label": EVIL, "notes": [EVIL]})
    page = webpage(made)
    assert page.count("<script>") == 1  # that of the page itself
    assert "<img" not in page
    assert read(made).text.count(EVIL) >= 6


@pytest.mark.parametrize("made", [report(), better()], ids=["alone", "better"])
def test_nothing_is_fetched_by_the_page_that_python_has_too(made: Report) -> None:
    page = calcli.webpage(made)
    assert page == webpage(made)
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)\s*=|url\(|@import", page)


# As a notebook shows it


def page_in(html: str) -> str:
    """What the frame shows; the frame itself is well-formed."""
    frame = ElementTree.fromstring(html)
    assert frame.tag == "iframe"
    assert html.count("<") == 2
    return frame.attrib["srcdoc"]


def test_a_report_is_its_page(here: Path) -> None:
    for made in (calcli.fit("train.parquet", method="platt").report, calcli.evaluate("test.parquet")):
        shown = page_in(made._repr_html_())
        assert shown.split() == webpage(made).split()
        assert "prefers-color-scheme: dark" in shown


def test_a_model_says_what_it_is_and_how_good() -> None:
    model = calcli.fit(clicks(), method="platt", flags=calcli.Flags(positive="1")).model
    shown = unescape(page_in(model._repr_html_()))
    assert "<title>platt, a calibrator</title>" in shown
    for words in ("lowers the log-loss", "2,000 rows", "positive"):
        assert words in shown.replace("\N{NO-BREAK SPACE}", " ")
    unmeasured = calcli.fit(clicks(), method="identity", holdout="none").model
    assert "Numbers" not in page_in(unmeasured._repr_html_())
