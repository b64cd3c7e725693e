"""The forms for machines."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from html import unescape

import pytest
from markdown_it import MarkdownIt

from calcli.cli import serial
from calcli.reports.schema import Difference, MetricValue, Seconds
from tests.support.reports import report, score

AWKWARD = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.123456789]


@pytest.mark.parametrize("value", AWKWARD)
def test_numbers_come_back_as_they_were(value: float) -> None:
    made = replace(report(), scores=(score("raw", nll=value),))
    rows = csv.DictReader(io.StringIO(serial.flat(serial.LONG, serial.long_rows(made), "csv")))
    assert repr(float(next(row["value"] for row in rows if row["metric"] == "nll"))) == repr(value)
    assert repr(json.loads(serial.to_json(made.to_json()))["scores"][0]["metrics"]["nll"]["value"]) == repr(value)


def test_nan_is_a_bug_and_not_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        serial.to_json({"value": math.nan})


def test_no_number_is_an_empty_cell() -> None:
    raw = replace(score("raw"), metrics={"auc": MetricValue(None, reason="one class, only")})
    made = replace(report(), scores=(raw,))
    assert serial.flat(serial.LONG, serial.long_rows(made), "csv").splitlines()[1] == (
        'raw,,auc,,,,,,,"one class, only",,,,,,,'
    )


def test_groups_and_scores_that_failed_are_rows_of_their_own() -> None:
    keys = ("value", "lo", "hi", "floor", "null_hi", "p", "reason", "per_class")
    value = dict(zip(keys, (0.5, 0.4, 0.6, None, None, 0.01, None, None), strict=True))
    group = {"by": "device", "group": "tv", "rows": 10, "score": "raw", "metrics": {"nll": value}}
    failed = replace(score("slow"), status="skipped", reason="out of time", metrics={})
    assert serial.long_rows(replace(report(), scores=(failed,), groups=(group,))) == [
        ["slow", *[None] * 8, "out of time", *[None] * 7],
        ["raw", "device=tv", "nll", 0.5, 0.4, 0.6, None, None, 0.01, None, *[None] * 7],
    ]


def test_markdown_says_that_no_segment_was_found() -> None:
    keys = {"class": None, "rows": 900, "tried": 4, "found": 0, "share": 0.1, "detectable": 0.05}
    text = serial.report(replace(report(), segment_search=({"score": "raw", **keys},)), "markdown")
    assert text.endswith("a gap of 0.050 in 10 % of the rows would be noticed in 4 of 5 cases.\n")


def test_gain_time_and_choice_stand_at_the_end() -> None:
    names = ("raw", "platt", "beta")
    made = replace(
        report(),
        scores=tuple(replace(score(name, nll=0.5, ece=0.1), seconds=Seconds(1.23456789, 0.5)) for name in names),
        differences=(
            Difference("platt", "raw", "nll", -0.25, -0.5, -0.125, 0.01),
            Difference("raw", "platt", "nll", 0.25, 0.125, 0.5, 0.01),
            Difference("beta", "platt", "nll", 9.0),
        ),
        chosen="platt",
    )
    rows = list(csv.DictReader(io.StringIO(serial.flat(serial.LONG, serial.long_rows(made), "csv"))))
    assert list(rows[0])[:10] == ["score", "group", "metric", "value", "lo", "hi", "floor", "null_hi", "p", "reason"]
    last = {(row["score"], row["metric"]): list(row.values())[10:] for row in rows}
    assert last["raw", "nll"] == ["", "", "", "", "1.234568", "0.5", "false"]
    assert last["platt", "nll"] == ["-0.25", "-0.5", "-0.125", "0.01", "1.234568", "0.5", "true"]
    assert last["platt", "ece"] == ["", "", "", "", "1.234568", "0.5", "true"]
    assert last["beta", "nll"] == ["", "", "", "", "1.234568", "0.5", "false"]
    assert len(last) == len(rows)


NAMES = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "&lt;b&gt;",
    "[x](javascript:alert(1))",
    "![x](https://example.com/x.png)",
    "<https://example.com>",
    "*a* **b** _c_ __d__ ~~e~~ `f` snake_case_name",
    "a|b \\| c\\",
    "# title",
    "> a < b & c > d <0.001 AT&T &copy",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_no_markup_in_markdown(name: str) -> None:
    """A renderer of Markdown shows the name as it is, with no tag but those of the table."""
    made = replace(report(), scores=(score("raw"), score(name, nll=0.5)), baseline={"path": name})
    group = {"by": name, "group": name, "rows": 10, "score": "raw", "metrics": {}, "p": None, "p_adjusted": None}
    made = replace(made, groups=({**group, "detectable": None},))
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    markdown.validateLink = lambda _: True  # type: ignore[method-assign] not every renderer refuses scripts
    for text in (serial.report(made, "markdown"), serial.flat(("a",), [[name]], "markdown")):
        html = markdown.render(text)
        assert set(re.findall(r"</?([^ >]+)", html)) <= {"p", "table", "thead", "tbody", "tr", "th", "td"}
        assert " ".join(name.split()) in unescape(re.sub("<[^>]*>", "", html))


def test_control_codes_are_text_in_markdown_and_in_json() -> None:
    name = "a\x1b[8mb\x7f\x9bc"
    assert r"a\x1b\[8mb\x7f\x9bc" in serial.flat(("a",), [[name]], "markdown")
    made = serial.to_json({"name": name})
    assert made.strip().isprintable()
    assert json.loads(made) == {"name": name}


def test_markdown_cells_stay_in_their_cells() -> None:
    made = serial.flat(("a", "b"), [["x|y", "one\ntwo"], [True, None]], "markdown")
    assert made == "| a | b |\n| --- | --- |\n| x\\|y | one two |\n| true |  |\n"
